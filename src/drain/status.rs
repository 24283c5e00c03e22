//! What a drain says of itself.

use super::pod::{Belongs, Entry, Tally};
use crate::domain::{Moment, Owner, PodKey};

/// What a drain says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Where it is.
    pub phase: Phase,
    /// How many pods are in which state.
    pub counts: Counts,
    /// Pods that do not go, with the cause; in the order of namespace and name.
    pub blocked: Vec<Blocked>,
    /// Pods that were deleted although they could not be evicted.
    pub forced: Vec<PodKey>,
    /// Owners whose pods come back on the node, and are left alone.
    pub left_alone: Vec<LeftAlone>,
    /// When it ends at the latest, also while paused.
    pub ends_at: Option<Moment>,
}

/// Where a drain is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The pods are not known yet.
    Listing,
    /// Pods are being evicted or waited for.
    Draining,
    /// The drain is paused.
    Paused,
    /// It is over.
    Ended,
}

impl Phase {
    /// The word for it in metrics and on the status page.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Listing => "listing",
            Self::Draining => "draining",
            Self::Paused => "paused",
            Self::Ended => "ended",
        }
    }
}

/// How many pods are in which state. `left` is the sum of `waiting`, `blocked`, `leaving` and
/// `unknown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Pods that count and are still there.
    pub left: usize,
    /// Not evicted yet, and nothing is known against it.
    pub waiting: usize,
    /// Refused, stuck or intercepted.
    pub blocked: usize,
    /// Evicted or terminating, on their way out.
    pub leaving: usize,
    /// Owned by a DaemonSet that was not looked at yet.
    pub unknown: usize,
    /// Not counted: finished, mirror, DaemonSet's, tolerating our taint, or come back too often.
    pub untouched: usize,
}

/// A pod that does not go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// Which pod.
    pub pod: PodKey,
    /// By what.
    pub reason: BlockReason,
    /// In the server's words, where it said any.
    pub message: String,
    /// Since when it is blocked, by whatever.
    pub since: Moment,
}

/// An owner whose pods come back on the node. Those that were there at the cordon are drained, the
/// others are left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftAlone {
    /// The namespace of its pods.
    pub namespace: String,
    /// The owner.
    pub owner: Owner,
    /// How many new pods of it came to the node since the cordon.
    pub new: usize,
}

/// What blocks a pod. A metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockReason {
    /// Its disruption budget allows no disruption.
    Pdb,
    /// The status of its disruption budget is behind its spec.
    PdbLagging,
    /// More than one disruption budget counts it: the API evicts no such pod.
    TwoPdbs,
    /// An admission webhook or policy refuses.
    Webhook,
    /// Its namespace is being deleted.
    NamespaceTerminating,
    /// We may not.
    Rbac,
    /// It should have ended long ago.
    TerminatingStuck,
    /// It should have ended long ago, and has finalizers.
    Finalizer,
    /// The API server has too much to do.
    ApiOverload,
    /// Its eviction was accepted, but it does not end: something intercepts it.
    Intercepted,
    /// No eviction of it could be sent in time: no slot was free, or the API server had too much to
    /// do.
    NoSlot,
    /// Anything else that went wrong.
    Error,
}

impl BlockReason {
    /// Every reason, for initialising metrics.
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

    /// The label.
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
    /// The message of a blocked pod's Event. `message`: what the API server said.
    #[must_use]
    pub fn in_event(self, message: &str) -> String {
        format!("{BLOCKED}{} ({message})", self.as_str())
    }

    /// Reads such a message: the reason, and the API server's words. `None` for any other message.
    #[must_use]
    pub fn of_event(text: &str) -> Option<(Self, &str)> {
        let (word, rest) = text.strip_prefix(BLOCKED)?.split_once(" (")?;
        let reason = Self::ALL.into_iter().find(|reason| reason.as_str() == word)?;
        // `MESSAGE) (node NAME)`
        let message = rest.rsplit_once(") (node ").map_or(rest, |(message, _)| message);
        Some((reason, message))
    }
}

/// Counts the pods and lists what blocks them.
pub(super) fn summary<'a>(
    pods: impl Iterator<Item = &'a Entry>,
    tally: Tally,
) -> (Counts, Vec<Blocked>) {
    let mut counts = Counts { left: tally.left, unknown: tally.unknown, ..Counts::default() };
    let mut blocked = Vec::new();
    for entry in pods.filter(|e| e.gone.is_none()) {
        match (&entry.block, entry.belongs) {
            (_, Belongs::Untouched) => counts.untouched += 1,
            (_, Belongs::Unknown) => {}
            (Some(block), Belongs::Counts) => {
                counts.blocked += 1;
                blocked.push(Blocked {
                    pod: entry.pod.key.clone(),
                    reason: block.reason,
                    message: block.message.clone(),
                    since: block.since,
                });
            }
            (None, Belongs::Counts)
                if entry.pod.deletion.is_some() || entry.accepted_at.is_some() =>
            {
                counts.leaving += 1;
            }
            (None, Belongs::Counts) => counts.waiting += 1,
        }
    }
    blocked.sort_by(|a, b| a.pod.cmp(&b.pod));
    (counts, blocked)
}
