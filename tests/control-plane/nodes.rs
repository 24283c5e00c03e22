//! Nodes that go, come back as others, or fall silent in mid-drain.

use std::time::Duration;

use serde_json::{Value, json};
use sundown::{runtime::Clock, sim::aws::State};

use crate::{
    audit::{self, calls},
    cluster::ADMIN,
    draining::released,
    hands::{
        accepted, completed_by_sundown, delete, fall_silent, has_taint, hold, let_go, node_path,
        patch, pod, pod_path, run_pod, stage_of_ours, wait_for,
    },
    stage::{condition, node_name},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_deleted_and_comes_again_as_another_instance_is_completed_and_the_new_one_left_alone()
 {
    let Some(stage) = stage_of_ours(6).await else { return };
    let instances = stage.group(3).await;
    let (old, other) = (&instances[0], &instances[1]);
    let new = stage.world.aws.launch("asg").unwrap();
    hold(&stage, "kept", old).await;
    let mut sundown = stage.leader("sundown", &[]).await;
    stage.world.aws.terminate(old, true);
    accepted(&stage, old).await;
    wait_for("its pod is refused", || {
        calls(&stage).iter().any(|c| c.is("create", "pods/eviction") && c.code == 429)
    })
    .await;

    let (path, before) = (node_path(old), stage.node(old).await);
    delete(&stage.cluster.client(ADMIN), &path, None).await;
    stage.add_node(&node_name(old), &new, 0).await;
    let came = Clock::system().now();
    completed_by_sundown(&stage, old).await;
    sundown.counts("drains_total{end=\"node_gone\"}", 1.0).await;
    // What came before this drain is done with when it ends.
    stage.world.aws.terminate(other, true);
    completed_by_sundown(&stage, other).await;
    released(&stage, other).await;
    let node = stage.until("the new one is ready", &path, |n| condition(n, "Ready")).await;
    assert_ne!(node["metadata"]["uid"], before["metadata"]["uid"]);
    assert!(!has_taint(&node) && node["spec"]["unschedulable"].is_null(), "{node}");
    assert!(node["metadata"]["annotations"]["sundown.dev/record"].is_null(), "{node}");
    assert!(
        stage.get(&pod_path("kept")).await.unwrap()["metadata"]["deletionTimestamp"].is_null(),
        "its pod stays"
    );
    let touched = |c: &&audit::Call| {
        audit::is_write(c)
            && c.received > came
            && [node_name(old), "kept".to_owned()].contains(&c.name)
    };
    assert_eq!(calls(&stage).iter().find(touched).map(|c| format!("{c:?}")), None);

    // Its own time comes all the same.
    wait_for("the new instance runs", || {
        stage.world.aws.instance(&new).is_some_and(|i| i.state == State::Running)
    })
    .await;
    stage.world.aws.terminate(&new, true);
    stage.until("it is accepted", &path, has_taint).await;
    let_go(&stage, "kept").await;
    completed_by_sundown(&stage, &new).await;
    audit::assert_evicted_once(&calls(&stage), &["kept".to_owned()]);
}

fn is_ready(node: &Value) -> bool {
    condition(node, "Ready")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_falls_silent_in_mid_drain_is_waited_for_half_a_minute_and_one_that_is_heard_again_as_ever()
 {
    let Some(stage) = stage_of_ours(7).await else { return };
    let instances = stage.group(5).await;
    let (dead, dazed) = (&instances[0], &instances[1]);
    // Budgets would not hold them: the pods of a node that is not ready are not either.
    run_pod(&stage, &pod("mute", &node_name(dead), 600)).await;
    run_pod(&stage, &pod("slow", &node_name(dazed), 600)).await;
    let mut sundown = stage.leader("sundown", &[]).await;
    for instance in [dead, dazed] {
        stage.world.aws.terminate(instance, true);
        accepted(&stage, instance).await;
    }
    wait_for("both pods are evicted", || audit::evicted(&calls(&stage)).len() == 2).await;
    fall_silent(&stage, dazed, Duration::ZERO).await;
    fall_silent(&stage, dead, Duration::from_secs(50)).await;
    stage.until("it is not ready", &node_path(dazed), |n| !is_ready(n)).await;

    // One is heard again; its drain goes on as if nothing had been.
    let admin = stage.cluster.client(ADMIN);
    patch(
        &admin,
        &node_path(dazed),
        &json!({ "metadata": { "annotations": { "kwok.x-k8s.io/node": "fake" } } }),
    )
    .await;
    stage.until("it is ready again", &node_path(dazed), is_ready).await;

    completed_by_sundown(&stage, dead).await;
    sundown.counts("drains_total{end=\"unreachable\"}", 1.0).await;
    released(&stage, dead).await;
    let left = stage.get(&pod_path("mute")).await.expect("nobody stopped it");
    assert!(left["metadata"]["deletionTimestamp"].is_string(), "{left}");

    assert!(
        stage.world.aws.actions().iter().any(|a| a.instance == *dazed && a.end.is_none()),
        "it waits for its pod"
    );
    delete(&admin, &pod_path("slow"), Some(0)).await;
    completed_by_sundown(&stage, dazed).await;
    sundown.counts("drains_total{end=\"empty\"}", 1.0).await;
    audit::assert_evicted_once(&calls(&stage), &["mute".to_owned(), "slow".to_owned()]);
}
