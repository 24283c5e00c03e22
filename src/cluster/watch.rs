//! Reading a collection and its changes: LIST, then WATCH from there, for ever.
//!
//! Not `kube_runtime::watcher`: its waits cannot be seeded, it decodes what is dropped at once, and it does not say whether
//! what it said last can still be believed.

use std::{collections::BTreeSet, time::Duration};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use kube::{
    client::Body,
    core::{
        Request,
        params::{ListParams, WatchParams},
    },
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{
    Cluster, ClusterError, Lane, Problem, Target,
    backoff::Backoff,
    error::{answer_of, with_causes},
    slim::{self, Meta},
};

/// How one object is read.
pub(super) trait Decode: Send + Sync {
    type Object: Send;
    /// `None`: it is none of ours.
    fn decode(&self, json: &str) -> Result<Decoded<Self::Object>, serde_json::Error>;
}

pub(super) enum Decoded<T> {
    Whole(T),
    /// The most needed of it; the rest is damaged.
    Part(T),
    Foreign,
}

/// What is read.
#[derive(Debug, Clone)]
pub(super) struct Collection {
    /// The path of the URL, without a slash at its end.
    pub(super) path: &'static str,
    /// A field selector.
    pub(super) fields: Option<String>,
    /// Whether the objects that are there are read, or only their version, to follow changes from there.
    pub(super) listed: bool,
    /// What the LIST counts as.
    pub(super) list: Target,
    /// What the watch counts as.
    pub(super) watch: Target,
    /// For people.
    pub(super) object: String,
}

/// What happened to the collection.
#[derive(Debug)]
pub(super) enum Signal<T> {
    /// A LIST is about to begin.
    Listing,
    /// Everything that is there.
    Listed(Listed<T>),
    /// The watch is open: what was listed is kept up to date from now on.
    Watching,
    /// An object is new or changed.
    Applied(Meta, T),
    /// An object is gone; itself where it could be read.
    Deleted(Meta, Option<T>),
    /// Nothing is known of changes until the next `Watching`.
    Failing(ClusterError),
}

/// A complete LIST.
#[derive(Debug)]
pub(super) struct Listed<T> {
    pub(super) objects: Vec<(Meta, T)>,
    /// Those that are there, but could not be read.
    pub(super) unreadable: Vec<Meta>,
    pub(super) version: String,
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

/// A watch that lasted this long was well.
const WELL: Duration = Duration::from_secs(10);
/// How much longer than asked a watch may last before its connection counts as dead.
const MARGIN: Duration = Duration::from_secs(5);

/// LIST and WATCH of one collection. To be asked for the [`next`](Self::next) signal for ever.
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
            backoff: Backoff::new(cluster.random().clone()),
            reader: Reader::new(cluster, decode),
            cluster: cluster.clone(),
            collection,
            state: State::Start,
            not_before: Instant::now(),
        }
    }

    /// The next signal; waits for one, for ever. Between a `Failing` and the next try it waits, longer each time. May be dropped
    /// at any await: nothing is lost.
    pub(super) async fn next(&mut self) -> Signal<D::Object> {
        loop {
            if let Some(signal) = self.step().await {
                return signal;
            }
        }
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
                    Some(self.failed_at(error, version))
                }
            },
        }
    }

    /// A watch that failed is opened again where it stopped, unless the server no longer knows that version.
    fn failed_at(&mut self, error: ClusterError, version: String) -> Signal<D::Object> {
        let next = if error.problem == Problem::Expired { State::Start } else { State::Open { version } };
        self.failed(error, next)
    }

    fn failed(&mut self, error: ClusterError, next: State) -> Signal<D::Object> {
        let wait = self.backoff.failed(error.answer.retry_after);
        self.not_before = Instant::now() + wait;
        self.state = next;
        tracing::debug!(%error, ?wait, "a watch failed, trying again");
        Signal::Failing(error)
    }

    fn lived(&mut self, lived: Duration) {
        if lived >= WELL {
            self.backoff.well();
        }
    }

    /// The server ended the watch, as it does in time. One that ends at once again and again is a failure, slowly tried again.
    fn ended(&mut self) -> Option<Signal<D::Object>> {
        let State::Streaming(stream) = &self.state else { return None };
        let (version, lived) = (stream.version.clone(), stream.begun.elapsed());
        self.lived(lived);
        if lived >= WELL {
            self.state = State::Open { version };
            return None;
        }
        if self.backoff.failures() >= 2 {
            let error = ClusterError::silent(
                self.collection.watch.action(),
                &*self.collection.object,
                Problem::Unreachable,
                "the watch is cut again and again",
            );
            return Some(self.failed(error, State::Open { version }));
        }
        self.not_before = Instant::now() + self.backoff.failed(None);
        self.state = State::Open { version };
        None
    }

    fn read_line(&mut self, line: &[u8]) -> Option<Signal<D::Object>> {
        let State::Streaming(stream) = &mut self.state else { return None };
        let event = match serde_json::from_slice::<Line<'_>>(line) {
            Ok(event) => event,
            Err(error) => {
                // A Status without the frame of an event, or nonsense: either way this watch is over.
                let version = stream.version.clone();
                let error = status_in(&self.collection, line).unwrap_or_else(|| {
                    ClusterError::silent(self.collection.watch.action(), &*self.collection.object, Problem::Unreadable, error.to_string())
                });
                return Some(self.failed_at(error, version));
            }
        };
        let json = event.object.get();
        if event.kind == "ERROR" {
            let version = stream.version.clone();
            let error = status_in(&self.collection, json.as_bytes()).unwrap_or_else(|| {
                ClusterError::silent(self.collection.watch.action(), &*self.collection.object, Problem::Server, "the watch ended with an error")
            });
            return Some(self.failed_at(error, version));
        }
        let meta = slim::meta(json);
        if !meta.version.is_empty() {
            stream.version.clone_from(&meta.version);
        }
        match &*event.kind {
            "ADDED" | "MODIFIED" => self.reader.read(self.collection.watch, &meta, json).ok().flatten().map(|object| Signal::Applied(meta, object)),
            "DELETED" => match self.reader.read(self.collection.watch, &meta, json) {
                Ok(None) => None,
                Ok(object) => Some(Signal::Deleted(meta, object)),
                Err(()) => Some(Signal::Deleted(meta, None)),
            },
            // BOOKMARK, and whatever may come later: only the version counts.
            _ => None,
        }
    }
}

