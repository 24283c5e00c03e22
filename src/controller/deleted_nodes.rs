//! Nodes that were deleted with an open record, or whose open record was deleted. Their lifecycle
//! actions must still be completed.
//!
//! A record disappears with its Node, and a person can delete it. A leader completes the open
//! actions of a deleted Node from memory at once, and writes a deleted record back. While nobody
//! leads, nobody does. So every replica, standbys included, remembers such Nodes from its own
//! index, and the next leader among them does it then.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    cluster::{NodeChange, NodeChanges, NodeIndex},
    domain::{Moment, Node},
    fleet::LastKnownNode,
    record::{self, Record},
    runtime::Clock,
    triage::Policy,
};

/// How long a Node is remembered. An action ends at the latest one heartbeat timeout after its last
/// heartbeat, and the longest timeout is 7 200 s (`PutLifecycleHook`).
const REMEMBER: Duration = Duration::from_hours(2);
/// How many Nodes are remembered at most.
const MOST: usize = 10_000;

/// By UID: Nodes that were deleted with an open record or lost it, and whose actions this process
/// has not completed yet. Clones share them.
#[derive(Clone)]
pub(super) struct DeletedNodes {
    nodes: Arc<Mutex<BTreeMap<String, LastKnownNode>>>,
    /// The changes of the index that were not looked at yet.
    unseen: Arc<Mutex<NodeChanges>>,
    index: NodeIndex,
    policy: Arc<Policy>,
    clock: Clock,
}

impl DeletedNodes {
    /// Remembers from now on what `index` shows to be deleted.
    pub(super) fn new(index: NodeIndex, policy: Arc<Policy>, clock: Clock) -> Self {
        Self {
            nodes: Arc::default(),
            unseen: Arc::new(Mutex::new(index.subscribe())),
            index,
            policy,
            clock,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, LastKnownNode>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, node: &Arc<Node>, now: Moment) {
        // Without providerID only DescribeInstances shows the instance of a Node. The record alone
        // does not prove it.
        let Some(instance) = node.instance.clone() else { return };
        // If the machine has booted since the record was written, its actions may still be open.
        // The leader finds that out.
        let Some(record) = record::status(node, Some(&instance)).with_open_actions() else {
            return;
        };
        let mut all = self.lock();
        all.retain(|_, d| d.at.plus(REMEMBER) > now);
        // A newer record, written for another interruption, can lack a hook of the remembered one.
        let held = all.get(&node.uid).and_then(|held| record::merged_record(&record, &held.record));
        let record = held.unwrap_or(record);
        if all.len() < MOST {
            all.insert(
                node.uid.clone(),
                LastKnownNode { node: Arc::clone(node), instance, record, at: now },
            );
        }
    }

    /// Remembers a Node that lost its open record but kept our taint: a person deleted the record.
    /// When Sundown restores a Node, it removes both in one patch.
    fn follow_record(&self, before: &Arc<Node>, after: &Node, now: Moment) {
        let is_lost = after.record().is_none() && after.has_our_taint() && before.uid == after.uid;
        if is_lost && before.record().is_some() {
            self.note(before, now);
        } else if !is_lost && !self.is_lacking(after) {
            self.forget(&after.uid);
        }
    }

    /// Whether the Node has a newer record, written for another interruption, that does not name
    /// every hook of the remembered one.
    fn is_lacking(&self, node: &Node) -> bool {
        let all = self.lock();
        let Some(held) = all.get(&node.uid) else { return false };
        let fresh = node.record().and_then(|text| Record::read(text).ok());
        fresh.is_some_and(|fresh| record::merged_record(&fresh, &held.record).is_some())
    }

    /// Forgets a Node: its actions are completed, or its record is written again.
    pub(super) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// The remembered Node with this UID.
    pub(super) fn of(&self, uid: &str) -> Option<LastKnownNode> {
        self.lock().get(uid).cloned()
    }

    /// All remembered Nodes, the earliest first.
    pub(super) fn all(&self) -> Vec<LastKnownNode> {
        let now = self.clock.now();
        let mut all: Vec<_> =
            self.lock().values().filter(|d| d.at.plus(REMEMBER) > now).cloned().collect();
        all.sort_by_key(|d| d.at);
        all
    }

    /// Follows the index of Nodes for as long as the process lives.
    pub(super) async fn follow(self) {
        let mut changes = self.index.subscribe();
        while changes.next().await.is_some() {
            self.catch_up();
        }
    }

    /// Looks at every change that the index has made so far. Call it before you read what is
    /// remembered: the index may have shown a Node without its record a moment ago.
    pub(super) fn catch_up(&self) {
        let mut unseen = self.unseen.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(change) = unseen.try_next() {
            let now = self.clock.now();
            // A Node that was annotated `sundown.dev/ignore` after its accept counts: its actions
            // are completed all the same.
            let is_ours = |node: &Node| self.policy.nodes.matches(&node.labels);
            match change {
                NodeChange::Deleted { last, before } if is_ours(&last) => {
                    // A person may have deleted the record before, and the changes came together.
                    if let Some(before) = before {
                        self.follow_record(&before, &last, now);
                    }
                    self.note(&last, now);
                }
                NodeChange::Applied { now: after, before: Some(before) } if is_ours(&after) => {
                    self.follow_record(&before, &after, now);
                }
                NodeChange::Deleted { .. } | NodeChange::Applied { .. } => {}
            }
        }
    }
}
