//! A report about each drain, for the live view and the summary of a simulation.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    domain::{InstanceId, Moment, NodeName, PodKey},
    drain::{Class, Order, Status},
};

/// The reports about the drains of this process, including ended ones. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<Mutex<Reports>>);

#[derive(Debug, Default)]
struct Reports {
    /// Boxed: a map reserves memory for half as many again.
    by_node: BTreeMap<NodeName, Box<NodeReport>>,
    /// The node of each instance that has a report, because heartbeats are reported by instance.
    nodes: BTreeMap<String, NodeName>,
    /// The nodes of ended drains, in the order in which they ended.
    over: VecDeque<(NodeName, Moment)>,
    /// How many ended drains are kept. `None`: all.
    most_over: Option<usize>,
}

/// The report about one drain.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct NodeReport {
    /// The id of the node's instance.
    pub instance: String,
    /// The kind of its first interruption.
    pub kind: &'static str,
    /// When the interruption was accepted, which cordons the node.
    pub cordoned: Moment,
    /// When the drain ended. `None`: it goes on.
    pub drained: Option<Moment>,
    /// `listing`, `draining`, `paused`, or how it ended.
    pub phase: &'static str,
    /// How many pods must still leave.
    pub left: usize,
    /// The blocked pods, each with what blocks it (`shop/web-1 pdb`).
    pub blocked: Vec<String>,
    /// When the drain ends at the latest. `None`: it has no deadline.
    pub ends_at: Option<Moment>,
    /// How many evictions the API server accepted.
    pub evictions: u64,
    /// How many evictions and deletes were refused or failed, for any reason.
    pub refusals: u64,
    /// How many deletes the API server accepted.
    pub deletes: u64,
    /// Pods that were deleted because they could not be evicted in time.
    pub forced: Vec<String>,
    /// Pods that were left when the drain ended.
    pub left_at_end: Vec<String>,
    /// How long each pod was blocked, and by what. Includes only blocks that have ended.
    pub blocked_for: Vec<BlockedFor>,
    /// How many heartbeats for the instance AWS accepted.
    pub heartbeats: u64,
    /// One entry for each lifecycle action that is over: `CONTINUE` if Sundown completed it, `over`
    /// if it was already over.
    pub completed: Vec<&'static str>,
    #[serde(skip)]
    blocked_since: BTreeMap<(PodKey, &'static str), Moment>,
}

/// How long a pod was blocked for one reason.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct BlockedFor {
    /// Namespace and name of the pod.
    pub pod: String,
    /// The reason, as in metrics (`pdb`, `webhook`).
    pub reason: &'static str,
    /// The sum of all times for which it was blocked.
    pub seconds: u64,
}

impl Reports {
    fn insert(&mut self, node: &NodeName, report: NodeReport) {
        if let Some(before) = self.by_node.get(node)
            && before.instance != report.instance
        {
            let instance = before.instance.clone();
            self.forget_instance(&instance, node);
        }
        self.nodes.insert(report.instance.clone(), node.clone());
        self.by_node.insert(node.clone(), Box::new(report));
    }

    /// Removes the reports about the oldest ended drains beyond the limit. A report stays if its
    /// node is drained again.
    fn make_room(&mut self) {
        let Some(most) = self.most_over else { return };
        while self.over.len() > most {
            let Some((node, ended)) = self.over.pop_front() else { return };
            if self.by_node.get(&node).is_some_and(|r| r.drained == Some(ended))
                && let Some(report) = self.by_node.remove(&node)
            {
                self.forget_instance(&report.instance, &node);
            }
        }
    }

    fn forget_instance(&mut self, instance: &str, node: &NodeName) {
        if self.nodes.get(instance) == Some(node) {
            self.nodes.remove(instance);
        }
    }
}

impl Board {
    /// A board that keeps only the last `most_over` ended drains, for a process that runs for
    /// months.
    #[must_use]
    pub fn of_the_last(most_over: usize) -> Self {
        Self(Arc::new(Mutex::new(Reports { most_over: Some(most_over), ..Reports::default() })))
    }

    fn all(&self) -> MutexGuard<'_, Reports> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes all reports, because another process leads.
    pub(super) fn clear(&self) {
        let mut all = self.all();
        *all = Reports { most_over: all.most_over, ..Reports::default() };
    }

    fn with(&self, node: &NodeName, change: impl FnOnce(&mut NodeReport)) {
        if let Some(report) = self.all().by_node.get_mut(node) {
            change(report);
        }
    }

    /// The report about the drain of one node.
    #[must_use]
    pub fn report(&self, node: &NodeName) -> Option<NodeReport> {
        self.all().by_node.get(node).map(|report| (**report).clone())
    }

    /// How many heartbeats for a node's lifecycle actions AWS has accepted.
    pub(super) fn heartbeats(&self, node: &NodeName) -> u64 {
        self.all().by_node.get(node).map_or(0, |r| r.heartbeats)
    }

    /// A copy of all reports, by node.
    #[must_use]
    pub fn snapshot(&self) -> BTreeMap<NodeName, NodeReport> {
        let all = self.all();
        all.by_node.iter().map(|(node, report)| (node.clone(), (**report).clone())).collect()
    }

