//! Compares groups and their hooks with the settings. No I/O.

use std::time::Duration;

use super::{
    finding::Finding,
    results::{answered_twice, function, on_failed_drain, retained},
};
use crate::{
    aws::{AwsError, Group, Hook, Outcome},
    config::duration_text,
    domain::{
        AllowedSettings, DrainSettings, GroupName, HookName, HookResult, SettingProblem,
        SettingSource, Transition, in_force, seconds,
    },
    triage::{GroupHooks, HookGlobs},
};

/// A shorter HeartbeatTimeout of a terminate hook could run out while heartbeats fail a few times.
const MIN_TERMINATE_HEARTBEAT: Duration = seconds(60);
/// A launch hook needs more: after the leader crashes, the next leader receives the message within a
/// minute.
const MIN_LAUNCH_HEARTBEAT: Duration = seconds(180);
/// A drain ends this long before AWS's own limit (`lifecycle/limits.rs`).
const RESERVE: Duration = seconds(60);

/// The hooks of a group that Sundown answers.
pub(super) fn ours<'a>(hooks: &'a [Hook], globs: &HookGlobs) -> Vec<&'a Hook> {
    let all = by_name(hooks);
    hooks.iter().filter(|h| globs.completed(&all, h.transition).contains(&h.hook)).collect()
}

/// The launch hooks of a group that Sundown answers for certain, so that the rule of their events
/// must exist. By default Sundown also answers a hook of any other name, but only if somebody
/// forwards its events ([`HookGlobs::swept`]): the hook may be another tool's, and then its rule
/// must not exist. `is_tagged`: the group has a tag of the cluster.
pub(super) fn launch_hooks(
    hooks: &[Hook],
    globs: &HookGlobs,
    is_tagged: bool,
) -> impl Iterator<Item = HookName> {
    let swept = globs.swept(&by_name(hooks), Transition::Launching);
    swept.into_iter().filter(move |hook| is_tagged || globs.names(hook))
}

fn by_name(hooks: &[Hook]) -> GroupHooks {
    hooks.iter().map(|h| (h.hook.clone(), h.transition)).collect()
}

/// Judges the hooks of a group.
pub(super) fn judge(
    group: &Group,
    hooks: &[Hook],
    globs: &HookGlobs,
    drain_timeout: Option<Duration>,
    allowed: &AllowedSettings,
    on_failure: HookResult,
) -> Vec<Finding> {
    let name = group.group.as_str();
    let mut found = Vec::new();
    let ours = ours(hooks, globs);
    if !ours.iter().any(|h| h.transition == Transition::Terminating) {
        let message = "it has no terminate hook of ours: its instances go on a scale-in before \
            their nodes are drained";
        found.push(
            Finding::no(
                "hook",
                name,
                message,
                "sundown enroll, or the hook of the Terraform module",
            )
            .advice(),
        );
    }
    let retains = on_failure == HookResult::Abandon && group.retains_abandoned;
    for hook in &ours {
        let (settings, of_settings) = settings(name, hook, allowed);
        found.extend(timing(name, hook, settings.drain_timeout.or(drain_timeout), retains));
        found.extend(of_settings);
        found.extend(answered_twice(name, hook));
    }
    found.extend(on_failed_drain(group, &ours, on_failure));
    found.extend(retained(group));
    let all = by_name(hooks);
    for transition in [Transition::Launching, Transition::Terminating] {
        let left = globs.left_alone(&all, transition);
        found.extend(
            hooks.iter().filter(|h| left.contains(&h.hook)).map(|h| unanswered(name, h, &ours)),
        );
        found.extend(guessed(name, &globs.guessed(&all, transition), transition));
    }
    found
}

/// A hook that Sundown does not answer. If no other program does, instances wait in it until it
/// times out.
fn unanswered(group: &str, hook: &Hook, ours: &[&Hook]) -> Finding {
    let (kind, wait) = (hook.transition.word(), duration_text(hook.heartbeat_timeout));
    if let Some(function) = function(hook) {
        let message = format!(
            "a Lambda function ({function}) gets the notifications of the {kind} hook {}: it is \
             taken for the one that completes it, and Sundown leaves it alone",
            hook.hook
        );
        return Finding::yes("hook.others", group, message);
    }
    let beside = ours.iter().find(|o| o.transition == hook.transition);
    let why = beside.map_or_else(
        || "--lifecycle-hook does not name it".to_owned(),
        |o| format!("{} is beside it", o.hook),
    );
    let message = format!(
        "Sundown does not answer the {kind} hook {}, because {why}: where nobody else answers it, \
         instances wait in it for {wait}",
        hook.hook
    );
    let remedy = format!(
        "if it was made for aws-node-termination-handler, delete it when that is gone: aws \
         autoscaling delete-lifecycle-hook --auto-scaling-group-name {group} --lifecycle-hook-name \
         {}. If its owner answers it, do nothing",
        hook.hook
    );
    Finding::cannot_tell("hook.others", group, message, remedy).advice()
}

/// Several hooks that Sundown completes although no setting claims them.
fn guessed(group: &str, hooks: &[HookName], transition: Transition) -> Option<Finding> {
    let names = hooks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let message = format!(
        "Sundown completes all {} {} hooks ({names}): one that another tool answers is cut short",
        hooks.len(),
        transition.word()
    );
    let remedy = "sundown enroll adds a hook of Sundown's own, and the others are left alone; or \
        name yours with --lifecycle-hook";
    (!hooks.is_empty()).then(|| Finding::no("hook.others", group, message, remedy).advice())
}

