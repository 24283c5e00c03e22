//! Which hooks of a group Sundown answers, and what waits until that is decided.

use super::*;

/// A group with these hooks, all for terminations.
pub(super) fn of(hooks: &[&str]) -> HooksAnswer {
    HooksAnswer::Described(
        hooks.iter().map(|h| (HookName::from(*h), Transition::Terminating)).collect(),
    )
}

fn undescribed(known: Knowledge) -> Knowledge {
    Knowledge { hooks: None, ..known }
}

fn ask_hooks() -> Question {
    Question::Hooks(GroupName::from("my-asg"))
}

#[test]
fn the_hooks_of_a_group_decide_which_one_is_ours() {
    use Transition::{Launching, Terminating};
    let launch_of_ours = || {
        HooksAnswer::Described(
            [("sundown-launch".into(), Launching), ("backup".into(), Terminating)].into(),
        )
    };
    for (globs, hook, group, expected) in [
        (&[][..], "backup", Some(of(&["backup"])), HookClaim::Ours),
        (&[], "backup", Some(of(&["backup", "sundown-terminate"])), HookClaim::Foreign),
        (&[], "backup", Some(of(&["backup", "sundown"])), HookClaim::Foreign),
        (&[], "backup", Some(of(&["backup", "my-sundown"])), HookClaim::Ours),
        (&[], "backup", Some(launch_of_ours()), HookClaim::Ours),
        (&[], "backup", Some(of(&[])), HookClaim::Ours),
        (&[], "backup", Some(HooksAnswer::Denied), HookClaim::Unchecked),
        (&[], "backup", None, HookClaim::Undecided),
        (&[], "sundown-terminate", Some(of(&["backup", "sundown-terminate"])), HookClaim::Ours),
        (&[], "sundown-terminate", None, HookClaim::Ours),
        (&[], "Terminate-LC-Hook", None, HookClaim::Foreign),
        (&[], "Terminate-LC-Hook", Some(of(&["Terminate-LC-Hook"])), HookClaim::Foreign),
        (&["back*"], "backup", None, HookClaim::Ours),
        (&["back*"], "backup", Some(of(&["backup", "sundown"])), HookClaim::Ours),
        (&["back*"], "sundown", None, HookClaim::Foreign),
    ] {
        let globs = HookGlobs::new(globs).unwrap();
        assert_eq!(
            globs.claim(&hook.into(), Terminating, group.as_ref()),
            expected,
            "{globs:?} {hook} {group:?}"
        );
    }
}

#[test]
fn an_accept_without_a_description_holds_until_one_shows_that_the_hook_is_of_others() {
    use HookClaim::{Ours, Unchecked, Undecided};
    let others = || Some(of(&["backup", "sundown-terminate"]));
    for (globs, decided, hook, last, expected) in [
        (&[][..], Undecided, "backup", others(), true),
        (&[], Unchecked, "backup", others(), true),
        (&[], Undecided, "backup", Some(of(&["backup"])), false),
        (&[], Undecided, "backup", Some(HooksAnswer::Denied), false),
        (&[], Undecided, "backup", None, false),
        // A description had shown that it is ours. A hook that was added later changes nothing.
        (&[], Ours, "backup", others(), false),
        (&[], Ours, "sundown-terminate", others(), false),
        (&["back*"], Ours, "backup", others(), false),
    ] {
        let globs = HookGlobs::new(globs).unwrap();
        let disproved =
            globs.is_disproved(decided, &hook.into(), Transition::Terminating, last.as_ref());
        assert_eq!(disproved, expected, "{globs:?} {decided:?} {hook} {last:?}");
    }
}

#[test]
fn a_hook_is_known_to_be_of_others_once_its_group_was_described() {
    let launch = || {
        HooksAnswer::Described(
            [
                ("warm".into(), Transition::Launching),
                ("sundown-terminate".into(), Transition::Terminating),
            ]
            .into(),
        )
    };
    for (globs, hook, last, expected) in [
        (&[][..], "backup", Some(of(&["backup", "sundown-terminate"])), true),
        (&[], "sundown-terminate", Some(of(&["backup", "sundown-terminate"])), false),
        (&[], "backup", Some(of(&["backup"])), false),
        (&[], "backup", Some(HooksAnswer::Denied), false),
        (&[], "backup", None, false),
        // Only hooks of the same transition count.
        (&[], "warm", Some(launch()), false),
        // The group no longer has this hook.
        (&[], "backup", Some(of(&["sundown-terminate"])), false),
        (&["back*"], "backup", Some(of(&["backup", "sundown-terminate"])), false),
    ] {
        let globs = HookGlobs::new(globs).unwrap();
        let foreign = globs.is_known_foreign(&hook.into(), last.as_ref());
        assert_eq!(foreign, expected, "{globs:?} {hook} {last:?}");
    }
}

