//! Pods that come to the node, and those among them that come back.

use super::Drain;
use crate::{
    domain::{Moment, Pod, seconds},
    drain::{
        Effect, Note,
        comebacks::{Arrival, Comebacks, OwnerKey, SCHEDULED_BEFORE, Verdict},
        pod::{Belongs, Entry},
    },
};

/// A pod that was created longer ago when the watch shows it came earlier: the watch was broken,
/// and shows what it missed.
const WATCH_LAG: std::time::Duration = seconds(3);

/// A pod whose owner puts it back again and again is not evicted sooner than this.
const LEAST_PAUSE: std::time::Duration = seconds(1);

/// By what a pod became known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The first LIST since the drain was taken up: by the leader that accepted it, or by a later
    /// one.
    FirstList,
    /// A later LIST.
    List,
    /// The watch.
    Watch,
}

impl Source {
    /// When a pod came to the node that was cordoned at `cordoned`, if no pod that was being
    /// scheduled then comes after `settled`.
    ///
    /// The watch shows it at once, unless it was broken. A LIST may show it much later. Then the
    /// pod says when it was created, by the clock of the API server (with its difference from ours
    /// taken out, where that is 2 s and more), in whole seconds.
    fn arrival(self, now: Moment, pod: &Pod, cordoned: Moment, settled: Moment) -> Arrival {
        let came = match self {
            Self::Watch => {
                Some(pod.created.filter(|created| created.plus(WATCH_LAG) < now).unwrap_or(now))
            }
            Self::FirstList if now <= settled => None,
            Self::FirstList | Self::List => pod.created.map(|created| created.min(now)),
        };
        match came {
            Some(at) if at > settled => Arrival::Late,
            Some(at) if at > cordoned => Arrival::Soon,
            _ => Arrival::There,
        }
    }
}

impl Drain {
    /// A pod that was not seen before, and what follows where it has come back.
    pub(super) fn newcomer(&mut self, now: Moment, pod: Pod, source: Source) -> Entry {
        let mut entry = Entry::new(pod, self.own_pod.as_ref());
        if entry.belongs != Belongs::Counts || entry.own {
            return entry;
        }
        let settled = self.cordoned_at.plus(self.settings.min_drain.max(SCHEDULED_BEFORE));
        let arrival = source.arrival(now, &entry.pod, self.cordoned_at, settled);
        entry.new = arrival != Arrival::There;
        match self.comebacks.came(&entry.pod, arrival) {
            Verdict::Drain => {}
            Verdict::DrainLater => {
                let later = settled.max(now.plus(LEAST_PAUSE));
                entry.not_before = Some(self.limits.force_at.map_or(later, |at| at.min(later)));
            }
            Verdict::LeaveAlone { first } => {
                entry.leave_alone();
                if let Some((new, owner)) = first.zip(Comebacks::key(&entry.pod)) {
                    self.leave_alone(now, &owner);
                    let (namespace, owner) = owner;
                    self.out.push(Effect::Note(Note::CameBack { namespace, owner, new }));
                }
            }
        }
        entry
    }

    /// New pods of this owner that are there already are left alone as well.
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
            self.look_at_one(now, &uid, false);
        }
    }
}
