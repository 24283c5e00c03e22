//! Whether AWS has confirmed the lifecycle actions of a drain, or contradicts them.
//!
//! Whoever may write to the queue can send an event about a lifecycle action that does not exist.
//! So a drain that only lifecycle actions ask for waits for AWS's first answer to a heartbeat. The
//! first row that applies decides ([`verification`]):
//!
//! | what is known | the drain |
//! | --- | --- |
//! | something else asks for it, or AWS accepted a heartbeat for one of its actions | [`Verification::Verified`] |
//! | every action is over, and AWS shows that the instance goes, or did not show the contrary in time | [`Verification::Verified`]: as without this check |
//! | every action is over, and AWS has shown once that the instance stays; for 30 s at most | [`Verification::Contradicted`]: no pod is evicted until AWS is asked again |
//! | no answer yet, for 5 s at most | [`Verification::Awaited`]: no pod is evicted |
//! | no answer, until two thirds of the time to the deadline have passed | [`Verification::Unanswered`]: no pod is forced |
//! | no answer after that | [`Verification::Verified`]: if the action is real, its instance ends soon |
//!
//! "Over": AWS answered "No active Lifecycle Action". [`Contradiction`] then decides from what EC2
//! and the Auto Scaling group answer:
//!
//! | EC2 and the group | next |
//! | --- | --- |
//! | one of them did not answer, for less than a minute | ask again in 5 s |
//! | one of them did not answer, for a minute | [`Finding::Plausible`] |
//! | the instance runs, and is `InService` or `Standby`; for the first time | [`Finding::Suspected`]: ask again in 15 s |
//! | the same, asked 15 s after the first time or later | [`Finding::Contradicted`]: the Node is put back |
//! | anything else: another state, no such group, not in the group | [`Finding::Plausible`] |

use std::time::Duration;

use crate::domain::{InstanceState, Limits, Moment, Verification, seconds};

/// How long the evictions of a drain wait for AWS's first answer.
pub const VERIFIED_WITHIN: Duration = seconds(5);
/// How long they wait, since the drain was taken up, while AWS contradicts what the drain is for.
const HELD_FOR: Duration = seconds(30);
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

/// What [`Contradiction`] has found so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// AWS has shown once that the instance stays.
    Suspected,
    /// AWS has shown it twice.
    Contradicted,
    /// The instance may be about to end.
    Plausible,
}

/// What the verification of a drain depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerificationFacts {
    /// The drain evicts pods, and nothing but lifecycle actions asks for that.
    pub is_needed: bool,
    /// What AWS has answered about the actions, taken together.
    pub seen: ActionSeen,
    /// What is found; `None`: nothing yet.
    pub finding: Option<Finding>,
    /// When this process took the drain up.
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
    let is_plausible = facts.seen == ActionSeen::Over && facts.finding == Some(Finding::Plausible);
    if !facts.is_needed || facts.seen == ActionSeen::Open || is_plausible {
        return (Verification::Verified, None);
    }
    let is_suspected = facts.seen == ActionSeen::Over
        && matches!(facts.finding, Some(Finding::Suspected | Finding::Contradicted));
    let (held_until, awaited_until) =
        (facts.since.plus(HELD_FOR), facts.since.plus(VERIFIED_WITHIN));
    if is_suspected && now < held_until {
        return (Verification::Contradicted, Some(held_until));
    }
    if now < awaited_until {
        return (Verification::Awaited, Some(awaited_until));
    }
    match limits.force_at.map(|force_at| polite_until(limits.accepted, force_at)) {
        Some(until) if now >= until => (Verification::Verified, None),
        until => (Verification::Unanswered, until),
    }
}

/// Two thirds of the time to the deadline. From then on the end of a heartbeat window that AWS has
/// not extended counts as a deadline, too.
fn polite_until(accepted: Moment, force_at: Moment) -> Moment {
    accepted.plus(force_at.since_or_zero(accepted).saturating_mul(2) / 3)
}

/// What EC2 and the Auto Scaling group show about an instance whose lifecycle actions are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// It runs and is in service: nothing ends.
    Stays,
    /// It may be about to end.
    MayEnd,
    /// One of them did not answer.
    Unanswered,
}

impl Look {
    /// `instance`: the state in EC2; an instance that EC2 does not know is terminated. `in_groups`:
    /// its lifecycle state in each group that the actions name (`Some(None)`: the group does not
    /// exist, or the instance is not in it). `None`: no answer.
    #[must_use]
    pub fn of(instance: Option<InstanceState>, in_groups: &[Option<Option<&str>>]) -> Self {
        let stays = |state: Option<&str>| matches!(state, Some("InService" | "Standby"));
        let may_end = instance.is_some_and(|state| state != InstanceState::Running)
            || in_groups.iter().flatten().any(|state| !stays(*state))
            || in_groups.is_empty();
        if may_end {
            Self::MayEnd
        } else if instance.is_none() || in_groups.iter().any(Option::is_none) {
            Self::Unanswered
        } else {
            Self::Stays
        }
    }
}

/// AWS's answers so far about an instance whose lifecycle actions are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Contradiction {
    /// When AWS was first asked.
    asked: Option<Moment>,
    /// When the question was asked that first showed that the instance stays.
    stays: Option<Moment>,
}

impl Contradiction {
    /// Records the answer to a question that was asked at `asked` and answered by `now`. Returns
    /// what is found, and when to ask again; `None`: there is nothing more to ask.
    pub fn looked(
        &mut self,
        look: Look,
        asked: Moment,
        now: Moment,
    ) -> (Option<Finding>, Option<Moment>) {
        let first_asked = *self.asked.get_or_insert(asked);
        let suspected = self.stays.map(|_| Finding::Suspected);
        match look {
            Look::MayEnd => (Some(Finding::Plausible), None),
            Look::Unanswered if now >= first_asked.plus(ASK_FOR) => {
                (Some(Finding::Plausible), None)
            }
            Look::Unanswered => (suspected, Some(now.plus(ASK_SOON))),
            Look::Stays => {
                let again = self.stays.get_or_insert(asked).plus(LOOK_AGAIN);
                if asked >= again {
                    (Some(Finding::Contradicted), None)
                } else {
                    (Some(Finding::Suspected), Some(again.max(now)))
                }
            }
        }
    }
}
