//! Messages with large bodies: EventBridge and SQS carry 1 MiB, of which Sundown needs a few
//! hundred bytes.

use sundown::sim::aws::{Fault, FaultRule, How};

use super::bodies;
use crate::harness::Stage;

/// A body that is as long as SQS lets it be at most.
fn padded(body: &str, bytes: usize) -> String {
    let (head, tail) = body.split_at(1);
    let frame = r#""padding":"","#.len();
    format!(r#"{head}"padding":"{}",{tail}"#, "x".repeat(bytes - body.len() - frame))
}

#[tokio::test(start_paused = true)]
async fn the_largest_body_that_sqs_carries_is_acted_on() {
    let stage = Stage::new(150);
    let instances = stage.spot_group(2);
    let sundown = stage.settled(&[]).await;
    let largest = padded(&bodies::spot(&instances[0], &stage.now()), 1024 * 1024);
    assert_eq!(largest.len(), 1024 * 1024);
    stage.send(&largest);
    stage.until(3, "it is taken on", || stage.is_cordoned(&instances[0])).await;
    stage.until(3, "its message is deleted", || stage.in_queue() == 0).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn large_messages_that_cannot_be_decided_are_all_held_because_their_bodies_are_not() {
    const MESSAGES: usize = 60;
    let stage = Stage::new(151);
    stage.group(1, 300);
    let sundown = stage.settled(&[]).await;
    stage.world.aws.fault(FaultRule::new("ec2:DescribeInstances", Fault::Throttle, How::Always));
    for n in 0..MESSAGES {
        stage.send(&padded(&bodies::spot(&format!("i-{n:017x}"), &stage.now()), 900_000));
    }
    // More than the bytes that may be in flight at once: each body is gone when it is parsed.
    let in_flight = || stage.world.aws.queue(stage.world.queue()).unwrap().in_flight;
    stage.until(20, "all are held", || in_flight() == MESSAGES).await;
    stage.pass(100).await;
    let queue = stage.world.aws.queue(stage.world.queue()).unwrap();
    assert_eq!(queue.in_flight, MESSAGES);
    assert!(
        queue.messages.iter().all(|m| m.receive_count == 1),
        "none was lost on the way and came again"
    );
    stage.world.aws.end_faults();
    stage.until(120, "all are decided: they are foreign", || stage.in_queue() == 0).await;
    sundown.stop().await;
    stage.end();
}
