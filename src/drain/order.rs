//! Until when the pods of a later group wait for those of earlier groups (`--pod-order`).

use std::time::Duration;

use super::{force, pod::Tally};
use crate::domain::{Limits, Moment, seconds};

/// How long before the forced delete of a pod its evictions begin at the latest: time for the
/// disruption budget to allow one.
pub(super) const TIME_TO_EVICT: Duration = seconds(10);

/// When the pods of a group are evicted although pods of earlier groups are left. `None`: at no
/// time, because the drain has no deadline.
///
/// The groups share the first half of the time from `from` to the deadline: of four groups, the
/// second one begins after an eighth of the time, the last one after three eighths. So each group
/// has at least half of the time. A pod that could not have its own grace period after that begins
/// earlier. When a person forces the drain, all groups begin.
///
/// `groups`: how many there are. `force_at`: by when the pods should be gone. `from`: the accept, or
/// when a gate, a pause or `--evict-after` let the evictions go on. `own`: the pod's own grace
/// period.
#[must_use]
pub(super) fn latest_start(
    groups: usize,
    group: usize,
    limits: &Limits,
    force_at: Option<Moment>,
    from: Moment,
    own: Duration,
) -> Option<Moment> {
    let by_deadline = force_at.map(|force_at| {
        let window = force_at.since_or_zero(from);
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let share = (window / 2).saturating_mul(number(group)) / number(groups).max(1);
        let needed = force::own_grace(limits, own).saturating_add(TIME_TO_EVICT);
        from.plus(share).min(force_at.minus(needed))
    });
    by_deadline.into_iter().chain(limits.forced_at).min()
}

impl Tally {
    /// The first group that has pods for which later groups wait. `None`: no group has.
    pub(super) fn first_group(&self) -> Option<usize> {
        self.holding.iter().position(|pods| *pods > 0)
    }

    /// Whether there are pods in a group after the first one.
    pub(super) fn has_later_groups(&self) -> bool {
        self.holding.iter().filter(|pods| **pods > 0).count() > 1
    }
}
