//! A small model of an API server with pods, budgets and kubelets. It runs the drains and the
//! dispatcher in virtual time.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    judge::{AtEnd, Judge},
    *,
};
use crate::domain::NodeName;

/// An order that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) at: Moment,
    pub(super) node: NodeName,
    pub(super) order: Order,
    /// Requests in flight, this one included.
    pub(super) in_flight: usize,
}

/// An event at a later time.
#[derive(Debug, Clone)]
enum Later {
    /// An order reaches the server; its answer comes back.
    Serve(NodeName, Order),
    Answer(NodeName, Order, ApiAnswer),
    /// The kubelet removes a pod that has ended.
    PodEnds(PodUid),
    /// A replacement of a pod is ready.
    Replace(Pod),
    /// The disruption controller updates the status of all budgets.
    Count,
    /// A LIST of a node's pods is answered.
    List(NodeName),
    /// An input that the test sends.
    Feed(NodeName, Input),
    FeedDispatcher(DispatchInput),
    /// A change that the test makes on the server.
    SetPod(Pod),
    FlipReady(PodUid),
    DeleteBudget(BudgetKey),
}

/// Lets a test answer in place of the server; `None`: the server answers.
pub(super) type Override = Box<dyn FnMut(Moment, &Order) -> Option<ApiAnswer>>;

