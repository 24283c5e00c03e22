//! How long a refused order waits before it is tried again by time alone.

use std::time::Duration;

use super::Class;
use crate::domain::seconds;

/// The first wait after a failure that may pass by itself; doubled each time.
const BACK_OFF: Duration = Duration::from_millis(500);
/// Deletes are sent when a deadline is near: none waits longer than this.
const DELETE_AT_MOST: Duration = seconds(5);

/// How long an order waits.
#[derive(Debug)]
pub(super) struct Patience {
    probe: Duration,
    random: fastrand::Rng,
}

impl Patience {
    pub(super) fn new(probe: Duration, seed: u64) -> Self {
        Self { probe, random: fastrand::Rng::with_seed(seed) }
    }

    /// `d` ± 50 %.
    fn about(&mut self, d: Duration) -> Duration {
        d.mul_f64(0.5 + self.random.f64())
    }

    /// `d` up to twice that.
    fn at_least(&mut self, d: Duration) -> Duration {
        d.mul_f64(1.0 + self.random.f64())
    }

    /// How long an order waits that got this answer, after so many before that may pass by
    /// themselves; `None`: not at all, or the order is done.
    pub(super) fn wait(&mut self, class: Class, tries: u32, delete: bool) -> Option<Duration> {
        let doubled =
            |first: Duration, most: Duration| first.saturating_mul(1 << tries.min(10)).min(most);
        let wait = match class {
            // Evictions wait for the end of the pause; a delete may go before that, but not at once
            // again.
            Class::Overload { retry_after } if delete => retry_after.max(seconds(1)),
            Class::Accepted | Class::Overload { .. } => return None,
            Class::BudgetLagging { retry_after } => {
                self.at_least(retry_after.max(seconds(1)).mul_f64(2.0 / 3.0)).max(retry_after)
            }
            Class::Conflict => self.at_least(doubled(BACK_OFF, seconds(8))),
            Class::Transient | Class::Unauthorized | Class::Gone | Class::OtherUid => {
                self.about(doubled(BACK_OFF, self.probe))
            }
            Class::Budget
            | Class::BudgetBroken
            | Class::TwoBudgets
            | Class::Webhook
            | Class::NamespaceTerminating
            | Class::Forbidden
            | Class::Malformed => self.about(self.probe),
        };
        Some(if delete { wait.min(DELETE_AT_MOST) } else { wait })
    }
}
