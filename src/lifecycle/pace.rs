//! The order and rate of heartbeats and completions when many are due at once.

use std::{collections::BTreeMap, time::Duration};

use crate::domain::{Moment, seconds};

/// Most heartbeats per second, if that is fast enough for all that are due.
pub const HEARTBEAT_RATE: u32 = 40;
/// Most first heartbeats per second for the actions that a new leader takes over, if that is fast
/// enough.
pub const TAKE_OVER_RATE: u32 = 20;
/// The HeartbeatTimeout that Sundown assumes for a hook that is not described yet: the shortest
/// that AWS allows. It sets the heartbeat interval only, never a deadline.
pub const UNDESCRIBED_TIMEOUT: Duration = seconds(30);

/// The priority of a call (heartbeat or completion) in a [`Pace`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallPriority {
    /// When the call should be sent at the latest. The earliest goes first.
    pub by: Moment,
    /// `true`: the pace exceeds its usual rate if this call would otherwise be sent after `by`.
    /// `false`: `by` sets the order only.
    pub may_exceed_rate: bool,
    /// The call is for an action taken over from another leader, whose last heartbeat is not known.
    pub is_take_over: bool,
}

/// Releases waiting calls one at a time at a steady rate, the one with the earliest
/// [`CallPriority::by`] first. It exceeds its rate only if a call that
/// [may exceed it](CallPriority::may_exceed_rate) would otherwise be late.
#[derive(Debug)]
pub struct Pace<T> {
    gap: Duration,
    waiting: BTreeMap<(Moment, u64), (bool, T)>,
    entered: u64,
    last: Option<Moment>,
}

impl<T> Pace<T> {
    /// `rate`: most calls per second, if that makes no call late that may exceed it.
    #[must_use]
    pub fn new(rate: u32) -> Self {
        Self { gap: seconds(1) / rate.max(1), waiting: BTreeMap::new(), entered: 0, last: None }
    }

    /// Adds a waiting call.
    pub fn enter(&mut self, turn: CallPriority, who: T) {
        self.entered += 1;
        self.waiting.insert((turn.by, self.entered), (turn.may_exceed_rate, who));
    }

    /// Removes the waiting calls for which `stays` is `false`.
    pub fn retain(&mut self, mut stays: impl FnMut(&T) -> bool) {
        self.waiting.retain(|_, (_, who)| stays(who));
    }

    /// When the next call may go; a moment in the past means now. `None`: no call waits.
    #[must_use]
    pub fn next_at(&self) -> Option<Moment> {
        if self.waiting.is_empty() {
            return None;
        }
        let Some(last) = self.last else { return Some(Moment::MIN) };
        Some(last.plus(self.quickened().unwrap_or(self.gap)))
    }

    /// Removes and returns the call to send now; `None` if it is too early or no call waits. While
    /// the pace is faster than usual, calls that may exceed the rate go first.
    pub fn pop(&mut self, now: Moment) -> Option<T> {
        if self.next_at()? > now {
            return None;
        }
        let hurries = self.quickened().is_some();
        let next =
            *self.waiting.iter().find(|(_, (may_exceed_rate, _))| *may_exceed_rate || !hurries)?.0;
        self.last = Some(now);
        self.waiting.remove(&next).map(|(_, who)| who)
    }

    /// The gap at which every call that may exceed the rate still goes out in time; `None` if the
    /// usual gap is short enough.
    fn quickened(&self) -> Option<Duration> {
        let last = self.last?;
        let hurried = self.waiting.iter().filter(|(_, (may_exceed_rate, _))| *may_exceed_rate);
        let gaps = (1_u32..).zip(hurried).map(|(n, ((by, _), _))| by.since_or_zero(last) / n);
        gaps.min().filter(|gap| *gap < self.gap)
    }
}
