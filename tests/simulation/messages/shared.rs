//! A queue that others read too: nothing that may concern them is deleted.

use serde_json::json;
use sundown::sim::aws::GroupSpec;

use super::{
    bodies,
    tools::{continuing_hook, with_dead_letters},
};
use crate::harness::Stage;

#[tokio::test(start_paused = true)]
async fn a_shared_queue_keeps_whatever_may_be_for_others() {
    let stage = Stage::new(140);
    let instances = stage.group(4, 300);
    let theirs = stage.foreign_group("theirs", 2, Some("other"), &continuing_hook("drain", 300));
    let karpenter =
        stage.node_of_shape("karpenter", |n, _| n.label("karpenter.sh/nodepool", "default"));
    let sundown = stage.settled(&["--shared-queue"]).await;
    let time = stage.now();
    let for_others = [
        bodies::spot(&theirs[0], &time),
        bodies::terminate("theirs", "drain", &theirs[1], &time),
        bodies::terminate("asg", "Terminate-LC-Hook", &instances[1], &time),
        bodies::spot(&karpenter, &time),
        bodies::spot("i-00000000000000bad", &time),
        bodies::state_change(&theirs[0], "running", &time),
        bodies::rebalance(&theirs[0], &time),
        bodies::event("my.app", "Something", &time, &json!({})),
        json!({ "Event": "autoscaling:TEST_NOTIFICATION", "AutoScalingGroupName": "theirs" })
            .to_string(),
        bodies::network_maintenance(&[&instances[2], &theirs[0]], &time),
    ];
    let for_us = [bodies::spot(&instances[0], &time), bodies::rebalance(&instances[3], &time)];
    for_others.iter().chain(&for_us).for_each(|b| stage.send(b));
    stage.until(10, "ours is taken on", || stage.is_cordoned(&instances[0])).await;
    stage.pass(300).await;
    let mut left = stage.bodies_in(stage.world.queue());
    let mut kept = for_others.to_vec();
    left.sort_unstable();
    kept.sort_unstable();
    assert_eq!(left, kept);
    assert_eq!(stage.world.aws.deletions().len(), for_us.len());
    assert!(sundown.messages("spot", "left") >= 3.0);
    for name in [
        "karpenter".to_owned(),
        stage.world.node_of(&instances[1]).unwrap(),
        stage.world.node_of(&instances[2]).unwrap(),
    ] {
        stage.assert_untouched(&name);
    }
    assert_eq!(theirs.iter().chain([&instances[1]]).map(|i| stage.hook_calls(i)).sum::<usize>(), 0);
    assert!(stage.describes() <= 15, "{} calls in five minutes", stage.describes());
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_message_for_another_cluster_is_there_for_it_within_two_seconds_and_is_not_handed_back_and_forth()
 {
    let stage = Stage::new(143);
    stage.group(1, 300);
    let theirs = stage.foreign_group("theirs", 1, Some("other"), &continuing_hook("drain", 300));
    let sundown = stage.settled(&["--shared-queue"]).await;
    stage.send(&bodies::spot(&theirs[0], &stage.now()));
    let message = || stage.world.aws.queue(stage.world.queue()).unwrap().messages.pop().unwrap();
    stage.until(1, "it was received", || message().receive_count > 0).await;
    // The other cluster, which is asked for nothing else, could have it now.
    stage
        .until(2, "another reader could receive it", || {
            message().receive_count > 1 || message().hidden_until.is_none()
        })
        .await;
    // While the other cluster is away, it comes ever more seldom.
    stage.pass(300).await;
    let count = message().receive_count;
    assert!((8..=12).contains(&count), "received {count} times in five minutes");
    assert_eq!(stage.in_queue(), 1);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn what_sundown_does_not_deal_with_or_understand_is_there_for_others_within_two_seconds() {
    for (seed, is_event) in [(144, true), (145, false)] {
        let stage = Stage::new(seed);
        stage.group(1, 300);
        let sundown = stage.settled(&["--shared-queue"]).await;
        let event = bodies::event("my.app", "Something", &stage.now(), &json!({}));
        stage.send(if is_event { &event } else { "a body of another tool" });
        let message =
            || stage.world.aws.queue(stage.world.queue()).unwrap().messages.pop().unwrap();
        stage.until(2, "it was received", || message().receive_count > 0).await;
        stage
            .until(2, "another reader could receive it", || {
                message().receive_count > 1 || message().hidden_until.is_none()
            })
            .await;
        stage.pass(300).await;
        let count = message().receive_count;
        assert!((8..=12).contains(&count), "received {count} times in five minutes");
        assert_eq!(
            sundown.metric("messages_total{kind=\"none\",outcome=\"left\"}"),
            f64::from(count),
            "each time it was left to others"
        );
        sundown.stop().await;
        stage.end();
    }
}

#[tokio::test(start_paused = true)]
async fn a_shared_queue_without_a_cluster_name_leaves_what_is_unknown_to_others_at_once() {
    let stage = Stage::new(141);
    stage.group(2, 300);
    let sundown = stage.settled(&["--shared-queue", "--no-cluster-name"]).await;
    let young = stage.group_without_nodes("asg2", 1, 10, &[continuing_hook("drain", 300)]);
    stage.send(&bodies::terminate("asg2", "drain", &young[0], &stage.now()));
    stage.pass(70).await;
    let queue = stage.world.aws.queue(stage.world.queue()).unwrap();
    assert!(queue.messages[0].receive_count >= 2, "it was there for others meanwhile: {queue:?}");
    stage.pass(600).await;
    assert_eq!(stage.in_queue(), 1);
    assert_eq!(stage.hook_calls(&young[0]), 0);
    assert!(sundown.messages("terminate-hook", "left") >= 2.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn on_a_queue_of_our_own_all_of_that_is_deleted() {
    let stage = with_dead_letters(142, 3);
    let instances = stage.group(2, 300);
    let theirs = stage.foreign_group("theirs", 2, Some("other"), &continuing_hook("drain", 300));
    let sundown = stage.settled(&[]).await;
    stage.send(&bodies::spot(&theirs[0], &stage.now()));
    stage.send(&bodies::terminate("asg", "Terminate-LC-Hook", &instances[1], &stage.now()));
    stage.send(&bodies::network_maintenance(&[&instances[0], &theirs[0]], &stage.now()));
    stage.until(10, "they are deleted", || stage.in_queue() == 0).await;
    assert!(stage.bodies_in("dead").is_empty());
    assert_eq!(sundown.messages("scheduled-change", "not_acted_on"), 2.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_others_is_not_kept_open_by_messages_that_come_again() {
    let stage = Stage::new(148);
    let instances = stage.world.add_group(
        GroupSpec { replace_after: None, ..GroupSpec::new("asg", 2) },
        &[continuing_hook("log-backup", 100), continuing_hook("sundown-terminate", 300)],
    );
    stage.shop(4);
    let sundown = stage.settled(&["--shared-queue"]).await;
    stage.world.aws.terminate(&instances[0], true);
    stage.pass(300).await;
    let theirs = stage.actions(&instances[0]).into_iter().find(|a| a.hook == "log-backup").unwrap();
    assert!(
        theirs.heartbeats.is_empty() && theirs.late_calls.is_empty(),
        "its message comes again and again: {theirs:?}"
    );
    assert!(stage.in_queue() > 0);
    sundown.stop().await;
    stage.end();
}
