//! Warnings of Capacity Blocks, which name no instance.

use std::time::Duration;

use serde_json::Value;
use sundown::{
    domain::Moment,
    sim::aws::{Fault, FaultRule, How, State},
};

use super::{bodies, logs::Logs, tools::text};
use crate::harness::Stage;

const BLOCK: &str = "cr-1234567890abcdef0";

/// A group of four instances, of which the first two run in the block.
fn stage(seed: u64) -> (Stage, Vec<String>) {
    let stage = Stage::new(seed);
    let instances = stage.spot_group(4);
    stage.shop(8);
    for instance in &instances[..2] {
        stage.world.aws.put_in_block(instance, BLOCK);
    }
    stage.world.aws.put_in_block(&instances[2], "cr-0fedcba0987654321");
    (stage, instances)
}

fn time(of: &Value) -> Moment {
    of.as_str().unwrap().parse().unwrap()
}

/// Pods that may take their time get it until the instances end, not two minutes.
#[tokio::test(start_paused = true)]
async fn the_nodes_of_a_capacity_block_are_drained_until_thirty_minutes_before_its_end() {
    let (stage, instances) = stage(900);
    let sundown = stage.settled(&[]).await;
    let nodes: Vec<_> =
        instances.iter().map(|instance| stage.world.node_of(instance).unwrap()).collect();
    let warned = stage.clock.now();
    stage.world.aws.block_ends(BLOCK);
    for instance in &instances[..2] {
        stage.until(5, "the node is cordoned", || stage.is_cordoned(instance)).await;
        let interruption = &stage.record(instance).unwrap()["interruptions"][0];
        assert_eq!(interruption["kind"], "capacity-block");
        let left = time(&interruption["ends"]).duration_since(warned).as_secs();
        assert!((2398..=2401).contains(&left), "{left}");
        let taint = &stage.node(instance)["spec"]["taints"][0];
        assert_eq!(taint["value"], "capacity-block");
    }
    for node in &nodes[..2] {
        let deadline = sundown.drain(node).unwrap().ends_at.unwrap();
        let left = deadline.duration_since(warned).as_secs();
        assert!((590..=600).contains(&left), "{left}");
        stage.until(300, "its pods are gone", || stage.world.kube.pods_on(node).is_empty()).await;
    }
    assert_eq!(sundown.messages("capacity-block", "accepted"), 2.0);
    stage.until(10, "the message is deleted", || stage.in_queue() == 0).await;
    assert!(instances[2..].iter().all(|other| !stage.is_cordoned(other)));
    let asked = stage.world.aws.calls().into_iter().any(|c| {
        c.api == "ec2:DescribeInstances"
            && c.object.contains(&format!("capacity-reservation-id={BLOCK}"))
            && c.object.contains("instance-state-name=")
    });
    assert!(asked);
    stage.pass(700).await;
    assert!(instances[..2].iter().all(|i| stage.ec2_says(i) != State::Running));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_warning_without_an_end_leaves_ten_minutes() {
    let (stage, instances) = stage(901);
    let sundown = stage.settled(&[]).await;
    let node = stage.world.node_of(&instances[0]).unwrap();
    let warned = stage.clock.now();
    stage.send(&bodies::block(BLOCK, &stage.now(), ""));
    stage.until(5, "the node is cordoned", || stage.is_cordoned(&instances[0])).await;
    stage.until(5, "its drain runs", || sundown.drain(&node).is_some()).await;
    let deadline = sundown.drain(&node).unwrap().ends_at.unwrap();
    let left = deadline.duration_since(warned).as_secs();
    assert!((590..=600).contains(&left), "{left}");
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_block_without_instances_is_counted_and_its_message_deleted() {
    let (stage, instances) = stage(902);
    let sundown = stage.settled(&[]).await;
    stage.send(&bodies::block("cr-00000000000000000", &stage.now(), ""));
    stage.until(10, "the message is deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("capacity-block", "no_instance"), 1.0);
    assert!(instances.iter().all(|instance| !stage.is_cordoned(instance)));
    sundown.stop().await;
    stage.end();
}

/// Until EC2 answers, the message is kept. The operator is told what to allow.
#[tokio::test(start_paused = true)]
async fn the_warning_waits_while_ec2_denies_the_question() {
    let logs = Logs::keep();
    let (stage, instances) = stage(903);
    let sundown = stage.settled(&[]).await;
    let denied = FaultRule::new("ec2:DescribeInstances", Fault::AccessDenied, How::Always);
    let denied = stage.world.aws.fault(denied);
    stage.world.aws.block_ends(BLOCK);
    stage.pass(150).await;
    assert_eq!(stage.in_queue(), 1, "longer than its visibility timeout");
    let warned = logs.with(&["WARN", "Not allowed to ask AWS", "DescribeInstances"]).len();
    assert!((1..=3).contains(&warned), "{warned}: at most once a minute");
    let calls = stage.world.aws.count("ec2:DescribeInstances");
    assert!((10..=150).contains(&calls), "{calls} calls in 150 s");
    stage.world.aws.end_fault(denied);
    // Up to 20 s pass between two calls that fail, and up to 10 s between two questions.
    stage.until(30, "the node is cordoned", || stage.is_cordoned(&instances[0])).await;
    stage.until(15, "the other is, too", || stage.is_cordoned(&instances[1])).await;
    stage.until(10, "the message is deleted", || stage.in_queue() == 0).await;
    sundown.stop().await;
    stage.end();
}

/// An instance that runs proves nothing before the block has ended, and everything after.
#[tokio::test(start_paused = true)]
async fn a_late_warning_counts_until_the_block_has_ended() {
    let (stage, instances) = stage(904);
    let sundown = stage.settled(&[]).await;
    let ended = stage.ago(10);
    stage.send(&bodies::block(BLOCK, &stage.ago(2410), &ended));
    stage.until(10, "the message is deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("capacity-block", "stale"), 2.0);
    assert!(instances.iter().all(|instance| !stage.is_cordoned(instance)));
    let ends = text(stage.clock.now() + Duration::from_secs(2100));
    stage.send(&bodies::block(BLOCK, &stage.ago(300), &ends));
    stage.until(5, "the node is cordoned", || stage.is_cordoned(&instances[0])).await;
    stage.until(10, "the message is deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("capacity-block", "accepted"), 2.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_test_event_of_a_block_reports_each_of_its_instances_and_drains_none() {
    let (stage, instances) = stage(905);
    let sundown = stage.settled(&[]).await;
    let mut event: Value = serde_json::from_str(&bodies::block(BLOCK, &stage.now(), "")).unwrap();
    event["source"] = "sundown.test".into();
    stage.send(&event.to_string());
    stage.until(10, "the message is deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("capacity-block", "test"), 2.0);
    stage.pass(60).await;
    assert!(instances.iter().all(|instance| !stage.is_cordoned(instance)));
    sundown.stop().await;
    stage.end();
}
