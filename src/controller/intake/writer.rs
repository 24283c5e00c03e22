//! Deletes and gives back, in batches.

use std::{future::Future, sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    IntakeEvent, IntakeObserver, backoff,
    health::Seldom,
    ledger::{Key, Ledger},
};
use crate::{
    aws::{Advice, AwsError, Queue, Receipt, queue::BATCH},
    runtime::Random,
};

/// How long a delete waits for others to share its call. Nobody waits for a delete. Completions of
/// a burst leave at 40 a second, and the state changes that they cause arrive at the same rate:
/// this is the time in which they fill a batch.
pub(super) const DELETE_LINGER: Duration = Duration::from_millis(250);
/// The same for a message that is given back: another cluster may wait for it.
pub(super) const RELEASE_LINGER: Duration = Duration::from_millis(100);
/// Calls in flight, of each kind.
const IN_FLIGHT: usize = 16;
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often a message is given back before it is left to reappear by itself.
const RELEASE_TRIES: u32 = 3;

/// A message to give back.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) receipt: Receipt,
    /// How long it stays hidden from everybody.
    pub(super) hidden: Duration,
    /// The place that it takes until that is done.
    pub(super) _place: OwnedSemaphorePermit,
}

/// Where decisions go.
#[derive(Debug, Clone)]
pub(super) struct Writer(Option<Channels>);

#[derive(Debug, Clone)]
struct Channels {
    // Neither is bounded, but each entry has a place of its own in the intake's number of messages
    // held.
    deletes: mpsc::UnboundedSender<Key>,
    releases: mpsc::UnboundedSender<Given>,
}

/// The other ends.
pub(super) struct Inboxes {
    pub(super) deletes: mpsc::UnboundedReceiver<Key>,
    pub(super) releases: mpsc::UnboundedReceiver<Given>,
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

    /// One that writes nothing.
    pub(super) fn dry() -> Self {
        Self(None)
    }

    /// False when nobody deletes (any more).
    pub(super) fn delete(&self, key: Key) -> bool {
        self.0.as_ref().is_some_and(|c| c.deletes.send(key).is_ok())
    }

    pub(super) fn release(&self, given: Given) {
        if let Some(channels) = &self.0 {
            // Nobody gives back any more: it reappears by itself.
            channels.releases.send(given).ok();
        }
    }
}

/// What deletes and releases need.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) queue: Queue,
    pub(super) name: Arc<str>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) random: Random,
    pub(super) observer: Arc<dyn IntakeObserver>,
    /// A delete that fails for this long is given up: the message reappears by itself.
    pub(super) patience: Duration,
    /// When to log what could be many.
    pub(super) log: Arc<Seldom>,
}

/// Makes batches of what comes in and has them written, until the intake is `finishing` and nothing
/// is left. An entry waits at most `linger` for others.
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

impl Desk {
    /// Deletes messages, by their newest receipts, until all are gone or refused or patience ends.
    pub(super) async fn delete(self, mut keys: Vec<Key>) {
        let give_up = Instant::now() + self.patience;
        let mut backoff = backoff(LONGEST_PAUSE);
        loop {
            let batch: Vec<(Key, Receipt)> =
                keys.iter().filter_map(|key| Some((*key, self.ledger.receipt(*key)?))).collect();
            let Some(again) = self.delete_once(batch).await else { break };
            keys = again;
            if keys.is_empty() {
                return;
            }
            if Instant::now() >= give_up {
                break;
            }
            self.tell(IntakeEvent::DeleteRetried(keys.len()));
            tokio::time::sleep(backoff.pause(&self.random)).await;
        }
        self.tell(IntakeEvent::DeleteGivenUp(keys.len()));
        for key in keys {
            self.ledger.forget(key);
        }
    }

    /// What is to be tried again; `None` when that is no use.
    async fn delete_once(&self, batch: Vec<(Key, Receipt)>) -> Option<Vec<Key>> {
        let receipts: Vec<_> = batch.iter().map(|(_, receipt)| receipt.clone()).collect();
        let failed = match self.queue.delete_batch(&receipts).await {
            Ok(failed) => failed,
            Err(error) => {
                self.complain(
                    &error,
                    "Could not delete messages; trying again. What stays comes again, and is \
                     recognised then.",
                );
                return (error.advice() != Advice::Gone)
                    .then(|| batch.into_iter().map(|(key, _)| key).collect());
            }
        };
        let (mut again, mut deleted) = (Vec::new(), 0);
        for (index, (key, receipt)) in batch.into_iter().enumerate() {
            let failure = failed.iter().find(|f| f.index == index);
            // A copy came while the call was under way: only its receipt is sure to delete the
            // message.
            let replaced = self.ledger.receipt(key).is_some_and(|newest| newest != receipt);
            if replaced || failure.is_some_and(|f| !f.sender_fault) {
                again.push(key);
                continue;
            }
            match failure {
                Some(_) => self.tell(IntakeEvent::DeleteRefused),
                None => deleted += 1,
            }
            self.ledger.forget(key);
        }
        if deleted > 0 {
            self.tell(IntakeEvent::Deleted(deleted));
        }
        Some(again)
    }

    /// Makes messages visible to others, at once or soon.
    pub(super) async fn release(self, mut given: Vec<Given>) {
        let mut backoff = backoff(LONGEST_PAUSE);
        for _ in 0..RELEASE_TRIES {
            let messages: Vec<_> = given.iter().map(|g| (g.receipt.clone(), g.hidden)).collect();
            match self.queue.change_visibility_batch(&messages).await {
                Ok(failed) => {
                    let released = given.len().saturating_sub(failed.len());
                    if released > 0 {
                        self.tell(IntakeEvent::Released(released));
                    }
                    let mut index = 0;
                    given.retain(|_| {
                        index += 1;
                        failed.iter().any(|f| f.index + 1 == index && !f.sender_fault)
                    });
                    let refused = failed.iter().filter(|f| f.sender_fault).count();
                    if refused > 0 {
                        self.tell(IntakeEvent::ReleaseFailed(refused));
                    }
                }
                Err(error) => self
                    .complain(&error, "Could not give messages back; they reappear by themselves."),
            }
            if given.is_empty() {
                return;
            }
            tokio::time::sleep(backoff.pause(&self.random)).await;
        }
        self.tell(IntakeEvent::ReleaseFailed(given.len()));
    }

    /// Logs an error that may come often: loudly when a person must mend it.
    pub(super) fn complain(&self, error: &AwsError, what: &'static str) {
        if !self.log.now() {
            tracing::debug!(queue = %self.name, %error, "{what}");
        } else if error.advice() == Advice::Denied {
            tracing::error!(
                queue = %self.name, %error, "{what} Check the role's policy (sqs:DeleteMessage, \
                     sqs:ChangeMessageVisibility) and the credentials.");
        } else {
            tracing::warn!(queue = %self.name, %error, "{what}");
        }
    }

    pub(super) fn tell(&self, event: IntakeEvent) {
        self.observer.event(&self.name, event);
    }
}
