//! What was asked, and what became of it: for judges.

use std::{collections::BTreeMap, time::Duration};

use crate::domain::Moment;

/// A request, answered or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// When it came in.
    pub at: Moment,
    /// When it was answered (a watch: when it began); `None` where the client got no answer, or not yet.
    pub answered: Option<Moment>,
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
    /// The HTTP status; 0 where the client got no answer, or not yet.
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
    /// A Node's object is gone.
    NodeGone(String),
    /// A Node registered.
    NodeAdded(String),
    /// A machine is gone.
    MachineGone(String),
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

/// What was asked and what happened.
#[derive(Debug, Default)]
pub(super) struct Journal {
    pub(super) on: bool,
    pub(super) requests: Vec<Request>,
    pub(super) entries: Vec<Entry>,
    pub(super) counts: BTreeMap<(String, String), u64>,
    /// Requests since the start, journal or not.
    pub(super) seen: u64,
}
