//! The Lease: who leads, and whether all is paused.
//!
//! The shell of [`crate::election`]: performs its requests one at a time, each with a deadline; a
//! watch shows it changes at once (its content is not believed, it may lag), and reading every few
//! seconds is the net below that.

mod calls;
mod find;
mod pause;
#[cfg(test)]
mod tests;
mod writes;

use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use self::calls::{Answer, Calls};
use self::writes::UnderWay;
pub use self::{
    calls::{LeaseCall, OnCall, Verb},
    find::{LeaseSearch, find_lease},
    pause::{LeaseError, set_paused},
    writes::{WriteGuard, WritePermit},
};
use crate::{
    domain::{Moment, PAUSE, seconds},
    election::{Effect, Input, LAST_WRITES, Lost, Machine, Settings},
    runtime::{Clock, Random, Spawner},
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

/// Told of every turn of a loop.
pub type OnTurn = Box<dyn Fn() + Send + Sync>;

/// How long giving the Lease up may take: the last writes, then the Lease itself.
pub const LONGEST_RELEASE: Duration = LAST_WRITES.saturating_add(seconds(3));

/// The keeper turns this often at least.
const TURN: Duration = seconds(10);

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
    /// What the annotation `sundown.dev/settings` of the Lease says while this process leads.
    pub published: String,
    /// The clock.
    pub clock: Clock,
    /// Jitter.
    pub random: Random,
    /// Starts the task.
    pub spawner: Spawner,
    /// Told of every call.
    pub on_call: OnCall,
    /// Told every ten seconds at least that the keeper goes on; dropped when it ends.
    pub on_turn: OnTurn,
}

/// Takes part in the election and keeps the lease once it is won. Dropped, it stops renewing.
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

/// What must live as long as the keeper.
#[derive(Debug)]
enum Held {
    Task { _keeper: AbortOnDropHandle<()> },
    Said { _said: Said, _commands: mpsc::UnboundedReceiver<Input> },
}

/// The sending ends of what the keeper tells.
#[derive(Debug)]
struct Said {
    leadership: watch::Sender<Leadership>,
    paused: watch::Sender<bool>,
    stopped: watch::Sender<bool>,
    until: watch::Sender<Option<Moment>>,
    without_leader: watch::Sender<bool>,
}

/// The task.
struct Keeper {
    machine: Machine,
    calls: Calls,
    clock: Clock,
    random: Random,
    place: LeasePlace,
    /// The object as last read: what others wrote on it survives our replacing it.
    last: Option<Lease>,
    said: Said,
    under_way: Option<BoxFuture<'static, Answer>>,
    /// The writes in flight: the lease is given up only when none is left.
    writes: UnderWay,
    on_turn: OnTurn,
}

impl LeaseKeeper {
    /// Starts to take part.
    #[must_use]
    pub fn start(parts: LeaseParts) -> Self {
        let LeaseParts {
            client,
            place,
            identity,
            settings,
            published,
            clock,
            random,
            spawner,
            on_call,
            on_turn,
        } = parts;
        let calls = Calls::new(client, &place, published, clock, on_call);
        let trouble = calls.trouble();
        let machine = Machine::new(identity, settings);
        let said = Said::new(Leadership::Standby { holder: None }, None);
        let (commands, inbox) = mpsc::unbounded_channel();
        let (shown, watched) = watch::channel(None);
        let watching = spawner.spawn_scoped(calls.clone().watch(shown, random.clone()));
        let (receivers, writes) = (said.receivers(), UnderWay::default());
        let reserve = settings.duration.saturating_sub(settings.renew_deadline);
        let guard = receivers.guard(clock, reserve, writes.clone());
        let keeper = Keeper {
            machine,
            calls,
            clock,
            random,
            place,
            last: None,
            said,
            under_way: None,
            writes,
            on_turn,
        };
        let task = spawner.spawn_scoped(keeper.run(inbox, watched, watching));
        Self::of(receivers, guard, trouble, commands, Held::Task { _keeper: task })
    }

