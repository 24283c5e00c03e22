//! A drain that has ended, and whose lifecycle actions wait to be completed or are being completed.

use std::collections::BTreeSet;

use super::{CompletionId, Effect, effect::Effects};
use crate::domain::{LifecycleAction, Moment};

/// When the completion of a drain that has ended may begin, and what it covers.
#[derive(Debug)]
pub(super) struct Completing {
    pub(super) id: CompletionId,
    /// At this moment at the latest: later with `--complete-delay`, sooner when there is nothing
    /// left to wait for.
    pub(super) at: Moment,
    /// But not while another Node that claims the instance is drained.
    pub(super) is_held: bool,
    /// The lifecycle actions that the drain owed when it ended.
    pub(super) actions: BTreeSet<LifecycleAction>,
}

impl Completing {
    /// At this moment at the latest.
    pub(super) fn not_after(&mut self, at: Moment, out: &mut Effects) {
        if at < self.at {
            self.at = at;
            self.report(out);
        }
    }

    /// No other Node that claims the instance is drained any more.
    pub(super) fn let_go(&mut self, out: &mut Effects) {
        self.is_held = false;
        self.report(out);
    }

    fn report(&self, out: &mut Effects) {
        out.push(Effect::CompleteFrom(self.id, self.from()));
    }

    /// When it may begin; `None`: not yet.
    pub(super) fn from(&self) -> Option<Moment> {
        (!self.is_held).then_some(self.at)
    }

    /// The drain owed this lifecycle action when it ended. An action that joined later is completed
    /// once the record is read for the last write.
    pub(super) fn covers(&self, action: &LifecycleAction) -> bool {
        self.actions.contains(action)
    }
}
