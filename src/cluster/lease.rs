//! The Lease: which process leads, and whether all drains are paused.
//!
//! The shell of [`crate::election`]: performs its requests one at a time, each with a deadline. A
//! watch reports changes of the Lease at once. Because a watch may lag, its content is not trusted:
//! it only makes the machine read the Lease. If the watch fails, the reads every few seconds
//! remain.

mod calls;
mod find;
mod pause;
mod task;
#[cfg(test)]
mod tests;
mod writes;

use std::{sync::Arc, time::Duration};

use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use self::{calls::Calls, task::LeaseTask, writes::OpenWrites};
pub use self::{
    calls::{LeaseCall, Verb},
    find::{LeaseSearch, find_lease},
    pause::{LeaseError, pauses_all, set_paused},
    writes::{WriteGuard, WritePermit},
};
use crate::{
    domain::{Moment, seconds},
    election::{Input, LAST_WRITES, Machine, Settings},
    runtime::{Clock, Observer, Random, Spawner},
};

/// Identifies the Lease of one Sundown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasePlace {
    /// `metadata.namespace` of the Lease.
    pub namespace: String,
    /// `metadata.name` of the Lease.
    pub name: String,
}

/// What this process knows of the Lease and of its own role. `leadership` and `is_given_up` change
/// together. `trouble` and `is_paused` are published before the role that follows from the same
/// answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseState {
    /// The role of this process.
    pub leadership: Leadership,
    /// The Lease carries `sundown.dev/pause: "true"`: all drains are paused.
    pub is_paused: bool,
    /// After [`LeaseKeeper::release`]: this process verifiably does not hold the Lease, and never bids
    /// again. [`LeaseKeeper::yield_lease`] does not set it. Always `true` in a dry run, which has no
    /// Lease.
    pub is_given_up: bool,
    /// Why the last read or write of the Lease failed; `None` while they succeed. A process whose
    /// calls on the Lease fail cannot lead.
    pub trouble: Option<String>,
}

/// The role of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leadership {
    /// This process leads.
    Leader {
        /// When it became the leader. Each term has another value.
        since: Moment,
        /// No write may begin after this time. Each renewal of the Lease extends it.
        writes_until: Moment,
    },
    /// This process led and may send heartbeats but nothing else: it may no longer write, and as
    /// far as it knows no other process leads ([`Machine::is_heartbeats_only`], ADR 10).
    HeartbeatsOnly,
    /// This process does not lead, and another one may lead: it sends no heartbeats.
    Standby {
        /// The holder, as last read.
        holder: Option<String>,
    },
}

impl Leadership {
    /// When the current term of this process began; `None` while it does not lead.
    #[must_use]
    pub const fn leads_since(&self) -> Option<Moment> {
        match self {
            Self::Leader { since, .. } => Some(*since),
            Self::HeartbeatsOnly | Self::Standby { .. } => None,
        }
    }
}

/// Called in every iteration of a loop, to show that its task is alive.
pub type OnIteration = Box<dyn Fn() + Send + Sync>;

/// How long a process that stops waits until it has given the Lease up: for its last writes, and
/// 3 s for the write of the Lease. After that the Lease expires by itself.
pub const LONGEST_RELEASE: Duration = LAST_WRITES.saturating_add(seconds(3));

/// What a keeper needs.
pub struct LeaseParts {
    /// A client that does not retry by itself.
    pub client: kube::Client,
    /// The Lease for which replicas compete.
    pub place: LeasePlace,
    /// Unique to this process: the pod's name and a random suffix.
    pub identity: String,
    /// The timing of the election.
    pub settings: Settings,
    /// Whether this process knows what a leader needs to know. If not, it lets others bid first
    /// until [`LeaseKeeper::ready`].
    pub is_ready: bool,
    /// The value of the annotation `sundown.dev/settings` of the Lease while this process leads.
    pub published: String,
    /// Wall time; in a simulation, simulated time.
    pub clock: Clock,
    /// For jitter.
    pub random: Random,
    /// Starts the tasks of the keeper and of its watch.
    pub spawner: Spawner,
    /// Called after every request that concerns the Lease.
    pub observer: Arc<dyn Observer<LeaseCall>>,
    /// Called at least every ten seconds while the keeper's task is alive; dropped when it ends.
    pub on_iteration: OnIteration,
}

