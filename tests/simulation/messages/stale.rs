//! Interruptions that are read after their own time: proved, disproved, and by whose clock.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;
use sundown::sim::{
    aws::{EventKind, Fault, FaultRule, HookResult, How, SpotAction, State},
    kube::BudgetSpec,
};

use super::{bodies, logs::Logs, tools::continuing_hook};
use crate::{harness::Stage, judge::Rule};

/// A terminate action that is open, told `age` seconds late to the queue `late`.
fn told_late(stage: &Stage, instance: &str, age: u64) {
    stage.world.aws.terminate(instance, true);
    send_late(stage, age);
}

/// The newest body in `actions` goes to `late`, as if it were `age` seconds old.
fn send_late(stage: &Stage, age: u64) {
    let mut body: Value = serde_json::from_str(stage.bodies_in("actions").last().unwrap()).unwrap();
    body["time"] = stage.ago(age).into();
    stage.world.aws.send_event("late", &body.to_string());
}

/// The queues `actions`, which gets the real ones, and `late`, whose URL this is.
fn queues(stage: &Stage) -> String {
    stage.queue_for("actions", [EventKind::TerminateAction]);
    stage.queue_for("late", [])
}

#[tokio::test(start_paused = true)]
async fn c82_late_warnings_about_instances_that_run_are_disproved_and_touch_nothing() {
    let stage = Stage::new(110);
    let instances = stage.spot_group(6);
    stage.shop(6);
    let sundown = stage.settled(&[]).await;
    stage.send(&bodies::spot(&instances[0], &stage.ago(5 * 3600)));
    stage.send(&bodies::spot(&instances[1], &stage.ago(125)));
    stage.send(&bodies::capacity(&instances[2], &stage.ago(125), &stage.ago(5)));
    stage.send(&bodies::state_change(&instances[3], "stopped", &stage.ago(65)));
    stage.send(&bodies::state_change(&instances[4], "shutting-down", &stage.ago(3600)));
    stage.until(10, "they are deleted", || stage.in_queue() == 0).await;
    stage.pass(60).await;
    let stale = ["spot", "capacity-reservation", "state-change"]
        .map(|kind| sundown.messages(kind, "stale"));
    assert_eq!(stale, [2.0, 1.0, 2.0]);
    for instance in &instances {
        stage.assert_untouched(&stage.world.node_of(instance).unwrap());
    }
    assert!(stage.removals().is_empty());
    sundown.stop().await;
    stage.end();
}

/// As EventBridge sends an event again out of an archive: as it was, with the name of the replay.
fn replayed(body: &str) -> String {
    let mut body: Value = serde_json::from_str(body).unwrap();
    body["replay-name"] = "again".into();
    body.to_string()
}

