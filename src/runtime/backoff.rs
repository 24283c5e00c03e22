//! How long a task waits before it tries a failed call again.

use std::time::Duration;

use super::Random;

/// After this many conflicts in a row the next try waits too.
const CONFLICTS_WITHOUT_PAUSE: u32 = 3;
/// The longest pause that a server's `Retry-After` can ask for.
const LONGEST_ASKED: Duration = Duration::from_mins(1);

/// Pauses between tries: each twice as long as the one before, and each shortened by up to half at
/// random, so that tasks that failed together do not try again together.
#[derive(Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
    conflicts: u32,
}

impl Backoff {
    /// Pauses that begin with `first` and grow up to `longest`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0, conflicts: 0 }
    }

    /// Pauses that begin with half a second and grow up to `longest`.
    #[must_use]
    pub const fn up_to(longest: Duration) -> Self {
        Self::new(Duration::from_millis(500), longest)
    }

    /// The same pauses, as they continue after `failures` failed tries.
    #[must_use]
    pub const fn after(mut self, failures: u32) -> Self {
        self.failures = failures;
        self
    }

    /// Counts a failed try and returns the pause before the next one.
    pub fn pause(&mut self, random: &Random) -> Duration {
        let whole = self.first.saturating_mul(1 << self.failures.min(16)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        whole / 2 + random.jitter(whole / 2)
    }

    /// As [`Self::pause`], but at least as long as the server asked for in `Retry-After`, up to a
    /// minute.
    pub fn pause_as_asked(&mut self, random: &Random, asked: Option<Duration>) -> Duration {
        self.pause(random).max(asked.unwrap_or_default().min(LONGEST_ASKED))
    }

    /// The pause after a conflict. The first three are zero: the caller reads the object and tries
    /// again at once. Later ones are not, so that a conflict that never ends does not become a busy
    /// loop that loads the API server.
    pub fn pause_after_conflict(&mut self, random: &Random) -> Duration {
        self.conflicts = self.conflicts.saturating_add(1);
        if self.conflicts <= CONFLICTS_WITHOUT_PAUSE { Duration::ZERO } else { self.pause(random) }
    }

    /// How many tries have failed since the last reset, without the conflicts that had no pause.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// A try succeeded: the next pause is as short as the first one.
    pub const fn reset(&mut self) {
        self.failures = 0;
        self.conflicts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(10);

    fn backoff() -> (Backoff, Random) {
        (Backoff::new(Duration::from_millis(250), LONGEST), Random::seeded(1))
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew_after_a_reset() {
        let (mut backoff, random) = backoff();
        for n in 0..40 {
            let whole = Duration::from_millis(250 << n.min(20)).min(LONGEST);
            let pause = backoff.pause(&random);
            assert!(pause >= whole / 2 && pause <= whole, "{n}: {pause:?}");
        }
        assert_eq!(backoff.failures(), 40);
        backoff.reset();
        assert!(backoff.pause(&random) <= Duration::from_millis(250));
    }

    #[test]
    fn a_server_may_ask_for_a_longer_pause_up_to_a_minute() {
        let (mut backoff, random) = backoff();
        assert_eq!(
            backoff.pause_as_asked(&random, Some(Duration::from_secs(20))),
            Duration::from_secs(20)
        );
        assert_eq!(
            backoff.pause_as_asked(&random, Some(Duration::from_hours(1))),
            Duration::from_mins(1)
        );
    }

    #[test]
    fn three_conflicts_are_tried_again_at_once_and_the_next_waits() {
        let (mut backoff, random) = backoff();
        let pauses: Vec<_> = (0..4).map(|_| backoff.pause_after_conflict(&random)).collect();
        let (at_once, later): (Vec<_>, Vec<_>) = pauses.into_iter().partition(Duration::is_zero);
        assert_eq!((at_once.len(), later.len()), (3, 1), "{later:?}");
    }
}
