//! The table of the tasks of lifecycle actions, by the names of the actions.

use std::collections::BTreeMap;

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
    /// The term is over: the tasks send heartbeats and take no new orders.
    only_heartbeats: bool,
}

#[derive(Debug, Clone)]
struct Entry {
    orders: mpsc::UnboundedSender<Order>,
    event: Moment,
    /// The task knows the token of its action.
    has_token: bool,
    source: NameSource,
    /// This term has used the name. `false`: an earlier term of this process did, and the task only
    /// sends heartbeats until a record or a message names the action again.
    is_named_in_term: bool,
    shown: ShownByAws,
}

/// Where the name of an action comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NameSource {
    /// Only a copy of its event brought it. It does not keep the task running.
    Copy,
    /// A message that this process received.
    Message,
    /// The record of a Node: the end of its drain completes the action.
    Record,
}

impl From<NamedBy> for NameSource {
    fn from(named_by: NamedBy) -> Self {
        match named_by {
            NamedBy::Message => Self::Message,
            NamedBy::Record => Self::Record,
        }
    }
}

/// What AWS has shown in this term of the action with exactly this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShownByAws {
    Nothing,
    /// It accepted a heartbeat with the token at this time.
    Open(Moment),
    /// The action is over. Its task remembers that for a while.
    Over,
}

impl ActionTasks {
    /// Adds this name to the task of the action, and returns the channel of the task. `None`: no task
    /// runs for this action.
    pub(super) fn add_name(
        &mut self,
        action: &LifecycleAction,
        named_by: NamedBy,
    ) -> Option<mpsc::UnboundedSender<Order>> {
        let found = self.lookup(action)?;
        let source = NameSource::from(named_by);
        if let Some(entry) = self.names.get_mut(action) {
            (entry.source, entry.is_named_in_term) = (entry.source.max(source), true);
        }
        // `None` also if the task has just ended: the caller then starts a new one.
        found.orders.send(Order::AddName(Box::new(action.clone()), named_by)).ok()?;
        let has_token = found.has_token || action.token.is_some();
        for (_, entry) in
            self.of_key_mut(&action.key).filter(|(_, e)| e.orders.same_channel(&found.orders))
        {
            entry.has_token = has_token;
        }
        self.names.entry(action.clone()).or_insert_with(|| Entry {
            has_token,
            source,
            is_named_in_term: true,
            shown: match found.shown {
                ShownByAws::Over => ShownByAws::Over,
                ShownByAws::Nothing | ShownByAws::Open(_) => ShownByAws::Nothing,
            },
            ..found.clone()
        });
        Some(found.orders)
    }

    /// A copy of the action's event has come: adds its name to the task, if one runs. This name alone
    /// does not keep the task running.
    pub(super) fn add_name_of_copy(&mut self, action: &LifecycleAction, named_by: NamedBy) {
        let was_learned =
            self.names.get(action).is_none_or(|entry| entry.source == NameSource::Copy);
        if self.add_name(action, named_by).is_some() && was_learned {
            self.disown(action);
        }
    }

    /// From now on this name alone does not keep its task running.
    pub(super) fn disown(&mut self, action: &LifecycleAction) {
        if let Some(entry) = self.names.get_mut(action) {
            entry.source = NameSource::Copy;
        }
    }

    /// Whether an action of this hook and instance has a task, was named in this term, and is not
    /// over: AWS keeps one action of them open at a time, so an instance that waits waits for it.
    pub(super) fn has_open_action_of(&self, key: &HookKey) -> bool {
        self.of_key(key)
            .filter(|(_, entry)| entry.is_named_in_term && entry.shown != ShownByAws::Over)
            .any(|(_, entry)| !entry.orders.is_closed())
    }

    /// The action with these names, which its task has read, is over. If the instance waits, it
    /// does so for another one. AWS was not asked about a name that the task has not read yet: the
    /// task begins anew with it.
    pub(super) fn note_over(&mut self, names: &[LifecycleAction]) {
        for name in names {
            if let Some(entry) = self.names.get_mut(name) {
                entry.shown = ShownByAws::Over;
            }
        }
    }

    /// The term is over. Its tasks go on with heartbeats only, until [`ActionTasks::resume`].
    pub(super) fn keep_heartbeats_only(&mut self) {
        self.only_heartbeats = true;
        self.send_all(|| Order::KeepHeartbeatsOnly);
    }

    /// Whether actions may begin and be completed.
    pub(super) const fn takes_orders(&self) -> bool {
        !self.only_heartbeats
    }

    /// A new term begins. The tasks go on, but no action counts as named until the term names it.
    pub(super) fn resume(&mut self) {
        self.only_heartbeats = false;
        for entry in self.names.values_mut() {
            entry.is_named_in_term = false;
            if matches!(entry.shown, ShownByAws::Open(_)) {
                entry.shown = ShownByAws::Nothing;
            }
        }
        self.send_all(|| Order::Resume);
    }

    fn lookup(&self, action: &LifecycleAction) -> Option<Entry> {
        let open = |entry: &&Entry| !entry.orders.is_closed();
        let exact = self.names.get(action).filter(open);
        // An action that is over is not the one for which the instance waits now.
        let is_over = |entry: &&Entry| entry.shown == ShownByAws::Over;
        let others =
            self.of_key(&action.key).map(|(_, entry)| entry).filter(open).filter(|e| !is_over(e));
        match &action.token {
            _ if exact.is_some() => exact.cloned(),
            None => others.max_by_key(|entry| entry.event).cloned(),
            Some(_) => {
                others.filter(|entry| !entry.has_token).max_by_key(|entry| entry.event).cloned()
            }
        }
    }

    /// AWS accepted a heartbeat that carried the token of this action.
    pub(super) fn note_open(&mut self, action: &LifecycleAction, now: Moment) {
        if let Some(entry) = self.names.get_mut(action) {
            entry.shown = ShownByAws::Open(now);
        }
    }

    /// Whether AWS has shown another action of the same hook and instance open since the event of this
    /// one: then this one is over, because AWS keeps one open at a time. `names`: of this action.
    /// `false` also if
    ///
    /// - one of the names has no token: it may be a name of the other action;
    /// - no record names the other action: its message may have been taken for that of this one. Then
    ///   only the completion of this one completes it.
    pub(super) fn is_replaced(&self, names: &[LifecycleAction], event: Moment) -> bool {
        let Some(first) = names.first() else { return false };
        names.iter().all(|name| name.token.is_some())
            && self.of_key(&first.key).any(|(name, entry)| {
                matches!(entry.shown, ShownByAws::Open(at) if at >= event)
                    && entry.source == NameSource::Record
                    && !entry.orders.is_closed()
                    && !names.contains(name)
            })
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
        named_by: NamedBy,
        orders: mpsc::UnboundedSender<Order>,
    ) {
        self.running += 1;
        let has_token = action.token.is_some();
        let entry = Entry {
            orders,
            event,
            has_token,
            source: named_by.into(),
            is_named_in_term: true,
            shown: ShownByAws::Nothing,
        };
        self.names.insert(action.clone(), entry);
    }

    /// Removes the entries of ended tasks of this hook and instance. Call it once for each task
    /// that ends.
    pub(super) fn remove_ended(&mut self, key: &HookKey) {
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
        let is_needed = |other: &Entry| {
            other.source != NameSource::Copy && other.orders.same_channel(&entry.orders)
        };
        if !self.of_key(&action.key).any(|(_, other)| is_needed(other)) {
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
    fn send_all(&mut self, order: impl Fn() -> Order) {
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

#[cfg(test)]
mod tests;
