//! The facts that `status` has read from the cluster, and from Auto Scaling.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    config::{DrainConfig, PublishedService},
    domain::{Budget, DaemonSetState, GroupName, InstanceId, Moment, Node, NodeName, Pod, PodUid},
};

/// All facts for one report.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Facts {
    pub(in crate::cli) now: Moment,
    /// `None`: no Lease was found.
    pub(in crate::cli) lease: Option<LeaseFacts>,
    pub(in crate::cli) nodes: Vec<Node>,
    /// The pods of each node that has a drain. `Err`: why they cannot be listed.
    pub(in crate::cli) pods: BTreeMap<NodeName, Result<Vec<Pod>, String>>,
    /// By namespace and name.
    pub(in crate::cli) daemon_sets: BTreeMap<(String, String), DaemonSetState>,
    pub(in crate::cli) budgets: Vec<Budget>,
    /// Sundown's Events, in any order.
    pub(in crate::cli) events: Vec<EventFacts>,
    pub(in crate::cli) retained: RetainedFacts,
    /// What could not be read, and why.
    pub(in crate::cli) trouble: Vec<String>,
}

/// What Auto Scaling shows of the instances that the groups of this cluster retain. Empty: it was
/// not asked, or did not answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cli) struct RetainedFacts {
    pub(in crate::cli) instances: Vec<RetainedFact>,
    /// The groups of which all retained instances are known, those in their warm pools, too.
    pub(in crate::cli) known: BTreeSet<GroupName>,
    /// What is not known, and why.
    pub(in crate::cli) trouble: Vec<String>,
}

/// An instance that a group retains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct RetainedFact {
    pub(in crate::cli) group: GroupName,
    pub(in crate::cli) instance: InstanceId,
    /// Its `LifecycleState`.
    pub(in crate::cli) state: String,
}

/// The Lease of the leader election.
#[derive(Debug, Clone)]
pub(in crate::cli) struct LeaseFacts {
    pub(in crate::cli) namespace: String,
    pub(in crate::cli) name: String,
    /// The pod that holds it. `None`: it has no holder.
    pub(in crate::cli) holder: Option<String>,
    /// Since when the holder has it.
    pub(in crate::cli) acquired: Option<Moment>,
    pub(in crate::cli) renewed: Option<Moment>,
    pub(in crate::cli) duration: std::time::Duration,
    pub(in crate::cli) is_paused: bool,
    /// The leader's settings. `None`: it has not published them.
    pub(in crate::cli) settings: Option<DrainConfig>,
    /// What the leader published besides them.
    pub(in crate::cli) service: PublishedService,
}

/// The object that an Event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum Subject {
    Node(NodeName),
    Pod(PodUid),
}

/// An Event that Sundown wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct EventFacts {
    pub(in crate::cli) subject: Subject,
    pub(in crate::cli) reason: String,
    pub(in crate::cli) is_warning: bool,
    pub(in crate::cli) message: String,
    pub(in crate::cli) first: Moment,
    pub(in crate::cli) last: Moment,
}
