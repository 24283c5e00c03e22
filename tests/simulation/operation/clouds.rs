//! What AWS does to us: throttling, failures, half-open sockets, credentials that expire, queues
//! and hooks that go.

use std::collections::{BTreeMap, BTreeSet};

use sundown::sim::{
    aws::{Fault as AwsFault, FaultRule, HookResult, How, QueueSettings, Verdict},
    kube::{Away, Fault, Match, Rule},
};

use super::{gaps, s};
use crate::{
    harness::{Replica, Stage},
    judge,
};

fn missing(replica: &Replica) -> Vec<&'static str> {
    replica.readiness.missing().into_iter().map(|(name, _)| name).collect()
}

/// `fault` befalls ReceiveMessage for ten minutes in which a hook begins; then the hook is served
/// as ever.
async fn deaf_for_ten_minutes(seed: u64, fault: AwsFault) {
    let stage = Stage::new(seed);
    let instance = stage.group(1, 1_200).remove(0);
    let sundown = stage.lead("sundown-0", &[]).await;
    let deaf = stage.world.aws.fault(FaultRule::new("sqs:ReceiveMessage", fault, How::Always));
    stage.pass(45).await;
    stage.world.aws.clear_journal();
    stage.world.aws.terminate(&instance, true);
    stage.pass(600).await;
    let calls = stage.world.aws.count("sqs:ReceiveMessage");
    assert!((10..=240).contains(&calls), "{fault:?}: {calls} receives in ten minutes");
    assert!(missing(&sundown).contains(&"receiving"), "{fault:?}: {:?}", sundown.readiness);
    assert!(sundown.metric("intake_events_total{event=\"receive_failed\"}") >= 1.0);
    assert_eq!(sundown.loops.stuck(), [], "alive: no restart helps against AWS");
    stage.world.aws.end_fault(deaf);
    stage.until(60, "the node is cordoned", || stage.is_cordoned(&instance)).await;
    stage.until(60, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(missing(&sundown), Vec::<&str>::new());
    sundown.stop().await;
    stage.end_except(&[judge::Rule::AcceptedInTime], "nobody can receive for ten minutes");
}

#[tokio::test(start_paused = true)]
async fn c45_a_queue_that_refuses_or_fails_is_asked_again_slowly_and_shows_in_readiness() {
    deaf_for_ten_minutes(451, AwsFault::AccessDenied).await;
    deaf_for_ten_minutes(452, AwsFault::ExpiredToken).await;
    deaf_for_ten_minutes(453, AwsFault::QueueMissing).await;
    deaf_for_ten_minutes(454, AwsFault::Throttle).await;
    deaf_for_ten_minutes(455, AwsFault::InternalError).await;
    deaf_for_ten_minutes(456, AwsFault::Cut).await;
    deaf_for_ten_minutes(457, AwsFault::Garbage).await;
}

#[tokio::test(start_paused = true)]
async fn half_open_sockets_hold_up_nothing_but_their_own_call() {
    deaf_for_ten_minutes(458, AwsFault::Hang).await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_deleted_and_made_again_is_read_again() {
    let stage = Stage::new(459);
    let instance = stage.group(1, 300).remove(0);
    let sundown = stage.lead("sundown-0", &[]).await;
    let queue = stage.world.queue().to_owned();
    stage.world.aws.delete_queue(&queue);
    stage.pass(60).await;
    assert!(missing(&sundown).contains(&"queue"), "{:?}", sundown.readiness);
    stage.world.aws.create_queue(&queue, QueueSettings::default());
    stage.world.aws.terminate(&instance, true);
    stage.until(60, "the action is completed", || stage.is_over(&instance)).await;
    stage.until(60, "it is ready again", || missing(&sundown).is_empty()).await;
    stage.all_completed_once();
    sundown.stop().await;
    stage.end_except(&[judge::Rule::AcceptedInTime], "the queue is away");
}

#[tokio::test(start_paused = true)]
async fn c75_a_copy_of_a_message_that_is_held_deletes_it_by_the_newest_receipt() {
    let stage = Stage::new(750);
    let instance = stage.group(2, 600).remove(0);
    let sundown = stage.lead("sundown-0", &[]).await;
    // It cannot be decided, and cannot be kept invisible: it is received again and again.
    let stuck = stage.world.kube.inject(Rule::always(Match::of("patch", "nodes"), Fault::Hang));
    let visible = stage.world.aws.fault(FaultRule::new(
        "sqs:ChangeMessageVisibilityBatch",
        AwsFault::Throttle,
        How::Always,
    ));
    stage.world.aws.terminate(&instance, true);
    stage.pass(200).await;
    assert!(sundown.metric("intake_events_total{event=\"redelivered\"}") >= 2.0);
    stage.world.kube.lift(stuck);
    stage.world.aws.end_fault(visible);
    stage.until(30, "the node is cordoned", || stage.is_cordoned(&instance)).await;
    stage.until(3, "the message is deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("terminate-hook", "accepted"), 1.0);
    assert_eq!(
        sundown.messages("terminate-hook", "repeat"),
        0.0,
        "one decision, however often it came"
    );
    stage.until(60, "the action is completed", || stage.is_over(&instance)).await;
    stage.all_completed_once();
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c81_half_of_all_calls_throttled_lose_nothing() {
    let stage = Stage::new(81);
    let instances = stage.group(20, 120);
    for (n, instance) in instances.iter().enumerate() {
        stage.slow_pod(instance, &format!("slow-{n}"), 200);
    }
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.fault(FaultRule::new("*", AwsFault::Throttle, How::Probability(0.5)));
    stage.world.aws.clear_journal();
    stage.world.aws.scale_in("asg", 20);
    stage
        .until(400, "all are completed", || {
            stage.world.aws.actions().len() == 20 && stage.all_over()
        })
        .await;
    stage.all_completed_once();
    stage.until(120, "all messages are deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("terminate-hook", "accepted"), 20.0);
    // Of six tries before two thirds of the timeout all may fail; no window runs out.
    assert!(stage.world.aws.actions().iter().all(|a| gaps(a).iter().all(|g| *g < 120.0)));
    for (api, most) in [("Complete", 20 * 12), ("Record", 20 * 20), ("DescribeLifecycleHooks", 20)]
    {
        let calls: u64 = stage
            .world
            .aws
            .counts()
            .iter()
            .filter(|(k, _)| k.contains(api))
            .flat_map(|(_, v)| v.values())
            .sum();
        assert!(calls <= most, "{calls} calls of {api}");
    }
    // Retries have jitter: those of different hooks do not march in step.
    let mut last = BTreeMap::new();
    let mut pauses = BTreeSet::new();
    let mut retries = 0;
    for call in stage
        .world
        .aws
        .calls()
        .into_iter()
        .filter(|c| c.api == "autoscaling:CompleteLifecycleAction")
    {
        if let Some(before) = last.insert(call.object.clone(), call.at) {
            retries += 1;
            pauses.insert(call.at.duration_since(before).as_millis() / 10);
        }
    }
    assert!(
        retries >= 10 && pauses.len() * 2 >= retries,
        "{retries} retries after {pauses:?} hundredths of a second"
    );
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c84_what_passes_is_tried_again_and_what_is_refused_for_good_is_not() {
    for (fault, tries) in [
        (AwsFault::Throttle, 3),
        (AwsFault::InternalError, 3),
        (AwsFault::Unavailable, 3),
        (AwsFault::Cut, 3),
        (AwsFault::Garbage, 3),
        (AwsFault::ResourceContention, 3),
        (AwsFault::Hang, 3),
    ] {
        let stage = Stage::new(84);
        let instance = stage.group(1, 120).remove(0);
        stage.slow_pod(&instance, "slow", 100);
        let sundown = stage.lead("sundown-0", &[]).await;
        stage
            .world
            .aws
            .fault(FaultRule::new("autoscaling:*", fault, How::Times(tries)).about("asg/drain/*"));
        stage.world.aws.terminate(&instance, true);
        stage.until(120, "the action is completed", || stage.is_over(&instance)).await;
        stage.completed_once(&instance);
        assert_eq!(
            sundown.metric("heartbeats_total{result=\"failed\"}") as u64,
            tries,
            "{fault:?}"
        );
        assert!(!stage.action(&instance).heartbeats.is_empty(), "{fault:?}");
        sundown.stop().await;
        stage.end();
    }
}

#[tokio::test(start_paused = true)]
async fn c84_a_completion_that_aws_refuses_as_invalid_is_sent_once() {
    let stage = Stage::new(844);
    let instance = stage.group(2, 300).remove(0);
    stage.slow_pod(&instance, "slow", 50);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.other_action("asg", "drain", &instance, &[]).unwrap();
    stage.pass(45).await;
    // Over by other hands between two heartbeats: nothing but the completion can tell, with a
    // ValidationError.
    assert!(stage.world.aws.complete_as("ops", "asg", "drain", &instance, HookResult::Continue));
    stage
        .until(30, "it is known", || sundown.metric("completions_total{result=\"gone\"}") == 1.0)
        .await;
    stage.pass(300).await;
    assert_eq!(stage.world.aws.count("autoscaling:CompleteLifecycleAction"), 1);
    assert_eq!(stage.action(&instance).late_calls.len(), 1);
    assert_eq!(sundown.metric("completions_total{result=\"failed\"}"), 0.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_is_removed_in_mid_drain_is_not_an_error() {
    let stage = Stage::new(841);
    let instance = stage.group(1, 60).remove(0);
    stage.slow_pod(&instance, "slow", 100);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.other_action("asg", "drain", &instance, &[]).unwrap();
    stage.pass(50).await;
    stage.world.aws.remove_hook("asg", "drain");
    stage.pass(40).await;
    assert_eq!(stage.action(&instance).end.unwrap().verdict, Verdict::Removed);
    assert_eq!(sundown.metric("heartbeats_total{result=\"over\"}"), 1.0);
    let calls = stage.world.aws.count("autoscaling:RecordLifecycleActionHeartbeat");
    stage
        .until(60, "the node is drained", || sundown.metric("drains_total{end=\"empty\"}") == 1.0)
        .await;
    stage
        .until(5, "no action is open", || {
            sundown.metric("completions_total{result=\"gone\"}") == 1.0
        })
        .await;
    assert_eq!(stage.world.aws.count("autoscaling:RecordLifecycleActionHeartbeat"), calls);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn credentials_that_expire_for_a_while_lose_no_hook_and_do_not_spin() {
    let stage = Stage::new(846);
    let instances = stage.group(2, 600);
    stage.slow_pod(&instances[0], "slow", 400);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.terminate(&instances[0], true);
    stage.pass(30).await;
    stage.world.aws.clear_journal();
    let expired = stage.world.aws.fault(FaultRule::new("*", AwsFault::ExpiredToken, How::Always));
    stage.world.aws.terminate(&instances[1], true);
    stage.pass(330).await;
    // Retried like a fault: no right is missing, and nobody is paged for one.
    assert!(sundown.metric("heartbeats_total{result=\"failed\"}") >= 2.0);
    assert_eq!(sundown.metric("heartbeats_total{result=\"denied\"}"), 0.0);
    let outcomes = |outcome| {
        let action = "target=\"autoscaling\",action=\"RecordLifecycleActionHeartbeat\"";
        sundown.metric(&format!("api_calls_total{{{action},outcome=\"{outcome}\"}}"))
    };
    assert!(outcomes("credentials") >= 2.0 && outcomes("denied") == 0.0);
    let calls: u64 =
        stage.world.aws.counts().values().flat_map(std::collections::BTreeMap::values).sum();
    assert!(calls < 200, "{calls} calls in five minutes: {:?}", stage.world.aws.counts());
    stage.world.aws.end_fault(expired);
    stage
        .until(250, "all are completed", || {
            stage.world.aws.actions().len() == 2 && stage.all_over()
        })
        .await;
    stage.all_completed_once();
    assert!(stage.world.aws.actions().iter().all(|a| gaps(a).iter().all(|g| *g < 600.0)));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn with_everything_half_open_it_still_ends_in_the_time_of_a_pod() {
    let stage = Stage::new(843);
    let instances = stage.group(5, 300);
    instances.iter().enumerate().for_each(|(n, i)| stage.slow_pod(i, &format!("slow-{n}"), 400));
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.scale_in("asg", 5);
    stage.pass(5).await;
    let until = stage.clock.now().plus(s(600));
    stage.world.aws.fault(FaultRule::new("*", AwsFault::Hang, How::Until(until)));
    stage.world.kube.go_away(Away::Silent);
    stage.pass(3).await;
    let begun = tokio::time::Instant::now();
    sundown.stop().await;
    assert!(begun.elapsed() <= s(25), "{:?}", begun.elapsed());
    stage.end();
}
