//! The dispatcher's state for each pod, request in flight and node.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Method, NodePriority, request_queue::QueueKey};
use crate::domain::{Moment, NodeName, Pod, PodUid};

/// A pod that is to be removed.
#[derive(Debug)]
pub(super) struct PodRequest {
    pub(super) node: NodeName,
    pub(super) pod: Arc<Pod>,
    pub(super) method: Method,
    /// The queue in which the pod waits.
    pub(super) queue: QueueKey,
    pub(super) state: State,
    /// Failures in a row that may pass by themselves.
    pub(super) tries: u32,
    /// Something that could help happened while the request was in flight: if it is refused, the
    /// pod is retried at once.
    pub(super) retry_at_once: bool,
    /// The pod became unready while its request was in flight: if it is refused, the pod is retried
    /// at this time at the latest.
    pub(super) retry_by: Option<Moment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Its request is sent as soon as there is a slot for it.
    Ready,
    /// Its request failed. It waits until then, or until something happens that could help.
    Parked { until: Moment, on_budget: bool },
    /// Its request is in flight.
    InFlight,
}

/// A request in flight.
#[derive(Debug)]
pub(super) struct SentRequest {
    pub(super) pod: Arc<Pod>,
    /// The queue from which it was sent.
    pub(super) queue: QueueKey,
    /// Decides whether a late error counts as a time-out.
    pub(super) sent: Moment,
    /// The version of the budget when it was sent; `None`: no budget.
    pub(super) version: Option<u64>,
}

/// A node that is drained.
#[derive(Debug, Default)]
pub(super) struct DrainingNode {
    pub(super) priority: NodePriority,
    pub(super) paused: bool,
    /// Its evictions wait for the other nodes of its burst.
    pub(super) held: bool,
    /// One of its evictions was sent: a later burst does not stop it.
    pub(super) started: bool,
    pub(super) pods: BTreeSet<PodUid>,
    /// How many of its pods are in each queue.
    pub(super) queues: BTreeMap<QueueKey, usize>,
}

impl DrainingNode {
    /// The priority of its pods in a queue; `None`: they must wait. Deletes wait for no burst.
    pub(super) const fn priority_in(&self, queue: &QueueKey) -> Option<NodePriority> {
        if self.paused || self.held && !queue.is_delete() { None } else { Some(self.priority) }
    }

    /// Counts one pod more in this queue.
    pub(super) fn join(&mut self, queue: &QueueKey) {
        *self.queues.entry(queue.clone()).or_default() += 1;
    }

    /// Counts one pod less in this queue.
    pub(super) fn leave(&mut self, queue: &QueueKey) {
        if let Some(n) = self.queues.get_mut(queue) {
            *n -= 1;
            if *n == 0 {
                self.queues.remove(queue);
            }
        }
    }
}