#[test]
fn each_hook_of_a_group_is_completed_left_alone_or_guessed() {
    let names =
        |hooks: Vec<HookName>| hooks.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    for (globs, hooks, completed, left, guessed) in [
        (&[][..], &["sundown-a", "backup", "Terminate-LC-Hook"][..], "sundown-a", "backup", ""),
        (&[], &["sundown-a", "sundown-b"], "sundown-a sundown-b", "", ""),
        (&[], &["backup", "nth", "Terminate-LC-Hook"], "backup nth", "", "backup nth"),
        (&[], &["backup"], "backup", "", ""),
        (&["n*", "b*"], &["backup", "nth", "other"], "backup nth", "other", ""),
    ] {
        let globs = HookGlobs::new(globs).unwrap();
        let all: GroupHooks =
            hooks.iter().map(|h| (HookName::from(*h), Transition::Terminating)).collect();
        let of = |list: fn(&HookGlobs, &GroupHooks, Transition) -> Vec<HookName>| {
            names(list(&globs, &all, Transition::Terminating))
        };
        let found = (of(HookGlobs::completed), of(HookGlobs::left_alone), of(HookGlobs::guessed));
        assert_eq!(
            found,
            (completed.to_owned(), left.to_owned(), guessed.to_owned()),
            "{globs:?} {hooks:?}"
        );
        assert!(globs.completed(&all, Transition::Launching).is_empty());
    }
}

#[test]
fn a_hook_beside_one_of_ours_gets_no_drain_no_heartbeat_and_no_completion() {
    let known = Knowledge { hooks: Some(of(&["my-hook", "sundown-terminate"])), ..with_node() };
    assert_eq!(verdict(&terminate(), &known, &policy()), Verdict::Delete(Reason::ForeignHook));
    assert_eq!(
        verdict(&terminate(), &known, &shared(policy())),
        Verdict::GiveBack(Reason::ForeignHook)
    );
    assert!(!heartbeats(&terminate(), &known, &policy()));
    assert!(matches!(
        verdict(&interruption(Cause::Terminate(action("sundown-terminate"))), &known, &policy()),
        Verdict::Accept(_)
    ));
}

#[test]
fn while_the_hooks_of_the_group_are_not_described_there_are_heartbeats_and_no_completion() {
    let known = undescribed(with_node());
    assert!(heartbeats(&terminate(), &known, &policy()));
    let wait = waits(verdict(&terminate(), &known, &policy()));
    assert_eq!((wait.ask, wait.until), (vec![ask_hooks()], Some(now().plus(seconds(1)))));
    // The drain begins because pods need the time. Its completion waits.
    let asked = Knowledge { hooks_asked_at: Some(now()), ..known.clone() };
    match triage(&terminate(), &asked, &policy(), now().plus(seconds(1))) {
        Verdict::Accept(accept) => assert_eq!(accept.claim, HookClaim::Undecided),
        other => panic!("{other:?}"),
    }
    // An instance without a Node can wait.
    let gone = Knowledge {
        instance: answer(None),
        group: Some(GroupAnswer::Tags(ours())),
        listed: Some((now(), Vec::new())),
        ..fresh()
    };
    assert!(matches!(verdict(&terminate(), &gone, &policy()), Verdict::Complete(_)));
    let later = now().plus(seconds(3600));
    assert_eq!(asks(triage(&terminate(), &undescribed(gone), &policy(), later)), [ask_hooks()]);
    let launching = Knowledge { group: Some(GroupAnswer::Tags(ours())), ..fresh() };
    assert!(matches!(triage(&launch(), &launching, &policy(), later), Verdict::AnswerLaunch(_)));
    assert_eq!(asks(triage(&launch(), &undescribed(launching), &policy(), later)), [ask_hooks()]);
}

#[test]
fn a_hook_gets_no_drain_and_no_heartbeat_before_the_hooks_of_its_group_were_asked_for() {
    let minute = now().plus(seconds(60));
    let undecided = Knowledge { happened: minute, ..undescribed(with_node()) };
    for (case, known, ask, until) in [
        (
            "its node joined later",
            undecided.clone(),
            Some(ask_hooks()),
            Some(minute.plus(seconds(1))),
        ),
        (
            "a second ago",
            Knowledge { hooks_asked_at: Some(minute.minus(seconds(1))), ..undecided.clone() },
            None,
            None,
        ),
        (
            "it was ours before",
            Knowledge {
                hooks_asked_at: Some(now()),
                hooks_before: described(),
                ..undecided.clone()
            },
            None,
            None,
        ),
        (
            "it was another party's before",
            Knowledge {
                hooks_asked_at: Some(now()),
                hooks_before: Some(of(&["my-hook", "sundown-terminate"])),
                ..undecided.clone()
            },
            Some(ask_hooks()),
            None,
        ),
        (
            "it was another party's before, and describing is denied now",
            Knowledge {
                hooks: Some(HooksAnswer::Denied),
                hooks_before: Some(of(&["my-hook", "sundown-terminate"])),
                ..undecided.clone()
            },
            Some(ask_hooks()),
            None,
        ),
        (
            "it was ours before, and describing is denied now",
            Knowledge { hooks: Some(HooksAnswer::Denied), hooks_before: described(), ..undecided },
            None,
            None,
        ),
    ] {
        let verdict = triage(&terminate(), &known, &policy(), minute);
        assert_eq!(
            heartbeats_wait(&terminate(), &known, &policy(), minute),
            ask.is_some(),
            "{case}"
        );
        match ask {
            Some(ask) => {
                let wait = waits(verdict);
                assert!(wait.ask.contains(&ask) && wait.until == until, "{case}: {wait:?}");
            }
            None => assert!(matches!(verdict, Verdict::Accept(_)), "{case}: {verdict:?}"),
        }
    }
}

