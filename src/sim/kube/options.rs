//! How the embedded cluster is set up.

use std::time::Duration;

/// What a cluster is started with.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long its parts take.
    pub timing: Timing,
    /// Keep the journal. Benchmarks switch it off.
    pub journal: bool,
    /// How many changes of each resource are remembered for watches. A watch that starts before
    /// them gets 410.
    pub history: usize,
    /// How a watch from a forgotten resourceVersion is refused. Real servers do both.
    pub expired: Expired,
}

impl Default for Options {
    fn default() -> Self {
        Self { timing: Timing::default(), journal: true, history: 8192, expired: Expired::Event }
    }
}

/// How a watch from a forgotten resourceVersion is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expired {
    /// The answer to the request is 410.
    Status,
    /// The answer is 200; the first event of the stream is an `ERROR` with code 410.
    Event,
}

/// How long the parts of the cluster take to do their work.
#[derive(Debug, Clone)]
pub struct Timing {
    /// From a change to what a workload controller makes of it.
    pub controllers: Duration,
    /// From a pod without a node to its binding.
    pub scheduler: Duration,
    /// From a change of a pod to the status of its disruption budgets.
    pub disruption: Duration,
    /// From the reading of a budget to the arrival of its new status, in an eviction that it
    /// grants: evictions that overlap meet a conflict there and decide again half a second later.
    pub budget_write: Duration,
    /// From binding to `Running`, unless the pod sets its own.
    pub start: Duration,
    /// From `Running` to `Ready`, unless the pod sets its own.
    pub ready: Duration,
    /// From the request to stop to the end of the last process, unless the pod sets its own.
    pub stop: Duration,
    /// From the end of a pod's last process (its phase shows this) to the removal of its object:
    /// volumes are unmounted meanwhile.
    pub removal: Duration,
    /// Silence after which a node's `Ready` condition becomes `Unknown` (kube-controller-manager:
    /// `--node-monitor-grace-period`).
    pub node_silence: Duration,
    /// From the end of a machine to the deletion of its Node by the cloud-node controller; `None`:
    /// never.
    pub node_deletion: Option<Duration>,
    /// From the end of a Node object, or from the taint that takes it out of service, to the deletion
    /// of the pods that were bound to it (kube-controller-manager: podgc).
    pub pod_collection: Duration,
    /// How often each living kubelet writes its Node's status; `None`: only when something changes.
    pub node_status: Option<Duration>,
    /// How often watches that asked for bookmarks get one.
    pub bookmarks: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            controllers: Duration::from_millis(20),
            scheduler: Duration::from_millis(20),
            disruption: Duration::from_millis(20),
            budget_write: Duration::ZERO,
            start: Duration::from_secs(1),
            ready: Duration::from_secs(2),
            stop: Duration::from_secs(1),
            removal: Duration::ZERO,
            node_silence: Duration::from_secs(40),
            node_deletion: Some(Duration::from_mins(1)),
            pod_collection: Duration::from_secs(20),
            node_status: None,
            bookmarks: Duration::from_mins(1),
        }
    }
}

impl Timing {
    /// Controllers act, and pods start and stop, at once: for setting up large clusters.
    #[must_use]
    pub fn instant() -> Self {
        Self {
            controllers: Duration::ZERO,
            scheduler: Duration::ZERO,
            start: Duration::ZERO,
            ready: Duration::ZERO,
            stop: Duration::ZERO,
            ..Self::default()
        }
    }
}
