//! A store of the objects of one collection, kept up to date by a watch, and a feed of its changes.

mod keep;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tokio::sync::Notify;

pub(super) use self::keep::{LogLines, Restart, Watched, keep};
use crate::domain::Moment;

/// Whether a store is complete and up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Health {
    /// A complete list was read once.
    pub synced: bool,
    /// Since when the watch has been failing; `None` while it works.
    pub failing_since: Option<Moment>,
    /// When the watch was last known to fail; `None`: never.
    pub failed_at: Option<Moment>,
}

impl Health {
    /// Since when the store may differ from the cluster; `None`: it does not differ. `began`: when
    /// the store was started.
    #[must_use]
    pub fn stale_since(&self, began: Moment) -> Option<Moment> {
        if self.synced { self.failing_since } else { Some(began) }
    }
}

impl Health {
    /// Whether an object that is not in the store does not exist.
    #[must_use]
    pub const fn is_sound(self) -> bool {
        self.synced && self.failing_since.is_none()
    }
}

/// A change of an object.
#[derive(Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// The object is new or has changed.
    Applied {
        /// The object as it is now.
        now: Arc<T>,
        /// The object in the last change that the follower received; `None` if it is new to the
        /// follower.
        before: Option<Arc<T>>,
    },
    /// The object was deleted.
    Deleted {
        /// The object as it was last.
        last: Arc<T>,
        /// The object in the last change that the follower received, if it has changed since then.
        before: Option<Arc<T>>,
    },
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Applied { now, before } => {
                Self::Applied { now: now.clone(), before: before.clone() }
            }
            Self::Deleted { last, before } => {
                Self::Deleted { last: last.clone(), before: before.clone() }
            }
        }
    }
}

/// What a store needs to know about its objects.
pub(super) trait Object: PartialEq + Send + Sync + 'static {
    /// The name by which an object is found. Unique.
    type Key: Ord + Clone + Send + Sync + 'static;
    /// Another value by which an object is found. By mistake, two objects may have the same.
    type Index: Ord + Clone + Send + Sync + 'static;
    fn key(&self) -> Self::Key;
    fn index(&self) -> Option<Self::Index>;
    /// Whether both are versions of one object, and not two objects of the same name.
    fn is_same(&self, other: &Self) -> bool;
    /// Whether both agree in everything that followers need.
    fn is_unchanged(&self, other: &Self) -> bool;
    /// Whether this is the older version.
    fn is_older(&self, other: &Self) -> bool;
}

pub(super) struct Store<T: Object>(Mutex<State<T>>);

struct State<T: Object> {
    objects: BTreeMap<T::Key, Arc<T>>,
    /// Nearly always one key each. A set would take more memory than the object.
    index: BTreeMap<T::Index, Vec<T::Key>>,
    /// Objects without an index value.
    unindexed: BTreeSet<T::Key>,
    /// Keys of the objects that were learned outside the watch since the last LIST began. That LIST
    /// may show older versions of them.
    learned: BTreeSet<T::Key>,
    health: Health,
    followers: Vec<Weak<Follower<T>>>,
    synced: Arc<Notify>,
}

struct Follower<T: Object> {
    pending: Mutex<Pending<T>>,
    notify: Notify,
}

struct Pending<T: Object> {
    /// The keys, in the order in which they became pending.
    order: VecDeque<T::Key>,
    /// The changes of each object that the follower has not taken yet.
    changes: BTreeMap<T::Key, VecDeque<Change<T>>>,
    closed: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Object> Default for Store<T> {
    fn default() -> Self {
        Self(Mutex::new(State {
            objects: BTreeMap::new(),
            index: BTreeMap::new(),
            unindexed: BTreeSet::new(),
            learned: BTreeSet::new(),
            health: Health::default(),
            followers: Vec::new(),
            synced: Arc::default(),
        }))
    }
}

impl<T: Object> Store<T> {
    pub(super) fn health(&self) -> Health {
        lock(&self.0).health
    }

    /// Records that the watch fails; returns whether it worked until now.
    pub(super) fn failing(&self, now: Moment) -> bool {
        let health = &mut lock(&self.0).health;
        let is_new = health.failing_since.is_none();
        health.failing_since.get_or_insert(now);
        health.failed_at = Some(now);
        is_new
    }

