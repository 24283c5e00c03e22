//! The effects of the fleet.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{DrainEvent, FleetEvent, LastKnownNode};
use crate::{
    domain::{
        GroupName, InstanceId, Interruption, InterruptionFacts, LifecycleAction, Moment, Node,
        NodeName, PodUid,
    },
    drain::Order,
    record::{DrainConditionsChange, EndReason, MaintenanceCondition, Record},
};

/// What the controller is to do. It starts effects in their order and waits for none of them.
/// Results arrive as [`Input`](super::Input)s.
#[derive(Debug)]
pub enum Effect {
    /// Report what has happened to one node.
    Report(NodeName, Box<DrainEvent>),
    /// Report what concerns many drains.
    ReportFleet(FleetEvent),
    /// Watch the pods of this node. If they are watched already, list them again.
    WatchPods(NodeName),
    /// Stop watching the pods of this node.
    UnwatchPods(NodeName),
    /// Send an eviction or a delete.
    Send {
        /// The node whose drain gives the order.
        node: NodeName,
        /// The eviction or the delete.
        order: Order,
        /// How long to wait for the answer to an eviction; [`Duration::MAX`] for no limit.
        give_up_after: Duration,
    },
    /// Find out the answer to a question.
    Ask(Question),
    /// Stop all [`Question::Verify`], [`Question::Contradiction`], [`Question::Replacement`],
    /// [`Question::Group`] and [`Question::InstanceState`] of this node: its drain is over.
    StopVerifying(NodeName),
    /// Stop [`Question::InstanceState`] of this node: its kubelet reports.
    StopAskingState(NodeName),
    /// Stop [`Question::SilentNode`] of this node.
    StopReadingSilent(NodeName),
    /// Send heartbeats for a lifecycle action that a record names.
    KeepAlive {
        /// The action to keep open.
        action: LifecycleAction,
        /// When the action began: the time of its event, on our clock.
        event_time: Moment,
        /// How this leader knows the action.
        origin: Origin,
    },
    /// Send a heartbeat for each of these actions now, if none was sent yet, because evictions wait
    /// for the answer. From `until` on, it is sent when it is due anyway.
    VerifyActions {
        /// The open actions of the record.
        actions: Vec<LifecycleAction>,
        /// When the evictions begin without an answer.
        until: Moment,
    },
    /// The leader accepted, took over or resumed the drain of these lifecycle actions. The time
    /// that the drain may take counts from that moment.
    DrainResumed {
        /// The open actions of the record.
        actions: Vec<LifecycleAction>,
        /// When that was; `None` while it is paused.
        at: Option<Moment>,
        /// The drain timeout that the Node or its hooks set; `None`: that of the flags.
        drain_timeout: Option<Duration>,
    },
    /// Send no more heartbeats for an action, and do not complete it.
    StopKeepAlive(LifecycleAction),
    /// Write a record on a Node. Retry until it is written or no longer needed.
    RestoreRecord(Arc<Node>, RecordRestoration),
    /// Undo what Sundown changed on a Node whose record does not count, and remove the record.
    RestoreNode(Arc<Node>),
    /// Set the condition `MaintenancePlanned` of this Node. The Node shows when that is done.
    SetMaintenance(Arc<Node>, MaintenanceCondition),
    /// Write the conditions of this Node about its drain, after all other calls. The Node shows
    /// when that is done.
    SetDrainConditions(Arc<Node>, DrainConditionsChange),
    /// Accept a scheduled change whose drain begins now. Answered by
    /// [`Input::Accepted`](super::Input::Accepted) if that succeeds, and ordered again otherwise.
    BeginChange(Arc<Node>, Box<Interruption>),
    /// Accept a request for the drain of this Node. Answered and ordered again as the one above.
    BeginRequest(Arc<Node>, Box<Interruption>),
    /// Take a node out of load balancers, if there is room ([`crate::record::ExclusionLimit`]).
    Exclude(Arc<Node>),
    /// Start the completion of a drain that has ended.
    Complete(Box<Completion>),
    /// A completion may begin at another moment than before. `None`: not while another Node that
    /// claims the instance is drained.
    CompleteFrom(CompletionId, Option<Moment>),
    /// A completion may begin now, and nothing will change that: the fleet has forgotten its drain.
    CompleteNow(CompletionId),
    /// The lifecycle actions of the deleted Node with this UID are completed: forget the Node.
    ForgetDeletedNode(String),
    /// From when on pods are forced on this node, or else when its drain ends at the latest.
    /// `None`: there is no such moment, or the drain has ended.
    DeadlineIs(NodeName, Option<Moment>),
    /// All drains are paused (`true`) or resumed (`false`).
    PausedAll(bool),
}

