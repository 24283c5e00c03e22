//! `sundown status` as a plug-in of the real kubectl, for a person who may only read.

use std::{process::Command, time::Duration};

use serde_json::{Value, json};

use crate::{
    cluster::ADMIN,
    hands::{accepted, completed_by_sundown, hold, let_go, stage_of_ours},
    process::{CommandOutput, binary, run},
    stage::{Stage, node_name},
};

/// The role of docs/commands.md, bound to a person who is nobody else; the kubeconfig of that
/// person.
async fn reader(stage: &Stage) -> std::path::PathBuf {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/commands.md")).unwrap();
    let role = page
        .split("```yaml\n")
        .filter_map(|rest| rest.split("```").next())
        .find(|block| block.contains("name: sundown-status"))
        .unwrap();
    let file = stage.cluster.folder.path().join("role.yaml");
    std::fs::write(&file, role).unwrap();
    stage.cluster.kubectl(&["apply", "-f", file.to_str().unwrap()]).await;
    stage.cluster.kubectl(&["create", "serviceaccount", "reader", "-n", "default"]).await;
    stage
        .cluster
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "reader",
            "--clusterrole=sundown-status",
            "--serviceaccount=default:reader",
        ])
        .await;
    let token = stage.cluster.kubectl(&["create", "token", "reader", "-n", "default"]).await;
    let mut config: Value =
        serde_json::from_slice(&std::fs::read(stage.cluster.kubeconfig(ADMIN)).unwrap()).unwrap();
    config["users"][0]["user"]["token"] = json!(token.trim());
    let kubeconfig = stage.cluster.folder.path().join("reader.kubeconfig");
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    kubeconfig
}

/// `kubectl sundown ...`, where a link of that name is in the PATH.
pub async fn kubectl_sundown(
    stage: &Stage,
    kubeconfig: &std::path::Path,
    words: &[&str],
) -> CommandOutput {
    let folder = stage.cluster.folder.path();
    let link = folder.join("kubectl-sundown");
    if !link.exists() {
        std::os::unix::fs::symlink(binary(), &link).unwrap();
    }
    let mut command = Command::new(stage.cluster.tools().join("kubectl"));
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    command
        .arg("sundown")
        .args(words)
        .env_clear()
        .env("PATH", path)
        .env("HOME", folder)
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("KUBECONFIG", kubeconfig);
    run(folder, &mut command).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_may_only_read_sees_the_drain_with_kubectl() {
    let Some(stage) = stage_of_ours(56).await else { return };
    let instance = stage.group(2).await.remove(0);
    hold(&stage, "held", &instance).await;
    let kubeconfig = reader(&stage).await;
    let mut sundown = stage.leader("sundown", &["--drain-timeout", "10m"]).await;
    stage.world.aws.terminate(&instance, true);
    accepted(&stage, &instance).await;
    sundown.counts("blocked_pods{reason=\"pdb\"}", 1.0).await;

    let output = kubectl_sundown(&stage, &kubeconfig, &["status", "-o", "json", "--no-aws"]).await;
    assert_eq!(output.code, Some(0), "{}{}", output.out, output.err);
    let status: Value =
        serde_json::from_str(&output.out).unwrap_or_else(|e| panic!("{e}: {}", output.out));
    assert_eq!(
        (&status["leader"]["lease"], &status["notes"]),
        (&json!("sundown/sundown"), &json!([])),
        "nothing is denied: {status:#}"
    );
    let drain = &status["nodes"][0];
    assert_eq!(
        (&drain["node"], &drain["state"], &drain["pods"]["left"]),
        (&json!(node_name(&instance)), &json!("draining"), &json!(1))
    );
    let blocked = &drain["blocked"][0];
    assert_eq!(
        (&blocked["pod"], &blocked["reason"], &blocked["budgets"]),
        (&json!("default/held"), &json!("pdb"), &json!(["default/held"]))
    );
    assert_eq!(drain["hooks"][0]["hook"], "drain");

    let output = kubectl_sundown(&stage, &kubeconfig, &["status", &instance, "--no-aws"]).await;
    assert!(
        output.code == Some(0)
            && output.out.contains("default/held: pdb")
            && output.out.contains("deadline   "),
        "{}{}",
        output.out,
        output.err
    );
    // The Event that names the budget comes after half a minute.
    let path = format!(
        "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D{}%2Creason%3DBlocked",
        node_name(&instance)
    );
    let events = stage
        .until("an Event on the node reports it", &path, |list| {
            !list["items"].as_array().unwrap().is_empty()
        })
        .await;
    let message = events["items"][0]["message"].as_str().unwrap();
    assert!(
        message.contains("default/held (pdb default/held)")
            && message.contains("deleted by force from"),
        "{message}"
    );

    // A person who may only read pauses nothing, and the error has the reason.
    let denied = kubectl_sundown(&stage, &kubeconfig, &["pause"]).await;
    assert!(
        denied.code == Some(1) && denied.err.contains("cannot patch resource"),
        "{}",
        denied.err
    );
    let_go(&stage, "held").await;
    completed_by_sundown(&stage, &instance).await;
    tokio::time::timeout(Duration::from_mins(1), async {
        loop {
            let output = kubectl_sundown(&stage, &kubeconfig, &["status", "--no-aws"]).await;
            if output
                .out
                .contains("The drain of 1 node is over; it stays cordoned until its instance goes.")
            {
                break;
            }
            assert_eq!(output.code, Some(0), "{}", output.err);
        }
    })
    .await
    .expect("the node is shown as drained");
}
