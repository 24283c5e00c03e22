//! An interruption and what is known of it → a verdict. All of "ours or not" and "stale until proved", in one table.
//!
//! The caller holds a [`Knowledge`] for each interruption, calls [`triage`], and does what the [`Verdict`] says. While that is
//! [`Verdict::Wait`], it asks the questions named there, fills in what it learns, and calls again: on every answer, on every
//! change of the index that concerns the instance, and at the moment that the verdict names.

mod knowledge;
mod policy;
mod verdict;

pub use knowledge::{BeatAnswer, GroupAnswer, HookAnswer, InstanceAnswer, Knowledge};
pub use policy::{BadGlob, HookGlobs, Policy, Staleness};
pub use verdict::{Accept, Question, Reason, Standing, Verdict, Wait};

use crate::domain::{Interruption, Moment};

/// What to do with an interruption, given what is known of it.
#[must_use]
pub fn triage(interruption: &Interruption, known: &Knowledge, policy: &Policy, now: Moment) -> Verdict {
    let _ = (interruption, known, now);
    policy.dispose(Reason::Unknown)
}

/// The terminate hook in this interruption is known to be ours: it is beaten from now on, until its completion is accepted.
#[must_use]
pub fn beats(interruption: &Interruption, known: &Knowledge, policy: &Policy) -> bool {
    let _ = (interruption, known, policy);
    false
}

/// For an interruption that was accepted as [`Standing::Unproved`]: `Some(true)` when what is known now disproves it (the drain
/// ends and the Node is put back), `Some(false)` when it proves it, `None` while neither.
#[must_use]
pub fn disproved(interruption: &Interruption, known: &Knowledge) -> Option<bool> {
    let _ = (interruption, known);
    None
}
