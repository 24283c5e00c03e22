//! What happens to drains, as values.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    domain::{InstanceId, Interruption, LifecycleAction, Moment, Node, NodeName, Taken},
    drain::{BlockReason, Class, Note, Order, Outcome, Status},
    lifecycle::Skew,
    record::VoidReason,
};

/// One thing that happens to a node under interruption, to its drain or to its record. The
/// controller says which log line, metric, Kubernetes Event, notification and part of a trace each
/// one becomes.
#[derive(Debug)]
pub enum DrainEvent {
    /// An interruption was accepted: the record is on the Node.
    Accepted(Box<AcceptedInterruption>),
    /// A drain begins, or this leader takes it over.
    Began(Box<Begin>),
    /// The drain has a deadline, or another one than before.
    DeadlineSet {
        /// The drain ends then; `None`: nothing ends it.
        ends: Option<Moment>,
        /// Pods are forced towards this moment; `None`: none is forced.
        forces: Option<Moment>,
    },
    /// The API server has answered an eviction or a delete.
    Answered {
        /// What was sent.
        order: Order,
        /// The kind of answer.
        class: Class,
        /// What the API server said.
        message: String,
    },
    /// The drain itself says something.
    Noted(Note),
    /// How the drain stands, a few times a second.
    Status(Status),
    /// Only Sundown's own pod is left.
    OnlyOwnPodLeft,
    /// A person uncordoned the node.
    Uncordoned,
    /// The annotation that pauses one drain came (`true`) or went (`false`).
    PauseAnnotation(bool),
    /// The drain is paused.
    Paused {
        /// All drains are paused, not only this one.
        all: bool,
    },
    /// The drain goes on after a pause.
    Resumed {
        /// When it ends at the latest.
        ends: Option<Moment>,
    },
    /// Pods have not gone for a while. The text names them and what blocks them.
    Blocked(String),
    /// A heartbeat has kept these lifecycle actions open.
    HooksKeptOpen(Vec<LifecycleAction>),
    /// A person asked for the release of the node.
    ReleaseRequested,
    /// A person deleted the record a second time, which ends the drain.
    RecordDeletedAgain,
    /// The node is not Sundown's to drain any more.
    NoLongerManaged {
        /// The reason: the annotation sundown.dev/ignore. Otherwise the node selector.
        is_ignored: bool,
    },
    /// The node selector does not take a node with an open record.
    LeftAlone,
    /// The Node shows that another leader or a person has ended the drain.
    EndedElsewhere {
        /// What the Node shows.
        why: &'static str,
    },
    /// A stale interruption was proved.
    Proved,
    /// A stale interruption was disproved, and others of the node may hold.
    DisprovedOne,
    /// Every interruption of the node was disproved.
    Disproved,
    /// The instance is in service again, without a new boot.
    InstanceReturned,
    /// Nothing is heard from the kubelet.
    KubeletSilent,
    /// The kubelet is heard again, or its silence counts for nothing.
    KubeletHeard,
    /// A read of the Node shows that the kubelet is heard again.
    KubeletHeardByRead,
    /// Other nodes claim the same instance: the lifecycle action is completed after them.
    WaitsForOthers,
    /// The record cannot be read.
    RecordDamaged(String),
    /// The record does not count.
    RecordVoid {
        /// The instance that the record names.
        instance: InstanceId,
        /// Why it does not count.
        why: VoidReason,
    },
    /// The drain of a void record is over.
    EndedVoid {
        /// How long it took.
        took: Duration,
    },
    /// The record was deleted or replaced, and is written again.
    RecordRestored(&'static str),
    /// The instance registered again: its record is written on its new Node.
    Registered(InstanceId),
    /// The Node has Sundown's taint and no record.
    RecordLost {
        /// A person asked for its release.
        is_release_requested: bool,
    },
    /// The Node was deleted after its drain had ended. A lifecycle action that had joined since is
    /// completed from memory.
    CompletedFromMemory,
    /// The Node was deleted before this leader took over, or while its record was doubted. The
    /// actions of its record are completed; the last leader may have completed them already.
    CompletedOnceMore {
        /// The instance of the Node.
        instance: InstanceId,
        /// Auto Scaling was being asked whether the hook is open.
        is_doubted: bool,
    },
    /// The drain is over.
    Ended(Box<End>),
    /// A lifecycle action was completed, or is over, or is somebody else's.
    HookServed(LifecycleAction, HookEnd),
    /// These lifecycle actions need nothing more.
    HooksOver(Vec<LifecycleAction>),
    /// An interruption joined while the node was about to be put back.
    Reopened,
    /// The end of the drain is in the record.
    Released {
        /// How the drain ended.
        outcome: &'static str,
        /// The node was put back by the same patch.
        is_put_back: bool,
    },
    /// What Sundown had changed on the Node is put back.
    PutBack,
    /// The drain is history; what was collected for its trace is sent.
    Closed,
}

/// An interruption that was accepted.
#[derive(Debug)]
pub struct AcceptedInterruption {
    /// The interruption.
    pub interruption: Interruption,
    /// Its instance.
    pub instance: InstanceId,
    /// The Node with the record.
    pub node: Arc<Node>,
    /// When AWS says that it happened.
    pub happened: Moment,
    /// From then until now.
    pub lag: Duration,
    /// It joined an open record.
    pub joins: bool,
    /// What follows.
    pub follows: &'static str,
}

/// How a drain begins.
#[derive(Debug)]
pub struct Begin {
    /// The Node.
    pub node: Arc<Node>,
    /// Its instance.
    pub instance: InstanceId,
    /// What the record tells.
    pub taken: Vec<Taken>,
    /// When the first interruption was accepted.
    pub accepted: Moment,
    /// This leader accepted it. Otherwise the drain is taken over.
    pub is_ours: bool,
}

/// How a drain ended.
#[derive(Debug)]
pub struct End {
    /// How.
    pub outcome: Outcome,
    /// The pods of the node were listed before.
    pub pods_are_known: bool,
    /// From the accept to the end.
    pub took: Duration,
    /// The Node.
    pub node: Arc<Node>,
    /// Its instance.
    pub instance: InstanceId,
    /// What the record tells.
    pub taken: Vec<Taken>,
}

/// What became of a lifecycle action that was to be completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookEnd {
    /// AWS accepted the completion.
    Completed,
    /// It was over already.
    Over,
    /// It is somebody else's.
    NotOurs,
}

/// One thing that concerns many drains.
#[derive(Debug)]
pub enum FleetEvent {
    /// All drains are paused (`true`) or resumed (`false`).
    PausedAll(bool),
    /// AWS's clock is found to differ from ours by another amount than before.
    ClockDiffers {
        /// How many drains have new deadlines.
        drains: usize,
        /// The difference.
        skew: Skew,
    },
    /// Watches of pods have failed for a while.
    PodsNotWatched {
        /// One of the nodes.
        node: NodeName,
        /// How many nodes.
        nodes: usize,
        /// What its watch failed with.
        error: String,
    },
    /// So many drains go on, those included whose lifecycle actions are still being completed.
    Active(usize),
    /// How the pods of all drains stand, once a second.
    Counts(FleetCounts),
}

/// How the pods of all drains stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetCounts {
    /// Pods that are not asked to go yet, or of which nothing is known.
    pub waiting: usize,
    /// Pods that something keeps from going.
    pub blocked: usize,
    /// Pods that are terminating.
    pub terminating: usize,
    /// The blocked ones by what blocks them. Every reason is there.
    pub blocked_by: BTreeMap<BlockReason, usize>,
    /// Nodes whose own annotation pauses their drain.
    pub paused: usize,
}
