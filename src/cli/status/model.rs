//! The report of `status`, as people see it and as JSON.

use serde::Serialize;

use crate::domain::{Moment, NodeName};

/// The whole report. Also the JSON of `-o json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Report {
    pub(in crate::cli) time: Moment,
    pub(in crate::cli) leader: Leader,
    /// A person has paused all drains.
    pub(in crate::cli) paused: bool,
    /// The open drains, sorted by the names of their nodes. With a name: that node, whatever its
    /// state.
    pub(in crate::cli) nodes: Vec<NodeStatus>,
    /// Nodes whose drain is over and that stay cordoned until their instance goes.
    pub(in crate::cli) drained: Vec<NodeName>,
    /// Nodes whose drain is over and that stay cordoned until something else happens.
    pub(in crate::cli) waiting: Vec<WaitingNode>,
    /// Instances that Auto Scaling retains, because a terminate hook of theirs was abandoned.
    pub(in crate::cli) retained: Vec<RetainedInstance>,
    /// The scheduled changes of nodes that have not begun, the next one first.
    pub(in crate::cli) planned: Vec<PlannedChange>,
    /// What could not be read, and which facts are missing for this reason.
    pub(in crate::cli) notes: Vec<String>,
}

/// An instance that Auto Scaling retains: it costs money until somebody terminates it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct RetainedInstance {
    pub(in crate::cli) instance: String,
    /// `None`: no Node has this instance.
    pub(in crate::cli) node: Option<NodeName>,
    /// `None`: only the record of the Node shows it, and names no group.
    pub(in crate::cli) group: Option<String>,
    /// Its `LifecycleState`. `None`: Auto Scaling was not asked about its group. The record of its
    /// Node shows that Sundown has completed its hook with ABANDON.
    pub(in crate::cli) state: Option<String>,
    /// Since when at least. `None`: neither a record nor an Event shows that.
    pub(in crate::cli) since: Option<Moment>,
}

/// A node whose drain is over and that stays cordoned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct WaitingNode {
    pub(in crate::cli) node: NodeName,
    pub(in crate::cli) until: Until,
}

/// What ends the cordon of a node whose drain is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::cli) enum Until {
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
    /// `drain.sundown.dev/NAME`.
    RequestIsRemoved,
}

/// A scheduled change that AWS has announced for the instance of a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct PlannedChange {
    pub(in crate::cli) node: NodeName,
    /// The code of AWS Health or of EC2.
    pub(in crate::cli) code: String,
    /// When it begins. `None`: AWS gives no time.
    pub(in crate::cli) starts: Option<Moment>,
    /// When the drain begins. `None`: it has begun, or begins as soon as possible.
    pub(in crate::cli) drains: Option<Moment>,
}

/// The Lease and its holder.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Leader {
    /// `NAMESPACE/NAME` of the Lease.
    pub(in crate::cli) lease: Option<String>,
    /// The leader's pod. `None`: nobody leads.
    pub(in crate::cli) pod: Option<String>,
    pub(in crate::cli) since: Option<Moment>,
    pub(in crate::cli) renewed: Option<Moment>,
}

/// The state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::cli) enum State {
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
pub(in crate::cli) struct NodeStatus {
    pub(in crate::cli) node: NodeName,
    pub(in crate::cli) instance: Option<String>,
    pub(in crate::cli) state: State,
    /// Sentences: why it is not being drained, or what is unusual about its drain.
    pub(in crate::cli) remarks: Vec<String>,
    pub(in crate::cli) interruptions: Vec<Interruption>,
    /// When the first interruption was accepted, which is when the node was cordoned.
    pub(in crate::cli) since: Option<Moment>,
    /// When the drain ends at the latest.
    pub(in crate::cli) deadline: Option<Moment>,
    /// When Sundown restores the node if no interruption follows a recommendation. `None`: another
    /// interruption holds.
    #[serde(rename = "putBackAt")]
    pub(in crate::cli) restore_at: Option<Moment>,
    /// When the first of the remaining pods may be deleted by force. `None`: no pod will be, the
    /// drain is paused, or the pods cannot be listed.
    pub(in crate::cli) force_from: Option<Moment>,
    /// The leader follows rules about pods, which may let pods be deleted at another time, or with
    /// `--force-after=never`, too. They are not known here.
    pub(in crate::cli) follows_rules: bool,
    /// `true`: no pod is left, or all remaining pods are already terminating.
    pub(in crate::cli) nothing_to_force: bool,
    /// `None`: the pods cannot be listed.
    pub(in crate::cli) pods: Option<Pods>,
    pub(in crate::cli) blocked: Vec<BlockedPod>,
    pub(in crate::cli) hooks: Vec<Hook>,
    /// The gates on the node, eight of each kind at most. Empty without a drain.
    pub(in crate::cli) gates: Vec<GateStatus>,
    /// The settings in force. Empty without a drain.
    pub(in crate::cli) settings: Vec<Setting>,
    /// The last Event of each reason since the accept.
    pub(in crate::cli) events: Vec<LastEvent>,
}

