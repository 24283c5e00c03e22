//! Converts between AWS's clock and the clock of this process.
//!
//! The record of a Node holds every time by AWS's clock, so that two replicas whose own clocks
//! differ derive the same deadlines from it. Timers run on our clock, which is monotonic. Sundown
//! converts a time when it reads it, by the skew: the difference that the `Date` headers of AWS's
//! answers show.

use jiff::SignedDuration;

use crate::domain::{InterruptionFacts, Limits, Moment, seconds};

/// A running drain adopts a newly measured skew if it differs from the present one by at least
/// this. Smaller differences are measurement noise.
const CHANGE: SignedDuration = SignedDuration::from_secs(5);
/// After a change of the skew every deadline is at least this far away, since the measurement may
/// be wrong. A pod is forced at the earliest in the middle of this time: 10 s after the change.
const RESPITE: std::time::Duration = seconds(20);

/// How far AWS's clock is ahead of ours, as measured; negative if it is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Skew(SignedDuration);

impl Skew {
    /// `ahead`: AWS's time less ours.
    #[must_use]
    pub const fn new(ahead: SignedDuration) -> Self {
        Self(ahead)
    }

    /// Converts a time from AWS's clock to ours.
    #[must_use]
    pub fn to_ours(self, aws: Moment) -> Moment {
        aws - self.0
    }

    /// Converts a time from our clock to AWS's.
    #[must_use]
    pub fn to_aws(self, ours: Moment) -> Moment {
        ours + self.0
    }

    /// Converts the times of a record's interruptions to our clock.
    #[must_use]
    pub fn facts_to_ours(self, recorded: Vec<InterruptionFacts>) -> Vec<InterruptionFacts> {
        let convert = |facts: InterruptionFacts| InterruptionFacts {
            time: self.to_ours(facts.time),
            accepted: self.to_ours(facts.accepted),
            ends: facts.ends.map(|end| self.to_ours(end)),
            ..facts
        };
        let mut all: Vec<_> = recorded.into_iter().map(convert).collect();
        // Each drain keeps them. There is mostly one, and a vector begins with room for four.
        all.shrink_to_fit();
        all
    }
}

/// The skew by which one drain reads its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordClock {
    skew: Skew,
    /// When the skew last changed; `None`: not since this leader accepted, took over or
    /// resumed the drain.
    changed_at: Option<Moment>,
}

impl RecordClock {
    /// For a drain that this leader begins, takes over or resumes now.
    #[must_use]
    pub const fn new(skew: Skew) -> Self {
        Self { skew, changed_at: None }
    }

    /// The skew by which the record is read.
    #[must_use]
    pub const fn skew(&self) -> Skew {
        self.skew
    }

    /// Adopts a newly measured skew if it differs by `CHANGE` or more. `true` if it did: the caller
    /// must read the record again.
    pub fn measured(&mut self, skew: Skew, now: Moment) -> bool {
        let differs = (skew.0 - self.skew.0).abs() >= CHANGE;
        if differs {
            *self = Self { skew, changed_at: Some(now) };
        }
        differs
    }

    /// Moves the limits of a drain away from the last change of the skew, which may have moved a
    /// deadline to now or into the past. Deadlines are at least `RESPITE` after the change. Pods
    /// are not forced in the first half of the time from the change to the deadline, so not within
    /// 10 s of the change.
    #[must_use]
    pub fn soften(&self, limits: Limits) -> Limits {
        let Some(changed_at) = self.changed_at else { return limits };
        let earliest = changed_at.plus(RESPITE);
        Limits {
            force_at: limits.force_at.map(|at| at.max(earliest)),
            accepted: limits.accepted.max(changed_at),
            end_at: limits.end_at.map(|at| at.max(earliest)),
            ..limits
        }
    }
}
