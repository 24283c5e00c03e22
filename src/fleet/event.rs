//! The events of drains: everything that is reported.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    domain::{
        EvictionStart, GateKind, HookResult, InstanceId, Interruption, InterruptionFacts,
        LifecycleAction, Moment, Node, NodeName, PaceHold, SettingInForce, SettingProblem,
    },
    drain::{BlockReason, Class, Note, Order, Outcome, Status},
    lifecycle::{IgnoredGate, Skew},
    record::{Refusal, VoidReason, Withdrawal},
};

/// One thing that happens to a node under interruption, to its drain or to its record.
/// `controller/report` turns it into log line, metric, Kubernetes Event, notification and trace.
#[derive(Debug)]
pub enum DrainEvent {
    /// An interruption was accepted: the record is on the Node.
    Accepted(Box<AcceptedInterruption>),
    /// A drain begins, or this leader takes it over.
    Began(Box<Begin>),
    /// Settings of the node or of its hook are not used: the drain goes on without them.
    SettingsIgnored(Vec<SettingProblem>),
    /// The drain has got its first deadline, or a new one.
    DeadlineSet {
        /// When the drain ends at the latest; `None`: it has no deadline.
        ends: Option<Moment>,
        /// By when forced pods are to be gone; `None`: no pod is forced.
        forces: Option<Moment>,
    },
    /// When the evictions of the drain begin has changed (`--evict-after`).
    EvictionsStart {
        /// When they begin.
        start: EvictionStart,
        /// The group has a node that can take over the pods.
        is_replaced: bool,
    },
    /// Gates hold the evictions of the drain, or the completion of its lifecycle actions.
    GatesHold {
        /// Which of both they hold.
        kind: GateKind,
        /// The annotations and their values.
        gates: String,
        /// Until when they hold at the latest.
        until: Moment,
    },
    /// Gates are on the Node, and the drain or the completion does not wait for them (any longer).
    GatesIgnored {
        /// What they were to hold.
        kind: GateKind,
        /// The annotations and their values.
        gates: String,
        /// Why it does not wait.
        why: IgnoredGate,
    },
    /// The last gate that held the drain or the completion was removed.
    GatesGone(GateKind),
    /// The evictions of the drain wait for other drains (`--max-drains-per-group`,
    /// `--max-voluntary`, and one control-plane node at a time).
    PaceHolds {
        /// Why.
        why: PaceHold,
        /// Until when at the latest.
        until: Moment,
    },
    /// They wait for no other drain any longer.
    PaceEnded {
        /// The limits allow that it begins. If `false`, it has waited for as long as it can, or
        /// something else has come that leaves no time.
        is_its_turn: bool,
    },
    /// A person forces the drain (`true`), or no longer (`false`).
    ForceOrder(bool),
    /// The API server has answered an eviction or a delete.
    Answered {
        /// The order that was sent.
        order: Order,
        /// The meaning of the answer.
        class: Class,
        /// `status.message` of the answer.
        message: String,
    },
    /// An event of the drain itself, mostly about one pod.
    Noted(Note),
    /// The current status of the drain, after a change: a few times a second at most.
    Status(Status),
    /// Of the pods to evict, only Sundown's own is left.
    OnlyOwnPodLeft,
    /// A person uncordoned the node.
    Uncordoned,
    /// The annotation that pauses one drain was set (`true`) or removed (`false`).
    PauseAnnotation(bool),
    /// The drain is paused.
    Paused {
        /// By what.
        by: super::PausedBy,
    },
    /// The drain goes on after a pause.
    Resumed {
        /// When the drain ends at the latest; `None`: it has no deadline.
        ends: Option<Moment>,
    },
    /// Pods have been blocked for a while. The text names them and what blocks them.
    Blocked(String),
    /// No pod is left, and the drain waits for volumes. The text names them.
    VolumesAttached(String),
    /// New pods of some owners still come back on the node and are left alone. The text names the
    /// owners.
    PodsComeBack(String),
    /// A heartbeat has kept these lifecycle actions open.
    HooksKeptOpen(Vec<LifecycleAction>),
    /// A person asked for the release of the node.
    ReleaseRequested,
    /// A person deleted the record a second time, which ends the drain.
    RecordDeletedAgain,
    /// Sundown no longer manages the node, which ends the drain.
    NoLongerManaged {
        /// The node has the annotation `sundown.dev/ignore`. If `false`, the node selector no
        /// longer matches it.
        is_ignored: bool,
    },
    /// The node selector does not match a node with an open record: Sundown does not drain it.
    LeftAlone,
    /// The Node shows that another leader or a person has ended the drain.
    EndedElsewhere {
        /// What the Node shows.
        why: &'static str,
    },
    /// A stale interruption was proved.
    Proved,
    /// A stale interruption was disproved. Others of the node may still hold.
    DisprovedOne,
    /// Every interruption of the node was disproved.
    Disproved,
    /// AWS has contradicted every lifecycle action of the record: the node is restored.
    Contradicted,
    /// AWS announced no interruption after a recommendation (`--rebalance-ttl`): the node is
    /// restored.
    RecommendationExpired,
    /// AWS canceled or moved a scheduled change.
    ChangeWithdrawn {
        /// Whether AWS canceled or moved it.
        why: Withdrawal,
        /// Nothing else holds, so the drain ends and the node is restored.
        nothing_holds: bool,
    },
    /// An annotation that asks for a drain is not obeyed.
    RequestRefused {
        /// Its key after the `/`.
        request: String,
        /// Why, and what to do.
        why: Refusal,
    },
    /// Requests for the drain are gone: their annotations were removed, or changed to something
    /// that is no request.
    RequestsWithdrawn {
        /// Who asked.
        names: Vec<String>,
        /// Nothing else holds, so the drain ends and the node is restored.
        nothing_holds: bool,
    },
    /// The sick instance is healthy again: the node is restored.
    Recovered,
    /// The instance is in service again, without a new boot.
    InstanceReturned,
    /// The node is to be restored, and `sundown.dev/keep-cordoned` holds that.
    RestoreHeld,
    /// The kubelet has been silent for a minute.
    KubeletSilent,
    /// The kubelet reports again, or its silence no longer counts
    /// ([`crate::drain::SilenceEvidence`]).
    KubeletReporting,
    /// A read of the Node shows that the kubelet reports again.
    KubeletReportingByRead,
    /// Other nodes claim the same instance: completion begins after their drains.
    WaitsForOthers,
    /// The record cannot be read. The text is the error.
    RecordDamaged(String),
    /// The record does not count.
    RecordVoid {
        /// The instance that the record names.
        instance: InstanceId,
        /// Why it does not count.
        why: VoidReason,
    },
    /// The drain of a void record has ended.
    EndedVoid {
        /// The time since this leader took the drain up.
        took: Duration,
    },
    /// The record was deleted or replaced, and is written again. The text is the reason.
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
    /// The drain has ended. Its completion follows.
    Ended(Box<End>),
    /// The completion of one lifecycle action is done.
    ActionEnded(LifecycleAction, ActionEnd),
    /// These lifecycle actions are no longer open.
    ActionsClosed(Vec<LifecycleAction>),
    /// An interruption joined while the node was about to be restored: its drain goes on.
    Reopened,
    /// The end of the drain is written into the record.
    Released {
        /// How the drain ended ([`Outcome::as_str`]).
        outcome: &'static str,
        /// The same patch has restored the node.
        is_restored: bool,
    },
    /// What Sundown had changed on the Node is undone.
    NodeRestored,
    /// The fleet has forgotten the drain: no more events of it follow, and its trace can be sent.
    Forgotten,
}

