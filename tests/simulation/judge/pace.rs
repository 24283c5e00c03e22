//! No more nodes are drained at once than `--max-drains-per-group`, `--max-voluntary` and the rule
//! for the control plane allow.

use std::time::Duration;

use sundown::{
    domain::Moment,
    sim::kube::{Entry, Fact, NodeState},
};

use super::{
    Judge, SLACK, is_us,
    promises::Promise,
    requests,
    story::{Page, RecordedInterruption, is_open},
};

/// A drain with no more time than this from its event on waits for no other. A little more than five
/// minutes, because the judge does not know to the second when the drain ends.
const SHORT: Duration = Duration::from_secs(310);
/// The last minutes before a deadline, in which no drain waits.
const LAST: Duration = Duration::from_secs(300);
/// Which nodes are drained at the moment of a decision may have changed just before.
const KNOWN: Duration = Duration::from_secs(2);
/// An Event, or the end of a drain, is written this late at most.
const WRITTEN: Duration = Duration::from_secs(45);
/// What AWS or a person plans, and what leaves the instance running.
const CAN_WAIT: [&str; 6] =
    ["terminate-hook", "root-volume", "rebalance", "scheduled-change", "impaired", "request"];
const CONTROL_PLANE: [&str; 2] =
    ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

fn is_control_plane(node: &NodeState) -> bool {
    CONTROL_PLANE.iter().any(|label| node.labels.contains_key(*label))
}

/// When the drain of a node was accepted, and until when it may wait for others.
struct CanWait {
    accepted: Moment,
    until: Moment,
}

impl<'a> Judge<'a> {
    /// Looks at the first pod of each node that is asked to go, while the drain could still wait.
    /// Says how many drains it looked at, so that a test can see that it looks.
    pub(super) fn pace(&mut self) -> usize {
        if !self.is_paced() {
            return 0;
        }
        let mut looked_at = 0;
        let mut begun: Vec<(&str, Moment)> = Vec::new();
        for Entry { at, fact, by } in self.evidence.entries.iter().filter(|e| is_us(&e.by)) {
            let (Fact::Evicted { pod, .. } | Fact::Deleted { pod, .. }) = fact else { continue };
            let sent = self.sent(*at, by, pod, matches!(fact, Fact::Deleted { .. }));
            let node = pod.node.as_str();
            let Some(wait) = self.can_wait(node, sent) else { continue };
            let is_of_drain =
                |since: Moment| since >= wait.accepted && self.is_one(node, since, sent);
            if begun.iter().any(|(name, since)| *name == node && is_of_drain(*since)) {
                continue;
            }
            begun.push((node, sent));
            if sent + SLACK >= wait.until || self.is_forced_by_hand(node, sent) {
                continue;
            }
            looked_at += 1;
            self.count(Promise::PaceKept, false);
            let drained: Vec<&str> = begun
                .iter()
                .filter(|(name, since)| *name != node && self.is_drained(name, *since, sent))
                .map(|(name, _)| *name)
                .collect();
            for limit in self.exceeded(node, &drained, sent) {
                let what = format!("while {drained:?} were drained: {limit}");
                self.broken(*at, format!("{by} asked {} of {node} to go {what}", pod.name));
            }
        }
        looked_at
    }

    /// A flag limits the drains, or a node is of the control plane.
    fn is_paced(&self) -> bool {
        let terms = &self.evidence.terms;
        let flags = ["--max-drains-per-group", "--max-voluntary"];
        flags.iter().any(|flag| !terms.each(flag).is_empty())
            || self.writes.iter().filter_map(|write| write.new).any(is_control_plane)
    }

    /// Some process has a flag that may hold this node back, or the node is of the control plane.
    pub(super) fn may_be_held_back(&self, node: &str, at: Moment) -> bool {
        let terms = &self.evidence.terms;
        let flags = ["--max-drains-per-group", "--max-voluntary"];
        let is_set = flags.iter().any(|flag| !terms.each(flag).is_empty());
        let state = self.node_state(node, at);
        let others = self.evidence.nodes.values().filter(|other| *other != node);
        let has_others = others.clone().any(|other| self.story.was_open(other, at));
        // The Event may be late.
        let pages = self.story.pages_between(node, at - WRITTEN, at);
        let kinds_can_wait = |page: &Page| {
            is_open(page) && page.recorded.iter().all(|one| CAN_WAIT.contains(&one.kind.as_str()))
        };
        let can_wait = pages.into_iter().any(|(page, _)| kinds_can_wait(page));
        has_others && can_wait && (is_set || state.is_some_and(is_control_plane))
    }

