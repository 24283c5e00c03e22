//! All lanes, and which of them goes next.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    Turn,
    lane::{Allowance, Head, Lane, LaneKey, Reply},
    turn::Place,
};
use crate::domain::{Budget, BudgetKey, Moment, NodeName, Pod, PodUid, seconds};

/// How long the status of a budget may take to show an eviction.
const UNSEEN: std::time::Duration = seconds(2);

/// How long a lane without pods is kept after its last request, with its window and whether it was
/// suspect.
const REMEMBERED: std::time::Duration = seconds(60);

/// Limits on requests in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Evictions under way under one budget.
    pub(super) per_budget: usize,
    /// Requests under way in a lane before its first answer.
    pub(super) first: usize,
    /// Requests under way in a lane, however many answers it has had.
    pub(super) most: usize,
    /// Evictions under way in all suspect lanes together, and as many deletes.
    pub(super) suspects: usize,
}

/// All lanes.
#[derive(Debug)]
pub(super) struct Lanes {
    bounds: Bounds,
    all: BTreeMap<LaneKey, Lane>,
    evictions: Heads,
    deletes: Heads,
    /// Requests under way, less those of silent lanes.
    counted: usize,
    /// When each lane's next timer ends (`Lane::timer`).
    timers: BTreeSet<(Moment, LaneKey)>,
    /// When the last request of each lane without pods ended.
    idle: BTreeSet<(Moment, LaneKey)>,
}

/// The lanes that may send a request now, in the order of turns.
#[derive(Debug, Default)]
struct Heads {
    sound: BTreeSet<(Place, LaneKey)>,
    suspect: BTreeSet<(Place, LaneKey)>,
    /// Requests under way in suspect lanes.
    suspect_in_flight: usize,
}

impl Heads {
    fn of(&mut self, suspect: bool) -> &mut BTreeSet<(Place, LaneKey)> {
        if suspect { &mut self.suspect } else { &mut self.sound }
    }

    /// The lane whose turn it is. A suspect lane has a turn only while all suspect lanes have fewer
    /// than `suspects` requests under way.
    fn first(&self, suspects: usize) -> Option<&(Place, LaneKey)> {
        let suspect = self.suspect.first().filter(|_| self.suspect_in_flight < suspects);
        self.sound.first().into_iter().chain(suspect).min()
    }
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
    pub(super) fn new(bounds: Bounds) -> Self {
        let (evictions, deletes) = (Heads::default(), Heads::default());
        Self {
            bounds,
            all: BTreeMap::new(),
            evictions,
            deletes,
            counted: 0,
            timers: BTreeSet::new(),
            idle: BTreeSet::new(),
        }
    }

    /// Changes a lane, and updates all that is derived from it: its place among the heads, its
    /// timers, `counted` and `suspect_in_flight`.
    fn change<T>(&mut self, key: &LaneKey, f: impl FnOnce(&mut Lane) -> T) -> T {
        let first = self.bounds.first;
        let lane = self.all.entry(key.clone()).or_insert_with(|| Lane::new(first));
        let heads = if key.is_delete() { &mut self.deletes } else { &mut self.evictions };
        let in_trouble = |lane: &Lane| if lane.is_suspect() { lane.in_flight } else { 0 };
        let (timer, counted, suspect) = (lane.timer(), lane.counted(), in_trouble(lane));
        if let Some(at) = lane.landed_at.filter(|_| lane.is_idle()) {
            self.idle.remove(&(at, key.clone()));
        }
        let result = f(lane);
        self.counted = self.counted - counted + lane.counted();
        heads.suspect_in_flight = heads.suspect_in_flight - suspect + in_trouble(lane);
        let place =
            lane.head(self.bounds.per_budget).map(|(place, _)| (place.clone(), lane.is_suspect()));
        if place != lane.place {
            if let Some((before, suspect)) = std::mem::replace(&mut lane.place, place.clone()) {
                heads.of(suspect).remove(&(before, key.clone()));
            }
            if let Some((place, suspect)) = place {
                heads.of(suspect).insert((place, key.clone()));
            }
        }
        if lane.timer() != timer {
            if let Some(before) = timer {
                self.timers.remove(&(before, key.clone()));
            }
            self.timers.extend(lane.timer().map(|at| (at, key.clone())));
        }
        if lane.is_idle() {
            if let Some(at) = lane.landed_at {
                self.idle.insert((at, key.clone()));
            } else {
                self.all.remove(key);
            }
        }
        result
    }

