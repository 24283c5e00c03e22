//! Several Nodes that claim one instance and are drained together: its lifecycle actions are
//! completed when all of them are empty, or at the deadline of those that are not. Whatever one of
//! these Nodes says of itself (a release, an earlier end in its record) must not end the drain of
//! another, because its own kubelet can write that.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{
    Completion, DeletedNode, DrainEvent, Effect, Fleet, completing::Completing, effect::Effects,
};
use crate::{
    domain::{InstanceId, LifecycleAction, Moment, NodeName, seconds},
    drain::Outcome,
};

/// How long a Node that is about to be accepted is waited for.
const EXPECTED: std::time::Duration = seconds(30);
/// Within this time, Nodes of one instance are not waited for again: one that can never be written
/// must not hold an action open.
const NO_SECOND_WAIT: std::time::Duration = std::time::Duration::from_hours(1);

/// Which Nodes are drained for which instance.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// The Nodes of the drains, releases included. Mostly one for each instance.
    draining: BTreeMap<InstanceId, BTreeSet<NodeName>>,
    /// Nodes that are about to be accepted together, and until when they are waited for.
    expected: BTreeMap<InstanceId, (BTreeSet<NodeName>, Moment)>,
    /// Nodes whose release waits for other Nodes.
    held: BTreeSet<NodeName>,
    /// Releases that wait for other Nodes, of drains that are forgotten: their own Node was
    /// deleted.
    orphans: Vec<(InstanceId, NodeName, Completing)>,
}

impl Claims {
    /// These Nodes are about to be accepted for one instance. Repeated calls do not extend the wait
    /// for them. An entry whose time is over stays for an hour, so that the same Nodes are not
    /// waited for again.
    pub(super) fn expect_nodes(
        &mut self,
        instance: InstanceId,
        nodes: BTreeSet<NodeName>,
        now: Moment,
    ) {
        self.expected.retain(|_, (_, until)| until.plus(NO_SECOND_WAIT) > now);
        let until = self.expected.get(&instance).map_or(now.plus(EXPECTED), |(_, until)| *until);
        let begun = self.draining.get(&instance);
        let nodes = nodes
            .into_iter()
            .filter(|node| begun.is_none_or(|begun| !begun.contains(node)))
            .collect();
        self.expected.insert(instance, (nodes, until));
    }

    /// The drain of a Node begins.
    pub(super) fn begin(&mut self, instance: &InstanceId, node: &NodeName) {
        self.draining.entry(instance.clone()).or_default().insert(node.clone());
        if let Some((expected, _)) = self.expected.get_mut(instance) {
            expected.remove(node);
        }
    }

    /// The drain of a Node is forgotten. A release that waits for others is kept.
    pub(super) fn close(
        &mut self,
        instance: &InstanceId,
        node: &NodeName,
        completing: Option<Completing>,
        out: &mut Effects,
    ) {
        if let Some(nodes) = self.draining.get_mut(instance) {
            nodes.remove(node);
            if nodes.is_empty() {
                self.draining.remove(instance);
            }
        }
        match completing {
            Some(completing) if completing.is_held => {
                self.orphans.push((instance.clone(), node.clone(), completing));
            }
            Some(completing) => out.push(Effect::CompleteNow(completing.id)),
            None => {}
        }
    }

    /// The Nodes that are drained for this instance.
    pub(super) fn nodes(&self, instance: &InstanceId) -> Vec<NodeName> {
        self.draining.get(instance).into_iter().flatten().cloned().collect()
    }

    /// Other Nodes of this instance that are about to be accepted.
    fn expects_others(&self, instance: &InstanceId, node: &NodeName, now: Moment) -> bool {
        let expected = self.expected.get(instance).filter(|(_, until)| *until > now);
        expected.is_some_and(|(nodes, _)| nodes.iter().any(|other| other != node))
    }
}

