//! Many interruptions at once, and several of one node.

use std::{collections::BTreeSet, time::Duration};

use sundown::sim::{
    WorldSettings,
    aws::{Disorder, SpotAction, State},
    kube::{Fact, Fault, Match, Rule, Workload},
};

use super::{hook, s};
use crate::harness::Stage;

fn patches(stage: &Stage) -> usize {
    stage
        .world
        .kube
        .requests()
        .iter()
        .filter(|r| r.verb == "patch" && r.resource == "nodes")
        .count()
}

#[tokio::test(start_paused = true)]
async fn c76_c77_a_hundred_spot_notices_at_once_are_all_accepted_with_one_patch_each() {
    let stage = Stage::new(77);
    let instances = stage.spot_group(220);
    stage.world.kube.add_deployment(&Workload::new("shop", "web", 400));
    stage.pass(60).await;
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.clear_journal();
    let doomed: BTreeSet<_> = instances[..100].iter().cloned().collect();
    doomed.iter().for_each(|i| stage.world.aws.spot_interruption(i, SpotAction::Terminate));
    stage.until(2, "all are cordoned", || doomed.iter().all(|i| stage.is_cordoned(i))).await;
    assert_eq!(patches(&stage), 100, "one PATCH each");
    let (receives, deletes) = (
        stage.world.aws.count("sqs:ReceiveMessage"),
        stage.world.aws.count("sqs:DeleteMessageBatch"),
    );
    assert!(receives <= 40, "{receives} receives");
    stage.until(2, "their messages are deleted", || stage.in_queue() == 0).await;
    assert_eq!(stage.world.aws.deletions().len(), 100);
    assert!(stage.world.aws.count("sqs:DeleteMessageBatch") <= 40, "{deletes}");
    assert_eq!(sundown.messages("spot", "accepted"), 100.0);
    assert_eq!(
        stage.world.aws.count("ec2:DescribeInstances"),
        0,
        "no AWS call for a node that the cluster knows"
    );
    // Nothing was evicted onto a doomed node.
    let names: BTreeSet<_> = doomed.iter().map(|i| stage.name_of(i)).collect();
    stage.pass(100).await;
    let begun =
        stage.deeds().into_iter().find(|e| matches!(e.fact, Fact::Evicted { .. })).unwrap().at;
    let bound = stage.world.kube.journal().into_iter().filter(|e| e.at >= begun);
    let astray =
        bound.filter(|e| matches!(&e.fact, Fact::Bound(pod) if names.contains(&pod.node))).count();
    assert_eq!(astray, 0);
    assert!(
        names.iter().all(|n| stage.world.kube.pods_on(n).is_empty()),
        "all are drained in time"
    );
    sundown.stop().await;
    stage.end();
}

