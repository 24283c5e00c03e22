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
/// Each answer bounds the offset from both sides: the header was written after we sent the request and before we had the answer. The
/// estimate is the median over the last answers of the smallest offset that fits each, so one wrong header (of a proxy, say) moves
/// nothing. An answer that took long is not counted: after an idle hour all are of long polls, whose bounds are 20 s apart, and the
/// smallest offset that fits those is far too small.
#[derive(Debug, Clone, Default)]
pub struct ClockSkew {
    offsets: VecDeque<SignedDuration>,
}

impl ClockSkew {
    /// Their time less ours; zero while that is under 2 s, or nothing is known.
    #[must_use]
    pub fn skew(&self) -> SignedDuration {
        let mut offsets: Vec<_> = self.offsets.iter().copied().collect();
        offsets.sort_unstable_by_key(|o| o.abs());
        let median = offsets.get(offsets.len().saturating_sub(1) / 2).copied().unwrap_or_default();
        if median.abs() < TOLERANCE { SignedDuration::ZERO } else { median }
    }

    /// An answer with this `Date` header came at `now` to a request of `sent`. What is no date is passed over.
    pub fn saw(&mut self, date: &str, sent: Moment, now: Moment) {
        let Ok(date) = DateTimeParser::new().parse_timestamp(date) else { return };
        if now.since_or_zero(sent) > LONGEST_SAMPLE {
            return;
        }
        let earliest = date.duration_since(now);
        let latest = date.plus(Duration::from_secs(1)).duration_since(sent);
        let offset = if earliest > SignedDuration::ZERO {
            earliest
        } else if latest < SignedDuration::ZERO {
            latest
        } else {
            SignedDuration::ZERO
        };
        if self.offsets.len() == SAMPLES {
            self.offsets.pop_front();
        }
        self.offsets.push_back(offset);
    }
}
