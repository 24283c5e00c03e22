//! Which lifecycle hooks of a group Sundown answers.
//!
//! The first row that applies decides, separately for launching and terminating hooks:
//!
//! | `--lifecycle-hook` | the hook | the group's hooks | claim |
//! | --- | --- | --- | --- |
//! | given | a glob matches it | any | [`HookClaim::Ours`] |
//! | given | no glob matches it | any | [`HookClaim::Foreign`] |
//! | default | one of Amazon EKS | any | [`HookClaim::Foreign`] |
//! | default | its name starts with `sundown` | any | [`HookClaim::Ours`] |
//! | default | any other | not described yet | [`HookClaim::Undecided`] |
//! | default | any other | the call is denied, and the hook was another party's before | [`HookClaim::Undecided`] |
//! | default | any other | the call is denied | [`HookClaim::Unchecked`] |
//! | default | any other | one of the same transition starts with `sundown` | [`HookClaim::Foreign`] |
//! | default | any other | none of the same transition does | [`HookClaim::Ours`] |

use std::collections::BTreeMap;

use super::HookGlobs;
use crate::domain::{HookName, Transition};

/// Without `--lifecycle-hook`, Sundown answers hooks whose names start with this, and leaves other
/// hooks of the same group alone.
pub const OUR_PREFIX: &str = "sundown";

/// All hooks of one Auto Scaling group, each with its transition.
pub type GroupHooks = BTreeMap<HookName, Transition>;

/// An answer of DescribeLifecycleHooks about all hooks of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HooksAnswer {
    /// The hooks; empty also if the group does not exist.
    Described(GroupHooks),
    /// An IAM policy forbids the call.
    Denied,
}

/// Whether Sundown answers a lifecycle hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookClaim {
    /// Sundown keeps it alive and completes it.
    Ours,
    /// The same, although DescribeLifecycleHooks is denied: the hook may be another party's.
    Unchecked,
    /// Another party answers it.
    Foreign,
    /// AWS has not described the group's hooks yet, or not since it described this one as another
    /// party's. Sundown completes nothing. [`super::heartbeats_wait`] decides whether it already
    /// sends heartbeats.
    Undecided,
}

impl HookClaim {
    /// AWS has not shown who answers the hook: that must be found out before it is completed.
    #[must_use]
    pub const fn is_unconfirmed(self) -> bool {
        matches!(self, Self::Undecided | Self::Unchecked)
    }
}

impl HookGlobs {
    /// Whether Sundown answers `hook`. `group`: AWS's answer about the hooks of its group; `None`
    /// without an answer.
    #[must_use]
    pub fn claim(
        &self,
        hook: &HookName,
        transition: Transition,
        group: Option<&HooksAnswer>,
    ) -> HookClaim {
        if !self.cover(hook) {
            return HookClaim::Foreign;
        }
        if !self.is_default() || is_named_ours(hook) {
            return HookClaim::Ours;
        }
        match group {
            None => HookClaim::Undecided,
            Some(HooksAnswer::Denied) => HookClaim::Unchecked,
            Some(HooksAnswer::Described(all)) if has_ours(all, transition) => HookClaim::Foreign,
            Some(HooksAnswer::Described(_)) => HookClaim::Ours,
        }
    }

    /// The same with an earlier answer, at most 10 minutes old (`before`): a denial does not change
    /// that another party answers a hook.
    #[must_use]
    pub fn claim_after(
        &self,
        hook: &HookName,
        transition: Transition,
        group: Option<&HooksAnswer>,
        before: Option<&HooksAnswer>,
    ) -> HookClaim {
        match self.claim(hook, transition, group) {
            HookClaim::Unchecked if self.claim(hook, transition, before) == HookClaim::Foreign => {
                HookClaim::Undecided
            }
            claim => claim,
        }
    }

    /// Whether an accept that was decided with the claim `decided` no longer holds: AWS has shown
    /// since then that another party answers the hook. `last`: AWS's last answer about its group.
    #[must_use]
    pub fn is_disproved(
        &self,
        decided: HookClaim,
        hook: &HookName,
        transition: Transition,
        last: Option<&HooksAnswer>,
    ) -> bool {
        decided.is_unconfirmed() && self.claim(hook, transition, last) == HookClaim::Foreign
    }

    /// Whether AWS's last answer about the group of a hook (`last`) shows that another party answers
    /// the hook.
    #[must_use]
    pub fn is_known_foreign(&self, hook: &HookName, last: Option<&HooksAnswer>) -> bool {
        let Some(HooksAnswer::Described(all)) = last else { return false };
        let transition = all.get(hook);
        transition.is_some_and(|of| self.claim(hook, *of, last) == HookClaim::Foreign)
    }

    /// The hooks of a group that Sundown answers, in the order of their names.
    #[must_use]
    pub fn completed(&self, hooks: &GroupHooks, transition: Transition) -> Vec<HookName> {
        let group = HooksAnswer::Described(hooks.clone());
        let of_transition = hooks.iter().filter(|(_, t)| **t == transition).map(|(hook, _)| hook);
        of_transition
            .filter(|hook| self.claim(hook, transition, Some(&group)) == HookClaim::Ours)
            .cloned()
            .collect()
    }

    /// The hooks of a group that the sweep answers. Of launch hooks only those that
    /// `--lifecycle-hook` names or whose names start with `sundown`: the operator forwards the events
    /// of a launch hook on purpose, and the sweep has none. To answer the launch hook of another
    /// party would put an instance into service that is not set up.
    #[must_use]
    pub fn swept(&self, hooks: &GroupHooks, transition: Transition) -> Vec<HookName> {
        let mut swept = self.completed(hooks, transition);
        let is_named = |hook: &HookName| self.names(hook) || is_named_ours(hook);
        swept.retain(|hook| transition == Transition::Terminating || is_named(hook));
        swept
    }

    /// The hooks of a group that neither Sundown nor Amazon EKS answers. If no other party does,
    /// instances wait in them until they time out.
    #[must_use]
    pub fn left_alone(&self, hooks: &GroupHooks, transition: Transition) -> Vec<HookName> {
        let completed = self.completed(hooks, transition);
        let others = hooks.iter().filter(|(hook, t)| {
            **t == transition && !Self::is_of_eks(hook) && !completed.contains(hook)
        });
        others.map(|(hook, _)| hook.clone()).collect()
    }

    /// The hooks that Sundown answers only because nothing shows that another party does: there are
    /// several, no `--lifecycle-hook` names them, and no name starts with `sundown`. Empty
    /// otherwise.
    #[must_use]
    pub fn guessed(&self, hooks: &GroupHooks, transition: Transition) -> Vec<HookName> {
        let mut completed = self.completed(hooks, transition);
        if !self.is_default() || completed.len() < 2 || has_ours(hooks, transition) {
            completed.clear();
        }
        completed
    }
}

fn is_named_ours(hook: &HookName) -> bool {
    hook.as_str().starts_with(OUR_PREFIX)
}

fn has_ours(hooks: &GroupHooks, transition: Transition) -> bool {
    hooks.iter().any(|(hook, t)| *t == transition && is_named_ours(hook))
}