pub(super) struct World {
    pub(super) now: Moment,
    pub(super) drains: BTreeMap<NodeName, Drain>,
    pub(super) dispatcher: Dispatcher,
    /// The pods that exist on the server.
    pub(super) pods: BTreeMap<PodUid, Pod>,
    pub(super) budgets: BTreeMap<BudgetKey, Budget>,
    /// How long after a pod has ended its replacement is ready, on a node that is not drained.
    /// `None`: pods are not replaced.
    pub(super) replaced_after: Option<Duration>,
    /// Pods with this value of the label `app` are created again on their node this long after
    /// their deletion.
    pub(super) put_back: Option<(&'static str, Duration)>,
    /// How long a pod takes to end, at most its grace period.
    pub(super) stops_within: Duration,
    pub(super) latency: Duration,
    pub(super) watch_lag: Duration,
    pub(super) answer: Option<Override>,
    pub(super) orphaned: BTreeSet<String>,
    later: BTreeMap<(Moment, u64), Later>,
    count: u64,
    counting: bool,
    in_flight: usize,
    pub(super) sent: Vec<Sent>,
    pub(super) notes: Vec<(Moment, Note)>,
    pub(super) ended: BTreeMap<NodeName, (Moment, Outcome)>,
    /// What the judge knew of each drain when it ended.
    pub(super) at_end: BTreeMap<NodeName, AtEnd>,
    pub(super) only_own: usize,
    /// By how many healthy pods a budget was violated at most.
    pub(super) overrun: i64,
    judge: Judge,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            now: at(0),
            drains: BTreeMap::new(),
            dispatcher: Dispatcher::new(DispatchSettings::default()),
            pods: BTreeMap::new(),
            budgets: BTreeMap::new(),
            replaced_after: None,
            put_back: None,
            stops_within: seconds(2),
            latency: Duration::from_millis(5),
            watch_lag: Duration::from_millis(3),
            answer: None,
            orphaned: BTreeSet::new(),
            later: BTreeMap::new(),
            count: 0,
            counting: false,
            in_flight: 0,
            sent: Vec::new(),
            notes: Vec::new(),
            ended: BTreeMap::new(),
            at_end: BTreeMap::new(),
            only_own: 0,
            overrun: 0,
            judge: Judge::default(),
        }
    }

    /// Schedules one update of all budgets by the disruption controller, for all changes until
    /// then.
    fn count_soon(&mut self) {
        if !std::mem::replace(&mut self.counting, true) {
            self.later(Duration::from_millis(20), Later::Count);
        }
    }

    fn later(&mut self, after: Duration, what: Later) {
        self.count += 1;
        self.later.insert((self.now.plus(after), self.count), what);
    }

    /// Sends an input to a drain at this time of the test.
    pub(super) fn feed_at(&mut self, when: Moment, node: &str, input: Input) {
        self.later(when.since_or_zero(self.now), Later::Feed(node.into(), input));
    }

    pub(super) fn feed_dispatcher_at(&mut self, when: Moment, input: DispatchInput) {
        self.later(when.since_or_zero(self.now), Later::FeedDispatcher(input));
    }

    pub(super) fn set_pod_at(&mut self, when: Moment, pod: Pod) {
        self.later(when.since_or_zero(self.now), Later::SetPod(pod));
    }

    pub(super) fn flip_ready_at(&mut self, when: Moment, uid: &str) {
        self.later(when.since_or_zero(self.now), Later::FlipReady(uid.into()));
    }

    pub(super) fn end_pod_at(&mut self, when: Moment, uid: &str) {
        self.later(when.since_or_zero(self.now), Later::PodEnds(uid.into()));
    }

    pub(super) fn delete_budget_at(&mut self, when: Moment, key: BudgetKey) {
        self.later(when.since_or_zero(self.now), Later::DeleteBudget(key));
    }

    pub(super) fn add_pod(&mut self, pod: Pod) {
        self.pods.insert(pod.uid.clone(), pod);
    }

    /// Adds a budget, and updates the status of all budgets.
    pub(super) fn add_budget(&mut self, name: &str, min_available: i64) {
        let budget = Budget { desired: min_available, ..budget(name, 0) };
        self.budgets.insert(budget.key.clone(), budget);
        self.count_budgets();
    }

    /// Begins the drain of a node.
    pub(super) fn drain(&mut self, node: &str, limits: Limits) {
        self.drain_with(
            Start { node: node.into(), cordoned_at: self.now, limits, own_pod: None },
            Settings::default(),
        );
    }

    pub(super) fn drain_with(&mut self, start: Start, settings: Settings) {
        let node = start.node.clone();
        self.judge.begins(&start);
        self.drains.insert(node.clone(), Drain::new(start, settings));
        self.list(&node);
    }

    fn list(&mut self, node: &NodeName) {
        let pods = self.pods.values().filter(|p| p.node.as_ref() == Some(node)).cloned().collect();
        self.feed(node, Input::Listed(pods));
        self.feed(node, Input::Watch(WatchState::Open));
    }

    /// Runs the test until this moment.
    pub(super) fn run_until(&mut self, end: Moment) {
        let mut idle = 0;
        loop {
            let wakes = self
                .drains
                .values()
                .filter_map(Drain::next_wake)
                .chain(self.dispatcher.next_wake());
            let event = self.later.keys().next().map(|(at, _)| *at);
            let Some(next) = wakes.chain(event).min().filter(|next| *next <= end) else { break };
            idle = if next > self.now { 0 } else { idle + 1 };
            assert!(idle < 100_000, "it loops without progress at {}", self.now);
            self.now = self.now.max(next);
            let due = self
                .later
                .first_entry()
                .filter(|e| e.key().0 <= self.now)
                .map(std::collections::btree_map::OccupiedEntry::remove);
            if let Some(what) = due {
                self.happen(what);
                continue;
            }
            for node in self.drains.keys().cloned().collect::<Vec<_>>() {
                if self.drains[&node].next_wake().is_some_and(|at| at <= self.now) {
                    self.feed(&node, Input::Tick);
                }
            }
            if self.dispatcher.next_wake().is_some_and(|at| at <= self.now) {
                self.feed_dispatcher(DispatchInput::Tick);
            }
        }
        self.now = self.now.max(end);
    }

    fn happen(&mut self, what: Later) {
        match what {
            Later::Serve(node, order) => {
                let given = self.answer.as_mut().and_then(|f| f(self.now, &order));
                let answer = given.unwrap_or_else(|| self.serve(&order));
                self.later(self.latency, Later::Answer(node, order, answer));
            }
            Later::Answer(node, order, answer) => {
                self.in_flight -= 1;
                self.judge.answered(self.now, &order, &answer);
                self.feed_dispatcher(DispatchInput::Answer {
                    uid: order.uid().clone(),
                    class: classify(&answer),
                });
                self.feed(&node, Input::Answer { order, answer });
            }
            Later::PodEnds(uid) => {
                if let Some(pod) = self.pods.remove(&uid) {
                    if let Some(node) = pod.node.clone() {
                        self.later(self.watch_lag, Later::Feed(node, Input::Gone(uid.clone())));
                    }
                    if let Some(after) = self.replaced_after {
                        let name: PodUid = format!("{uid}+").into();
                        self.later(
                            after,
                            Later::Replace(Pod {
                                uid: name,
                                node: None,
                                deletion: None,
                                ready: true,
                                ..pod
                            }),
                        );
                    }
                }
                self.count_soon();
            }
            Later::Replace(pod) | Later::SetPod(pod) => {
                if let Some(node) = pod.node.clone() {
                    self.later(self.watch_lag, Later::Feed(node, Input::Changed(pod.clone())));
                }
                self.pods.insert(pod.uid.clone(), pod);
                self.count_soon();
            }
            Later::FlipReady(uid) => {
                if let Some(pod) = self.pods.get(&uid).filter(|p| p.deletion.is_none()).cloned() {
                    self.happen(Later::SetPod(Pod { ready: !pod.ready, ..pod }));
                }
            }
            Later::Count => self.count_budgets(),
            Later::List(node) => self.list(&node),
            Later::Feed(node, input) => self.feed(&node, input),
            Later::FeedDispatcher(input) => self.feed_dispatcher(input),
            Later::DeleteBudget(key) => {
                self.budgets.remove(&key);
                self.later(self.watch_lag, Later::FeedDispatcher(DispatchInput::BudgetGone(key)));
            }
        }
    }

    /// The eviction subresource and DELETE, in the order of `eviction.go`.
    fn serve(&mut self, order: &Order) -> ApiAnswer {
        let same_name = || self.pods.values().find(|p| p.key == *order.pod());
        let Some(pod) = self.pods.get(order.uid()).or_else(same_name) else {
            return answer(404, "NotFound", &format!("pods \"{}\" not found", order.pod().name));
        };
        if pod.uid != *order.uid() {
            return other_uid();
        }
        let pod = pod.clone();
        let grace = match order {
            Order::Delete { grace, .. } => seconds((*grace).into()),
            Order::Evict { grace, .. } => {
                let free = pod.deletion.is_some()
                    || matches!(pod.phase, PodPhase::Pending)
                    || pod.phase.is_finished();
                if !free && let Err(refusal) = self.take_from_budget(&pod) {
                    return refusal;
                }
                grace.map_or(pod.grace, |g| seconds(g.into()))
            }
        };
        self.terminate(&pod, grace);
        ok()
    }

    fn take_from_budget(&mut self, pod: &Pod) -> Result<(), ApiAnswer> {
        let matching: Vec<_> =
            self.budgets.values().filter(|b| b.selects(pod)).map(|b| b.key.clone()).collect();
        let [key] = matching.as_slice() else {
            return if matching.is_empty() { Ok(()) } else { Err(two_budgets()) };
        };
        let budget = self.budgets.get_mut(key).unwrap();
        if !pod.ready && budget.healthy >= budget.desired && budget.desired > 0 {
            return Ok(());
        }
        if budget.observed < budget.generation {
            return Err(lagging());
        }
        if budget.allowed <= 0 {
            return Err(refused_by_budget());
        }
        budget.allowed -= 1;
        let budget = budget.clone();
        self.later(self.watch_lag, Later::FeedDispatcher(DispatchInput::Budget(budget)));
        Ok(())
    }

    fn terminate(&mut self, pod: &Pod, grace: Duration) {
        let end = self.now.plus(grace);
        let stays = pod.finalizers;
        let first = pod.deletion.is_none();
        if let Some((_, after)) =
            self.put_back.filter(|(app, _)| first && pod.labels.get("app") == Some(*app))
        {
            let created = Some(self.now.plus(after));
            self.later(
                after,
                Later::Replace(Pod { uid: format!("{}+", pod.uid).into(), created, ..pod.clone() }),
            );
        }
        let pod = Pod {
            deletion: Some(pod.deletion.map_or(end, |d| d.min(end))),
            ready: false,
            ..pod.clone()
        };
        self.pods.insert(pod.uid.clone(), pod.clone());
        if !stays {
            let ends = if first { self.stops_within.min(grace) } else { grace };
            self.later(ends, Later::PodEnds(pod.uid.clone()));
        }
        if let Some(node) = pod.node.clone() {
            self.later(self.watch_lag, Later::Feed(node, Input::Changed(pod)));
        }
        self.count_soon();
    }

    fn count_budgets(&mut self) {
        self.counting = false;
        for key in self.budgets.keys().cloned().collect::<Vec<_>>() {
            let budget = &self.budgets[&key];
            let healthy = self
                .pods
                .values()
                .filter(|p| budget.selects(p) && p.ready && p.deletion.is_none())
                .count();
            let healthy = i64::try_from(healthy).unwrap();
            let new = Budget {
                healthy,
                allowed: (healthy - budget.desired).max(0),
                observed: budget.generation,
                ..budget.clone()
            };
            self.overrun = self.overrun.max(budget.desired - healthy);
            if self.now == at(0) {
                self.budgets.insert(key, new.clone());
                self.feed_dispatcher(DispatchInput::Budget(new));
            } else if new != self.budgets[&key] {
                self.budgets.insert(key, new.clone());
                self.later(self.watch_lag, Later::FeedDispatcher(DispatchInput::Budget(new)));
            }
        }
    }

    pub(super) fn feed(&mut self, node: &NodeName, input: Input) {
        let Some(drain) = self.drains.get_mut(node) else { return };
        self.judge.record_input(self.now, node, &input);
        let effects = drain.step(self.now, input);
        for effect in effects {
            match effect {
                Effect::Dispatch(input) => self.feed_dispatcher(input),
                Effect::AskDaemonSet { namespace, name } => {
                    let state = if self.orphaned.contains(&name) {
                        DaemonSetState::Gone
                    } else {
                        DaemonSetState::Exists
                    };
                    self.later(
                        self.latency,
                        Later::Feed(node.clone(), Input::DaemonSet { namespace, name, state }),
                    );
                }
                Effect::AskNode => self.later(
                    self.latency,
                    Later::Feed(node.clone(), Input::Node(NodeCondition::StillUnreachable)),
                ),
                // Only a drain that waits for volumes asks for them.
                Effect::AskNamespaces | Effect::AskVolumes | Effect::StopAskingVolumes => {
                    unreachable!("{effect:?}")
                }
                Effect::OnlyOwnPodLeft => self.only_own += 1,
                Effect::Relist => {
                    self.judge.relisted(self.now, node);
                    self.later(self.latency, Later::List(node.clone()));
                }
                Effect::Note(note) => self.notes.push((self.now, note)),
                Effect::Ended(outcome) => {
                    self.at_end
                        .insert(node.clone(), self.judge.at_end(self.now, node, &self.orphaned));
                    assert!(
                        self.ended.insert(node.clone(), (self.now, outcome)).is_none(),
                        "it ends once"
                    );
                }
            }
        }
    }

    pub(super) fn feed_dispatcher(&mut self, input: DispatchInput) {
        let mut inputs = std::collections::VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            self.judge.record_dispatcher_input(&input);
            for DispatchEffect::Send { node, uid, evict } in self.dispatcher.step(self.now, input) {
                let Some(order) =
                    self.drains.get_mut(&node).and_then(|d| d.order(&uid, self.now, evict))
                else {
                    inputs.push_back(DispatchInput::Withdrawn { uid });
                    continue;
                };
                self.judge.ordered(self.now, &node, &order, &self.orphaned);
                self.in_flight += 1;
                self.sent.push(Sent {
                    at: self.now,
                    node: node.clone(),
                    order: order.clone(),
                    in_flight: self.in_flight,
                });
                self.later(self.latency, Later::Serve(node, order));
            }
        }
    }

    /// The orders that were sent, with the time in seconds since the start of the test.
    pub(super) fn log(&self) -> Vec<(u64, Order)> {
        self.sent.iter().map(|s| (s.at.since_or_zero(at(0)).as_secs(), s.order.clone())).collect()
    }

    pub(super) fn outcome(&self, node: &str) -> Option<&Outcome> {
        self.ended.get(&NodeName::from(node)).map(|(_, o)| o)
    }

    /// When a drain ended, in milliseconds since the start of the test.
    pub(super) fn ended_ms(&self, node: &str) -> Option<u128> {
        self.ended.get(&NodeName::from(node)).map(|(t, _)| t.since_or_zero(at(0)).as_millis())
    }
}
