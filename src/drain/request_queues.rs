//! All request queues, and which of them sends the next request.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    NodePriority,
    pod_queue::NodeRank,
    request_queue::{Allowance, QueueKey, Reply, RequestQueue, SubQueue},
};
use crate::domain::{Budget, BudgetKey, Moment, NodeName, Pod, PodUid, seconds};

/// How long the status of a budget may take to show an eviction.
const STATUS_DELAY: std::time::Duration = seconds(2);

/// How long a queue without pods is kept after its last request, to remember its window and whether
/// it was suspect.
const REMEMBERED: std::time::Duration = seconds(60);

/// Limits on the requests in flight in each queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueLimits {
    /// Evictions in flight under one budget.
    pub(super) per_budget: usize,
    /// Requests in flight in a queue before its first answer.
    pub(super) initial_window: usize,
    /// Requests in flight in a queue, however many answers it has had.
    pub(super) max_window: usize,
    /// Evictions in flight in all suspect queues together, and as many deletes.
    pub(super) suspects: usize,
}

/// All request queues that have pods, requests in flight or a budget, or had a request lately.
#[derive(Debug)]
pub(super) struct RequestQueues {
    limits: QueueLimits,
    all: BTreeMap<QueueKey, RequestQueue>,
    evictions: ReadyQueues,
    deletes: ReadyQueues,
    /// Requests in flight, without those of silent queues.
    counted: usize,
    /// When the next timer of each queue ends ([`RequestQueue::timer`]).
    timers: BTreeSet<(Moment, QueueKey)>,
    /// When the last request of each queue without pods ended.
    idle: BTreeSet<(Moment, QueueKey)>,
}

/// The queues that may send a request now, in the order of priority.
#[derive(Debug, Default)]
struct ReadyQueues {
    healthy: BTreeSet<(NodeRank, QueueKey)>,
    suspect: BTreeSet<(NodeRank, QueueKey)>,
    /// Requests in flight in suspect queues.
    suspect_in_flight: usize,
}

impl ReadyQueues {
    fn of(&mut self, suspect: bool) -> &mut BTreeSet<(NodeRank, QueueKey)> {
        if suspect { &mut self.suspect } else { &mut self.healthy }
    }

    /// The queue that sends next. A suspect queue is considered only while all suspect queues
    /// together have fewer than `suspects` requests in flight.
    fn first(&self, suspects: usize) -> Option<&(NodeRank, QueueKey)> {
        let suspect = self.suspect.first().filter(|_| self.suspect_in_flight < suspects);
        self.healthy.first().into_iter().chain(suspect).min()
    }
}

/// What an answer means for the budget of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BudgetOutcome {
    /// The eviction was accepted, so it uses the budget.
    Used,
    /// The budget refused the eviction, which was sent at this version of the budget. `None`: the
    /// queue had no budget then.
    Refused(Option<u64>),
    /// The answer has nothing to do with the budget.
    Unaffected,
}

impl RequestQueues {
    pub(super) fn new(limits: QueueLimits) -> Self {
        let (evictions, deletes) = (ReadyQueues::default(), ReadyQueues::default());
        Self {
            limits,
            all: BTreeMap::new(),
            evictions,
            deletes,
            counted: 0,
            timers: BTreeSet::new(),
            idle: BTreeSet::new(),
        }
    }

    /// Changes a queue, and updates all that is derived from it: its rank among the ready queues,
    /// its timers, `counted` and `suspect_in_flight`.
    fn change<T>(&mut self, key: &QueueKey, f: impl FnOnce(&mut RequestQueue) -> T) -> T {
        let initial_window = self.limits.initial_window;
        let queue =
            self.all.entry(key.clone()).or_insert_with(|| RequestQueue::new(initial_window));
        let ready = if key.is_delete() { &mut self.deletes } else { &mut self.evictions };
        let suspect_requests =
            |queue: &RequestQueue| if queue.is_suspect() { queue.in_flight } else { 0 };
        let (timer, counted, suspect) = (queue.timer(), queue.counted(), suspect_requests(queue));
        if let Some(at) = queue.last_ended_at.filter(|_| queue.is_idle()) {
            self.idle.remove(&(at, key.clone()));
        }
        let result = f(queue);
        self.counted = self.counted - counted + queue.counted();
        ready.suspect_in_flight = ready.suspect_in_flight - suspect + suspect_requests(queue);
        let rank =
            queue.next(self.limits.per_budget).map(|(rank, _)| (rank.clone(), queue.is_suspect()));
        if rank != queue.rank {
            if let Some((before, suspect)) = std::mem::replace(&mut queue.rank, rank.clone()) {
                ready.of(suspect).remove(&(before, key.clone()));
            }
            if let Some((rank, suspect)) = rank {
                ready.of(suspect).insert((rank, key.clone()));
            }
        }
        if queue.timer() != timer {
            if let Some(before) = timer {
                self.timers.remove(&(before, key.clone()));
            }
            self.timers.extend(queue.timer().map(|at| (at, key.clone())));
        }
        if queue.is_idle() {
            if let Some(at) = queue.last_ended_at {
                self.idle.insert((at, key.clone()));
            } else {
                self.all.remove(key);
            }
        }
        result
    }

