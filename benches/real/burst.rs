//! Spot notices, many at once, for empty nodes.

use std::collections::BTreeMap;

use sundown::{domain::Moment, sim::aws::SpotAction};

use super::{
    audit::{Call, kinds},
    bench::{Bench, RUNS, bare_accept, median, spent, until_last},
};
use crate::{
    control_plane::node_name,
    report::{Bar, Baseline, Figure},
    stage::block_on,
};

pub fn hundred() -> Vec<Figure> {
    let (ours, bare) = block_on(times(100));
    vec![figure("real-burst-100", 100, ours, bare, 1.25 * bare + 0.5, 1.5)]
}

pub fn thousand() -> Vec<Figure> {
    let (ours, bare) = block_on(times(1000));
    vec![figure("real-burst-1000", 1000, ours, bare, 1.15 * bare, 8.0)]
}

fn figure(name: &'static str, nodes: usize, ours: f64, bare: f64, bar: f64, floor: f64) -> Figure {
    Figure {
        name,
        what: format!("{nodes} spot notices at once on a real control plane, empty nodes: the last cordoned after, median of {RUNS}"),
        value: ours,
        unit: "s",
        bar: Bar::Most(bar),
        baseline: Some(Baseline { what: "a bare client: the same PATCHes over 32 connections", value: bare, floor: Bar::Most(floor) }),
    }
}

/// Medians: ours, and the bare client's.
async fn times(nodes: usize) -> (f64, f64) {
    let mut bench = Bench::start().await;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        let instances = bench.instances(nodes);
        bench.nodes(&instances, 0, false).await;
        let (cpu, audit, begun) = (bench.cpu(None), bench.audit(), Moment::now());
        bench.all_as_sundown(instances.iter().map(|i| bare_accept(i))).await;
        eprintln!("  run {}, bare: CPU: {}", run + 1, spent(&cpu, &bench.cpu(None)));
        let calls = audit.calls();
        bare.push(until_last(begun, calls.iter().filter(|c| c.did("patch", "nodes"))));
        bench.clear().await;

        let instances = bench.instances(nodes);
        bench.nodes(&instances, 0, false).await;
        // The bare client has the cluster to itself.
        let mut service = bench.stage.leader("sundown", &[]).await;
        service.answers("/metrics", "it knows the nodes", |_, text| text.contains(&format!("\nsundown_nodes {nodes}\n"))).await;
        let (cpu, audit, begun) = (bench.cpu(Some(&service)), bench.audit(), Moment::now());
        for instance in &instances {
            bench.stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
        }
        bench.until_all_is_deleted().await;
        let cpu = spent(&cpu, &bench.cpu(Some(&service)));
        let calls = audit.calls();
        let accepts = accepts(&calls);
        assert!(instances.iter().all(|i| accepts.contains_key(&node_name(i))), "every node is cordoned");
        ours.push(until_last(begun, accepts.into_values()));
        let end = begun.checked_add(jiff::SignedDuration::from_secs_f64(ours[run])).unwrap();
        let calls = kinds(&calls, end);
        eprintln!("  run {}: {:.2} s, bare {:.2} s; CPU: {cpu}; answered meanwhile: {calls:?}", run + 1, ours[run], bare[run]);
        bench.stop(service).await;
        bench.clear().await;
    }
    (median(ours), median(bare))
}

/// The first PATCH of each Node.
pub fn accepts(calls: &[Call]) -> BTreeMap<String, &Call> {
    let mut first: BTreeMap<String, &Call> = BTreeMap::new();
    for call in calls.iter().filter(|c| c.is_by_sundown() && c.did("patch", "nodes")) {
        let earliest = first.entry(call.name.clone()).or_insert(call);
        if call.answered < earliest.answered {
            *earliest = call;
        }
    }
    first
}
