//! A request queue: pods whose requests are likely to be answered alike, and how many of these
//! requests may be in flight at once.
//!
//! There is one queue for the evictions under each disruption budget, one for the other evictions
//! in each namespace, and one for the deletes in each namespace. An admission webhook that hangs
//! affects some of these queues, and must not hold up the others.

use std::{sync::Arc, time::Duration};

use super::pod_queue::{NodeRank, PodQueue};
use crate::domain::{Budget, BudgetKey, Moment, Phase, Pod, seconds};

/// A queue with requests in flight that has had no answer for this long is silent: its requests do
/// not count towards the slots that all queues share. The API server answers an eviction within
/// milliseconds, unless an admission webhook keeps it waiting.
pub(super) const SILENT_AFTER: Duration = seconds(1);

/// Requests that a queue may have in flight while it is silent, or after a request that timed out.
pub(super) const MAX_SUSPECT: usize = 4;

/// Each answer adds this many requests to the window of a queue, so a few answers give it all
/// slots.
const WINDOW_STEP: usize = 3;

/// Identifies a request queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum QueueKey {
    /// Evictions in this namespace of pods that no known budget selects.
    Unbudgeted(Arc<str>),
    /// Evictions of pods that only this budget selects.
    Budget(Arc<BudgetKey>),
    /// Evictions in this namespace of pods that more than one budget selects: the API server
    /// refuses to evict such a pod.
    SeveralBudgets(Arc<str>),
    /// Deletes in this namespace.
    Deletes(Arc<str>),
}

impl QueueKey {
    /// Whether the requests are deletes, which wait neither for a budget nor for a burst.
    pub(super) const fn is_delete(&self) -> bool {
        matches!(self, Self::Deletes(_))
    }
}

/// How a request ended, as far as its queue is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// The API server answered, with whatever code.
    Answered,
    /// No answer came in time, or the API server failed after a long wait.
    TimedOut,
    /// The request was not sent, because the drain no longer wanted it.
    Withdrawn,
}

/// The pods that wait in one queue, and the state of its requests in flight.
#[derive(Debug)]
pub(super) struct RequestQueue {
    /// Pods to try in any case: never tried yet, changed since they were refused, or waited long
    /// enough.
    pub(super) fresh: PodQueue,
    /// Pods that the budget refused: to try as soon as the budget has room.
    pub(super) parked: PodQueue,
    /// Requests in flight.
    pub(super) in_flight: usize,
    /// How many requests may be in flight: few before the first answer, more with each answer.
    window: usize,
    /// When the last request ended. `None`: no request has ended yet, so nothing is known about
    /// this queue.
    pub(super) last_ended_at: Option<Moment>,
    /// Since when requests are in flight without any answer. `None`: no request is in flight.
    waiting_since: Option<Moment>,
    /// `waiting_since` is at least [`SILENT_AFTER`] ago.
    silent: bool,
    /// A request timed out, and no request was answered since.
    timed_out: bool,
    /// The rank of this queue among all queues, and whether it was suspect when it got that rank.
    /// Maintained by [`super::request_queues::RequestQueues`].
    pub(super) rank: Option<(NodeRank, bool)>,
    /// What the budget allows. `None`: this is not the queue of a budget, or the budget is gone.
    pub(super) allowance: Option<Allowance>,
}

/// One of the two parts of a request queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubQueue {
    Fresh,
    Parked,
}

impl RequestQueue {
    /// An empty queue. `window`: requests that may be in flight before the first answer.
    pub(super) fn new(window: usize) -> Self {
        Self {
            fresh: PodQueue::default(),
            parked: PodQueue::default(),
            in_flight: 0,
            window,
            last_ended_at: None,
            waiting_since: None,
            silent: false,
            timed_out: false,
            rank: None,
            allowance: None,
        }
    }

    /// When [`Self::pass_time`] has something to do: the budget's status has not shown an eviction
    /// in time, or the queue falls silent.
    pub(super) fn timer(&self) -> Option<Moment> {
        let unseen = self.allowance.as_ref().and_then(|a| a.unseen_until);
        let silent =
            self.waiting_since.filter(|_| !self.silent).map(|since| since.plus(SILENT_AFTER));
        unseen.into_iter().chain(silent).min()
    }

    /// Applies the timers that are due.
    pub(super) fn pass_time(&mut self, now: Moment) {
        if let Some(allowance) = &mut self.allowance {
            allowance.forget_unseen(now);
        }
        self.silent |= self.waiting_since.is_some_and(|since| since.plus(SILENT_AFTER) <= now);
    }

    /// Records that a request was sent.
    pub(super) fn sent(&mut self, now: Moment) {
        self.in_flight += 1;
        self.waiting_since.get_or_insert(now);
    }

