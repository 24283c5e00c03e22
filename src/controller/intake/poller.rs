//! Receives: as many long polls as the queue keeps busy.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Delivery, IntakeEvent, Settings, Ticket, backoff,
    health::{Health, Seldom},
    ledger::{Admission, Ledger},
    writer::{Desk, Writer},
};
use crate::{
    aws::{Advice, AwsError, Message, queue::BATCH},
    domain::Moment,
    observe::Loop,
};

/// It turns this often at least.
const TURN: Duration = Duration::from_secs(10);
/// The longest pause after an error.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// How long a receive that is under way may take to end when the intake stops.
const LAST_RECEIVE: Duration = Duration::from_millis(1500);
/// How long a receive waits for others to share its call, where the one before it has left nothing behind: what comes of one incident comes
/// message by message, and each long poll ends with the first of them.
const LINGER: Duration = Duration::from_millis(50);
/// An error that a person must mend is asked about as slowly as the tenth in a row of any other.
const SLOW: u32 = 10;

/// How long a receive waits for room before others have to make some…
const PATIENCE: Duration = Duration::from_secs(5);
/// …and while that has just happened.
const CROWDED_PATIENCE: Duration = Duration::from_millis(100);
/// What has been undecided for less than this may be decided yet: questions to AWS are answered or given up within 10 s.
const UNDECIDED_FOR: Duration = Duration::from_secs(10);

/// Receives from one queue.
pub(super) struct Poller {
    pub(super) desk: Desk,
    pub(super) settings: Settings,
    pub(super) writer: Writer,
    pub(super) deliveries: mpsc::Sender<Delivery>,
    pub(super) places: Arc<Semaphore>,
    /// What is held of all queues, which share the places.
    pub(super) ledgers: Arc<[Arc<Ledger>]>,
    pub(super) crowded: Seldom,
    pub(super) health: Arc<Health>,
    pub(super) stop: CancellationToken,
    pub(super) alive: Loop,
}

/// What follows a receive.
struct Next {
    /// How many have failed in a row.
    failures: u32,
    /// How many long polls are wanted now.
    wanted: usize,
    /// How long the next one waits.
    pause: Duration,
}

/// How one receive ended.
enum Round {
    Received { messages: Vec<Message>, places: OwnedSemaphorePermit, full: bool, quick: bool, behind: bool },
    Failed(AwsError),
    Stopped,
}

