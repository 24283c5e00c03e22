//! What people and other controllers do, by hand.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sundown::{
    runtime::Clock,
    sim::aws::{ActionReport, HookResult, Verdict},
};

use crate::{
    cluster::ADMIN,
    process::LIMIT,
    stage::{Stage, condition, node_name},
};

/// A stage of whose nodes only what the test puts there is drained: kwok's pods of Sundown's own
/// Deployment would go with them, when it suits kwok.
pub async fn stage_of_ours(seed: u64) -> Option<Stage> {
    let stage = Stage::new(seed).await?;
    stage.alone().await;
    Some(stage)
}

pub const PODS: &str = "/api/v1/namespaces/default/pods";

/// Where this pod is.
pub fn pod_path(name: &str) -> String {
    format!("{PODS}/{name}")
}

/// Where the Node of an instance is.
pub fn node_path(instance: &str) -> String {
    format!("/api/v1/nodes/{}", node_name(instance))
}

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// A pod without a controller on this node, which takes so many seconds to stop, all of its grace.
/// (kwok stops pods at any time between `stop-after` and the end of their grace.)
pub fn pod(name: &str, node: &str, stops: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "labels": { "app": name },
            "annotations": { "test.sundown.dev/stop-after": format!("{stops}s") }
        },
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": stops,
            "containers": [{ "name": "main", "image": "none" }]
        },
    })
}

/// POSTs a pod and waits until it is ready.
pub async fn run_pod(stage: &Stage, pod: &Value) {
    stage.create(PODS, pod).await;
    let name = pod["metadata"]["name"].as_str().unwrap();
    stage.until("the pod is ready", &pod_path(name), |p| condition(p, "Ready")).await;
}

/// A pod on an instance's node that its budget does not let go before [`let_go`]; then it stops in
/// a second.
pub async fn hold(stage: &Stage, name: &str, instance: &str) {
    hold_with(stage, name, instance, 1).await;
}

/// As [`hold`], with so many seconds of grace.
pub async fn hold_with(stage: &Stage, name: &str, instance: &str, grace: u64) {
    run_pod(stage, &pod(name, &node_name(instance), grace)).await;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": name },
        "spec": { "selector": { "matchLabels": { "app": name } }, "minAvailable": 1 },
    });
    stage.create(BUDGETS, &budget).await;
    let counted =
        |b: &Value| b["status"]["currentHealthy"] == 1 && b["status"]["disruptionsAllowed"] == 0;
    stage.until("its budget counts it", &format!("{BUDGETS}/{name}"), counted).await;
}

/// Lets a pod go that was held.
pub async fn let_go(stage: &Stage, name: &str) {
    let path = format!("{BUDGETS}/{name}");
    patch(&stage.cluster.client(ADMIN), &path, &json!({ "spec": { "minAvailable": 0 } })).await;
}

/// POSTs an object.
pub async fn create(client: &kube::Client, path: &str, object: &Value) -> Value {
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(object).unwrap())
        .unwrap();
    client
        .request::<Value>(request)
        .await
        .unwrap_or_else(|error| panic!("cannot create {object} at {path}: {error}"))
}

/// Merges this into an object.
pub async fn patch(client: &kube::Client, path: &str, change: &Value) -> Value {
    let request = http::Request::patch(path)
        .header("content-type", "application/merge-patch+json")
        .body(serde_json::to_vec(change).unwrap())
        .unwrap();
    client
        .request::<Value>(request)
        .await
        .unwrap_or_else(|error| panic!("cannot patch {path}: {error}"))
}

/// Deletes an object; `grace` in seconds, a pod's own where it is `None`.
pub async fn delete(client: &kube::Client, path: &str, grace: Option<u32>) {
    let query = grace.map_or_else(String::new, |seconds| format!("?gracePeriodSeconds={seconds}"));
    let request = http::Request::delete(format!("{path}{query}")).body(Vec::new()).unwrap();
    client
        .request::<Value>(request)
        .await
        .unwrap_or_else(|error| panic!("cannot delete {path}: {error}"));
}

/// Waits until this holds.
pub async fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < end, "it does not happen that {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until the interruption of an instance is on its Node.
pub async fn accepted(stage: &Stage, instance: &str) -> Value {
    stage
        .until("it is accepted", &node_path(instance), |n| {
            has_taint(n) && n["spec"]["unschedulable"] == true
        })
        .await
}

pub fn has_taint(node: &Value) -> bool {
    node["spec"]["taints"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|t| t["key"] == "sundown.dev/interruption")
}

/// Waits until the hook of an instance is over, which Sundown is to have completed without ever
/// leaving it near its end.
pub async fn completed_by_sundown(stage: &Stage, instance: &str) -> ActionReport {
    let begun = Instant::now();
    let action = loop {
        if let Some(action) = stage
            .world
            .aws
            .actions()
            .into_iter()
            .find(|a| a.instance == instance && a.end.is_some())
        {
            break action;
        }
        assert!(
            begun.elapsed() < LIMIT,
            "the action of {instance} does not end; on its node: {:#?}",
            on_node(stage, instance).await
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let end = action.end.clone().unwrap();
    if (end.verdict, end.by.as_str()) != (Verdict::Completed(HookResult::Continue), "AKIASUNDOWN") {
        let messages = stage.world.aws.messages();
        let of_it: Vec<_> = messages.iter().filter(|m| m.body.contains(instance)).collect();
        let node = stage.get(&node_path(instance)).await;
        let record = node.map(|node| node["metadata"]["annotations"].clone());
        panic!("Sundown did not complete {action:?}\nmessages: {of_it:#?}\nits node: {record:?}");
    }
    let gap = action.longest_gap(end.at);
    assert!(gap < action.heartbeat_timeout, "{gap:?} without a sign of life: {action:?}");
    action
}

/// The pods on an instance's node, with the fields that show why they are still there.
async fn on_node(stage: &Stage, instance: &str) -> Vec<String> {
    let list = stage
        .get(&format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{}", node_name(instance)))
        .await
        .unwrap();
    let text = |p: &Value| {
        format!(
            "{} {} {}",
            p["metadata"]["name"], p["metadata"]["deletionTimestamp"], p["status"]["phase"]
        )
    };
    list["items"].as_array().unwrap().iter().map(text).collect()
}

/// Makes a Node not Ready, as the node lifecycle controller does when its kubelet has been silent for
/// `since`. kwok no longer plays the node.
pub async fn fall_silent(stage: &Stage, instance: &str, since: Duration) {
    let admin = stage.cluster.client(ADMIN);
    let path = node_path(instance);
    patch(&admin, &path, &json!({ "metadata": { "annotations": { "kwok.x-k8s.io/node": null } } }))
        .await;
    let at = format!("{:.0}", Clock::system().now().minus(since));
    let ready = json!({
        "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
        "lastHeartbeatTime": at, "lastTransitionTime": at
    });
    patch(&admin, &format!("{path}/status"), &json!({ "status": { "conditions": [ready] } })).await;
}
