//! What happens to a message in the end.

/// What happens to the message. If it holds several interruptions, the last of their ends in this
/// order counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MessageEnd {
    /// It is deleted: nobody needs it.
    Deleted,
    /// It becomes visible again soon: another reader of the queue may want it.
    GivenBack,
    /// It reappears when its visibility timeout is over.
    LeftToReappear,
}
