//! What a drain asks its caller to do, and how a drain ends.

use std::time::Duration;

use super::{BlockReason, DispatchInput};
use crate::domain::{Moment, Owner, PodKey, PodUid, VolumeWaitEnd, Wish, WishSource};

/// What a drain asks its caller to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Pass this to the dispatcher, unchanged.
    Dispatch(DispatchInput),
    /// Find out whether this DaemonSet (apps/v1) exists. Asked once per drain, and again for new
    /// pods if it did not exist. The caller must answer with
    /// [`Input::DaemonSet`](super::Input::DaemonSet), or the drain cannot end as empty. If the
    /// look-up keeps failing, the answer is `Unreadable`.
    AskDaemonSet {
        /// Namespace of the DaemonSet.
        namespace: String,
        /// `metadata.name` of the DaemonSet.
        name: String,
    },
    /// The wait for the pods of an unreachable node is over. Read the Node from the API server: is
    /// its kubelet still silent? The caller must answer with
    /// [`NodeCondition::StillUnreachable`](super::NodeCondition::StillUnreachable) or
    /// [`NodeCondition::Fine`](super::NodeCondition::Fine). Until then the drain goes on, until its
    /// deadline at the latest, if it has one.
    AskNode,
    /// No pod that counts is left, and pods that left the node had volumes, or may have had. The
    /// caller reads which of these volumes are attached, sends
    /// [`Input::Volumes`](super::Input::Volumes) with the answer, and reads again until the drain
    /// ends or sends [`Self::StopAskingVolumes`]. If the drain need not wait for volumes, the caller
    /// answers with [`Input::NoVolumes`](super::Input::NoVolumes).
    AskVolumes,
    /// Read the labels of namespaces: a pod waits for those of its own. Answered by
    /// [`Input::Settings`](super::Input::Settings).
    AskNamespaces,
    /// The node is not empty after all: the answer to [`Self::AskVolumes`] is no longer needed.
    StopAskingVolumes,
    /// Of the pods that count only Sundown's own is left, and the effects after this one request
    /// its eviction. The caller should have handed leadership over when the drain of its own node
    /// began.
    OnlyOwnPodLeft,
    /// List the pods of the node again and open a new watch, because the watch missed the end of a
    /// pod or is not open. The caller answers with [`Input::Listed`](super::Input::Listed) and
    /// [`Input::Watch`](super::Input::Watch).
    Relist,
    /// Report this to people.
    Note(Note),
    /// The drain is over. Sent once, as the last effect; later inputs have no effects.
    Ended(Outcome),
}

/// Something to report in Events, logs and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// Sundown deleted a pod whose eviction was refused, had no answer, had no effect, or could not
    /// be sent in time.
    Forced {
        /// Namespace and name of the pod.
        pod: PodKey,
        /// UID of the pod: a name can be used again.
        uid: PodUid,
        /// Grace period of the delete, in seconds, at least 1.
        grace: u32,
        /// Why the pod could not be evicted.
        reason: BlockReason,
    },
    /// Sundown gave a pod less than its own grace period: at its eviction, or later while it
    /// terminated.
    ShortenedGrace {
        /// Namespace and name of the pod.
        pod: PodKey,
        /// UID of the pod: a name can be used again.
        uid: PodUid,
        /// The shortened grace period, in seconds, at least 1.
        grace: u32,
        /// The pod's `terminationGracePeriodSeconds`.
        own: Duration,
    },
    /// A pod has been blocked for longer than
    /// [`Settings::report_blocked_after`](super::Settings::report_blocked_after). Reported once per
    /// pod.
    Blocked {
        /// Namespace and name of the pod.
        pod: PodKey,
        /// UID of the pod: a name can be used again.
        uid: PodUid,
        /// Why it is blocked now; the reason may have changed since `since`.
        reason: BlockReason,
        /// Message of the API server, with its causes, at most 500 characters.
        message: String,
        /// When the pod was first blocked, for whatever reason.
        since: Moment,
    },
    /// The API server refused a request as malformed (400, 422 or an unexpected code), which is a
    /// fault of Sundown. Reported once per pod.
    Malformed {
        /// Namespace and name of the pod.
        pod: PodKey,
        /// Message of the API server, with its causes, at most 500 characters.
        message: String,
    },
    /// The labels of a pod's namespace did not become known in time: rules that read them do not
    /// match the pod.
    NamespaceUnknown {
        /// Namespace and name of the pod.
        pod: PodKey,
    },
    /// The controller of evicted pods keeps creating new ones on the node. From now on Sundown
    /// leaves its new pods alone and does not wait for them. Reported once per owner.
    CameBack {
        /// Namespace of the pods and their owner.
        namespace: String,
        /// The controller that creates the new pods.
        owner: Owner,
        /// How many new pods of this owner came to the node so far.
        new: usize,
    },
    /// The drain no longer waits for the volumes of its pods. Not reported if none was attached from
    /// the beginning.
    VolumeWaitEnded {
        /// How the wait ended.
        end: VolumeWaitEnd,
        /// How long the drain waited.
        took: Duration,
    },
    /// A pod asks for something by an annotation or a label. Reported once per pod.
    Wish {
        /// Namespace and name of the pod.
        pod: PodKey,
        /// UID of the pod: a name can be used again.
        uid: PodUid,
        /// The annotation or label.
        key: WishSource,
        /// What the pod asks for.
        wish: Wish,
        /// Until when the pod waits at the latest; [`Moment::MAX`]: until it has finished. `None`:
        /// it does not wait, because it asks for something else, or because the drain is too short.
        until: Option<Moment>,
    },
    /// An annotation or a label by which a pod may ask for something has a value without a meaning.
    /// Reported once per pod.
    UnknownWish {
        /// Namespace and name of the pod.
        pod: PodKey,
        /// UID of the pod: a name can be used again.
        uid: PodUid,
        /// The annotation or label.
        key: WishSource,
        /// Its value, at most 40 characters.
        value: String,
    },
    /// The DaemonSet that owns this pod does not exist, so the pod is drained like any other.
    OrphanedDaemonSet {
        /// Namespace and name of the pod.
        pod: PodKey,
        /// `metadata.name` of the missing DaemonSet.
        daemon_set: String,
    },
}

