//! Leader election over a Lease, as a state machine.
//!
//! The rules are those of client-go (`tools/leaderelection/leaderelection.go`): a lease expires
//! when its record has not been *seen to change* for its duration, measured on the reader's own
//! clock; the times that the holder wrote are not trusted. Every write carries the resourceVersion
//! of the Lease that was read. Three rules are stricter here. Leadership is counted from the moment
//! at which the last accepted request was *sent*. A renewal that is not answered in time ends it.
//! After somebody deleted the Lease, every process but its holder waits for one duration.
//!
//! At most one request is under way at any time. The shell performs it and feeds the answer back.

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
    /// How long other processes wait after the last change of the record before they take the
    /// lease. Whole seconds, because it is written on the Lease.
    pub duration: Duration,
    /// How long after the sending of the last accepted write the leader may start further requests
    /// of any kind.
    pub renew_deadline: Duration,
    /// The pause between two renewals of a leader, and between two reads of a standby.
    pub retry: Duration,
}

impl Default for Settings {
    /// client-go's defaults: 15 s, 10 s, 2 s.
    fn default() -> Self {
        Self { duration: seconds(15), renew_deadline: seconds(10), retry: seconds(2) }
    }
}

/// Every write of a leader ends within this time: one to Kubernetes takes at most 10 s, one to AWS
/// 11 s.
pub const LAST_WRITES: Duration = seconds(12);

/// The `spec` of a Lease (`coordination.k8s.io/v1`) and its resourceVersion, as last read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `spec.holderIdentity`; `None` if it is empty: the lease was given up.
    pub holder: Option<String>,
    /// `spec.leaseDurationSeconds`; `None` unless it is positive.
    pub duration: Option<Duration>,
    /// `spec.acquireTime`, by its holder's clock.
    pub acquired: Option<Moment>,
    /// `spec.renewTime`, by its holder's clock. It is only compared with the value read before.
    pub renewed: Option<Moment>,
    /// `spec.leaseTransitions`.
    pub transitions: u32,
}

/// The `spec` to write on the Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// `spec.holderIdentity`; `None` gives the lease up and is written as an empty string.
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

/// An answer from the API server, an order, or the passing of time.
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
    /// The answer to a write: it was refused because the Lease has changed since it was read (409)
    /// or does not exist (404).
    WriteConflict,
    /// A write failed or was not answered in time: it may have taken effect, or still take effect.
    WriteFailed,
    /// A watch showed the Lease with this resourceVersion (`None`: deleted). Because a watch may
    /// lag, this only makes the machine read the Lease.
    Nudge(Option<String>),
    /// Time passed.
    Tick,
    /// Give the lease up once, so that another process can take it, and from now on bid only for a
    /// lease that has been free for this long.
    Yield(Duration),
    /// Ends what [`Input::Yield`] began: bid as soon as the lease is free.
    BidNormally,
    /// This process now knows what a leader needs to know ([`Machine::not_ready`]).
    Ready,
    /// Give the lease up and never bid again.
    Stop,
    /// No write of this process is under way, and none can begin ([`Machine::is_closing`]).
    WritesOver,
}

/// An order to the shell.
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
    /// From now on this process does not lead.
    Lost(Lost),
    /// The last effect, after [`Input::Stop`]: this process verifiably does not hold the lease.
    Stopped,
}

/// Why leadership ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// No renewal was accepted before the renew deadline.
    Deadline,
    /// The Lease names another holder, or none.
    Taken(Option<String>),
    /// This process gives the lease up as soon as none of its writes is under way.
    GivenUp,
}
