//! The held messages of one queue: their receipts, and when each must be extended.

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

/// Identifies a held message. No key is used twice.
pub(super) type Key = u64;

/// One held message and its receipt.
#[derive(Debug)]
struct Entry {
    id: Arc<str>,
    receipt: Receipt,
    /// When it was received with this receipt.
    since: Instant,
    /// When it must be extended. `None` while an extension is under way, if the message has been
    /// held for too long, after its decision, and where messages are never extended.
    due: Option<Instant>,
    /// It is decided. It stays held until SQS has deleted it.
    deleting: bool,
    /// `Some`: it may be given up when there is no room for others. The token is canceled then, so
    /// that its decision ends.
    spare: Option<CancellationToken>,
    permit: OwnedSemaphorePermit,
}

#[derive(Debug, Default)]
struct State {
    next: Key,
    by_key: BTreeMap<Key, Entry>,
    by_id: BTreeMap<Arc<str>, Key>,
    due: BTreeSet<(Instant, Key)>,
    /// The intake stops: a message whose ticket is dropped stays here until it is given back.
    closing: bool,
}

/// The held messages of one queue.
#[derive(Debug)]
pub(super) struct HeldMessages {
    state: Mutex<State>,
    /// Half of the visibility timeout: a message is extended at this age. `None`: never.
    half: Option<Duration>,
    /// The longest time for which a message is held.
    limit: Duration,
    /// Notified when the first message to extend is added.
    pub(super) due_added: Notify,
}

/// The result of [`HeldMessages::admit`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// The message is held from now on.
    New(Key),
    /// A copy of the message was already held. Its newest receipt is kept.
    Copy,
}

/// Messages whose extension is due.
#[derive(Debug, Default)]
pub(super) struct Due {
    pub(super) keys: Vec<Key>,
    /// How many were held for too long and are not extended again.
    pub(super) too_old: usize,
}

