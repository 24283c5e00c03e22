//! Reads a collection and follows its changes: LIST, then WATCH from the version of that LIST.
//!
//! This is not `kube_runtime::watcher`: the pauses of that one cannot be seeded, it decodes objects
//! that Sundown drops at once, and it does not report when its last state may be out of date.

mod lines;
mod read;
#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use kube::{
    client::Body,
    core::{Request, params::WatchParams},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use self::lines::Lines;
pub(super) use self::read::{Collection, Decode, Decoded, Listed, Reader};
use super::{
    Cluster, ClusterError, ClusterEvent, Problem,
    error::answer_of,
    slim::{self, Meta},
};
use crate::{domain::with_causes, runtime::Backoff};

/// A step of a LIST and WATCH.
#[derive(Debug)]
pub(super) enum Signal<T> {
    /// A LIST is about to begin.
    Listing,
    /// All objects of the collection.
    Listed(Listed<T>),
    /// The watch is open: every change since the LIST follows.
    Watching,
    /// An object is new or changed.
    Applied(Meta, T),
    /// An object was deleted. `None`: it could not be read.
    Deleted(Meta, Option<T>),
    /// The LIST or the watch failed: changes are unknown until the next `Watching`.
    Failing(ClusterError),
}

enum State {
    Start,
    Listing,
    Open { version: String },
    Streaming(Box<Stream>),
}

struct Stream {
    body: Body,
    lines: Lines,
    version: String,
    begun: Instant,
    ends: Instant,
}

/// The first pause after a failure, and the longest. They are short, because changes of the cluster
/// are unknown meanwhile, and there are few watches.
pub(in crate::cluster) const FIRST_PAUSE: Duration = Duration::from_millis(250);
pub(in crate::cluster) const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A watch that lasted this long worked: the backoff begins anew.
const WORKED: Duration = Duration::from_secs(10);
/// How much longer than asked a watch may last before its connection counts as dead.
const MARGIN: Duration = Duration::from_secs(5);

/// LIST and WATCH of one collection. The caller polls [`next`](Self::next) in a loop that does not
/// end.
pub(super) struct ListWatch<D> {
    cluster: Cluster,
    collection: Collection,
    reader: Reader<D>,
    state: State,
    backoff: Backoff,
    not_before: Instant,
}

impl<D: Decode> ListWatch<D> {
    pub(super) fn new(cluster: &Cluster, collection: Collection, decode: D) -> Self {
        Self {
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            reader: Reader::new(cluster, decode),
            cluster: cluster.clone(),
            collection,
            state: State::Start,
            not_before: Instant::now(),
        }
    }

    /// Waits for the next signal. After a `Failing` it pauses before the next try, longer each
    /// time. May be dropped at any await: no signal is lost, but a request that is under way
    /// begins anew.
    pub(super) async fn next(&mut self) -> Signal<D::Object> {
        loop {
            if let Some(signal) = self.step().await {
                return signal;
            }
        }
    }

    /// Whether a LIST is under way.
    pub(super) const fn is_listing(&self) -> bool {
        matches!(self.state, State::Listing)
    }

    /// Reopens the watch at once, from the last version that it has shown.
    pub(super) fn restart(&mut self) {
        if let State::Streaming(stream) = &self.state {
            self.state = State::Open { version: stream.version.clone() };
        }
        self.not_before = Instant::now();
    }

    async fn step(&mut self) -> Option<Signal<D::Object>> {
        match &mut self.state {
            State::Start => {
                tokio::time::sleep_until(self.not_before).await;
                self.state = State::Listing;
                Some(Signal::Listing)
            }
            State::Listing => Some(match self.reader.list(&self.collection).await {
                Ok(listed) => {
                    self.state = State::Open { version: listed.version.clone() };
                    Signal::Listed(listed)
                }
                Err(error) => self.failed(error, State::Start),
            }),
            State::Open { version } => {
                tokio::time::sleep_until(self.not_before).await;
                let version = version.clone();
                Some(match open(&self.cluster, &self.collection, &version).await {
                    Ok(stream) => {
                        self.state = State::Streaming(Box::new(stream));
                        Signal::Watching
                    }
                    Err(error) => self.failed_at(error, version),
                })
            }
            State::Streaming(stream) => match stream.next(&self.collection).await {
                Ok(Some(line)) => self.read_line(&line),
                Ok(None) => self.ended(),
                Err(error) => {
                    let (version, lived) = (stream.version.clone(), stream.begun.elapsed());
                    self.lived(lived);
                    Some(self.broke(error, version))
                }
            },
        }
    }

    /// A watch that was open failed. Its opening was counted as a success, so the failure is
    /// counted by itself.
    fn broke(&mut self, error: ClusterError, version: String) -> Signal<D::Object> {
        self.cluster.observer().observe(ClusterEvent::WatchBroke(self.collection.watch));
        self.failed_at(error, version)
    }

    /// A watch that failed is opened again where it stopped, unless the server no longer knows that
    /// version.
    fn failed_at(&mut self, error: ClusterError, version: String) -> Signal<D::Object> {
        let next =
            if error.problem == Problem::Expired { State::Start } else { State::Open { version } };
        self.failed(error, next)
    }

    fn failed(&mut self, error: ClusterError, next: State) -> Signal<D::Object> {
        let wait = self.backoff.pause_as_asked(self.cluster.random(), error.answer.retry_after);
        self.not_before = Instant::now() + wait;
        self.state = next;
        tracing::debug!(%error, ?wait, "a watch failed, trying again");
        Signal::Failing(error)
    }

