//! What the eviction subresource refuses for good: two budgets on a pod, a budget of one, and a
//! namespace in deletion.

use std::time::Duration;

use serde_json::{Value, json};
use sundown::domain::Moment;

use crate::{
    budgets::continued,
    objects::Pods,
    stage::{Stage, node_name},
    witness::blocked,
};

/// The service's `--drain-timeout`: its margin of 5 s earlier the drain ends, and ten seconds of
/// grace before that a refused pod is deleted.
const TIMEOUT: &str = "60s";
const FORCED_AFTER: Duration = Duration::from_secs(44);

/// A pod named after its app, on this node.
async fn pod(stage: &Stage, namespace: &str, name: &str, instance: &str) -> String {
    stage
        .ready_pod(
            namespace,
            &Pods::of(name).stopping_after("2s").grace(10).pod(name, &node_name(instance)),
        )
        .await
}

/// A pod that two budgets count; the path of the second.
async fn tangled(stage: &Stage, name: &str, instance: &str) -> String {
    pod(stage, "default", name, instance).await;
    let mut second = Pods::of(name).budget("minAvailable", &json!(0));
    stage.allowing("default", &second, 1).await;
    second["metadata"]["name"] = format!("{name}-2").into();
    stage.allowing("default", &second, 1).await
}

/// Nobody but Sundown may delete pods of these namespaces (what is going already may go on): their
/// deletion comes to nothing until the binding of this path is gone.
async fn keep_pods(stage: &Stage, namespaces: [&str; 2]) -> [String; 2] {
    let api = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": "keep-pods" },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"],
                    "resources": ["pods"]
                }]
            },
            "validations": [{ "expression": "has(oldObject.metadata.deletionTimestamp) || \
                request.userInfo.username != 'admin'" }],
        },
    });
    stage.create(&format!("{api}/validatingadmissionpolicies"), &policy).await;
    for namespace in namespaces {
        let selector = json!({ "matchLabels": { "kubernetes.io/metadata.name": namespace } });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding", "metadata": { "name": namespace },
            "spec": {
                "policyName": "keep-pods", "validationActions": ["Deny"],
                "matchResources": { "namespaceSelector": selector }
            },
        });
        stage.create(&format!("{api}/validatingadmissionpolicybindings"), &binding).await;
    }
    namespaces.map(|namespace| format!("{api}/validatingadmissionpolicybindings/{namespace}"))
}

/// A namespace with a pod of its name, in deletion.
async fn dying(stage: &Stage, name: &str) {
    let path = format!("/api/v1/namespaces/{name}/pods/{name}");
    // In the body: with one, the query counts for nothing.
    let dry = json!({ "dryRun": ["All"] });
    let kept = async || {
        stage
            .send(http::Method::DELETE, &path, &dry)
            .await
            .is_err_and(|error| error.to_string().contains("keep-pods"))
    };
    stage.holds("its pod may not be deleted", kept).await;
    stage.delete(&format!("/api/v1/namespaces/{name}"), &Value::Null).await;
    stage.refuses_eviction(name, name).await;
    assert!(
        stage.get(&path).await.is_some_and(|p| p["metadata"]["deletionTimestamp"].is_null()),
        "its pod stays"
    );
}

/// Refused until shortly before the deadline, then deleted; the hook was completed after that.
async fn was_forced(
    stage: &Stage,
    namespace: &str,
    name: &str,
    instance: &str,
    code: u64,
    accepted: Moment,
) {
    continued(stage, instance).await;
    assert!(
        stage.get(&format!("/api/v1/namespaces/{namespace}/pods/{name}")).await.is_none(),
        "{name} was there"
    );
    let evictions = stage.evictions(namespace, name);
    assert!(
        evictions.iter().all(|c| c.code == code) && (1..=6).contains(&evictions.len()),
        "{evictions:?}"
    );
    let deletes = stage.deletes(namespace, name);
    assert!(deletes.len() == 1 && deletes[0].code == 200, "{deletes:?}");
    let after = deletes[0].answered.since_or_zero(accepted);
    assert!(after >= FORCED_AFTER, "{name} was forced after {after:?}");
    stage
        .wait_for_event("default", &node_name(instance), "Forced", &format!("{namespace}/{name}"))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_evicted_is_reported_waited_for_and_deleted_at_the_deadline() {
    let Some(stage) = Stage::new(24).await else { return };
    stage.alone().await;
    let instances = stage.group(6).await;
    let [knot, loosened, single, doomed, reprieved, _] = instances.as_slice() else {
        panic!("six")
    };
    tangled(&stage, "knot", knot).await;
    let second = tangled(&stage, "loosened", loosened).await;
    pod(&stage, "default", "single", single).await;
    stage.allowing("default", &Pods::of("single").budget("minAvailable", &json!(1)), 0).await;
    for (namespace, instance) in [("doomed", doomed), ("reprieved", reprieved)] {
        stage.add_namespace(namespace).await;
        pod(&stage, namespace, namespace, instance).await;
    }
    let [_, keeps_reprieved] = keep_pods(&stage, ["doomed", "reprieved"]).await;
    for namespace in ["doomed", "reprieved"] {
        dying(&stage, namespace).await;
    }

    let mut sundown = stage.leader("sundown", &["--drain-timeout", TIMEOUT]).await;
    for instance in &instances[..5] {
        stage.world.aws.terminate(instance, true);
    }
    let mut accepted = Vec::new();
    for instance in &instances[..5] {
        accepted.push(stage.accepted(instance).await);
    }
    blocked(&mut sundown, "two_pdbs", 2).await;
    blocked(&mut sundown, "pdb", 1).await;
    blocked(&mut sundown, "namespace_terminating", 2).await;

    // What somebody mends goes on at once and politely.
    stage.delete(&keeps_reprieved, &Value::Null).await;
    // The namespace controller looks again soon after any change, else when its patience allows.
    stage
        .patch(
            "/api/v1/namespaces/reprieved",
            &json!({ "metadata": { "labels": { "look": "again" } } }),
        )
        .await;
    stage.delete(&second, &Value::Null).await;
    continued(&stage, loosened).await;
    assert!(stage.evictions("default", "loosened").last().is_some_and(|c| c.code == 201));
    assert!(stage.deletes("default", "loosened").is_empty());
    continued(&stage, reprieved).await;
    assert!(
        stage.deletes("reprieved", "reprieved").is_empty(),
        "the namespace controller deleted it"
    );

    // Events report the rest, which goes when the deadline comes.
    stage.wait_for_event("default", "knot", "Blocked", "more than one PodDisruptionBudget").await;
    stage
        .wait_for_event("default", "single", "Blocked", "needs 1 healthy pods and has 1 currently")
        .await;
    was_forced(&stage, "default", "knot", knot, 500, accepted[0]).await;
    was_forced(&stage, "default", "single", single, 429, accepted[2]).await;
    was_forced(&stage, "doomed", "doomed", doomed, 403, accepted[3]).await;
    assert!((sundown.metric("pods_forced_total").await - 3.0).abs() < 0.5, "three were forced");
    assert!(sundown.metric("deadline_misses_total").await < 0.5, "and in time");
    for (answer, least) in [("two_budgets", 2.0), ("budget", 1.0), ("namespace_terminating", 2.0)] {
        assert!(
            sundown.metric(&format!("evictions_total{{answer=\"{answer}\"}}")).await >= least,
            "{answer}"
        );
    }
}
