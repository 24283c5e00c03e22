//! `--out-of-service-taint` and `--delete-node` on a real API server, with the role and the policy
//! that the chart makes for them.

use std::time::Duration;

use serde_json::{Value, json};
use sundown::sim::aws::State;

use crate::{
    audit::calls,
    cluster::{ADMIN, SUNDOWN},
    hands::{completed_by_sundown, fall_silent, node_path, patch, stage_of_ours, wait_for},
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
    let words = "template sundown --namespace sundown --kube-version 1.37.0 \
        --set image.repository=none,config.queueUrls={https://sqs.eu-west-1.amazonaws.com/1/q} \
        --set rbac.admissionPolicy=true,rbac.deleteNode=true,config.outOfServiceTaint=true \
        -s templates/rbac.yaml -s templates/admission-policy.yaml";
    helm.args(words.split_whitespace()).arg(CHART).env_clear().env("HOME", folder);
    let output = run(folder, &mut helm).await;
    assert_eq!(output.code, Some(0), "{}{}", output.out, output.err);
    let file = folder.join("chart.yaml");
    std::fs::write(&file, output.out).unwrap();
    stage.cluster.kubectl(&["apply", "-f", file.to_str().unwrap()]).await;
}

/// Asks to delete a Node with Sundown's token, as a dry run. `Err`: why it is refused.
async fn may_delete(stage: &Stage, path: &str, uid: &Value) -> Result<(), String> {
    let body = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": uid },
        "dryRun": ["All"],
    });
    let request = http::Request::delete(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&body).unwrap())
        .unwrap();
    match stage.cluster.client(SUNDOWN).request::<Value>(request).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(format!("{} {}", status.code, status.message)),
        Err(error) => panic!("cannot delete {path}: {error}"),
    }
}

/// Sundown may set the taint only on a Node that has its own taint.
async fn the_taint_is_limited(stage: &Stage, path: &str) {
    let taint = json!({ "key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute" });
    let change = json!({ "spec": { "taints": [taint] } });
    let is_refused = async || {
        // Until the API server has read the policy it lets the taint through, and a patch that
        // changes nothing is never refused.
        let without = json!({ "spec": { "taints": null } });
        patch(&stage.cluster.client(ADMIN), path, &without).await;
        patched(stage, path, &change)
            .await
            .is_err_and(|why| why.contains("removes no taint of an instance that is gone"))
    };
    stage.holds("the policy is in force", is_refused).await;
}

/// Sundown may delete only a Node that it has drained and that is not Ready.
async fn the_deletion_is_limited(stage: &Stage, path: &str, uid: &Value) {
    let refused =
        async |why: &str| may_delete(stage, path, uid).await.is_err_and(|text| text.contains(why));
    let not_drained = "only Nodes that it has cordoned, tainted and drained";
    stage
        .holds("the policy refuses a Node without a record", async || refused(not_drained).await)
        .await;
    let taint = json!({ "key": "sundown.dev/interruption", "effect": "NoSchedule" });
    let drained = json!({
        "metadata": { "annotations": { "sundown.dev/record": r#"{"version":1,"released":{}}"# } },
        "spec": { "unschedulable": true, "taints": [taint] },
    });
    let admin = stage.cluster.client(ADMIN);
    patch(&admin, path, &drained).await;
    assert!(refused("no Node that is Ready").await);
    let before = json!({
        "metadata": { "annotations": { "sundown.dev/record": null } },
        "spec": { "unschedulable": null, "taints": null },
    });
    patch(&admin, path, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_of_an_instance_that_is_gone_is_tainted_and_deleted_within_the_role_and_the_policy()
 {
    let Some(stage) = stage_of_ours(9).await else { return };
    let instances = stage.group(3).await;
    let (gone, other) = (&instances[0], &instances[1]);
    let path = node_path(other);
    let uid = &stage.node(other).await["metadata"]["uid"];
    let no_right = may_delete(&stage, &path, uid).await.unwrap_err();
    assert!(no_right.contains("cannot delete resource"), "{no_right}");
    apply_chart(&stage).await;
    the_taint_is_limited(&stage, &path).await;
    the_deletion_is_limited(&stage, &path, uid).await;

    let flags = ["--delete-node", "--out-of-service-taint"];
    let mut sundown = stage.leader("sundown", &flags).await;
    stage.world.aws.terminate(gone, true);
    completed_by_sundown(&stage, gone).await;
    wait_for("its instance is gone", || {
        stage.world.aws.instance(gone).is_some_and(|i| i.state == State::Terminated)
    })
    .await;
    let is_tainted = |node: &Value| node["spec"]["taints"].to_string().contains(OUT_OF_SERVICE);
    // kwok would keep the Node Ready for ever, and Sundown leaves a Ready Node alone.
    assert!(!is_tainted(&stage.node(gone).await), "its Node is still Ready");
    fall_silent(&stage, gone, Duration::ZERO).await;
    stage.until("it has the taint", &node_path(gone), is_tainted).await;
    sundown.counts("gone_nodes_total{step=\"deleted\"}", 1.0).await;
    assert!(stage.get(&node_path(gone)).await.is_none());
    assert!(stage.get(&path).await.is_some(), "the others stay");
    let all = calls(&stage);
    let deletes: Vec<_> = all.iter().filter(|c| c.is("delete", "nodes") && c.code == 200).collect();
    assert_eq!(deletes.len(), 1, "{deletes:?}");
    assert_eq!(deletes[0].name, node_name(gone));
}
