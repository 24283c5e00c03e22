//! Grace periods, and when a pod is deleted instead of evicted.

use std::time::Duration;

use crate::domain::{ForceAfter, Limits, Moment, seconds};

/// The shortest grace period that Sundown sends. 0 would remove the pod at once, without waiting
/// for the kubelet.
pub(super) const MIN_GRACE: Duration = seconds(1);

/// How long an eviction may take to be answered while its pod may be deleted already, but need not
/// be yet. Evictions under one budget delay each other in the API server, half a second for each
/// conflict, and an eviction that is granted slowly must not be taken for a hanging one.
const FAIR_TIMEOUT: Duration = seconds(6);
/// The shortest time that an eviction is given to be answered, however near the deadline is. Also
/// how long a pod that may be deleted waits for a slot for its first eviction.
pub(super) const MIN_TIMEOUT: Duration = seconds(2);

/// Until when to wait for the answer to an eviction that is sent now. After that the pod is
/// deleted, which must not wait for the answer. If the pod is never deleted: until its drain ends,
/// because no pod is evicted after that. `None`: as long as for any call.
#[must_use]
pub(super) fn evict_until(
    force: ForceAfter,
    limits: &Limits,
    own: Duration,
    now: Moment,
) -> Option<Moment> {
    let Some(from) = delete_from(force, limits, own) else {
        return limits.end_at.map(|end| end.max(now.plus(MIN_TIMEOUT)));
    };
    // After this time the pod's own grace period would be shortened.
    let latest = limits.force_at.map_or(Moment::MAX, |at| at.minus(own_grace(limits, own)));
    Some(from.max(now.plus(FAIR_TIMEOUT).min(latest)).max(now.plus(MIN_TIMEOUT)))
}

/// The grace period that a pod has without a deadline: its own, but not more than
/// `max-grace-period` of its node or hook.
#[must_use]
pub(super) fn own_grace(limits: &Limits, own: Duration) -> Duration {
    limits.settings.max_grace_period.map_or(own, |most| own.min(most))
}

/// The grace period, in seconds, to send with a request for a pod. `None`: its own, which is not
/// sent.
#[must_use]
pub(super) fn grace_to_send(limits: &Limits, own: Duration, now: Moment) -> Option<u32> {
    let most = own_grace(limits, own);
    match limits.force_at {
        Some(force_at) => Some(grace_towards(force_at, most, now)),
        None => (most < own).then(|| u32::try_from(most.as_secs()).unwrap_or(u32::MAX)),
    }
}

/// The grace period, in seconds, to send with a delete. `None`: nothing is deleted, because there is
/// neither a deadline nor a person's order to force.
#[must_use]
pub(super) fn grace_to_delete(limits: &Limits, own: Duration, now: Moment) -> Option<u32> {
    grace_to_send(limits, own, now).or_else(|| {
        let own = own_grace(limits, own).max(MIN_GRACE);
        limits.forced_at.map(|_| u32::try_from(own.as_secs()).unwrap_or(u32::MAX))
    })
}

/// The grace period, in seconds, of a pod that is to be gone by `force_at`: its own, or the time
/// that is left, at least 1.
///
/// Rounded to the nearest second: a timer that fires a few milliseconds late must not cost a pod a
/// whole second of its own grace.
#[must_use]
pub(super) fn grace_towards(force_at: Moment, own: Duration, now: Moment) -> u32 {
    let grace = own.min(force_at.since_or_zero(now)).max(MIN_GRACE);
    let rounded = grace.as_secs() + u64::from(grace.subsec_millis() >= 500);
    u32::try_from(rounded).unwrap_or(u32::MAX)
}

/// From when on a pod that could not be evicted is deleted; `None`: never. `force`: the flag, which
/// counts unless the node or its hook sets another. A person's order to force lets the moment for
/// that come at once.
#[must_use]
pub(super) fn delete_from(force: ForceAfter, limits: &Limits, own: Duration) -> Option<Moment> {
    let by_deadline = delete_for_deadline_from(force, limits, own);
    by_deadline.into_iter().chain(limits.forced_at).min()
}

fn delete_for_deadline_from(force: ForceAfter, limits: &Limits, own: Duration) -> Option<Moment> {
    let force_at = limits.force_at?;
    let own = own_grace(limits, own);
    let share = match limits.settings.force_after.unwrap_or(force) {
        ForceAfter::Never => return None,
        ForceAfter::Deadline => 1.0,
        ForceAfter::Share(share) => share,
    };
    let window = force_at.since_or_zero(limits.accepted);
    let evictions_only_until = limits.accepted.plus(share_of(window, share));
    Some(force_at.minus(own).max(evictions_only_until).min(force_at.minus(MIN_GRACE)))
}

/// `share` of `window`. A share below 0 or above 1 is taken as 0 or 1, NaN as 1 (the latest
/// delete).
fn share_of(window: Duration, share: f64) -> Duration {
    let share = if share.is_nan() { 1.0 } else { share.clamp(0.0, 1.0) };
    Duration::try_from_secs_f64(window.as_secs_f64() * share).unwrap_or(window)
}
