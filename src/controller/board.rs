//! What is known of every drain, for people: the live view and the summary of a simulation, and the status page.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    domain::{InstanceId, Moment, MomentExt, NodeName, PodKey},
    drain::{Class, Order, Status},
};

/// The drains of this process, those that are over included. Clones show the same.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<Mutex<BTreeMap<NodeName, NodeReport>>>);

/// One drain.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct NodeReport {
    /// The instance.
    pub instance: String,
    /// The kind of its first interruption.
    pub kind: &'static str,
    /// When it was taken on, which is when the node was cordoned.
    pub cordoned: Moment,
    /// When its drain ended.
    pub drained: Option<Moment>,
    /// `listing`, `draining`, `paused`, or how it ended.
    pub phase: &'static str,
    /// Pods that count and are still there.
    pub left: usize,
    /// What blocks which pod, in a line.
    pub blocked: Vec<String>,
    /// When it ends at the latest.
    pub ends_at: Option<Moment>,
    /// Evictions that were accepted.
    pub evictions: u64,
    /// Evictions that were refused, whatever the reason.
    pub refusals: u64,
    /// Deletes that were accepted.
    pub deletes: u64,
    /// Pods that were forced.
    pub forced: Vec<String>,
    /// How long which pod was blocked, and by what.
    pub blocked_for: Vec<BlockedFor>,
    /// Heartbeats that were accepted.
    pub heartbeats: u64,
    /// `CONTINUE`, or `over` where the action was over already; empty while nothing was completed.
    pub completed: Vec<&'static str>,
    #[serde(skip)]
    blocked_since: BTreeMap<(PodKey, &'static str), Moment>,
}

/// A pod that was blocked for a while.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct BlockedFor {
    /// Which pod.
    pub pod: String,
    /// By what.
    pub reason: &'static str,
    /// In whole seconds, all times taken together.
    pub seconds: u64,
}

impl Board {
    fn all(&self) -> MutexGuard<'_, BTreeMap<NodeName, NodeReport>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another process has the drains from now on.
    pub(super) fn clear(&self) {
        self.all().clear();
    }

    fn with(&self, node: &NodeName, change: impl FnOnce(&mut NodeReport)) {
        if let Some(report) = self.all().get_mut(node) {
            change(report);
        }
    }

    /// All drains, by the name of their node.
    #[must_use]
    pub fn snapshot(&self) -> BTreeMap<NodeName, NodeReport> {
        self.all().clone()
    }

    pub(super) fn began(&self, node: &NodeName, instance: &InstanceId, kind: &'static str, cordoned: Moment) {
        let mut all = self.all();
        // What is long over makes room.
        if all.len() > 10_000 {
            all.retain(|_, r| r.drained.is_none());
        }
        let before = all.get(node).filter(|r| r.instance == instance.as_str() && r.cordoned == cordoned).cloned();
        // Begun again: something joined while its release ran.
        let before = before.map(|r| NodeReport { drained: None, phase: "listing", ..r });
        let report = before.unwrap_or_else(|| NodeReport {
            instance: instance.to_string(),
            kind,
            cordoned,
            drained: None,
            phase: "listing",
            left: 0,
            blocked: Vec::new(),
            ends_at: None,
            evictions: 0,
            refusals: 0,
            deletes: 0,
            forced: Vec::new(),
            blocked_for: Vec::new(),
            heartbeats: 0,
            completed: Vec::new(),
            blocked_since: BTreeMap::new(),
        });
        all.insert(node.clone(), report);
    }

    pub(super) fn update(&self, node: &NodeName, status: &Status, now: Moment) {
        self.with(node, |r| {
            r.phase = status.phase.as_str();
            r.left = status.counts.left;
            r.ends_at = status.ends_at;
            r.blocked = status.blocked.iter().map(|b| format!("{} {}", b.pod, b.reason.as_str())).collect();
            let by: BTreeSet<(PodKey, &'static str)> = status.blocked.iter().map(|b| (b.pod.clone(), b.reason.as_str())).collect();
            r.settle_blocked(now, |one| by.contains(one));
            for one in by {
                r.blocked_since.entry(one).or_insert(now);
            }
        });
    }

    pub(super) fn ordered(&self, node: &NodeName, order: &Order, class: Class) {
        self.with(node, |r| match (order, class) {
            (Order::Evict { .. }, Class::Accepted) => r.evictions += 1,
            (Order::Delete { .. }, Class::Accepted) => r.deletes += 1,
            (Order::Evict { .. }, Class::Gone) => {}
            (Order::Evict { .. } | Order::Delete { .. }, _) => r.refusals += 1,
        });
    }

    pub(super) fn forced(&self, node: &NodeName, pod: &PodKey) {
        self.with(node, |r| r.forced.push(pod.to_string()));
    }

    pub(super) fn forced_pods(&self, node: &NodeName) -> Vec<String> {
        self.all().get(node).map(|r| r.forced.clone()).unwrap_or_default()
    }

    pub(super) fn ended(&self, node: &NodeName, how: &'static str, now: Moment) {
        self.with(node, |r| {
            r.settle_blocked(now, |_| false);
            r.phase = how;
            r.drained = Some(now);
            r.blocked.clear();
        });
    }

    pub(super) fn beat(&self, instance: &InstanceId, accepted: bool) {
        if accepted && let Some(report) = self.all().values_mut().find(|r| r.instance == instance.as_str()) {
            report.heartbeats += 1;
        }
    }

    pub(super) fn completed(&self, node: &NodeName, accepted: bool) {
        self.with(node, |r| r.completed.push(if accepted { "CONTINUE" } else { "over" }));
    }
}

impl NodeReport {
    /// Adds up the time of what is blocked no more.
    fn settle_blocked(&mut self, now: Moment, still: impl Fn(&(PodKey, &'static str)) -> bool) {
        let over: Vec<_> = self.blocked_since.extract_if(.., |one, _| !still(one)).collect();
        for ((pod, reason), since) in over {
            let (pod, seconds) = (pod.to_string(), now.since_or_zero(since).as_secs());
            match self.blocked_for.iter_mut().find(|b| b.pod == pod && b.reason == reason) {
                Some(known) => known.seconds += seconds,
                None => self.blocked_for.push(BlockedFor { pod, reason, seconds }),
            }
        }
    }

    /// How long the drain took, or has taken until `now`.
    #[must_use]
    pub fn took(&self, now: Moment) -> Duration {
        self.drained.unwrap_or(now).since_or_zero(self.cordoned)
    }
}
