//! Actions that are known only from a record, which a kubelet can write.

use serde_json::json;
use sundown::{
    domain::Moment,
    sim::aws::{Fault as AwsFault, FaultRule, HookResult, HookSpec, How},
};

use super::{BEAT, s};
use crate::{
    harness::{Replica, Stage},
    judge,
};

const GROUPS: &str = "autoscaling:DescribeAutoScalingGroups";
const COMPLETE: &str = "autoscaling:CompleteLifecycleAction";

fn events_of(stage: &Stage, reason: &str) -> usize {
    stage.events().iter().filter(|e| e.reason == reason).count()
}

/// A drain of 60 s that a second replica takes over after 20 s: the message is deleted by then.
async fn taken_over(seed: u64, before: impl FnOnce(&Stage)) -> (Stage, String, Replica) {
    let stage = Stage::new(seed);
    let instance = stage.group(2, 300).remove(0);
    stage.slow_pod(&instance, "slow", 60);
    let first = stage.lead("sundown-0", &[]).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(20).await;
    first.kill();
    before(&stage);
    let second = stage.lead("sundown-1", &[]).await;
    (stage, instance, second)
}

#[tokio::test(start_paused = true)]
async fn what_is_taken_over_is_completed_once_aws_shows_the_instance_waiting() {
    let (stage, instance, second) = taken_over(930, |_| {}).await;
    stage.pass(10).await;
    assert_eq!(stage.world.aws.count(GROUPS), 0, "nothing is asked before the drain has ended");
    assert!(!stage.action(&instance).heartbeats.is_empty(), "heartbeats go at once");
    stage.until(60, "it is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!((stage.world.aws.count(GROUPS), events_of(&stage, "HookNotConfirmed")), (1, 0));
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn an_action_that_only_a_record_names_is_not_completed_while_its_instance_does_not_wait_for_it()
 {
    let stage = Stage::new(931);
    let instance = stage
        .group_with(
            "asg",
            2,
            &[super::hook("drain", 300), HookSpec::launching("boot").heartbeat_timeout(s(300))],
        )
        .remove(0);
    let sundown = stage.lead("sundown-0", &["--lifecycle-hook", "drain"]).await;
    // A launch hook of somebody else's keeps the instance waiting, and its kubelet claims that it
    // is ours to complete.
    let token = stage.world.aws.other_action("asg", "boot", &instance, &[]).unwrap();
    stage.pass(5).await;
    sundown.stop().await;
    claim(&stage, &instance, "boot", &token);
    let sundown = stage.lead("sundown-1", &[]).await;
    stage.pass(250).await;
    let action = stage.action(&instance);
    assert!(action.end.is_none(), "{action:?}");
    assert_eq!(stage.world.aws.count(COMPLETE), 0);
    assert!((5..40).contains(&stage.world.aws.count(GROUPS)), "it is asked again, slowly");
    sundown.kill();
    stage.end_unjudged();
}

/// The kubelet of the instance writes a record that names this action as ours to complete.
fn claim(stage: &Stage, instance: &str, hook: &str, token: &str) {
    let now = stage.clock.now().to_string();
    let record = json!({ "version": 1, "instance": instance, "before": {}, "interruptions": [{
        "kind": "terminate-hook", "event": "e", "time": now, "accepted": now, "group": "asg",
        "hook": hook, "token": token,
    }]});
    stage.annotate(instance, "sundown.dev/record", Some(&record.to_string()));
}

#[tokio::test(start_paused = true)]
async fn an_action_of_a_record_for_which_the_instance_does_not_wait_is_asked_about_every_five_minutes_until_its_global_timeout()
 {
    let stage = Stage::new(936);
    // Its global timeout is 100 times as long: 50 minutes.
    let boot = HookSpec {
        default_result: HookResult::Continue,
        ..HookSpec::launching("boot").heartbeat_timeout(s(30))
    };
    let instance = stage.group_with("asg", 2, &[super::hook("drain", 300), boot]).remove(0);
    let sundown = stage.lead("sundown-0", &["--lifecycle-hook", "drain"]).await;
    let token = stage.world.aws.other_action("asg", "boot", &instance, &[]).unwrap();
    stage.pass(5).await;
    sundown.stop().await;
    claim(&stage, &instance, "boot", &token);
    let claimed = stage.clock.now();
    let sundown = stage.lead("sundown-1", &[]).await;
    let asked = || -> Vec<Moment> {
        stage.world.aws.calls().into_iter().filter(|c| c.api == GROUPS).map(|c| c.at).collect()
    };
    stage.pass(2 * 3_600).await;
    let calls = asked();
    let first = *calls.first().expect("AWS is asked");
    let later: Vec<Moment> = calls.iter().copied().filter(|at| *at > first.plus(s(70))).collect();
    assert!(
        later.windows(2).all(|pair| pair[1].since_or_zero(pair[0]) >= s(300)),
        "every five minutes at most: {later:?}"
    );
    assert!(later.len() >= 8, "it is asked again while the action may be open: {later:?}");
    let last = calls.last().copied().unwrap();
    assert!(
        last >= claimed.plus(s(3_000)) && last <= claimed.plus(s(3_000 + 310)),
        "once past the end: {last}, claimed {claimed}"
    );
    assert!(
        stage.record(&instance).unwrap()["released"].is_object(),
        "its drain is over: {:?}",
        stage.record(&instance)
    );
    assert_eq!(sundown.metric("open_actions"), 0.0, "and nothing is kept open");
    assert_eq!(stage.world.aws.count(COMPLETE), 0);
    sundown.kill();
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn where_the_state_of_instances_may_not_be_asked_for_a_record_is_believed_with_a_warning() {
    let deny = |stage: &Stage| {
        stage.world.aws.fault(FaultRule::new(GROUPS, AwsFault::AccessDenied, How::Always));
    };
    let (stage, instance, second) = taken_over(932, deny).await;
    stage.until(55, "it is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    stage.until(5, "that is said", || events_of(&stage, "HookNotConfirmed") == 1).await;
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn where_aws_does_not_say_for_half_a_minute_where_an_instance_is_its_record_is_believed_with_a_warning()
 {
    let throttle = |stage: &Stage| {
        stage.world.aws.fault(FaultRule::new(GROUPS, AwsFault::Throttle, How::Always));
    };
    let (stage, instance, second) = taken_over(933, throttle).await;
    stage
        .until(60, "the drain ends", || {
            second.drain(&stage.name_of(&instance)).is_some_and(|d| d.drained.is_some())
        })
        .await;
    stage.pass(25).await;
    assert!(!stage.is_over(&instance));
    stage.until(25, "it is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    stage.until(5, "that is said", || events_of(&stage, "HookNotConfirmed") == 1).await;
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_token_that_comes_by_message_is_all_that_is_needed() {
    let throttle = |stage: &Stage| {
        stage.world.aws.fault(FaultRule::new(GROUPS, AwsFault::Throttle, How::Always));
    };
    let (stage, instance, second) = taken_over(934, throttle).await;
    // A copy of the message that the first leader had deleted.
    let token = stage.action(&instance).token;
    let body =
        stage.world.aws.deletions().into_iter().find(|d| d.body.contains(&token)).unwrap().body;
    stage.world.aws.send_event(stage.world.queue(), &body);
    stage.until(20, "it is a repeat", || second.messages("terminate-hook", "repeat") == 1.0).await;
    stage.until(40, "it is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!((stage.world.aws.count(GROUPS), events_of(&stage, "HookNotConfirmed")), (0, 0));
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn heartbeats_and_completions_that_a_policy_forbids_are_repeated_every_five_minutes_for_what_only_a_record_names()
 {
    let deny = |stage: &Stage| {
        stage.world.aws.fault(FaultRule::new(
            "autoscaling:*LifecycleAction*",
            AwsFault::AccessDenied,
            How::Always,
        ));
    };
    let stage = Stage::new(935);
    // None of them runs out meanwhile.
    let instance = stage.group(2, 3_600).remove(0);
    stage.slow_pod(&instance, "slow", 60);
    let first = stage.lead("sundown-0", &[]).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(20).await;
    first.kill();
    deny(&stage);
    let second = stage.lead("sundown-1", &[]).await;
    let sent = |api: &str| {
        stage.world.aws.calls().into_iter().filter(|c| c.api == api && c.by == "sundown-1").count()
    };
    stage.pass(280).await;
    assert_eq!((sent(BEAT), sent(COMPLETE)), (1, 1), "no faster");
    stage.pass(600).await;
    assert_eq!((sent(BEAT), sent(COMPLETE)), (3, 3), "and no slower");
    assert_eq!(stage.world.aws.count(GROUPS), 3, "an answer of AWS is good for a minute");
    second.kill();
    stage.end_unjudged();
}

/// What docs/operations.md says of a fifth hook.
#[tokio::test(start_paused = true)]
async fn the_fifth_hook_of_an_instance_is_kept_open_and_completed_after_the_drain_for_the_first_four()
 {
    let stage = Stage::new(937);
    let hooks: Vec<HookSpec> = (1..=5).map(|n| super::hook(&format!("sundown-{n}"), 300)).collect();
    let instance = stage.group_with("asg", 2, &hooks).remove(0);
    stage.slow_pod(&instance, "slow", 200);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.terminate(&instance, true);
    stage
        .until(30, "the fifth keeps its message", || {
            sundown.messages("terminate-hook", "left") >= 1.0
        })
        .await;
    let is_completed = |a: &sundown::sim::aws::ActionReport| a.end.is_some();
    stage
        .until(300, "four are completed", || {
            stage.actions(&instance).iter().filter(|a| is_completed(a)).count() >= 4
        })
        .await;
    stage.until(120, "the fifth is completed too", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(stage.actions(&instance).len(), 5);
    stage.until(90, "its message is deleted", || stage.in_queue() == 0).await;
    sundown.stop().await;
    stage.end_except(&[judge::Rule::AcceptedInTime], "a record has room for four hooks");
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_was_denied_goes_out_soon_after_a_heartbeat_has_proved_its_action() {
    let stage = Stage::new(939);
    let instance = stage.group(2, 300).remove(0);
    stage.slow_pod(&instance, "slow", 22);
    let first = stage.lead("sundown-0", &[]).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(10).await;
    first.kill();
    let killed = stage.clock.now();
    for api in [COMPLETE, BEAT] {
        stage.world.aws.fault(FaultRule::new(
            api,
            AwsFault::AccessDenied,
            How::Until(killed.plus(s(40))),
        ));
    }
    let second = stage.lead("sundown-1", &[]).await;
    stage.until(130, "it is completed", || stage.is_over(&instance)).await;
    let heartbeats = stage.action(&instance).heartbeats;
    let proved = heartbeats.last().unwrap().since_or_zero(killed);
    assert!(proved >= s(40), "a heartbeat was accepted after the denials: {heartbeats:?}");
    assert!(stage.clock.now().since_or_zero(killed) <= proved + s(5));
    stage.completed_once(&instance);
    second.stop().await;
    stage.end();
}
