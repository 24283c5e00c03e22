//! What the fleet wants done.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{DeletedNode, DrainEvent, FleetEvent};
use crate::{
    domain::{InstanceId, LifecycleAction, Moment, Node, NodeName, Taken},
    drain::Order,
    record::{EndReason, Record},
};

/// What the fleet wants done. Effects are performed in their order, and none of them is waited for:
/// what comes of one arrives as an [`Input`](super::Input).
#[derive(Debug)]
pub enum Effect {
    /// Something has happened that people may want to know.
    Report(NodeName, Box<DrainEvent>),
    /// The same, of many drains.
    ReportFleet(FleetEvent),
    /// Watch the pods of this node. One that is watched is listed anew.
    WatchPods(NodeName),
    /// The pods of this node are not looked at any more.
    UnwatchPods(NodeName),
    /// Send an eviction or a delete.
    Send {
        /// The node whose drain gives the order.
        node: NodeName,
        /// What to send.
        order: Order,
        /// An eviction that has no answer after this is given up.
        patience: Duration,
    },
    /// Find something out.
    Ask(Question),
    /// Nobody waits any more for whether the stale interruptions of this node hold.
    StopVerifying(NodeName),
    /// Nobody waits any more for [`Question::SilentNode`] of this node.
    StopReadingSilent(NodeName),
    /// Send heartbeats for a lifecycle action that a record names.
    KeepAlive {
        /// The action.
        hook: LifecycleAction,
        /// When its interruption happened.
        event: Moment,
        /// How this leader came by it.
        origin: Origin,
    },
    /// Send no more heartbeats for an action, and do not complete it.
    StopKeepAlive(LifecycleAction),
    /// Write a record on a Node, and try until that is done or not needed any more.
    Restore(Arc<Node>, Restoration),
    /// Take away from a Node what is Sundown's: its record does not count.
    PutBack(Arc<Node>),
    /// Take a node out of load balancers, if there is room ([`crate::record::LabelRoom`]).
    Exclude(Arc<Node>),
    /// Complete the lifecycle actions of a drain that has ended, and write its end into the record.
    Complete(Box<Completion>),
    /// When a completion may begin has changed. `None`: not while another Node that claims the
    /// instance is drained.
    CompleteFrom(CompletionId, Option<Moment>),
    /// Nothing holds back a completion any more: its drain is forgotten.
    CompleteNow(CompletionId),
    /// Nothing is open any more of a Node that was deleted: its UID.
    ForgetDeletedNode(String),
    /// A drain ends then at the latest; `None`: nothing ends it, or it is over.
    DeadlineIs(NodeName, Option<Moment>),
    /// All drains are paused or resumed.
    PausedAll(bool),
}

/// A question whose answer arrives as an input.
#[derive(Debug)]
pub enum Question {
    /// Which instance is this Node, which has no providerID? Answered by
    /// [`Input::Named`](super::Input::Named) or [`Input::NotNamed`](super::Input::NotNamed).
    InstanceOf(Arc<Node>),
    /// Is one of these lifecycle actions of a record of an earlier boot open?
    /// [`Input::Doubt`](super::Input::Doubt).
    OpenHooks {
        /// The Node.
        node: Arc<Node>,
        /// The actions, and when their interruptions happened.
        hooks: Vec<(LifecycleAction, Moment)>,
    },
    /// Does this stale interruption hold? [`Input::Proof`](super::Input::Proof).
    Verify {
        /// The node.
        node: NodeName,
        /// Its instance.
        instance: InstanceId,
        /// The interruption.
        taken: Box<Taken>,
    },
    /// What does the API server say of this Node, whose kubelet is silent?
    /// [`Input::SilentNodeRead`](super::Input::SilentNodeRead).
    SilentNode {
        /// Its name.
        node: NodeName,
        /// Its UID.
        uid: String,
    },
    /// Does the instance of a silent node end? [`Input::InstanceEnds`](super::Input::InstanceEnds),
    /// if it does.
    InstanceState {
        /// The node.
        node: NodeName,
        /// The instance.
        instance: InstanceId,
    },
    /// What does the API server say of this Node? [`Input::NodeRead`](super::Input::NodeRead).
    Node(NodeName),
    /// Is this DaemonSet there? [`Input::DaemonSet`](super::Input::DaemonSet).
    DaemonSet {
        /// The node whose drain asks.
        node: NodeName,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// How a leader comes by a lifecycle action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Its event was received just now.
    Received,
    /// Another leader left it.
    TakenOver,
}

/// What is written on a Node whose record was lost or replaced.
#[derive(Debug, Clone, PartialEq)]
pub enum Restoration {
    /// The record that was deleted.
    BringBack(Box<Record>),
    /// The record of the same instance's Node that was deleted, with the cordon and the taint.
    Register(InstanceId, Box<Record>),
    /// Into the fresh record of the next interruption: what this one says and the fresh one lacks.
    CarryOver(Box<Record>),
}

/// Names one completion of a term.
pub type CompletionId = u64;

/// The end of a drain: what is completed, and what is written.
#[derive(Debug)]
pub struct Completion {
    /// Its name, for [`Effect::CompleteFrom`] and [`Effect::CompleteNow`]; `None`: it begins at
    /// once.
    pub id: Option<CompletionId>,
    /// When it may begin; `None`: not yet.
    pub from: Option<Moment>,
    /// The Node, its instance and its record as the drain knew them: the Node may have lost the
    /// record.
    pub drain: DeletedNode,
    /// What the record tells.
    pub taken: Vec<Taken>,
    /// The lifecycle actions that are completed.
    pub actions: Vec<LifecycleAction>,
    /// How the drain ended.
    pub outcome: &'static str,
    /// The Node is gone: nothing is written.
    pub node_gone: bool,
    /// Why the drain ended.
    pub end_reason: EndReason,
    /// Events that were disproved: only where the record holds no other is the Node put back.
    pub disproved: BTreeSet<String>,
    /// Lifecycle actions that drains of other Nodes of the instance owe too.
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
        gone: DeletedNode,
        taken: Vec<Taken>,
        actions: Vec<LifecycleAction>,
    ) {
        self.push(Effect::Complete(Box::new(Completion {
            id: None,
            from: None,
            drain: gone,
            taken,
            actions,
            outcome: crate::drain::Outcome::NodeGone.as_str(),
            node_gone: true,
            end_reason: EndReason::InstanceGoes,
            disproved: BTreeSet::new(),
            shared: BTreeSet::new(),
        })));
    }
}