async fn open(cluster: &Cluster, collection: &Collection, version: &str) -> Result<Stream, ClusterError> {
    // Spread, so that watches that were opened together are not all opened again together.
    let whole = cluster.settings().watch;
    let timeout = whole.saturating_sub(cluster.random().jitter(whole / 10)).max(Duration::from_secs(1));
    let seconds = u32::try_from(timeout.as_secs()).unwrap_or(290).min(290);
    let mut params = WatchParams::default().timeout(seconds);
    params.field_selector.clone_from(&collection.fields);
    let unbuildable =
        |e: kube::core::request::Error| ClusterError::silent(collection.watch.action(), &*collection.object, Problem::Invalid, e.to_string());
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
    (status.code >= 400).then(|| ClusterError::new(collection.watch.action(), &*collection.object, answer_of(&status, None)))
}

impl Stream {
    /// The next line; `None` when the server has ended the watch.
    async fn next(&mut self, collection: &Collection) -> Result<Option<Bytes>, ClusterError> {
        let error = |message: String| ClusterError::silent(collection.watch.action(), &*collection.object, Problem::Unreachable, message);
        loop {
            if let Some(line) = self.lines.next().map_err(|()| error("an event is longer than anything that can be stored".to_owned()))? {
                return Ok(Some(line));
            }
            match tokio::time::timeout_at(self.ends, self.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.lines.push(&data);
                    }
                }
                Ok(Some(Err(e))) => return Err(error(with_causes(&e))),
                // What is left is an event that was cut; it comes again.
                Ok(None) => return Ok(None),
                Err(_) => return Err(error("the watch did not end when it should have: the connection is dead".to_owned())),
            }
        }
    }
}

