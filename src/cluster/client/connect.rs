//! Makes the client of the API server.

use std::{path::PathBuf, time::Duration};

use http::header;
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::{proxy, transport};

/// Where to find the API server and the credentials for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectOptions {
    /// A kubeconfig file. `None`: `KUBECONFIG`, `~/.kube/config`, else the service account of the
    /// pod.
    pub kubeconfig: Option<PathBuf>,
    /// A context in the kubeconfig; `None`: its current context.
    pub context: Option<String>,
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig that the options name could not be used.
    #[error("cannot use the kubeconfig{}", named(.0))]
    Kubeconfig(ConnectOptions, #[source] Box<kube::config::KubeconfigError>),
    /// There is neither a kubeconfig nor a service account.
    #[error(
        "neither a kubeconfig nor the service account of a pod can be used; give --kubeconfig, or \
         run in the cluster"
    )]
    Nowhere(#[source] Box<kube::config::InferConfigError>),
    /// The configuration was read, but no client could be made from it.
    #[error("cannot make a client for the API server")]
    Client(#[source] Box<kube::Error>),
}

fn named(options: &ConnectOptions) -> String {
    let file = options.kubeconfig.as_ref().map(|p| format!(" {}", p.display())).unwrap_or_default();
    let context =
        options.context.as_ref().map(|c| format!(" with context {c}")).unwrap_or_default();
    file + &context
}

/// The time limit for opening a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// Makes a client that never repeats a request by itself. By default kube silently repeats 429, 503
/// and 504 for minutes (kube-client `config/mod.rs`: `default_retry`), but the caller must learn of
/// a disruption budget's 429 at once.
pub async fn connect(options: &ConnectOptions) -> Result<kube::Client, ConnectError> {
    let mut config = if options == &ConnectOptions::default() {
        Config::infer().await.map_err(|e| ConnectError::Nowhere(Box::new(e)))?
    } else {
        from_kubeconfig(options)
            .await
            .map_err(|e| ConnectError::Kubeconfig(options.clone(), Box::new(e)))?
    };
    proxy::apply_no_proxy(&mut config);
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT);
    config.headers.push((
        header::USER_AGENT,
        header::HeaderValue::from_static(concat!("sundown/", env!("CARGO_PKG_VERSION"))),
    ));
    transport::client(config).map_err(|e| ConnectError::Client(Box::new(e)))
}

async fn from_kubeconfig(
    options: &ConnectOptions,
) -> Result<Config, kube::config::KubeconfigError> {
    let choice =
        KubeConfigOptions { context: options.context.clone(), ..KubeConfigOptions::default() };
    match &options.kubeconfig {
        Some(path) => Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &choice).await,
        None => Config::from_kubeconfig(&choice).await,
    }
}
