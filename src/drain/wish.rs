//! Until when a drain lets pods wait: those that ask for it, or for which a rule does.

use std::time::Duration;

use super::{force, order::TIME_TO_EVICT};
use crate::domain::{Limits, Moment, Wish, WishSource, seconds};

/// A drain that ends at most this long after the accept has no time to wait for pods that ask for
/// it.
const TOO_SHORT: Duration = seconds(300);

/// Pods of a drain that ask to wait, all by one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedToWait {
    /// The annotation or label by which they ask.
    pub key: WishSource,
    /// How many pods: at least one.
    pub pods: usize,
    /// When the last of them is evicted although it has not finished. [`Moment::MAX`]: never,
    /// because the drain has no deadline.
    pub until: Moment,
}

impl AskedToWait {
    /// Counts one more pod that waits, until this moment.
    pub(super) fn add(all: &mut Vec<Self>, key: WishSource, until: Moment) {
        if let Some(known) = all.iter_mut().find(|known| known.key == key) {
            known.pods += 1;
            known.until = known.until.max(until);
        } else {
            all.push(Self { key, pods: 1, until });
            all.sort_by_key(|one| one.key);
        }
    }

    /// For example "2 pods wait (sundown.dev/drain: wait) until 2026-01-01T00:30:00Z at the
    /// latest".
    #[must_use]
    pub fn describe(&self) -> String {
        let pods = if self.pods == 1 { "pod waits" } else { "pods wait" };
        let until = if self.until == Moment::MAX {
            "until they have finished".to_owned()
        } else {
            format!("until {:.0} at the latest", self.until)
        };
        format!("{} {pods} ({}) {until}", self.pods, self.key.of_waiting_pod())
    }
}

/// Until when a pod asks to wait. [`Moment::MAX`]: until it has finished. `None`: it does not ask
/// to wait. `created`: when the pod was created. If that is unreadable, its age counts from the
/// accept.
pub(super) fn wished_until(wish: Wish, created: Option<Moment>, limits: &Limits) -> Option<Moment> {
    match wish {
        Wish::Wait => Some(Moment::MAX),
        Wish::WaitUntilAge(age) => Some(created.unwrap_or(limits.accepted).plus(age)),
        Wish::Last | Wish::Skip => None,
    }
}

/// Until when a drain lets a pod wait that asks for it: for half of the time from the accept to the
/// deadline at most, and less if the pod could not have its own grace period after that. `None`:
/// not at all, because the drain is too short. [`Moment::MAX`]: the drain has no deadline. When a
/// person forces the drain, no pod waits any longer.
///
/// `force_at`: by when the pods should be gone. `own`: the pod's own grace period.
pub(super) fn honored_until(
    limits: &Limits,
    force_at: Option<Moment>,
    own: Duration,
) -> Option<Moment> {
    let by_deadline = match force_at.or(limits.end_at) {
        None => Moment::MAX,
        Some(deadline) => {
            let end = limits.end_at.unwrap_or(deadline);
            if end.since_or_zero(limits.accepted) <= TOO_SHORT {
                return None;
            }
            let half = limits.accepted.plus(deadline.since_or_zero(limits.accepted) / 2);
            let needed = force::own_grace(limits, own).saturating_add(TIME_TO_EVICT);
            half.min(deadline.minus(needed))
        }
    };
    Some(limits.forced_at.map_or(by_deadline, |at| at.min(by_deadline)))
}
