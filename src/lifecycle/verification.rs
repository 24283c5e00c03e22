//! Whether AWS has confirmed the lifecycle actions of a drain, or contradicts them.
//!
//! Whoever may write to the queue can send an event about a lifecycle action that does not exist.
//! So a drain that only lifecycle actions ask for waits for AWS's first answer to a heartbeat. The
//! first row that applies decides ([`verification`]):
//!
//! | what is known | the drain |
//! | --- | --- |
//! | something else asks for it, or AWS accepted a heartbeat for one of its actions | [`Verification::Verified`] |
//! | every action is over, and AWS shows that the instance goes | [`Verification::Verified`]: as without this check |
//! | every action is over, and AWS has shown once that the instance stays; for 30 s at most | [`Verification::Suspected`]: no pod is evicted until AWS is asked again |
//! | two thirds of the time to the deadline have passed | [`Verification::Verified`]: if the action is real, its instance ends soon |
//! | every action is over, and AWS does not show whether the instance stays | [`Verification::Unanswered`]: no pod is forced |
//! | no answer yet, for 5 s at most | [`Verification::AwaitingHeartbeat`]: no pod is evicted |
//! | every action is over, and AWS has not answered yet whether the instance stays; for 30 s at most | [`Verification::AwaitingInstanceState`]: no pod is forced, and the drain of an empty node does not end |
//! | anything else | [`Verification::Unanswered`]: no pod is forced |
//!
//! "Over": AWS answered "No active Lifecycle Action". [`StayCheck`] then decides from what EC2
//! and the Auto Scaling group answer:
//!
//! | EC2 and the group | next |
//! | --- | --- |
//! | one of them did not answer, for less than a minute | ask again in 5 s |
//! | one of them did not answer, for a minute | [`Finding::Unclear`] |
//! | the instance runs, and is `InService` or `Standby`; for the first time | [`Finding::Suspected`]: ask again in 15 s |
//! | the same, asked 15 s after that first answer or later | [`Finding::Contradicted`]: Sundown restores the Node |
//! | EC2 or the group reports another state | [`Finding::MayEnd`] |
//! | the instance runs, and there is no such group, or it is not in the group | [`Finding::Unclear`] |

use std::time::Duration;

use crate::domain::{InstanceState, Limits, Moment, Verification, seconds};

/// How long the evictions of a drain wait for AWS's first answer.
pub const HEARTBEAT_ANSWER_TIMEOUT: Duration = seconds(5);
/// How long, from [`VerificationFacts::since`], a drain whose actions are over waits for EC2 and
/// the group. Until then it does not end as empty, and after a [`Finding::Suspected`] it evicts no
/// pod.
const MAX_HOLD: Duration = seconds(30);
/// The pause between two answers that contradict an event together.
const LOOK_AGAIN: Duration = seconds(15);
/// The pause after a question without an answer.
const ASK_SOON: Duration = seconds(5);
/// How long a question without an answer is repeated.
const ASK_FOR: Duration = seconds(60);

/// What AWS has answered to the heartbeats of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ActionSeen {
    /// Nothing yet.
    #[default]
    Unanswered,
    /// It has accepted one.
    Open,
    /// It has accepted none, and answered that no such action is open.
    Over,
}

impl ActionSeen {
    /// What is known of several actions together: open if one of them is, over if each is.
    #[must_use]
    pub fn of_all(actions: impl IntoIterator<Item = Self>) -> Self {
        let mut actions = actions.into_iter();
        let first = actions.next().unwrap_or_default();
        actions.fold(first, |all, one| match (all, one) {
            (Self::Open, _) | (_, Self::Open) => Self::Open,
            (Self::Over, Self::Over) => Self::Over,
            _ => Self::Unanswered,
        })
    }
}

/// What [`StayCheck`] has found so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// AWS has shown once that the instance stays.
    Suspected,
    /// AWS has shown it twice.
    Contradicted,
    /// AWS has shown that the instance may be about to end.
    MayEnd,
    /// AWS does not show whether the instance stays. An event that names a group that does not
    /// exist gets here, too, so this confirms nothing.
    Unclear,
}

/// What the verification of a drain depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerificationFacts {
    /// The drain cordons its node, and nothing but lifecycle actions asks for that.
    pub is_needed: bool,
    /// What AWS has answered about the actions, taken together.
    pub seen: ActionSeen,
    /// What is found; `None`: nothing yet.
    pub finding: Option<Finding>,
    /// When the drain began to need verification in this process.
    pub since: Moment,
}

