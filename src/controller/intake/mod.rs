//! From the queues to the message reader: receives messages, keeps them invisible to other readers
//! of the queue while they are undecided, and deletes them or gives them back.
//!
//! No message and no answer of SQS ends the intake: it retries after every error, with full jitter,
//! and [`IntakeHandle::healthy`] shows the trouble.

mod extender;
mod health;
mod held;
mod observer;
mod poller;
mod ticket;
mod writer;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

pub use self::health::IntakeView;
pub use self::observer::IntakeEvent;
pub use self::ticket::Ticket;
use self::{
    health::{LogLimit, Viewed},
    held::HeldMessages,
    poller::Poller,
    writer::{IntakeQueue, ReleasedMessage, Writer},
};
use crate::{
    aws::{Body, ByteLimit, Queue},
    domain::Moment,
    observe::Loop,
    runtime::{Backoff, Observer, Random, Spawner},
};

/// The upper bound of the random pause after the first error.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// How long a stop waits at most for the last writes, once the last long poll has ended.
const STOP: Duration = Duration::from_secs(3);

/// How queues are consumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The most receives under way at once for each queue (1 to 16 is sensible).
    pub pollers: usize,
    /// `WaitTimeSeconds`: how long a receive waits for the first message (20 s at most).
    pub wait: Duration,
    /// `VisibilityTimeout`: how long a message stays invisible to others. It is extended when half
    /// of this time has passed.
    pub visibility: Duration,
    /// The most messages held at once, over all queues. At that number nothing more is received.
    pub max_held: usize,
    /// A message that has been held for this long is not extended again: SQS keeps no message
    /// invisible for more than 12 h.
    pub extend_limit: Duration,
    /// What is written to the queues.
    pub writes: Writes,
}

/// What an intake writes to its queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Deletes decided messages, extends undecided ones, and gives them back when it stops.
    All,
    /// Deletes decided messages. Undecided ones reappear by themselves (a trial).
    Deletes,
    /// Nothing. All messages reappear by themselves (a dry run).
    Nothing,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pollers: 16,
            wait: Duration::from_secs(20),
            visibility: Duration::from_mins(1),
            max_held: 10_000,
            extend_limit: Duration::from_mins(11 * 60 + 30),
            writes: Writes::All,
        }
    }
}

/// A received message that waits for a decision.
#[derive(Debug)]
pub struct Delivery {
    /// The body, not yet parsed. Drop it after parsing: until then it takes memory that other
    /// messages wait for.
    pub body: Body,
    /// When it was sent to the queue, on AWS's clock. `None` if SQS did not report that.
    pub sent: Option<Moment>,
    /// How often it was received, 1 the first time.
    pub receive_count: u32,
    /// The name of its queue.
    pub queue: Arc<str>,
    /// Takes the decision. If it is dropped, the message reappears by itself.
    pub ticket: Ticket,
}

/// Receives from all queues. See [`Intake::start`].
#[derive(Debug)]
pub struct Intake;

/// The running intake. If it is dropped, the intake ends at once, and held messages reappear by
/// themselves.
#[derive(Debug)]
pub struct IntakeHandle {
    queues: Vec<Running>,
    view: IntakeView,
    stop: CancellationToken,
    finish: CancellationToken,
}

/// The tasks of one queue.
#[derive(Debug)]
struct Running {
    held: Arc<HeldMessages>,
    writer: Writer,
    almost_stopped: CancellationToken,
    poller: AbortOnDropHandle<()>,
    extender: Option<AbortOnDropHandle<()>>,
    writers: Vec<AbortOnDropHandle<()>>,
}

