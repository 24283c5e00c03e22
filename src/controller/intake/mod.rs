//! From the queues to the desk: receives messages, holds them while they are undecided, and deletes
//! or gives back what is decided.
//!
//! Nothing that is received or answered ends it: every error is retried with full jitter, and shows
//! in [`IntakeHandle::healthy`].

mod extender;
mod health;
mod ledger;
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
pub use self::observer::{IntakeEvent, IntakeObserver};
pub use self::ticket::Ticket;
use self::{
    health::{Seldom, Viewed},
    ledger::Ledger,
    poller::Poller,
    writer::{Desk, Given, Writer},
};
use crate::{
    aws::{Body, ByteLimit, Queue},
    domain::Moment,
    observe::Loop,
    runtime::{Backoff, Random, Spawner},
};

/// The first pause after an error, before it is shortened at random.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// How long stopping takes at most when the last long poll has ended.
const STOP: Duration = Duration::from_secs(3);

/// How queues are consumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Long polls per queue at most (1 to 16 is sensible).
    pub pollers: usize,
    /// `WaitTimeSeconds`: how long a receive waits for the first message (20 s at most).
    pub wait: Duration,
    /// `VisibilityTimeout`: how long a message stays with us unless it is extended, which happens
    /// at half of it.
    pub visibility: Duration,
    /// Messages held at most, over all queues: at that number nothing more is received.
    pub max_held: usize,
    /// A message is not extended beyond this: SQS lets none be invisible for more than 12 h.
    pub extend_limit: Duration,
    /// What is written to the queues.
    pub writes: Writes,
}

/// What an intake writes to its queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// What is decided is deleted, what is not is extended, and given back at the end.
    All,
    /// What is decided is deleted; what is not reappears by itself (a trial).
    Deletes,
    /// Nothing: messages reappear by themselves (a dry run).
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

/// A message, to be decided.
#[derive(Debug)]
pub struct Delivery {
    /// Whatever somebody sent. To be dropped when it is parsed: until then it takes room that other
    /// messages wait for.
    pub body: Body,
    /// When it was sent to the queue.
    pub sent: Option<Moment>,
    /// How often it was received; 1 the first time.
    pub receive_count: u32,
    /// The name of the queue it came from.
    pub queue: Arc<str>,
    /// Decides it. Dropped, it is left alone.
    pub ticket: Ticket,
}

/// Starts the intake.
#[derive(Debug)]
pub struct Intake;

/// The running intake. Dropped, it ends at once: what is held reappears by itself.
#[derive(Debug)]
pub struct IntakeHandle {
    queues: Vec<Running>,
    view: IntakeView,
    stop: CancellationToken,
    finish: CancellationToken,
}

/// What works for one queue.
#[derive(Debug)]
struct Running {
    ledger: Arc<Ledger>,
    writer: Writer,
    almost_stopped: CancellationToken,
    poller: AbortOnDropHandle<()>,
    extender: Option<AbortOnDropHandle<()>>,
    writers: Vec<AbortOnDropHandle<()>>,
}

