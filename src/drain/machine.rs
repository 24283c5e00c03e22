//! The drain of one node.

use super::{Effect, Input, Order, Settings, Start, Status};
use crate::domain::{Moment, NodeName, PodUid};

/// The drain of one node.
#[derive(Debug)]
pub struct Drain {
    start: Start,
    settings: Settings,
}

impl Drain {
    /// A drain at its take-up: at the accept, after a change of leader.
    #[must_use]
    pub fn new(start: Start, settings: Settings) -> Self {
        Self { start, settings }
    }

    /// Its node.
    #[must_use]
    pub fn node(&self) -> &NodeName {
        &self.start.node
    }

    /// Takes an input and says what is to be done.
    pub fn step(&mut self, now: Moment, input: Input) -> Vec<Effect> {
        let _ = (now, input, &self.settings);
        Vec::new()
    }

    /// What to send for a pod that the dispatcher let go, computed for `now`; `None`: nothing is wanted for it any more.
    #[must_use]
    pub fn order(&self, uid: &PodUid, now: Moment) -> Option<Order> {
        let _ = (uid, now);
        None
    }

    /// When it wants an [`Input::Tick`].
    #[must_use]
    pub fn next_wake(&self) -> Option<Moment> {
        None
    }

    /// Every pod that counts is terminating (or none is left): the node's load balancers need it no more.
    #[must_use]
    pub fn is_last_pod_terminating(&self) -> bool {
        false
    }

    /// What it says of itself.
    #[must_use]
    pub fn status(&self, now: Moment) -> Status {
        let _ = now;
        Status { phase: super::Phase::Listing, counts: super::Counts::default(), blocked: Vec::new(), forced: Vec::new(), ends_at: None }
    }
}
