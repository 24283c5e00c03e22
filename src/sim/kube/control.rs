//! The handle: starting the cluster, and what scenarios do to it.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::{Value, json};

use super::{
    Away, BudgetSpec, Entry, EvictionReview, EvictionVerdict, Fault, KubeService, Match, NodeSpec, Options, PodSpec, PodState, PodView, Request,
    Rule, RuleId, Timing, Workload,
    agenda::{self, Task},
    eviction::Conflicts,
    json::Look,
    kinds::Kind,
    object::Key,
    pods,
    server::kind_of,
    store::State,
    watch::Push,
};
use crate::{
    controller::{Clock, Spawner},
    domain::MomentExt,
    sim::http::{self, Server},
};

/// Who writes what a scenario puts there.
const SCENARIO: &str = "<scenario>";

/// The embedded cluster. Clones are handles to the same one.
#[derive(Clone)]
pub struct EmbeddedKube {
    state: Arc<Mutex<State>>,
    clock: Clock,
    /// Wakes the controllers when the last handle is gone.
    _last: Arc<Waker>,
}

struct Waker(Arc<tokio::sync::Notify>);

impl Drop for Waker {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl std::fmt::Debug for EmbeddedKube {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedKube").finish_non_exhaustive()
    }
}

/// Starting and reaching it.
impl EmbeddedKube {
    /// Starts an empty cluster. Its controllers run as one task of `spawner` until [`stop`](Self::stop), or until nobody holds the cluster any more.
    #[must_use]
    pub fn start(options: Options, clock: Clock, seed: u64, spawner: &Spawner) -> Self {
        let mut state = State::new(options, clock, seed);
        let first = state.now().plus(state.options.timing.bookmarks);
        state.agenda.at(first, Task::Bookmarks);
        let wake = Arc::clone(&state.agenda.wake);
        let state = Arc::new(Mutex::new(state));
        spawner.spawn(agenda::run(Arc::downgrade(&state), Arc::clone(&wake), clock));
        Self { state, clock, _last: Arc::new(Waker(wake)) }
    }

    /// Ends the controllers and all watches.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.agenda.stopped = true;
        state.watches.end(&Match::all(), None);
        state.agenda.wake.notify_one();
    }

    /// The API server as a tower service. Requests carry this tag in the journal, or their user agent where there is none.
    #[must_use]
    pub fn service(&self, tag: Option<&str>) -> KubeService {
        KubeService { state: Arc::clone(&self.state), clock: self.clock, tag: tag.map(Arc::from) }
    }

    /// A client in this process, tagged `client` in the journal. It has no retries of its own.
    #[must_use]
    pub fn client(&self) -> ::kube::Client {
        self.client_as("client")
    }

    /// A client in this process with a tag of its own, for the journal and for rules about it.
    #[must_use]
    pub fn client_as(&self, tag: &str) -> ::kube::Client {
        ::kube::Client::new(self.service(Some(tag)), "default")
    }

    /// Serves HTTP/1.1 on a loopback listener until what it returns is dropped. Real time only.
    pub fn serve(&self, listener: tokio::net::TcpListener, spawner: &Spawner) -> io::Result<Server> {
        http::serve(listener, self.service(None), spawner)
    }

    /// A kubeconfig (JSON, which is YAML) for kubectl against a server on `address`.
    #[must_use]
    pub fn kubeconfig(address: SocketAddr) -> String {
        let name = "sundown-simulate";
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": name,
            "clusters": [{ "name": name, "cluster": { "server": format!("http://{address}") } }],
            "contexts": [{ "name": name, "context": { "cluster": name, "user": name } }],
            "users": [{ "name": name, "user": {} }],
        })
        .to_string()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nodes and machines.
impl EmbeddedKube {
    /// Registers a node with a running machine under it. A Node of that name is replaced: a new machine has joined under the old name.
    pub fn add_node(&self, spec: &NodeSpec) {
        self.lock().register(spec);
    }

