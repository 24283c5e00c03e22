//! The dispatcher as a state machine.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{
    By, Class, DispatchEffect, DispatchInput, DispatchSettings, DispatchStatus,
    gate::{Gate, Waits},
    lane::{Head, LaneKey, Reply, SILENT_AFTER},
    lanes::{Bounds, Landing, Lanes},
    patience::Patience,
    slots::Slots,
    wanted::{Flight, NodeState, State, Wanted},
};
use crate::domain::{Budget, BudgetKey, Moment, NodeName, Pod, PodUid, seconds};

/// How long the disruption controller has to see that a pod is not ready any more. Until its
/// budget's status says so the API server counts the pod as healthy, and lets it go although the
/// budget is not kept without it (seen 64 ms after the pod's status).
const SETTLED: Duration = seconds(3);

/// The dispatcher over all drains, which alone lets orders go.
#[derive(Debug)]
pub struct Dispatcher {
    slots: Slots,
    patience: Patience,
    pods: BTreeMap<PodUid, Wanted>,
    namespaces: BTreeMap<Arc<str>, BTreeSet<PodUid>>,
    nodes: BTreeMap<NodeName, NodeState>,
    budgets: BTreeMap<Arc<BudgetKey>, Budget>,
    lanes: Lanes,
    flights: BTreeMap<PodUid, Flight>,
    /// When which parked pod is tried again by time alone.
    timers: BTreeSet<(Moment, PodUid)>,
    gate: Gate,
    overloaded_until: Option<Moment>,
    paused: bool,
}

impl Dispatcher {
    /// A dispatcher with nothing to do.
    #[must_use]
    pub fn new(settings: DispatchSettings) -> Self {
        let waits = Waits {
            quiet: settings.burst_quiet,
            urgent: settings.burst_urgent,
            relaxed: settings.burst_relaxed,
        };
        let slots = Slots::new(settings.in_flight);
        let bounds = Bounds {
            per_budget: settings.per_budget,
            first: settings.first.max(1),
            most: slots.for_deletes(),
            suspects: slots.for_suspects(),
        };
        Self {
            slots,
            patience: Patience::new(settings.probe, settings.seed),
            pods: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            nodes: BTreeMap::new(),
            budgets: BTreeMap::new(),
            lanes: Lanes::new(bounds),
            flights: BTreeMap::new(),
            timers: BTreeSet::new(),
            gate: Gate::new(waits),
            overloaded_until: None,
            paused: false,
        }
    }

    /// Takes an input and says which orders go now.
    pub fn step(&mut self, now: Moment, input: DispatchInput) -> Vec<DispatchEffect> {
        match input {
            DispatchInput::Want { node, pod, by } => self.want(now, node, pod, by),
            DispatchInput::Unwant { uid } => self.forget(&uid),
            DispatchInput::Turn { node, turn } => self.change_node(&node, |n| n.turn = turn),
            DispatchInput::Closed { node } => self.close(&node),
            DispatchInput::Answer { uid, class } => self.answered(now, &uid, class),
            DispatchInput::Withdrawn { uid } => self.withdrawn(now, &uid),
            DispatchInput::Budget(budget) => self.budget(&budget),
            DispatchInput::BudgetGone(key) => self.budget_gone(&key),
            DispatchInput::Paused { node, paused } if paused || self.nodes.contains_key(&node) => {
                self.change_node(&node, |n| n.paused = paused);
            }
            DispatchInput::PausedAll(paused) => self.paused = paused,
            DispatchInput::Arrived => self.gate.arrived(now),
            DispatchInput::Settled => self.gate.settled(),
            DispatchInput::Accepted { node, urgent } => self.accepted(now, &node, urgent),
            DispatchInput::Paused { .. } | DispatchInput::Tick => {}
        }
        self.pass_time(now);
        self.let_go(now)
    }

