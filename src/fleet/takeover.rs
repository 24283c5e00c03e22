//! The beginning of a term: the index of a new leader may be outdated, so it reads Nodes from the
//! API server before it acts on what it takes over. Heartbeats do not wait for that.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use super::{
    DrainEvent, Effect, Fleet, LastKnownNode, Origin, Question, RecordRestoration,
    doubted::DoubtedRecord,
    life::{RESTORABLE_FOR, RestorableRecord},
};
use crate::{
    domain::{InstanceId, LifecycleAction, Moment, Node, NodeName},
    record::{self, ConfirmedNodes, Doubt, Record, RecordStatus, Trust},
};

/// Which Nodes this leader has read from the API server itself, and what waits for such a read.
#[derive(Debug, Default)]
pub(super) struct TakeOver {
    pub(super) confirmed: ConfirmedNodes,
    /// The Nodes that are being read from the API server, as the index showed them.
    reading: BTreeMap<NodeName, Arc<Node>>,
    /// Nodes that were deleted, with an open record, before the LIST was answered.
    deleted: Vec<Arc<Node>>,
    /// Lifecycle actions that get heartbeats for Nodes that are not confirmed yet.
    kept_alive: BTreeMap<NodeName, BTreeSet<LifecycleAction>>,
}

impl Fleet {
    /// At the beginning of a term: sends heartbeats for the open actions of all records in the
    /// index and of deleted Nodes.
    pub(super) fn keep_all_alive(&mut self) {
        for deleted in self.lookup.facts.all_deleted_nodes() {
            self.keep_record_alive(&deleted.node.name, &deleted.instance, &deleted.record);
        }
        for node in self.lookup.facts.all_nodes() {
            self.keep_alive(&node);
        }
    }

    /// For a Node that is not confirmed: sends heartbeats for the open actions of its record, and
    /// does nothing else. A heartbeat for a closed action does no harm.
    pub(super) fn keep_alive(&mut self, node: &Arc<Node>) {
        if !self.lookup.selects(node) {
            return;
        }
        let instance =
            node.instance.clone().or_else(|| self.found_instances.get(&node.name).cloned());
        match (record::status(node, instance.as_ref()), instance) {
            (
                RecordStatus::Open(record)
                | RecordStatus::Doubtful { record, why: Doubt::HookMayBeOpen },
                Some(instance),
            ) => {
                self.keep_record_alive(&node.name, &instance, &record);
            }
            (RecordStatus::Doubtful { why: Doubt::InstanceNotKnown, record }, _)
                if record.released().is_none() =>
            {
                self.look_up_instance(node);
            }
            _ => {}
        }
    }

    fn keep_record_alive(&mut self, name: &NodeName, instance: &InstanceId, record: &Record) {
        let interruptions = self.lookup.interruptions(record, instance);
        for hook in self.lookup.open_actions(record, instance) {
            let event = interruptions
                .iter()
                .filter(|t| t.hook.as_ref() == Some(&hook))
                .map(|t| t.time)
                .max();
            self.out.push(Effect::KeepAlive {
                action: hook.clone(),
                event_time: event.unwrap_or(self.now),
                origin: Origin::TakenOver,
            });
            self.takeover.kept_alive.entry(name.clone()).or_default().insert(hook);
        }
    }

    /// A Node was confirmed, or does not exist (`None`): stops the heartbeats for actions that no
    /// open record names. `restorable_actions`: the open actions of a deleted record that is going
    /// to be written back. Their heartbeats go on until the Node has this record again.
    pub(super) fn stop_unneeded_heartbeats(
        &mut self,
        name: &NodeName,
        node: Option<&Node>,
        restorable_actions: &[LifecycleAction],
    ) {
        let Some(kept) = self.takeover.kept_alive.remove(name) else { return };
        // If the node selector does not match the Node, another Sundown completes its actions.
        let open = node.filter(|node| self.lookup.selects(node)).and_then(|node| {
            let instance =
                node.instance.clone().or_else(|| self.found_instances.get(name).cloned())?;
            match record::status(node, Some(&instance)) {
                RecordStatus::Open(record) | RecordStatus::Doubtful { record, .. } => {
                    Some(self.lookup.open_actions(&record, &instance))
                }
                _ => None,
            }
        });
        let open = open.unwrap_or_default();
        let (waiting, kept): (BTreeSet<_>, BTreeSet<_>) = kept
            .into_iter()
            .partition(|hook| restorable_actions.contains(hook) && !open.contains(hook));
        // Another Node may claim the same instance.
        let is_open = |hook: &LifecycleAction| {
            let mut others = self.takeover.kept_alive.values();
            open.contains(hook)
                || others.any(|kept| kept.contains(hook))
                || self.other_with_open_action(hook).is_some()
        };
        let unneeded: Vec<_> = kept.iter().filter(|hook| !is_open(hook)).collect();
        for hook in unneeded {
            self.out.stop_keep_alive(hook);
        }
        if !waiting.is_empty() {
            self.takeover.kept_alive.insert(name.clone(), waiting);
        }
    }

