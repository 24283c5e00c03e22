//! Deadlines: what a drain is held to, when it is known, and from when it counts.

use sundown::sim::{
    aws::{Fault as AwsFault, FaultRule, How},
    kube::{BudgetSpec, Fact, Fault, Match, PodShape, PodSpec, Rule},
};

use super::{gaps, hook, s};
use crate::harness::Stage;

#[tokio::test(start_paused = true)]
async fn c50_a_budget_that_never_gives_way_is_overruled_in_time_after_three_hours_of_heartbeats() {
    let stage = Stage::new(50);
    let instance = stage.group(1, 300).remove(0);
    stage.blocked_pod(&instance, "quorum", 30);
    let sundown = stage.lead("sundown-0", &["--drain-timeout", "3h"]).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(10_750).await;
    assert_eq!(stage.removals(), []);
    stage.until(60, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    let action = stage.action(&instance);
    let took = action.end.as_ref().unwrap().at.since_or_zero(action.started).as_secs();
    // Asked to go 30 s before the deadline (less its margin of 5 s), and gone a second later.
    assert!((10_760..=10_790).contains(&took), "{took}");
    assert!(
        (71..=73).contains(&action.heartbeats.len()),
        "one every 150 s: {}",
        action.heartbeats.len()
    );
    let removals = stage.removals();
    assert_eq!(removals.len(), 1);
    let (pod, grace, deleted, _) = &removals[0];
    assert_eq!((pod.as_str(), *grace, *deleted), ("quorum", 30, true));
    assert_eq!(sundown.metric("pods_forced_total"), 1.0);
    assert_eq!(sundown.metric("deadline_misses_total"), 0.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c51_c74_a_pod_that_ignores_its_signal_gets_its_whole_grace_within_the_one_deadline() {
    let stage = Stage::new(51);
    let instance = stage.group(1, 300).remove(0);
    let shape = PodShape { grace: Some(s(1_200)), stop: Some(s(1_500)), ..PodShape::default() };
    stage.world.kube.add_pod(
        &PodSpec::on(stage.name_of(&instance), "shop", "deaf").shape(shape).label("app", "deaf"),
    );
    stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "deaf").max(0));
    let sundown = stage.lead("sundown-0", &["--drain-timeout", "3h"]).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(9_580).await;
    assert_eq!(stage.removals(), []);
    assert_eq!(stage.in_queue(), 0, "no message is in flight meanwhile");
    stage.pass(1_150).await;
    assert!(!stage.is_over(&instance), "its grace is not over");
    stage.until(100, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    let action = stage.action(&instance);
    let took = action.end.as_ref().unwrap().at.since_or_zero(action.started).as_secs();
    assert!(
        (10_785..=10_800).contains(&took),
        "with the deadline, not before and not after: {took}"
    );
    let removals = stage.removals();
    assert_eq!(removals.len(), 1, "nothing cuts it short: {removals:?}");
    assert!((1_199..=1_200).contains(&removals[0].1), "{removals:?}");
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_provisional_deadline_is_replaced_by_the_first_description_even_if_that_is_later() {
    let stage = Stage::new(901);
    let instance = stage.group_with("long", 1, &[hook("drain", 7_200)]).remove(0);
    stage.blocked_pod(&instance, "quorum", 30);
    let sundown = stage.lead("sundown-0", &[]).await;
    let node = stage.name_of(&instance);
    let denied = stage.world.aws.fault(FaultRule::new(
        "autoscaling:DescribeLifecycleHooks",
        AwsFault::AccessDenied,
        How::Always,
    ));
    stage.world.aws.terminate(&instance, true);
    stage.pass(600).await;
    let drain = sundown.drain(&node).unwrap();
    assert_eq!(
        drain.ends_at,
        Some(drain.cordoned.plus(s(3_598))),
        "an hour, less the time of a call"
    );
    stage.pass(2_400).await;
    stage.world.aws.end_fault(denied);
    stage.pass(60).await;
    let drain = sundown.drain(&node).unwrap();
    assert_eq!(drain.ends_at, Some(drain.cordoned.plus(s(7_198))), "the hook's own timeout");
    stage.pass(3_600).await;
    assert_eq!(stage.removals(), []);
    stage.until(700, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert!(gaps(&stage.action(&instance)).iter().all(|g| *g <= 3_600.5));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_hook_deadline_that_is_over_at_the_take_over_is_counted_from_there() {
    let stage = Stage::new(902);
    let instance = stage.group_with("asg", 1, &[hook("drain", 3_600)]).remove(0);
    stage.blocked_pod(&instance, "quorum", 30);
    let first = stage.lead("sundown-0", &["--drain-timeout", "10m"]).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(300).await;
    first.kill();
    stage.pass(600).await;
    let second = stage.lead("sundown-1", &["--drain-timeout", "10m"]).await;
    let up = stage.clock.now();
    stage.pass(3).await;
    let ends = second.drain(&stage.name_of(&instance)).unwrap().ends_at.unwrap();
    let left = ends.since_or_zero(up).as_secs();
    assert!((595..=601).contains(&left), "ten minutes from the take-over: {left}");
    stage.pass(500).await;
    assert_eq!(stage.removals(), [], "nothing is forced at the take-over");
    stage.until(100, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    second.stop().await;
    stage.end();
}

/// Its own grace period is longer than the time there is, so nothing but the first half of that
/// time defers its force.
#[tokio::test(start_paused = true)]
async fn a_pod_with_a_long_grace_is_not_forced_at_the_take_over_when_its_hooks_deadline_counts_anew()
 {
    let stage = Stage::new(909);
    let instance = stage.group_with("asg", 1, &[hook("drain", 3_600)]).remove(0);
    stage.blocked_pod(&instance, "quorum", 1_200);
    let first = stage.lead("sundown-0", &["--drain-timeout", "10m"]).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(200).await;
    first.kill();
    stage.pass(600).await;
    let second = stage.lead("sundown-1", &["--drain-timeout", "10m"]).await;
    stage.pass(280).await;
    assert_eq!(stage.removals(), [], "not in the first half of ten minutes");
    stage.until(30, "it is forced in the middle", || stage.removals().len() == 1).await;
    let (_, grace, deleted, _) = &stage.removals()[0];
    assert!(*deleted && (295..=299).contains(grace), "{grace}");
    stage.until(320, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_hook_deadline_that_lies_ahead_at_the_take_over_stays_where_it_was() {
    let stage = Stage::new(903);
    let instance = stage.group_with("asg", 1, &[hook("drain", 3_600)]).remove(0);
    stage.blocked_pod(&instance, "quorum", 30);
    let first = stage.lead("sundown-0", &["--drain-timeout", "20m"]).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(300).await;
    let ends = first.drain(&stage.name_of(&instance)).unwrap().ends_at;
    first.kill();
    stage.pass(300).await;
    let second = stage.lead("sundown-1", &["--drain-timeout", "20m"]).await;
    stage.pass(3).await;
    assert_eq!(second.drain(&stage.name_of(&instance)).unwrap().ends_at, ends);
    stage.until(1_200, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    let at = stage.action(&instance).end.unwrap().at;
    assert!(at <= ends.unwrap().plus(s(2)));
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_spot_deadline_that_is_over_at_the_take_over_shortens_and_forces_nothing() {
    let stage = Stage::new(904);
    let instance = stage.spot_group(2).remove(0);
    stage.blocked_pod(&instance, "quorum", 300);
    let first = stage.lead("sundown-0", &["--drain-timeout", "30m"]).await;
    stage.spot_warning(&instance, "spot-1");
    stage.pass(20).await;
    assert!(stage.is_cordoned(&instance));
    first.kill();
    stage.pass(160).await;
    let second = stage.lead("sundown-1", &["--drain-timeout", "30m"]).await;
    stage.pass(600).await;
    assert_eq!(stage.removals(), []);
    stage.world.kube.delete("poddisruptionbudgets", "shop", "quorum");
    stage.until(2, "the pod is evicted when its budget goes", || stage.removals().len() == 1).await;
    assert_eq!(stage.removals()[0].1, 300, "with its own grace");
    stage
        .until(10, "the node is drained", || {
            second.drain(&stage.name_of(&instance)).unwrap().phase == "empty"
        })
        .await;
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn without_a_deadline_a_drain_ends_after_the_drain_timeout() {
    let stage = Stage::new(905);
    let instance = stage.spot_group(2).remove(0);
    stage.blocked_pod(&instance, "quorum", 300);
    let first = stage.lead("sundown-0", &["--drain-timeout", "10m"]).await;
    stage.spot_warning(&instance, "spot-1");
    stage.pass(20).await;
    first.kill();
    stage.pass(160).await;
    let second = stage.lead("sundown-1", &["--drain-timeout", "10m"]).await;
    stage.pass(590).await;
    assert_eq!(second.metric("drains_active"), 1.0);
    stage
        .until(20, "the drain ends", || second.metric("drains_total{end=\"timed_out\"}") == 1.0)
        .await;
    assert_eq!(stage.removals(), []);
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn what_nobody_could_keep_alive_is_forced_before_its_first_window_ends_also_by_the_next_leader()
 {
    let stage = Stage::new(56);
    let instance = stage.group(1, 300).remove(0);
    stage.blocked_pod(&instance, "quorum", 30);
    stage.world.aws.fault(FaultRule::new(
        "autoscaling:RecordLifecycleActionHeartbeat",
        AwsFault::AccessDenied,
        How::Always,
    ));
    let first = stage.lead("sundown-0", &[]).await;
    let second = stage.start("sundown-1", &[]);
    stage.pass(5).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(240).await;
    assert_eq!(stage.removals(), []);
    first.kill();
    stage.until(20, "the standby leads", || second.metrics.leads()).await;
    stage.until(40, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(
        stage.removals().iter().map(|r| (r.0.as_str(), r.2)).collect::<Vec<_>>(),
        [("quorum", true)]
    );
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_forced_delete_that_is_answered_after_the_end_of_its_drain_is_reported() {
    let stage = Stage::new(1573);
    let instance = stage.spot_group(2).remove(0);
    stage.blocked_pod(&instance, "web", 30);
    let node = stage.world.node_of(&instance).unwrap();
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.kube.inject(Rule::always(Match::of("delete", "pods"), Fault::SlowAnswer(s(3))));
    stage.spot_warning(&instance, "spot-1");
    let forced = || stage.deeds().iter().any(|e| matches!(e.fact, Fact::Deleted { .. }));
    stage.until(110, "it is forced", forced).await;
    stage.world.kube.delete_node(&node);
    stage.pass(1).await;
    assert_eq!(sundown.metric("drains_total{end=\"node_gone\"}"), 1.0);
    stage.pass(10).await;
    let told: Vec<_> =
        stage.events().into_iter().filter(|e| e.reason == "Forced").map(|e| e.name).collect();
    assert_eq!(told, ["web"]);
    sundown.stop().await;
    stage.end();
}
