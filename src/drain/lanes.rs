//! All lanes, and which of them goes next.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    Turn,
    lane::{Allowance, Head, Lane, LaneKey},
    turn::Place,
};
use crate::domain::{Budget, BudgetKey, Moment, MomentExt, NodeName, Pod, PodUid, seconds};

/// How long the status of a budget may take to show an eviction.
const UNSEEN: std::time::Duration = seconds(2);

/// All lanes.
#[derive(Debug)]
pub(super) struct Lanes {
    per_budget: usize,
    all: BTreeMap<LaneKey, Lane>,
    /// The lanes that may let a pod go now, in the order of turns.
    heads: BTreeSet<(Place, LaneKey)>,
    /// When which lane gives up waiting for its budget's status to show what it used.
    unseen: BTreeSet<(Moment, LaneKey)>,
}

/// What became of an eviction, as far as its lane is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Landing {
    /// It was accepted.
    Used,
    /// The budget refused it; it was let go at this version of the budget.
    Refused(Option<u64>),
    /// It says nothing of the budget.
    Other,
}

impl Lanes {
    pub(super) const fn new(per_budget: usize) -> Self {
        Self { per_budget, all: BTreeMap::new(), heads: BTreeSet::new(), unseen: BTreeSet::new() }
    }

    /// Changes a lane and keeps what follows from it up to date: its place among the heads, its timer.
    fn change<T>(&mut self, key: &LaneKey, f: impl FnOnce(&mut Lane) -> T) -> T {
        let lane = self.all.entry(key.clone()).or_default();
        let timer = lane.timer();
        let result = f(lane);
        let place = lane.head(self.per_budget).map(|(place, _)| place.clone());
        if place != lane.place {
            if let Some(before) = std::mem::replace(&mut lane.place, place.clone()) {
                self.heads.remove(&(before, key.clone()));
            }
            self.heads.extend(place.map(|p| (p, key.clone())));
        }
        if lane.timer() != timer {
            if let Some(before) = timer {
                self.unseen.remove(&(before, key.clone()));
            }
            self.unseen.extend(lane.timer().map(|at| (at, key.clone())));
        }
        if lane.is_idle() {
            self.all.remove(key);
        }
        result
    }

    /// A pod waits in this lane. A lane is made when it is first needed.
    pub(super) fn add(&mut self, key: &LaneKey, head: Head, node: &NodeName, turn: Option<Turn>, pod: &Pod) {
        self.change(key, |lane| match head {
            Head::Fresh => lane.fresh.add(node, turn, pod),
            Head::Parked => lane.parked.add(node, turn, pod),
        });
    }

    /// A pod waits in this lane no more.
    pub(super) fn remove(&mut self, key: &LaneKey, node: &NodeName, pod: &Pod) {
        self.change(key, |lane| {
            lane.fresh.remove(node, pod);
            lane.parked.remove(node, pod);
        });
    }

    /// A node's turn in this lane is another now; `None`: it must not act.
    pub(super) fn set_turn(&mut self, key: &LaneKey, node: &NodeName, turn: Option<Turn>) {
        self.change(key, |lane| {
            lane.fresh.set_turn(node, turn);
            lane.parked.set_turn(node, turn);
        });
    }

    /// The pod whose turn it is among all lanes that have room.
    pub(super) fn next(&self) -> Option<PodUid> {
        let (_, key) = self.heads.first()?;
        let lane = self.all.get(key)?;
        match lane.head(self.per_budget)?.1 {
            Head::Fresh => lane.fresh.first_pod(),
            Head::Parked => lane.parked.first_pod(),
        }
    }

    /// An eviction of this lane was let go. The version of the budget at which it was.
    pub(super) fn launched(&mut self, key: &LaneKey) -> Option<u64> {
        self.change(key, |lane| {
            lane.in_flight += 1;
            lane.allowance.as_ref().map(|a| a.version)
        })
    }

    /// An eviction of this lane is over.
    pub(super) fn landed(&mut self, now: Moment, key: &LaneKey, pod: &Pod, landing: Landing) {
        self.change(key, |lane| {
            lane.in_flight = lane.in_flight.saturating_sub(1);
            let Some(allowance) = &mut lane.allowance else { return };
            match landing {
                Landing::Used => allowance.used(pod, now.plus(UNSEEN)),
                Landing::Refused(Some(version)) => allowance.refused(version),
                Landing::Refused(None) | Landing::Other => {}
            }
        });
    }

    /// Takes a new state of a budget. The refused pods for which it may help beyond what it allows: those that are not ready may be
    /// evicted now without being counted.
    pub(super) fn budget(&mut self, key: &Arc<BudgetKey>, budget: &Budget) -> Vec<PodUid> {
        let key = LaneKey::Budget(key.clone());
        self.change(&key, |lane| {
            let Some(allowance) = &mut lane.allowance else {
                lane.allowance = Some(Allowance::new(budget));
                return Vec::new();
            };
            if allowance.update(budget, lane.in_flight) { lane.parked.pods().cloned().collect() } else { Vec::new() }
        })
    }

    /// A budget is no more.
    pub(super) fn budget_gone(&mut self, key: Arc<BudgetKey>) {
        self.change(&LaneKey::Budget(key), |lane| lane.allowance = None);
    }

    /// Gives up on what no status has shown in time.
    pub(super) fn tick(&mut self, now: Moment) {
        while let Some((_, key)) = self.unseen.first().filter(|(at, _)| *at <= now).cloned() {
            self.change(&key, |lane| {
                if let Some(allowance) = &mut lane.allowance {
                    allowance.forget_unseen(now);
                }
            });
        }
    }

    pub(super) fn next_wake(&self) -> Option<Moment> {
        self.unseen.first().map(|(at, _)| *at)
    }
}
