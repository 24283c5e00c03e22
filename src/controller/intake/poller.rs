//! Receives messages from one queue, with as many receives at once as the queue keeps busy.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Delivery, IntakeEvent, Settings, Ticket, Writes, backoff,
    health::{Health, LogLimit},
    held::{Admission, HeldMessages},
    writer::{IntakeQueue, Writer},
};
use crate::{
    aws::{Advice, AwsError, ByteLimit, Message, Outcome, queue::BATCH},
    domain::Moment,
    observe::Loop,
};

/// The loop of the poller turns at least this often.
const TURN: Duration = Duration::from_secs(10);
/// The longest pause after an error.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// How long each receive waits beside the one long poll. After a burst the additional receives
/// must soon be over: SQS hides the messages that it gives to a receive whose client has
/// disconnected, so few receives should be open.
const SHORT_WAIT: Duration = Duration::from_secs(1);
/// When the intake stops, it waits for an open receive for the receive's own wait time and this
/// much longer.
const LAST_RECEIVE: Duration = Duration::from_secs(1);
/// The pause before a receive if the one before it brought messages and emptied the queue. The
/// messages of one incident arrive one by one, and each long poll ends with the first of them: the
/// pause lets the next receive bring several.
const LINGER: Duration = Duration::from_millis(100);
/// An error that a person must fix counts as at least this many errors in a row, which makes the
/// pause long.
const SLOW: u32 = 10;
/// The same for credentials that AWS refuses. They are renewed within seconds, so the pause is
/// shorter.
const RENEWED: u32 = 7;

/// How long a receive waits until enough places for a full batch are free.
const FULL_BATCH: Duration = Duration::from_millis(100);
/// How long a receive waits for one place before held messages are given up to make room.
const PLACE_TIMEOUT: Duration = Duration::from_secs(5);
/// The same if there was no room within the last 30 s.
const CROWDED_PLACE_TIMEOUT: Duration = Duration::from_millis(100);
/// A message is given up only after it has been undecided for this long. Earlier it may still be
/// decided: questions to AWS are answered or given up within 10 s.
const UNDECIDED_FOR: Duration = Duration::from_secs(10);

/// Receives from one queue.
pub(super) struct Poller {
    pub(super) queue: IntakeQueue,
    pub(super) settings: Settings,
    pub(super) writer: Writer,
    pub(super) deliveries: mpsc::Sender<Delivery>,
    pub(super) places: Arc<Semaphore>,
    /// Limits the bytes of received messages that are not parsed yet.
    pub(super) bytes: ByteLimit,
    /// The held messages of all queues, which share the places.
    pub(super) all_held: Arc<[Arc<HeldMessages>]>,
    pub(super) crowded: LogLimit,
    pub(super) health: Arc<Health>,
    pub(super) stop: CancellationToken,
    /// Canceled when the poller has stopped except for one receive, or for more if they hang.
    pub(super) almost_stopped: CancellationToken,
    pub(super) alive: Loop,
}

/// What follows a receive.
struct Next {
    /// How many receives have failed in a row.
    failures: u32,
    /// How many receives are to be under way at once.
    wanted: usize,
    /// The pause before the next receive.
    pause: Duration,
}

/// The parameters of a receive.
#[derive(Clone, Copy)]
struct Begin {
    /// How many receives before it have failed in a row.
    failures: u32,
    /// The pause before it, unless a receive has failed.
    pause: Duration,
    /// When the newest message so far was sent.
    newest: Option<Moment>,
    /// Whether it is the long poll. There is one at a time.
    long: bool,
}

/// How one receive ended.
enum Round {
    Received {
        messages: Vec<Message>,
        places: OwnedSemaphorePermit,
        /// It brought as many messages as it asked for.
        full: bool,
        /// It came back without messages, well before its wait time was over.
        quick: bool,
        /// More messages are waiting in the queue, as far as the times of these show.
        behind: bool,
    },
    Failed(AwsError),
    Stopped,
}

impl Poller {
    /// Receives until the intake stops or the receiver of the deliveries is dropped. Then it waits
    /// for the open receives: SQS keeps serving a long poll after the client disconnects, so a new
    /// message would go to that long poll and stay hidden for the visibility timeout
    /// (github.com/aws/aws-sdk-js/issues/2350, github.com/aws/aws-sdk-net/issues/1680). That is
    /// half of the time of a spot notice.
    pub(super) async fn run(self) {
        // Cancels the token also if this future is dropped: `IntakeHandle::stop` waits for it.
        let _canceled_on_drop = self.almost_stopped.clone().drop_guard();
        let mut rounds = FuturesUnordered::new();
        let mut target = 1;
        let mut newest = None;
        rounds.push(self.round(Begin { failures: 0, pause: Duration::ZERO, newest, long: true }));
        loop {
            self.alive.made_progress();
            let (begun, round) = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                () = self.deliveries.closed() => break,
                Some(ended) = rounds.next() => ended,
                // A round waits for a place until one of the held messages is decided or given up.
                () = tokio::time::sleep(TURN) => continue,
            };
            if let Round::Received { messages, .. } = &round {
                newest = newest.max(messages.iter().filter_map(|m| m.sent).max());
            }
            let next = self.ended(begun.failures, round, target);
            if next.wanted != target {
                target = next.wanted;
                self.queue.report(IntakeEvent::Pollers(target));
            }
            // A receive that goes on keeps its count of failures. The long poll always goes on, the
            // others only up to `target`. Additional receives start without failures.
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
        // If the intake gives nothing back, the messages of the open receives stay hidden anyway,
        // and there is no reason to wait.
        let longest = if self.settings.writes == Writes::All {
            self.settings.wait + LAST_RECEIVE
        } else {
            Duration::ZERO
        };
        let (begun, short) = (Instant::now(), longest.min(SHORT_WAIT + LAST_RECEIVE));
        for (left, limit) in [(1, short), (0, longest)] {
            let end = async {
                while rounds.len() > left
                    && let Some((begun, round)) = rounds.next().await
                {
                    self.ended(begun.failures, round, target);
                }
            };
            if tokio::time::timeout_at(begun + limit, end).await.is_err() {
                tracing::debug!(
                    queue = %self.queue.name, under_way = rounds.len(),
                    "Receives take longer than they should; stopping all the same."
                );
            }
            // At most one receive is left, or the short limit is over: held messages can be given
            // back now.
            self.almost_stopped.cancel();
        }
    }

