//! The index of Nodes: one watch, found by name and by instance.

use std::sync::Arc;

use serde_json::Value;

use super::{Change, Cluster, ClusterError, Health, KeepLabels, mirror};
use crate::domain::{InstanceId, Node, NodeName};

/// A change of a Node.
pub type NodeChange = Change<Node>;

/// Every Node of the cluster, slim, kept by one watch. Clones share it; it is kept until the last one is dropped.
#[derive(Clone)]
pub struct NodeIndex {
    _todo: Cluster,
}

/// The changes of Nodes, none of them lost; several of one Node that were not taken yet come as one. A Node that went and came
/// again under the same name comes as both.
pub struct NodeChanges(mirror::Changes<Node>);

impl mirror::Object for Node {
    type Key = NodeName;

    fn key(&self) -> NodeName {
        self.name.clone()
    }

    fn is_same(&self, other: &Self) -> bool {
        self.uid == other.uid
    }

    fn is_unchanged(&self, other: &Self) -> bool {
        // Kubelets report every few minutes that nothing has changed.
        Self { resource_version: other.resource_version.clone(), ..self.clone() } == *other
    }

    fn is_older(&self, other: &Self) -> bool {
        mirror::is_older_version(&self.resource_version, &other.resource_version)
    }
}

impl NodeChanges {
    /// The next change; waits for one. `None` when there is no index any more. May be dropped at any await: nothing is lost.
    pub async fn next(&mut self) -> Option<NodeChange> {
        self.0.next().await
    }

    /// The next change, if there is one now.
    pub fn try_next(&mut self) -> Option<NodeChange> {
        self.0.try_next()
    }
}

impl NodeIndex {
    /// Begins to watch. Never errs: an API server that is away is tried again for ever, [`NodeIndex::state`] says how it goes.
    #[must_use]
    pub fn start(cluster: &Cluster, keep: KeepLabels) -> Self {
        let _ = keep;
        Self { _todo: cluster.clone() }
    }

    /// Whether the index can be believed: *unknown* may be said only by one that is sound.
    #[must_use]
    pub fn state(&self) -> Health {
        todo!()
    }

    /// Waits until a complete list was read.
    pub async fn synced(&self) {
        todo!()
    }

    /// The Nodes of an instance: none, one, or by somebody's mistake more.
    #[must_use]
    pub fn by_instance(&self, _instance: &InstanceId) -> Vec<Arc<Node>> {
        todo!()
    }

    /// A Node by its name.
    #[must_use]
    pub fn get(&self, _name: &NodeName) -> Option<Arc<Node>> {
        todo!()
    }

    /// All Nodes, by name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Node>> {
        todo!()
    }

    /// Follows the index: every Node that is there comes first, as new, then every change. A change that only the resource
    /// version shows is not told.
    #[must_use]
    pub fn subscribe(&self) -> NodeChanges {
        todo!()
    }

    /// Reads a Node past the index (uncached). `None`: there is none of that name.
    pub async fn fetch(&self, _name: &NodeName) -> Result<Option<Node>, ClusterError> {
        todo!()
    }

    /// Reads all Nodes past the index (uncached). All who ask within a second of its beginning share one LIST.
    /// Errs also when one of the Nodes could not be read: this answer is there to prove that something does not exist.
    pub async fn list_fresh(&self) -> Result<Vec<Arc<Node>>, ClusterError> {
        todo!()
    }

    /// Writes to a Node with a merge patch, which carries `metadata.resourceVersion` where it must not overwrite another's
    /// change (then: [`super::Problem::Conflict`]). The answer is in the index when this returns.
    pub async fn patch(&self, _name: &NodeName, _patch: &Value) -> Result<Node, ClusterError> {
        todo!()
    }
}
