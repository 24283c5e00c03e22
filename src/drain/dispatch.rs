//! The dispatcher over all drains, which alone lets orders go.

use std::{sync::Arc, time::Duration};

use super::{Class, Turn};
use crate::domain::{Budget, BudgetKey, Moment, NodeName, Pod, PodUid, seconds};

/// What the dispatcher keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DispatchSettings {
    /// Evictions under way at any time, and a quarter more if these are deletes. Requests of lanes
    /// that have had no answer for a second do not count, as long as no more than twice as many are
    /// under way in all.
    pub in_flight: usize,
    /// Evictions under way under one budget, however much it allows.
    pub per_budget: usize,
    /// Requests under way in a lane (a budget, a namespace's other pods, a namespace's deletes)
    /// before its first answer. Each answer adds three; one that does not come in time brings the
    /// lane back to this.
    pub first: usize,
    /// Evictions of a burst wait until no interruption has come in for this long…
    pub burst_quiet: Duration,
    /// …at the latest this long after its first accept, if one of it is urgent…
    pub burst_urgent: Duration,
    /// …or this long, if none is.
    pub burst_relaxed: Duration,
    /// How long a refused pod waits for what could help before it is tried again anyway, ± 50 %.
    pub probe: Duration,
    /// For the jitter.
    pub seed: u64,
}

impl Default for DispatchSettings {
    fn default() -> Self {
        Self {
            in_flight: 32,
            per_budget: 8,
            first: 1,
            burst_quiet: Duration::from_millis(200),
            burst_urgent: Duration::from_millis(800),
            burst_relaxed: seconds(2),
            probe: seconds(30),
            seed: 0,
        }
    }
}

/// How a pod is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// By an eviction, when it is its turn.
    Eviction,
    /// By a delete, which waits for no budget and for no burst; but no eviction of it was sent yet,
    /// and if one can be sent at its turn, that goes instead.
    EvictionOrDelete,
    /// By a delete, which waits for no budget and for no burst.
    Delete,
}

impl By {
    /// It waits among the deletes.
    #[must_use]
    pub const fn is_delete(self) -> bool {
        matches!(self, Self::EvictionOrDelete | Self::Delete)
    }
}

/// What the dispatcher is told. Those marked † come from drains, as
/// [`Effect::Dispatch`](super::Effect::Dispatch).
#[derive(Debug, Clone, PartialEq)]
pub enum DispatchInput {
    /// † An order is wanted for this pod. Again for a pod that is known: what changed of it.
    Want {
        /// Its node.
        node: NodeName,
        /// The pod.
        pod: Arc<Pod>,
        /// By what.
        by: By,
    },
    /// † No order is wanted for this pod any more.
    Unwant {
        /// The pod.
        uid: PodUid,
    },
    /// † The place of a drain among all.
    Turn {
        /// Its node.
        node: NodeName,
        /// Its place.
        turn: Turn,
    },
    /// † The drain is over (or dropped, at the loss of leadership): everything of it is forgotten
    /// but what is under way.
    Closed {
        /// Its node.
        node: NodeName,
    },
    /// What an order that was let go brought.
    Answer {
        /// The pod.
        uid: PodUid,
        /// What the answer means.
        class: Class,
    },
    /// An order that was let go was not wanted any more, and not sent.
    Withdrawn {
        /// The pod.
        uid: PodUid,
    },
    /// A disruption budget appeared or changed.
    Budget(Budget),
    /// A disruption budget was deleted.
    BudgetGone(BudgetKey),
    /// The drain of one node is paused or resumed; said after its drain was closed, it must be said
    /// again to the next one.
    Paused {
        /// The node.
        node: NodeName,
        /// On.
        paused: bool,
    },
    /// All drains are paused or resumed. The drains are told as well, each by
    /// [`Input::Paused`](super::Input::Paused): they neither force nor end by their deadline then.
    PausedAll(bool),
    /// An interruption was received and is not decided yet.
    Arrived,
    /// An interruption that arrived is decided, or its accept has failed once. As often as
    /// [`DispatchInput::Arrived`].
    Settled,
    /// An interruption of this node was accepted. A node that this is not said of (taken over from
    /// another leader) waits for no burst.
    Accepted {
        /// The node.
        node: NodeName,
        /// See [`Limits::urgent`](crate::domain::Limits::urgent).
        urgent: bool,
    },
    /// Time has passed.
    Tick,
}

/// What the dispatcher wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DispatchEffect {
    /// This pod's order goes now.
    Go {
        /// Its node.
        node: NodeName,
        /// The pod.
        uid: PodUid,
        /// An eviction was asked for, or there is room for one.
        evict: bool,
    },
}

/// What the dispatcher says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DispatchStatus {
    /// Orders under way.
    pub in_flight: usize,
    /// Pods for which an order is wanted and not under way.
    pub waiting: usize,
    /// Interruptions received and not decided.
    pub undecided: u64,
    /// Nodes that wait for their burst to be over.
    pub held: usize,
    /// Nothing is sent before this: the API server has too much to do.
    pub overloaded_until: Option<Moment>,
}
