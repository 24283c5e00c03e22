//! Points in time, and arithmetic on them that cannot panic.

use std::{
    fmt,
    num::NonZeroU64,
    ops::{Add, Sub},
    str::FromStr,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp, fmt::strtime};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in wall time, in whole microseconds. In the pure modules `now` is always an argument of
/// this type.
///
/// Its range is that of [`jiff::Timestamp`], the years -9999 to 9999. Arithmetic stops at the ends
/// of the range, so that no time in an event can make the process panic. Kubernetes and AWS write
/// no finer times. A drain keeps several moments for each pod: an `Option<Moment>` takes 8 bytes,
/// an `Option` of jiff's type 24.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(
    /// Microseconds since a microsecond before [`Moment::MIN`].
    NonZeroU64,
);

/// Whole seconds as a `Duration`.
#[must_use]
pub const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// From 1970 to [`Moment::MIN`], in microseconds.
const FIRST: i64 = -377_705_023_201_000_000;
/// From 1970 to [`Moment::MAX`], in microseconds.
const LAST: i64 = 253_402_207_200_999_999;

impl Moment {
    /// The earliest moment: the beginning of [`jiff::Timestamp`]'s range.
    pub const MIN: Self = Self::from_microsecond(FIRST);
    /// The latest moment: the end of [`jiff::Timestamp`]'s range.
    pub const MAX: Self = Self::from_microsecond(LAST);
    /// The beginning of 1970.
    pub const UNIX_EPOCH: Self = Self::from_microsecond(0);

    /// Microseconds since 1970, clamped to [`Moment::MIN`] and [`Moment::MAX`].
    const fn from_microsecond(at: i64) -> Self {
        let near = if at < FIRST {
            FIRST
        } else if at > LAST {
            LAST
        } else {
            at
        };
        Self(NonZeroU64::MIN.saturating_add(near.abs_diff(FIRST)))
    }

    /// That many seconds after 1970 began; an error where no such moment exists.
    pub fn from_second(second: i64) -> Result<Self, jiff::Error> {
        Timestamp::from_second(second).map(Self::from)
    }

    /// That many milliseconds after 1970 began; an error where no such moment exists.
    pub fn from_millisecond(millisecond: i64) -> Result<Self, jiff::Error> {
        Timestamp::from_millisecond(millisecond).map(Self::from)
    }

    const fn as_microsecond(self) -> i64 {
        FIRST.saturating_add_unsigned(self.0.get() - 1)
    }

    /// Seconds since 1970 began, rounded towards zero.
    pub const fn as_second(self) -> i64 {
        self.as_microsecond() / 1_000_000
    }

    /// Milliseconds since 1970 began, rounded towards zero.
    pub const fn as_millisecond(self) -> i64 {
        self.as_microsecond() / 1_000
    }

    /// Nanoseconds since 1970 began.
    pub fn as_nanosecond(self) -> i128 {
        i128::from(self.as_microsecond()) * 1_000
    }

    /// This moment plus `d`, at most [`Moment::MAX`].
    #[must_use]
    pub fn plus(self, d: Duration) -> Self {
        Self::from_microsecond(self.as_microsecond().saturating_add(microseconds(d)))
    }

    /// This moment less `d`, at least [`Moment::MIN`].
    #[must_use]
    pub fn minus(self, d: Duration) -> Self {
        Self::from_microsecond(self.as_microsecond().saturating_sub(microseconds(d)))
    }

    /// The time from `earlier` to this moment; negative if this moment is before `earlier`.
    #[must_use]
    pub const fn duration_since(self, earlier: Self) -> SignedDuration {
        SignedDuration::from_micros(self.as_microsecond().saturating_sub(earlier.as_microsecond()))
    }

    /// The time from `earlier` to this moment; zero if this moment is not after `earlier`.
    #[must_use]
    pub const fn since_or_zero(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.get().saturating_sub(earlier.0.get()))
    }

    /// This moment in UTC, formatted by a [`strtime`] format string.
    pub fn strftime(self, form: &str) -> strtime::Display<'_> {
        Timestamp::from(self).strftime(form)
    }
}

/// Fractions of a microsecond are left out.
fn microseconds(d: Duration) -> i64 {
    i64::try_from(d.as_micros()).unwrap_or(i64::MAX)
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, d: Duration) -> Self {
        self.plus(d)
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, d: Duration) -> Self {
        self.minus(d)
    }
}

impl Add<SignedDuration> for Moment {
    type Output = Self;

    fn add(self, d: SignedDuration) -> Self {
        if d.is_negative() { self.minus(d.unsigned_abs()) } else { self.plus(d.unsigned_abs()) }
    }
}

impl Sub<SignedDuration> for Moment {
    type Output = Self;

    fn sub(self, d: SignedDuration) -> Self {
        if d.is_negative() { self.plus(d.unsigned_abs()) } else { self.minus(d.unsigned_abs()) }
    }
}

