//! Whether the queues answer, and what is said of that.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::ledger::Ledger;
use crate::aws::{Advice, AwsError, ByteLimit, Outcome};

/// A queue is said to be out of reach when it has failed for this long.
const UNHEALTHY_AFTER: Duration = Duration::from_secs(10);
/// For so long after there was no room for more messages an intake counts as crowded.
const CROWDED_FOR: Duration = Duration::from_secs(30);
/// How often a lasting error is logged.
const LOG_EVERY: Duration = Duration::from_mins(1);

/// Looks at a running intake from outside: for readiness and for gauges. After the intake has
/// stopped it shows the end.
#[derive(Debug, Clone)]
pub struct IntakeView {
    pub(super) queues: Arc<[Viewed]>,
    pub(super) bytes: ByteLimit,
}

/// One queue of it.
#[derive(Debug)]
pub(super) struct Viewed {
    pub(super) name: Arc<str>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) health: Arc<Health>,
}

impl IntakeView {
    /// Every queue has answered, and none has failed for 10 s, or with an error that a person must
    /// mend, since; and there is room for more messages.
    #[must_use]
    pub fn healthy(&self) -> bool {
        self.queues.iter().all(|q| q.health.healthy()) && !self.crowded()
    }

    /// Nothing more could be received lately: too many messages are held undecided.
    #[must_use]
    pub fn crowded(&self) -> bool {
        self.queues.iter().any(|q| q.health.crowded())
    }

    /// What is wrong with which queue.
    #[must_use]
    pub fn troubles(&self) -> Vec<(Arc<str>, AwsError)> {
        self.queues
            .iter()
            .filter_map(|q| Some((Arc::clone(&q.name), q.health.trouble()?)))
            .collect()
    }

    /// How many messages are held, those included whose delete is not done yet.
    #[must_use]
    pub fn held(&self) -> usize {
        self.queues.iter().map(|q| q.ledger.len()).sum()
    }

    /// How many bytes of received messages are in memory because nobody has parsed them yet.
    #[must_use]
    pub fn bytes_in_flight(&self) -> usize {
        self.bytes.in_flight()
    }
}

/// Says yes once a minute: for logs that could be many.
#[derive(Debug, Default)]
pub(super) struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    pub(super) fn now(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|at| at.elapsed() >= LOG_EVERY);
        if due {
            *last = Some(Instant::now());
        }
        due
    }
}

/// Whether a queue answers.
#[derive(Debug, Default)]
pub(super) struct Health(Mutex<Condition>);

#[derive(Debug, Default)]
struct Condition {
    answered: bool,
    trouble: Option<Trouble>,
    /// When there was last no room for more messages.
    crowded: Option<Instant>,
}

#[derive(Debug)]
struct Trouble {
    since: Instant,
    logged: Instant,
    error: AwsError,
}

impl Health {
    /// It has answered, and has not failed for long since.
    pub(super) fn healthy(&self) -> bool {
        let condition = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bad =
            |t: &Trouble| t.error.advice() != Advice::Retry || t.since.elapsed() >= UNHEALTHY_AFTER;
        condition.answered && !condition.trouble.as_ref().is_some_and(bad)
    }

    /// There was no room for more messages lately.
    pub(super) fn crowded(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .crowded
            .is_some_and(|at| at.elapsed() < CROWDED_FOR)
    }

    pub(super) fn no_room(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).crowded = Some(Instant::now());
    }

    /// What is wrong with it.
    pub(super) fn trouble(&self) -> Option<AwsError> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .trouble
            .as_ref()
            .map(|t| t.error.clone())
    }

    /// The last that was heard of it was an answer.
    pub(super) fn proven(&self) -> bool {
        let condition = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        condition.answered && condition.trouble.is_none()
    }

    pub(super) fn answered(&self, queue: &str) {
        let mut condition = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        condition.answered = true;
        if let Some(trouble) = condition.trouble.take() {
            tracing::info!(queue, after = ?trouble.since.elapsed(), "The queue answers again.");
        }
    }

    pub(super) fn failed(&self, queue: &str, error: AwsError) {
        let mut condition = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let before = condition.trouble.take();
        let news = before.as_ref().is_none_or(|t| {
            t.error.outcome() != error.outcome() || t.logged.elapsed() >= LOG_EVERY
        });
        let (since, logged) =
            before.map_or((now, now), |t| (t.since, if news { now } else { t.logged }));
        if news {
            match error.advice() {
                Advice::Retry if error.outcome() == Outcome::Credentials => tracing::warn!(
                    queue, %error,
                    "No valid credentials to receive messages with; trying again. If this lasts, \
                     check what gives the pod its role."
                ),
                Advice::Retry => {
                    tracing::warn!(queue, %error, "Could not receive messages; trying again.");
                }
                Advice::Denied => {
                    tracing::error!(
                        queue, %error,
                        "Not allowed to receive messages: check the role and its policy \
                         (sqs:ReceiveMessage, and kms:Decrypt for an encrypted queue).");
                }
                Advice::Gone => {
                    tracing::error!(
                        queue, %error,
                        "The queue does not exist: check --queue-url, its region and its account.");
                }
            }
        }
        condition.trouble = Some(Trouble { since, logged, error });
    }
}