    /// One receive, after a pause.
    async fn round(&self, begin: Begin) -> (Begin, Round) {
        let Begin { failures, pause, newest, long } = begin;
        let receive = async {
            let pause = if failures > 0 {
                backoff(LONGEST_PAUSE).after(failures - 1).pause(&self.queue.random)
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
            // whether the queue answers.
            () if !self.health.proven() => Duration::ZERO,
            () if long => self.settings.wait,
            () => self.settings.wait.min(SHORT_WAIT),
        };
        let (started, count) = (Instant::now(), places.num_permits());
        match self.queue.sqs.receive(count, wait, self.settings.visibility, &self.bytes).await {
            Ok(messages) => {
                let early = if long { (wait / 2).max(Duration::from_secs(1)) } else { wait / 2 };
                let quick =
                    messages.is_empty() && started.elapsed() < early && self.health.proven();
                // A message that comes for the first time, but was sent before one that came
                // earlier, was in the queue at that time: SQS answers from only some of its
                // servers. With few messages in the queue it returns one or two a call, however
                // many are waiting (github.com/boto/boto3/issues/324).
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

    /// Waits a moment for places for `count` messages, then for at least one. While all places are
    /// taken by undecided messages, gives up the oldest of those that may be given up.
    async fn free_places(&self, count: usize) -> Option<OwnedSemaphorePermit> {
        let places =
            |n: usize| Arc::clone(&self.places).acquire_many_owned(u32::try_from(n).unwrap_or(1));
        if let Ok(all) = tokio::time::timeout(FULL_BATCH, places(count)).await {
            return all.ok();
        }
        loop {
            let limit = if self.health.crowded() { CROWDED_PLACE_TIMEOUT } else { PLACE_TIMEOUT };
            if let Ok(one) = tokio::time::timeout(limit, places(1)).await {
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
            for held in self.all_held.iter() {
                given_up += held.make_room(count - given_up.min(count), UNDECIDED_FOR);
            }
            if given_up > 0 {
                self.queue.report(IntakeEvent::MadeRoom(given_up));
            }
            if self.crowded.allows() {
                let held = self.settings.max_held;
                tracing::warn!(
                    queue = %self.queue.name, held,
                    "No room for more messages: too many are held undecided. The oldest without a \
                     lifecycle hook are given up and reappear by themselves. See what the others \
                     wait for, or raise --max-held."
                );
            }
        }
    }

    fn ended(&self, failures: u32, round: Round, target: usize) -> Next {
        match round {
            Round::Stopped => Next { failures, wanted: target, pause: Duration::ZERO },
            Round::Failed(error) => {
                self.queue.report(IntakeEvent::ReceiveFailed(error.outcome()));
                let failures = 1 + match error.advice() {
                    Advice::Retry if error.outcome() == Outcome::Credentials => {
                        failures.max(RENEWED)
                    }
                    Advice::Retry => failures,
                    Advice::Gone | Advice::Denied => failures.max(SLOW),
                };
                self.health.failed(&self.queue.name, error);
                Next { failures, wanted: (target / 2).max(1), pause: Duration::ZERO }
            }
            Round::Received { messages, mut places, full, quick, behind } => {
                self.health.answered(&self.queue.name);
                self.queue.report(IntakeEvent::Received(messages.len()));
                let bytes = messages.iter().map(|m| m.body.len()).sum();
                let wanted = match messages.len() {
                    _ if full || behind => (target * 2).min(self.settings.pollers.max(1)),
                    // Otherwise each of many receives would end with one message.
                    few if few < BATCH / 2 => target.saturating_sub(1).max(1),
                    _ => target,
                };
                // A receive whose bodies wait for memory may time out, and its messages would stay
                // hidden. So large bodies come through fewer receives.
                let wanted = wanted.min(ByteLimit::answers_of(bytes));
                let pause =
                    if full || behind || messages.is_empty() { Duration::ZERO } else { LINGER };
                for message in messages {
                    self.deliver(message, &mut places);
                }
                // A server that answers at once although it has no message counts as failing, so
                // that it is not asked without pause.
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
        match self.queue.held.admit(id, receipt, places) {
            Some(Admission::New(key)) => {
                if self.stop.is_cancelled() {
                    return; // It is held, and given back with the other undecided messages.
                }
                let ticket = Ticket::new(key, &self.queue.held, &self.writer);
                let delivery = Delivery {
                    body,
                    sent,
                    receive_count,
                    queue: Arc::clone(&self.queue.name),
                    ticket,
                };
                // The channel has room for every held message. If the receiver is dropped, the
                // ticket is dropped here.
                self.deliveries.try_send(delivery).ok();
            }
            Some(Admission::Copy) => self.queue.report(IntakeEvent::Redelivered),
            None => {
                tracing::warn!(
                    queue = %self.queue.name,
                    "SQS returned more messages than requested; one is left to reappear by itself."
                );
            }
        }
    }
}