/// Whether the drain is verified at `now`, and until when that stays so without another answer.
/// `limits`: its deadline.
#[must_use]
pub fn verification(
    facts: &VerificationFacts,
    limits: &Limits,
    now: Moment,
) -> (Verification, Option<Moment>) {
    let is_over = facts.seen == ActionSeen::Over;
    let finding = facts.finding.filter(|_| is_over);
    if !facts.is_needed || facts.seen == ActionSeen::Open || finding == Some(Finding::MayEnd) {
        return (Verification::Verified, None);
    }
    let (held_until, awaited_until) =
        (facts.since.plus(MAX_HOLD), facts.since.plus(HEARTBEAT_ANSWER_TIMEOUT));
    let is_suspected = matches!(finding, Some(Finding::Suspected | Finding::Contradicted));
    if is_suspected && now < held_until {
        return (Verification::Suspected, Some(held_until));
    }
    let no_force_until = limits.force_at.map(|force_at| no_force_until(limits.accepted, force_at));
    if no_force_until.is_some_and(|until| now >= until) {
        return (Verification::Verified, None);
    }
    let or_no_force_until = |at: Moment| Some(no_force_until.map_or(at, |until| until.min(at)));
    if finding == Some(Finding::Unclear) {
        (Verification::Unanswered, no_force_until)
    } else if now < awaited_until {
        (Verification::AwaitingHeartbeat, or_no_force_until(awaited_until))
    } else if is_over && finding.is_none() && now < held_until {
        (Verification::AwaitingInstanceState, or_no_force_until(held_until))
    } else {
        (Verification::Unanswered, no_force_until)
    }
}

/// Two thirds of the time to the deadline. From then on the end of a heartbeat window that AWS has
/// not extended counts as a deadline, too.
fn no_force_until(accepted: Moment, force_at: Moment) -> Moment {
    accepted.plus(force_at.since_or_zero(accepted).saturating_mul(2) / 3)
}

/// What EC2 and the Auto Scaling group show about an instance whose lifecycle actions are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StayAnswer {
    /// It runs and is in service: nothing ends.
    Stays,
    /// It may be about to end.
    MayEnd,
    /// It runs, and a group that the actions name does not exist or does not have it.
    NotInGroup,
    /// One of them did not answer.
    Unanswered,
}

impl StayAnswer {
    /// `instance`: the state in EC2; an instance that EC2 does not know is terminated. `in_groups`:
    /// its lifecycle state in each group that the actions name (`Some(None)`: the group does not
    /// exist, or the instance is not in it). `None`: no answer.
    #[must_use]
    pub fn of(instance: Option<InstanceState>, in_groups: &[Option<Option<&str>>]) -> Self {
        let stays = |state: &str| matches!(state, "InService" | "Standby");
        let ends = |state: Option<&str>| state.is_some_and(|state| !stays(state));
        let may_end = instance.is_some_and(|state| state != InstanceState::Running)
            || in_groups.iter().flatten().any(|state| ends(*state));
        if may_end {
            Self::MayEnd
        } else if instance.is_none() || in_groups.iter().any(Option::is_none) {
            Self::Unanswered
        } else if in_groups.is_empty() || in_groups.contains(&Some(None)) {
            Self::NotInGroup
        } else {
            Self::Stays
        }
    }
}

/// AWS's answers so far about an instance whose lifecycle actions are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StayCheck {
    /// When AWS was first asked.
    asked: Option<Moment>,
    /// When the answer came that first showed that the instance stays.
    stays: Option<Moment>,
}

impl StayCheck {
    /// Records the answer to a question that was asked at `asked` and answered by `now`. Returns
    /// what is found, and when to ask again; `None`: there is nothing more to ask.
    pub fn record_answer(
        &mut self,
        answer: StayAnswer,
        asked: Moment,
        now: Moment,
    ) -> (Option<Finding>, Option<Moment>) {
        let first_asked = *self.asked.get_or_insert(asked);
        let suspected = self.stays.map(|_| Finding::Suspected);
        match answer {
            StayAnswer::MayEnd => (Some(Finding::MayEnd), None),
            StayAnswer::NotInGroup => (Some(Finding::Unclear), None),
            StayAnswer::Unanswered if now >= first_asked.plus(ASK_FOR) => {
                (Some(Finding::Unclear), None)
            }
            StayAnswer::Unanswered => (suspected, Some(now.plus(ASK_SOON))),
            StayAnswer::Stays => {
                let again = self.stays.get_or_insert(now).plus(LOOK_AGAIN);
                if asked >= again {
                    (Some(Finding::Contradicted), None)
                } else {
                    (Some(Finding::Suspected), Some(again.max(now)))
                }
            }
        }
    }
}
