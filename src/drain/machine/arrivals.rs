//! New pods on the node, and which of them came back after an eviction.

use super::Drain;
use crate::{
    domain::{Moment, Pod, seconds},
    drain::{
        Effect, Note,
        comebacks::{Arrival, Comebacks, OwnerKey, SCHEDULING_TIME, Verdict},
        pod::{Disposition, Entry, is_of_drained_daemon_set},
    },
};

/// If a pod was created longer than this before the watch shows it, the watch was broken and
/// delivers what it missed: the pod came when it was created.
const WATCH_LAG: std::time::Duration = seconds(3);

/// The shortest pause before a pod is evicted whose owner creates it again and again.
const MIN_PAUSE: std::time::Duration = seconds(1);

/// How the drain learned of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The first LIST since this leader began or took over the drain.
    FirstList,
    /// Any later LIST.
    List,
    /// An event of the watch.
    Watch,
}

impl Source {
    /// When a pod came to the node. `cordoned`: when the node was cordoned. `settled`: after this
    /// time no pod arrives that was being scheduled at the cordon.
    ///
    /// The watch shows a new pod at once, unless it was broken. A LIST may show it much later. Then
    /// its creation time counts: in whole seconds of the API server's clock, corrected if that
    /// clock differs from ours by 2 s or more.
    fn arrival(self, now: Moment, pod: &Pod, cordoned: Moment, settled: Moment) -> Arrival {
        let arrived_at = match self {
            Self::Watch => {
                Some(pod.created.filter(|created| created.plus(WATCH_LAG) < now).unwrap_or(now))
            }
            Self::FirstList if now <= settled => None,
            Self::FirstList | Self::List => pod.created.map(|created| created.min(now)),
        };
        match arrived_at {
            Some(at) if at > settled => Arrival::Late,
            Some(at) if at > cordoned => Arrival::Settling,
            _ => Arrival::BeforeCordon,
        }
    }
}

impl Drain {
    /// Creates the entry of a pod that was not seen before, and leaves its owner's new pods alone
    /// if too many have come back.
    pub(super) fn new_entry(&mut self, now: Moment, pod: Pod, source: Source) -> Entry {
        let mut entry = Entry::new(pod, self.own_pod.as_ref(), &self.settings);
        if entry.disposition != Disposition::Counts || entry.own {
            return entry;
        }
        let tainted_at = self.tainted_at();
        let settled = tainted_at.plus(self.settings.min_drain.max(SCHEDULING_TIME));
        // While nothing may be evicted (a taint or a cordon alone, a pause, a wait), no pod comes back.
        // But a new leader waits for AWS's answer anew, and its predecessor may have evicted pods.
        // It may have done that also before a pause or a hold by gates, or because the replacement
        // was ready (`--evict-after`), for which a new leader waits anew, too. These cases are left
        // out: the pods that came meanwhile would count as well. Those that came back are evicted
        // once more after the wait, and count from then on.
        let may_have_evicted = source == Source::FirstList
            && !self.limits.verification.may_evict()
            && !self.paused
            && self.limits.response.evicts()
            && !self.limits.evictions_wait();
        let arrival = if self.rules(now).is_inactive && !may_have_evicted {
            Arrival::BeforeCordon
        } else {
            source.arrival(now, &entry.pod, tainted_at, settled)
        };
        entry.new = arrival != Arrival::BeforeCordon;
        if is_of_drained_daemon_set(&entry.pod, &self.settings) {
            // Its controller creates such a pod again at once if the DaemonSet tolerates every
            // taint. Sundown evicts only the one that the cordon found.
            entry.new |= entry.pod.created.is_some_and(|created| created > tainted_at);
            entry.leave_alone();
            return entry;
        }
        match self.comebacks.arrived(&entry.pod, arrival) {
            Verdict::Drain => {}
            Verdict::DrainLater => {
                // Once pods are forced, only the pause keeps a pod that comes back from being
                // evicted again and again.
                let soonest = now.plus(MIN_PAUSE);
                let latest = self.limits.force_at.map_or(settled, |at| at.min(settled));
                entry.not_before = Some(latest.max(soonest));
            }
            Verdict::LeaveAlone { first } => {
                entry.leave_alone();
                if let Some((new, owner)) = first.zip(Comebacks::key(&entry.pod)) {
                    self.leave_alone(now, &owner);
                    let (namespace, owner) = owner;
                    self.effects.push(Effect::Note(Note::CameBack { namespace, owner, new }));
                }
            }
        }
        entry
    }

    /// Leaves the new pods of this owner alone that are already on the node.
    fn leave_alone(&mut self, now: Moment, owner: &OwnerKey) {
        let mut left_alone = Vec::new();
        for (uid, entry) in self
            .pods
            .iter_mut()
            .filter(|(_, e)| e.new && Comebacks::key(&e.pod).as_ref() == Some(owner))
        {
            let before = entry.tally();
            if entry.leave_alone() {
                self.tally.replace(before, entry.tally());
                left_alone.push(uid.clone());
            }
        }
        for uid in left_alone {
            self.evaluate_pod(now, &uid, false);
        }
    }
}
