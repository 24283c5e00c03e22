//! Heartbeats, hook windows, deadlines.
//!
//! AWS keeps a lifecycle action open for the hook's HeartbeatTimeout after its start, and again for
//! that long after each accepted heartbeat (RecordLifecycleActionHeartbeat resets the timer, it
//! does not add to it). It keeps the action open at most for the hook's GlobalTimeout in total.
//! This time from the start or the last accepted heartbeat is the action's *window*.
//!
//! [`HeartbeatSchedule`] keeps one action open. [`Pace`] spreads the heartbeats of many actions in
//! time. [`Confirmation`] decides whether Sundown may complete an action that only a record names.
//! [`limits()`] derives the deadlines of a drain. [`verification()`] decides whether a drain waits
//! until AWS confirms its actions, [`StayCheck`] whether AWS contradicts them. [`eviction_start()`]
//! decides when its evictions begin, [`pre_drain_hold()`] and [`pre_release_hold()`] what the gates on
//! its Node hold, [`EndedDrainFacts`] with which result an action is completed.

mod aws_time;
mod confirm;
mod end_check;
mod eviction_start;
mod gates;
mod heartbeat;
mod limits;
mod pace;
mod result;
#[cfg(test)]
mod tests;
mod verification;

pub use aws_time::{RecordClock, Skew};
pub use confirm::{Confirmation, Next, Seen};
pub use end_check::{EndAnswer, EndCheck, EndFound};
pub use eviction_start::{eviction_start, is_replaced};
pub use gates::{GateHold, IgnoredGate, can_wait_until, pre_drain_hold, pre_release_hold};
pub use heartbeat::{
    ActionOrigin, FORBIDDEN_RETRY, HeartbeatCounts, HeartbeatEnd, HeartbeatSchedule,
};
pub use limits::{HookFacts, LimitSettings, limits, with_response, with_settings};
pub use pace::{CallPriority, HEARTBEAT_RATE, Pace, TAKE_OVER_RATE, UNDESCRIBED_TIMEOUT};
pub use result::{AbandonPolicy, EndedDrainFacts};
pub use verification::{
    ActionSeen, Finding, HEARTBEAT_ANSWER_TIMEOUT, StayAnswer, StayCheck, VerificationFacts,
    verification,
};
