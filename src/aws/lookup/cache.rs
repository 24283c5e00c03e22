//! The cache of a lookup, limited in age and number.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use super::LookupSettings;

/// AWS's answers by key, each with the time when its call began. That nothing has a key is an
/// answer too.
pub(super) struct Cache<K, V> {
    entries: BTreeMap<K, (Instant, Option<V>)>,
    /// The keys in order of arrival, each with the start of its call. A key that was renewed is
    /// there again, further back.
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

    /// `None`: there was no answer, or it is too old.
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
