//! The policy of `rbac.admissionPolicy`: what Sundown's service account may change, whatever its
//! roles allow.

use serde_json::{Value, json};

use crate::{
    cluster::{ADMIN, SUNDOWN},
    hands::{patch, pod_path},
    stage::{Stage, node_name},
};

const POLICY: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/sundown";
const LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Patches an object with Sundown's token. `Err`: why it is refused.
pub async fn patched(stage: &Stage, path: &str, change: &Value) -> Result<Value, String> {
    // Of lists in a status a strategic merge changes what it names and nothing else; Nodes are
    // patched as Sundown does.
    let kind = if path.ends_with("/status") { "strategic-merge" } else { "merge" };
    let request =
        http::Request::patch(path).header("content-type", format!("application/{kind}-patch+json"));
    let request = request.body(serde_json::to_vec(change).unwrap()).unwrap();
    match stage.cluster.client(SUNDOWN).request::<Value>(request).await {
        Ok(object) => Ok(object),
        Err(kube::Error::Api(status)) => Err(format!("{} {}", status.code, status.message)),
        Err(error) => panic!("cannot patch {path}: {error}"),
    }
}

/// Waits until the API server has read the policy.
async fn is_in_force(stage: &Stage, path: &str) {
    let mut tries = 0;
    let refuses = async || {
        // Each time another value: a patch that changes nothing is let through.
        tries += 1;
        patched(stage, path, &labels("try", &json!(tries.to_string())))
            .await
            .is_err_and(|why| why.contains("ValidatingAdmissionPolicy"))
    };
    stage.holds("the policy is in force", refuses).await;
}

/// Gives Sundown's account the right to patch everything that the policy is about.
async fn allow_all(stage: &Stage) {
    let api = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([{
        "apiGroups": [""], "resources": ["nodes", "nodes/status", "pods/status"], "verbs": ["patch"]
    }]);
    stage
        .create(
            &format!("{api}/clusterroles"),
            &json!({ "metadata": { "name": "too-much" }, "rules": rules }),
        )
        .await;
    let binding = json!({
        "metadata": { "name": "too-much" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "too-much"
        },
        "subjects": [{ "kind": "ServiceAccount", "name": "sundown", "namespace": "sundown" }],
    });
    stage.create(&format!("{api}/clusterrolebindings"), &binding).await;
}

fn taint(key: &str, effect: &str) -> Value {
    json!({ "key": key, "effect": effect })
}

fn labels(key: &str, value: &Value) -> Value {
    json!({ "metadata": { "labels": { key: value } } })
}

fn taints(taints: &[Value]) -> Value {
    json!({ "spec": { "taints": taints } })
}

fn condition(kind: &str, status: &str) -> Value {
    json!({ "status": { "conditions": [{ "type": kind, "status": status }] } })
}