    /// The machine of an instance is gone: its kubelet and processes stop, its Node turns `Unknown`, and later is deleted.
    pub fn machine_gone(&self, instance: &str) {
        let mut state = self.lock();
        let now = state.now();
        let nodes: Vec<String> = state.machines.iter().filter(|(_, m)| m.instance.as_deref() == Some(instance)).map(|(n, _)| n.clone()).collect();
        for node in nodes {
            if state.machines.get(&node).is_some_and(|m| m.gone.is_none()) {
                state.note(SCENARIO, super::Fact::MachineGone(node.clone()));
            }
            state.with_machine(&node, |m| {
                m.gone.get_or_insert(now);
                m.silent_since.get_or_insert(now);
                m.runs.clear();
            });
        }
    }

    /// The kubelet of a node cannot reach the API server; its pods run on.
    pub fn kubelet_lost(&self, node: &str) {
        let mut state = self.lock();
        let now = state.now();
        state.with_machine(node, |m| {
            m.silent_since.get_or_insert(now);
        });
    }

    /// It can again.
    pub fn kubelet_back(&self, node: &str) {
        let mut state = self.lock();
        state.with_machine(node, |m| m.silent_since = m.gone);
        state.rouse_kubelet(node);
    }

    /// The machine reboots: a new boot id, and its pods start again.
    pub fn reboot(&self, node: &str) {
        let mut state = self.lock();
        let boot_id = state.uid();
        let now = state.now();
        state.with_machine(node, |m| m.runs.clear());
        state.change("nodes", &Key::cluster(node), "<kubelet>", |n| n.put("status.nodeInfo.bootID", boot_id));
        for (key, facts) in state.pods_on(node) {
            if !facts.is_finished() {
                state.change("pods", &key, "<kubelet>", |p| {
                    p.put("status.phase", "Pending");
                    p.set_condition("Ready", "False", "ContainersNotReady", "", now);
                });
            }
        }
    }

    /// The Node object is deleted; the machine runs on.
    pub fn delete_node(&self, node: &str) {
        self.lock().erase("nodes", &Key::cluster(node), SCENARIO);
    }
}

/// Workloads and objects.
impl EmbeddedKube {
    /// Adds a Deployment.
    pub fn add_deployment(&self, workload: &Workload) {
        self.add_workload("deployments", workload);
    }

    /// Adds a ReplicaSet.
    pub fn add_replica_set(&self, workload: &Workload) {
        self.add_workload("replicasets", workload);
    }

    /// Adds a StatefulSet: its pods come up in order and keep their names.
    pub fn add_stateful_set(&self, workload: &Workload) {
        self.add_workload("statefulsets", workload);
    }

    /// Adds a DaemonSet: one pod on every node.
    pub fn add_daemon_set(&self, workload: &Workload) {
        self.add_workload("daemonsets", workload);
    }

    /// Adds a Job with `replicas` completions, one after the other; its pods end as their shape says, else after 10 s.
    pub fn add_job(&self, workload: &Workload) {
        let mut workload = workload.clone();
        workload.shape.runs_for.get_or_insert(std::time::Duration::from_secs(10));
        self.add_workload("jobs", &workload);
    }

    fn add_workload(&self, plural: &str, w: &Workload) {
        let app = w.shape.labels.get("app").unwrap_or(&w.name);
        let mut object = json!({ "metadata": { "name": w.name, "namespace": w.namespace, "labels": { "app": app } },
            "spec": { "selector": { "matchLabels": { "app": app } }, "template": pods::template(&w.shape, &w.name) } });
        match plural {
            "jobs" => object.put("spec.completions", w.replicas),
            "daemonsets" => {}
            _ => object.put("spec.replicas", w.replicas),
        }
        let mut state = self.lock();
        state.ensure_namespace(&w.namespace);
        state.add(plural, object, SCENARIO);
    }

    /// Adds a pod; says its UID.
    pub fn add_pod(&self, spec: &PodSpec) -> String {
        let mut state = self.lock();
        state.ensure_namespace(&spec.namespace);
        let owner = spec.owner.as_ref().and_then(|(api_version, kind, name)| {
            let plural = kind_of(&state.kinds, api_version, kind)?.plural.clone();
            state.get(&plural, &Key::new(spec.namespace.as_str(), name.as_str())).map(|o| o.uid().to_owned())
        });
        let owner = owner.unwrap_or_else(|| state.uid());
        let pod = pods::by_hand(spec, &owner, state.now());
        state.add("pods", pod, SCENARIO).map(|o| o.uid().to_owned()).unwrap_or_default()
    }