/// A question whose answer arrives as an input.
#[derive(Debug)]
pub enum Question {
    /// Which instance is this Node, which has no providerID? Answered by
    /// [`Input::InstanceFound`](super::Input::InstanceFound) or
    /// [`Input::InstanceLookupEnded`](super::Input::InstanceLookupEnded).
    InstanceOf(Arc<Node>),
    /// Is one of the lifecycle actions of a record of an earlier boot open? Answered by
    /// [`Input::Doubt`](super::Input::Doubt).
    OpenHooks {
        /// The Node with the record.
        node: Arc<Node>,
        /// The actions, each with the time of its event on our clock.
        hooks: Vec<(LifecycleAction, Moment)>,
    },
    /// Does this stale interruption still hold? Answered by [`Input::Proof`](super::Input::Proof).
    Verify {
        /// The node that is drained.
        node: NodeName,
        /// The node's instance.
        instance: InstanceId,
        /// The facts of the interruption, as the record has them.
        interruption: Box<InterruptionFacts>,
    },
    /// AWS has answered that no lifecycle action of a record is open: does the instance stay?
    /// Answered by [`Input::Contradiction`](super::Input::Contradiction), twice at most.
    Contradiction {
        /// The node that is drained.
        node: NodeName,
        /// The Node's UID.
        uid: String,
        /// The node's instance.
        instance: InstanceId,
        /// The groups that the actions name.
        groups: BTreeSet<GroupName>,
    },
    /// Does the Auto Scaling group of this node have a node that can take over its pods
    /// ([`crate::lifecycle::is_replaced`])? Answered by
    /// [`Input::ReplacementReady`](super::Input::ReplacementReady) once it does.
    Replacement {
        /// The node that is drained.
        node: NodeName,
        /// The Node's UID.
        uid: String,
        /// The node's instance.
        instance: InstanceId,
        /// The group that the interruptions name; `None`: they name none, and the instance's tag
        /// does.
        group: Option<GroupName>,
        /// When Sundown accepted the interruption.
        since: Moment,
    },
    /// In which Auto Scaling group is this instance? Answered by
    /// [`Input::GroupFound`](super::Input::GroupFound) once EC2 shows it.
    Group {
        /// The node that is drained.
        node: NodeName,
        /// The Node's UID.
        uid: String,
        /// The node's instance.
        instance: InstanceId,
    },
    /// Which volumes of drained pods are attached to these nodes? One LIST answers for all of them.
    /// Answered by [`Input::VolumesRead`](super::Input::VolumesRead).
    Volumes(BTreeMap<NodeName, VolumesOf>),
    /// Does the API server, too, show that the kubelet of this Node is silent? Answered by
    /// [`Input::SilentNodeRead`](super::Input::SilentNodeRead).
    SilentNode {
        /// The name of the Node.
        node: NodeName,
        /// The Node's UID.
        uid: String,
    },
    /// Does the instance of a node whose kubelet is silent stop, or has it stopped? Answered by
    /// [`Input::InstanceEnds`](super::Input::InstanceEnds) if so, and not at all otherwise.
    InstanceState {
        /// The node that is drained.
        node: NodeName,
        /// The node's instance.
        instance: InstanceId,
    },
    /// Read this Node from the API server. Answered by [`Input::NodeRead`](super::Input::NodeRead).
    Node(NodeName),
    /// Which labels with these keys do all namespaces have? Answered by
    /// [`Input::NamespacesRead`](super::Input::NamespacesRead).
    Namespaces(BTreeSet<String>),
    /// Does this DaemonSet exist? Answered by [`Input::DaemonSet`](super::Input::DaemonSet).
    DaemonSet {
        /// The node whose drain asks.
        node: NodeName,
        /// The DaemonSet's namespace.
        namespace: String,
        /// The DaemonSet's name.
        name: String,
    },
}

