//! Serves an in-process service over loopback TCP.

use std::{io, net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::Service;

use crate::runtime::Spawner;

/// What a service and its bodies may fail with; a failure cuts the connection.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A running server. Dropping it closes the port and cuts every connection.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    _guard: DropGuard,
}

impl Server {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The root of its addresses, without a slash at the end: `http://127.0.0.1:40123`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Binds a free loopback port.
pub async fn loopback() -> io::Result<TcpListener> {
    TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await
}

/// Serves `service` over HTTP/1.1 on `listener`, one task a connection, until the returned handle
/// is dropped.
///
/// Bodies are streamed both ways. An error of the service or of a response body cuts that
/// connection without an answer. No header is added: `Date` is the service's affair, because its
/// clock is not the machine's. Errs only when the listener has no address.
pub fn serve<S, B>(listener: TcpListener, service: S, spawner: &Spawner) -> io::Result<Server>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let address = listener.local_addr()?;
    let stop = CancellationToken::new();
    let tasks = spawner.clone();
    let accepting = stop.clone();
    spawner.spawn(async move {
        let accept = accept(&listener, &service, &tasks, &accepting);
        accepting.run_until_cancelled(accept).await
    });
    Ok(Server { address, _guard: stop.drop_guard() })
}

async fn accept<S, B>(
    listener: &TcpListener,
    service: &S,
    spawner: &Spawner,
    stop: &CancellationToken,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let service = service.clone();
                let stop = stop.clone();
                spawner.spawn(async move {
                    stop.run_until_cancelled(connection(stream, service)).await
                });
            }
            Err(error) => {
                // Out of file descriptors, most likely: some close soon.
                tracing::warn!(%error, "embedded server cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

async fn connection<S, B>(stream: TcpStream, service: S)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY refused");
    }
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        // Connections may idle as long as the client likes; paused clocks jump far.
        .header_read_timeout(None)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection to the embedded server ended");
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::Full;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn answers_over_tcp_and_closes_everything_when_dropped() {
        let spawner = Spawner::new();
        let service = tower::service_fn(|request: Request<Incoming>| async move {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(
                request.uri().path().to_owned(),
            ))))
        });
        let server = serve(loopback().await.unwrap(), service, &spawner).unwrap();
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(b"GET /hello HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut buffer = [0; 512];
        let n = stream.read(&mut buffer).await.unwrap();
        let answer = String::from_utf8_lossy(buffer.get(..n).unwrap()).into_owned();
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("/hello"), "{answer}");
        assert!(!answer.to_lowercase().contains("date:"), "{answer}");
        drop(server);
        assert_eq!(stream.read(&mut buffer).await.unwrap(), 0);
        assert!(spawner.finished(Duration::from_secs(5)).await);
    }
}
