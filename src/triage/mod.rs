//! An interruption and what is known of it → a verdict. All of "ours or not" and "stale until
//! proved", in one table.
//!
//! The caller holds a [`Knowledge`] for each interruption, calls [`triage`], and does what the
//! [`Verdict`] says. While that is [`Verdict::Wait`], it notes that ([`Knowledge::note`]), asks the
//! questions named there, fills in what it learns, and calls again: on every answer, on every
//! change of the index that concerns the instance, and at the moment that the verdict names.
//!
//! A message that the parser calls irrelevant gets `policy.dispose(Reason::Irrelevant)`. A message
//! with several interruptions is deleted when each of them is accepted, completed or deleted, and
//! left when one of them is.
//!
//! Whatever a verdict rests on is in the `Knowledge`, so the table can be read, and tested, row by
//! row. Five rules run through it:
//!
//! - a Node that the cluster knows needs no word of AWS, unless its interruption is stale or a
//!   managed tag is asked for;
//! - what is not in the index is unknown only while the index is synced and its watch is not
//!   failing;
//! - no hook is completed for want of a Node before an uncached LIST has missed it too;
//! - no hook is completed before it is known that another hook of its group is not the one that is
//!   ours ([`HookClaim`]);
//! - whatever cannot be decided waits: nothing is deleted, completed or written because somebody
//!   did not answer.

mod claims;
mod hook_claim;
mod knowledge;
mod owner;
mod policy;
mod proof;
mod table;
mod verdict;

pub use hook_claim::{GroupHooks, HookClaim, HooksAnswer, OUR_PREFIX};
pub use knowledge::{GroupAnswer, HeartbeatAnswer, HookAnswer, InstanceAnswer, Knowledge};
pub use owner::called;
pub use policy::{BadGlob, HookGlobs, Policy, Staleness};
pub use proof::disproved;
pub use table::{heartbeats, heartbeats_wait, triage};
pub use verdict::{
    Accept, Certainty, OtherClaims, Question, Reason, Verdict, Wait, hidden_from_others,
};

#[cfg(test)]
mod tests;
