use std::collections::BTreeMap;

use super::*;

fn wish() -> Wish {
    Wish {
        prefix: "sundown".to_owned(),
        launch: false,
        heartbeat_timeout: seconds(300),
        metadata: None,
    }
}

fn hook(name: &str) -> Hook {
    let Some(Step::Add(hook)) = plan(&wish(), &[]).pop() else {
        panic!("a hook that is not there is added")
    };
    Hook { hook: name.into(), ..hook }
}

fn words(wish: &Wish, hooks: &[Hook]) -> Vec<String> {
    plan(wish, hooks).iter().map(Step::words).collect()
}

#[test]
fn a_group_gets_the_hooks_that_it_lacks_and_no_others() {
    let add = "add sundown-terminate (terminate, heartbeat 5m, then CONTINUE)";
    let both = Wish { launch: true, ..wish() };
    let launch = Hook { transition: Transition::Launching, ..hook("sundown-launch") };
    for (wish, hooks, expected) in [
        (wish(), vec![], vec![add]),
        (wish(), vec![hook("Terminate-LC-Hook"), hook("my-sundown")], vec![add]),
        (wish(), vec![hook("sundown_drain")], vec!["sundown_drain is there"]),
        (wish(), vec![launch.clone()], vec![add]),
        (wish(), vec![hook("sundown-terminate")], vec!["sundown-terminate is there"]),
        (wish(), vec![hook("sundown")], vec!["sundown is there"]),
        (
            both.clone(),
            vec![hook("sundown")],
            vec!["sundown is there", "add sundown-launch (launch, heartbeat 5m, then CONTINUE)"],
        ),
        (both, vec![hook("sundown"), launch], vec!["sundown is there", "sundown-launch is there"]),
    ] {
        assert_eq!(words(&wish, &hooks), expected, "{wish:?} {hooks:?}");
    }
}

#[test]
fn enroll_and_the_service_agree_about_which_hooks_are_ours() {
    for name in [
        "sundown",
        "sundown-terminate",
        "sundown_drain",
        "sundowner",
        "my-sundown",
        "Sundown",
        "drain",
        "Terminate-LC-Hook",
    ] {
        let hook = HookName::from(name);
        // If the group has a hook of Sundown's own, the service leaves other hooks alone.
        let group = GroupHooks::from([
            ("sundown-x".into(), Transition::Terminating),
            (hook.clone(), Transition::Terminating),
        ]);
        let completed = HookGlobs::default().completed(&group, Transition::Terminating);
        assert_eq!(is_ours("sundown", &hook), completed.contains(&hook), "{name}");
    }
}

#[test]
fn with_a_prefix_of_the_users_own_only_the_names_that_enroll_gives_are_ours() {
    for (name, expected) in [
        ("drain", true),
        ("drain-terminate", true),
        ("drainage-logs", false),
        ("drain_logs", false),
        ("my-drain", false),
    ] {
        assert_eq!(is_ours("drain", &name.into()), expected, "{name}");
    }
}

#[test]
fn a_hook_with_other_settings_is_changed_unless_it_has_a_notification_target() {
    let short = Hook {
        heartbeat_timeout: seconds(60),
        default_result: HookResult::Abandon,
        ..hook("sundown-terminate")
    };
    let what = "heartbeat 1m to 5m, default result ABANDON to CONTINUE";
    assert_eq!(
        words(&wish(), std::slice::from_ref(&short)),
        [format!("change sundown-terminate: {what}")]
    );
    let notifying = Hook { target: Some("arn:aws:sqs:eu-west-1:1:q".to_owned()), ..short };
    let steps = plan(&wish(), &[notifying]);
    assert!(
        !steps[0].is_work() && steps[0].wanted().is_none() && steps[0].words().contains(what),
        "{}",
        steps[0].words()
    );
    // Without `--metadata` the hook keeps its metadata.
    let noted = Hook { metadata: Some("x".to_owned()), ..hook("sundown-terminate") };
    assert_eq!(words(&wish(), std::slice::from_ref(&noted)), ["sundown-terminate is there"]);
    let other = Wish { metadata: Some("y".to_owned()), ..wish() };
    assert_eq!(words(&other, &[noted]), ["change sundown-terminate: metadata"]);
}

