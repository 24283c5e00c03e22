//! The lifecycle actions that we owe: one task each, which beats until its completion is accepted.
//!
//! Beats and the completion of one action are sent one after the other by the same task, so none
//! overtakes the other: there is no beat after an accepted completion. The calls of all of them go
//! out through one [`Pacer`], the action with the least time left first.

mod book;
mod granted;
mod keeper;
mod pacer;
mod undescribed;
mod unseen;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, info};

pub(super) use self::granted::Granted;
use self::{
    book::{Book, Past},
    keeper::Keeper,
    pacer::Pacer,
    undescribed::Undescribed,
};
use super::context::Shared;
use crate::{
    domain::{LifecycleAction, Moment, seconds},
    fleet::{Input, Origin},
    lifecycle::{HeartbeatSchedule, Start},
};

/// What is reckoned with at a take-over beyond the lease's duration: the new leader's first look,
/// and its first call.
const SLACK: std::time::Duration = seconds(5);

/// How a completion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Completion {
    /// AWS accepted it.
    Accepted,
    /// AWS says that nothing waits any more.
    Gone,
}

/// What one heartbeat proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// The action is open.
    Open,
    /// "No active Lifecycle Action".
    Gone,
}

/// What a task is told.
#[derive(Debug)]
enum Order {
    Complete(oneshot::Sender<Completion>),
    Prove(oneshot::Sender<Proof>),
    /// Somebody owes it, by this name.
    Named(Box<LifecycleAction>, Source),
    /// The term is over, and the heartbeats alone go on.
    Strand,
    /// A new term, which receives these inputs.
    Resume(mpsc::UnboundedSender<Input>),
    Forget,
}

/// All owed lifecycle actions of one term.
#[derive(Clone)]
pub(super) struct Hooks {
    shared: Shared,
    end: CancellationToken,
    inputs: mpsc::UnboundedSender<Input>,
    book: Arc<Mutex<Book>>,
    past: Arc<Mutex<Past>>,
    pacer: Pacer,
    undescribed: Undescribed,
}

/// Where an action is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A message of AWS that this process received. Its token names the action.
    Message,
    /// The record of a Node, which a kubelet can write. Calls name the instance only, and AWS must
    /// show that the instance waits before the action is completed.
    Record,
}

impl Hooks {
    pub(super) fn new(shared: Shared, inputs: mpsc::UnboundedSender<Input>) -> Self {
        let end = CancellationToken::new();
        let pacer = Pacer::start(shared.clock, &shared.spawner, &end);
        Self {
            shared,
            end,
            inputs,
            book: Arc::default(),
            past: Arc::default(),
            pacer,
            undescribed: Undescribed::default(),
        }
    }

    /// No more beats, of any action.
    pub(super) fn end(&self) {
        self.end.cancel();
        self.shared.metrics.set_open_actions(0);
    }

    /// This process may no longer write, and no other process is known to lead. Heartbeats for open
    /// actions go on. Only completions that are already under way go on. See
    /// `docs/adr/0010-heartbeats-go-on-while-nobody-leads.md`.
    pub(super) fn strand(&self) {
        let mut book = self.book();
        book.tell_all(|| Order::Strand);
        let open_actions = book.running();
        self.shared.metrics.set_open_actions(open_actions);
        if open_actions > 0 {
            info!(
                open_actions,
                "No other process is known to lead yet: heartbeats go on, nothing is completed."
            );
        }
    }