/// Which volumes of a node are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumesOf {
    /// The Node's UID.
    pub uid: String,
    /// Pods that stay on the node and have PersistentVolumeClaims: their volumes do not count.
    pub staying: BTreeSet<PodUid>,
}

/// How a leader knows a lifecycle action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// This leader has just received its event.
    Received,
    /// A record names it that another leader has written.
    TakenOver,
}

/// What is written on a Node whose record was lost or replaced.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordRestoration {
    /// The record, which was deleted from the Node.
    WriteBack(Box<Record>),
    /// The record, its [`kept_annotations`](crate::record::kept_annotations), the cordon and the
    /// taint: the instance's former Node was deleted, and the instance has registered again.
    Register(InstanceId, Box<Record>, Vec<(&'static str, String)>),
    /// The interruptions of this record, which the next interruption has replaced instead of
    /// joining it. They are added to the new record.
    CarryOver(Box<Record>),
}

/// Identifies a completion within one term.
pub type CompletionId = u64;

/// The completion of a drain that has ended: the lifecycle actions to complete, and what to write
/// into the record.
#[derive(Debug)]
pub struct Completion {
    /// The ID for [`Effect::CompleteFrom`] and [`Effect::CompleteNow`]; `None` if it begins at
    /// once.
    pub id: Option<CompletionId>,
    /// When it may begin; `None`: not before [`Effect::CompleteFrom`] or [`Effect::CompleteNow`].
    pub from: Option<Moment>,
    /// The Node, its instance and its record as the drain last knew them. The Node may have lost
    /// the record since.
    pub drain: LastKnownNode,
    /// The interruptions in the record, with all times on our clock.
    pub interruptions: Vec<InterruptionFacts>,
    /// The lifecycle actions to complete.
    pub actions: Vec<LifecycleAction>,
    /// How the drain ended ([`crate::drain::Outcome::as_str`]).
    pub outcome: &'static str,
    /// The drain has failed ([`crate::drain::Outcome::has_failed`]).
    pub has_failed: bool,
    /// The Node does not exist: nothing is written.
    pub is_node_deleted: bool,
    /// Why the drain ended. Decides whether the Node is restored.
    pub end_reason: EndReason,
    /// IDs of events that were disproved. With [`EndReason::NothingHolds`], the Node is restored
    /// only if the record has no others.
    pub disproved: BTreeSet<String>,
    /// Lifecycle actions that are also open in drains of other Nodes of the instance.
    pub shared: BTreeSet<LifecycleAction>,
}

/// The effects of one step, in their order.
#[derive(Debug, Default)]
pub(super) struct Effects(Vec<Effect>);

impl Effects {
    pub(super) fn push(&mut self, effect: Effect) {
        self.0.push(effect);
    }

    pub(super) fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.0)
    }

    pub(super) fn report(&mut self, node: &NodeName, event: DrainEvent) {
        self.push(Effect::Report(node.clone(), Box::new(event)));
    }

    pub(super) fn report_of_fleet(&mut self, event: FleetEvent) {
        self.push(Effect::ReportFleet(event));
    }

    pub(super) fn watch_pods(&mut self, node: &NodeName) {
        self.push(Effect::WatchPods(node.clone()));
    }

    pub(super) fn unwatch_pods(&mut self, node: &NodeName) {
        self.push(Effect::UnwatchPods(node.clone()));
    }

    pub(super) fn deadline_is(&mut self, node: &NodeName, end: Option<Moment>) {
        self.push(Effect::DeadlineIs(node.clone(), end));
    }

    pub(super) fn stop_keep_alive(&mut self, hook: &LifecycleAction) {
        self.push(Effect::StopKeepAlive(hook.clone()));
    }

    /// Completes these lifecycle actions of a Node that was deleted.
    pub(super) fn complete_deleted(
        &mut self,
        deleted: LastKnownNode,
        interruptions: Vec<InterruptionFacts>,
        actions: Vec<LifecycleAction>,
    ) {
        self.push(Effect::Complete(Box::new(Completion {
            id: None,
            from: None,
            drain: deleted,
            interruptions,
            actions,
            outcome: crate::drain::Outcome::NodeGone.as_str(),
            has_failed: false,
            is_node_deleted: true,
            end_reason: EndReason::InstanceGoes,
            disproved: BTreeSet::new(),
            shared: BTreeSet::new(),
        })));
    }
}
