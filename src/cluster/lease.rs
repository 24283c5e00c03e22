//! The Lease: which process leads, and whether all drains are paused.
//!
//! The shell of [`crate::election`]: performs its requests one at a time, each with a deadline. A
//! watch reports changes of the Lease at once. Because a watch may lag, its content is not trusted:
//! it only makes the machine read the Lease. If the watch fails, the reads every few seconds
//! remain.

mod calls;
mod find;
mod pause;
#[cfg(test)]
mod tests;
mod writes;

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use self::calls::{Answer, Calls};
use self::writes::UnderWay;
pub use self::{
    calls::{LeaseCall, Verb},
    find::{LeaseSearch, find_lease},
    pause::{LeaseError, set_paused},
    writes::{WriteGuard, WritePermit},
};
use crate::{
    domain::{Moment, PAUSE, seconds},
    election::{Effect, Input, LAST_WRITES, Lost, Machine, Settings},
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

/// The role of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leadership {
    /// This process leads.
    Leader {
        /// When it became the leader.
        since: Moment,
        /// `leaseTransitions` of the Lease.
        term: u32,
    },
    /// Another process leads, or none.
    Standby {
        /// The holder, as last read.
        holder: Option<String>,
    },
}

/// Called in every iteration of a loop, to show that its task is alive.
pub type OnIteration = Box<dyn Fn() + Send + Sync>;

/// How long giving the Lease up may take: the last writes, then the write of the Lease itself.
pub const LONGEST_RELEASE: Duration = LAST_WRITES.saturating_add(seconds(3));

/// The longest time between two iterations of the keeper's loop.
const LONGEST_WAIT: Duration = seconds(10);

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
    leadership: watch::Receiver<Leadership>,
    paused: watch::Receiver<bool>,
    stopped: watch::Receiver<bool>,
    trouble: watch::Receiver<Option<String>>,
    guard: WriteGuard,
    commands: mpsc::UnboundedSender<Input>,
    _held: Held,
}

/// What must live as long as the keeper: its task or, in a dry run, the other ends of its channels.
#[derive(Debug)]
enum Held {
    Task { _keeper: AbortOnDropHandle<()> },
    Channels { _senders: Senders, _commands: mpsc::UnboundedReceiver<Input> },
}

/// The sending ends of what the keeper publishes.
#[derive(Debug)]
struct Senders {
    leadership: watch::Sender<Leadership>,
    paused: watch::Sender<bool>,
    stopped: watch::Sender<bool>,
    until: watch::Sender<Option<Moment>>,
    heartbeats_only: watch::Sender<bool>,
}

