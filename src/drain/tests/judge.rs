//! What must hold of every order, whatever happens: looked at for each order of each test that runs against the model server.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::domain::NodeName;

/// Knows what was told to the machines, and holds their orders against it.
#[derive(Debug, Default)]
pub(super) struct Judge {
    limits: BTreeMap<NodeName, Limits>,
    paused: BTreeSet<NodeName>,
    paused_all: bool,
    budgets: BTreeMap<BudgetKey, Budget>,
    /// Evictions under way.
    evicting: BTreeMap<PodUid, Arc<Pod>>,
    in_flight: usize,
    /// Pods of whose eviction an answer came, whichever.
    answered: BTreeSet<PodUid>,
    /// What the drains were last told of each pod.
    known: BTreeMap<PodUid, Pod>,
    /// When they were first told of it.
    known_since: BTreeMap<PodUid, Moment>,
    overloaded_until: Option<Moment>,
    /// When each drain last asked for a LIST.
    relisted: BTreeMap<NodeName, Moment>,
}

impl Judge {
    pub(super) fn begins(&mut self, start: &Start) {
        self.limits.insert(start.node.clone(), start.limits);
        self.paused.remove(&start.node);
    }

    pub(super) fn told(&mut self, now: Moment, node: &NodeName, input: &Input) {
        match input {
            Input::Limits(limits) => {
                self.limits.insert(node.clone(), *limits);
            }
            Input::Paused => {
                self.paused.insert(node.clone());
            }
            Input::Resumed(limits) => {
                self.limits.insert(node.clone(), *limits);
                self.paused.remove(node);
            }
            Input::Listed(pods) => {
                for pod in pods {
                    self.know(now, pod);
                }
            }
            Input::Changed(pod) => self.know(now, pod),
            Input::Gone(uid) => {
                self.known.remove(uid);
            }
            _ => {}
        }
    }

    fn know(&mut self, now: Moment, pod: &Pod) {
        self.known_since.entry(pod.uid.clone()).or_insert(now);
        self.known.insert(pod.uid.clone(), pod.clone());
    }

    pub(super) fn told_dispatcher(&mut self, now: Moment, input: &DispatchInput) {
        match input {
            DispatchInput::Budget(budget) => {
                self.budgets.insert(budget.key.clone(), budget.clone());
            }
            DispatchInput::BudgetGone(key) => {
                self.budgets.remove(key);
            }
            DispatchInput::PausedAll(paused) => self.paused_all = *paused,
            DispatchInput::Answer { uid, class } => {
                self.in_flight -= 1;
                if self.evicting.remove(uid).is_some() {
                    self.answered.insert(uid.clone());
                }
                if let Class::Overload { retry_after } = class {
                    self.overloaded_until = self.overloaded_until.max(Some(now.plus(*retry_after)));
                }
            }
            _ => {}
        }
    }

    pub(super) fn relisted(&mut self, now: Moment, node: &NodeName) {
        if let Some(before) = self.relisted.insert(node.clone(), now) {
            assert!(now >= before.plus(seconds(5)), "{node} is listed again and again");
        }
    }

    /// Holds an order against everything that was told.
    pub(super) fn ordered(&mut self, now: Moment, node: &NodeName, order: &Order) {
        let pod = self.known.get(order.uid()).unwrap_or_else(|| panic!("{order:?}: a pod that nobody told of"));
        assert_eq!((&pod.key, pod.node.as_ref()), (order.pod(), Some(node)), "its own UID, on its own node");
        assert!(!pod.mirror && !pod.tolerates_us && !pod.phase.is_finished(), "{pod:?} does not count");
        assert!(!self.paused.contains(node) && !self.paused_all, "the brake is on");
        self.in_flight += 1;
        assert!(self.in_flight <= if matches!(order, Order::Delete { .. }) { 40 } else { 32 });
        let limits = self.limits[node];
        let too_late = |until| matches!(order, Order::Delete { .. }) && limits.force_at.is_some_and(|at| at <= until);
        assert!(self.overloaded_until.is_none_or(|until| until <= now || too_late(until)), "a pause");
        match order {
            Order::Evict { grace, .. } => {
                assert_eq!(pod.deletion, None, "it is terminating already");
                assert_eq!(grace.is_some(), limits.force_at.is_some());
                if let Some(force_at) = limits.force_at {
                    Self::grace_fits(now, force_at, pod, grace.unwrap());
                }
                self.budgets_allow(pod);
                self.evicting.insert(pod.uid.clone(), Arc::new(pod.clone()));
            }
            Order::Delete { grace, why, .. } => {
                let force_at = limits.force_at.expect("no delete without a deadline");
                Self::grace_fits(now, force_at, pod, *grace);
                if *why == DeleteWhy::Shortened {
                    assert!(pod.deletion.unwrap() > force_at, "it ends in time");
                } else {
                    assert_eq!(pod.deletion, None);
                    let own = force_at.minus(pod.grace);
                    let half = limits.accepted.plus(force_at.since_or_zero(limits.accepted) / 2);
                    let (from, last) = (own.max(half), force_at.minus(seconds(1)));
                    assert!(now >= from.min(last), "too early");
                    let waited = now >= from.max(self.known_since[&pod.uid]).plus(seconds(2)).min(last);
                    assert!(waited || self.answered.contains(&pod.uid), "it was not evicted first");
                }
            }
        }
    }

    fn grace_fits(now: Moment, force_at: Moment, pod: &Pod, grace: u32) {
        assert!(grace >= 1, "0 kills at once");
        let left = force_at.since_or_zero(now) + Duration::from_millis(500);
        assert!(seconds(grace.into()) <= pod.grace.min(left).max(seconds(1)), "{grace} s of {:?}, {left:?} left", pod.grace);
    }

    fn budgets_allow(&self, pod: &Pod) {
        let matching: Vec<_> = self.budgets.values().filter(|b| b.selects(pod)).collect();
        let [budget] = matching.as_slice() else { return };
        let tangled = |p: &Pod| self.budgets.values().filter(|b| b.selects(p)).count() > 1;
        let under_way = self.evicting.values().filter(|p| budget.selects(p) && !tangled(p)).count();
        let allowed = if budget.observed < budget.generation { 0 } else { usize::try_from(budget.allowed).unwrap_or(0) };
        assert!(under_way < allowed.clamp(1, 8), "{under_way} under way, {allowed} allowed");
    }
}
