//! How complete the drain's knowledge of its pods is: from LISTs and from the watch.

use super::{Settings, WatchState};
use crate::domain::Moment;

/// The state of the LIST and the watch of a node's pods.
#[derive(Debug)]
pub(super) struct View {
    /// When the pods were last listed; `None`: not yet.
    pub(super) listed_at: Option<Moment>,
    /// A LIST was requested, because the watch cannot be relied on.
    pub(super) relisting: bool,
    /// The watch should have reported the end of a pod by now.
    pub(super) missed: bool,
    /// From when on the watch counts as having delivered all earlier events; `None` while it is not
    /// open.
    caught_up: Option<Moment>,
    /// The drain has handled that moment.
    caught_up_handled: bool,
}

impl Default for View {
    fn default() -> Self {
        Self {
            listed_at: None,
            relisting: false,
            missed: false,
            caught_up: Some(Moment::MIN),
            caught_up_handled: true,
        }
    }
}

impl View {
    pub(super) const fn listed(&mut self, now: Moment) {
        self.listed_at = Some(now);
        self.relisting = false;
        self.missed = false;
    }

    /// Records that a LIST is requested. A new watch comes with it, and is not open yet.
    pub(super) const fn relist(&mut self) {
        self.relisting = true;
        self.caught_up = None;
        self.caught_up_handled = true;
    }

    /// Records the state of the watch. Returns whether it changed.
    pub(super) fn watch(&mut self, now: Moment, state: WatchState, settings: &Settings) -> bool {
        if (state == WatchState::Open) == self.caught_up.is_some() {
            return false;
        }
        self.caught_up = (state == WatchState::Open).then(|| now.plus(settings.caught_up_after));
        self.caught_up_handled = self.caught_up.is_none();
        true
    }

    pub(super) const fn is_blind(&self) -> bool {
        self.caught_up.is_none()
    }

    /// Until when all changes of the pods are known: until now, or, while the watch is not open or
    /// behind, until the last LIST.
    pub(super) fn known_until(&self, now: Moment) -> Moment {
        let up_to_date = self.caught_up.is_some_and(|at| at <= now);
        if up_to_date { now } else { self.listed_at.unwrap_or(Moment::MIN) }
    }

    /// When the watch will have caught up; `None`: it already has, or is not open.
    pub(super) fn catches_up_at(&self) -> Option<Moment> {
        self.caught_up.filter(|_| !self.caught_up_handled)
    }

    /// Whether the watch has caught up since the last call.
    pub(super) fn has_caught_up(&mut self, now: Moment) -> bool {
        let just = self.catches_up_at().is_some_and(|at| at <= now);
        self.caught_up_handled |= just;
        just
    }
}
