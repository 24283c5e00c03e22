//! The facts that `status` has read from the cluster, and from Auto Scaling.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    config::{DrainConfig, PublishedService},
    domain::{Budget, DaemonSetState, GroupName, InstanceId, Moment, Node, NodeName, Pod, PodUid},
};

/// All facts for one report.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) now: Moment,
    /// `None`: no Lease was found.
    pub(super) lease: Option<LeaseFacts>,
    pub(super) nodes: Vec<Node>,
    /// The pods of each node that has a drain. `Err`: why they cannot be listed.
    pub(super) pods: BTreeMap<NodeName, Result<Vec<Pod>, String>>,
    /// By namespace and name.
    pub(super) daemon_sets: BTreeMap<(String, String), DaemonSetState>,
    pub(super) budgets: Vec<Budget>,
    /// Sundown's Events, in any order.
    pub(super) events: Vec<EventFacts>,
    pub(super) retained: RetainedFacts,
    /// What could not be read, and why.
    pub(super) trouble: Vec<String>,
}

/// What Auto Scaling shows of the instances that the groups of this cluster retain. Empty: it was
/// not asked, or did not answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RetainedFacts {
    pub(super) instances: Vec<RetainedFact>,
    /// The groups of which all retained instances are known, those in their warm pools, too.
    pub(super) known: BTreeSet<GroupName>,
    /// What is not known, and why.
    pub(super) trouble: Vec<String>,
}

/// An instance that a group retains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RetainedFact {
    pub(super) group: GroupName,
    pub(super) instance: InstanceId,
    /// Its `LifecycleState`.
    pub(super) state: String,
}

/// The Lease of the leader election.
#[derive(Debug, Clone)]
pub(super) struct LeaseFacts {
    pub(super) namespace: String,
    pub(super) name: String,
    /// The pod that holds it. `None`: it has no holder.
    pub(super) holder: Option<String>,
    /// Since when the holder has it.
    pub(super) acquired: Option<Moment>,
    pub(super) renewed: Option<Moment>,
    pub(super) duration: std::time::Duration,
    pub(super) is_paused: bool,
    /// The leader's settings. `None`: it has not published them.
    pub(super) settings: Option<DrainConfig>,
    /// What the leader published besides them.
    pub(super) service: PublishedService,
}

/// The object that an Event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    Node(NodeName),
    Pod(PodUid),
}

/// An Event that Sundown wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventFacts {
    pub(super) subject: Subject,
    pub(super) reason: String,
    pub(super) is_warning: bool,
    pub(super) message: String,
    pub(super) first: Moment,
    pub(super) last: Moment,
}
