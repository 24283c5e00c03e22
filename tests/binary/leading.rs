//! A leader that is killed.

use std::time::{Duration, Instant};

use sundown::sim::kube::{PodShape, Workload};

use crate::stage::Stage;

const LEASE: Duration = Duration::from_secs(10);
const SHORT: [&str; 6] =
    ["--lease-duration", "10s", "--lease-renew-deadline", "5s", "--lease-retry", "500ms"];

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_takes_over_from_a_killed_leader_within_the_lease_duration_and_goes_on_with_its_drains()
 {
    let stage = Stage::new(30).await;
    let instances = stage.group(3);
    // Their pods take longer to stop than the Lease lasts: the drain is under way when the leader
    // dies.
    let slow = PodShape {
        grace: Some(Duration::from_mins(1)),
        stop: Some(Duration::from_secs(14)),
        ..PodShape::default()
    };
    stage.world.kube.add_deployment(&Workload::new("shop", "web", 6).shape(slow));
    stage.pods_run(6).await;
    let mut first = stage.leader("first", &SHORT).await;
    let mut second = stage.start("second", &SHORT);
    second.ready().await;
    let leader = stage.holder().unwrap();
    let node = stage.node_of(&instances[0]);
    let before = stage.world.kube.pods_on(&node).len();
    stage.world.aws.terminate(&instances[0], true);
    stage.until("all its pods are being evicted", || stage.evicted().len() == before).await;
    stage.until("the message is deleted", || stage.in_queue() == 0).await;
    assert!(!stage.is_completed(&instances[0]));
    assert_eq!(second.metric("leader").await.to_string(), "0");

    first.signal("KILL");
    let killed = Instant::now();
    stage
        .until("the Lease has another holder", || stage.holder().is_some_and(|h| h != leader))
        .await;
    let took = killed.elapsed();
    // To the second where time is simulated; here by a process that may have to wait for its turn,
    // but not for the Lease a second time.
    assert!(took <= LEASE * 3 / 2, "the standby leads only after {took:?}");
    assert!(!first.is_alive());

    second.counts("leader", 1.0).await;
    stage.until("the action is completed", || stage.is_completed(&instances[0])).await;
    assert_eq!(stage.evicted().len(), before, "no pod that is terminating is evicted again");
    let action = stage.action(&instances[0]).unwrap();
    assert!(
        action.longest_gap(action.end.as_ref().unwrap().at) < Duration::from_mins(5),
        "the hook did not run out"
    );
}