    /// The same process leads again: the new term finds its actions kept open.
    pub(super) fn resume(self, inputs: mpsc::UnboundedSender<Input>) -> Self {
        {
            let mut book = self.book();
            book.tell_all(|| Order::Resume(inputs.clone()));
            self.shared.metrics.set_open_actions(book.running());
        }
        Self { inputs, ..self }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The action is ours: it is beaten from now on.
    pub(super) fn own(
        &self,
        action: &LifecycleAction,
        event: Moment,
        first: Origin,
        source: Source,
    ) {
        if !self.is_past(action) {
            self.task(action, event, first, source);
        }
    }

    /// A message tells of an action that is on a record. Where that has a task, its calls carry the
    /// token from now on.
    pub(super) fn vouch(&self, action: &LifecycleAction) {
        if !self.is_past(action) {
            self.book().find(action, Source::Message);
        }
    }

    /// The action is over, and its end was told to whoever waited for it.
    pub(super) fn is_past(&self, action: &LifecycleAction) -> bool {
        self.past.lock().unwrap_or_else(PoisonError::into_inner).holds(action)
    }

    /// This very action has a task, and is not known to be over.
    pub(super) fn keeps_open(&self, action: &LifecycleAction) -> bool {
        !self.is_past(action) && self.book().has_task(action)
    }

    fn task(
        &self,
        action: &LifecycleAction,
        event: Moment,
        first: Origin,
        source: Source,
    ) -> mpsc::UnboundedSender<Order> {
        let mut book = self.book();
        if let Some(task) = book.find(action, source) {
            return task;
        }
        let (orders, received) = mpsc::unbounded_channel();
        book.begin(action, event, orders.clone());
        let now = self.shared.clock.now();
        let start = match first {
            Origin::Received => Start::Received(now),
            Origin::TakenOver => Start::TakenOver {
                at: now,
                unled: self.shared.config.election.lease.duration.saturating_add(SLACK),
            },
        };
        let schedule = HeartbeatSchedule::new(event, start, self.shared.random.fraction(), None);
        let schedule = match self.shared.granted.last(action) {
            Some(sent) => schedule.known_accepted(sent),
            None => schedule,
        };
        let mut keeper = Keeper::new(self, action.clone(), source, schedule, received);
        let (end, all, key) = (self.end.clone(), self.clone(), action.key.clone());
        self.shared.metrics.set_open_actions(book.running());
        let span = tracing::info_span!("lifecycle_action", node = tracing::field::Empty);
        // Boxed here: inside, the task would keep room for it beside the box.
        let life = Box::pin(async move { keeper.keep().await }.instrument(span));
        drop(self.shared.spawner.spawn(async move {
            let ended = end.run_until_cancelled(life).await.is_some();
            let mut book = all.book();
            book.ended(&key);
            if ended {
                all.shared.metrics.set_open_actions(book.running());
            }
        }));
        orders
    }

    /// Completes the action with CONTINUE; comes back when AWS has accepted that or says that
    /// nothing waits. `None`: the term ended. One that only a record names is completed once AWS
    /// shows its instance waiting (see [`crate::lifecycle::Confirmation`]).
    pub(super) async fn complete(
        &self,
        action: &LifecycleAction,
        event: Moment,
        source: Source,
    ) -> Option<Completion> {
        if self.is_past(action) {
            return Some(Completion::Gone);
        }
        let (reply, answer) = oneshot::channel();
        drop(self.task(action, event, Origin::Received, source).send(Order::Complete(reply)));
        answer.await.ok()
    }

    /// Sends one heartbeat now (after a failure, when it is due again); comes back when AWS has
    /// answered it. `None`: the term ended, or the action is known to be over.
    pub(super) async fn prove(
        &self,
        action: &LifecycleAction,
        event: Moment,
        source: Source,
    ) -> Option<Proof> {
        if self.is_past(action) {
            return Some(Proof::Gone);
        }
        let (reply, answer) = oneshot::channel();
        drop(self.task(action, event, Origin::Received, source).send(Order::Prove(reply)));
        answer.await.ok()
    }

    /// This action is not ours after all: no more beats, and no completion. Another one of the same
    /// hook stays.
    pub(super) fn forget(&self, action: &LifecycleAction) {
        self.book().forget(action);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<F: Future>(_: impl Fn(Keeper) -> F) -> usize {
        size_of::<F>()
    }

    /// A thousand actions may be open at once, each in a task of its own.
    #[test]
    fn an_action_that_is_kept_open_takes_little_memory() {
        let bytes = size(|mut keeper| async move { keeper.keep().await });
        assert!(bytes <= 2304, "{bytes} bytes");
    }
}
