//! What differs between a run and a simulation besides the clients: the clock, randomness and how tasks are started.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::domain::Moment;

/// Wall time, taken once and carried on by tokio's monotonic clock: it never jumps, and it stands still where tokio's clock is paused.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    wall: Moment,
    monotonic: Instant,
}

impl Clock {
    /// A clock that shows `wall` now. Must be called inside a tokio runtime.
    #[must_use]
    pub fn starting_at(wall: Moment) -> Self {
        Self { wall, monotonic: Instant::now() }
    }

    /// A clock that shows the machine's time now.
    #[must_use]
    pub fn system() -> Self {
        #[allow(clippy::disallowed_methods, reason = "the one place where wall time enters")]
        Self::starting_at(Moment::from(jiff::Timestamp::now()))
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.wall.plus(self.monotonic.elapsed())
    }

    /// When on tokio's clock this clock will show `moment`; now if that is past.
    #[must_use]
    pub fn instant(&self, moment: Moment) -> Instant {
        Instant::now() + moment.since_or_zero(self.now()).min(Duration::from_hours(365 * 24))
    }

    /// What this clock showed at `instant`.
    #[must_use]
    pub fn moment(&self, instant: Instant) -> Moment {
        self.wall.plus(instant.saturating_duration_since(self.monotonic))
    }

    /// When on tokio's clock this clock showed `moment`, which is past; its beginning where it began later.
    #[must_use]
    pub fn past_instant(&self, moment: Moment) -> Instant {
        self.monotonic + moment.since_or_zero(self.wall).min(self.monotonic.elapsed())
    }

    /// Waits until this clock shows `moment`.
    pub async fn sleep_until(&self, moment: Moment) {
        tokio::time::sleep_until(self.instant(moment)).await;
    }
}

/// Seeded randomness: jitter in a run, the whole course of events in a simulation.
#[derive(Debug, Clone)]
pub struct Random(Arc<Mutex<fastrand::Rng>>);

impl Random {
    /// From a seed: the same seed gives the same numbers.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    /// From the machine's entropy.
    #[must_use]
    pub fn from_entropy() -> Self {
        Self::seeded(fastrand::u64(..))
    }

    /// A number in `[0, 1)`.
    #[must_use]
    pub fn fraction(&self) -> f64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).f64()
    }

    /// A number below `bound`; 0 when that is 0.
    #[must_use]
    pub fn below(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.0.lock().unwrap_or_else(PoisonError::into_inner).u64(..bound) }
    }

    /// Full jitter: a random part of `whole`.
    #[must_use]
    pub fn jitter(&self, whole: Duration) -> Duration {
        whole.mul_f64(self.fraction())
    }
}

/// Starts tasks, and knows when all of them have ended.
#[derive(Debug, Clone, Default)]
pub struct Spawner {
    tasks: TaskTracker,
    end: CancellationToken,
}

impl Spawner {
    /// A spawner without tasks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a task. Dropping what comes back does not end it; `abort_on_drop` does.
    pub fn spawn<F>(&self, task: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let end = self.end.clone();
        // In a box of its own: each layer around a task would hold it twice, as what it was given and as what it runs.
        let task = Box::pin(task);
        self.tasks.spawn(async move {
            match end.run_until_cancelled_owned(task).await {
                Some(output) => output,
                // Killed: nobody will ever hear of it again.
                None => std::future::pending().await,
            }
        })
    }

    /// Starts a task that ends when the handle is dropped.
    pub fn spawn_scoped<F>(&self, task: F) -> tokio_util::task::AbortOnDropHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        tokio_util::task::AbortOnDropHandle::new(self.spawn(task))
    }

    /// Waits until all tasks have ended, `limit` at most; says whether they have.
    pub async fn finished(&self, limit: Duration) -> bool {
        self.tasks.close();
        tokio::time::timeout(limit, self.tasks.wait()).await.is_ok()
    }

    /// Ends every task where it stands, as the end of a process does: nothing is given back, nobody is told.
    pub fn kill(&self) {
        self.end.cancel();
    }
}
