//! What must hold of every order, whatever happens: looked at for each order of each test that runs
//! against the model server.

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
    /// The pods of an owner that were created on a node since its cordon.
    newcomers: BTreeMap<(NodeName, Owner), Vec<PodUid>>,
    /// The new pods of owners that have had more than three.
    left_alone: BTreeSet<PodUid>,
    overloaded_until: Option<Moment>,
    /// When each drain last asked for a LIST.
    relisted: BTreeMap<NodeName, Moment>,
    cordoned: BTreeMap<NodeName, Moment>,
    unreachable: BTreeMap<NodeName, Moment>,
}

/// What was known of a drain when it ended.
#[derive(Debug)]
pub(super) struct AtEnd {
    /// The pods that are waited for, by the rules of `kubectl drain`.
    pub(super) waited_for: BTreeSet<PodKey>,
    /// Those of DaemonSets.
    pub(super) of_daemon_sets: BTreeSet<PodKey>,
    /// New pods of owners that have had more than three: one that was told to end before is waited
    /// for.
    pub(super) left_alone: BTreeSet<PodKey>,
    pub(super) limits: Limits,
    pub(super) is_paused: bool,
    pub(super) cordoned: Moment,
    pub(super) unreachable: Option<Moment>,
}

/// The most that an overloaded API server is left in peace because it says so.
const LONGEST_PAUSE: Duration = seconds(30);

/// For how long nothing is to be sent after this answer: the API server itself has too much to do.
fn pause(answer: &ApiAnswer) -> Option<Duration> {
    let busy = answer.code == 429
        && answer.causes.is_empty()
        && answer.message.starts_with("Too many requests");
    busy.then(|| answer.retry_after.unwrap_or(seconds(1)).min(LONGEST_PAUSE))
}

fn is_of_daemon_set(pod: &Pod) -> bool {
    pod.owner
        .as_ref()
        .is_some_and(|owner| owner.kind == "DaemonSet" && owner.api_version == "apps/v1")
}

/// A pod of a DaemonSet that still exists.
fn stays_with_its_daemon_set(pod: &Pod, orphaned: &BTreeSet<String>) -> bool {
    is_of_daemon_set(pod) && pod.owner.as_ref().is_none_or(|owner| !orphaned.contains(&owner.name))
}

/// Its containers have ended.
fn is_finished(pod: &Pod) -> bool {
    matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed)
}

