//! The state of a drain at one moment, and why its pods are blocked.

use super::{
    AskedToWait,
    pod::{Disposition, Entry, Rules, Tally},
};
use crate::domain::{Moment, Owner, PodKey};

/// The state of a drain at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Stage of the drain.
    pub phase: Phase,
    /// Pods by state.
    pub counts: Counts,
    /// Blocked pods with the reason, in the order of namespace and name.
    pub blocked: Vec<Blocked>,
    /// Pods that Sundown deleted because it could not evict them.
    pub forced: Vec<PodKey>,
    /// Owners whose pods come back on the node, so that Sundown leaves the new ones alone.
    pub left_alone: Vec<LeftAlone>,
    /// When the drain ends at the latest, also while paused. `None`: no limit.
    pub ends_at: Option<Moment>,
    /// When the first of the pods that wait for earlier groups is evicted at the latest;
    /// [`Moment::MAX`]: only when those are gone. `None`: no pod waits for earlier groups.
    pub next_group_at: Option<Moment>,
    /// The pods that wait because they ask for it, by key, in the order of the keys.
    pub asked_to_wait: Vec<AskedToWait>,
}

/// The stage of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The pods of the node have not been listed yet.
    Listing,
    /// The pods of the node stay: its interruptions do not ask for evictions (`--on`).
    Marked,
    /// Pods are being evicted or waited for.
    Draining,
    /// No pod is left, and volumes of the pods are still attached.
    Volumes,
    /// The drain is paused.
    Paused,
    /// The drain is over.
    Ended,
}

impl Phase {
    /// The word for it in the live view of the simulation and in the documentation.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Listing => "listing",
            Self::Marked => "marked",
            Self::Draining => "draining",
            Self::Volumes => "volumes",
            Self::Paused => "paused",
            Self::Ended => "ended",
        }
    }
}

/// Pods by state. `left` is the sum of `waiting`, `later`, `asked_to_wait`, `blocked`, `leaving`
/// and `unknown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Pods that count and still exist.
    pub left: usize,
    /// Not evicted yet, and no reason is known why they should not be.
    pub waiting: usize,
    /// Not evicted yet, because pods of earlier groups are left (`--pod-order`).
    pub later: usize,
    /// Not evicted yet, because they ask for that by an annotation or a label.
    pub asked_to_wait: usize,
    /// Refused, stuck or intercepted.
    pub blocked: usize,
    /// Evicted or terminating, on their way out.
    pub leaving: usize,
    /// Owned by a DaemonSet that was not looked up yet.
    pub unknown: usize,
    /// Pods that do not count: finished, mirror pods, pods of DaemonSets, pods that tolerate
    /// Sundown's taint, pods that ask to be left alone, and pods that came back too often.
    pub untouched: usize,
}

/// A pod that cannot be removed at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// Namespace and name of the pod.
    pub pod: PodKey,
    /// Why it is blocked now; the reason may have changed since `since`.
    pub reason: BlockReason,
    /// Message of the API server; empty if the reason does not come from an answer.
    pub message: String,
    /// When the pod was first blocked, for whatever reason.
    pub since: Moment,
}

/// An owner whose pods come back on the node. Sundown drains its pods that existed at the cordon,
/// and leaves the others alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftAlone {
    /// Namespace of the owner and its pods.
    pub namespace: String,
    /// The controller that creates the new pods.
    pub owner: Owner,
    /// How many new pods of this owner came to the node since the cordon.
    pub new: usize,
}

/// Why a pod is blocked. A metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockReason {
    /// Its disruption budget allows no disruption.
    Pdb,
    /// The status of its disruption budget is behind its spec.
    PdbLagging,
    /// More than one disruption budget selects it: the API server evicts no such pod.
    TwoPdbs,
    /// An admission webhook or policy refuses its eviction.
    Webhook,
    /// Its namespace is being deleted.
    NamespaceTerminating,
    /// Sundown lacks the RBAC rights, or its credentials are not accepted.
    Rbac,
    /// Its deletion time passed at least a minute ago, but it still exists.
    TerminatingStuck,
    /// The same, and it has finalizers.
    Finalizer,
    /// The API server is overloaded.
    ApiOverload,
    /// Its eviction was accepted, but the pod does not terminate: a webhook intercepts evictions.
    Intercepted,
    /// No eviction of it could be sent in time: no slot was free, or the API server was overloaded.
    NoSlot,
    /// Any other failure: no answer, an error of the API server, a conflict, a malformed request.
    Error,
}

