//! Whose heartbeat goes first when many are due at once, and how fast they go out.

use std::{collections::BTreeMap, time::Duration};

use crate::domain::{Moment, seconds};

/// So many heartbeats leave in a second, however many are due.
pub const BEAT_RATE: u32 = 40;
/// A new leader sends at most so many of the first heartbeats of what it takes up.
pub const TAKE_UP_RATE: u32 = 20;
/// A hook that is not described yet is beaten as if this were its HeartbeatTimeout: the shortest
/// that AWS allows. It sets the interval only, never a deadline.
pub const UNDESCRIBED_TIMEOUT: Duration = seconds(30);

/// What a heartbeat that is due asks of the [`Pace`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// By when it should go out: the shorter the time that is left, the earlier its turn.
    pub by: Moment,
    /// Its hook is known, so that the pace is quickened where it would come too late. Else this
    /// sets the order only.
    pub firm: bool,
    /// It takes up another leader's action.
    pub is_take_up: bool,
}

/// Lets those who wait go one after the other: who has least time first, at a steady rate, and
/// faster only where somebody would come too late otherwise.
#[derive(Debug)]
pub struct Pace<T> {
    gap: Duration,
    waiting: BTreeMap<(Moment, u64), (bool, T)>,
    entered: u64,
    last: Option<Moment>,
}

impl<T> Pace<T> {
    /// At most `rate` a second, where time allows.
    #[must_use]
    pub fn new(rate: u32) -> Self {
        Self { gap: seconds(1) / rate.max(1), waiting: BTreeMap::new(), entered: 0, last: None }
    }

    /// One more waits.
    pub fn enter(&mut self, turn: Turn, who: T) {
        self.entered += 1;
        self.waiting.insert((turn.by, self.entered), (turn.firm, who));
    }

    /// Those who gave up are forgotten.
    pub fn retain(&mut self, mut stays: impl FnMut(&T) -> bool) {
        self.waiting.retain(|_, (_, who)| stays(who));
    }

    /// When the next one may go; a moment that is past means now. `None`: nobody waits.
    #[must_use]
    pub fn next_at(&self) -> Option<Moment> {
        if self.waiting.is_empty() {
            return None;
        }
        let Some(last) = self.last else { return Some(Moment::MIN) };
        Some(last.plus(self.quickened().unwrap_or(self.gap)))
    }

    /// The one whose turn it is now. In a hurry those go first who are the reason for it.
    pub fn pop(&mut self, now: Moment) -> Option<T> {
        if self.next_at()? > now {
            return None;
        }
        let hurries = self.quickened().is_some();
        let next = *self.waiting.iter().find(|(_, (firm, _))| *firm || !hurries)?.0;
        self.last = Some(now);
        self.waiting.remove(&next).map(|(_, who)| who)
    }

    /// The gap at which the n-th of those who are known still goes out in time, where that is less
    /// than the usual one.
    fn quickened(&self) -> Option<Duration> {
        let last = self.last?;
        let firm = self.waiting.iter().filter(|(_, (firm, _))| *firm);
        let gaps = (1_u32..).zip(firm).map(|(n, ((by, _), _))| by.since_or_zero(last) / n);
        gaps.min().filter(|gap| *gap < self.gap)
    }
}
