//! Moments, descriptions and an Auto Scaling that answers, for all tests of this room.
#![allow(clippy::indexing_slicing, reason = "a test may panic")]

mod aws_time;
mod confirm;
mod deadlines;
mod eviction_start;
mod gates;
mod heartbeats;
mod pace;
mod properties;
mod requests;
mod result;
mod settings;
mod verification;
mod windows;

use std::time::Duration;

use super::*;
use crate::domain::*;

/// `n` seconds after a fixed moment.
pub(super) fn at(n: i64) -> Moment {
    Moment::from_second(1_767_225_600 + n).unwrap()
}

/// The same in milliseconds.
pub(super) fn at_ms(n: i64) -> Moment {
    Moment::from_millisecond(1_767_225_600_000 + n).unwrap()
}

/// Seconds after that moment.
pub(super) fn secs(t: Moment) -> f64 {
    t.duration_since(at(0)).as_secs_f64()
}

/// The whole seconds of it.
pub(super) fn whole(t: Moment) -> i64 {
    t.as_second() - at(0).as_second()
}

pub(super) fn described(heartbeat: u64, global: u64) -> HookDescription {
    HookDescription {
        hook: "drain".into(),
        heartbeat_timeout: seconds(heartbeat),
        global_timeout: seconds(global),
    }
}

/// The heartbeats of a hook whose event came at once and that is described already.
pub(super) fn fresh(heartbeat: u64, global: u64) -> HeartbeatSchedule {
    HeartbeatSchedule::new(at(0), received(0), 0.0, Some(described(heartbeat, global)))
}

/// A hook as AWS makes it: the global timeout follows from the heartbeat timeout.
pub(super) fn of_timeout(heartbeat: u64) -> HookDescription {
    described(heartbeat, (heartbeat * 100).min(48 * 3600))
}

pub(super) fn received(n: i64) -> ActionOrigin {
    ActionOrigin::Received(at(n))
}

/// What Auto Scaling answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Accepted,
    Failed,
    Gone,
}

/// Sends what is due until `end`; each call takes `latency`. Gives the moments of sending.
pub(super) fn run(
    s: &mut HeartbeatSchedule,
    from: Moment,
    end: Moment,
    latency: Duration,
    mut answer: impl FnMut(Moment) -> Answer,
) -> Vec<Moment> {
    let (mut now, mut sent) = (from, Vec::new());
    while let Some(due) = s.due().filter(|due| *due <= end && sent.len() < 10_000) {
        now = now.max(due);
        s.sent(now);
        sent.push(now);
        assert_eq!(s.due(), None, "one at a time");
        let asked = now;
        now = now.plus(latency);
        match answer(asked) {
            Answer::Accepted => s.accepted(now),
            Answer::Failed => s.failed(now),
            Answer::Gone => s.gone(now),
        }
    }
    sent
}

pub(super) fn run_secs(s: &mut HeartbeatSchedule, end: i64, answer: Answer) -> Vec<f64> {
    run(s, at(0), at(end), Duration::ZERO, |_| answer).into_iter().map(secs).collect()
}