/// What is refused of a Node that has the taint `dedicated` and the label `LABEL` with a value of
/// another tool.
fn refused_of_a_node() -> Vec<(Value, &'static str)> {
    let dedicated = taint("dedicated", "NoSchedule");
    let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b" });
    vec![
        (labels("team", &json!("b")), "no labels"),
        (labels("topology.kubernetes.io/zone", &json!("elsewhere")), "no labels"),
        (labels("topology.kubernetes.io/zone", &Value::Null), "no labels"),
        (labels(LABEL, &json!("sundown")), "only its own value"),
        (labels(LABEL, &Value::Null), "only its own value"),
        (json!({ "metadata": { "annotations": { "example.com/note": "b" } } }), "no annotations"),
        (
            json!({ "metadata": { "annotations": { "kwok.x-k8s.io/node": null } } }),
            "no annotations",
        ),
        (json!({ "metadata": { "finalizers": ["example.com/keep"] } }), "finalizers"),
        (json!({ "metadata": { "ownerReferences": [owner] } }), "owner references"),
        (taints(&[]), "no taints but its own"),
        (taints(&[taint("dedicated", "NoExecute")]), "no taints but its own"),
        (taints(&[dedicated.clone(), taint("other", "NoSchedule")]), "no taints but its own"),
        (
            taints(&[dedicated.clone(), taint("sundown.dev/interruption", "NoExecute")]),
            "adds only its own taints",
        ),
        (
            taints(&[dedicated, taint("aws-node-termination-handler/spot-itn", "NoSchedule")]),
            "adds only its own taints",
        ),
        (
            json!({ "spec": { "podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"] } }),
            "no field of a spec",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_refuses_what_sundown_never_writes_and_nobody_elses_patches() {
    let Some(stage) = Stage::new(71).await else { return };
    stage.alone().await;
    allow_all(&stage).await;
    let instances = stage.group(1).await;
    let (node, admin) =
        (format!("/api/v1/nodes/{}", node_name(&instances[0])), stage.cluster.client(ADMIN));
    let foreign = json!({
        "metadata": { "labels": { LABEL: "ingress" } },
        "spec": { "taints": [taint("dedicated", "NoSchedule")] }
    });
    patch(&admin, &node, &foreign).await;
    is_in_force(&stage, &node).await;

    for (change, why) in refused_of_a_node() {
        let answer = patched(&stage, &node, &change).await.expect_err(&format!("taken: {change}"));
        assert!(
            answer.starts_with("403 ") && answer.contains("'sundown' ") && answer.contains(why),
            "{change}: {answer}"
        );
    }
    patched(&stage, &format!("{node}/status"), &condition("MaintenancePlanned", "True"))
        .await
        .expect("its own condition");
    for kind in ["DrainInProgress", "Drained"] {
        let (set, path) = (condition(kind, "True"), format!("{node}/status"));
        patched(&stage, &path, &set).await.expect("its own condition");
    }
    for (change, why) in [
        (condition("Ready", "False"), "no condition but"),
        (json!({ "status": { "capacity": { "pods": "1" } } }), "no field of a status but"),
        (labels("team", &json!("b")), "no labels but"),
    ] {
        let answer = patched(&stage, &format!("{node}/status"), &change)
            .await
            .expect_err(&format!("taken: {change}"));
        assert!(answer.contains(why), "{change}: {answer}");
    }
    // Of others it takes what they are allowed to do.
    patch(&admin, &node, &labels("team", &json!("b"))).await;
    patch(&admin, &node, &labels(LABEL, &Value::Null)).await;

    let whole = json!({
        "metadata": {
            "annotations": { "sundown.dev/record": "{}" }, "labels": { LABEL: "sundown" }
        },
        "spec": {
            "taints": [
                taint("dedicated", "NoSchedule"), taint("sundown.dev/interruption", "NoSchedule")
            ]
        },
    });
    patched(&stage, &node, &whole).await.unwrap();
    let weaker =
        [taint("dedicated", "NoSchedule"), taint("sundown.dev/interruption", "PreferNoSchedule")];
    patched(&stage, &node, &taints(&weaker)).await.unwrap();
    let back = json!({
        "metadata": { "annotations": { "sundown.dev/record": null }, "labels": { LABEL: null } },
        "spec": { "taints": [taint("dedicated", "NoSchedule")] },
    });
    patched(&stage, &node, &back).await.unwrap();
    // A record from a time with `--compat nth` may name these as ours.
    let of_nth = json!({
        "spec": {
            "taints": [
                taint("dedicated", "NoSchedule"),
                taint("aws-node-termination-handler/spot-itn", "NoSchedule")
            ]
        }
    });
    patch(&admin, &node, &of_nth).await;
    patched(&stage, &node, &back).await.unwrap();
    // Last: the node lifecycle controller adds a taint to a cordoned Node, and takes it away again,
    // in its own time.
    for cordon in [json!(true), Value::Null] {
        patched(&stage, &node, &json!({ "spec": { "unschedulable": cordon } })).await.unwrap();
    }

    // The controller manager has looked at the types of every expression.
    let policy = stage
        .until("its types are checked", POLICY, |p| {
            p["status"]["observedGeneration"] == p["metadata"]["generation"]
        })
        .await;
    assert!(
        policy["status"]["typeChecking"]["expressionWarnings"].is_null(),
        "{}",
        policy["status"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_lets_the_status_of_a_pod_get_one_condition() {
    let Some(stage) = Stage::new(72).await else { return };
    stage.alone().await;
    allow_all(&stage).await;
    let instances = stage.group(1).await;
    crate::hands::run_pod(&stage, &crate::hands::pod("worker", &node_name(&instances[0]), 1)).await;
    let (pod, status) = (pod_path("worker"), format!("{}/status", pod_path("worker")));
    is_in_force(&stage, &status).await;

    for (change, why) in [
        (json!({ "status": { "phase": "Failed" } }), "no field of a status"),
        (
            json!({ "status": { "podIP": "10.0.0.1", "podIPs": [{ "ip": "10.0.0.1" }] } }),
            "no field of a status",
        ),
        (condition("Ready", "False"), "no condition but DisruptionTarget"),
        (condition("Other", "True"), "no condition but DisruptionTarget"),
        (condition("DisruptionTarget", "False"), "no condition but DisruptionTarget"),
        (json!({ "metadata": { "annotations": { "sundown.dev/record": "b" } } }), "no annotations"),
        (json!({ "metadata": { "finalizers": ["example.com/keep"] } }), "finalizers"),
    ] {
        let answer =
            patched(&stage, &status, &change).await.expect_err(&format!("taken: {change}"));
        assert!(answer.starts_with("403 ") && answer.contains(why), "{change}: {answer}");
    }
    let before = stage.get(&pod).await.unwrap()["status"].clone();
    let after =
        patched(&stage, &status, &condition("DisruptionTarget", "True")).await.unwrap()["status"]
            .clone();
    let others = |status: &Value| {
        let all = status["conditions"].as_array().unwrap().iter();
        all.filter(|c| c["type"] != "DisruptionTarget").cloned().collect::<Vec<_>>()
    };
    assert_eq!((others(&before), &before["phase"]), (others(&after), &after["phase"]));
    assert!(crate::stage::condition(&json!({ "status": after }), "DisruptionTarget"));
}
