//! Pods of many nodes: a watch for each of them, one for the cluster, or a LIST of each every ten
//! seconds. What ADR 7 rests on.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{
    AsyncReadExt, StreamExt,
    future::join_all,
    stream::{self, BoxStream},
};
use http::Method;
use http_body_util::BodyExt;
use serde_json::json;

use super::bench::{Bench, get, request};
use crate::{
    control_plane::node_name,
    report::{Bar, Baseline, Figure},
    stage::block_on,
    system::{cpu_seconds, memory},
};

/// As many nodes are watched.
const COUNTS: [(&str, usize); 4] = [
    ("real-watches-8", 8),
    ("real-watches-32", 32),
    ("real-watches-128", 128),
    ("real-watches-512", 512),
];
/// Pods elsewhere that are written while it is measured, and how long.
const CHURN: usize = 100;
const WINDOW: Duration = Duration::from_secs(10);

/// For the LISTs: nodes, pods on each, and KiB of each pod.
const LISTED: (usize, usize, usize) = (128, 30, 8);

pub fn watches() -> Vec<Figure> {
    block_on(async {
        let bench = Bench::start().await;
        let most = COUNTS.iter().map(|(_, count)| *count).max().unwrap();
        let watched = bench.instances(most);
        bench.nodes(&watched, 0, false).await;
        let elsewhere = bench.instances(1);
        bench.nodes(&elsewhere, 0, true).await;
        bench.pods(&elsewhere, CHURN, 4).await;
        let mut figures = Vec::new();
        for (name, count) in COUNTS {
            let paths = watched[..count].iter().map(|i| {
                format!("/api/v1/pods?watch=true&fieldSelector=spec.nodeName%3D{}", node_name(i))
            });
            let paths: Vec<String> = paths.collect();
            let each = cost(&bench, &elsewhere[0], http1(&bench, &paths)).await;
            let shared = cost(&bench, &elsewhere[0], http2(&bench, &paths)).await;
            let one =
                cost(&bench, &elsewhere[0], http1(&bench, &["/api/v1/pods?watch=true".to_owned()]))
                    .await;
            let [each_text, shared, one_text] = [&each, &shared, &one].map(Cost::text);
            eprintln!(
                "  {count} nodes, a watch each: {each_text}\n  over HTTP/2: {shared}\n  one for \
                 all: {one_text}"
            );
            figures.push(Figure {
                name,
                what: format!(
                    "CPU of the API server with {count} watches of pods, one a node, over \
                     {WINDOW:?} in which {CHURN} pods a second change elsewhere"
                ),
                measured: each.cpu.into(),
                unit: "s",
                bar: Bar::None,
                ratio: Bar::None,
                baseline: Some(Baseline {
                    what: "one watch for the cluster",
                    value: one.cpu,
                    floor: Bar::None,
                }),
            });
        }
        figures
    })
}

/// Nodes with pods: a LIST of each node's pods in every window, or one watch for the cluster.
pub fn lists() -> Vec<Figure> {
    block_on(async {
        let bench = Bench::start().await;
        let (count, pods, kib) = LISTED;
        let (listed, elsewhere) = (bench.instances(count), bench.instances(1));
        bench.nodes(&listed, 0, true).await;
        bench.nodes(&elsewhere, 0, true).await;
        bench.pods(&listed, pods, kib).await;
        bench.pods(&elsewhere, CHURN, 4).await;
        let lists = cost(&bench, &elsewhere[0], async { every_window(&bench, &listed) }).await;
        let watch = ["/api/v1/pods?watch=true".to_owned()];
        let one = cost(&bench, &elsewhere[0], http1(&bench, &watch)).await;
        eprintln!("  {count} nodes, a LIST each: {}\n  one for all: {}", lists.text(), one.text());
        vec![figure_of_lists(&lists, &one)]
    })
}

fn figure_of_lists(lists: &Cost, one: &Cost) -> Figure {
    let (count, pods, kib) = LISTED;
    Figure {
        name: "real-watches-lists",
        what: format!(
            "read from the API server by a LIST of {pods} pods of {kib} KiB on each of {count} \
             nodes in {WINDOW:?}, while {CHURN} pods a second change elsewhere"
        ),
        measured: (lists.bytes as f64 / 1e6).into(),
        unit: "MB",
        bar: Bar::None,
        ratio: Bar::None,
        baseline: Some(Baseline {
            what: "one watch for the cluster",
            value: one.bytes as f64 / 1e6,
            floor: Bar::None,
        }),
    }
}

