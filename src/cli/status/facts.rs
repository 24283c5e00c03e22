//! What the cluster says, as `status` has read it.

use std::collections::BTreeMap;

use crate::{
    config::DrainConfig,
    domain::{Budget, DaemonSetState, Moment, Node, NodeName, Pod, PodUid},
};

/// Everything that was read.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) now: Moment,
    /// `None`: no Lease was found.
    pub(super) lease: Option<LeaseFacts>,
    pub(super) nodes: Vec<Node>,
    /// The pods of each node that has a drain; `Err`: why they cannot be listed.
    pub(super) pods: BTreeMap<NodeName, Result<Vec<Pod>, String>>,
    /// By namespace and name.
    pub(super) daemon_sets: BTreeMap<(String, String), DaemonSetState>,
    pub(super) budgets: Vec<Budget>,
    /// Those that Sundown wrote, in any order.
    pub(super) events: Vec<EventFacts>,
    /// What could not be read, and why.
    pub(super) trouble: Vec<String>,
}

/// What the Lease says.
#[derive(Debug, Clone)]
pub(super) struct LeaseFacts {
    pub(super) namespace: String,
    pub(super) name: String,
    /// The pod that holds it.
    pub(super) holder: Option<String>,
    /// Since when.
    pub(super) acquired: Option<Moment>,
    pub(super) renewed: Option<Moment>,
    pub(super) duration: std::time::Duration,
    pub(super) is_paused: bool,
    /// The leader's settings; `None`: it has published none.
    pub(super) settings: Option<DrainConfig>,
}

/// What an Event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    Node(NodeName),
    Pod(PodUid),
}

/// One Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventFacts {
    pub(super) subject: Subject,
    pub(super) reason: String,
    pub(super) is_warning: bool,
    pub(super) message: String,
    pub(super) first: Moment,
    pub(super) last: Moment,
}
