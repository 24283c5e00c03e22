//! Who leads next, and how soon.

use std::time::{Duration, Instant};

use serde_json::json;
use sundown::domain::Moment;

use super::{audit::Call, bench::Bench};
use crate::{
    bare::{Bare, Job, Successor},
    cluster::ADMIN,
    process::Process,
    report::{Bar, Baseline, Figure, Measured, median},
    runs,
    stage::block_on,
};

/// Nodes whose hooks are open meanwhile, and the pods on each.
const DRAINED: usize = 10;
const PODS: usize = 2;
const TIMEOUT: Duration = Duration::from_mins(1);
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

pub fn takeover() -> Vec<Figure> {
    block_on(async {
        let bench = Bench::start().await;
        let mut leader = drained(&bench).await;
        let (mut told, mut killed) = (Vec::new(), Vec::new());
        for run in 0..2 * runs() {
            let mut next = standby(&bench, run + 1).await;
            let begun = Instant::now();
            let (signal, times) =
                if run % 2 == 0 { ("TERM", &mut told) } else { ("KILL", &mut killed) };
            leader.signal(signal);
            next.counts("leader", 1.0).await;
            times.push(begun.elapsed().as_secs_f64());
            eprintln!("  SIG{signal}: {:.2} s", times.last().unwrap());
            leader = next;
        }
        let actions = bench.stage.world.aws.actions();
        assert!(
            actions.len() == DRAINED && actions.iter().all(|a| a.end.is_none()),
            "a hook ended before its time: {actions:?}"
        );
        let gap = actions
            .iter()
            .map(|a| a.longest_gap(Moment::from(jiff::Timestamp::now())))
            .max()
            .unwrap();
        vec![
            figure("real-takeover-term", "SIGTERM", told, 0.11),
            figure("real-takeover-kill", "SIGKILL (a lease lasts 15 s)", killed, 17.0),
            Figure {
                name: "real-takeover-gap",
                what: format!(
                    "the longest time without a heartbeat of {DRAINED} hooks with a timeout of 60 \
                     s, in these {} changes of leader",
                    2 * runs()
                ),
                measured: gap.as_secs_f64().into(),
                unit: "s",
                bar: Bar::Most(30.0),
                ratio: Bar::None,
                baseline: None,
            },
        ]
    })
}

fn figure(name: &'static str, what: &str, times: Vec<f64>, bar: f64) -> Figure {
    let what = format!("from {what} to the leader of two replicas to the next one that leads");
    Figure {
        name,
        what,
        measured: Measured::largest(times),
        unit: "s",
        bar: Bar::Most(bar),
        ratio: Bar::None,
        baseline: None,
    }
}

/// Nodes whose hooks stay open, because a budget lets none of their pods go; and the leader that
/// drains them.
async fn drained(bench: &Bench) -> Process {
    let instances = bench.stage.group_kept_alive(DRAINED, TIMEOUT).await;
    bench.pods(&instances, PODS, 0).await;
    let spec = json!({
        "minAvailable": DRAINED * PODS, "selector": { "matchLabels": { "app": "bench" } }
    });
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "bench" },
        "spec": spec
    });
    bench.stage.create(BUDGETS, &budget).await;
    bench
        .stage
        .until("no pod may go", &format!("{BUDGETS}/bench"), |b| {
            b["status"]["currentHealthy"] == DRAINED * PODS
        })
        .await;
    let mut leader = bench.stage.leader("sundown-0", &[]).await;
    for instance in &instances {
        bench.stage.world.aws.terminate(instance, true);
    }
    leader.counts("drains_active", DRAINED as f64).await;
    leader
}

/// A replica that is ready to lead.
async fn standby(bench: &Bench, number: usize) -> Process {
    let next = bench.stage.replica(&format!("sundown-{number}"), &[]).await;
    // It has read the Lease at least once.
    tokio::time::sleep(Duration::from_secs(3)).await;
    next
}

/// As large as the cluster of `real-ready`.
const NODES: usize = 5000;
const NODE_KIB: usize = 16;

pub fn takeover_5000() -> Vec<Figure> {
    block_on(async {
        let bench = Bench::start().await;
        bench.nodes(&bench.instances(NODES - DRAINED), NODE_KIB, false).await;
        let mut leader = drained(&bench).await;
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "bare" }
        });
        bench.stage.create(LEASES, &lease).await;
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for run in 0..runs() {
            let job = Successor {
                kubeconfig: bench.stage.cluster.kubeconfig(ADMIN),
                lease: format!("{LEASES}/bare"),
                nodes: DRAINED,
            };
            bare.push(Bare::start(Job::Successor(job)).await.run().await.seconds);
            let mut next = standby(&bench, run + 1).await;
            next.counts("nodes", NODES as f64).await;
            let (audit, begun) = (bench.audit(), Moment::from(jiff::Timestamp::now()));
            leader.signal("TERM");
            bench
                .until("the next leader evicts", || async {
                    first_eviction(&audit.calls()).is_some()
                })
                .await;
            let eviction = first_eviction(&audit.calls()).unwrap();
            ours.push(eviction.duration_since(begun).as_secs_f64());
            eprintln!("  run {}: {:.3} s, bare {:.3} s", run + 1, ours[run], bare[run]);
            leader.ended().await;
            leader = next;
        }
        vec![Figure {
            name: "real-takeover-5000",
            what: format!(
                "from the leader's SIGTERM to the first eviction by the next one, {NODES} nodes \
                 of {NODE_KIB} KiB, {DRAINED} drains"
            ),
            measured: Measured::largest(ours),
            unit: "s",
            bar: Bar::Most(1.0),
            ratio: Bar::Most(8.0),
            baseline: Some(Baseline {
                what: "a write of the Lease and a LIST of the unschedulable nodes by a bare client",
                value: median(bare),
                floor: Bar::Most(1.0),
            }),
        }]
    })
}

/// When the next leader asked for the first eviction, granted or not. Only a new leader lists
/// unschedulable Nodes, and the old one evicts no more by then.
fn first_eviction(calls: &[Call]) -> Option<Moment> {
    let ours = || calls.iter().filter(|c| c.is_by_sundown());
    let list =
        ours().find(|c| c.is("list", "nodes") && c.uri.contains("spec.unschedulable"))?.received;
    ours()
        .filter(|c| c.is("create", "pods/eviction"))
        .map(|c| c.received)
        .find(|received| *received >= list)
}
