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
            "/metrics" => {
                // Asked for rather than told: the conditions look for themselves.
                self.metrics.set_ready(self.readiness.standing());
                match self.metrics.render() {
                    Ok(text) => respond(StatusCode::OK, OPENMETRICS, text),
                    Err(error) => respond(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("metrics cannot be rendered: {error}\n")),
                }
            }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    use super::*;
    use crate::controller::Clock;

    async fn start() -> (Admin, SocketAddr, CancellationToken) {
        let admin = Admin { metrics: Arc::default(), loops: Loops::new(Clock::system()), readiness: Readiness::default() };
        let stop = CancellationToken::new();
        let address = admin.clone().start(([127, 0, 0, 1], 0).into(), &Spawner::new(), stop.clone()).await.unwrap();
        (admin, address, stop)
    }

    /// Sends `request` and reads until the server closes.
    async fn exchange(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(seconds(9), stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        answer
    }

    async fn get(address: SocketAddr, path: &str) -> String {
        exchange(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await
    }

    #[tokio::test]
    async fn the_three_pages_say_how_it_is() {
        let (admin, address, _stop) = start().await;
        let metrics = get(address, "/metrics").await;
        assert!(metrics.starts_with("HTTP/1.1 200") && metrics.contains("content-type: application/openmetrics-text; version=1.0.0"), "{metrics}");
        assert!(metrics.contains("sundown_leader 0\n") && metrics.ends_with("# EOF\n"));

        assert!(get(address, "/readyz").await.ends_with("\r\n\r\nok\n"));
        let queue = admin.readiness.flag("queue reachable");
        let unready = get(address, "/readyz?verbose").await;
        assert!(unready.starts_with("HTTP/1.1 503") && unready.ends_with("queue reachable: not yet\n"), "{unready}");
        assert!(get(address, "/metrics").await.contains("sundown_ready{condition=\"queue reachable\"} 0\n"));
        queue.set(Ok(()));
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/metrics").await.contains("sundown_ready{condition=\"queue reachable\"} 1\n"));

        let intake = admin.loops.register("intake", Duration::ZERO);
        tokio::time::sleep(Duration::from_millis(5)).await;
        let stuck = get(address, "/livez").await;
        assert!(stuck.starts_with("HTTP/1.1 503") && stuck.contains("intake: has not turned"), "{stuck}");
        drop(intake);
        assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200"));

        assert!(get(address, "/").await.starts_with("HTTP/1.1 404"));
        assert!(exchange(address, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").await.starts_with("HTTP/1.1 405"));
    }

    #[tokio::test]
    async fn who_talks_too_slowly_or_too_much_is_cut_off_and_others_are_served_meanwhile() {
        let (_admin, address, stop) = start().await;
        let slow = tokio::spawn(exchange(address, "GET /metrics HT"));
        let much = exchange(address, &format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(20_000))).await;
        assert!(much.starts_with("HTTP/1.1 431"), "{much}");
        assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200"));
        assert!(timeout(seconds(5), slow).await.unwrap().unwrap().is_empty());
        stop.cancel();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(TcpStream::connect(address).await.is_err(), "it listens no more");
    }
}