    /// Records that the watch works; returns since when it had been failing.
    pub(super) fn recovered(&self, now: Moment) -> Option<Moment> {
        let health = &mut lock(&self.0).health;
        let since = health.failing_since.take()?;
        health.failed_at = Some(now);
        Some(since)
    }

    /// Waits until a complete list was read.
    pub(super) async fn synced(&self) {
        loop {
            let notify = lock(&self.0).synced.clone();
            let notified = notify.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.health().synced {
                return;
            }
            notified.await;
        }
    }

    pub(super) fn get(&self, key: &T::Key) -> Option<Arc<T>> {
        lock(&self.0).objects.get(key).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<T>> {
        lock(&self.0).objects.values().cloned().collect()
    }

    /// The objects with this index value.
    pub(super) fn find(&self, index: &T::Index) -> Vec<Arc<T>> {
        let state = lock(&self.0);
        let keys = state.index.get(index).into_iter().flatten();
        keys.filter_map(|key| state.objects.get(key).cloned()).collect()
    }

    /// The objects without an index value.
    pub(super) fn unindexed(&self) -> Vec<Arc<T>> {
        let state = lock(&self.0);
        state.unindexed.iter().filter_map(|key| state.objects.get(key).cloned()).collect()
    }

    /// The watch reported this object as new or changed.
    pub(super) fn apply(&self, object: T) {
        lock(&self.0).apply(object);
    }

    /// Stores an object that was read or written outside the watch. An object that the store does
    /// not have is left to the watch: it may be deleted by now.
    pub(super) fn learn(&self, object: T) {
        let mut state = lock(&self.0);
        let key = object.key();
        if state.objects.get(&key).is_some_and(|known| known.is_same(&object)) {
            state.learned.insert(key);
            state.apply(object);
        }
    }

    /// The watch reported a deletion. `is_it` is false for a later object of the same name.
    pub(super) fn delete(&self, key: &T::Key, is_it: impl FnOnce(&T) -> bool) {
        let mut state = lock(&self.0);
        if state.objects.get(key).is_some_and(|known| is_it(known)) {
            state.delete(key);
        }
    }

    /// A LIST is about to begin.
    pub(super) fn listing(&self) {
        lock(&self.0).learned.clear();
    }

    /// Replaces the content by a complete LIST. Objects that are neither in it nor kept by `keep`
    /// are deleted.
    pub(super) fn replace(&self, objects: Vec<T>, keep: impl Fn(&T::Key) -> bool) {
        let mut state = lock(&self.0);
        let listed: BTreeSet<T::Key> = objects.iter().map(Object::key).collect();
        let gone: Vec<T::Key> =
            state.objects.keys().filter(|k| !listed.contains(k) && !keep(k)).cloned().collect();
        for key in &gone {
            state.delete(key);
        }
        for object in objects {
            if state.learned.contains(&object.key()) {
                state.apply(object);
            } else {
                // The object of the LIST counts even if its version is lower: the cluster may have
                // been restored from a backup.
                state.put(object);
            }
        }
        state.health.synced = true;
        state.synced.notify_waiters();
    }

    /// Follows the store: all objects come first, as new, then every change.
    pub(super) fn follow(&self) -> Changes<T> {
        let mut state = lock(&self.0);
        let follower = Arc::new(Follower {
            pending: Mutex::new(Pending {
                order: VecDeque::new(),
                changes: BTreeMap::new(),
                closed: false,
            }),
            notify: Notify::new(),
        });
        for (key, object) in &state.objects {
            follower.push(key, Change::Applied { now: object.clone(), before: None });
        }
        state.followers.retain(|f| f.strong_count() > 0);
        state.followers.push(Arc::downgrade(&follower));
        Changes(follower)
    }
}

impl<T: Object> State<T> {
    fn apply(&mut self, object: T) {
        let known = self.objects.get(&object.key());
        if !known.is_some_and(|known| known.is_same(&object) && object.is_older(known)) {
            self.put(object);
        }
    }