/// As a real queue with few messages does (github.com/boto/boto3/issues/324).
#[tokio::test(start_paused = true)]
async fn c76_a_burst_is_accepted_as_fast_where_sqs_brings_one_or_two_messages_a_call() {
    let stage = Stage::new(761);
    let instances = stage.spot_group(220);
    stage.pass(60).await;
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.disorder(
        stage.world.queue(),
        Disorder { partial: 1.0, reorder: 1.0, ..Disorder::default() },
    );
    for instance in &instances[..200] {
        stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stage
        .until(2, "all are cordoned", || instances[..200].iter().all(|i| stage.is_cordoned(i)))
        .await;
    assert_eq!(sundown.messages("spot", "accepted"), 200.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c77_kubelets_that_write_their_status_meanwhile_lose_no_notice_and_cost_few_conflicts() {
    let mut settings = WorldSettings::seeded(770);
    settings.kube.timing.node_status = Some(s(10));
    let stage = Stage::with(settings);
    let instances = stage.spot_group(200);
    stage.pass(30).await;
    let sundown = stage.lead("sundown-0", &[]).await;
    // From the reading of a Node to the arrival of its PATCH there is time for a kubelet.
    stage
        .world
        .kube
        .inject(Rule::always(Match::of("patch", "nodes"), Fault::Slow(Duration::from_millis(300))));
    instances[..100]
        .iter()
        .for_each(|i| stage.world.aws.spot_interruption(i, SpotAction::Terminate));
    stage
        .until(2, "all are cordoned", || instances[..100].iter().all(|i| stage.is_cordoned(i)))
        .await;
    let patches: Vec<_> = stage
        .world
        .kube
        .requests()
        .into_iter()
        .filter(|r| r.verb == "patch" && r.resource == "nodes")
        .collect();
    let conflicts = patches.iter().filter(|r| r.status == 409).count();
    assert!((1..=15).contains(&conflicts), "{conflicts} conflicts");
    assert!(patches.len() <= 100 + conflicts, "{} patches", patches.len());
    stage.until(2, "their messages are deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("spot", "accepted"), 100.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c78_a_spot_notice_begins_at_once_while_thirty_two_long_drains_run() {
    let stage = Stage::new(78);
    let instances = stage.group(32, 300);
    for (n, instance) in instances.iter().enumerate() {
        stage.slow_pod(instance, &format!("slow-{n}"), 1_800);
        stage.blocked_pod(instance, &format!("blocked-{n}"), 30);
    }
    let spot = stage.spot_group(1).remove(0);
    for n in 0..10 {
        stage.slow_pod(&spot, &format!("spot-{n}"), 20);
    }
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.scale_in("asg", 32);
    stage.pass(120).await;
    assert_eq!(sundown.metric("drains_active"), 32.0);
    stage.world.aws.spot_interruption(&spot, SpotAction::Terminate);
    stage.until(1, "it is cordoned", || stage.is_cordoned(&spot)).await;
    stage
        .until(1, "all of its pods are asked to go", || {
            stage.removals().iter().filter(|r| r.0.starts_with("spot-")).count() == 10
        })
        .await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c78_a_spot_notice_goes_first_while_the_evictions_of_hooks_fill_every_slot() {
    let stage = Stage::new(178);
    let instances = stage.group(32, 300);
    for (n, instance) in instances.iter().enumerate() {
        (0..20).for_each(|i| stage.slow_pod(instance, &format!("hook-{n}-{i}"), 20));
    }
    let spot = stage.spot_group(1).remove(0);
    for n in 0..10 {
        stage.slow_pod(&spot, &format!("spot-{n}"), 20);
    }
    let sundown = stage.lead("sundown-0", &[]).await;
    let half = std::time::Duration::from_millis(500);
    stage.world.kube.inject(Rule::always(Match::evictions(), Fault::Slow(half)));
    let asked = |kind: &str| stage.removals().iter().filter(|r| r.0.starts_with(kind)).count();
    stage.world.aws.scale_in("asg", 32);
    stage.until(20, "the first are asked to go", || asked("hook-") > 0).await;
    stage.world.aws.spot_interruption(&spot, SpotAction::Terminate);
    stage.until(1, "it is cordoned", || stage.is_cordoned(&spot)).await;
    // Until a slot is free, and the time that the API server takes.
    stage.until(2, "all of its pods are asked to go", || asked("spot-") == 10).await;
    assert!(asked("hook-") < 400, "most of the others still wait: {}", asked("hook-"));
    stage.until(30, "nobody is forgotten", || asked("hook-") == 640).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c69_an_event_that_comes_twice_counts_once() {
    let stage = Stage::new(69);
    let instance = stage.spot_group(3).remove(0);
    stage.slow_pod(&instance, "slow", 20);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.spot_warning(&instance, "the-same");
    stage.pass(3).await;
    let before = (patches(&stage), stage.record(&instance));
    stage.spot_warning(&instance, "the-same");
    stage.until(5, "the copy is a repeat", || sundown.messages("spot", "repeat") == 1.0).await;
    assert_eq!((patches(&stage), stage.record(&instance)), before);
    stage.until(5, "both are deleted", || stage.in_queue() == 0).await;
    assert_eq!(stage.removals().len(), 1);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c71_s27_two_hooks_and_a_spot_notice_of_one_node_are_one_drain_and_two_completions() {
    let stage = Stage::new(71);
    let instance = stage.group_with("asg", 2, &[hook("drain", 300), hook("logs", 60)]).remove(0);
    stage.slow_pod(&instance, "slow", 40);
    stage.blocked_pod(&instance, "quorum", 10);
    let sundown = stage.lead("sundown-0", &[]).await;
    let node = stage.name_of(&instance);
    stage.world.aws.terminate(&instance, true);
    stage.until(5, "the node is cordoned", || stage.is_cordoned(&instance)).await;
    stage
        .until(5, "its deadline is shown", || {
            sundown.drain(&node).is_some_and(|d| d.ends_at.is_some())
        })
        .await;
    let long = sundown.drain(&node).unwrap().ends_at.unwrap();
    stage.world.aws.spot_interruption(&instance, SpotAction::Terminate);
    stage.world.aws.rebalance_recommendation(&instance);
    stage.until(5, "the spot notice joins", || sundown.messages("spot", "joined") == 1.0).await;
    stage
        .until(5, "the earliest deadline rules", || {
            sundown.drain(&node).unwrap().ends_at.unwrap() < long
        })
        .await;
    stage
        .until(110, "both are completed", || {
            stage.actions(&instance).len() == 2 && stage.is_over(&instance)
        })
        .await;
    assert_eq!(
        stage.world.aws.instance(&instance).unwrap().state,
        State::ShuttingDown,
        "before AWS takes it"
    );
    stage.completed_once(&instance);
    assert_eq!(sundown.metric("completions_total{result=\"accepted\"}"), 2.0);
    assert_eq!(sundown.metric("drain_duration_seconds_count{end=\"empty\"}"), 1.0, "one drain");
    stage.until(20, "all messages are deleted", || stage.in_queue() == 0).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c79_a_node_that_is_gone_before_its_message_is_read_is_completed_without_a_drain() {
    let stage = Stage::new(79);
    let hooked = stage.group(2, 300).remove(0);
    let spot = stage.spot_group(2).remove(0);
    let sundown = stage.lead("sundown-0", &[]).await;
    for instance in [&hooked, &spot] {
        stage.world.kube.delete_node(&stage.name_of(instance));
    }
    stage.pass(1).await;
    stage.world.aws.terminate(&hooked, true);
    stage.world.aws.terminate_in_ec2(&spot);
    stage.spot_warning(&spot, "spot-1");
    // The instance of the hook still runs, so it might become a Node yet: the action gets
    // heartbeats, and is completed five minutes after the launch.
    stage.until(310, "the action is completed", || stage.is_over(&hooked)).await;
    stage.completed_once(&hooked);
    let (launched, ended) = (
        stage.world.aws.instance(&hooked).unwrap().launched,
        stage.action(&hooked).end.unwrap().at,
    );
    let bound = (launched + s(300)).max(stage.action(&hooked).started);
    let after = ended.duration_since(bound).as_secs_f64();
    assert!((0.0..=5.0).contains(&after), "{after} s after it could no longer become a Node");
    stage.until(60, "all messages are deleted", || stage.in_queue() == 0).await;
    assert_eq!(stage.removals(), []);
    assert_eq!((patches(&stage), sundown.metric("drains_active")), (0, 0.0), "without a drain");
    assert_eq!(sundown.messages("terminate-hook", "completed"), 1.0);
    assert_eq!(sundown.metric("open_actions"), 0.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_spot_notice_that_joins_a_node_of_a_burst_waits_for_it_no_longer_than_a_spot_notice_does()
{
    let stage = Stage::new(80);
    let instances = stage.group(3, 300);
    stage.slow_pod(&instances[0], "slow", 5);
    let sundown = stage.lead("sundown-0", &[]).await;
    // The other one of the burst is undecided for as long as its PATCH is not answered.
    let patch = Match::of("patch", "nodes").named(stage.name_of(&instances[1]));
    stage.world.kube.inject(Rule::always(patch, Fault::Hang));
    stage.world.aws.terminate(&instances[0], true);
    stage.world.aws.terminate(&instances[1], true);
    stage.until(2, "it is cordoned", || stage.is_cordoned(&instances[0])).await;
    let accepted = stage.clock.now();
    stage.spot_warning(&instances[0], "spot-1");
    stage.until(5, "it is evicted from", || !stage.removals().is_empty()).await;
    let waited = stage.clock.now().since_or_zero(accepted).as_secs_f64();
    assert!(waited <= 1.0, "{waited} s");
    assert_eq!(sundown.messages("spot", "joined"), 1.0);
    sundown.kill();
    stage.end();
}
