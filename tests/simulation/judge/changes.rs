//! Scheduled changes: what AWS announced is written on the Node before its message is deleted, the
//! node is drained before the change begins, and what Events report of it is true.

use std::time::Duration;

use serde_json::Value;
use sundown::{domain::Moment, sim::kube::NodeState};

use super::{
    Judge, Response,
    excuses::{MESSAGES, SEE_NODES, Scope, WRITE_NODES},
    nodes::{PLANNED, instance},
    sent::{Change, Notice},
};

/// A drain begins this long before the start at the latest, if its message came in time.
const IN_TIME: Duration = Duration::from_secs(30);
/// How long the write of an Event may take.
const REPORTED: Duration = Duration::from_secs(1);

impl Judge<'_> {
    pub(super) fn changes(&mut self) {
        let unnoted = self.story.notices.iter().filter_map(|n| self.unnoted(n));
        let undrained = self.story.notices.iter().filter_map(|n| self.undrained(n));
        let broken: Vec<_> = unnoted.chain(undrained).collect();
        for (at, what) in broken {
            self.broken(at, what);
        }
    }

    /// A message that moves or withdraws a change of which the Node knows was deleted, and the Node
    /// does not have it.
    fn unnoted(&self, notice: &Notice) -> Option<(Moment, String)> {
        let (change, at) = (notice.event.change.as_ref()?, notice.deleted?);
        if self.story.is_terminated(&notice.event.instance, at) {
            // EC2 shows no tags of it any more: nothing shows that it was ours.
            return None;
        }
        let node = self.noted_on(&notice.event.instance, at)?;
        let noted = entry(node, change)?;
        let updated = change.updated.or(notice.event.time)?;
        let known: Moment = noted["updated"].as_str()?.parse().ok()?;
        let text =
            "a message about a scheduled change was deleted, and its Node holds an older one";
        (known < updated).then(|| (at, format!("{}: {text}", node.name)))
    }

    /// A change that was noted in time and holds began, and its node had not been drained.
    fn undrained(&self, notice: &Notice) -> Option<(Moment, String)> {
        let change = notice.event.change.as_ref()?;
        let (starts, noted) = (notice.ends()?, notice.deleted?);
        let is_due = change.takes_instance()
            && !change.is_closed
            && noted + IN_TIME < starts
            && starts < self.evidence.ended
            && self.evidence.terms.response("scheduled-change") >= Response::Cordon
            && self.story.notices.iter().all(|n| n.sent >= starts || !is_newer(n, notice));
        let lead = self.evidence.terms.shortest("--scheduled-lead", Duration::from_secs(3600));
        let due = noted.max(starts - lead);
        let name = self.evidence.nodes.get(&notice.event.instance).filter(|_| is_due)?;
        let is_there = self.noted_on(&notice.event.instance, starts).is_some_and(|node| {
            entry(node, change).is_some() && !node.annotations.contains_key("sundown.dev/ignore")
        });
        // Nothing runs on it any more.
        let has_ended = self.story.is_terminated(&notice.event.instance, due);
        let by_hand = self.evidence.hands.iter().any(|(_, node, _)| node == name);
        let scope = Scope::of_leader(&[MESSAGES, SEE_NODES, WRITE_NODES])
            .about(&notice.event.instance, name);
        if !is_there || has_ended || by_hand || self.is_excused(scope, due, starts) {
            return None;
        }
        let mut pages = self.story.pages_between(name, due, starts);
        let is_drained =
            pages.any(|(page, _)| page.instance == notice.event.instance && page.record.is_some());
        let text = "a scheduled change began, and the node had not been drained";
        (!is_drained).then(|| (starts, format!("{name}: {text}")))
    }

    /// The Node of this instance, as it was then.
    fn noted_on(&self, of: &str, at: Moment) -> Option<&NodeState> {
        let mut writes = self.writes.iter().rev().filter(|write| write.at <= at);
        let last = writes.find(|w| w.new.or(w.old).is_some_and(|node| instance(node) == of))?;
        last.new
    }

    /// A drain of this node was for a change that AWS had withdrawn by then.
    pub(super) fn was_canceled(&self, node: &str, at: Moment) -> bool {
        self.has_newer(node, at, |later, _| {
            later.event.change.as_ref().is_some_and(|c| c.is_closed)
        })
    }

    /// A drain of this node was for a change that AWS had moved by then.
    pub(super) fn was_moved(&self, node: &str, at: Moment) -> bool {
        self.has_newer(node, at, |later, first| {
            later.event.change.as_ref().is_some_and(|change| !change.is_closed)
                && later.event.ends != first.event.ends
        })
    }

    fn has_newer(&self, node: &str, at: Moment, holds: fn(&Notice, &Notice) -> bool) -> bool {
        let Some(instance) = self.instance_or_claimed(node, at) else { return false };
        let recorded = self.story.recorded(instance, at + REPORTED);
        let notices = &self.story.notices;
        let drained = notices.iter().filter(|n| {
            n.event.instance == instance && recorded.iter().any(|r| r.event == n.event.id)
        });
        drained.into_iter().any(|first| {
            let mut newer = notices.iter().filter(|n| is_newer(n, first));
            newer.any(|later| later.sent <= at + REPORTED && holds(later, first))
        })
    }
}

/// A later message about the same change of the same instance.
fn is_newer(later: &Notice, first: &Notice) -> bool {
    let (Some(new), Some(old)) = (&later.event.change, &first.event.change) else { return false };
    let updated = |n: &Notice, change: &Change| change.updated.or(n.event.time);
    new.arn == old.arn
        && later.event.instance == first.event.instance
        && updated(later, new) > updated(first, old)
}

/// What the annotation of this Node holds of the change.
fn entry(node: &NodeState, change: &Change) -> Option<Value> {
    let planned: Value = serde_json::from_str(node.annotations.get(PLANNED)?).ok()?;
    let changes = planned["changes"].as_array()?.clone();
    changes.into_iter().find(|entry| entry["arn"] == change.arn.as_str())
}
