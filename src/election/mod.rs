//! Leader election over a Lease, as a state machine.
//!
//! The rules are those of client-go (`tools/leaderelection/leaderelection.go`): a lease expires
//! when its record has not been *seen to change* for its duration, measured on the reader's own
//! clock; the holder's clock is never believed. Every write carries the resourceVersion of what was
//! read. What is stricter here: leadership is counted from the moment at which the last accepted
//! request was *sent*, a renewal that was not answered in time ends it, and a Lease that somebody
//! deleted is left alone for one duration by all but its holder.
//!
//! At most one request is under way at any time. The shell performs it and feeds back what came of
//! it.

mod machine;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use machine::Machine;

use crate::domain::{Moment, seconds};

/// The timing of an election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How long others wait after the last change of the record before they take the lease. Whole
    /// seconds: it is written on the Lease.
    pub duration: Duration,
    /// How long after the sending of the last accepted write the leader may start further requests
    /// of any kind.
    pub renew_deadline: Duration,
    /// The pause between two renewals, and between two reads of a standby.
    pub retry: Duration,
}

impl Default for Settings {
    /// client-go's defaults: 15 s, 10 s, 2 s.
    fn default() -> Self {
        Self { duration: seconds(15), renew_deadline: seconds(10), retry: seconds(2) }
    }
}

/// No write of a leader takes longer: 10 s to Kubernetes, 11 s to AWS.
pub const LAST_WRITES: Duration = seconds(12);

/// What a Lease says (`coordination.k8s.io/v1`, `spec`), and its resourceVersion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `spec.holderIdentity`; an empty one is `None`: the lease was given up.
    pub holder: Option<String>,
    /// `spec.leaseDurationSeconds`; what is not positive is `None`.
    pub duration: Option<Duration>,
    /// `spec.acquireTime`, by its holder's clock.
    pub acquired: Option<Moment>,
    /// `spec.renewTime`, by its holder's clock: compared for change, never read as a time.
    pub renewed: Option<Moment>,
    /// `spec.leaseTransitions`.
    pub transitions: u32,
}

/// What is to be written on the Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// `spec.holderIdentity`; `None` is written as an empty one: given up.
    pub holder: Option<String>,
    /// `spec.leaseDurationSeconds`.
    pub duration: Duration,
    /// `spec.acquireTime`.
    pub acquired: Moment,
    /// `spec.renewTime`.
    pub renewed: Moment,
    /// `spec.leaseTransitions`.
    pub transitions: u32,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The answer to [`Effect::Get`]: an uncached read.
    Observed(Observed),
    /// The answer to [`Effect::Get`]: there is no such Lease.
    NotFound,
    /// [`Effect::Get`] failed or was not answered in time.
    ReadFailed,
    /// The answer to a write: the Lease as it is now.
    WriteAccepted(Observed),
    /// The answer to a write: it was refused because the Lease is not what was read (409), or is
    /// gone (404).
    WriteConflict,
    /// A write failed or was not answered in time: it may have had its effect, or have it yet.
    WriteFailed,
    /// A watch showed the Lease with this resourceVersion (`None`: deleted). It may lag: it only
    /// makes the machine read.
    Nudge(Option<String>),
    /// Time passed.
    Tick,
    /// Give the lease up once, so that somebody else may have it, and from now on bid only when it
    /// has been free for this long.
    Yield(Duration),
    /// Bid as ever again.
    Eager,
    /// Give the lease up and never bid again.
    Stop,
    /// No write of this process is under way, and none can begin ([`Machine::is_closing`]).
    WritesOver,
}

/// What the shell is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Read the Lease, uncached.
    Get,
    /// Create the Lease.
    Create(Draft),
    /// Replace the Lease that has this resourceVersion.
    Update(String, Draft),
    /// From now on this process leads, until [`Machine::may_write_until`].
    BecameLeader {
        /// `leaseTransitions` of the Lease that was won.
        term: u32,
    },
    /// From now on it does not.
    Lost(Lost),
    /// The end after [`Input::Stop`]: the lease is verifiably not ours (any more).
    Stopped,
}

/// Why leadership ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// No renewal was accepted before the renew deadline.
    Deadline,
    /// The Lease names somebody else, or nobody.
    Taken(Option<String>),
    /// It is given up, once no write of this process is under way.
    GivenUp,
}