impl Intake {
    /// Starts to receive from `queues`, each with a loop of its own that is registered by `alive`.
    /// What is received comes out of the receiver, which ends when the intake has stopped.
    pub fn start(
        queues: Vec<Queue>,
        settings: &Settings,
        random: &Random,
        spawner: &Spawner,
        observer: &Arc<dyn IntakeObserver>,
        alive: &dyn Fn() -> Loop,
    ) -> (mpsc::Receiver<Delivery>, IntakeHandle) {
        let (deliveries, receiver) = mpsc::channel(settings.max_held.max(1));
        let places = Arc::new(Semaphore::new(settings.max_held.max(1)));
        let bytes = ByteLimit::default();
        let (stop, finish) = (CancellationToken::new(), CancellationToken::new());
        let half = (settings.writes == Writes::All).then_some(settings.visibility / 2);
        let ledgers: Arc<[_]> =
            queues.iter().map(|_| Arc::new(Ledger::new(half, settings.extend_limit))).collect();
        let start = |(queue, ledger): (Queue, &Arc<Ledger>)| {
            let desk = Desk {
                name: queue.name().into(),
                queue,
                ledger: Arc::clone(ledger),
                random: random.clone(),
                observer: Arc::clone(observer),
                patience: settings.visibility,
                log: Arc::new(Seldom::default()),
            };
            let (writer, writers) = match settings.writes {
                Writes::Nothing => (Writer::dry(), Vec::new()),
                writes => write(&desk, writes, &finish, spawner),
            };
            let poller = Poller {
                desk: desk.clone(),
                settings: settings.clone(),
                writer: writer.clone(),
                deliveries: deliveries.clone(),
                places: Arc::clone(&places),
                bytes: bytes.clone(),
                ledgers: Arc::clone(&ledgers),
                crowded: Seldom::default(),
                health: Arc::default(),
                stop: stop.clone(),
                almost_stopped: CancellationToken::new(),
                alive: alive(),
            };
            let almost_stopped = poller.almost_stopped.clone();
            let viewed = Viewed {
                name: Arc::clone(&desk.name),
                ledger: Arc::clone(&desk.ledger),
                health: Arc::clone(&poller.health),
            };
            let running = Running {
                ledger: Arc::clone(&desk.ledger),
                writer,
                writers,
                almost_stopped,
                poller: spawner.spawn_scoped(poller.run()),
                extender: half
                    .map(|_| spawner.spawn_scoped(extender::run(desk, settings.visibility))),
            };
            (running, viewed)
        };
        let (queues, viewed): (_, Vec<_>) =
            queues.into_iter().zip(ledgers.iter()).map(start).unzip();
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

/// Starts what deletes and what gives back.
fn write(
    desk: &Desk,
    writes: Writes,
    finish: &CancellationToken,
    spawner: &Spawner,
) -> (Writer, Vec<AbortOnDropHandle<()>>) {
    let (writer, inboxes) = Writer::new();
    let (to_delete, to_release) = (desk.clone(), desk.clone());
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
    /// How it is: a copy of this view may be kept, and outlives the handle.
    #[must_use]
    pub fn view(&self) -> &IntakeView {
        &self.view
    }

    /// As [`IntakeView::healthy`].
    #[must_use]
    pub fn healthy(&self) -> bool {
        self.view.healthy()
    }

    /// Receives nothing more; what is held may still be decided, and what is left alone is kept for
    /// [`IntakeHandle::stop`] to give back.
    pub fn stop_receiving(&self) {
        self.stop.cancel();
        self.queues.iter().for_each(|queue| queue.ledger.close());
    }

    /// Stops: receives nothing more, gives back what is undecided, deletes what is to be deleted.
    /// That takes a second or two. But until SQS has answered the long poll that is open, which
    /// takes as long as it waits at most, it stays to give back what that brings (see
    /// `Poller::run`). Says whether all was written within 3 s of that. What was not given back
    /// reappears by itself.
    pub async fn stop(self) -> bool {
        self.stop_receiving();
        let (mut queues, mut writers) = (Vec::new(), Vec::new());
        for queue in self.queues {
            // Nothing is extended any more that is about to be given back.
            drop(queue.extender);
            writers.extend(queue.writers);
            queues.push(async move {
                queue.almost_stopped.cancelled().await;
                // It may come straight back through the long poll, which ends with it: then it is
                // given back once more.
                give_back(&queue.ledger, &queue.writer);
                queue.poller.await.ok();
                give_back(&queue.ledger, &queue.writer);
            });
        }
        join_all(queues).await;
        self.finish.cancel();
        tokio::time::timeout(STOP, join_all(writers)).await.is_ok()
    }
}

/// Gives back all that is undecided.
fn give_back(ledger: &Ledger, writer: &Writer) {
    for (receipt, place) in ledger.forget_undecided() {
        writer.release(Given { receipt, hidden: Duration::ZERO, _place: place });
    }
}

/// The pauses between tries of a call to SQS.
const fn backoff(longest: Duration) -> Backoff {
    Backoff::new(FIRST_PAUSE, longest)
}
