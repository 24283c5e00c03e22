//! The beginning of a term: the index of a new leader may be outdated, so it reads Nodes from the API server before it acts on
//! what it takes over. Heartbeats do not wait for that.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use tokio::sync::Semaphore;
use tracing::warn;

use super::{Fleet, FleetInput, life::REMEMBER};
use crate::{
    cluster::UnschedulableNodes,
    controller::{
        context::Term,
        departed::Departure,
        hooks::{First, Source},
        release,
        report::DrainEvent,
    },
    domain::{InstanceId, Moment, Node, NodeName, OwedHook, seconds},
    record::{self, ConfirmedNodes, Doubt, Record, Standing, Trust},
    runtime::Backoff,
};

/// How many Nodes are read from the API server at once. They share the client's slots with other requests.
const READS: usize = 16;

/// Which Nodes this leader has read from the API server itself, and what waits for such a read.
pub(super) struct TakeOver {
    pub(super) confirmed: ConfirmedNodes,
    /// The Nodes that are being read from the API server, as the index showed them.
    reading: BTreeMap<NodeName, Arc<Node>>,
    reads: Arc<Semaphore>,
    /// Nodes that were deleted, with an open record, before the LIST was answered.
    deleted: Vec<Arc<Node>>,
    /// Lifecycle actions that get heartbeats for Nodes that are not confirmed yet.
    kept_alive: BTreeMap<NodeName, BTreeSet<OwedHook>>,
}

impl Default for TakeOver {
    fn default() -> Self {
        Self {
            confirmed: ConfirmedNodes::default(),
            reading: BTreeMap::new(),
            reads: Arc::new(Semaphore::new(READS)),
            deleted: Vec::new(),
            kept_alive: BTreeMap::new(),
        }
    }
}

/// Lists the unschedulable Nodes at the API server, retries until that succeeds, and sends [`FleetInput::Unschedulable`].
pub(super) async fn list_unschedulable(term: Term) {
    let mut backoff = Backoff::up_to(seconds(5));
    loop {
        match term.nodes.list_unschedulable().await {
            Ok(listed) => {
                term.confirmation.set(Ok(()));
                term.send(FleetInput::Unschedulable(listed));
                return;
            }
            Err(error) => {
                warn!(
                    %error,
                    "Cannot list the unschedulable nodes; trying again. Until that succeeds this leader evicts no pod and completes no \
                     lifecycle action of the nodes that it took over; heartbeats and new interruptions go on."
                );
                term.confirmation.set(Err(format!("drains of the last leader wait until the unschedulable nodes are listed: {error}")));
            }
        }
        tokio::time::sleep(backoff.pause(&term.random)).await;
    }
}

impl Fleet {
    /// At the beginning of a term: sends heartbeats for the open actions of all records in the index and of deleted Nodes.
    pub(super) fn keep_all_alive(&mut self) {
        for gone in self.term.departed.all(self.term.clock) {
            self.keep_record_alive(&gone.node.name, &gone.instance, &gone.record);
        }
        for node in self.term.nodes.all() {
            self.keep_alive(&node);
        }
    }

    /// For a Node that is not confirmed: sends heartbeats for its hooks, and does nothing else. A heartbeat for an action that is
    /// over does no harm.
    pub(super) fn keep_alive(&mut self, node: &Arc<Node>) {
        if !self.term.selects(node) {
            return;
        }
        let instance = node.instance.clone().or_else(|| self.named.get(&node.name).cloned());
        match (record::standing(node, instance.as_ref()), instance) {
            (Standing::Open(record) | Standing::Doubtful { record, why: Doubt::HookMayBeOpen }, Some(instance)) => {
                self.keep_record_alive(&node.name, &instance, &record);
            }
            (Standing::Doubtful { why: Doubt::InstanceNotKnown, record }, _) if record.released().is_none() => self.ask_name(node),
            _ => {}
        }
    }

    fn keep_record_alive(&mut self, name: &NodeName, instance: &InstanceId, record: &Record) {
        let taken = self.term.taken(record, instance);
        for hook in self.term.owed(record, instance) {
            let event = taken.iter().filter(|t| t.hook.as_ref() == Some(&hook)).map(|t| t.time).max();
            self.term.hooks.own(&hook, event.unwrap_or_else(|| self.term.clock.now()), First::TakenOver, Source::Record);
            self.takeover.kept_alive.entry(name.clone()).or_default().insert(hook);
        }
    }