    /// When it wants a [`DispatchInput::Tick`].
    #[must_use]
    pub fn next_wake(&self) -> Option<Moment> {
        let pod = self.timers.first().map(|(at, _)| *at);
        [pod, self.gate.opens_at(), self.overloaded_until, self.lanes.next_wake()]
            .into_iter()
            .flatten()
            .min()
    }

    /// What it says of itself.
    #[must_use]
    pub fn status(&self) -> DispatchStatus {
        let under_way = self.flights.keys().filter(|uid| self.pods.contains_key(*uid)).count();
        DispatchStatus {
            in_flight: self.flights.len(),
            waiting: self.pods.len() - under_way,
            undecided: self.gate.undecided(),
            held: self.gate.held(),
            overloaded_until: self.overloaded_until,
        }
    }

    // ---- letting go ----

    fn pass_time(&mut self, now: Moment) {
        self.overloaded_until = self.overloaded_until.filter(|until| *until > now);
        for node in self.gate.open(now) {
            self.change_node(&node, |n| n.held = false);
        }
        self.lanes.tick(now);
        while let Some((_, uid)) = self.timers.first().filter(|(at, _)| *at <= now).cloned() {
            self.wake(&uid);
        }
    }

    /// Lets go what may: deletes first, then evictions, each in the order of turns.
    fn let_go(&mut self, now: Moment) -> Vec<DispatchEffect> {
        let mut gone = Vec::new();
        while let Some(uid) = self.next() {
            self.leave_queue(&uid);
            let Some(lane) = self.pods.get(&uid).map(|wanted| self.lane_of_order(wanted)) else {
                break;
            };
            let version = self.lanes.launched(now, &lane);
            let Some(wanted) = self.pods.get_mut(&uid) else { break };
            wanted.state = State::UnderWay;
            (wanted.again, wanted.soon) = (false, None);
            let evict = !lane.is_delete();
            if let Some(node) = self.nodes.get_mut(&wanted.node).filter(|_| evict) {
                node.started = true;
            }
            gone.push(DispatchEffect::Go { node: wanted.node.clone(), uid: uid.clone(), evict });
            self.flights.insert(uid, Flight { pod: wanted.pod.clone(), lane, sent: now, version });
        }
        gone
    }

    /// The pod whose turn it is, if there is a slot for it.
    fn next(&self) -> Option<PodUid> {
        let (counted, all) = (self.lanes.counted(), self.flights.len());
        let delete = || Some(()).filter(|()| self.slots.has_room_for_delete(counted, all));
        match self.overloaded_until {
            _ if self.paused => None,
            None => delete().and_then(|()| self.lanes.next_delete()).or_else(|| {
                let (uid, urgent) = self.lanes.next_eviction()?;
                Some(uid).filter(|_| self.slots.has_room_for_eviction(urgent, counted, all))
            }),
            // What would come too late after the pause does not wait for it.
            Some(until) => delete().and_then(|()| self.lanes.next_delete_due(until)),
        }
    }

    /// The lane in which the order of a pod goes now. One that was never evicted is, where its lane
    /// of evictions has room.
    fn lane_of_order(&self, wanted: &Wanted) -> LaneKey {
        // The slots that only deletes may use stay theirs.
        let has_slot =
            || self.slots.has_room_for_eviction(true, self.lanes.counted(), self.flights.len());
        if wanted.by == By::EvictionOrDelete && self.overloaded_until.is_none() && has_slot() {
            let lane = self.lane_of(&wanted.pod, By::Eviction);
            if self.lanes.has_room(&lane) {
                return lane;
            }
        }
        wanted.lane.clone()
    }

