//! How far another clock is from ours, by the `Date` headers of its answers.

use std::{collections::VecDeque, time::Duration};

use jiff::{SignedDuration, fmt::rfc2822::DateTimeParser};

use super::{Moment, MomentExt};

/// How many answers an estimate rests on.
const SAMPLES: usize = 15;
/// The `Date` header has whole seconds and answers take time on the way: less than this is no skew.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(2);
/// An answer that took longer bounds the offset too loosely.
const LONGEST_SAMPLE: Duration = Duration::from_secs(2);

/// How far another clock is from ours, by the `Date` header of its answers.
///
/// Each answer bounds the offset from both sides: the header was written after we sent the request and before we had the answer. Its
/// sample is the offset within these bounds that is nearest to zero. The estimate is the median of the last samples by their absolute
/// value, so one wrong header (of a proxy, say) changes nothing. An answer that took more than 2 s is ignored: its bounds are too far
/// apart. After an idle hour there would only be long polls of 20 s.
#[derive(Debug, Clone, Default)]
pub struct ClockSkew {
    offsets: VecDeque<SignedDuration>,
}

impl ClockSkew {
    /// Server time minus local time; zero while that is under 2 s, or nothing is known.
    #[must_use]
    pub fn skew(&self) -> SignedDuration {
        let mut offsets: Vec<_> = self.offsets.iter().copied().collect();
        offsets.sort_unstable_by_key(|o| o.abs());
        let median = offsets.get(offsets.len().saturating_sub(1) / 2).copied().unwrap_or_default();
        if median.abs() < TOLERANCE { SignedDuration::ZERO } else { median }
    }

    /// Records an answer with this `Date` header that came at `now` to a request sent at `sent`. A header that is no date is ignored.
    pub fn saw(&mut self, date: &str, sent: Moment, now: Moment) {
        let Ok(date) = DateTimeParser::new().parse_timestamp(date) else { return };
        if now.since_or_zero(sent) > LONGEST_SAMPLE {
            return;
        }
        let least = date.duration_since(now);
        let most = date.plus(Duration::from_secs(1)).duration_since(sent);
        let offset = if least > SignedDuration::ZERO {
            least
        } else if most < SignedDuration::ZERO {
            most
        } else {
            SignedDuration::ZERO
        };
        if self.offsets.len() == SAMPLES {
            self.offsets.pop_front();
        }
        self.offsets.push_back(offset);
    }
}
