//! The control plane for a person: `tests/control-plane/shell`.

use std::{io::Write as _, process::Command};

use crate::{cluster::ADMIN, stage::Stage};

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_has_the_cluster_the_cloud_and_the_binary() {
    let Some(stage) = Stage::new(1).await else { return };
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
    // For nobody in particular the words above are tried.
    let for_a_person = std::env::var_os("SUNDOWN_SHELL").is_some();
    let shell = std::env::var_os("SHELL").filter(|_| for_a_person).unwrap_or_else(|| "sh".into());
    let variables = [("AWS_ACCESS_KEY_ID", "AKIASUNDOWN"), ("AWS_SECRET_ACCESS_KEY", "not-a-secret"), ("AWS_REGION", "eu-west-1")];
    let mut command = Command::new(shell);
    if !for_a_person {
        let node = format!("kubectl get node node-{} && sundown --version && test -n \"$AWS_ENDPOINT_URL\"", instances[0]);
        command.args(["-ec", &node]);
    }
    command.env("KUBECONFIG", stage.cluster.kubeconfig(ADMIN)).env("PATH", path.unwrap()).env("AWS_ENDPOINT_URL", stage.aws_url()).envs(variables);
    // The servers go on meanwhile.
    let status = tokio::task::spawn_blocking(move || command.status()).await.unwrap().unwrap();
    assert!(for_a_person || status.success(), "{status}");
}
