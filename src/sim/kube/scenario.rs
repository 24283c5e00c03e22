//! How scenarios change the cluster and read its state.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::{
    BudgetSpec, EmbeddedKube, PodSpec, PodView, Workload, control::SCENARIO,
    delete::Options as DeleteOptions, json::Look, kinds::Kind, object::Key, pods, server::kind_of,
};
use crate::domain::Moment;

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

    /// Adds a Job with `replicas` completions, one after the other; its pods succeed after the
    /// shape's `runs_for`, by default 10 s.
    pub fn add_job(&self, workload: &Workload) {
        let mut workload = workload.clone();
        workload.shape.runs_for.get_or_insert(std::time::Duration::from_secs(10));
        self.add_workload("jobs", &workload);
    }

    /// From now on the controller of a `DaemonSet` of another API group than `apps`, which this API
    /// server does not serve, recreates the pods of this owner on their node when they are deleted.
    pub fn put_back(&self, namespace: &str, owner: &str) {
        self.lock().foreign_daemons.insert((namespace.to_owned(), owner.to_owned()));
    }

    fn add_workload(&self, plural: &str, w: &Workload) {
        let app = w.shape.labels.get("app").unwrap_or(&w.name);
        let mut object = json!({ "metadata": {
            "name": w.name, "namespace": w.namespace, "labels": { "app": app }
        },
            "spec": {
                "selector": { "matchLabels": { "app": app } },
                "template": pods::template(&w.shape, &w.name)
            } });
        match plural {
            "jobs" => object.put("spec.completions", w.replicas),
            "daemonsets" => {}
            _ => object.put("spec.replicas", w.replicas),
        }
        let mut state = self.lock();
        state.ensure_namespace(&w.namespace);
        state.add(plural, object, SCENARIO);
    }

    /// Adds a pod; returns its UID.
    pub fn add_pod(&self, spec: &PodSpec) -> String {
        let mut state = self.lock();
        state.ensure_namespace(&spec.namespace);
        let owner = spec.owner.as_ref().and_then(|(api_version, kind, name)| {
            let plural = kind_of(&state.kinds, api_version, kind)?.plural.clone();
            state
                .get(&plural, &Key::new(spec.namespace.as_str(), name.as_str()))
                .map(|o| o.uid().to_owned())
        });
        let owner = owner.unwrap_or_else(|| state.uid());
        let pod = pods::by_hand(spec, &owner, state.now());
        state.add("pods", pod, SCENARIO).map(|o| o.uid().to_owned()).unwrap_or_default()
    }

    /// Adds a PodDisruptionBudget.
    pub fn add_budget(&self, spec: &BudgetSpec) {
        let mut budget =
            json!({ "metadata": { "name": spec.name, "namespace": spec.namespace }, "spec": {} });
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

    /// The namespace is terminating: nothing may be created in it. With `empty`, its pods are
    /// deleted too, and then it goes.
    pub fn terminate_namespace(&self, name: &str, empty: bool) {
        self.lock().begin_namespace_end(&Key::cluster(name), SCENARIO, empty);
    }

    /// Makes a running pod ready or not ready.
    pub fn set_pod_ready(&self, namespace: &str, name: &str, ready: bool) {
        let mut state = self.lock();
        let (now, key) = (state.now(), Key::new(namespace, name));
        let Some((uid, node)) =
            state.pod(&key).and_then(|(_, f)| Some((f.uid.clone(), f.node.clone()?)))
        else {
            return;
        };
        if let Some(run) = state.machines.get_mut(&node).and_then(|m| m.runs.get_mut(&uid)) {
            run.ready = ready.then_some(now);
        }
        state.change("pods", &key, "<kubelet>", |p| pods::set_running(p, ready, now));
    }

    /// An object by plural resource name, namespace ("" if cluster-scoped) and name.
    #[must_use]
    pub fn object(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.lock().get(resource, &Key::new(namespace, name)).map(|o| o.value.clone())
    }

    /// The name of the Node whose providerID names this instance.
    #[must_use]
    pub fn node_of(&self, instance: &str) -> Option<String> {
        let state = self.lock();
        let is = |n: &Value| {
            n.text("spec.providerID").rsplit_once('/').is_some_and(|(_, id)| id == instance)
        };
        state.all("nodes").find(|o| is(&o.value)).map(|o| o.key().name.clone())
    }

    /// All objects of a resource.
    #[must_use]
    pub fn objects(&self, resource: &str) -> Vec<Value> {
        self.collect(resource, |object, _| Some(object.clone()))
    }

    /// What `look` finds in the objects of a resource, without a copy of them, and in the time at
    /// which each was last written. It must not ask this cluster for anything else.
    pub fn collect<T>(&self, resource: &str, look: impl Fn(&Value, Moment) -> Option<T>) -> Vec<T> {
        self.lock().all(resource).filter_map(|o| look(&o.value, o.written)).collect()
    }

    /// Shows each object of a resource, without a copy of it. `look` must not ask this cluster for
    /// anything else.
    pub fn each(&self, resource: &str, mut look: impl FnMut(&Value)) {
        self.lock().all(resource).for_each(|object| look(&object.value));
    }

    /// Creates or replaces an object unchanged, without admission, preconditions or faults.
    /// `apiVersion`, `kind` and `metadata.name` must be there; a kind that is not served is
    /// ignored.
    pub fn put(&self, object: Value) {
        let mut state = self.lock();
        let Some(kind) =
            kind_of(&state.kinds, object.text("apiVersion"), object.text("kind")).cloned()
        else {
            return;
        };
        if state.get(&kind.plural, &Key::of(&object)).is_some() {
            state.write(&kind, object, SCENARIO);
        } else {
            state.add(&kind.plural, object, SCENARIO);
        }
    }

    /// Changes an object in place, without validation or admission; false if it does not exist.
    pub fn edit(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> bool {
        self.lock().change(resource, &Key::new(namespace, name), SCENARIO, change).is_some()
    }

    /// Deletes an object as `kubectl delete` does: with grace, finalizers, and the objects that it
    /// owns; false if it does not exist.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) -> bool {
        self.lock()
            .delete(resource, &Key::new(namespace, name), &DeleteOptions::default(), SCENARIO)
            .is_some()
    }

    /// Removes an object at once, even with finalizers; false if it does not exist.
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

    /// A custom resource is served from now on: stored, listed, watched. Its plural name must be
    /// nobody else's.
    pub fn serve_custom_resource(
        &self,
        group: &str,
        version: &str,
        kind: &str,
        plural: &str,
        namespaced: bool,
    ) {
        self.lock().serve_kind(Arc::new(Kind::custom(group, version, kind, plural, namespaced)));
    }
}

fn selector(labels: &BTreeMap<String, String>) -> Value {
    if labels.is_empty() { json!({}) } else { json!({ "matchLabels": labels }) }
}