/// The module's rules leave replays out, those of a person's own may not.
#[tokio::test(start_paused = true)]
async fn what_is_replayed_out_of_an_archive_is_late_and_touches_nothing() {
    let stage = Stage::new(118);
    let instances = stage.spot_group(3);
    stage.shop(6);
    let sundown = stage.settled(&[]).await;
    stage.send(&replayed(&bodies::spot(&instances[0], &stage.ago(24 * 3600))));
    stage.send(&replayed(&bodies::state_change(&instances[1], "shutting-down", &stage.ago(660))));
    stage.until(10, "they are deleted", || stage.in_queue() == 0).await;
    stage.pass(60).await;
    assert_eq!(["spot", "state-change"].map(|kind| sundown.messages(kind, "stale")), [1.0, 1.0]);
    for instance in &instances {
        stage.assert_untouched(&stage.world.node_of(instance).unwrap());
    }
    assert!(stage.removals().is_empty());
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn late_warnings_about_instances_that_go_are_proved() {
    let stage = Stage::new(111);
    let instances = stage.spot_group(4);
    stage.shop(8);
    let late = queues(&stage);
    let sundown = stage.settled(&["--queue-url", &late]).await;
    stage.world.aws.terminate_in_ec2(&instances[0]);
    stage.world.aws.stop(&instances[1]);
    stage.world.aws.send_event("late", &bodies::spot(&instances[0], &stage.ago(3600)));
    stage
        .world
        .aws
        .send_event("late", &bodies::state_change(&instances[1], "stopping", &stage.ago(70)));
    stage
        .until(3, "both are cordoned", || {
            stage.is_cordoned(&instances[0]) && stage.is_cordoned(&instances[1])
        })
        .await;
    assert_eq!(
        (sundown.messages("spot", "accepted"), sundown.messages("state-change", "accepted")),
        (1.0, 1.0)
    );
    // A deadline that is over at the accept is void. Whoever is forced is forced at once: the
    // machines go within a minute.
    stage.pass(20).await;
    assert_eq!(
        (sundown.metric("pods_forced_total"), stage.removals().iter().filter(|r| r.2).count()),
        (0.0, 0)
    );
    sundown.stop().await;
    stage.end_except(
        &[Rule::Causes],
        "the evidence of a named scenario does not say how the states of instances change",
    );
}

#[tokio::test(start_paused = true)]
async fn a_warning_in_its_own_time_is_taken_at_its_word() {
    let stage = Stage::new(112);
    let instances = stage.spot_group(3);
    let sundown = stage.settled(&[]).await;
    stage.send(&bodies::spot(&instances[0], &stage.ago(115)));
    stage.send(&bodies::state_change(&instances[1], "shutting-down", &stage.ago(55)));
    stage
        .until(5, "both are cordoned", || {
            stage.is_cordoned(&instances[0]) && stage.is_cordoned(&instances[1])
        })
        .await;
    assert_eq!(stage.describes(), 0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_late_hook_that_is_open_is_proved_by_one_heartbeat() {
    let stage = Stage::new(113);
    let instances = stage.group(3, 300);
    stage.shop(6);
    let late = queues(&stage);
    let sundown = stage.settled(&["--queue-url", &late]).await;
    let node = stage.world.node_of(&instances[0]).unwrap();
    told_late(&stage, &instances[0], 400);
    stage.until(5, "its node is cordoned", || stage.is_cordoned(&instances[0])).await;
    assert!(!stage.actions(&instances[0])[0].heartbeats.is_empty());
    stage.until(120, "it is completed", || stage.actions(&instances[0])[0].end.is_some()).await;
    assert!(stage.world.kube.pods_on(&node).is_empty());
    assert_eq!(sundown.messages("terminate-hook", "accepted"), 1.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c82_a_late_hook_that_is_over_while_its_instance_runs_is_disproved() {
    let stage = Stage::new(114);
    let instances = stage.group(3, 300);
    stage.shop(6);
    let late = queues(&stage);
    let sundown = stage.settled(&["--queue-url", &late]).await;
    stage.world.aws.other_action("asg", "drain", &instances[0], &[]);
    assert!(stage.world.aws.complete_as(
        "somebody",
        "asg",
        "drain",
        &instances[0],
        HookResult::Continue
    ));
    send_late(&stage, 3600);
    stage.until(5, "it is deleted", || stage.bodies_in("late").is_empty()).await;
    stage.pass(300).await;
    assert_eq!(sundown.messages("terminate-hook", "stale"), 1.0);
    stage.assert_untouched(&stage.world.node_of(&instances[0]).unwrap());
    assert_eq!(stage.ec2_says(&instances[0]), State::Running);
    let completes = stage.aws_writes().iter().filter(|w| w.contains("Complete")).count();
    assert_eq!((stage.hook_calls(&instances[0]), completes), (1, 0), "one beat to find out");
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_late_hook_that_is_over_because_its_instance_goes_is_taken_on() {
    let stage = Stage::new(115);
    let instances = stage.group(3, 300);
    stage.shop(6);
    let late = queues(&stage);
    let sundown = stage.settled(&["--queue-url", &late]).await;
    stage.world.aws.terminate(&instances[0], true);
    assert!(stage.world.aws.complete_as(
        "somebody",
        "asg",
        "drain",
        &instances[0],
        HookResult::Continue
    ));
    send_late(&stage, 3600);
    stage.until(5, "its node is cordoned", || stage.is_cordoned(&instances[0])).await;
    assert_eq!(sundown.messages("terminate-hook", "accepted"), 1.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_closed_because_its_instance_went_between_two_questions_is_taken_on() {
    let stage = Stage::new(121);
    let instances = stage.group(3, 300);
    stage.shop(6);
    let late = queues(&stage);
    let sundown = stage.settled(&["--queue-url", &late]).await;
    stage.world.aws.other_action("asg", "drain", &instances[0], &[]);
    assert!(stage.world.aws.complete_as(
        "somebody",
        "asg",
        "drain",
        &instances[0],
        HookResult::Continue
    ));
    // EC2 is asked at once and says that it runs; the heartbeat is answered only when it does not
    // any more.
    stage.world.aws.fault(FaultRule::new(
        "*",
        Fault::Latency(Duration::from_millis(50)),
        How::Always,
    ));
    let until = stage.clock.now() + Duration::from_secs(3);
    stage.world.aws.fault(FaultRule::new(
        "autoscaling:RecordLifecycleActionHeartbeat",
        Fault::Throttle,
        How::Until(until),
    ));
    send_late(&stage, 3600);
    stage.pass(1).await;
    assert_eq!(stage.describes(), 1);
    stage.world.aws.terminate_in_ec2(&instances[0]);
    stage.until(15, "it is taken on", || stage.is_cordoned(&instances[0])).await;
    assert_eq!(
        (
            sundown.messages("terminate-hook", "accepted"),
            sundown.messages("terminate-hook", "stale")
        ),
        (1.0, 0.0)
    );
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_hook_within_its_own_heartbeat_timeout_is_not_late_once_that_is_known() {
    let stage = Stage::new(116);
    let instances = stage.group(3, 300);
    let late = queues(&stage);
    let sundown = stage.settled(&["--queue-url", &late]).await;
    for api in ["ec2:DescribeInstances", "autoscaling:RecordLifecycleActionHeartbeat"] {
        stage.world.aws.fault(FaultRule::new(api, Fault::Hang, How::Always));
    }
    told_late(&stage, &instances[0], 100);
    stage.until(3, "its node is cordoned", || stage.is_cordoned(&instances[0])).await;
    let record = stage.record(&instances[0]).unwrap();
    assert_ne!(record["interruptions"][0]["stale"], true, "{record}");
    stage.world.aws.end_faults();
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_unknown_timeout_is_late_after_30_s() {
    let stage = Stage::new(117);
    let instances = stage.group(3, 300);
    let late = queues(&stage);
    let sundown = stage.settled(&["--queue-url", &late]).await;
    for api in ["ec2:*", "autoscaling:*"] {
        stage.world.aws.fault(FaultRule::new(api, Fault::Hang, How::Always));
    }
    told_late(&stage, &instances[0], 25);
    stage.until(2, "one of 25 s is taken at its word", || stage.is_cordoned(&instances[0])).await;
    told_late(&stage, &instances[1], 40);
    stage.pass(8).await;
    stage.assert_untouched(&stage.world.node_of(&instances[1]).unwrap());
    assert_eq!(stage.bodies_in("late").len(), 1);
    stage
        .until(60, "one of 40 s is taken on without its proof", || stage.is_cordoned(&instances[1]))
        .await;
    stage.world.aws.end_faults();
    let stale =
        |instance: &str| stage.record(instance).unwrap()["interruptions"][0]["stale"].clone();
    assert_eq!(
        (stale(&instances[0]), stale(&instances[1])),
        (Value::Null, Value::Bool(true)),
        "nobody answered within 10 s"
    );
    sundown.stop().await;
    stage.end();
}

/// AWS's clock is `ahead` of ours: a fresh warning is fresh, an old one is old, and the deadline is
/// where the machine goes.
async fn skewed(seed: u64, ahead: i64) {
    let logs = Logs::keep();
    let stage = Stage::new(seed);
    let instances = stage.spot_group(3);
    stage.shop(6);
    stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "web").max(0));
    stage.world.aws.skew(SignedDuration::from_secs(ahead));
    let sundown = stage.settled(&[]).await;
    let metric = sundown.metric("clock_skew_seconds");
    assert!((metric - ahead as f64).abs() <= 2.0, "{metric}");
    assert_eq!(logs.with(&["WARN", "clock of this machine differs from AWS's"]).len(), 1);
    let node = stage.world.node_of(&instances[0]).unwrap();
    stage.world.aws.spot_interruption(&instances[0], SpotAction::Terminate);
    stage.until(3, "the node is cordoned", || stage.is_cordoned(&instances[0])).await;
    assert_eq!(stage.describes(), 0, "nothing has to be proved");
    stage
        .until(115, "forced before the machine goes", || stage.world.kube.pods_on(&node).is_empty())
        .await;
    assert!(sundown.metric("pods_forced_total") >= 1.0);
    let aws_time =
        |ago: i64| super::tools::text(stage.clock.now() + SignedDuration::from_secs(ahead - ago));
    // Nothing but long polls for ten minutes: they say little of the clocks, and change nothing.
    stage.pass(600).await;
    let metric = sundown.metric("clock_skew_seconds");
    assert!((metric - ahead as f64).abs() <= 2.0, "after ten idle minutes: {metric}");
    stage.send(&bodies::spot(&instances[1], &aws_time(130)));
    stage.send(&bodies::spot(&instances[2], &aws_time(100)));
    stage
        .until(5, "one in its own time is taken at its word", || stage.is_cordoned(&instances[2]))
        .await;
    stage.until(10, "an old one is disproved", || sundown.messages("spot", "stale") == 1.0).await;
    stage.assert_untouched(&stage.world.node_of(&instances[1]).unwrap());
    sundown.stop().await;
    stage.end_except(&[Rule::Messages], "what is stale is told by the clock of AWS, which differs");
}

#[tokio::test(start_paused = true)]
async fn c82_the_age_of_an_event_is_measured_by_awss_clock_when_ours_is_ahead() {
    skewed(118, -600).await;
}

#[tokio::test(start_paused = true)]
async fn c82_the_age_of_an_event_is_measured_by_awss_clock_when_ours_is_behind() {
    skewed(119, 600).await;
}

#[tokio::test(start_paused = true)]
async fn c82_a_clock_that_is_ahead_by_less_than_a_long_poll_takes_is_known_for_what_it_is() {
    skewed(122, -15).await;
    skewed(123, -60).await;
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_timeout_of_a_group_that_is_gone_decides_nothing() {
    let stage = Stage::new(120);
    let instances = stage.group(3, 300);
    let sundown = stage.settled(&[]).await;
    stage.world.aws.put_hook("asg", continuing_hook("other", 300));
    stage.send(&bodies::terminate("gone", "drain", &instances[0], &stage.ago(100)));
    stage.until(10, "it is disproved", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("terminate-hook", "stale"), 1.0);
    stage.assert_untouched(&stage.world.node_of(&instances[0]).unwrap());
    sundown.stop().await;
    stage.end_except(&[Rule::Strangers], "the group of the hook is gone");
}