/// How a drain ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// No pod that counts is left.
    Empty,
    /// The deadline was reached.
    DeadlineReached {
        /// Pods that count and still exist, in the order of namespace and name.
        left: Vec<PodKey>,
    },
    /// The drain had no deadline and reached the longest time that a drain may take.
    TimedOut {
        /// Pods that count and still exist, in the order of namespace and name.
        left: Vec<PodKey>,
    },
    /// The Node object was deleted.
    NodeGone,
    /// EC2 reports the instance as stopped or terminated.
    InstanceOver,
    /// The node was only tainted or cordoned: its interruptions do not ask for evictions (`--on`).
    NotEvicted {
        /// Pods that count and still exist, in the order of namespace and name.
        left: Vec<PodKey>,
    },
    /// No interruption has followed a recommendation in time: the Node is restored.
    Expired {
        /// Pods that count and still exist, in the order of namespace and name.
        left: Vec<PodKey>,
    },
    /// The node is unreachable, and the wait for its pods is over.
    Unreachable {
        /// Pods that count and still exist, in the order of namespace and name.
        left: Vec<PodKey>,
    },
    /// A person released the node, or its interruption was disproved.
    Released {
        /// Pods that count and still exist, in the order of namespace and name.
        left: Vec<PodKey>,
    },
    /// AWS has contradicted every lifecycle action of the record: the Node is restored.
    Contradicted {
        /// Pods that count and still exist, in the order of namespace and name.
        left: Vec<PodKey>,
    },
}

impl Outcome {
    /// Label in metrics and logs.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::DeadlineReached { .. } => "deadline",
            Self::TimedOut { .. } => "timed_out",
            Self::NodeGone => "node_gone",
            Self::InstanceOver => "instance_over",
            Self::NotEvicted { .. } => "not_evicted",
            Self::Expired { .. } => "expired",
            Self::Unreachable { .. } => "unreachable",
            Self::Released { .. } => "released",
            Self::Contradicted { .. } => "contradicted",
        }
    }

    /// The drain has failed: pods that count were left at the deadline, or nobody knows which pods
    /// there are, because they were never listed. `pods_are_known`: they were listed at least once.
    #[must_use]
    pub const fn has_failed(&self, pods_are_known: bool) -> bool {
        match self {
            Self::DeadlineReached { left } | Self::TimedOut { left } => {
                !left.is_empty() || !pods_are_known
            }
            Self::Empty
            | Self::NodeGone
            | Self::InstanceOver
            | Self::NotEvicted { .. }
            | Self::Expired { .. }
            | Self::Unreachable { .. }
            | Self::Released { .. }
            | Self::Contradicted { .. } => false,
        }
    }

    /// Pods that count, still existed at the end, and had not finished; empty if the node or its
    /// instance is gone.
    #[must_use]
    pub fn left(&self) -> &[PodKey] {
        match self {
            Self::DeadlineReached { left }
            | Self::TimedOut { left }
            | Self::NotEvicted { left }
            | Self::Expired { left }
            | Self::Unreachable { left }
            | Self::Released { left }
            | Self::Contradicted { left } => left,
            Self::Empty | Self::NodeGone | Self::InstanceOver => &[],
        }
    }
}

/// One request to evict or delete one pod, always with the pod's UID as a precondition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// POST of a `policy/v1` Eviction.
    Evict {
        /// Namespace and name of the pod.
        pod: PodKey,
        /// Precondition: the request fails if the pod has another UID.
        uid: PodUid,
        /// `gracePeriodSeconds`, at least 1. `None`: not sent, so the pod has its own grace period.
        grace: Option<u32>,
    },
    /// DELETE of the pod.
    Delete {
        /// Namespace and name of the pod.
        pod: PodKey,
        /// Precondition: the request fails if the pod has another UID.
        uid: PodUid,
        /// `gracePeriodSeconds`, at least 1.
        grace: u32,
        /// Why Sundown deletes the pod instead of evicting it.
        why: DeleteWhy,
    },
}

impl Order {
    /// Namespace and name of the pod that this order is about.
    #[must_use]
    pub const fn pod(&self) -> &PodKey {
        match self {
            Self::Evict { pod, .. } | Self::Delete { pod, .. } => pod,
        }
    }

    /// UID of the pod that this order is about.
    #[must_use]
    pub const fn uid(&self) -> &PodUid {
        match self {
            Self::Evict { uid, .. } | Self::Delete { uid, .. } => uid,
        }
    }
}

/// Why Sundown deletes a pod instead of evicting it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeleteWhy {
    /// Its eviction was refused, had no answer, had no effect or could not be sent, and the
    /// deadline is near.
    Forced,
    /// The pod is terminating, but would outlive the deadline: the delete shortens its grace
    /// period.
    Shortened,
}
