//! The control plane for a person: `tests/control-plane/shell`.

use std::{fs, io::Write as _, path::Path, process::Command};

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
    let mut variables =
        vec![("AWS_ACCESS_KEY_ID", "AKIASUNDOWN"), ("AWS_SECRET_ACCESS_KEY", "not-a-secret")];
    // Version 1 of the aws CLI reads the second.
    variables.extend([
        ("AWS_REGION", "eu-west-1"),
        ("AWS_DEFAULT_REGION", "eu-west-1"),
        ("AWS_PAGER", ""),
    ]);
    let mut command = Command::new(shell);
    if !for_a_person {
        let node = format!(
            "kubectl get node node-{} && sundown --version && test -n \"$AWS_ENDPOINT_URL\"",
            instances[0]
        );
        command.args(["-ec", &node]);
    }
    let kubeconfig = stage.cluster.kubeconfig(ADMIN);
    // Whatever the person has elsewhere must not be asked, or written to.
    for name in ["AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_CONFIG_FILE"] {
        command.env_remove(name);
    }
    command.env("KUBECACHEDIR", stage.cluster.folder.path().join("kube-cache"));
    command
        .env("KUBECONFIG", &kubeconfig)
        .env("PATH", path.unwrap())
        .env("AWS_ENDPOINT_URL", stage.aws_url())
        .envs(variables);
    // The servers go on meanwhile.
    let status = tokio::task::spawn_blocking(move || command.status()).await.unwrap().unwrap();
    end_what_is_left(&kubeconfig);
    assert!(for_a_person || status.success(), "{status}");
}

/// Ends what was put into the background in the shell, as its own words propose: whatever has its
/// kubeconfig.
fn end_what_is_left(kubeconfig: &Path) {
    let wanted = format!("KUBECONFIG={}", kubeconfig.display());
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
            drop(Command::new("kill").arg(entry.file_name()).status());
        }
    }
}
