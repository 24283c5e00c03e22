//! The deadlines and rules of a drain.

use std::{fmt, str::FromStr};

use super::{DrainSettings, EvictionStart, HeldBy, Moment, Response};

/// The current deadlines of a drain. `lifecycle` derives them from the facts and does so again
/// whenever the facts change; `drain` obeys them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The deadline less its margin: grace periods are shortened, and pods are forced, so that the
    /// pods are gone by then. `None`: nothing is shortened or forced.
    pub force_at: Option<Moment>,
    /// When Sundown accepted the interruption that sets the deadline, or took the drain up again if
    /// the deadline counts from there. Without a deadline, the earliest accept of all.
    pub accepted: Moment,
    /// When the drain ends, even if pods are left: the deadline, less the time of one call. `None`:
    /// the drain ends only when its node is empty.
    pub end_at: Option<Moment>,
    /// What `end_at` comes from.
    pub end_source: LimitSource,
    /// Spot, a capacity warning or an ending state is among the interruptions: this node's pods are
    /// evicted first when a disruption budget allows an eviction.
    pub urgent: bool,
    /// When Sundown tainted the node for `response`. `--min-drain-time` counts from then: pods that
    /// were bound before may still arrive.
    pub tainted_at: Moment,
    /// What Sundown does with the node: the strongest response to its interruptions. Without
    /// [`Response::Drain`], no pod is evicted or deleted, and the drain waits for none.
    pub response: Response,
    /// When the drain of a node with nothing but recommendations expires: Sundown then puts the Node
    /// back. `None`: the record holds another interruption.
    pub expires_at: Option<Moment>,
    /// Whether AWS has confirmed what the drain is for.
    pub verification: Verification,
    /// When its evictions begin. Only a leader lets them wait: `lifecycle::limits` gives
    /// [`EvictionStart::Now`].
    pub eviction_start: EvictionStart,
    /// Until when `held_by` holds its evictions. `None`: nothing does. Only a leader lets them be
    /// held: `lifecycle::limits` gives `None`.
    pub held_until: Option<Moment>,
    /// What holds its evictions, as long as `held_until` is given.
    pub held_by: HeldBy,
    /// When a person ordered that the drain waits for budgets no longer (`sundown.dev/force`).
    /// `None`: nobody did. Only a leader follows the order, as above.
    pub forced_at: Option<Moment>,
    /// The settings in force that come from the node's hooks or from the Node itself. They take
    /// precedence over the flags, and the flags allow them.
    pub settings: DrainSettings,
}

/// What the end of a drain comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitSource {
    /// A deadline of AWS, a request that may force pods, or the longest time of a drain.
    Aws,
    /// The deadline of a request that forces no pod ([`super::DrainRequest`]): pods may be left.
    Request,
}

/// Whether AWS has confirmed the lifecycle actions of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verification {
    /// It has, or the drain needs no confirmation: nothing holds the drain back.
    Verified,
    /// AWS has not answered in time: pods are evicted, but none is forced, and no grace period is
    /// shortened.
    Unanswered,
    /// AWS has answered that the actions are over, and not yet whether the instance stays. As
    /// [`Self::Unanswered`], but the Node may have to be restored: the drain does not end as empty.
    AwaitingInstanceState,
    /// An answer is awaited: no pod is evicted, and the drain does not end as empty.
    AwaitingHeartbeat,
    /// AWS has shown once that the instance stays: no pod is evicted, and the drain does not end as
    /// empty.
    Suspected,
}

impl Verification {
    /// Pods may be evicted.
    #[must_use]
    pub const fn may_evict(self) -> bool {
        matches!(self, Self::Verified | Self::Unanswered | Self::AwaitingInstanceState)
    }

    /// The drain may end as soon as it has nothing left to do. Otherwise the Node may have to be put
    /// back instead.
    #[must_use]
    pub const fn may_end(self) -> bool {
        matches!(self, Self::Verified | Self::Unanswered)
    }
}

impl Limits {
    /// The evictions begin later: for `--evict-after`, or because gates or other drains hold them.
    #[must_use]
    pub fn evictions_wait(&self) -> bool {
        self.eviction_start != EvictionStart::Now || self.held_until.is_some()
    }

    /// Limits under which nothing is shortened or forced and no deadline ends the drain: for a
    /// stale interruption that is not yet proved, and for a recommendation.
    #[must_use]
    pub const fn without_deadline(accepted: Moment, urgent: bool) -> Self {
        Self {
            force_at: None,
            accepted,
            end_at: None,
            end_source: LimitSource::Aws,
            urgent,
            tainted_at: accepted,
            response: Response::Drain,
            expires_at: None,
            verification: Verification::Verified,
            eviction_start: EvictionStart::Now,
            held_until: None,
            held_by: HeldBy::Gates,
            forced_at: None,
            settings: DrainSettings::NONE,
        }
    }
}

/// When a pod whose eviction was refused or had no answer is deleted instead (`--force-after`).
#[derive(Debug, Clone, Copy)]
pub enum ForceAfter {
    /// Never: the deadline passes.
    Never,
    /// One second before the deadline, whatever the pod's own grace period is. The same as a share
    /// of 1.
    Deadline,
    /// Early enough that the pod has its own grace period before the deadline, but not before this
    /// share (0 to 1) of the time between the accept and the deadline has passed.
    Share(f64),
}

impl Default for ForceAfter {
    fn default() -> Self {
        Self::Share(0.5)
    }
}

impl ForceAfter {
    /// Later values are greater.
    const fn rank(self) -> f64 {
        match self {
            Self::Share(share) => share,
            Self::Deadline => 1.0,
            Self::Never => 2.0,
        }
    }

    /// It forces pods earlier than `other`.
    #[must_use]
    pub fn is_earlier_than(self, other: Self) -> bool {
        self.rank().total_cmp(&other.rank()).is_lt()
    }
}

/// Values are equal if they force pods at the same time: [`Self::Deadline`] and a share of 1.
impl PartialEq for ForceAfter {
    fn eq(&self, other: &Self) -> bool {
        self.rank().total_cmp(&other.rank()).is_eq()
    }
}

impl Eq for ForceAfter {}

impl FromStr for ForceAfter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "never" => Ok(Self::Never),
            "deadline" => Ok(Self::Deadline),
            _ => match text.parse::<f64>() {
                Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self::Share(share)),
                _ => Err("use never, deadline, or a share of the time to the deadline from 0 to \
                    1, such as 0.5"
                    .to_owned()),
            },
        }
    }
}

impl fmt::Display for ForceAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never"),
            Self::Deadline => f.write_str("deadline"),
            Self::Share(share) => write!(f, "{share}"),
        }
    }
}

/// Whether the DaemonSet that owns a pod exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DaemonSetState {
    /// It exists and would recreate its pods at once, so Sundown leaves them alone.
    Exists,
    /// It does not exist: its pods are treated as ordinary pods.
    Gone,
    /// Sundown may not read it, or the API server did not answer: treated as [`Self::Exists`].
    Unreadable,
}

/// When a node leaves load balancers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exclusion {
    /// When Sundown accepts the interruption.
    Early,
    /// When the last pod that counts is terminating, or 60 s before the deadline.
    Late,
    /// Not at all.
    Never,
}
