//! A lane: the pods that one disruption budget counts, and how many of them may go at once.

use std::sync::Arc;

use super::turn::{Place, TurnQueue};
use crate::domain::{Budget, BudgetKey, Moment, Phase, Pod};

/// Which lane.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LaneKey {
    /// No budget counts the pod, as far as is known.
    Free,
    /// This one.
    Budget(Arc<BudgetKey>),
    /// More than one: the API refuses to evict such a pod.
    Tangled,
}

/// A lane.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Pods that are to be tried in any case: never tried yet, or something of their own changed, or their wait is over.
    pub(super) fresh: TurnQueue,
    /// Pods that the budget refused: tried as soon as it has room.
    pub(super) parked: TurnQueue,
    /// Evictions under way.
    pub(super) in_flight: usize,
    /// The place that this lane has among all; kept here by the dispatcher.
    pub(super) place: Option<Place>,
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
    /// When it gives up waiting for its budget's status to show what it used.
    pub(super) fn timer(&self) -> Option<Moment> {
        self.allowance.as_ref().and_then(|a| a.unseen_until)
    }

    /// Nothing is in it, nothing is under way, and no budget is known for it.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.allowance.is_none() && self.fresh.is_empty() && self.parked.is_empty()
    }

    /// Which pod goes next, if there is room for one.
    pub(super) fn head(&self, per_budget: usize) -> Option<(&Place, Head)> {
        let fresh = self.fresh.first().map(|place| (place, Head::Fresh));
        let Some(allowance) = &self.allowance else {
            // Nothing that a budget refused waits here for long: the probe makes it fresh.
            return fresh;
        };
        if self.in_flight >= allowance.at_once(per_budget) {
            return None;
        }
        let parked = if allowance.has_room(self.in_flight) { self.parked.first().map(|place| (place, Head::Parked)) } else { None };
        match (fresh, parked) {
            (Some(a), Some(b)) => Some(if b.0 < a.0 { b } else { a }),
            (a, b) => a.or(b),
        }
    }
}

/// What a budget allows, as far as its status and our own evictions tell.
///
/// The server takes each eviction off `disruptionsAllowed` before it answers, and the status comes by a watch: it may be ahead of
/// the answer or behind. `unseen` is what our evictions have used that the status does not show yet; negative where the status is
/// ahead of answers still under way.
#[derive(Debug, Clone)]
pub(super) struct Allowance {
    allowed: i64,
    unseen: i64,
    /// When `unseen` is given up: the status may have gone down and up again unseen.
    unseen_until: Option<Moment>,
    /// The server has refused since the last status: it knows better.
    exhausted: bool,
    /// Counts the states of the budget, so that a refusal can be told from one that an older state earned.
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

    /// Takes a new state of the budget. Whether pods that are not ready may go now and might not before.
    pub(super) fn update(&mut self, budget: &Budget, in_flight: usize) -> bool {
        let allowed = effective(budget);
        let used = self.allowed - allowed;
        // Less than before: our own evictions show. As much or more: the disruption controller has counted anew.
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

    /// How many evictions may be under way. At least one: the first try of a pod is always made, since what the server allows a
    /// single pod (not ready, still pending) does not show in the status.
    pub(super) fn at_once(&self, per_budget: usize) -> usize {
        let allowed = usize::try_from(self.estimate().min(self.allowed)).unwrap_or(0);
        allowed.min(per_budget).max(1)
    }

    /// A pod that was refused before may go now.
    fn has_room(&self, in_flight: usize) -> bool {
        self.estimate() > count(in_flight)
    }

    /// An eviction that uses the budget was accepted. What the status does not show of it by `until` is given up.
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
fn effective(budget: &Budget) -> i64 {
    if budget.observed < budget.generation { 0 } else { budget.allowed.max(0) }
}

/// kubernetes `pkg/registry/core/pod/storage/eviction.go`: with the default policy a pod that is not ready is evicted, uncounted, while the
/// budget's other pods are healthy enough.
const fn unready_may_go(budget: &Budget) -> bool {
    budget.healthy >= budget.desired && budget.desired > 0
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
