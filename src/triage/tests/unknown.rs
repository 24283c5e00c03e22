//! Instances that the cluster has no Node for.

use super::*;

fn alive(tags: BTreeMap<String, String>) -> Knowledge {
    Knowledge { instance: answer(Some(facts(InstanceState::Running, tags))), ..fresh() }
}

fn young(tags: BTreeMap<String, String>) -> Knowledge {
    let facts = InstanceFacts {
        launched: Some(now().minus(seconds(30))),
        ..facts(InstanceState::Running, tags)
    };
    Knowledge { instance: answer(Some(facts)), group: Some(GroupAnswer::Tags(ours())), ..fresh() }
}

fn ended() -> Knowledge {
    Knowledge { instance: answer(None), group: Some(GroupAnswer::Tags(ours())), ..fresh() }
}

fn listed(known: Knowledge, nodes: Vec<Arc<Node>>) -> Knowledge {
    Knowledge { listed: Some((now(), nodes)), ..known }
}

fn completed() -> Verdict {
    Verdict::Complete(terminate().lifecycle_action(&id(INSTANCE)).unwrap())
}

fn ask_list(not_before: Moment) -> Vec<Question> {
    vec![Question::List { not_before }]
}

#[test]
fn unknown_is_said_only_by_an_index_that_is_synced_and_whose_watch_is_not_failing() {
    for i in draining() {
        let known = Knowledge { index_trusted: false, ..ended() };
        for later in [0, 3600, 86_400] {
            assert_eq!(
                triage(&i, &known, &policy(), now().plus(seconds(later))),
                Verdict::Wait(Wait { ask: vec![], until: None, proof: false }),
                "{i:?}"
            );
        }
        let trusted = Knowledge { index_trusted: true, ..known };
        assert!(
            !matches!(
                verdict(&i, &trusted, &policy()), Verdict::Wait(Wait { ask, .. }) if ask.is_empty()
            ),
            "{i:?}"
        );
    }
}

#[test]
fn while_the_index_is_away_a_hook_is_found_to_be_ours_by_its_group_and_kept_alive() {
    let known = Knowledge { index_trusted: false, ..fresh() };
    let w = waits(verdict(&terminate(), &known, &policy()));
    assert_eq!((w.ask, w.until), (vec![], Some(now().plus(seconds(10)))));
    assert_eq!(
        asks(triage(&terminate(), &known, &policy(), now().plus(seconds(10)))),
        [ask_group()]
    );
    let told = Knowledge { group: Some(GroupAnswer::Tags(ours())), ..known.clone() };
    assert!(heartbeats(&terminate(), &told, &policy()));
    assert!(!heartbeats(&terminate(), &told, &nameless()));
    assert_eq!(
        asks(triage(&terminate(), &known, &nameless(), now().plus(seconds(10)))),
        [],
        "the tags would say nothing"
    );
    assert_eq!(
        asks(triage(&spot(), &known, &policy(), now().plus(seconds(10)))),
        [],
        "nothing to beat"
    );
    assert_eq!(
        asks(triage(&terminate(), &told, &tagged("managed"), now().plus(seconds(10)))),
        [ask_instance(long_ago())]
    );
}

#[test]
fn it_is_asked_before_any_wait_whose_the_instance_is_and_for_a_hook_its_group_at_the_same_time() {
    assert_eq!(asks(verdict(&spot(), &fresh(), &policy())), [ask_instance(long_ago())]);
    assert_eq!(
        asks(verdict(&terminate(), &fresh(), &policy())),
        [ask_instance(long_ago()), ask_group()]
    );
    assert_eq!(asks(verdict(&terminate(), &fresh(), &nameless())), [ask_instance(long_ago())]);
}

#[test]
fn while_ec2_does_not_answer_nothing_is_decided() {
    let group_only = Knowledge { group: Some(GroupAnswer::Tags(theirs())), ..fresh() };
    for i in draining() {
        for policy in [policy(), nameless()] {
            let w = waits(triage(&i, &group_only, &policy, now().plus(seconds(86_400))));
            assert_eq!(w.ask, [ask_instance(long_ago())], "{i:?}");
        }
    }
}

#[test]
fn tags_of_no_or_another_cluster_make_it_foreign() {
    for i in draining() {
        for tags in [
            theirs(),
            BTreeMap::new(),
            tags(&[("kubernetes.io/cluster/prod2", "owned"), ("Name", "prod")]),
        ] {
            let known =
                Knowledge { group: Some(GroupAnswer::Tags(BTreeMap::new())), ..alive(tags) };
            assert_eq!(verdict(&i, &known, &policy()), Verdict::Delete(Reason::Foreign), "{i:?}");
            assert_eq!(
                verdict(&i, &known, &shared(policy())),
                Verdict::Leave(Reason::Foreign),
                "{i:?}"
            );
            assert!(!heartbeats(&i, &known, &policy()), "{i:?}");
        }
    }
}

