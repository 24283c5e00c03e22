//! The fields of pods that Sundown uses.

use std::{sync::Arc, time::Duration};

use super::{Labels, Moment, NodeName, PodWishes};

super::hook::name!(
    /// `metadata.uid` of a pod.
    PodUid
);

/// Namespace and name of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodKey {
    /// `metadata.namespace`. Pods of one node share the text.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: String,
}

impl std::fmt::Display for PodKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Namespace and name of a DaemonSet, written `NAMESPACE/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DaemonSetName {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

/// The text is not `NAMESPACE/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not NAMESPACE/NAME, such as kube-system/aws-node")]
pub struct NotADaemonSetName(String);

impl std::str::FromStr for DaemonSetName {
    type Err = NotADaemonSetName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_name = |name: &str| {
            (1..=253).contains(&name.len())
                && name.bytes().all(|b| {
                    b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.')
                })
        };
        match text.split_once('/') {
            Some((namespace, name)) if is_name(namespace) && is_name(name) => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(NotADaemonSetName(text.chars().take(64).collect())),
        }
    }
}

impl std::fmt::Display for DaemonSetName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The fields of a pod that a drain uses.
#[allow(
    clippy::struct_excessive_bools,
    reason = "facts of an object that do not exclude each other"
)]
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
    /// `metadata.creationTimestamp`, by our clock. The API server writes whole seconds of its own
    /// clock; a difference of 2 s or more between the clocks is corrected. `None` if unreadable.
    pub created: Option<Moment>,
    /// `metadata.deletionTimestamp`: when the pod must be gone (the time of the request plus the
    /// grace period), also by our clock.
    pub deletion: Option<Moment>,
    /// `spec.terminationGracePeriodSeconds`; 30 s if absent.
    pub grace: Duration,
    /// The owner with `controller: true`.
    pub owner: Option<Box<Owner>>,
    /// It is a mirror pod: the API object that represents a static pod.
    pub mirror: bool,
    /// A toleration names the key of our taint. A toleration of every key does not count.
    pub tolerates_us: bool,
    /// `metadata.finalizers` is not empty.
    pub finalizers: bool,
    /// `spec.priority`, which the API server sets from the pod's priority class; 0 if absent.
    pub priority: i32,
    /// A volume of `spec.volumes` is a PersistentVolumeClaim, or a generic ephemeral volume, which
    /// has one.
    pub has_claims: bool,
    /// What its annotations and labels ask of the drain of its node.
    pub wishes: PodWishes,
}

/// `status.phase`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not all containers run yet.
    Pending,
    /// Running.
    Running,
    /// All containers ended successfully and will not restart.
    Succeeded,
    /// All containers ended and will not restart; at least one failed.
    Failed,
    /// Not known, or a phase of a newer Kubernetes version.
    Unknown,
}

impl Phase {
    /// No container of the pod runs or will run again.
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
    /// It is a DaemonSet of `apps/v1`. Kinds of that name in other API groups are ordinary
    /// controllers, as for kubectl.
    #[must_use]
    pub fn is_daemon_set(&self) -> bool {
        self.kind == "DaemonSet" && self.api_version == "apps/v1"
    }
}
