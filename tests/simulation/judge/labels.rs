//! The load balancer label: when it is set, by whom, and on how many nodes at a time.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;
use sundown::{
    domain::Moment,
    sim::kube::{NodeState, Request},
};

use super::{
    Judge, Response,
    excuses::{SEE_NODES, Scope},
    is_us,
    nodes::{Write, excluded, open_record, record, taint},
    promises::Promise,
};

/// A change of a Node need not be known to the leader for this long.
const SEEN: Duration = Duration::from_secs(2);
/// A patch of a Node that failed is tried again within this time.
const TRIED_AGAIN: Duration = Duration::from_secs(12);
/// Where a watch is broken, at least.
const BLIND: Duration = Duration::from_secs(60);
/// Of tools that drain a node.
const OF_DRAINS: [&str; 3] = ["sundown", "aws-node-termination-handler", "karpenter"];

/// How many Ready nodes could serve, and how many of them have left load balancers, from then on.
#[derive(Debug, Clone, Copy)]
struct Count {
    at: Moment,
    ready: usize,
    out: usize,
}

/// Kinds whose nodes leave load balancers late, unless a flag says otherwise.
const LATE: [&str; 6] =
    ["terminate-hook", "root-volume", "scheduled-change", "impaired", "rebalance", "request"];

impl Judge<'_> {
    pub(super) fn labels(&mut self) {
        let mut current: BTreeMap<&str, &NodeState> = BTreeMap::new();
        let mut counts: Vec<Count> = Vec::new();
        for write in self.writes.clone() {
            if let Some((old, new)) = write.both().filter(|_| is_us(write.by)) {
                if excluded(old).is_none() && excluded(new).is_some() {
                    self.labeled(write, new, &counts);
                }
                let on_their_way = self.on_their_way(write, &current);
                self.with_the_accept(write, old, new, &counts, on_their_way);
            }
            match (write.old, write.new) {
                (_, Some(new)) => drop(current.insert(&new.name, new)),
                (Some(old), None) => drop(current.remove(old.name.as_str())),
                (None, None) => {}
            }
            let can_serve = current.values().filter(|n| n.ready == "True" && !is_permanent(n));
            let (ready, out) = can_serve.fold((0, 0), |(ready, out), n| {
                (ready + 1, out + usize::from(excluded(n).is_some()))
            });
            counts.push(Count { at: write.at, ready, out });
        }
    }

    /// We set it.
    fn labeled(&mut self, write: Write<'_>, node: &NodeState, counts: &[Count]) {
        let when = self.evidence.terms.flag(write.by, "--exclude-from-load-balancers");
        if when == Some("never") {
            self.broken(
                write.at,
                format!(
                    "{} was taken out of load balancers, which \
                     --exclude-from-load-balancers=never forbids",
                    node.name
                ),
            );
        }
        if open_record(node).is_none() {
            self.broken(
                write.at,
                format!("{} was taken out of load balancers without a drain", node.name),
            );
        }
        self.count(Promise::ExclusionLimit, self.is_blind(write.at));
        let fits = self.known(counts, write).any(|c| (c.out + 1) * 2 <= c.ready);
        if !fits && let Some(last) = counts.last() {
            let Count { ready, out, .. } = last;
            self.broken(
                write.at,
                format!(
                    "{} was taken out of load balancers beside {out} of {ready} Ready nodes",
                    node.name
                ),
            );
        }
    }

    /// The leader may know what was true a while ago, and not what is.
    fn is_blind(&self, at: Moment) -> bool {
        self.is_excused(Scope::of_leader(&[SEE_NODES]), at, at)
    }

    /// From then on each state of a Node may be what this process takes for true. A watch that is
    /// broken for longer than a minute shows what was true when it broke.
    pub(super) fn known_since(&self, process: &str, at: Moment) -> Moment {
        if !self.is_blind(at) {
            return at - SEEN;
        }
        let scope =
            Scope { needs: &[SEE_NODES], of: None, process: Some(process), without_leader: None };
        let broke = self.excused_since(scope, at).map(|since| since - SEEN);
        broke.into_iter().fold(at - BLIND, Moment::min)
    }

    /// What the process that wrote may have taken for true.
    fn known<'b>(
        &self,
        counts: &'b [Count],
        write: Write<'_>,
    ) -> impl Iterator<Item = &'b Count> + use<'b> {
        let since = self.known_since(write.by, write.at);
        // The last count before that time held at its beginning.
        let first = counts.partition_point(|c| c.at < since).saturating_sub(1);
        counts[first..].iter()
    }

    /// Other Ready nodes that have the label as soon as a patch is answered that this process sent
    /// before: it keeps a place for each of them, also while a patch that failed waits for its next
    /// try.
    fn on_their_way(&self, write: Write<'_>, current: &BTreeMap<&str, &NodeState>) -> usize {
        let is_under_way =
            |r: &&Request| r.at <= write.at && r.ended.is_none_or(|ended| ended >= write.at);
        let is_patch =
            |r: &&Request| r.client == write.by && r.verb == "patch" && r.resource == "nodes";
        let patches = || self.evidence.requests.iter().filter(is_patch);
        let is_tried_again = |r: &&Request| {
            let is_next = |next: &Request| {
                next.name == r.name && next.at >= write.at && next.at <= r.at + TRIED_AGAIN
            };
            r.at <= write.at && r.status != 200 && patches().any(is_next)
        };
        let patched: BTreeSet<&str> = patches()
            .filter(|r| is_under_way(r) || is_tried_again(r))
            .map(|r| r.name.as_str())
            .collect();
        let is_other = |n: &NodeState| write.new.is_none_or(|new| new.name != n.name);
        let may_leave = |n: &&&NodeState| n.ready == "True" && excluded(n).is_none() && is_other(n);
        current.values().filter(may_leave).filter(|n| patched.contains(n.name.as_str())).count()
    }

    /// Early: with the accept, where there is room. Late: not yet.
    fn with_the_accept(
        &mut self,
        write: Write<'_>,
        old: &NodeState,
        new: &NodeState,
        counts: &[Count],
        on_their_way: usize,
    ) {
        let (None, Some(interruptions)) = (open_record(old), open_record(new)) else { return };
        // A Node that registered again, a record that was written back, and one that takes the
        // place of another are no first accept.
        if record(old).is_some()
            || excluded(old).is_some()
            || taint(old).is_some()
            || interruptions.len() != 1
        {
            return;
        }
        // Without the flag, not of a hook, whose drain may take long, nor of a recommendation.
        let is_late = |i: &Value| LATE.iter().any(|kind| i["kind"] == *kind);
        let when = self.evidence.terms.flag(write.by, "--exclude-from-load-balancers");
        let early = when.map_or_else(|| !interruptions.iter().any(is_late), |when| when == "early");
        let is_cordoned = self.evidence.terms.strongest(&interruptions) >= Response::Cordon;
        let room = self.known(counts, write).all(|c| (c.out + on_their_way + 1) * 2 <= c.ready);
        if excluded(new).is_some() && !early {
            self.broken(
                write.at,
                format!(
                    "{} was taken out of load balancers with its accept, which is too early",
                    new.name
                ),
            );
        }
        if excluded(new).is_some() && !is_cordoned {
            self.broken(
                write.at,
                format!(
                    "{} was taken out of load balancers, although --on asks only for a taint",
                    new.name
                ),
            );
        }
        let must = early && is_cordoned && room && !self.is_registered_again(write);
        let excused = must && self.is_blind(write.at);
        if must {
            self.count(Promise::LabelWithAccept, excused);
        }
        if excluded(new).is_none() && must && !excused {
            self.broken(
                write.at,
                format!(
                    "{} was accepted and not taken out of load balancers, although there was room",
                    new.name
                ),
            );
        }
    }

    /// Its Node object is new, and its drain is not.
    fn is_registered_again(&self, write: Write<'_>) -> bool {
        let added = write.new.and_then(|new| self.story.went(&new.name, write.at));
        added.is_some()
    }
}

/// Others labeled it for good: it never served.
fn is_permanent(node: &NodeState) -> bool {
    let Some(value) = excluded(node).filter(|value| !OF_DRAINS.contains(value)) else {
        return false;
    };
    let before = record(node).is_some_and(|r| r["before"]["excluded"] == true);
    !value.is_empty() && (before || (!node.unschedulable && taint(node).is_none()))
}
