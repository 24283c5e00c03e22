//! How long a pod whose request failed waits before the request is sent again.

use std::time::Duration;

use super::Class;
use crate::domain::seconds;

/// The first wait after a failure that may pass by itself; doubled with each such failure.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait of a delete, because deletes are sent when a deadline is near.
const MAX_DELETE_WAIT: Duration = seconds(5);

/// Computes the waits, with jitter.
#[derive(Debug)]
pub(super) struct RetryBackoff {
    probe: Duration,
    random: fastrand::Rng,
}

impl RetryBackoff {
    pub(super) fn new(probe: Duration, seed: u64) -> Self {
        Self { probe, random: fastrand::Rng::with_seed(seed) }
    }

    /// `d` ± 50 %.
    fn jittered(&mut self, d: Duration) -> Duration {
        d.mul_f64(0.5 + self.random.f64())
    }

    /// Between `d` and twice `d`.
    fn at_least(&mut self, d: Duration) -> Duration {
        d.mul_f64(1.0 + self.random.f64())
    }

    /// How long to wait after this answer. `tries`: failures in a row before it that may pass by
    /// themselves. `None`: do not wait, or the request succeeded.
    pub(super) fn wait(&mut self, class: Class, tries: u32, delete: bool) -> Option<Duration> {
        let doubled =
            |first: Duration, most: Duration| first.saturating_mul(1 << tries.min(10)).min(most);
        let wait = match class {
            // Evictions wait for the end of the pause. A delete may be sent during the pause, but
            // not again at once.
            Class::Overload { retry_after } if delete => retry_after.max(seconds(1)),
            Class::Accepted | Class::Overload { .. } => return None,
            Class::BudgetLagging { retry_after } => {
                self.at_least(retry_after.max(seconds(1)).mul_f64(2.0 / 3.0)).max(retry_after)
            }
            Class::Conflict => self.at_least(doubled(FIRST_WAIT, seconds(8))),
            Class::Transient | Class::Unauthorized | Class::Gone | Class::OtherUid => {
                self.jittered(doubled(FIRST_WAIT, self.probe))
            }
            Class::Budget
            | Class::BudgetBroken
            | Class::TwoBudgets
            | Class::Webhook
            | Class::NamespaceTerminating
            | Class::Forbidden
            | Class::Malformed => self.jittered(self.probe),
        };
        Some(if delete { wait.min(MAX_DELETE_WAIT) } else { wait })
    }
}
