//! What was asked, and what became of it: for judges.

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
    /// When it was answered (a watch: when it began); `None` where the client got no answer that it
    /// can read, or not yet.
    pub answered: Option<Moment>,
    /// It met a fault.
    pub is_disturbed: bool,
    /// When it was over: answered, failed, or given up by the client (a watch: when it began).
    /// `None`: it is under way.
    pub ended: Option<Moment>,
    /// The client's tag, or its user agent.
    pub client: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// The plural name; for what is no resource the path.
    pub resource: String,
    /// The subresource or "".
    pub subresource: String,
    /// The namespace or "".
    pub namespace: String,
    /// The name or "".
    pub name: String,
    /// The HTTP status; 0 where the client got no answer that it can read, or not yet.
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
    /// When.
    pub at: Moment,
    /// Who did it: a client's tag, or a controller's name in angle brackets.
    pub by: String,
    /// What.
    pub fact: Fact,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// An eviction was accepted.
    Evicted {
        /// Which pod.
        pod: PodRef,
        /// The grace period that it got, in seconds.
        grace: u64,
        /// It was already terminating: nothing but its grace period could change.
        again: bool,
        /// Budgets that were at or below their desired count without it.
        overrun: Vec<String>,
    },
    /// An eviction was answered as accepted by an admission webhook, and nothing was done.
    EvictionIntercepted {
        /// Which pod.
        pod: PodRef,
        /// The grace period that it would have got, in seconds.
        grace: u64,
    },
    /// A deletion of a pod was accepted.
    Deleted {
        /// Which pod.
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
    /// A Node became unschedulable.
    Cordoned(String),
    /// A Node became schedulable again.
    Uncordoned(String),
    /// A Node's annotations are these from now on.
    Annotated {
        /// Its name.
        node: String,
        /// Its providerID or "".
        provider_id: String,
        /// All its annotations.
        annotations: BTreeMap<String, String>,
    },
    /// Something of a Node that [`NodeState`] holds is different from now on. Noted before every
    /// other fact of the same write.
    NodeChanged(Box<NodeState>),
    /// A Node's object is gone.
    NodeGone(String),
    /// A Node registered.
    NodeAdded(String),
    /// A machine is gone.
    MachineGone(String),
    /// A Lease has another holder from now on.
    LeaseHeld {
        /// Its name.
        lease: String,
        /// `spec.holderIdentity`; "" where nobody holds it, or it was deleted.
        holder: String,
    },
    /// The annotation of a Lease that pauses all drains came or went.
    PausedAll {
        /// The name of the Lease.
        lease: String,
        /// It came.
        paused: bool,
    },
    /// The controller found that a disruption budget allows more than its status said.
    BudgetFreed {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its node or "".
    pub node: String,
}

/// What a drain may change on a Node, and what tells one machine from another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeState {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its providerID or "".
    pub provider_id: String,
    /// Its machine's boot ID or "".
    pub boot_id: String,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// The status of its condition `Ready`.
    pub ready: String,
    /// Its taints: key, value, effect.
    pub taints: BTreeSet<(String, String, String)>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// What was asked and what happened.
#[derive(Debug, Default)]
pub(super) struct Journal {
    pub(super) on: bool,
    pub(super) requests: Vec<Request>,
    pub(super) entries: Vec<Entry>,
    pub(super) disturbances: Vec<Disturbance>,
    pub(super) counts: BTreeMap<(String, String), u64>,
    /// Requests since the start, journal or not.
    pub(super) seen: u64,
}