    fn lived(&mut self, lived: Duration) {
        if lived >= WORKED {
            self.backoff.reset();
        }
    }

    /// The server ended the watch, as it does after the requested time. A watch that ends at once
    /// several times in a row counts as failing and is retried with growing pauses.
    fn ended(&mut self) -> Option<Signal<D::Object>> {
        let State::Streaming(stream) = &self.state else { return None };
        let (version, lived) = (stream.version.clone(), stream.begun.elapsed());
        self.lived(lived);
        if lived >= WORKED {
            self.state = State::Open { version };
            return None;
        }
        if self.backoff.failures() >= 2 {
            let error = ClusterError::without_answer(
                self.collection.watch.action(),
                &*self.collection.object,
                Problem::Unreachable,
                "the watch repeatedly ended at once",
            );
            return Some(self.broke(error, version));
        }
        self.not_before = Instant::now() + self.backoff.pause(self.cluster.random());
        self.state = State::Open { version };
        None
    }

    fn read_line(&mut self, line: &[u8]) -> Option<Signal<D::Object>> {
        let State::Streaming(stream) = &mut self.state else { return None };
        let event = match serde_json::from_slice::<Line<'_>>(line) {
            Ok(event) => event,
            Err(error) => {
                // The line is a Status that is not wrapped in an event, or it is not readable at
                // all. Either way this watch is over.
                let version = stream.version.clone();
                let error = status_in(&self.collection, line).unwrap_or_else(|| {
                    ClusterError::without_answer(
                        self.collection.watch.action(),
                        &*self.collection.object,
                        Problem::Unreadable,
                        error.to_string(),
                    )
                });
                return Some(self.broke(error, version));
            }
        };
        let json = event.object.get();
        if event.kind == "ERROR" {
            let version = stream.version.clone();
            let error = status_in(&self.collection, json.as_bytes()).unwrap_or_else(|| {
                ClusterError::without_answer(
                    self.collection.watch.action(),
                    &*self.collection.object,
                    Problem::Server,
                    "the watch ended with an error",
                )
            });
            return Some(self.broke(error, version));
        }
        let meta = slim::meta(json);
        if !meta.version.is_empty() {
            stream.version.clone_from(&meta.version);
        }
        match &*event.kind {
            "ADDED" | "MODIFIED" => self
                .reader
                .read(self.collection.watch, &meta, json)
                .ok()
                .flatten()
                .map(|object| Signal::Applied(meta, object)),
            "DELETED" => match self.reader.read(self.collection.watch, &meta, json) {
                Ok(None) => None,
                Ok(object) => Some(Signal::Deleted(meta, object)),
                Err(()) => Some(Signal::Deleted(meta, None)),
            },
            // BOOKMARK, and event types that may be added later: only the version matters.
            _ => None,
        }
    }
}

async fn open(
    cluster: &Cluster,
    collection: &Collection,
    version: &str,
) -> Result<Stream, ClusterError> {
    // The time is jittered, so that watches that were opened together do not all end together.
    let whole = cluster.settings().watch;
    let timeout =
        whole.saturating_sub(cluster.random().jitter(whole / 10)).max(Duration::from_secs(1));
    let seconds = u32::try_from(timeout.as_secs()).unwrap_or(290).min(290);
    let mut params = WatchParams::default().timeout(seconds);
    params.field_selector.clone_from(&collection.fields);
    let unbuildable = |e: kube::core::request::Error| {
        ClusterError::without_answer(
            collection.watch.action(),
            &*collection.object,
            Problem::Invalid,
            e.to_string(),
        )
    };
    let request = Request::new(collection.path).watch(&params, version).map_err(unbuildable)?;
    let body = cluster.open(collection.watch, &collection.object, request).await?;
    let begun = Instant::now();
    let ends = begun + Duration::from_secs(seconds.into()) + MARGIN;
    Ok(Stream { body, lines: Lines::default(), version: version.to_owned(), begun, ends })
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

fn status_in(collection: &Collection, json: &[u8]) -> Option<ClusterError> {
    let status: kube::core::Status = serde_json::from_slice(json).ok()?;
    (status.code >= 400).then(|| {
        ClusterError::new(collection.watch.action(), &*collection.object, answer_of(&status, None))
    })
}

impl Stream {
    /// Waits for the next line; `None` if the server has ended the watch.
    async fn next(&mut self, collection: &Collection) -> Result<Option<Bytes>, ClusterError> {
        let error = |message: String| {
            ClusterError::without_answer(
                collection.watch.action(),
                &*collection.object,
                Problem::Unreachable,
                message,
            )
        };
        loop {
            if let Some(line) = self.lines.next().map_err(|()| {
                error("an event is longer than any object that etcd can store".to_owned())
            })? {
                return Ok(Some(line));
            }
            match tokio::time::timeout_at(self.ends, self.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.lines.push(&data);
                    }
                }
                Ok(Some(Err(e))) => return Err(error(with_causes(&e))),
                // A rest in the buffer is an event that was cut off; the next watch sends it again.
                Ok(None) => return Ok(None),
                Err(_) => {
                    return Err(error(
                        "the watch did not end after its time: the connection is dead".to_owned(),
                    ));
                }
            }
        }
    }
}