#[test]
fn an_instance_that_names_another_cluster_is_foreign_whatever_its_group_says() {
    let known = Knowledge { group: Some(GroupAnswer::Tags(ours())), ..alive(theirs()) };
    assert_eq!(verdict(&terminate(), &known, &policy()), Verdict::Delete(Reason::Foreign));
    assert!(!heartbeats(&terminate(), &known, &policy()));
}

#[test]
fn each_of_the_tags_that_name_a_cluster_counts() {
    for (key, value, is_ours) in [
        ("kubernetes.io/cluster/prod", "owned", true),
        ("kubernetes.io/cluster/prod", "shared", true),
        ("eks:cluster-name", "prod", true),
        ("eks:cluster-name", "test", false),
        ("k8s.io/cluster-autoscaler/prod", "owned", false),
        ("k8s.io/cluster-autoscaler/enabled", "true", false),
        ("k8s.io/cluster-autoscaler/node-template/label/prod", "prod", false),
    ] {
        let known = Knowledge {
            group: Some(GroupAnswer::Tags(tags(&[(key, value)]))),
            instance: answer(None),
            ..fresh()
        };
        assert_eq!(heartbeats(&terminate(), &known, &policy()), is_ours, "{key}={value}");
    }
    let enabled_too = tags(&[("k8s.io/cluster-autoscaler/enabled", "true")]);
    let known = Knowledge { group: Some(GroupAnswer::Tags(ours())), ..alive(enabled_too) };
    assert!(heartbeats(&terminate(), &known, &policy()), "`enabled` names no other cluster");
    let of_another = tags(&[("k8s.io/cluster-autoscaler/test", "owned")]);
    let known = Knowledge { group: Some(GroupAnswer::Tags(ours())), ..alive(of_another) };
    assert!(
        heartbeats(&terminate(), &known, &policy()),
        "an autoscaler's tag names no owner: the policies of the role know none either"
    );
    let two =
        tags(&[("kubernetes.io/cluster/test", "shared"), ("kubernetes.io/cluster/prod", "shared")]);
    assert!(
        heartbeats(&terminate(), &alive(two), &policy()),
        "shared by two clusters, one of them ours"
    );
}

#[test]
fn no_such_instance_and_no_hook_owed_is_foreign() {
    let known = Knowledge { instance: answer(None), ..fresh() };
    assert_eq!(verdict(&spot(), &known, &policy()), Verdict::Delete(Reason::Foreign));
    assert_eq!(verdict(&spot(), &known, &nameless()), Verdict::Delete(Reason::Foreign));
    assert_eq!(
        asks(verdict(&terminate(), &known, &policy())),
        [ask_group()],
        "a hook: its group tells"
    );
    let nobody = Knowledge { group: Some(GroupAnswer::NoSuchGroup), ..known };
    assert_eq!(verdict(&terminate(), &nobody, &policy()), Verdict::Delete(Reason::Foreign));
}

#[test]
fn c38_ours_and_going_or_gone_is_completed_at_once_when_an_uncached_list_misses_it_too() {
    use InstanceState as S;
    let gone = [S::Stopping, S::Stopped, S::ShuttingDown, S::Terminated]
        .map(|state| Some(facts(state, ours())));
    for facts in gone.into_iter().chain([None]) {
        let known = Knowledge { instance: answer(facts), ..ended() };
        assert_eq!(asks(verdict(&terminate(), &known, &policy())), ask_list(now()));
        assert_eq!(verdict(&terminate(), &listed(known.clone(), vec![]), &policy()), completed());
        assert_eq!(
            accepted(verdict(&terminate(), &listed(known.clone(), vec![our_node()]), &policy())).0,
            "n",
            "the list knew better"
        );
        let before = Knowledge { listed: Some((now().minus(seconds(1)), vec![])), ..known };
        assert_eq!(
            asks(verdict(&terminate(), &before, &policy())),
            ask_list(now()),
            "a list from before the answer says nothing"
        );
    }
}

#[test]
fn while_the_api_server_cannot_answer_nothing_is_completed() {
    for later in [0, 600, 86_400] {
        assert_eq!(
            asks(triage(&terminate(), &ended(), &policy(), now().plus(seconds(later)))),
            ask_list(now())
        );
    }
    let away = Knowledge { index_trusted: false, ..listed(ended(), vec![]) };
    assert_eq!(asks(verdict(&terminate(), &away, &policy())), []);
}

