//! Many heartbeats at once: late ones, failing ones, those of a take-over.

use std::collections::BTreeMap;

use sundown::{
    domain::Moment,
    sim::aws::{Fault as AwsFault, FaultRule, How},
};

use super::{BEAT, gaps, s};
use crate::{harness::Stage, judge};

/// When heartbeats were sent, by whom, for what.
fn sent(stage: &Stage) -> Vec<(Moment, String, String)> {
    let mut all: Vec<_> = stage
        .world
        .aws
        .calls()
        .into_iter()
        .filter(|c| c.api == BEAT)
        .map(|c| (c.at, c.by, c.object))
        .collect();
    all.sort();
    all
}

/// At most so many of these moments in any second.
fn at_most(most: usize, moments: &[Moment]) {
    // The calls of one moment are not all answered in the same millisecond.
    let slack = std::time::Duration::from_millis(20);
    let dense = moments.windows(most + 1).find(|w| w[most].since_or_zero(w[0]) + slack < s(1));
    assert!(dense.is_none(), "more than {most} in a second: {dense:?}");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_late_hooks_are_kept_alive_one_after_the_other_and_none_runs_out() {
    let stage = Stage::new(911);
    let instances = stage.group(1_000, 300);
    for (n, instance) in instances.iter().enumerate() {
        stage.slow_pod(instance, &format!("slow-{n}"), 900);
    }
    stage.world.aws.scale_in("asg", 1_000);
    stage.pass(80).await;
    stage.world.aws.fault(FaultRule::new("autoscaling:*", AwsFault::Throttle, How::Beyond(30)));
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.pass(270).await;
    let actions = stage.world.aws.actions();
    assert_eq!(actions.len(), instances.len());
    assert!(actions.iter().all(|a| a.end.is_none() && !a.heartbeats.is_empty()));
    let moments: Vec<_> = sent(&stage).into_iter().map(|(at, ..)| at).collect();
    at_most(40, &moments);
    assert!(moments.len() < 4_000, "{}", moments.len());
    sundown.kill();
    stage.end_except(&[judge::Rule::TrueEvents], "a thousand Events take 50 s, at 20 a second");
}

#[tokio::test(start_paused = true)]
async fn proofs_that_are_throttled_are_asked_for_no_faster_than_other_heartbeats() {
    let stage = Stage::new(912);
    let instances = stage.group(300, 300);
    for (n, instance) in instances.iter().enumerate() {
        stage.slow_pod(instance, &format!("slow-{n}"), 900);
    }
    stage.world.aws.scale_in("asg", 300);
    stage.pass(80).await;
    // Not described, they are stale after 30 s, and only a heartbeat tells that they are open.
    let throttled =
        stage.world.aws.fault(FaultRule::new("autoscaling:*", AwsFault::Throttle, How::Always));
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.pass(60).await;
    stage.world.aws.end_fault(throttled);
    let moments: Vec<_> = sent(&stage).into_iter().map(|(at, ..)| at).collect();
    at_most(40, &moments);
    stage.pass(120).await;
    let actions = stage.world.aws.actions();
    assert_eq!(actions.len(), instances.len());
    assert!(actions.iter().all(|a| a.end.is_none() && !a.heartbeats.is_empty()));
    sundown.kill();
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_proof_that_is_not_allowed_is_asked_for_slowly() {
    let stage = Stage::new(913);
    let instance = stage.group(1, 3_600).remove(0);
    stage.slow_pod(&instance, "slow", 2_000);
    stage.world.aws.terminate(&instance, true);
    stage.pass(60).await;
    let sundown = stage.start("sundown-0", &[]);
    let denied =
        stage.world.aws.fault(FaultRule::new("autoscaling:*", AwsFault::AccessDenied, How::Always));
    stage.pass(600).await;
    let calls = stage.world.aws.count(BEAT);
    assert!((5..60).contains(&calls), "{calls} heartbeats in ten minutes");
    stage.world.aws.end_fault(denied);
    stage.until(35, "it gets a heartbeat", || !stage.action(&instance).heartbeats.is_empty()).await;
    sundown.kill();
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_take_over_of_more_than_a_thousand_keeps_those_alive_with_least_time_first() {
    let stage = Stage::new(914);
    let long = stage.group_with("long", 1_050, &[super::hook("drain", 600)]);
    let short = stage.group_with("short", 50, &[super::hook("drain", 60)]);
    for (n, instance) in long.iter().chain(&short).enumerate() {
        stage.slow_pod(instance, &format!("slow-{n}"), 3_000);
    }
    assert!(
        short.iter().map(|i| stage.name_of(i)).min() > long.iter().map(|i| stage.name_of(i)).min()
    );
    let first = stage.lead("sundown-0", &[]).await;
    let second = stage.start("sundown-1", &[]);
    stage.pass(5).await;
    long.iter().chain(&short).for_each(|i| stage.world.aws.terminate(i, true));
    stage.pass(60).await;
    first.kill();
    stage.until(20, "the standby leads", || second.metrics.leads()).await;
    let begun = stage.clock.now();
    stage.pass(65).await;
    let mut firsts: BTreeMap<String, Moment> = BTreeMap::new();
    for (at, by, object) in sent(&stage) {
        if by == "sundown-1" {
            firsts.entry(object).or_insert(at);
        }
    }
    assert_eq!(firsts.len(), 1_100, "each gets one at least");
    let mut moments: Vec<_> = firsts.values().copied().collect();
    moments.sort();
    at_most(20, &moments);
    let last_short =
        firsts.iter().filter(|(o, _)| o.starts_with("short/")).map(|(_, at)| *at).max().unwrap();
    assert!(last_short.since_or_zero(begun) < s(5), "{last_short} after {begun}");
    for action in stage.world.aws.actions() {
        assert!(action.end.is_none(), "{action:?}");
        assert!(
            gaps(&action).iter().all(|g| *g < action.heartbeat_timeout.as_secs_f64()),
            "{action:?}"
        );
    }
    second.kill();
    stage.end_except(&[judge::Rule::TrueEvents], "a thousand Events take 50 s, at 20 a second");
}

#[tokio::test(start_paused = true)]
async fn many_completions_leave_one_after_the_other_and_those_with_least_time_first() {
    const COMPLETE: &str = "autoscaling:CompleteLifecycleAction";
    let stage = Stage::new(915);
    let long = stage.group_with("long", 400, &[super::hook("drain", 3_600)]);
    let short = stage.group_with("short", 20, &[super::hook("drain", 60)]);
    let sundown = stage.lead("sundown-0", &[]).await;
    long.iter().chain(&short).for_each(|i| stage.world.aws.terminate(i, true));
    stage
        .until(120, "all are completed", || {
            stage.world.aws.actions().len() == 420 && stage.all_over()
        })
        .await;
    stage.all_completed_once();
    let calls: Vec<_> = stage
        .world
        .aws
        .calls()
        .into_iter()
        .filter(|c| c.api == COMPLETE)
        .map(|c| (c.at, c.object))
        .collect();
    let moments: Vec<_> = calls.iter().map(|(at, _)| *at).collect();
    at_most(40, &moments);
    let last_short = calls.iter().rposition(|(_, object)| object.starts_with("short/")).unwrap();
    assert!(last_short < 150, "the last of those with a minute was number {last_short}");
    sundown.stop().await;
    stage.end();
}