    /// Adds a PodDisruptionBudget.
    pub fn add_budget(&self, spec: &BudgetSpec) {
        let mut budget = json!({ "metadata": { "name": spec.name, "namespace": spec.namespace }, "spec": {} });
        let fields = [
            ("spec.minAvailable", spec.min_available.clone()),
            ("spec.maxUnavailable", spec.max_unavailable.clone()),
            ("spec.unhealthyPodEvictionPolicy", spec.unhealthy.clone().map(Value::from)),
            ("spec.selector", spec.selector.as_ref().map(selector)),
        ];
        for (path, value) in fields {
            if let Some(value) = value {
                budget.put(path, value);
            }
        }
        let mut state = self.lock();
        state.ensure_namespace(&spec.namespace);
        state.add("poddisruptionbudgets", budget, SCENARIO);
    }

    /// Adds a namespace; those of workloads are made by themselves.
    pub fn add_namespace(&self, name: &str) {
        self.lock().ensure_namespace(name);
    }

    /// The namespace is terminating: nothing may be created in it. With `empty`, its pods are deleted too, and then it goes.
    pub fn terminate_namespace(&self, name: &str, empty: bool) {
        self.lock().begin_namespace_end(&Key::cluster(name), SCENARIO, empty);
    }

    /// A running pod becomes ready, or is not any more.
    pub fn set_pod_ready(&self, namespace: &str, name: &str, ready: bool) {
        let mut state = self.lock();
        let (now, key) = (state.now(), Key::new(namespace, name));
        let Some((uid, node)) = state.pod(&key).and_then(|(_, f)| Some((f.uid.clone(), f.node.clone()?))) else { return };
        if let Some(run) = state.machines.get_mut(&node).and_then(|m| m.runs.get_mut(&uid)) {
            run.ready = ready.then_some(now);
        }
        state.change("pods", &key, "<kubelet>", |p| pods::set_running(p, ready, now));
    }

    /// An object by plural resource name, namespace ("" where there is none) and name.
    #[must_use]
    pub fn object(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.lock().get(resource, &Key::new(namespace, name)).map(|o| o.value.clone())
    }

    /// All objects of a resource.
    #[must_use]
    pub fn objects(&self, resource: &str) -> Vec<Value> {
        self.lock().all(resource).map(|o| o.value.clone()).collect()
    }

    /// Creates or replaces an object as it is, past admission, preconditions and faults. `apiVersion`, `kind` and `metadata.name` must be there;
    /// a kind that is not served is passed over.
    pub fn put(&self, object: Value) {
        let mut state = self.lock();
        let Some(kind) = kind_of(&state.kinds, object.text("apiVersion"), object.text("kind")).cloned() else { return };
        if state.get(&kind.plural, &Key::of(&object)).is_some() {
            state.write(&kind, object, SCENARIO);
        } else {
            state.add(&kind.plural, object, SCENARIO);
        }
    }

    /// Changes an object in place, past everything; false where there is none.
    pub fn edit(&self, resource: &str, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) -> bool {
        self.lock().change(resource, &Key::new(namespace, name), SCENARIO, change).is_some()
    }

    /// Deletes an object as `kubectl delete` does: with grace, finalizers, and what it owns; false where there is none.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) -> bool {
        self.lock().delete(resource, &Key::new(namespace, name), &super::delete::Options::default(), SCENARIO).is_some()
    }

    /// Removes an object at once, finalizers or not; false where there is none.
    pub fn remove(&self, resource: &str, namespace: &str, name: &str) -> bool {
        self.lock().erase(resource, &Key::new(namespace, name), SCENARIO).is_some()
    }

    /// The pods bound to a node.
    #[must_use]
    pub fn pods_on(&self, node: &str) -> Vec<PodView> {
        self.lock().pods_on(node).into_iter().map(|(key, facts)| facts.view(&key)).collect()
    }

    /// All pods.
    #[must_use]
    pub fn pods(&self) -> Vec<PodView> {
        self.lock().all("pods").filter_map(|o| Some(o.pod.as_ref()?.view(o.key()))).collect()
    }

    /// A custom resource is served from now on: stored, listed, watched. Its plural name must be nobody else's.
    pub fn serve_custom_resource(&self, group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) {
        self.lock().serve_kind(Arc::new(Kind::custom(group, version, kind, plural, namespaced)));
    }
}

