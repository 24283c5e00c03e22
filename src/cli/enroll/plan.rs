//! Decides which hooks to make, change or remove. No I/O.

use std::time::Duration;

use crate::{
    aws::{Group, Hook},
    config::duration_text,
    domain::{HookName, HookResult, Transition, seconds},
    interruption::LAUNCH_ACTION,
    triage::{self, GroupHooks, HookGlobs},
};

/// The hooks that a group should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    /// The prefix of the names of our hooks.
    pub(super) prefix: String,
    /// `true`: also a hook for launches.
    pub(super) launch: bool,
    pub(super) heartbeat_timeout: Duration,
    pub(super) metadata: Option<String>,
}

/// What to do about one hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// It does not exist.
    Add(Hook),
    /// It exists with other settings. `what`: the differences.
    Change { to: Hook, what: String },
    /// It exists with the wanted settings.
    Keep(HookName),
    /// It exists with other settings and is not changed, for this reason.
    Leave(HookName, String),
}

impl Step {
    /// Whether the step changes anything.
    pub(super) const fn is_work(&self) -> bool {
        matches!(self, Self::Add(_) | Self::Change { .. })
    }

    /// The wanted hook. `None`: the step changes nothing.
    pub(super) const fn wanted(&self) -> Option<&Hook> {
        match self {
            Self::Add(hook) | Self::Change { to: hook, .. } => Some(hook),
            Self::Keep(_) | Self::Leave(..) => None,
        }
    }

    /// The name of the hook.
    pub(super) const fn hook(&self) -> &HookName {
        match self {
            Self::Add(hook) | Self::Change { to: hook, .. } => &hook.hook,
            Self::Keep(name) | Self::Leave(name, _) => name,
        }
    }

    /// The step's name in JSON.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Add(_) => "add",
            Self::Change { .. } => "change",
            Self::Keep(_) => "keep",
            Self::Leave(..) => "leave",
        }
    }

    pub(super) fn words(&self) -> String {
        match self {
            Self::Add(hook) => format!(
                "add {} ({}, heartbeat {}, then {})",
                hook.hook,
                hook.transition.word(),
                duration_text(hook.heartbeat_timeout),
                hook.default_result.as_str()
            ),
            Self::Change { to, what } => format!("change {}: {what}", to.hook),
            Self::Keep(name) => format!("{name} is there"),
            Self::Leave(name, why) => format!("{name} is left as it is: {why}"),
        }
    }
}

/// Whether a hook of this name is ours. With the default prefix, the service's default rule decides
/// (`triage/hook_claim.rs`). With another prefix, only names count that `enroll` could have given:
/// `drain` and `drain-…`, but not `drainage`.
pub(super) fn is_ours(prefix: &str, name: &HookName) -> bool {
    let rest = name.as_str().strip_prefix(prefix);
    rest.is_some_and(|rest| {
        prefix == triage::OUR_PREFIX || rest.is_empty() || rest.starts_with('-')
    })
}

/// The steps for a group with these hooks.
pub(super) fn plan(wish: &Wish, hooks: &[Hook]) -> Vec<Step> {
    let transitions = [Some(Transition::Terminating), wish.launch.then_some(Transition::Launching)];
    transitions.into_iter().flatten().map(|transition| step(wish, transition, hooks)).collect()
}

fn step(wish: &Wish, transition: Transition, hooks: &[Hook]) -> Step {
    let there = hooks.iter().find(|h| h.transition == transition && is_ours(&wish.prefix, &h.hook));
    let Some(there) = there else {
        return Step::Add(Hook {
            hook: format!("{}-{}", wish.prefix, transition.word()).into(),
            transition,
            heartbeat_timeout: wish.heartbeat_timeout,
            global_timeout: (wish.heartbeat_timeout * 100).min(seconds(48 * 3600)),
            // Also for launches: with ABANDON, AWS terminates every new instance if nobody answers
            // the hook.
            default_result: HookResult::Continue,
            metadata: wish.metadata.clone(),
            target: None,
        });
    };
    let metadata = wish.metadata.clone().or_else(|| there.metadata.clone());
    let to = Hook {
        heartbeat_timeout: wish.heartbeat_timeout,
        default_result: HookResult::Continue,
        metadata,
        ..there.clone()
    };
    let what = differences(there, &to);
    if what.is_empty() {
        return Step::Keep(there.hook.clone());
    }
    if let Some(target) = &there.target {
        let why = format!(
            "it notifies {target} itself, and a change could end that; change it by hand: {what}"
        );
        return Step::Leave(there.hook.clone(), why);
    }
    Step::Change { to, what }
}

