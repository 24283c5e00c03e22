//! With which result Sundown completes the terminate hooks of a drain that has ended.
//!
//! ABANDON is right only where the group's lifecycle policy retains an instance whose terminate
//! hook was abandoned (`RetentionTriggers.TerminateHookAbandon` is `retain`). Everywhere else it
//! would end the instance as well, and cut other hooks short. The first row that applies decides:
//!
//! | `--hook-result-on-failure` | the drain | the action | the group | result |
//! | --- | --- | --- | --- | --- |
//! | `continue` | any | any | not asked | CONTINUE |
//! | `abandon` | has not failed | any | not asked | CONTINUE |
//! | `abandon` | failed, and another interruption ends the instance anyway | any | not asked | CONTINUE |
//! | `abandon` | failed | replaces the root volume: no termination | not asked | CONTINUE |
//! | `abandon` | failed | a termination | retains, and the instance has ended | CONTINUE |
//! | `abandon` | failed | a termination | retains | ABANDON |
//! | `abandon` | failed | a termination | does not retain, or is not known | CONTINUE |
//!
//! A drain has failed if pods were left at its deadline, or were never listed
//! ([`crate::drain::Outcome::has_failed`]).

use crate::domain::{HookResult, InterruptionFacts, Kind, LifecycleAction};

/// What a group does with an instance whose terminate hook is abandoned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbandonPolicy {
    /// Its lifecycle policy retains the instance (`Terminating:Retained`).
    Retain,
    /// The same, but EC2 shows that the instance has stopped or is terminated: nothing runs on it.
    RetainEnded,
    /// It terminates the instance, or does not exist.
    Terminate,
    /// AWS has not answered, or denies the question.
    Unknown,
}

/// What decides the results of the lifecycle actions of a drain that has ended.
#[derive(Debug, Clone, Copy)]
pub struct EndedDrainFacts<'a> {
    /// `--hook-result-on-failure`.
    pub on_failure: HookResult,
    /// [`crate::drain::Outcome::has_failed`].
    pub has_failed: bool,
    /// The interruptions of its record that are not disproved.
    pub interruptions: &'a [InterruptionFacts],
}

impl EndedDrainFacts<'_> {
    /// Whether the result depends on the policy of the action's group. `false`: it is CONTINUE.
    #[must_use]
    pub fn depends_on_group(&self, action: &LifecycleAction) -> bool {
        let is_termination = |facts: &InterruptionFacts| {
            facts.hook.as_ref().is_some_and(|hook| hook.key == action.key)
                && facts.kind == Some(Kind::TerminateHook)
        };
        self.on_failure == HookResult::Abandon
            && self.has_failed
            && !self.interruptions.iter().any(InterruptionFacts::is_urgent)
            && self.interruptions.iter().any(is_termination)
    }
}

impl AbandonPolicy {
    /// The result for an action that depends on this policy.
    #[must_use]
    pub const fn result(self) -> HookResult {
        match self {
            Self::Retain => HookResult::Abandon,
            Self::RetainEnded | Self::Terminate | Self::Unknown => HookResult::Continue,
        }
    }
}
