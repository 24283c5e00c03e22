//! Every shape that a message may have, through the whole service.

use std::time::Duration;

use serde_json::{Value, json};
use sundown::sim::aws::{EventKind, HookResult, QueueSettings, Rule, SpotAction, Verdict};

use super::bodies;
use super::tools::continuing_hook;
use crate::{
    harness::{Replica, Stage},
    judge,
};

/// A node of a group `native` whose hook tells the queue `in` itself, in the native shape.
fn native(stage: &Stage) -> (String, String) {
    let url = stage.world.aws.create_queue("in", QueueSettings::default());
    let mut spec = continuing_hook("drain", 300);
    spec.notify_queue = Some("in".to_owned());
    let group = sundown::sim::aws::GroupSpec {
        replace_after: None,
        ..sundown::sim::aws::GroupSpec::new("native", 3)
    };
    (stage.world.add_group(group, &[spec])[0].clone(), url)
}

/// The instance's node is drained, its hook completed by us, and the queue is empty.
async fn drained_and_completed(stage: &Stage, sundown: &Replica, instance: &str, queue: &str) {
    let node = stage.world.node_of(instance).unwrap();
    stage.until(5, "the node is cordoned", || stage.is_cordoned(instance)).await;
    stage
        .until(120, "the action is completed", || {
            stage.actions(instance).iter().all(|a| a.end.is_some())
        })
        .await;
    assert!(stage.world.kube.pods_on(&node).is_empty());
    let end = stage.actions(instance)[0].end.clone().unwrap();
    assert!(
        !end.by.is_empty() && end.verdict == Verdict::Completed(HookResult::Continue),
        "by us: {end:?}"
    );
    stage.until(10, "the message is deleted", || stage.bodies_in(queue).is_empty()).await;
    assert_eq!(sundown.messages("terminate-hook", "accepted"), 1.0);
    assert_eq!(sundown.metric("completions_total{result=\"accepted\"}"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn c03_a_spot_warning_without_a_time_counts_from_when_it_was_sent() {
    let stage = Stage::new(3);
    let instances = stage.spot_group(3);
    stage.shop(6);
    let sundown = stage.settled(&[]).await;
    let node = stage.world.node_of(&instances[0]).unwrap();
    let pods = stage.world.kube.pods_on(&node).len();
    let sent = stage.clock.now();
    stage.send(&bodies::spot(&instances[0], ""));
    stage.until(5, "the node is cordoned", || stage.is_cordoned(&instances[0])).await;
    stage.until(100, "its pods are gone", || stage.world.kube.pods_on(&node).is_empty()).await;
    assert_eq!(sundown.drain(&node).unwrap().evictions as usize, pods);
    let time: sundown::domain::Moment =
        stage.record(&instances[0]).unwrap()["interruptions"][0]["time"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
    assert!(
        time.duration_since(sent).abs() <= jiff_seconds(1),
        "{time} is when it was sent, {sent}"
    );
    stage.until(10, "the message is deleted", || stage.in_queue() == 0).await;
    sundown.stop().await;
    stage.end();
}

fn jiff_seconds(n: i64) -> jiff::SignedDuration {
    jiff::SignedDuration::from_secs(n)
}

#[tokio::test(start_paused = true)]
async fn c25_a_capacity_warning_drains_its_node_before_the_time_that_it_names() {
    let stage = Stage::new(25);
    let instances = stage.spot_group(3);
    stage.shop(6);
    let sundown = stage.settled(&[]).await;
    let node = stage.world.node_of(&instances[0]).unwrap();
    let pods = stage.world.kube.pods_on(&node).len();
    assert!(pods > 0, "nothing to drain");
    let ends = super::tools::text(stage.clock.now() + Duration::from_secs(90));
    stage.send(&bodies::capacity(&instances[0], &stage.now(), &ends));
    stage.until(5, "the node is cordoned", || stage.is_cordoned(&instances[0])).await;
    stage.until(80, "its pods are gone", || stage.world.kube.pods_on(&node).is_empty()).await;
    assert_eq!(sundown.drain(&node).unwrap().evictions as usize, pods);
    assert_eq!(sundown.messages("capacity-reservation", "accepted"), 1.0);
    stage.until(10, "the message is deleted", || stage.in_queue() == 0).await;
    for other in &instances[1..] {
        assert!(!stage.is_cordoned(other));
    }
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c26_a_spot_instance_that_will_be_stopped_or_hibernated_is_drained_like_one_that_ends() {
    for (seed, action, kind) in
        [(26, SpotAction::Stop, "spot-stop"), (27, SpotAction::Hibernate, "spot-hibernate")]
    {
        let stage = Stage::new(seed);
        let instances = stage.spot_group(3);
        stage.shop(6);
        let sundown = stage.settled(&[]).await;
        let node = stage.world.node_of(&instances[0]).unwrap();
        let pods = stage.world.kube.pods_on(&node).len();
        assert!(pods > 0, "nothing to drain");
        stage.world.aws.spot_interruption(&instances[0], action);
        stage.until(5, "the node is cordoned", || stage.is_cordoned(&instances[0])).await;
        assert_eq!(sundown.messages(kind, "accepted"), 1.0, "{action:?}");
        stage.until(5, "its pods are asked to go", || stage.removals().len() == pods).await;
        stage.until(10, "the message is deleted", || stage.in_queue() == 0).await;
        // One that stops has two minutes. Hibernation begins at once.
        stage
            .until(200, "the drain is over", || {
                sundown.drain(&node).is_none_or(|drain| drain.drained.is_some())
            })
            .await;
        assert!(
            stage.removals().iter().all(|(.., deleted, _)| !deleted),
            "{action:?}: nobody is forced"
        );
        sundown.stop().await;
        stage.end();
    }
}

#[tokio::test(start_paused = true)]
async fn c05_c07_test_notifications_of_both_shapes_and_in_envelopes_are_deleted_and_counted() {
    let stage = Stage::new(4);
    stage.group(2, 300);
    let sundown = stage.settled(&[]).await;
    let test = "autoscaling:TEST_NOTIFICATION";
    let event = bodies::event(
        "aws.autoscaling",
        "EC2 Instance-terminate Lifecycle Action",
        &stage.now(),
        &json!({ "AutoScalingGroupName": "asg", "Event": test, "LifecycleTransition": test }),
    );
    let native = json!({
        "AccountId": "123456789012", "RequestId": "1", "AutoScalingGroupName": "asg", "Event": test,
        "Service": "AWS Auto Scaling", "Time": stage.now() })
    .to_string();
    for body in [&event, &native, &bodies::in_sns(&event), &bodies::in_sns(&native)] {
        stage.send(body);
    }
    stage.until(10, "they are deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.metric("messages_total{kind=\"none\",outcome=\"test\"}"), 4.0);
    assert_eq!(stage.describes(), 0);
    assert!(stage.kube_writes().is_empty(), "{:?}", stage.kube_writes());
    sundown.stop().await;
    stage.end_except(
        &[judge::Rule::Messages],
        "test notifications of Auto Scaling are no event that the judge knows",
    );
}

#[tokio::test(start_paused = true)]
async fn c06_a_native_notification_drains_and_completes() {
    let stage = Stage::new(5);
    let (instance, url) = native(&stage);
    stage.shop(6);
    let sundown = stage.settled(&["--queue-url", &url]).await;
    stage.world.aws.terminate(&instance, true);
    let body: Value = serde_json::from_str(&stage.bodies_in("in")[0]).unwrap();
    assert!(body.get("detail-type").is_none() && body["EC2InstanceId"] == instance, "{body}");
    drained_and_completed(&stage, &sundown, &instance, "in").await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c08_a_native_notification_in_a_bare_message_field_drains_and_completes() {
    let stage = Stage::new(6);
    let (instance, _) = native(&stage);
    stage.world.aws.create_queue("wrapped", QueueSettings::default());
    stage.shop(6);
    let sundown = stage.settled(&["--queue-url", &stage.world.aws.queue_url("wrapped")]).await;
    stage.world.aws.terminate(&instance, true);
    let body = json!({ "Message": stage.bodies_in("in")[0] }).to_string();
    stage.world.aws.send_event("wrapped", &body);
    drained_and_completed(&stage, &sundown, &instance, "wrapped").await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c09_events_in_an_envelope_of_sns_are_taken_like_the_events_themselves() {
    let stage = Stage::new(7);
    let instances = stage.group(3, 300);
    let spot = stage.spot_group(2);
    stage.shop(10);
    let url = stage.world.aws.create_queue("fan", QueueSettings::default());
    stage
        .world
        .aws
        .route(Rule::of("fan", [EventKind::TerminateAction, EventKind::SpotWarning]).through_sns());
    let sundown = stage.settled(&["--queue-url", &url]).await;
    stage.world.aws.spot_interruption(&spot[0], SpotAction::Terminate);
    stage.world.aws.terminate(&instances[0], true);
    let sent = stage.bodies_in("fan");
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(sent.iter().all(|b| b.contains("\"Type\":\"Notification\"")), "{sent:?}");
    stage.until(5, "the spot node is cordoned", || stage.is_cordoned(&spot[0])).await;
    drained_and_completed(&stage, &sundown, &instances[0], "fan").await;
    assert_eq!(sundown.messages("spot", "accepted"), 1.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c16_other_sources_and_detail_types_are_deleted_and_counted() {
    let stage = Stage::new(8);
    let instances = stage.group(2, 300);
    let sundown = stage.settled(&[]).await;
    let detail = json!({ "instance-id": instances[0], "state": "terminated" });
    for (source, kind) in [
        ("aws.s3", "Object Created"),
        ("my.app", "EC2 Spot Instance Interruption Warning"),
        ("aws.ec2", "EC2 AMI State Change"),
    ] {
        stage.send(&bodies::event(source, kind, &stage.now(), &detail));
    }
    stage.until(10, "they are deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.metric("messages_total{kind=\"none\",outcome=\"unrelated\"}"), 3.0);
    assert!(stage.kube_writes().is_empty());
    assert_eq!(stage.describes(), 0);
    sundown.stop().await;
    stage.end_except(
        &[judge::Rule::Messages],
        "events that are not about instances are none that the judge knows",
    );
}

#[tokio::test(start_paused = true)]
async fn c17_a_launch_that_succeeded_is_deleted_and_one_out_of_a_warm_pool_is_counted_as_not_acted_on()
 {
    let stage = Stage::new(9);
    let instances = stage.group(2, 300);
    let sundown = stage.settled(&[]).await;
    for origin in ["EC2", "WarmPool"] {
        let detail = json!({
            "EC2InstanceId": instances[0], "AutoScalingGroupName": "asg", "Origin": origin,
            "Destination": "AutoScalingGroup"
        });
        stage.send(&bodies::event(
            "aws.autoscaling",
            "EC2 Instance Launch Successful",
            &stage.now(),
            &detail,
        ));
    }
    stage.until(10, "they are deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.metric("messages_total{kind=\"none\",outcome=\"unrelated\"}"), 1.0);
    assert_eq!(sundown.messages("launch-successful", "not_acted_on"), 1.0);
    stage.assert_untouched(&stage.world.node_of(&instances[0]).unwrap());
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c18_states_that_end_an_instance_drain_its_node_and_those_that_have_ended_it_evict_nothing()
{
    let stage = Stage::new(10);
    let instances = stage.spot_group(6);
    stage.shop(12);
    let sundown = stage.settled(&[]).await;
    for (state, evicts) in
        [("stopping", true), ("shutting-down", true), ("stopped", false), ("terminated", false)]
    {
        let instance = &instances[["stopping", "shutting-down", "stopped", "terminated"]
            .iter()
            .position(|s| *s == state)
            .unwrap()];
        let node = stage.world.node_of(instance).unwrap();
        let pods = stage.world.kube.pods_on(&node).len();
        assert!(pods > 0);
        stage.send(&bodies::state_change(instance, state, &stage.now()));
        stage.until(5, "the node is cordoned", || stage.is_cordoned(instance)).await;
        stage
            .until(40, "the drain is over", || {
                stage.record(instance).is_some_and(|r| r.get("released").is_some())
            })
            .await;
        let evicted = stage
            .deeds()
            .iter()
            .filter(|e| {
                matches!(
                    &e.fact, sundown::sim::kube::Fact::Evicted { pod, .. } if pod.node == node
                )
            })
            .count();
        assert_eq!(evicted, if evicts { pods } else { 0 }, "{state}");
    }
    assert_eq!(sundown.messages("state-change", "accepted"), 4.0);
    assert_eq!(sundown.metric("drains_total{end=\"instance_over\"}"), 2.0);
    stage.until(1, "the messages are deleted", || stage.in_queue() == 0).await;
    sundown.stop().await;
    stage.end_except(
        &[judge::Rule::TrueEvents],
        "the states are only told: the instances run on, and so do their pods",
    );
}

#[tokio::test(start_paused = true)]
async fn c19_c20_states_that_end_nothing_or_are_none_are_deleted_and_nothing_is_done() {
    let stage = Stage::new(11);
    let instances = stage.group(2, 300);
    let sundown = stage.settled(&[]).await;
    let states = ["pending", "running", "creating", "", "stop", "ing", "Stopping", "terminate"];
    for state in states {
        stage.send(&bodies::state_change(&instances[0], state, &stage.now()));
    }
    stage.until(10, "they are deleted", || stage.in_queue() == 0).await;
    assert_eq!(
        sundown.metric("messages_total{kind=\"none\",outcome=\"unrelated\"}"),
        states.len() as f64
    );
    stage.assert_untouched(&stage.world.node_of(&instances[0]).unwrap());
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c23_health_of_other_services_and_categories_is_deleted() {
    let stage = Stage::new(12);
    let instances = stage.group(2, 300);
    let sundown = stage.settled(&[]).await;
    let about = |category| bodies::health(&[&instances[0]], category, &stage.now());
    for body in [
        about("issue"),
        about("accountNotification"),
        about("investigation"),
        about("scheduledChange").replace("\"EC2\"", "\"RDS\""),
    ] {
        stage.send(&body);
    }
    stage.until(10, "they are deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.metric("messages_total{kind=\"none\",outcome=\"unrelated\"}"), 4.0);
    stage.assert_untouched(&stage.world.node_of(&instances[0]).unwrap());
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn an_ignored_event_is_deleted_and_counted_once_for_each_instance_in_it() {
    let stage = Stage::new(13);
    let instances = stage.group(4, 300);
    let sundown = stage.settled(&["--on=rebalance=ignore"]).await;
    stage.world.aws.rebalance_recommendation(&instances[0]);
    let three = [&*instances[1], &*instances[2], &*instances[3]];
    stage.send(&bodies::network_maintenance(&three, &stage.now()));
    stage.until(10, "they are deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("rebalance", "not_acted_on"), 1.0);
    assert_eq!(sundown.messages("scheduled-change", "not_acted_on"), 3.0);
    assert_eq!(sundown.metric("messages_deleted_total"), 2.0, "one message each");
    for instance in &instances {
        stage.assert_untouched(&stage.world.node_of(instance).unwrap());
    }
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c29_of_ten_at_once_the_good_are_acted_on_and_the_bad_are_kept() {
    let stage = super::tools::with_dead_letters(14, 3);
    let instances = stage.spot_group(8);
    stage.shop(8);
    stage.pass(60).await;
    for (i, bad) in ["?", "", "{}", "[]", "{\"detail-type\":1}"].iter().enumerate() {
        stage.send(bad);
        stage.send(&bodies::spot(&instances[i], &stage.now()));
    }
    let sundown = stage.start("sundown-0", &[]);
    stage
        .until(20, "the five are cordoned", || instances[..5].iter().all(|i| stage.is_cordoned(i)))
        .await;
    assert_eq!(sundown.messages("spot", "accepted"), 5.0);
    stage.until(1, "the good are deleted", || stage.in_queue() <= 5).await;
    assert_eq!(stage.in_queue(), 5, "the others are kept");
    stage
        .until(400, "the bad go to the dead-letter queue", || stage.bodies_in("dead").len() == 5)
        .await;
    assert_eq!(stage.in_queue(), 0);
    for instance in &instances[5..] {
        stage.assert_untouched(&stage.world.node_of(instance).unwrap());
    }
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c30_three_good_messages_are_three_drains() {
    let stage = Stage::new(15);
    let instances = stage.group(5, 300);
    stage.shop(10);
    let sundown = stage.settled(&[]).await;
    for instance in &instances[..3] {
        stage.world.aws.terminate(instance, true);
    }
    stage
        .until(180, "all are completed", || {
            instances[..3].iter().all(|i| {
                stage.actions(i).iter().all(|a| a.end.as_ref().is_some_and(|e| !e.by.is_empty()))
            })
        })
        .await;
    let ends: Vec<_> = instances[..3]
        .iter()
        .flat_map(|i| stage.actions(i))
        .map(|a| a.end.unwrap().verdict)
        .collect();
    assert_eq!(ends, [Verdict::Completed(HookResult::Continue); 3]);
    assert_eq!(sundown.messages("terminate-hook", "accepted"), 3.0);
    assert_eq!(stage.actions(&instances[3]).len(), 0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c46_an_empty_queue_is_asked_by_long_polls_and_nothing_else_happens() {
    let stage = Stage::new(16);
    stage.group(2, 300);
    let sundown = stage.settled(&[]).await;
    stage.world.aws.clear_journal();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let receives = stage.world.aws.count("sqs:ReceiveMessage");
    assert!((29..=31).contains(&receives), "{receives} receives in ten minutes of 20 s polls");
    assert!(stage.aws_writes().is_empty() && stage.kube_writes().is_empty());
    assert!(sundown.readiness.missing().is_empty(), "{:?}", sundown.readiness.missing());
    sundown.stop().await;
    stage.end();
}
