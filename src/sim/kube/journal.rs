//! A record of requests and of changes to the cluster's state, which the judges of tests read.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{domain::Moment, sim::Disturbance};

/// A request, answered or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// When it came in.
    pub at: Moment,
    /// When it was answered (a watch: when it began); `None` if there is no answer yet, or none
    /// that the client can read.
    pub answered: Option<Moment>,
    /// An injected fault affected it.
    pub is_disturbed: bool,
    /// When it ended: answered, failed, or given up by the client (a watch: when it began).
    /// `None`: still in progress.
    pub ended: Option<Moment>,
    /// The client's tag, or its user agent.
    pub client: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// The resource's plural name; for a request that is not for a resource, the path.
    pub resource: String,
    /// The subresource or "".
    pub subresource: String,
    /// The namespace or "".
    pub namespace: String,
    /// The name or "".
    pub name: String,
    /// The HTTP status; 0 if there is no answer yet, or none that the client can read.
    pub status: u16,
    /// It was a dry run.
    pub dry_run: bool,
    /// `timeout`: how long the client gives the server.
    pub timeout: Option<Duration>,
}

impl Request {
    /// Its verb changes something.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !["get", "list", "watch"].contains(&self.verb.as_str())
    }
}

/// Something that happened to the cluster's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When it happened.
    pub at: Moment,
    /// Who did it: a client's tag, or a controller's name in angle brackets.
    pub by: String,
    /// The change, with the objects that it affected.
    pub fact: Fact,
}

/// One change of the cluster's state, with what judges need to know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// An eviction was accepted.
    Evicted {
        /// The pod, as it was when the eviction was accepted.
        pod: PodRef,
        /// The grace period that it got, in seconds.
        grace: u64,
        /// The pod was already terminating: only its grace period could change.
        again: bool,
        /// Budgets that were at or below their desired count without it.
        overrun: Vec<String>,
    },
    /// An eviction was answered as accepted by an admission webhook, and nothing was done.
    EvictionIntercepted {
        /// The pod, which was left unchanged.
        pod: PodRef,
        /// The grace period that it would have got, in seconds.
        grace: u64,
    },
    /// A deletion of a pod was accepted.
    Deleted {
        /// The pod, as it was when the deletion was accepted.
        pod: PodRef,
        /// The grace period that it got, in seconds.
        grace: u64,
        /// It was already terminating.
        again: bool,
        /// Budgets that were at or below their desired count without it.
        overrun: Vec<String>,
    },
    /// A pod's object is gone.
    PodGone(PodRef),
    /// A pod was bound to a node.
    Bound(PodRef),
    /// A pod became ready.
    PodReady(PodRef),
    /// A pod's phase became `Succeeded` or `Failed`.
    PodFinished(PodRef),
    /// A Node became unschedulable: its name.
    Cordoned(String),
    /// A Node became schedulable again: its name.
    Uncordoned(String),
    /// A Node's annotations have changed.
    Annotated {
        /// The Node's `metadata.name`.
        node: String,
        /// Its providerID or "".
        provider_id: String,
        /// All annotations of the Node after the change.
        annotations: BTreeMap<String, String>,
    },
    /// A Node field that [`NodeState`] holds has changed; this is the state after the change.
    /// Recorded before every other fact of the same write.
    NodeChanged(Box<NodeState>),
    /// A Node object was removed: its name.
    NodeGone(String),
    /// A Node registered with the API server: its name.
    NodeAdded(String),
    /// A machine is gone: the name of its Node.
    MachineGone(String),
    /// The holder of a Lease has changed.
    LeaseHeld {
        /// `metadata.name` of the Lease.
        lease: String,
        /// `spec.holderIdentity`; "" if nobody holds the Lease, or it was deleted.
        holder: String,
    },
    /// The annotation of a Lease that pauses all drains was set or removed.
    PausedAll {
        /// The name of the Lease.
        lease: String,
        /// `true`: it was set; `false`: it was removed.
        paused: bool,
    },
    /// The disruption controller found that a budget allows more disruptions than its status shows.
    BudgetFreed {
        /// `metadata.namespace` of the budget.
        namespace: String,
        /// `metadata.name` of the budget.
        name: String,
    },
}

/// Identifies a pod, and the node it was bound to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `spec.nodeName`; "" while unbound.
    pub node: String,
}

/// The fields of a Node that a drain may change, and those that identify its machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeState {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `spec.providerID` or "".
    pub provider_id: String,
    /// `status.nodeInfo.bootID` or "".
    pub boot_id: String,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// The status of its condition `Ready`.
    pub ready: String,
    /// Its condition `MaintenancePlanned`.
    pub maintenance: Option<ConditionState>,
    /// Its conditions `DrainInProgress` and `Drained`.
    pub drain: [Option<ConditionState>; 2],
    /// Its taints: key, value, effect.
    pub taints: BTreeSet<(String, String, String)>,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
}

/// What a condition of a Node shows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConditionState {
    /// `status`: `True`, `False` or `Unknown`.
    pub status: String,
    /// `reason`.
    pub reason: String,
    /// `message`.
    pub message: String,
}

/// The record itself; requests and entries are kept only while it is `on`.
#[derive(Debug, Default)]
pub(super) struct Journal {
    pub(super) on: bool,
    pub(super) requests: Vec<Request>,
    pub(super) entries: Vec<Entry>,
    pub(super) disturbances: Vec<Disturbance>,
    pub(super) counts: BTreeMap<(String, String), u64>,
    /// Requests since the start, counted even while the journal is off.
    pub(super) seen: u64,
}
