//! What the intake reports to metrics.

use crate::aws::Outcome;

/// Something that happened to the messages of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntakeEvent {
    /// SQS answered a receive with this many messages, copies included.
    Received(usize),
    /// A receive failed with this outcome; it is tried again.
    ReceiveFailed(Outcome),
    /// The number of receives to have under way at once is now this.
    Pollers(usize),
    /// A copy of a held message came. Its receipt is used from now on.
    Redelivered,
    /// Number of messages that SQS has deleted.
    Deleted(usize),
    /// Number of messages whose delete failed and is tried again.
    DeleteRetried(usize),
    /// SQS refused a delete because the receipt is not (or no longer) valid; the message may come
    /// again.
    DeleteRefused,
    /// Number of messages whose delete failed for too long; SQS delivers them again.
    DeleteGivenUp(usize),
    /// Number of messages that stay invisible to others for another visibility timeout.
    Extended(usize),
    /// Number of messages whose extension failed and is tried again.
    ExtendRetried(usize),
    /// Number of messages that could not be extended in time: another reader may receive them.
    Lost(usize),
    /// Number of messages that were given up after being undecided for too long, to make room for
    /// others. They reappear by themselves.
    MadeRoom(usize),
    /// A message was held for as long as SQS allows; it comes again.
    HeldTooLong,
    /// Number of messages that were given back.
    Released(usize),
    /// Number of messages that could not be given back; they reappear when their visibility timeout
    /// is over.
    ReleaseFailed(usize),
}

impl IntakeEvent {
    /// The label values of events without a metric of their own, so that their counters start at 0.
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

    /// The label value of this event in metrics.
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

    /// How many messages the event is about. For [`IntakeEvent::Pollers`]: how many receives.
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
