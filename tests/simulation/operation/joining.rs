//! What comes for a node whose drain has its own deadline already.

use sundown::cluster::lease::{LeasePlace, set_paused};

use super::hook;
use crate::harness::Stage;

fn deleted(stage: &Stage, pod: &str) -> bool {
    stage.removals().iter().any(|r| r.0 == pod && r.2)
}

#[tokio::test(start_paused = true)]
async fn a_spot_notice_an_hour_into_the_drain_of_a_longer_hook_is_joined_and_forces() {
    let stage = Stage::new(1_901);
    let instance = stage.group_with("long", 1, &[hook("drain", 7_200)]).remove(0);
    stage.blocked_pod(&instance, "quorum", 30);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(4_200).await;
    assert!(!deleted(&stage, "quorum"));
    stage.spot_warning(&instance, "spot-1");
    stage.until(5, "it joins", || sundown.messages("spot", "joined") == 1.0).await;
    // One that says the same under another id changes nothing.
    stage.spot_warning(&instance, "spot-2");
    stage.until(5, "it is a repeat", || sundown.messages("spot", "repeat") == 1.0).await;
    stage
        .until(115, "the pod is forced before the machine goes", || deleted(&stage, "quorum"))
        .await;
    stage.until(40, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_spot_notice_to_a_drain_that_is_paused_beyond_its_deadline_is_joined_and_forces_after_the_resume()
 {
    let stage = Stage::new(1_902);
    let instance = stage.group_with("asg", 1, &[hook("drain", 300)]).remove(0);
    stage.blocked_pod(&instance, "quorum", 30);
    let sundown = stage.lead("sundown-0", &[]).await;
    let place = LeasePlace { namespace: "kube-system".to_owned(), name: "sundown".to_owned() };
    assert!(set_paused(stage.world.kube.client_as("person"), &place, true).await.unwrap());
    stage.until(5, "the pause is noticed", || sundown.metric("paused") == 1.0).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(3_700).await;
    stage.spot_warning(&instance, "spot-1");
    stage.until(5, "it joins", || sundown.messages("spot", "joined") == 1.0).await;
    assert!(set_paused(stage.world.kube.client_as("person"), &place, false).await.unwrap());
    stage
        .until(115, "the pod is forced before the machine goes", || deleted(&stage, "quorum"))
        .await;
    stage.until(40, "the action is completed", || stage.is_over(&instance)).await;
    sundown.stop().await;
    stage.end();
}
