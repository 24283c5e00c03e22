//! What a drain is held to.

use super::Moment;

/// What a drain is held to now: `lifecycle` derives it from facts, again whenever they change, and
/// `drain` keeps to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The deadline less its margin: grace periods are shortened, and pods are forced, towards it.
    /// `None`: nothing is shortened or forced.
    pub force_at: Option<Moment>,
    /// When the interruption whose deadline rules was accepted, or the take-up from which its
    /// deadline counts anew; the earliest of all where none rules.
    pub accepted: Moment,
    /// The drain ends then, whatever is left: at the deadline, less the time of one call. `None`:
    /// it does not end by itself before its node is empty.
    pub end_at: Option<Moment>,
    /// Spot, capacity or an ending state is among the interruptions: the node goes first when a
    /// budget frees.
    pub urgent: bool,
}

impl Limits {
    /// Nothing is shortened or forced, and no deadline ends the drain: for an interruption that is
    /// stale and not yet proved.
    #[must_use]
    pub const fn polite(accepted: Moment, urgent: bool) -> Self {
        Self { force_at: None, accepted, end_at: None, urgent }
    }
}

/// When a pod whose eviction was refused or had no answer is deleted instead (`--force-after`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ForceAfter {
    /// Never: the deadline passes.
    Never,
    /// Not before the deadline: a second before it, whatever the pod's own grace period is. The
    /// same as a share of 1.
    Deadline,
    /// So early that the pod still has its own grace period before the deadline, but not before
    /// this share (0 to 1) of the time between the accept and the deadline is over.
    Share(f64),
}

impl Default for ForceAfter {
    fn default() -> Self {
        Self::Share(0.5)
    }
}

/// What is known of a DaemonSet that owns a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DaemonSetState {
    /// It exists: its pods would come back at once and are left alone.
    There,
    /// It does not exist: its pods are ordinary ones.
    Gone,
    /// It may not be read, or the API server did not answer: taken as there.
    Unreadable,
}

/// When a node leaves load balancers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exclusion {
    /// With the accept.
    Early,
    /// When the last pod that counts is terminating, or 60 s before the deadline.
    Late,
    /// Not at all.
    Never,
}
