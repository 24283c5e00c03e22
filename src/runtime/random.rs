//! Random numbers from a seed.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Random numbers from a seed: jitter in a run, everything that happens by chance in a simulation.
#[derive(Debug, Clone)]
pub struct Random(Arc<Mutex<fastrand::Rng>>);

impl Random {
    /// Begins with a seed: the same seed gives the same numbers.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    /// Begins with a seed from the machine's entropy.
    #[must_use]
    pub fn from_entropy() -> Self {
        Self::seeded(fastrand::u64(..))
    }

    /// A number in `[0, 1)`.
    #[must_use]
    pub fn fraction(&self) -> f64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).f64()
    }

    /// A number below `bound`; 0 if `bound` is 0.
    #[must_use]
    pub fn below(&self, bound: u64) -> u64 {
        if bound == 0 {
            0
        } else {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).u64(..bound)
        }
    }

    /// A random part of `whole`, from zero to almost all of it ("full jitter").
    #[must_use]
    pub fn jitter(&self, whole: Duration) -> Duration {
        whole.mul_f64(self.fraction())
    }
}
