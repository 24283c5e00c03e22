//! The conditions `DrainInProgress` and `Drained` of Nodes: what they must show, and when they are
//! written. Nothing depends on them, so that every other call goes first.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{Effect, Fleet, explained, facts::BudgetsOfTurn};
use crate::{
    domain::{Moment, Node, NodeName, seconds},
    record::{self, DrainConditions, RecordStatus, VoidReason},
};

/// The shortest interval between two writes of one node's conditions.
const NODE_INTERVAL: Duration = seconds(30);
/// The same while only numbers and times of the text have changed, and not the cause.
const TEXT_INTERVAL: Duration = seconds(300);
/// The longest pause after a write that the Node does not show. The pause doubles each time.
const LONGEST_PAUSE: Duration = seconds(300);
/// The shortest interval between two turns.
const TURN: Duration = seconds(1);
/// The most writes that one turn orders, for all nodes together.
const WRITES_PER_TURN: usize = 10;
/// The most nodes that one turn looks at.
const NODES_PER_TURN: usize = 256;

/// Which nodes are looked at next, and what was ordered for them.
#[derive(Debug, Default)]
pub(super) struct ConditionQueue {
    due: BTreeSet<(Moment, NodeName)>,
    by_node: BTreeMap<NodeName, QueuedNode>,
    last_turn: Option<Moment>,
}

#[derive(Debug, Clone, Default)]
struct QueuedNode {
    /// When the node is looked at; `None`: when it changes.
    due: Option<Moment>,
    ordered: Option<Ordered>,
    /// No write is possible before, whatever the node must show; `None`: not known.
    not_before: Option<Moment>,
}

/// The last write that was ordered for a node.
#[derive(Debug, Clone)]
struct Ordered {
    /// `None`: neither condition.
    conditions: Option<DrainConditions>,
    cause: String,
    at: Moment,
    /// The pause before the next write if this one fails.
    pause: Duration,
}

/// What the conditions of a node must show.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wanted {
    /// What they show now.
    Unchanged,
    /// No condition of Sundown.
    Nothing,
    /// This. `cause`: what it is about, without numbers and times.
    Shown { conditions: DrainConditions, cause: String },
}

impl ConditionQueue {
    /// The node has changed: it is looked at when a write is possible, a turn later at the
    /// earliest. By then the calls that follow from the change are under way.
    pub(super) fn mark(&mut self, node: &NodeName, now: Moment) {
        let not_before = self.by_node.get(node).and_then(|queued| queued.not_before);
        let next = now.plus(TURN);
        let next = not_before.map_or(next, |at| at.max(next));
        self.look_at(node, next, |due| due.min(next));
    }

    fn look_at(&mut self, node: &NodeName, new: Moment, change: impl Fn(Moment) -> Moment) {
        let queued = self.by_node.entry(node.clone()).or_default();
        let due = queued.due.map_or(new, change);
        if let Some(before) = queued.due.replace(due) {
            self.due.remove(&(before, node.clone()));
        }
        self.due.insert((due, node.clone()));
    }

    pub(super) fn forget(&mut self, node: &NodeName) {
        if let Some(due) = self.by_node.remove(node).and_then(|queued| queued.due) {
            self.due.remove(&(due, node.clone()));
        }
    }

    /// When the next turn may find a node to look at.
    pub(super) fn next_wake(&self) -> Moment {
        let first = self.due.first().map_or(Moment::MAX, |(at, _)| *at);
        self.last_turn.map_or(first, |last| first.max(last.plus(TURN)))
    }

    pub(super) fn begin_turn(&mut self, now: Moment) -> bool {
        let is_due = self.next_wake() <= now;
        if is_due {
            self.last_turn = Some(now);
        }
        is_due
    }

    pub(super) fn pop(&mut self, now: Moment) -> Option<NodeName> {
        let (_, node) = self.due.first().filter(|(at, _)| *at <= now).cloned()?;
        self.due.pop_first();
        if let Some(queued) = self.by_node.get_mut(&node) {
            queued.due = None;
        }
        Some(node)
    }

    /// Whether conditions that the Node does not show may be written now. If not, the node is
    /// looked at again when they may.
    fn may_write(
        &mut self,
        node: &Node,
        conditions: Option<&DrainConditions>,
        cause: &str,
        now: Moment,
    ) -> bool {
        let before = self.by_node.get(&node.name).and_then(|queued| queued.ordered.as_ref());
        let shown = record::own_drain_condition(node);
        let has_failed = before.is_some_and(|before| {
            record::drain_conditions_change(node, before.conditions.as_ref()).is_some()
        });
        let is_same_cause = match before {
            Some(before) => before.cause == cause,
            // Another leader has written it.
            None => shown.zip(conditions).is_some_and(|(shown, new)| shown.reason == new.reason),
        };
        let pause = match before {
            Some(before) if has_failed => (before.pause * 2).min(LONGEST_PAUSE),
            _ if is_same_cause => TEXT_INTERVAL,
            _ => NODE_INTERVAL,
        };
        let written = shown.and_then(|shown| shown.written).filter(|written| *written <= now);
        let last = before.map(|before| before.at).into_iter().chain(written).max();
        let due = last.map_or(now, |last| last.plus(pause));
        if due > now {
            self.look_at(&node.name, due, |_| due);
            if let Some(queued) = self.by_node.get_mut(&node.name) {
                queued.not_before = last.map(|last| last.plus(NODE_INTERVAL));
            }
            return false;
        }
        // The next look shows whether this write has failed.
        self.look_at(&node.name, now.plus(NODE_INTERVAL), |due| due);
        if let Some(queued) = self.by_node.get_mut(&node.name) {
            queued.not_before = Some(now.plus(NODE_INTERVAL));
            queued.ordered = Some(Ordered {
                conditions: conditions.cloned(),
                cause: cause.to_owned(),
                at: now,
                pause: if has_failed { pause } else { NODE_INTERVAL },
            });
        }
        true
    }
}