    /// The LIST of this term is answered: takes over the drains of the Nodes in it. From now on,
    /// Nodes that are confirmed later are taken over, too.
    pub(super) fn take_over(&mut self, version: &str, nodes: &[Arc<Node>]) {
        self.takeover.confirmed.listed(version, nodes.iter().map(|node| &**node));
        let nodes_to_read = self.take_over_deleted_nodes();
        for node in nodes {
            self.consider_node(node);
        }
        // Nodes that the LIST lacks. `consider_node` first reads those with an open record.
        for node in self.lookup.facts.all_nodes() {
            self.consider_node(&node);
        }
        for node in nodes_to_read {
            self.read(&node);
        }
    }

    /// Makes the records of all deleted Nodes restorable. Returns the Nodes that were deleted with
    /// an open record before this leader took them over. A Node that still exists and has only lost
    /// its record is not among them: `act_on_node` restores its record.
    fn take_over_deleted_nodes(&mut self) -> Vec<Arc<Node>> {
        let mut nodes = std::mem::take(&mut self.takeover.deleted);
        for deleted in self.lookup.facts.all_deleted_nodes() {
            let same_node = self
                .lookup
                .facts
                .node(&deleted.node.name)
                .filter(|node| node.uid == deleted.node.uid);
            // The record of a Node that still exists is restorable from now on, because nobody
            // could write it back while nobody led. An instance whose Node was deleted long ago may
            // be in service again.
            let since = if same_node.is_some() { self.now } else { deleted.at };
            self.keep_restorable(&deleted.node, &deleted.instance, &deleted.record, since);
            let exists = same_node.is_some();
            if let Some(node) = same_node {
                // The next interruption may have written a new record before the LIST was answered.
                self.out.push(Effect::RestoreRecord(
                    node,
                    RecordRestoration::CarryOver(Box::new(deleted.record.clone())),
                ));
            }
            let (node, instance) = (&deleted.node, &deleted.instance);
            let is_registered = self.is_registered_again(node, instance, &deleted.record, None);
            if !exists && !is_registered && nodes.iter().all(|node| node.uid != deleted.node.uid) {
                nodes.push(deleted.node);
            }
        }
        nodes
    }

    /// Keeps the record of a deleted Node, or of a Node that lost it, for [`RESTORABLE_FOR`] after
    /// `since`. If the instance registers again by then, its new Node gets this record.
    pub(super) fn keep_restorable(
        &mut self,
        node: &Node,
        instance: &InstanceId,
        record: &Record,
        since: Moment,
    ) {
        let until = since.plus(RESTORABLE_FOR);
        if until <= self.now {
            return;
        }
        let claimants = self.lookup.facts.nodes_of(instance);
        let claimants = claimants.iter().filter(|other| self.is_claimant(other, node, record));
        let claimants = claimants.map(|other| other.uid.clone()).collect();
        let kept = record::kept_annotations(node);
        let held = RestorableRecord { record: record.clone(), kept, until, claimants };
        self.restorable.insert(instance.clone(), held);
    }

    /// Whether this other Node of the instance claimed it before the first accept in `record`, the
    /// record of `node`. One that was created later may be the machine under a new name.
    fn is_claimant(&self, other: &Node, node: &Node, record: &Record) -> bool {
        let interruptions = self.lookup.interruptions(record, record.instance());
        let accepted = interruptions.iter().map(|facts| facts.accepted).min();
        other.name != node.name
            && other.created.is_none_or(|created| accepted.is_some_and(|at| created <= at))
    }

    /// Whether another Node may be drained for this action later: its record is doubted, or it is
    /// not confirmed yet.
    fn may_be_of_another(&self, node: &Node, action: &LifecycleAction) -> bool {
        let of_doubted = |(name, doubted): (&NodeName, &DoubtedRecord)| {
            *name != node.name
                && self.lookup.open_actions(&doubted.record, &doubted.instance).contains(action)
        };
        let mut kept = self.takeover.kept_alive.iter().filter(|(name, _)| **name != node.name);
        kept.any(|(_, kept)| kept.contains(action)) || self.doubted.iter().any(of_doubted)
    }

    /// Whether the instance of a deleted Node has registered again: it has another Node, which is
    /// to get the record. `successor`: the Node that has the same name now.
    fn is_registered_again(
        &self,
        deleted: &Node,
        instance: &InstanceId,
        record: &Record,
        successor: Option<&Node>,
    ) -> bool {
        let is_again = |node: &Node| {
            node.uid != deleted.uid
                && node.instance.as_ref() == Some(instance)
                && !self.is_claimant(node, deleted, record)
        };
        successor.is_some_and(is_again)
            || self.lookup.facts.nodes_of(instance).iter().any(|node| is_again(node))
    }