    /// An order is over. Whether it was an eviction; `None`: no such order is under way.
    fn land(&mut self, now: Moment, uid: &PodUid, class: Option<Class>) -> Option<bool> {
        let flight = self.flights.remove(uid)?;
        let reply = match class {
            None => Reply::Withdrawn,
            Some(Class::Transient) if flight.sent.plus(SILENT_AFTER) <= now => Reply::TimedOut,
            Some(_) => Reply::Answered,
        };
        let landing = match class {
            Some(Class::Accepted) => Landing::Used,
            Some(Class::Budget | Class::BudgetLagging { .. } | Class::BudgetBroken) => {
                Landing::Refused(flight.version)
            }
            _ => Landing::Other,
        };
        self.lanes.landed(now, &flight.lane, &flight.pod, reply, landing);
        Some(!flight.lane.is_delete())
    }

    fn answered(&mut self, now: Moment, uid: &PodUid, class: Class) {
        let landed = self.land(now, uid, Some(class));
        if let Class::Overload { retry_after } = class {
            self.overloaded_until = self.overloaded_until.max(Some(now.plus(retry_after)));
        }
        let Some(evicted) = landed else { return };
        let Some(wanted) = self.pods.get_mut(uid).filter(|w| w.state == State::UnderWay) else {
            return;
        };
        if class == Class::Accepted {
            self.forget(uid);
            return;
        }
        // Of a pod that is gone its drain says at once that nothing is wanted any more; unless it
        // knows better.
        let passing = matches!(
            class,
            Class::Transient
                | Class::Unauthorized
                | Class::Conflict
                | Class::Gone
                | Class::OtherUid
        );
        if evicted && wanted.by == By::EvictionOrDelete {
            // It was tried now. Its drain says the same as soon as it has heard the answer.
            wanted.by = By::Delete;
        }
        let delete = wanted.by.is_delete();
        let wait = self.patience.wait(class, wanted.tries, delete);
        // It is to be deleted by now: how its eviction failed is no reason to wait with that.
        let passing = passing && !(evicted && delete);
        wanted.tries = if passing { wanted.tries.saturating_add(1) } else { 0 };
        let on_budget =
            matches!(class, Class::Budget | Class::BudgetLagging { .. } | Class::BudgetBroken);
        wanted.state = match wait {
            Some(wait) if passing || !wanted.again => {
                let until = now.plus(wait);
                State::Parked {
                    until: wanted.soon.take().map_or(until, |soon| until.min(soon.max(now))),
                    on_budget,
                }
            }
            _ => State::Ready,
        };
        self.enter_queue(uid);
    }

    fn withdrawn(&mut self, now: Moment, uid: &PodUid) {
        if self.land(now, uid, None).is_none() {
            return;
        }
        match self.pods.get_mut(uid) {
            Some(wanted) if wanted.again => {
                wanted.state = State::Ready;
                self.enter_queue(uid);
            }
            Some(_) => self.forget(uid),
            None => {}
        }
    }

    // ---- what is wanted ----

    fn want(&mut self, now: Moment, node: NodeName, pod: Arc<Pod>, by: By) {
        let uid = pod.uid.clone();
        let (lane, delete) = (self.lane_of(&pod, by), by.is_delete());
        let under_way = self.flights.contains_key(&uid);
        let Some(wanted) = self.pods.get(&uid) else {
            let place = self.nodes.entry(node.clone()).or_default();
            place.pods.insert(uid.clone());
            place.join(&lane);
            self.namespaces.entry(pod.key.namespace.clone()).or_default().insert(uid.clone());
            let state = if under_way { State::UnderWay } else { State::Ready };
            self.pods.insert(
                uid.clone(),
                Wanted { node, pod, by, lane, state, tries: 0, again: under_way, soon: None },
            );
            self.enter_queue(&uid);
            return;
        };
        let other = wanted.pod.phase != pod.phase || wanted.pod.labels != pod.labels;
        let helps = wanted.by != by || (other || !wanted.pod.ready && pod.ready) && !delete;
        let failed = wanted.pod.ready && !pod.ready && !delete;
        self.leave_queue(&uid);
        if let Some(wanted) = self.pods.get_mut(&uid) {
            wanted.pod = pod;
            if wanted.by != by {
                wanted.tries = 0;
            }
            wanted.by = by;
        }
        self.move_to_lane(&uid, lane);
        if helps {
            self.ready(&uid);
        } else if failed {
            self.ready_after(&uid, now.plus(SETTLED));
        }
        self.enter_queue(&uid);
    }