    /// Adds a pod to a queue. Creates the queue if it does not exist.
    pub(super) fn add(
        &mut self,
        key: &QueueKey,
        part: SubQueue,
        node: &NodeName,
        priority: Option<NodePriority>,
        pod: &Pod,
    ) {
        self.change(key, |queue| match part {
            SubQueue::Fresh => queue.fresh.add(node, priority, pod),
            SubQueue::Parked => queue.parked.add(node, priority, pod),
        });
    }

    /// Removes a pod from a queue.
    pub(super) fn remove(&mut self, key: &QueueKey, node: &NodeName, pod: &Pod) {
        self.change(key, |queue| {
            queue.fresh.remove(node, pod);
            queue.parked.remove(node, pod);
        });
    }

    /// Changes the priority of a node in a queue. `None`: its pods must wait.
    pub(super) fn set_priority(
        &mut self,
        key: &QueueKey,
        node: &NodeName,
        priority: Option<NodePriority>,
    ) {
        self.change(key, |queue| {
            queue.fresh.set_priority(node, priority);
            queue.parked.set_priority(node, priority);
        });
    }

    /// The pod to evict next, in all queues that have room, and whether its node is urgent.
    pub(super) fn next_eviction(&self) -> Option<(PodUid, bool)> {
        let ((priority, _), key) = self.evictions.first(self.limits.suspects)?;
        Some((self.next_pod(key)?, !priority.relaxed))
    }

    /// The pod to delete next, in all queues that have room.
    pub(super) fn next_delete(&self) -> Option<PodUid> {
        let (_, key) = self.deletes.first(self.limits.suspects)?;
        self.next_pod(key)
    }

    /// The pod to delete next, on nodes whose deadline is at `until` or earlier.
    pub(super) fn next_delete_due(&self, until: Moment) -> Option<PodUid> {
        let suspects = self
            .deletes
            .suspect
            .iter()
            .filter(|_| self.deletes.suspect_in_flight < self.limits.suspects);
        let mut queues =
            self.deletes.healthy.iter().chain(suspects).filter_map(|(_, key)| self.all.get(key));
        queues.find_map(|queue| queue.fresh.first_pod_due(until))
    }

    fn next_pod(&self, key: &QueueKey) -> Option<PodUid> {
        let queue = self.all.get(key)?;
        match queue.next(self.limits.per_budget)?.1 {
            SubQueue::Fresh => queue.fresh.first_pod(),
            SubQueue::Parked => queue.parked.first_pod(),
        }
    }

    /// Whether one more eviction of this queue could be sent now.
    pub(super) fn has_room(&self, key: &QueueKey) -> bool {
        let Some(queue) = self.all.get(key) else { return true };
        queue.has_room(self.limits.per_budget)
            && (!queue.is_suspect() || self.evictions.suspect_in_flight < self.limits.suspects)
    }

    /// Requests in flight in all queues that are not silent. Only these count towards the slots.
    pub(super) const fn counted(&self) -> usize {
        self.counted
    }

    /// Records that a request of this queue was sent. Returns the version of the queue's budget;
    /// `None` if the queue has no budget.
    pub(super) fn sent(&mut self, now: Moment, key: &QueueKey) -> Option<u64> {
        self.change(key, |queue| {
            queue.sent(now);
            queue.allowance.as_ref().map(|a| a.version)
        })
    }

    /// Records that a request of this queue ended.
    pub(super) fn ended(
        &mut self,
        now: Moment,
        key: &QueueKey,
        pod: &Pod,
        reply: Reply,
        outcome: BudgetOutcome,
    ) {
        let QueueLimits { initial_window, max_window, .. } = self.limits;
        self.change(key, |queue| {
            queue.ended(now, reply, initial_window, max_window);
            let Some(allowance) = &mut queue.allowance else { return };
            match outcome {
                BudgetOutcome::Used => allowance.used(pod, now.plus(STATUS_DELAY)),
                BudgetOutcome::Refused(Some(version)) => allowance.refused(version),
                BudgetOutcome::Refused(None) | BudgetOutcome::Unaffected => {}
            }
        });
    }

    /// Applies a new state of a budget. Returns the refused pods to which it may help beyond what
    /// the budget allows: those that are not ready may now be evicted without being counted.
    pub(super) fn budget(&mut self, key: &Arc<BudgetKey>, budget: &Budget) -> Vec<PodUid> {
        let key = QueueKey::Budget(key.clone());
        self.change(&key, |queue| {
            let Some(allowance) = &mut queue.allowance else {
                queue.allowance = Some(Allowance::new(budget));
                return Vec::new();
            };
            if allowance.update(budget, queue.in_flight) {
                queue.parked.pods().cloned().collect()
            } else {
                Vec::new()
            }
        })
    }

    /// Records that a budget was deleted.
    pub(super) fn budget_gone(&mut self, key: Arc<BudgetKey>) {
        self.change(&QueueKey::Budget(key), |queue| queue.allowance = None);
    }

    /// Handles timers: evictions that no budget status has shown in time, queues that fall silent,
    /// and queues to forget after [`REMEMBERED`].
    pub(super) fn tick(&mut self, now: Moment) {
        while let Some((_, key)) = self.timers.first().filter(|(at, _)| *at <= now).cloned() {
            self.change(&key, |queue| queue.pass_time(now));
        }
        while let Some((_, key)) =
            self.idle.first().filter(|(at, _)| at.plus(REMEMBERED) <= now).cloned()
        {
            self.idle.pop_first();
            self.all.remove(&key);
        }
    }

    pub(super) fn next_wake(&self) -> Option<Moment> {
        self.timers.first().map(|(at, _)| *at)
    }
}
