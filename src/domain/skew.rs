//! How far another clock is from ours, by the `Date` headers of its answers.

use std::{collections::VecDeque, time::Duration};

use jiff::{SignedDuration, fmt::rfc2822::DateTimeParser};

use super::Moment;

/// How many answers an estimate rests on.
const SAMPLES: usize = 15;
/// The `Date` header has whole seconds and answers take time on the way: less than this is no skew.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(2);
/// An answer that took longer bounds the offset too loosely.
const LONGEST_SAMPLE: Duration = Duration::from_secs(2);

/// How far another clock is from ours, by the `Date` header of its answers.
///
/// Each answer bounds the offset from both sides: the header was written after we sent the request
/// and before we had the answer. Its sample is zero if that is within these bounds, else their
/// middle. The estimate is the median of the last samples by their absolute value, so one wrong
/// header (of a proxy, say) changes nothing. An answer that took more than 2 s is ignored: its
/// bounds are too far apart. After an idle hour there would only be long polls of 20 s.
#[derive(Debug, Clone, Default)]
pub struct ClockSkew {
    offsets: VecDeque<SignedDuration>,
}

impl ClockSkew {
    /// Server time minus local time; zero while that is under 2 s, or nothing is known.
    #[must_use]
    pub fn skew(&self) -> SignedDuration {
        let median = self.median();
        if median.abs() < TOLERANCE { SignedDuration::ZERO } else { median }
    }

    /// The same; `None` while no answer has told anything.
    #[must_use]
    pub fn measured(&self) -> Option<SignedDuration> {
        (!self.offsets.is_empty()).then(|| self.skew())
    }

    fn median(&self) -> SignedDuration {
        let mut offsets: Vec<_> = self.offsets.iter().copied().collect();
        offsets.sort_unstable_by_key(|o| o.abs());
        offsets.get(offsets.len().saturating_sub(1) / 2).copied().unwrap_or_default()
    }

    /// Records an answer with this `Date` header that came at `now` to a request sent at `sent`. A
    /// header that is no date is ignored.
    pub fn saw(&mut self, date: &str, sent: Moment, now: Moment) {
        let Ok(date) = DateTimeParser::new().parse_timestamp(date).map(Moment::from) else {
            return;
        };
        if now.since_or_zero(sent) > LONGEST_SAMPLE {
            return;
        }
        let least = date.duration_since(now);
        let most = date.plus(Duration::from_secs(1)).duration_since(sent);
        let may_be_none = least <= SignedDuration::ZERO && most >= SignedDuration::ZERO;
        let offset =
            if may_be_none { SignedDuration::ZERO } else { least.saturating_add(most) / 2 };
        if self.offsets.len() == SAMPLES {
            self.offsets.pop_front();
        }
        self.offsets.push_back(offset);
    }
}

/// An estimate that is changed only where that says something: within 2 s of what it was, it stays.
///
/// Times that are converted by it are compared with each other, so it must not move with each
/// answer.
#[derive(Debug, Clone, Default)]
pub struct SteadySkew {
    measured: ClockSkew,
    kept: SignedDuration,
}

impl SteadySkew {
    /// Server time minus local time; zero while that is under 2 s, or nothing is known.
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

    /// What the estimate is after each of 300 answers of a server that is `ahead` milliseconds, one
    /// every 700 ms.
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
