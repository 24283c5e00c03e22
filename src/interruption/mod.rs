//! Parses the body of a queue message into interruptions. Parsing does no I/O, never panics, gives
//! a result for every body, and takes time linear in its length.
//!
//! The main results are:
//!
//! - *Interruptions*: a notice from AWS, or a test message.
//! - *Capacity Block*: a notice about a block of instances, which EC2 must be asked for.
//! - *Irrelevant*: a valid message that Sundown does not act on; it may be deleted.
//! - *Reject*: a message that Sundown cannot parse; it is kept for the dead-letter queue.
//!
//! A value that no decision needs may be missing or unreadable; all others must be valid. So a spot
//! warning with an unreadable time is still a spot warning, but one without a valid instance id is
//! rejected.

mod event;
mod excerpt;
mod field;
mod lifecycle;
mod outcome;
mod wire;

pub use event::TEST_SOURCE;
pub(crate) use event::{CAPACITY_BLOCK, CAPACITY_BLOCK_TOO, LAUNCH_ACTION};
pub use excerpt::excerpt;
pub use outcome::{Irrelevant, Parsed, Reject, TestContent, TestEvent};

use wire::Outer;

/// The longest body that Sundown parses: the longest that SQS delivers (1 MiB; SQS quotas, "Message
/// size").
pub const MAX_BODY: usize = 1024 * 1024;

/// Most SNS envelopes around an event. A topic that forwards to a topic makes two.
const MAX_ENVELOPES: u32 = 2;

/// Parses the body of a queue message: an event from EventBridge, a notification that Auto Scaling
/// sends to the queue itself, or either of them inside an SNS envelope. Errs if the body is
/// anything else or has an invalid value; the message must be kept then.
pub fn parse(body: impl AsRef<[u8]>) -> Result<Parsed, Reject> {
    parse_bytes(body.as_ref())
}

fn parse_bytes(body: &[u8]) -> Result<Parsed, Reject> {
    if body.len() > MAX_BODY {
        return Err(Reject::TooLong);
    }
    parse_text(std::str::from_utf8(body).map_err(|_| Reject::NotUtf8)?, 0)
}

fn parse_text(text: &str, envelopes: u32) -> Result<Parsed, Reject> {
    let text = text.trim_ascii();
    if text.is_empty() {
        return Err(Reject::Empty);
    }
    if !text.starts_with('{')
        && let Some(parsed) = lifecycle::from_lines(text)
    {
        return parsed;
    }
    let outer: Outer<'_> = wire::object(text, || Reject::OtherShape)?;
    let detail_type =
        [&outer.detail_type, &outer.detail_type_too].into_iter().flatten().find(|t| !t.is_empty());
    if let Some(detail_type) = detail_type {
        event::parse(&outer, detail_type)
    } else if outer.transition.is_some() || outer.event.is_some() {
        lifecycle::from_native(&wire::object(text, || Reject::OtherShape)?)
    } else {
        envelope(&outer, envelopes)
    }
}

/// The envelope in which Amazon SNS puts a message if raw delivery is off. Some forwarders keep
/// only its `Message`.
fn envelope(outer: &Outer<'_>, envelopes: u32) -> Result<Parsed, Reject> {
    match (outer.kind.as_deref(), &outer.message) {
        (Some("SubscriptionConfirmation" | "UnsubscribeConfirmation"), _) => {
            Err(Reject::Unconfirmed)
        }
        (Some("Notification") | None, Some(_)) if envelopes == MAX_ENVELOPES => {
            Err(Reject::TooManyEnvelopes)
        }
        (Some("Notification") | None, Some(message)) => parse_text(message, envelopes + 1),
        (Some("Notification"), None) => Err(Reject::MissingField("Message")),
        _ => Err(Reject::OtherShape),
    }
}

#[cfg(test)]
mod tests;
