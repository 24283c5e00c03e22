//! What a process remembers of its own heartbeats beyond a term.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::domain::{LifecycleAction, Moment, seconds};

/// The longest heartbeat timeout that AWS accepts (`PutLifecycleHook`).
const LONGEST_WINDOW: std::time::Duration = seconds(7200);
/// How many actions are remembered at most.
const MOST: usize = 10_000;

/// For each open action, when this process sent its last heartbeat that AWS accepted. If a process
/// loses the Lease, leads again, and its first heartbeat then fails, it derives from this time how
/// long AWS waits at least. Clones share the map.
#[derive(Debug, Clone, Default)]
pub(in crate::controller) struct Granted(Arc<Mutex<BTreeMap<LifecycleAction, Moment>>>);

impl Granted {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<LifecycleAction, Moment>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// AWS accepted a heartbeat that was sent then.
    pub(super) fn note(&self, names: &[LifecycleAction], sent: Moment) {
        let mut all = self.lock();
        if all.len() >= MOST {
            all.retain(|_, at| at.plus(LONGEST_WINDOW) > sent);
        }
        for name in names {
            if all.len() < MOST || all.contains_key(name) {
                all.insert(name.clone(), sent);
            }
        }
    }

    /// When the last accepted one was sent.
    pub(super) fn last(&self, action: &LifecycleAction) -> Option<Moment> {
        self.lock().get(action).copied()
    }

    /// The action is over.
    pub(super) fn forget(&self, names: &[LifecycleAction]) {
        let mut all = self.lock();
        for name in names {
            all.remove(name);
        }
    }
}
