//! A lane: pods whose requests are likely to have the same fate, and how many of them may go at
//! once.
//!
//! The evictions of one disruption budget are a lane, those of a namespace's other pods, and the
//! deletes of a namespace: an admission webhook that does not answer is asked for some of these,
//! and must not hold up the others.

use std::{sync::Arc, time::Duration};

use super::turn::{Place, TurnQueue};
use crate::domain::{Budget, BudgetKey, Moment, Phase, Pod, seconds};

/// A lane with requests under way that has had no answer for this long is silent: its requests do
/// not count towards the slots that all share. The API server answers an eviction within
/// milliseconds, unless an admission webhook keeps it waiting.
pub(super) const SILENT_AFTER: Duration = seconds(1);

/// The requests that a lane may have under way while it is silent, or after a request that had no
/// answer in time.
pub(super) const SUSPECT_AT_MOST: usize = 4;

/// Slots that a lane gets with each answer: so it has all there are after few.
const PER_ANSWER: usize = 3;

/// Which lane.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LaneKey {
    /// Evictions of pods of this namespace that no budget counts, as far as is known.
    Free(Arc<str>),
    /// Evictions of pods that this budget counts.
    Budget(Arc<BudgetKey>),
    /// Evictions of pods of this namespace that more than one budget counts: the API refuses to
    /// evict such a pod.
    Tangled(Arc<str>),
    /// Deletes of pods of this namespace.
    Delete(Arc<str>),
}

impl LaneKey {
    /// Its requests are deletes, which wait for no budget and no burst.
    pub(super) const fn is_delete(&self) -> bool {
        matches!(self, Self::Delete(_))
    }
}

/// How an answer came, as far as its lane is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// An answer, whatever it says.
    Answered,
    /// None in time, or an error of the API server after a long wait.
    TimedOut,
    /// The request was not sent.
    Withdrawn,
}

/// A lane.
#[derive(Debug)]
pub(super) struct Lane {
    /// Pods that are to be tried in any case: never tried yet, or something of their own changed,
    /// or their wait is over.
    pub(super) fresh: TurnQueue,
    /// Pods that the budget refused: tried as soon as it has room.
    pub(super) parked: TurnQueue,
    /// Requests under way.
    pub(super) in_flight: usize,
    /// How many requests may be under way: few before the first answer, more with each.
    window: usize,
    /// When a request was over last; `None`: none was yet, and nothing is known of this lane.
    pub(super) landed_at: Option<Moment>,
    /// Since when requests are under way without an answer to any; `None`: none is under way.
    waiting_since: Option<Moment>,
    /// That has lasted for [`SILENT_AFTER`].
    silent: bool,
    /// A request had no answer in time, and none was answered since.
    timed_out: bool,
    /// The place that this lane has among all, and whether it was suspect then; kept here by
    /// [`super::lanes::Lanes`].
    pub(super) place: Option<(Place, bool)>,
    /// What the budget allows; `None` in a lane without one.
    pub(super) allowance: Option<Allowance>,
}

/// Which queue of a lane comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    Fresh,
    Parked,
}

impl Lane {
    /// A lane without a pod, in which this many requests may be under way before the first answer.
    pub(super) fn new(window: usize) -> Self {
        Self {
            fresh: TurnQueue::default(),
            parked: TurnQueue::default(),
            in_flight: 0,
            window,
            landed_at: None,
            waiting_since: None,
            silent: false,
            timed_out: false,
            place: None,
            allowance: None,
        }
    }

    /// When it is to be looked at: its budget's status did not show what it used, or it falls
    /// silent.
    pub(super) fn timer(&self) -> Option<Moment> {
        let unseen = self.allowance.as_ref().and_then(|a| a.unseen_until);
        let silent =
            self.waiting_since.filter(|_| !self.silent).map(|since| since.plus(SILENT_AFTER));
        unseen.into_iter().chain(silent).min()
    }

    /// Time has passed.
    pub(super) fn pass_time(&mut self, now: Moment) {
        if let Some(allowance) = &mut self.allowance {
            allowance.forget_unseen(now);
        }
        self.silent |= self.waiting_since.is_some_and(|since| since.plus(SILENT_AFTER) <= now);
    }

    /// A request was sent.
    pub(super) fn launched(&mut self, now: Moment) {
        self.in_flight += 1;
        self.waiting_since.get_or_insert(now);
    }

