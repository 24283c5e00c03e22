use std::{net::IpAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::{Instant, timeout},
};

use super::{
    slots::{CONNECTIONS, Id, PER_PEER, Slots},
    *,
};
use crate::{domain::seconds, runtime::Clock};

struct Served {
    endpoints: Endpoints,
    metrics: SocketAddr,
    probes: SocketAddr,
    stop: CancellationToken,
}

async fn serve() -> Served {
    let loops = Loops::new(Clock::system());
    let endpoints = Endpoints { metrics: Arc::default(), loops, readiness: Readiness::default() };
    let (stop, spawner, any) =
        (CancellationToken::new(), Spawner::new(), ([127, 0, 0, 1], 0).into());
    let metrics = endpoints.serve_metrics(any, &spawner, stop.clone()).await.unwrap();
    let probes = endpoints.serve_probes(any, &spawner, stop.clone()).await.unwrap();
    Served { endpoints, metrics, probes, stop }
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
async fn metrics_are_on_one_port_and_probes_on_the_other() {
    let Served { endpoints, metrics, probes, .. } = serve().await;
    let page = get(metrics, "/metrics").await;
    let is_open_metrics =
        page.contains("content-type: application/openmetrics-text; version=1.0.0");
    assert!(page.starts_with("HTTP/1.1 200") && is_open_metrics, "{page}");
    assert!(page.contains("sundown_leader 0\n") && page.ends_with("# EOF\n"));

    assert!(get(probes, "/readyz").await.ends_with("\r\n\r\nok\n"));
    let queue = endpoints.readiness.flag("queue reachable");
    let unready = get(probes, "/readyz?verbose").await;
    assert!(unready.starts_with("HTTP/1.1 503"), "{unready}");
    assert!(unready.ends_with("queue reachable: not yet\n"), "{unready}");
    let condition = "sundown_ready{condition=\"queue reachable\"}";
    assert!(get(metrics, "/metrics").await.contains(&format!("{condition} 0\n")));
    queue.set(Ok(()));
    assert!(get(probes, "/readyz").await.starts_with("HTTP/1.1 200"));
    assert!(get(metrics, "/metrics").await.contains(&format!("{condition} 1\n")));

    let intake = endpoints.loops.register("intake", Duration::ZERO);
    tokio::time::sleep(Duration::from_millis(5)).await;
    let stuck = get(probes, "/livez").await;
    assert!(
        stuck.starts_with("HTTP/1.1 503") && stuck.contains("intake: has made no progress"),
        "{stuck}"
    );
    drop(intake);
    assert!(get(probes, "/livez").await.starts_with("HTTP/1.1 200"));

    for (address, path, other) in [
        (metrics, "/", "--probe-listen"),
        (metrics, "/livez", "--probe-listen"),
        (probes, "/metrics", "--metrics-listen"),
    ] {
        let answer = get(address, path).await;
        assert!(answer.starts_with("HTTP/1.1 404") && answer.contains(other), "{path}: {answer}");
    }
    for (address, path) in [(metrics, "/metrics"), (probes, "/livez"), (probes, "/readyz")] {
        let answer = exchange(
            address,
            &format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"),
        )
        .await;
        assert!(answer.starts_with("HTTP/1.1 405"), "{path}: {answer}");
    }
}

#[tokio::test]
async fn a_client_that_is_slow_or_sends_too_much_is_disconnected_and_others_are_served() {
    let Served { probes, stop, .. } = serve().await;
    let slow = tokio::spawn(exchange(probes, "GET /metrics HT"));
    let much =
        exchange(probes, &format!("GET /livez HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(20_000)))
            .await;
    assert!(much.starts_with("HTTP/1.1 431"), "{much}");
    assert!(get(probes, "/livez").await.starts_with("HTTP/1.1 200"));
    assert!(timeout(seconds(5), slow).await.unwrap().unwrap().is_empty());
    stop.cancel();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(TcpStream::connect(probes).await.is_err(), "the port is closed");
}

#[tokio::test]
async fn readyz_shows_conditions_that_are_not_met_without_arns() {
    let Served { endpoints, probes, .. } = serve().await;
    let role = "arn:aws-us-gov:sts::123456789012:assumed-role/sundown-shop/1712";
    let queue = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop";
    let why = format!(
        "User: {role} is not authorized to perform: sqs:GetQueueAttributes on resource: \
         \"{queue}\" (AccessDenied)"
    );
    endpoints.readiness.add("queue", move || Err(why.clone()));
    let answer = get(probes, "/readyz").await;
    let expected = "queue: User: [ARN] is not authorized to perform: sqs:GetQueueAttributes on \
        resource: \"[ARN]\" (AccessDenied)\n";
    assert!(answer.ends_with(expected), "{answer}");
    endpoints.readiness.add("queue", || Err("arn:".to_owned()));
    assert!(get(probes, "/readyz").await.ends_with("queue: [ARN]\n"));
}

/// Opens `count` connections that send nothing, from `peers` different loopback addresses.
async fn silent(address: SocketAddr, count: usize, peers: usize) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for n in 0..count {
        let socket = TcpSocket::new_v4().unwrap();
        let from = [127, 0, 1, u8::try_from(n % peers).unwrap()];
        socket.bind((from, 0).into()).unwrap();
        open.push(timeout(seconds(5), socket.connect(address)).await.unwrap().unwrap());
    }
    open
}

#[tokio::test]
async fn the_probes_answer_at_once_beside_500_silent_connections() {
    for peers in [1, 50, 250] {
        let Served { metrics, probes, .. } = serve().await;
        for held in [probes, metrics] {
            let open = silent(held, 500, peers).await;
            for (address, path) in [(probes, "/livez"), (probes, "/readyz"), (metrics, "/metrics")]
            {
                let asked = Instant::now();
                assert!(
                    get(address, path).await.starts_with("HTTP/1.1 200"),
                    "{path}, {peers} peers"
                );
                assert!(
                    asked.elapsed() < seconds(1),
                    "{path} took {:?}, {peers} peers",
                    asked.elapsed()
                );
            }
            drop(open);
        }
    }
}

fn peer(n: u8) -> IpAddr {
    [10, 0, 0, n].into()
}

/// The IDs of those connections that have to be closed.
fn closed(connections: &[(Id, CancellationToken)]) -> Vec<Id> {
    connections.iter().filter(|(_, close)| close.is_cancelled()).map(|(id, _)| *id).collect()
}

#[test]
fn a_peer_with_its_maximum_of_connections_loses_its_oldest_silent_one() {
    let mut slots = Slots::default();
    let other = slots.admit(peer(1));
    let greedy: Vec<_> = (0..=PER_PEER).map(|_| slots.admit(peer(2))).collect();
    assert_eq!(closed(&greedy), [1]);
    assert!(!other.1.is_cancelled());
    // Connections with a request are served to the end while others are silent.
    slots.request_received(2);
    slots.request_received(3);
    slots.admit(peer(2));
    assert_eq!(closed(&greedy), [1, 4]);
    // The same peer by its IPv4-mapped IPv6 address.
    slots.admit("::ffff:10.0.0.2".parse().unwrap());
    assert_eq!(closed(&greedy), [1, 4, 5]);
}

#[test]
fn when_all_slots_are_taken_the_peer_with_the_most_connections_loses_its_oldest_silent_one() {
    let mut slots = Slots::default();
    let kubelet = slots.admit(peer(0));
    let mut greedy = Vec::new();
    for n in 1..CONNECTIONS {
        greedy.push(slots.admit(peer(1 + u8::try_from(n / PER_PEER).unwrap())));
    }
    assert_eq!(closed(&greedy), Vec::<Id>::new());
    slots.admit(peer(200));
    assert!(!kubelet.1.is_cancelled(), "it has only one slot, although it is the oldest");
    assert_eq!(closed(&greedy), [8], "the oldest of the first peer with eight connections");
}

#[test]
fn when_all_have_sent_requests_the_oldest_is_closed_and_a_released_slot_is_used_first() {
    let mut slots = Slots::default();
    let all: Vec<_> =
        (0..CONNECTIONS).map(|n| slots.admit(peer(u8::try_from(n).unwrap()))).collect();
    for (id, _) in &all {
        slots.request_received(*id);
    }
    slots.release(5);
    slots.admit(peer(100));
    assert_eq!(closed(&all), Vec::<Id>::new());
    slots.request_received(u64::try_from(CONNECTIONS).unwrap());
    slots.admit(peer(101));
    assert_eq!(closed(&all), [0]);
}