/// The state of the keeper's task.
struct Keeper {
    machine: Machine,
    calls: Calls,
    clock: Clock,
    random: Random,
    place: LeasePlace,
    /// The object as last read. A replacement starts from it, so that it keeps what others wrote.
    last: Option<Lease>,
    senders: Senders,
    under_way: Option<BoxFuture<'static, Answer>>,
    /// The writes in flight: the lease is given up only when none is left.
    writes: UnderWay,
    on_iteration: OnIteration,
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
        let calls = Calls::new(client, &place, published, clock, observer);
        let trouble = calls.trouble();
        let machine = Machine::new(identity, settings);
        let machine = if is_ready { machine } else { machine.not_ready() };
        let senders = Senders::new(Leadership::Standby { holder: None }, None);
        let (commands, inbox) = mpsc::unbounded_channel();
        let (shown, watched) = watch::channel(None);
        let watching = spawner.spawn_scoped(calls.clone().watch(shown, random.clone()));
        let (receivers, writes) = (senders.receivers(), UnderWay::default());
        let reserve = settings.duration.saturating_sub(settings.renew_deadline);
        let guard = receivers.guard(clock, reserve, writes.clone());
        let keeper = Keeper {
            machine,
            calls,
            clock,
            random,
            place,
            last: None,
            senders,
            under_way: None,
            writes,
            on_iteration,
        };
        let task = spawner.spawn_scoped(keeper.run(inbox, watched, watching));
        Self::of(receivers, guard, trouble, commands, Held::Task { _keeper: task })
    }

    /// For a dry run: leads without a Lease until it is dropped.
    #[must_use]
    pub fn without_lease(clock: Clock) -> Self {
        let leader = Leadership::Leader { since: clock.now(), term: 0 };
        let senders = Senders::new(leader, Some(Moment::MAX));
        let (commands, inbox) = mpsc::unbounded_channel();
        senders.stopped.send_replace(true);
        let receivers = senders.receivers();
        let guard = receivers.guard(clock, Duration::ZERO, UnderWay::default());
        Self::of(
            receivers,
            guard,
            watch::channel(None).1,
            commands,
            Held::Channels { _senders: senders, _commands: inbox },
        )
    }

    fn of(
        receivers: Receivers,
        guard: WriteGuard,
        trouble: watch::Receiver<Option<String>>,
        commands: mpsc::UnboundedSender<Input>,
        held: Held,
    ) -> Self {
        let Receivers { leadership, paused, stopped, .. } = receivers;
        Self { leadership, paused, stopped, trouble, guard, commands, _held: held }
    }

    /// The role of this process, now and whenever it changes.
    #[must_use]
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    /// `true` while the Lease carries `sundown.dev/pause: "true"`: all drains are paused.
    #[must_use]
    pub fn paused(&self) -> watch::Receiver<bool> {
        self.paused.clone()
    }

    /// Why the last read or write of the Lease failed; `None` while they succeed. A process whose
    /// calls on the Lease fail cannot lead.
    #[must_use]
    pub fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.trouble.clone()
    }

    /// `true` while this process, which led, may send heartbeats but nothing else: it may no longer
    /// write, and as far as it knows no other process leads ([`Machine::is_heartbeats_only`]).
    #[must_use]
    pub fn heartbeats_only(&self) -> watch::Receiver<bool> {
        self.guard.heartbeats_only.clone()
    }

    /// The guard that every write must ask. Clones share it.
    #[must_use]
    pub fn guard(&self) -> WriteGuard {
        self.guard.clone()
    }

    /// Gives the lease up once, when no write of this process is under way, so that another process
    /// can take it. From now on this process bids only for a lease that has been free for
    /// `bid_again_after`. For a process whose own node drains, or that reaches no queue. Further
    /// calls change nothing.
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
        let mut stopped = self.stopped.clone();
        tokio::time::timeout(limit, stopped.wait_for(|stopped| *stopped))
            .await
            .is_ok_and(|seen| seen.is_ok())
    }

    fn send(&self, input: Input) {
        // A task that has ended has no lease to give up.
        drop(self.commands.send(input));
    }
}

struct Receivers {
    leadership: watch::Receiver<Leadership>,
    paused: watch::Receiver<bool>,
    stopped: watch::Receiver<bool>,
    until: watch::Receiver<Option<Moment>>,
    heartbeats_only: watch::Receiver<bool>,
}

impl Receivers {
    fn guard(&self, clock: Clock, reserve: Duration, under_way: UnderWay) -> WriteGuard {
        WriteGuard {
            clock,
            until: self.until.clone(),
            heartbeats_only: self.heartbeats_only.clone(),
            reserve,
            under_way,
        }
    }
}

impl Senders {
    fn new(leadership: Leadership, until: Option<Moment>) -> Self {
        Self {
            leadership: watch::Sender::new(leadership),
            paused: watch::Sender::new(false),
            stopped: watch::Sender::new(false),
            until: watch::Sender::new(until),
            heartbeats_only: watch::Sender::new(false),
        }
    }

    fn receivers(&self) -> Receivers {
        Receivers {
            leadership: self.leadership.subscribe(),
            paused: self.paused.subscribe(),
            stopped: self.stopped.subscribe(),
            until: self.until.subscribe(),
            heartbeats_only: self.heartbeats_only.subscribe(),
        }
    }
}

impl Keeper {
    async fn run(
        mut self,
        mut commands: mpsc::UnboundedReceiver<Input>,
        mut watched: watch::Receiver<Option<calls::Shown>>,
        _watching: AbortOnDropHandle<()>,
    ) {
        self.step(Input::Tick);
        loop {
            (self.on_iteration)();
            let latest = self.clock.now().plus(LONGEST_WAIT);
            let wake = self.machine.next_wake().map_or(latest, |at| at.min(latest));
            let answer = async {
                match &mut self.under_way {
                    Some(call) => call.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(input) => self.step(input),
                    None => return,
                },
                answer = answer => self.answered(answer),
                Ok(()) = watched.changed() => {
                    let shown = watched.borrow_and_update().clone();
                    if let Some(calls::Shown(version)) = shown {
                        self.step(Input::Nudge(version));
                    }
                }
                () = self.writes.none(),
                if self.machine.is_closing() => self.step(Input::WritesOver),
                () = self.clock.sleep_until(wake) => self.step(Input::Tick),
            }
        }
    }

