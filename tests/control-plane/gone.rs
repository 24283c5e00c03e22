//! `--out-of-service-taint` and `--delete-node` on a real API server, with the role and the policy
//! that the chart makes for them.

use serde_json::{Value, json};
use sundown::sim::aws::State;

use crate::{
    audit::calls,
    cluster::SUNDOWN,
    hands::{completed_by_sundown, node_path, stage_of_ours, wait_for},
    policy::patched,
    process::run,
    stage::{Stage, node_name},
};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/helm/sundown");
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Applies the roles and the policy of the chart with both flags.
async fn apply_chart(stage: &Stage) {
    let folder = stage.cluster.folder.path();
    let mut helm = std::process::Command::new(stage.cluster.tools().join("helm"));
    let words = "template sundown --namespace sundown --kube-version 1.36.0 \
        --set image.repository=none,config.queueUrls={https://sqs.eu-west-1.amazonaws.com/1/q} \
        --set rbac.admissionPolicy=true,rbac.deleteNode=true,config.outOfServiceTaint=true \
        -s templates/rbac.yaml -s templates/admission-policy.yaml";
    helm.args(words.split_whitespace()).arg(CHART).env_clear().env("HOME", folder);
    let said = run(folder, &mut helm).await;
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let file = folder.join("chart.yaml");
    std::fs::write(&file, said.out).unwrap();
    stage.cluster.kubectl(&["apply", "-f", file.to_str().unwrap()]).await;
}

/// Deletes a Node with Sundown's token and this precondition: the code of the answer.
async fn deleted(stage: &Stage, path: &str, precondition: &Value) -> u16 {
    let body = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": precondition
    });
    let request = http::Request::delete(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&body).unwrap())
        .unwrap();
    match stage.cluster.client(SUNDOWN).request::<Value>(request).await {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("cannot delete {path}: {error}"),
    }
}

/// Sundown may set the taint only on a Node that has its own taint.
async fn the_taint_is_limited(stage: &Stage, path: &str) {
    let taint = json!({ "key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute" });
    let change = json!({ "spec": { "taints": [taint] } });
    let is_refused = async || {
        let answer = patched(stage, path, &change).await.expect_err("it has no taint of Sundown's");
        answer.contains("removes no taint of an instance that is gone")
    };
    stage.holds("the policy is in force", is_refused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_of_an_instance_that_is_gone_is_tainted_and_deleted_with_the_right_and_the_uid() {
    let Some(stage) = stage_of_ours(9).await else { return };
    let instances = stage.group(3).await;
    let (gone, other) = (&instances[0], &instances[1]);
    let path = node_path(other);
    let uid = json!({ "uid": stage.node(other).await["metadata"]["uid"] });
    assert_eq!(deleted(&stage, &path, &uid).await, 403, "no role allows it");
    apply_chart(&stage).await;
    let wrong = json!({ "uid": "00000000-0000-0000-0000-000000000000" });
    stage.holds("the role counts", async || deleted(&stage, &path, &wrong).await == 409).await;
    the_taint_is_limited(&stage, &path).await;

    let flags = ["--delete-node", "--out-of-service-taint"];
    let mut sundown = stage.leader("sundown", &flags).await;
    stage.world.aws.terminate(gone, true);
    completed_by_sundown(&stage, gone).await;
    wait_for("its instance is gone", || {
        stage.world.aws.instance(gone).is_some_and(|i| i.state == State::Terminated)
    })
    .await;
    let is_tainted = |node: &Value| node["spec"]["taints"].to_string().contains(OUT_OF_SERVICE);
    stage.until("it has the taint", &node_path(gone), is_tainted).await;
    sundown.counts("gone_nodes_total{step=\"deleted\"}", 1.0).await;
    assert!(stage.get(&node_path(gone)).await.is_none());
    assert!(stage.get(&path).await.is_some(), "the others stay");
    let all = calls(&stage);
    let deletes: Vec<_> = all.iter().filter(|c| c.is("delete", "nodes") && c.code == 200).collect();
    assert_eq!(deletes.len(), 1, "{deletes:?}");
    assert_eq!(deletes[0].name, node_name(gone));
}
