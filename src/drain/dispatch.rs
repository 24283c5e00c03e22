//! Settings, inputs and effects of the dispatcher.

use std::{sync::Arc, time::Duration};

use super::{Class, NodePriority};
use crate::domain::{Budget, BudgetKey, Moment, NodeName, Pod, PodUid, seconds};

/// Limits and waits of the dispatcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DispatchSettings {
    /// Evictions in flight at any time, and a quarter more if these are deletes. Requests in queues
    /// that have had no answer for a second do not count, as long as no more than twice as many are
    /// in flight in all.
    pub in_flight: usize,
    /// Evictions in flight under one budget, however many the budget allows.
    pub per_budget: usize,
    /// Requests in flight in a request queue (a budget, a namespace's other pods, a namespace's
    /// deletes) before its first answer. Each answer adds three. A request that times out brings
    /// the queue back to this number.
    pub initial_window: usize,
    /// Evictions of a burst of interruptions wait until no interruption has come in for this long.
    /// `burst_urgent` and `burst_relaxed` limit that wait.
    pub burst_quiet: Duration,
    /// The evictions of a burst begin this long after its first accept at the latest, if an
    /// interruption in it is urgent.
    pub burst_urgent: Duration,
    /// The same if no interruption in the burst is urgent.
    pub burst_relaxed: Duration,
    /// A refused pod is retried after this time, ± 50 %, even if nothing has changed that could
    /// help.
    pub probe: Duration,
    /// Seed for the jitter of retries.
    pub seed: u64,
}

impl Default for DispatchSettings {
    fn default() -> Self {
        Self {
            in_flight: 32,
            per_budget: 8,
            initial_window: 1,
            burst_quiet: Duration::from_millis(200),
            burst_urgent: Duration::from_millis(800),
            burst_relaxed: seconds(2),
            probe: seconds(30),
            seed: 0,
        }
    }
}

/// How a pod is to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// By an eviction, which waits for its budget and its burst.
    Eviction,
    /// By a delete, which waits neither for a budget nor for a burst. No eviction of the pod was
    /// sent yet: if one can be sent at that moment, it is sent instead.
    EvictionOrDelete,
    /// By a delete, which waits neither for a budget nor for a burst.
    Delete,
}

impl Method {
    /// Whether the pod waits in the queue of deletes of its namespace.
    #[must_use]
    pub const fn is_delete(self) -> bool {
        matches!(self, Self::EvictionOrDelete | Self::Delete)
    }
}

/// Inputs of [`Dispatcher::step`](super::Dispatcher::step). Those marked † come from drains, as
/// [`Effect::Dispatch`](super::Effect::Dispatch).
#[derive(Debug, Clone, PartialEq)]
pub enum DispatchInput {
    /// † A drain requests that this pod be removed. Sent again if the pod or the method has
    /// changed.
    Request {
        /// `metadata.name` of the Node.
        node: NodeName,
        /// As the drain knows it now, so that both share one copy.
        pod: Arc<Pod>,
        /// How the pod is to be removed.
        method: Method,
    },
    /// † The pod is no longer to be removed.
    Cancel {
        /// UID of the pod.
        uid: PodUid,
    },
    /// † The priority of a node has changed.
    Priority {
        /// `metadata.name` of the Node.
        node: NodeName,
        /// Among all nodes.
        priority: NodePriority,
    },
    /// † The drain is over, or dropped when leadership was lost. The dispatcher forgets everything
    /// about the node except its requests in flight.
    Closed {
        /// `metadata.name` of the Node.
        node: NodeName,
    },
    /// An order was answered, or no answer came in time.
    Answer {
        /// UID of the pod.
        uid: PodUid,
        /// Meaning of the answer, from [`classify`](super::classify).
        class: Class,
    },
    /// The drain no longer wanted the order of [`DispatchEffect::Send`], so it was not sent.
    Withdrawn {
        /// UID of the pod.
        uid: PodUid,
    },
    /// A disruption budget was created or changed.
    Budget(Budget),
    /// A disruption budget was deleted.
    BudgetGone(BudgetKey),
    /// The drain of one node is paused or resumed. After [`DispatchInput::Closed`] the caller must
    /// send this again for the next drain of the node.
    Paused {
        /// `metadata.name` of the Node.
        node: NodeName,
        /// `true`: paused; `false`: resumed.
        paused: bool,
    },
    /// All drains are paused (`true`) or resumed. The caller also sends
    /// [`Input::Paused`](super::Input::Paused) or [`Input::Resumed`](super::Input::Resumed) to each
    /// drain, so that none forces a delete or ends by its deadline.
    PausedAll(bool),
    /// An interruption was received and is not decided yet.
    Arrived,
    /// An interruption that arrived is decided, or its accept has failed once. Must be sent once
    /// for each [`DispatchInput::Arrived`].
    Settled,
    /// An interruption of this node was accepted. A node without this input (taken over from
    /// another leader) waits for no burst.
    Accepted {
        /// `metadata.name` of the Node.
        node: NodeName,
        /// As in [`Limits::urgent`](crate::domain::Limits::urgent).
        urgent: bool,
    },
    /// Sent at [`Dispatcher::next_wake`](super::Dispatcher::next_wake).
    Tick,
}

/// What the dispatcher asks its caller to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DispatchEffect {
    /// Send the order for this pod now.
    Send {
        /// `metadata.name` of the Node.
        node: NodeName,
        /// UID of the pod.
        uid: PodUid,
        /// Whether an eviction may be sent: it was requested, or there is room for one.
        evict: bool,
    },
}

/// What the dispatcher is doing at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DispatchStatus {
    /// Requests in flight.
    pub in_flight: usize,
    /// Pods to be removed for which no request is in flight.
    pub waiting: usize,
    /// Interruptions that were received and are not decided yet.
    pub undecided: u64,
    /// Nodes whose evictions wait for the other nodes of their burst.
    pub held: usize,
    /// The API server is overloaded: no eviction is sent before this time, and only a delete that
    /// cannot wait. `None`: not overloaded.
    pub overloaded_until: Option<Moment>,
}
