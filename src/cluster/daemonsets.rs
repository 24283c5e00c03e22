//! Whether a DaemonSet exists.

use super::Cluster;

/// What is known of a DaemonSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DaemonSetState {
    /// It exists.
    There,
    /// It does not (404): its pods are nobody's.
    Gone,
    /// Cannot be told now (no permission, no answer).
    Unreadable,
}

/// Looks DaemonSets up, one GET for each in ten minutes, however many ask.
#[derive(Clone)]
pub struct DaemonSets {
    _todo: Cluster,
}

impl DaemonSets {
    /// Knowing none yet.
    #[must_use]
    pub fn new(cluster: &Cluster) -> Self {
        Self { _todo: cluster.clone() }
    }

    /// Whether it exists. Answers within the deadline of a request.
    pub async fn state(&self, _namespace: &str, _name: &str) -> DaemonSetState {
        todo!()
    }
}
