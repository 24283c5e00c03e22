//! Whether the instance of a node whose kubelet is silent ends.
//!
//! | EC2's answer | found |
//! | --- | --- |
//! | the instance stops or shuts down | [`EndFound::Ends`] |
//! | it is stopped or terminated | [`EndFound::HasEnded`] |
//! | it is not listed, and the answer before did not list it either | [`EndFound::HasEnded`]: one answer alone may leave out an instance that runs |
//! | anything else, or the question failed | [`EndFound::AskAgain`]: after 5 s in the first minute, then after 30 s |
//!
//! A question that failed is no answer: it changes nothing about the answer before.

use std::time::Duration;

use crate::domain::{InstanceState, seconds};

/// How many questions are asked in quick succession: for a minute.
const QUICK: u32 = 12;

/// EC2's answer to one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndAnswer {
    /// EC2 lists the instance in this state.
    Shows(InstanceState),
    /// EC2 does not list the instance.
    Missing,
    /// The question failed.
    Failed,
}

/// What follows from an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndFound {
    /// The instance is about to end.
    Ends,
    /// It has ended.
    HasEnded,
    /// Nothing yet: ask again after this pause.
    AskAgain(Duration),
}

/// EC2's answers so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndCheck {
    asked: u32,
    is_missing: bool,
}

impl EndCheck {
    /// Takes in the answer to the next question.
    pub fn record_answer(&mut self, answer: EndAnswer) -> EndFound {
        self.asked = self.asked.saturating_add(1);
        let pause = if self.asked <= QUICK { seconds(5) } else { seconds(30) };
        match answer {
            EndAnswer::Shows(state) if state.is_over() => return EndFound::HasEnded,
            EndAnswer::Shows(state) if state.is_ending() => return EndFound::Ends,
            EndAnswer::Missing if self.is_missing => return EndFound::HasEnded,
            EndAnswer::Missing => self.is_missing = true,
            EndAnswer::Shows(_) => self.is_missing = false,
            EndAnswer::Failed => {}
        }
        EndFound::AskAgain(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_ends_if_ec2_shows_it_ending_or_leaves_it_out_twice_in_a_row() {
        use EndAnswer::{Failed, Missing, Shows};
        use EndFound::{AskAgain, Ends, HasEnded};
        use InstanceState::{Running, ShuttingDown, Stopped, Stopping, Terminated};
        let again = AskAgain(seconds(5));
        for (answers, last) in [
            (&[Shows(Running)][..], again),
            (&[Shows(Stopping)], Ends),
            (&[Shows(ShuttingDown)], Ends),
            (&[Shows(Stopped)], HasEnded),
            (&[Shows(Terminated)], HasEnded),
            (&[Missing], again),
            (&[Missing, Missing], HasEnded),
            (&[Missing, Shows(Running), Missing], again),
            (&[Missing, Failed], again),
            (&[Missing, Failed, Missing], HasEnded),
        ] {
            let mut check = EndCheck::default();
            let found: Vec<_> = answers.iter().map(|answer| check.record_answer(*answer)).collect();
            assert_eq!(found.last(), Some(&last), "{answers:?}");
        }
    }

    #[test]
    fn ec2_is_asked_every_five_seconds_for_a_minute_and_every_thirty_after_that() {
        let mut check = EndCheck::default();
        let mut pause = || check.record_answer(EndAnswer::Failed);
        for _ in 0..QUICK {
            assert_eq!(pause(), EndFound::AskAgain(seconds(5)));
        }
        assert_eq!(pause(), EndFound::AskAgain(seconds(30)));
    }
}
