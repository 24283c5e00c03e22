//! Grace periods and the moment at which politeness ends.

use std::time::Duration;

use crate::domain::{ForceAfter, Limits, Moment, seconds};

/// The shortest grace period that is ever given. 0 would kill at once, without the API waiting for
/// the kubelet.
pub(super) const SHORTEST: Duration = seconds(1);

/// So long an eviction has to be answered where its pod may be deleted already, but need not be
/// yet: evictions under one budget hinder each other in the API server, half a second for each
/// conflict, and one that is slowly granted must not be taken for a hung one…
const FAIR: Duration = seconds(6);
/// …and so long at least, however near the deadline is. So long, too, a pod that may be deleted
/// waits for a slot for its first eviction.
pub(super) const LEAST: Duration = seconds(2);

/// Until when the answer to an eviction that is sent now is waited for: then the pod is to be
/// deleted, which must not wait for one. A pod that is never deleted: until its drain ends, because
/// no pod is evicted after that. `None`: as long as for any call.
#[must_use]
pub(super) fn evict_until(
    force: ForceAfter,
    limits: &Limits,
    own: Duration,
    now: Moment,
) -> Option<Moment> {
    let Some(from) = delete_from(force, limits, own) else {
        return limits.end_at.map(|end| end.max(now.plus(LEAST)));
    };
    // Later than that its own grace period is cut.
    let latest = limits.force_at?.minus(own);
    Some(from.max(now.plus(FAIR).min(latest)).max(now.plus(LEAST)))
}

/// The grace period, in seconds, of a pod that is to be gone by `force_at`: its own, or what is
/// left, at least 1.
///
/// Rounded to the nearest second: a timer that fires a few milliseconds late must not cost a pod a
/// whole second of its own grace.
#[must_use]
pub(super) fn grace_towards(force_at: Moment, own: Duration, now: Moment) -> u32 {
    let grace = own.min(force_at.since_or_zero(now)).max(SHORTEST);
    let rounded = grace.as_secs() + u64::from(grace.subsec_millis() >= 500);
    u32::try_from(rounded).unwrap_or(u32::MAX)
}

/// From when on a pod that could not be evicted is deleted; `None`: never.
#[must_use]
pub(super) fn delete_from(force: ForceAfter, limits: &Limits, own: Duration) -> Option<Moment> {
    let force_at = limits.force_at?;
    let share = match force {
        ForceAfter::Never => return None,
        ForceAfter::Deadline => 1.0,
        ForceAfter::Share(share) => share,
    };
    let window = force_at.since_or_zero(limits.accepted);
    let polite_until = limits.accepted.plus(part(window, share));
    Some(force_at.minus(own).max(polite_until).min(force_at.minus(SHORTEST)))
}

/// `share` of `window`; a share that is no number between 0 and 1 is taken as the nearest of these
/// (NaN as 1, the polite end).
fn part(window: Duration, share: f64) -> Duration {
    let share = if share.is_nan() { 1.0 } else { share.clamp(0.0, 1.0) };
    Duration::try_from_secs_f64(window.as_secs_f64() * share).unwrap_or(window)
}