impl Judge {
    pub(super) fn begins(&mut self, start: &Start) {
        self.limits.insert(start.node.clone(), start.limits);
        self.cordoned.insert(start.node.clone(), start.cordoned_at);
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
            Input::Node(NodeCondition::Fine) => {
                self.unreachable.remove(node);
            }
            Input::Node(NodeCondition::Unreachable) => {
                self.unreachable.entry(node.clone()).or_insert(now);
            }
            Input::Listed(pods) => {
                let is_listed = |uid: &PodUid| pods.iter().any(|pod| pod.uid == *uid);
                self.known.retain(|uid, pod| pod.node.as_ref() != Some(node) || is_listed(uid));
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
        if !self.known_since.contains_key(&pod.uid) {
            self.known_since.insert(pod.uid.clone(), now);
            self.came(now, pod);
        }
        self.known.insert(pod.uid.clone(), pod.clone());
    }

    /// With the fourth new pod of an owner all its new pods are left alone, but for the first 5 s
    /// after the cordon, in which the scheduler may still bind pods that it had chosen the node
    /// for.
    fn came(&mut self, now: Moment, pod: &Pod) {
        let (Some(node), Some(created)) = (&pod.node, pod.created) else { return };
        let stays = pod.mirror || pod.tolerates_us || is_finished(pod) || is_of_daemon_set(pod);
        let Some(owner) = pod.owner.as_deref().filter(|_| !stays && created > self.cordoned[node])
        else {
            return;
        };
        let new = self.newcomers.entry((node.clone(), owner.clone())).or_default();
        new.push(pod.uid.clone());
        if new.len() > 3 && now > self.cordoned[node].plus(seconds(5)) {
            self.left_alone.extend(new.iter().cloned());
        }
    }

    /// An answer has come. What it means is worked out here again: the machines must not be asked.
    pub(super) fn answered(&mut self, now: Moment, order: &Order, answer: &ApiAnswer) {
        self.in_flight -= 1;
        if self.evicting.remove(order.uid()).is_some() {
            self.answered.insert(order.uid().clone());
        }
        if let Some(pause) = pause(answer) {
            self.overloaded_until = self.overloaded_until.max(Some(now.plus(pause)));
        }
    }

    /// What is known of a drain that ends.
    pub(super) fn at_end(
        &self,
        now: Moment,
        node: &NodeName,
        orphaned: &BTreeSet<String>,
    ) -> AtEnd {
        let here = || self.known.values().filter(|pod| pod.node.as_ref() == Some(node));
        // What holds the object of a pod that has ended is waited for a minute.
        let is_over = |pod: &Pod| {
            is_finished(pod)
                && pod.deletion.is_none_or(|at| pod.finalizers && now >= at.plus(seconds(60)))
        };
        let is_exempt =
            |pod: &Pod| pod.mirror || pod.tolerates_us || self.left_alone.contains(&pod.uid);
        let stays =
            |pod: &Pod| is_exempt(pod) || is_over(pod) || stays_with_its_daemon_set(pod, orphaned);
        AtEnd {
            waited_for: here().filter(|pod| !stays(pod)).map(|pod| pod.key.clone()).collect(),
            of_daemon_sets: here()
                .filter(|pod| is_of_daemon_set(pod))
                .map(|pod| pod.key.clone())
                .collect(),
            left_alone: here()
                .filter(|pod| self.left_alone.contains(&pod.uid))
                .map(|pod| pod.key.clone())
                .collect(),
            limits: self.limits[node],
            is_paused: self.paused.contains(node),
            cordoned: self.cordoned[node],
            unreachable: self.unreachable.get(node).copied(),
        }
    }

    pub(super) fn told_dispatcher(&mut self, input: &DispatchInput) {
        match input {
            DispatchInput::Budget(budget) => {
                self.budgets.insert(budget.key.clone(), budget.clone());
            }
            DispatchInput::BudgetGone(key) => {
                self.budgets.remove(key);
            }
            DispatchInput::PausedAll(paused) => self.paused_all = *paused,
            _ => {}
        }
    }

    pub(super) fn relisted(&mut self, now: Moment, node: &NodeName) {
        if let Some(before) = self.relisted.insert(node.clone(), now) {
            assert!(now >= before.plus(seconds(5)), "{node} is listed again and again");
        }
    }

    /// Holds an order against everything that was told.
    pub(super) fn ordered(
        &mut self,
        now: Moment,
        node: &NodeName,
        order: &Order,
        orphaned: &BTreeSet<String>,
    ) {
        let pod = self
            .known
            .get(order.uid())
            .unwrap_or_else(|| panic!("{order:?}: a pod that nobody told of"));
        assert_eq!(
            (&pod.key, pod.node.as_ref()),
            (order.pod(), Some(node)),
            "its own UID, on its own node"
        );
        assert!(!pod.mirror && !pod.tolerates_us && !is_finished(pod), "{pod:?} does not count");
        assert!(!stays_with_its_daemon_set(pod, orphaned), "{pod:?} is its DaemonSet's");
        let goes_already = pod.deletion.is_some() || self.answered.contains(&pod.uid);
        assert!(
            goes_already || !self.left_alone.contains(&pod.uid),
            "{pod:?} has come back again and again"
        );
        assert!(!self.paused.contains(node) && !self.paused_all, "the drain is paused");
        self.in_flight += 1;
        assert!(self.in_flight <= if matches!(order, Order::Delete { .. }) { 40 } else { 32 });
        let limits = self.limits[node];
        let too_late = |until| {
            matches!(order, Order::Delete { .. }) && limits.force_at.is_some_and(|at| at <= until)
        };
        assert!(
            self.overloaded_until.is_none_or(|until| until <= now || too_late(until)),
            "a pause"
        );
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
                    let waited =
                        now >= from.max(self.known_since[&pod.uid]).plus(seconds(2)).min(last);
                    assert!(waited || self.answered.contains(&pod.uid), "it was not evicted first");
                }
            }
        }
    }

    fn grace_fits(now: Moment, force_at: Moment, pod: &Pod, grace: u32) {
        assert!(grace >= 1, "0 kills at once");
        let left = force_at.since_or_zero(now) + Duration::from_millis(500);
        assert!(
            seconds(grace.into()) <= pod.grace.min(left).max(seconds(1)),
            "{grace} s of {:?}, {left:?} left",
            pod.grace
        );
    }

    fn budgets_allow(&self, pod: &Pod) {
        let matching: Vec<_> = self.budgets.values().filter(|b| b.selects(pod)).collect();
        let [budget] = matching.as_slice() else { return };
        let tangled = |p: &Pod| self.budgets.values().filter(|b| b.selects(p)).count() > 1;
        let under_way = self.evicting.values().filter(|p| budget.selects(p) && !tangled(p)).count();
        let allowed = if budget.observed < budget.generation {
            0
        } else {
            usize::try_from(budget.allowed).unwrap_or(0)
        };
        assert!(under_way < allowed.clamp(1, 8), "{under_way} under way, {allowed} allowed");
    }
}