/// Takes part in the election and keeps the lease once it is won. When dropped, it stops renewing.
#[derive(Debug)]
pub struct LeaseKeeper {
    state: watch::Receiver<LeaseState>,
    guard: WriteGuard,
    commands: mpsc::UnboundedSender<Input>,
    _held: Held,
}

/// What must live as long as the keeper: its task or, in a dry run, the other ends of its channels.
#[derive(Debug)]
enum Held {
    Task { _task: AbortOnDropHandle<()> },
    Channels { _state: watch::Sender<LeaseState>, _commands: mpsc::UnboundedReceiver<Input> },
}

impl LeaseKeeper {
    /// Starts to take part in the election.
    #[must_use]
    pub fn start(parts: LeaseParts) -> Self {
        let LeaseParts {
            client,
            place,
            identity,
            settings,
            is_ready,
            published,
            clock,
            random,
            spawner,
            observer,
            on_iteration,
        } = parts;
        let state = watch::Sender::new(LeaseState {
            leadership: Leadership::Standby { holder: None },
            is_paused: false,
            is_given_up: false,
            trouble: None,
        });
        let receiver = state.subscribe();
        let calls = Calls::new(client, &place, published, clock, observer, state.clone());
        let machine = Machine::new(identity, settings);
        let machine = if is_ready { machine } else { machine.not_ready() };
        let (commands, inbox) = mpsc::unbounded_channel();
        let (shown, watched) = watch::channel(None);
        let watching = spawner.spawn_scoped(calls.clone().watch(shown, random.clone()));
        let writes = OpenWrites::default();
        let reserve = settings.duration.saturating_sub(settings.renew_deadline);
        let guard = WriteGuard::of_leader(clock, state.subscribe(), reserve, writes.clone());
        let task = LeaseTask {
            machine,
            calls,
            clock,
            random,
            place,
            last: None,
            since: clock.now(),
            state,
            call: None,
            writes,
            on_iteration,
        };
        let task = spawner.spawn_scoped(task.run(inbox, watched, watching));
        Self { state: receiver, guard, commands, _held: Held::Task { _task: task } }
    }

    /// For a dry run: leads without a Lease until it is dropped, and permits no write.
    #[must_use]
    pub fn without_lease(clock: Clock) -> Self {
        let (sender, state) = watch::channel(LeaseState {
            leadership: Leadership::Leader { since: clock.now(), writes_until: Moment::MAX },
            is_paused: false,
            is_given_up: true,
            trouble: None,
        });
        let (commands, inbox) = mpsc::unbounded_channel();
        Self {
            state,
            guard: WriteGuard::closed(),
            commands,
            _held: Held::Channels { _state: sender, _commands: inbox },
        }
    }

    /// What this process knows of the Lease, now and whenever it changes: at least at every renewal.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<LeaseState> {
        self.state.clone()
    }

    /// The guard that every write must ask. Clones share it.
    #[must_use]
    pub fn guard(&self) -> WriteGuard {
        self.guard.clone()
    }

    /// Gives the lease up once, when no write of this process is under way, so that another process
    /// can take it. From now on this process bids only for a lease that has been free for
    /// `bid_again_after`. For a process whose own node drains, or that reaches no queue. Until
    /// [`Self::bid_normally`], a further call changes only `bid_again_after`.
    pub fn yield_lease(&self, bid_again_after: Duration) {
        self.send(Input::Yield(bid_again_after));
    }

    /// Ends what [`Self::yield_lease`] began: from now on this process bids as soon as the lease is
    /// free.
    pub fn bid_normally(&self) {
        self.send(Input::BidNormally);
    }

    /// This process now knows what a leader needs to know: from now on it bids as soon as the lease
    /// is free.
    pub fn ready(&self) {
        self.send(Input::Ready);
    }

    /// Gives the lease up, once no write of this process is under way ([`WriteGuard::permit`]), and
    /// never bids again. Leadership ends at once. Waits at most `limit` until this process
    /// verifiably does not hold the lease, and returns whether that is so.
    pub async fn release(&self, limit: Duration) -> bool {
        self.send(Input::Stop);
        let mut state = self.state.clone();
        tokio::time::timeout(limit, state.wait_for(|state| state.is_given_up))
            .await
            .is_ok_and(|seen| seen.is_ok())
    }

    fn send(&self, input: Input) {
        // A task that has ended has no lease to give up.
        drop(self.commands.send(input));
    }
}
