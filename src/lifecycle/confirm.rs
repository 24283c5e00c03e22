//! Whether an action that only a record names may be completed.
//!
//! A kubelet can write the annotations of its own Node, so a record can name any hook. AWS is asked
//! first whether the instance waits. The first row that applies decides:
//!
//! | AWS says | then |
//! | --- | --- |
//! | the instance is in the group, in a wait state of the hook's transition | [`Next::Complete`] |
//! | anything else of the instance | [`Next::Ask`] again in 15 s; a heartbeat tells whether the action is over |
//! | the question is forbidden | [`Next::CompleteUnseen`] |
//! | nothing, for less than 30 s | [`Next::Ask`] again in 2 s |
//! | nothing, for 30 s or more | [`Next::CompleteUnseen`] |

use std::time::Duration;

use crate::domain::{Moment, MomentExt, seconds};

/// For this long no answer is waited for.
const NO_ANSWER: Duration = seconds(30);
/// The pause after a question without an answer.
const ASK_SOON: Duration = seconds(2);
/// The pause after the answer that the instance does not wait.
const ASK_LATER: Duration = seconds(15);
/// An answer counts for a completion that is sent within this time.
const GOOD_FOR: Duration = seconds(60);

/// What DescribeAutoScalingGroups said of an instance that a record says waits in a lifecycle hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It is in the group, in a wait state of the hook's transition.
    Waits,
    /// It is not in the group, or in another state.
    WaitsNot,
    /// A policy forbids the question.
    Forbidden,
    /// No answer came.
    Nothing,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Complete the action.
    Complete,
    /// Complete it although AWS could not be asked, and warn.
    CompleteUnseen,
    /// Ask again at this moment.
    Ask(Moment),
}

/// What AWS has said of one such action so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Confirmation {
    /// Since when questions go without an answer.
    unanswered: Option<Moment>,
    /// Until when the action may be completed without another question.
    good_until: Option<Moment>,
}

impl Confirmation {
    /// The action may be completed now.
    #[must_use]
    pub fn is_good(&self, now: Moment) -> bool {
        self.good_until.is_some_and(|until| now < until)
    }

    /// AWS was asked at `asked`, and this is what it said by `now`.
    pub fn heard(&mut self, seen: Seen, asked: Moment, now: Moment) -> Next {
        let unanswered = match seen {
            Seen::Nothing => Some(*self.unanswered.get_or_insert(asked)),
            Seen::Waits | Seen::WaitsNot | Seen::Forbidden => self.unanswered.take().and(None),
        };
        let next = match (seen, unanswered) {
            (Seen::Waits, _) => Next::Complete,
            (Seen::WaitsNot, _) => Next::Ask(now.plus(ASK_LATER)),
            (Seen::Nothing, Some(since)) if now < since.plus(NO_ANSWER) => Next::Ask(now.plus(ASK_SOON)),
            (Seen::Forbidden | Seen::Nothing, _) => Next::CompleteUnseen,
        };
        self.good_until = match next {
            Next::Complete | Next::CompleteUnseen => Some(now.plus(GOOD_FOR)),
            Next::Ask(_) => None,
        };
        next
    }
}
