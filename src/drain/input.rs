//! What a drain is told.

use std::time::Duration;

use super::Order;
use crate::domain::{
    ApiAnswer, DaemonSetState, ForceAfter, Limits, Moment, NodeName, Pod, PodKey, PodUid, seconds,
};

/// What is the same for every drain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// When a pod that may not be evicted is deleted instead.
    pub force: ForceAfter,
    /// An empty node is drained only this long after its cordon: pods that were being bound to it
    /// still arrive.
    pub min_drain: Duration,
    /// How long the pods of an unreachable node are waited for.
    pub unreachable_wait: Duration,
    /// How long after its eviction was accepted a pod may stay without a deletion time before it
    /// counts as intercepted by a webhook.
    pub intercepted_after: Duration,
    /// How long after its eviction was accepted an intercepted pod is asked again.
    pub ask_again: Duration,
    /// How long a pod may be refused before it is told aloud
    /// ([`Note::Blocked`](super::Note::Blocked)).
    pub tell_blocked_after: Duration,
    /// How long after its deletion time a pod that is still there counts as stuck.
    pub stuck_after: Duration,
    /// How long after the server said that a pod is gone the watch may take to say so before the
    /// pods are listed anew, and how far apart two such LISTs are.
    pub relist_after: Duration,
    /// How long after it was opened the watch may take to tell what happened before.
    pub caught_up_after: Duration,
    /// How far apart LISTs are while the watch is not open and pods are left.
    pub blind_relist_after: Duration,
    /// A terminating pod is shortened only if it would outlive the deadline by more than this: API
    /// servers round to seconds, and clocks differ.
    pub shorten_slack: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            force: ForceAfter::default(),
            min_drain: seconds(5),
            unreachable_wait: seconds(30),
            intercepted_after: seconds(5),
            ask_again: seconds(30),
            tell_blocked_after: seconds(30),
            stuck_after: seconds(60),
            relist_after: seconds(5),
            caught_up_after: seconds(1),
            blind_relist_after: seconds(10),
            shorten_slack: seconds(2),
        }
    }
}

/// A drain at its take-up.
#[derive(Debug, Clone)]
pub struct Start {
    /// The node.
    pub node: NodeName,
    /// When it was cordoned: [`Settings::min_drain`] counts from then.
    pub cordoned_at: Moment,
    /// What rules now.
    pub limits: Limits,
    /// Our own pod, if it may be on this node: it goes last.
    pub own_pod: Option<PodKey>,
}

/// What a drain is told.
#[derive(Debug, Clone)]
pub enum Input {
    /// All pods of the node, after the watch was attached or began anew: those that are not in it
    /// are gone.
    Listed(Vec<Pod>),
    /// A pod appeared or changed.
    Changed(Pod),
    /// A pod is no longer in the API.
    Gone(PodUid),
    /// How the watch of the pods does. As long as nothing is said of it, it counts as open.
    Watch(WatchState),
    /// The answer to [`Effect::AskDaemonSet`](super::Effect::AskDaemonSet).
    DaemonSet {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// What is known of it.
        state: DaemonSetState,
    },
    /// What rules from now on.
    Limits(Limits),
    /// The drain is paused: no new evictions, no force. The deadline stands, but neither forces nor
    /// ends; an empty node still ends.
    Paused,
    /// The pause is over. That is a take-up, so the limits are computed anew (a deadline that
    /// passed meanwhile is void).
    Resumed(Limits),
    /// What became of the node or its instance.
    Node(NodeCondition),
    /// The answer to an order that was sent.
    Answer {
        /// What was sent.
        order: Order,
        /// What came back.
        answer: ApiAnswer,
    },
    /// The drain ends now: by hand, or because its interruption was disproved.
    Release,
    /// Time has passed.
    Tick,
}

/// How the watch of a node's pods does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchState {
    /// What was listed is kept up to date.
    Open,
    /// Not open (yet, or any more): nothing is known of changes since the last LIST.
    Blind,
}

/// What became of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeCondition {
    /// Nothing special.
    Fine,
    /// Nothing was heard from its kubelet for so long that waiting for pods makes no sense (the
    /// rule is the caller's).
    Unreachable,
    /// The same by the Node as it was read past the index: the answer to
    /// [`Effect::AskNode`](super::Effect::AskNode).
    StillUnreachable,
    /// The Node object is gone.
    Deleted,
    /// EC2 says that its instance is stopped or terminated.
    InstanceOver,
}
