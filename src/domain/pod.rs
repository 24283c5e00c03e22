//! Pods, as far as Sundown looks at them.

use std::{sync::Arc, time::Duration};

use super::{Labels, Moment, NodeName};

super::hook::name!(
    /// `metadata.uid` of a pod.
    PodUid
);

/// Namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodKey {
    /// The namespace. Pods of one node share the text.
    pub namespace: Arc<str>,
    /// The name.
    pub name: String,
}

impl std::fmt::Display for PodKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A pod, slim: what a drain looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Namespace and name.
    pub key: PodKey,
    /// `metadata.uid`.
    pub uid: PodUid,
    /// `spec.nodeName`.
    pub node: Option<NodeName>,
    /// `metadata.labels`: which disruption budgets select it.
    pub labels: Labels,
    /// `status.phase`.
    pub phase: Phase,
    /// The `Ready` condition is `True`.
    pub ready: bool,
    /// `metadata.creationTimestamp`, by our clock: the API server writes whole seconds of its own,
    /// and a difference of 2 s and more is taken out. `None` where it cannot be read.
    pub created: Option<Moment>,
    /// `metadata.deletionTimestamp`: by when it must be gone (the time of the request plus the
    /// grace period). By our clock, too.
    pub deletion: Option<Moment>,
    /// `spec.terminationGracePeriodSeconds`; 30 s where it is not said.
    pub grace: Duration,
    /// The owner with `controller: true`.
    pub owner: Option<Box<Owner>>,
    /// It is the image of a static pod.
    pub mirror: bool,
    /// A toleration names the key of our taint (one that tolerates every key does not count).
    pub tolerates_us: bool,
    /// `metadata.finalizers` is not empty.
    pub finalizers: bool,
}

/// `status.phase`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not all containers run yet.
    Pending,
    /// Running.
    Running,
    /// All containers ended well, for good.
    Succeeded,
    /// All containers ended, one of them badly, for good.
    Failed,
    /// Not known, or a word of a newer version.
    Unknown,
}

impl Phase {
    /// Nothing of the pod runs any more, and nothing will.
    #[must_use]
    pub const fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// The controller that owns a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// `name`.
    pub name: String,
}

impl Owner {
    /// It is a DaemonSet of Kubernetes itself. Foreign kinds of that name are ordinary controllers,
    /// as for kubectl.
    #[must_use]
    pub fn is_daemon_set(&self) -> bool {
        self.kind == "DaemonSet" && self.api_version == "apps/v1"
    }
}
