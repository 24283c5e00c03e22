//! Rules that every order must obey, checked for each order in each test that runs against the
//! model server.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::domain::{CRITICAL_PRIORITY, EvictionStart, NodeName, Response};

/// Records the inputs of the drains and the dispatcher, and checks their orders against these.
#[derive(Debug, Default)]
pub(super) struct Judge {
    limits: BTreeMap<NodeName, Limits>,
    paused: BTreeSet<NodeName>,
    paused_all: bool,
    budgets: BTreeMap<BudgetKey, Budget>,
    /// Evictions in flight.
    evicting: BTreeMap<PodUid, Arc<Pod>>,
    in_flight: usize,
    /// Pods whose eviction was answered, whatever the answer.
    answered: BTreeSet<PodUid>,
    /// Pods of which the API server has said that they are gone, or have another UID now.
    reported_gone: BTreeSet<PodUid>,
    /// The last version of each pod that its drain received.
    known: BTreeMap<PodUid, Pod>,
    /// When the drain received the first version.
    known_since: BTreeMap<PodUid, Moment>,
    /// The pods of each owner that were created on a node since its cordon.
    newcomers: BTreeMap<(NodeName, Owner), Vec<PodUid>>,
    /// The new pods of owners with more than three new pods.
    left_alone: BTreeSet<PodUid>,
    /// Sundown's own pods, which go last and hold up none.
    own: BTreeSet<PodKey>,
    overloaded_until: Option<Moment>,
    /// When each drain last requested a LIST.
    relisted: BTreeMap<NodeName, Moment>,
    cordoned: BTreeMap<NodeName, Moment>,
    unreachable: BTreeMap<NodeName, Moment>,
}

/// What the judge knew of a drain when it ended.
#[derive(Debug)]
pub(super) struct AtEnd {
    /// The pods that the drain waits for, by the rules of `kubectl drain`.
    pub(super) waited_for: BTreeSet<PodKey>,
    /// The pods of DaemonSets.
    pub(super) of_daemon_sets: BTreeSet<PodKey>,
    /// New pods of owners with more than three new pods. A drain waits for such a pod if it was
    /// already terminating.
    pub(super) left_alone: BTreeSet<PodKey>,
    pub(super) limits: Limits,
    pub(super) is_paused: bool,
    pub(super) cordoned: Moment,
    pub(super) unreachable: Option<Moment>,
}

/// The longest pause that an overloaded API server can request.
const LONGEST_PAUSE: Duration = seconds(30);

/// How long to send nothing after this answer: the API server itself is overloaded.
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

/// Whether the pod belongs to a DaemonSet that still exists.
fn stays_with_its_daemon_set(pod: &Pod, orphaned: &BTreeSet<String>) -> bool {
    is_of_daemon_set(pod) && pod.owner.as_ref().is_none_or(|owner| !orphaned.contains(&owner.name))
}

/// Whether its containers have ended.
fn is_finished(pod: &Pod) -> bool {
    matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed)
}

impl Judge {
    pub(super) fn begins(&mut self, start: &Start) {
        self.limits.insert(start.node.clone(), start.limits);
        self.cordoned.insert(start.node.clone(), start.cordoned_at);
        self.paused.remove(&start.node);
        self.own.extend(start.own_pod.clone());
    }

