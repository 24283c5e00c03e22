//! The completion of a drain that has ended, as the fleet follows it.

use std::collections::BTreeSet;

use super::{CompletionId, Effect, effect::Effects};
use crate::domain::{LifecycleAction, Moment};

/// A completion that was ordered by [`Effect::Complete`] and is not done: when it may begin, and
/// which lifecycle actions it covers.
#[derive(Debug)]
pub(super) struct PendingCompletion {
    pub(super) id: CompletionId,
    /// When it may begin: the end of the drain plus `--complete-delay`, or sooner when there is
    /// nothing left to wait for. Later if another Node that claims the instance is completed later.
    pub(super) at: Moment,
    /// It waits until the drains of other Nodes that claim the instance have ended.
    pub(super) waits_for_others: bool,
    /// The lifecycle actions that were open when the drain ended.
    pub(super) actions: BTreeSet<LifecycleAction>,
    /// When the drain ended.
    pub(super) ended: Moment,
    /// Gates may hold it: the node is empty, and a lifecycle action waits.
    pub(super) heeds_gates: bool,
    /// Until when gates of its Node hold it; `None`: none does.
    pub(super) held_until: Option<Moment>,
}

impl PendingCompletion {
    /// Lets it begin at `at`, if that is sooner than before.
    pub(super) fn not_after(&mut self, at: Moment, out: &mut Effects) {
        if at < self.own_time() {
            self.at = self.at.min(at);
            self.held_until = self.held_until.map(|held| held.min(at));
            self.report(out);
        }
    }

    /// Gates of its Node hold it until `until`, or none does. Does nothing once it may have begun.
    pub(super) fn hold_until(&mut self, until: Option<Moment>, now: Moment, out: &mut Effects) {
        let may_have_begun = self.from().is_some_and(|from| from <= now);
        if self.held_until != until && !may_have_begun {
            self.held_until = until;
            self.report(out);
        }
    }

    /// When it may begin, as far as its own Node is concerned.
    pub(super) fn own_time(&self) -> Moment {
        self.held_until.map_or(self.at, |held| self.at.max(held))
    }

    /// The drains of all other Nodes that claim the instance have ended. `of_others`: when their
    /// completions of these actions may begin.
    pub(super) fn stop_waiting_for_others(&mut self, of_others: Option<Moment>, out: &mut Effects) {
        self.waits_for_others = false;
        self.at = of_others.map_or(self.at, |of_others| self.at.max(of_others));
        self.report(out);
    }

    fn report(&self, out: &mut Effects) {
        out.push(Effect::CompleteFrom(self.id, self.from()));
    }

    /// When it may begin; `None` while it waits for other Nodes.
    pub(super) fn from(&self) -> Option<Moment> {
        (!self.waits_for_others).then(|| self.own_time())
    }

    /// This lifecycle action was open when the drain ended. An action that joined later is
    /// completed when the controller reads the record for the last write.
    pub(super) fn covers(&self, action: &LifecycleAction) -> bool {
        self.actions.contains(action)
    }
}