/// An interruption that the record holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Interruption {
    pub(in crate::cli) kind: &'static str,
    pub(in crate::cli) time: Moment,
    pub(in crate::cli) accepted: Moment,
    /// Of a request for the drain; `None`: AWS announced it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) request: Option<RequestShown>,
}

/// A request for the drain, as `status` shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct RequestShown {
    /// The annotation's key after `drain.sundown.dev/`.
    pub(in crate::cli) by: String,
    pub(in crate::cli) reason: Option<String>,
    pub(in crate::cli) deadline: Option<Moment>,
    /// The Node no longer has the annotation, or another one of that name.
    #[serde(rename = "gone")]
    pub(in crate::cli) is_gone: bool,
}

/// Numbers of pods by state. `left` is the sum of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Pods {
    pub(in crate::cli) left: usize,
    pub(in crate::cli) waiting: usize,
    pub(in crate::cli) blocked: usize,
    pub(in crate::cli) leaving: usize,
}

/// A pod that something blocks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct BlockedPod {
    pub(in crate::cli) pod: String,
    pub(in crate::cli) reason: &'static str,
    /// `NAMESPACE/NAME` of the disruption budgets that block it.
    pub(in crate::cli) budgets: Vec<String>,
    pub(in crate::cli) message: String,
    /// When the block began. `None`: not known.
    pub(in crate::cli) since: Option<Moment>,
    pub(in crate::cli) force_from: Option<Moment>,
    /// What it needs to be unblocked before that.
    pub(in crate::cli) needs: &'static str,
}

/// A lifecycle action that Sundown keeps open.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Hook {
    pub(in crate::cli) group: String,
    #[serde(rename = "hook")]
    pub(in crate::cli) name: String,
    /// From the Events. `None`: no Event shows one.
    pub(in crate::cli) last_heartbeat: Option<Moment>,
}

/// A gate on the node of a drain.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct GateStatus {
    pub(in crate::cli) annotation: String,
    pub(in crate::cli) value: String,
    #[serde(rename = "holds")]
    pub(in crate::cli) of: Held,
    pub(in crate::cli) state: GateState,
    /// Until when it can hold. `None`: it is ignored.
    pub(in crate::cli) until: Option<Moment>,
    /// Why it is ignored. `None`: it is not.
    pub(in crate::cli) why: Option<&'static str>,
}

/// What a gate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::cli) enum Held {
    Evictions,
    /// The completion of the lifecycle actions.
    Release,
}

/// What a gate does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::cli) enum GateState {
    Holds,
    /// It will hold once the node is empty.
    Waits,
    Ignored,
}

/// A setting in force.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Setting {
    /// The name of its flag, without dashes before it.
    pub(in crate::cli) name: &'static str,
    pub(in crate::cli) value: String,
    /// `node` (an annotation of the Node), `hook` (the NotificationMetadata) or `flag`.
    pub(in crate::cli) source: &'static str,
}

/// The last Event of one reason about the node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct LastEvent {
    pub(in crate::cli) reason: String,
    pub(in crate::cli) warning: bool,
    pub(in crate::cli) message: String,
    pub(in crate::cli) last: Moment,
}