    /// Asks for a read of a Node from the API server. `shown`: the Node as the index shows it, or
    /// last showed it.
    pub(super) fn read(&mut self, shown: &Arc<Node>) {
        let Entry::Vacant(place) = self.takeover.reading.entry(shown.name.clone()) else { return };
        place.insert(Arc::clone(shown));
        self.out.push(Effect::Ask(Question::Node(shown.name.clone())));
    }

    /// The API server answered with this Node; `None`: it does not exist.
    pub(super) fn node_read(&mut self, name: &NodeName, node: Option<&Arc<Node>>) {
        let Some(shown) = self.takeover.reading.remove(name) else { return };
        if node.is_none_or(|node| node.uid != shown.uid) {
            // Otherwise the record of the deleted Node counts until the index catches up.
            if self.lookup.facts.node(name).is_some_and(|known| known.uid == shown.uid) {
                self.deleted_but_indexed.insert(shown.uid.clone());
            }
            if self.drains.get(name).is_some_and(|state| state.node.uid == shown.uid) {
                self.drained_node_deleted(name);
            } else {
                self.complete_deleted_node(&shown, node.map(|node| &**node));
            }
        }
        if let Some(node) = node {
            self.takeover.confirmed.read(node);
            // An answer that is older than what the drain has seen since would show a deleted
            // record once more.
            let is_outdated = self.last_seen(name).is_some_and(|held| node.is_older_than(held));
            if !is_outdated {
                self.act_on_node(node);
            }
        }
        // Changes that the index showed during the read were not processed yet.
        if let Some(newer) = self
            .lookup
            .facts
            .node(name)
            .filter(|known| node.is_some_and(|node| node.is_older_than(known)))
        {
            self.consider_node(&newer);
        }
    }

    /// A Node object was deleted. If it has a drain, nothing follows here. Otherwise, if the LIST
    /// of this term is not answered yet, [`Self::take_over`] handles the Node later. If it is
    /// answered, the index has removed the Node just before: the open actions of its record are
    /// completed once the API server has confirmed that the Node does not exist.
    pub(super) fn deleted_without_drain(&mut self, node: &Arc<Node>) {
        let trust = self.takeover.confirmed.trust(node, None);
        self.takeover.confirmed.forget(&node.uid);
        if self.drains.contains_key(&node.name) || self.deleted_but_indexed.contains(&node.uid) {
            return;
        }
        if self.doubted.get(&node.name).is_some_and(|doubted| doubted.node.uid == node.uid) {
            return self.complete_deleted_node(node, None);
        }
        match trust {
            // A deleted record was being written back.
            Trust::Confirmed if self.takeover.kept_alive.contains_key(&node.name) => {
                self.complete_deleted_node(node, None);
            }
            Trust::Pending => self.takeover.deleted.push(Arc::clone(node)),
            Trust::Unconfirmed => self.read(node),
            Trust::Confirmed => {}
        }
    }

    /// A Node was deleted before this leader took over its drain: completes the open actions of its
    /// last known record. `successor`: the Node that has the same name now.
    pub(super) fn complete_deleted_node(&mut self, node: &Arc<Node>, successor: Option<&Node>) {
        self.stop_unneeded_heartbeats(&node.name, Some(node), &[]);
        let doubted = self.take_doubted(node);
        let is_doubted = doubted.is_some();
        let (instance, record) = if let Some(doubted) = doubted {
            (doubted.instance, doubted.record)
        } else {
            let Some(instance) =
                node.instance.clone().or_else(|| self.found_instances.get(&node.name).cloned())
            else {
                return;
            };
            // If the machine has booted since, `stop_unneeded_heartbeats` keeps these actions
            // alive. They are completed, too, if AWS shows them open.
            let shown = record::status(node, Some(&instance)).with_open_actions();
            // A person may have deleted the record before, and it was not written back yet.
            let deleted = || {
                self.lookup
                    .facts
                    .deleted_node(&node.uid)
                    .filter(|deleted| node.record().is_none() && deleted.instance == instance)
            };
            let Some(record) = shown.or_else(|| deleted().map(|deleted| deleted.record)) else {
                return;
            };
            (instance, record)
        };
        if !self.lookup.selects(node) {
            return;
        }
        let now = self.now;
        self.keep_restorable(node, &instance, &record, now);
        if self.is_registered_again(node, &instance, &record, successor) {
            return;
        }
        // Another Node of the instance may be drained for the same action, and completes it.
        let mut actions = self.lookup.open_actions(&record, &instance);
        actions.retain(|action| {
            self.other_with_open_action(action).is_none() && !self.may_be_of_another(node, action)
        });
        if is_doubted || !actions.is_empty() {
            self.out.report(
                &node.name,
                DrainEvent::CompletedOnceMore { instance: instance.clone(), is_doubted },
            );
        }
        let interruptions = self.lookup.interruptions(&record, &instance);
        self.out.complete_deleted(
            LastKnownNode { node: Arc::clone(node), instance, record, at: now },
            interruptions,
            actions,
        );
    }
}