#[test]
fn hooks_that_nobody_may_answer_and_hooks_that_are_completed_by_default_are_named() {
    let named = |prefix: &str, hooks: &[Hook]| {
        let wish = Wish { prefix: prefix.to_owned(), ..wish() };
        remarks(prefix, &plan(&wish, hooks), hooks)
    };
    assert!(named("sundown", &[hook("Terminate-LC-Hook"), hook("sundown-terminate")]).is_empty());
    let left = named("sundown", &[hook("nth-drain")]);
    assert!(
        left.len() == 1
            && left[0].contains("terminate hook nth-drain")
            && left[0].contains("for 5m"),
        "{left:?}"
    );
    let launch = Hook { transition: Transition::Launching, ..hook("boot") };
    assert!(named("sundown", &[launch]).is_empty(), "no hook of Sundown's own is for launches");
    let several = named("drain", &[hook("backup")]);
    assert!(several.len() == 1 && several[0].contains("backup, drain-terminate"), "{several:?}");
}

#[test]
fn a_new_launch_hook_has_a_remark_that_names_its_rule() {
    let there = Hook { transition: Transition::Launching, ..hook("sundown-launch") };
    let short = Hook { heartbeat_timeout: seconds(60), ..there.clone() };
    for (launch, prefix, hooks, expected) in [
        (false, "sundown", vec![], None),
        (true, "sundown", vec![], Some("sundown-launch needs")),
        (true, "sundown", vec![hook("sundown-terminate")], Some("sundown-launch needs")),
        (true, "drain", vec![], Some("drain-launch needs")),
        (true, "sundown", vec![there], None),
        (true, "sundown", vec![short], None),
    ] {
        let wish = Wish { prefix: prefix.to_owned(), launch, ..wish() };
        let remarks = remarks(prefix, &plan(&wish, &hooks), &hooks);
        let of_rule: Vec<_> = remarks.iter().filter(|r| r.contains(LAUNCH_ACTION)).collect();
        let is_named = match expected {
            Some(words) => of_rule.len() == 1 && of_rule[0].starts_with(words),
            None => of_rule.is_empty(),
        };
        assert!(is_named, "{launch} {prefix} {hooks:?}: {remarks:?}");
    }
}

#[test]
fn a_remark_names_the_flag_for_a_hook_of_another_prefix_that_the_service_leaves_alone() {
    let wish = Wish { prefix: "drain".to_owned(), ..wish() };
    let sundowns = hook("sundown-terminate");
    for (there, glob) in [
        (vec![], "drain-*"),
        (vec![hook("drain-terminate")], "drain-*"),
        (vec![hook("drain")], "drain, and"),
    ] {
        let hooks: Vec<Hook> = std::iter::once(sundowns.clone()).chain(there).collect();
        let remarks = remarks("drain", &plan(&wish, &hooks), &hooks);
        let is_named = remarks.len() == 1
            && remarks[0].contains("also has sundown-terminate")
            && remarks[0].contains(&format!("--lifecycle-hook {glob}"));
        assert!(is_named, "{remarks:?}");
    }
}

#[test]
fn only_our_hooks_are_removed_with_the_instances_that_wait_in_their_transition() {
    let member = |id: &str, state: &str| (id.to_owned(), state.to_owned());
    let members = vec![
        member("i-1", "InService"),
        member("i-2", "Terminating:Wait"),
        member("i-3", "Pending:Wait"),
        member("i-4", "Terminating:Proceed"),
        member("i-5", "Warmed:Pending:Wait"),
    ];
    let group = Group {
        group: "asg".into(),
        tags: BTreeMap::new(),
        capacity: crate::domain::GroupCapacity::default(),
        members,
        unhealthy: std::collections::BTreeSet::new(),
        suspended: std::collections::BTreeSet::new(),
        has_warm_pool: false,
        retains_abandoned: false,
    };
    let launch = Hook { transition: Transition::Launching, ..hook("sundown-launch") };
    let all = removals(
        "sundown",
        &group,
        &[hook("sundown-terminate"), launch, hook("Terminate-LC-Hook")],
    );
    let hooks: Vec<_> = all.iter().map(|r| (r.hook.as_str(), r.waiting.join(","))).collect();
    assert_eq!(
        hooks,
        [("sundown-terminate", "i-2,i-5".to_owned()), ("sundown-launch", "i-3,i-5".to_owned())]
    );
}
