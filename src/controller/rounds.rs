//! What a failed call of AWS means for the search that made it.

use crate::{
    aws::{AwsError, Outcome},
    observe::SweepResult,
    triage::RoundFailure,
};

/// Why AWS did not answer, for the pause until the next round.
pub(super) fn failure(error: &AwsError) -> RoundFailure {
    match error.outcome() {
        Outcome::Throttled => RoundFailure::Throttled,
        Outcome::Denied => RoundFailure::Denied,
        _ => RoundFailure::Failed,
    }
}

/// The same as a metric label.
pub(super) const fn label(failure: RoundFailure) -> SweepResult {
    match failure {
        RoundFailure::Throttled => SweepResult::Throttled,
        RoundFailure::Denied => SweepResult::Denied,
        RoundFailure::Failed => SweepResult::Failed,
    }
}
