//! Instances without a Node.

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
fn a_node_counts_as_unknown_only_if_the_index_is_synced_and_its_watch_is_not_failing() {
    for i in draining() {
        let known = Knowledge { index_trusted: false, ..ended() };
        for later in [0, 3600, 86_400] {
            assert_eq!(
                triage(&i, &known, &policy(), now().plus(seconds(later))),
                Verdict::Wait(Wait { ask: vec![], until: None, proof: false, launch: None }),
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
fn while_the_index_is_not_trusted_a_hook_gets_heartbeats_if_the_tags_of_its_group_name_this_cluster()
 {
    let known = Knowledge { index_trusted: false, ..fresh() };
    let w = waits(verdict(&terminate(), &known, &policy()));
    assert_eq!((w.ask, w.until), (vec![], Some(now().plus(seconds(10)))));
    assert_eq!(
        asks(triage(&terminate(), &known, &policy(), now().plus(seconds(10)))),
        [ask_group()]
    );
    let tagged_group = Knowledge { group: Some(GroupAnswer::Tags(ours())), ..known.clone() };
    assert!(heartbeats(&terminate(), &tagged_group, &policy()));
    assert!(!heartbeats(&terminate(), &tagged_group, &nameless()));
    assert_eq!(
        asks(triage(&terminate(), &known, &nameless(), now().plus(seconds(10)))),
        [],
        "the tags would not help"
    );
    assert_eq!(
        asks(triage(&spot(), &known, &policy(), now().plus(seconds(10)))),
        [],
        "there is no hook to keep alive"
    );
    assert_eq!(
        asks(triage(&terminate(), &tagged_group, &tagged("managed"), now().plus(seconds(10)))),
        [ask_instance(long_ago())]
    );
}

#[test]
fn the_tags_of_the_instance_and_of_a_hooks_group_are_asked_for_at_once_before_any_wait() {
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
fn an_instance_whose_tags_name_another_cluster_or_none_is_foreign() {
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
                Verdict::GiveBack(Reason::Foreign),
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
        "a tag of the cluster autoscaler names no cluster"
    );
    let two =
        tags(&[("kubernetes.io/cluster/test", "shared"), ("kubernetes.io/cluster/prod", "shared")]);
    assert!(
        heartbeats(&terminate(), &alive(two), &policy()),
        "shared by two clusters, one of them ours"
    );
}

#[test]
fn an_instance_that_ec2_does_not_know_is_foreign_without_a_hook() {
    let known = Knowledge { instance: answer(None), ..fresh() };
    assert_eq!(verdict(&spot(), &known, &policy()), Verdict::Delete(Reason::Foreign));
    assert_eq!(verdict(&spot(), &known, &nameless()), Verdict::Delete(Reason::Foreign));
    assert_eq!(
        asks(verdict(&terminate(), &known, &policy())),
        [ask_group()],
        "with a hook, the tags of its group decide"
    );
    let no_group = Knowledge { group: Some(GroupAnswer::NoSuchGroup), ..known };
    assert_eq!(verdict(&terminate(), &no_group, &policy()), Verdict::Delete(Reason::Foreign));
}

#[test]
fn c38_a_hook_of_our_instance_that_ends_or_has_ended_is_completed_once_a_list_lacks_its_node_too() {
    use InstanceState as S;
    let ended_states = [S::Stopping, S::Stopped, S::ShuttingDown, S::Terminated]
        .map(|state| Some(facts(state, ours())));
    for facts in ended_states.into_iter().chain([None]) {
        let known = Knowledge { instance: answer(facts), ..ended() };
        assert_eq!(asks(verdict(&terminate(), &known, &policy())), ask_list(now()));
        assert_eq!(verdict(&terminate(), &listed(known.clone(), vec![]), &policy()), completed());
        assert_eq!(
            accepted(verdict(&terminate(), &listed(known.clone(), vec![our_node()]), &policy())).0,
            "n",
            "the LIST has the Node"
        );
        let before = Knowledge { listed: Some((now().minus(seconds(1)), vec![])), ..known };
        assert_eq!(
            asks(verdict(&terminate(), &before, &policy())),
            ask_list(now()),
            "a LIST from before the answer does not count"
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
fn c38_a_hook_of_our_running_instance_gets_heartbeats_until_its_node_could_have_joined_then_is_completed()
 {
    let known = young(ours());
    let joins_until = now().plus(seconds(270));
    let w = waits(verdict(&terminate(), &known, &policy()));
    assert_eq!(
        (w.ask, w.until),
        (vec![], Some(now().plus(seconds(60)))),
        "EC2 is asked again every minute"
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
fn a_hook_of_an_instance_that_has_run_long_without_a_node_does_not_wait_for_it() {
    assert_eq!(asks(verdict(&terminate(), &alive(ours()), &policy())), ask_list(now()));
    assert_eq!(verdict(&terminate(), &listed(alive(ours()), vec![]), &policy()), completed());
}

#[test]
fn c28_an_instance_that_leaves_the_warm_pool_without_having_joined_is_completed_at_once() {
    let i = interruption(Cause::Terminate(HookAction {
        origin: Some(PoolEnd::WarmPool),
        destination: Some(PoolEnd::Ec2),
        ..action("my-hook")
    }));
    let known = young(ours());
    assert_eq!(asks(verdict(&i, &known, &policy())), ask_list(now()));
    assert!(matches!(verdict(&i, &listed(known, vec![]), &policy()), Verdict::Complete(_)));
}

#[test]
fn the_state_of_our_instance_must_not_be_older_than_the_message() {
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
        "its cluster does not change"
    );
}

#[test]
fn without_a_node_and_a_hook_the_message_is_deleted_without_a_list_once_the_instance_cannot_join() {
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
fn without_a_cluster_name_no_hook_without_a_node_is_completed_or_kept_alive_and_its_message_is_deleted()
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
            Verdict::GiveBack(Reason::Unknown),
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
        "the time counts from the receipt of the message"
    );
}

#[test]
fn a_managed_tag_is_required_of_an_instance_without_a_node_too() {
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
