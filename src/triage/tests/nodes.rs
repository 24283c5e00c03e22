//! Does Sundown act on it? Hooks, Nodes in the index, launch hooks, kinds that are not acted on
//! yet.

use super::*;

#[test]
fn an_interruption_of_a_node_in_the_index_is_accepted_without_a_question_to_aws() {
    for i in draining() {
        assert_eq!(
            accepted(verdict(&i, &with_node(), &policy())),
            ("n".to_owned(), Certainty::Timely),
            "{i:?}"
        );
        assert_eq!(
            accepted(verdict(&i, &with_node(), &nameless())),
            ("n".to_owned(), Certainty::Timely),
            "{i:?}"
        );
        let not_synced = Knowledge { index_trusted: false, ..with_node() };
        assert_eq!(
            accepted(verdict(&i, &not_synced, &policy())).1,
            Certainty::Timely,
            "a Node that the index has exists: {i:?}"
        );
    }
}

#[test]
fn by_default_every_hook_is_ours_except_those_of_eks() {
    for (hook, is_ours) in [
        ("my-hook", true),
        ("Terminate-LC-Hook", false),
        ("Launch-LC-Hook", false),
        ("terminate-lc-hook", true),
    ] {
        let i = interruption(Cause::Terminate(action(hook)));
        assert_eq!(
            matches!(verdict(&i, &with_node(), &policy()), Verdict::Accept(_)),
            is_ours,
            "{hook}"
        );
        assert_eq!(heartbeats(&i, &with_node(), &policy()), is_ours, "{hook}");
    }
}

#[test]
fn globs_replace_the_default() {
    for (globs, hook, is_ours) in [
        (&["drain-*"][..], "drain-me", true),
        (&["drain-*"], "my-hook", false),
        (&["a", "my-h??k"], "my-hook", true),
        (&["*"], "Terminate-LC-Hook", false),
    ] {
        assert_eq!(with_hooks(globs).hooks.cover(&hook.into()), is_ours, "{globs:?} {hook}");
    }
    for bad in ["", "a b", "[a]", &"x".repeat(256)] {
        assert!(HookGlobs::new(&[bad]).is_err(), "{bad}");
    }
}

#[test]
fn an_event_of_another_hook_gets_no_drain_no_heartbeat_and_no_completion_whatever_is_known() {
    let policy = with_hooks(&["ours-*"]);
    for i in [terminate(), launch()] {
        for known in [
            with_node(),
            fresh(),
            Knowledge { instance: answer(Some(facts(InstanceState::Running, ours()))), ..fresh() },
        ] {
            assert_eq!(verdict(&i, &known, &policy), Verdict::Delete(Reason::ForeignHook));
            assert_eq!(
                verdict(&i, &known, &shared(policy.clone())),
                Verdict::GiveBack(Reason::ForeignHook)
            );
            assert!(!heartbeats(&i, &known, &policy));
        }
    }
}

#[test]
fn c36_a_node_that_is_not_ours_to_touch_is_never_written_to() {
    let labelled = |key: &str, value: &str| {
        let mut n = node("n", Some(INSTANCE));
        std::sync::Arc::make_mut(&mut n.labels).insert(key.to_owned(), value.to_owned());
        n
    };
    let mut ignored = node("n", Some(INSTANCE));
    ignored.annotations.insert(IGNORE, "true");
    for n in [
        labelled("karpenter.sh/nodepool", "x"),
        labelled("eks.amazonaws.com/compute-type", "auto"),
        ignored,
    ] {
        let known = Knowledge { nodes: vec![Arc::new(n)], ..fresh() };
        for i in draining() {
            assert_eq!(
                verdict(&i, &known, &policy()),
                Verdict::Delete(Reason::NotManaged),
                "{i:?}"
            );
            assert_eq!(
                verdict(&i, &known, &shared(policy())),
                Verdict::GiveBack(Reason::NotManaged),
                "{i:?}"
            );
            assert!(!heartbeats(&i, &known, &policy()), "{i:?}");
        }
        // Other controllers may add the labels of the selector within the launch timeout.
        let later = now().plus(seconds(300));
        assert_eq!(
            triage(&launch(), &known, &with_hooks(&["*"]), later),
            Verdict::Delete(Reason::NotManaged)
        );
    }
    let mut not_quite = node("n", Some(INSTANCE));
    not_quite.annotations.insert(IGNORE, "false");
    assert_eq!(
        accepted(verdict(
            &spot(),
            &Knowledge { nodes: vec![Arc::new(not_quite)], ..fresh() },
            &policy()
        ))
        .1,
        Certainty::Timely
    );
}

