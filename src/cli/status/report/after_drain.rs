//! The text of `status NODE` about a Node whose drain is over.

use crate::{
    domain::Moment,
    record::{AwaitedTermination, Record},
};

/// What becomes of a Node after its drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterDrain {
    /// The leader taints or deletes it once EC2 shows its instance as terminated.
    Awaited,
    /// The same, but the leader has stopped asking EC2.
    GivenUp,
    /// It stays cordoned.
    Stays,
    /// It is no longer cordoned by Sundown.
    Serves,
}

impl AfterDrain {
    /// `awaited`: the leader waits for the end of the instance.
    pub(super) fn of(
        awaited: Option<&AwaitedTermination>,
        has_our_changes: bool,
        now: Moment,
    ) -> Self {
        match awaited {
            Some(awaited) if awaited.is_given_up(now, true) => Self::GivenUp,
            Some(_) => Self::Awaited,
            None if has_our_changes => Self::Stays,
            None => Self::Serves,
        }
    }
}

/// The end of the drain in a sentence or two.
pub(super) fn over(record: &Record, next: AfterDrain) -> String {
    let Some(released) = record.released() else { return "Its drain is over.".to_owned() };
    let rest = match next {
        _ if released.abandoned => {
            " Pods were left at the deadline, and its hook was completed with ABANDON: the group \
             retains its instance, which costs money until somebody terminates it."
        }
        AfterDrain::Awaited => {
            " The leader waits until EC2 shows its instance as terminated and the Node is not \
             Ready. Then it taints or deletes the Node (--out-of-service-taint, --delete-node)."
        }
        AfterDrain::GivenUp => {
            " The leader waited for an hour to taint or delete the Node, and no longer does: the \
             Event NodeKept says why. Once its instance has ended, delete the Node by hand."
        }
        AfterDrain::Stays => " It stays cordoned until its instance goes.",
        AfterDrain::Serves => "",
    };
    format!("Its drain ended at {:.0} ({}).{rest}", released.at, released.outcome)
}
