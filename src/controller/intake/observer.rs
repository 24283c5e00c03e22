//! What is told of the intake, for metrics.

use crate::aws::Outcome;

/// Something that happened to the messages of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntakeEvent {
    /// A receive was answered, with this many messages (copies included).
    Received(usize),
    /// A receive failed.
    ReceiveFailed(Outcome),
    /// This many long polls are wanted now.
    Pollers(usize),
    /// A copy of a message that is held came: its receipt is the one to use now.
    Redelivered,
    /// So many were deleted.
    Deleted(usize),
    /// A delete failed and is tried again.
    DeleteRetried(usize),
    /// SQS says that the receipt is not (or no longer) valid; the message may come again.
    DeleteRefused,
    /// Deletes that failed for too long; the messages come again.
    DeleteGivenUp(usize),
    /// So many are ours for another visibility timeout.
    Extended(usize),
    /// An extension failed and is tried again.
    ExtendRetried(usize),
    /// So many could not be extended in time: they may be given to somebody else.
    Lost(usize),
    /// Held for as long as SQS lets a message be held; it comes again.
    HeldTooLong,
    /// So many were given back at once.
    Released(usize),
    /// So many could not be given back; they reappear when their visibility timeout is over.
    ReleaseFailed(usize),
}

/// Is told what happens to messages. `()` does not care.
pub trait IntakeObserver: Send + Sync + 'static {
    /// `event` happened to messages of `queue` (its name).
    fn event(&self, queue: &str, event: IntakeEvent);
}

impl IntakeObserver for () {
    fn event(&self, _: &str, _: IntakeEvent) {}
}