impl Fleet {
    /// What the conditions of this node must show may have changed.
    pub(super) fn conditions_may_change(&mut self, node: &NodeName) {
        if self.settings.shows_drains {
            self.conditions.mark(node, self.now);
        }
    }

    /// The same, about a Node from the index.
    pub(super) fn follow_conditions(&mut self, node: &Node) {
        if self.drains.contains_key(&node.name)
            || node.record().is_some()
            || node.drain_conditions.is_some()
        {
            self.conditions_may_change(&node.name);
        }
    }

    /// Orders the writes whose turn has come. Evictions, and accepts that are being decided, go
    /// first: while they wait, no condition is written.
    pub(super) fn write_conditions(&mut self) {
        let now = self.now;
        if !self.conditions.begin_turn(now) {
            return;
        }
        let dispatch = self.dispatcher.status();
        if dispatch.overloaded_until.is_some()
            || dispatch.undecided > 0
            || dispatch.held > 0
            || dispatch.in_flight >= self.settings.dispatch.in_flight
        {
            return;
        }
        let (mut writes, budgets) = (0, BudgetsOfTurn::default());
        for _ in 0..NODES_PER_TURN {
            if writes == WRITES_PER_TURN {
                return;
            }
            let Some(name) = self.conditions.pop(now) else { return };
            writes += usize::from(self.write_conditions_of(&name, &budgets));
        }
    }

    /// Returns whether a write was ordered.
    fn write_conditions_of(&mut self, name: &NodeName, budgets: &BudgetsOfTurn) -> bool {
        let Some(node) = self.lookup.facts.node(name) else {
            self.conditions.forget(name);
            return false;
        };
        let (conditions, cause) = match self.wanted_conditions(&node, budgets) {
            Wanted::Unchanged => return false,
            Wanted::Nothing => (None, String::new()),
            Wanted::Shown { conditions, cause } => (Some(conditions), cause),
        };
        let Some(change) = record::drain_conditions_change(&node, conditions.as_ref()) else {
            if conditions.is_none() {
                self.conditions.forget(name);
            }
            return false;
        };
        let may_write = self.conditions.may_write(&node, conditions.as_ref(), &cause, self.now);
        if may_write {
            self.out.push(Effect::SetDrainConditions(Arc::clone(&node), change));
        }
        may_write
    }

    fn wanted_conditions(&self, node: &Node, budgets: &BudgetsOfTurn) -> Wanted {
        let of = |conditions: DrainConditions| {
            let cause = conditions.reason.to_owned();
            Wanted::Shown { conditions, cause }
        };
        if let Some(state) = self.drains.get(&node.name).filter(|s| s.node.uid == node.uid) {
            let Some(drain) = state.drain() else {
                // Without a gate its end is written soon. That needs no condition of its own,
                // unless one shows that pods are being evicted.
                let held = state.completion().and_then(|completion| completion.held_until);
                let held = held.filter(|until| *until > self.now);
                if held.is_none() && record::own_drain_condition(node).is_none() {
                    return Wanted::Unchanged;
                }
                let (conditions, cause) = explained::completing(held);
                return Wanted::Shown { conditions, cause };
            };
            if !state.limits.response.evicts() {
                return Wanted::Nothing;
            }
            let facts = &*self.lookup.facts;
            let explanation =
                drain.explain(self.now, |namespace| budgets.of(facts, namespace), |_| None);
            let (conditions, cause) = explained::conditions(&explanation);
            return Wanted::Shown { conditions, cause };
        }
        if !self.lookup.selects(node) {
            return Wanted::Unchanged;
        }
        if node.ignored() {
            return Wanted::Nothing;
        }
        let instance =
            node.instance.clone().or_else(|| self.found_instances.get(&node.name).cloned());
        match record::status(node, instance.as_ref()) {
            RecordStatus::Released { record, has_our_changes: true } => {
                record.released().and_then(DrainConditions::of_end).map_or(Wanted::Nothing, of)
            }
            RecordStatus::Released { .. } => Wanted::Nothing,
            // The machine has booted since, as for a new root volume, and the node is not restored.
            RecordStatus::Void { record, why: VoidReason::Rebooted }
            | RecordStatus::Doubtful { record, .. }
                if record.released().is_some() && node.has_our_taint() =>
            {
                record.released().and_then(DrainConditions::of_end).map_or(Wanted::Nothing, of)
            }
            RecordStatus::None | RecordStatus::Damaged(_) | RecordStatus::Void { .. }
                if !node.has_our_taint() =>
            {
                Wanted::Nothing
            }
            _ => Wanted::Unchanged,
        }
    }
}
