//! Kubernetes Events: what people see with `kubectl describe`.

use std::time::Duration;

use super::Cluster;
use crate::domain::{NodeName, PodKey, PodUid};

/// What an Event is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// A Node.
    Node(NodeName),
    /// A pod.
    Pod(PodKey, PodUid),
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// `Normal`.
    Normal,
    /// `Warning`.
    Warning,
}

/// One thing to be told. Two with the same object, reason and message are one Event with a count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventNote {
    /// The object.
    pub about: About,
    /// How bad it is.
    pub severity: Severity,
    /// Why, in one CamelCase word.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// How Events are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecorderSettings {
    /// How many requests a second at most.
    pub per_second: u32,
    /// How many Events wait at most; what comes beyond is dropped and counted.
    pub waiting: usize,
    /// For how long equal ones are counted up on one Event.
    pub window: Duration,
    /// Which replica says so: the name of our pod or host.
    pub instance: String,
}

impl Default for RecorderSettings {
    fn default() -> Self {
        Self { per_second: 20, waiting: 1000, window: Duration::from_mins(10), instance: "sundown".to_owned() }
    }
}

/// What became of Events, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecorderCounts {
    /// Written to the API server: created or counted up.
    pub written: u64,
    /// Told by the count of another one.
    pub coalesced: u64,
    /// Dropped because too many waited.
    pub dropped: u64,
    /// Dropped because the API server did not take them.
    pub failed: u64,
}

/// Writes Events, never faster than told and never before anything more important. Clones share it.
#[derive(Clone)]
pub struct Recorder {
    _todo: Cluster,
}

impl Recorder {
    /// A recorder with nothing to say yet.
    #[must_use]
    pub fn start(cluster: &Cluster, settings: RecorderSettings) -> Self {
        let _ = settings;
        Self { _todo: cluster.clone() }
    }

    /// Has it told, soon. Does not wait.
    pub fn note(&self, _note: EventNote) {
        todo!()
    }

    /// What became of them so far.
    #[must_use]
    pub fn counts(&self) -> RecorderCounts {
        todo!()
    }

    /// Waits until everything is written, `limit` at most; says whether it is.
    pub async fn flush(&self, _limit: Duration) -> bool {
        todo!()
    }
}
