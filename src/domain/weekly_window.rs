//! A window of time that comes back each week (`--scheduled-window`).

use std::{fmt, str::FromStr};

use super::{Moment, seconds};

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const DAY: i64 = 24 * 3600;
const WEEK: i64 = 7 * DAY;
/// The first Monday of Unix time: it began on a Thursday.
const FIRST_MONDAY: i64 = 4 * DAY;
const REMEDY: &str = "use DAY HH:MM-HH:MM UTC, for example `Sat 02:00-06:00 UTC`";

/// A window of time that comes back each week, in UTC. It is shorter than a day, and may end on the
/// next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeeklyWindow {
    /// Seconds from the beginning of Monday.
    opens: i64,
    /// Its length in seconds.
    length: i64,
}

/// One occurrence of a [`WeeklyWindow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// When it begins.
    pub opens: Moment,
    /// When it is over.
    pub closes: Moment,
}

impl WeeklyWindow {
    /// The last occurrence that begins before `end`. It may last beyond.
    #[must_use]
    pub fn last_before(&self, end: Moment) -> Opening {
        // A window that begins at this very second does not begin before it.
        let since_open = (end.as_second() - 1 - FIRST_MONDAY - self.opens).rem_euclid(WEEK) + 1;
        let whole = Moment::from_second(end.as_second()).unwrap_or(end);
        let opens = whole.minus(length(since_open));
        Opening { opens, closes: opens.plus(length(self.length)) }
    }
}

fn length(of: i64) -> std::time::Duration {
    seconds(u64::try_from(of).unwrap_or_default())
}

impl FromStr for WeeklyWindow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [day, times, zone] = words[..] else {
            return Err(format!("not a weekly window; {REMEDY}"));
        };
        let day = DAYS
            .iter()
            .position(|known| known.eq_ignore_ascii_case(day))
            .ok_or_else(|| format!("`{day}` is no day; use one of {}", DAYS.join(", ")))?;
        if zone != "UTC" {
            return Err(format!("`{zone}` is not supported; give the times in UTC"));
        }
        let read = |time: &str| {
            time_of_day(time).ok_or_else(|| format!("`{time}` is no time of day; {REMEDY}"))
        };
        let (from, to) =
            times.split_once('-').ok_or_else(|| format!("`{times}` has no end; {REMEDY}"))?;
        let (from, to) = (read(from)?, read(to)?);
        let length = (to - from).rem_euclid(DAY);
        if from == DAY || length == 0 {
            return Err(format!("`{times}` has no length; use a window of less than a day"));
        }
        let day = i64::try_from(day).unwrap_or_default();
        Ok(Self { opens: day * DAY + from, length })
    }
}

/// Seconds since midnight. `24:00` is the end of the day.
fn time_of_day(text: &str) -> Option<i64> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |text: &str| {
        let is_number = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| text.parse::<i64>().ok()).flatten()
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let time = hours * 3600 + minutes * 60;
    (minutes < 60 && time <= DAY).then_some(time)
}

impl fmt::Display for WeeklyWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (day, from) = (self.opens / DAY, self.opens % DAY);
        let day = usize::try_from(day).ok().and_then(|day| DAYS.get(day)).unwrap_or(&"");
        let to = (from + self.length) % DAY;
        let time = |of: i64| format!("{:02}:{:02}", of / 3600, of % 3600 / 60);
        write!(f, "{day} {}-{} UTC", time(from), time(to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Moment {
        text.parse().unwrap()
    }

    #[test]
    fn the_last_occurrence_before_a_moment() {
        // 2026-12-05 is a Saturday.
        for (window, end, opens, closes) in [
            ("Sat 02:00-06:00 UTC", "2026-12-09T12:00:00Z", "2026-12-05T02:00", "2026-12-05T06:00"),
            ("Sat 02:00-06:00 UTC", "2026-12-05T03:00:00Z", "2026-12-05T02:00", "2026-12-05T06:00"),
            ("Sat 02:00-06:00 UTC", "2026-12-05T02:00:01Z", "2026-12-05T02:00", "2026-12-05T06:00"),
            ("Sat 02:00-06:00 UTC", "2026-12-05T02:00:00Z", "2026-11-28T02:00", "2026-11-28T06:00"),
            ("Sat 02:00-06:00 UTC", "2026-12-05T01:59:59Z", "2026-11-28T02:00", "2026-11-28T06:00"),
            ("Sun 22:00-02:00 UTC", "2026-12-07T01:00:00Z", "2026-12-06T22:00", "2026-12-07T02:00"),
            ("Sun 22:00-24:00 UTC", "2026-12-07T00:00:00Z", "2026-12-06T22:00", "2026-12-07T00:00"),
            ("Mon 00:00-01:00 UTC", "2027-01-01T00:00:00Z", "2026-12-28T00:00", "2026-12-28T01:00"),
        ] {
            let window: WeeklyWindow = window.parse().unwrap();
            let found = window.last_before(at(end));
            let expected = [opens, closes].map(|text| at(&format!("{text}:00Z")));
            assert_eq!([found.opens, found.closes], expected, "{window} before {end}");
        }
    }

    #[test]
    fn a_window_is_written_as_it_is_read() {
        for text in ["Sat 02:00-06:00 UTC", "Sun 22:30-02:15 UTC", "Mon 00:00-23:59 UTC"] {
            assert_eq!(text.parse::<WeeklyWindow>().unwrap().to_string(), text);
        }
        assert_eq!("sat 02:00-06:00 UTC".parse(), "Sat 02:00-06:00 UTC".parse::<WeeklyWindow>());
    }

    #[test]
    fn what_is_no_window_is_named_with_the_remedy() {
        for (text, why) in [
            ("", "use DAY HH:MM-HH:MM UTC"),
            ("Sat 02:00-06:00", "use DAY HH:MM-HH:MM UTC"),
            ("Samstag 02:00-06:00 UTC", "use one of Mon, Tue"),
            ("Sat 02:00-06:00 CET", "give the times in UTC"),
            ("Sat 02:00 UTC", "has no end"),
            ("Sat 2:00-06:00 UTC", "`2:00` is no time of day"),
            ("Sat 02:60-06:00 UTC", "`02:60` is no time of day"),
            ("Sat 02:00-24:01 UTC", "`24:01` is no time of day"),
            ("Sat 02:00-02:00 UTC", "use a window of less than a day"),
            ("Sat 24:00-02:00 UTC", "use a window of less than a day"),
        ] {
            let error = text.parse::<WeeklyWindow>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
