//! How long a watch waits before it tries again.

use std::time::Duration;

use crate::controller::Random;

/// The first wait, before jitter.
const FIRST: Duration = Duration::from_millis(250);
/// The longest wait. Short, because nothing is known of a cluster meanwhile, and few ask.
const LONGEST: Duration = Duration::from_secs(10);

/// Doubling waits, jittered from a seed (those of `kube_runtime` cannot be seeded).
#[derive(Debug)]
pub(super) struct Backoff {
    random: Random,
    failures: u32,
}

impl Backoff {
    pub(super) const fn new(random: Random) -> Self {
        Self { random, failures: 0 }
    }

    /// Something failed: the wait before the next try, at least `asked` (`Retry-After`).
    pub(super) fn failed(&mut self, asked: Option<Duration>) -> Duration {
        let whole = FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let wait = whole / 2 + self.random.jitter(whole / 2);
        wait.max(asked.unwrap_or_default().min(Duration::from_mins(1)))
    }

    /// How many failures there were since it was well.
    pub(super) const fn failures(&self) -> u32 {
        self.failures
    }

    pub(super) const fn well(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_begin_anew() {
        let mut backoff = Backoff::new(Random::seeded(1));
        let waits: Vec<_> = (0..8).map(|_| backoff.failed(None)).collect();
        for (n, wait) in waits.iter().enumerate() {
            let whole = Duration::from_millis(250 << n).min(LONGEST);
            assert!(*wait >= whole / 2 && *wait <= whole, "{n}: {wait:?}");
        }
        assert_eq!(backoff.failed(Some(Duration::from_secs(20))), Duration::from_secs(20));
        backoff.well();
        assert!(backoff.failed(None) <= FIRST);
    }
}
