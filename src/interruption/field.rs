//! Single values: names, ids, times.

use crate::domain::{InstanceId, Moment};

use super::{Reject, wire::Text};

/// The longest name of an Auto Scaling group or hook (Auto Scaling API: both 255).
const LONGEST_NAME: usize = 255;
/// The longest `eventArn` (AWS Health API: 1600).
const LONGEST_ARN: usize = 1600;

/// A value that must be there.
pub(super) fn needed<'t>(
    name: &'static str,
    text: Option<&'t Text<'_>>,
) -> Result<&'t str, Reject> {
    text.map(|t| &**t).filter(|t| !t.is_empty()).ok_or(Reject::MissingField(name))
}

/// A name that must be there and could be one.
pub(super) fn needed_name<'t>(
    name: &'static str,
    text: Option<&'t Text<'_>>,
) -> Result<&'t str, Reject> {
    bounded(name, needed(name, text)?, LONGEST_NAME)
}

/// A name that may be missing; then it is empty.
pub(super) fn name<'t>(name: &'static str, text: Option<&'t Text<'_>>) -> Result<&'t str, Reject> {
    bounded(name, text.map_or("", |t| t), LONGEST_NAME)
}

/// An ARN that may be missing; then it is empty.
pub(super) fn arn<'t>(name: &'static str, text: Option<&'t Text<'_>>) -> Result<&'t str, Reject> {
    bounded(name, text.map_or("", |t| t), LONGEST_ARN)
}

fn bounded<'t>(name: &'static str, text: &'t str, most: usize) -> Result<&'t str, Reject> {
    // Bytes first: counting characters costs, and hardly any name has more of the one than of the
    // other.
    let fits = text.len() <= most || text.chars().count() <= most;
    if fits && !has_control(text) { Ok(text) } else { Err(Reject::BadField(name)) }
}

fn has_control(text: &str) -> bool {
    // Bytes first here too: nearly every name is ASCII.
    text.bytes().any(|b| b.is_ascii_control())
        || (!text.is_ascii() && text.chars().any(char::is_control))
}

/// The instance that an event is about.
pub(super) fn instance(name: &'static str, text: Option<&Text<'_>>) -> Result<InstanceId, Reject> {
    Ok(needed(name, text)?.parse::<InstanceId>()?)
}

/// The instance that an affected entity of AWS Health is, if it is one: its id, or its ARN.
pub(super) fn entity(text: &str) -> Option<InstanceId> {
    let id = if text.starts_with("arn:") { text.rsplit_once(":instance/")?.1 } else { text };
    id.parse().ok()
}

/// A time as events write it: RFC 3339, with or without a fraction of a second. What is no time is
/// as good as none: the time at which the message was sent stands in, and no interruption is lost
/// over it.
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
