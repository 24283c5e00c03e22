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
    aws::{ApiCall, AwsError, Clients},
    config::QueueConfig,
    domain::{Interruption, InterruptionFacts, Moment},
    runtime::{Clock, Observer},
};

/// The beginning of the line that every trial logs at its start. By it `sundown trial-report`
/// recognizes the log of a trial that received nothing.
pub const TRIAL_BEGINS: &str = "Trial: nothing is written to AWS or Kubernetes";

/// One line of a trial's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialEntry {
    /// The version of this format: 1.
    pub trial: u32,
    /// When Sundown decided. For a message without an interruption on our clock, otherwise on
    /// AWS's, as the times below.
    pub at: Moment,
    /// When its message was sent to the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Moment>,
    /// When its message was received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<Moment>,
    /// The id in the event.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub event: String,
    /// The kind of the interruption. Empty if the message is about none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The time in the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Moment>,
    /// The id of the instance. Empty if the message is about no interruption.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instance: String,
    /// The Auto Scaling group that the event names, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The lifecycle hook that the event names, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hook: String,
    /// The name of the instance's Node. Empty if none is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// What would be done.
    pub would: Would,
    /// Why nothing would be done, or why the message was not understood. Otherwise empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// When AWS takes the machine away, if the event shows that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<Moment>,
}

/// What would be done with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Would {
    /// Cordon and drain the node.
    Drain,
    /// Cordon or only taint the node, and leave its pods (`--on`).
    Mark,
    /// Complete the lifecycle action, because the instance has no node.
    Complete,
    /// Answer the launch hook with CONTINUE.
    AnswerLaunch,
    /// Nothing, see [`TrialEntry::why`].
    Nothing,
    /// Leave the message for the dead-letter queue.
    NotUnderstood,
}

impl TrialEntry {
    /// An entry for a message that is about no interruption.
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

    /// An entry for an interruption.
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
            ends: InterruptionFacts::new(interruption, instance, sent, at, false).machine_ends_at(),
            ..Self::of_message(at, sent, would, "")
        }
    }
}

/// The log of a trial, one JSON object a line. Clones write to the same place.
#[derive(Clone)]
pub struct TrialLog(Arc<Mutex<Box<dyn io::Write + Send>>>);

impl fmt::Debug for TrialLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a trial's log)")
    }
}

impl TrialLog {
    /// Appends to a file. `-` is standard output.
    pub fn open(path: &Path) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self::to(io::stdout()));
        }
        Ok(Self::to(fs::OpenOptions::new().create(true).append(true).open(path)?))
    }

    /// Writes to `place`.
    pub fn to(place: impl io::Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(place))))
    }

    fn write(&self, entry: &TrialEntry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One write for each line, so that a process that is killed leaves whole lines behind.
        place.write_all(&line)?;
        place.flush()
    }
}

impl Term {
    /// Whether this run is a trial.
    pub(super) fn is_trial(&self) -> bool {
        self.shared.sinks.trial.is_some()
    }

    /// Records an event of a trial. `false`: it could not be written, so its message must stay.
    pub(super) fn record_trial(&self, entry: &TrialEntry) -> bool {
        let Some(log) = &self.shared.sinks.trial else { return false };
        let written = log.write(entry);
        if let Err(error) = &written
            && self.is_first_report(&format!("trial log {error}"))
        {
            error!(%error, "Cannot write the trial's log. Events stay in their queue until that \
                works.");
        }
        written.is_ok()
    }
}

/// A trial must not delete from a queue.
#[derive(Debug, thiserror::Error)]
pub enum NotATrialQueue {
    /// The queue with this URL has a dead-letter queue.
    #[error(
        "{0} has a dead-letter queue, so it looks like a queue in use, and a trial deletes what it \
         receives. Nothing was received; make a queue for the trial alone (terraform/: trial_queue)"
    )]
    HasDeadLetters(String),
    /// The attributes of the queue cannot be read.
    #[error(
        "the attributes of {queue} cannot be read, which show whether it is the queue of a trial; \
         nothing was received. Allow sqs:GetQueueAttributes, and check that the queue exists"
    )]
    Silent {
        /// The URL of the queue.
        queue: String,
        /// The error of the call.
        #[source]
        source: AwsError,
    },
}

/// Checks the queues of a trial before anything is received: a queue with a dead-letter queue is
/// refused. Fails also if the attributes of a queue cannot be read.
pub async fn check_trial_queues(
    queues: &QueueConfig,
    aws: &SdkConfig,
    clock: Clock,
    observer: Arc<dyn Observer<ApiCall>>,
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