#[test]
fn the_hooks_of_a_group_of_ours_are_asked_for_also_without_a_node() {
    let running = undescribed(Knowledge {
        instance: answer(Some(facts(InstanceState::Running, ours()))),
        ..fresh()
    });
    assert!(asks(verdict(&terminate(), &running, &policy())).contains(&ask_hooks()));
    assert!(
        heartbeats_wait(&terminate(), &running, &policy(), now().plus(seconds(60))),
        "they were not asked for yet"
    );
}

#[test]
fn a_hook_counts_as_ours_but_unchecked_if_describing_is_denied() {
    let known = Knowledge { hooks: Some(HooksAnswer::Denied), ..with_node() };
    match verdict(&terminate(), &known, &policy()) {
        Verdict::Accept(accept) => assert_eq!(accept.claim, HookClaim::Unchecked),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_claim_without_a_description_is_unconfirmed() {
    for (claim, unconfirmed) in [
        (HookClaim::Ours, false),
        (HookClaim::Foreign, false),
        (HookClaim::Undecided, true),
        (HookClaim::Unchecked, true),
    ] {
        assert_eq!(claim.is_unconfirmed(), unconfirmed, "{claim:?}");
    }
}

#[test]
fn an_instance_without_a_node_is_not_completed_for_another_partys_hook_because_describing_is_denied()
 {
    let gone = Knowledge {
        instance: answer(None),
        group: Some(GroupAnswer::Tags(ours())),
        listed: Some((now(), Vec::new())),
        ..fresh()
    };
    let denied = Knowledge { hooks: Some(HooksAnswer::Denied), ..gone };
    assert!(matches!(verdict(&terminate(), &denied, &policy()), Verdict::Complete(_)));
    let was_foreign =
        Knowledge { hooks_before: Some(of(&["my-hook", "sundown-terminate"])), ..denied };
    assert_eq!(asks(verdict(&terminate(), &was_foreign, &policy())), [ask_hooks()]);
}

#[test]
fn a_message_that_is_deleted_for_another_reason_asks_for_no_hooks() {
    let mut ignored = node("n", Some(INSTANCE));
    ignored.annotations.insert(IGNORE, "true");
    let known = undescribed(Knowledge { nodes: vec![Arc::new(ignored)], ..fresh() });
    assert_eq!(verdict(&terminate(), &known, &policy()), Verdict::Delete(Reason::NotManaged));
    let foreign = Knowledge {
        instance: answer(Some(facts(InstanceState::Running, theirs()))),
        group: Some(GroupAnswer::Tags(theirs())),
        ..fresh()
    };
    assert_eq!(
        verdict(&terminate(), &undescribed(foreign), &policy()),
        Verdict::Delete(Reason::Foreign)
    );
}

#[test]
fn of_launch_hooks_the_sweep_answers_only_those_that_are_named() {
    let hooks: GroupHooks = [
        ("boot", Transition::Launching),
        ("drain", Transition::Terminating),
        ("Launch-LC-Hook", Transition::Launching),
        ("sundown-launch", Transition::Launching),
    ]
    .map(|(name, transition)| (name.into(), transition))
    .into();
    let without_ours: GroupHooks = {
        let mut hooks = hooks.clone();
        hooks.remove(&HookName::from("sundown-launch"));
        hooks
    };
    for (globs, hooks, launching) in [
        (&[][..], &hooks, &["sundown-launch"][..]),
        (&[], &without_ours, &[]),
        (&["boot"], &hooks, &["boot"]),
        (&["*"], &without_ours, &["boot"]),
    ] {
        let policy = with_hooks(globs);
        let swept = |of| policy.hooks.swept(hooks, of);
        let names =
            |all: Vec<HookName>| -> Vec<String> { all.iter().map(ToString::to_string).collect() };
        assert_eq!(names(swept(Transition::Launching)), launching, "{globs:?}");
    }
    let swept = with_hooks(&[]).hooks.swept(&hooks, Transition::Terminating);
    assert_eq!(swept, [HookName::from("drain")]);
}
