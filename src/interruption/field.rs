//! Parses single values: names, ids, times.

use crate::domain::{InstanceId, Moment, ReservationId};

use super::{Reject, wire::Text};

/// The longest name of an Auto Scaling group or hook (Auto Scaling API: both 255).
const LONGEST_NAME: usize = 255;
/// The longest `eventArn` (AWS Health API: 1600).
const LONGEST_ARN: usize = 1600;

/// A required value. Errs if it is missing or empty.
pub(super) fn needed<'t>(
    name: &'static str,
    text: Option<&'t Text<'_>>,
) -> Result<&'t str, Reject> {
    text.map(|t| &**t).filter(|t| !t.is_empty()).ok_or(Reject::MissingField(name))
}

/// A required name within the limits of length and characters.
pub(super) fn needed_name<'t>(
    name: &'static str,
    text: Option<&'t Text<'_>>,
) -> Result<&'t str, Reject> {
    bounded(name, needed(name, text)?, LONGEST_NAME)
}

/// An optional name; empty if missing.
pub(super) fn name<'t>(name: &'static str, text: Option<&'t Text<'_>>) -> Result<&'t str, Reject> {
    bounded(name, text.map_or("", |t| t), LONGEST_NAME)
}

/// An optional ARN; empty if missing.
pub(super) fn arn<'t>(name: &'static str, text: Option<&'t Text<'_>>) -> Result<&'t str, Reject> {
    bounded(name, text.map_or("", |t| t), LONGEST_ARN)
}

fn bounded<'t>(name: &'static str, text: &'t str, most: usize) -> Result<&'t str, Reject> {
    // Compare bytes first: counting characters is slower, and nearly every name is ASCII.
    let fits = text.len() <= most || text.chars().count() <= most;
    if fits && !has_control(text) { Ok(text) } else { Err(Reject::BadField(name)) }
}

fn has_control(text: &str) -> bool {
    // Check bytes first here too.
    text.bytes().any(|b| b.is_ascii_control())
        || (!text.is_ascii() && text.chars().any(char::is_control))
}

/// The instance that an event is about.
pub(super) fn instance(name: &'static str, text: Option<&Text<'_>>) -> Result<InstanceId, Reject> {
    Ok(needed(name, text)?.parse::<InstanceId>()?)
}

/// The Capacity Reservation that an event is about.
pub(super) fn reservation(
    name: &'static str,
    text: Option<&Text<'_>>,
) -> Result<ReservationId, Reject> {
    needed(name, text)?.parse().map_err(|_| Reject::BadField(name))
}

/// The instance named by an affected entity of AWS Health, as an id or an ARN. `None` if the entity
/// is not an instance.
pub(super) fn entity(text: &str) -> Option<InstanceId> {
    let id = if text.starts_with("arn:") { text.rsplit_once(":instance/")?.1 } else { text };
    id.parse().ok()
}

/// The text is the ID of an AWS account.
pub(super) fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|b| b.is_ascii_digit())
}

/// A time in RFC 3339, with or without a fraction of a second. `None` if it is missing or
/// unreadable: the time at which the message was sent replaces it, so no interruption is lost.
pub(super) fn time(text: Option<&Text<'_>>) -> Option<Moment> {
    text?.parse().ok()
}

/// A time as AWS Health writes it: RFC 1123 (`Sat, 05 Jun 2016 15:10:09 GMT`), whose day of the
/// week need not be right (that one was a Sunday); or RFC 3339.
pub(super) fn health_time(text: Option<&Text<'_>>) -> Option<Moment> {
    const RFC_1123: jiff::fmt::rfc2822::DateTimeParser =
        jiff::fmt::rfc2822::DateTimeParser::new().relaxed_weekday(true);
    let words = text?;
    RFC_1123.parse_timestamp(&**words).ok().map(Moment::from).or_else(|| time(text))
}
