//! Many pods at once.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;
use sundown::{domain::Moment, sim::aws::SpotAction};

use super::{
    audit::{Call, kinds},
    bench::{Bench, request, spent, until_last},
};
use crate::{
    bare::EVICTIONS,
    report::{Bar, Baseline, Figure, Measured, median},
    runs,
    stage::block_on,
    system::memory,
};

const NODES: usize = 100;
const PODS: usize = 30;

fn evict(instance: &str, i: usize) -> http::Request<Vec<u8>> {
    let name = format!("pod-{instance}-{i}");
    let body = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": { "name": name, "namespace": "default" }
    });
    request(Method::POST, &format!("/api/v1/namespaces/default/pods/{name}/eviction"), &body)
}

fn removes(call: &Call) -> bool {
    call.verb == "create" && call.resource == "pods/eviction"
        || call.verb == "delete" && call.resource == "pods"
}

/// A hundred nodes of thirty pods.
pub fn evictions() -> Vec<Figure> {
    let runs: Vec<(f64, f64, usize, usize)> = block_on(async {
        let mut bench = Bench::start().await;
        let mut measured = Vec::new();
        for run in 0..runs() {
            let instances = prepared(&bench).await;
            let client = bench
                .bare(
                    EVICTIONS,
                    instances
                        .iter()
                        .flat_map(|instance| (0..PODS).map(move |i| evict(instance, i))),
                )
                .await;
            let (cpu, audit, begun) =
                (bench.cpu(None), bench.audit(), Moment::from(jiff::Timestamp::now()));
            client.run().await;
            let cpu = spent(&cpu, &bench.cpu(None));
            let calls = audit.calls();
            let bare = until_last(begun, calls.iter().filter(|c| removes(c)));
            eprintln!("  run {}: bare {bare:.2} s; {}; CPU: {cpu}", run + 1, course(begun, &calls));
            bench.clear().await;

            let instances = prepared(&bench).await;
            let service = bench.stage.leader("sundown", &[]).await;
            let (cpu, audit, begun) =
                (bench.cpu(Some(&service)), bench.audit(), Moment::from(jiff::Timestamp::now()));
            for instance in &instances {
                bench.stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
            }
            let evicted = |call: &Call| call.is_by_sundown() && call.did("create", "pods/eviction");
            bench
                .until("every pod is evicted", || async { audit.count(evicted) >= NODES * PODS })
                .await;
            let cpu = spent(&cpu, &bench.cpu(Some(&service)));
            let calls: Vec<_> = audit.calls().into_iter().filter(Call::is_by_sundown).collect();
            let ours = until_last(begun, calls.iter().filter(|c| c.did("create", "pods/eviction")));
            let removing = calls.iter().filter(|c| removes(c)).count();
            let reading = calls
                .iter()
                .filter(|c| c.resource == "pods" && ["get", "list"].contains(&c.verb.as_str()))
                .count();
            eprintln!(
                "  run {}: {ours:.2} s; {}; CPU: {cpu}; {:?}",
                run + 1,
                course(begun, &calls),
                kinds(&calls, Moment::from(jiff::Timestamp::now()))
            );
            measured.push((ours, bare, removing, reading));
            bench.stop(service).await;
            bench.clear().await;
        }
        measured
    });
    let bare = median(runs.iter().map(|r| r.1).collect());
    let calls = |of: fn(&(f64, f64, usize, usize)) -> usize, each: usize| {
        Measured::largest(runs.iter().map(|run| of(run) as f64 / each as f64).collect())
    };
    vec![
        Figure {
            name: "real-evictions",
            what: format!("{NODES} nodes of {PODS} pods at once: until the last pod is evicted"),
            measured: Measured::median(runs.iter().map(|r| r.0).collect()),
            unit: "s",
            bar: Bar::None,
            ratio: Bar::Most(1.15),
            baseline: Some(Baseline {
                what: "the same evictions by a bare client, 32 at once",
                value: bare,
                floor: Bar::Most(18.0),
            }),
        },
        Figure {
            name: "real-evictions-calls",
            what: "evictions and deletes a pod in that".to_owned(),
            measured: calls(|r| r.2, NODES * PODS),
            unit: "calls",
            bar: Bar::Most(1.05),
            ratio: Bar::None,
            baseline: None,
        },
        Figure {
            name: "real-evictions-reads",
            what: "GETs and LISTs of pods a node in that".to_owned(),
            measured: calls(|r| r.3, NODES),
            unit: "calls",
            bar: Bar::Most(2.0),
            ratio: Bar::None,
            baseline: None,
        },
    ]
}

/// When they began, and how long the API server took for each.
fn course(begun: Moment, calls: &[Call]) -> String {
    let evictions: Vec<_> = calls.iter().filter(|c| c.did("create", "pods/eviction")).collect();
    let first =
        evictions.iter().map(|c| c.received).min().unwrap().duration_since(begun).as_secs_f64();
    let each =
        evictions.iter().map(|c| c.answered.duration_since(c.received).as_secs_f64()).sum::<f64>()
            / evictions.len() as f64;
    format!("first after {first:.2} s, {:.1} ms each in the API server", each * 1e3)
}

async fn prepared(bench: &Bench) -> Vec<String> {
    let instances = bench.instances(NODES);
    bench.nodes(&instances, 0, true).await;
    bench.pods(&instances, PODS, 0).await;
    instances
}

/// Memory with a hundred drains at once.
pub fn drains_100() -> Vec<Figure> {
    vec![block_on(peak("real-memory-100", 100, Bar::Most(48.0)))]
}

/// Memory with a thousand drains at once.
pub fn drains_1000() -> Vec<Figure> {
    vec![block_on(peak("real-memory-1000", 1000, Bar::Most(64.0)))]
}

/// A spot drain ends after two minutes.
const LIMIT: Duration = Duration::from_mins(5);
/// Pods of 8 KiB.
const POD_KIB: usize = 8;

async fn peak(name: &'static str, nodes: usize, bar: Bar) -> Figure {
    let bench = Bench::start().await;
    let mut idle = bench.stage.leader("idle", &[]).await;
    let baseline = Baseline {
        what: "the process in an empty cluster",
        value: memory(idle.id(), "VmRSS"),
        floor: Bar::Most(25.0),
    };
    idle.signal("TERM");
    idle.ended().await;
    let instances = bench.instances(nodes);
    bench.nodes(&instances, 0, true).await;
    bench.pods(&instances, PODS, POD_KIB).await;
    let mut service = bench.stage.leader("sundown", &[]).await;
    let audit = bench.audit();
    for instance in &instances {
        bench.stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
    }
    service.counts("drains_active", nodes as f64).await;
    // The API server cannot evict thirty thousand pods in the two minutes; the drains end then, and
    // the peak is over.
    let end = Instant::now() + LIMIT;
    while service.metric("drains_active").await > 0.5 {
        assert!(Instant::now() < end, "drains do not end");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let evicted = audit.count(|c| c.is_by_sundown() && c.did("create", "pods/eviction"));
    assert!(evicted >= nodes * PODS / 4, "hardly any pod was evicted: {evicted}");
    Figure {
        name,
        what: format!(
            "peak with {nodes} drains of {PODS} pods of {POD_KIB} KiB at once, of which {evicted} \
             were evicted in their two minutes"
        ),
        measured: memory(service.id(), "VmHWM").into(),
        unit: "MB",
        bar,
        ratio: Bar::None,
        baseline: Some(baseline),
    }
}
