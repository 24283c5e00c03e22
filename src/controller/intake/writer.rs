//! Deletes messages and gives them back, in batches.

use std::{future::Future, sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    IntakeEvent, backoff,
    health::LogLimit,
    held::{HeldMessages, Key},
};
use crate::{
    aws::{Advice, AwsError, Queue, Receipt, queue::BATCH},
    runtime::{Observer, Random},
};

/// How long a delete waits for others to share its call. Nothing depends on when a message is
/// deleted. Completions of a burst leave at 40 a second, and the state changes that they cause
/// arrive at the same rate: in this time they fill a batch.
pub(super) const DELETE_LINGER: Duration = Duration::from_millis(250);
/// The same for a message that is given back. Shorter, because another cluster may wait for it.
pub(super) const RELEASE_LINGER: Duration = Duration::from_millis(100);
/// The most calls in flight, for deletes and for messages given back alike.
const IN_FLIGHT: usize = 16;
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How many tries to give a message back are made before it is left to reappear by itself.
const RELEASE_TRIES: u32 = 3;

/// A message to give back.
#[derive(Debug)]
pub(super) struct ReleasedMessage {
    pub(super) receipt: Receipt,
    /// How long it stays invisible to all readers.
    pub(super) hidden: Duration,
    /// Its place among the held messages, kept until the message is given back.
    pub(super) _place: OwnedSemaphorePermit,
}

/// Passes decided messages on to the tasks that write to the queue. `None`: writes nothing.
#[derive(Debug, Clone)]
pub(super) struct Writer(Option<Channels>);

#[derive(Debug, Clone)]
struct Channels {
    // Neither channel is bounded, but each entry takes one of the places for held messages, which
    // are.
    deletes: mpsc::UnboundedSender<Key>,
    releases: mpsc::UnboundedSender<ReleasedMessage>,
}

/// The receiving ends of the channels of a [`Writer`].
pub(super) struct Inboxes {
    pub(super) deletes: mpsc::UnboundedReceiver<Key>,
    pub(super) releases: mpsc::UnboundedReceiver<ReleasedMessage>,
}

impl Writer {
    pub(super) fn new() -> (Self, Inboxes) {
        let (deletes, to_delete) = mpsc::unbounded_channel();
        let (releases, to_release) = mpsc::unbounded_channel();
        (
            Self(Some(Channels { deletes, releases })),
            Inboxes { deletes: to_delete, releases: to_release },
        )
    }

    /// A writer that writes nothing.
    pub(super) fn dry() -> Self {
        Self(None)
    }

    /// Has the message deleted. `false`: this writer writes nothing, or the intake has stopped.
    pub(super) fn delete(&self, key: Key) -> bool {
        self.0.as_ref().is_some_and(|c| c.deletes.send(key).is_ok())
    }

    pub(super) fn release(&self, given: ReleasedMessage) {
        if let Some(channels) = &self.0 {
            // If the intake has stopped, the message reappears by itself.
            channels.releases.send(given).ok();
        }
    }
}

/// One queue, with what all its tasks share.
#[derive(Clone)]
pub(super) struct IntakeQueue {
    pub(super) sqs: Queue,
    pub(super) name: Arc<str>,
    pub(super) held: Arc<HeldMessages>,
    pub(super) random: Random,
    pub(super) observer: Arc<dyn Observer<IntakeEvent>>,
    /// A delete that fails for this long is given up: the message reappears by itself.
    pub(super) give_up_after: Duration,
    pub(super) log: Arc<LogLimit>,
}

/// Collects the entries of `inbox` into batches and passes each batch to `write`, until `finishing`
/// is canceled and nothing is left. An entry waits at most `linger` for others.
pub(super) async fn run<T, F>(
    mut inbox: mpsc::UnboundedReceiver<T>,
    linger: Duration,
    finishing: CancellationToken,
    write: impl Fn(Vec<T>) -> F,
) where
    F: Future<Output = ()>,
{
    let mut waiting = Vec::new();
    let mut flying = FuturesUnordered::new();
    let (mut send_at, mut open) = (Instant::now(), true);
    while open || !waiting.is_empty() || !flying.is_empty() {
        let room = flying.len() < IN_FLIGHT;
        tokio::select! {
            biased;
            Some(()) = flying.next(), if !flying.is_empty() => {}
            () = finishing.cancelled(), if !inbox.is_closed() => inbox.close(),
            count = inbox.recv_many(
                &mut waiting, BATCH * IN_FLIGHT
            ), if open && waiting.len() < BATCH * IN_FLIGHT => {
                open = count > 0;
                if count == waiting.len() {
                    send_at = Instant::now() + linger;
                }
            }
            () = tokio::time::sleep_until(send_at), if room && !waiting.is_empty() => {}
        }
        let hurry = inbox.is_closed() || Instant::now() >= send_at;
        while flying.len() < IN_FLIGHT && (waiting.len() >= BATCH || (hurry && !waiting.is_empty()))
        {
            let batch = waiting.drain(..waiting.len().min(BATCH)).collect();
            flying.push(write(batch));
        }
    }
}

