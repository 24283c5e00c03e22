//! How far a server's clock is from ours, by the `Date` headers of its answers.

use std::{collections::VecDeque, time::Duration};

use jiff::{SignedDuration, fmt::rfc2822::DateTimeParser};

use super::Moment;

/// How many answers an estimate rests on.
const SAMPLES: usize = 15;
/// An offset below this is not skew: the `Date` header has whole seconds, and answers take time.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(2);
/// An answer that took longer is ignored, because its bounds are too far apart.
const LONGEST_SAMPLE: Duration = Duration::from_secs(2);

/// How far a server's clock is from ours, by the `Date` header of its answers.
///
/// Each answer bounds the offset from both sides: the server wrote the header after we sent the
/// request and before we had the answer. The sample is zero if zero is within these bounds, else
/// their middle. The estimate is the median of the last 15 samples by their absolute value, so one
/// wrong header (such as a proxy's) changes nothing. An answer that took more than 2 s is ignored,
/// because its bounds are too far apart: otherwise, after an idle hour, the samples would all be
/// from long polls of 20 s. Until the first fast answer, the narrowest bounds of the slow answers
/// count ([`Self::skew_or`]).
#[derive(Debug, Clone, Default)]
pub struct ClockSkew {
    offsets: VecDeque<SignedDuration>,
    /// The narrowest bounds of the answers that took too long; dropped at the first fast answer.
    slow: Option<Bounds>,
}

/// The least and the greatest offset that fit one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    least: SignedDuration,
    most: SignedDuration,
}

impl Bounds {
    fn contain(self, offset: SignedDuration) -> bool {
        (self.least..=self.most).contains(&offset)
    }

    fn middle(self) -> SignedDuration {
        self.least.saturating_add(self.most) / 2
    }

    fn width(self) -> SignedDuration {
        self.most.saturating_sub(self.least)
    }
}

impl ClockSkew {
    /// Server time minus local time; zero if the difference is under 2 s or not known.
    #[must_use]
    pub fn skew(&self) -> SignedDuration {
        let median = self.median();
        if median.abs() < TOLERANCE { SignedDuration::ZERO } else { median }
    }

    /// [`Self::skew`]; `None` before the first fast answer.
    fn measured(&self) -> Option<SignedDuration> {
        (!self.offsets.is_empty()).then(|| self.skew())
    }

    /// [`Self::skew`], if there was a fast answer. Before that, `guess` if it is within the bounds
    /// of the slow answers, else the middle of those bounds.
    #[must_use]
    pub fn skew_or(&self, guess: SignedDuration) -> SignedDuration {
        let guessed = || match self.slow {
            Some(bounds) if !bounds.contain(guess) => bounds.middle(),
            _ => guess,
        };
        self.measured().unwrap_or_else(guessed)
    }

    fn median(&self) -> SignedDuration {
        let mut offsets: Vec<_> = self.offsets.iter().copied().collect();
        offsets.sort_unstable_by_key(|o| o.abs());
        offsets.get(offsets.len().saturating_sub(1) / 2).copied().unwrap_or_default()
    }

    /// Records an answer with this `Date` header that came at `now` to a request sent at `sent`.
    /// Ignores a header that is not a date.
    pub fn saw(&mut self, date: &str, sent: Moment, now: Moment) {
        let Ok(date) = DateTimeParser::new().parse_timestamp(date).map(Moment::from) else {
            return;
        };
        let bounds = Bounds {
            least: date.duration_since(now),
            most: date.plus(Duration::from_secs(1)).duration_since(sent),
        };
        if now.since_or_zero(sent) > LONGEST_SAMPLE {
            let is_better = self.slow.is_none_or(|slow| bounds.width() <= slow.width());
            if is_better && self.offsets.is_empty() {
                self.slow = Some(bounds);
            }
            return;
        }
        self.slow = None;
        let offset = if bounds.contain(SignedDuration::ZERO) {
            SignedDuration::ZERO
        } else {
            bounds.middle()
        };
        if self.offsets.len() == SAMPLES {
            self.offsets.pop_front();
        }
        self.offsets.push_back(offset);
    }
}

