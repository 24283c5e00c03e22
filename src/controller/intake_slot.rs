//! Where the background checks find the intake of the current term.

use std::sync::{Arc, Mutex, PoisonError};

use super::intake::{IntakeHandle, IntakeView};

/// The intake of the current term. Empty on a standby.
#[derive(Clone, Default)]
pub(super) struct IntakeSlot(Arc<Mutex<Option<IntakeHandle>>>);

impl IntakeSlot {
    pub(super) fn with<T>(&self, look: impl FnOnce(&mut Option<IntakeHandle>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends a term with `end`, and takes its intake out of the slot. The intake stops receiving
    /// first: a task that ends drops its undecided messages, which a receiving intake no longer
    /// holds then. A task that starts the intake at this moment waits for the slot, and then sees
    /// that the term has ended.
    pub(super) fn end_term<T>(&self, end: impl FnOnce() -> T) -> (Option<IntakeHandle>, T) {
        self.with(|place| {
            place.iter().for_each(IntakeHandle::stop_receiving);
            let ended = end();
            (place.take(), ended)
        })
    }

    pub(super) fn view(&self) -> Option<IntakeView> {
        self.with(|handle| handle.as_ref().map(|h| h.view().clone()))
    }
}
