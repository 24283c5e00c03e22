//! Whether the process turns (`/livez`) and whether it can work (`/readyz`).

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::{domain::Moment, runtime::Clock};

/// The loops of the process, each of which says whenever it turns. One that has not for long is
/// stuck: a restart helps. A loop that waits for AWS or Kubernetes still turns (every wait has a
/// deadline), so their absence never restarts anything.
#[derive(Debug, Clone)]
pub struct Loops(Arc<LoopsInner>);

#[derive(Debug)]
struct LoopsInner {
    clock: Clock,
    turns: Mutex<BTreeMap<u64, Turn>>,
}

#[derive(Debug)]
struct Turn {
    name: &'static str,
    limit: Duration,
    last: Moment,
}

/// One registered loop; dropping it says that the loop has ended in good order.
#[derive(Debug)]
pub struct Loop {
    loops: Loops,
    id: u64,
}

/// The named conditions of `/readyz`; ready when all hold.
#[derive(Clone, Default)]
pub struct Readiness(Arc<Mutex<BTreeMap<&'static str, Condition>>>);

type Condition = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// A condition that somebody sets.
#[derive(Debug, Clone)]
pub struct ReadyFlag(Arc<Mutex<Result<(), String>>>);

impl Loops {
    /// No loops yet.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(LoopsInner { clock, turns: Mutex::default() }))
    }

    /// A loop that promises to call [`Loop::turned`] at least every `limit`.
    #[must_use]
    pub fn register(&self, name: &'static str, limit: Duration) -> Loop {
        let turn = Turn { name, limit, last: self.0.clock.now() };
        let mut turns = self.0.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let id = turns.last_key_value().map_or(0, |(id, _)| id + 1);
        turns.insert(id, turn);
        Loop { loops: self.clone(), id }
    }

    /// The loops that turn now.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        let turns = self.0.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.values().map(|t| t.name).collect()
    }

    /// The loops that have not turned within their limit, with how long ago they last did.
    #[must_use]
    pub fn stuck(&self) -> Vec<(&'static str, Duration)> {
        let now = self.0.clock.now();
        let turns = self.0.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns
            .values()
            .map(|t| (t, now.since_or_zero(t.last)))
            .filter(|(t, ago)| *ago > t.limit)
            .map(|(t, ago)| (t.name, ago))
            .collect()
    }
}

impl Loop {
    /// The loop has turned once more.
    pub fn turned(&self) {
        let now = self.loops.0.clock.now();
        if let Some(turn) =
            self.loops.0.turns.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&self.id)
        {
            turn.last = now;
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.loops.0.turns.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

impl Readiness {
    /// Conditions that will be added under these names, and do not hold before: whoever asks
    /// earlier must not hear that all is well.
    #[must_use]
    pub fn awaiting(names: &[&'static str]) -> Self {
        let readiness = Self::default();
        for name in names {
            readiness.add(name, || Err("not yet".to_owned()));
        }
        readiness
    }

    /// Adds a condition; of two with one name the later counts. `Err` says why it does not hold.
    pub fn add(
        &self,
        name: &'static str,
        holds: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Box::new(holds));
    }

    /// Adds a condition that does not hold until the flag is set.
    #[must_use]
    pub fn flag(&self, name: &'static str) -> ReadyFlag {
        let flag = ReadyFlag(Arc::new(Mutex::new(Err("not yet".to_owned()))));
        let seen = flag.clone();
        self.add(name, move || seen.0.lock().unwrap_or_else(PoisonError::into_inner).clone());
        flag
    }

    /// All conditions, and whether they hold.
    #[must_use]
    pub fn conditions(&self) -> Vec<(&'static str, bool)> {
        let conditions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        conditions.iter().map(|(name, holds)| (*name, holds().is_ok())).collect()
    }

    /// The conditions that do not hold, with why.
    #[must_use]
    pub fn missing(&self) -> Vec<(&'static str, String)> {
        let conditions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        conditions
            .iter()
            .filter_map(|(name, holds)| holds().err().map(|why| (*name, why)))
            .collect()
    }
}

impl std::fmt::Debug for Readiness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Readiness").field(&self.missing()).finish()
    }
}

impl ReadyFlag {
    /// Says whether the condition holds; `Err` says why it does not.
    pub fn set(&self, holds: Result<(), String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = holds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::seconds;

    #[tokio::test(start_paused = true)]
    async fn a_loop_is_stuck_only_when_it_has_not_turned_for_longer_than_it_promised() {
        let loops = Loops::new(Clock::starting_at(Moment::UNIX_EPOCH));
        let intake = loops.register("intake", seconds(60));
        tokio::time::advance(seconds(60)).await;
        assert_eq!(loops.stuck(), vec![]);
        tokio::time::advance(seconds(1)).await;
        assert_eq!(loops.stuck(), vec![("intake", seconds(61))]);
        intake.turned();
        assert_eq!(loops.stuck(), vec![]);
        tokio::time::advance(seconds(100)).await;
        drop(intake);
        assert_eq!(loops.stuck(), vec![], "a loop that has ended is not stuck");
    }

    #[test]
    fn what_is_awaited_does_not_hold_before_it_was_added() {
        let readiness = Readiness::awaiting(&["nodes", "queue"]);
        assert_eq!(
            readiness.missing(),
            vec![("nodes", "not yet".to_owned()), ("queue", "not yet".to_owned())]
        );
        readiness.add("nodes", || Ok(()));
        readiness.flag("queue").set(Ok(()));
        assert!(readiness.missing().is_empty());
    }

    #[test]
    fn ready_means_that_every_condition_holds() {
        let readiness = Readiness::default();
        assert!(readiness.missing().is_empty());
        let nodes = readiness.flag("nodes");
        readiness.add("queue", || Err("access denied".to_owned()));
        assert_eq!(
            readiness.missing(),
            vec![("nodes", "not yet".to_owned()), ("queue", "access denied".to_owned())]
        );
        nodes.set(Ok(()));
        assert_eq!(readiness.conditions(), vec![("nodes", true), ("queue", false)]);
        readiness.add("queue", || Ok(()));
        assert!(readiness.missing().is_empty());
    }
}
