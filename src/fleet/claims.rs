//! Several Nodes that claim one instance and are drained together. Completion begins when all of
//! their drains have ended, and `--complete-delay` after the last one, by their deadline at the
//! latest. What one of these Nodes shows (a release annotation, an ended record) must not end the
//! drain of another Node, because the Node's own kubelet can write both.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{
    Completion, DrainEvent, Effect, Fleet, LastKnownNode, completion::PendingCompletion,
    effect::Effects, node_state::Phase,
};
use crate::{
    domain::{InstanceId, LifecycleAction, Moment, NodeName, seconds},
    drain::{Drain, Outcome},
    lifecycle,
};

/// How long completion waits for the accept of another Node.
const EXPECTED: std::time::Duration = seconds(30);
/// After such a wait, how long completion waits for no other accept of the same instance. A Node
/// whose accept fails each time must not keep an action open.
const NO_SECOND_WAIT: std::time::Duration = std::time::Duration::from_hours(1);

/// Which Nodes are drained for which instance, and which completions wait for them.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// The Nodes that have a drain or a completion, in order. Usually one for each instance: a list
    /// takes a tenth of the memory of a set.
    draining: BTreeMap<InstanceId, Vec<NodeName>>,
    /// Nodes that are about to be accepted together, and until when completion waits for them.
    expected: BTreeMap<InstanceId, (BTreeSet<NodeName>, Moment)>,
    /// Nodes whose completion waits for other Nodes.
    waiting: BTreeSet<NodeName>,
    /// Completions that wait for other Nodes, and whose own Node was deleted.
    waiting_of_deleted: Vec<(InstanceId, NodeName, PendingCompletion)>,
}

impl Claims {
    /// These Nodes are about to be accepted for one instance. A repeated call does not extend the
    /// wait for them. An expired entry stays for [`NO_SECOND_WAIT`], so that no second wait begins.
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
        let draining =
            self.draining.entry(instance.clone()).or_insert_with(|| Vec::with_capacity(1));
        if let Err(place) = draining.binary_search(node) {
            draining.insert(place, node.clone());
        }
        if let Some((expected, _)) = self.expected.get_mut(instance) {
            expected.remove(node);
        }
    }

    /// The fleet forgets the drain of a Node. A completion that waits for other Nodes is kept.
    pub(super) fn forget(
        &mut self,
        instance: &InstanceId,
        node: &NodeName,
        completion: Option<PendingCompletion>,
        out: &mut Effects,
    ) {
        if let Some(nodes) = self.draining.get_mut(instance) {
            nodes.retain(|other| other != node);
            if nodes.is_empty() {
                self.draining.remove(instance);
            }
        }
        match completion {
            Some(completion) if completion.waits_for_others => {
                self.waiting_of_deleted.push((instance.clone(), node.clone(), completion));
            }
            Some(completion) => out.push(Effect::CompleteNow(completion.id)),
            None => {}
        }
    }

    /// The Nodes that have a drain or a completion for this instance.
    pub(super) fn nodes(&self, instance: &InstanceId) -> Vec<NodeName> {
        self.draining.get(instance).into_iter().flatten().cloned().collect()
    }

    /// Other Nodes of this instance than `node` are about to be accepted.
    fn expects_others(&self, instance: &InstanceId, node: &NodeName, now: Moment) -> bool {
        let expected = self.expected.get(instance).filter(|(_, until)| *until > now);
        expected.is_some_and(|(nodes, _)| nodes.iter().any(|other| other != node))
    }
}

impl Fleet {
    /// Another Node that claims the same instance is being drained, or is about to be accepted.
    /// This wait is bounded, because a drain that is not paused ends at its deadline.
    fn waits_for_others(&self, instance: &InstanceId, node: &NodeName) -> bool {
        let is_draining =
            |name: &NodeName| self.drains.get(name).is_some_and(|state| state.is_draining());
        let mut others =
            self.claims.draining.get(instance).into_iter().flatten().filter(|other| *other != node);
        others.any(is_draining) || self.claims.expects_others(instance, node, self.now)
    }

    /// When the pending completions of these lifecycle actions on other Nodes may begin, at the
    /// latest. `--complete-delay` holds for each Node that claims the instance, because each has
    /// log shippers of its own.
    fn completion_of_others(
        &self,
        instance: &InstanceId,
        node: &NodeName,
        actions: &BTreeSet<LifecycleAction>,
    ) -> Option<Moment> {
        let others = self.claims.draining.get(instance)?.iter().filter(|other| *other != node);
        let shares = |other: &&NodeName| !self.actions_to_complete(other).is_disjoint(actions);
        let pending = |other: &NodeName| Some(self.drains.get(other)?.completion()?.own_time());
        others.filter(shares).filter_map(pending).max()
    }