/// LISTs the pods of each node once in every window, evenly spread.
fn every_window(bench: &Bench, nodes: &[String]) -> Open {
    let step = WINDOW / u32::try_from(nodes.len()).unwrap();
    let lists = nodes.iter().zip(0_u32..).map(|(node, turn)| {
        let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{}", node_name(node));
        stream::unfold(
            (bench.client().clone(), path, step * turn),
            |(client, path, wait)| async move {
                tokio::time::sleep(wait).await;
                let begun = Instant::now();
                let list = client.request_text(get(&path)).await.ok()?;
                let next = WINDOW.saturating_sub(begun.elapsed());
                Some((list.len() as u64, (client, path, next)))
            },
        )
        .boxed()
    });
    lists.collect()
}

struct Cost {
    /// Seconds until all are open.
    open: f64,
    /// Seconds of the API server's CPU in the window.
    cpu: f64,
    /// Read by the watches in the window.
    bytes: u64,
    /// More of the API server, in MB.
    memory: f64,
    /// Writes in the window.
    writes: u64,
}

impl Cost {
    fn text(&self) -> String {
        let Self { open, cpu, bytes, memory, writes } = self;
        format!(
            "open after {open:.2} s, {cpu:.2} s of CPU, {bytes} bytes read, {memory:.1} MB more \
             memory, {writes} writes"
        )
    }
}

/// Opens watches; what each reads is told chunk by chunk.
type Open = Vec<BoxStream<'static, u64>>;

/// As kube does it: HTTP/1.1, a connection each.
async fn http1(bench: &Bench, paths: &[String]) -> Open {
    let open = join_all(paths.iter().map(|path| bench.client().request_stream(get(path)))).await;
    let chunks = |watch| {
        let watch = Box::pin(watch);
        stream::unfold((watch, vec![0; 65_536]), |(mut watch, mut buffer)| async move {
            let read =
                AsyncReadExt::read(&mut watch, &mut buffer).await.ok().filter(|read| *read > 0)?;
            Some((read as u64, (watch, buffer)))
        })
    };
    open.into_iter().map(|watch| chunks(watch.unwrap()).boxed()).collect()
}

/// As many streams as an API server lets a connection have.
const STREAMS: usize = 100;

/// Over HTTP/2: a hundred on a connection.
async fn http2(bench: &Bench, paths: &[String]) -> Open {
    let mut open = Vec::new();
    for some in paths.chunks(STREAMS) {
        let connection = bench.http2().await;
        let answers = join_all(some.iter().map(|path| {
            let mut connection = connection.clone();
            async move { connection.send_request(bench.with_token(get(path))).await.unwrap() }
        }))
        .await;
        open.extend(answers.into_iter().map(|answer| {
            assert_eq!(answer.status(), 200, "a watch over HTTP/2");
            // The connection stays as long as one of them is read.
            answer
                .into_body()
                .into_data_stream()
                .map(|chunk| chunk.map_or(0, |c| c.len() as u64))
                .boxed()
        }));
    }
    open
}

async fn cost(bench: &Bench, elsewhere: &str, open: impl Future<Output = Open>) -> Cost {
    let server = bench.stage.cluster.process("kube-apiserver");
    let before = memory(server, "VmRSS");
    let (bytes, begun) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let open = open.await;
    let opened = begun.elapsed().as_secs_f64();
    let readers: Vec<_> = open
        .into_iter()
        .map(|mut chunks| {
            let bytes = Arc::clone(&bytes);
            tokio::spawn(async move {
                while let Some(read) = chunks.next().await {
                    bytes.fetch_add(read, Ordering::Relaxed);
                }
            })
        })
        .collect();
    // What a watch begins with is no part of it.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (from, cpu, end) =
        (bytes.load(Ordering::Relaxed), cpu_seconds(server), Instant::now() + WINDOW);
    let mut writes = 0;
    while Instant::now() < end {
        let turn = Instant::now();
        let patch =
            json!({ "metadata": { "annotations": { "example.com/turn": format!("{writes}") } } });
        let pod = |i: usize| {
            request(
                Method::PATCH,
                &format!("/api/v1/namespaces/default/pods/pod-{elsewhere}-{i}"),
                &patch,
            )
        };
        bench.all((0..CHURN).map(pod)).await;
        writes += CHURN as u64;
        // A hundred a second, so that both are measured at the same work.
        tokio::time::sleep(Duration::from_secs(1).saturating_sub(turn.elapsed())).await;
    }
    let cost = Cost {
        open: opened,
        cpu: cpu_seconds(server) - cpu,
        bytes: bytes.load(Ordering::Relaxed) - from,
        memory: memory(server, "VmRSS") - before,
        writes,
    };
    for reader in readers {
        reader.abort();
    }
    cost
}
