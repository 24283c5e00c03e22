//! `--compat nth`: NTH's taints and label beside ours, and away with ours.

use serde_json::Value;
use sundown::sim::kube::Request;

use super::{Scene, graceful};

const LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Keys of the taints on a node.
fn taints(node: &Value) -> Vec<String> {
    let all = node["spec"]["taints"].as_array().into_iter().flatten();
    // What the controller of cordons adds by itself comes and goes when it likes.
    let all = all.filter(|t| t["key"] != "node.kubernetes.io/unschedulable");
    all.map(|t| format!("{}:{}", t["key"].as_str().unwrap(), t["effect"].as_str().unwrap()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_marks_of_nth_stand_beside_ours_from_the_same_write() {
    let scene = Scene::spot(180, 3, &["--compat", "nth"]).await;
    scene.pod(0, "web-0", graceful(30, 20));
    scene.stage.pass(5).await;
    scene.notice(0).await;
    let node = scene.stage.node(&scene.instances[0]);
    assert_eq!(
        taints(&node),
        ["sundown.dev/interruption:NoSchedule", "aws-node-termination-handler/spot-itn:NoSchedule"]
    );
    let value = node["spec"]["taints"][1]["value"].as_str().unwrap();
    assert!(value.starts_with("spot-itn-event-") && value.len() <= 63, "{value}");
    assert_eq!(node["metadata"]["labels"][LABEL], "aws-node-termination-handler");
    let writes: Vec<Request> = scene.patches(0);
    assert_eq!(writes.len(), 1, "{writes:?}");
    scene.stage.pass(60).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_released_by_hand_loses_them_with_ours() {
    let scene = Scene::spot(181, 3, &["--compat", "nth"]).await;
    scene.pod(0, "web-0", graceful(90, 80));
    scene.stage.pass(5).await;
    let before = scene.stage.node(&scene.instances[0]);
    scene.notice(0).await;
    let node = scene.node(0);
    scene.stage.world.kube.edit("nodes", "", &node, |n| {
        n["metadata"]["annotations"]["sundown.dev/release"] = "true".into();
    });
    scene
        .stage
        .until(30, "the node is put back", || !scene.stage.is_cordoned(&scene.instances[0]))
        .await;
    let after = scene.stage.node(&scene.instances[0]);
    assert!(taints(&after).is_empty(), "{after}");
    assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"]);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_flag_nothing_of_nth_is_written() {
    let scene = Scene::spot(182, 3, &[]).await;
    scene.notice(0).await;
    let node = scene.stage.node(&scene.instances[0]);
    assert_eq!(taints(&node), ["sundown.dev/interruption:NoSchedule"]);
    assert!(!node.to_string().contains("aws-node-termination-handler"), "{node}");
    scene.end().await;
}
