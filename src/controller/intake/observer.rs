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
    /// So many were undecided for too long while there was no room for others; they reappear by
    /// themselves.
    MadeRoom(usize),
    /// Held for as long as SQS lets a message be held; it comes again.
    HeldTooLong,
    /// So many were given back at once.
    Released(usize),
    /// So many could not be given back; they reappear when their visibility timeout is over.
    ReleaseFailed(usize),
}

impl IntakeEvent {
    /// The words under which events are counted that have no metric of their own, for initialising
    /// it.
    pub const WORDS: [&'static str; 11] = [
        "receive_failed",
        "redelivered",
        "delete_retried",
        "delete_refused",
        "delete_given_up",
        "extended",
        "extend_retried",
        "lost",
        "held_too_long",
        "released",
        "release_failed",
    ];

    /// Its word in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Received(_) => "received",
            Self::ReceiveFailed(_) => "receive_failed",
            Self::Pollers(_) => "pollers",
            Self::Redelivered => "redelivered",
            Self::Deleted(_) => "deleted",
            Self::DeleteRetried(_) => "delete_retried",
            Self::DeleteRefused => "delete_refused",
            Self::DeleteGivenUp(_) => "delete_given_up",
            Self::Extended(_) => "extended",
            Self::ExtendRetried(_) => "extend_retried",
            Self::Lost(_) => "lost",
            Self::MadeRoom(_) => "made_room",
            Self::HeldTooLong => "held_too_long",
            Self::Released(_) => "released",
            Self::ReleaseFailed(_) => "release_failed",
        }
    }

    /// Of how many messages.
    #[must_use]
    pub const fn count(self) -> usize {
        match self {
            Self::Received(n)
            | Self::Pollers(n)
            | Self::Deleted(n)
            | Self::DeleteRetried(n)
            | Self::DeleteGivenUp(n)
            | Self::Extended(n)
            | Self::ExtendRetried(n)
            | Self::Lost(n)
            | Self::MadeRoom(n)
            | Self::Released(n)
            | Self::ReleaseFailed(n) => n,
            Self::ReceiveFailed(_)
            | Self::Redelivered
            | Self::DeleteRefused
            | Self::HeldTooLong => 1,
        }
    }
}

/// Is told what happens to messages. `()` does not care.
pub trait IntakeObserver: Send + Sync + 'static {
    /// `event` happened to messages of `queue` (its name).
    fn event(&self, queue: &str, event: IntakeEvent);
}

impl IntakeObserver for () {
    fn event(&self, _: &str, _: IntakeEvent) {}
}
