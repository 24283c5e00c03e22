//! The HTTP endpoints of the process, on two ports: `/metrics`, and the probes `/livez` and
//! `/readyz`. Each port has connection slots of its own, so that a client that uses up those of one
//! port cannot keep the kubelet from the other.

mod server;
mod slots;
#[cfg(test)]
mod tests;

use std::{io, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{Method, Response, StatusCode, header};
use http_body_util::Full;
use tokio_util::sync::CancellationToken;

use super::{Loops, Metrics, Readiness};
use crate::runtime::Spawner;

/// The content type that Prometheus asks for; plain text would lose the exact types of metrics.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

type Answer = Response<Full<Bytes>>;

/// The state that the endpoints show.
#[derive(Debug, Clone)]
pub struct Endpoints {
    /// Shown by `/metrics`.
    pub metrics: Arc<Metrics>,
    /// Decides the answer of `/livez`: 503 while a loop is stuck.
    pub loops: Loops,
    /// Decides the answer of `/readyz`: 503 while a condition is not met.
    pub readiness: Readiness,
}

impl Endpoints {
    /// Serves `/metrics` on `address` until `stop`. Returns the bound address, which differs if
    /// `address` has port 0. Errs when the address cannot be bound.
    pub async fn serve_metrics(
        &self,
        address: SocketAddr,
        spawner: &Spawner,
        stop: CancellationToken,
    ) -> io::Result<SocketAddr> {
        let shown = self.clone();
        server::start(address, spawner, stop, move |method, path| shown.metrics_page(method, path))
            .await
    }

    /// Serves `/livez` and `/readyz` on `address` until `stop`. Returns the bound address, which
    /// differs if `address` has port 0. Errs when the address cannot be bound.
    pub async fn serve_probes(
        &self,
        address: SocketAddr,
        spawner: &Spawner,
        stop: CancellationToken,
    ) -> io::Result<SocketAddr> {
        let shown = self.clone();
        server::start(address, spawner, stop, move |method, path| shown.probe(method, path)).await
    }

    fn metrics_page(&self, method: &Method, path: &str) -> Answer {
        if path != "/metrics" {
            return respond(
                StatusCode::NOT_FOUND,
                TEXT,
                "this port serves /metrics; /livez and /readyz are on the port of --probe-listen\n"
                    .to_owned(),
            );
        }
        if !reads(method) {
            return only_get();
        }
        // The conditions are evaluated only when `/metrics` or `/readyz` is called.
        self.metrics.set_ready(self.readiness.conditions());
        match self.metrics.render() {
            Ok(text) => respond(StatusCode::OK, OPENMETRICS, text),
            Err(error) => respond(
                StatusCode::INTERNAL_SERVER_ERROR,
                TEXT,
                format!("metrics cannot be rendered: {error}\n"),
            ),
        }
    }

    fn probe(&self, method: &Method, path: &str) -> Answer {
        match path {
            "/livez" | "/readyz" if !reads(method) => only_get(),
            "/livez" => {
                let stuck = self.loops.stuck();
                verdict(
                    stuck.iter().map(|(name, ago)| {
                        format!("{name}: has made no progress for {} s\n", ago.as_secs())
                    }),
                )
            }
            "/readyz" => verdict(
                self.readiness
                    .missing()
                    .iter()
                    .map(|(name, why)| format!("{name}: {}\n", without_arns(why))),
            ),
            _ => respond(
                StatusCode::NOT_FOUND,
                TEXT,
                "this port serves /livez and /readyz; /metrics is on the port of --metrics-listen\n"
                    .to_owned(),
            ),
        }
    }
}

fn reads(method: &Method) -> bool {
    *method == Method::GET || *method == Method::HEAD
}

fn only_get() -> Answer {
    respond(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET only\n".to_owned())
}

/// Replaces ARNs, with which AWS's errors name accounts, roles and users. Everybody in the cluster
/// can read `/readyz`. The log shows the ARNs.
fn without_arns(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, arn)) = rest.split_once("arn:") {
        shown.push_str(before);
        shown.push_str("[ARN]");
        rest = arn
            .find(|c: char| c.is_whitespace() || "\"',;()".contains(c))
            .and_then(|end| arn.get(end..))
            .unwrap_or_default();
    }
    shown + rest
}

fn verdict(problems: impl Iterator<Item = String>) -> Answer {
    let text: String = problems.collect();
    if text.is_empty() {
        respond(StatusCode::OK, TEXT, "ok\n".to_owned())
    } else {
        respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, text)
    }
}

fn respond(status: StatusCode, content_type: &'static str, body: String) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}
