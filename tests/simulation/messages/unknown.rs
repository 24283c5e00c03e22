//! Instances without a Node: foreign, coming, going, or nobody can say.

use std::time::Duration;

use sundown::{
    runtime::Clock,
    sim::{
        aws::{EventKind, HookResult, InstanceSpec, State, Verdict},
        kube::{Away, Fault, Match, PodShape, PodSpec, Rule},
    },
};

use super::{bodies, logs::Logs, tools::continuing_hook};
use crate::{harness::Stage, judge};

/// The end of the instance's one action: so many seconds after it began; `None` while it is open.
fn completed_after(stage: &Stage, instance: &str) -> Option<i64> {
    let action = &stage.actions(instance)[0];
    let end = action.end.as_ref()?;
    assert!(!end.by.is_empty(), "AWS ended it by itself: {action:?}");
    assert_eq!(end.verdict, Verdict::Completed(HookResult::Continue), "{action:?}");
    Some(end.at.duration_since(action.started).as_secs())
}

#[tokio::test(start_paused = true)]
async fn instances_of_another_cluster_or_of_none_are_foreign_and_their_hooks_untouched() {
    let stage = Stage::new(90);
    let other = stage.foreign_group("other", 2, Some("other"), &continuing_hook("drain", 300));
    let none = stage.foreign_group("none", 2, None, &continuing_hook("drain", 300));
    let url = stage.queue_for("in", [EventKind::TerminateAction, EventKind::SpotWarning]);
    let sundown = stage.settled(&["--queue-url", &url]).await;
    for instance in [&other[0], &none[0]] {
        stage.world.aws.terminate(instance, true);
    }
    stage.until(10, "they are deleted", || stage.bodies_in("in").is_empty()).await;
    assert_eq!(sundown.messages("terminate-hook", "foreign"), 2.0);
    stage.pass(250).await;
    for instance in [&other[0], &none[0]] {
        assert_eq!(stage.hook_calls(instance), 0);
        assert!(stage.actions(instance)[0].end.is_none());
    }
    assert_eq!(stage.world.aws.count("autoscaling:DescribeLifecycleHooks"), 0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn tags_of_groups_are_asked_for_once_in_ten_minutes() {
    let stage = Stage::new(91);
    let other = stage.foreign_group("other", 40, None, &continuing_hook("drain", 300));
    let url = stage.queue_for("in", [EventKind::TerminateAction]);
    let sundown = stage.settled(&["--queue-url", &url]).await;
    for instance in &other {
        stage.world.aws.terminate(instance, true);
        stage.pass(10).await;
    }
    stage.until(10, "all are deleted", || stage.bodies_in("in").is_empty()).await;
    assert_eq!(sundown.messages("terminate-hook", "foreign"), 40.0);
    assert_eq!(stage.world.aws.count("autoscaling:DescribeAutoScalingGroups"), 1);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c38_a_hook_of_an_instance_of_ours_that_is_going_or_gone_is_completed_at_once() {
    let stage = Stage::new(92);
    let ours = stage.group_without_nodes("asg", 3, 30, &[continuing_hook("drain", 300)]);
    let sundown = stage.settled(&[]).await;
    // Its end by other hands: the group runs its hooks for an instance that is gone already.
    stage.world.aws.terminate_in_ec2(&ours[0]);
    stage.until(60, "the action begins", || !stage.actions(&ours[0]).is_empty()).await;
    stage.until(5, "it is completed", || completed_after(&stage, &ours[0]).is_some()).await;
    assert!(stage.ec2_says(&ours[0]).is_terminal());
    stage.until(10, "the messages are deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("terminate-hook", "completed"), 1.0);
    assert!(stage.kube_writes().is_empty());
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c38_an_instance_of_ours_that_runs_is_waited_for_and_gets_heartbeats_until_the_join_timeout()
 {
    let stage = Stage::new(93);
    let sundown = stage.settled(&[]).await;
    let ours = stage.group_without_nodes("asg", 2, 60, &[continuing_hook("drain", 60)]);
    stage.pass(1).await;
    stage.world.aws.terminate(&ours[0], true);
    stage.until(300, "it is completed", || completed_after(&stage, &ours[0]).is_some()).await;
    let after = completed_after(&stage, &ours[0]).unwrap();
    assert!(
        (237..=245).contains(&after),
        "five minutes after its launch, which was a minute ago: {after} s"
    );
    let action = &stage.actions(&ours[0])[0];
    assert!(action.longest_gap(stage.clock.now()) <= Duration::from_secs(32), "{action:?}");
    assert_eq!(sundown.messages("terminate-hook", "completed"), 1.0);
    stage.until(1, "the messages are deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.metric("heartbeats_missed_total"), 0.0);
    assert!(stage.describes() <= 8, "{}", stage.describes());
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn the_join_timeout_is_as_long_by_a_clock_that_differs_from_awss() {
    let differs = Duration::from_secs(400);
    for (seed, is_ahead) in [(930, true), (931, false)] {
        let stage = Stage::new(seed);
        let now = stage.clock.now();
        let beginning = if is_ahead { now.plus(differs) } else { now.minus(differs) };
        let sundown = stage.start_with_clock("sundown-0", &[], Clock::starting_at(beginning));
        stage.pass(30).await;
        let ours = stage.group_without_nodes("asg", 2, 60, &[continuing_hook("drain", 60)]);
        stage.pass(1).await;
        stage.world.aws.terminate(&ours[0], true);
        stage.until(300, "it is completed", || completed_after(&stage, &ours[0]).is_some()).await;
        let after = completed_after(&stage, &ours[0]).unwrap();
        assert!(
            (235..=247).contains(&after),
            "five minutes after its launch, which was a minute ago: {after} s"
        );
        sundown.stop().await;
        stage.end();
    }
}

#[tokio::test(start_paused = true)]
async fn c38_an_instance_that_joins_while_it_is_waited_for_is_drained() {
    let stage = Stage::new(94);
    stage.group(2, 300);
    let ours = stage.group_without_nodes("late", 2, 30, &[continuing_hook("drain", 120)]);
    let sundown = stage.settled(&["--join-timeout", "10m"]).await;
    stage.world.aws.terminate(&ours[0], true);
    stage.pass(100).await;
    assert!(stage.actions(&ours[0])[0].end.is_none());
    stage.world.join(&ours[0]);
    stage.until(2, "its node is cordoned", || stage.is_cordoned(&ours[0])).await;
    stage.until(60, "and completed", || completed_after(&stage, &ours[0]).is_some()).await;
    assert_eq!(sundown.messages("terminate-hook", "accepted"), 1.0);
    // It was taken on as soon as it could be: the time before it joined is no delay.
    assert_eq!(
        sundown.metric("accept_lag_seconds_bucket{le=\"5.0\",kind=\"terminate-hook\"}"),
        1.0
    );
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn an_uncached_list_that_finds_the_node_keeps_its_hook_from_being_completed() {
    let stage = Stage::new(95);
    stage.group(2, 300);
    let ours = stage.group_without_nodes("late", 2, 86_400, &[continuing_hook("drain", 300)]);
    let sundown = stage.settled(&[]).await;
    // The watch has gone silent, and nobody has noticed yet: the index does not have the Node that
    // is there.
    stage.world.kube.silence_watches(&Match::of("watch", "nodes"));
    stage.world.join(&ours[0]);
    let node = stage.world.node_of(&ours[0]).unwrap();
    stage.world.kube.add_pod(&sundown::sim::kube::PodSpec::on(node.clone(), "shop", "web"));
    stage.pass(1).await;
    stage.world.kube.clear_journal();
    stage.world.aws.terminate(&ours[0], true);
    stage.until(10, "the node is cordoned", || stage.is_cordoned(&ours[0])).await;
    let lists = stage
        .world
        .kube
        .requests()
        .into_iter()
        .filter(|r| r.verb == "list" && r.resource == "nodes")
        .count();
    assert_eq!(lists, 1);
    stage.until(60, "it is completed", || completed_after(&stage, &ours[0]).is_some()).await;
    assert!(stage.world.kube.pods_on(&node).is_empty(), "not before its node was empty");
    assert_eq!(sundown.messages("terminate-hook", "accepted"), 1.0);
    sundown.stop().await;
    stage.end_except(
        &[judge::Rule::LoadBalancers, judge::Rule::Leader],
        "the journal begins after the nodes and the Lease",
    );
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_the_event_of_a_node_past_the_index_does_not_end_its_heartbeats() {
    let stage = Stage::new(97);
    stage.group(2, 300);
    let ours = stage.group_without_nodes("late", 2, 86_400, &[continuing_hook("drain", 60)]);
    let copies = stage.queue_for("copies", [EventKind::TerminateAction]);
    let sundown =
        stage.settled(&["--queue-url", &stage.world.queue_url(), "--queue-url", &copies]).await;
    stage.world.kube.silence_watches(&Match::of("watch", "nodes"));
    stage.world.join(&ours[0]);
    let node = stage.world.node_of(&ours[0]).unwrap();
    let shape = PodShape {
        grace: Some(Duration::from_secs(900)),
        stop: Some(Duration::from_secs(120)),
        ..PodShape::default()
    };
    stage.world.kube.add_pod(&PodSpec::on(node.clone(), "shop", "slow").shape(shape));
    stage.pass(1).await;
    stage.world.aws.terminate(&ours[0], true);
    let counted = |outcome| sundown.messages("terminate-hook", outcome);
    stage
        .until(20, "one is taken on, the other a repeat", || {
            (counted("accepted"), counted("repeat")) == (1.0, 1.0)
        })
        .await;
    stage.until(180, "it is completed", || completed_after(&stage, &ours[0]).is_some()).await;
    assert!(stage.world.kube.pods_on(&node).is_empty(), "not before its node was empty");
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn all_who_need_an_uncached_list_in_the_same_second_share_one() {
    let stage = Stage::new(96);
    stage.group(2, 300);
    let ours = stage.group_without_nodes("gone", 60, 86_400, &[continuing_hook("drain", 300)]);
    let sundown = stage.settled(&[]).await;
    stage.world.kube.clear_journal();
    stage.world.aws.scale_in("gone", 50);
    stage
        .until(20, "all are completed", || {
            ours[..50].iter().all(|i| completed_after(&stage, i).is_some())
        })
        .await;
    let lists = stage
        .world
        .kube
        .requests()
        .into_iter()
        .filter(|r| r.verb == "list" && r.resource == "nodes")
        .count();
    assert!((1..=3).contains(&lists), "{lists} lists for 50 instances");
    assert_eq!(sundown.messages("terminate-hook", "completed"), 50.0);
    sundown.stop().await;
    stage.end_except(&[judge::Rule::Leader], "the journal begins after the Lease was taken");
}

#[tokio::test(start_paused = true)]
async fn while_the_list_fails_nothing_is_completed_and_heartbeats_go_on() {
    let stage = Stage::new(97);
    stage.group(2, 300);
    let ours = stage.group_without_nodes("gone", 2, 86_400, &[continuing_hook("drain", 60)]);
    let sundown = stage.settled(&[]).await;
    let status = Fault::Status {
        code: 500,
        reason: "InternalError".into(),
        message: "etcd".into(),
        retry_after: None,
    };
    let rule = stage.world.kube.inject(Rule::always(Match::of("list", "nodes"), status));
    stage.world.aws.terminate(&ours[0], true);
    stage.pass(300).await;
    let action = &stage.actions(&ours[0])[0];
    assert!(
        action.end.is_none() && action.longest_gap(stage.clock.now()) <= Duration::from_secs(32),
        "{action:?}"
    );
    stage.world.kube.lift(rule);
    stage.until(30, "it is completed", || completed_after(&stage, &ours[0]).is_some()).await;
    assert_eq!(sundown.messages("terminate-hook", "completed"), 1.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn while_the_api_server_is_away_nothing_unknown_is_completed_and_heartbeats_go_on() {
    for (seed, how) in [(98, Away::Refusing), (99, Away::Silent)] {
        let stage = Stage::new(seed);
        let known = stage.group(2, 60);
        let ours = stage.group_without_nodes("gone", 2, 86_400, &[continuing_hook("drain", 60)]);
        // The leader must stay one: the Lease has no part in this.
        let flags = ["--lease-duration", "30m", "--lease-renew-deadline", "25m"];
        let sundown = stage.settled(&flags).await;
        stage.world.kube.go_away(how);
        stage.pass(20).await;
        stage.world.aws.terminate(&ours[0], true);
        stage.world.aws.terminate(&known[0], true);
        stage.pass(280).await;
        for instance in [&ours[0], &known[0]] {
            let action = &stage.actions(instance)[0];
            assert!(action.end.is_none(), "{how:?} {action:?}");
            assert!(
                action.longest_gap(stage.clock.now()) <= Duration::from_secs(40),
                "{how:?} {action:?}"
            );
        }
        assert_eq!(stage.in_queue(), 2, "kept");
        stage.world.kube.come_back();
        stage
            .until(200, "both are completed", || {
                [&ours[0], &known[0]].iter().all(|i| completed_after(&stage, i).is_some())
            })
            .await;
        assert_eq!(
            (
                sundown.messages("terminate-hook", "completed"),
                sundown.messages("terminate-hook", "accepted")
            ),
            (1.0, 1.0)
        );
        sundown.stop().await;
        stage.end();
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_cluster_name_nothing_unknown_is_completed_or_kept_alive_and_the_message_waits_for_its_node()
 {
    let logs = Logs::keep();
    let stage = Stage::new(100);
    stage.group(2, 300);
    let url = stage.queue_for("in", [EventKind::TerminateAction]);
    let sundown = stage.settled(&["--no-cluster-name", "--queue-url", &url]).await;
    assert_eq!(logs.with(&["WARN", "No --cluster-name is given"]).len(), 1);
    let ours = stage.group_without_nodes("asg", 3, 60, &[continuing_hook("drain", 600)]);
    stage.pass(1).await;
    stage.world.aws.terminate(&ours[0], true);
    stage.world.aws.terminate(&ours[1], true);
    stage.pass(100).await;
    stage.world.join(&ours[1]);
    stage.until(5, "the one that joins is taken on", || stage.is_cordoned(&ours[1])).await;
    stage.pass(120).await;
    assert_eq!(
        stage.bodies_in("in").len(),
        1,
        "the other waits until five minutes from its launch"
    );
    stage.until(30, "then it is deleted", || stage.bodies_in("in").is_empty()).await;
    assert_eq!(
        (
            sundown.messages("terminate-hook", "unknown"),
            sundown.messages("terminate-hook", "accepted")
        ),
        (1.0, 1.0)
    );
    stage.pass(300).await;
    assert_eq!(stage.hook_calls(&ours[0]), 0);
    assert!(stage.actions(&ours[0])[0].end.is_none());
    sundown.stop().await;
    stage.end_except(
        &[judge::Rule::Strangers, judge::Rule::Messages],
        "without --cluster-name tags say nothing",
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_cluster_name_an_instance_that_does_not_exist_is_foreign_where_nothing_is_owed() {
    let stage = Stage::new(101);
    stage.group(2, 300);
    let sundown = stage.settled(&["--no-cluster-name"]).await;
    let before = stage.clock.now();
    stage.send(&bodies::spot("i-00000000000000bad", &stage.now()));
    stage.send(&bodies::terminate("x", "drain", "i-00000000000000bad", &stage.now()));
    stage.until(10, "the warning is deleted", || stage.in_queue() == 1).await;
    assert_eq!(sundown.messages("spot", "foreign"), 1.0);
    stage.until(310, "and the hook after five minutes", || stage.in_queue() == 0).await;
    assert!(stage.clock.now().duration_since(before) >= jiff::SignedDuration::from_secs(299));
    assert_eq!(sundown.messages("terminate-hook", "unknown"), 1.0);
    assert_eq!(stage.hook_calls("i-00000000000000bad"), 0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_warning_about_an_instance_of_ours_that_never_joins_is_deleted_in_the_end() {
    let stage = Stage::new(102);
    stage.group(2, 300);
    let sundown = stage.settled(&[]).await;
    let young = stage
        .lone_instance(InstanceSpec { age: Duration::from_secs(120), ..stage.instance_of_ours() });
    let ended =
        stage.lone_instance(InstanceSpec { state: State::Terminated, ..stage.instance_of_ours() });
    stage.send(&bodies::spot(&young, &stage.now()));
    stage.send(&bodies::spot(&ended, &stage.now()));
    stage.until(10, "that of the ended one at once", || stage.in_queue() == 1).await;
    stage.pass(150).await;
    assert_eq!(stage.in_queue(), 1, "the other may still join");
    stage.until(40, "until five minutes from its launch", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("spot", "unknown"), 2.0);
    assert!(stage.kube_writes().is_empty());
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_warning_about_an_instance_that_the_index_lacks_is_kept_while_the_watch_of_nodes_fails() {
    let stage = Stage::new(103);
    stage.group(2, 300);
    let ours = stage.group_without_nodes("late", 1, 86_400, &[]);
    let sundown = stage.settled(&[]).await;
    let status = Fault::Status {
        code: 500,
        reason: "InternalError".into(),
        message: "etcd".into(),
        retry_after: None,
    };
    let fail = |verb: &str| {
        stage.world.kube.inject(Rule::always(Match::of(verb, "nodes"), status.clone()))
    };
    let rules = [fail("watch"), fail("list")];
    stage.world.kube.break_watches(&Match::of("watch", "nodes"));
    stage.pass(3).await;
    // The Node is there, and no watch tells of it. The instance is old enough to be taken for one
    // that never joins.
    stage.world.join(&ours[0]);
    stage.send(&bodies::spot(&ours[0], &stage.now()));
    stage.pass(40).await;
    assert_eq!(stage.in_queue(), 1, "{:?}", stage.kube_writes());
    rules.into_iter().for_each(|rule| stage.world.kube.lift(rule));
    stage.until(20, "its node is cordoned", || stage.is_cordoned(&ours[0])).await;
    assert_eq!(sundown.messages("spot", "accepted"), 1.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_launch_out_of_a_warm_pool_is_kept_while_the_watch_of_nodes_fails() {
    let stage = Stage::new(104);
    stage.group(2, 300);
    let sundown = stage.settled(&[]).await;
    let status = Fault::Status {
        code: 500,
        reason: "InternalError".into(),
        message: "etcd".into(),
        retry_after: None,
    };
    let fail = |verb: &str| {
        stage.world.kube.inject(Rule::always(Match::of(verb, "nodes"), status.clone()))
    };
    let rules = [fail("watch"), fail("list")];
    stage.world.kube.break_watches(&Match::of("watch", "nodes"));
    stage.pass(3).await;
    let instance = stage.lone_instance(stage.instance_of_ours());
    stage.send(&bodies::out_of_warm_pool("asg", &instance, &stage.now()));
    stage.pass(40).await;
    assert_eq!(stage.in_queue(), 1, "its Node may be there, with a record that is over");
    rules.into_iter().for_each(|rule| stage.world.kube.lift(rule));
    stage.until(20, "it is deleted", || stage.in_queue() == 0).await;
    assert!(stage.kube_writes().is_empty());
    sundown.stop().await;
    stage.end();
}
