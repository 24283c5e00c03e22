//! A large cluster: how soon the service is ready in it, and what it weighs.

use std::time::{Duration, Instant};

use super::bench::Bench;
use crate::{
    bare::{Bare, Job, Pages},
    cluster::SUNDOWN,
    report::{Bar, Baseline, Figure, Measured, median},
    runs,
    stage::block_on,
    system::memory,
};

const NODES: usize = 5000;
const NODE_KIB: usize = 16;
/// As many Nodes as a page of the bare LIST has.
const PAGE: usize = 500;

pub fn nodes() -> Vec<Figure> {
    block_on(async {
        let bench = Bench::start().await;
        let mut idle = bench.stage.leader("idle", &[]).await;
        let weight = memory(idle.id(), "VmRSS");
        idle.signal("TERM");
        idle.ended().await;
        bench.nodes(&bench.instances(NODES), NODE_KIB, false).await;
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        let mut last = None;
        for run in 0..runs() {
            drop(last.take());
            bare.push(list(&bench).await);
            let begun = Instant::now();
            let mut service = bench.stage.replica("sundown", &[]).await;
            ours.push(begun.elapsed().as_secs_f64());
            eprintln!("  run {}: {:.2} s, bare {:.2} s", run + 1, ours[run], bare[run]);
            service.counts("nodes", NODES as f64).await;
            last = Some(service);
        }
        // The promise is about then.
        tokio::time::sleep(Duration::from_mins(1)).await;
        let service = last.unwrap();
        let bare = median(bare);
        let ready = Figure {
            name: "real-ready",
            what: format!(
                "from the start of the process to ready with {NODES} nodes of {NODE_KIB} KiB"
            ),
            measured: Measured::median(ours),
            unit: "s",
            bar: Bar::Most(1.5 * bare + 1.0),
            ratio: Bar::Most(2.0),
            baseline: Some(Baseline {
                what: "a bare LIST of the nodes in pages of 500",
                value: bare,
                floor: Bar::Most(8.0),
            }),
        };
        let weighed = Figure {
            name: "real-memory-nodes",
            what: format!(
                "resident 60 s after sync with {NODES} nodes of {NODE_KIB} KiB (peak {:.1})",
                memory(service.id(), "VmHWM")
            ),
            measured: memory(service.id(), "VmRSS").into(),
            unit: "MB",
            bar: Bar::Most(30.0),
            ratio: Bar::None,
            baseline: Some(Baseline {
                what: "the process in an empty cluster",
                value: weight,
                floor: Bar::Most(25.0),
            }),
        };
        vec![ready, weighed]
    })
}

/// Seconds for all Nodes, page by page, read as JSON.
async fn list(bench: &Bench) -> f64 {
    let job =
        Pages { kubeconfig: bench.stage.cluster.kubeconfig(SUNDOWN), page: PAGE, nodes: NODES };
    Bare::start(Job::Pages(job)).await.run().await.seconds
}