    /// No order is wanted for it any more. One that is under way still counts until its answer.
    fn forget(&mut self, uid: &PodUid) {
        self.leave_queue(uid);
        let Some(wanted) = self.pods.remove(uid) else { return };
        if let Some(node) = self.nodes.get_mut(&wanted.node) {
            node.pods.remove(uid);
            node.leave(&wanted.lane);
        }
        let namespace = &wanted.pod.key.namespace;
        if let Some(pods) = self.namespaces.get_mut(namespace) {
            pods.remove(uid);
            if pods.is_empty() {
                self.namespaces.remove(namespace);
            }
        }
    }

    fn close(&mut self, node: &NodeName) {
        for uid in self.nodes.get(node).map(|n| n.pods.clone()).unwrap_or_default() {
            self.forget(&uid);
        }
        self.nodes.remove(node);
        self.gate.forget(node);
    }

    // ---- queues ----

    /// Puts a pod where its state belongs.
    fn enter_queue(&mut self, uid: &PodUid) {
        let Some(wanted) = self.pods.get(uid) else { return };
        let Some(node) = self.nodes.get(&wanted.node) else { return };
        let turn = node.turn_in(&wanted.lane);
        match wanted.state {
            State::UnderWay => {}
            State::Ready => {
                self.lanes.add(&wanted.lane, Head::Fresh, &wanted.node, turn, &wanted.pod);
            }
            State::Parked { until, on_budget } => {
                self.timers.insert((until, uid.clone()));
                if on_budget && !wanted.by.is_delete() {
                    self.lanes.add(&wanted.lane, Head::Parked, &wanted.node, turn, &wanted.pod);
                }
            }
        }
    }

    /// Takes a pod out of wherever it waits; its state stays.
    fn leave_queue(&mut self, uid: &PodUid) {
        let Some(wanted) = self.pods.get(uid) else { return };
        match wanted.state {
            State::UnderWay => return,
            State::Ready => {}
            State::Parked { until, .. } => {
                self.timers.remove(&(until, uid.clone()));
            }
        }
        self.lanes.remove(&wanted.lane, &wanted.node, &wanted.pod);
    }

    /// Something happened that could help: a parked pod need not wait any more, and one under way
    /// need not wait if it is refused.
    fn wake(&mut self, uid: &PodUid) {
        self.leave_queue(uid);
        self.ready(uid);
        self.enter_queue(uid);
    }

    fn ready(&mut self, uid: &PodUid) {
        match self.pods.get_mut(uid) {
            Some(wanted) if wanted.state == State::UnderWay => wanted.again = true,
            Some(wanted) => wanted.state = State::Ready,
            None => {}
        }
    }

    /// As [`ready`](Self::ready), but then; at once where no budget is asked.
    fn ready_after(&mut self, uid: &PodUid, at: Moment) {
        match self.pods.get_mut(uid) {
            Some(Wanted { lane: LaneKey::Budget(_), state, soon, .. }) => match state {
                State::Parked { until, .. } => *until = at.min(*until),
                State::UnderWay => *soon = Some(at),
                State::Ready => {}
            },
            _ => self.ready(uid),
        }
    }

    /// Must be called while the pod is in no queue.
    fn move_to_lane(&mut self, uid: &PodUid, lane: LaneKey) {
        let Some(wanted) = self.pods.get_mut(uid).filter(|w| w.lane != lane) else { return };
        if let Some(node) = self.nodes.get_mut(&wanted.node) {
            node.leave(&wanted.lane);
            node.join(&lane);
        }
        wanted.lane = lane;
    }

    // ---- nodes ----

