//! Watches: their subscriptions, and the HTTP bodies that carry their events.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use bytes::Bytes;
use futures::Stream;
use http_body::Frame;
use serde_json::Value;
use tokio::{sync::mpsc, time::Instant};

use super::{
    BoxError,
    failure::Failure,
    faults::Match,
    object::Shown,
    options::Expired,
    render::Render,
    request::Call,
    rules::Asked,
    selector::{Fields, Labels},
    store::{Change, State},
    validate,
};

/// A watcher that has this many events waiting is cut off, as the real server does with slow ones.
const BACKLOG: usize = 65_536;

/// An item of a watcher's channel.
#[derive(Debug, Clone)]
pub(super) enum Push {
    /// `ADDED`, `MODIFIED` or `DELETED`.
    Event(&'static str, Arc<Shown>),
    /// `BOOKMARK`; it may end the initial events.
    Bookmark { revision: u64, initial: bool },
    /// An `ERROR` with this Status; the stream ends.
    Error(Value),
    /// Nothing more is sent, and the stream does not end.
    Silence,
    /// The stream fails with `connection reset by peer`.
    Break,
}

/// Which objects a list or a watch is about.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    /// "" for all.
    pub(super) namespace: String,
    pub(super) labels: Labels,
    pub(super) fields: Fields,
}

impl Scope {
    pub(super) fn of(call: &Call) -> Result<Self, Failure> {
        let mut fields = call.query.get("fieldSelector").to_owned();
        if !call.key.name.is_empty() {
            // A watch of one object by its URL.
            fields = format!("metadata.name={}", call.key.name);
        }
        let bad = |e: super::selector::Unreadable| Failure::bad_request(e.0);
        Ok(Self {
            namespace: call.key.namespace.clone(),
            labels: Labels::parse(call.query.get("labelSelector")).map_err(bad)?,
            fields: Fields::parse(&fields, &call.kind.plural).map_err(bad)?,
        })
    }

    pub(super) fn contains(&self, shown: &Shown) -> bool {
        (self.namespace.is_empty() || self.namespace == shown.key.namespace)
            && self.labels.matches(&shown.labels)
            && self.fields.matches(&shown.fields)
    }

    /// The node that pods must be bound to.
    pub(super) fn node(&self) -> Option<&str> {
        self.fields.exactly("spec.nodeName")
    }

    fn event(&self, change: &Change) -> Option<Push> {
        let before = change.old.as_ref().filter(|o| self.contains(o));
        let after = !change.deleted && self.contains(&change.new);
        match (before, after) {
            (None, true) => Some(Push::Event("ADDED", Arc::clone(&change.new))),
            (Some(_), true) => Some(Push::Event("MODIFIED", Arc::clone(&change.new))),
            (Some(_), false) if change.deleted => {
                Some(Push::Event("DELETED", Arc::clone(&change.new)))
            }
            // It has left the scope: as it was when it was still in it, with the version of the
            // change.
            (Some(old), false) => {
                Some(Push::Event("DELETED", Arc::new(old.at_version(change.new.revision))))
            }
            (None, false) => None,
        }
    }
}

/// All open watches.
#[derive(Debug, Default)]
pub(super) struct Watches {
    next: u64,
    open: BTreeMap<u64, Watch>,
    /// By resource: watches of everything, and of the pods of one node.
    general: BTreeMap<String, BTreeSet<u64>>,
    by_node: BTreeMap<String, BTreeSet<u64>>,
}

#[derive(Debug)]
struct Watch {
    asked: Asked,
    scope: Scope,
    bookmarks: bool,
    to: mpsc::Sender<Push>,
}

impl Watches {
    fn add(&mut self, watch: Watch) -> u64 {
        self.next += 1;
        if watch.asked.resource == "pods"
            && let Some(node) = watch.scope.node()
        {
            self.by_node.entry(node.to_owned()).or_default().insert(self.next);
        } else {
            self.general.entry(watch.asked.resource.clone()).or_default().insert(self.next);
        }
        self.open.insert(self.next, watch);
        self.next
    }