/// An interruption that was accepted.
#[derive(Debug)]
pub struct AcceptedInterruption {
    /// The interruption, as the message has it.
    pub interruption: Interruption,
    /// The instance of the Node.
    pub instance: InstanceId,
    /// The Node with the record.
    pub node: Arc<Node>,
    /// When the interruption happened according to AWS, on our clock.
    pub happened: Moment,
    /// The time from `happened` to the accept.
    pub lag: Duration,
    /// The interruption joined an open record.
    pub joins: bool,
    /// What Sundown does next, for the log and the Event.
    pub follows: &'static str,
    /// The settings in force that come from its hook or from the Node.
    pub settings: Vec<SettingInForce>,
}

/// How a drain begins.
#[derive(Debug)]
pub struct Begin {
    /// The Node with the record.
    pub node: Arc<Node>,
    /// The instance of the Node.
    pub instance: InstanceId,
    /// The interruptions in the record, with all times on our clock.
    pub interruptions: Vec<InterruptionFacts>,
    /// When the first interruption was accepted.
    pub accepted: Moment,
    /// The first interruption was accepted in this term. If `false`, the drain is taken over.
    pub began_here: bool,
}

/// How a drain ended.
#[derive(Debug)]
pub struct End {
    /// Why the drain ended, and which pods are left.
    pub outcome: Outcome,
    /// The pods of the node were listed at least once.
    pub pods_are_known: bool,
    /// How many pods were left alone because they ask for it, or because a rule says so.
    pub skipped: usize,
    /// The time from the first accept to the end.
    pub took: Duration,
    /// The Node as the drain last saw it.
    pub node: Arc<Node>,
    /// The instance of the Node.
    pub instance: InstanceId,
    /// The interruptions in the record, with all times on our clock.
    pub interruptions: Vec<InterruptionFacts>,
}

/// How the completion of a lifecycle action ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionEnd {
    /// AWS accepted the completion, with this result.
    Completed(HookResult),
    /// AWS reports that the action is not open: it timed out, or somebody else completed it.
    AlreadyClosed,
    /// Another party answers this hook: Sundown does not complete it.
    NotOurs,
}

/// One thing that concerns many drains.
#[derive(Debug)]
pub enum FleetEvent {
    /// All drains are paused (`true`) or resumed (`false`).
    PausedAll(bool),
    /// The measured difference between AWS's clock and ours has changed.
    ClockDiffers {
        /// The number of drains whose deadlines are derived anew.
        drains: usize,
        /// The new difference between the clocks.
        skew: Skew,
    },
    /// Watches of pods have failed for a while.
    PodsNotWatched {
        /// One of the nodes.
        node: NodeName,
        /// The number of nodes whose watch fails.
        nodes: usize,
        /// The error of the watch of `node`.
        error: String,
    },
    /// The labels of namespaces, which rules about pods read, cannot be read: the error.
    NamespacesUnknown(String),
    /// They can be read again.
    NamespacesKnown,
    /// The number of drains, those included whose completion is under way.
    Active(usize),
    /// The numbers of pods in all drains, once a second.
    Counts(FleetCounts),
}

/// The numbers of pods in all drains that go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetCounts {
    /// Pods that were not evicted yet, or whose DaemonSet was not looked up yet.
    pub waiting: usize,
    /// Pods whose eviction is refused or intercepted, or that are stuck.
    pub blocked: usize,
    /// Pods that are evicted or terminating.
    pub terminating: usize,
    /// The blocked pods, by reason. Every reason has an entry.
    pub blocked_by: BTreeMap<BlockReason, usize>,
    /// Nodes whose own annotation pauses their drain.
    pub paused: usize,
    /// Drains that wait for other drains.
    pub held_back: usize,
}
