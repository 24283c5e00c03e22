//! What a drain wants done.

use std::time::Duration;

use super::{BlockReason, DispatchInput};
use crate::domain::{Moment, Owner, PodKey, PodUid};

/// What a drain wants done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// To be fed to the dispatcher, as it is.
    Dispatch(DispatchInput),
    /// Is there such a DaemonSet (apps/v1)? Asked once per drain; must be answered by
    /// [`Input::DaemonSet`](super::Input::DaemonSet): until then the drain cannot end as empty. A
    /// failure that lasts is `Unreadable`.
    AskDaemonSet {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The pods of an unreachable node were waited for long enough: is its kubelet still silent, by
    /// the Node as it is now? Must be answered by
    /// [`NodeCondition::StillUnreachable`](super::NodeCondition::StillUnreachable) or
    /// [`NodeCondition::Fine`](super::NodeCondition::Fine): until then the drain goes on, at the
    /// longest until its deadline, if it has one.
    AskNode,
    /// Nothing that counts is left but our own pod, and the effects after this one ask for its
    /// eviction. Leadership was to be handed over when the drain of its node began.
    OnlyOwnPodLeft,
    /// The watch has missed the end of a pod, or is not open: the node's pods are to be listed
    /// anew, with a new watch ([`Input::Listed`](super::Input::Listed),
    /// [`Input::Watch`](super::Input::Watch)).
    Relist,
    /// Something that people should hear of.
    Note(Note),
    /// The drain is over, and this is how. Comes once, as the last effect; later inputs have none.
    Ended(Outcome),
}

/// Something that people should hear of: Events, logs, metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// A pod was deleted although its eviction was refused or got no answer.
    Forced {
        /// Which pod.
        pod: PodKey,
        /// Its UID.
        uid: PodUid,
        /// Its grace period, in seconds.
        grace: u32,
        /// What had blocked it.
        reason: BlockReason,
    },
    /// A pod was evicted, or its termination shortened, with less than its own grace period.
    ShortenedGrace {
        /// Which pod.
        pod: PodKey,
        /// Its UID.
        uid: PodUid,
        /// What it was given, in seconds.
        grace: u32,
        /// What it asks for.
        own: Duration,
    },
    /// A pod has been blocked for longer than
    /// [`Settings::tell_blocked_after`](super::Settings::tell_blocked_after). Comes once per pod.
    Blocked {
        /// Which pod.
        pod: PodKey,
        /// Its UID.
        uid: PodUid,
        /// By what.
        reason: BlockReason,
        /// In the server's words.
        message: String,
        /// Since when.
        since: Moment,
    },
    /// The API refused an order as malformed (400, 422 or a code that should not be): our own
    /// fault. Comes once per pod.
    Malformed {
        /// Which pod.
        pod: PodKey,
        /// In the server's words.
        message: String,
    },
    /// New pods of this owner come back on the node: from here on they are left alone, and not
    /// waited for. Comes once per owner.
    CameBack {
        /// The namespace of the pods.
        namespace: String,
        /// Who puts them back.
        owner: Owner,
        /// How many new pods of it there were so far.
        new: usize,
    },
    /// A DaemonSet's pod whose DaemonSet is gone: it is drained like any other.
    OrphanedDaemonSet {
        /// Which pod.
        pod: PodKey,
        /// The DaemonSet that is not there.
        daemon_set: String,
    },
}

/// How a drain ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// No pod that counts is left.
    Empty,
    /// The deadline is there.
    DeadlineReached {
        /// The pods that are still there.
        left: Vec<PodKey>,
    },
    /// No deadline ruled, and the longest time for a drain is over.
    TimedOut {
        /// The pods that are still there.
        left: Vec<PodKey>,
    },
    /// The Node was deleted.
    NodeGone,
    /// The instance is stopped or terminated.
    InstanceOver,
    /// The node is unreachable and its pods were waited for long enough.
    Unreachable {
        /// The pods that are still there.
        left: Vec<PodKey>,
    },
    /// Ended from outside.
    Released {
        /// The pods that are still there.
        left: Vec<PodKey>,
    },
}

impl Outcome {
    /// The word for it in metrics and logs.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::DeadlineReached { .. } => "deadline",
            Self::TimedOut { .. } => "timed_out",
            Self::NodeGone => "node_gone",
            Self::InstanceOver => "instance_over",
            Self::Unreachable { .. } => "unreachable",
            Self::Released { .. } => "released",
        }
    }

    /// The pods that were still there.
    #[must_use]
    pub fn left(&self) -> &[PodKey] {
        match self {
            Self::DeadlineReached { left }
            | Self::TimedOut { left }
            | Self::Unreachable { left }
            | Self::Released { left } => left,
            Self::Empty | Self::NodeGone | Self::InstanceOver => &[],
        }
    }
}

/// One request about one pod, always with its UID as a precondition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// POST of a `policy/v1` Eviction.
    Evict {
        /// Which pod.
        pod: PodKey,
        /// The precondition.
        uid: PodUid,
        /// `gracePeriodSeconds`, at least 1; `None`: the pod's own, nothing is sent.
        grace: Option<u32>,
    },
    /// DELETE of the pod.
    Delete {
        /// Which pod.
        pod: PodKey,
        /// The precondition.
        uid: PodUid,
        /// `gracePeriodSeconds`, at least 1: a delete is only ever sent towards a deadline.
        grace: u32,
        /// Why it is not an eviction.
        why: DeleteWhy,
    },
}

impl Order {
    /// The pod's namespace and name.
    #[must_use]
    pub const fn pod(&self) -> &PodKey {
        match self {
            Self::Evict { pod, .. } | Self::Delete { pod, .. } => pod,
        }
    }

    /// The pod's UID.
    #[must_use]
    pub const fn uid(&self) -> &PodUid {
        match self {
            Self::Evict { uid, .. } | Self::Delete { uid, .. } => uid,
        }
    }
}

/// Why a pod is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeleteWhy {
    /// Its eviction was refused, had no answer or had no effect, and the deadline comes.
    Forced,
    /// It is terminating, but would outlive the deadline.
    Shortened,
}
