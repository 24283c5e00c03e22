//! Whether the queues answer, and the log lines about that.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::held::HeldMessages;
use crate::aws::{Advice, AwsError, ByteLimit, Outcome};

/// A queue counts as unhealthy when its receives have failed for this long.
const UNHEALTHY_AFTER: Duration = Duration::from_secs(10);
/// An intake counts as crowded for this long after there was no room for more messages.
const CROWDED_FOR: Duration = Duration::from_secs(30);
/// How often a lasting error is logged.
const LOG_EVERY: Duration = Duration::from_mins(1);

/// The state of an intake, for readiness and gauges. After the intake has stopped, it shows the
/// last state.
#[derive(Debug, Clone)]
pub struct IntakeView {
    pub(super) queues: Arc<[Viewed]>,
    pub(super) bytes: ByteLimit,
}

/// What an [`IntakeView`] shows of one queue.
#[derive(Debug)]
pub(super) struct Viewed {
    pub(super) name: Arc<str>,
    pub(super) held: Arc<HeldMessages>,
    pub(super) health: Arc<Health>,
}

impl IntakeView {
    /// Whether every queue has answered, none has since failed for 10 s or with an error that a
    /// person must fix, and there is room for more messages.
    #[must_use]
    pub fn healthy(&self) -> bool {
        self.queues.iter().all(|q| q.health.healthy()) && !self.crowded()
    }

    /// Whether within the last 30 s nothing more could be received because too many messages were
    /// held undecided.
    #[must_use]
    pub fn crowded(&self) -> bool {
        self.queues.iter().any(|q| q.health.crowded())
    }

    /// The name and the last error of each queue whose last receive failed.
    #[must_use]
    pub fn troubles(&self) -> Vec<(Arc<str>, AwsError)> {
        self.queues
            .iter()
            .filter_map(|q| Some((Arc::clone(&q.name), q.health.trouble()?)))
            .collect()
    }

    /// How many messages are held, including decided ones that SQS has not deleted yet.
    #[must_use]
    pub fn held(&self) -> usize {
        self.queues.iter().map(|q| q.held.len()).sum()
    }

    /// How many bytes of received messages are in memory because nobody has parsed them yet.
    #[must_use]
    pub fn bytes_in_flight(&self) -> usize {
        self.bytes.in_flight()
    }
}

/// Allows a log line once a minute.
#[derive(Debug, Default)]
pub(super) struct LogLimit(Mutex<Option<Instant>>);

impl LogLimit {
    pub(super) fn allows(&self) -> bool {
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
    /// When there was no room for more messages, the last time.
    crowded: Option<Instant>,
}

#[derive(Debug)]
struct Trouble {
    since: Instant,
    logged: Instant,
    error: AwsError,
}

impl Health {
    /// Whether the queue has answered, and has since not failed for too long or for good.
    pub(super) fn healthy(&self) -> bool {
        let condition = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bad =
            |t: &Trouble| t.error.advice() != Advice::Retry || t.since.elapsed() >= UNHEALTHY_AFTER;
        condition.answered && !condition.trouble.as_ref().is_some_and(bad)
    }

    /// Whether there was no room for more messages within the last 30 s.
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

    /// The last error. `None` if the last receive succeeded, or none has ended yet.
    pub(super) fn trouble(&self) -> Option<AwsError> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .trouble
            .as_ref()
            .map(|t| t.error.clone())
    }

    /// Whether the last receive succeeded.
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
