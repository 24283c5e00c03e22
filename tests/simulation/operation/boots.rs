//! Instances that are drained, boot again and come back.

use sundown::sim::{
    WorldSettings,
    aws::{HealthNotice, HookSpec, State},
};

use super::s;
use crate::harness::Stage;

fn is_as_it_was(stage: &Stage, instance: &str) -> bool {
    !stage.is_cordoned(instance)
        && !stage.node(instance)["spec"]["taints"].to_string().contains("sundown.dev")
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_root_volume_was_replaced_is_as_it_was_and_its_launch_hook_is_completed() {
    let stage = Stage::new(2_610);
    let instance = stage.group(2, 300).remove(0);
    let launch = HookSpec::launching("sundown-launch").heartbeat_timeout(s(300));
    stage.world.aws.put_hook("asg", launch);
    let node = stage.world.node_of(&instance).unwrap();
    stage.slow_pod(&instance, "web-0", 5);
    let sundown = stage.lead("sundown-0", &[]).await;
    let detail = [
        ("Action", "ReplaceRootVolume"),
        ("Origin", "AutoScalingGroup"),
        ("Destination", "AutoScalingGroup"),
    ];
    stage.world.aws.other_action("asg", "drain", &instance, &detail).unwrap();
    stage.until(60, "it is drained and completed", || stage.is_over(&instance)).await;
    stage.pass(30).await;
    assert!(stage.is_cordoned(&instance), "it has not booted yet");
    stage.world.kube.reboot(&node);
    stage.world.aws.other_action("asg", "sundown-launch", &instance, &detail).unwrap();
    stage.until(40, "the node is as it was", || is_as_it_was(&stage, &instance)).await;
    let is_completed = || {
        let actions = stage.actions(&instance);
        actions.iter().all(|action| action.end.is_some()) && actions.len() == 2
    };
    stage.until(40, "its launch hook is completed", is_completed).await;
    assert!(stage.world.kube.object("nodes", "", &node).is_some());
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_message_that_comes_again_after_its_action_was_completed_does_nothing_to_the_node() {
    let stage = Stage::new(2_612);
    let instance = stage.group(2, 300).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    stage.slow_pod(&instance, "web-0", 5);
    let sundown = stage.lead("sundown-0", &[]).await;
    let detail = [
        ("Action", "ReplaceRootVolume"),
        ("Origin", "AutoScalingGroup"),
        ("Destination", "AutoScalingGroup"),
    ];
    stage.world.aws.other_action("asg", "drain", &instance, &detail).unwrap();
    stage.until(60, "it is drained and completed", || stage.is_over(&instance)).await;
    stage.world.kube.reboot(&node);
    stage.until(40, "the node is as it was", || is_as_it_was(&stage, &instance)).await;
    // The queue delivers the message although it was deleted.
    let deleted = stage.world.aws.deletions();
    let again = deleted.iter().find(|d| d.body.contains("ReplaceRootVolume")).unwrap();
    stage.world.aws.send_event(stage.world.queue(), &again.body);
    for _ in 0..30 {
        stage.pass(1).await;
        assert!(!stage.is_cordoned(&instance), "its action is known to be completed");
    }
    assert_eq!(stage.in_queue(), 0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_left_degraded_hardware_by_a_stop_and_a_start_is_as_it_was() {
    let mut settings = WorldSettings::seeded(2_613);
    settings.kube.timing.node_deletion = None;
    let stage = Stage::with(settings);
    let instance = stage.group(2, 300).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    let sundown = stage.lead("sundown-0", &[]).await;
    let degraded = HealthNotice {
        code: "AWS_EC2_INSTANCE_HARDWARE_DEGRADED".to_owned(),
        ..HealthNotice::retirement([instance.clone()], stage.clock.now())
    };
    stage.world.aws.health(&degraded);
    stage.until(60, "its node is drained", || stage.is_cordoned(&instance)).await;
    stage.pass(60).await;
    stage.world.aws.stop(&instance);
    let state = || stage.world.aws.instance(&instance).unwrap().state;
    stage.until(120, "it has stopped", || state() == State::Stopped).await;
    stage.world.aws.start_again(&instance);
    stage.until(60, "it runs", || state() == State::Running).await;
    stage.world.kube.machine_back(&node);
    stage.world.kube.reboot(&node);
    stage.until(90, "the node is as it was", || is_as_it_was(&stage, &instance)).await;
    for _ in 0..60 {
        stage.pass(5).await;
        assert!(is_as_it_was(&stage, &instance), "it runs on other hardware");
    }
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_instance_was_stopped_and_started_is_as_it_was() {
    // The cloud controller keeps the Node of an instance that is stopped.
    let mut settings = WorldSettings::seeded(2_611);
    settings.kube.timing.node_deletion = None;
    let stage = Stage::with(settings);
    let instance = stage.group(2, 300).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.stop(&instance);
    let state = || stage.world.aws.instance(&instance).unwrap().state;
    stage.until(120, "it has stopped", || state() == State::Stopped).await;
    let is_released = || stage.record(&instance).is_some_and(|r| r["released"].is_object());
    stage.until(30, "its drain is over", is_released).await;
    stage.world.aws.start_again(&instance);
    stage.until(60, "it runs", || state() == State::Running).await;
    assert!(stage.is_cordoned(&instance), "its kubelet has not reported");
    stage.world.kube.machine_back(&node);
    stage.world.kube.reboot(&node);
    stage.until(60, "the node is as it was", || is_as_it_was(&stage, &instance)).await;
    sundown.stop().await;
    stage.end_unjudged();
}
