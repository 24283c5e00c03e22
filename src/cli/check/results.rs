//! Judges with which result the hooks of a group end, and who else may complete them. No I/O.

use super::finding::Finding;
use crate::{
    aws::{Group, Hook},
    cli::words::count,
    domain::{HookResult, Transition},
};

/// The resource part of the ARN of the Lambda function that a hook notifies.
pub(super) fn function(hook: &Hook) -> Option<&str> {
    let mut parts = hook.target.as_deref()?.splitn(6, ':').skip(2);
    (parts.next()? == "lambda").then(|| parts.nth(2)).flatten()
}

/// A hook of ours whose notification goes to a Lambda function, which probably completes it, too.
pub(super) fn answered_twice(group: &str, hook: &Hook) -> Option<Finding> {
    let function = function(hook)?;
    let message = format!(
        "it notifies a Lambda function ({function}), which may complete it before the drain has \
         ended. Its notifications do not come to the queue: Sundown needs the EventBridge rule"
    );
    let remedy = "if the function completes the hook, let it stop, or leave the hook to it: \
        `sundown enroll` adds a hook of Sundown's own";
    let about = format!("{group}/{}", hook.hook);
    Some(Finding::cannot_tell("hook.target", about, message, remedy).advice())
}

/// What becomes of failed drains with `--hook-result-on-failure=abandon`.
pub(super) fn on_failed_drain(
    group: &Group,
    ours: &[&Hook],
    on_failure: HookResult,
) -> Option<Finding> {
    const POINT: &str = "hook.result";
    let has_terminate_hook = ours.iter().any(|h| h.transition == Transition::Terminating);
    if on_failure == HookResult::Continue || !has_terminate_hook {
        return None;
    }
    let name = group.group.as_str();
    if group.retains_abandoned {
        let message = "its lifecycle policy retains instances: Sundown answers ABANDON if pods are \
            left at the deadline";
        return Some(Finding::yes(POINT, name, message));
    }
    let message = "its lifecycle policy does not retain instances whose terminate hook is \
        abandoned: --hook-result-on-failure=abandon has no effect, and Sundown answers CONTINUE \
        also if pods are left at the deadline";
    let remedy = format!(
        "aws autoscaling update-auto-scaling-group --auto-scaling-group-name {name} \
         --instance-lifecycle-policy \
         '{{\"RetentionTriggers\":{{\"TerminateHookAbandon\":\"retain\"}}}}', \
         or remove the flag"
    );
    Some(Finding::no(POINT, name, message, remedy).advice())
}

/// Instances that wait for somebody to terminate them.
pub(super) fn retained(group: &Group) -> Option<Finding> {
    const NAMED: usize = 3;
    let retained = group.retained();
    let first = *retained.first()?;
    let named = retained.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let more = if retained.len() > NAMED { ", …" } else { "" };
    let message = format!(
        "it retains {} ({named}{more}), because a terminate hook was abandoned: each costs money \
         until somebody terminates it",
        count(retained.len(), "instance")
    );
    let remedy = format!(
        "look after its pods, then: aws autoscaling terminate-instance-in-auto-scaling-group \
         --instance-id {first} --no-should-decrement-desired-capacity"
    );
    Some(Finding::no("group.retained", group.group.as_str(), message, remedy).advice())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{
        super::{finding::Answer, hooks::judge},
        *,
    };
    use crate::{
        domain::{AllowedSettings, seconds},
        triage::HookGlobs,
    };

    const FUNCTION: &str = "arn:aws:lambda:eu-west-1:123456789012:function:drainer";

    fn hook(name: &str, target: Option<&str>) -> Hook {
        Hook {
            hook: name.into(),
            transition: Transition::Terminating,
            heartbeat_timeout: seconds(300),
            global_timeout: seconds(30_000),
            default_result: HookResult::Continue,
            metadata: None,
            target: target.map(str::to_owned),
        }
    }

    fn group(retains_abandoned: bool, states: &[&str]) -> Group {
        let member = |(n, state): (usize, &&str)| (format!("i-{n:017x}"), (*state).to_owned());
        let members = states.iter().enumerate().map(member).collect();
        let unhealthy = std::collections::BTreeSet::new();
        let (group, tags) = ("asg".into(), BTreeMap::new());
        let suspended = unhealthy.clone();
        Group {
            group,
            tags,
            capacity: crate::domain::GroupCapacity::default(),
            members,
            has_warm_pool: false,
            unhealthy,
            suspended,
            retains_abandoned,
        }
    }

    fn points(group: &Group, hooks: &[Hook], on_failure: HookResult) -> Vec<(String, Answer)> {
        let globs = HookGlobs::default();
        judge(group, hooks, &globs, None, &AllowedSettings::default(), on_failure)
            .into_iter()
            .filter(|finding| finding.point != "hook")
            .map(|finding| (finding.point.to_owned(), finding.answer))
            .collect()
    }

    #[test]
    fn abandon_needs_a_group_that_retains_and_retained_instances_are_reported() {
        use HookResult::{Abandon, Continue};
        let (result, kept) = ("hook.result", "group.retained");
        let ours = vec![hook("sundown", None)];
        let abandons = vec![Hook { default_result: Abandon, ..hook("sundown", None) }];
        for (retains, states, hooks, on_failure, expected) in [
            (false, &["InService"][..], &ours, Continue, vec![]),
            (true, &["InService"], &ours, Continue, vec![]),
            (true, &["InService"], &ours, Abandon, vec![(result, Answer::Yes)]),
            (false, &["InService"], &ours, Abandon, vec![(result, Answer::No)]),
            (false, &["InService"], &vec![], Abandon, vec![]),
            (true, &["Terminating:Retained"], &ours, Continue, vec![(kept, Answer::No)]),
            (true, &["Terminating:Wait"], &abandons, Abandon, vec![(result, Answer::Yes)]),
            (
                false,
                &["Warmed:Pending:Retained"],
                &abandons,
                Abandon,
                vec![("hook.default", Answer::No), (result, Answer::No), (kept, Answer::No)],
            ),
        ] {
            let found = points(&group(retains, states), hooks, on_failure);
            let expected: Vec<_> = expected.into_iter().map(|(p, a)| (p.to_owned(), a)).collect();
            assert_eq!(found, expected, "{retains} {states:?} {on_failure:?}");
        }
    }

    #[test]
    fn a_lambda_function_is_taken_for_the_one_that_completes_its_hook() {
        let queue = "arn:aws:sqs:eu-west-1:123456789012:other";
        for (hooks, expected) in [
            (vec![hook("sundown", None), hook("fn", Some(FUNCTION))], "hook.others Yes"),
            (vec![hook("sundown", None), hook("fn", Some(queue))], "hook.others CannotTell"),
            (vec![hook("drain", Some(FUNCTION))], "hook.target CannotTell"),
            (vec![hook("drain", Some(queue))], ""),
        ] {
            let found = points(&group(false, &[]), &hooks, HookResult::Continue);
            let found: Vec<_> = found.iter().map(|(p, a)| format!("{p} {a:?}")).collect();
            assert_eq!(found.join(", "), expected, "{hooks:?}");
        }
        assert_eq!(function(&hook("a", Some(FUNCTION))), Some("function:drainer"));
        assert_eq!(function(&hook("a", Some("arn:aws:lambda"))), None);
    }

    #[test]
    fn the_remedy_for_retained_instances_is_a_command() {
        let kept = group(true, &["Terminating:Retained"; 5]);
        let text = format!("{:?}", retained(&kept).unwrap());
        for words in ["5 instances", "i-00000000000000002, …", "--instance-id i-00000000000000000"]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
