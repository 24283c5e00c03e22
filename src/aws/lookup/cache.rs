//! Answers with an age, and not too many of them.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use super::LookupSettings;

/// What AWS said, by key, and when the call that it answered began; the absence of a thing is an
/// answer too.
pub(super) struct Cache<K, V> {
    entries: BTreeMap<K, (Instant, Option<V>)>,
    /// In order of arrival, each with the beginning of its call; an entry that was renewed since
    /// has a later one further back.
    order: VecDeque<(Instant, K)>,
    keep: Duration,
    keep_absence: Duration,
    capacity: usize,
}

impl<K: Ord + Clone, V: Clone> Cache<K, V> {
    pub(super) fn new(settings: &LookupSettings) -> Self {
        Self {
            entries: BTreeMap::new(),
            order: VecDeque::new(),
            keep: settings.keep,
            keep_absence: settings.keep_absence,
            capacity: settings.capacity,
        }
    }

    /// `None`: not known, or not any more.
    pub(super) fn get(&self, key: &K) -> Option<(Instant, Option<V>)> {
        let (asked, value) = self.entries.get(key)?;
        let keep = if value.is_some() { self.keep } else { self.keep_absence };
        (asked.elapsed() < keep).then(|| (*asked, value.clone()))
    }

    pub(super) fn put(&mut self, key: K, asked: Instant, value: Option<V>) {
        self.entries.insert(key.clone(), (asked, value));
        self.order.push_back((asked, key));
        let longest = self.keep.max(self.keep_absence);
        while let Some((at, key)) = self.order.front() {
            let current = self.entries.get(key).is_some_and(|(since, _)| since == at);
            if current && self.entries.len() <= self.capacity && at.elapsed() < longest {
                break;
            }
            if current {
                self.entries.remove(key);
            }
            self.order.pop_front();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        (self.entries.len(), self.order.len())
    }
}
