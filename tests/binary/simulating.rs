//! A service of one's own against the servers of `sundown simulate --serve --no-service`.

use std::fs;

use serde_json::Value;

use crate::process::{Folder, Process, sundown};

const SCENARIO: &str = "{ name: one node goes, flags: [--drain-timeout=10m], groups: [{ name: \
    general, nodes: 3, hook: { name: sundown, heartbeatTimeout: 5m } }], workloads: [{ kind: \
    Deployment, namespace: shop, name: web, replicas: 6, stop: 1s, ready: 1s, budget: { \
    maxUnavailable: 2 } }], events: [{ at: 1s, scaleIn: { group: general, count: 1 } }], until: 1h \
    }";

/// What follows `before` in a text, up to white space.
fn word(text: &str, before: &str) -> String {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("no {before} in\n{text}")).1;
    rest.split_whitespace().next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_of_ones_own_drains_the_nodes_of_a_simulation_without_a_service() {
    let folder = Folder::new();
    let scenario = folder.path().join("scenario.yaml");
    fs::write(&scenario, SCENARIO).unwrap();
    let mut command = sundown(folder.path());
    command
        .args(["simulate", "--serve", "--no-service", "-o", "json", "--scenario"])
        .arg(&scenario);
    let mut simulation = Process::start("simulation", folder.path(), &mut command);
    simulation.logged("'--drain-timeout=10m'").await;
    // The command that it prints, flag by flag.
    let log = simulation.log();
    let mut command = sundown(folder.path());
    command.arg("run");
    for flag in ["--queue-url", "--cluster-name", "--kubeconfig", "--aws-endpoint-url", "--region"]
    {
        command.args([flag, &word(&log, &format!("{flag} "))]);
    }
    command.args([
        "--drain-timeout=10m",
        "--metrics-listen",
        "127.0.0.1:0",
        "--probe-listen",
        "127.0.0.1:0",
    ]);
    for variable in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"] {
        command.env(variable, word(&log, &format!("{variable}=")));
    }
    assert!(!log.contains("the scenario begins.\n"), "nobody receives yet: {log}");
    let mut service = Process::start("service", folder.path(), &mut command);
    simulation.logged("A service receives from the queue: the scenario begins.").await;
    service.counts("completions_total{result=\"accepted\"}", 1.0).await;
    simulation.logged("The scenario is over: everything has come to rest.").await;
    service.signal("TERM");
    assert_eq!(service.ended().await.code(), Some(0));
    simulation.signal("INT");
    assert_eq!(simulation.ended().await.code(), Some(0));
    let summary: Value = serde_json::from_str(&simulation.printed()).unwrap();
    assert_eq!(summary["atRest"], true, "{summary:#}");
    assert_eq!(summary["hooks"].as_array().unwrap().len(), 1, "{summary:#}");
    assert_eq!(summary["hooks"][0]["ended"], "Completed(Continue)", "{summary:#}");
    assert!(
        summary["calls"]["kubernetes"]["create pods/eviction"].as_u64().unwrap() >= 2,
        "{summary:#}"
    );
}