fn selector(labels: &BTreeMap<String, String>) -> Value {
    if labels.is_empty() { json!({}) } else { json!({ "matchLabels": labels }) }
}

/// Faults.
impl EmbeddedKube {
    /// Requests that match get the fault.
    pub fn inject(&self, rule: Rule) -> RuleId {
        self.lock().rules.add(rule)
    }

    /// They do not any more.
    pub fn lift(&self, rule: RuleId) {
        self.lock().rules.lift(rule);
    }

    /// The verb on the resource (`pods`, `pods/eviction`) is forbidden, as if RBAC did not allow it.
    pub fn deny(&self, verb: &str, resource: &str) -> RuleId {
        self.inject(Rule::always(Match::of(verb, resource), Fault::Forbidden))
    }

    /// The server is away.
    pub fn go_away(&self, how: Away) {
        let mut state = self.lock();
        state.rules.away = Some(how);
        let last = if how == Away::Refusing { Push::Break } else { Push::Silence };
        state.watches.end(&Match::all(), Some(&last));
    }

    /// It is back.
    pub fn come_back(&self) {
        self.lock().rules.away = None;
    }

    /// Everything but watches gets 429 in plain text with this `Retry-After`; `None` ends that.
    pub fn overload(&self, retry_after: Option<u32>) {
        self.lock().rules.overload = retry_after;
    }

    /// Every token is refused.
    pub fn unauthorized(&self, on: bool) {
        self.lock().rules.unauthorized = on;
    }

    /// Open watches that match end.
    pub fn cut_watches(&self, matching: &Match) {
        self.lock().watches.end(matching, None);
    }

    /// Open watches that match break in the middle, as when a connection is reset.
    pub fn break_watches(&self, matching: &Match) {
        self.lock().watches.end(matching, Some(&Push::Break));
    }

    /// Open watches that match never say anything again, nor end.
    pub fn silence_watches(&self, matching: &Match) {
        self.lock().watches.end(matching, Some(&Push::Silence));
    }

    /// History is forgotten: a watch from before now gets 410, and so does a list that is continued.
    pub fn compact(&self) {
        self.lock().compact();
    }

    /// An admission webhook for evictions.
    pub fn eviction_webhook(&self, hook: impl Fn(&EvictionReview) -> EvictionVerdict + Send + Sync + 'static) {
        self.lock().hook = Some(Box::new(hook));
    }

    /// The next `times` deletions of a pod by eviction meet a conflict; at the first the pod becomes what `becomes` says.
    pub fn conflict_evictions(&self, namespace: &str, name: &str, times: usize, becomes: Option<PodState>) {
        self.lock().conflicts.insert(Key::new(namespace, name), Conflicts { left: times, becomes });
    }

    /// The disruption controller stands still; statuses of budgets stay as they are.
    pub fn freeze_disruption_controller(&self, frozen: bool) {
        let mut state = self.lock();
        state.frozen.disruption = frozen;
        let now = state.now();
        for key in state.index.budgets.keys().cloned().collect::<Vec<_>>() {
            state.agenda.at(now, Task::Budget(key));
        }
    }

    /// The scheduler stands still.
    pub fn freeze_scheduler(&self, frozen: bool) {
        let mut state = self.lock();
        state.frozen.scheduler = frozen;
        let now = state.now();
        state.agenda.at(now, Task::Schedule);
    }

    /// How long the parts take from now on.
    pub fn set_timing(&self, timing: Timing) {
        self.lock().options.timing = timing;
    }
}

/// What judges read.
impl EmbeddedKube {
    /// Every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.lock().journal.requests.clone()
    }

    /// How many requests by (verb, resource or resource/subresource). Counted with the journal off too.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<(String, String), u64> {
        self.lock().journal.counts.clone()
    }

    /// Everything that happened so far.
    #[must_use]
    pub fn journal(&self) -> Vec<Entry> {
        self.lock().journal.entries.clone()
    }

    /// Starts the journal and the counts afresh.
    pub fn clear_journal(&self) {
        let mut state = self.lock();
        state.journal.requests.clear();
        state.journal.entries.clear();
        state.journal.counts.clear();
    }

    /// How many watches are open, by plural resource name.
    #[must_use]
    pub fn open_watches(&self) -> BTreeMap<String, usize> {
        self.lock().watches.counts()
    }

    /// The newest resourceVersion.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }
}
