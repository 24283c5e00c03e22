//! The embedded servers on loopback, and the person in front of them.

use std::{io::Write as _, path::PathBuf};

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    domain::seconds,
    observe::Endpoints,
    runtime::Spawner,
    sim::{World, http, kube::EmbeddedKube},
};

/// Starts both servers on loopback for `--serve`, and prints how to use them. It prints to standard
/// error, because standard output is for the drains and the summary.
pub(super) struct Guide {
    servers: [http::Server; 2],
    kubeconfig: PathBuf,
}

/// Credentials for the embedded AWS, which accepts any.
const CREDENTIALS: &str =
    "AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x AWS_DEFAULT_REGION=eu-west-1";

impl Guide {
    /// Makes both servers listen on loopback, and prints their addresses.
    pub(super) async fn listen(world: &World, spawner: &Spawner) -> anyhow::Result<Self> {
        let listener = http::loopback().await.context("cannot listen on loopback")?;
        let aws = world.aws.serve(listener, spawner).context("cannot serve the embedded AWS")?;
        let listener = http::loopback().await.context("cannot listen on loopback")?;
        let address = listener.local_addr()?;
        let kube =
            world.kube.serve(listener, spawner).context("cannot serve the embedded Kubernetes")?;
        let kubeconfig =
            std::env::temp_dir().join(format!("sundown-simulate-{}.kubeconfig", address.port()));
        std::fs::write(&kubeconfig, EmbeddedKube::kubeconfig(address))
            .with_context(|| format!("cannot write {}", kubeconfig.display()))?;
        let guide = Self { servers: [aws, kube], kubeconfig };
        guide.print_addresses();
        Ok(guide)
    }

    /// Prints the addresses of both servers.
    fn print_addresses(&self) {
        let [aws, _] = &self.servers;
        let (kubeconfig, url) = (self.kubeconfig.display(), aws.url());
        print_to_stderr(&format!(
            "Kubernetes listens: export KUBECONFIG={kubeconfig}; kubectl get nodes,pods -A\nAWS \
             listens: export {CREDENTIALS} AWS_ENDPOINT_URL={url}; aws autoscaling \
             describe-auto-scaling-groups\nVersion 1 of the aws CLI wants `aws --endpoint-url URL \
             sqs ...` for queues.\nCtrl-C ends it.\n"
        ));
    }

    /// Serves the metrics of the service on loopback, and prints the address.
    pub(super) async fn serve_metrics(
        &self,
        endpoints: &Endpoints,
        spawner: &Spawner,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let any = (std::net::Ipv4Addr::LOCALHOST, 0).into();
        let address = endpoints
            .serve_metrics(any, spawner, stop)
            .await
            .context("cannot listen on loopback")?;
        print_to_stderr(&format!("Metrics of the service: curl http://{address}/metrics\n"));
        Ok(())
    }

    /// Prints how to start a service, and waits until one receives from the queue. The scenario
    /// begins then.
    pub(super) async fn wait_for_service(&self, world: &World, flags: &[String]) {
        let [aws, _] = &self.servers;
        let quoted = flags.iter().map(|flag| format!("'{}'", flag.replace('\'', "'\\''")));
        let run: Vec<String> = [
            format!("{CREDENTIALS} sundown run"),
            format!("--queue-url {}", world.queue_url()),
            format!("--cluster-name {}", world.cluster()),
            format!("--kubeconfig {}", self.kubeconfig.display()),
            format!("--aws-endpoint-url {}", aws.url()),
            "--region eu-west-1".to_owned(),
        ]
        .into_iter()
        .chain(quoted)
        .collect();
        print_to_stderr(&format!(
            "The scenario begins when a service receives from the queue. Start one in another \
             terminal:\n{}\n",
            run.join(" \\\n  ")
        ));
        while !world.aws.counts().contains_key("sqs:ReceiveMessage") {
            tokio::time::sleep(seconds(1)).await;
        }
        print_to_stderr("A service receives from the queue: the scenario begins.\n");
    }

    /// Prints that the scenario is over and the servers still listen.
    pub(super) fn print_end(&self, at_rest: bool) {
        let how = if at_rest {
            "everything has come to rest"
        } else {
            "not everything has come to rest before its end"
        };
        print_to_stderr(&format!(
            "The scenario is over: {how}. Both servers go on listening; Ctrl-C ends it with the \
             summary.\n"
        ));
        self.print_addresses();
    }
}

fn print_to_stderr(text: &str) {
    writeln!(std::io::stderr(), "{text}").ok();
}

impl Drop for Guide {
    fn drop(&mut self) {
        // Removes the kubeconfig, because its server ends.
        std::fs::remove_file(&self.kubeconfig).ok();
    }
}

/// A token that the first Ctrl-C (or SIGTERM) cancels; a second one ends the process at once.
/// Signals have their own thread, so that a large scenario does not delay them. Do not call this
/// inside a runtime.
pub(super) fn interrupted() -> anyhow::Result<CancellationToken> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut int, mut term) = {
        let _entered = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let token = CancellationToken::new();
    let on_signal = token.clone();
    let listen = async move {
        for turn in 0.. {
            tokio::select! {
                biased;
                _ = int.recv() => {}
                _ = term.recv() => {}
            }
            if turn > 0 {
                std::process::exit(130);
            }
            on_signal.cancel();
        }
    };
    // The thread lives as long as the process.
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(listen))
        .context("cannot listen for signals")?;
    Ok(token)
}
