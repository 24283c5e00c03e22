//! The disruption controller (kubernetes: pkg/controller/disruption/disruption.go).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Map, Value};

use super::{
    Fact,
    agenda::Task,
    json::{Look, plus_seconds},
    object::{Key, Object, Owner},
    selector::Labels,
    store::State,
};
use crate::domain::Moment;

/// A pod that was granted and not deleted counts again after this long.
const DELETION_TIMEOUT: Duration = Duration::from_mins(2);
pub(super) const BY: &str = "<disruption>";

/// What a budget comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arithmetic {
    pub(super) expected: i64,
    pub(super) desired: i64,
    pub(super) healthy: i64,
}

impl Arithmetic {
    pub(super) fn allowed(self) -> i64 {
        if self.expected <= 0 { 0 } else { (self.healthy - self.desired).max(0) }
    }
}

/// The pods that a budget selects, counted as they change.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// `None`: the selector is missing or invalid, and selects nothing.
    selector: Option<Labels>,
    pods: usize,
    healthy: usize,
    /// The controllers of the pods by their UIDs: how many pods, and the name of one.
    owners: BTreeMap<String, (Owner, usize, String)>,
}

impl Members {
    fn selects(&self, pod: &Object) -> bool {
        self.selector.as_ref().is_some_and(|s| s.matches(pod.labels()))
    }

    /// Counts a version of a pod in or out.
    pub(super) fn count(&mut self, pod: Option<&Object>, into: bool) {
        let Some(pod) = pod.filter(|p| self.selects(p)) else { return };
        let Some(facts) = &pod.pod else { return };
        let step = |n: &mut usize| *n = if into { *n + 1 } else { n.saturating_sub(1) };
        step(&mut self.pods);
        if facts.is_healthy() {
            step(&mut self.healthy);
        }
        if let Some(owner) = &facts.owner {
            let entry = self
                .owners
                .entry(owner.uid.clone())
                .or_insert_with(|| (owner.clone(), 0, pod.key().name.clone()));
            step(&mut entry.1);
            if entry.1 == 0 {
                self.owners.remove(&owner.uid);
            }
        }
    }
}

impl State {
    /// Counts the pods of a budget that is new or selects anew.
    pub(super) fn count_members(&mut self, key: &Key, old: Option<&Object>, new: &Object) {
        let selector = new.value.at("spec.selector");
        if old.is_some_and(|o| o.value.at("spec.selector") == selector) {
            return;
        }
        let mut members = Members {
            selector: Labels::from_json(selector).and_then(Result::ok),
            ..Members::default()
        };
        for pod in self.in_namespace("pods", &key.namespace) {
            members.count(Some(pod), true);
        }
        self.index.budgets.insert(key.clone(), members);
    }

    /// The budgets that select a pod.
    pub(super) fn budgets_of(&self, pod: &Object) -> Vec<Arc<Object>> {
        let keys = self.index.budgets.range(Key::new(pod.key().namespace.as_str(), "")..);
        let own = keys.take_while(|(k, _)| k.namespace == pod.key().namespace);
        let matching = own.filter(|(_, members)| members.selects(pod));
        matching.filter_map(|(k, _)| self.get("poddisruptionbudgets", k)).cloned().collect()
    }

    /// The budgets that select a pod look again soon.
    pub(super) fn touch_budgets(&mut self, namespace: &str, pods: &[&Object]) {
        let at = self.now().plus(self.options.timing.disruption);
        let keys = self
            .index
            .budgets
            .range(Key::new(namespace, "")..)
            .take_while(|(k, _)| k.namespace == namespace);
        let touched: Vec<Key> = keys
            .filter(|(_, members)| pods.is_empty() || pods.iter().any(|p| members.selects(p)))
            .map(|(k, _)| k.clone())
            .collect();
        for key in touched {
            self.agenda.at(at, Task::Budget(key));
        }
    }

    /// Brings the status of one budget up to date.
    pub(super) fn sync_budget(&mut self, key: &Key) {
        if self.frozen.disruption {
            return;
        }
        let Some(budget) = self.get("poddisruptionbudgets", key).cloned() else { return };
        let now = self.now();
        let (disrupted, again) = self.still_disrupted(&budget.value, now);
        if let Some(again) = again {
            self.agenda.at(again, Task::Budget(key.clone()));
        }
        let sums = self.arithmetic(&budget, &disrupted);
        let said = budget.value.int("status.disruptionsAllowed");
        if sums.as_ref().is_ok_and(|s| s.allowed() > said) {
            self.note(
                BY,
                Fact::BudgetFreed { namespace: key.namespace.clone(), name: key.name.clone() },
            );
        }
        self.change("poddisruptionbudgets", key, BY, |b| match sums {
            Ok(sums) => {
                let generation = b.int("metadata.generation");
                b.put("status.observedGeneration", generation);
                b.put("status.currentHealthy", sums.healthy);
                b.put("status.desiredHealthy", sums.desired);
                b.put("status.expectedPods", sums.expected);
                b.put("status.disruptionsAllowed", sums.allowed());
                if disrupted.is_empty() {
                    b.take_away("status.disruptedPods");
                } else {
                    b.put("status.disruptedPods", disrupted);
                }
                let (status, reason) = if sums.allowed() > 0 {
                    ("True", "SufficientPods")
                } else {
                    ("False", "InsufficientPods")
                };
                b.set_condition("DisruptionAllowed", status, reason, "", now);
            }
            Err(message) => {
                b.put("status.disruptionsAllowed", 0);
                b.set_condition("DisruptionAllowed", "False", "SyncFailed", &message, now);
            }
        });
    }

