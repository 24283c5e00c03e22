//! The admin listener: `/metrics`, `/livez`, `/readyz`.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::Semaphore, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{Loops, Metrics, Readiness};
use crate::{controller::Spawner, domain::seconds};

/// What Prometheus asks for; plain text would lose the exact types.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
/// Connections served at once: a scraper, a kubelet, a person. Others wait in the backlog.
const CONNECTIONS: usize = 32;
/// hyper's least buffer: requests here have a line and a few headers.
const BUFFER: usize = 8 * 1024;

/// What the admin listener shows.
#[derive(Debug, Clone)]
pub struct Admin {
    /// `/metrics`.
    pub metrics: Arc<Metrics>,
    /// `/livez`.
    pub loops: Loops,
    /// `/readyz`.
    pub readiness: Readiness,
}

impl Admin {
    /// Listens, and serves until `stop`. Errs when the address cannot be had. Returns the address that it listens on.
    pub async fn start(self, address: SocketAddr, spawner: &Spawner, stop: CancellationToken) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let tasks = spawner.clone();
        spawner.spawn(async move { self.serve(listener, tasks, stop).await });
        Ok(address)
    }

    async fn serve(self, listener: TcpListener, spawner: Spawner, stop: CancellationToken) {
        let slots = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of descriptors, or the peer was gone already: neither ends the listener, neither may spin.
                    tracing::debug!(%error, "admin listener: accept failed");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (admin, stop) = (self.clone(), stop.clone());
            spawner.spawn(async move {
                let _slot = slot;
                let service = service_fn(move |request| std::future::ready(Ok::<_, Infallible>(admin.answer(&request))));
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(seconds(2))
                    .max_buf_size(BUFFER)
                    .keep_alive(false)
                    .serve_connection(TokioIo::new(stream), service);
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    // A peer that does not read its answer, or sends half a request, is cut off.
                    _ = timeout(seconds(10), connection) => {}
                }
            });
        }
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        self.route(request.method(), request.uri().path())
    }

    fn route(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        if !matches!(path, "/metrics" | "/livez" | "/readyz") {
            return respond(StatusCode::NOT_FOUND, TEXT, "not here: /metrics /livez /readyz\n".to_owned());
        }
        if method != Method::GET && method != Method::HEAD {
            return respond(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET only\n".to_owned());
        }
        match path {
            "/metrics" => match self.metrics.render() {
                Ok(text) => respond(StatusCode::OK, OPENMETRICS, text),
                Err(error) => respond(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("metrics cannot be rendered: {error}\n")),
            },
            "/livez" => verdict(self.loops.stuck().iter().map(|(name, ago)| format!("{name}: has not turned for {} s\n", ago.as_secs()))),
            _ => verdict(self.readiness.missing().iter().map(|(name, why)| format!("{name}: {why}\n"))),
        }
    }
}

fn verdict(faults: impl Iterator<Item = String>) -> Response<Full<Bytes>> {
    let text: String = faults.collect();
    if text.is_empty() { respond(StatusCode::OK, TEXT, "ok\n".to_owned()) } else { respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, text) }
}

fn respond(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}
