//! Kubernetes Events: what people see with `kubectl describe`.

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
    /// Why.
    pub reason: EventReason,
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
        Self {
            per_second: 20,
            waiting: 1000,
            window: Duration::from_mins(10),
            instance: "sundown".to_owned(),
        }
    }
}

/// What became of Events, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecorderCounts {
    /// Written to the API server: created or counted up.
    pub written: u64,
    /// Told by the count of another one.
    pub coalesced: u64,
    /// Dropped because too many waited, or because this was the end.
    pub dropped: u64,
    /// Dropped because the API server did not take them.
    pub failed: u64,
}

/// Writes Events, never faster than told and never before anything more important. Clones share it;
/// what still waits when the last one is dropped is lost.
#[derive(Clone)]
pub struct Recorder(Arc<Inner>);

struct Inner {
    cluster: Cluster,
    shared: Arc<Shared>,
    writer: AbortOnDropHandle<()>,
}

struct Shared {
    settings: RecorderSettings,
    book: Mutex<Book>,
    wake: Notify,
}

#[derive(Default)]
struct Book {
    waiting: VecDeque<EventNote>,
    entries: BTreeMap<EventNote, Entry>,
    /// One is being written.
    writing: bool,
    /// This is the end: no other one is taken.
    closed: bool,
    counts: RecorderCounts,
}

/// One Event.
#[derive(Debug, Clone)]
struct Entry {
    /// Its name, once it is created.
    name: Option<String>,
    count: u32,
    first: Moment,
    last: Moment,
    waits: bool,
    tries: u32,
}

/// How often one that the API server did not take is tried.
const TRIES: u32 = 3;

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl Recorder {
    /// A recorder with nothing to say yet.
    #[must_use]
    pub fn start(cluster: &Cluster, settings: RecorderSettings) -> Self {
        let shared = Arc::new(Shared { settings, book: Mutex::default(), wake: Notify::new() });
        let writer = cluster.spawner().spawn_scoped(write_all(cluster.clone(), shared.clone()));
        Self(Arc::new(Inner { cluster: cluster.clone(), shared, writer }))
    }

    /// Has it told, soon. Does not wait.
    pub fn note(&self, note: EventNote) {
        let now = self.0.cluster.clock().now();
        let Shared { settings, wake, .. } = &*self.0.shared;
        let mut book = self.0.shared.book();
        if book.closed {
            book.counts.dropped += 1;
            return;
        }
        let full = book.waiting.len() >= settings.waiting;
        let known = book
            .entries
            .get_mut(&note)
            .filter(|e| e.waits || now.since_or_zero(e.last) <= settings.window);
        if let Some(entry) = known {
            entry.count = entry.count.saturating_add(1);
            entry.last = now;
            let to_wait = !entry.waits && !full;
            entry.waits |= to_wait;
            book.counts.coalesced += 1;
            if !to_wait {
                // It is told by the one that waits, or with the next one of its kind.
                return;
            }
        } else if full {
            book.counts.dropped += 1;
            return;
        } else {
            book.forget(now, settings);
            book.entries.insert(
                note.clone(),
                Entry { name: None, count: 1, first: now, last: now, waits: true, tries: 0 },
            );
        }
        book.waiting.push_back(note);
        wake.notify_one();
    }

    /// What became of them so far.
    #[must_use]
    pub fn counts(&self) -> RecorderCounts {
        self.0.shared.book().counts
    }

    /// Waits until everything is written, `limit` at most; says whether it is.
    pub async fn flush(&self, limit: Duration) -> bool {
        let idle = async {
            loop {
                {
                    let book = self.0.shared.book();
                    if book.waiting.is_empty() && !book.writing {
                        return;
                    }
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(limit, idle).await.is_ok()
    }

    /// The end: waits until everything is written, `limit` at most, and drops what still waits
    /// then. One that is on its way is awaited for as long again. No other leaves when this
    /// returns, so that whoever leads next is the only one who writes. (What the API server has by
    /// then, but has not answered, it may still write.)
    pub async fn close(&self, limit: Duration) {
        self.flush(limit).await;
        self.0.shared.book().close();
        if self.flush(limit).await {
            return;
        }
        self.0.writer.abort();
        self.0.shared.book().counts.dropped += 1;
        let ended = async {
            while !self.0.writer.is_finished() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        drop(tokio::time::timeout(limit, ended).await);
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next one to be written.
    async fn next(&self) -> (EventNote, Entry) {
        loop {
            let woken = self.wake.notified();
            if let Some(next) = self.book().take() {
                return next;
            }
            woken.await;
        }
    }
}

impl Book {
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

    /// Keeps the memory bounded: Events that nobody repeats any more are forgotten.
    fn forget(&mut self, now: Moment, settings: &RecorderSettings) {
        let most = settings.waiting.saturating_mul(2).max(64);
        if self.entries.len() >= most {
            self.entries.retain(|_, e| e.waits || now.since_or_zero(e.last) <= settings.window);
        }
        if self.entries.len() >= most {
            self.entries.retain(|_, e| e.waits);
        }
    }

    fn again(&mut self, note: EventNote) {
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
        shared.book().writing = false;
        tokio::time::sleep(pause.max(pace)).await;
    }
}

/// Writes one; returns how long the API server wants to be left alone.
async fn write(cluster: &Cluster, shared: &Shared, note: EventNote, entry: &Entry) -> Duration {
    let name = entry
        .name
        .clone()
        .unwrap_or_else(|| wire::event_name(note.about.name(), cluster.random().below(u64::MAX)));
    let request = match &entry.name {
        None => wire::creation(&note, entry, &name, &shared.settings.instance),
        Some(_) => wire::counting(&note, entry, &name),
    };
    let Some(request) = request else {
        shared.book().counts.failed += 1;
        return Duration::ZERO;
    };
    let result = cluster.call(Target::Event, Priority::Low, note.about.name(), request).await;
    let mut book = shared.book();
    let Some(known) = book.entries.get_mut(&note) else { return Duration::ZERO };
    let problem = match result {
        Ok(_) => {
            (known.name, known.tries) = (Some(name), 0);
            book.counts.written += 1;
            return Duration::ZERO;
        }
        Err(error) => {
            tracing::debug!(%error, "an Event was not taken");
            error.problem
        }
    };
    known.tries += 1;
    let pause = match problem {
        // Somebody deleted it, or its time was over: it is told anew. Or the name was taken:
        // another one.
        Problem::NotFound if entry.name.is_some() => Duration::ZERO,
        Problem::Conflict => Duration::ZERO,
        Problem::Overload { retry_after } => retry_after.unwrap_or(Duration::from_secs(1)),
        Problem::Server | Problem::Unreachable => Duration::from_secs(1),
        _ => {
            known.tries = TRIES;
            Duration::ZERO
        }
    };
    if matches!(problem, Problem::NotFound | Problem::Conflict) {
        known.name = None;
    }
    if known.tries < TRIES {
        book.again(note);
    } else {
        known.tries = 0;
        book.counts.failed += 1;
    }
    pause.min(Duration::from_mins(1))
}
