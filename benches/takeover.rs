//! How long nobody evicts when the leader of a large cluster stops.

use std::time::Duration;

use serde_json::json;
use sundown::{
    domain::Moment,
    sim::{
        aws::{GroupSpec, HookResult, HookSpec},
        kube::{BudgetSpec, PodShape, PodSpec, Request},
    },
};

use crate::{
    bare::{Bare, Job, Successor},
    process::Process,
    report::{Bar, Baseline, Figure, Measured, median},
    runs,
    stage::{Stage, block_on, settings},
};

const NODES: usize = 5000;
const NODE_KIB: usize = 16;
/// Nodes that are being drained at the change of leader, and the pods on each of them that one
/// budget keeps there.
const DRAINED: usize = 50;
const PODS: usize = 4;
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/bare";

pub fn takeover() -> Vec<Figure> {
    block_on(async {
        let (stage, mut leader) = drained().await;
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for run in 0..runs() {
            bare.push(successor(&stage).await);
            let mut next = stage.replica(&format!("sundown-{}", run + 1));
            next.ready().await;
            next.counts("nodes", NODES as f64).await;
            // It has read the Lease at least once.
            tokio::time::sleep(Duration::from_secs(3)).await;
            let begun = stage.clock.now();
            leader.signal("TERM");
            stage.world.kube.edit("poddisruptionbudgets", "shop", &app(run), |budget| {
                budget["spec"] = spec(run, 0);
            });
            stage
                .until("the next leader evicts", || first_eviction(&stage.asked(begun)).is_some())
                .await;
            let (listed, evicted) = first_eviction(&stage.asked(begun)).unwrap();
            ours.push(evicted.since_or_zero(begun).as_secs_f64());
            eprintln!(
                "  run {}: listed after {:?}, evicted after {:.3} s, bare {:.3} s",
                run + 1,
                listed.since_or_zero(begun),
                ours[run],
                bare[run]
            );
            leader.ended().await;
            leader = next;
        }
        vec![Figure {
            name: "takeover-5000",
            what: format!(
                "from the leader's SIGTERM to the first eviction by the next one, {NODES} nodes \
                 of {NODE_KIB} KiB, {DRAINED} drains"
            ),
            measured: Measured::largest(ours),
            unit: "s",
            bar: Bar::Most(1.0),
            ratio: Bar::Most(5.4),
            baseline: Some(Baseline {
                what: "a write of the Lease and a LIST of the unschedulable nodes by a bare client",
                value: median(bare),
                floor: Bar::Most(0.5),
            }),
        }]
    })
}

/// A large cluster in which drains wait for budgets: one budget for each change of leader.
async fn drained() -> (Stage, Process) {
    let mut world = settings();
    world.node_kib = NODE_KIB;
    let stage = Stage::new("takeover", world).await;
    stage.spot_group(NODES - DRAINED);
    let hook = HookSpec { default_result: HookResult::Continue, ..HookSpec::terminating("drain") };
    let going = stage
        .world
        .add_group(GroupSpec { replace_after: None, ..GroupSpec::new("asg", DRAINED) }, &[hook]);
    for run in 0..runs() {
        let shape =
            PodShape { labels: [("app".to_owned(), app(run))].into(), ..PodShape::default() };
        for instance in &going {
            let node = stage.world.node_of(instance).unwrap();
            for i in 0..PODS {
                stage.world.kube.add_pod(
                    &PodSpec::on(&node, "shop", format!("{}-{instance}-{i}", app(run)))
                        .shape(shape.clone()),
                );
            }
        }
        stage.world.kube.add_budget(&BudgetSpec::for_app("shop", app(run)).min(DRAINED * PODS));
    }
    stage.world.kube.put(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {
            "name": "bare", "namespace": "default"
        }, "spec": {},
    }));
    let mut leader = stage.replica("sundown-0");
    leader.ready().await;
    leader.counts("leader", 1.0).await;
    leader.counts("nodes", NODES as f64).await;
    for instance in &going {
        stage.world.aws.terminate(instance, true);
    }
    leader.counts("drains_active", DRAINED as f64).await;
    // A pod of each budget was refused.
    leader.counts("evictions_total{answer=\"budget\"}", runs() as f64).await;
    (stage, leader)
}

fn app(run: usize) -> String {
    format!("run-{run}")
}

fn spec(run: usize, min_available: usize) -> serde_json::Value {
    json!({ "minAvailable": min_available, "selector": { "matchLabels": { "app": app(run) } } })
}

async fn successor(stage: &Stage) -> f64 {
    let job = Successor { kubeconfig: stage.kubeconfig(), lease: LEASE.to_owned(), nodes: DRAINED };
    Bare::start(Job::Successor(job)).await.run().await.seconds
}

/// When the next leader asked for the unschedulable Nodes, and when it then asked for the first
/// eviction. Only a new leader lists Nodes then: who stands by has listed them before, and the old
/// one evicts no more.
fn first_eviction(requests: &[Request]) -> Option<(Moment, Moment)> {
    let list = requests.iter().find(|r| r.verb == "list" && r.resource == "nodes")?.at;
    let eviction = requests.iter().find(|r| r.at >= list && r.subresource == "eviction")?.at;
    Some((list, eviction))
}