    fn arithmetic(
        &self,
        budget: &Object,
        disrupted: &Map<String, Value>,
    ) -> Result<Arithmetic, String> {
        let Some(members) = self.index.budgets.get(budget.key()) else {
            return Ok(Arithmetic { expected: 0, desired: 0, healthy: 0 });
        };
        let pod =
            |name: &String| self.pod(&Key::new(budget.key().namespace.as_str(), name.as_str()));
        let granted = disrupted
            .keys()
            .filter(|name| pod(name).is_some_and(|(o, f)| f.is_healthy() && members.selects(o)))
            .count();
        let healthy = number(members.healthy.saturating_sub(granted));
        let namespace = &budget.key().namespace;
        let budget = &budget.value;
        let (min, max) = (budget.at("spec.minAvailable"), budget.at("spec.maxUnavailable"));
        let (expected, desired) = if let Some(max) = IntOrShare::read(max) {
            let expected = self.expected_scale(members, namespace)?;
            (expected, (expected - max.of(expected)).max(0))
        } else {
            match IntOrShare::read(min) {
                None => (0, 0),
                Some(IntOrShare::Int(n)) => (number(members.pods), n),
                Some(share) => {
                    let expected = self.expected_scale(members, namespace)?;
                    (expected, share.of(expected))
                }
            }
        };
        Ok(Arithmetic { expected, desired, healthy })
    }

    /// The sum of what the controllers of the pods want. A pod without a controller counts for
    /// nothing here.
    fn expected_scale(&self, members: &Members, namespace: &str) -> Result<i64, String> {
        let mut scales = BTreeMap::new();
        for (owner, _, pod) in members.owners.values() {
            let (uid, scale) = self
                .scale_of(owner, namespace)
                .ok_or_else(|| format!("found no controllers for pod {pod:?}"))?;
            scales.insert(uid, scale);
        }
        Ok(scales.values().sum())
    }

    /// The controller that has the last word about an owner's pods, and how many it wants.
    fn scale_of(&self, owner: &Owner, namespace: &str) -> Option<(String, i64)> {
        let plural = match (owner.api_version.as_str(), owner.kind.as_str()) {
            ("apps/v1", "ReplicaSet") => "replicasets",
            ("apps/v1", "StatefulSet") => "statefulsets",
            ("apps/v1", "Deployment") => "deployments",
            _ => return None,
        };
        let object = self
            .get(plural, &Key::new(namespace, owner.name.as_str()))
            .filter(|o| o.uid() == owner.uid)?;
        if let Some(above) = Owner::of(&object.value).filter(|_| plural == "replicasets") {
            return self.scale_of(&above, namespace);
        }
        Some((owner.uid.clone(), object.value.at("spec.replicas").as_i64().unwrap_or(1)))
    }

    /// The budgets that would be at less than they desire without this healthy pod, by the pods as
    /// they are now.
    pub(super) fn overrun_without(&self, pod: &Object) -> Vec<String> {
        if !self.journal.on || !pod.pod.as_ref().is_some_and(super::object::PodFacts::is_healthy) {
            return Vec::new();
        }
        let mut overrun = Vec::new();
        for budget in self.budgets_of(pod) {
            let sums = self.arithmetic(&budget, &Map::new());
            if sums.is_ok_and(|s| s.healthy - 1 < s.desired) {
                overrun.push(budget.key().name.clone());
            }
        }
        overrun
    }

    /// The granted pods that are neither terminating, nor gone, nor overdue; and when the next one
    /// will be overdue.
    fn still_disrupted(&self, budget: &Value, now: Moment) -> (Map<String, Value>, Option<Moment>) {
        let mut kept = Map::new();
        let mut next: Option<Moment> = None;
        let namespace = budget.text("metadata.namespace");
        for (name, since) in budget.at("status.disruptedPods").as_object().into_iter().flatten() {
            let waiting = self
                .pod(&Key::new(namespace, name.as_str()))
                .is_some_and(|(_, p)| p.deletion.is_none());
            let Some(granted) =
                since.as_str().and_then(|s| s.parse::<Moment>().ok()).filter(|_| waiting)
            else {
                continue;
            };
            let until = granted.plus(DELETION_TIMEOUT);
            if until > now {
                kept.insert(name.clone(), since.clone());
                next = Some(next.map_or(until, |n| n.min(until)));
            }
        }
        (kept, next.map(|n| plus_seconds(n, 1)))
    }

    /// An eviction that is not followed by a deletion is taken back after a while.
    pub(super) fn expect_deletion(&mut self, key: &Key) {
        if self.get("pods", key).is_some_and(|p| !p.is_terminating()) {
            let at = self.now().plus(DELETION_TIMEOUT);
            self.agenda.at(at, Task::StaleDisruption(key.clone()));
        }
    }

    pub(super) fn clear_stale_disruption(&mut self, key: &Key) {
        let now = self.now();
        if self.pod(key).is_some_and(|(o, p)| {
            p.deletion.is_none() && o.value.condition("DisruptionTarget") == "True"
        }) {
            self.change("pods", key, BY, |p| {
                p.set_condition("DisruptionTarget", "False", "EvictionByEvictionAPI", "", now);
            });
        }
    }
}

fn number(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A number or a share, as `minAvailable` and `maxUnavailable` are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IntOrShare {
    Int(i64),
    Percent(i64),
}

impl IntOrShare {
    pub(super) fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Number(n) => n.as_i64().map(Self::Int),
            Value::String(s) => s.strip_suffix('%').and_then(|p| p.parse().ok()).map(Self::Percent),
            _ => None,
        }
    }

    /// Of a whole; shares are rounded up.
    pub(super) const fn of(self, whole: i64) -> i64 {
        match self {
            Self::Int(n) => n,
            Self::Percent(p) => (whole * p + 99) / 100,
        }
    }
}