impl Poller {
    /// Receives until the intake stops or nobody listens any more; then lets receives that are under way end, for 1.5 s at most.
    pub(super) async fn run(self) {
        let mut rounds = FuturesUnordered::new();
        let mut target = 1;
        let mut newest = None;
        rounds.push(self.round(0, Duration::ZERO, newest));
        loop {
            self.alive.turned();
            let ended = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                () = self.deliveries.closed() => break,
                Some(ended) = rounds.next() => ended,
                // A round may wait for a place for as long as everything that is held stays undecided.
                () = tokio::time::sleep(TURN) => continue,
            };
            if let (_, Round::Received { messages, .. }) = &ended {
                newest = newest.max(messages.iter().filter_map(|m| m.sent).max());
            }
            let next = self.ended(ended, target);
            if next.wanted != target {
                target = next.wanted;
                self.desk.tell(IntakeEvent::Pollers(target));
            }
            // The round that ended goes on where it was; those that are new start afresh.
            if rounds.len() < target {
                rounds.push(self.round(next.failures, next.pause, newest));
            }
            while rounds.len() < target {
                rounds.push(self.round(0, Duration::ZERO, newest));
            }
        }
        let last = async {
            while let Some((failures, round)) = rounds.next().await {
                self.ended((failures, round), target);
            }
        };
        if tokio::time::timeout(LAST_RECEIVE, last).await.is_err() {
            tracing::debug!(queue = %self.desk.name, "Long polls were cut off.");
        }
    }

    /// One receive, after a pause. `failures`: how many have failed before it, in a row; `newest`: of all messages that came before it.
    async fn round(&self, failures: u32, pause: Duration, newest: Option<Moment>) -> (u32, Round) {
        let receive = async {
            let pause = if failures > 0 { backoff(&self.desk.random, failures, LONGEST_PAUSE) } else { pause };
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            self.room(BATCH.min(self.settings.max_held).max(1)).await
        };
        let places = tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            places = receive => places,
        };
        let Some(places) = places else { return (failures, Round::Stopped) };
        // The first receive, and the first after an error, does not wait: it shows at once whether the queue is there.
        let wait = if self.health.proven() { self.settings.wait } else { Duration::ZERO };
        let (started, count) = (Instant::now(), places.num_permits());
        match self.desk.queue.receive(count, wait, self.settings.visibility).await {
            Ok(messages) => {
                let quick = messages.is_empty() && started.elapsed() < (self.settings.wait / 2).max(Duration::from_secs(1)) && self.health.proven();
                // What was sent before a message that has come already was there at that time, and comes the first time now: SQS has answered from some
                // of its servers. With few messages in the queue it brings one or two a call, however many are waiting (github.com/boto/boto3/issues/324).
                let behind = messages.iter().any(|m| m.receive_count <= 1 && m.sent.is_some() && m.sent < newest);
                (failures, Round::Received { full: messages.len() >= count, messages, places, quick, behind })
            }
            Err(error) => (failures, Round::Failed(error)),
        }
    }

    /// Places for `count` messages. Where too many that nobody can decide take them all, the oldest that owe nothing make room.
    async fn room(&self, count: usize) -> Option<OwnedSemaphorePermit> {
        loop {
            let places = Arc::clone(&self.places).acquire_many_owned(u32::try_from(count).unwrap_or(1));
            let patience = if self.health.crowded() { CROWDED_PATIENCE } else { PATIENCE };
            if let Ok(places) = tokio::time::timeout(patience, places).await {
                return places.ok();
            }
            self.health.no_room();
            let mut given_up = 0;
            for ledger in self.ledgers.iter() {
                given_up += ledger.make_room(count - given_up.min(count), UNDECIDED_FOR);
            }
            if given_up > 0 {
                self.desk.tell(IntakeEvent::MadeRoom(given_up));
            }
            if self.crowded.now() {
                let held = self.settings.max_held;
                tracing::warn!(
                    queue = %self.desk.name, held,
                    "No room for more messages: too many are held undecided. The oldest that owe no lifecycle hook are given up and reappear by themselves; see what the others wait for, or raise --max-held."
                );
            }
        }
    }

    fn ended(&self, (failures, round): (u32, Round), target: usize) -> Next {
        match round {
            Round::Stopped => Next { failures, wanted: target, pause: Duration::ZERO },
            Round::Failed(error) => {
                self.desk.tell(IntakeEvent::ReceiveFailed(error.outcome()));
                let failures = if error.advice() == Advice::Retry { failures + 1 } else { failures.max(SLOW) + 1 };
                self.health.failed(&self.desk.name, error);
                Next { failures, wanted: (target / 2).max(1), pause: Duration::ZERO }
            }
            Round::Received { messages, mut places, full, quick, behind } => {
                self.health.answered(&self.desk.name);
                self.desk.tell(IntakeEvent::Received(messages.len()));
                let wanted = match messages.len() {
                    _ if full || behind => (target * 2).min(self.settings.pollers.max(1)),
                    // Many long polls would end with a message each.
                    few if few < BATCH / 2 => target.saturating_sub(1).max(1),
                    _ => target,
                };
                let pause = if full || behind || messages.is_empty() { Duration::ZERO } else { LINGER };
                for message in messages {
                    self.deliver(message, &mut places);
                }
                // A server that does not wait when it has nothing must not be asked without pause.
                Next { failures: if quick { (failures + 1).min(SLOW / 2) } else { 0 }, wanted, pause }
            }
        }
    }

    fn deliver(&self, message: Message, places: &mut OwnedSemaphorePermit) {
        let Message { id, receipt, body, sent, receive_count } = message;
        match self.desk.ledger.admit(id, receipt, places) {
            Some(Admission::New(key)) => {
                if self.stop.is_cancelled() {
                    return; // Held, and given back with all that is undecided.
                }
                let ticket = Ticket::new(key, &self.desk.ledger, &self.writer);
                let delivery = Delivery { body, sent, receive_count, queue: Arc::clone(&self.desk.name), ticket };
                // There is room for every message that is held. When nobody listens any more, the ticket is dropped here.
                self.deliveries.try_send(delivery).ok();
            }
            Some(Admission::Copy) => self.desk.tell(IntakeEvent::Redelivered),
            None => tracing::warn!(queue = %self.desk.name, "SQS gave more messages than it was asked for; one is left alone."),
        }
    }
}
