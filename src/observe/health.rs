//! Whether the loops of the process make progress (`/livez`), and whether it can work (`/readyz`).

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::{domain::Moment, runtime::Clock};

/// The loops of the process. Each reports its progress; one that reports none for longer than its
/// limit is stuck, and a restart helps. A loop that waits for AWS or Kubernetes makes progress too,
/// because every wait has a deadline: an outage of AWS or Kubernetes restarts nothing.
#[derive(Debug, Clone)]
pub struct Loops(Arc<LoopsInner>);

#[derive(Debug)]
struct LoopsInner {
    clock: Clock,
    registered: Mutex<BTreeMap<u64, Progress>>,
}

#[derive(Debug)]
struct Progress {
    name: &'static str,
    limit: Duration,
    last: Moment,
}

/// A registered loop. Dropping it removes the loop, which ended as intended.
#[derive(Debug)]
pub struct Loop {
    loops: Loops,
    id: u64,
}

/// The named conditions of `/readyz`. The process is ready when all are met.
#[derive(Clone, Default)]
pub struct Readiness(Arc<Mutex<BTreeMap<&'static str, Condition>>>);

type Condition = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// A condition that is set by its owner, rather than evaluated when `/readyz` is called.
#[derive(Debug, Clone)]
pub struct ReadyFlag(Arc<Mutex<Result<(), String>>>);

impl Loops {
    /// A registry without loops.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(LoopsInner { clock, registered: Mutex::default() }))
    }

    /// Registers a loop, which must call [`Loop::made_progress`] at least every `limit`.
    #[must_use]
    pub fn register(&self, name: &'static str, limit: Duration) -> Loop {
        let progress = Progress { name, limit, last: self.0.clock.now() };
        let mut registered = self.0.registered.lock().unwrap_or_else(PoisonError::into_inner);
        let id = registered.last_key_value().map_or(0, |(id, _)| id + 1);
        registered.insert(id, progress);
        Loop { loops: self.clone(), id }
    }

    /// The names of the registered loops.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        let registered = self.0.registered.lock().unwrap_or_else(PoisonError::into_inner);
        registered.values().map(|p| p.name).collect()
    }

    /// The loops without progress within their limit, each with the time since its last progress.
    #[must_use]
    pub fn stuck(&self) -> Vec<(&'static str, Duration)> {
        let now = self.0.clock.now();
        let registered = self.0.registered.lock().unwrap_or_else(PoisonError::into_inner);
        registered
            .values()
            .map(|p| (p, now.since_or_zero(p.last)))
            .filter(|(p, ago)| *ago > p.limit)
            .map(|(p, ago)| (p.name, ago))
            .collect()
    }
}

impl Loop {
    /// The loop went round once more.
    pub fn made_progress(&self) {
        let now = self.loops.0.clock.now();
        if let Some(progress) =
            self.loops.0.registered.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&self.id)
        {
            progress.last = now;
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.loops.0.registered.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

impl Readiness {
    /// Conditions that are not met until [`Readiness::add`] replaces them: a call of `/readyz`
    /// during the start must not get the answer that the process is ready.
    #[must_use]
    pub fn awaiting(names: &[&'static str]) -> Self {
        let readiness = Self::default();
        for name in names {
            readiness.add(name, || Err("not yet".to_owned()));
        }
        readiness
    }

    /// Adds a condition, or replaces the one with this name. `is_met` returns the reason if it is
    /// not met.
    pub fn add(
        &self,
        name: &'static str,
        is_met: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Box::new(is_met));
    }

    /// Adds a condition that is not met until the flag is set to `Ok`.
    #[must_use]
    pub fn flag(&self, name: &'static str) -> ReadyFlag {
        let flag = ReadyFlag(Arc::new(Mutex::new(Err("not yet".to_owned()))));
        let seen = flag.clone();
        self.add(name, move || seen.0.lock().unwrap_or_else(PoisonError::into_inner).clone());
        flag
    }

    /// All conditions, each with whether it is met.
    #[must_use]
    pub fn conditions(&self) -> Vec<(&'static str, bool)> {
        let conditions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        conditions.iter().map(|(name, is_met)| (*name, is_met().is_ok())).collect()
    }

    /// The conditions that are not met, each with the reason.
    #[must_use]
    pub fn missing(&self) -> Vec<(&'static str, String)> {
        let conditions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        conditions
            .iter()
            .filter_map(|(name, is_met)| is_met().err().map(|why| (*name, why)))
            .collect()
    }
}

impl std::fmt::Debug for Readiness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Readiness").field(&self.missing()).finish()
    }
}

impl ReadyFlag {
    /// Sets whether the condition is met: `Ok`, or the reason why not.
    pub fn set(&self, is_met: Result<(), String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = is_met;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::seconds;

    #[tokio::test(start_paused = true)]
    async fn a_loop_is_stuck_only_without_progress_for_longer_than_its_limit() {
        let loops = Loops::new(Clock::starting_at(Moment::UNIX_EPOCH));
        let intake = loops.register("intake", seconds(60));
        tokio::time::advance(seconds(60)).await;
        assert_eq!(loops.stuck(), vec![]);
        tokio::time::advance(seconds(1)).await;
        assert_eq!(loops.stuck(), vec![("intake", seconds(61))]);
        intake.made_progress();
        assert_eq!(loops.stuck(), vec![]);
        tokio::time::advance(seconds(100)).await;
        drop(intake);
        assert_eq!(loops.stuck(), vec![], "a loop that has ended is not stuck");
    }

    #[test]
    fn an_awaited_condition_is_not_met_before_it_is_added() {
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
    fn ready_means_that_every_condition_is_met() {
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
