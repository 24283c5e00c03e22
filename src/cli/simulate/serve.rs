//! The embedded servers on loopback, and the person in front of them.

use std::{io::Write as _, path::PathBuf};

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    controller::Spawner,
    sim::{World, http, kube::EmbeddedKube},
};

/// What listens on loopback, and what a person can do with it. What is said goes to standard error: standard output is for the drains and
/// the summary.
pub(super) struct Guide {
    _servers: [http::Server; 2],
    kubeconfig: PathBuf,
    text: String,
}

impl Guide {
    /// Has both servers listen, and says where.
    pub(super) async fn listen(world: &World, spawner: &Spawner) -> anyhow::Result<Self> {
        let listener = http::loopback().await.context("cannot listen on loopback")?;
        let aws = world.aws.serve(listener, spawner).context("cannot serve the embedded AWS")?;
        let listener = http::loopback().await.context("cannot listen on loopback")?;
        let address = listener.local_addr()?;
        let kube = world.kube.serve(listener, spawner).context("cannot serve the embedded Kubernetes")?;
        let kubeconfig = std::env::temp_dir().join(format!("sundown-simulate-{}.kubeconfig", address.port()));
        std::fs::write(&kubeconfig, EmbeddedKube::kubeconfig(address)).with_context(|| format!("cannot write {}", kubeconfig.display()))?;
        let text = format!(
            "Kubernetes listens: export KUBECONFIG={}; kubectl get nodes,pods -A\n\
             AWS listens: export AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x AWS_DEFAULT_REGION=eu-west-1 AWS_ENDPOINT_URL={}; aws autoscaling describe-auto-scaling-groups\n\
             Version 1 of the aws CLI wants `aws --endpoint-url URL sqs ...` for queues.\n\
             Ctrl-C ends it.\n",
            kubeconfig.display(),
            aws.url()
        );
        let guide = Self { _servers: [aws, kube], kubeconfig, text };
        guide.say();
        Ok(guide)
    }

    /// Says where they listen.
    pub(super) fn say(&self) {
        writeln!(std::io::stderr(), "{}", self.text).ok();
    }
}

impl Drop for Guide {
    fn drop(&mut self) {
        // Nobody listens there any more.
        std::fs::remove_file(&self.kubeconfig).ok();
    }
}

/// Is cancelled by the first Ctrl-C (or SIGTERM); a second one ends the process at once.
pub(super) fn interrupted() -> anyhow::Result<CancellationToken> {
    let mut int = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut term = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let token = CancellationToken::new();
    let told = token.clone();
    // It lives as long as the process.
    drop(tokio::spawn(async move {
        for turn in 0.. {
            tokio::select! {
                biased;
                _ = int.recv() => {}
                _ = term.recv() => {}
            }
            if turn > 0 {
                std::process::exit(130);
            }
            told.cancel();
        }
    }));
    Ok(token)
}
