//! An HTTP server for a few small pages, which clients that send no request cannot keep busy.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{Method, Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    Answer,
    slots::{CONNECTIONS, Id, Slots},
};
use crate::{domain::seconds, runtime::Spawner};

/// hyper's smallest buffer: requests here have one line and a few headers.
const BUFFER: usize = 8 * 1024;
/// How long a request's line and headers may take.
const REQUEST: Duration = seconds(2);
/// How long a connection may last: the connection of a peer that does not read its answer is closed.
const CONNECTION: Duration = seconds(10);

/// Binds `address`, and serves `page` there until `stop`.
pub(super) async fn start(
    address: SocketAddr,
    spawner: &Spawner,
    stop: CancellationToken,
    page: impl Fn(&Method, &str) -> Answer + Send + Sync + 'static,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let server =
        Server { page: Arc::new(page), slots: Arc::default(), spawner: spawner.clone(), stop };
    spawner.spawn(server.run(listener));
    Ok(address)
}

struct Server<P> {
    page: Arc<P>,
    slots: Arc<Mutex<Slots>>,
    spawner: Spawner,
    stop: CancellationToken,
}

impl<P: Fn(&Method, &str) -> Answer + Send + Sync + 'static> Server<P> {
    async fn run(self, listener: TcpListener) {
        let sockets = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // No file descriptor is free, or the peer has disconnected already. The server
                    // goes on, but pauses so as not to spin.
                    tracing::debug!(%error, "Could not accept a connection.");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (id, close) = lock(&self.slots).admit(peer.ip());
            let slot = OpenSlot { slots: Arc::clone(&self.slots), id };
            // The connection that was closed to make room ends when its task runs next. The
            // semaphore bounds the number of sockets until then.
            let Ok(socket) = Arc::clone(&sockets).acquire_owned().await else { return };
            let (page, stop) = (Arc::clone(&self.page), self.stop.clone());
            self.spawner.spawn(async move {
                let _socket = socket;
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    () = close.cancelled() => {}
                    () = serve(stream, &slot, &*page) => {}
                }
            });
        }
    }
}

async fn serve(stream: TcpStream, slot: &OpenSlot, page: &impl Fn(&Method, &str) -> Answer) {
    let service = service_fn(move |request: Request<Incoming>| {
        lock(&slot.slots).request_received(slot.id);
        std::future::ready(Ok::<_, Infallible>(page(request.method(), request.uri().path())))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST)
        .max_buf_size(BUFFER)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    if let Ok(Err(error)) = timeout(CONNECTION, connection).await {
        tracing::trace!(%error, "A connection ended with an error.");
    }
}

/// A slot in use; dropping it frees the slot.
struct OpenSlot {
    slots: Arc<Mutex<Slots>>,
    id: Id,
}

impl Drop for OpenSlot {
    fn drop(&mut self) {
        lock(&self.slots).release(self.id);
    }
}

fn lock(slots: &Mutex<Slots>) -> MutexGuard<'_, Slots> {
    slots.lock().unwrap_or_else(PoisonError::into_inner)
}
