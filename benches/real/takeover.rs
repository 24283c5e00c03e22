//! Who leads next, and how soon.

use std::time::{Duration, Instant};

use sundown::sim::aws::Verdict;

use super::bench::{Bench, RUNS, median};
use crate::{
    report::{Bar, Figure},
    stage::block_on,
};

/// Nodes whose hooks are open meanwhile, and the pods on each.
const NODES: usize = 10;
const PODS: usize = 2;

pub fn takeover() -> Vec<Figure> {
    block_on(async {
        let bench = Bench::start().await;
        // With hooks whose pods take a minute to stop, so that there is something to beat.
        let instances = bench.stage.group_beaten(NODES, Duration::from_mins(1)).await;
        bench.pods(&instances, PODS, 0).await;
        let mut leader = bench.stage.leader("sundown-0", &[]).await;
        for instance in &instances {
            bench.stage.world.aws.terminate(instance, true);
        }
        leader.counts("drains_active", NODES as f64).await;
        let (mut told, mut killed) = (Vec::new(), Vec::new());
        for run in 0..2 * RUNS {
            let mut next = bench.stage.replica(&format!("sundown-{}", run + 1), &[]).await;
            // It has read the Lease at least once.
            tokio::time::sleep(Duration::from_secs(3)).await;
            let begun = Instant::now();
            let (signal, times) = if run % 2 == 0 { ("TERM", &mut told) } else { ("KILL", &mut killed) };
            leader.signal(signal);
            next.counts("leader", 1.0).await;
            times.push(begun.elapsed().as_secs_f64());
            eprintln!("  SIG{signal}: {:.2} s", times.last().unwrap());
            leader = next;
        }
        bench.until("every hook ends", || async { bench.stage.world.aws.actions().iter().all(|a| a.end.is_some()) }).await;
        let actions = bench.stage.world.aws.actions();
        let missed = actions.iter().filter(|a| !matches!(a.end.as_ref().map(|e| e.verdict), Some(Verdict::Completed(_)))).count();
        vec![
            figure("real-takeover-term", "SIGTERM", median(told), 1.0),
            figure("real-takeover-kill", "SIGKILL (a lease lasts 15 s)", median(killed), 17.0),
            Figure {
                name: "real-takeover-missed",
                what: format!(
                    "hooks of {} that ran out, with a heartbeat timeout of a minute, in these {} changes of leader",
                    actions.len(),
                    2 * RUNS
                ),
                value: missed as f64,
                unit: "hooks",
                bar: Bar::Most(0.0),
                baseline: None,
            },
        ]
    })
}

fn figure(name: &'static str, what: &str, value: f64, bar: f64) -> Figure {
    let what = format!("from {what} to the leader of two replicas to the next one that leads, median of {RUNS}");
    Figure { name, what, value, unit: "s", bar: Bar::Most(bar), baseline: None }
}
