//! Whose heartbeat goes first when a leader takes up many at once.

use std::time::Duration;

use crate::domain::{Moment, MomentExt, seconds};

/// A new leader sends at most so many heartbeats a second.
pub const TAKE_UP_RATE: u32 = 20;
/// A hook that is not described yet is beaten as if this were its HeartbeatTimeout: the shortest that AWS allows. It sets the
/// interval only, never a deadline.
pub const UNDESCRIBED_TIMEOUT: Duration = seconds(30);

/// When each hook's first heartbeat goes out after a take-up: every one at once, the shortest HeartbeatTimeout first (`None`,
/// not described yet: as if 30 s), at most [`TAKE_UP_RATE`] a second. Those of one timeout keep their order.
#[must_use]
pub fn take_up_order<T>(hooks: impl IntoIterator<Item = (T, Option<Duration>)>, now: Moment) -> Vec<(T, Moment)> {
    let mut hooks: Vec<_> = hooks.into_iter().collect();
    hooks.sort_by_key(|(_, timeout)| timeout.unwrap_or(UNDESCRIBED_TIMEOUT));
    let gap = seconds(1) / TAKE_UP_RATE;
    (0_u32..).zip(hooks).map(|(n, (hook, _))| (hook, now.plus(gap.saturating_mul(n)))).collect()
}
