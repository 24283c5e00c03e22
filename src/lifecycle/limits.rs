//! What a drain is held to.

use std::{collections::BTreeMap, time::Duration};

use crate::domain::{HookDescription, HookKey, Kind, Moment, Taken, seconds};

/// What bears on every deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitSettings {
    /// `--drain-timeout`; `None`: one hour, for a hook its HeartbeatTimeout where that is longer.
    pub drain_timeout: Option<Duration>,
    /// `--deadline-margin`: how long before the deadline pods are to be gone.
    pub margin: Duration,
    /// The same for spot.
    pub spot_margin: Duration,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self { drain_timeout: None, margin: seconds(5), spot_margin: seconds(10) }
    }
}

/// What a deadline needs to know of an owed hook; from [`super::BeatSchedule::facts`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HookFacts {
    /// What DescribeLifecycleHooks says; `None`: not yet.
    pub description: Option<HookDescription>,
    /// Two thirds of the window last granted are over with no heartbeat accepted: that window's end.
    pub lapse: Option<Moment>,
}

/// What a drain is held to now. Derived from facts, and derived again whenever they change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The deadline less its margin: pods are forced towards it. `None`: nothing is shortened or forced.
    pub force_at: Option<Moment>,
    /// When the interruption whose deadline rules was taken on; the earliest of all where none rules.
    pub accepted: Moment,
    /// The drain ends then, whatever is left.
    pub end_at: Option<Moment>,
    /// Spot, capacity or an ending state is among them: it goes first when a budget frees.
    pub urgent: bool,
    /// It rests on a hook that is not described yet; its first description sets the deadline, later too.
    pub provisional: bool,
    /// The kind whose deadline rules; `None` where none does.
    pub kind: Option<Kind>,
}

/// The limits of a drain that has taken on `taken`. `take_up`: when the present leader took it up (at accept, take-over or
/// resume); an interruption that joined later was taken up at its own accept. `hooks`: what is known of each owed hook; one
/// that is missing counts as not described.
#[must_use]
pub fn limits(taken: &[Taken], hooks: &BTreeMap<HookKey, HookFacts>, take_up: Moment, settings: &LimitSettings) -> Limits {
    todo!("{taken:?} {hooks:?} {take_up} {settings:?}")
}
