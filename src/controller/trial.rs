//! A trial: a dry run on a queue of its own, which records what comes and what would be done with
//! it, and deletes it.

use std::{
    fmt, fs, io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use aws_config::SdkConfig;
use serde::{Deserialize, Serialize};
use tracing::error;

use super::context::Term;
use crate::{
    aws::{AwsError, CallObserver, Clients},
    config::QueueConfig,
    domain::{Interruption, Moment, Taken},
    runtime::Clock,
};

/// How the line begins that every trial logs at its start. `sundown trial-report` knows by it the
/// log of a trial to which nothing came.
pub const TRIAL_BEGINS: &str = "Trial: nothing is written to AWS or Kubernetes";

/// One line of a trial's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialEntry {
    /// The version of this shape: 1.
    pub trial: u32,
    /// When it was decided.
    pub at: Moment,
    /// When its message was sent to the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Moment>,
    /// When its message was received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<Moment>,
    /// The event's own id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub event: String,
    /// Its kind; empty where the message is about no interruption.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// When AWS says that it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Moment>,
    /// The instance.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instance: String,
    /// Its Auto Scaling group, where the event names it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The lifecycle hook.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hook: String,
    /// The node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// What would be done.
    pub would: Would,
    /// Why nothing would be done, or why it was not understood.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// When the machine goes, where the event says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<Moment>,
}

/// What would be done with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Would {
    /// Cordon and drain the node.
    Drain,
    /// Complete the lifecycle action: the instance has no node.
    Complete,
    /// Answer the launch hook with CONTINUE.
    AnswerLaunch,
    /// Nothing.
    Nothing,
    /// Leave it for the dead-letter queue.
    NotUnderstood,
}

impl TrialEntry {
    /// About a message that is about no interruption.
    pub(super) fn of_message(at: Moment, sent: Option<Moment>, would: Would, why: &str) -> Self {
        let none = String::new;
        Self {
            trial: 1,
            at,
            sent,
            received: None,
            event: none(),
            kind: none(),
            time: None,
            instance: none(),
            group: none(),
            hook: none(),
            node: none(),
            would,
            why: why.to_owned(),
            ends: None,
        }
    }

    /// About an interruption.
    pub(super) fn of(
        interruption: &Interruption,
        at: Moment,
        sent: Option<Moment>,
        received: Moment,
        would: Would,
    ) -> Self {
        let (instance, hook) = (&interruption.instance, interruption.hook());
        Self {
            received: Some(received),
            event: interruption.event_id.clone(),
            kind: interruption.kind().as_str().to_owned(),
            time: interruption.time,
            instance: instance.to_string(),
            group: hook.map(|h| h.group.to_string()).unwrap_or_default(),
            hook: hook.map(|h| h.hook.to_string()).unwrap_or_default(),
            ends: Taken::new(interruption, instance, sent, at, false).machine_goes(),
            ..Self::of_message(at, sent, would, "")
        }
    }
}

/// Where a trial is recorded. Clones write to the same place.
#[derive(Clone)]
pub struct TrialLog(Arc<Mutex<Box<dyn io::Write + Send>>>);

impl fmt::Debug for TrialLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a trial's log)")
    }
}

impl TrialLog {
    /// Appends to a file; `-` is standard output.
    pub fn open(path: &Path) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self::to(io::stdout()));
        }
        Ok(Self::to(fs::OpenOptions::new().create(true).append(true).open(path)?))
    }

    /// Writes there.
    pub fn to(place: impl io::Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(place))))
    }

    fn write(&self, entry: &TrialEntry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One write a line: what ends in the middle of a trial leaves whole lines behind.
        place.write_all(&line)?;
        place.flush()
    }
}

impl Term {
    /// This run is a trial.
    pub(super) fn is_trial(&self) -> bool {
        self.sinks.trial.is_some()
    }

    /// Records an event of a trial. False: it could not be written down, so its message stays.
    pub(super) fn record_trial(&self, entry: &TrialEntry) -> bool {
        let Some(log) = &self.sinks.trial else { return false };
        let written = log.write(entry);
        if let Err(error) = &written
            && self.first_said(&format!("trial log {error}"))
        {
            error!(%error, "The trial's log cannot be written: events stay in their queue until \
                it can.");
        }
        written.is_ok()
    }
}

/// A queue is not one that a trial may delete from.
#[derive(Debug, thiserror::Error)]
pub enum NotATrialQueue {
    /// It has a dead-letter queue.
    #[error(
        "{0} has a dead-letter queue, which no queue of a trial has: it looks like one that \
         somebody lives on. Nothing was received; make a queue for the trial alone (terraform/: \
         trial_queue)"
    )]
    HasDeadLetters(String),
    /// It cannot be asked.
    #[error(
        "{queue} cannot be asked whether it is the queue of a trial; nothing was received. Allow \
         sqs:GetQueueAttributes, and see that it is there"
    )]
    Silent {
        /// Which.
        queue: String,
        /// Why.
        #[source]
        source: AwsError,
    },
}

/// Looks at the queues of a trial before anything is received.
pub async fn vouch(
    queues: &QueueConfig,
    aws: &SdkConfig,
    clock: Clock,
    observer: Arc<dyn CallObserver>,
) -> Result<(), NotATrialQueue> {
    let clients = Clients::from_config(aws, clock, observer);
    for url in &queues.urls {
        let queue = clients.queue(&url.url);
        match queue.attributes().await {
            Ok(attributes) if attributes.redrive_policy.is_some() => {
                return Err(NotATrialQueue::HasDeadLetters(url.url.clone()));
            }
            Ok(_) => {}
            Err(source) => return Err(NotATrialQueue::Silent { queue: url.url.clone(), source }),
        }
    }
    Ok(())
}