#[test]
fn c37_a_managed_tag_counts_on_the_instance_and_on_its_group_only_when_the_instances_tags_are_gone()
{
    let yes = || tags(&[("managed", "")]);
    let no = BTreeMap::new;
    let alive = |tags| answer(Some(facts(InstanceState::Running, tags)));
    let over = || answer(Some(facts(InstanceState::Terminated, BTreeMap::new())));
    for (instance, group, is_ours) in [
        (alive(yes()), None, true),
        (alive(no()), Some(yes()), false),
        (alive(no()), Some(no()), false),
        (over(), Some(yes()), true),
        (over(), Some(no()), false),
        (answer(None), Some(yes()), true),
    ] {
        let known = Knowledge { instance, group: group.map(GroupAnswer::Tags), ..with_node() };
        let expected = if is_ours { "accepted" } else { "not managed" };
        let got = match verdict(&terminate(), &known, &tagged("managed")) {
            Verdict::Accept(_) => "accepted",
            Verdict::Delete(Reason::NotManaged) => "not managed",
            other => panic!("{other:?}"),
        };
        assert_eq!(got, expected, "{known:?}");
        assert_eq!(heartbeats(&terminate(), &known, &tagged("managed")), is_ours);
        assert_eq!(
            accepted(verdict(&terminate(), &known, &policy())).1,
            Certainty::Timely,
            "without --managed-tag, tags do not count"
        );
    }
    let over = Knowledge { instance: over(), ..with_node() };
    assert_eq!(verdict(&spot(), &over, &tagged("managed")), Verdict::Delete(Reason::NotManaged));
    assert_eq!(asks(verdict(&terminate(), &over, &tagged("managed"))), [ask_group()]);
}

#[test]
fn with_a_managed_tag_nothing_is_written_or_kept_alive_before_the_tags_are_known() {
    let later = now().plus(seconds(3600));
    for i in draining() {
        assert_eq!(
            asks(triage(&i, &with_node(), &tagged("managed"), later)),
            [ask_instance(long_ago())],
            "{i:?}"
        );
        assert!(!heartbeats(&i, &with_node(), &tagged("managed")), "{i:?}");
    }
}

#[test]
fn c39_a_node_of_another_instance_is_never_taken_for_this_one() {
    let called = |instance| Arc::new(node(DNS, instance));
    let named = InstanceFacts {
        private_dns: Some(DNS.to_owned()),
        ..facts(InstanceState::Running, ours())
    };
    let known = Knowledge {
        nodes: vec![called(Some(OTHER))],
        instance: answer(Some(named.clone())),
        ..fresh()
    };
    assert_eq!(
        verdict(&spot(), &known, &policy()),
        Verdict::Delete(Reason::NoNode),
        "a Node of the same name, with another instance"
    );
    let known =
        Knowledge { nodes: vec![called(None)], instance: answer(Some(named.clone())), ..fresh() };
    assert_eq!(
        accepted(verdict(&spot(), &known, &policy())),
        (DNS.to_owned(), Certainty::Timely),
        "without providerID, its private DNS name counts"
    );
    let known = Knowledge { nodes: vec![called(None)], ..fresh() };
    assert_eq!(
        asks(verdict(&spot(), &known, &policy())),
        [ask_instance(long_ago())],
        "EC2 must confirm the name"
    );
}

#[test]
fn a_private_dns_name_does_not_count_for_an_instance_that_names_another_cluster() {
    let elsewhere = InstanceFacts {
        private_dns: Some(DNS.to_owned()),
        ..facts(InstanceState::Running, theirs())
    };
    let known = Knowledge {
        nodes: vec![Arc::new(node(DNS, None))],
        instance: answer(Some(elsewhere)),
        ..fresh()
    };
    assert_eq!(
        verdict(&spot(), &known, &policy()),
        Verdict::Delete(Reason::Foreign),
        "two networks may have the same addresses"
    );
    assert_eq!(verdict(&terminate(), &known, &policy()), Verdict::Delete(Reason::Foreign));
    assert!(!heartbeats(&terminate(), &known, &policy()));
}

#[test]
fn a_private_dns_name_of_several_instances_counts_only_for_one_that_is_known_to_be_ours() {
    let of = |id: &str, state, tags| InstanceFacts {
        id: id.parse().unwrap(),
        private_dns: Some(DNS.to_owned()),
        ..facts(state, tags)
    };
    let untagged = of(INSTANCE, InstanceState::Running, BTreeMap::new());
    let other = of(OTHER, InstanceState::Running, BTreeMap::new());
    let old = of("i-0dddddddddddddddd", InstanceState::Terminated, BTreeMap::new());
    let seen = Knowledge {
        nodes: vec![Arc::new(node(DNS, None))],
        instance: answer(Some(untagged.clone())),
        ..fresh()
    };
    assert_eq!(
        asks(verdict(&spot(), &seen, &policy())),
        [Question::Name(DNS.to_owned())],
        "which instances have the name?"
    );
    assert!(!heartbeats(&terminate(), &seen, &policy()));
    let with_namesakes = |namesakes: &[&InstanceFacts]| Knowledge {
        namesakes: Some(namesakes.iter().map(|f| (*f).clone()).collect()),
        ..seen.clone()
    };
    assert_eq!(
        accepted(verdict(&spot(), &with_namesakes(&[&untagged, &old]), &policy())).0,
        DNS,
        "the other one is terminated"
    );
    assert_eq!(
        verdict(&spot(), &with_namesakes(&[&untagged, &other]), &policy()),
        Verdict::Delete(Reason::Foreign),
        "two networks"
    );
    let stopped = of(OTHER, InstanceState::Stopped, BTreeMap::new());
    assert_eq!(
        verdict(&spot(), &with_namesakes(&[&untagged, &stopped]), &policy()),
        Verdict::Delete(Reason::Foreign),
        "a stopped instance keeps its address"
    );
    let tagged = of(OTHER, InstanceState::Running, ours());
    assert_eq!(
        verdict(&spot(), &with_namesakes(&[&untagged, &tagged]), &policy()),
        Verdict::Delete(Reason::Foreign),
        "the other one is ours"
    );
    let theirs = of(OTHER, InstanceState::Running, theirs());
    assert_eq!(
        accepted(verdict(&spot(), &with_namesakes(&[&untagged, &theirs]), &policy())).0,
        DNS,
        "the other one is another cluster's"
    );
    let by_group = Knowledge {
        group: Some(GroupAnswer::Tags(ours())),
        ..with_namesakes(&[&untagged, &other])
    };
    assert_eq!(accepted(verdict(&terminate(), &by_group, &policy())).0, DNS, "its group is ours");
    assert!(heartbeats(&terminate(), &by_group, &policy()));
}

