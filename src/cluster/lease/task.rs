//! The task of a [`super::LeaseKeeper`]: performs the requests of the election's machine, and
//! publishes what this process knows of the Lease.

use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Leadership, LeasePlace, LeaseState, OnIteration,
    calls::{Answer, Calls, Read, Shown},
    writes::OpenWrites,
};
use crate::{
    domain::{Moment, PAUSE, seconds},
    election::{Effect, Input, Lost, Machine},
    runtime::{Clock, Random},
};

/// The longest time between two iterations of the task's loop.
const LONGEST_WAIT: Duration = seconds(10);

pub(super) struct LeaseTask {
    pub(super) machine: Machine,
    pub(super) calls: Calls,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) place: LeasePlace,
    /// The object as last read. A replacement starts from it, so that it keeps what others wrote.
    pub(super) last: Option<Lease>,
    /// When the current term began, or the last one.
    pub(super) since: Moment,
    pub(super) state: watch::Sender<LeaseState>,
    /// The request that is not answered yet.
    pub(super) call: Option<BoxFuture<'static, Answer>>,
    /// The lease is given up only when none of them is left.
    pub(super) writes: OpenWrites,
    pub(super) on_iteration: OnIteration,
}

impl LeaseTask {
    pub(super) async fn run(
        mut self,
        mut commands: mpsc::UnboundedReceiver<Input>,
        mut watched: watch::Receiver<Option<Shown>>,
        _watching: AbortOnDropHandle<()>,
    ) {
        self.step(Input::Tick);
        loop {
            (self.on_iteration)();
            let latest = self.clock.now().plus(LONGEST_WAIT);
            let wake = self.machine.next_wake().map_or(latest, |at| at.min(latest));
            let answer = async {
                match &mut self.call {
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
                    if let Some(Shown(version)) = shown {
                        self.step(Input::Nudge(version));
                    }
                }
                () = self.writes.ended(), if self.machine.is_closing() => {
                    self.step(Input::WritesOver);
                }
                () = self.clock.sleep_until(wake) => self.step(Input::Tick),
            }
        }
    }

    fn answered(&mut self, answer: Answer) {
        self.call = None;
        match answer.lease {
            Read::Unknown => {}
            Read::Missing => self.missing(),
            Read::Is(lease) => {
                let annotations = lease.metadata.annotations.as_ref();
                let paused = annotations.is_some_and(|a| a.get(PAUSE).is_some_and(|v| v == "true"));
                self.last = Some(*lease);
                if self.publish(|state| state.is_paused = paused) {
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
        self.state.borrow().is_paused
    }

    /// Changes the published state, and returns whether anything in it differs from before.
    fn publish(&self, change: impl FnOnce(&mut LeaseState)) -> bool {
        self.state.send_if_modified(|state| {
            let before = state.clone();
            change(state);
            *state != before
        })
    }

    fn step(&mut self, input: Input) {
        self.take_in(input);
        // The guard refuses every write from now on. A refused one counts itself for a moment
        // (`WriteGuard::permit`): then `OpenWrites::ended` wakes this task again.
        if self.machine.is_closing() && self.writes.have_ended() {
            self.take_in(Input::WritesOver);
        }
    }

    fn take_in(&mut self, input: Input) {
        let now = self.clock.now();
        let mut is_given_up = false;
        for effect in self.machine.step(now, self.random.fraction(), input) {
            match effect {
                Effect::Get => self.call = Some(self.calls.get()),
                Effect::Create(draft) => {
                    self.call = Some(self.calls.create(&draft, self.is_paused()));
                }
                Effect::Update(version, draft) => {
                    self.call = Some(self.calls.replace(self.last.as_ref(), version, &draft));
                }
                Effect::BecameLeader { term } => {
                    self.since = now;
                    // The service logs that this process leads.
                    tracing::debug!(
                        namespace = %self.place.namespace, lease = %self.place.name, term,
                        "The Lease names this process.");
                }
                Effect::Lost(why) => log_loss(why),
                Effect::Stopped => is_given_up = true,
            }
        }
        let leadership = self.leadership();
        self.publish(|state| {
            state.leadership = leadership;
            state.is_given_up |= is_given_up;
        });
    }

    fn leadership(&self) -> Leadership {
        match self.machine.may_write_until() {
            Some(writes_until) => Leadership::Leader { since: self.since, writes_until },
            None if self.machine.is_heartbeats_only() => Leadership::HeartbeatsOnly,
            None => Leadership::Standby { holder: self.machine.holder().map(str::to_owned) },
        }
    }
}

fn log_loss(why: Lost) {
    match why {
        Lost::GivenUp => tracing::info!(
            "This process gives the Lease up as soon as none of its writes is under way, so that \
             another replica can lead: it is stopping, its own node drains, or it reaches no queue."
        ),
        Lost::Deadline => {
            tracing::warn!("leadership is lost: the Lease could not be renewed in time");
        }
        Lost::Taken(holder) => {
            tracing::warn!(holder, "leadership is lost: the Lease names another holder");
        }
    }
}
