//! Liveness: where the machine goes soon, every pod that counts is asked to go while there is time.

use std::time::Duration;

use jiff::Timestamp;
use sundown::sim::kube::Fact;

use super::{
    Belongs, Judge, is_us,
    story::{Life, Told, counts},
};

/// Two minutes from the notice, less the margin of ten seconds.
const NOTICE: Duration = Duration::from_secs(110);
/// A machine that is shutting down lives for some seconds.
const AT_ONCE: Duration = Duration::from_secs(4);

/// How long after its own time everybody must have been asked, and how long it counts as fresh; `None`: nothing presses.
fn presses(told: &Told) -> Option<(Duration, Duration)> {
    match (told.kind.as_str(), told.state.as_deref()) {
        ("spot" | "capacity", _) => Some((NOTICE, Duration::from_secs(60))),
        ("state-change", Some("stopping" | "shutting-down")) => Some((AT_ONCE, Duration::from_secs(1))),
        _ => None,
    }
}

impl Judge<'_> {
    /// Of each spot and capacity notice and each state that ends a machine that was written down while it was fresh, and that nothing and nobody stood in the way of: all pods
    /// that count were asked. Says how many pods it looked at, so that a test can see that it looks.
    pub(super) fn asked(&mut self) -> usize {
        let mut seen = 0;
        for (instance, node) in &self.evidence.nodes {
            let group = self.evidence.groups.get(instance).and_then(|g| self.belongs(g));
            if group.is_some_and(|b| b != Belongs::Us) {
                continue;
            }
            for told in self.story.told(instance, self.evidence.ended) {
                if let Some((notice, fresh)) = presses(&told)
                    && told.accepted <= told.time + fresh
                    && self.is_free(instance, node, &told, notice)
                {
                    seen += self.all_asked(instance, node, &told, notice);
                }
            }
        }
        seen
    }

    /// Nothing was broken, nobody interfered, and the machine was there.
    fn is_free(&self, instance: &str, node: &str, told: &Told, notice: Duration) -> bool {
        let (from, to) = (told.time, told.time + notice);
        // One that was released before and told again is history that stands (and its pods have been asked then).
        let before = self.story.released(node, instance, self.evidence.begun).is_some_and(|at| at <= told.accepted);
        to <= self.evidence.ended && !self.is_meddled(node, from, to) && !before && !self.troubled(from, to)
    }

    fn all_asked(&mut self, instance: &str, node: &str, told: &Told, notice: Duration) -> usize {
        let end = told.time + notice;
        let known = self.story.released(node, instance, told.accepted).map_or(told.accepted, |at| at.min(told.accepted));
        let there = |l: &&Life| l.pod.node == node && l.bound <= known && l.gone.is_none_or(|g| g > end) && l.finished.is_none_or(|f| f > end);
        let left: Vec<&Life> = self.story.pods.values().filter(there).filter(|l| counts(&l.pod)).collect();
        let missed: Vec<String> = left.iter().filter(|l| !self.was_asked(l, end)).map(|l| l.pod.name.clone()).collect();
        // Those that went in time were looked at too.
        let looked_at = self.story.pods.values().filter(|l| l.pod.node == node && l.bound <= known && l.gone.is_none_or(|g| g > told.time)).count();
        if !missed.is_empty() {
            self.broken(end, format!("{node} was accepted for a {} event, and nobody asked {missed:?} to go", told.kind));
        }
        looked_at
    }

    /// We asked it, or somebody else made it go.
    pub(super) fn was_asked(&self, life: &Life, end: Timestamp) -> bool {
        let pod = &life.pod;
        let asks = self.evidence.requests.iter().any(|r| {
            let removes = r.subresource == "eviction" || (r.verb == "delete" && r.subresource.is_empty());
            is_us(&r.client)
                && r.resource == "pods"
                && removes
                && r.namespace == pod.namespace
                && r.name == pod.name
                && r.at >= life.bound
                && r.at <= end
        });
        asks || self.evidence.entries.iter().any(|e| e.at <= end && matches!(&e.fact, Fact::Deleted { pod: p, .. } if p.uid == pod.uid))
    }
}
