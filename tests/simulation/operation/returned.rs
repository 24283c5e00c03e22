//! Instances that come back into service without a new boot: out of a warm pool that keeps them
//! running, or out of hibernation.

use serde_json::json;
use sundown::sim::{
    WorldSettings,
    aws::{Fault, FaultRule, HookResult, How, SpotAction, State},
};

use crate::{
    harness::{Replica, Stage},
    messages::{bodies, logs::Logs},
};

/// The sweep is off in other tests.
const SWEEP: &[&str] = &["--sweep-interval", "1m"];

/// A node that is drained and let go of, while its instance keeps running.
async fn drained(seed: u64) -> (Stage, String, Replica) {
    drained_with(seed, &[]).await
}

async fn drained_with(seed: u64, flags: &[&str]) -> (Stage, String, Replica) {
    let stage = Stage::new(seed);
    let instance = stage.group(2, 60).remove(0);
    let sundown = stage.lead("sundown-0", flags).await;
    drain(&stage, &instance).await;
    (stage, instance, sundown)
}

async fn drain(stage: &Stage, instance: &str) {
    let pool = [("Origin", "AutoScalingGroup"), ("Destination", "WarmPool")];
    stage.world.aws.other_action("asg", "drain", instance, &pool).unwrap();
    stage.until(60, "it is completed", || stage.is_over(instance)).await;
    stage
        .until(5, "the record is released", || {
            stage.record(instance).is_some_and(|r| r["released"].is_object())
        })
        .await;
    assert!(stage.is_cordoned(instance));
}

fn is_as_it_was(stage: &Stage, instance: &str) -> bool {
    !stage.is_cordoned(instance)
        && !stage.node(instance)["spec"]["taints"].to_string().contains("sundown.dev")
}

