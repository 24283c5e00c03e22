//! Spot notices, many at once, for empty nodes.

use std::collections::BTreeMap;

use sundown::{domain::Moment, sim::aws::SpotAction};

use super::{
    audit::{Call, kinds},
    bench::{Bench, bare_accept, spent, until_last},
};
use crate::{
    bare::PATCHES,
    control_plane::node_name,
    report::{Bar, Baseline, Figure, Measured, median},
    runs,
    stage::block_on,
};

pub fn hundred() -> Vec<Figure> {
    let (ours, bare) = block_on(times(100));
    vec![figure("real-burst-100", 100, ours, bare, Bar::Most(1.25 * bare + 0.5), 2.0, 1.5)]
}

pub fn thousand() -> Vec<Figure> {
    let (ours, bare) = block_on(times(1000));
    vec![figure("real-burst-1000", 1000, ours, bare, Bar::None, 1.4, 8.0)]
}

fn figure(
    name: &'static str,
    nodes: usize,
    ours: Vec<f64>,
    bare: f64,
    bar: Bar,
    ratio: f64,
    floor: f64,
) -> Figure {
    Figure {
        name,
        what: format!("{nodes} spot notices at once, empty nodes: until the last one is cordoned"),
        measured: Measured::median(ours),
        unit: "s",
        bar,
        ratio: Bar::Most(ratio),
        baseline: Some(Baseline {
            what: "the same PATCHes by a bare client, 48 at once",
            value: bare,
            floor: Bar::Most(floor),
        }),
    }
}

/// Our times, and the median of the bare client's.
async fn times(nodes: usize) -> (Vec<f64>, f64) {
    let mut bench = Bench::start().await;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for run in 0..runs() {
        let instances = bench.instances(nodes);
        bench.nodes(&instances, 0, false).await;
        let client = bench.bare(PATCHES, instances.iter().map(|i| bare_accept(i))).await;
        let (cpu, audit, begun) =
            (bench.cpu(None), bench.audit(), Moment::from(jiff::Timestamp::now()));
        client.run().await;
        eprintln!("  run {}, bare: CPU: {}", run + 1, spent(&cpu, &bench.cpu(None)));
        let calls = audit.calls();
        bare.push(until_last(begun, calls.iter().filter(|c| c.did("patch", "nodes"))));
        bench.clear().await;

        let instances = bench.instances(nodes);
        bench.nodes(&instances, 0, false).await;
        // The bare client has the cluster to itself.
        let mut service = bench.stage.leader("sundown", &[]).await;
        service
            .answers("/metrics", "it knows the nodes", |_, text| {
                text.contains(&format!("\nsundown_nodes {nodes}\n"))
            })
            .await;
        let (cpu, audit, begun) =
            (bench.cpu(Some(&service)), bench.audit(), Moment::from(jiff::Timestamp::now()));
        for instance in &instances {
            bench.stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
        }
        bench.until_all_is_deleted().await;
        let cpu = spent(&cpu, &bench.cpu(Some(&service)));
        let calls = audit.calls();
        let accepts = accepts(&calls);
        assert!(
            instances.iter().all(|i| accepts.contains_key(&node_name(i))),
            "every node is cordoned"
        );
        ours.push(until_last(begun, accepts.into_values()));
        let end = begun + jiff::SignedDuration::from_secs_f64(ours[run]);
        let calls = kinds(&calls, end);
        eprintln!(
            "  run {}: {:.2} s, bare {:.2} s; CPU: {cpu}; answered meanwhile: {calls:?}",
            run + 1,
            ours[run],
            bare[run]
        );
        bench.stop(service).await;
        bench.clear().await;
    }
    (ours, median(bare))
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