/// Judges the settings in the NotificationMetadata of a terminate hook, and returns those that are
/// used.
fn settings(group: &str, hook: &Hook, allowed: &AllowedSettings) -> (DrainSettings, Vec<Finding>) {
    const POINT: &str = "hook.settings";
    let about = format!("{group}/{}", hook.hook);
    let metadata = hook.metadata.as_deref().filter(|_| hook.transition == Transition::Terminating);
    let (given, mut problems) = metadata.map(DrainSettings::of_metadata).unwrap_or_default();
    let (used, refused) = given.allowed(SettingSource::Hook, allowed);
    problems.extend(refused);
    let remedy = format!(
        "correct it: aws autoscaling put-lifecycle-hook --auto-scaling-group-name {group} \
         --lifecycle-hook-name {} --notification-metadata …. Until then, drains go on without it",
        hook.hook
    );
    let bad =
        |problem: SettingProblem| Finding::no(POINT, &about, problem.text, remedy.clone()).advice();
    let mut found: Vec<Finding> = problems.into_iter().map(bad).collect();
    let texts: Vec<String> =
        in_force(&DrainSettings::NONE, &used).iter().map(ToString::to_string).collect();
    if found.is_empty() && !texts.is_empty() {
        found.push(Finding::yes(POINT, about, texts.join(", ")));
    }
    (used, found)
}

/// `retains`: failed drains are to end with a retained instance, so ABANDON is a good default.
fn timing(
    group: &str,
    hook: &Hook,
    drain_timeout: Option<Duration>,
    retains: bool,
) -> Vec<Finding> {
    let about = format!("{group}/{}", hook.hook);
    let (heartbeat, global) = (hook.heartbeat_timeout, hook.global_timeout);
    let mut found = Vec::new();
    let least = match hook.transition {
        Transition::Terminating => MIN_TERMINATE_HEARTBEAT,
        Transition::Launching => MIN_LAUNCH_HEARTBEAT,
    };
    if heartbeat < least {
        let message = format!(
            "its HeartbeatTimeout is {}, less than {}: the hook can time out if Sundown cannot reach \
             AWS for a short time, or if the leader crashes",
            duration_text(heartbeat),
            duration_text(least)
        );
        found.push(
            Finding::no(
                "hook.timeout",
                &about,
                message,
                "set it to 300 s; Sundown keeps it open for as long as the drain takes",
            )
            .advice(),
        );
    }
    match drain_timeout {
        Some(timeout)
            if hook.transition == Transition::Terminating && timeout + RESERVE > global =>
        {
            let message = format!(
                "AWS ends it after {} in all, before the drain timeout of {}",
                duration_text(global),
                duration_text(timeout)
            );
            found.push(
                Finding::no(
                    "hook.timeout",
                    &about,
                    message,
                    "give it a longer HeartbeatTimeout (AWS allows 100 times that, 48 h at most)",
                )
                .advice(),
            );
        }
        _ => {}
    }
    if hook.transition == Transition::Launching && hook.default_result == HookResult::Abandon {
        let message = "its default result is ABANDON: a new instance that nobody answers for in \
            time is terminated, and the next one too";
        found.push(
            Finding::no("hook.default", &about, message, "set its default result to CONTINUE")
                .advice(),
        );
    }
    if hook.transition == Transition::Terminating
        && hook.default_result == HookResult::Abandon
        && !retains
    {
        let message = "its default result is ABANDON: where it runs out, other hooks are cut \
            short, and a group that retains abandoned instances keeps them, and their bill";
        found.push(
            Finding::no("hook.default", &about, message, "set its default result to CONTINUE")
                .advice(),
        );
    }
    if found.is_empty() {
        let message = format!(
            "{} hook, heartbeat {}, {} in all, then {}",
            hook.transition.word(),
            duration_text(heartbeat),
            duration_text(global),
            hook.default_result.as_str()
        );
        found.push(Finding::yes("hook", about, message));
    }
    found
}

/// Judges a call for a lifecycle action that does not exist: whether the role may make this call at
/// all.
pub(super) fn probe(point: &'static str, about: &str, answer: &Result<(), AwsError>) -> Finding {
    match answer {
        // The token was made up, so no action was open even if AWS accepts the call.
        Ok(()) => Finding::yes(point, about, "allowed"),
        Err(error) if error.is_no_active_action() => {
            Finding::yes(point, about, "allowed (AWS answers that there is no such action)")
        }
        Err(error) if error.outcome() == Outcome::Rejected => Finding::cannot_tell(
            point,
            about,
            error.to_string(),
            "report it as a bug: AWS's answer is not the one that this check knows",
        ),
        Err(error) => Finding::of_error(point, about, error),
    }
}

/// Finds policies of simple scaling, which do nothing while an instance waits in a hook.
pub(super) fn scaling(
    groups: &[Group],
    simple: &Result<Vec<(GroupName, String)>, AwsError>,
) -> Vec<Finding> {
    const POINT: &str = "group.scaling";
    let simple = match simple {
        Ok(simple) => simple,
        Err(error) => return vec![Finding::of_look_up(POINT, "", error)],
    };
    let of_ours = simple.iter().filter(|(group, _)| groups.iter().any(|g| g.group == *group));
    let found: Vec<_> = of_ours
        .map(|(group, policy)| {
            let message = format!(
                "policy {policy} is of simple scaling: it does not scale while an instance waits \
                 in a hook"
            );
            Finding::no(POINT, group.as_str(), message, "use step scaling or target tracking")
                .advice()
        })
        .collect();
    if found.is_empty() {
        vec![Finding::yes(POINT, "", "no group has a policy of simple scaling")]
    } else {
        found
    }
}

#[cfg(test)]
mod tests;