#[test]
fn a_node_without_provider_id_goes_by_the_private_dns_name_or_the_instance_id() {
    let known_as = InstanceFacts {
        private_dns: Some(DNS.to_owned()),
        ..facts(InstanceState::Running, ours())
    };
    for (name, dns, instance, is_it) in [
        (DNS, None, None, true),
        ("n", Some(DNS), None, true),
        (INSTANCE, None, None, true),
        ("n", None, None, false),
        (OTHER, None, None, false),
        (DNS, Some(DNS), Some(OTHER), false),
    ] {
        let n = Node { dns: dns.map(str::to_owned), ..node(name, instance) };
        assert_eq!(Knowledge::is_named_after(&n, &known_as), is_it, "{n:?}");
        assert!(
            !Knowledge::is_named_after(&Node { is_elsewhere: true, ..n }, &known_as),
            "Fargate, another cloud, on premises"
        );
    }
}

#[test]
fn a_launch_with_nothing_to_restore_is_deleted_or_given_back_and_a_start_is_irrelevant() {
    {
        let cause = Cause::LaunchSuccessful { group: "my-asg".into() };
        let i = interruption(cause);
        for known in [with_node(), fresh()] {
            assert_eq!(verdict(&i, &known, &policy()), Verdict::Delete(Reason::NothingToDo));
            assert!(!heartbeats(&i, &known, &policy()));
        }
        assert_eq!(
            verdict(&i, &with_node(), &shared(policy())),
            Verdict::Delete(Reason::NothingToDo)
        );
        assert_eq!(
            verdict(&i, &fresh(), &shared(policy())),
            Verdict::GiveBack(Reason::NothingToDo),
            "it may be another cluster's"
        );
    }
    for state in [InstanceState::Pending, InstanceState::Running] {
        assert_eq!(
            verdict(&state_change(state), &with_node(), &policy()),
            Verdict::Delete(Reason::Irrelevant)
        );
    }
}

#[test]
fn a_launch_out_of_a_warm_pool_waits_for_the_index_and_other_kinds_without_action_do_not() {
    let away = Knowledge::new(now(), now());
    let launched = interruption(Cause::LaunchSuccessful { group: "my-asg".into() });
    assert!(
        waits(verdict(&launched, &away, &policy())).ask.is_empty(),
        "its Node may have to be restored"
    );
    assert_eq!(
        verdict(
            &interruption(Cause::Rebalance),
            &away,
            &super::responses::on(&["rebalance=ignore"])
        ),
        Verdict::Delete(Reason::Ignored)
    );
    let found = Knowledge { nodes: vec![our_node()], ..away };
    assert_eq!(verdict(&launched, &found, &policy()), Verdict::Delete(Reason::NothingToDo));
}

#[test]
fn a_root_volume_replacement_is_drained_and_completed_like_any_terminate_hook() {
    let i = interruption(Cause::Terminate(HookAction {
        purpose: HookPurpose::ReplaceRootVolume,
        ..action("my-hook")
    }));
    assert_eq!(accepted(verdict(&i, &with_node(), &policy())).1, Certainty::Timely);
}

#[test]
fn eks_own_hooks_are_ours_only_where_they_are_named() {
    let globs = |texts: &[&str]| HookGlobs::new(texts).unwrap();
    let (all, any, one, exact) =
        (globs(&[]), globs(&["*"]), globs(&["sundown-*"]), globs(&["Terminate-LC-Hook"]));
    for (globs, hook, matches, names) in [
        (&all, "drain", true, false),
        (&all, "Terminate-LC-Hook", false, false),
        (&all, "Launch-LC-Hook", false, false),
        (&any, "drain", true, true),
        (&any, "Launch-LC-Hook", false, false),
        (&one, "sundown-terminate", true, true),
        (&one, "backup", false, false),
        (&exact, "Terminate-LC-Hook", true, true),
        (&exact, "Launch-LC-Hook", false, false),
    ] {
        assert_eq!(
            (globs.cover(&hook.into()), globs.names(&hook.into())),
            (matches, names),
            "{hook}"
        );
    }
}
