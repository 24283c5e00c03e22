//! Heartbeats, hook windows, deadlines.
//!
//! A lifecycle hook waits for its HeartbeatTimeout after its start, and after each heartbeat that is accepted again for that
//! long (RecordLifecycleActionHeartbeat resets the timer, it does not add to it), at most for its GlobalTimeout in all.
//! [`BeatSchedule`] keeps one such action open; [`Pace`] spreads those of many in time; [`limits()`] says what a drain is held to.

mod aws_time;
mod beat;
mod limits;
mod pace;
#[cfg(test)]
mod tests;

pub use aws_time::{RecordClock, Skew};
pub use beat::{BeatCounts, BeatSchedule, End, Start};
pub use limits::{HookFacts, LimitSettings, Limits, limits};
pub use pace::{BEAT_RATE, Pace, TAKE_UP_RATE, Turn, UNDESCRIBED_TIMEOUT};