impl HeldMessages {
    pub(super) fn new(half: Option<Duration>, limit: Duration) -> Self {
        Self { state: Mutex::default(), half, limit, due_added: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().by_key.len()
    }

    /// Holds a message that was just received. If it is new, it takes one of `places`. `None`:
    /// there is no place left.
    pub(super) fn admit(
        &self,
        id: Arc<str>,
        receipt: Receipt,
        places: &mut OwnedSemaphorePermit,
    ) -> Option<Admission> {
        let now = Instant::now();
        let mut state = self.lock();
        if let Some(key) = state.by_id.get(&id).copied() {
            if let Some(entry) = state.by_key.get_mut(&key) {
                entry.receipt = receipt;
                entry.since = now;
            }
            if state.by_key.get(&key).is_some_and(|e| !e.deleting) {
                self.schedule(&mut state, key, now);
            }
            return Some(Admission::Copy);
        }
        let permit = places.split(1)?;
        let key = state.next;
        state.next += 1;
        state.by_id.insert(Arc::clone(&id), key);
        state.by_key.insert(
            key,
            Entry { id, receipt, since: now, due: None, deleting: false, spare: None, permit },
        );
        self.schedule(&mut state, key, now);
        Some(Admission::New(key))
    }

    /// Makes the extension of `key` due half of the visibility timeout after `now`.
    fn schedule(&self, state: &mut State, key: Key, now: Instant) {
        let Some(half) = self.half else { return };
        let Some(entry) = state.by_key.get_mut(&key) else { return };
        if let Some(before) = entry.due.replace(now + half) {
            state.due.remove(&(before, key));
        }
        if state.due.is_empty() {
            self.due_added.notify_one();
        }
        state.due.insert((now + half, key));
    }

    /// The newest receipt of a held message.
    pub(super) fn receipt(&self, key: Key) -> Option<Receipt> {
        self.lock().by_key.get(&key).map(|e| e.receipt.clone())
    }

    /// Marks the message as decided: it is not extended again, and stays held until SQS has deleted
    /// it. `false` if it is not held.
    pub(super) fn decide(&self, key: Key) -> bool {
        let mut state = self.lock();
        let Some(entry) = state.by_key.get_mut(&key) else { return false };
        entry.deleting = true;
        if let Some(due) = entry.due.take() {
            state.due.remove(&(due, key));
        }
        true
    }

    /// Stops holding the message. Returns its newest receipt and its place.
    pub(super) fn forget(&self, key: Key) -> Option<(Receipt, OwnedSemaphorePermit)> {
        let mut state = self.lock();
        let entry = state.by_key.remove(&key)?;
        state.by_id.remove(&entry.id);
        if let Some(due) = entry.due {
            state.due.remove(&(due, key));
        }
        Some((entry.receipt, entry.permit))
    }

    /// Whether the intake stops: all undecided messages are about to be given back.
    pub(super) fn is_closing(&self) -> bool {
        self.lock().closing
    }

    /// From now on [`HeldMessages::leave`] keeps a message, so that it can be given back.
    pub(super) fn close(&self) {
        self.lock().closing = true;
    }

    /// Nobody will decide the message: stops holding it, unless it is about to be given back.
    pub(super) fn leave(&self, key: Key) {
        if !self.lock().closing {
            self.forget(key);
        }
    }

    /// Allows the message to be given up to make room for others, because nothing is lost if it
    /// reappears later. The returned token is canceled when that happens.
    pub(super) fn spare(&self, key: Key) -> CancellationToken {
        let given_up = CancellationToken::new();
        if let Some(entry) = self.lock().by_key.get_mut(&key) {
            entry.spare = Some(given_up.clone());
        }
        given_up
    }

    /// Gives up at most `most` messages, the oldest first, that may be given up and have been
    /// undecided for `age`. They reappear by themselves. Returns how many were given up.
    pub(super) fn make_room(&self, most: usize, age: Duration) -> usize {
        let may_be_given_up = |entry: &Entry| {
            !entry.deleting && entry.spare.is_some() && entry.since.elapsed() >= age
        };
        let old: Vec<_> = self
            .lock()
            .by_key
            .iter()
            .filter(|(_, e)| may_be_given_up(e))
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

    /// Stops holding all undecided messages. Returns their newest receipts and their places.
    pub(super) fn forget_undecided(&self) -> Vec<(Receipt, OwnedSemaphorePermit)> {
        let keys: Vec<_> =
            self.lock().by_key.iter().filter(|(_, e)| !e.deleting).map(|(key, _)| *key).collect();
        keys.into_iter().filter_map(|key| self.forget(key)).collect()
    }

    /// When the next extension is due. `None`: no extension waits.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.lock().due.first().map(|(at, _)| *at)
    }

    /// Takes up to `max` messages whose extension is due at `until`. A message becomes due again
    /// only through [`HeldMessages::extended`] or a new copy.
    pub(super) fn take_due(&self, until: Instant, max: usize) -> Due {
        let mut state = self.lock();
        let mut taken = Due::default();
        while taken.keys.len() < max {
            let Some((at, key)) = state.due.first().copied().filter(|(at, _)| *at <= until) else {
                break;
            };
            state.due.remove(&(at, key));
            let Some(entry) = state.by_key.get_mut(&key) else { continue };
            entry.due = None;
            if entry.since.elapsed() + self.half.unwrap_or_default() * 2 > self.limit {
                taken.too_old += 1;
            } else {
                taken.keys.push(key);
            }
        }
        taken
    }

    /// The message was extended with `receipt` at `at`. If a copy came meanwhile, that copy has
    /// already set the time of the next extension.
    pub(super) fn extended(&self, key: Key, receipt: &Receipt, at: Instant) {
        let mut state = self.lock();
        if state
            .by_key
            .get(&key)
            .is_some_and(|e| e.receipt == *receipt && !e.deleting && e.due.is_none())
        {
            self.schedule(&mut state, key, at);
        }
    }
}