/// A clock offset that changes only if the estimate differs from it by 2 s or more.
///
/// Times that are converted with this offset are compared with each other, so it must not change
/// with each answer.
#[derive(Debug, Clone, Default)]
pub struct SteadySkew {
    measured: ClockSkew,
    kept: SignedDuration,
}

impl SteadySkew {
    /// Server time minus local time; zero if the difference is under 2 s or not known.
    #[must_use]
    pub const fn skew(&self) -> SignedDuration {
        self.kept
    }

    /// Records an answer, as [`ClockSkew::saw`].
    pub fn saw(&mut self, date: &str, sent: Moment, now: Moment) {
        self.measured.saw(date, sent, now);
        let measured = self.measured.median();
        if measured.checked_sub(self.kept).unwrap_or(SignedDuration::MAX).abs() >= TOLERANCE {
            self.kept = measured;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The estimate after each of 300 answers, one every 700 ms, of a server whose clock is `ahead`
    /// milliseconds ahead.
    fn estimates(ahead: i64) -> Vec<SignedDuration> {
        let begin: Moment = "2026-01-05T09:00:00Z".parse().unwrap();
        let mut skew = SteadySkew::default();
        let answer = |n: u64| {
            let now = begin.plus(Duration::from_millis(700 * n));
            let theirs = now.plus(Duration::from_millis(ahead.unsigned_abs()));
            let date = theirs.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
            skew.saw(&date, now.minus(Duration::from_millis(5)), now);
            skew.skew()
        };
        (0..300).map(answer).collect()
    }

    #[test]
    fn nothing_is_measured_before_the_first_answer() {
        let mut skew = ClockSkew::default();
        let now: Moment = "2026-01-05T09:00:00Z".parse().unwrap();
        assert_eq!(skew.measured(), None);
        skew.saw("no date", now, now);
        assert_eq!(skew.measured(), None);
        skew.saw("Mon, 05 Jan 2026 09:00:00 GMT", now, now);
        assert_eq!(skew.measured(), Some(SignedDuration::ZERO));
    }

    #[test]
    fn until_a_fast_answer_comes_a_guess_counts_unless_slow_answers_rule_it_out() {
        let now: Moment = "2026-01-05T09:00:00Z".parse().unwrap();
        let seconds = SignedDuration::from_secs;
        // Answers of a clock that is a minute ahead; how long each took.
        for (answers, guess, expected, why) in [
            (&[][..], 7, 7, "nothing else is known"),
            (&[3], 0, 62, "the answer rules it out: the offset is 60 to 64 s"),
            (&[3], 61, 61, "the answer allows it"),
            (&[20], 62, 62, "a long poll allows more"),
            (&[20], 100, 70, "but not everything"),
            (&[20, 3], 0, 62, "the fastest of the slow answers counts"),
            (&[3, 20], 0, 62, "in any order"),
            (&[3, 0], 0, 60, "a fast answer rules"),
            (&[3, 0], 61, 60, "whatever the guess is"),
            (&[0, 3, 3, 3], 0, 60, "and goes on to rule"),
        ] {
            let mut skew = ClockSkew::default();
            for took in answers {
                let date = "Mon, 05 Jan 2026 09:01:00 GMT";
                skew.saw(date, now.minus(Duration::from_secs(*took)), now);
            }
            let off = skew.skew_or(seconds(guess)).saturating_sub(seconds(expected));
            assert!(off.abs() < seconds(1), "{answers:?}, guess {guess}: {why}: {off} off");
        }
    }

    #[test]
    fn an_estimate_stays_as_it_is_while_the_difference_is_the_same() {
        for (ahead, least, most) in
            [(0, 0, 0), (1_500, 0, 0), (2_500, 0, 3_100), (10_000, 9_400, 10_600)]
        {
            let all = estimates(ahead);
            let changes = all
                .iter()
                .zip(all.iter().skip(1))
                .filter(|(before, after)| before != after)
                .count();
            assert!(changes <= 1, "{changes} changes at {ahead} ms");
            let last = all.last().unwrap().as_millis();
            assert!((least..=most).contains(&last), "{last} at {ahead} ms");
        }
    }
}
