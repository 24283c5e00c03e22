//! Whether Sundown may complete a lifecycle action that only a record names.
//!
//! A kubelet can write the annotations of its own Node, so a record can name any hook. Sundown
//! therefore asks AWS first whether the instance waits. The first row that applies decides:
//!
//! | AWS's answer | next |
//! | --- | --- |
//! | the instance is in the group or its warm pool, in a wait state of the hook's transition | [`Next::Complete`] |
//! | the instance does not wait; asked after the action's end | [`Next::Over`] |
//! | the instance does not wait; the first time | [`Next::Prove`]: send a heartbeat, which shows whether the action is over, and ask again in 15 s |
//! | the instance does not wait; for less than a minute | [`Next::Ask`] again in 15 s |
//! | the instance does not wait; for a minute | [`Next::Doubt`]: report it, and ask again in 5 min |
//! | the instance does not wait; after that | [`Next::Ask`] again in 5 min |
//! | the question is forbidden, asked after the action's end | [`Next::Over`] |
//! | the question is forbidden | [`Next::CompleteUnconfirmed`] |
//! | no answer, after a reported doubt, asked after the action's end | [`Next::Over`] |
//! | no answer, after a reported doubt | [`Next::Ask`] again in 5 min: AWS's last answer still counts |
//! | no answer, for less than 30 s | [`Next::Ask`] again in 2 s |
//! | no answer, for 30 s or more, asked after the action's end | [`Next::Over`] |
//! | no answer, for 30 s or more | [`Next::CompleteUnconfirmed`] |
//!
//! "The action's end" is the latest time at which AWS can still keep the action open
//! ([`super::HeartbeatSchedule::ends_by`]). After it the action is over, whatever calls returned.

use std::time::Duration;

use crate::domain::{Moment, seconds};

/// After this long without an answer, Sundown stops waiting for one.
const NO_ANSWER: Duration = seconds(30);
/// The pause after a question without an answer.
const ASK_SOON: Duration = seconds(2);
/// The pause after the answer that the instance does not wait.
const ASK_LATER: Duration = seconds(15);
/// For this long after the first answer that the instance does not wait, AWS may be out of date.
/// After that, Sundown reports it.
const DELAY: Duration = seconds(60);
/// The pause after that answer once Sundown has reported it.
const ASK_SELDOM: Duration = Duration::from_mins(5);
/// An answer permits a completion that is sent within this time.
const GOOD_FOR: Duration = seconds(60);

/// The answer of the group and of its warm pool about an instance that, by a record, waits in a
/// lifecycle hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It is in the group or its warm pool, in a wait state of the hook's transition.
    Waiting,
    /// It is in neither, or in another state.
    NotWaiting,
    /// A policy forbids the question.
    Forbidden,
    /// No answer came.
    NoAnswer,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Complete the action.
    Complete,
    /// Complete it although AWS could not be asked, and warn.
    CompleteUnconfirmed,
    /// Ask again at this moment.
    Ask(Moment),
    /// Ask again at this moment, and send a heartbeat now: its answer shows whether the action is
    /// over.
    Prove(Moment),
    /// Ask again at this moment, and report that the record names an action for which the instance
    /// does not wait.
    Doubt(Moment),
    /// The action is over: send no completion.
    Over,
}

/// AWS's answers so far about one action that only a record names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Confirmation {
    /// Since when questions have had no answer; `None`: no question is unanswered.
    unanswered: Option<Moment>,
    /// When AWS first answered that the instance does not wait; `None`: it waits, or no answer yet.
    waits_not: Option<Moment>,
    /// Sundown has reported that the instance does not wait.
    is_doubted: bool,
    /// Until when the action may be completed without another question.
    good_until: Option<Moment>,
}

impl Confirmation {
    /// The action may be completed now.
    #[must_use]
    pub fn is_good(&self, now: Moment) -> bool {
        self.good_until.is_some_and(|until| now < until)
    }

    /// Records the answer that AWS gave by `now` to a question asked at `asked`, and decides what
    /// to do next. `end`: the latest time at which AWS can still keep the action open.
    pub fn heard(&mut self, seen: Seen, asked: Moment, now: Moment, end: Moment) -> Next {
        let is_past_end = asked >= end;
        let next = match seen {
            Seen::Waiting => {
                (self.unanswered, self.waits_not, self.is_doubted) = (None, None, false);
                Next::Complete
            }
            Seen::NotWaiting | Seen::Forbidden if is_past_end => Next::Over,
            Seen::NotWaiting => {
                self.unanswered = None;
                self.does_not_wait(now)
            }
            Seen::Forbidden => {
                self.unanswered = None;
                Next::CompleteUnconfirmed
            }
            Seen::NoAnswer => self.no_answer(asked, now, is_past_end),
        };
        self.good_until = match next {
            Next::Complete | Next::CompleteUnconfirmed => Some(now.plus(GOOD_FOR)),
            Next::Ask(_) | Next::Prove(_) | Next::Doubt(_) | Next::Over => None,
        };
        next
    }

    fn no_answer(&mut self, asked: Moment, now: Moment, is_past_end: bool) -> Next {
        if self.is_doubted {
            return if is_past_end { Next::Over } else { Next::Ask(now.plus(ASK_SELDOM)) };
        }
        let since = *self.unanswered.get_or_insert(asked);
        if now < since.plus(NO_ANSWER) {
            Next::Ask(now.plus(ASK_SOON))
        } else if is_past_end {
            Next::Over
        } else {
            Next::CompleteUnconfirmed
        }
    }

    fn does_not_wait(&mut self, now: Moment) -> Next {
        let Some(since) = self.waits_not else {
            self.waits_not = Some(now);
            return Next::Prove(now.plus(ASK_LATER));
        };
        if self.is_doubted {
            Next::Ask(now.plus(ASK_SELDOM))
        } else if now < since.plus(DELAY) {
            Next::Ask(now.plus(ASK_LATER))
        } else {
            self.is_doubted = true;
            Next::Doubt(now.plus(ASK_SELDOM))
        }
    }
}
