//! A whole large cluster that is taken away at once.

use std::{collections::VecDeque, time::Duration};

use http::Method;
use serde_json::{Value, json};
use sundown::sim::{
    aws::SpotAction,
    kube::{Options, PodSpec},
};

use crate::{
    bare::{Bare, Job, PATCHES, Plain, Requests, Took},
    burst::accept,
    memory::{idle, status},
    report::{Bar, Baseline, Figure},
    stage::{Stage, block_on, settings},
    system::cpu_seconds,
};

const NODES: usize = 10_000;

pub fn ten_thousand() -> Vec<Figure> {
    block_on(async {
        let baseline = idle().await;
        let bare = bare().await;
        let stage = prepared("scale").await;
        let instances: Vec<String> = stage.world.nodes().into_keys().collect();
        let mut service = stage.service().await;
        service.counts("nodes", NODES as f64).await;
        let (known, before) = (status(&service, "VmRSS"), cpu_seconds(service.id()));
        let begun = stage.clock.now();
        for instance in &instances {
            stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
        }
        stage.until("every message is deleted", || stage.in_queue() == 0).await;
        assert_eq!(stage.records(), NODES, "none is lost");
        stage.until("every drain has ended", || stage.ended() == NODES).await;
        let took = stage.clock.now().duration_since(begun).as_secs_f64();
        let cpu = (cpu_seconds(service.id()) - before) * 1e3 / NODES as f64;
        let evicted = stage
            .world
            .kube
            .counts()
            .get(&("create".to_owned(), "pods/eviction".to_owned()))
            .copied()
            .unwrap_or(0);
        assert!(evicted >= NODES as u64, "every pod was evicted: {evicted}");
        vec![
            Figure {
                name: "scale-10k-cpu",
                what: format!(
                    "{NODES} spot notices at once for {NODES} nodes with a pod each, all drained \
                     after {took:.1} s: CPU a node"
                ),
                measured: cpu.into(),
                unit: "ms",
                bar: Bar::None,
                ratio: Bar::Most(10.0),
                baseline: Some(Baseline {
                    what: "two PATCHes and an eviction a node by a bare client, 48 at once",
                    value: bare.cpu * 1e3 / NODES as f64,
                    floor: Bar::Most(3.0),
                }),
            },
            Figure {
                name: "scale-10k-memory",
                what: format!("peak in that ({known:.1} before the notices)"),
                measured: status(&service, "VmHWM").into(),
                unit: "MB",
                bar: Bar::Most(100.0),
                ratio: Bar::None,
                baseline: Some(baseline),
            },
        ]
    })
}

/// The nodes, each with a pod.
async fn prepared(name: &str) -> Stage {
    let mut world = settings();
    world.kube = Options { history: 65_536, ..world.kube };
    let stage = Stage::new(name, world).await;
    stage.spot_group(NODES);
    for (instance, node) in stage.world.nodes() {
        stage.world.kube.add_pod(&PodSpec::on(&node, "shop", format!("pod-{instance}")));
    }
    stage
}

/// What the service cannot do without: the accept, the eviction and the end, in this order for all
/// nodes.
async fn bare() -> Took {
    let stage = prepared("scale-bare").await;
    let nodes = stage.world.kube.objects("nodes");
    let pods = stage.world.kube.pods();
    let evictions = pods.iter().map(|pod| {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": pod.name }
        });
        Plain::new(
            &Method::POST,
            format!("/api/v1/namespaces/{}/pods/{}/eviction", pod.namespace, pod.name),
            &eviction,
        )
    });
    let ended = json!({ "metadata": { "annotations": { "example.com/ended": "yes" } } });
    let ends = nodes.iter().map(|node| {
        let name = node.pointer("/metadata/name").and_then(Value::as_str).unwrap();
        Plain::new(&Method::PATCH, format!("/api/v1/nodes/{name}"), &ended)
    });
    let all: VecDeque<_> = nodes.iter().map(accept).chain(evictions).chain(ends).collect();
    let job = Job::Requests(Requests { kubeconfig: stage.kubeconfig(), width: PATCHES, all });
    let took = Bare::start(job).await.run().await;
    eprintln!("  bare: {:.1} s, {:.1} s of CPU", took.seconds, took.cpu);
    // The processes of the pods stop.
    tokio::time::sleep(Duration::from_secs(1)).await;
    took
}
