//! Kubernetes Events, which people see with `kubectl describe`.

pub mod reason;
#[cfg(test)]
mod tests;
mod wire;

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use self::reason::EventReason;
use super::{Cluster, Priority, Problem, Target};
use crate::domain::{Moment, NodeName, PodKey, PodUid};

/// The object that an Event is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// The Event is written in the namespace `default`.
    Node(NodeName),
    /// The Event is written in the namespace of the pod.
    Pod(PodKey, PodUid),
}

/// The `type` of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// `Normal`.
    Normal,
    /// `Warning`.
    Warning,
}

/// An Event to write. Equal notes within [`RecorderSettings::window`] become one Event with a
/// count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventNote {
    /// `involvedObject` of the Event.
    pub about: About,
    /// `type` of the Event.
    pub severity: Severity,
    /// `reason` of the Event.
    pub reason: EventReason,
    /// `message` of the Event; cut after 1024 bytes.
    pub message: String,
}

/// How Events are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecorderSettings {
    /// How many requests are sent in a second at most.
    pub per_second: u32,
    /// How many Events may wait; further ones are dropped and counted.
    pub waiting: usize,
    /// How long equal notes are counted on one Event after its last note.
    pub window: Duration,
    /// `reportingInstance` of the Events: the name of this replica's pod or host.
    pub instance: String,
}

impl Default for RecorderSettings {
    fn default() -> Self {
        Self {
            per_second: 20,
            waiting: 1000,
            window: Duration::from_mins(10),
            instance: "sundown".to_owned(),
        }
    }
}

/// The outcomes of all notes since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecorderCounts {
    /// Events that were created, or whose count was updated.
    pub written: u64,
    /// Notes that only raised the count of an equal Event.
    pub coalesced: u64,
    /// Notes that were dropped because too many waited, or because the recorder was closed.
    pub dropped: u64,
    /// Events that were dropped because the API server did not accept them.
    pub failed: u64,
}

/// Writes Events, at most [`RecorderSettings::per_second`] and with low priority. Clones share the
/// recorder; Events that still wait when the last clone is dropped are lost.
#[derive(Clone)]
pub struct Recorder(Arc<Inner>);

struct Inner {
    cluster: Cluster,
    shared: Arc<Shared>,
    writer: AbortOnDropHandle<()>,
}

struct Shared {
    settings: RecorderSettings,
    queue: Mutex<Queue>,
    wake: Notify,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<EventNote>,
    entries: BTreeMap<EventNote, Entry>,
    /// An Event is being written.
    writing: bool,
    /// The recorder accepts no further notes.
    closed: bool,
    counts: RecorderCounts,
}

/// One Event, and how it is written.
#[derive(Debug, Clone)]
struct Entry {
    creation: Creation,
    count: u32,
    first: Moment,
    last: Moment,
    waits: bool,
    tries: u32,
}

/// Whether an Event exists. The names are its `metadata.name`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Creation {
    /// It does not exist.
    Missing,
    /// It may exist: the answer to a request that creates it was lost. The next request uses the
    /// same name, so that the API server does not create the Event twice.
    Unanswered {
        name: String,
        /// The count in the first of these requests.
        count: u32,
    },
    /// It exists.
    Done { name: String },
}

