//! Whether a lifecycle hook is ours: asked of AWS, and reported where the answer rests on a guess.

use tracing::{debug, info, warn};

use super::context::Term;
use crate::{
    cluster::{About, EventNote, EventReason, Severity},
    domain::{
        GroupName, HookAction, HookName, Interruption, LifecycleAction, Node, Transition, What,
        seconds,
    },
    runtime::Backoff,
    triage::{HookClaim, HooksAnswer},
};

/// What DescribeLifecycleHooks says of a group's hooks. `None`: no answer now; ask again after a
/// pause.
pub(super) async fn ask(term: &Term, group: &GroupName) -> Option<HooksAnswer> {
    match term.lookups.hooks.of_group(group).await {
        // Of a group that is gone, no hook is left to be answered by anybody.
        Ok(hooks) => Some(HooksAnswer::Described(hooks.unwrap_or_default())),
        Err(error) if error.is_forbidden() => Some(HooksAnswer::Denied),
        Err(error) => {
            debug!(group = %group, %error, "The hooks of the group are not described yet.");
            None
        }
    }
}

/// Decides the claim of a terminate action that was accepted before AWS had described the hooks of
/// its group, or while it denied that. Waits for the answer of AWS for as long as that takes:
/// heartbeats keep the hook alive meanwhile.
pub(super) async fn is_ours(term: &Term, action: &LifecycleAction) -> bool {
    let (group, hook) = (&action.key.group, &action.key.hook);
    let mut backoff = Backoff::up_to(seconds(20));
    loop {
        let answer = ask(term, group).await;
        let before = term.lookups.hooks.before(group).map(HooksAnswer::Described);
        match term.policy.hooks.claim_after(
            hook,
            Transition::Terminating,
            answer.as_ref(),
            before.as_ref(),
        ) {
            HookClaim::Ours => return true,
            // It was said at the accept if this leader accepted it.
            HookClaim::Unchecked => {
                if term.first_said(&unchecked(group)) {
                    warn!(
                        group = %group, hook = %hook, instance = %action.key.instance, "{UNCHECKED}"
                    );
                }
                return true;
            }
            HookClaim::Foreign => {
                info!(
                    group = %group, hook = %hook, instance = %action.key.instance,
                    "The hook is not ours: the group has one whose name starts with sundown. It \
                     gets no more heartbeats and is not completed.");
                return false;
            }
            HookClaim::Undecided => tokio::time::sleep(backoff.pause(&term.random)).await,
        }
    }
}

const UNCHECKED: &str = "DescribeLifecycleHooks is denied, so Sundown cannot see whether this \
    hook is another party's. It is completed after the drain, unless AWS describes it as another \
    party's before. Allow autoscaling:DescribeLifecycleHooks in the role's policy, or name your \
    hooks with --lifecycle-hook.";

/// Under these words it is said once for each group and term.
fn unchecked(group: &GroupName) -> String {
    format!("hooks of {group} are not checked")
}

/// Warns once for each group and term where a hook is taken for ours on a guess.
pub(super) fn warn_of_guess(
    term: &Term,
    interruption: &Interruption,
    hooks: Option<&HooksAnswer>,
    node: Option<&Node>,
) {
    let Some(HookAction { group, hook, .. }) = interruption.hook() else { return };
    let transition = if matches!(interruption.what, What::Launch(_)) {
        Transition::Launching
    } else {
        Transition::Terminating
    };
    let note = |reason, message: String| {
        if let Some(node) = node {
            term.note(EventNote {
                about: About::Node(node.name.clone()),
                severity: Severity::Warning,
                reason,
                message,
            });
        }
    };
    let claim = term.policy.hooks.claim(hook, transition, hooks);
    if claim == HookClaim::Unchecked && term.first_said(&unchecked(group)) {
        warn!(group = %group, hook = %hook, "{UNCHECKED}");
        note(EventReason::HooksNotChecked, format!("Group {group}, hook {hook}: {UNCHECKED}"));
    }
    let Some(HooksAnswer::Described(all)) = hooks else { return };
    let guessed = term.policy.hooks.guessed(all, transition);
    if !guessed.is_empty()
        && term.first_said(&format!("{} hooks of {group} are guessed", transition.word()))
    {
        let hooks: Vec<&str> = guessed.iter().map(HookName::as_str).collect();
        let names = hooks.join(", ");
        let what = transition.word();
        warn!(group = %group, ?hooks, "Sundown completes several {what} hooks of one group, \
            because none of them starts with sundown. One that another tool answers is cut short. \
            Name yours with --lifecycle-hook, or add one with `sundown enroll`.");
        note(
            EventReason::SeveralHooks,
            format!(
                "Sundown completes {} {what} hooks of group {group}: {names}. One that another \
                 tool answers is cut short. Name yours with --lifecycle-hook, or add one with \
                 `sundown enroll`.",
                guessed.len()
            ),
        );
    }
}
