//! The beginning of a term: the index of a new leader may be outdated, so it reads Nodes from the
//! API server before it acts on what it takes over. Heartbeats do not wait for that.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use super::{
    DeletedNode, DrainEvent, Effect, Fleet, Origin, Question, Restoration, life::REMEMBER,
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
        for gone in self.lookup.facts.all_deleted_nodes() {
            self.keep_record_alive(&gone.node.name, &gone.instance, &gone.record);
        }
        for node in self.lookup.facts.all_nodes() {
            self.keep_alive(&node);
        }
    }

    /// For a Node that is not confirmed: sends heartbeats for its hooks, and does nothing else. A
    /// heartbeat for an action that is over does no harm.
    pub(super) fn keep_alive(&mut self, node: &Arc<Node>) {
        if !self.lookup.selects(node) {
            return;
        }
        let instance = node.instance.clone().or_else(|| self.named.get(&node.name).cloned());
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
                self.ask_name(node);
            }
            _ => {}
        }
    }

    fn keep_record_alive(&mut self, name: &NodeName, instance: &InstanceId, record: &Record) {
        let taken = self.lookup.taken(record, instance);
        for hook in self.lookup.open_actions(record, instance) {
            let event =
                taken.iter().filter(|t| t.hook.as_ref() == Some(&hook)).map(|t| t.time).max();
            let event = event.unwrap_or(self.now);
            self.out.push(Effect::KeepAlive {
                hook: hook.clone(),
                event,
                origin: Origin::TakenOver,
            });
            self.takeover.kept_alive.entry(name.clone()).or_default().insert(hook);
        }
    }

    /// A Node was confirmed, or does not exist (`None`): stops the heartbeats of actions that no
    /// open record names. `of_deleted_record`: the actions of a deleted record that is going to be
    /// written back. Their heartbeats go on until the Node is seen with it.
    pub(super) fn settle_kept_alive(
        &mut self,
        name: &NodeName,
        node: Option<&Node>,
        of_deleted_record: &[LifecycleAction],
    ) {
        let Some(kept) = self.takeover.kept_alive.remove(name) else { return };
        // If the node selector does not match the Node, another Sundown completes its actions.
        let open = node.filter(|node| self.lookup.selects(node)).and_then(|node| {
            let instance = node.instance.clone().or_else(|| self.named.get(name).cloned())?;
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
            .partition(|hook| of_deleted_record.contains(hook) && !open.contains(hook));
        // Another Node may claim the same instance.
        let is_owed = |hook: &LifecycleAction| {
            let mut others = self.takeover.kept_alive.values();
            open.contains(hook)
                || others.any(|kept| kept.contains(hook))
                || self.other_with_open_action(hook).is_some()
        };
        let over: Vec<_> = kept.iter().filter(|hook| !is_owed(hook)).collect();
        for hook in over {
            self.out.stop_keep_alive(hook);
        }
        if !waiting.is_empty() {
            self.takeover.kept_alive.insert(name.clone(), waiting);
        }
    }

    /// The LIST of this term is answered: takes over the drains of the Nodes in it, and of Nodes
    /// that are confirmed later.
    pub(super) fn take_over(&mut self, version: &str, nodes: &[Arc<Node>]) {
        self.takeover.confirmed.listed(version, nodes.iter().map(|node| &**node));
        let gone = self.remember_deleted_node();
        for node in nodes {
            self.see(node);
        }
        // Nodes that the LIST lacks. `see` ignores those without an open record, and reads the
        // others first.
        for node in self.lookup.facts.all_nodes() {
            self.see(&node);
        }
        for node in gone {
            self.read(&node);
        }
    }

    /// Nodes that were deleted with an open record before this leader took them over. A Node that
    /// still exists and has only lost its record is not among them: `see` restores its record.
    fn remember_deleted_node(&mut self) -> Vec<Arc<Node>> {
        let mut gone = std::mem::take(&mut self.takeover.deleted);
        for departure in self.lookup.facts.all_deleted_nodes() {
            let same_node = self
                .lookup
                .facts
                .node(&departure.node.name)
                .filter(|node| node.uid == departure.node.uid);
            // The record of a Node that still exists counts from now on: while nobody led, nobody
            // could write it back. An instance whose Node was deleted long ago may be back in
            // service.
            let since = if same_node.is_some() { self.now } else { departure.at };
            self.remember(&departure.instance, &departure.record, since);
            if let Some(node) = same_node {
                // The next interruption may have written a fresh record before the LIST was
                // answered.
                self.out.push(Effect::Restore(
                    node,
                    Restoration::CarryOver(Box::new(departure.record.clone())),
                ));
            }
            let is_registered = !self.lookup.facts.nodes_of(&departure.instance).is_empty();
            if !is_registered && gone.iter().all(|node| node.uid != departure.node.uid) {
                gone.push(departure.node);
            }
        }
        gone
    }

    /// Keeps the record for [`REMEMBER`]: if the instance registers again, its new Node gets this
    /// record.
    fn remember(&mut self, instance: &InstanceId, record: &Record, since: Moment) {
        let until = since.plus(REMEMBER);
        if until > self.now {
            self.remembered.insert(instance.clone(), (record.clone(), until));
        }
    }

    /// Reads a Node from the API server, and retries until that succeeds. `shown`: the Node as the
    /// index shows it, or showed it last.
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
                self.gone.insert(shown.uid.clone());
            }
            if self.drains.get(name).is_some_and(|state| state.node.uid == shown.uid) {
                self.vanished(name);
            } else {
                self.complete_of_deleted(&shown, node.map(|node| &**node));
            }
        }
        if let Some(node) = node {
            self.takeover.confirmed.read(node);
            // An answer that is older than what the drain has seen since would show a deleted
            // record once more.
            let is_outdated = self.held(name).is_some_and(|held| node.is_older_than(held));
            if !is_outdated {
                self.see_confirmed(node);
            }
        }
        // Changes that the index showed during the read were not processed yet.
        if let Some(newer) = self
            .lookup
            .facts
            .node(name)
            .filter(|known| node.is_some_and(|node| node.is_older_than(known)))
        {
            self.see(&newer);
        }
    }

    /// A Node object was deleted. If a drain of this leader knows it, nothing follows here.
    /// Otherwise, if the LIST of this term is not answered yet, [`Self::take_over`] handles the
    /// Node later. If it is, the index removed the Node just before: the open actions of its record
    /// are completed once the API server has confirmed that it does not exist.
    pub(super) fn deleted_without_drain(&mut self, node: &Arc<Node>) {
        let trust = self.takeover.confirmed.trust(node, None);
        self.takeover.confirmed.forget(&node.uid);
        if self.drains.contains_key(&node.name) || self.gone.contains(&node.uid) {
            return;
        }
        if self.doubted.get(&node.name).is_some_and(|doubted| doubted.node.uid == node.uid) {
            return self.complete_of_deleted(node, None);
        }
        match trust {
            // A deleted record was being written back.
            Trust::Confirmed if self.takeover.kept_alive.contains_key(&node.name) => {
                self.complete_of_deleted(node, None);
            }
            Trust::Pending => self.takeover.deleted.push(Arc::clone(node)),
            Trust::Unconfirmed => self.read(node),
            Trust::Confirmed => {}
        }
    }

    /// A Node was deleted before this leader took its drain over: completes the open actions of its
    /// last known record. `successor`: the Node that has the same name now.
    pub(super) fn complete_of_deleted(&mut self, node: &Arc<Node>, successor: Option<&Node>) {
        self.settle_kept_alive(&node.name, Some(node), &[]);
        let doubted = self.take_doubted(node);
        let is_doubted = doubted.is_some();
        let (instance, record) = if let Some(doubted) = doubted {
            (doubted.instance, doubted.record)
        } else {
            let Some(instance) =
                node.instance.clone().or_else(|| self.named.get(&node.name).cloned())
            else {
                return;
            };
            // `settle_kept_alive` keeps the actions of a machine that has booted since: they are
            // completed, too, if AWS shows them open.
            let shown = record::status(node, Some(&instance)).with_open_actions();
            // A person deleted the record before, and it was not written back yet.
            let deleted = || {
                self.lookup
                    .facts
                    .deleted_nodes(&node.uid)
                    .filter(|gone| node.record().is_none() && gone.instance == instance)
            };
            let Some(record) = shown.or_else(|| deleted().map(|gone| gone.record)) else { return };
            (instance, record)
        };
        if !self.lookup.selects(node) {
            return;
        }
        let now = self.now;
        self.remember(&instance, &record, now);
        let is_other =
            |other: &Node| other.uid != node.uid && other.instance.as_ref() == Some(&instance);
        if successor.is_some_and(is_other)
            || self.lookup.facts.nodes_of(&instance).iter().any(|other| is_other(other))
        {
            return;
        }
        if is_doubted || !self.lookup.open_actions(&record, &instance).is_empty() {
            self.out.report(
                &node.name,
                DrainEvent::CompletedOnceMore { instance: instance.clone(), is_doubted },
            );
        }
        let (taken, action) =
            (self.lookup.taken(&record, &instance), self.lookup.open_actions(&record, &instance));
        self.out.complete_deleted(
            DeletedNode { node: Arc::clone(node), instance, record, at: now },
            taken,
            action,
        );
    }
}
