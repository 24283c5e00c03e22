//! The time now.

use std::time::Duration;

use tokio::time::Instant;

use crate::domain::Moment;

/// Wall time, taken once and carried on by tokio's monotonic clock: it never jumps, and it stands
/// still where tokio's clock is paused.
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

    /// When on tokio's clock this clock showed `moment`, which is past; its beginning where it
    /// began later.
    #[must_use]
    pub fn past_instant(&self, moment: Moment) -> Instant {
        self.monotonic + moment.since_or_zero(self.wall).min(self.monotonic.elapsed())
    }

    /// Waits until this clock shows `moment`.
    pub async fn sleep_until(&self, moment: Moment) {
        tokio::time::sleep_until(self.instant(moment)).await;
    }
}