    /// Changes what is known of a node, and its place wherever its pods wait.
    fn change_node(&mut self, name: &NodeName, f: impl FnOnce(&mut NodeState)) {
        let node = self.nodes.entry(name.clone()).or_default();
        let before = (node.turn, node.paused, node.held);
        f(node);
        if before == (node.turn, node.paused, node.held) {
            return;
        }
        for lane in node.lanes.keys() {
            self.lanes.set_turn(lane, name, node.turn_in(lane));
        }
    }

    fn accepted(&mut self, now: Moment, name: &NodeName, urgent: bool) {
        if self.nodes.get(name).is_some_and(|n| n.started) {
            return;
        }
        self.gate.accepted(now, name.clone(), urgent);
        self.change_node(name, |n| n.held = true);
    }

    // ---- budgets ----

    fn lane_of(&self, pod: &Pod, by: By) -> LaneKey {
        let namespace = &pod.key.namespace;
        if by.is_delete() {
            return LaneKey::Delete(namespace.clone());
        }
        let first = BudgetKey { namespace: namespace.to_string(), name: String::new() };
        let mut matching = self
            .budgets
            .range(first..)
            .take_while(|(key, _)| *key.namespace == **namespace)
            .filter(|(_, b)| b.selects(pod));
        match (matching.next(), matching.next()) {
            (None, _) => LaneKey::Free(namespace.clone()),
            (Some((key, _)), None) => LaneKey::Budget(key.clone()),
            (Some(_), Some(_)) => LaneKey::Tangled(namespace.clone()),
        }
    }

    fn budget(&mut self, budget: &Budget) {
        let key = self
            .budgets
            .get_key_value(&budget.key)
            .map_or_else(|| Arc::new(budget.key.clone()), |(key, _)| key.clone());
        let before = self.budgets.insert(key.clone(), budget.clone());
        let selector_is_new = before.as_ref().is_none_or(|b| b.selector != budget.selector);
        let spec_is_new = before.as_ref().is_none_or(|b| b.generation != budget.generation);
        let unready = self.lanes.budget(&key, budget);
        if selector_is_new {
            self.sort_anew(&budget.key.namespace, |pod| {
                budget.selects(pod) || before.as_ref().is_some_and(|b| b.selects(pod))
            });
        } else if spec_is_new {
            // A pod that two budgets count is refused before any status is looked at, so that only
            // their specs matter to it.
            let tangled =
                |w: &Wanted| matches!(w.lane, LaneKey::Tangled(_)) && budget.selects(&w.pod);
            for uid in self.in_namespace(&budget.key.namespace, tangled) {
                self.wake(&uid);
            }
        }
        for uid in unready {
            if self.pods.get(&uid).is_some_and(|w| !w.pod.ready) {
                self.wake(&uid);
            }
        }
    }

    fn budget_gone(&mut self, key: &BudgetKey) {
        let Some((shared, budget)) = self.budgets.remove_entry(key) else { return };
        self.lanes.budget_gone(shared);
        self.sort_anew(&key.namespace, |pod| budget.selects(pod));
    }

    fn in_namespace(&self, namespace: &str, concerned: impl Fn(&Wanted) -> bool) -> Vec<PodUid> {
        let uids = self.namespaces.get(namespace).into_iter().flatten();
        uids.filter(|uid| self.pods.get(*uid).is_some_and(&concerned)).cloned().collect()
    }

    /// The budgets of a namespace count other pods than before: those concerned get their lane
    /// anew, and need not wait.
    fn sort_anew(&mut self, namespace: &str, concerned: impl Fn(&Pod) -> bool) {
        for uid in self.in_namespace(namespace, |w| concerned(&w.pod)) {
            let Some(lane) = self.pods.get(&uid).map(|w| self.lane_of(&w.pod, w.by)) else {
                continue;
            };
            self.leave_queue(&uid);
            self.move_to_lane(&uid, lane);
            self.ready(&uid);
            self.enter_queue(&uid);
        }
    }
}