impl BlockReason {
    /// Every reason, to initialize metrics.
    pub const ALL: [Self; 12] = [
        Self::Pdb,
        Self::PdbLagging,
        Self::TwoPdbs,
        Self::Webhook,
        Self::NamespaceTerminating,
        Self::Rbac,
        Self::TerminatingStuck,
        Self::Finalizer,
        Self::ApiOverload,
        Self::Intercepted,
        Self::NoSlot,
        Self::Error,
    ];

    /// Label in metrics, Events and `sundown status`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pdb => "pdb",
            Self::PdbLagging => "pdb_lagging",
            Self::TwoPdbs => "two_pdbs",
            Self::Webhook => "webhook",
            Self::NamespaceTerminating => "namespace_terminating",
            Self::Rbac => "rbac",
            Self::TerminatingStuck => "terminating_stuck",
            Self::Finalizer => "finalizer",
            Self::ApiOverload => "api_overload",
            Self::Intercepted => "intercepted",
            Self::NoSlot => "no_slot",
            Self::Error => "error",
        }
    }
}

/// How the Event of a blocked pod begins.
const BLOCKED: &str = "its node is being drained, but it does not go: ";

impl BlockReason {
    /// The message of a blocked pod's Event. `message`: the message of the API server.
    #[must_use]
    pub fn in_event(self, message: &str) -> String {
        format!("{BLOCKED}{} ({message})", self.as_str())
    }

    /// Parses such a message into the reason and the API server's message. `None` for any other
    /// text.
    #[must_use]
    pub fn of_event(text: &str) -> Option<(Self, &str)> {
        let (word, rest) = text.strip_prefix(BLOCKED)?.split_once(" (")?;
        let reason = Self::ALL.into_iter().find(|reason| reason.as_str() == word)?;
        // `MESSAGE) (node NAME)`
        let message = rest.rsplit_once(") (node ").map_or(rest, |(message, _)| message);
        Some((reason, message))
    }
}

/// The pods of a drain at one moment.
pub(super) struct Summary {
    pub(super) counts: Counts,
    pub(super) blocked: Vec<Blocked>,
    pub(super) asked_to_wait: Vec<AskedToWait>,
}

/// Counts the pods, and lists those that are blocked or ask to wait.
pub(super) fn summary<'a>(
    pods: impl Iterator<Item = &'a Entry>,
    rules: &Rules,
    now: Moment,
    tally: Tally,
) -> Summary {
    let mut counts = Counts { left: tally.left, unknown: tally.unknown, ..Counts::default() };
    let mut blocked = Vec::new();
    let mut asked_to_wait = Vec::new();
    for entry in pods.filter(|e| e.gone.is_none()) {
        match (&entry.block, entry.disposition) {
            (_, Disposition::Untouched) => counts.untouched += 1,
            (_, Disposition::Unknown) => {}
            (Some(block), Disposition::Counts) => {
                counts.blocked += 1;
                blocked.push(Blocked {
                    pod: entry.pod.key.clone(),
                    reason: block.reason,
                    message: block.message.clone(),
                    since: block.since,
                });
            }
            (None, Disposition::Counts)
                if entry.pod.deletion.is_some() || entry.accepted_at.is_some() =>
            {
                counts.leaving += 1;
            }
            (None, Disposition::Counts) => {
                if let Some((key, until)) =
                    entry.asks_to_wait_until(rules).filter(|(_, at)| now < *at)
                {
                    counts.asked_to_wait += 1;
                    AskedToWait::add(&mut asked_to_wait, key, until);
                } else if entry.waits_for_earlier_groups_until(rules).is_some_and(|at| now < at) {
                    counts.later += 1;
                } else {
                    counts.waiting += 1;
                }
            }
        }
    }
    blocked.sort_by(|a, b| a.pod.cmp(&b.pod));
    Summary { counts, blocked, asked_to_wait }
}
