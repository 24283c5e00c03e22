//! From the queue to the completion.

use sundown::sim::{
    aws::{HookResult, SpotAction, Verdict},
    kube::Workload,
};

use crate::harness::Stage;

#[tokio::test(start_paused = true)]
async fn c02_a_terminate_hook_drains_the_node_and_is_completed() {
    let stage = Stage::new(1);
    let instances = stage.group(4, 300);
    stage.world.kube.add_deployment(&Workload::new("shop", "web", 8));
    stage.pass(60).await;
    let sundown = stage.start("sundown-0", &[]);
    stage.pass(30).await;
    stage.world.aws.terminate(&instances[0], true);
    stage.until(5, "the node is cordoned", || stage.is_cordoned(&instances[0])).await;
    let node = stage.world.node_of(&instances[0]).unwrap();
    stage
        .until(120, "the action is completed", || {
            stage.actions(&instances[0]).iter().all(|a| a.end.is_some())
        })
        .await;
    let pods: Vec<_> = stage.world.kube.pods_on(&node);
    assert!(pods.is_empty(), "{pods:?}");
    let actions = stage.actions(&instances[0]);
    assert_eq!(actions.len(), 1);
    let end = actions[0].end.as_ref().unwrap();
    assert!(
        !end.by.is_empty() && end.verdict == Verdict::Completed(HookResult::Continue),
        "completed by us: {end:?}"
    );
    stage.until(10, "the message is deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("terminate-hook", "accepted"), 1.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c01_a_spot_notice_cordons_and_evicts_before_the_instance_goes() {
    let stage = Stage::new(2);
    let instances = stage.spot_group(3);
    stage.world.kube.add_deployment(&Workload::new("shop", "web", 6));
    stage.pass(60).await;
    let sundown = stage.start("sundown-0", &[]);
    stage.pass(30).await;
    let node = stage.world.node_of(&instances[0]).unwrap();
    let before = stage.world.kube.pods_on(&node).len();
    assert!(before > 0);
    stage.world.aws.spot_interruption(&instances[0], SpotAction::Terminate);
    stage.until(5, "the node is cordoned", || stage.is_cordoned(&instances[0])).await;
    stage.until(100, "its pods are gone", || stage.world.kube.pods_on(&node).is_empty()).await;
    stage.until(10, "the message is deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.drain(&node).unwrap().evictions as usize, before);
    sundown.stop().await;
    stage.end();
}