    pub(super) fn began(
        &self,
        node: &NodeName,
        instance: &InstanceId,
        kind: &'static str,
        cordoned: Moment,
    ) {
        let mut all = self.all();
        let before = all
            .by_node
            .get(node)
            .filter(|r| r.instance == instance.as_str() && r.cordoned == cordoned)
            .cloned();
        // The drain begins again: an interruption joined during its release.
        let before = before.map(|r| NodeReport { drained: None, phase: "listing", ..*r });
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
            left_at_end: Vec::new(),
            blocked_for: Vec::new(),
            heartbeats: 0,
            completed: Vec::new(),
            blocked_since: BTreeMap::new(),
        });
        all.insert(node, report);
    }

    pub(super) fn update(&self, node: &NodeName, status: &Status, now: Moment) {
        self.with(node, |r| {
            r.phase = status.phase.as_str();
            r.left = status.counts.left;
            r.ends_at = status.ends_at;
            r.blocked =
                status.blocked.iter().map(|b| format!("{} {}", b.pod, b.reason.as_str())).collect();
            let by: BTreeSet<(PodKey, &'static str)> =
                status.blocked.iter().map(|b| (b.pod.clone(), b.reason.as_str())).collect();
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
            // The pod is gone already.
            (_, Class::Gone | Class::OtherUid) => {}
            (Order::Evict { .. } | Order::Delete { .. }, _) => r.refusals += 1,
        });
    }

    pub(super) fn forced(&self, node: &NodeName, pod: &PodKey) {
        self.with(node, |r| r.forced.push(pod.to_string()));
    }

    pub(super) fn forced_pods(&self, node: &NodeName) -> Vec<String> {
        self.all().by_node.get(node).map(|r| r.forced.clone()).unwrap_or_default()
    }

    /// The drain of a node has ended. `how`: the new phase, `left`: the pods that are left.
    pub(super) fn ended(&self, node: &NodeName, how: &'static str, left: &[PodKey], now: Moment) {
        self.with(node, |r| {
            r.left_at_end = left.iter().map(ToString::to_string).collect();
            r.settle_blocked(now, |_| false);
            r.phase = how;
            r.drained = Some(now);
            r.blocked.clear();
        });
        let mut all = self.all();
        if all.by_node.contains_key(node) {
            all.over.push_back((node.clone(), now));
            all.make_room();
        }
    }

    pub(super) fn heartbeat(&self, instance: &InstanceId, accepted: bool) {
        if accepted {
            let mut all = self.all();
            let node = all.nodes.get(instance.as_str()).cloned();
            if let Some(report) = node.and_then(|node| all.by_node.get_mut(&node)) {
                report.heartbeats += 1;
            }
        }
    }

    pub(super) fn completed(&self, node: &NodeName, accepted: bool) {
        self.with(node, |r| r.completed.push(if accepted { "CONTINUE" } else { "over" }));
    }
}

impl NodeReport {
    /// Adds the times of pods that are no longer blocked to `blocked_for`.
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

    /// How long each pod was blocked until `now`, and by what. Includes pods that are blocked now.
    #[must_use]
    pub fn blocked_until(&self, now: Moment) -> Vec<BlockedFor> {
        let mut report = self.clone();
        report.settle_blocked(now, |_| false);
        report.blocked_for
    }

    /// How long the drain took, or has taken until `now`.
    #[must_use]
    pub fn took(&self, now: Moment) -> Duration {
        self.drained.unwrap_or(now).since_or_zero(self.cordoned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heartbeats(board: &Board, node: &NodeName) -> Option<u64> {
        board.all().by_node.get(node).map(|r| r.heartbeats)
    }

    #[test]
    fn a_board_keeps_a_limited_number_of_ended_drains_and_all_that_go_on() {
        let board = Board::of_the_last(100);
        let at = |n: u64| Moment::UNIX_EPOCH.plus(Duration::from_secs(n));
        let instance = |n: u64| format!("i-{n:017x}").parse::<InstanceId>().unwrap();
        board.began(&"going-on".into(), &instance(9_999), "spot", at(0));
        for n in 0..2_000 {
            let node = NodeName::from(format!("node-{n}").as_str());
            board.began(&node, &instance(n), "spot", at(n));
            board.heartbeat(&instance(n), true);
            assert_eq!(heartbeats(&board, &node), Some(1));
            board.ended(&node, "empty", &[], at(n + 1));
        }
        board.heartbeat(&instance(9_999), true);
        let all = board.all();
        assert_eq!((all.by_node.len(), all.nodes.len(), all.over.len()), (101, 101, 100));
        assert!(all.by_node.contains_key(&"node-1999".into()));
        drop(all);
        assert_eq!(heartbeats(&board, &"going-on".into()), Some(1));
    }

    #[test]
    fn a_node_that_is_drained_again_keeps_its_report() {
        let board = Board::of_the_last(1);
        let at = |n: u64| Moment::UNIX_EPOCH.plus(Duration::from_secs(n));
        let instance: InstanceId = "i-00000000000000001".parse().unwrap();
        board.began(&"a".into(), &instance, "spot", at(0));
        board.ended(&"a".into(), "empty", &[], at(1));
        board.began(&"a".into(), &instance, "spot", at(2));
        for other in ["b", "c"] {
            board.began(&other.into(), &"i-00000000000000002".parse().unwrap(), "spot", at(3));
            board.ended(&other.into(), "empty", &[], at(4));
        }
        assert!(board.snapshot().contains_key(&"a".into()), "its drain goes on");
    }
}
