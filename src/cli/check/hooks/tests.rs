use std::collections::BTreeMap;

use super::{super::finding::Answer, *};

fn hook(name: &str, transition: Transition) -> Hook {
    Hook {
        hook: name.into(),
        transition,
        heartbeat_timeout: seconds(300),
        global_timeout: seconds(30_000),
        default_result: HookResult::Continue,
        metadata: None,
        target: None,
    }
}

fn allowed() -> AllowedSettings {
    AllowedSettings { longest_drain_timeout: seconds(10 * 3600), ..AllowedSettings::default() }
}

fn group() -> Group {
    Group {
        group: "asg".into(),
        tags: BTreeMap::new(),
        capacity: crate::domain::GroupCapacity::default(),
        members: Vec::new(),
        unhealthy: std::collections::BTreeSet::new(),
        suspended: std::collections::BTreeSet::new(),
        has_warm_pool: false,
        retains_abandoned: false,
    }
}

fn outcomes(
    hooks: &[Hook],
    globs: &[&str],
    drain_timeout: Option<Duration>,
) -> Vec<(&'static str, Answer, bool)> {
    let group = group();
    judge(
        &group,
        hooks,
        &HookGlobs::new(globs).unwrap(),
        drain_timeout,
        &allowed(),
        HookResult::Continue,
    )
    .into_iter()
    .map(|f| (f.point, f.answer, f.needed))
    .collect()
}

#[test]
fn hooks_are_compared_with_the_settings() {
    use Transition::{Launching, Terminating};
    let (good, none) = (("hook", Answer::Yes, true), ("hook", Answer::No, false));
    let ours = hook("sundown", Terminating);
    let with = |text: &str| Hook { metadata: Some(text.to_owned()), ..ours.clone() };
    let short =
        Hook { heartbeat_timeout: seconds(30), global_timeout: seconds(3000), ..ours.clone() };
    let two_minutes =
        |transition| Hook { heartbeat_timeout: seconds(120), ..hook("sundown-short", transition) };
    let launch = Hook { default_result: HookResult::Abandon, ..hook("new", Launching) };
    for (hooks, globs, timeout, expected) in [
        (vec![], &[][..], None, vec![none]),
        (vec![ours.clone()], &[], None, vec![good]),
        (vec![ours.clone()], &[], Some(seconds(8 * 3600)), vec![good]),
        (
            vec![ours.clone()],
            &[],
            Some(seconds(9 * 3600)),
            vec![("hook.timeout", Answer::No, false)],
        ),
        (vec![short], &[], None, vec![("hook.timeout", Answer::No, false)]),
        (vec![two_minutes(Terminating)], &[], None, vec![good]),
        (
            vec![ours.clone(), two_minutes(Launching)],
            &[],
            None,
            vec![good, ("hook.timeout", Answer::No, false)],
        ),
        (vec![ours.clone(), launch], &[], None, vec![good, ("hook.default", Answer::No, false)]),
        (vec![hook("Terminate-LC-Hook", Terminating)], &[], None, vec![none]),
        (vec![with(r#"{"tool":"other"}"#)], &[], None, vec![good]),
        (
            vec![with(r#"{"sundown":{"drain-timeout":"2h"}}"#)],
            &[],
            Some(seconds(9 * 3600)),
            vec![good, ("hook.settings", Answer::Yes, true)],
        ),
        (
            vec![with(r#"{"sundown":{"drain-timeout":"9h"}}"#)],
            &[],
            None,
            vec![("hook.timeout", Answer::No, false), ("hook.settings", Answer::Yes, true)],
        ),
        (
            vec![with(r#"{"sundown":{"drain-timeout":"11h"}}"#)],
            &[],
            None,
            vec![good, ("hook.settings", Answer::No, false)],
        ),
        (
            vec![with(r#"{"sundown":{"force":"1"}}"#)],
            &[],
            None,
            vec![good, ("hook.settings", Answer::No, false)],
        ),
        (
            vec![ours.clone(), hook("backup", Terminating)],
            &["sundown*"],
            None,
            vec![good, ("hook.others", Answer::CannotTell, false)],
        ),
        (
            vec![ours.clone(), hook("nth", Terminating)],
            &[],
            None,
            vec![good, ("hook.others", Answer::CannotTell, false)],
        ),
        (vec![ours.clone(), hook("boot", Launching)], &[], None, vec![good, good]),
        (vec![hook("nth", Terminating)], &[], None, vec![good]),
        (
            vec![hook("nth", Terminating), hook("backup", Terminating)],
            &[],
            None,
            vec![good, good, ("hook.others", Answer::No, false)],
        ),
        (
            vec![hook("backup", Terminating)],
            &["sundown*"],
            None,
            vec![none, ("hook.others", Answer::CannotTell, false)],
        ),
    ] {
        assert_eq!(outcomes(&hooks, globs, timeout), expected, "{hooks:?} {globs:?} {timeout:?}");
    }
}

#[test]
fn launch_hooks_that_sundown_answers_for_certain_need_their_rule() {
    use Transition::{Launching, Terminating};
    for (hooks, globs, is_tagged, expected) in [
        (vec![hook("sundown", Terminating)], &[][..], true, &[][..]),
        (vec![hook("sundown-launch", Launching)], &[], true, &["sundown-launch"]),
        (vec![hook("sundown-launch", Launching)], &[], false, &[]),
        (vec![hook("boot", Launching)], &[], true, &[]),
        (vec![hook("boot", Launching)], &["boot"], true, &["boot"]),
        (vec![hook("boot", Launching)], &["boot"], false, &["boot"]),
        (vec![hook("sundown-launch", Launching)], &["boot"], true, &[]),
        (vec![hook("Launch-LC-Hook", Launching)], &["*"], true, &[]),
    ] {
        let globs = HookGlobs::new(globs).unwrap();
        let found: Vec<_> = launch_hooks(&hooks, &globs, is_tagged).collect();
        let found: Vec<_> = found.iter().map(HookName::as_str).collect();
        assert_eq!(found, expected, "{hooks:?} {globs:?} {is_tagged}");
    }
}

#[test]
fn a_hook_that_nobody_may_answer_is_reported_with_the_command_that_deletes_it() {
    let group = group();
    let hooks = [hook("sundown", Transition::Terminating), hook("nth", Transition::Terminating)];
    let found =
        judge(&group, &hooks, &HookGlobs::default(), None, &allowed(), HookResult::Continue);
    let other = found.iter().find(|f| f.point == "hook.others").unwrap();
    let text = format!("{other:?}");
    for words in [
        "terminate hook nth",
        "sundown is beside it",
        "for 5m",
        "delete-lifecycle-hook --auto-scaling-group-name asg --lifecycle-hook-name nth",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn simple_scaling_is_reported_for_our_groups_only() {
    let groups = [group()];
    let answer = |policies: &[(&str, &str)]| {
        let policies =
            policies.iter().map(|(g, p)| (GroupName::from(*g), (*p).to_owned())).collect();
        scaling(&groups, &Ok(policies)).into_iter().map(|f| (f.about, f.answer)).collect::<Vec<_>>()
    };
    assert_eq!(answer(&[]), [(String::new(), Answer::Yes)]);
    assert_eq!(answer(&[("other", "p")]), [(String::new(), Answer::Yes)]);
    assert_eq!(answer(&[("asg", "p"), ("other", "p")]), [("asg".to_owned(), Answer::No)]);
}
