//! Budgets: no eviction overruns one, unless the API server could not know better.
//!
//! Which eviction is granted the API server decides, so this holds the embedded one to its word.
//! What Sundown could overrun by itself is a deletion, and when that may come is judged with the
//! [pods](super::pods).

use std::time::Duration;

use sundown::{
    domain::Moment,
    sim::kube::{Entry, Fact, PodRef},
};

use super::{Judge, is_us, promises::Promise};

/// From a change of a pod to the status of its budgets, with room for a busy moment.
const LAG: Duration = Duration::from_millis(500);

/// Silence of 40 s makes a node unknown and all of its pods not ready at once.
const SILENCE: Duration = Duration::from_secs(40);

impl Judge<'_> {
    pub(super) fn budgets(&mut self) {
        for Entry { at, fact, by } in &self.evidence.entries {
            if let Fact::Evicted { pod, overrun, .. } = fact
                && is_us(by)
            {
                let excused = !overrun.is_empty() && self.is_blurred(*at, pod);
                self.count(Promise::Budget, excused);
                if overrun.is_empty() || excused {
                    continue;
                }
                self.broken(*at, format!("the eviction of {} overran {overrun:?}", pod.name));
            }
        }
    }

    /// What a budget's status said at that moment need not have been so: it stood still, or a pod
    /// of the same workload had just gone without asking, or the node of one was just found to be
    /// lost.
    fn is_blurred(&self, at: Moment, pod: &PodRef) -> bool {
        if self.evidence.frozen.iter().any(|(from, to)| *from <= at && *to + LAG >= at) {
            return true;
        }
        let of_it = |other: &PodRef| {
            other.uid != pod.uid
                && other.namespace == pod.namespace
                && workload(&other.name) == workload(&pod.name)
        };
        // A granted pod leaves the status's sums when it is gone, and is no surprise.
        let just = self.evidence.entries.iter().filter(|e| e.at <= at && e.at + LAG >= at);
        let unasked = |e: &Entry| match &e.fact {
            Fact::Deleted { pod, .. } | Fact::PodFinished(pod) | Fact::PodGone(pod) => of_it(pod),
            _ => false,
        };
        if just.into_iter().any(unasked) {
            return true;
        }
        let found_lost =
            |since: Moment| since + SILENCE <= at + LAG && at <= since + SILENCE + LAG + LAG;
        let machines = self
            .evidence
            .entries
            .iter()
            .filter(|e| matches!(e.fact, Fact::MachineGone(_)))
            .map(|e| e.at);
        let kubelets = self
            .evidence
            .hands
            .iter()
            .filter(|(_, _, what)| ["lost", "rebooted"].contains(what))
            .map(|(at, ..)| *at);
        machines.chain(kubelets).any(found_lost)
    }
}

/// The workload in a pod's name: `load-1` of `load-1-abcde`.
pub(super) fn workload(pod: &str) -> &str {
    let end = pod.match_indices('-').nth(1).map_or(pod.len(), |(i, _)| i);
    pod.get(..end).unwrap_or(pod)
}
