//! The dispatcher as a state machine.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{
    Class, DispatchEffect, DispatchInput, DispatchSettings, DispatchStatus,
    gate::{Gate, Waits},
    lane::{Head, LaneKey},
    lanes::{Landing, Lanes},
    patience::Patience,
    turn::TurnQueue,
    wanted::{Flight, NodeState, State, Wanted},
};
use crate::domain::{Budget, BudgetKey, Moment, MomentExt, NodeName, Pod, PodUid, seconds};

/// How long the disruption controller has to see that a pod is not ready any more. Until its budget's status says so the API server counts the
/// pod as healthy, and lets it go although the budget is not kept without it (seen 64 ms after the pod's status).
const SETTLED: Duration = seconds(3);

/// The dispatcher over all drains, which alone lets orders go.
#[derive(Debug)]
pub struct Dispatcher {
    cap: usize,
    patience: Patience,
    pods: BTreeMap<PodUid, Wanted>,
    namespaces: BTreeMap<String, BTreeSet<PodUid>>,
    nodes: BTreeMap<NodeName, NodeState>,
    budgets: BTreeMap<Arc<BudgetKey>, Budget>,
    lanes: Lanes,
    deletes: TurnQueue,
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
        let waits = Waits { quiet: settings.burst_quiet, urgent: settings.burst_urgent, relaxed: settings.burst_relaxed };
        Self {
            cap: settings.in_flight.max(1),
            patience: Patience::new(settings.probe, settings.seed),
            pods: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            nodes: BTreeMap::new(),
            budgets: BTreeMap::new(),
            lanes: Lanes::new(settings.per_budget),
            deletes: TurnQueue::default(),
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
            DispatchInput::Want { node, pod, delete } => self.want(now, node, pod, delete),
            DispatchInput::Unwant { uid } => self.forget(&uid),
            DispatchInput::Turn { node, turn } => self.change_node(&node, |n| n.turn = turn),
            DispatchInput::Closed { node } => self.close(&node),
            DispatchInput::Answer { uid, class } => self.answered(now, &uid, class),
            DispatchInput::Withdrawn { uid } => self.withdrawn(now, &uid),
            DispatchInput::Budget(budget) => self.budget(&budget),
            DispatchInput::BudgetGone(key) => self.budget_gone(&key),
            DispatchInput::Paused { node, paused } if paused || self.nodes.contains_key(&node) => self.change_node(&node, |n| n.paused = paused),
            DispatchInput::PausedAll(paused) => self.paused = paused,
            DispatchInput::Arrived => self.gate.arrived(now),
            DispatchInput::Settled => self.gate.settled(),
            DispatchInput::Accepted { node, urgent } => self.accepted(now, &node, urgent),
            DispatchInput::Paused { .. } | DispatchInput::Tick => {}
        }
        self.pass_time(now);
        self.let_go()
    }

    /// When it wants a [`DispatchInput::Tick`].
    #[must_use]
    pub fn next_wake(&self) -> Option<Moment> {
        let pod = self.timers.first().map(|(at, _)| *at);
        [pod, self.gate.opens_at(), self.overloaded_until, self.lanes.next_wake()].into_iter().flatten().min()
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
    fn let_go(&mut self) -> Vec<DispatchEffect> {
        let mut gone = Vec::new();
        while !self.paused && self.flights.len() < self.cap {
            let next = match self.overloaded_until {
                None => self.deletes.first_pod().or_else(|| self.lanes.next()),
                // What would come too late after the pause does not wait for it.
                Some(until) => self.deletes.first_pod_due(until),
            };
            let Some(uid) = next else { break };
            self.leave_queue(&uid);
            let Some(wanted) = self.pods.get_mut(&uid) else { break };
            wanted.state = State::UnderWay;
            (wanted.again, wanted.soon) = (false, None);
            let lane = (!wanted.delete).then(|| wanted.lane.clone());
            let version = lane.as_ref().and_then(|lane| self.lanes.launched(lane));
            if let Some(node) = self.nodes.get_mut(&wanted.node).filter(|_| lane.is_some()) {
                node.started = true;
            }
            gone.push(DispatchEffect::Go { node: wanted.node.clone(), uid: uid.clone() });
            self.flights.insert(uid, Flight { pod: wanted.pod.clone(), lane, version });
        }
        gone
    }

    fn land(&mut self, now: Moment, uid: &PodUid, landing: impl FnOnce(Option<u64>) -> Landing) -> bool {
        let Some(flight) = self.flights.remove(uid) else { return false };
        if let Some(lane) = &flight.lane {
            self.lanes.landed(now, lane, &flight.pod, landing(flight.version));
        }
        true
    }

    fn answered(&mut self, now: Moment, uid: &PodUid, class: Class) {
        let evicted = self.flights.get(uid).is_some_and(|f| f.lane.is_some());
        let landed = self.land(now, uid, |version| match class {
            Class::Accepted => Landing::Used,
            Class::Budget | Class::BudgetLagging { .. } | Class::BudgetBroken => Landing::Refused(version),
            _ => Landing::Other,
        });
        if let Class::Overload { retry_after } = class {
            self.overloaded_until = self.overloaded_until.max(Some(now.plus(retry_after)));
        }
        let Some(wanted) = self.pods.get_mut(uid).filter(|w| landed && w.state == State::UnderWay) else { return };
        if class == Class::Accepted {
            self.forget(uid);
            return;
        }
        // Of a pod that is gone its drain says at once that nothing is wanted any more; unless it knows better.
        let passing = matches!(class, Class::Transient | Class::Unauthorized | Class::Conflict | Class::Gone | Class::OtherUid);
        let wait = self.patience.wait(class, wanted.tries, wanted.delete);
        // It is to be deleted by now: how its eviction failed is no reason to wait with that.
        let passing = passing && !(evicted && wanted.delete);
        wanted.tries = if passing { wanted.tries.saturating_add(1) } else { 0 };
        let on_budget = matches!(class, Class::Budget | Class::BudgetLagging { .. } | Class::BudgetBroken);
        wanted.state = match wait {
            Some(wait) if passing || !wanted.again => {
                let until = now.plus(wait);
                State::Parked { until: wanted.soon.take().map_or(until, |soon| until.min(soon.max(now))), on_budget }
            }
            _ => State::Ready,
        };
        self.enter_queue(uid);
    }

    fn withdrawn(&mut self, now: Moment, uid: &PodUid) {
        if !self.land(now, uid, |_| Landing::Other) {
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

    fn want(&mut self, now: Moment, node: NodeName, pod: Arc<Pod>, delete: bool) {
        let uid = pod.uid.clone();
        let lane = self.lane_of(&pod);
        let under_way = self.flights.contains_key(&uid);
        let Some(wanted) = self.pods.get(&uid) else {
            let place = self.nodes.entry(node.clone()).or_default();
            place.pods.insert(uid.clone());
            place.join(&lane);
            self.namespaces.entry(pod.key.namespace.clone()).or_default().insert(uid.clone());
            let state = if under_way { State::UnderWay } else { State::Ready };
            self.pods.insert(uid.clone(), Wanted { node, pod, delete, lane, state, tries: 0, again: under_way, soon: None });
            self.enter_queue(&uid);
            return;
        };
        let other = wanted.pod.phase != pod.phase || wanted.pod.labels != pod.labels;
        let helps = wanted.delete != delete || (other || !wanted.pod.ready && pod.ready) && !delete;
        let failed = wanted.pod.ready && !pod.ready && !delete;
        self.leave_queue(&uid);
        if let Some(wanted) = self.pods.get_mut(&uid) {
            wanted.pod = pod;
            if wanted.delete != delete {
                wanted.tries = 0;
            }
            wanted.delete = delete;
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
        if let Some(pods) = self.namespaces.get_mut(&wanted.pod.key.namespace) {
            pods.remove(uid);
            if pods.is_empty() {
                self.namespaces.remove(&wanted.pod.key.namespace);
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
        match wanted.state {
            State::UnderWay => {}
            State::Ready if wanted.delete => self.deletes.add(&wanted.node, node.deleting(), &wanted.pod),
            State::Ready => self.lanes.add(&wanted.lane, Head::Fresh, &wanted.node, node.evicting(), &wanted.pod),
            State::Parked { until, on_budget } => {
                self.timers.insert((until, uid.clone()));
                if on_budget && !wanted.delete {
                    self.lanes.add(&wanted.lane, Head::Parked, &wanted.node, node.evicting(), &wanted.pod);
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
        if wanted.delete {
            self.deletes.remove(&wanted.node, &wanted.pod);
        } else {
            self.lanes.remove(&wanted.lane, &wanted.node, &wanted.pod);
        }
    }

    /// Something happened that could help: a parked pod need not wait any more, and one under way need not wait if it is refused.
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
        let before = (node.evicting(), node.deleting());
        f(node);
        if before == (node.evicting(), node.deleting()) {
            return;
        }
        for lane in node.lanes.keys() {
            self.lanes.set_turn(lane, name, node.evicting());
        }
        self.deletes.set_turn(name, node.deleting());
    }

    fn accepted(&mut self, now: Moment, name: &NodeName, urgent: bool) {
        if self.nodes.get(name).is_some_and(|n| n.started) {
            return;
        }
        self.gate.accepted(now, name.clone(), urgent);
        self.change_node(name, |n| n.held = true);
    }

    // ---- budgets ----

    fn lane_of(&self, pod: &Pod) -> LaneKey {
        let namespace = &pod.key.namespace;
        let first = BudgetKey { namespace: namespace.clone(), name: String::new() };
        let mut matching = self.budgets.range(first..).take_while(|(key, _)| key.namespace == *namespace).filter(|(_, b)| b.selects(pod));
        match (matching.next(), matching.next()) {
            (None, _) => LaneKey::Free,
            (Some((key, _)), None) => LaneKey::Budget(key.clone()),
            (Some(_), Some(_)) => LaneKey::Tangled,
        }
    }

    fn budget(&mut self, budget: &Budget) {
        let key = self.budgets.get_key_value(&budget.key).map_or_else(|| Arc::new(budget.key.clone()), |(key, _)| key.clone());
        let before = self.budgets.insert(key.clone(), budget.clone());
        let selector_is_new = before.as_ref().is_none_or(|b| b.selector != budget.selector);
        let spec_is_new = before.as_ref().is_none_or(|b| b.generation != budget.generation);
        let unready = self.lanes.budget(&key, budget);
        if selector_is_new {
            self.sort_anew(&budget.key.namespace, |pod| budget.selects(pod) || before.as_ref().is_some_and(|b| b.selects(pod)));
        } else if spec_is_new {
            // A pod that two budgets count is refused before any status is looked at, so that only their specs matter to it.
            let tangled = |w: &Wanted| w.lane == LaneKey::Tangled && budget.selects(&w.pod);
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

    /// The budgets of a namespace count other pods than before: those concerned get their lane anew, and need not wait.
    fn sort_anew(&mut self, namespace: &str, concerned: impl Fn(&Pod) -> bool) {
        for uid in self.in_namespace(namespace, |w| concerned(&w.pod)) {
            let Some(lane) = self.pods.get(&uid).map(|w| self.lane_of(&w.pod)) else { continue };
            self.leave_queue(&uid);
            self.move_to_lane(&uid, lane);
            self.ready(&uid);
            self.enter_queue(&uid);
        }
    }
}
