//! Durations as people write them: in flags, annotations and hooks.

use std::time::Duration;

/// Parses a duration such as `90s`, `5m`, `1h30m`, `500ms` or `0`. Errs if the unit is missing or
/// the duration is negative.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let remedy = "use hours, minutes and seconds with their units, such as 90s, 5m or 1h30m";
    let trimmed = text.trim();
    if trimmed == "0" {
        return Ok(Duration::ZERO);
    }
    if !trimmed.is_empty() && trimmed.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("it has no unit; {remedy} ({trimmed}s for seconds)"));
    }
    if trimmed.starts_with(['P', 'p']) {
        return Err(remedy.to_owned());
    }
    let signed: jiff::SignedDuration = trimmed.parse().map_err(|_| remedy.to_owned())?;
    Duration::try_from(signed).map_err(|_| format!("it is negative; {remedy}"))
}

/// Writes a duration as [`parse_duration`] reads it.
#[must_use]
pub fn duration_text(d: Duration) -> String {
    let (hours, minutes, seconds, millis) =
        (d.as_secs() / 3600, d.as_secs() / 60 % 60, d.as_secs() % 60, d.subsec_millis());
    let parts = [(hours, "h"), (minutes, "m"), (seconds, "s"), (u64::from(millis), "ms")];
    let text = parts
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, unit)| format!("{n}{unit}"))
        .collect::<Vec<_>>()
        .concat();
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds) in [
            ("90s", 90),
            ("5m", 300),
            ("1h30m", 5400),
            ("1h 30m", 5400),
            ("48h", 172_800),
            ("0", 0),
            ("0s", 0),
            ("2 min", 120),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
            assert_eq!(
                parse_duration(&duration_text(Duration::from_secs(seconds))),
                Ok(Duration::from_secs(seconds)),
                "{text}"
            );
        }
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration_text(Duration::from_millis(90_500)), "1m30s500ms");
        for bad in ["", "5", "-5s", "5x", "s", "PT5M", "five minutes", "1d"] {
            let error = parse_duration(bad).unwrap_err();
            assert!(error.contains("90s, 5m or 1h30m"), "{bad}: {error}");
        }
    }
}