fn differences(from: &Hook, to: &Hook) -> String {
    let mut all = Vec::new();
    if from.heartbeat_timeout != to.heartbeat_timeout {
        all.push(format!(
            "heartbeat {} to {}",
            duration_text(from.heartbeat_timeout),
            duration_text(to.heartbeat_timeout)
        ));
    }
    if from.default_result != to.default_result {
        all.push(format!(
            "default result {} to {}",
            from.default_result.as_str(),
            to.default_result.as_str()
        ));
    }
    if from.metadata != to.metadata {
        all.push("metadata".to_owned());
    }
    all.join(", ")
}

/// Remarks about a group after these steps: about its other hooks, and about the rule that a new
/// launch hook needs. They assume the default of `--lifecycle-hook`, because the service's settings
/// are not known here.
pub(super) fn remarks(prefix: &str, steps: &[Step], hooks: &[Hook]) -> Vec<String> {
    let globs = HookGlobs::default();
    let later = steps.iter().filter_map(Step::wanted);
    let all: GroupHooks =
        hooks.iter().chain(later).map(|h| (h.hook.clone(), h.transition)).collect();
    let is_enrolled = |name: &HookName| steps.iter().any(|step| step.hook() == name);
    let mut remarks = Vec::new();
    for transition in [Transition::Launching, Transition::Terminating] {
        let kind = transition.word();
        let left = globs.left_alone(&all, transition);
        for name in left.iter().filter(|name| is_enrolled(name)) {
            let ours = globs.completed(&all, transition);
            let ours = ours.iter().map(HookName::as_str).collect::<Vec<_>>().join(", ");
            let glob =
                if name.as_str() == prefix { prefix.to_owned() } else { format!("{prefix}-*") };
            remarks.push(format!(
                "without --lifecycle-hook Sundown leaves the {kind} hook {name} alone, because \
                 the group also has {ours}. Run Sundown with --lifecycle-hook {glob}, and remove \
                 {ours}, which it then leaves alone"
            ));
        }
        for hook in hooks.iter().filter(|h| left.contains(&h.hook) && !is_enrolled(&h.hook)) {
            remarks.push(format!(
                "Sundown leaves the {kind} hook {} to whoever made it. If nobody answers it \
                 (aws-node-termination-handler is gone), instances wait in it for {}: delete it \
                 then",
                hook.hook,
                duration_text(hook.heartbeat_timeout)
            ));
        }
        let guessed = globs.guessed(&all, transition);
        if !guessed.is_empty() {
            let names = guessed.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            remarks.push(format!(
                "without --lifecycle-hook Sundown completes all of these {kind} hooks: {names}. \
                 Name yours in --lifecycle-hook if another tool answers one of them"
            ));
        }
    }
    remarks.extend(steps.iter().filter_map(launch_rule));
    remarks
}

/// The rule that a new launch hook needs. Only for a new one: `enroll` does not read rules, and a run
/// that changes nothing must not warn each time. `sundown check` finds out whether the rule exists.
fn launch_rule(step: &Step) -> Option<String> {
    let Step::Add(hook) = step else { return None };
    (hook.transition == Transition::Launching).then(|| {
        format!(
            "{} needs an EventBridge rule that sends `{LAUNCH_ACTION}` to Sundown's queue \
             (docs/commands.md, \"sundown enroll\", has the command). Without the rule, each new \
             instance waits until the sweep finds it, or for {} if there is no sweep or it does not \
             answer this hook (it answers hooks that --lifecycle-hook names, and hooks whose names \
             start with sundown)",
            hook.hook,
            duration_text(hook.heartbeat_timeout)
        )
    })
}

/// A hook of ours to remove, and the instances whose wait AWS would then end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Removal {
    pub(super) hook: HookName,
    pub(super) transition: Transition,
    pub(super) waiting: Vec<String>,
}

/// The hooks of a group to remove. A waiting instance may wait in another hook, because AWS does
/// not report in which one it waits.
pub(super) fn removals(prefix: &str, group: &Group, hooks: &[Hook]) -> Vec<Removal> {
    let ours = hooks.iter().filter(|h| is_ours(prefix, &h.hook));
    ours.map(|h| Removal {
        hook: h.hook.clone(),
        transition: h.transition,
        waiting: group.waiting(h.transition).into_iter().map(str::to_owned).collect(),
    })
    .collect()
}

/// What AWS does to this number of instances whose hook is deleted while they wait.
pub(super) const fn consequence(transition: Transition, instances: usize) -> &'static str {
    match (transition, instances) {
        (Transition::Terminating, 1) => "AWS terminates it at once, drained or not",
        (Transition::Terminating, _) => "AWS terminates them at once, drained or not",
        (Transition::Launching, 1) => "AWS abandons it: it is terminated before it ever served",
        (Transition::Launching, _) => {
            "AWS abandons them: they are terminated before they ever served"
        }
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "what is not there fails the test")]
mod tests;