#[test]
fn c38_ours_and_running_is_waited_for_and_beaten_until_it_could_have_joined_then_completed() {
    let known = young(ours());
    let joins_until = now().plus(seconds(270));
    let w = waits(verdict(&terminate(), &known, &policy()));
    assert_eq!(
        (w.ask, w.until),
        (vec![], Some(now().plus(seconds(60)))),
        "it is looked at again every minute"
    );
    assert!(heartbeats(&terminate(), &known, &policy()));
    let minute = now().plus(seconds(60));
    let w = waits(triage(&terminate(), &known, &policy(), minute));
    assert_eq!((w.ask, w.until), (vec![ask_instance(minute)], Some(joins_until)));
    assert_eq!(asks(triage(&terminate(), &known, &policy(), joins_until)), ask_list(joins_until));
    let missed = Knowledge { listed: Some((joins_until, vec![])), ..known.clone() };
    assert_eq!(triage(&terminate(), &missed, &policy(), joins_until), completed());
    let joined = Knowledge { nodes: vec![our_node()], ..known.clone() };
    assert_eq!(accepted(verdict(&terminate(), &joined, &policy())).0, "n");
    let long = Policy { join_timeout: seconds(900), ..policy() };
    assert_eq!(
        asks(triage(&terminate(), &missed, &long, joins_until)),
        [ask_instance(minute)],
        "--join-timeout"
    );
}

#[test]
fn an_instance_that_has_run_for_long_without_a_node_is_not_waited_for() {
    assert_eq!(asks(verdict(&terminate(), &alive(ours()), &policy())), ask_list(now()));
    assert_eq!(verdict(&terminate(), &listed(alive(ours()), vec![]), &policy()), completed());
}

#[test]
fn c28_an_instance_that_leaves_the_warm_pool_without_having_joined_is_completed_at_once() {
    let i = interruption(What::Terminate(HookAction {
        origin: Some(PoolEnd::WarmPool),
        destination: Some(PoolEnd::Ec2),
        ..action("my-hook")
    }));
    let known = young(ours());
    assert_eq!(asks(verdict(&i, &known, &policy())), ask_list(now()));
    assert!(matches!(verdict(&i, &listed(known, vec![]), &policy()), Verdict::Complete(_)));
}

#[test]
fn what_says_how_our_instance_is_must_not_be_older_than_the_message() {
    let old = InstanceAnswer {
        at: now().minus(seconds(200)),
        facts: Some(facts(InstanceState::Running, ours())),
    };
    let known = Knowledge { instance: Some(old.clone()), ..fresh() };
    assert_eq!(asks(verdict(&terminate(), &known, &policy())), [ask_instance(now())]);
    let foreign =
        Some(InstanceAnswer { facts: Some(facts(InstanceState::Running, theirs())), ..old });
    assert_eq!(
        verdict(&terminate(), &Knowledge { instance: foreign, ..fresh() }, &policy()),
        Verdict::Delete(Reason::Foreign),
        "whose it is does not change"
    );
}

#[test]
fn ours_without_a_node_and_nothing_owed_is_deleted_without_a_list_once_it_cannot_join_any_more() {
    for i in [spot(), state_change(InstanceState::Terminated)] {
        let gone = Knowledge {
            instance: answer(Some(facts(InstanceState::Terminated, ours()))),
            ..fresh()
        };
        assert_eq!(verdict(&i, &gone, &policy()), Verdict::Delete(Reason::NoNode));
        assert_eq!(
            waits(verdict(&i, &young(ours()), &policy())).until,
            Some(now().plus(seconds(60)))
        );
        assert_eq!(
            triage(&i, &young(ours()), &policy(), now().plus(seconds(270))),
            Verdict::Delete(Reason::NoNode)
        );
    }
}

#[test]
fn without_a_cluster_name_nothing_unknown_is_completed_or_kept_alive_and_it_is_deleted_when_it_could_have_joined()
 {
    let known = young(ours());
    for i in draining() {
        let w = waits(verdict(&i, &known, &nameless()));
        assert_eq!((w.ask, w.until), (vec![], Some(now().plus(seconds(270)))), "{i:?}");
        assert_eq!(
            triage(&i, &known, &nameless(), now().plus(seconds(270))),
            Verdict::Delete(Reason::Unknown),
            "{i:?}"
        );
        assert_eq!(
            verdict(&i, &known, &shared(nameless())),
            Verdict::Leave(Reason::Unknown),
            "{i:?}"
        );
        assert!(!heartbeats(&i, &known, &nameless()), "{i:?}");
        let joined = Knowledge { nodes: vec![our_node()], ..known.clone() };
        assert_eq!(accepted(verdict(&i, &joined, &nameless())).0, "n", "{i:?}");
    }
    let gone = Knowledge { instance: answer(None), ..fresh() };
    assert_eq!(
        waits(verdict(&terminate(), &gone, &nameless())).until,
        Some(now().plus(seconds(300))),
        "a hook: from its receipt"
    );
}

#[test]
fn a_managed_tag_is_asked_of_an_instance_without_a_node_too() {
    assert_eq!(
        verdict(&terminate(), &listed(alive(ours()), vec![]), &tagged("managed")),
        Verdict::Delete(Reason::NotManaged)
    );
    assert!(!heartbeats(&terminate(), &alive(ours()), &tagged("managed")));
    let mut both = ours();
    both.insert("managed".to_owned(), String::new());
    assert_eq!(
        verdict(&terminate(), &listed(alive(both), vec![]), &tagged("managed")),
        completed()
    );
}