impl Fleet {
    /// Another Node that claims the same instance is drained, or is about to be. The wait is
    /// bounded: a drain that is not paused ends at its deadline.
    fn waits_for_others(&self, instance: &InstanceId, node: &NodeName) -> bool {
        let is_draining =
            |name: &NodeName| self.drains.get(name).is_some_and(|state| state.drain.is_some());
        let mut others =
            self.claims.draining.get(instance).into_iter().flatten().filter(|other| *other != node);
        others.any(is_draining) || self.claims.expects_others(instance, node, self.now)
    }

    /// Another drain of the same instance that owes this lifecycle action too.
    pub(super) fn other_with_open_action(&self, action: &LifecycleAction) -> Option<NodeName> {
        let owes = |name: &NodeName| {
            let state = self.drains.get(name);
            state.is_some_and(|state| {
                self.lookup.open_actions(&state.record, &state.instance).contains(action)
            })
        };
        self.claims.draining.get(&action.key.instance)?.iter().find(|name| owes(name)).cloned()
    }

    /// A drain has ended: starts its release, which completes when no other Node of the instance is
    /// drained any more.
    pub(super) fn release(&mut self, name: &NodeName, outcome: &Outcome) {
        let Some(instance) = self.drains.get(name).map(|state| state.instance.clone()) else {
            return;
        };
        let is_held = self.waits_for_others(&instance, name);
        let others: BTreeSet<NodeName> =
            self.claims.nodes(&instance).into_iter().filter(|other| other != name).collect();
        let of_others = others.iter().filter_map(|other| self.drains.get(other));
        let shared = of_others
            .flat_map(|state| self.lookup.open_actions(&state.record, &state.instance))
            .collect();
        let Some(state) = self.drains.get_mut(name) else { return };
        if is_held {
            self.claims.held.insert(name.clone());
            self.out.report(name, DrainEvent::WaitsForOthers);
        }
        let drain = DeletedNode {
            node: Arc::clone(&state.node),
            instance,
            record: state.record.clone(),
            at: self.now,
        };
        let actions = self.lookup.open_actions(&drain.record, &drain.instance);
        // `--complete-delay` lets log shippers finish, but not beyond the deadline.
        let delayed = matches!(outcome, Outcome::Empty) && !actions.is_empty();
        let delay = if delayed { self.settings.complete_delay } else { Duration::ZERO };
        let at = self.now.plus(delay).min(state.limits.end_at.unwrap_or(Moment::MAX));
        self.last_completion += 1;
        let completing = Completing {
            id: self.last_completion,
            at,
            is_held,
            actions: actions.iter().cloned().collect(),
        };
        self.out.push(Effect::Complete(Box::new(Completion {
            id: Some(completing.id),
            from: completing.from(),
            taken: state.taken.clone(),
            actions,
            outcome: outcome.as_str(),
            node_gone: matches!(outcome, Outcome::NodeGone),
            end_reason: state.end_reason,
            disproved: state.disproved.clone(),
            shared,
            drain,
        })));
        state.completing = Some(completing);
    }

    /// Lets those releases complete that wait for no other Node any more.
    pub(super) fn complete_claimed(&mut self) {
        for name in std::mem::take(&mut self.claims.held) {
            let Some(instance) = self.drains.get(&name).map(|state| state.instance.clone()) else {
                continue;
            };
            if self.waits_for_others(&instance, &name) {
                self.claims.held.insert(name);
            } else if let Some(completing) =
                self.drains.get_mut(&name).and_then(|state| state.completing.as_mut())
            {
                completing.let_go(&mut self.out);
            }
        }
        let orphans = std::mem::take(&mut self.claims.orphans);
        for (instance, node, completing) in orphans {
            if self.waits_for_others(&instance, &node) {
                self.claims.orphans.push((instance, node, completing));
            } else {
                self.out.push(Effect::CompleteNow(completing.id));
            }
        }
    }
}