/// How often the recorder tries to write an Event.
const TRIES: u32 = 3;

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Starts the task that writes Events.
    #[must_use]
    pub fn start(cluster: &Cluster, settings: RecorderSettings) -> Self {
        let shared = Arc::new(Shared { settings, queue: Mutex::default(), wake: Notify::new() });
        let writer = cluster.spawner().spawn_scoped(write_all(cluster.clone(), shared.clone()));
        Self(Arc::new(Inner { cluster: cluster.clone(), shared, writer }))
    }

    /// Queues an Event to be written soon. Does not wait.
    pub fn note(&self, note: EventNote) {
        let now = self.0.cluster.clock().now();
        let Shared { settings, wake, .. } = &*self.0.shared;
        let mut queue = self.0.shared.queue();
        if queue.closed {
            queue.counts.dropped += 1;
            return;
        }
        let full = queue.waiting.len() >= settings.waiting;
        let known = queue
            .entries
            .get_mut(&note)
            .filter(|e| e.waits || now.since_or_zero(e.last) <= settings.window);
        if let Some(entry) = known {
            entry.count = entry.count.saturating_add(1);
            entry.last = now;
            let to_wait = !entry.waits && !full;
            entry.waits |= to_wait;
            queue.counts.coalesced += 1;
            if !to_wait {
                // The Event that waits, or the next equal note, writes the new count.
                return;
            }
        } else if full {
            queue.counts.dropped += 1;
            return;
        } else {
            queue.forget(now, settings);
            queue.entries.insert(
                note.clone(),
                Entry {
                    creation: Creation::Missing,
                    count: 1,
                    first: now,
                    last: now,
                    waits: true,
                    tries: 0,
                },
            );
        }
        queue.waiting.push_back(note);
        wake.notify_one();
    }

    /// The outcomes of all notes so far.
    #[must_use]
    pub fn counts(&self) -> RecorderCounts {
        self.0.shared.queue().counts
    }

    /// Waits at most `limit` until all Events are written; returns whether they are.
    pub async fn flush(&self, limit: Duration) -> bool {
        let idle = async {
            loop {
                {
                    let queue = self.0.shared.queue();
                    if queue.waiting.is_empty() && !queue.writing {
                        return;
                    }
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(limit, idle).await.is_ok()
    }

    /// Waits at most `limit` until all Events are written, then drops those that still wait. A
    /// request under way gets up to `limit` once more. After this returns, the recorder sends no
    /// further request, so that only the next leader writes Events. (The API server may still
    /// perform a request that it has received but not answered.)
    pub async fn close(&self, limit: Duration) {
        self.flush(limit).await;
        self.0.shared.queue().close();
        if self.flush(limit).await {
            return;
        }
        self.0.writer.abort();
        self.0.shared.queue().counts.dropped += 1;
        let ended = async {
            while !self.0.writer.is_finished() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        drop(tokio::time::timeout(limit, ended).await);
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next Event to write.
    async fn next(&self) -> (EventNote, Entry) {
        loop {
            let woken = self.wake.notified();
            if let Some(next) = self.queue().take() {
                return next;
            }
            woken.await;
        }
    }
}

impl Queue {
    fn take(&mut self) -> Option<(EventNote, Entry)> {
        loop {
            let note = self.waiting.pop_front()?;
            if let Some(entry) = self.entries.get_mut(&note) {
                entry.waits = false;
                self.writing = true;
                return Some((note, entry.clone()));
            }
        }
    }

    fn close(&mut self) {
        self.closed = true;
        self.counts.dropped += self.waiting.len() as u64;
        self.waiting.clear();
    }

    /// Bounds the memory: removes entries of Events that were not repeated within the window, and
    /// if that is not enough, all that do not wait.
    fn forget(&mut self, now: Moment, settings: &RecorderSettings) {
        let most = settings.waiting.saturating_mul(2).max(64);
        if self.entries.len() >= most {
            self.entries.retain(|_, e| e.waits || now.since_or_zero(e.last) <= settings.window);
        }
        if self.entries.len() >= most {
            self.entries.retain(|_, e| e.waits);
        }
    }

    fn retry(&mut self, note: EventNote) {
        if let Some(entry) = self.entries.get_mut(&note).filter(|e| !e.waits) {
            entry.waits = true;
            self.waiting.push_back(note);
        }
    }
}

async fn write_all(cluster: Cluster, shared: Arc<Shared>) {
    let pace = Duration::from_secs(1) / shared.settings.per_second.max(1);
    loop {
        let (note, entry) = shared.next().await;
        let pause = write(&cluster, &shared, note, &entry).await;
        shared.queue().writing = false;
        tokio::time::sleep(pause.max(pace)).await;
    }
}

/// Writes one Event; returns the pause before the next request.
async fn write(cluster: &Cluster, shared: &Shared, note: EventNote, entry: &Entry) -> Duration {
    let (name, unanswered) = match &entry.creation {
        Creation::Missing => {
            let number = cluster.random().below(u64::MAX);
            (wire::event_name(note.about.name(), number), None)
        }
        Creation::Unanswered { name, count } => (name.clone(), Some(*count)),
        Creation::Done { name } => (name.clone(), None),
    };
    let exists = matches!(entry.creation, Creation::Done { .. });
    let request = if exists {
        wire::counting(&note, entry, &name)
    } else {
        wire::creation(&note, entry, &name, &shared.settings.instance)
    };
    let Some(request) = request else {
        shared.queue().counts.failed += 1;
        return Duration::ZERO;
    };
    let result = cluster.call(Target::Event, Priority::Low, note.about.name(), request).await;
    let mut queue = shared.queue();
    let Some(known) = queue.entries.get_mut(&note) else { return Duration::ZERO };
    let problem = match result {
        Ok(_) => {
            (known.creation, known.tries) = (Creation::Done { name }, 0);
            queue.counts.written += 1;
            return Duration::ZERO;
        }
        Err(error) => {
            tracing::debug!(%error, "the API server did not accept an Event");
            error.problem
        }
    };
    if let (Problem::Conflict, Some(count)) = (problem, unanswered) {
        // An earlier request has created it. Which count it has is only known if all had the same.
        (known.creation, known.tries) = (Creation::Done { name }, 0);
        let is_count_written = known.count == count;
        queue.counts.written += 1;
        if !is_count_written {
            queue.retry(note);
        }
        return Duration::ZERO;
    }
    known.tries += 1;
    let pause = match problem {
        // 404: the Event was deleted or has expired, so it is created again. 409: another Event has
        // the name, so another name is used.
        Problem::NotFound if exists => Duration::ZERO,
        Problem::Conflict => Duration::ZERO,
        Problem::Overload { retry_after } => retry_after.unwrap_or(Duration::from_secs(1)),
        Problem::Server | Problem::Unreachable => Duration::from_secs(1),
        _ => {
            known.tries = TRIES;
            Duration::ZERO
        }
    };
    if matches!(problem, Problem::NotFound | Problem::Conflict) {
        known.creation = Creation::Missing;
    } else if !exists && unanswered.is_none() && may_have_taken_effect(problem) {
        known.creation = Creation::Unanswered { name, count: entry.count };
    }
    if known.tries < TRIES {
        queue.retry(note);
    } else {
        known.tries = 0;
        queue.counts.failed += 1;
    }
    pause.min(Duration::from_mins(1))
}

/// Without an answer, or with one that may come from something in front of the API server, the
/// request may have created the Event.
const fn may_have_taken_effect(problem: Problem) -> bool {
    matches!(problem, Problem::Server | Problem::Unreachable | Problem::Unreadable)
}