    /// A pod waits in this lane. A lane is made when it is first needed.
    pub(super) fn add(
        &mut self,
        key: &LaneKey,
        head: Head,
        node: &NodeName,
        turn: Option<Turn>,
        pod: &Pod,
    ) {
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

    /// The pod to evict next, of all lanes that have room, and whether its node is urgent.
    pub(super) fn next_eviction(&self) -> Option<(PodUid, bool)> {
        let ((turn, _), key) = self.evictions.first(self.bounds.suspects)?;
        Some((self.head_of(key)?, !turn.relaxed))
    }

    /// The pod to delete next, of all lanes that have room.
    pub(super) fn next_delete(&self) -> Option<PodUid> {
        let (_, key) = self.deletes.first(self.bounds.suspects)?;
        self.head_of(key)
    }

    /// The pod to delete next, of nodes whose deadline is at `until` or earlier.
    pub(super) fn next_delete_due(&self, until: Moment) -> Option<PodUid> {
        let suspects = self
            .deletes
            .suspect
            .iter()
            .filter(|_| self.deletes.suspect_in_flight < self.bounds.suspects);
        let mut lanes =
            self.deletes.sound.iter().chain(suspects).filter_map(|(_, key)| self.all.get(key));
        lanes.find_map(|lane| lane.fresh.first_pod_due(until))
    }

    fn head_of(&self, key: &LaneKey) -> Option<PodUid> {
        let lane = self.all.get(key)?;
        match lane.head(self.bounds.per_budget)?.1 {
            Head::Fresh => lane.fresh.first_pod(),
            Head::Parked => lane.parked.first_pod(),
        }
    }

    /// One more eviction of this lane could be sent now.
    pub(super) fn has_room(&self, key: &LaneKey) -> bool {
        let Some(lane) = self.all.get(key) else { return true };
        lane.has_room(self.bounds.per_budget)
            && (!lane.is_suspect() || self.evictions.suspect_in_flight < self.bounds.suspects)
    }

    /// Requests under way in all lanes that are not silent. Only these count towards the slots.
    pub(super) const fn counted(&self) -> usize {
        self.counted
    }

    /// A request of this lane was sent. Returns the version of the lane's budget; `None` in a lane
    /// without one.
    pub(super) fn launched(&mut self, now: Moment, key: &LaneKey) -> Option<u64> {
        self.change(key, |lane| {
            lane.launched(now);
            lane.allowance.as_ref().map(|a| a.version)
        })
    }

    /// A request of this lane is over.
    pub(super) fn landed(
        &mut self,
        now: Moment,
        key: &LaneKey,
        pod: &Pod,
        reply: Reply,
        landing: Landing,
    ) {
        let Bounds { first, most, .. } = self.bounds;
        self.change(key, |lane| {
            lane.landed(now, reply, first, most);
            let Some(allowance) = &mut lane.allowance else { return };
            match landing {
                Landing::Used => allowance.used(pod, now.plus(UNSEEN)),
                Landing::Refused(Some(version)) => allowance.refused(version),
                Landing::Refused(None) | Landing::Other => {}
            }
        });
    }

    /// Takes a new state of a budget. The refused pods for which it may help beyond what it allows:
    /// those that are not ready may be evicted now without being counted.
    pub(super) fn budget(&mut self, key: &Arc<BudgetKey>, budget: &Budget) -> Vec<PodUid> {
        let key = LaneKey::Budget(key.clone());
        self.change(&key, |lane| {
            let Some(allowance) = &mut lane.allowance else {
                lane.allowance = Some(Allowance::new(budget));
                return Vec::new();
            };
            if allowance.update(budget, lane.in_flight) {
                lane.parked.pods().cloned().collect()
            } else {
                Vec::new()
            }
        })
    }

    /// A budget is no more.
    pub(super) fn budget_gone(&mut self, key: Arc<BudgetKey>) {
        self.change(&LaneKey::Budget(key), |lane| lane.allowance = None);
    }

    /// Handles timers: evictions that no budget status has shown in time, lanes that fall silent,
    /// and lanes that are forgotten after [`REMEMBERED`].
    pub(super) fn tick(&mut self, now: Moment) {
        while let Some((_, key)) = self.timers.first().filter(|(at, _)| *at <= now).cloned() {
            self.change(&key, |lane| lane.pass_time(now));
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
