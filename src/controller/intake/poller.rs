//! Receives: as many long polls as the queue keeps busy.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Delivery, IntakeEvent, Settings, Ticket, Writes, backoff,
    health::{Health, Seldom},
    ledger::{Admission, Ledger},
    writer::{Desk, Writer},
};
use crate::{
    aws::{Advice, AwsError, ByteLimit, Message, Outcome, queue::BATCH},
    domain::Moment,
    observe::Loop,
};

/// It turns this often at least.
const TURN: Duration = Duration::from_secs(10);
/// The longest pause after an error.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// How long a receive waits beside one that waits long: those that a burst called for are soon over
/// after it. What SQS gives to a receive that nobody listens to any more is hidden, so the fewer
/// are open the better.
const SHORT_WAIT: Duration = Duration::from_secs(1);
/// How much longer than it waits a receive that is under way may take to end when the intake stops.
const LAST_RECEIVE: Duration = Duration::from_secs(1);
/// How long a receive waits for others to share its call, where the one before it has left nothing
/// behind: what comes of one incident comes message by message, and each long poll ends with the
/// first of them.
const LINGER: Duration = Duration::from_millis(100);
/// An error that a person must mend is asked about as slowly as the tenth in a row of any other.
const SLOW: u32 = 10;
/// Credentials that AWS does not take are renewed within seconds: until then it is asked as slowly
/// as after this many errors.
const RENEWED: u32 = 7;

/// How long a receive waits for the places of a full batch, while messages are decided that free
/// them.
const FULL_BATCH: Duration = Duration::from_millis(100);
/// How long a receive waits for a place before others have to make room…
const PATIENCE: Duration = Duration::from_secs(5);
/// …and while that has just happened.
const CROWDED_PATIENCE: Duration = Duration::from_millis(100);
/// What has been undecided for less than this may be decided yet: questions to AWS are answered or
/// given up within 10 s.
const UNDECIDED_FOR: Duration = Duration::from_secs(10);

/// Receives from one queue.
pub(super) struct Poller {
    pub(super) desk: Desk,
    pub(super) settings: Settings,
    pub(super) writer: Writer,
    pub(super) deliveries: mpsc::Sender<Delivery>,
    pub(super) places: Arc<Semaphore>,
    /// Bounds the bytes of messages between their receipt and the desk.
    pub(super) bytes: ByteLimit,
    /// What is held of all queues, which share the places.
    pub(super) ledgers: Arc<[Arc<Ledger>]>,
    pub(super) crowded: Seldom,
    pub(super) health: Arc<Health>,
    pub(super) stop: CancellationToken,
    /// Said when it has stopped, but for one receive, or more where they hang.
    pub(super) almost_stopped: CancellationToken,
    pub(super) alive: Loop,
}

/// What follows a receive.
struct Next {
    /// How many have failed in a row.
    failures: u32,
    /// How many long polls are wanted now.
    wanted: usize,
    /// How long the next one pauses before.
    pause: Duration,
}

/// What a receive is begun with.
#[derive(Clone, Copy)]
struct Begin {
    /// How many have failed before it, in a row.
    failures: u32,
    /// How long it pauses before.
    pause: Duration,
    /// The time of the newest message that came before it.
    newest: Option<Moment>,
    /// It waits long: one does.
    long: bool,
}

/// How one receive ended.
enum Round {
    Received {
        messages: Vec<Message>,
        places: OwnedSemaphorePermit,
        full: bool,
        quick: bool,
        behind: bool,
    },
    Failed(AwsError),
    Stopped,
}