    /// Records that a request ended. `initial_window` and `max_window`: the bounds of the window.
    pub(super) fn ended(
        &mut self,
        now: Moment,
        reply: Reply,
        initial_window: usize,
        max_window: usize,
    ) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.last_ended_at = Some(now);
        match reply {
            Reply::Answered => {
                self.window = (self.window + WINDOW_STEP).min(max_window);
                self.waiting_since = Some(now);
                (self.silent, self.timed_out) = (false, false);
            }
            Reply::TimedOut => {
                self.window = initial_window;
                self.timed_out = true;
            }
            Reply::Withdrawn => {}
        }
        if self.in_flight == 0 {
            self.waiting_since = None;
            self.silent = false;
        }
    }

    /// Whether no answer comes, or none came in time.
    pub(super) const fn is_suspect(&self) -> bool {
        self.silent || self.timed_out
    }

    /// The requests in flight that count towards the slots that all queues share.
    pub(super) const fn counted(&self) -> usize {
        if self.silent { 0 } else { self.in_flight }
    }

    /// Whether this queue itself allows one more request.
    pub(super) fn has_room(&self, per_budget: usize) -> bool {
        let max_window = if self.is_suspect() { MAX_SUSPECT } else { self.window };
        let allowed = self.allowance.as_ref().map_or(usize::MAX, |a| a.max_in_flight(per_budget));
        self.in_flight < max_window.min(allowed)
    }

    /// Whether no pod waits, no request is in flight, and the queue has no budget.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
            && self.allowance.is_none()
            && self.fresh.is_empty()
            && self.parked.is_empty()
    }

    /// The node whose pod is next, and where that pod waits. `None`: no pod, or no room for a
    /// request.
    pub(super) fn next(&self, per_budget: usize) -> Option<(&NodeRank, SubQueue)> {
        if !self.has_room(per_budget) {
            return None;
        }
        let fresh = self.fresh.first().map(|rank| (rank, SubQueue::Fresh));
        let Some(allowance) = &self.allowance else {
            // A pod that a budget refused does not wait here for long: the probe timer makes it
            // fresh.
            return fresh;
        };
        let parked = if allowance.has_room(self.in_flight) {
            self.parked.first().map(|rank| (rank, SubQueue::Parked))
        } else {
            None
        };
        match (fresh, parked) {
            (Some(a), Some(b)) => Some(if b.0 < a.0 { b } else { a }),
            (a, b) => a.or(b),
        }
    }
}

/// What a budget allows, computed from its status and Sundown's own evictions.
///
/// The API server takes each eviction off `disruptionsAllowed` before it answers, and the status
/// arrives by a watch, before or after the answer. `unseen` is the number of our evictions that the
/// status does not show yet. It is negative where the status already shows evictions whose answers
/// are still missing.
#[derive(Debug, Clone)]
pub(super) struct Allowance {
    allowed: i64,
    unseen: i64,
    /// When `unseen` is reset to 0: the status may have gone down and up again between two events.
    unseen_until: Option<Moment>,
    /// The API server has refused an eviction since the last status, so nothing is left.
    exhausted: bool,
    /// Counts the states of the budget, to recognize a refusal that was based on an older state.
    pub(super) version: u64,
    /// A pod that is not ready may be evicted whatever the budget allows (`IfHealthyBudget`).
    unready_may_go: bool,
    generation: i64,
}

impl Allowance {
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            allowed: effective(budget),
            unseen: 0,
            unseen_until: None,
            exhausted: false,
            version: 0,
            unready_may_go: unready_may_go(budget),
            generation: budget.generation,
        }
    }

    /// Applies a new state of the budget. Returns whether refused pods that are not ready should be
    /// tried again now.
    pub(super) fn update(&mut self, budget: &Budget, in_flight: usize) -> bool {
        let allowed = effective(budget);
        let used = self.allowed - allowed;
        // Less than before: the status shows our own evictions. As much or more: the disruption
        // controller has counted anew.
        self.unseen = if used > 0 { (self.unseen - used).max(-count(in_flight)) } else { 0 };
        if self.unseen <= 0 {
            self.unseen_until = None;
        }
        self.allowed = allowed;
        self.exhausted = false;
        self.version += 1;
        let now_may_go = unready_may_go(budget);
        let is_retry_useful =
            now_may_go && !self.unready_may_go || budget.generation != self.generation;
        self.unready_may_go = now_may_go;
        self.generation = budget.generation;
        is_retry_useful
    }

    /// What the budget still allows after our own evictions.
    fn estimate(&self) -> i64 {
        if self.exhausted { 0 } else { self.allowed - self.unseen }
    }

    /// How many evictions may be in flight, at least one. The first eviction of a pod is always
    /// tried, because the status does not show what the API server allows for a single pod (not
    /// ready, still pending).
    pub(super) fn max_in_flight(&self, per_budget: usize) -> usize {
        let allowed = usize::try_from(self.estimate().min(self.allowed)).unwrap_or(0);
        allowed.min(per_budget).max(1)
    }

    /// Whether the budget has room for a pod that it refused before.
    fn has_room(&self, in_flight: usize) -> bool {
        self.estimate() > count(in_flight)
    }

    /// Records an accepted eviction. If the status does not show it by `until`, it is no longer
    /// counted.
    pub(super) fn used(&mut self, pod: &Pod, until: Moment) {
        // The API server does not count the eviction of a pod that is not ready or not running yet.
        if pod.ready && pod.phase == Phase::Running {
            self.unseen += 1;
            self.unseen_until = (self.unseen > 0).then_some(until);
        }
    }

    /// Records a refused eviction that was sent at this version of the budget.
    pub(super) fn refused(&mut self, version: u64) {
        if version == self.version {
            self.exhausted = true;
        }
    }

    /// Resets `unseen` if its time is over.
    pub(super) fn forget_unseen(&mut self, now: Moment) {
        if self.unseen_until.is_some_and(|at| at <= now) {
            self.unseen = 0;
            self.unseen_until = None;
        }
    }
}

/// What the API server would allow: nothing while the budget's status is behind its spec.
pub(super) fn effective(budget: &Budget) -> i64 {
    if budget.observed < budget.generation { 0 } else { budget.allowed.max(0) }
}

/// Whether the API server evicts a pod that is not ready without counting it: with the default
/// policy it does so while the other pods of the budget are healthy enough (kubernetes
/// `pkg/registry/core/pod/storage/eviction.go`).
pub(super) const fn unready_may_go(budget: &Budget) -> bool {
    budget.healthy >= budget.desired && budget.desired > 0
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
