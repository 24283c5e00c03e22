//! What is held of one queue: by which receipt, and until when.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::aws::Receipt;

/// What names a held message; never used again.
pub(super) type Key = u64;

/// A message that is held.
#[derive(Debug)]
struct Entry {
    id: Arc<str>,
    receipt: Receipt,
    /// When it was received with this receipt.
    since: Instant,
    /// When it is to be extended; `None` while that is under way, is over, or is not wanted.
    due: Option<Instant>,
    /// It is decided: deleted as soon as SQS does it.
    deleting: bool,
    /// Given up when there is no room for others; whoever decides it is told by this.
    spare: Option<CancellationToken>,
    permit: OwnedSemaphorePermit,
}

#[derive(Debug, Default)]
struct State {
    next: Key,
    held: BTreeMap<Key, Entry>,
    by_id: BTreeMap<Arc<str>, Key>,
    due: BTreeSet<(Instant, Key)>,
    /// It stops: what nobody decides any more stays here until it is given back.
    closing: bool,
}

/// The messages of one queue that are held.
#[derive(Debug)]
pub(super) struct Ledger {
    state: Mutex<State>,
    /// Half of the visibility timeout: after that a message is extended. `None`: never.
    half: Option<Duration>,
    limit: Duration,
    /// Rung when something is to be extended where nothing was.
    pub(super) bell: Notify,
}

/// What became of a received message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is held now.
    New(Key),
    /// It is a copy of one that is held.
    Copy,
}

/// Messages whose extension is due.
#[derive(Debug, Default)]
pub(super) struct Due {
    pub(super) keys: Vec<Key>,
    /// How many are not extended any more: held for too long.
    pub(super) too_old: usize,
}

impl Ledger {
    pub(super) fn new(half: Option<Duration>, limit: Duration) -> Self {
        Self { state: Mutex::default(), half, limit, bell: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().held.len()
    }

    /// Takes a message in that was just received. Takes a place out of `places` if it is new.
    pub(super) fn admit(
        &self,
        id: Arc<str>,
        receipt: Receipt,
        places: &mut OwnedSemaphorePermit,
    ) -> Option<Admission> {
        let now = Instant::now();
        let mut state = self.lock();
        if let Some(key) = state.by_id.get(&id).copied() {
            if let Some(entry) = state.held.get_mut(&key) {
                entry.receipt = receipt;
                entry.since = now;
            }
            if state.held.get(&key).is_some_and(|e| !e.deleting) {
                self.schedule(&mut state, key, now);
            }
            return Some(Admission::Copy);
        }
        let permit = places.split(1)?;
        let key = state.next;
        state.next += 1;
        state.by_id.insert(Arc::clone(&id), key);
        state.held.insert(
            key,
            Entry { id, receipt, since: now, due: None, deleting: false, spare: None, permit },
        );
        self.schedule(&mut state, key, now);
        Some(Admission::New(key))
    }

    /// Has `key` extended half of the visibility timeout from `now`.
    fn schedule(&self, state: &mut State, key: Key, now: Instant) {
        let Some(half) = self.half else { return };
        let Some(entry) = state.held.get_mut(&key) else { return };
        if let Some(before) = entry.due.replace(now + half) {
            state.due.remove(&(before, key));
        }
        if state.due.is_empty() {
            self.bell.notify_one();
        }
        state.due.insert((now + half, key));
    }

    /// The newest receipt of a message that is held.
    pub(super) fn receipt(&self, key: Key) -> Option<Receipt> {
        self.lock().held.get(&key).map(|e| e.receipt.clone())
    }

    /// It is decided: it is not extended any more, but held until SQS has deleted it. False when it
    /// is not held.
    pub(super) fn decide(&self, key: Key) -> bool {
        let mut state = self.lock();
        let Some(entry) = state.held.get_mut(&key) else { return false };
        entry.deleting = true;
        if let Some(due) = entry.due.take() {
            state.due.remove(&(due, key));
        }
        true
    }

    /// It is held no longer. What comes back is its newest receipt, and its place.
    pub(super) fn forget(&self, key: Key) -> Option<(Receipt, OwnedSemaphorePermit)> {
        let mut state = self.lock();
        let entry = state.held.remove(&key)?;
        state.by_id.remove(&entry.id);
        if let Some(due) = entry.due {
            state.due.remove(&(due, key));
        }
        Some((entry.receipt, entry.permit))
    }

    /// It stops: all that is undecided is about to be given back.
    pub(super) fn is_closing(&self) -> bool {
        self.lock().closing
    }

    /// From now on what is left alone is kept, to be given back.
    pub(super) fn close(&self) {
        self.lock().closing = true;
    }

    /// Nobody decides it: it is held no longer, unless it is about to be given back.
    pub(super) fn leave(&self, key: Key) {
        if !self.lock().closing {
            self.forget(key);
        }
    }

    /// Nothing is lost if `key` reappears later: it may be given up for others. What comes back
    /// says when it was.
    pub(super) fn spare(&self, key: Key) -> CancellationToken {
        let given_up = CancellationToken::new();
        if let Some(entry) = self.lock().held.get_mut(&key) {
            entry.spare = Some(given_up.clone());
        }
        given_up
    }

    /// Gives up to `most` messages up that were held undecided for `age` and may be spared, the
    /// oldest first: they reappear by themselves. Says how many.
    pub(super) fn make_room(&self, most: usize, age: Duration) -> usize {
        let may_go = |entry: &Entry| {
            !entry.deleting && entry.spare.is_some() && entry.since.elapsed() >= age
        };
        let old: Vec<_> = self
            .lock()
            .held
            .iter()
            .filter(|(_, e)| may_go(e))
            .map(|(key, e)| (*key, e.spare.clone()))
            .take(most)
            .collect();
        for (key, given_up) in &old {
            self.forget(*key);
            if let Some(given_up) = given_up {
                given_up.cancel();
            }
        }
        old.len()
    }

    /// Nothing undecided is held any longer.
    pub(super) fn forget_undecided(&self) -> Vec<(Receipt, OwnedSemaphorePermit)> {
        let keys: Vec<_> =
            self.lock().held.iter().filter(|(_, e)| !e.deleting).map(|(key, _)| *key).collect();
        keys.into_iter().filter_map(|key| self.forget(key)).collect()
    }

    /// When the next extension is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.lock().due.first().map(|(at, _)| *at)
    }

    /// Up to `max` messages whose extension is due at `until`. They are not due again until
    /// `extended`.
    pub(super) fn take_due(&self, until: Instant, max: usize) -> Due {
        let mut state = self.lock();
        let mut taken = Due::default();
        while taken.keys.len() < max {
            let Some((at, key)) = state.due.first().copied().filter(|(at, _)| *at <= until) else {
                break;
            };
            state.due.remove(&(at, key));
            let Some(entry) = state.held.get_mut(&key) else { continue };
            entry.due = None;
            if entry.since.elapsed() + self.half.unwrap_or_default() * 2 > self.limit {
                taken.too_old += 1;
            } else {
                taken.keys.push(key);
            }
        }
        taken
    }

    /// Was extended by `receipt` at `at`. A copy that came meanwhile has set its own time.
    pub(super) fn extended(&self, key: Key, receipt: &Receipt, at: Instant) {
        let mut state = self.lock();
        if state
            .held
            .get(&key)
            .is_some_and(|e| e.receipt == *receipt && !e.deleting && e.due.is_none())
        {
            self.schedule(&mut state, key, at);
        }
    }
}