    fn remove(&mut self, id: u64) -> Option<Watch> {
        let watch = self.open.remove(&id)?;
        for set in [
            watch.scope.node().and_then(|n| self.by_node.get_mut(n)),
            self.general.get_mut(&watch.asked.resource),
        ]
        .into_iter()
        .flatten()
        {
            set.remove(&id);
        }
        Some(watch)
    }

    fn publish(&mut self, plural: &str, change: &Change) {
        let mut ids: BTreeSet<u64> =
            self.general.get(plural).into_iter().flatten().copied().collect();
        if plural == "pods" {
            for shown in change.old.iter().chain([&change.new]) {
                let node = shown.fields.get("spec.nodeName").and_then(|n| self.by_node.get(n));
                ids.extend(node.into_iter().flatten());
            }
        }
        for id in ids {
            let full = self.open.get(&id).is_some_and(|w| {
                w.scope.event(change).is_some_and(|push| w.to.try_send(push).is_err())
            });
            if full {
                self.remove(id);
            }
        }
    }

    /// Ends the matching watches, after a last item if given; returns their requests.
    pub(super) fn end(&mut self, matching: &Match, last: Option<&Push>) -> Vec<Asked> {
        let mut ended = Vec::new();
        let ids: Vec<u64> = self
            .open
            .iter()
            .filter(|(_, w)| w.asked.matches(matching))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            let Some(watch) = self.remove(id) else { continue };
            if let Some(last) = last {
                // A watcher with a full backlog is cut off anyway.
                drop(watch.to.try_send(last.clone()));
            }
            ended.push(watch.asked);
        }
        ended
    }

    pub(super) fn bookmark(&self, revision: u64) {
        for watch in self.open.values().filter(|w| w.bookmarks) {
            // A watcher with a full backlog is cut off with its next event.
            drop(watch.to.try_send(Push::Bookmark { revision, initial: false }));
        }
    }

    pub(super) fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for watch in self.open.values() {
            *counts.entry(watch.asked.resource.clone()).or_default() += 1;
        }
        counts
    }
}

/// A watch that was accepted.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) id: u64,
    backlog: VecDeque<Push>,
    from: mpsc::Receiver<Push>,
    limit: Duration,
    bookmarks: bool,
    render: Render,
}

impl State {
    /// Adds a change to the history and sends it to the watches.
    pub(super) fn publish(&mut self, plural: &str, change: Change) {
        let history = self.options.history;
        self.watches.publish(plural, &change);
        if let Some(shelf) = self.shelves.get_mut(plural) {
            shelf.log.push_back(change);
            while shelf.log.len() > history {
                shelf.forgotten = shelf.log.pop_front().map_or(shelf.forgotten, |c| c.new.revision);
            }
        }
    }

    /// Everything up to now is forgotten.
    pub(super) fn compact(&mut self) {
        for shelf in self.shelves.values_mut() {
            shelf.log.clear();
            shelf.forgotten = self.revision;
        }
        self.snapshots.clear();
    }

    /// Starts a watch.
    pub(super) fn watch(&mut self, call: &Call) -> Result<Started, Failure> {
        let scope = Scope::of(call)?;
        validate::version_match(call)?;
        let bookmarks = call.query.flag("allowWatchBookmarks");
        let initial = call.query.flag("sendInitialEvents");
        let backlog = match call.query.get("resourceVersion") {
            _ if initial => self.everything(call, &scope, bookmarks),
            "" | "0" => self.everything(call, &scope, false),
            text => {
                let from = text
                    .parse::<u64>()
                    .map_err(|_| Failure::new(500, "", invalid_version(text)))?;
                self.since(call, &scope, from)?
            }
        };
        let seconds = call
            .query
            .get("timeoutSeconds")
            .parse::<u64>()
            .unwrap_or_else(|_| self.random.u64(1800..3600));
        let (to, from) = mpsc::channel(BACKLOG);
        let expired = matches!(backlog.back(), Some(Push::Error(_)));
        let id = if expired {
            0
        } else {
            self.watches.add(Watch { asked: call.asked(), scope, bookmarks, to })
        };
        Ok(Started {
            id,
            backlog,
            from,
            limit: Duration::from_secs(seconds),
            bookmarks,
            render: Render::of(call, self.clock),
        })
    }