    /// A Node was confirmed, or does not exist (`None`): ends the heartbeats of actions that no open record names. `of_deleted_record`: the
    /// actions of a deleted record that is going to be written back. They are settled when the Node is seen again.
    pub(super) fn settle_kept_alive(&mut self, name: &NodeName, node: Option<&Node>, of_deleted_record: &[OwedHook]) {
        let Some(kept) = self.takeover.kept_alive.remove(name) else { return };
        // What a Node owes that the selector does not take is completed by whoever accepted it.
        let open = node.filter(|node| self.term.selects(node)).and_then(|node| {
            let instance = node.instance.clone().or_else(|| self.named.get(name).cloned())?;
            match record::standing(node, Some(&instance)) {
                Standing::Open(record) | Standing::Doubtful { record, .. } => Some(self.term.owed(&record, &instance)),
                _ => None,
            }
        });
        let open = open.unwrap_or_default();
        let (waiting, kept): (BTreeSet<_>, BTreeSet<_>) = kept.into_iter().partition(|hook| of_deleted_record.contains(hook) && !open.contains(hook));
        // Another Node may claim the same instance.
        let is_owed = |hook: &OwedHook| {
            let mut others = self.takeover.kept_alive.values();
            open.contains(hook) || others.any(|kept| kept.contains(hook)) || self.other_that_owes(hook).is_some()
        };
        for hook in kept.iter().filter(|hook| !is_owed(hook)) {
            self.term.hooks.forget(hook);
        }
        if !waiting.is_empty() {
            self.takeover.kept_alive.insert(name.clone(), waiting);
        }
    }

    /// The LIST of this term is answered: takes over the drains of the Nodes in it, and of Nodes that are confirmed later.
    pub(super) fn take_over(&mut self, listed: &UnschedulableNodes) {
        self.takeover.confirmed.listed(&listed.version, listed.nodes.iter().map(|node| &**node));
        let gone = self.remember_departed();
        for node in &listed.nodes {
            self.see(node);
        }
        // Nodes that the LIST lacks. `see` ignores those without an open record, and reads the others first.
        for node in self.term.nodes.all() {
            self.see(&node);
        }
        for node in gone {
            self.read(&node);
        }
    }

    /// Nodes that were deleted with an open record before this leader took them over. A Node that still exists and has only lost its
    /// record is not among them: `see` restores its record.
    fn remember_departed(&mut self) -> Vec<Arc<Node>> {
        let mut gone = std::mem::take(&mut self.takeover.deleted);
        for departure in self.term.departed.all(self.term.clock) {
            let same_node = self.term.nodes.get(&departure.node.name).filter(|node| node.uid == departure.node.uid);
            // The record of a Node that still exists counts from now on: while nobody led, nobody could write it back. An instance whose Node
            // was deleted long ago may be back in service.
            let since = if same_node.is_some() { self.term.clock.now() } else { departure.at };
            self.remember(&departure.instance, &departure.record, since);
            if let Some(node) = same_node {
                // The next interruption may have written a fresh record before the LIST was answered.
                let held = departure.record.clone();
                self.write(&node, "write what is owed into the record", move |node| record::carry_over(node, &held));
            }
            let is_registered = !self.term.nodes.by_instance(&departure.instance).is_empty();
            if !is_registered && gone.iter().all(|node| node.uid != departure.node.uid) {
                gone.push(departure.node);
            }
        }
        gone
    }

    /// Keeps the record for [`REMEMBER`]: if the instance registers again, its new Node gets this record.
    fn remember(&mut self, instance: &InstanceId, record: &Record, since: Moment) {
        let until = since.plus(REMEMBER);
        if until > self.term.clock.now() {
            self.remembered.insert(instance.clone(), (record.clone(), until));
        }
    }