    fn put(&mut self, object: T) {
        let key = object.key();
        if self.objects.get(&key).is_some_and(|known| **known == object) {
            // The watch repeats what was learned outside it. Readers share the stored object: a
            // second one would take twice the memory.
            return;
        }
        let now = Arc::new(object);
        let before = self.objects.insert(key.clone(), now.clone());
        if let Some(before) = &before {
            self.unindex(&key, before);
        }
        match now.index() {
            Some(index) => {
                self.index.entry(index).or_insert_with(|| Vec::with_capacity(1)).push(key.clone());
            }
            None => drop(self.unindexed.insert(key.clone())),
        }
        match before {
            Some(before) if !before.is_same(&now) => {
                self.notify(&key, &Change::Deleted { last: before, before: None });
                self.notify(&key, &Change::Applied { now, before: None });
            }
            Some(before) if before.is_unchanged(&now) => {}
            before => self.notify(&key, &Change::Applied { now, before }),
        }
    }

    fn delete(&mut self, key: &T::Key) {
        if let Some(gone) = self.objects.remove(key) {
            self.unindex(key, &gone);
            self.notify(key, &Change::Deleted { last: gone, before: None });
        }
    }

    fn unindex(&mut self, key: &T::Key, object: &T) {
        let Some(index) = object.index() else {
            self.unindexed.remove(key);
            return;
        };
        if let Some(keys) = self.index.get_mut(&index) {
            keys.retain(|k| k != key);
            if keys.is_empty() {
                self.index.remove(&index);
            }
        }
    }

    fn notify(&mut self, key: &T::Key, change: &Change<T>) {
        self.followers.retain(|follower| match follower.upgrade() {
            Some(follower) => {
                follower.push(key, change.clone());
                true
            }
            None => false,
        });
    }
}

impl<T: Object> Drop for State<T> {
    fn drop(&mut self) {
        for follower in self.followers.iter().filter_map(Weak::upgrade) {
            lock(&follower.pending).closed = true;
            follower.notify.notify_one();
        }
    }
}

impl<T: Object> Follower<T> {
    fn push(&self, key: &T::Key, change: Change<T>) {
        let mut pending = lock(&self.pending);
        let Pending { order, changes, .. } = &mut *pending;
        let of_key = changes.entry(key.clone()).or_insert_with(|| {
            order.push_back(key.clone());
            VecDeque::new()
        });
        let change = match (of_key.pop_back(), change) {
            // Two pending changes of one object become one.
            (Some(Change::Applied { before, .. }), Change::Applied { now, .. }) => {
                Change::Applied { now, before }
            }
            (Some(Change::Applied { before, .. }), Change::Deleted { last, .. }) => {
                Change::Deleted { last, before }
            }
            (Some(earlier @ Change::Deleted { .. }), change) => {
                of_key.push_back(earlier);
                change
            }
            (None, change) => change,
        };
        of_key.push_back(change);
        self.notify.notify_one();
    }

    fn pop(&self) -> Option<Change<T>> {
        let mut pending = lock(&self.pending);
        loop {
            let key = pending.order.front()?.clone();
            let of_key = pending.changes.get_mut(&key);
            if let Some(change) = of_key.and_then(VecDeque::pop_front) {
                return Some(change);
            }
            pending.order.pop_front();
            pending.changes.remove(&key);
        }
    }
}

/// The changes of a store, none of them lost. Several pending changes of one object come as one. An
/// object that was deleted and created again under the same name comes as two changes.
pub(super) struct Changes<T: Object>(Arc<Follower<T>>);

impl<T: Object> Changes<T> {
    /// Waits for the next change. `None`: the store was dropped. May be dropped at any time: no
    /// change is lost.
    pub(super) async fn next(&mut self) -> Option<Change<T>> {
        loop {
            let notified = self.0.notify.notified();
            if let Some(change) = self.0.pop() {
                return Some(change);
            }
            if lock(&self.0.pending).closed {
                return None;
            }
            notified.await;
        }
    }

    /// The next change, if there is one now.
    pub(super) fn try_next(&mut self) -> Option<Change<T>> {
        self.0.pop()
    }
}
