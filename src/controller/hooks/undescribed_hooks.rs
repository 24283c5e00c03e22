//! Lifecycle hooks that cannot be described, for one log line each.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::domain::{GroupName, HookKey, HookName};

/// Hooks for which a failed description was already logged. A thousand actions may wait in one
/// hook, and the task of each asks for the description.
#[derive(Debug, Clone, Default)]
pub(super) struct UndescribedHooks(Arc<Mutex<BTreeSet<(GroupName, HookName)>>>);

impl UndescribedHooks {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<(GroupName, HookName)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the hook could not be described. Returns whether this is the first failure
    /// since the last answer.
    pub(super) fn failed(&self, key: &HookKey) -> bool {
        self.lock().insert((key.group.clone(), key.hook.clone()))
    }

    /// Records that AWS described the hook or answered that it does not exist.
    pub(super) fn answered(&self, key: &HookKey) {
        self.lock().remove(&(key.group.clone(), key.hook.clone()));
    }
}
