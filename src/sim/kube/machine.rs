//! The machines under the nodes.

use std::collections::BTreeMap;

use crate::domain::Moment;

/// A machine, and what its kubelet knows.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub(super) instance: Option<String>,
    /// When it was gone, with everything on it.
    pub(super) gone: Option<Moment>,
    /// Since when its kubelet has not reached the API server.
    pub(super) silent_since: Option<Moment>,
    /// When its node becomes ready.
    pub(super) ready_at: Moment,
    /// The pods on it, by UID.
    pub(super) runs: BTreeMap<String, Run>,
}

/// How far a pod's processes are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Run {
    /// When they run; `None`: never.
    pub(super) runs: Option<Moment>,
    /// When they are ready; `None`: never.
    pub(super) ready: Option<Moment>,
    /// When they end by themselves.
    pub(super) ends: Option<Moment>,
    /// They were asked to stop: with which grace, and when they have.
    pub(super) stopping: Option<Stopping>,
}

/// Processes that were asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stopping {
    pub(super) grace: i64,
    /// `None`: never.
    pub(super) stopped: Option<Moment>,
    /// They have to be killed.
    pub(super) killed: bool,
}

impl Machine {
    pub(super) const fn acts(&self) -> bool {
        self.gone.is_none() && self.silent_since.is_none()
    }
}
