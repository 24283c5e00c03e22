//! What the searches of the leader cost while nothing happens.

use std::{collections::BTreeMap, time::Duration};

use sundown::sim::{aws::GroupSpec, kube::Options};

use crate::{
    report::{Bar, Baseline, Figure},
    stage::{Stage, block_on, settings},
    system::cpu_seconds,
};

const GROUPS: usize = 100;
const NODES: usize = 5_000;
/// The shortest interval that the flag takes.
const INTERVAL: &str = "30s";
/// Each is one interval long.
const ROUNDS: u32 = 6;
/// Everything that the leader can look for.
const SEARCHES: [&str; 8] = [
    "--sweep-interval",
    INTERVAL,
    "--on",
    "impaired=drain",
    "--then",
    "impaired=unhealthy",
    "--scheduled-event-interval",
    "60s",
];
const NO_SEARCH: [&str; 4] = ["--sweep-interval", "0s", "--scheduled-event-interval", "0s"];

pub fn sweep() -> Vec<Figure> {
    block_on(async {
        let mut world = settings();
        world.kube = Options { history: 65_536, ..world.kube };
        let stage = Stage::new("sweep", world).await;
        for group in 0..GROUPS {
            let spec = GroupSpec::new(&format!("group-{group}"), NODES / GROUPS);
            stage.world.add_group(GroupSpec { replace_after: None, ..spec }, &[]);
        }
        let (without, _) = idle(&stage, "quiet", &NO_SEARCH).await;
        let (with, calls) = idle(&stage, "sweeping", &SEARCHES).await;
        let calls: BTreeMap<_, _> =
            calls.into_iter().filter(|(api, _)| !api.starts_with("sqs:")).collect();
        let sum: usize = calls.values().sum();
        eprintln!("  calls in {ROUNDS} rounds: {calls:?}");
        vec![
            Figure {
                name: "sweep-calls",
                what: format!(
                    "calls of AWS a round of the sweep, with every search on: {GROUPS} groups, \
                     {NODES} nodes, --sweep-interval {INTERVAL}"
                ),
                measured: (sum as f64 / f64::from(ROUNDS)).into(),
                unit: "calls",
                bar: Bar::Most(10.0),
                ratio: Bar::None,
                baseline: None,
            },
            Figure {
                name: "sweep-cpu",
                what: "CPU of the leader a round in that, while nothing happens".to_owned(),
                measured: (with * 1e3 / f64::from(ROUNDS)).into(),
                unit: "ms",
                bar: Bar::None,
                ratio: Bar::Most(5.0),
                baseline: Some(Baseline {
                    what: "the same time of a leader that searches for nothing",
                    value: without * 1e3 / f64::from(ROUNDS),
                    floor: Bar::Most(500.0),
                }),
            },
        ]
    })
}

/// The CPU seconds, and the calls of AWS by their names, of a leader with nothing to do.
async fn idle(stage: &Stage, name: &str, flags: &[&str]) -> (f64, BTreeMap<String, usize>) {
    let mut service = stage.replica_with(name, flags);
    service.ready().await;
    service.counts("leader", 1.0).await;
    service.counts("nodes", NODES as f64).await;
    // What a new leader does once.
    tokio::time::sleep(Duration::from_mins(1)).await;
    let (cpu, from) = (cpu_seconds(service.id()), stage.clock.now());
    tokio::time::sleep(Duration::from_secs(30) * ROUNDS).await;
    let took = cpu_seconds(service.id()) - cpu;
    let mut calls = BTreeMap::new();
    for call in stage.called(from) {
        *calls.entry(call).or_default() += 1;
    }
    (took, calls)
}
