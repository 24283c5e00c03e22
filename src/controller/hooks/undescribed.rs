//! Hooks that cannot be described.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::domain::{GroupName, HookKey, HookName};

/// Hooks of which it was said that they cannot be described: a thousand actions may wait in one,
/// and each asks by itself.
#[derive(Debug, Clone, Default)]
pub(super) struct Undescribed(Arc<Mutex<BTreeSet<(GroupName, HookName)>>>);

impl Undescribed {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<(GroupName, HookName)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its description cannot be had; whether that is news.
    pub(super) fn failed(&self, key: &HookKey) -> bool {
        self.lock().insert((key.group.clone(), key.hook.clone()))
    }

    /// It was described, or is known to be gone.
    pub(super) fn answered(&self, key: &HookKey) {
        self.lock().remove(&(key.group.clone(), key.hook.clone()));
    }
}
