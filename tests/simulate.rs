//! `sundown simulate` as a person runs it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests: a panic is how they fail"
)]

use std::process::{Command, Output};

use serde_json::Value;

fn simulate(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sundown"));
    command.arg("simulate").args(arguments).envs(environment.iter().copied());
    command.output().unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = simulate(arguments, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_bytes_in_two_processes_whatever_the_environment() {
    let one = simulate(&["-o", "json", "--seed", "7"], &[]);
    let two = simulate(&["-o", "json", "--seed", "7"], &[("SUNDOWN_NODE_SELECTOR", "no=such"), ("SUNDOWN_DRY_RUN", "true"), ("TZ", "Asia/Tokyo")]);
    assert!(one.status.success() && !one.stdout.is_empty());
    assert_eq!(String::from_utf8_lossy(&one.stdout), String::from_utf8_lossy(&two.stdout));
    let other = simulate(&["-o", "json", "--seed", "8"], &[]);
    assert_ne!(one.stdout, other.stdout);
}

#[test]
fn everything_comes_to_rest_and_every_hook_is_completed_by_us() {
    let summary = json(&["-o", "json"]);
    assert_eq!(summary["atRest"], true);
    let hooks = summary["hooks"].as_array().unwrap();
    assert_eq!(hooks.len(), 6, "one for each instance of the scale-in");
    assert!(hooks.iter().all(|h| h["ended"] == "Completed(Continue)"), "{hooks:#?}");
    let nodes = summary["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 9, "six of the scale-in, three of the reclaim");
    for node in nodes {
        assert_eq!(node["ended"], "empty", "{node:#}");
        assert!(node["drainedAfterMs"].as_u64().unwrap() >= 5_000, "{node:#}");
        assert!(node["evictions"].as_u64().unwrap() > 0, "{node:#}");
        let completed = if node["kind"] == "terminate-hook" { serde_json::json!(["CONTINUE"]) } else { serde_json::json!([]) };
        assert_eq!(node["completedWith"], completed, "{node:#}");
    }
}

#[test]
fn a_budget_that_allows_nothing_holds_a_node_until_the_deadline_and_heartbeats_keep_its_hook_open() {
    let summary = json(&["-o", "json"]);
    let nodes = summary["nodes"].as_array().unwrap();
    let with = |name: &str| nodes.iter().find(|n| n["forced"].as_array().unwrap().iter().any(|p| p.as_str().unwrap().starts_with(name))).unwrap();
    let ledger = with("shop/ledger-");
    assert_eq!(ledger["kind"], "terminate-hook");
    assert!(ledger["heartbeats"].as_u64().unwrap() >= 6, "20 min with a heartbeat timeout of 5 min: {ledger:#}");
    let blocked = &ledger["blocked"][0];
    assert_eq!(blocked["reason"], "pdb");
    assert!(blocked["seconds"].as_u64().unwrap() > 1_100, "{ledger:#}");
    let reports = with("batch/reports-");
    assert_eq!(reports["kind"], "spot");
    assert!(reports["drainedAfterMs"].as_u64().unwrap() < 110_000, "before the machine goes: {reports:#}");
}

#[test]
fn people_see_events_lines_and_a_table_but_no_flood() {
    let output = simulate(&[], &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Auto Scaling terminates 6 instances of `general`"), "{text}");
    assert!(text.contains("pods left") && text.contains("s to go") && text.contains("blocked: "), "{text}");
    assert!(text.contains("heartbeats") && text.contains("Forced by a deadline: shop/ledger-"), "{text}");
    assert!(!text.contains('\u{1b}'), "no control sequences where there is no terminal");
    assert!(text.lines().count() < 100, "{} lines", text.lines().count());
}

#[test]
fn time_can_be_carried_on_at_a_speed_of_ones_own() {
    let file =
        scenario("speed", "{ name: n, groups: [{ name: g, nodes: 2, spot: true }], events: [{ at: 5s, spot: { group: g, count: 1 } }], until: 10m }");
    let begun = std::time::Instant::now();
    let output = simulate(&["--scenario", file.to_str().unwrap(), "--speed", "200", "-o", "json"], &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ideal = summary["seconds"].as_f64().unwrap() / 200.0;
    assert!(begun.elapsed().as_secs_f64() > ideal * 0.8, "not as fast as it can");
}

#[test]
fn a_scenario_that_makes_no_sense_is_refused_with_the_reason() {
    let one = "groups: [{ name: g, nodes: 2 }]";
    let cases = [
        ("yaml", "groups: [", "cannot understand the scenario"),
        ("field", "{ name: n, groups: [], events: [], colour: blue }", "colour"),
        ("duration", "{ name: n, groups: [], events: [], until: soon }", "soon"),
        ("group", &format!("{{ name: n, {one}, events: [{{ at: 1s, spot: {{ group: h, count: 1 }} }}] }}"), "the group `h`"),
        ("workload", &format!("{{ name: n, {one}, events: [{{ at: 1s, spot: {{ group: g, count: 1, running: a/b }} }}] }}"), "the workload `a/b`"),
        ("event", &format!("{{ name: n, {one}, events: [{{ at: 1s }}] }}"), "says nothing that happens"),
        ("flags", &format!("{{ name: n, {one}, events: [], flags: [--no-such-flag] }}"), "--no-such-flag"),
    ];
    for (name, text, why) in cases {
        let file = scenario(name, text);
        let output = simulate(&["--scenario", file.to_str().unwrap()], &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        assert!(said.starts_with("sundown: ") && said.contains(why), "{name}: {said}");
        assert!(output.stdout.is_empty(), "{name}");
    }
    let output = simulate(&["--scenario", "/nowhere/at-all.yaml"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/at-all.yaml"));
}

#[test]
fn flags_that_contradict_each_other_or_are_out_of_range_are_refused() {
    for flags in [&["--real-time", "--speed", "3"][..], &["--speed", "0"], &["--speed", "fast"], &["--seed", "-1"], &["-o", "xml"]] {
        assert_eq!(simulate(flags, &[]).status.code(), Some(2), "{flags:?}");
    }
}

#[test]
fn what_does_not_come_to_rest_in_time_is_no_success() {
    let text = "{ name: n, groups: [{ name: g, nodes: 2, hook: { name: h, heartbeatTimeout: 5m } }], \
                workloads: [{ kind: Deployment, namespace: a, name: one, replicas: 2, budget: { minAvailable: 2 } }], \
                events: [{ at: 1s, scaleIn: { group: g, count: 1 } }], until: 2m }";
    let file = scenario("short", text);
    let output = simulate(&["--scenario", file.to_str().unwrap()], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("Not everything came to rest"));
}

fn scenario(name: &str, text: &str) -> std::path::PathBuf {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("scenario-{name}.yaml"));
    std::fs::write(&path, text).unwrap();
    path
}