impl Intake {
    /// Starts to receive from `queues`, each in a loop of its own that `alive` registers. The
    /// receiver yields the messages. It ends when the intake has stopped.
    pub fn start(
        queues: Vec<Queue>,
        settings: &Settings,
        random: &Random,
        spawner: &Spawner,
        observer: &Arc<dyn Observer<IntakeEvent>>,
        alive: &dyn Fn() -> Loop,
    ) -> (mpsc::Receiver<Delivery>, IntakeHandle) {
        let (deliveries, receiver) = mpsc::channel(settings.max_held.max(1));
        let places = Arc::new(Semaphore::new(settings.max_held.max(1)));
        let bytes = ByteLimit::default();
        let (stop, finish) = (CancellationToken::new(), CancellationToken::new());
        let half = (settings.writes == Writes::All).then_some(settings.visibility / 2);
        let all_held: Arc<[_]> = queues
            .iter()
            .map(|_| Arc::new(HeldMessages::new(half, settings.extend_limit)))
            .collect();
        let start = |(queue, held): (Queue, &Arc<HeldMessages>)| {
            let queue = IntakeQueue {
                name: queue.name().into(),
                sqs: queue,
                held: Arc::clone(held),
                random: random.clone(),
                observer: Arc::clone(observer),
                give_up_after: settings.visibility,
                log: Arc::new(LogLimit::default()),
            };
            let (writer, writers) = match settings.writes {
                Writes::Nothing => (Writer::dry(), Vec::new()),
                writes => write(&queue, writes, &finish, spawner),
            };
            let poller = Poller {
                queue: queue.clone(),
                settings: settings.clone(),
                writer: writer.clone(),
                deliveries: deliveries.clone(),
                places: Arc::clone(&places),
                bytes: bytes.clone(),
                all_held: Arc::clone(&all_held),
                crowded: LogLimit::default(),
                health: Arc::default(),
                stop: stop.clone(),
                almost_stopped: CancellationToken::new(),
                alive: alive(),
            };
            let almost_stopped = poller.almost_stopped.clone();
            let viewed = Viewed {
                name: Arc::clone(&queue.name),
                held: Arc::clone(&queue.held),
                health: Arc::clone(&poller.health),
            };
            let running = Running {
                held: Arc::clone(&queue.held),
                writer,
                writers,
                almost_stopped,
                poller: spawner.spawn_scoped(poller.run()),
                extender: half
                    .map(|_| spawner.spawn_scoped(extender::run(queue, settings.visibility))),
            };
            (running, viewed)
        };
        let (queues, viewed): (_, Vec<_>) =
            queues.into_iter().zip(all_held.iter()).map(start).unzip();
        (
            receiver,
            IntakeHandle {
                queues,
                view: IntakeView { queues: viewed.into(), bytes },
                stop,
                finish,
            },
        )
    }
}

/// Starts the tasks that delete messages and give them back.
fn write(
    queue: &IntakeQueue,
    writes: Writes,
    finish: &CancellationToken,
    spawner: &Spawner,
) -> (Writer, Vec<AbortOnDropHandle<()>>) {
    let (writer, inboxes) = Writer::new();
    let (to_delete, to_release) = (queue.clone(), queue.clone());
    let deletes =
        writer::run(inboxes.deletes, writer::DELETE_LINGER, finish.clone(), move |keys| {
            to_delete.clone().delete(keys)
        });
    let mut tasks = vec![spawner.spawn_scoped(deletes)];
    if writes == Writes::All {
        tasks.push(spawner.spawn_scoped(writer::run(
            inboxes.releases,
            writer::RELEASE_LINGER,
            finish.clone(),
            move |given| to_release.clone().release(given),
        )));
    }
    (writer, tasks)
}

impl IntakeHandle {
    /// The state of the intake. A copy of this view may outlive the handle.
    #[must_use]
    pub fn view(&self) -> &IntakeView {
        &self.view
    }

    /// The same as [`IntakeView::healthy`].
    #[must_use]
    pub fn healthy(&self) -> bool {
        self.view.healthy()
    }

    /// Receives nothing more. Held messages may still be decided; those that are left undecided
    /// stay held until [`IntakeHandle::stop`] gives them back.
    pub fn stop_receiving(&self) {
        self.stop.cancel();
        self.queues.iter().for_each(|queue| queue.held.close());
    }

    /// Stops: receives nothing more, gives undecided messages back, deletes decided ones. That
    /// takes a second or two. Then it waits until SQS has answered the open long poll (at most
    /// [`Settings::wait`]), and gives back the messages that it brings (see `Poller::run`). Returns
    /// whether all was written within 3 s of that. A message that was not given back reappears by
    /// itself.
    pub async fn stop(self) -> bool {
        self.stop_receiving();
        let (mut queues, mut writers) = (Vec::new(), Vec::new());
        for queue in self.queues {
            // A message that is about to be given back must not be extended.
            drop(queue.extender);
            writers.extend(queue.writers);
            queues.push(async move {
                queue.almost_stopped.cancelled().await;
                // SQS may return such a message at once to the open long poll, which ends with it.
                // The second call gives it back once more.
                give_back(&queue.held, &queue.writer);
                queue.poller.await.ok();
                give_back(&queue.held, &queue.writer);
            });
        }
        join_all(queues).await;
        self.finish.cancel();
        tokio::time::timeout(STOP, join_all(writers)).await.is_ok()
    }
}

/// Gives back all undecided messages.
fn give_back(held: &HeldMessages, writer: &Writer) {
    for (receipt, place) in held.forget_undecided() {
        writer.release(ReleasedMessage { receipt, hidden: Duration::ZERO, _place: place });
    }
}

/// The pauses between two tries of a call to SQS, up to `longest`.
const fn backoff(longest: Duration) -> Backoff {
    Backoff::new(FIRST_PAUSE, longest)
}
