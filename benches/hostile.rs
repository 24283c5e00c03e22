//! Neighbours that do not behave: a webhook that never answers, and clients that open connections
//! and say nothing. (Messages that are far too large are in `memory`.)

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use sundown::sim::{
    aws::{GroupSpec, SpotAction},
    kube::{Fault, Match, PodSpec, Request, Rule},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
};

use crate::{
    report::{Bar, Baseline, Figure, Measured, median},
    runs,
    stage::{Stage, block_on, settings},
};

/// Spot nodes of which is measured how soon their pods are asked to go, and the pods on each.
const NODES: usize = 20;
const PODS: usize = 10;
/// Pods on each of the nodes whose evictions a webhook does not answer.
const STUCK_PODS: usize = 20;

pub fn webhook() -> Vec<Figure> {
    [("hostile-webhook-200", 200), ("hostile-webhook-500", 500)]
        .map(|(name, stuck)| block_on(beside(name, stuck)))
        .into()
}

async fn beside(name: &'static str, stuck: usize) -> Figure {
    let (mut ours, mut calm) = (Vec::new(), Vec::new());
    for run in 0..runs() {
        let stage = Stage::new(&format!("{name}-{run}"), settings()).await;
        let slow = group(&stage, "stuck", stuck / STUCK_PODS, STUCK_PODS);
        let alone = group(&stage, "calm", NODES, PODS);
        let spot = group(&stage, "web", NODES, PODS);
        let never = Match { namespace: Some("stuck".to_owned()), ..Match::evictions() };
        stage.world.kube.inject(Rule::always(never, Fault::Hang));
        let service = stage.service().await;
        calm.push(asked_within(&stage, "calm", &alone).await);
        for instance in &slow {
            stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
        }
        stage
            .until("evictions wait for the webhook", || {
                evictions(&stage.world.kube.requests(), "stuck").len() >= 2
            })
            .await;
        ours.push(asked_within(&stage, "web", &spot).await);
        eprintln!(
            "  run {}: {:.2} s, with nothing beside them {:.2} s",
            run + 1,
            ours[run],
            calm[run]
        );
        drop(service);
    }
    Figure {
        name,
        what: format!(
            "{} pods of {NODES} spot nodes beside {stuck} pods whose webhook never answers: from \
             the notices until the last pod is asked to go",
            NODES * PODS
        ),
        measured: Measured::largest(ours),
        unit: "s",
        bar: Bar::Most(3.0),
        ratio: Bar::Most(1.5),
        baseline: Some(Baseline {
            what: "as many pods with nothing beside them",
            value: median(calm),
            floor: Bar::Most(1.5),
        }),
    }
}

/// A group of spot nodes with pods in a namespace of the same name.
fn group(stage: &Stage, name: &str, nodes: usize, pods: usize) -> Vec<String> {
    let mut spec = GroupSpec { replace_after: None, ..GroupSpec::new(name, nodes) };
    spec.template.spot = true;
    let instances = stage.world.add_group(spec, &[]);
    for instance in &instances {
        let node = stage.world.node_of(instance).unwrap();
        for i in 0..pods {
            stage.world.kube.add_pod(&PodSpec::on(&node, name, format!("{name}-{instance}-{i}")));
        }
    }
    instances
}

/// Seconds from the notices for these nodes until each pod in the namespace was asked to go.
async fn asked_within(stage: &Stage, namespace: &str, instances: &[String]) -> f64 {
    let begun = stage.clock.now();
    for instance in instances {
        stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
    }
    let all = NODES * PODS;
    stage
        .until("every pod is asked to go", || {
            evictions(&stage.world.kube.requests(), namespace).len() >= all
        })
        .await;
    let (requests, mut asked) = (stage.world.kube.requests(), BTreeSet::new());
    // The request by which the last of the pods was asked for the first time.
    let is_last = |r: &&Request| {
        is_eviction(r, namespace) && asked.insert(r.name.clone()) && asked.len() == all
    };
    requests.iter().find(is_last).unwrap().at.since_or_zero(begun).as_secs_f64()
}

fn is_eviction(request: &Request, namespace: &str) -> bool {
    request.subresource == "eviction" && request.namespace == namespace
}

/// The pods of a namespace that were asked to go.
fn evictions<'a>(requests: &'a [Request], namespace: &str) -> BTreeSet<&'a str> {
    requests.iter().filter(|r| is_eviction(r, namespace)).map(|r| r.name.as_str()).collect()
}

/// Connections to the port of the probes, each from an address of its own, that send nothing. A
/// client whose connection is closed connects again.
const SILENT: usize = 500;
const AGAIN: Duration = Duration::from_secs(1);
/// The number of probes, and the pause between two of them.
const PROBES: usize = 300;
const REST: Duration = Duration::from_millis(20);

pub fn connections() -> Vec<Figure> {
    block_on(async {
        let stage = Stage::new("connections", settings()).await;
        let mut service = stage.service().await;
        let address: SocketAddr = service.address_of("/livez").await.parse().unwrap();
        let calm = probes(address).await;
        let (connected, mut crowd) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
        for number in 0..SILENT {
            crowd.spawn(silent(address, number, Arc::clone(&connected)));
        }
        stage
            .until("all silent clients have connected", || {
                connected.load(Ordering::Relaxed) >= SILENT
            })
            .await;
        let crowded = probes(address).await;
        crowd.shutdown().await;
        vec![Figure {
            name: "hostile-connections",
            what: format!(
                "{PROBES} probes of /livez beside {SILENT} clients that connect to its port and \
                 send nothing: the slowest one"
            ),
            measured: crowded.into(),
            unit: "ms",
            // A kubelet waits for a second.
            bar: Bar::Most(1000.0),
            ratio: Bar::Most(1.4),
            baseline: Some(Baseline {
                what: "the slowest one without them",
                value: calm,
                floor: Bar::Most(100.0),
            }),
        }]
    })
}

/// One client that connects, sends nothing until it is thrown out, and comes again.
async fn silent(address: SocketAddr, number: usize, connected: Arc<AtomicUsize>) {
    // All of 127.0.0.0/8 are addresses of this machine.
    let low = u8::try_from(number % 250).unwrap();
    let own = Ipv4Addr::new(127, 0, u8::try_from(number / 250).unwrap() + 1, low + 1);
    let mut is_first = true;
    loop {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((own, 0).into()).unwrap();
        if let Ok(mut stream) = socket.connect(address).await {
            if std::mem::take(&mut is_first) {
                connected.fetch_add(1, Ordering::Relaxed);
            }
            // Nothing is sent, so it ends when the other side closes it.
            stream.read_u8().await.ok();
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// The longest time that a probe took, in milliseconds. One that gets no answer goes on until it
/// gets one.
async fn probes(address: SocketAddr) -> f64 {
    let mut longest = Duration::ZERO;
    for _ in 0..PROBES {
        let begun = Instant::now();
        while !probe(address).await.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200")) {
            assert!(begun.elapsed() < Duration::from_mins(1), "/livez is not answered");
        }
        longest = longest.max(begun.elapsed());
        tokio::time::sleep(REST).await;
    }
    longest.as_secs_f64() * 1e3
}

async fn probe(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /livez HTTP/1.1\r\nhost: sundown\r\nconnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
