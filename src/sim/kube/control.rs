//! The handle: starting the cluster, and what scenarios do to it.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use super::{
    Away, BudgetSpec, Entry, EvictionReview, EvictionVerdict, Match, NodeSpec, Options, PodSpec, PodView, Request, Rule, RuleId, Timing, Workload,
};
use crate::controller::{Clock, Spawner};

/// The embedded cluster. Clones are handles to the same one.
#[derive(Clone)]
pub struct EmbeddedKube {
    _inner: Arc<()>,
}

/// Starting and reaching it.
impl EmbeddedKube {
    /// Starts an empty cluster. Its controllers run as one task of `spawner` until [`stop`](Self::stop), or until the last handle is gone.
    #[must_use]
    pub fn start(options: Options, clock: Clock, seed: u64, spawner: &Spawner) -> Self {
        todo!()
    }
    /// Ends the controllers and all watches.
    pub fn stop(&self) {
        todo!()
    }
    /// A client in this process, tagged `client` in the journal. It has no retries of its own.
    #[must_use]
    pub fn client(&self) -> ::kube::Client {
        self.client_as("client")
    }
    /// A client in this process with a tag of its own, for the journal and for rules about it.
    #[must_use]
    pub fn client_as(&self, tag: &str) -> ::kube::Client {
        todo!()
    }
    /// Serves HTTP/1.1 on a loopback listener until [`stop`](Self::stop). Real time only.
    pub async fn serve(&self, listener: tokio::net::TcpListener, spawner: &Spawner) {
        todo!()
    }
    /// A kubeconfig for kubectl against a server on `addr`.
    #[must_use]
    pub fn kubeconfig(addr: std::net::SocketAddr) -> String {
        todo!()
    }
}

/// Nodes and machines.
impl EmbeddedKube {
    /// Registers a node with a running machine under it.
    pub fn add_node(&self, spec: &NodeSpec) {
        todo!()
    }
    /// The machine of an instance is gone: its kubelet and processes stop, its Node turns `Unknown`, and later is deleted.
    pub fn machine_gone(&self, instance: &str) {
        todo!()
    }
    /// The kubelet of a node cannot reach the API server; its pods run on.
    pub fn kubelet_lost(&self, node: &str) {
        todo!()
    }
    /// It can again.
    pub fn kubelet_back(&self, node: &str) {
        todo!()
    }
    /// The machine reboots: a new boot id, its pods start again.
    pub fn reboot(&self, node: &str) {
        todo!()
    }
    /// The Node object is deleted.
    pub fn delete_node(&self, node: &str) {
        todo!()
    }
}

/// Workloads and objects.
impl EmbeddedKube {
    /// Adds a Deployment.
    pub fn add_deployment(&self, workload: &Workload) {
        todo!()
    }
    /// Adds a ReplicaSet.
    pub fn add_replica_set(&self, workload: &Workload) {
        todo!()
    }
    /// Adds a StatefulSet: ordered, names kept.
    pub fn add_stateful_set(&self, workload: &Workload) {
        todo!()
    }
    /// Adds a DaemonSet: one pod on every node.
    pub fn add_daemon_set(&self, workload: &Workload) {
        todo!()
    }
    /// Adds a Job.
    pub fn add_job(&self, workload: &Workload) {
        todo!()
    }
    /// Adds a pod; says its UID.
    pub fn add_pod(&self, spec: &PodSpec) -> String {
        todo!()
    }
    /// Adds a PodDisruptionBudget.
    pub fn add_budget(&self, spec: &BudgetSpec) {
        todo!()
    }
    /// Adds a namespace; those of workloads are made by themselves.
    pub fn add_namespace(&self, name: &str) {
        todo!()
    }
    /// The namespace is terminating: nothing may be created in it. With `empty`, its pods are deleted too.
    pub fn terminate_namespace(&self, name: &str, empty: bool) {
        todo!()
    }
    /// An object by plural resource name, namespace ("" where there is none) and name.
    #[must_use]
    pub fn object(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        todo!()
    }
    /// All objects of a resource.
    #[must_use]
    pub fn objects(&self, resource: &str) -> Vec<Value> {
        todo!()
    }
    /// Creates or replaces an object as it is, past admission, preconditions and faults. `apiVersion`, `kind` and `metadata.name` must be there.
    pub fn put(&self, object: Value) {
        todo!()
    }
    /// Changes an object in place, past everything; false where there is none.
    pub fn edit(&self, resource: &str, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) -> bool {
        todo!()
    }
    /// Removes an object at once, finalizers or not; false where there is none.
    pub fn remove(&self, resource: &str, namespace: &str, name: &str) -> bool {
        todo!()
    }
    /// The pods bound to a node.
    #[must_use]
    pub fn pods_on(&self, node: &str) -> Vec<PodView> {
        todo!()
    }
    /// All pods.
    #[must_use]
    pub fn pods(&self) -> Vec<PodView> {
        todo!()
    }
    /// A custom resource is served from now on: stored, listed, watched.
    pub fn serve_custom_resource(&self, group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) {
        todo!()
    }
}

/// Faults.
impl EmbeddedKube {
    /// Requests that match get the fault.
    pub fn inject(&self, rule: Rule) -> RuleId {
        todo!()
    }
    /// They do not any more.
    pub fn lift(&self, rule: RuleId) {
        todo!()
    }
    /// The verb on the resource (`pods`, `pods/eviction`) is forbidden, as if RBAC did not allow it.
    pub fn deny(&self, verb: &str, resource: &str) -> RuleId {
        todo!()
    }
    /// The server is away.
    pub fn go_away(&self, how: Away) {
        todo!()
    }
    /// It is back.
    pub fn come_back(&self) {
        todo!()
    }
    /// Everything but watches gets 429 in plain text with this `Retry-After`; `None` ends that.
    pub fn overload(&self, retry_after: Option<u32>) {
        todo!()
    }
    /// Every token is refused.
    pub fn unauthorized(&self, on: bool) {
        todo!()
    }
    /// Open watches that match end.
    pub fn cut_watches(&self, matching: &Match) {
        todo!()
    }
    /// Open watches that match never say anything again, nor end.
    pub fn silence_watches(&self, matching: &Match) {
        todo!()
    }
    /// History is forgotten: a watch from before now gets 410, and so does a list that is continued.
    pub fn compact(&self) {
        todo!()
    }
    /// An admission webhook for evictions.
    pub fn eviction_webhook(&self, hook: impl Fn(&EvictionReview) -> EvictionVerdict + Send + Sync + 'static) {
        todo!()
    }
    /// The disruption controller stands still; statuses of budgets stay as they are.
    pub fn freeze_disruption_controller(&self, frozen: bool) {
        todo!()
    }
    /// The scheduler stands still.
    pub fn freeze_scheduler(&self, frozen: bool) {
        todo!()
    }
    /// How long the parts take from now on.
    pub fn set_timing(&self, timing: Timing) {
        todo!()
    }
}

/// What judges read.
impl EmbeddedKube {
    /// Every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        todo!()
    }
    /// How many requests by (verb, resource or resource/subresource). Counted with the journal off too.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<(String, String), u64> {
        todo!()
    }
    /// Everything that happened so far.
    #[must_use]
    pub fn journal(&self) -> Vec<Entry> {
        todo!()
    }
    /// Starts the journal and the counts afresh.
    pub fn clear_journal(&self) {
        todo!()
    }
    /// How many watches are open, by plural resource name.
    #[must_use]
    pub fn open_watches(&self) -> BTreeMap<String, usize> {
        todo!()
    }
}
