//! The control plane for a person: `tests/control-plane/shell`.

use std::{io::Write as _, process::Command};

use crate::{cluster::ADMIN, stage::Stage};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it waits for a person"]
async fn shell() {
    let stage = Stage::new(1).await.expect("tests/control-plane/shell says where the control plane is");
    let instances = stage.group(6).await;
    let text = format!(
        "A Kubernetes cluster with six nodes, their instances in an embedded AWS, and Sundown's binary on the PATH. Try:\n
  kubectl get nodes
  sundown run --queue-url {queue} --cluster-name {cluster} --lease-namespace sundown &
  aws --endpoint-url $AWS_ENDPOINT_URL autoscaling terminate-instance-in-auto-scaling-group --instance-id {instance} --no-should-decrement-desired-capacity
  kubectl get node node-{instance} -o yaml\n\nLeave it with `exit`: all of it goes.",
        queue = stage.world.queue_url(),
        cluster = stage.world.cluster(),
        instance = instances[0],
    );
    writeln!(std::io::stdout(), "{text}").unwrap();
    let binary = crate::process::binary();
    let path = std::env::join_paths(
        [binary.parent().unwrap().to_owned(), stage.cluster.tools().to_owned()]
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "bash".into());
    let variables = [("AWS_ACCESS_KEY_ID", "AKIASUNDOWN"), ("AWS_SECRET_ACCESS_KEY", "not-a-secret"), ("AWS_REGION", "eu-west-1")];
    let mut command = Command::new(shell);
    command.env("KUBECONFIG", stage.cluster.kubeconfig(ADMIN)).env("PATH", path.unwrap()).env("AWS_ENDPOINT_URL", stage.aws_url()).envs(variables);
    // The servers go on meanwhile.
    tokio::task::spawn_blocking(move || command.status()).await.unwrap().unwrap();
}
