//! Launch hooks: which of them Sundown answers, and when.

use super::*;
use crate::domain::{Taint, seconds};

/// The group's tags name this cluster.
fn of_ours() -> Knowledge {
    Knowledge { group: Some(GroupAnswer::Tags(ours())), ..fresh() }
}

fn at(second: u64) -> Moment {
    now().plus(seconds(second))
}

/// A Node whose kubelet renewed its Lease at `renewed`, seconds after the launch began.
fn with_lease(node: Node, renewed: Option<i64>) -> Knowledge {
    let renewed = renewed.map(|second| Moment::from_second(now().as_second() + second).unwrap());
    let lease = Some(LeaseAnswer { node: node.name.clone(), at: at(20), renewed });
    let launch = Some(Box::new(LaunchAnswers { lease, ..LaunchAnswers::default() }));
    Knowledge { nodes: vec![Arc::new(node)], launch, ..of_ours() }
}

fn not_ready() -> Node {
    Node { ready: Ready::False, ..node("n", Some(INSTANCE)) }
}

fn tainted(key: &str) -> Node {
    let taint =
        Taint { key: key.to_owned(), value: None, effect: "NoSchedule".into(), time_added: None };
    Node { taints: vec![taint], ..node("n", Some(INSTANCE)) }
}

fn with_pods(known: Knowledge, ready: &[&str]) -> Knowledge {
    let ready = ready.iter().map(|name| name.parse().unwrap()).collect();
    let pods = DaemonSetPodsAnswer { node: "n".into(), at: at(20), ready };
    let mut known = known;
    known.launch_answers().daemon_set_pods = Some(pods);
    known
}

fn strict() -> Policy {
    let launch = LaunchPolicy {
        timeout: seconds(300),
        on_timeout: HookResult::Abandon,
        daemon_sets: vec!["kube-system/aws-node".parse().unwrap()],
        startup_taints: vec!["node.cilium.io/agent-not-ready".to_owned()],
    };
    Policy { launch, ..policy() }
}

/// What is missing, or why the hook is completed with which result.
fn step(known: &Knowledge, policy: &Policy, second: u64) -> String {
    step_of(&launch(), known, policy, second)
}

