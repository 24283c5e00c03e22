//! Which Nodes a new leader may act on.

use std::collections::BTreeMap;

use super::Record;
use crate::domain::{Node, is_older_version};

/// The Nodes that this leader has read from the API server itself since its term began.
///
/// The index of a standby may lag by a minute without any sign of it: a watch whose connection is
/// dead stays open and silent. A leader that acted on such an index would evict pods from a node
/// that its predecessor has restored. So an open record counts only if this leader read it from the
/// API server in this term, or if it is newer than the LIST of this term.
#[derive(Debug, Clone, Default)]
pub struct ConfirmedNodes {
    /// `metadata.resourceVersion` of the term's LIST of unschedulable Nodes; `None` until the LIST
    /// is answered.
    list_version: Option<String>,
    /// The `resourceVersion` of each Node that was read from the API server, by UID.
    versions: BTreeMap<String, String>,
}

/// Whether a leader may act on a Node as the index shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// It may act on the Node.
    Confirmed,
    /// It must read the Node from the API server first. Heartbeats do not wait for that.
    Unconfirmed,
    /// It must wait for the LIST of this term. Heartbeats do not wait for that.
    Pending,
}

impl ConfirmedNodes {
    /// The LIST of this term is answered: its `resourceVersion`, and the Nodes in it.
    pub fn listed<'a>(&mut self, list_version: &str, nodes: impl IntoIterator<Item = &'a Node>) {
        self.list_version = Some(list_version.to_owned());
        nodes.into_iter().for_each(|node| self.read(node));
    }

    /// The API server answered a GET or a PATCH with this Node.
    pub fn read(&mut self, node: &Node) {
        self.versions.insert(node.uid.clone(), node.resource_version.clone());
    }

    /// The Node with this UID is deleted.
    pub fn forget(&mut self, uid: &str) {
        self.versions.remove(uid);
    }

    /// The LIST of this term is answered.
    #[must_use]
    pub const fn is_listed(&self) -> bool {
        self.list_version.is_some()
    }

    /// Whether the leader may act on `node`. `held`: the Node as its drain last saw it; `None`
    /// without a drain.
    #[must_use]
    pub fn trust(&self, node: &Node, held: Option<&Node>) -> Trust {
        // A watch that was reopened repeats what it has missed, also versions that are older than
        // the one that the drain has seen.
        if held.is_some_and(|held| node.is_older_than(held)) {
            return Trust::Unconfirmed;
        }
        let read = self.versions.get(&node.uid);
        if read.is_some_and(|read| !is_older_version(&node.resource_version, read)) {
            return Trust::Confirmed;
        }
        let Some(list_version) = &self.list_version else { return Trust::Pending };
        let is_newer_than_list = is_older_version(list_version, &node.resource_version);
        if is_newer_than_list || !has_open_record(node) {
            Trust::Confirmed
        } else {
            Trust::Unconfirmed
        }
    }
}

/// The Node has a readable record that is not released, of whichever instance or boot.
fn has_open_record(node: &Node) -> bool {
    node.record()
        .and_then(|text| Record::read(text).ok())
        .is_some_and(|record| record.released().is_none())
}