    /// A request is over. `start` and `most`: the bounds of the window.
    pub(super) fn landed(&mut self, now: Moment, reply: Reply, start: usize, most: usize) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.landed_at = Some(now);
        match reply {
            Reply::Answered => {
                self.window = (self.window + PER_ANSWER).min(most);
                self.waiting_since = Some(now);
                (self.silent, self.timed_out) = (false, false);
            }
            Reply::TimedOut => {
                self.window = start;
                self.timed_out = true;
            }
            Reply::Withdrawn => {}
        }
        if self.in_flight == 0 {
            self.waiting_since = None;
            self.silent = false;
        }
    }

    /// No answer comes, or none came in time.
    pub(super) const fn is_suspect(&self) -> bool {
        self.silent || self.timed_out
    }

    /// Its requests that take slots from others.
    pub(super) const fn counted(&self) -> usize {
        if self.silent { 0 } else { self.in_flight }
    }

    /// One more request may be sent, as far as this lane is concerned.
    pub(super) fn has_room(&self, per_budget: usize) -> bool {
        let at_most = if self.is_suspect() { SUSPECT_AT_MOST } else { self.window };
        let allowed = self.allowance.as_ref().map_or(usize::MAX, |a| a.at_once(per_budget));
        self.in_flight < at_most.min(allowed)
    }

    /// Nothing is in it, nothing is under way, and no budget is known for it.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
            && self.allowance.is_none()
            && self.fresh.is_empty()
            && self.parked.is_empty()
    }

    /// Which pod goes next, if there is room for one.
    pub(super) fn head(&self, per_budget: usize) -> Option<(&Place, Head)> {
        if !self.has_room(per_budget) {
            return None;
        }
        let fresh = self.fresh.first().map(|place| (place, Head::Fresh));
        let Some(allowance) = &self.allowance else {
            // Nothing that a budget refused waits here for long: the probe makes it fresh.
            return fresh;
        };
        let parked = if allowance.has_room(self.in_flight) {
            self.parked.first().map(|place| (place, Head::Parked))
        } else {
            None
        };
        match (fresh, parked) {
            (Some(a), Some(b)) => Some(if b.0 < a.0 { b } else { a }),
            (a, b) => a.or(b),
        }
    }
}

/// What a budget allows, as far as its status and our own evictions tell.
///
/// The server takes each eviction off `disruptionsAllowed` before it answers, and the status comes
/// by a watch: it may be ahead of the answer or behind. `unseen` is what our evictions have used
/// that the status does not show yet; negative where the status is ahead of answers still under
/// way.
#[derive(Debug, Clone)]
pub(super) struct Allowance {
    allowed: i64,
    unseen: i64,
    /// When `unseen` is given up: the status may have gone down and up again unseen.
    unseen_until: Option<Moment>,
    /// The server has refused since the last status: it knows better.
    exhausted: bool,
    /// Counts the states of the budget, so that a refusal can be told from one that an older state
    /// earned.
    pub(super) version: u64,
    /// A pod that is not ready may go whatever is allowed (`IfHealthyBudget`).
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

    /// Takes a new state of the budget. Whether pods that are not ready may go now and might not
    /// before.
    pub(super) fn update(&mut self, budget: &Budget, in_flight: usize) -> bool {
        let allowed = effective(budget);
        let used = self.allowed - allowed;
        // Less than before: our own evictions show. As much or more: the disruption controller has
        // counted anew.
        self.unseen = if used > 0 { (self.unseen - used).max(-count(in_flight)) } else { 0 };
        if self.unseen <= 0 {
            self.unseen_until = None;
        }
        self.allowed = allowed;
        self.exhausted = false;
        self.version += 1;
        let may = unready_may_go(budget);
        let helps = may && !self.unready_may_go || budget.generation != self.generation;
        self.unready_may_go = may;
        self.generation = budget.generation;
        helps
    }

    /// What it still allows besides what our own evictions have used.
    fn estimate(&self) -> i64 {
        if self.exhausted { 0 } else { self.allowed - self.unseen }
    }

    /// How many evictions may be under way. At least one: the first try of a pod is always made,
    /// since what the server allows a single pod (not ready, still pending) does not show in the
    /// status.
    pub(super) fn at_once(&self, per_budget: usize) -> usize {
        let allowed = usize::try_from(self.estimate().min(self.allowed)).unwrap_or(0);
        allowed.min(per_budget).max(1)
    }

    /// A pod that was refused before may go now.
    fn has_room(&self, in_flight: usize) -> bool {
        self.estimate() > count(in_flight)
    }

    /// An eviction that uses the budget was accepted. What the status does not show of it by
    /// `until` is given up.
    pub(super) fn used(&mut self, pod: &Pod, until: Moment) {
        // The server does not count the disruption of a pod that is not ready, or not running yet.
        if pod.ready && pod.phase == Phase::Running {
            self.unseen += 1;
            self.unseen_until = (self.unseen > 0).then_some(until);
        }
    }

    /// An eviction was refused that was let go at this version of the budget.
    pub(super) fn refused(&mut self, version: u64) {
        if version == self.version {
            self.exhausted = true;
        }
    }

    /// Gives `unseen` up if its time is over.
    pub(super) fn forget_unseen(&mut self, now: Moment) {
        if self.unseen_until.is_some_and(|at| at <= now) {
            self.unseen = 0;
            self.unseen_until = None;
        }
    }
}

/// What the server would allow: nothing while the status is behind the spec.
pub(super) fn effective(budget: &Budget) -> i64 {
    if budget.observed < budget.generation { 0 } else { budget.allowed.max(0) }
}

/// kubernetes `pkg/registry/core/pod/storage/eviction.go`: with the default policy a pod that is
/// not ready is evicted, uncounted, while the budget's other pods are healthy enough.
pub(super) const fn unready_may_go(budget: &Budget) -> bool {
    budget.healthy >= budget.desired && budget.desired > 0
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
