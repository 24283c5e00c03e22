//! Asks AWS whether a lifecycle hook is ours, and warns if the answer is a guess.

use tracing::{debug, warn};

use super::{context::Term, hooks};
use crate::{
    cluster::{About, EventNote, EventReason, Severity},
    domain::{
        Cause, GroupName, HookAction, HookName, Interruption, LifecycleAction, Node, Transition,
        seconds,
    },
    runtime::Backoff,
    triage::{HookClaim, HooksAnswer},
};

/// Asks DescribeLifecycleHooks for the hooks of a group. `None`: no answer now; ask again after a
/// pause.
pub(super) async fn ask(term: &Term, group: &GroupName) -> Option<HooksAnswer> {
    match term.shared.lookups.hooks.of_group(group).await {
        // A group that does not exist has no hooks.
        Ok(hooks) => Some(HooksAnswer::Described(hooks.unwrap_or_default())),
        Err(error) if error.is_forbidden() => Some(HooksAnswer::Denied),
        Err(error) => {
            debug!(group = %group, %error, "The hooks of the group are not described yet.");
            None
        }
    }
}

/// Decides whether a terminate action is ours if it was accepted before AWS described the hooks of
/// its group, or while AWS denied that. Waits for AWS's answer as long as necessary: heartbeats
/// keep the action alive meanwhile.
pub(super) async fn is_ours(term: &Term, action: &LifecycleAction) -> bool {
    let (group, hook) = (&action.key.group, &action.key.hook);
    let mut backoff = Backoff::up_to(seconds(20));
    loop {
        let answer = ask(term, group).await;
        let before = term.shared.lookups.hooks.before(group).map(HooksAnswer::Described);
        match term.shared.policy.hooks.claim_after(
            hook,
            Transition::Terminating,
            answer.as_ref(),
            before.as_ref(),
        ) {
            HookClaim::Ours => return true,
            // If this leader accepted the interruption, it logged this then.
            HookClaim::Unchecked => {
                if term.is_first_report(&unchecked(group)) {
                    warn!(
                        group = %group, hook = %hook, instance = %action.key.instance, "{UNCHECKED}"
                    );
                }
                return true;
            }
            HookClaim::Foreign => {
                hooks::report_of_others(group, hook, &action.key.instance);
                return false;
            }
            HookClaim::Undecided => tokio::time::sleep(backoff.pause(&term.shared.random)).await,
        }
    }
}

const UNCHECKED: &str = "DescribeLifecycleHooks is denied, so Sundown cannot see whether this \
    hook is another party's. Sundown completes it after the drain, unless AWS shows by then that \
    it is another party's. Allow autoscaling:DescribeLifecycleHooks in the role's policy, or name \
    your hooks with --lifecycle-hook.";

/// The key by which [`UNCHECKED`] is logged once for each group and term.
fn unchecked(group: &GroupName) -> String {
    format!("hooks of {group} are not checked")
}

/// Warns, once for each group and term, if Sundown only guesses that a hook is ours.
pub(super) fn warn_of_guess(
    term: &Term,
    interruption: &Interruption,
    hooks: Option<&HooksAnswer>,
    node: Option<&Node>,
) {
    let Some(HookAction { group, hook, .. }) = interruption.hook() else { return };
    let transition = if matches!(interruption.cause, Cause::Launch(_)) {
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
    let claim = term.shared.policy.hooks.claim(hook, transition, hooks);
    if claim == HookClaim::Unchecked && term.is_first_report(&unchecked(group)) {
        warn!(group = %group, hook = %hook, "{UNCHECKED}");
        note(EventReason::HooksNotChecked, format!("Group {group}, hook {hook}: {UNCHECKED}"));
    }
    let Some(HooksAnswer::Described(all)) = hooks else { return };
    let guessed = term.shared.policy.hooks.guessed(all, transition);
    if !guessed.is_empty()
        && term.is_first_report(&format!("{} hooks of {group} are guessed", transition.word()))
    {
        let hooks: Vec<&str> = guessed.iter().map(HookName::as_str).collect();
        let names = hooks.join(", ");
        let what = transition.word();
        warn!(group = %group, ?hooks, "Sundown completes several {what} hooks of one group, \
            because none of them starts with sundown. If another tool answers one of them, Sundown \
            may complete it before that tool has finished. Name yours with --lifecycle-hook, or \
            add one with `sundown enroll`.");
        note(
            EventReason::SeveralHooks,
            format!(
                "Sundown completes {} {what} hooks of group {group}: {names}. If another tool \
                 answers one of them, Sundown may complete it before that tool has finished. Name \
                 yours with --lifecycle-hook, or add one with `sundown enroll`.",
                guessed.len()
            ),
        );
    }
}
