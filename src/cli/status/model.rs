//! The report of `status`, as people see it and as JSON.

use serde::Serialize;

use crate::domain::{Moment, NodeName};

/// The whole report. Also the JSON of `-o json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) time: Moment,
    pub(super) leader: Leader,
    /// A person has paused all drains.
    pub(super) paused: bool,
    /// The open drains, sorted by the names of their nodes. With a name: that node, whatever its
    /// state.
    pub(super) nodes: Vec<NodeStatus>,
    /// Nodes whose drain is over and that stay cordoned until their instance goes.
    pub(super) drained: Vec<NodeName>,
    /// Nodes whose drain is over and that stay cordoned until something else happens.
    pub(super) waiting: Vec<WaitingNode>,
    /// Instances that Auto Scaling retains, because a terminate hook of theirs was abandoned.
    pub(super) retained: Vec<RetainedInstance>,
    /// The scheduled changes of nodes that have not begun, the next one first.
    pub(super) planned: Vec<PlannedChange>,
    /// What could not be read, and which facts are missing for this reason.
    pub(super) notes: Vec<String>,
}

/// An instance that Auto Scaling retains: it costs money until somebody terminates it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RetainedInstance {
    pub(super) instance: String,
    /// `None`: no Node has this instance.
    pub(super) node: Option<NodeName>,
    /// `None`: only the record of the Node shows it, and names no group.
    pub(super) group: Option<String>,
    /// Its `LifecycleState`. `None`: Auto Scaling was not asked about its group. The record of its
    /// Node shows that Sundown has completed its hook with ABANDON.
    pub(super) state: Option<String>,
    /// Since when at least. `None`: neither a record nor an Event shows that.
    pub(super) since: Option<Moment>,
}

/// A node whose drain is over and that stays cordoned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitingNode {
    pub(super) node: NodeName,
    pub(super) until: Until,
}

/// What ends the cordon of a node whose drain is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Until {
    InstanceGoes,
    InstanceGoesOrBoots,
    /// Out of a warm pool, after a stop or hibernation, or with a new root volume.
    InstanceIsBack,
    /// The leader does not sweep: an event must show that the instance is back.
    EventShowsReturn,
    /// Or it is replaced.
    InstanceIsHealthy,
    /// The leader does not sweep, and nothing else shows that the instance is healthy.
    PersonRestores,
    /// `sundown.dev/keep-cordoned`.
    AnnotationIsRemoved,
    LeaderRestores,
}

/// A scheduled change that AWS has announced for the instance of a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlannedChange {
    pub(super) node: NodeName,
    /// The code of AWS Health or of EC2.
    pub(super) code: String,
    /// When it begins. `None`: AWS gives no time.
    pub(super) starts: Option<Moment>,
    /// When the drain begins. `None`: it has begun, or begins as soon as possible.
    pub(super) drains: Option<Moment>,
}

/// The Lease and its holder.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Leader {
    /// `NAMESPACE/NAME` of the Lease.
    pub(super) lease: Option<String>,
    /// The leader's pod. `None`: nobody leads.
    pub(super) pod: Option<String>,
    pub(super) since: Option<Moment>,
    pub(super) renewed: Option<Moment>,
}

/// The state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    Draining,
    /// Only tainted or cordoned: its pods stay (`--on`).
    Marked,
    Paused,
    /// The record was deleted or damaged during the drain.
    RecordLost,
    /// No drain is open.
    NotDraining,
}

/// A node, and its drain if there is one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeStatus {
    pub(super) node: NodeName,
    pub(super) instance: Option<String>,
    pub(super) state: State,
    /// Sentences: why it is not being drained, or what is unusual about its drain.
    pub(super) remarks: Vec<String>,
    pub(super) interruptions: Vec<Interruption>,
    /// When the first interruption was accepted, which is when the node was cordoned.
    pub(super) since: Option<Moment>,
    /// When the drain ends at the latest.
    pub(super) deadline: Option<Moment>,
    /// When Sundown restores the node if no interruption follows a recommendation. `None`: another
    /// interruption holds.
    #[serde(rename = "putBackAt")]
    pub(super) restore_at: Option<Moment>,
    /// When the first of the remaining pods may be deleted by force. `None`: no pod will be, the
    /// drain is paused, or the pods cannot be listed.
    pub(super) force_from: Option<Moment>,
    /// `true`: no pod is left, or all remaining pods are already terminating.
    pub(super) nothing_to_force: bool,
    /// `None`: the pods cannot be listed.
    pub(super) pods: Option<Pods>,
    pub(super) blocked: Vec<BlockedPod>,
    pub(super) hooks: Vec<Hook>,
    /// The gates on the node, eight of each kind at most. Empty without a drain.
    pub(super) gates: Vec<GateStatus>,
    /// The settings in force. Empty without a drain.
    pub(super) settings: Vec<Setting>,
    /// The last Event of each reason since the accept.
    pub(super) events: Vec<LastEvent>,
}

/// An interruption that the record holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Interruption {
    pub(super) kind: &'static str,
    pub(super) time: Moment,
    pub(super) accepted: Moment,
}

/// Numbers of pods by state. `left` is the sum of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pods {
    pub(super) left: usize,
    pub(super) waiting: usize,
    pub(super) blocked: usize,
    pub(super) leaving: usize,
}

/// A pod that something blocks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlockedPod {
    pub(super) pod: String,
    pub(super) reason: &'static str,
    /// `NAMESPACE/NAME` of the disruption budgets that block it.
    pub(super) budgets: Vec<String>,
    pub(super) message: String,
    /// When the block began. `None`: not known.
    pub(super) since: Option<Moment>,
    pub(super) force_from: Option<Moment>,
    /// What it needs to be unblocked before that.
    pub(super) needs: &'static str,
}

/// A lifecycle action that Sundown keeps open.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Hook {
    pub(super) group: String,
    #[serde(rename = "hook")]
    pub(super) name: String,
    /// From the Events. `None`: no Event shows one.
    pub(super) last_heartbeat: Option<Moment>,
}

/// A gate on the node of a drain.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GateStatus {
    pub(super) annotation: String,
    pub(super) value: String,
    #[serde(rename = "holds")]
    pub(super) of: Held,
    pub(super) state: GateState,
    /// Until when it can hold. `None`: it is ignored.
    pub(super) until: Option<Moment>,
    /// Why it is ignored. `None`: it is not.
    pub(super) why: Option<&'static str>,
}

/// What a gate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Held {
    Evictions,
    /// The completion of the lifecycle actions.
    Release,
}

/// What a gate does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum GateState {
    Holds,
    /// It will hold once the node is empty.
    Waits,
    Ignored,
}

/// A setting in force.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Setting {
    /// The name of its flag, without dashes before it.
    pub(super) name: &'static str,
    pub(super) value: String,
    /// `node` (an annotation of the Node), `hook` (the NotificationMetadata) or `flag`.
    pub(super) source: &'static str,
}

/// The last Event of one reason about the node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LastEvent {
    pub(super) reason: String,
    pub(super) warning: bool,
    pub(super) message: String,
    pub(super) last: Moment,
}
