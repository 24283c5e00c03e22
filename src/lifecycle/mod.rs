//! Heartbeats, hook windows, deadlines.
//!
//! A lifecycle hook waits for its HeartbeatTimeout after its start, and after each heartbeat that
//! is accepted again for that long (RecordLifecycleActionHeartbeat resets the timer, it does not
//! add to it), at most for its GlobalTimeout in all. [`HeartbeatSchedule`] keeps one such action open;
//! [`Confirmation`] says whether one that only a record names may be completed; [`Pace`] spreads
//! those of many in time; [`limits()`] says what a drain is held to.

mod aws_time;
mod confirm;
mod heartbeat;
mod limits;
mod pace;
#[cfg(test)]
mod tests;

pub use aws_time::{RecordClock, Skew};
pub use confirm::{Confirmation, Next, Seen};
pub use heartbeat::{End, FORBIDDEN_RETRY, HeartbeatCounts, HeartbeatSchedule, Start};
pub use limits::{HookFacts, LimitSettings, limits};
pub use pace::{BEAT_RATE, Pace, TAKE_UP_RATE, Turn, UNDESCRIBED_TIMEOUT};