    /// Leads without a Lease, for ever: a dry run.
    #[must_use]
    pub fn without_lease(clock: Clock) -> Self {
        let said = Said::new(Leadership::Leader { since: clock.now(), term: 0 }, Some(Moment::MAX));
        let (commands, inbox) = mpsc::unbounded_channel();
        said.stopped.send_replace(true);
        let receivers = said.receivers();
        let guard = receivers.guard(clock, Duration::ZERO, UnderWay::default());
        Self::of(
            receivers,
            guard,
            watch::channel(None).1,
            commands,
            Held::Said { _said: said, _commands: inbox },
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

    /// Why the Lease could not be read or written last; `None` while it can. Nobody leads who
    /// cannot.
    #[must_use]
    pub fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.trouble.clone()
    }

    /// Whether this process may not write although, as far as it knows, no other process leads: it
    /// could not renew its lease in time and has not seen another holder since, or it is about to
    /// give the lease up and its last writes are under way.
    #[must_use]
    pub fn without_leader(&self) -> watch::Receiver<bool> {
        self.guard.without_leader.clone()
    }

    /// The guard of all writes.
    #[must_use]
    pub fn guard(&self) -> WriteGuard {
        self.guard.clone()
    }

    /// Gives the lease up once, when no write of this process is under way, so that another process
    /// can take it. From now on this process bids only for a lease that has been free for
    /// `bid_again_after`. For a process whose own node drains, or that reaches no queue. Further
    /// calls change nothing.
    pub fn yield_lease(&self, bid_again_after: Duration) {
        self.tell(Input::Yield(bid_again_after));
    }

    /// Bids as ever again: there is no reason any more to let another go first.
    pub fn bid_normally(&self) {
        self.tell(Input::Eager);
    }

    /// Gives the lease up, once no write of this process is under way ([`WriteGuard::permit`]), and
    /// never bids again. Leadership ends at once. Waits until the lease is verifiably not ours,
    /// `limit` at most, and says whether it is.
    pub async fn release(&self, limit: Duration) -> bool {
        self.tell(Input::Stop);
        let mut stopped = self.stopped.clone();
        tokio::time::timeout(limit, stopped.wait_for(|stopped| *stopped))
            .await
            .is_ok_and(|seen| seen.is_ok())
    }

    fn tell(&self, input: Input) {
        // A task that has ended has no lease to give up.
        drop(self.commands.send(input));
    }
}

struct Receivers {
    leadership: watch::Receiver<Leadership>,
    paused: watch::Receiver<bool>,
    stopped: watch::Receiver<bool>,
    until: watch::Receiver<Option<Moment>>,
    without_leader: watch::Receiver<bool>,
}

impl Receivers {
    fn guard(&self, clock: Clock, reserve: Duration, under_way: UnderWay) -> WriteGuard {
        WriteGuard {
            clock,
            until: self.until.clone(),
            without_leader: self.without_leader.clone(),
            reserve,
            under_way,
        }
    }
}

impl Said {
    fn new(leadership: Leadership, until: Option<Moment>) -> Self {
        Self {
            leadership: watch::Sender::new(leadership),
            paused: watch::Sender::new(false),
            stopped: watch::Sender::new(false),
            until: watch::Sender::new(until),
            without_leader: watch::Sender::new(false),
        }
    }

    fn receivers(&self) -> Receivers {
        Receivers {
            leadership: self.leadership.subscribe(),
            paused: self.paused.subscribe(),
            stopped: self.stopped.subscribe(),
            until: self.until.subscribe(),
            without_leader: self.without_leader.subscribe(),
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
            (self.on_turn)();
            // Nothing is planned while a request is under way, and that has its own deadline.
            let turn = self.clock.now().plus(TURN);
            let wake = self.machine.next_wake().map_or(turn, |at| at.min(turn));
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
                if self.said.paused.send_if_modified(|was| std::mem::replace(was, paused) != paused)
                {
                    tracing::info!(paused, "the pause annotation of the Lease changed");
                }
            }
        }
        self.step(answer.input);
    }

    /// The annotation that pauses all drains goes with its Lease, but who deletes a Lease has not
    /// said `resume`: the drains stay paused, and is written again with the Lease.
    fn missing(&mut self) {
        if self.last.take().is_some() && self.is_paused() {
            tracing::warn!(
                namespace = %self.place.namespace, lease = %self.place.name,
                "The Lease is gone while all drains are paused. They stay paused, and the \
                 annotation is written again with the Lease; `sundown resume` ends it."
            );
        }
    }

    fn is_paused(&self) -> bool {
        *self.said.paused.borrow()
    }

    fn step(&mut self, input: Input) {
        self.take_in(input);
        // The guard is closed by now, so that no further write begins.
        if self.machine.is_closing() && self.writes.is_none() {
            self.take_in(Input::WritesOver);
        }
    }

    fn take_in(&mut self, input: Input) {
        let now = self.clock.now();
        let effects = self.machine.step(now, self.random.fraction(), input);
        // The guard first: whoever hears of leadership may write, whoever does not hear of its loss
        // may not.
        let until = self.machine.may_write_until();
        // Stranded is said before the loss of leadership and unsaid after everything else, so that
        // nobody takes a new term for its end.
        let without_leader = self.machine.is_without_leader();
        if without_leader {
            self.said.without_leader.send_if_modified(|was| !std::mem::replace(was, true));
        }
        self.said.until.send_if_modified(|was| std::mem::replace(was, until) != until);
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
                    tracing::info!(
                        namespace = %self.place.namespace, lease = %self.place.name, term,
                        "this process leads");
                    self.said.leadership.send_replace(Leadership::Leader { since: now, term });
                }
                Effect::Lost(why) => {
                    match why {
                        Lost::GivenUp => {
                            tracing::info!(
                                "The lease is given up as soon as no write is under way, so that \
                                 another may lead: this process stops, its own node drains, or it \
                                 reaches no queue."
                            );
                        }
                        Lost::Deadline => tracing::warn!(
                            "leadership is lost: the Lease could not be renewed in time"
                        ),
                        Lost::Taken(holder) => tracing::warn!(
                            holder,
                            "leadership is lost: the Lease names somebody else"
                        ),
                    }
                    self.said.leadership.send_replace(Leadership::Standby { holder: None });
                }
                Effect::Stopped => {
                    self.said.stopped.send_replace(true);
                }
            }
        }
        if until.is_none() {
            let holder = self.machine.holder().map(str::to_owned);
            self.said.leadership.send_if_modified(|was| {
                let is = Leadership::Standby { holder };
                let differs = *was != is;
                *was = is;
                differs
            });
        }
        if !without_leader {
            self.said.without_leader.send_if_modified(|was| std::mem::replace(was, false));
        }
    }
}
