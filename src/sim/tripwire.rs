//! Ends a process just before or just after one of its calls, whichever server it calls.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::domain::Moment;

/// When the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The call never arrives.
    Before,
    /// The call has its effect, and its answer arrives nowhere.
    After,
}

/// A call of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// When it arrived.
    pub at: Moment,
    /// `sqs:ReceiveMessage`, `patch nodes`, `create pods/eviction`.
    pub what: String,
}

/// Counts the calls of one client and ends it at one of them. Clones are the same tripwire.
#[derive(Clone, Default)]
pub struct Tripwire(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    client: String,
    calls: Vec<Passage>,
    at: Option<(usize, Side)>,
    kill: Option<Box<dyn FnOnce() + Send>>,
}

impl fmt::Debug for Tripwire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tripwire").finish_non_exhaustive()
    }
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Through,
    /// The process is dead: the call has no effect.
    Dead,
    /// The call has its effect, then [`Tripwire::spring`] is due.
    Last,
}

impl Tripwire {
    /// Counts the calls of the client whose tag or access key is `client`, from now on. At the call
    /// with this number (from 0 on), `kill` is run: it must end the client.
    pub fn arm(
        &self,
        client: &str,
        at: Option<(usize, Side)>,
        kill: impl FnOnce() + Send + 'static,
    ) {
        *self.lock() =
            Inner { client: client.to_owned(), calls: Vec::new(), at, kill: Some(Box::new(kill)) };
    }

    /// The calls so far.
    #[must_use]
    pub fn calls(&self) -> Vec<Passage> {
        self.lock().calls.clone()
    }

    pub(super) fn pass(&self, client: &str, at: Moment, what: impl FnOnce() -> String) -> Way {
        let mut inner = self.lock();
        if inner.client.is_empty() || inner.client != client {
            return Way::Through;
        }
        let number = inner.calls.len();
        inner.calls.push(Passage { at, what: what() });
        match inner.at {
            Some((n, Side::Before)) if n == number => {
                let kill = inner.kill.take();
                drop(inner);
                if let Some(kill) = kill {
                    kill();
                }
                Way::Dead
            }
            Some((n, Side::After)) if n == number => Way::Last,
            _ => Way::Through,
        }
    }

    pub(super) fn spring(&self) {
        let kill = self.lock().kill.take();
        if let Some(kill) = kill {
            kill();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn it_counts_the_calls_of_one_client_and_kills_once() {
        let at = Moment::UNIX_EPOCH;
        for (side, last) in [(Side::Before, Way::Dead), (Side::After, Way::Last)] {
            let (wire, kills) = (Tripwire::default(), Arc::new(AtomicUsize::new(0)));
            assert_eq!(
                wire.pass("a", at, || "get nodes".to_owned()),
                Way::Through,
                "nothing is armed"
            );
            let count = Arc::clone(&kills);
            wire.arm("a", Some((1, side)), move || {
                count.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(wire.pass("a", at, || "one".to_owned()), Way::Through);
            assert_eq!(wire.pass("b", at, || "another's".to_owned()), Way::Through);
            assert_eq!(wire.pass("a", at, || "two".to_owned()), last);
            assert_eq!(kills.load(Ordering::Relaxed), usize::from(side == Side::Before));
            wire.spring();
            wire.spring();
            assert_eq!(kills.load(Ordering::Relaxed), 1);
            let calls: Vec<String> = wire.calls().into_iter().map(|call| call.what).collect();
            assert_eq!(calls, ["one", "two"]);
        }
    }
}
