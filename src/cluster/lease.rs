//! The Lease: who leads, and whether all is paused.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::{
    controller::{Clock, Random, Spawner},
    domain::Moment,
    election::Settings,
};

/// Which Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasePlace {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Who leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leadership {
    /// This process.
    Leader {
        /// Since when.
        since: Moment,
        /// `leaseTransitions` of the Lease.
        term: u32,
    },
    /// Somebody else, or nobody.
    Standby {
        /// The holder, as last read.
        holder: Option<String>,
    },
}

/// One call on the Lease, for metrics.
#[derive(Debug, Clone, Copy)]
pub struct LeaseCall {
    /// `get`, `create`, `replace`, `patch`.
    pub verb: &'static str,
    /// `ok`, `conflict`, `not_found`, `denied`, `overload`, `failed` or `timeout`.
    pub outcome: &'static str,
    /// How long it took.
    pub took: Duration,
}

/// Told of every call.
pub type OnCall = Arc<dyn Fn(LeaseCall) + Send + Sync>;

/// Says whether this process may write now. Checked before each write, to whomever.
#[derive(Debug, Clone)]
pub struct WriteGuard {
    clock: Clock,
    until: watch::Receiver<Option<Moment>>,
}

/// What a keeper needs.
pub struct LeaseParts {
    /// A client without retries of its own.
    pub client: kube::Client,
    /// Which Lease.
    pub place: LeasePlace,
    /// Unique to this process: the pod's name and something random.
    pub identity: String,
    /// The timing.
    pub settings: Settings,
    /// The clock.
    pub clock: Clock,
    /// Jitter.
    pub random: Random,
    /// Starts the task.
    pub spawner: Spawner,
    /// Told of every call.
    pub on_call: OnCall,
}

/// Takes part in the election and keeps the lease once it is won.
#[derive(Debug)]
pub struct LeaseKeeper {
    leadership: watch::Receiver<Leadership>,
    paused: watch::Receiver<bool>,
    guard: WriteGuard,
}

impl LeaseKeeper {
    /// Starts to take part.
    #[must_use]
    pub fn start(_parts: LeaseParts) -> Self {
        todo!()
    }

    /// Leads without a Lease, for ever: a dry run.
    #[must_use]
    pub fn without_lease(_clock: Clock) -> Self {
        todo!()
    }

    /// Who leads.
    #[must_use]
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    /// The Lease carries `sundown.dev/pause: "true"`: all drains are paused.
    #[must_use]
    pub fn paused(&self) -> watch::Receiver<bool> {
        self.paused.clone()
    }

    /// The guard of all writes.
    #[must_use]
    pub fn guard(&self) -> WriteGuard {
        self.guard.clone()
    }

    /// Gives the lease up once, so that another may have it, and bids from now on only for one that has been free for this long: for a
    /// process whose own node drains. Again and again it changes nothing.
    pub fn yield_lease(&self, _bid_again_after: Duration) {}

    /// Bids as ever again: the own node does not drain any more.
    pub fn bid_normally(&self) {}

    /// Gives the lease up and ends, within `limit`. Says whether the lease is verifiably not ours.
    pub async fn release(&self, _limit: Duration) -> bool {
        false
    }
}

impl WriteGuard {
    /// This process leads, and its lease was renewed in time.
    #[must_use]
    pub fn may_write(&self) -> bool {
        self.until.borrow().is_some_and(|until| self.clock.now() < until)
    }
}

/// A call on the Lease failed.
#[derive(Debug, thiserror::Error)]
#[error("the Lease {namespace}/{name} could not be {action}: {why}")]
pub struct LeaseError {
    namespace: String,
    name: String,
    action: &'static str,
    why: String,
}

/// Writes or removes the annotation that pauses all drains (`sundown pause`, `sundown resume`); a missing Lease is created. Says whether
/// that changed anything.
pub async fn set_paused(_client: kube::Client, _place: &LeasePlace, _paused: bool) -> Result<bool, LeaseError> {
    todo!()
}
