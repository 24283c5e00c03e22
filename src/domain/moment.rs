//! Points in time, and arithmetic on them that cannot panic.

use std::time::Duration;

/// A point in wall time. In the pure rooms `now` is always an argument of this type.
pub type Moment = jiff::Timestamp;

/// Whole seconds as a `Duration`.
#[must_use]
pub const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Saturating arithmetic: events carry times written by others, and no such time may end the process.
pub trait MomentExt {
    /// This moment plus `d`; the end of time when that is beyond it.
    #[must_use]
    fn plus(self, d: Duration) -> Moment;
    /// This moment less `d`; the beginning of time when that is before it.
    #[must_use]
    fn minus(self, d: Duration) -> Moment;
    /// How long after `earlier` this moment is; zero when it is not after it.
    #[must_use]
    fn since_or_zero(self, earlier: Moment) -> Duration;
}

impl MomentExt for Moment {
    fn plus(self, d: Duration) -> Moment {
        jiff::SignedDuration::try_from(d).ok().and_then(|d| self.checked_add(d).ok()).unwrap_or(Moment::MAX)
    }

    fn minus(self, d: Duration) -> Moment {
        jiff::SignedDuration::try_from(d).ok().and_then(|d| self.checked_sub(d).ok()).unwrap_or(Moment::MIN)
    }

    fn since_or_zero(self, earlier: Moment) -> Duration {
        Duration::try_from(self.duration_since(earlier)).unwrap_or(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_beyond_the_ends_of_time_saturates() {
        assert_eq!(Moment::MAX.plus(seconds(1)), Moment::MAX);
        assert_eq!(Moment::MIN.minus(Duration::MAX), Moment::MIN);
        assert_eq!(Moment::MIN.since_or_zero(Moment::MAX), Duration::ZERO);
    }
}
