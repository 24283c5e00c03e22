//! Settings of a drain, and its inputs.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::Order;
use crate::domain::{
    ApiAnswer, DaemonSetName, DaemonSetState, ForceAfter, Limits, Moment, NamespaceLabels,
    NodeName, Pod, PodKey, PodOrder, PodRules, PodUid, VolumesSeen, WishSource, seconds,
};

/// Settings that are the same for every drain.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// When a pod whose eviction is refused is deleted instead.
    pub force: ForceAfter,
    /// In which order the pods are evicted.
    pub order: PodOrder,
    /// DaemonSets whose pods are evicted. The pods of all others stay.
    pub drained_daemon_sets: BTreeSet<DaemonSetName>,
    /// The keys of other tools by which pods may ask for something.
    pub honored: BTreeSet<WishSource>,
    /// The administrator's rules about pods.
    pub rules: Arc<PodRules>,
    /// The labels of namespaces that the rules read, as far as they are known.
    pub namespaces: Arc<NamespaceLabels>,
    /// How long a pod waits for the labels of its namespace. After that, a rule that reads them
    /// does not match it.
    pub namespace_wait: Duration,
    /// The drain of an empty node ends this long after its cordon at the earliest, because pods
    /// that were being bound to the node still arrive.
    pub min_drain: Duration,
    /// How long the drain waits for the pods of an unreachable node.
    pub unreachable_wait: Duration,
    /// A pod whose eviction was accepted this long ago, and that still has no deletion time, counts
    /// as intercepted by a webhook.
    pub intercepted_after: Duration,
    /// How long after an accepted eviction an intercepted pod is evicted again.
    pub evict_again_after: Duration,
    /// A pod that has been blocked for this long is reported
    /// ([`Note::Blocked`](super::Note::Blocked)).
    pub report_blocked_after: Duration,
    /// A pod that still exists this long after its deletion time counts as stuck.
    pub stuck_after: Duration,
    /// If an answer reported a pod gone and the watch has not confirmed that within this time, the
    /// drain lists the pods again. Also the shortest time between two such LISTs.
    pub relist_after: Duration,
    /// How long a watch that was just opened may take to deliver earlier events.
    pub caught_up_after: Duration,
    /// Time between two LISTs while the watch is not open and pods are left.
    pub blind_relist_after: Duration,
    /// The grace period of a terminating pod is shortened only if the pod would outlive the
    /// deadline by more than this: API servers round to seconds, and clocks differ.
    pub shorten_slack: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            force: ForceAfter::default(),
            order: PodOrder::default(),
            drained_daemon_sets: BTreeSet::new(),
            honored: BTreeSet::new(),
            rules: Arc::default(),
            namespaces: Arc::default(),
            namespace_wait: seconds(3),
            min_drain: seconds(5),
            unreachable_wait: seconds(30),
            intercepted_after: seconds(5),
            evict_again_after: seconds(30),
            report_blocked_after: seconds(30),
            stuck_after: seconds(60),
            relist_after: seconds(5),
            caught_up_after: seconds(1),
            blind_relist_after: seconds(10),
            shorten_slack: seconds(2),
        }
    }
}

impl Settings {
    /// The number of groups in which pods are evicted, without those that ask to go last.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.rules.groups().unwrap_or_else(|| self.order.groups())
    }
}

/// What a drain needs when it begins: at the accept, or when another leader takes it over.
#[derive(Debug, Clone)]
pub struct Start {
    /// `metadata.name` of the Node.
    pub node: NodeName,
    /// When the node was cordoned. [`Settings::min_drain`] counts from then.
    pub cordoned_at: Moment,
    /// Deadline and urgency; [`Input::Limits`] replaces them.
    pub limits: Limits,
    /// Sundown's own pod, if it may run on this node: it is evicted last.
    pub own_pod: Option<PodKey>,
}

/// What happened: the inputs of [`Drain::step`](super::Drain::step).
#[derive(Debug, Clone)]
pub enum Input {
    /// All pods of the node, after the watch was opened or reopened. A pod that is not in the list
    /// is gone.
    Listed(Vec<Pod>),
    /// A pod appeared or changed.
    Changed(Pod),
    /// A pod is no longer in the API.
    Gone(PodUid),
    /// State of the watch of the node's pods. Until the first such input it counts as open.
    Watch(WatchState),
    /// The answer to [`Effect::AskDaemonSet`](super::Effect::AskDaemonSet).
    DaemonSet {
        /// Namespace of the DaemonSet.
        namespace: String,
        /// `metadata.name` of the DaemonSet.
        name: String,
        /// Whether it exists. `Unreadable` if that could not be found out.
        state: DaemonSetState,
    },
    /// New deadline or urgency.
    Limits(Limits),
    /// New settings: the rules about pods have changed.
    Settings(Arc<Settings>),
    /// The drain is paused: it evicts and deletes nothing. The deadline stays, but neither forces a
    /// delete nor ends the drain. The drain of an empty node still ends.
    Paused,
    /// The pause is over. The caller computes the limits anew: a deadline that passed during the
    /// pause no longer applies.
    Resumed(Limits),
    /// The node or its instance changed.
    Node(NodeCondition),
    /// The API server answered an order, or no answer came in time (code 0).
    Answer {
        /// The order from [`Drain::order`](super::Drain::order).
        order: Order,
        /// The answer, also passed to [`classify`](super::classify).
        answer: ApiAnswer,
    },
    /// An answer to [`Effect::AskVolumes`](super::Effect::AskVolumes).
    Volumes(VolumesSeen),
    /// The drain need not wait for volumes: the answer to
    /// [`Effect::AskVolumes`](super::Effect::AskVolumes).
    NoVolumes,
    /// The drain ends now: a person released the node, or its interruption was disproved.
    Release,
    /// The drain ends now: AWS has contradicted what it is for.
    Contradicted,
    /// Sent at [`Drain::next_wake`](super::Drain::next_wake).
    Tick,
}

/// State of the watch of a node's pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchState {
    /// The watch delivers every change since the last LIST.
    Open,
    /// The watch is not open: changes since the last LIST are unknown.
    Blind,
}

/// Condition of a node or its instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeCondition {
    /// The node exists and its kubelet reports.
    Fine,
    /// The kubelet has been silent for too long, by the rule of [`is_silent`](super::is_silent), so
    /// the drain waits only [`Settings::unreachable_wait`] more for the pods.
    Unreachable,
    /// The kubelet is still silent according to a fresh GET of the Node: the answer to
    /// [`Effect::AskNode`](super::Effect::AskNode).
    StillUnreachable,
    /// The Node object was deleted.
    Deleted,
    /// EC2 reports the instance as stopped or terminated.
    InstanceOver,
}
