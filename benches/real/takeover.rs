//! Who leads next, and how soon.

use std::time::{Duration, Instant};

use serde_json::json;
use sundown::domain::Moment;

use super::bench::{Bench, RUNS, median};
use crate::{
    report::{Bar, Figure},
    stage::block_on,
};

/// Nodes whose hooks are open meanwhile, and the pods on each.
const NODES: usize = 10;
const PODS: usize = 2;
const TIMEOUT: Duration = Duration::from_mins(1);
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

pub fn takeover() -> Vec<Figure> {
    block_on(async {
        let bench = Bench::start().await;
        // Hooks stay open as long as a budget lets no pod go.
        let instances = bench.stage.group_beaten(NODES, TIMEOUT).await;
        bench.pods(&instances, PODS, 0).await;
        let spec = json!({ "minAvailable": NODES * PODS, "selector": { "matchLabels": { "app": "bench" } } });
        let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "bench" }, "spec": spec });
        bench.stage.create(BUDGETS, &budget).await;
        bench.stage.until("no pod may go", &format!("{BUDGETS}/bench"), |b| b["status"]["currentHealthy"] == NODES * PODS).await;
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
        let actions = bench.stage.world.aws.actions();
        assert!(actions.len() == NODES && actions.iter().all(|a| a.end.is_none()), "a hook ended before its time: {actions:?}");
        let gap = actions.iter().map(|a| a.longest_gap(Moment::now())).max().unwrap();
        vec![
            figure("real-takeover-term", "SIGTERM", median(told), 1.0),
            figure("real-takeover-kill", "SIGKILL (a lease lasts 15 s)", median(killed), 17.0),
            Figure {
                name: "real-takeover-gap",
                what: format!(
                    "the longest time without a heartbeat of {NODES} hooks with a timeout of 60 s, in these {} changes of leader",
                    2 * RUNS
                ),
                value: gap.as_secs_f64(),
                unit: "s",
                bar: Bar::Most(TIMEOUT.as_secs_f64() - 5.0),
                baseline: None,
            },
        ]
    })
}

fn figure(name: &'static str, what: &str, value: f64, bar: f64) -> Figure {
    let what = format!("from {what} to the leader of two replicas to the next one that leads, median of {RUNS}");
    Figure { name, what, value, unit: "s", bar: Bar::Most(bar), baseline: None }
}
