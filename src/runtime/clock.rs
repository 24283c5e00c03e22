//! The clock of a run or of a simulation.

use std::time::Duration;

use tokio::time::Instant;

use crate::domain::Moment;

/// Wall time, read once and then advanced by tokio's monotonic clock: it never jumps, and it stands
/// still while tokio's clock is paused.
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

    /// The wall time now; it never goes back.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.wall.plus(self.monotonic.elapsed())
    }

    /// The instant of tokio's clock at which this clock will show `moment`; now if `moment` is
    /// past.
    #[must_use]
    pub fn instant(&self, moment: Moment) -> Instant {
        Instant::now() + moment.since_or_zero(self.now()).min(Duration::from_hours(365 * 24))
    }

    /// What this clock showed at `instant`.
    #[must_use]
    pub fn moment(&self, instant: Instant) -> Moment {
        self.wall.plus(instant.saturating_duration_since(self.monotonic))
    }

    /// The instant of tokio's clock at which this clock showed the past `moment`; the start of this
    /// clock if `moment` is earlier.
    #[must_use]
    pub fn past_instant(&self, moment: Moment) -> Instant {
        self.monotonic + moment.since_or_zero(self.wall).min(self.monotonic.elapsed())
    }

    /// Waits until this clock shows `moment`.
    pub async fn sleep_until(&self, moment: Moment) {
        tokio::time::sleep_until(self.instant(moment)).await;
    }
}
