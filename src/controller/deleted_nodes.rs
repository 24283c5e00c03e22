//! Nodes that went with an open record, or lost it: what they owe outlives it.
//!
//! The record lies on the Node, so that it goes with it, and a person can delete it. A leader
//! completes what a vanished Node owes from memory at once, and writes a deleted record back; while
//! nobody leads, nobody does. So every replica, also one that stands by, remembers such Nodes from
//! its own index, and the next leader among them makes up for it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::context::Shared;
use crate::{
    cluster::NodeChange,
    domain::{Moment, Node},
    fleet::DeletedNode,
    record::{self, Record},
    runtime::Clock,
};

/// How long a Node is remembered: no action outlives its last heartbeat by more than the longest
/// heartbeat timeout (7 200 s, `PutLifecycleHook`).
const REMEMBER: Duration = Duration::from_hours(2);
/// So many are remembered.
const MOST: usize = 10_000;

/// The Nodes that went with an open record or lost it, and whose hooks were not completed here yet,
/// by UID. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct DeletedNodes(Arc<Mutex<BTreeMap<String, DeletedNode>>>);

impl DeletedNodes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, DeletedNode>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, node: &Arc<Node>, now: Moment) {
        // Of a Node without providerID only DescribeInstances knows the instance; its record alone
        // is not believed.
        let Some(instance) = node.instance.clone() else { return };
        // The actions of a machine that has booted since may be open still. Whoever leads finds
        // that out.
        let Some(record) = record::status(node, Some(&instance)).with_open_actions() else {
            return;
        };
        let mut all = self.lock();
        all.retain(|_, d| d.at.plus(REMEMBER) > now);
        if all.len() < MOST {
            all.insert(
                node.uid.clone(),
                DeletedNode { node: Arc::clone(node), instance, record, at: now },
            );
        }
    }

    /// A Node that lost its open record and kept our taint: a person deleted it. What Sundown puts
    /// back loses both in one patch.
    fn follow_record(&self, before: &Arc<Node>, after: &Node, now: Moment) {
        let is_lost = after.record().is_none() && after.has_our_taint() && before.uid == after.uid;
        if is_lost && before.record().is_some() {
            self.note(before, now);
        } else if !is_lost && !self.is_lacking(after) {
            self.forget(&after.uid);
        }
    }

    /// The next interruption has written a fresh record that does not name every hook of the one
    /// that was lost.
    fn is_lacking(&self, node: &Node) -> bool {
        let all = self.lock();
        let Some(held) = all.get(&node.uid) else { return false };
        let fresh = node.record().and_then(|text| Record::read(text).ok());
        fresh.is_some_and(|fresh| record::carried_over(&fresh, &held.record).is_some())
    }

    /// What it owed is completed, or is written on it again.
    pub(super) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// What is remembered of the Node with this UID.
    pub(super) fn of(&self, uid: &str) -> Option<DeletedNode> {
        self.lock().get(uid).cloned()
    }

    /// All that are remembered, the earliest first.
    pub(super) fn all(&self, clock: Clock) -> Vec<DeletedNode> {
        let now = clock.now();
        let mut all: Vec<_> =
            self.lock().values().filter(|d| d.at.plus(REMEMBER) > now).cloned().collect();
        all.sort_by_key(|d| d.at);
        all
    }
}

/// Follows the index for as long as the process lives.
pub(super) async fn follow(shared: Shared) {
    let mut changes = shared.nodes.subscribe();
    while let Some(change) = changes.next().await {
        let now = shared.clock.now();
        // One that was to be left alone since its accept owes its hooks all the same.
        let is_ours = |node: &Node| shared.policy.nodes.matches(&node.labels);
        match change {
            NodeChange::Deleted(node) if is_ours(&node) => shared.deleted_nodes.note(&node, now),
            NodeChange::Applied { now: after, before: Some(before) } if is_ours(&after) => {
                shared.deleted_nodes.follow_record(&before, &after, now);
            }
            NodeChange::Deleted(_) | NodeChange::Applied { .. } => {}
        }
    }
}
