//! Decides what to do with an interruption from what is known about it: whether it concerns this
//! cluster, whether it still holds, and what must be asked first. One table ([`triage`]).
//!
//! The caller keeps a [`Knowledge`] for each interruption, notes its age ([`Knowledge::note_age`]),
//! calls [`triage`], and performs the [`Verdict`]. If that is [`Verdict::Wait`], the caller notes it
//! ([`Knowledge::note`]), asks its
//! questions, adds the answers to the `Knowledge` and calls again: after every answer, after every
//! change of the index that concerns the instance, and at the moment that the verdict names.
//!
//! A message that the parser finds irrelevant gets `policy.dispose(Reason::Irrelevant)`. A message
//! with several interruptions is deleted once each of them is accepted, completed or deleted, and
//! left in the queue if one of them is left.
//!
//! A verdict depends only on the `Knowledge`, the policy and the time, so that the table can be
//! read and tested row by row. Five rules apply everywhere:
//!
//! - AWS is not asked about an interruption whose Node is in the index, unless it is stale or
//!   `--managed-tag` is set.
//! - A Node that the index lacks counts as unknown only while the index is synced and its watch is
//!   not failing.
//! - A hook without a Node is completed only after an uncached LIST has not found the Node either.
//! - A hook is completed only once it is decided that Sundown answers it ([`HookClaim`]).
//! - What cannot be decided waits. Nothing is deleted, completed or written because AWS or the API
//!   server did not answer.

mod claims;
mod hook_claim;
pub mod impaired;
mod knowledge;
mod launch;
mod owner;
mod policy;
mod proof;
mod retained;
mod round_robin;
mod rounds;
pub mod sweep;
mod table;
mod verdict;

pub use claims::others_of;
pub use hook_claim::{GroupHooks, HookClaim, HooksAnswer, OUR_PREFIX};
pub use knowledge::{
    ActionEndSeen, GroupAnswer, HeartbeatAnswer, HookAnswer, InstanceAnswer, Knowledge,
    LaunchAnswers,
};
pub use launch::{
    DaemonSetPodsAnswer, LaunchEnd, LaunchPolicy, LaunchWait, LeaseAnswer, Missing, ReturnCheck,
};
pub use owner::choose_namesake;
pub use policy::{BadGlob, HookGlobs, Policy, Staleness};
pub use proof::holds;
pub use retained::{Retained, RetainedBy};
pub use round_robin::RoundRobin;
pub use rounds::{LONGEST_PAUSE, RoundFailure, Rounds};
pub use table::{heartbeats, heartbeats_wait, is_sick, triage};
pub use verdict::{
    Accept, Certainty, LaunchAnswer, OtherClaims, Question, Reason, Verdict, Wait,
    hidden_from_others,
};

#[cfg(test)]
mod tests;
