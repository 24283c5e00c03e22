//! Drain requests: the policy of the overlay `request-policy`, and `sundown drain`.

use serde_json::{Value, json};

use crate::{
    cluster::ADMIN,
    hands::{node_path, patch, stage_of_ours},
    process::{run, sundown},
    stage::{Stage, node_name},
};

const POLICY: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/sundown-requests";
const OVERLAY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/manifests/overlays/request-policy");

/// Merges annotations into a Node. `Err`: why that is refused.
async fn annotated(stage: &Stage, path: &str, annotations: &Value) -> Result<Value, String> {
    let change = json!({ "metadata": { "annotations": annotations } });
    let request = http::Request::patch(path)
        .header("content-type", "application/merge-patch+json")
        .body(serde_json::to_vec(&change).unwrap())
        .unwrap();
    match stage.cluster.client(ADMIN).request::<Value>(request).await {
        Ok(object) => Ok(object),
        Err(kube::Error::Api(status)) => Err(format!("{} {}", status.code, status.message)),
        Err(error) => panic!("cannot patch {path}: {error}"),
    }
}

/// Applies the policy, and waits until the API server has read it.
async fn with_policy(stage: &Stage, path: &str) {
    stage.cluster.kubectl(&["apply", "-k", OVERLAY]).await;
    let mut tries = 0;
    let refuses = async || {
        // Each time another value: a patch that changes nothing is let through.
        tries += 1;
        let wrong = json!({ "drain.sundown.dev/try": format!("stage=wrong{tries}") });
        annotated(stage, path, &wrong).await.is_err()
    };
    stage.holds("the policy is in force", refuses).await;
    annotated(stage, path, &json!({ "drain.sundown.dev/try": null })).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_refuses_a_typo_with_a_sentence_and_nothing_else() {
    let Some(stage) = stage_of_ours(73).await else { return };
    let instances = stage.group(1).await;
    let node = node_path(&instances[0]);
    // It was there before the policy.
    let before = json!({ "drain.sundown.dev/old": "stage=wrong" });
    annotated(&stage, &node, &before).await.unwrap();
    with_policy(&stage, &node).await;
    let long = format!("reason={}", "x".repeat(1024));
    for (key, value, words) in [
        ("up", "true", "drain.sundown.dev/up: `true` is not a field: use stage=cordon"),
        ("up", "force=true", "`force=true` is not a field"),
        ("up", "reason=a; b", "`b` is not a field"),
        ("up", "stage=Drain", "there is no `stage=Drain`: use stage=cordon or stage=drain"),
        ("up", "deadline=1h", "`deadline=1h` is not an RFC 3339 time: use one such as"),
        ("up", "deadline=2026-13-31T18:00:00Z", "is not an RFC 3339 time"),
        ("up", "stage=drain;stage=drain", "the field stage is given twice: give it once"),
        ("up", long.as_str(), "at most 1024 characters"),
    ] {
        let key = format!("drain.sundown.dev/{key}");
        let answer = annotated(&stage, &node, &json!({ key: value })).await;
        let answer = answer.expect_err(&format!("taken: {value}"));
        assert!(answer.starts_with("422 ") && answer.contains(words), "{value}: {answer}");
    }
    let nameless = annotated(&stage, &node, &json!({ "drain.sundown.dev": "stage=drain" })).await;
    assert!(nameless.is_err_and(|why| why.contains("drain.sundown.dev/NAME")));
    for value in [
        "",
        "stage=drain;deadline=2099-01-31T18:00:00Z;reason=new kernel",
        " ; stage = cordon ; deadline=2099-01-31T18:00:00.5+01:00;reason=a=b",
    ] {
        let taken = annotated(&stage, &node, &json!({ "drain.sundown.dev/up": value })).await;
        assert_eq!(taken.err(), None, "{value}");
    }
    // The wrong one from before does not keep the Node from changing, and can be removed.
    annotated(&stage, &node, &json!({ "example.com/note": "a" })).await.unwrap();
    let both = json!({ "drain.sundown.dev/old": null, "drain.sundown.dev/up": null });
    annotated(&stage, &node, &both).await.unwrap();

    let policy = stage
        .until("its types are checked", POLICY, |p| {
            p["status"]["observedGeneration"] == p["metadata"]["generation"]
        })
        .await;
    let warnings = &policy["status"]["typeChecking"]["expressionWarnings"];
    assert!(warnings.is_null(), "{}", policy["status"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_writes_and_removes_the_annotation_past_the_policy() {
    let Some(stage) = stage_of_ours(74).await else { return };
    let instances = stage.group(2).await;
    let (node, name) = (node_path(&instances[0]), node_name(&instances[0]));
    with_policy(&stage, &node).await;
    let admin = stage.cluster.client(ADMIN);
    patch(&admin, &node, &json!({ "metadata": { "labels": { "pool": "blue" } } })).await;
    let person = async |words: &[&str]| {
        let folder = stage.cluster.folder.path();
        let kubeconfig = stage.cluster.kubeconfig(ADMIN);
        let mut command = sundown(folder);
        command.arg("drain").args(words).arg("--kubeconfig").arg(kubeconfig);
        run(folder, &mut command).await
    };
    let asked =
        person(&["-l", "pool=blue", "--name", "up", "--deadline", "2h", "--reason", "a b"]).await;
    assert_eq!(asked.code, Some(0), "{}", asked.err);
    assert!(asked.out.starts_with(&format!("{name}: requested as up: stage=drain;deadline=")));
    let written = stage.get(&node).await.unwrap()["metadata"]["annotations"].clone();
    let value = written["drain.sundown.dev/up"].as_str().unwrap();
    assert!(value.ends_with(";reason=a b"), "{value}");
    let cancelled = person(&[&instances[0], "--name", "up", "--cancel"]).await;
    assert_eq!(cancelled.code, Some(0), "{}", cancelled.err);
    let left = stage.get(&node).await.unwrap()["metadata"]["annotations"].clone();
    assert!(left["drain.sundown.dev/up"].is_null(), "{left}");
}
