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

    pub(super) fn view(&self) -> Option<IntakeView> {
        self.with(|handle| handle.as_ref().map(|h| h.view().clone()))
    }
}