/// Splits a stream into lines.
#[derive(Default)]
struct Lines {
    buffer: BytesMut,
    /// Up to here there is no line end.
    searched: usize,
}

impl Lines {
    /// The longest line. An object of etcd has 1.5 MiB at most.
    const LONGEST: usize = 16 * 1024 * 1024;

    fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    fn next(&mut self) -> Result<Option<Bytes>, ()> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(end) = rest.iter().position(|b| *b == b'\n') else {
                self.searched = self.buffer.len();
                if self.searched == 0 {
                    // Gives back what a burst of long lines took.
                    self.buffer = BytesMut::new();
                }
                return if self.searched > Self::LONGEST { Err(()) } else { Ok(None) };
            };
            let line = self.buffer.split_to(self.searched + end + 1).freeze();
            self.searched = 0;
            let line = line.slice(..line.len() - 1);
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }
}

/// Reads LISTs and single objects; one that cannot be read is counted, told once, and stalls nothing.
pub(super) struct Reader<D> {
    cluster: Cluster,
    decode: D,
    told: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMeta {
    #[serde(rename = "resourceVersion")]
    version: String,
    #[serde(rename = "continue")]
    more: Option<String>,
}

impl<D: Decode> Reader<D> {
    pub(super) fn new(cluster: &Cluster, decode: D) -> Self {
        Self { cluster: cluster.clone(), decode, told: BTreeSet::new() }
    }

    /// Everything that is in the collection now (a LIST without a version is never answered from an old cache), page by page.
    pub(super) async fn list(&mut self, collection: &Collection) -> Result<Listed<D::Object>, ClusterError> {
        let mut all = Listed { objects: Vec::new(), unreadable: Vec::new(), version: String::new() };
        let mut params = ListParams::default().limit(if collection.listed { self.cluster.settings().page } else { 1 });
        params.field_selector.clone_from(&collection.fields);
        loop {
            let broken =
                |e: &dyn std::fmt::Display, problem| ClusterError::silent(collection.list.action(), &*collection.object, problem, e.to_string());
            let request = Request::new(collection.path).list(&params).map_err(|e| broken(&e, Problem::Invalid))?;
            let body = self.cluster.call(collection.list, Lane::Ordinary, &collection.object, request).await?;
            let page: Page<'_> = serde_json::from_slice(&body).map_err(|e| broken(&e, Problem::Unreadable))?;
            if collection.listed {
                self.read_page(collection.list, &page, &mut all);
            }
            all.version = page.metadata.version;
            match page.metadata.more.filter(|more| collection.listed && !more.is_empty()) {
                Some(more) => params.continue_token = Some(more),
                None => return Ok(all),
            }
        }
    }

    fn read_page(&mut self, target: Target, page: &Page<'_>, all: &mut Listed<D::Object>) {
        for item in page.items.iter().flatten() {
            let meta = slim::meta(item.get());
            match self.read(target, &meta, item.get()) {
                Ok(Some(object)) => all.objects.push((meta, object)),
                Ok(None) => {}
                Err(()) => all.unreadable.push(meta),
            }
        }
    }

    /// `None`: it is none of ours. Errs when it cannot be read, which is told and counted already.
    pub(super) fn read(&mut self, target: Target, meta: &Meta, json: &str) -> Result<Option<D::Object>, ()> {
        match self.decode.decode(json) {
            Ok(Decoded::Whole(object)) => Ok(Some(object)),
            Ok(Decoded::Foreign) => Ok(None),
            Ok(Decoded::Part(object)) => {
                self.tell(target, meta, "only a part of an object can be read", &"fields of the wrong type");
                Ok(Some(object))
            }
            Err(error) => {
                self.tell(target, meta, "an object cannot be read and is passed over", &error);
                Err(())
            }
        }
    }

    fn tell(&mut self, target: Target, meta: &Meta, what: &'static str, why: &dyn std::fmt::Display) {
        self.cluster.observer().unreadable(target);
        let first = self.told.len() < 100 && self.told.insert(format!("{}/{}", meta.namespace, meta.name));
        if first {
            tracing::warn!(namespace = meta.namespace, name = meta.name, %why, what);
        }
    }
}