impl IntakeQueue {
    /// Deletes messages by their newest receipts. Retries until SQS has deleted or refused each of
    /// them, or `give_up_after` is over.
    pub(super) async fn delete(self, mut keys: Vec<Key>) {
        let give_up = Instant::now() + self.give_up_after;
        let mut backoff = backoff(LONGEST_PAUSE);
        loop {
            let batch: Vec<(Key, Receipt)> =
                keys.iter().filter_map(|key| Some((*key, self.held.receipt(*key)?))).collect();
            let Some(again) = self.delete_once(batch).await else { break };
            keys = again;
            if keys.is_empty() {
                return;
            }
            if Instant::now() >= give_up {
                break;
            }
            self.report(IntakeEvent::DeleteRetried(keys.len()));
            tokio::time::sleep(backoff.pause(&self.random)).await;
        }
        self.report(IntakeEvent::DeleteGivenUp(keys.len()));
        for key in keys {
            self.held.forget(key);
        }
    }

    /// Sends one call. Returns the messages to try again; `None` if trying again is of no use.
    async fn delete_once(&self, batch: Vec<(Key, Receipt)>) -> Option<Vec<Key>> {
        let receipts: Vec<_> = batch.iter().map(|(_, receipt)| receipt.clone()).collect();
        let failed = match self.sqs.delete_batch(&receipts).await {
            Ok(failed) => failed,
            Err(error) => {
                self.log_error(
                    &error,
                    "Could not delete messages; trying again. SQS delivers those that remain \
                     again, and Sundown recognizes them.",
                );
                return (error.advice() != Advice::Gone)
                    .then(|| batch.into_iter().map(|(key, _)| key).collect());
            }
        };
        let (mut again, mut deleted) = (Vec::new(), 0);
        for (index, (key, receipt)) in batch.into_iter().enumerate() {
            let failure = failed.iter().find(|f| f.index == index);
            // If a copy came while the call was under way, only the receipt of that copy is sure to
            // delete the message.
            let replaced = self.held.receipt(key).is_some_and(|newest| newest != receipt);
            if replaced || failure.is_some_and(|f| !f.sender_fault) {
                again.push(key);
                continue;
            }
            match failure {
                Some(_) => self.report(IntakeEvent::DeleteRefused),
                None => deleted += 1,
            }
            self.held.forget(key);
        }
        if deleted > 0 {
            self.report(IntakeEvent::Deleted(deleted));
        }
        Some(again)
    }

    /// Gives messages back: SQS shows each to all readers again after its `hidden` time.
    pub(super) async fn release(self, mut given: Vec<ReleasedMessage>) {
        let mut backoff = backoff(LONGEST_PAUSE);
        for _ in 0..RELEASE_TRIES {
            let messages: Vec<_> = given.iter().map(|g| (g.receipt.clone(), g.hidden)).collect();
            match self.sqs.change_visibility_batch(&messages).await {
                Ok(failed) => {
                    let released = given.len().saturating_sub(failed.len());
                    if released > 0 {
                        self.report(IntakeEvent::Released(released));
                    }
                    let mut index = 0;
                    given.retain(|_| {
                        index += 1;
                        failed.iter().any(|f| f.index + 1 == index && !f.sender_fault)
                    });
                    let refused = failed.iter().filter(|f| f.sender_fault).count();
                    if refused > 0 {
                        self.report(IntakeEvent::ReleaseFailed(refused));
                    }
                }
                Err(error) => self.log_error(
                    &error,
                    "Could not give messages back; they reappear by themselves.",
                ),
            }
            if given.is_empty() {
                return;
            }
            tokio::time::sleep(backoff.pause(&self.random)).await;
        }
        self.report(IntakeEvent::ReleaseFailed(given.len()));
    }

    /// Logs an error that may come often: at most once a minute above level `DEBUG`, and as
    /// `ERROR` if a person must fix it.
    pub(super) fn log_error(&self, error: &AwsError, what: &'static str) {
        if !self.log.allows() {
            tracing::debug!(queue = %self.name, %error, "{what}");
        } else if error.advice() == Advice::Denied {
            tracing::error!(
                queue = %self.name, %error, "{what} Check the role's policy (sqs:DeleteMessage, \
                     sqs:ChangeMessageVisibility) and the credentials.");
        } else {
            tracing::warn!(queue = %self.name, %error, "{what}");
        }
    }

    pub(super) fn report(&self, event: IntakeEvent) {
        self.observer.observe(event);
    }
}