fn step_of(launch: &Interruption, known: &Knowledge, policy: &Policy, second: u64) -> String {
    match triage(launch, known, policy, at(second)) {
        Verdict::Wait(Wait { launch: Some(waits), .. }) => waits.missing.to_string(),
        Verdict::AnswerLaunch(answer) => {
            let end = match answer.end {
                LaunchEnd::Ready => "ready".to_owned(),
                LaunchEnd::TimedOut(missing) => format!("timed out: {missing}"),
                LaunchEnd::Over => "over".to_owned(),
                LaunchEnd::IntoWarmPool => "into the warm pool".to_owned(),
            };
            let cordoned = if answer.cordon.is_some() { ", cordoned" } else { "" };
            format!("{} {end}{cordoned}", answer.result.as_str())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn c47_a_launch_hook_is_completed_when_the_node_has_all_that_was_asked_for() {
    let ready = || node("n", Some(INSTANCE));
    let ours = |node: Node| Knowledge { nodes: vec![Arc::new(node)], ..of_ours() };
    let full = || with_pods(with_lease(ready(), Some(12)), &["kube-system/aws-node"]);
    let ended = Knowledge {
        instance: answer(Some(facts(InstanceState::ShuttingDown, BTreeMap::new()))),
        ..of_ours()
    };
    let stopped = Knowledge {
        instance: answer(Some(facts(InstanceState::Stopped, BTreeMap::new()))),
        ..of_ours()
    };
    let running = || Knowledge {
        instance: answer(Some(facts(InstanceState::Running, BTreeMap::new()))),
        ..of_ours()
    };
    let unread = "it is not known yet whether a drain of its Node must be undone";
    let lease = "its kubelet has not renewed its Lease since the launch began";
    let pod = "its Node has no Ready pod of the DaemonSet kube-system/aws-node";
    for (case, known, policy, second, expected) in vec![
        ("no Node yet", of_ours(), policy(), 20, "it has no Node"),
        ("not Ready", ours(not_ready()), policy(), 20, "its Node is not Ready"),
        ("the Lease is not read yet", ours(ready()), policy(), 20, lease),
        ("there is no Lease", with_lease(ready(), None), policy(), 20, lease),
        ("the Lease of a previous life", with_lease(ready(), Some(-1)), policy(), 20, lease),
        (
            "a fresh Lease, but not Ready",
            with_lease(not_ready(), Some(12)),
            policy(),
            20,
            "its Node is not Ready",
        ),
        ("ready", with_lease(ready(), Some(0)), policy(), 20, "CONTINUE ready"),
        (
            "its Node could not be read",
            Knowledge { return_check: ReturnCheck::Failed(at(0)), ..with_lease(ready(), Some(0)) },
            policy(),
            20,
            unread,
        ),
        (
            "its Node could not be read until the timeout",
            Knowledge { return_check: ReturnCheck::Failed(at(0)), ..with_lease(ready(), Some(0)) },
            strict(),
            300,
            &format!("CONTINUE timed out: {unread}"),
        ),
        (
            "a startup taint",
            with_lease(tainted("node.cilium.io/agent-not-ready"), Some(12)),
            strict(),
            20,
            "its Node has the startup taint node.cilium.io/agent-not-ready",
        ),
        (
            "another taint",
            with_pods(with_lease(tainted("dedicated"), Some(12)), &["kube-system/aws-node"]),
            strict(),
            20,
            "CONTINUE ready",
        ),
        ("the pods are not read yet", with_lease(ready(), Some(12)), strict(), 20, pod),
        (
            "a pod of another DaemonSet",
            with_pods(with_lease(ready(), Some(12)), &["a/b"]),
            strict(),
            20,
            pod,
        ),
        ("all of it", full(), strict(), 20, "CONTINUE ready"),
        ("a second before the timeout", of_ours(), policy(), 299, "it has no Node"),
        ("the timeout", of_ours(), policy(), 300, "CONTINUE timed out: it has no Node"),
        (
            "the timeout, with --launch-on-timeout=abandon",
            ours(not_ready()),
            strict(),
            300,
            "ABANDON timed out: its Node is not Ready",
        ),
        (
            "the timeout without a Node, and EC2 has answered, with abandon",
            running(),
            strict(),
            300,
            "ABANDON timed out: it has no Node",
        ),
        (
            "the timeout without a Node, and EC2 has not answered",
            of_ours(),
            strict(),
            300,
            "CONTINUE timed out: it has no Node",
        ),
        (
            "a message that was read after the timeout",
            Knowledge { received: at(400), ..of_ours() },
            strict(),
            414,
            "it has no Node",
        ),
        (
            "the same, when there was time to ask",
            Knowledge { received: at(400), ..of_ours() },
            policy(),
            415,
            "CONTINUE timed out: it has no Node",
        ),
        ("EC2 still shows it as stopped", stopped, strict(), 20, "it has no Node"),
        (
            "the timeout, and the index may lack the Node",
            Knowledge { index_trusted: false, ..of_ours() },
            strict(),
            300,
            "CONTINUE timed out: it has no Node",
        ),
        (
            "the timeout, and the Lease could not be read",
            ours(node("n", Some(INSTANCE))),
            strict(),
            300,
            "CONTINUE timed out: its kubelet has not renewed its Lease since the launch began",
        ),
        ("ready after the timeout", full(), strict(), 900, "CONTINUE ready"),
        ("the instance ends", ended, strict(), 20, "CONTINUE over"),
        (
            "AWS has closed the action",
            Knowledge { action_end: ActionEndSeen::Over, ..of_ours() },
            strict(),
            20,
            "CONTINUE over",
        ),
    ] {
        assert_eq!(step(&known, &policy, second), expected, "{case}");
    }
}

fn into_pool() -> Interruption {
    let action = HookAction { destination: Some(PoolEnd::WarmPool), ..action("my-hook") };
    interruption(Cause::Launch(action))
}

fn confirmed(accepted: bool, known: Knowledge) -> Knowledge {
    Knowledge { heartbeat: Some(HeartbeatAnswer { at: at(1), accepted }), ..known }
}

#[test]
fn the_node_of_an_instance_that_goes_into_a_warm_pool_is_cordoned_once_it_is_ready() {
    let ready = || with_lease(node("n", Some(INSTANCE)), Some(12));
    let never_ready = || Knowledge { nodes: vec![Arc::new(not_ready())], ..of_ours() };
    let unconfirmed = "AWS has not confirmed yet that its action is open";
    for (case, known, second, expected) in [
        ("no Node yet", confirmed(true, of_ours()), 20, "it has no Node"),
        ("not Ready", confirmed(true, never_ready()), 20, "its Node is not Ready"),
        ("not confirmed", ready(), 20, unconfirmed),
        ("ready", confirmed(true, ready()), 20, "CONTINUE into the warm pool, cordoned"),
        ("no action of the instance is open", confirmed(false, ready()), 20, "CONTINUE over"),
        ("it never has a Node", of_ours(), 300, "CONTINUE into the warm pool"),
        (
            "its Node never is Ready",
            confirmed(true, never_ready()),
            300,
            "CONTINUE timed out: its Node is not Ready, cordoned",
        ),
        ("never confirmed", ready(), 300, &format!("CONTINUE timed out: {unconfirmed}")),
    ] {
        let abandons = LaunchPolicy { on_timeout: HookResult::Abandon, ..policy().launch };
        let policy = Policy { launch: abandons, ..policy() };
        assert_eq!(step_of(&into_pool(), &known, &policy, second), expected, "{case}");
    }
    let asked = |known: &Knowledge| match triage(&into_pool(), known, &policy(), at(20)) {
        Verdict::Wait(wait) => wait.ask.contains(&ask_heartbeat()),
        other => panic!("{other:?}"),
    };
    assert!(asked(&of_ours()) && asked(&ready()));
    assert!(!asked(&confirmed(true, of_ours())));
}

#[test]
fn a_launch_that_the_sweep_found_waits_for_a_heartbeat_and_counts_from_the_launch_time() {
    let found = || Knowledge { is_found_by_sweep: true, ..of_ours() };
    match triage(&launch(), &found(), &policy(), at(20)) {
        Verdict::Wait(wait) => {
            assert!(wait.proof && wait.ask.contains(&ask_heartbeat()), "{wait:?}");
            assert!(wait.ask.iter().any(|q| matches!(q, Question::Instance { .. })), "{wait:?}");
        }
        other => panic!("{other:?}"),
    }
    let refused = triage(&launch(), &confirmed(false, found()), &policy(), at(20));
    assert_eq!(refused, Verdict::Delete(Reason::Stale));
    let unanswered = Knowledge { proof_asked_at: Some(at(0)), ..found() };
    let given_up = triage(&launch(), &unanswered, &policy(), at(10));
    assert_eq!(given_up, Verdict::Delete(Reason::Stale));
    assert_eq!(step(&confirmed(true, found()), &policy(), 299), "it has no Node");
    let mut launched = confirmed(true, found());
    launched.note_launch_time(now().minus(seconds(90)), seconds(300));
    assert_eq!(step(&launched, &policy(), 209), "it has no Node");
    assert_eq!(step(&launched, &policy(), 210), "CONTINUE timed out: it has no Node");
}

#[test]
fn a_launch_out_of_a_running_pool_did_not_begin_before_a_round_that_did_not_show_it() {
    for (absent_at, launched, began) in [
        (None, -9_000, 0),
        (None, -90, -90),
        (Some(-50), -9_000, -50),
        (Some(-50), -20, -20),
        (Some(-50), 30, 0),
    ] {
        let of = |second: i64| Moment::from_second(now().as_second() + second).unwrap();
        let mut known = of_ours();
        known.launch_answers().absent_at = absent_at.map(of);
        known.note_launch_time(of(launched), seconds(300));
        assert_eq!(known.happened, of(began), "{absent_at:?} {launched}");
    }
}

#[test]
fn an_instance_of_a_group_that_only_the_name_of_its_hook_makes_ours_is_never_abandoned() {
    let named = Policy { launch: strict().launch, ..with_hooks(&["my-*"]) };
    let known = |tags| Knowledge {
        nodes: vec![Arc::new(not_ready())],
        group: Some(GroupAnswer::Tags(tags)),
        ..fresh()
    };
    assert_eq!(step(&known(ours()), &named, 300), "ABANDON timed out: its Node is not Ready");
    assert_eq!(step(&known(theirs()), &named, 300), "CONTINUE timed out: its Node is not Ready");
    let unread = Knowledge { group: None, ..known(ours()) };
    match triage(&launch(), &unread, &named, at(20)) {
        Verdict::Wait(wait) => assert!(wait.ask.contains(&ask_group()), "{wait:?}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_labels_of_the_selector_may_come_within_the_launch_timeout() {
    let mut node = node("n", Some(INSTANCE));
    Arc::make_mut(&mut node.labels).insert("karpenter.sh/nodepool".to_owned(), "x".to_owned());
    let known = with_lease(node.clone(), Some(12));
    assert_eq!(step(&known, &policy(), 20), "its Node lacks the labels of --node-selector");
    assert!(heartbeats(&launch(), &known, &policy()), "it is kept alive meanwhile");
    let late = triage(&launch(), &known, &policy(), at(300));
    assert_eq!(late, Verdict::Delete(Reason::NotManaged));
    node.annotations.insert(IGNORE, "true");
    let ignored = triage(&launch(), &with_lease(node, Some(12)), &policy(), at(20));
    assert_eq!(ignored, Verdict::Delete(Reason::NotManaged), "somebody asked for that");
}

#[test]
fn ec2_is_asked_which_of_two_nodes_it_is_and_without_an_answer_nothing_is_abandoned() {
    let two = || Knowledge {
        nodes: vec![
            Arc::new(not_ready()),
            Arc::new(Node { uid: "other".into(), name: "m".into(), ..not_ready() }),
        ],
        ..of_ours()
    };
    match triage(&launch(), &two(), &strict(), at(1)) {
        Verdict::Wait(wait) => {
            assert!(wait.ask.iter().any(|q| matches!(q, Question::Instance { .. })), "{wait:?}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(step(&two(), &strict(), 300), "CONTINUE timed out: its Node is not Ready");
}

#[test]
fn a_node_is_read_again_for_a_return_only_if_it_may_need_a_restore_and_every_30_s() {
    for (check, may_need_restore, second, expected) in [
        (ReturnCheck::Never, false, 0, true),
        (ReturnCheck::Failed(at(0)), true, 9, false),
        (ReturnCheck::Failed(at(0)), false, 10, true),
        (ReturnCheck::Done(at(0)), true, 29, false),
        (ReturnCheck::Done(at(0)), true, 30, true),
        (ReturnCheck::Done(at(0)), false, 300, false),
    ] {
        assert_eq!(
            check.is_due(may_need_restore, at(second)),
            expected,
            "{check:?} {may_need_restore} {second}"
        );
    }
}

#[test]
fn the_lease_and_the_pods_are_asked_for_only_when_they_decide_and_every_5_s() {
    let asked =
        |known: &Knowledge, second: u64| match triage(&launch(), known, &strict(), at(second)) {
            Verdict::Wait(wait) => (wait.ask, wait.until),
            other => panic!("{other:?}"),
        };
    let ready = with_lease(node("n", Some(INSTANCE)), Some(-1));
    let ends = Some(at(300));
    assert_eq!(asked(&ready, 24), (vec![], Some(at(25))), "the answer is of second 20");
    assert_eq!(asked(&ready, 25), (vec![Question::NodeLease("n".into())], ends));
    let renewed = with_lease(node("n", Some(INSTANCE)), Some(12));
    assert_eq!(asked(&renewed, 21), (vec![Question::DaemonSetPods("n".into())], ends));
    assert_eq!(asked(&with_pods(renewed, &[]), 21), (vec![], Some(at(25))));
    assert_eq!(asked(&with_lease(not_ready(), None), 30), (vec![], ends));
}

#[test]
fn without_a_node_ec2_is_asked_once_a_minute_and_with_one_never() {
    let asks_ec2 =
        |known: &Knowledge, second: u64| match triage(&launch(), known, &policy(), at(second)) {
            Verdict::Wait(wait) => wait.ask.iter().any(|q| matches!(q, Question::Instance { .. })),
            other => panic!("{other:?}"),
        };
    let running = Knowledge {
        instance: answer(Some(facts(InstanceState::Running, BTreeMap::new()))),
        ..of_ours()
    };
    assert!(asks_ec2(&of_ours(), 0));
    assert!(!asks_ec2(&running, 59) && asks_ec2(&running, 60));
    assert!(!asks_ec2(&Knowledge { nodes: vec![Arc::new(not_ready())], ..running }, 60));
}

#[test]
fn a_launch_hook_is_answered_only_if_its_group_is_ours_or_somebody_named_it() {
    let waits_for_node = |known: &Knowledge, policy: &Policy| {
        assert_eq!(step(known, policy, 0), "it has no Node");
        assert!(heartbeats(&launch(), known, policy), "it is kept alive meanwhile");
    };
    let group = |tags| Knowledge { group: Some(GroupAnswer::Tags(tags)), ..fresh() };
    waits_for_node(&fresh(), &with_hooks(&["my-*"]));
    waits_for_node(&fresh(), &Policy { cluster_name: None, ..with_hooks(&["my-*"]) });
    waits_for_node(&group(ours()), &policy());
    waits_for_node(&Knowledge { index_trusted: false, ..group(ours()) }, &policy());
    assert_eq!(asks(verdict(&launch(), &fresh(), &policy())), [ask_group()]);
    assert!(!heartbeats(&launch(), &fresh(), &policy()), "nothing shows that it is ours yet");
    for known in [
        group(theirs()),
        group(BTreeMap::new()),
        Knowledge { group: Some(GroupAnswer::NoSuchGroup), ..fresh() },
    ] {
        assert_eq!(verdict(&launch(), &known, &policy()), Verdict::Delete(Reason::Foreign));
        assert_eq!(
            verdict(&launch(), &known, &shared(policy())),
            Verdict::GiveBack(Reason::Foreign)
        );
        assert!(!heartbeats(&launch(), &known, &policy()));
    }
    assert_eq!(
        verdict(&launch(), &with_node(), &nameless()),
        Verdict::Delete(Reason::NothingToDo),
        "nothing shows that it is ours"
    );
    assert_eq!(
        verdict(&launch(), &fresh(), &shared(nameless())),
        Verdict::GiveBack(Reason::NothingToDo)
    );
    assert_eq!(
        asks(verdict(
            &launch(),
            &fresh(),
            &Policy { managed_tag: Some("m".to_owned()), ..with_hooks(&["my-*"]) }
        )),
        [ask_instance(long_ago())]
    );
}

#[test]
fn without_an_earlier_round_only_a_launch_time_within_the_launch_timeout_counts() {
    for (launched_before, expected) in [(90, 90), (299, 299), (300, 0), (86_400, 0)] {
        let mut known = Knowledge { is_found_by_sweep: true, ..of_ours() };
        let first_seen = known.happened;
        known.note_launch_time(first_seen.minus(seconds(launched_before)), seconds(300));
        let earlier = first_seen.since_or_zero(known.happened);
        assert_eq!(earlier, seconds(expected), "launched {launched_before} s before");
    }
}

#[test]
fn an_instance_that_never_joins_its_cluster_in_a_warm_pool_waits_five_minutes_at_most() {
    let patient = LaunchPolicy { timeout: seconds(7_200), ..policy().launch };
    let policy = Policy { launch: patient, ..policy() };
    let never_ready = || Knowledge { nodes: vec![Arc::new(not_ready())], ..of_ours() };
    let blind = || Knowledge { index_trusted: false, ..of_ours() };
    for (case, event, known, second, expected) in [
        ("before that", into_pool(), of_ours(), 290, "it has no Node"),
        ("after that", into_pool(), of_ours(), 300, "CONTINUE into the warm pool"),
        ("its Node may not be seen", into_pool(), blind(), 300, "it has no Node"),
        ("it has a Node", into_pool(), never_ready(), 300, "its Node is not Ready"),
        ("a launch into the group", launch(), of_ours(), 300, "it has no Node"),
    ] {
        let known = confirmed(true, known);
        assert_eq!(step_of(&event, &known, &policy, second), expected, "{case}");
    }
}
