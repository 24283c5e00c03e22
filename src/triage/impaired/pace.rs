//! When the next round comes.

use std::time::Duration;

use crate::{
    domain::Moment,
    triage::sweep::{LONGEST_PAUSE, shortened},
};

/// How the calls of a round ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundEnd {
    /// EC2 answered, or a call failed without a reason to ask less often.
    Usual,
    /// AWS throttled or denied a call.
    AskLess,
}

/// The pauses between rounds: the interval, and twice the last pause (10 minutes at most) after AWS
/// throttled or denied a call. Each is shortened by up to a quarter, so that clusters do not ask at
/// the same time.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    interval: Duration,
    pause: Duration,
    next: Moment,
}

impl Pace {
    /// The first round comes one pause after `now`. `fraction` (0 to 1, random) shortens it.
    #[must_use]
    pub fn new(now: Moment, interval: Duration, fraction: f64) -> Self {
        Self { interval, pause: interval, next: now.plus(shortened(interval, fraction)) }
    }

    /// When the next round begins.
    #[must_use]
    pub const fn next(&self) -> Moment {
        self.next
    }

    /// A round ended at `now`.
    pub fn round_ended(&mut self, now: Moment, end: RoundEnd, fraction: f64) {
        self.pause = match end {
            RoundEnd::Usual => self.interval,
            RoundEnd::AskLess => (self.pause * 2).min(LONGEST_PAUSE),
        };
        self.next = now.plus(shortened(self.pause, fraction));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::seconds;

    #[test]
    fn a_throttled_or_denied_round_doubles_the_pause_up_to_ten_minutes() {
        let at = |second: u64| Moment::UNIX_EPOCH.plus(seconds(second));
        let mut pace = Pace::new(at(0), seconds(60), 1.0);
        assert_eq!(pace.next(), at(45), "a quarter earlier at most");
        for (end, pause) in [
            (RoundEnd::Usual, 60),
            (RoundEnd::AskLess, 120),
            (RoundEnd::AskLess, 240),
            (RoundEnd::AskLess, 480),
            (RoundEnd::AskLess, 600),
            (RoundEnd::AskLess, 600),
            (RoundEnd::Usual, 60),
        ] {
            pace.round_ended(at(1000), end, 0.0);
            assert_eq!(pace.next(), at(1000 + pause), "{end:?}");
        }
    }
}
