//! The handle: starting the cluster, its machines, and what judges read.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::json;

use super::{
    Entry, Fact, KubeService, Match, NodeSpec, Options, Request,
    agenda::{self, Task},
    json::Look,
    object::Key,
    store::State,
};
use crate::{
    runtime::{Clock, Spawner},
    sim::{
        Disturbance,
        http::{self, Server},
    },
};

/// The journal's name for the author of a scenario's writes.
pub(super) const SCENARIO: &str = "<scenario>";

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
    /// Starts an empty cluster. Its controllers run as one task of `spawner` until
    /// [`stop`](Self::stop), or until the last handle of the cluster is dropped.
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

    /// The API server as a tower service. The journal names its requests by this tag, or by their
    /// user agent if `tag` is `None`.
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
    pub fn serve(
        &self,
        listener: tokio::net::TcpListener,
        spawner: &Spawner,
    ) -> io::Result<Server> {
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

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nodes and machines.
impl EmbeddedKube {
    /// Registers a node with a running machine under it. A Node of that name is replaced: a new
    /// machine has joined under the old name.
    pub fn add_node(&self, spec: &NodeSpec) {
        self.lock().register(spec);
    }

    /// The machine of an instance is gone: its kubelet and processes stop, its Node turns
    /// `Unknown`, and later is deleted.
    pub fn machine_gone(&self, instance: &str) {
        let mut state = self.lock();
        let now = state.now();
        let nodes: Vec<String> = state
            .machines
            .iter()
            .filter(|(_, m)| m.instance.as_deref() == Some(instance))
            .map(|(n, _)| n.clone())
            .collect();
        for node in nodes {
            if state.machines.get(&node).is_some_and(|m| m.gone.is_none()) {
                state.note(SCENARIO, Fact::MachineGone(node.clone()));
            }
            state.with_machine(&node, |m| {
                m.gone.get_or_insert(now);
                m.silent_since.get_or_insert(now);
                m.runs.clear();
            });
        }
    }

    /// Whether the machine of a node is gone, and has not come back.
    pub fn is_machine_gone(&self, node: &str) -> bool {
        self.lock().machines.get(node).is_some_and(|machine| machine.gone.is_some())
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

    /// A machine that was gone runs again as it was before: it was hibernated. Its kubelet reports
    /// at once, with the same boot ID.
    pub fn machine_back(&self, node: &str) {
        let mut state = self.lock();
        state.with_machine(node, |m| (m.gone, m.silent_since) = (None, None));
        state.rouse_kubelet(node);
    }

    /// Pods that their kubelets have begun to start run and are ready at once, for who cannot wait:
    /// those aside that never would be.
    pub fn start_at_once(&self) {
        self.lock().start_at_once();
    }

    /// The machine reboots: a new boot id, and its pods start again.
    pub fn reboot(&self, node: &str) {
        let mut state = self.lock();
        let boot_id = state.uid();
        let now = state.now();
        state.with_machine(node, |m| m.runs.clear());
        state.change("nodes", &Key::cluster(node), "<kubelet>", |n| {
            n.put("status.nodeInfo.bootID", boot_id);
        });
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

/// Records and state for judges to read.
impl EmbeddedKube {
    /// Every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.lock().journal.requests.clone()
    }

    /// How many requests the journal keeps.
    #[must_use]
    pub fn request_count(&self) -> usize {
        self.lock().journal.requests.len()
    }

    /// How many requests by (verb, resource or resource/subresource). Counted with the journal off
    /// too.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<(String, String), u64> {
        self.lock().journal.counts.clone()
    }

    /// Everything that happened so far.
    #[must_use]
    pub fn journal(&self) -> Vec<Entry> {
        self.lock().journal.entries.clone()
    }

    /// Every request so far that an injected fault affected, and every watch that was ended or
    /// silenced.
    #[must_use]
    pub fn disturbances(&self) -> Vec<Disturbance> {
        let state = self.lock();
        let of_request = |r: &Request| Disturbance {
            at: r.at,
            until: r.ended,
            by: r.client.clone(),
            what: format!(
                "{} {}{}{}",
                r.verb,
                r.resource,
                if r.subresource.is_empty() { "" } else { "/" },
                r.subresource
            ),
            object: if r.name.is_empty() || r.namespace.is_empty() {
                r.name.clone()
            } else {
                format!("{}/{}", r.namespace, r.name)
            },
            is_silent: false,
        };
        // A request that was given up without an answer was disturbed too: its client was cut off,
        // or has ended.
        let is_lost = |r: &Request| r.status == 0 && r.ended.is_some();
        let requests =
            state.journal.requests.iter().filter(|r| r.is_disturbed || is_lost(r)).map(of_request);
        requests.chain(state.journal.disturbances.iter().cloned()).collect()
    }

    /// Empties the journal and the counts.
    pub fn clear_journal(&self) {
        let mut state = self.lock();
        state.journal.requests.clear();
        state.journal.entries.clear();
        state.journal.disturbances.clear();
        state.journal.counts.clear();
    }

    /// How many watches are open, by plural resource name.
    #[must_use]
    pub fn open_watches(&self) -> BTreeMap<String, usize> {
        self.lock().watches.counts()
    }

    /// The resourceVersion of the newest write.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }
}