    /// Reads a Node from the API server, and retries until that succeeds. `shown`: the Node as the index shows it, or showed it last.
    pub(super) fn read(&mut self, shown: &Arc<Node>) {
        let Entry::Vacant(place) = self.takeover.reading.entry(shown.name.clone()) else { return };
        place.insert(Arc::clone(shown));
        let (term, name, reads) = (self.term.clone(), shown.name.clone(), Arc::clone(&self.takeover.reads));
        self.term.spawn(async move {
            let mut backoff = Backoff::up_to(seconds(10));
            loop {
                let result = {
                    // `acquire` fails only for a closed semaphore. This one is never closed.
                    let _turn = reads.acquire().await.ok();
                    term.nodes.fetch(&name).await
                };
                match result {
                    Ok(node) => return term.send(FleetInput::Read { name, node: node.map(Arc::new) }),
                    Err(error) => warn!(
                        node = %name, %error,
                        "Cannot read a node whose record may be outdated; trying again. Its drain waits for that, heartbeats go on."
                    ),
                }
                tokio::time::sleep(backoff.pause(&term.random)).await;
            }
        });
    }

    /// The API server answered with this Node; `None`: it does not exist.
    pub(super) fn was_read(&mut self, name: &NodeName, node: Option<&Arc<Node>>) {
        let Some(shown) = self.takeover.reading.remove(name) else { return };
        if node.is_none_or(|node| node.uid != shown.uid) {
            // Otherwise the record of the deleted Node counts until the index catches up.
            if self.term.nodes.get(name).is_some_and(|known| known.uid == shown.uid) {
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
            // An answer that is older than what the drain has seen since would show a deleted record once more.
            let is_outdated = self.held(name).is_some_and(|held| node.is_older_than(held));
            if !is_outdated {
                self.see_confirmed(node);
            }
        }
        // Changes that the index showed during the read were not processed yet.
        if let Some(newer) = self.term.nodes.get(name).filter(|known| node.is_some_and(|node| node.is_older_than(known))) {
            self.see(&newer);
        }
    }

    /// A Node object was deleted, and no drain of this leader knows it. If the LIST of this term is not answered yet,
    /// [`Self::take_over`] handles the Node later. If it is, the index removed the Node just before: what the Node owes is completed
    /// once the API server has confirmed that it does not exist.
    pub(super) fn unconfirmed_deleted(&mut self, node: &Arc<Node>) {
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
            Trust::Confirmed if self.takeover.kept_alive.contains_key(&node.name) => self.complete_of_deleted(node, None),
            Trust::Pending => self.takeover.deleted.push(Arc::clone(node)),
            Trust::Unconfirmed => self.read(node),
            Trust::Confirmed => {}
        }
    }

    /// A Node was deleted before this leader took its drain over: completes the open actions of its last known record. `successor`:
    /// the Node that has the same name now.
    pub(super) fn complete_of_deleted(&mut self, node: &Arc<Node>, successor: Option<&Node>) {
        self.settle_kept_alive(&node.name, Some(node), &[]);
        let doubted = self.take_doubted(node);
        let is_doubted = doubted.is_some();
        let (instance, record) = if let Some(doubted) = doubted {
            (doubted.instance, doubted.record)
        } else {
            let Some(instance) = node.instance.clone().or_else(|| self.named.get(&node.name).cloned()) else { return };
            // `settle_kept_alive` keeps the actions of a machine that has booted since: they are completed, too, if AWS shows them open.
            let shown = record::standing(node, Some(&instance)).with_open_actions();
            // A person deleted the record before, and it was not written back yet.
            let deleted = || self.term.departed.of(&node.uid).filter(|gone| node.record().is_none() && gone.instance == instance);
            let Some(record) = shown.or_else(|| deleted().map(|gone| gone.record)) else { return };
            (instance, record)
        };
        if !self.term.selects(node) {
            return;
        }
        let now = self.term.clock.now();
        self.remember(&instance, &record, now);
        let is_other = |other: &Node| other.uid != node.uid && other.instance.as_ref() == Some(&instance);
        if successor.is_some_and(is_other) || self.term.nodes.by_instance(&instance).iter().any(|other| is_other(other)) {
            return;
        }
        if is_doubted || !self.term.owed(&record, &instance).is_empty() {
            self.term.report(&node.name, DrainEvent::CompletedOnceMore { instance: instance.clone(), is_doubted });
        }
        release::of_departed(&self.term, &Departure { node: Arc::clone(node), instance, record, at: now });
    }
}
