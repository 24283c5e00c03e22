//! What a process remembers of its own heartbeats beyond a term.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::domain::{Moment, OwedHook, seconds};

/// AWS has no longer heartbeat timeout (`PutLifecycleHook`).
const LONGEST_WINDOW: std::time::Duration = seconds(7200);
/// So many names are remembered.
const MOST: usize = 10_000;

/// When the last heartbeat was sent that AWS accepted from this process, for each name of an open action. A process that led, saw another
/// leader and leads again knows from it how long AWS waits at least, if its first heartbeat fails. Clones share it.
#[derive(Debug, Clone, Default)]
pub(in crate::controller) struct Granted(Arc<Mutex<BTreeMap<OwedHook, Moment>>>);

impl Granted {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<OwedHook, Moment>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// AWS accepted a heartbeat that was sent then.
    pub(super) fn note(&self, names: &[OwedHook], sent: Moment) {
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
    pub(super) fn last(&self, owed: &OwedHook) -> Option<Moment> {
        self.lock().get(owed).copied()
    }

    /// The action is over.
    pub(super) fn forget(&self, names: &[OwedHook]) {
        let mut all = self.lock();
        for name in names {
            all.remove(name);
        }
    }
}
