//! The HTTP client that kube's client uses.

use std::time::Duration;

use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Config,
    client::{Body, ConfigExt},
};
use tower::{BoxError, ServiceBuilder};

/// The largest read buffer of a connection, in bytes. hyper's own limit is about 400 KiB, and each
/// connection that has read a LIST or a busy watch keeps its buffer: there may be a hundred. The
/// headers of an answer must fit too.
const READ_BUFFER: usize = 16 * 1024;
/// How many idle connections are kept for the next burst, and for how long.
const IDLE: usize = 32;
const IDLE_FOR: Duration = Duration::from_mins(1);

/// Makes a client as kube does, but with small read buffers. With a proxy, it is kube's own client.
pub(super) fn client(config: Config) -> Result<kube::Client, kube::Error> {
    if config.proxy_url.is_some() {
        return kube::Client::try_from(config);
    }
    // This fails if another provider is already installed, which works as well.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    let http: Client<_, Body> = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_FOR)
        .pool_max_idle_per_host(IDLE)
        .http1_max_buf_size(READ_BUFFER)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(kube::Client::new(service, config.default_namespace))
}