    fn answered(&mut self, answer: Answer) {
        self.under_way = None;
        match answer.lease {
            calls::Read::Unknown => {}
            calls::Read::Missing => self.missing(),
            calls::Read::Is(lease) => {
                let paused = lease
                    .metadata
                    .annotations
                    .as_ref()
                    .is_some_and(|a| a.get(PAUSE).is_some_and(|v| v == "true"));
                self.last = Some(*lease);
                if self
                    .senders
                    .paused
                    .send_if_modified(|was| std::mem::replace(was, paused) != paused)
                {
                    tracing::info!(paused, "the pause annotation of the Lease changed");
                }
            }
        }
        self.step(answer.input);
    }

    /// The annotation that pauses all drains disappears with its Lease. Deleting the Lease does not
    /// mean `sundown resume`, so the drains stay paused, and the annotation is written again with
    /// the Lease.
    fn missing(&mut self) {
        if self.last.take().is_some() && self.is_paused() {
            tracing::warn!(
                namespace = %self.place.namespace, lease = %self.place.name,
                "The Lease is gone while all drains are paused. They stay paused: Sundown writes \
                 the pause annotation again with the Lease. `sundown resume` ends the pause."
            );
        }
    }

    fn is_paused(&self) -> bool {
        *self.senders.paused.borrow()
    }

    fn step(&mut self, input: Input) {
        self.take_in(input);
        // While the machine is closing, the guard permits no write, so the count cannot rise.
        if self.machine.is_closing() && self.writes.is_none() {
            self.take_in(Input::WritesOver);
        }
    }

    fn take_in(&mut self, input: Input) {
        let now = self.clock.now();
        let effects = self.machine.step(now, self.random.fraction(), input);
        // The guard is updated before leadership is published: a task that sees the new leadership
        // may write, and one that has not seen its loss yet may not.
        let until = self.machine.may_write_until();
        // `heartbeats_only` is set before the loss of leadership is published, and cleared after
        // everything else, so that nobody takes the start of a new term for the end of heartbeats.
        let heartbeats_only = self.machine.is_heartbeats_only();
        if heartbeats_only {
            self.senders.heartbeats_only.send_if_modified(|was| !std::mem::replace(was, true));
        }
        self.senders.until.send_if_modified(|was| std::mem::replace(was, until) != until);
        for effect in effects {
            match effect {
                Effect::Get => self.under_way = Some(self.calls.get()),
                Effect::Create(draft) => {
                    self.under_way = Some(self.calls.create(&draft, self.is_paused()));
                }
                Effect::Update(version, draft) => {
                    self.under_way = Some(self.calls.replace(self.last.as_ref(), version, &draft));
                }
                Effect::BecameLeader { term } => {
                    // The service logs that this process leads.
                    tracing::debug!(
                        namespace = %self.place.namespace, lease = %self.place.name, term,
                        "The Lease names this process.");
                    self.senders.leadership.send_replace(Leadership::Leader { since: now, term });
                }
                Effect::Lost(why) => {
                    match why {
                        Lost::GivenUp => {
                            tracing::info!(
                                "This process gives the Lease up as soon as none of its writes is \
                                 under way, so that another replica can lead: it is stopping, its \
                                 own node drains, or it reaches no queue."
                            );
                        }
                        Lost::Deadline => tracing::warn!(
                            "leadership is lost: the Lease could not be renewed in time"
                        ),
                        Lost::Taken(holder) => tracing::warn!(
                            holder,
                            "leadership is lost: the Lease names another holder"
                        ),
                    }
                    self.senders.leadership.send_replace(Leadership::Standby { holder: None });
                }
                Effect::Stopped => {
                    self.senders.stopped.send_replace(true);
                }
            }
        }
        if until.is_none() {
            let holder = self.machine.holder().map(str::to_owned);
            self.senders.leadership.send_if_modified(|was| {
                let is = Leadership::Standby { holder };
                let differs = *was != is;
                *was = is;
                differs
            });
        }
        if !heartbeats_only {
            self.senders.heartbeats_only.send_if_modified(|was| std::mem::replace(was, false));
        }
    }
}