    pub(super) fn record_input(&mut self, now: Moment, node: &NodeName, input: &Input) {
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
            self.arrived(now, pod);
        }
        self.known.insert(pod.uid.clone(), pod.clone());
    }

    /// From the fourth new pod of an owner on, all its new pods are left alone. This does not apply
    /// in the first 5 s after the cordon, when the scheduler may still bind pods for which it had
    /// chosen the node, nor while nothing may be evicted.
    fn arrived(&mut self, now: Moment, pod: &Pod) {
        let (Some(node), Some(created)) = (&pod.node, pod.created) else { return };
        let stays = pod.mirror || pod.tolerates_us || is_finished(pod) || is_of_daemon_set(pod);
        let limits = self.limits[node];
        let evicts_since = self.cordoned[node].max(limits.tainted_at);
        let evicts = limits.response == Response::Drain
            && limits.verification.may_evict()
            && limits.eviction_start == EvictionStart::Now
            && !self.paused.contains(node);
        let is_new = !stays && evicts && created > evicts_since;
        let Some(owner) = pod.owner.as_deref().filter(|_| is_new) else { return };
        let new = self.newcomers.entry((node.clone(), owner.clone())).or_default();
        new.push(pod.uid.clone());
        if new.len() > 3 && now > evicts_since.plus(seconds(5)) {
            self.left_alone.extend(new.iter().cloned());
        }
    }

    /// Records an answer. The judge classifies it itself, because it must not rely on the code
    /// under test.
    pub(super) fn answered(&mut self, now: Moment, order: &Order, answer: &ApiAnswer) {
        self.in_flight -= 1;
        if self.evicting.remove(order.uid()).is_some() {
            self.answered.insert(order.uid().clone());
        }
        if matches!(answer.code, 404 | 409) {
            self.reported_gone.insert(order.uid().clone());
        }
        if let Some(pause) = pause(answer) {
            self.overloaded_until = self.overloaded_until.max(Some(now.plus(pause)));
        }
    }

    /// What the judge knows of a drain that ends.
    pub(super) fn at_end(
        &self,
        now: Moment,
        node: &NodeName,
        orphaned: &BTreeSet<String>,
    ) -> AtEnd {
        let here = || self.known.values().filter(|pod| pod.node.as_ref() == Some(node));
        // The drain waits a minute for the finalizers of a pod whose containers have ended.
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

    pub(super) fn record_dispatcher_input(&mut self, input: &DispatchInput) {
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

    /// Checks an order against all inputs so far.
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
            .unwrap_or_else(|| panic!("{order:?}: no input has named this pod"));
        assert_eq!(
            (&pod.key, pod.node.as_ref()),
            (order.pod(), Some(node)),
            "the order names the pod's UID and node"
        );
        assert!(!pod.mirror && !pod.tolerates_us && !is_finished(pod), "{pod:?} does not count");
        assert!(!stays_with_its_daemon_set(pod, orphaned), "{pod:?} stays with its DaemonSet");
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
            "the API server requested a pause"
        );
        match order {
            Order::Evict { grace, .. } => {
                assert_eq!(pod.deletion, None, "it is terminating already");
                assert_eq!(grace.is_some(), limits.force_at.is_some());
                if let Some(force_at) = limits.force_at {
                    Self::grace_fits(now, force_at, pod, grace.unwrap());
                }
                self.budgets_allow(pod);
                self.is_in_order(now, node, pod);
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

    /// A critical pod is evicted after the ordinary ones, unless its share of the time has begun.
    /// (All drains here have the default order. Pods of DaemonSets hold up none here, because the
    /// drain may not have looked up their DaemonSet.)
    fn is_in_order(&self, now: Moment, node: &NodeName, pod: &Pod) {
        if pod.priority < CRITICAL_PRIORITY || self.answered.contains(&pod.uid) {
            return;
        }
        let limits = self.limits[node];
        let may_begin = limits.force_at.is_some_and(|force_at| {
            let window = force_at.since_or_zero(limits.accepted);
            now >= limits.accepted.plus(window / 4)
                || now >= force_at.minus(pod.grace.saturating_add(seconds(10)))
        });
        let goes_first = |other: &&Pod| {
            let stays = other.mirror || other.tolerates_us || is_of_daemon_set(other);
            let stuck = other.deletion.is_some_and(|at| at.plus(seconds(60)) <= now);
            other.node.as_ref() == Some(node)
                && other.priority < CRITICAL_PRIORITY
                && !(stays || stuck || is_finished(other) || self.own.contains(&other.key))
                && !self.left_alone.contains(&other.uid)
                && !self.reported_gone.contains(&other.uid)
        };
        let earlier = self.known.values().find(goes_first);
        assert!(may_begin || earlier.is_none(), "{pod:?} goes before {earlier:?}");
    }

    fn budgets_allow(&self, pod: &Pod) {
        let matching: Vec<_> = self.budgets.values().filter(|b| b.selects(pod)).collect();
        let [budget] = matching.as_slice() else { return };
        let several_budgets = |p: &Pod| self.budgets.values().filter(|b| b.selects(p)).count() > 1;
        let under_way =
            self.evicting.values().filter(|p| budget.selects(p) && !several_budgets(p)).count();
        let allowed = if budget.observed < budget.generation {
            0
        } else {
            usize::try_from(budget.allowed).unwrap_or(0)
        };
        assert!(under_way < allowed.clamp(1, 8), "{under_way} under way, {allowed} allowed");
    }
}
