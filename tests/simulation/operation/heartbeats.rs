//! Heartbeats: from the moment at which a hook is known to be ours until its completion is
//! accepted.

use sundown::sim::{
    aws::{Fault as AwsFault, FaultRule, HookResult, How, Verdict},
    kube::{Fault, Match, Rule},
};

use super::{gaps, hook};
use crate::{harness::Stage, judge};

const BEAT: &str = "autoscaling:RecordLifecycleActionHeartbeat";

#[tokio::test(start_paused = true)]
async fn c57_heartbeats_go_on_for_as_long_as_the_drain_and_end_with_it() {
    let stage = Stage::new(57);
    let instance = stage.group(1, 60).remove(0);
    stage.slow_pod(&instance, "slow", 100);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.terminate(&instance, true);
    stage.until(130, "the action is completed", || stage.is_over(&instance)).await;
    let action = stage.action(&instance);
    // The first at once, for its answer. Then one every 30 s; the first of them 15 to 30 s later,
    // so that hooks that came together do not beat together.
    assert!((4..=5).contains(&action.heartbeats.len()), "{action:?}");
    let gaps = gaps(&action);
    assert!(gaps[0] <= 1.0 && (15.0..=30.5).contains(&gaps[1]), "{gaps:?}");
    assert!(gaps[2..action.heartbeats.len()].iter().all(|g| (29.5..=30.5).contains(g)), "{gaps:?}");
    stage.completed_once(&instance);
    assert_eq!(
        sundown.metric("heartbeats_total{result=\"accepted\"}") as usize,
        action.heartbeats.len()
    );
    stage.pass(120).await;
    stage.completed_once(&instance);
    assert_eq!(sundown.metric("open_actions"), 0.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c58_c62_c67_no_heartbeat_is_sent_that_could_not_reach_beyond_the_global_timeout() {
    let stage = Stage::new(58);
    let instance = stage.group(1, 30).remove(0);
    stage.slow_pod(&instance, "slow", 9_000);
    let sundown = stage.lead("sundown-0", &["--drain-timeout", "6h"]).await;
    let node = stage.name_of(&instance);
    // Paused, the deadline neither forces nor completes: AWS's own end of the action is reached.
    stage.world.kube.edit("nodes", "", &node, |n| {
        n["metadata"]["annotations"]["sundown.dev/pause"] = "true".into();
    });
    stage.world.aws.terminate(&instance, true);
    stage.until(3_100, "AWS ends the action", || stage.is_over(&instance)).await;
    let action = stage.action(&instance);
    assert_eq!(action.end.as_ref().unwrap().verdict, Verdict::GlobalTimeout(HookResult::Continue));
    assert!(gaps(&action).iter().all(|g| *g <= 30.0), "no window ran out: {:?}", gaps(&action));
    assert!(
        (290..=303).contains(&action.heartbeats.len()),
        "one every 10 s: {}",
        action.heartbeats.len()
    );
    assert_eq!(action.late_calls.len(), 0, "nobody beats an action that must be over");
    sundown.kill();
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c62_c67_the_drain_is_ended_before_the_global_timeout() {
    let stage = Stage::new(67);
    let instance = stage.group(1, 30).remove(0);
    stage.slow_pod(&instance, "slow", 9_000);
    let sundown = stage.lead("sundown-0", &["--drain-timeout", "6h"]).await;
    stage.world.aws.terminate(&instance, true);
    stage.until(3_000, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    let action = stage.action(&instance);
    let left = action.global_end.duration_since(action.end.as_ref().unwrap().at);
    assert!(
        (55..=70).contains(&left.as_secs()),
        "60 s before the global timeout, less the time of a call: {left:?}"
    );
    // The same with a timeout of our own that comes first.
    sundown.stop().await;
    let stage2 = Stage::new(62);
    let instance = stage2.group(1, 30).remove(0);
    stage2.slow_pod(&instance, "slow", 9_000);
    let sundown = stage2.lead("sundown-0", &["--drain-timeout", "10m"]).await;
    stage2.world.aws.terminate(&instance, true);
    stage2.until(610, "the action is completed", || stage2.is_over(&instance)).await;
    stage2.completed_once(&instance);
    sundown.stop().await;
    stage2.end();
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c59_a_throttled_heartbeat_is_tried_again_in_time_and_without_spinning() {
    let stage = Stage::new(59);
    let instance = stage.group(1, 60).remove(0);
    stage.slow_pod(&instance, "slow", 300);
    let sundown = stage.lead("sundown-0", &[]).await;
    let throttled = stage.world.aws.fault(FaultRule::new(BEAT, AwsFault::Throttle, How::Always));
    stage.world.aws.terminate(&instance, true);
    // Two thirds of the timeout are 40 s.
    stage.pass(40).await;
    let failed = sundown.metric("heartbeats_total{result=\"failed\"}");
    // Up to five of them went at once, while the first eviction waited.
    assert!(
        (6.0..=13.0).contains(&failed),
        "at least three tries before two thirds of the timeout: {failed}"
    );
    stage.world.aws.end_fault(throttled);
    stage
        .until(10, "a heartbeat is accepted", || !stage.action(&instance).heartbeats.is_empty())
        .await;
    stage.until(290, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    let calls = stage.world.aws.count(BEAT);
    assert!(calls < 30, "{calls} heartbeats");
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_window_that_runs_out_is_the_deadline_and_counts_as_a_miss() {
    let stage = Stage::new(591);
    let instance = stage.group(1, 60).remove(0);
    stage.slow_pod(&instance, "slow", 3_000);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.fault(FaultRule::new(BEAT, AwsFault::InternalError, How::Always));
    stage.world.aws.terminate(&instance, true);
    stage.until(60, "the action is over", || stage.is_over(&instance)).await;
    // Completed by us, before AWS would have abandoned it.
    stage.completed_once(&instance);
    assert_eq!(sundown.metric("heartbeats_missed_total"), 1.0);
    let graces: Vec<_> = stage.removals().iter().map(|r| r.1).collect();
    assert!(graces.iter().any(|g| *g <= 20), "the pod was cut short to what was left: {graces:?}");
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c60_c66_an_action_that_somebody_else_ended_gets_one_more_heartbeat_and_the_drain_goes_on()
{
    let stage = Stage::new(60);
    let instance = stage.group(1, 60).remove(0);
    stage.slow_pod(&instance, "slow", 200);
    let sundown = stage.lead("sundown-0", &[]).await;
    // An action that does not move the instance: its end by others leaves the machine running.
    stage.world.aws.other_action("asg", "drain", &instance, &[]).unwrap();
    stage.until(5, "the node is cordoned", || stage.is_cordoned(&instance)).await;
    let node = stage.name_of(&instance);
    stage.pass(40).await;
    let before = stage.action(&instance).heartbeats.len();
    assert!(before >= 1);
    let deadline = sundown.drain(&node).unwrap().ends_at;
    assert!(deadline.is_some());
    assert!(stage.world.aws.complete_as("ops", "asg", "drain", &instance, HookResult::Continue));
    stage.pass(120).await;
    let action = stage.action(&instance);
    assert_eq!(
        action.late_calls.len(),
        1,
        "one more heartbeat tells, and no further one: {action:?}"
    );
    assert_eq!(sundown.metric("heartbeats_total{result=\"over\"}"), 1.0);
    assert_eq!(sundown.drain(&node).unwrap().drained, None, "the drain goes on");
    assert_eq!(sundown.drain(&node).unwrap().ends_at, deadline, "under the deadline that stands");
    stage
        .until(60, "the node is drained", || sundown.drain(&node).unwrap().drained.is_some())
        .await;
    assert_eq!(sundown.drain(&node).unwrap().phase, "empty");
    stage
        .until(5, "what is gone is not completed", || {
            sundown.metric("completions_total{result=\"gone\"}") == 1.0
        })
        .await;
    assert_eq!(
        stage.action(&instance).late_calls.len(),
        1,
        "no completion is sent for what is known to be over"
    );
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c61_a_release_by_hand_ends_the_heartbeats_with_the_completion() {
    let stage = Stage::new(61);
    let instance = stage.group(1, 60).remove(0);
    stage.slow_pod(&instance, "slow", 1_000);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(65).await;
    let node = stage.name_of(&instance);
    assert_eq!(stage.action(&instance).heartbeats.len(), 3, "one of them at once");
    stage.world.kube.edit("nodes", "", &node, |n| {
        n["metadata"]["annotations"]["sundown.dev/release"] = "true".into();
    });
    stage.until(2, "the action is completed", || stage.is_over(&instance)).await;
    stage.pass(60).await;
    stage.completed_once(&instance);
    assert_eq!(stage.action(&instance).heartbeats.len(), 3, "one of them at once");
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c63_the_interval_comes_from_the_hook_itself() {
    let stage = Stage::new(63);
    let long = stage.group_with("long", 1, &[hook("drain", 600)]).remove(0);
    let short = stage.group_with("short", 1, &[hook("drain", 45)]).remove(0);
    for instance in [&long, &short] {
        stage.slow_pod(instance, &format!("slow-{instance}"), 2_000);
    }
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.terminate(&long, true);
    stage.world.aws.terminate(&short, true);
    stage.pass(1_800).await;
    for (instance, interval) in [(&long, 300.0), (&short, 15.0)] {
        let action = stage.action(instance);
        let gaps = gaps(&action);
        assert!(gaps[0] <= 1.0, "{gaps:?}");
        assert!(gaps[1] <= interval + 0.5 && gaps[1] >= interval / 2.0 - 0.5, "{gaps:?}");
        assert!(
            gaps[2..].iter().all(|g| (g - interval).abs() < 0.5),
            "half of the timeout, a third under 60 s: {gaps:?}"
        );
    }
    assert_eq!(
        stage.world.aws.count("autoscaling:DescribeLifecycleHooks"),
        2,
        "described once each"
    );
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c63_a_hook_that_cannot_be_described_gets_heartbeats_as_if_it_had_thirty_seconds() {
    let stage = Stage::new(631);
    let instance = stage.group(1, 600).remove(0);
    stage.slow_pod(&instance, "slow", 300);
    let sundown = stage.lead("sundown-0", &[]).await;
    let denied = stage.world.aws.fault(FaultRule::new(
        "autoscaling:DescribeLifecycleHooks",
        AwsFault::AccessDenied,
        How::Always,
    ));
    stage.world.aws.terminate(&instance, true);
    stage.pass(100).await;
    let early = gaps(&stage.action(&instance));
    assert!(early.len() >= 9 && early.iter().all(|g| *g <= 10.5), "every 10 s: {early:?}");
    let tries = stage.world.aws.count("autoscaling:DescribeLifecycleHooks");
    assert!((2..=40).contains(&tries), "asked on, but not without pause: {tries}");
    // Described at last: from then on half of 600 s.
    stage.world.aws.end_fault(denied);
    stage.pass(60).await;
    let heartbeats = stage.action(&instance).heartbeats.len();
    stage.until(200, "the action is completed", || stage.is_over(&instance)).await;
    assert!(stage.action(&instance).heartbeats.len() <= heartbeats + 1);
    stage.completed_once(&instance);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c63_a_hook_that_is_gone_when_its_event_is_read_is_contradicted_and_not_asked_about_for_ever()
 {
    let stage = Stage::new(632);
    let instance = stage.group(2, 600).remove(0);
    stage.slow_pod(&instance, "slow", 100);
    // An action that does not move the instance, and a hook that is removed before anybody reads of
    // it.
    stage.world.aws.other_action("asg", "drain", &instance, &[]).unwrap();
    stage.world.aws.remove_hook("asg", "drain");
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.until(10, "the node is cordoned", || stage.is_cordoned(&instance)).await;
    stage
        .until(150, "its drain ends", || {
            sundown.metric("drains_total{end=\"contradicted\"}") == 1.0
        })
        .await;
    stage.until(5, "no action is open", || sundown.metric("open_actions") == 0.0).await;
    stage.pass(300).await;
    let describes = stage.world.aws.count("autoscaling:DescribeLifecycleHooks");
    assert!((1..=10).contains(&describes), "{describes} descriptions");
    assert!(stage.action(&instance).late_calls.len() <= 1, "{:?}", stage.action(&instance));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c64_an_event_that_is_read_late_gets_a_heartbeat_at_once() {
    let stage = Stage::new(64);
    let instance = stage.group(1, 120).remove(0);
    stage.slow_pod(&instance, "slow", 100);
    stage.world.aws.terminate(&instance, true);
    stage.pass(70).await;
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.until(3, "the first heartbeat", || !stage.action(&instance).heartbeats.is_empty()).await;
    stage.until(120, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn heartbeats_do_not_wait_for_a_node_that_cannot_be_patched() {
    let stage = Stage::new(65);
    let instance = stage.group(1, 60).remove(0);
    let sundown = stage.lead("sundown-0", &[]).await;
    let rule = stage.world.kube.inject(Rule::always(Match::of("patch", "nodes"), Fault::Hang));
    stage.world.aws.terminate(&instance, true);
    stage.pass(300).await;
    assert!(!stage.is_cordoned(&instance));
    let action = stage.action(&instance);
    assert!(action.end.is_none() && gaps(&action).iter().all(|g| *g <= 30.5), "{action:?}");
    assert!(action.heartbeats.len() >= 9);
    stage.world.kube.lift(rule);
    stage.until(30, "the node is cordoned", || stage.is_cordoned(&instance)).await;
    stage.until(60, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    stage.until(10, "the message is deleted", || stage.in_queue() == 0).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c65_two_hundred_hooks_of_a_minute_are_all_kept_open() {
    let stage = Stage::new(652);
    let instances = stage.group(200, 60);
    for (n, instance) in instances.iter().enumerate() {
        stage.slow_pod(instance, &format!("slow-{n}"), 400);
    }
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.scale_in("asg", 200);
    stage.pass(380).await;
    let actions = stage.world.aws.actions();
    assert_eq!(actions.len(), 200);
    for action in &actions {
        assert!(action.end.is_none() && gaps(action).iter().all(|g| *g <= 31.0), "{action:?}");
    }
    stage.until(60, "all are completed", || stage.all_over()).await;
    stage.all_completed_once();
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_thousand_hooks_are_kept_open_without_bursts() {
    let stage = Stage::new(1_000);
    let instances = stage.group(1_000, 300);
    for (n, instance) in instances.iter().enumerate() {
        stage.slow_pod(instance, &format!("slow-{n}"), 900);
    }
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.scale_in("asg", 1_000);
    stage.pass(880).await;
    let actions = stage.world.aws.actions();
    let mut seconds = std::collections::BTreeMap::<i64, usize>::new();
    for action in &actions {
        assert!(action.end.is_none() && gaps(action).iter().all(|g| *g <= 151.0), "{action:?}");
        action.heartbeats.iter().for_each(|b| *seconds.entry(b.as_second()).or_default() += 1);
    }
    let busiest = seconds.values().max().unwrap();
    assert!(*busiest <= 40, "{busiest} heartbeats in one second");
    stage.until(120, "all are completed", || stage.all_over()).await;
    stage.all_completed_once();
    sundown.stop().await;
    stage.end_except(&[judge::Rule::TrueEvents], "a thousand Events take 50 s, at 20 a second");
}
