//! When a search of the leader asks AWS again.
//!
//! | the last round | the next one comes after |
//! | --- | --- |
//! | AWS answered | the interval |
//! | AWS throttled a call | twice the last pause, 10 minutes at most |
//! | AWS denied a call | twice the last pause, 5 minutes at most: the alert about denied calls needs two within 10 minutes |
//! | it failed otherwise | the last pause, 10 minutes at most |
//!
//! Each pause is shortened by up to a quarter, so that clusters do not ask at the same time.

use std::time::Duration;

use crate::domain::{Moment, seconds};

/// The longest pause after a failure, also if the interval is longer: the alerts about failures need
/// several within an hour.
pub const LONGEST_PAUSE: Duration = seconds(600);
/// The longest pause after a denied call, also if the interval is longer.
const LONGEST_AFTER_DENIAL: Duration = seconds(300);
/// How many rounds in a row must fail before Sundown logs a warning.
const FAILED_TOO_OFTEN: u32 = 3;

/// Why AWS did not answer a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundFailure {
    /// AWS throttled a call.
    Throttled,
    /// AWS denied a call.
    Denied,
    /// A call failed otherwise.
    Failed,
}

/// The pauses between the rounds of one search.
#[derive(Debug, Clone, Copy)]
pub struct Rounds {
    interval: Duration,
    pause: Duration,
    next: Moment,
    /// How many rounds in a row have failed or were throttled.
    failed: u32,
}

impl Rounds {
    /// The first round comes one pause after `now`. `fraction` (0 to 1, random) shortens it.
    #[must_use]
    pub fn new(now: Moment, interval: Duration, fraction: f64) -> Self {
        let next = now.plus(shortened(interval, fraction));
        Self { interval, pause: interval, next, failed: 0 }
    }

    /// When the next round begins.
    #[must_use]
    pub const fn next(&self) -> Moment {
        self.next
    }

    /// A round ended at `now`. Returns whether it is the third in a row that failed or was
    /// throttled: the moment to warn.
    pub fn ended(&mut self, now: Moment, round: Result<(), RoundFailure>, fraction: f64) -> bool {
        let longer = |longest: Duration| (self.pause * 2).min(longest);
        (self.pause, self.failed) = match round {
            Ok(()) => (self.interval, 0),
            Err(RoundFailure::Throttled) => (longer(LONGEST_PAUSE), self.failed.saturating_add(1)),
            Err(RoundFailure::Denied) => (longer(LONGEST_AFTER_DENIAL), 0),
            Err(RoundFailure::Failed) => {
                (self.pause.min(LONGEST_PAUSE), self.failed.saturating_add(1))
            }
        };
        self.next = now.plus(shortened(self.pause, fraction));
        self.failed == FAILED_TOO_OFTEN
    }
}

/// The pause, less up to a quarter of it.
fn shortened(pause: Duration, fraction: f64) -> Duration {
    let fraction = if fraction.is_finite() { fraction.clamp(0.0, 1.0) } else { 0.0 };
    pause.saturating_sub((pause / 4).mul_f64(fraction))
}

#[cfg(test)]
mod tests {
    use RoundFailure::{Denied, Failed, Throttled};

    use super::*;

    fn at(second: u64) -> Moment {
        Moment::UNIX_EPOCH.plus(seconds(second))
    }

    #[test]
    fn rounds_come_every_interval_and_rarer_while_aws_throttles_or_denies() {
        for (interval, rounds) in [
            (
                60,
                vec![
                    (Ok(()), 60),
                    (Err(Throttled), 120),
                    (Err(Failed), 120),
                    (Err(Throttled), 240),
                    (Err(Denied), 300),
                    (Err(Throttled), 600),
                    (Err(Throttled), 600),
                    (Err(Denied), 300),
                    (Ok(()), 60),
                    (Err(Failed), 60),
                ],
            ),
            (300, vec![(Err(Denied), 300), (Err(Denied), 300), (Err(Throttled), 600)]),
            (1800, vec![(Err(Failed), 600), (Err(Denied), 300), (Err(Throttled), 600)]),
            (3600, vec![(Err(Throttled), 600), (Ok(()), 3600)]),
        ] {
            let mut all = Rounds::new(at(0), seconds(interval), 0.0);
            assert_eq!(all.next(), at(interval));
            for (round, pause) in rounds {
                all.ended(at(1000), round, 0.0);
                assert_eq!(all.next(), at(1000 + pause), "{round:?} of {interval}");
            }
        }
    }

    #[test]
    fn each_pause_is_shortened_by_up_to_a_quarter() {
        for (fraction, expected) in [(0.0, 60), (0.5, 52), (1.0, 45), (7.0, 45), (f64::NAN, 60)] {
            let next = Rounds::new(at(0), seconds(60), fraction).next();
            assert_eq!(next.since_or_zero(at(0)).as_secs(), expected, "{fraction}");
        }
    }

    #[test]
    fn the_third_round_that_fails_in_a_row_is_reported() {
        let mut all = Rounds::new(at(0), seconds(60), 0.0);
        for (round, is_reported) in [
            (Err(Failed), false),
            (Err(Throttled), false),
            (Ok(()), false),
            (Err(Failed), false),
            (Err(Failed), false),
            (Err(Throttled), true),
            (Err(Failed), false),
            (Ok(()), false),
        ] {
            assert_eq!(all.ended(at(60), round, 0.0), is_reported);
        }
    }
}
