//! Jobs whose pods are deleted past their budgets.

use serde_json::json;

use crate::{
    budgets::continued,
    cluster::Flags,
    installing::installed_with,
    objects::Pods,
    stage::{Stage, condition, node_name},
};

/// A Job of one pod on this node, or one of the others once this one is cordoned. Only a disruption
/// is not counted as its failure.
async fn guarded_job(stage: &Stage, app: &str, node: &str, others: &[String]) -> String {
    let pods = Pods::of(app).on(&[node.to_owned()], others);
    let mut job = pods.job();
    job["spec"]["backoffLimit"] = 0.into();
    let disrupted = json!({
        "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }]
    });
    job["spec"]["podFailurePolicy"] = json!({ "rules": [disrupted] });
    let path = stage.put("default", &job).await;
    stage.until("it runs", &path, |job| job["status"]["ready"] == 1).await;
    stage.allowing("default", &pods.budget("minAvailable", &json!(1)), 0).await;
    path
}

async fn the_only_pod(stage: &Stage, node: &str, app: &str) -> String {
    let pods = stage.pods_on(node, "default").await;
    pods.into_iter()
        .find(|name| name.starts_with(app))
        .unwrap_or_else(|| panic!("no pod of {app} on {node}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_takes_a_forced_delete_for_a_disruption_only_with_disruption_target() {
    let Some(stage) = Stage::bare(73, &Flags::default()).await else { return };
    installed_with(&stage, &["rbac.admissionPolicy=true", "rbac.disruptionTarget=true"]).await;
    let (instances, refuges) = stage.group_and_refuges(2, 1, crate::stage::HEARTBEAT_TIMEOUT).await;
    let refuge = [node_name(&refuges[0])];
    let unmarked = guarded_job(&stage, "unmarked", &node_name(&instances[0]), &refuge).await;
    let marked = guarded_job(&stage, "marked", &node_name(&instances[1]), &refuge).await;
    stage.join(refuges).await;
    let forced = ["--force-after", "0", "--drain-timeout", "40s"];

    let mut sundown = stage.leader("without", &forced).await;
    stage.world.aws.terminate(&instances[0], true);
    continued(&stage, &instances[0]).await;
    stage.until("the delete counts as a failure", &unmarked, |job| condition(job, "Failed")).await;
    sundown.signal("TERM");
    sundown.ended().await;

    let pod = the_only_pod(&stage, &node_name(&instances[1]), "marked").await;
    let mut sundown = stage.leader("with", &[&forced[..], &["--disruption-target"]].concat()).await;
    stage.world.aws.terminate(&instances[1], true);
    continued(&stage, &instances[1]).await;
    stage.until("another pod takes its place", &marked, |job| job["status"]["ready"] == 1).await;
    let job = stage.get(&marked).await.unwrap();
    assert!(
        !condition(&job, "Failed") && job["status"]["failed"].as_u64().unwrap_or(0) == 0,
        "{}",
        job["status"]
    );
    assert!(sundown.metric("pods_forced_total").await > 0.5);
    let calls = stage.calls();
    let of_pod =
        |verb: &str, resource: &str| calls.iter().find(|c| c.is(verb, resource) && c.name == pod);
    let (stamped, deleted) = (
        of_pod("patch", "pods/status").expect("the condition"),
        of_pod("delete", "pods").expect("the delete"),
    );
    assert!(stamped.code == 200 && stamped.received <= deleted.received, "{stamped:?} {deleted:?}");
}