impl From<Timestamp> for Moment {
    fn from(timestamp: Timestamp) -> Self {
        Self::from_microsecond(timestamp.as_microsecond())
    }
}

impl From<Moment> for Timestamp {
    fn from(moment: Moment) -> Self {
        // Every moment is in jiff's range.
        Self::from_duration(SignedDuration::from_micros(moment.as_microsecond()))
            .unwrap_or_default()
    }
}

impl Default for Moment {
    fn default() -> Self {
        Self::UNIX_EPOCH
    }
}

/// RFC 3339 in UTC. The format's precision is the number of decimals of the seconds: `{:.3}` writes
/// milliseconds.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Timestamp::from(*self).fmt(f)
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Moment {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<Timestamp>().map(Self::from)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Timestamp::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn arithmetic_beyond_the_ends_of_time_saturates() {
        assert_eq!(Moment::MAX.plus(seconds(1)), Moment::MAX);
        assert_eq!(Moment::MIN.plus(Duration::MAX), Moment::MAX);
        assert_eq!(Moment::MIN.minus(Duration::MAX), Moment::MIN);
        assert_eq!(Moment::MAX.minus(Duration::MAX), Moment::MIN);
        assert_eq!(Moment::MIN + SignedDuration::MIN, Moment::MIN);
        assert_eq!(Moment::MIN - SignedDuration::MIN, Moment::MAX);
        assert_eq!(Moment::MIN.since_or_zero(Moment::MAX), Duration::ZERO);
        assert_eq!(Moment::MIN + Moment::MAX.since_or_zero(Moment::MIN), Moment::MAX);
        assert_eq!(Moment::MAX + Moment::MIN.duration_since(Moment::MAX), Moment::MIN);
    }

    #[test]
    fn an_optional_moment_takes_eight_bytes() {
        assert_eq!((size_of::<Moment>(), size_of::<Option<Moment>>()), (8, 8));
    }

    #[test]
    fn the_ends_of_time_are_those_of_jiff_and_have_a_text() {
        let ends = [
            (Moment::MIN, Timestamp::MIN, "-009999-01-02T01:59:59Z"),
            (Moment::UNIX_EPOCH, Timestamp::UNIX_EPOCH, "1970-01-01T00:00:00Z"),
            (Moment::MAX, Timestamp::MAX, "9999-12-30T22:00:00.999999Z"),
        ];
        for (moment, timestamp, text) in ends {
            assert_eq!((moment, Moment::from(Timestamp::from(moment))), (timestamp.into(), moment));
            assert_eq!((moment.to_string().as_str(), text.parse().ok()), (text, Some(moment)));
            let json = serde_json::to_string(&moment).unwrap();
            assert_eq!(
                (&json, serde_json::from_str(&json).ok()),
                (&format!("\"{text}\""), Some(moment))
            );
        }
        assert!(Moment::from_second(i64::MAX).is_err());
        assert!(Moment::from_millisecond(i64::MIN).is_err());
    }

    fn any_timestamp() -> impl Strategy<Value = Timestamp> {
        let near = -4_000_000_000_000..4_000_000_000_000_i64;
        prop_oneof![near, FIRST..=LAST].prop_map(|us| Timestamp::from_microsecond(us).unwrap())
    }

    fn any_duration() -> impl Strategy<Value = SignedDuration> {
        prop_oneof![-4_000_000_000..4_000_000_000_i64, any::<i64>()]
            .prop_map(SignedDuration::from_micros)
    }

    proptest! {
        /// Every method gives the same result as jiff's.
        #[test]
        fn a_moment_behaves_as_a_jiff_timestamp(
            a in any_timestamp(), b in any_timestamp(), d in any_duration()
        ) {
            let (x, y) = (Moment::from(a), Moment::from(b));
            prop_assert_eq!(Timestamp::from(x), a);
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            prop_assert_eq!(x.duration_since(y), a.duration_since(b));
            prop_assert_eq!(
                x.since_or_zero(y), Duration::try_from(a.duration_since(b)).unwrap_or_default()
            );
            prop_assert_eq!(x + d, a.saturating_add(d).unwrap().into());
            prop_assert_eq!(x - d, a.saturating_sub(d).unwrap().into());
            prop_assert_eq!(
                (x.as_second(), x.as_millisecond()), (a.as_second(), a.as_millisecond())
            );
            prop_assert_eq!(x.as_nanosecond(), a.as_nanosecond());
            prop_assert_eq!(x.to_string(), a.to_string());
            prop_assert_eq!(format!("{x:?} {x:.0} {x:.6}"), format!("{a:?} {a:.0} {a:.6}"));
            prop_assert_eq!(x.strftime("%Y-%m-%d").to_string(), a.strftime("%Y-%m-%d").to_string());
        }
    }
}
