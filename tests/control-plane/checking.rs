//! `sundown check` with the rights of `deploy/`: how a real API server answers about them.

use serde_json::{Value, json};

use crate::{
    cluster::{ADMIN, SUNDOWN},
    hands::{patch, stage_of_ours},
    process::{run, sundown},
    stage::Stage,
};

/// The findings of a check by whoever has this token, by their point.
async fn findings(stage: &Stage, token: &str, point: &str) -> Vec<(String, String)> {
    let folder = stage.cluster.folder.path();
    let mut command = sundown(folder);
    command.args([
        "check",
        "-o",
        "json",
        "--queue-url",
        &stage.world.queue_url(),
        "--cluster-name",
        stage.world.cluster(),
        "--lease-namespace",
        "sundown",
    ]);
    command
        .args(["--aws-endpoint-url", &stage.aws_url()])
        .arg("--kubeconfig")
        .arg(stage.cluster.kubeconfig(token));
    command.envs([
        ("AWS_ACCESS_KEY_ID", "AKIASUNDOWN"),
        ("AWS_SECRET_ACCESS_KEY", "not-a-secret"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ]);
    let output = run(folder, &mut command).await;
    let report: Value = serde_json::from_str(&output.out)
        .unwrap_or_else(|e| panic!("{e}: {}{}", output.out, output.err));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let of_point = report["findings"].as_array().unwrap().iter().filter(|f| f["point"] == point);
    of_point.map(|f| (text(&f["answer"]), text(&f["about"]))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rights_of_deploy_are_all_there_and_one_that_is_taken_away_is_named() {
    let Some(stage) = stage_of_ours(40).await else { return };
    let all_there = [("yes".to_owned(), String::new())];
    assert_eq!(findings(&stage, SUNDOWN, "rights").await, all_there);
    assert_eq!(findings(&stage, SUNDOWN, "kubernetes").await, all_there);
    // The pods of the Deployment are of kwok and name another queue: nobody else reads ours.
    assert_eq!(findings(&stage, SUNDOWN, "no-other-handler").await, all_there);
    patch(
        &stage.cluster.client(ADMIN),
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/sundown-force",
        &json!({ "rules": [] }),
    )
    .await;
    let missing = ("no".to_owned(), "delete pods".to_owned());
    // The authorizer hears of it by a watch.
    let mut found = Vec::new();
    for _ in 0..50 {
        found = findings(&stage, SUNDOWN, "rights").await;
        if found.contains(&missing) {
            break;
        }
    }
    assert_eq!(found, [("yes".to_owned(), String::new()), missing]);
}
