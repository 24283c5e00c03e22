//! The table of the tasks of lifecycle actions, by the names of the actions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tokio::sync::mpsc;

use super::{NamedBy, Order};
use crate::domain::{HookKey, LifecycleAction, Moment};

/// The tasks of open actions. One action may have several names, and so several entries.
///
/// A name is a hook, an instance and a token. A name without a token stands for any open action of
/// that hook and instance: it belongs to an action that is already known, or takes the token of the
/// first one that comes.
#[derive(Debug, Default)]
pub(super) struct ActionTasks {
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

impl ActionTasks {
    /// The task of the action with this name. Sends it the name and who named it so. `None`: no task
    /// runs for this action.
    pub(super) fn find(
        &mut self,
        action: &LifecycleAction,
        named_by: NamedBy,
    ) -> Option<mpsc::UnboundedSender<Order>> {
        let found = self.lookup(action)?;
        // `None` also if the task has just ended: the caller then starts a new one.
        found.orders.send(Order::AddName(Box::new(action.clone()), named_by)).ok()?;
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

    /// Whether an action has exactly this name and its task runs.
    pub(super) fn has_task(&self, action: &LifecycleAction) -> bool {
        self.names.get(action).is_some_and(|entry| !entry.orders.is_closed())
    }

    /// Adds a task that begins.
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

    /// Removes the entries of ended tasks of this hook and instance. Call it once for each task
    /// that ends.
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

    /// Removes this name. If it was the last name of its task, ends the task.
    pub(super) fn forget(&mut self, action: &LifecycleAction) {
        let Some(entry) = self.names.remove(action) else { return };
        if !self.of_key(&action.key).any(|(_, other)| other.orders.same_channel(&entry.orders)) {
            entry.orders.send(Order::Forget).ok();
        }
    }

    /// Sends the order to the task of the action with this name, if there is one.
    pub(super) fn send(&self, action: &LifecycleAction, order: Order) {
        if let Some(entry) = self.lookup(action) {
            drop(entry.orders.send(order));
        }
    }

    /// Sends every task the order, once for each of its names.
    pub(super) fn send_all(&mut self, order: impl Fn() -> Order) {
        self.names.values().for_each(|entry| drop(entry.orders.send(order())));
    }

    /// How many actions have a task.
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

/// Actions that are over. A late copy of their event starts nothing, even if the Node whose record
/// named them is gone.
#[derive(Debug, Default)]
pub(super) struct EndedActions {
    known: BTreeSet<LifecycleAction>,
    order: VecDeque<LifecycleAction>,
}

impl EndedActions {
    /// How many actions are remembered at most.
    const MOST: usize = 10_000;

    /// Whether the action is remembered. Always `false` without a token, because then the action
    /// cannot be distinguished from a later one of the same hook and instance.
    pub(super) fn contains(&self, action: &LifecycleAction) -> bool {
        action.token.is_some() && self.known.contains(action)
    }

    pub(super) fn insert(&mut self, action: &LifecycleAction) {
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
