//! Bytes of a queue message → what AWS said. Pure and total: every body gets an answer, none
//! panics, and the cost is linear in its length.
//!
//! There are three answers. *Interruptions* (or AWS's own test message): understood. *Irrelevant*:
//! understood, and nothing that Sundown deals with; it may be deleted. *Reject*: not understood; it
//! is kept for the dead-letter queue.
//!
//! A value that nobody needs may be missing or unreadable; one that decides anything may not. So a
//! spot warning with a strange time is still a spot warning, and one whose instance id is none is
//! rejected.

mod event;
mod excerpt;
mod field;
mod lifecycle;
mod outcome;
mod wire;

pub use event::TEST_SOURCE;
pub use excerpt::excerpt;
pub use outcome::{Irrelevant, Parsed, Reject, TestEvent};

use wire::Outer;

/// The longest body that is looked at: the longest that SQS delivers (1 MiB; SQS quotas, "Message
/// size").
pub const MAX_BODY: usize = 1024 * 1024;

/// A topic that forwards to a topic wraps twice; more is nobody's set-up.
const MAX_ENVELOPES: u32 = 2;

/// What a queue message says. Understands events from EventBridge, notifications that Auto Scaling
/// sends to the queue itself, and either of them inside an SNS envelope. Errs when the body is not
/// understood; it is to be kept then.
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

/// What Amazon SNS wraps a message in when raw delivery is off. Some forwarders keep only its
/// `Message`.
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
