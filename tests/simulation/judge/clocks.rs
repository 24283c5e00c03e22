//! What a process can know of AWS's clock: each answer of AWS shows its time.

use std::time::Duration;

use jiff::SignedDuration;
use sundown::{
    domain::Moment,
    sim::aws::{Call, Outcome},
};

use super::{Evidence, Judge};

/// An answer that took longer shows AWS's time only roughly.
const FAST: Duration = Duration::from_secs(2);
/// The times in answers are in whole seconds.
const WHOLE_SECOND: Duration = Duration::from_millis(500);

/// What a process knows of AWS's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AwsClock {
    /// As much as fast answers show.
    Measured,
    /// There were only slow answers: it may be wrong by this much.
    Roughly(Duration),
    /// AWS has not answered. The process uses the API server's clock instead.
    Unknown {
        /// AWS's clock is ahead of that one by this.
        ahead: SignedDuration,
        /// A slow answer came at that very moment, so the process may be wrong by this instead.
        error: Duration,
    },
}

/// When a call was sent that AWS processed at `call.at`: at that moment, unless a fault made AWS
/// slow.
pub fn sent_at(evidence: &Evidence, call: &Call) -> Moment {
    let slow = evidence.disturbances.iter().filter(|d| {
        d.until == Some(call.at) && d.by == call.by && d.what == call.api && d.object == call.object
    });
    slow.map(|d| d.at).min().unwrap_or(call.at)
}

impl Judge<'_> {
    /// What this process knows of AWS's clock at that moment. An answer that comes at that very
    /// moment may come too late, or just in time.
    pub(super) fn aws_clock(&self, process: &str, at: Moment) -> AwsClock {
        let is_answered =
            |c: &&Call| matches!(c.outcome, Outcome::Ok | Outcome::Error(_)) && c.at <= at;
        // For how long a receive waited for messages is not known.
        let answers = self
            .evidence
            .calls
            .iter()
            .filter(|c| c.by == process && c.api != "sqs:ReceiveMessage")
            .filter(is_answered);
        let (now, before): (Vec<_>, Vec<_>) = answers.partition(|c| c.at == at);
        let shortest = |calls: Vec<&Call>| calls.into_iter().map(|call| self.took(call)).min();
        let error = |took: Duration| took / 2 + WHOLE_SECOND;
        match shortest(before) {
            Some(took) if took <= FAST => AwsClock::Measured,
            Some(took) => AwsClock::Roughly(error(took)),
            None => AwsClock::Unknown {
                ahead: self.ahead(at),
                error: shortest(now).filter(|took| *took > FAST).map(error).unwrap_or_default(),
            },
        }
    }

    /// When AWS first answered this process.
    pub(super) fn first_answer(&self, process: &str) -> Option<Moment> {
        let calls = self.evidence.calls.iter().filter(|c| {
            c.by == process
                && c.api != "sqs:ReceiveMessage"
                && matches!(c.outcome, Outcome::Ok | Outcome::Error(_))
        });
        calls.map(|c| c.at).min()
    }

    /// How long the answer to a call took: no time, unless the call met a fault.
    fn took(&self, call: &Call) -> Duration {
        let took = call.at.duration_since(sent_at(self.evidence, call));
        took.try_into().unwrap_or_default()
    }

    /// By how much AWS's clock is ahead of the clock of the world, which is the API server's.
    fn ahead(&self, at: Moment) -> SignedDuration {
        let notices = &self.story.notices;
        let last = notices.iter().rev().find(|n| n.sent <= at).or(notices.first());
        last.map_or(self.evidence.aws_ahead, |n| n.ahead)
    }
}
