//! Pods that their controller puts back on the node from which they are evicted.

use serde_json::json;

use crate::{
    budgets::continued,
    cluster::ADMIN,
    objects::Pods,
    stage::{Stage, node_name},
    status::kubectl_sundown,
};

/// The accepted evictions of the pods of a Deployment.
fn evicted(stage: &Stage, app: &str) -> Vec<String> {
    let is = |call: &crate::audit::Call| {
        call.is("create", "pods/eviction") && call.code == 201 && call.name.starts_with(app)
    };
    stage.calls().into_iter().filter(is).map(|call| call.name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn s20_a_deployment_that_puts_its_pod_back_on_the_cordoned_node_is_left_alone_there_after_a_few_evictions()
 {
    let Some(stage) = Stage::new(74).await else { return };
    stage.alone().await;
    let instance = stage.group(2).await.remove(0);
    let node = node_name(&instance);
    let mut agent = Pods::of("agent").on(std::slice::from_ref(&node), &[]).deployment(1);
    // The scheduler binds its pods to a cordoned node, whatever the taints.
    agent["spec"]["template"]["spec"]["tolerations"] = json!([{ "operator": "Exists" }]);
    stage.ready("default", &agent).await;
    // It keeps the drain going until long after the owner is left alone.
    stage
        .ready_pod("default", &Pods::of("slow").grace(600).stopping_after("40s").pod("slow", &node))
        .await;

    let mut sundown = stage.leader("sundown", &[]).await;
    stage.world.aws.terminate(&instance, true);
    sundown.counts("owners_left_alone_total", 1.0).await;
    stage.wait_for_event("default", &node, "PodsComeBack", "ReplicaSet default/agent-").await;
    let before = evicted(&stage, "agent-");
    assert!(
        (4..=5).contains(&before.len()),
        "the pod that was there and the first that came back: {before:?}"
    );
    let distinct: std::collections::BTreeSet<_> = before.iter().collect();
    assert_eq!(distinct.len(), before.len(), "each of them is another pod");
    let status =
        kubectl_sundown(&stage, &stage.cluster.kubeconfig(ADMIN), &["status", &node]).await;
    assert!(
        status.code == Some(0) && status.out.contains("left alone"),
        "{}{}",
        status.out,
        status.err
    );

    continued(&stage, &instance).await;
    assert_eq!(evicted(&stage, "agent-"), before, "no more evictions, for half a minute and more");
    let left = stage.pods_on(&node, "default").await;
    assert!(
        left.len() == 1 && left[0].starts_with("agent-"),
        "the hook does not wait for the pod that came back: {left:?}"
    );
    let pod = stage.get(&format!("/api/v1/namespaces/default/pods/{}", left[0])).await.unwrap();
    assert!(
        pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["phase"] == "Running",
        "{pod}"
    );
    assert!(!before.contains(&left[0]) && stage.deletes("default", &left[0]).is_empty());
    stage.assert_polite();
}
