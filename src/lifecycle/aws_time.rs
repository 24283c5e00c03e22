//! AWS's times on our clock.
//!
//! The record of a Node holds every time as AWS's clock shows it, so that two replicas whose own clocks differ derive the same
//! deadlines from it. Timers run on our clock, which is monotonic; a time is converted when it is read, by the skew that the answers
//! of AWS show.

use jiff::SignedDuration;

use super::Limits;
use crate::domain::{Moment, MomentExt, Taken, seconds};

/// A running drain takes a new measurement on when it differs by this much. Estimates differ by less while nothing changes.
const CHANGE: SignedDuration = SignedDuration::from_secs(5);
/// After a change no deadline is nearer than this: what moved it may be a wrong measurement.
const RESPITE: std::time::Duration = seconds(20);

/// How far AWS's clock is ahead of ours, as it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Skew(SignedDuration);

impl Skew {
    /// AWS's time less ours.
    #[must_use]
    pub const fn new(ahead: SignedDuration) -> Self {
        Self(ahead)
    }

    /// A time of AWS on our clock.
    #[must_use]
    pub fn to_ours(self, aws: Moment) -> Moment {
        aws.checked_sub(self.0).unwrap_or(aws)
    }

    /// A time of ours on AWS's clock.
    #[must_use]
    pub fn to_aws(self, ours: Moment) -> Moment {
        ours.checked_add(self.0).unwrap_or(ours)
    }

    /// The facts of a record on our clock.
    #[must_use]
    pub fn taken(self, recorded: Vec<Taken>) -> Vec<Taken> {
        let convert = |taken: Taken| Taken {
            time: self.to_ours(taken.time),
            accepted: self.to_ours(taken.accepted),
            ends: taken.ends.map(|end| self.to_ours(end)),
            ..taken
        };
        recorded.into_iter().map(convert).collect()
    }
}

/// The skew by which one drain reads its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordClock {
    skew: Skew,
    /// When it last changed; `None`: not since the drain was taken up.
    changed_at: Option<Moment>,
}

impl RecordClock {
    /// At the take-up of the drain.
    #[must_use]
    pub const fn new(skew: Skew) -> Self {
        Self { skew, changed_at: None }
    }

    /// The skew by which the record is read.
    #[must_use]
    pub const fn skew(&self) -> Skew {
        self.skew
    }

    /// Takes a new measurement on where it differs by more than estimates do. Says whether it did: then the record is read anew.
    pub fn measured(&mut self, skew: Skew, now: Moment) -> bool {
        let differs = (skew.0 - self.skew.0).abs() >= CHANGE;
        if differs {
            *self = Self { skew, changed_at: Some(now) };
        }
        differs
    }

    /// The limits of the drain. A change of the skew may move a deadline to now or before: no pod is forced within ten seconds of
    /// it, nor before half of the time is over that is left then.
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
