//! Which actions there are, and under which names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tokio::sync::mpsc;

use super::{Order, Source};
use crate::domain::{HookKey, LifecycleAction, Moment};

/// The tasks of actions, by all names under which each is owed.
///
/// An action is told by its hook, its instance and its token. What is owed without a token is
/// whatever is open there: it goes with an action that is known already, or takes the token of the
/// first that comes.
#[derive(Debug, Default)]
pub(super) struct Book {
    names: BTreeMap<LifecycleAction, Entry>,
    running: usize,
}

#[derive(Debug, Clone)]
struct Entry {
    orders: mpsc::UnboundedSender<Order>,
    event: Moment,
    /// The task knows the token of its action.
    has_token: bool,
}

impl Book {
    /// The task of the action that is owed by this name, told of the name and where it is known
    /// from.
    pub(super) fn find(
        &mut self,
        action: &LifecycleAction,
        source: Source,
    ) -> Option<mpsc::UnboundedSender<Order>> {
        let found = self.lookup(action)?;
        // One that has just ended is being replaced by who asks.
        found.orders.send(Order::Named(Box::new(action.clone()), source)).ok()?;
        let has_token = found.has_token || action.token.is_some();
        for (_, entry) in
            self.of_key_mut(&action.key).filter(|(_, e)| e.orders.same_channel(&found.orders))
        {
            entry.has_token = has_token;
        }
        self.names.entry(action.clone()).or_insert_with(|| Entry { has_token, ..found.clone() });
        Some(found.orders)
    }

    fn lookup(&self, action: &LifecycleAction) -> Option<Entry> {
        let open = |entry: &&Entry| !entry.orders.is_closed();
        let exact = self.names.get(action).filter(open);
        let others = self.of_key(&action.key).map(|(_, entry)| entry).filter(open);
        match &action.token {
            _ if exact.is_some() => exact.cloned(),
            None => others.max_by_key(|entry| entry.event).cloned(),
            Some(_) => {
                others.filter(|entry| !entry.has_token).max_by_key(|entry| entry.event).cloned()
            }
        }
    }

    /// An action is owed by this very name, and its task runs.
    pub(super) fn has_task(&self, action: &LifecycleAction) -> bool {
        self.names.get(action).is_some_and(|entry| !entry.orders.is_closed())
    }

    /// A task that begins.
    pub(super) fn begin(
        &mut self,
        action: &LifecycleAction,
        event: Moment,
        orders: mpsc::UnboundedSender<Order>,
    ) {
        self.running += 1;
        self.names
            .insert(action.clone(), Entry { orders, event, has_token: action.token.is_some() });
    }

    /// A task of this hook and instance has ended.
    pub(super) fn ended(&mut self, key: &HookKey) {
        self.running = self.running.saturating_sub(1);
        let over: Vec<_> = self
            .of_key(key)
            .filter(|(_, e)| e.orders.is_closed())
            .map(|(name, _)| name.clone())
            .collect();
        for name in over {
            self.names.remove(&name);
        }
    }

    /// This name is owed no more. The task ends when it was the last.
    pub(super) fn forget(&mut self, action: &LifecycleAction) {
        let Some(entry) = self.names.remove(action) else { return };
        if !self.of_key(&action.key).any(|(_, other)| other.orders.same_channel(&entry.orders)) {
            entry.orders.send(Order::Forget).ok();
        }
    }

    /// Tells every task, once for each of its names.
    pub(super) fn tell_all(&mut self, order: impl Fn() -> Order) {
        self.names.values().for_each(|entry| drop(entry.orders.send(order())));
    }

    /// So many actions have a task.
    pub(super) const fn running(&self) -> usize {
        self.running
    }

    fn of_key<'a>(
        &'a self,
        key: &'a HookKey,
    ) -> impl Iterator<Item = (&'a LifecycleAction, &'a Entry)> {
        self.names
            .range(LifecycleAction { key: key.clone(), token: None }..)
            .take_while(move |(name, _)| name.key == *key)
    }

    fn of_key_mut<'a>(
        &'a mut self,
        key: &'a HookKey,
    ) -> impl Iterator<Item = (&'a LifecycleAction, &'a mut Entry)> {
        self.names
            .range_mut(LifecycleAction { key: key.clone(), token: None }..)
            .take_while(move |(name, _)| name.key == *key)
    }
}

/// Actions that are over: a copy of their event that comes late, when the Node that told of them
/// may be gone, starts nothing.
#[derive(Debug, Default)]
pub(super) struct Past {
    known: BTreeSet<LifecycleAction>,
    order: VecDeque<LifecycleAction>,
}

impl Past {
    /// So many are remembered.
    const MOST: usize = 10_000;

    /// Without a token one action cannot be told from the next.
    pub(super) fn holds(&self, action: &LifecycleAction) -> bool {
        action.token.is_some() && self.known.contains(action)
    }

    pub(super) fn note(&mut self, action: &LifecycleAction) {
        if action.token.is_some() && self.known.insert(action.clone()) {
            self.order.push_back(action.clone());
        }
        if self.order.len() > Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}
