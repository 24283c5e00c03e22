//! Instances that come back into service without a new boot: out of a warm pool that keeps them
//! running, or out of hibernation.

use serde_json::json;
use sundown::sim::aws::HookResult;

use crate::{
    harness::{Replica, Stage},
    messages::bodies,
};

/// A node that is drained and let go of, while its instance keeps running.
async fn drained(seed: u64) -> (Stage, String, Replica) {
    let stage = Stage::new(seed);
    let instance = stage.group(2, 60).remove(0);
    let sundown = stage.lead("sundown-0", &[]).await;
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
