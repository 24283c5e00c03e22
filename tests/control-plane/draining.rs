//! From the queue to the completed hook.

use serde_json::{Value, json};
use sundown::sim::aws::{HookResult, SpotAction, Verdict};

use crate::{
    objects::Pods,
    stage::{Stage, condition, node_name},
};

const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";

/// Four pods of which one may be away.
async fn web(stage: &Stage, stop: &str) {
    let pods = Pods::of("web").grace(30).with("stop-after", stop);
    stage.ready("default", &pods.deployment(4)).await;
    stage.allowing("default", &pods.budget("minAvailable", &json!(3)), 1).await;
}

/// The Node of an instance, once its record shows that it is released.
pub(crate) async fn released(stage: &Stage, instance: &str) -> Value {
    let path = format!("/api/v1/nodes/{}", node_name(instance));
    let is_released = |n: &Value| {
        n["metadata"]["annotations"]["sundown.dev/record"]
            .as_str()
            .is_some_and(|r| r.contains("\"released\""))
    };
    stage.until("the record shows that", &path, is_released).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scale_in_drains_its_nodes_within_the_budget_and_completes_the_hooks() {
    let Some(stage) = Stage::new(1).await else { return };
    let instances = stage.group(4).await;
    web(&stage, "2s").await;
    // The scheduler may have left nodes without a pod.
    let mut by_pods = Vec::new();
    for instance in instances {
        by_pods.push((stage.pods_on(&node_name(&instance), "default").await.len(), instance));
    }
    by_pods.sort();
    let doomed: Vec<String> =
        by_pods.into_iter().rev().take(2).map(|(_, instance)| instance).collect();

    let mut sundown = stage.leader("sundown", &[]).await;
    for instance in &doomed {
        stage.world.aws.terminate(instance, true);
    }
    for instance in &doomed {
        let end = stage.completed(instance).await.end.unwrap();
        assert_eq!(
            (end.verdict, end.by.as_str()),
            (Verdict::Completed(HookResult::Continue), "AKIASUNDOWN")
        );
        assert!(
            stage.pods_on(&node_name(instance), "default").await.is_empty(),
            "it was not empty"
        );
        let node = stage.node(instance).await;
        assert_eq!(node["spec"]["unschedulable"], true);
        assert!(
            node["spec"]["taints"]
                .as_array()
                .unwrap()
                .iter()
                .any(|t| t["key"] == "sundown.dev/interruption")
        );
        released(&stage, instance).await;
    }
    let deployment =
        stage.until("they are replaced", WEB, |d| d["status"]["readyReplicas"] == 4).await;
    assert!(condition(&deployment, "Available"));
    assert!(sundown.metric("pods_forced_total").await < 0.5);

    stage.assert_polite();
    assert!(stage.calls().iter().any(|c| c.did("create", "pods/eviction")));
    sundown.signal("TERM");
    assert_eq!(sundown.ended().await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spot_notice_empties_its_node_and_leaves_daemon_sets_alone() {
    let Some(stage) = Stage::new(2).await else { return };
    let instances = stage.spot_group(3).await;
    let agent = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent" },
        "spec": {
            "selector": { "matchLabels": { "app": "agent" } },
            "template": {
                "metadata": { "labels": { "app": "agent" } },
                "spec": {
                    "containers": [{ "name": "main", "image": "none" }],
                    "tolerations": [{ "operator": "Exists" }]
                },
            },
        },
    });
    stage.create("/apis/apps/v1/namespaces/default/daemonsets", &agent).await;
    web(&stage, "1s").await;
    let daemon_set = "/apis/apps/v1/namespaces/default/daemonsets/agent";
    stage.until("it runs everywhere", daemon_set, |d| d["status"]["numberReady"] == 3).await;
    let sundown = stage.leader("sundown", &[]).await;
    stage.world.aws.spot_interruption(&instances[0], SpotAction::Terminate);
    let node = released(&stage, &instances[0]).await;
    assert_eq!(
        node["metadata"]["labels"]["node.kubernetes.io/exclude-from-external-load-balancers"],
        "sundown"
    );
    let left = stage.pods_on(&node_name(&instances[0]), "default").await;
    assert!(left.len() == 1 && left[0].starts_with("agent-"), "{left:?}");
    stage.until("they are replaced", WEB, |d| d["status"]["readyReplicas"] == 4).await;
    stage.assert_polite();
    drop(sundown);
}