    fn everything(&self, call: &Call, scope: &Scope, mark: bool) -> VecDeque<Push> {
        let shown = self.matching(&call.kind.plural, scope).into_iter();
        let mut all: VecDeque<Push> = shown.map(|s| Push::Event("ADDED", s)).collect();
        if mark {
            all.push_back(Push::Bookmark { revision: self.revision, initial: true });
        }
        all
    }

    fn since(&self, call: &Call, scope: &Scope, from: u64) -> Result<VecDeque<Push>, Failure> {
        let Some(shelf) = self.shelves.get(&call.kind.plural) else { return Ok(VecDeque::new()) };
        if from > self.revision {
            return Err(Failure::too_new(from, self.revision));
        }
        if from < shelf.forgotten {
            let failure =
                Failure::expired(format!("too old resource version: {from} ({})", shelf.forgotten));
            return match self.options.expired {
                Expired::Status => Err(failure),
                Expired::Event => Ok(VecDeque::from([Push::Error(failure.status())])),
            };
        }
        let start = shelf.log.partition_point(|c| c.new.revision <= from);
        let changes = shelf.log.range(start..);
        Ok(changes.filter_map(|c| scope.event(c)).collect())
    }
}

fn invalid_version(text: &str) -> String {
    format!(
        "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid \
         syntax"
    )
}

/// Takes a watch out when its body is dropped.
struct Guard {
    state: Weak<Mutex<State>>,
    id: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(state) = self.state.upgrade() {
            let watch =
                state.lock().unwrap_or_else(PoisonError::into_inner).watches.remove(self.id);
            drop(watch);
        }
    }
}

impl Guard {
    fn revision(&self) -> Option<u64> {
        let state = self.state.upgrade()?;
        let revision = state.lock().unwrap_or_else(PoisonError::into_inner).revision;
        Some(revision)
    }
}

struct Flow {
    started: Started,
    until: Instant,
    /// When the last bookmark is due; `None`: no last bookmark.
    last_bookmark: Option<Instant>,
    ended: bool,
    guard: Guard,
}

impl Flow {
    fn bookmark(&mut self) -> Option<Push> {
        self.last_bookmark = None;
        Some(Push::Bookmark { revision: self.guard.revision()?, initial: false })
    }
}

/// A watch whose time is nearly over gets a bookmark this much before (apiserver:
/// pkg/storage/cacher, `nextBookmarkTime`).
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// The body of a watch.
pub(super) fn body(
    started: Started,
    state: Weak<Mutex<State>>,
) -> impl Stream<Item = Result<Frame<Bytes>, BoxError>> + Send {
    let now = Instant::now();
    let last_bookmark = started
        .limit
        .checked_sub(LAST_BOOKMARK)
        .filter(|_| started.bookmarks)
        .map(|after| now + after);
    let flow = Flow {
        until: now + started.limit,
        last_bookmark,
        ended: false,
        guard: Guard { state, id: started.id },
        started,
    };
    futures::stream::unfold(flow, |mut flow| async move {
        if flow.ended {
            return None;
        }
        let push = if let Some(push) = flow.started.backlog.pop_front() {
            push
        } else {
            tokio::select! {
                biased;
                push = flow.started.from.recv() => push?,
                () = tokio::time::sleep_until(
                    flow.last_bookmark.unwrap_or(flow.until)
                ), if flow.last_bookmark.is_some() => flow.bookmark()?,
                () = tokio::time::sleep_until(flow.until) => return None,
            }
        };
        match &push {
            Push::Silence => std::future::pending().await,
            Push::Break => {
                flow.ended = true;
                return Some((Err("connection reset by peer".into()), flow));
            }
            Push::Error(_) => flow.ended = true,
            Push::Event(..) | Push::Bookmark { .. } => {}
        }
        let line = flow.started.render.event(&push);
        Some((Ok(Frame::data(line)), flow))
    })
}