    pub(super) fn node_state(&self, node: &str, at: Moment) -> Option<&'a NodeState> {
        let of_node = self.writes.iter().filter(|write| write.at <= at);
        of_node.filter_map(|write| write.new).rfind(|state| state.name == node)
    }

    /// `None`: the drain of this node cannot wait, or cluster-autoscaler drains the node.
    fn can_wait(&self, node: &str, at: Moment) -> Option<CanWait> {
        let instance = self.instance_of(node)?;
        let state = self.node_state(node, at)?;
        if state.taints.iter().any(|(key, ..)| key == "ToBeDeletedByClusterAutoscaler") {
            return None;
        }
        let recorded = self.story.recorded(instance, at);
        let can_wait = |kind: &str| CAN_WAIT.contains(&kind);
        if recorded.iter().any(|one| !can_wait(&one.kind) || one.is_made_up) {
            return None;
        }
        // AWS may carry out a change at any moment once its time has come.
        let mut changes = recorded.iter().filter(|one| one.kind == "scheduled-change");
        if changes.any(|one| one.ends.is_some_and(|ends| ends <= one.accepted + SHORT)) {
            return None;
        }
        let of_aws: Vec<_> = recorded.iter().filter(|one| one.kind != requests::NAME).collect();
        let forces = self.evidence.terms.is_set("--requests-may-force");
        if of_aws.is_empty() && !forces {
            let all: Vec<&RecordedInterruption> = recorded.iter().map(|one| &**one).collect();
            let accepted = all.iter().map(|one| one.accepted).min()?;
            return Some(CanWait { accepted, until: requests::waits_until(&all)? });
        }
        let recorded = if of_aws.is_empty() { recorded.iter().collect() } else { of_aws };
        let accepted = recorded.iter().map(|one| one.accepted).min()?;
        let event = recorded.iter().map(|one| one.time.min(one.accepted)).min()?;
        let end = self.story.deadlines(instance, at).into_iter().map(|d| d.end).min()?;
        let time = Duration::try_from(end.duration_since(accepted)).ok()?;
        // AWS announces a scheduled change days before.
        let start = if recorded.iter().any(|one| one.kind == "scheduled-change") {
            accepted
        } else {
            event
        };
        let until = (accepted + time / 2).min(end - LAST);
        (end > start + SHORT).then_some(CanWait { accepted, until })
    }

    /// Both moments are of one drain of the node: its record was open all the time.
    fn is_one(&self, node: &str, from: Moment, to: Moment) -> bool {
        self.story.pages_between(node, from, to).all(|(page, _)| is_open(page))
    }

    /// A pod of this node has been asked to go, and the drain was not over before this moment.
    fn is_drained(&self, node: &str, since: Moment, at: Moment) -> bool {
        let before = at - KNOWN;
        let is_going_on = self.story.page(node, at).is_some_and(is_open)
            && self.story.page(node, before).is_some_and(is_open)
            && !self.story.left(node, at).is_empty();
        let end = self.instance_of(node).and_then(|instance| {
            self.story.deadlines(instance, at).into_iter().map(|d| d.end).min()
        });
        since < before
            && self.is_one(node, since, at)
            && is_going_on
            && self.can_wait(node, at).is_some()
            && end.is_none_or(|end| at < end)
            && !self.has_ended(node, since, at)
            && !self.story.released_by_hand(node, at)
            && !self.was_stopped(node, since, at)
    }

    /// The drain that began then was over at this moment, although pods are left: the kubelet does
    /// not report, or a person released the node. The record says so a little later.
    fn has_ended(&self, node: &str, since: Moment, at: Moment) -> bool {
        let is_end = |ended: Moment| ended >= since && ended <= at + SLACK;
        self.story.written_pages.iter().any(|page| {
            let is_late = page.at > at && page.at <= at + WRITTEN;
            page.node == node && is_late && page.released.is_some_and(is_end)
        })
    }

    /// A pause or a gate has stopped the drain since it began, and no pod of the node is stopping:
    /// it waits for its turn again.
    fn was_stopped(&self, node: &str, since: Moment, at: Moment) -> bool {
        let is_paused = |(from, to): &(Moment, Moment)| *from <= at && since <= *to;
        let was_held = self.story.pauses(node).iter().any(is_paused)
            || self.story.pages_between(node, since, at).any(|(page, _)| !page.gates.is_empty());
        let asked = |uid: &str| {
            self.evidence.entries.iter().any(|entry| {
                let (Fact::Evicted { pod, .. } | Fact::Deleted { pod, .. }) = &entry.fact else {
                    return false;
                };
                entry.at <= at && pod.uid == uid
            })
        };
        was_held && !self.story.left(node, at).iter().any(|life| asked(&life.pod.uid))
    }

    /// The limits that one more node exceeds.
    fn exceeded(&self, node: &str, drained: &[&str], at: Moment) -> Vec<String> {
        let terms = &self.evidence.terms;
        let group = |name: &str| {
            self.instance_of(name).and_then(|instance| self.evidence.groups.get(instance))
        };
        let mut all = Vec::new();
        let most = |name: &str| terms.each(name).into_iter().filter_map(|n| n.parse().ok()).max();
        if let (Some(most), Some(own)) = (most("--max-drains-per-group"), group(node)) {
            let of_group = drained.iter().filter(|name| group(name) == Some(own)).count();
            if of_group >= most {
                all.push(format!("--max-drains-per-group is {most}"));
            }
        }
        let shares = terms.each("--max-voluntary");
        let in_all = shares.into_iter().filter_map(|share| match share.strip_suffix('%') {
            Some(percent) => {
                let nodes = self.evidence.nodes.len();
                percent.parse::<usize>().ok().map(|percent| (nodes * percent / 100).max(1))
            }
            None => share.parse().ok(),
        });
        if in_all.max().is_some_and(|most: usize| drained.len() >= most) {
            all.push("--max-voluntary allows no more".to_owned());
        }
        let is_master = |name: &str| self.node_state(name, at).is_some_and(is_control_plane);
        if is_master(node) && drained.iter().any(|name| is_master(name)) {
            all.push("two nodes of the control plane at once".to_owned());
        }
        all
    }
}
