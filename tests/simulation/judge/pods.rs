//! Pods: which are touched, when, with which grace, and at whose cost.

use std::time::Duration;

use jiff::Timestamp;
use sundown::sim::kube::{Entry, Fact, PodRef, Request};

use super::{
    Judge, SLACK, is_us,
    story::{Deadline, counts},
};

/// How long a pod that may be deleted waits for a slot for its first eviction.
const UNASKED: Duration = Duration::from_secs(2);

impl Judge<'_> {
    /// Only the pods that count, only on nodes with an open record, each asked first, none forced too early, never without grace.
    pub(super) fn pods(&mut self) {
        self.untouchable();
        for Entry { at, fact, .. } in self.evidence.entries.iter().filter(|e| is_us(&e.by)) {
            let (Fact::Evicted { pod, grace, again, .. } | Fact::Deleted { pod, grace, again, .. }) = fact else { continue };
            self.not_again(*at, pod, *again);
            self.open_record(*at, pod);
            self.not_while_paused(*at, pod);
            let forced = matches!(fact, Fact::Deleted { .. });
            if !again {
                self.measured(*at, pod, *grace, forced);
            }
            if forced && !again {
                self.forced(*at, pod);
            }
        }
    }

    /// What a drain leaves alone is never touched, and nothing gets no grace at all.
    pub(super) fn untouchable(&mut self) {
        for entry in self.evidence.entries.iter().filter(|e| is_us(&e.by)) {
            let (Fact::Evicted { pod, grace, .. } | Fact::Deleted { pod, grace, .. }) = &entry.fact else { continue };
            if !counts(pod) {
                self.broken(entry.at, format!("{} was touched", pod.name));
            }
            if *grace == 0 {
                self.broken(entry.at, format!("{} got no grace", pod.name));
            }
        }
    }

    fn not_again(&mut self, at: Timestamp, pod: &PodRef, again: bool) {
        let outlives = |d: Deadline| at + Duration::from_secs(1) >= d.at || self.leaves_by(pod, at).is_none_or(|end| end > d.at);
        if again && self.evidence.terms.calm && !self.soonest(&pod.node, at).is_some_and(outlives) {
            self.broken(at, format!("{} was asked again while it was leaving in time", pod.name));
        }
    }

    /// Pods are touched on Nodes with an open record, and nowhere else.
    pub(super) fn open_records(&mut self) {
        for entry in self.evidence.entries.iter().filter(|e| is_us(&e.by)) {
            if let Fact::Evicted { pod, .. } | Fact::Deleted { pod, .. } = &entry.fact {
                self.open_record(entry.at, pod);
            }
        }
    }

    fn open_record(&mut self, at: Timestamp, pod: &PodRef) {
        if !self.story.was_open(&pod.node, at) {
            self.broken(at, format!("{} was touched on {}, which has no open record", pod.name, pod.node));
        }
    }

    /// Nobody is touched in a pause that whoever leads must know of.
    fn not_while_paused(&mut self, at: Timestamp, pod: &PodRef) {
        if let Some(from) = self.story.known_pause(&pod.node, at) {
            self.broken(at, format!("{} was touched on {}, which has been paused since {from}", pod.name, pod.node));
        }
    }

    /// The grace that a pod gets is its own, or what is left of a time that may rule.
    fn measured(&mut self, at: Timestamp, pod: &PodRef, grace: u64, forced: bool) {
        let own = self.grace_of(pod);
        let Some(instance) = self.instance_of(&pod.node).cloned() else { return };
        let deadlines = self.story.deadlines(&instance, at);
        let left = |d: &Deadline| u64::try_from(d.at.duration_since(at).as_secs()).unwrap_or_default();
        // Between its reckoning and its arrival a request may have waited as long as it may take.
        let slack = if self.troubled(at, at) { 11 } else { 2 };
        let fits = |d: &Deadline| grace.abs_diff(left(d).min(own).max(1)) <= slack;
        // A successor cannot know which heartbeats of the one before were accepted: it reckons as if the last one that was due had been.
        if self.troubled(at, at) && self.evidence.lives.len() > 1 && grace <= own {
            return;
        }
        // An eviction that no deadline forces, and a deadline that was over at the take-up, leave a pod its own.
        if !deadlines.iter().any(fits) && (forced || grace != own) {
            self.broken(at, format!("{} got a grace of {grace} s, its own is {own} s: {deadlines:?}", pod.name));
        }
    }

    /// By when a pod had to be gone, as far as it had been asked before this moment.
    fn leaves_by(&self, pod: &PodRef, before: Timestamp) -> Option<Timestamp> {
        let ends = self.evidence.entries.iter().filter(|e| e.at < before).filter_map(|e| match &e.fact {
            Fact::Evicted { pod: p, grace, .. } | Fact::Deleted { pod: p, grace, .. } if p.uid == pod.uid => Some(e.at + Duration::from_secs(*grace)),
            _ => None,
        });
        ends.min()
    }

    fn soonest(&self, node: &str, at: Timestamp) -> Option<Deadline> {
        self.story.deadlines(self.instance_of(node)?, at).into_iter().min_by_key(|d| d.at)
    }

    fn forced(&mut self, at: Timestamp, pod: &PodRef) {
        // A StatefulSet gives a name to one pod after the other: what counts is what came after this one was bound.
        let bound = self.story.pods.get(&pod.uid).map_or(self.evidence.begun, |life| life.bound);
        let about = |r: &&Request| r.subresource == "eviction" && r.namespace == pod.namespace && r.name == pod.name;
        let asked = self.evidence.requests.iter().filter(about).any(|r| r.at <= at && r.at >= bound);
        let own = Duration::from_secs(self.grace_of(pod));
        let Some(instance) = self.instance_of(&pod.node).cloned() else { return };
        let deadlines = self.story.deadlines(&instance, at);
        let from = |d: &Deadline| {
            let half = d.accepted + Duration::try_from(d.at.duration_since(d.accepted)).unwrap_or_default() / 2;
            (d.at - own).max(half)
        };
        // One that could not be asked (no slot was free, or the API server had too much to do) has two seconds more.
        if !asked && !deadlines.iter().any(|d| at >= from(d).max(bound) + UNASKED) {
            self.broken(at, format!("{} was deleted and never asked to go", pod.name));
        }
        if !deadlines.iter().any(|d| at + SLACK >= from(d)) {
            self.broken(at, format!("{} was deleted too early: {deadlines:?}", pod.name));
        }
    }

    fn grace_of(&self, pod: &PodRef) -> u64 {
        self.evidence.terms.graces.iter().find(|(name, _)| pod.namespace == "load" && pod.name.starts_with(name)).map_or(30, |(_, grace)| *grace)
    }
}
