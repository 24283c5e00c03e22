//! Test events: decided like any other, and nothing is done about them but where that was asked
//! for, for as long as it was.

use serde_json::{Value, json};
use sundown::sim::aws::Rule;

use super::bodies;
use crate::harness::Stage;

/// The body as `sundown send-test` would send it.
fn as_test(body: &str, real: bool) -> String {
    let mut event: Value = serde_json::from_str(body).unwrap();
    event["source"] = "sundown.test".into();
    event["detail"]["sundown"] = json!({ "real": real });
    event.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_test_is_dry_whatever_it_says_and_its_message_is_deleted() {
    let stage = Stage::new(5);
    let instances = stage.group(3, 300);
    stage.shop(6);
    let sundown = stage.settled(&[]).await;
    let before = stage.deeds().len();
    for (n, real) in [(0, false), (1, true)] {
        stage.send(&as_test(&bodies::spot(&instances[n], &stage.now()), real));
    }
    stage.until(10, "the messages are deleted", || stage.in_queue() == 0).await;
    stage.pass(300).await;
    assert_eq!(sundown.messages("spot", "test"), 2.0);
    assert_eq!(stage.deeds().len(), before, "{:?}", stage.deeds());
    assert!(instances.iter().all(|i| !stage.is_cordoned(i)));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_test_of_a_hook_neither_keeps_alive_nor_completes_the_action_that_is_open() {
    let stage = Stage::new(6);
    let instances = stage.group(2, 300);
    stage.shop(4);
    let sundown = stage.settled(&[]).await;
    stage.world.aws.terminate(&instances[0], true);
    stage.until(5, "the node is cordoned", || stage.is_cordoned(&instances[0])).await;
    // A test about the very instance that is being drained: the drain goes on, and its hook is
    // completed as ever.
    let test = json!({
        "version": "0", "id": "t", "detail-type": "EC2 Instance-terminate Lifecycle Action",
        "source": "sundown.test", "time": stage.now(),
        "detail": {
            "AutoScalingGroupName": "asg", "LifecycleHookName": "drain",
            "EC2InstanceId": instances[0],
            "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING", "LifecycleActionToken": "71514b9d-6a40-4b26-8523-05e7ee35fa40" } });
    stage.send(&test.to_string());
    stage
        .until(120, "the action is completed", || {
            stage.actions(&instances[0]).iter().all(|a| a.end.is_some())
        })
        .await;
    stage.until(70, "the messages are deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("terminate-hook", "test"), 1.0);
    assert_eq!(sundown.metric("completions_total{result=\"accepted\"}"), 1.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_test_of_an_instance_that_nobody_knows_is_reported_and_gone_in_a_minute() {
    let stage = Stage::new(7);
    stage.group(2, 300);
    let sundown = stage.settled(&[]).await;
    stage.send(&as_test(&bodies::spot("i-0123456789abcdef0", &stage.now()), false));
    stage.until(70, "the message is deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("spot", "test"), 1.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn real_tests_are_acted_on_for_as_long_as_was_said_and_not_longer() {
    let stage = Stage::new(8);
    let instances = stage.spot_group(3);
    stage.shop(6);
    stage.world.aws.reroute(Rule::usual(stage.world.queue()).with_tests());
    let sundown = stage.settled(&["--accept-real-tests", "1h"]).await;
    stage.send(&as_test(&bodies::spot(&instances[0], &stage.now()), true));
    stage.until(5, "the node is cordoned", || stage.is_cordoned(&instances[0])).await;
    let node = stage.world.node_of(&instances[0]).unwrap();
    stage.until(110, "its pods are gone", || stage.world.kube.pods_on(&node).is_empty()).await;
    stage.pass(3600).await;
    stage.send(&as_test(&bodies::spot(&instances[1], &stage.now()), true));
    stage.until(10, "the message is deleted", || stage.in_queue() == 0).await;
    assert_eq!(
        (sundown.messages("spot", "accepted"), sundown.messages("spot", "test")),
        (1.0, 1.0)
    );
    assert!(!stage.is_cordoned(&instances[1]));
    sundown.stop().await;
    stage.end();
}
