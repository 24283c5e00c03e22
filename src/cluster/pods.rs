//! The pods of the nodes that are being drained.

use super::{Cluster, ClusterError};
use crate::domain::{Moment, NodeName, Pod, PodUid};

/// What happened to the pods of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodEvent {
    /// All pods that are on it: the first event after [`PodFeed::attach`], and again whenever the watch had to begin anew.
    /// Those not in it are gone.
    Listed(Vec<Pod>),
    /// One of them is new or changed.
    Changed(Pod),
    /// One of them is gone.
    Gone(PodUid),
}

/// How pods are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodFeedSettings {
    /// How many nodes have a watch of their own; those beyond share one over the whole cluster.
    pub own_watches: usize,
    /// How many events wait for the receiver before the watches wait for it.
    pub buffer: usize,
}

impl Default for PodFeedSettings {
    fn default() -> Self {
        Self { own_watches: 32, buffer: 256 }
    }
}

/// Watches the pods of attached nodes. Cost grows with the nodes attached, not with the cluster, up to the threshold.
/// Clones share it; it works until the last one is dropped.
#[derive(Clone)]
pub struct PodFeed {
    _todo: Cluster,
}

/// The events of all attached nodes, in order for each node. It must be read: the watches wait for it.
pub struct PodEvents {
    _todo: (),
}

impl PodEvents {
    /// The next event. `None` when there is no feed any more. May be dropped at any await: nothing is lost.
    pub async fn next(&mut self) -> Option<(NodeName, PodEvent)> {
        todo!()
    }
}

impl PodFeed {
    /// A feed without nodes.
    #[must_use]
    pub fn start(cluster: &Cluster, settings: PodFeedSettings) -> (Self, PodEvents) {
        let _ = settings;
        (Self { _todo: cluster.clone() }, PodEvents { _todo: () })
    }

    /// Begins to watch the pods of a node; attaching it again lists them anew. Does not wait.
    pub fn attach(&self, _node: &NodeName) {
        todo!()
    }

    /// Ends the watch of a node. Events of it that wait already still come.
    pub fn detach(&self, _node: &NodeName) {
        todo!()
    }

    /// Since when nothing reliable is known of the pods of this node; `None` while the watch is well, or it is not attached.
    #[must_use]
    pub fn failing_since(&self, _node: &NodeName) -> Option<Moment> {
        todo!()
    }

    /// Why the watch of this node failed last, while it is failing.
    #[must_use]
    pub fn last_error(&self, _node: &NodeName) -> Option<ClusterError> {
        todo!()
    }
}