#[tokio::test(start_paused = true)]
async fn c27_a_node_whose_instance_leaves_a_warm_pool_is_as_it_was_and_is_drained_again_next_time()
{
    let (stage, instance, sundown) = drained(940).await;
    stage.pass(600).await;
    stage.send(&bodies::out_of_warm_pool("asg", &instance, &stage.now()));
    stage.until(10, "it is as it was", || is_as_it_was(&stage, &instance)).await;
    stage.until(5, "the message is deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("launch-successful", "restored"), 1.0);
    assert_eq!(stage.events().iter().filter(|e| e.reason == "InstanceReturned").count(), 1);
    stage.pass(60).await;
    drain(&stage, &instance).await;
    stage.all_completed_once();
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_launch_action_into_the_group_does_the_same_and_one_into_the_pool_does_not() {
    let (stage, instance, sundown) = drained(941).await;
    stage.pass(60).await;
    for (destination, restores) in [("WarmPool", false), ("AutoScalingGroup", true)] {
        let detail = json!({
            "LifecycleActionToken": "00000000-0000-4000-8000-000000000000",
            "AutoScalingGroupName": "asg", "LifecycleHookName": "Launch-LC-Hook",
            "EC2InstanceId": instance, "LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING",
            "Origin": "WarmPool", "Destination": destination,
        });
        stage.send(&bodies::event(
            "aws.autoscaling",
            "EC2 Instance-launch Lifecycle Action",
            &stage.now(),
            &detail,
        ));
        stage.pass(10).await;
        assert_eq!(is_as_it_was(&stage, &instance), restores, "{destination}");
    }
    assert_eq!(
        sundown.messages("launch-hook", "foreign_hook"),
        2.0,
        "whose hook it is does not matter"
    );
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_is_older_than_the_drain_changes_nothing() {
    let (stage, instance, sundown) = drained(942).await;
    stage.send(&bodies::out_of_warm_pool("asg", &instance, &stage.ago(600)));
    stage.pass(60).await;
    assert!(stage.is_cordoned(&instance));
    assert_eq!(sundown.messages("launch-successful", "not_acted_on"), 1.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn while_a_terminate_action_is_open_nothing_is_put_back() {
    let stage = Stage::new(943);
    let instance = stage.group(2, 60).remove(0);
    stage.slow_pod(&instance, "slow", 60);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(20).await;
    stage.send(&bodies::out_of_warm_pool("asg", &instance, &stage.now()));
    stage.pass(20).await;
    assert!(stage.is_cordoned(&instance));
    stage.until(60, "it is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_drain_whose_action_somebody_else_ended_ends_when_the_instance_is_back_in_service() {
    let stage = Stage::new(944);
    let instance = stage.group(2, 300).remove(0);
    stage.slow_pod(&instance, "slow", 900);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.other_action("asg", "drain", &instance, &[]).unwrap();
    stage.pass(30).await;
    assert!(stage.world.aws.complete_as("ops", "asg", "drain", &instance, HookResult::Continue));
    stage.pass(30).await;
    assert!(stage.is_cordoned(&instance));
    stage.send(&bodies::out_of_warm_pool("asg", &instance, &stage.now()));
    stage.until(15, "it is as it was", || is_as_it_was(&stage, &instance)).await;
    assert_eq!(sundown.metric("drains_total{end=\"released\"}"), 1.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c27_an_instance_that_leaves_its_warm_pool_without_an_event_is_seen_in_service_twice() {
    let (stage, instance, sundown) = drained_with(945, SWEEP).await;
    stage.pass(1_800).await;
    assert!(stage.is_cordoned(&instance), "it is in the pool");
    stage.world.aws.leave_warm_pool(&instance);
    let left = stage.clock.now();
    stage.until(90, "it is as it was", || is_as_it_was(&stage, &instance)).await;
    assert!(stage.clock.now().since_or_zero(left).as_secs() >= 15, "one sight is not enough");
    assert_eq!(sundown.metric("sweep_decided_total{outcome=\"restored\"}"), 1.0);
    assert_eq!(stage.events().iter().filter(|e| e.reason == "InstanceReturned").count(), 1);
    stage.pass(60).await;
    drain(&stage, &instance).await;
    stage.pass(300).await;
    assert!(stage.is_cordoned(&instance), "it is in the pool again");
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_back_whose_kubelet_is_silent_is_restored_once_it_reports() {
    let (stage, instance, sundown) = drained_with(946, SWEEP).await;
    let node = stage.world.node_of(&instance).unwrap();
    stage.world.kube.kubelet_lost(&node);
    stage.pass(120).await;
    stage.world.aws.leave_warm_pool(&instance);
    stage.pass(300).await;
    assert!(stage.is_cordoned(&instance));
    stage.world.kube.kubelet_back(&node);
    stage.until(100, "it is as it was", || is_as_it_was(&stage, &instance)).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_spot_node_that_was_drained_and_stays_in_service_is_not_restored() {
    let stage = Stage::new(947);
    let instance = stage.group(2, 60).remove(0);
    let sundown = stage.lead("sundown-0", SWEEP).await;
    let body = bodies::event(
        "aws.ec2",
        "EC2 Spot Instance Interruption Warning",
        &stage.now(),
        &json!({ "instance-id": instance, "instance-action": "terminate" }),
    );
    stage.send(&body);
    stage
        .until(30, "its drain is over", || {
            stage.record(&instance).is_some_and(|r| r["released"].is_object())
        })
        .await;
    stage.pass(600).await;
    assert!(stage.is_cordoned(&instance));
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn c26_a_hibernated_spot_instance_is_restored_when_ec2_has_started_it_and_its_kubelet_reports()
 {
    // The cloud controller keeps the Node of an instance that is stopped.
    let mut settings = WorldSettings::seeded(948);
    settings.kube.timing.node_deletion = None;
    let stage = Stage::with(settings);
    let instance = stage.spot_group(2).remove(0);
    let sundown = stage.lead("sundown-0", SWEEP).await;
    stage.world.aws.spot_interruption(&instance, SpotAction::Hibernate);
    let node = stage.world.node_of(&instance).unwrap();
    let stopped = || stage.world.aws.instance(&instance).unwrap().state == State::Stopped;
    stage.until(60, "it is hibernated", stopped).await;
    stage
        .until(60, "its drain is over", || {
            stage.record(&instance).is_some_and(|r| r["released"].is_object())
        })
        .await;
    stage.world.aws.start_again(&instance);
    let running = || stage.world.aws.instance(&instance).unwrap().state == State::Running;
    stage.until(60, "it runs", running).await;
    stage.pass(90).await;
    assert!(stage.is_cordoned(&instance), "its kubelet has not reported");
    stage.world.kube.machine_back(&node);
    stage.until(120, "it is as it was", || is_as_it_was(&stage, &instance)).await;
    sundown.stop().await;
    stage.end();
}

fn keep_cordoned(stage: &Stage, instance: &str, keeps: bool) {
    let node = stage.world.node_of(instance).unwrap();
    stage.world.kube.edit("nodes", "", &node, |node| {
        let annotations = node["metadata"]["annotations"].as_object_mut().unwrap();
        if keeps {
            annotations.insert("sundown.dev/keep-cordoned".to_owned(), "true".into());
        } else {
            annotations.remove("sundown.dev/keep-cordoned");
        }
    });
}

fn held(stage: &Stage) -> usize {
    stage.events().iter().filter(|e| e.reason == "RestoreHeld").count()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_a_person_keeps_cordoned_is_restored_when_the_annotation_is_removed() {
    let (stage, instance, sundown) = drained_with(949, SWEEP).await;
    keep_cordoned(&stage, &instance, true);
    stage.world.aws.leave_warm_pool(&instance);
    stage.pass(300).await;
    assert!(stage.is_cordoned(&instance), "the sweep leaves it alone");
    stage.send(&bodies::out_of_warm_pool("asg", &instance, &stage.now()));
    stage.until(30, "the message is deleted", || stage.in_queue() == 0).await;
    stage.pass(60).await;
    assert!(stage.is_cordoned(&instance), "the event, too");
    assert_eq!(held(&stage), 1);
    assert_eq!(stage.record(&instance).unwrap()["released"]["held"], true);
    let next = {
        sundown.kill();
        stage.lead("sundown-1", SWEEP).await
    };
    stage.pass(60).await;
    assert!(stage.is_cordoned(&instance), "the next leader, too");
    keep_cordoned(&stage, &instance, false);
    stage.until(10, "it is as it was", || is_as_it_was(&stage, &instance)).await;
    next.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_booted_again_is_kept_cordoned_too() {
    let stage = Stage::new(950);
    let instance = stage.group(2, 60).remove(0);
    let sundown = stage.lead("sundown-0", &[]).await;
    drain(&stage, &instance).await;
    keep_cordoned(&stage, &instance, true);
    let node = stage.world.node_of(&instance).unwrap();
    stage.world.aws.leave_warm_pool(&instance);
    stage.world.kube.reboot(&node);
    stage.pass(60).await;
    assert!(stage.is_cordoned(&instance));
    assert_eq!(held(&stage), 1);
    keep_cordoned(&stage, &instance, false);
    stage.until(10, "it is as it was", || is_as_it_was(&stage, &instance)).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_boots_is_back_only_when_its_node_is_ready_and_ec2_says_that_it_runs() {
    let logs = Logs::keep();
    let stage = Stage::new(951);
    let instance = stage.spot_group(2).remove(0);
    let sundown = stage.lead("sundown-0", &[]).await;
    let body = bodies::event(
        "aws.ec2",
        "EC2 Spot Instance Interruption Warning",
        &stage.now(),
        &json!({ "instance-id": instance, "instance-action": "stop" }),
    );
    stage.send(&body);
    let is_released = || stage.record(&instance).is_some_and(|r| r["released"].is_object());
    stage.until(30, "its drain is over", is_released).await;
    let node = stage.world.node_of(&instance).unwrap();
    stage.world.kube.kubelet_lost(&node);
    stage.pass(60).await;
    stage.world.kube.edit("nodes", "", &node, |node| {
        node["status"]["nodeInfo"]["bootID"] = "another-boot".into();
    });
    stage.pass(60).await;
    assert!(stage.is_cordoned(&instance), "its kubelet does not report");
    assert_eq!(logs.with(&["A machine has booted since its drain", "not Ready"]).len(), 1);
    stage.world.kube.kubelet_back(&node);
    stage.until(40, "it is as it was", || is_as_it_was(&stage, &instance)).await;
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_boots_in_its_warm_pool_stays_cordoned() {
    let stage = Stage::new(952);
    let instance = stage.group(2, 60).remove(0);
    let sundown = stage.lead("sundown-0", &[]).await;
    drain(&stage, &instance).await;
    let node = stage.world.node_of(&instance).unwrap();
    stage.world.kube.reboot(&node);
    stage.pass(120).await;
    assert!(stage.is_cordoned(&instance), "it is in the pool");
    stage.world.aws.leave_warm_pool(&instance);
    stage.until(30, "it is as it was", || is_as_it_was(&stage, &instance)).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_was_detached_from_its_group_in_the_warm_pool_is_as_it_was() {
    let stage = Stage::new(954);
    let instance = stage.group(2, 60).remove(0);
    let sundown = stage.lead("sundown-0", &[]).await;
    drain(&stage, &instance).await;
    stage.world.kube.reboot(&stage.world.node_of(&instance).unwrap());
    stage.pass(120).await;
    assert!(stage.is_cordoned(&instance), "its group may have it in its pool");
    stage.world.aws.detach(&instance);
    stage.until(30, "it is as it was", || is_as_it_was(&stage, &instance)).await;
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stays_cordoned_because_aws_does_not_answer_is_reported_with_the_permission() {
    let logs = Logs::keep();
    let stage = Stage::new(953);
    let instance = stage.group(2, 60).remove(0);
    let sundown = stage.lead("sundown-0", &[]).await;
    drain(&stage, &instance).await;
    let describe = "autoscaling:DescribeAutoScalingGroups";
    let denied = stage.world.aws.fault(FaultRule::new(describe, Fault::AccessDenied, How::Always));
    stage.world.kube.reboot(&stage.world.node_of(&instance).unwrap());
    stage.world.aws.leave_warm_pool(&instance);
    let told = || stage.events().into_iter().filter(|e| e.reason == "ReturnNotShown").count();
    stage.pass(580).await;
    assert_eq!(told(), 0);
    assert_eq!(
        logs.with(&["WARN", "Cannot find out whether an instance is back", describe]).len(),
        1
    );
    stage.until(120, "the node has an Event", || told() == 1).await;
    assert!(stage.is_cordoned(&instance));
    stage.world.aws.end_fault(denied);
    stage.until(60, "it is as it was", || is_as_it_was(&stage, &instance)).await;
    stage.pass(60).await;
    assert_eq!(told(), 1);
    sundown.stop().await;
    stage.end_unjudged();
}
