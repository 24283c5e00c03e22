//! The machine.

use super::{Effect, Input, Settings};
use crate::domain::Moment;

/// One process's part in the election.
#[derive(Debug)]
pub struct Machine {
    me: String,
    settings: Settings,
}

impl Machine {
    /// A standby that has read nothing. `me` must be unique to this process, not to its pod: a restarted container is somebody else.
    #[must_use]
    pub fn new(me: String, settings: Settings) -> Self {
        Self { me, settings }
    }

    /// Takes in what happened and says what to do. `spread` in `[0, 1)` jitters the reads of standbys.
    /// Until when this process may start requests of any kind; `None` while it does not lead.
    #[must_use]
    pub const fn may_write_until(&self) -> Option<Moment> {
        None
    }

    /// When the machine wants the next [`Input::Tick`], at the latest.
    #[must_use]
    pub const fn next_wake(&self) -> Option<Moment> {
        None
    }

    pub fn step(&mut self, _now: Moment, _spread: f64, _input: Input) -> Vec<Effect> {
        Vec::new()
    }
}