impl Poller {
    /// Receives until the intake stops or nobody listens any more; then lets receives that are
    /// under way end. SQS does not notice that who asked is gone: what comes while a long poll was
    /// cut off it gives to that, and hides it for the visibility timeout
    /// (github.com/aws/aws-sdk-js/issues/2350, github.com/aws/aws-sdk-net/issues/1680). Half of a
    /// spot notice would pass.
    pub(super) async fn run(self) {
        // Said also where this ends otherwise: somebody waits for it.
        let _said_in_the_end = self.almost_stopped.clone().drop_guard();
        let mut rounds = FuturesUnordered::new();
        let mut target = 1;
        let mut newest = None;
        rounds.push(self.round(Begin { failures: 0, pause: Duration::ZERO, newest, long: true }));
        loop {
            self.alive.turned();
            let (begun, round) = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                () = self.deliveries.closed() => break,
                Some(ended) = rounds.next() => ended,
                // A round may wait for a place for as long as everything that is held stays
                // undecided.
                () = tokio::time::sleep(TURN) => continue,
            };
            if let Round::Received { messages, .. } = &round {
                newest = newest.max(messages.iter().filter_map(|m| m.sent).max());
            }
            let next = self.ended(begun.failures, round, target);
            if next.wanted != target {
                target = next.wanted;
                self.desk.tell(IntakeEvent::Pollers(target));
            }
            // The round that ended goes on where it was, the long one always; those that are new
            // start afresh.
            if begun.long || rounds.len() < target {
                rounds.push(self.round(Begin {
                    failures: next.failures,
                    pause: next.pause,
                    newest,
                    long: begun.long,
                }));
            }
            while rounds.len() < target {
                rounds.push(self.round(Begin {
                    failures: 0,
                    pause: Duration::ZERO,
                    newest,
                    long: false,
                }));
            }
        }
        // Without anybody who gives back, what comes now is hidden either way.
        let patience = if self.settings.writes == Writes::All {
            self.settings.wait + LAST_RECEIVE
        } else {
            Duration::ZERO
        };
        let (begun, short) = (Instant::now(), patience.min(SHORT_WAIT + LAST_RECEIVE));
        for (left, limit) in [(1, short), (0, patience)] {
            let end = async {
                while rounds.len() > left
                    && let Some((begun, round)) = rounds.next().await
                {
                    self.ended(begun.failures, round, target);
                }
            };
            if tokio::time::timeout_at(begun + limit, end).await.is_err() {
                tracing::debug!(
                    queue = %self.desk.name, under_way = rounds.len(),
                    "Receives take longer than they should; stopping all the same."
                );
            }
            // One is left, or a moment was enough: what is held can be given back.
            self.almost_stopped.cancel();
        }
    }

    /// One receive, after a pause.
    async fn round(&self, begin: Begin) -> (Begin, Round) {
        let Begin { failures, pause, newest, long } = begin;
        let receive = async {
            let pause = if failures > 0 {
                backoff(LONGEST_PAUSE).after(failures - 1).pause(&self.desk.random)
            } else {
                pause
            };
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            self.free_places(BATCH.min(self.settings.max_held).max(1)).await
        };
        let places = tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            () = self.deliveries.closed() => None,
            places = receive => places,
        };
        let Some(places) = places else { return (begin, Round::Stopped) };
        let wait = match () {
            // The first receive, and the first after an error, does not wait: it shows at once
            // whether the queue is there.
            () if !self.health.proven() => Duration::ZERO,
            () if long => self.settings.wait,
            () => self.settings.wait.min(SHORT_WAIT),
        };
        let (started, count) = (Instant::now(), places.num_permits());
        match self.desk.queue.receive(count, wait, self.settings.visibility, &self.bytes).await {
            Ok(messages) => {
                let early = if long { (wait / 2).max(Duration::from_secs(1)) } else { wait / 2 };
                let quick =
                    messages.is_empty() && started.elapsed() < early && self.health.proven();
                // What was sent before a message that has come already was there at that time, and
                // comes the first time now: SQS has answered from some of its servers. With few
                // messages in the queue it brings one or two a call, however many are waiting
                // (github.com/boto/boto3/issues/324).
                let behind = messages
                    .iter()
                    .any(|m| m.receive_count <= 1 && m.sent.is_some() && m.sent < newest);
                (
                    begin,
                    Round::Received {
                        full: messages.len() >= count,
                        messages,
                        places,
                        quick,
                        behind,
                    },
                )
            }
            Err(error) => (begin, Round::Failed(error)),
        }
    }

    /// Places for `count` messages; soon for fewer, at least one. Where messages that nobody can
    /// decide take all places, the oldest that owe nothing make room.
    async fn free_places(&self, count: usize) -> Option<OwnedSemaphorePermit> {
        let places =
            |n: usize| Arc::clone(&self.places).acquire_many_owned(u32::try_from(n).unwrap_or(1));
        if let Ok(all) = tokio::time::timeout(FULL_BATCH, places(count)).await {
            return all.ok();
        }
        loop {
            let patience = if self.health.crowded() { CROWDED_PATIENCE } else { PATIENCE };
            if let Ok(one) = tokio::time::timeout(patience, places(1)).await {
                let mut some = one.ok()?;
                while some.num_permits() < count
                    && let Ok(more) = Arc::clone(&self.places).try_acquire_owned()
                {
                    some.merge(more);
                }
                return Some(some);
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
                    "No room for more messages: too many are held undecided. The oldest that owe \
                     no lifecycle hook are given up and reappear by themselves; see what the \
                     others wait for, or raise --max-held."
                );
            }
        }
    }

    fn ended(&self, failures: u32, round: Round, target: usize) -> Next {
        match round {
            Round::Stopped => Next { failures, wanted: target, pause: Duration::ZERO },
            Round::Failed(error) => {
                self.desk.tell(IntakeEvent::ReceiveFailed(error.outcome()));
                let failures = 1 + match error.advice() {
                    Advice::Retry if error.outcome() == Outcome::Credentials => {
                        failures.max(RENEWED)
                    }
                    Advice::Retry => failures,
                    Advice::Gone | Advice::Denied => failures.max(SLOW),
                };
                self.health.failed(&self.desk.name, error);
                Next { failures, wanted: (target / 2).max(1), pause: Duration::ZERO }
            }
            Round::Received { messages, mut places, full, quick, behind } => {
                self.health.answered(&self.desk.name);
                self.desk.tell(IntakeEvent::Received(messages.len()));
                let bytes = messages.iter().map(|m| m.body.len()).sum();
                let wanted = match messages.len() {
                    _ if full || behind => (target * 2).min(self.settings.pollers.max(1)),
                    // Many long polls would end with a message each.
                    few if few < BATCH / 2 => target.saturating_sub(1).max(1),
                    _ => target,
                };
                // What waits for room may time out, and would be hidden then: large bodies come by
                // fewer receives.
                let wanted = wanted.min(ByteLimit::answers_of(bytes));
                let pause =
                    if full || behind || messages.is_empty() { Duration::ZERO } else { LINGER };
                for message in messages {
                    self.deliver(message, &mut places);
                }
                // A server that does not wait when it has nothing must not be asked without pause.
                Next {
                    failures: if quick { (failures + 1).min(SLOW / 2) } else { 0 },
                    wanted,
                    pause,
                }
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
                let delivery = Delivery {
                    body,
                    sent,
                    receive_count,
                    queue: Arc::clone(&self.desk.name),
                    ticket,
                };
                // There is room for every message that is held. When nobody listens any more, the
                // ticket is dropped here.
                self.deliveries.try_send(delivery).ok();
            }
            Some(Admission::Copy) => self.desk.tell(IntakeEvent::Redelivered),
            None => {
                tracing::warn!(
                    queue = %self.desk.name,
                    "SQS gave more messages than it was asked for; one is left alone."
                );
            }
        }
    }
}
