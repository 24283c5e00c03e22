//! Pods of many nodes: a watch for each of them, or one for the cluster. What ADR 7 rests on.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{AsyncReadExt as _, future::join_all};
use http::Method;
use serde_json::json;

use super::bench::{Bench, get, request};
use crate::{
    control_plane::node_name,
    report::{Bar, Baseline, Figure},
    stage::block_on,
};

/// As many nodes are watched.
const COUNTS: [(&str, usize); 4] = [("real-watches-8", 8), ("real-watches-32", 32), ("real-watches-128", 128), ("real-watches-512", 512)];
/// Pods elsewhere that are written while it is measured, and how long.
const CHURN: usize = 100;
const WINDOW: Duration = Duration::from_secs(10);

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
            let paths = watched[..count].iter().map(|i| format!("/api/v1/pods?watch=true&fieldSelector=spec.nodeName%3D{}", node_name(i)));
            let each = cost(&bench, &elsewhere[0], paths.collect()).await;
            let one = cost(&bench, &elsewhere[0], vec!["/api/v1/pods?watch=true".to_owned()]).await;
            eprintln!("  {count} nodes: a watch each {each:?}; one for all {one:?}");
            figures.push(Figure {
                name,
                what: format!(
                    "CPU of the API server with {count} watches, a node each, over {WINDOW:?} in which {} pods a second change elsewhere; open after {:.2} s, {:.1} kB read, {:.1} MB more memory",
                    one.writes / WINDOW.as_secs(),
                    each.open,
                    each.bytes as f64 / 1e3,
                    each.memory,
                ),
                value: each.cpu,
                unit: "s",
                bar: Bar::None,
                baseline: Some(Baseline { what: "one watch for the cluster", value: one.cpu, floor: Bar::None }),
            });
        }
        figures
    })
}

#[derive(Debug)]
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

async fn cost(bench: &Bench, elsewhere: &str, paths: Vec<String>) -> Cost {
    let server = bench.stage.cluster.process("kube-apiserver");
    let before = super::evictions::status(server, "VmRSS");
    let (bytes, begun) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let open = join_all(paths.iter().map(|path| bench.client().request_stream(get(path)))).await;
    let opened = begun.elapsed().as_secs_f64();
    let readers: Vec<_> = open
        .into_iter()
        .map(|stream| {
            let (mut stream, bytes) = (Box::pin(stream.unwrap()), Arc::clone(&bytes));
            tokio::spawn(async move {
                let mut buffer = vec![0; 65_536];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    bytes.fetch_add(read as u64, Ordering::Relaxed);
                }
            })
        })
        .collect();
    // What a watch begins with is no part of it.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (from, cpu, end) = (bytes.load(Ordering::Relaxed), seconds(server), Instant::now() + WINDOW);
    let mut writes = 0;
    while Instant::now() < end {
        let turn = Instant::now();
        let patch = json!({ "metadata": { "annotations": { "example.com/turn": format!("{writes}") } } });
        let pod = |i: usize| request(Method::PATCH, &format!("/api/v1/namespaces/default/pods/pod-{elsewhere}-{i}"), &patch);
        bench.all((0..CHURN).map(pod)).await;
        writes += CHURN as u64;
        // A hundred a second, so that both are measured at the same work.
        tokio::time::sleep(Duration::from_secs(1).saturating_sub(turn.elapsed())).await;
    }
    let cost = Cost {
        open: opened,
        cpu: seconds(server) - cpu,
        bytes: bytes.load(Ordering::Relaxed) - from,
        memory: super::evictions::status(server, "VmRSS") - before,
        writes,
    };
    for reader in readers {
        reader.abort();
    }
    cost
}

/// CPU seconds of a process so far.
fn seconds(process: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // After the name, which is in brackets: the 12th and 13th are user and system time in hundredths of a second.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11..13].iter().map(|f| f.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}
