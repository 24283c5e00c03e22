//! What is known of a node's pods as a whole, and up to when.

use super::{Settings, WatchState};
use crate::domain::Moment;

/// What is known of a node's pods as a whole, and up to when.
#[derive(Debug)]
pub(super) struct View {
    /// When they were listed last.
    pub(super) listed_at: Option<Moment>,
    /// A LIST was asked for, because the watch cannot be relied on.
    pub(super) relisting: bool,
    /// The watch should have told of the end of a pod long ago.
    pub(super) missed: bool,
    /// From when on the watch has told what happened before it was opened; `None` while it is not
    /// open.
    caught_up: Option<Moment>,
    /// That moment was acted on.
    caught_up_told: bool,
}

impl Default for View {
    fn default() -> Self {
        Self {
            listed_at: None,
            relisting: false,
            missed: false,
            caught_up: Some(Moment::MIN),
            caught_up_told: true,
        }
    }
}

impl View {
    pub(super) const fn listed(&mut self, now: Moment) {
        self.listed_at = Some(now);
        self.relisting = false;
        self.missed = false;
    }

    /// A LIST is asked for. A new watch comes with it, and is not open yet.
    pub(super) const fn relist(&mut self) {
        self.relisting = true;
        self.caught_up = None;
        self.caught_up_told = true;
    }

    /// Takes a word on the watch. Whether that is news.
    pub(super) fn watch(&mut self, now: Moment, state: WatchState, settings: &Settings) -> bool {
        if (state == WatchState::Open) == self.caught_up.is_some() {
            return false;
        }
        self.caught_up = (state == WatchState::Open).then(|| now.plus(settings.caught_up_after));
        self.caught_up_told = self.caught_up.is_none();
        true
    }

    pub(super) const fn is_blind(&self) -> bool {
        self.caught_up.is_none()
    }

    /// Everything that had happened by then is known: now, or while the watch is not open or
    /// behind, as of the last LIST.
    pub(super) fn known_until(&self, now: Moment) -> Moment {
        let up_to_date = self.caught_up.is_some_and(|at| at <= now);
        if up_to_date { now } else { self.listed_at.unwrap_or(Moment::MIN) }
    }

    /// When the watch will have caught up, if it has not yet.
    pub(super) fn catches_up_at(&self) -> Option<Moment> {
        self.caught_up.filter(|_| !self.caught_up_told)
    }

    /// Whether it has caught up, and that was not said before.
    pub(super) fn has_caught_up(&mut self, now: Moment) -> bool {
        let just = self.catches_up_at().is_some_and(|at| at <= now);
        self.caught_up_told |= just;
        just
    }
}
