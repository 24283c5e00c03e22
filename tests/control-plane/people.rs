//! What people do to a drain with kubectl.

use serde_json::{Value, json};
use sundown::sim::aws::SpotAction;

use crate::{
    audit::{self, calls},
    cluster::ADMIN,
    draining::released,
    hands::{
        self, PODS, accepted, completed_by_sundown, delete, has_taint, hold, let_go, node_path,
        patch, pod_path, stage_of_ours, wait_for,
    },
    stage::node_name,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_a_person_deletes_is_gone_and_a_node_that_a_person_uncordons_is_drained_on() {
    let Some(stage) = stage_of_ours(8).await else { return };
    let instances = stage.group(3).await;
    let (emptied, uncordoned) = (&instances[0], &instances[1]);
    hold(&stage, "deleted", emptied).await;
    hold(&stage, "held", uncordoned).await;
    let mut sundown = stage.leader("sundown", &[]).await;
    for instance in &instances[..2] {
        stage.world.aws.terminate(instance, true);
        accepted(&stage, instance).await;
    }
    let refused = |name: &str| {
        calls(&stage)
            .iter()
            .any(|c| c.is("create", "pods/eviction") && c.name == name && c.code == 429)
    };
    wait_for("their budgets hold both", || refused("deleted") && refused("held")).await;
    let admin = stage.cluster.client(ADMIN);

    delete(&admin, &pod_path("deleted"), None).await;
    completed_by_sundown(&stage, emptied).await;
    released(&stage, emptied).await;

    patch(&admin, &node_path(uncordoned), &json!({ "spec": { "unschedulable": null } })).await;
    let event = format!(
        "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D{}%2Creason%3DUncordoned",
        node_name(uncordoned)
    );
    stage
        .until("an Event reports it", &event, |list| !list["items"].as_array().unwrap().is_empty())
        .await;
    // The taint keeps away whom the scheduler would have to send there.
    let homeless = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "homeless" },
        "spec": {
            "nodeSelector": { "kubernetes.io/hostname": node_name(uncordoned) },
            "containers": [{ "name": "main", "image": "none" }],
        },
    });
    hands::create(&admin, PODS, &homeless).await;
    let unplaced = |p: &Value| {
        p["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|c| c["type"] == "PodScheduled" && c["reason"] == "Unschedulable")
    };
    stage.until("it finds no node", &pod_path("homeless"), unplaced).await;
    assert!(sundown.metric("drains_active").await > 0.5, "the drain goes on");
    // What joins is written on the Node, which stays uncordoned.
    stage.world.aws.spot_interruption(uncordoned, SpotAction::Terminate);
    let joined = |n: &Value| {
        n["metadata"]["annotations"]["sundown.dev/record"]
            .as_str()
            .is_some_and(|r| r.contains("\"spot\""))
    };
    let node = stage.until("it joins", &node_path(uncordoned), joined).await;
    assert!(
        node["spec"]["unschedulable"].is_null() && has_taint(&node),
        "it is not cordoned again: {node}"
    );
    let_go(&stage, "held").await;
    completed_by_sundown(&stage, uncordoned).await;
    released(&stage, uncordoned).await;
    let calls = calls(&stage);
    audit::assert_evicted_once(&calls, &["held".to_owned()]);
    assert!(
        !calls.iter().any(|c| audit::is_write(c) && c.is("delete", "pods")),
        "nothing was forced"
    );
}
