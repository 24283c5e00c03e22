//! Counts requests to the API server.

use std::time::Duration;

use super::Problem;

/// The kind of a request: a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// LIST of nodes.
    ListNodes,
    /// WATCH of nodes.
    WatchNodes,
    /// GET of one node.
    GetNode,
    /// PATCH of one node.
    PatchNode,
    /// PATCH of the conditions of one node that Sundown sets.
    PatchNodeStatus,
    /// DELETE of one node (`--delete-node`).
    DeleteNode,
    /// LIST of the pods of one node.
    ListPods,
    /// WATCH of pods.
    WatchPods,
    /// POST of an eviction.
    Evict,
    /// DELETE of a pod.
    DeletePod,
    /// PATCH of a pod's condition `DisruptionTarget` (`--disruption-target`).
    PatchPodStatus,
    /// LIST of disruption budgets.
    ListBudgets,
    /// WATCH of disruption budgets.
    WatchBudgets,
    /// GET of one DaemonSet.
    GetDaemonSet,
    /// GET of the Lease that the kubelet of a Node renews.
    GetNodeLease,
    /// LIST of VolumeAttachments (`--wait-for-volumes`).
    ListVolumeAttachments,
    /// GET of one PersistentVolumeClaim of a pod that stays on a drained node.
    GetVolumeClaim,
    /// LIST of namespaces, for rules about pods (`--rules-file`) that read their labels.
    ListNamespaces,
    /// POST or PATCH of an Event.
    Event,
}

impl Target {
    /// Every target, for initializing metrics.
    pub const ALL: [Self; 19] = [
        Self::ListNodes,
        Self::WatchNodes,
        Self::GetNode,
        Self::PatchNode,
        Self::PatchNodeStatus,
        Self::DeleteNode,
        Self::ListPods,
        Self::WatchPods,
        Self::Evict,
        Self::DeletePod,
        Self::PatchPodStatus,
        Self::ListBudgets,
        Self::WatchBudgets,
        Self::GetDaemonSet,
        Self::GetNodeLease,
        Self::ListVolumeAttachments,
        Self::GetVolumeClaim,
        Self::ListNamespaces,
        Self::Event,
    ];

    /// What the request does, as a phrase after "cannot".
    pub(super) const fn action(self) -> &'static str {
        match self {
            Self::ListNodes => "list nodes",
            Self::WatchNodes => "watch nodes",
            Self::GetNode => "get node",
            Self::PatchNode => "patch node",
            Self::PatchNodeStatus => "patch the status of node",
            Self::DeleteNode => "delete node",
            Self::ListPods => "list pods",
            Self::WatchPods => "watch pods",
            Self::Evict => "evict pod",
            Self::DeletePod => "delete pod",
            Self::PatchPodStatus => "patch the status of pod",
            Self::ListBudgets => "list disruption budgets",
            Self::WatchBudgets => "watch disruption budgets",
            Self::GetDaemonSet => "get DaemonSet",
            Self::GetNodeLease => "get the Lease of node",
            Self::ListVolumeAttachments => "list volume attachments",
            Self::GetVolumeClaim => "get PersistentVolumeClaim",
            Self::ListNamespaces => "list namespaces",
            Self::Event => "write an Event about",
        }
    }

    /// Whether the request stays open and delivers changes as they happen.
    #[must_use]
    pub const fn is_watch(self) -> bool {
        matches!(self, Self::WatchNodes | Self::WatchPods | Self::WatchBudgets)
    }

    /// Its value in metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ListNodes => "list_nodes",
            Self::WatchNodes => "watch_nodes",
            Self::GetNode => "get_node",
            Self::PatchNode => "patch_node",
            Self::PatchNodeStatus => "patch_node_status",
            Self::DeleteNode => "delete_node",
            Self::ListPods => "list_pods",
            Self::WatchPods => "watch_pods",
            Self::Evict => "evict",
            Self::DeletePod => "delete_pod",
            Self::PatchPodStatus => "patch_pod_status",
            Self::ListBudgets => "list_budgets",
            Self::WatchBudgets => "watch_budgets",
            Self::GetDaemonSet => "get_daemon_set",
            Self::GetNodeLease => "get_node_lease",
            Self::ListVolumeAttachments => "list_volume_attachments",
            Self::GetVolumeClaim => "get_volume_claim",
            Self::ListNamespaces => "list_namespaces",
            Self::Event => "event",
        }
    }
}

/// How a request ended: a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Answered with 2xx. A watch: it was opened.
    Ok,
    /// Answered with anything else, not answered, or not sent.
    Failed(Problem),
}

impl Outcome {
    /// Every value of [`Outcome::as_str`], for initializing metrics.
    pub const WORDS: [&'static str; 14] = [
        "ok",
        "conflict",
        "not_found",
        "forbidden",
        "not_admitted",
        "unauthorized",
        "invalid",
        "overload",
        "refused",
        "expired",
        "server",
        "unreachable",
        "unreadable",
        "held_back",
    ];

    /// Its value in metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed(problem) => problem.as_str(),
        }
    }
}

/// What happens to requests, watches and objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterEvent {
    /// A request has ended.
    Called {
        /// What was asked for.
        target: Target,
        /// Answered, refused or not answered: a metric label.
        outcome: Outcome,
        /// How long it took after it was sent (waiting for a free slot does not count); zero if it
        /// was not sent.
        took: Duration,
    },
    /// A watch that was open failed, and is opened again.
    WatchBroke(Target),
    /// An object could not be read and was skipped, or only its most important fields were read.
    Unreadable(Target),
}