    /// The lifecycle actions that the pending completion of a Node ends: those that were open when
    /// its drain ended, and those that have joined its record since.
    fn actions_to_complete(&self, node: &NodeName) -> BTreeSet<LifecycleAction> {
        let Some(state) = self.drains.get(node) else { return BTreeSet::new() };
        let Some(pending) = state.completion() else { return BTreeSet::new() };
        let joined = self.lookup.open_actions(&state.record, &state.instance);
        pending.actions.iter().cloned().chain(joined).collect()
    }

    /// A Node with a drain of the same instance in which this lifecycle action is open.
    pub(super) fn other_with_open_action(&self, action: &LifecycleAction) -> Option<NodeName> {
        let has_action = |name: &NodeName| {
            let state = self.drains.get(name);
            state.is_some_and(|state| {
                self.lookup.open_actions(&state.record, &state.instance).contains(action)
            })
        };
        self.claims
            .draining
            .get(&action.key.instance)?
            .iter()
            .find(|name| has_action(name))
            .cloned()
    }

    /// A drain has ended: orders its completion, which begins once all drains of the instance have
    /// ended.
    pub(super) fn begin_completion(&mut self, name: &NodeName, outcome: &Outcome) {
        let Some(instance) = self.drains.get(name).map(|state| state.instance.clone()) else {
            return;
        };
        let waits_for_others = self.waits_for_others(&instance, name);
        let others: BTreeSet<NodeName> =
            self.claims.nodes(&instance).into_iter().filter(|other| other != name).collect();
        let of_others = others.iter().filter_map(|other| self.drains.get(other));
        let shared = of_others
            .flat_map(|state| self.lookup.open_actions(&state.record, &state.instance))
            .collect();
        let Some(state) = self.drains.get(name) else { return };
        let actions = self.lookup.open_actions(&state.record, &state.instance);
        let of_others =
            self.completion_of_others(&instance, name, &actions.iter().cloned().collect());
        let Some(state) = self.drains.get_mut(name) else { return };
        if waits_for_others {
            self.claims.waiting.insert(name.clone());
            self.out.report(name, DrainEvent::WaitsForOthers);
        }
        let drain = LastKnownNode {
            node: Arc::clone(&state.node),
            instance,
            record: state.record.clone(),
            at: self.now,
        };
        let has_failed = outcome.has_failed(state.drain().is_some_and(Drain::has_listed_pods));
        // `--complete-delay` gives log shippers time to finish, but never beyond the deadline.
        let delayed = matches!(outcome, Outcome::Empty) && !actions.is_empty();
        let complete_delay =
            state.limits.settings.complete_delay.unwrap_or(self.settings.complete_delay);
        let delay = if delayed { complete_delay } else { Duration::ZERO };
        let end = state.limits.end_at.unwrap_or(Moment::MAX);
        let own = self.now.plus(delay);
        let at = of_others.map_or(own, |of_others| own.max(of_others)).min(end);
        let hold = lifecycle::pre_release_hold(&state.node, &state.limits, self.now, self.now);
        self.last_completion += 1;
        let completion = PendingCompletion {
            id: self.last_completion,
            at,
            waits_for_others,
            actions: actions.iter().cloned().collect(),
            ended: self.now,
            heeds_gates: delayed,
            held_until: hold.until().filter(|_| delayed),
        };
        self.out.push(Effect::Complete(Box::new(Completion {
            id: Some(completion.id),
            from: completion.from(),
            interruptions: state.interruptions.clone(),
            actions,
            outcome: outcome.as_str(),
            has_failed,
            is_node_deleted: matches!(outcome, Outcome::NodeGone),
            end_reason: state.end_reason,
            disproved: state.disproved.clone(),
            shared,
            drain,
        })));
        state.phase = Phase::Completing(completion);
    }

    /// Lets completions begin that no longer have to wait for other Nodes.
    pub(super) fn begin_waiting_completions(&mut self) {
        for name in std::mem::take(&mut self.claims.waiting) {
            let Some(instance) = self.drains.get(&name).map(|state| state.instance.clone()) else {
                continue;
            };
            if self.waits_for_others(&instance, &name) {
                self.claims.waiting.insert(name);
                continue;
            }
            let state = self.drains.get(&name);
            let end = state.and_then(|state| state.limits.end_at).unwrap_or(Moment::MAX);
            let actions = self.actions_to_complete(&name);
            let of_others =
                self.completion_of_others(&instance, &name, &actions).map(|at| at.min(end));
            if let Some(completion) =
                self.drains.get_mut(&name).and_then(|state| state.completion_mut())
            {
                completion.stop_waiting_for_others(of_others, &mut self.out);
            }
        }
        let waiting = std::mem::take(&mut self.claims.waiting_of_deleted);
        for (instance, node, completion) in waiting {
            let of_others = self.completion_of_others(&instance, &node, &completion.actions);
            let is_delayed = of_others.is_some_and(|of_others| of_others > self.now);
            if is_delayed || self.waits_for_others(&instance, &node) {
                self.claims.waiting_of_deleted.push((instance, node, completion));
            } else {
                self.out.push(Effect::CompleteNow(completion.id));
            }
        }
    }
}
