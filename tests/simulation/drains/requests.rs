//! Drains that people and other controllers ask for by annotations of the Node.

use std::time::Duration;

use serde_json::Value;
use sundown::{
    domain::Moment,
    sim::{aws::SpotAction, kube::BudgetSpec},
};

use super::{Scene, about, between, graceful, life::annotate};
use crate::harness::Stage;

const UPGRADE: &str = "drain.sundown.dev/upgrade";
const CHECK: &str = "drain.sundown.dev/check";

/// Spot nodes without a hook, and a pod on the first one.
async fn scene(seed: u64, flags: &[&str]) -> Scene {
    let scene = Scene::spot(seed, 2, flags).await;
    scene.pod(0, "web", graceful(30, 1));
    scene.stage.pass(5).await;
    scene
}

/// Never allows a disruption.
fn closed_budget(scene: &Scene) {
    scene.stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "web").min(1));
}

/// So many seconds from now, as a deadline is written.
fn in_seconds(scene: &Scene, seconds: u64) -> (Moment, String) {
    let at = scene.stage.clock.now() + Duration::from_secs(seconds);
    (at, format!("deadline={at:.0}"))
}

fn entries(scene: &Scene, n: usize) -> Vec<Value> {
    let record = scene.stage.record(&scene.instances[n]).unwrap_or_default();
    record["interruptions"].as_array().cloned().unwrap_or_default()
}

fn outcome(scene: &Scene, n: usize) -> Value {
    let record = scene.stage.record(&scene.instances[n]);
    record.map_or(Value::Null, |record| record["released"]["outcome"].clone())
}

fn spec(scene: &Scene, n: usize) -> Value {
    scene.stage.node(&scene.instances[n])["spec"].clone()
}

async fn put_back(scene: &Scene, n: usize, before: &Value) {
    let is_back = || !scene.stage.is_cordoned(&scene.instances[n]);
    scene.stage.until(15, "the node is put back", is_back).await;
    assert_eq!(spec(scene, n), *before, "exactly");
}

#[tokio::test(start_paused = true)]
async fn a_node_is_drained_on_request_and_put_back_when_the_annotation_is_removed() {
    let scene = scene(3301, &[]).await;
    let before = spec(&scene, 0);
    annotate(&scene, 0, UPGRADE, Some("reason=new kernel"));
    scene.cordoned(0).await;
    let taints = spec(&scene, 0)["taints"].clone();
    let ours = taints.as_array().unwrap().iter().find(|t| t["key"] == "sundown.dev/interruption");
    assert_eq!(ours.unwrap()["value"], "request", "{taints}");
    scene.stage.until(60, "the drain is over", || outcome(&scene, 0) == "empty").await;
    assert!(!scene.is_there("web"));
    let said = scene.events("InterruptionAccepted");
    assert!(said[0].contains("request by upgrade (new kernel) for i-"), "{said:?}");
    let entry = entries(&scene, 0).remove(0);
    assert_eq!((&entry["kind"], &entry["reason"]), (&"request".into(), &"new kernel".into()));
    assert_eq!(scene.sundown.metric("drains_total{end=\"empty\"}"), 1.0);
    scene.stage.pass(900).await;
    assert!(scene.stage.is_cordoned(&scene.instances[0]), "it stays so while the request is there");
    annotate(&scene, 0, UPGRADE, None);
    put_back(&scene, 0, &before).await;
    assert_eq!(scene.times_said("RequestWithdrawn"), 1);
    // The same again.
    scene.stage.pass(60).await;
    annotate(&scene, 0, UPGRADE, Some("reason=new kernel"));
    scene.cordoned(0).await;
    annotate(&scene, 0, UPGRADE, None);
    put_back(&scene, 0, &before).await;
    scene.stage.pass(300).await;
    assert!(!scene.stage.is_cordoned(&scene.instances[0]));
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn evictions_go_on_as_the_budget_allows_and_nothing_is_forced_however_long() {
    let scene = scene(3302, &["--drain-timeout", "5m"]).await;
    let before = spec(&scene, 0);
    closed_budget(&scene);
    annotate(&scene, 0, UPGRADE, Some(""));
    scene.cordoned(0).await;
    scene.stage.pass(3 * 3600).await;
    assert!(scene.is_there("web"));
    assert!(scene.deletes("web").is_empty(), "nothing is forced");
    assert_eq!(outcome(&scene, 0), Value::Null, "the drain goes on");
    annotate(&scene, 0, UPGRADE, None);
    put_back(&scene, 0, &before).await;
    let asked = scene.evictions("web").len();
    scene.stage.pass(300).await;
    assert_eq!(scene.evictions("web").len(), asked, "evictions stop");
    assert!(scene.is_there("web"));
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn at_its_deadline_a_request_ends_its_drain_and_leaves_the_pods() {
    let scene = scene(3303, &[]).await;
    let before = spec(&scene, 0);
    closed_budget(&scene);
    let (deadline, value) = in_seconds(&scene, 300);
    annotate(&scene, 0, UPGRADE, Some(&value));
    scene.cordoned(0).await;
    scene.stage.until(400, "the drain is over", || outcome(&scene, 0) == "deadline").await;
    about(between(deadline, scene.stage.clock.now()), 0.0, 3.0);
    assert!(scene.is_there("web") && scene.deletes("web").is_empty());
    let said = scene.events("DrainEnded");
    assert!(said[0].contains("(deadline) with 1 pod left: shop/web"), "{said:?}");
    scene.stage.pass(300).await;
    assert!(scene.stage.is_cordoned(&scene.instances[0]));
    assert_eq!(scene.times_said("RequestRefused"), 0, "it was accepted in time");
    // A later deadline begins the drain anew.
    let (_, later) = in_seconds(&scene, 120);
    annotate(&scene, 0, UPGRADE, Some(&later));
    let is_open = || outcome(&scene, 0) == Value::Null;
    scene.stage.until(10, "the drain begins anew", is_open).await;
    scene.stage.until(130, "it is over", || outcome(&scene, 0) == "deadline").await;
    annotate(&scene, 0, UPGRADE, None);
    put_back(&scene, 0, &before).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn with_the_flag_a_request_forces_at_its_deadline() {
    let scene = scene(3304, &["--requests-may-force"]).await;
    closed_budget(&scene);
    let (deadline, value) = in_seconds(&scene, 300);
    annotate(&scene, 0, UPGRADE, Some(&value));
    scene.cordoned(0).await;
    scene.stage.until(310, "the pod is deleted", || !scene.deletes("web").is_empty()).await;
    let (deleted, grace, _) = *scene.removals("web").last().unwrap();
    assert!(deleted < deadline && grace == 30, "it has its own grace: {grace}");
    scene.stage.until(60, "the drain is over", || outcome(&scene, 0) == "empty").await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_last_of_two_requesters_decides_when_the_node_is_put_back() {
    let scene = scene(3305, &[]).await;
    let before = spec(&scene, 0);
    closed_budget(&scene);
    annotate(&scene, 0, UPGRADE, Some("reason=kernel"));
    scene.cordoned(0).await;
    annotate(&scene, 0, CHECK, Some("stage=cordon;reason=odd disk"));
    scene.stage.until(15, "both are in the record", || entries(&scene, 0).len() == 2).await;
    annotate(&scene, 0, UPGRADE, None);
    scene.stage.pass(5).await;
    let asked = scene.evictions("web").len();
    scene.stage.pass(300).await;
    assert!(scene.stage.is_cordoned(&scene.instances[0]), "the other one asks");
    assert_eq!(scene.evictions("web").len(), asked, "only for a cordon");
    annotate(&scene, 0, CHECK, None);
    put_back(&scene, 0, &before).await;
    assert_eq!(scene.times_said("RequestWithdrawn"), 2);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_request_replaces_the_one_before() {
    let scene = scene(3306, &[]).await;
    annotate(&scene, 0, UPGRADE, Some("stage=cordon"));
    scene.cordoned(0).await;
    scene.stage.pass(60).await;
    assert!(scene.evictions("web").is_empty(), "its pods stay");
    annotate(&scene, 0, UPGRADE, Some("stage=drain;reason=now"));
    scene.stage.until(60, "the drain is over", || outcome(&scene, 0) == "empty").await;
    assert!(!scene.is_there("web"));
    assert_eq!(entries(&scene, 0).len(), 1);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_joins_a_request_keeps_its_own_deadline_and_is_completed() {
    let scene = Scene::hooked(3307, 2, &["--drain-timeout", "20m"]).await;
    scene.pod(0, "web", graceful(30, 1));
    scene.stage.pass(5).await;
    closed_budget(&scene);
    // This deadline is earlier, and forces nothing.
    let (_, value) = in_seconds(&scene, 300);
    annotate(&scene, 0, UPGRADE, Some(&value));
    scene.cordoned(0).await;
    scene.stage.pass(60).await;
    scene.stage.world.aws.terminate(&scene.instances[0], true);
    scene.stage.until(15, "both are in the record", || entries(&scene, 0).len() == 2).await;
    let accepted = scene.stage.clock.now();
    scene.stage.pass(400).await;
    assert!(scene.is_there("web"), "the deadline of the request ends nothing");
    assert!(scene.stage.actions(&scene.instances[0])[0].end.is_none());
    let completed = scene.completed(0, 1200).await;
    assert!(!scene.deletes("web").is_empty(), "the deadline of the hook forces");
    assert!(between(accepted, completed) > 590.0);
    annotate(&scene, 0, UPGRADE, None);
    scene.stage.pass(60).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_spot_notice_on_a_requested_node_forces_at_its_own_deadline() {
    for (seed, is_over) in [(3308, false), (3309, true)] {
        let scene = scene(seed, &[]).await;
        closed_budget(&scene);
        let (_, value) = in_seconds(&scene, if is_over { 60 } else { 7200 });
        annotate(&scene, 0, UPGRADE, Some(&value));
        scene.cordoned(0).await;
        scene.stage.pass(90).await;
        assert_eq!(outcome(&scene, 0) == "deadline", is_over);
        scene.stage.world.aws.spot_interruption(&scene.instances[0], SpotAction::Terminate);
        let noticed = scene.stage.clock.now();
        scene.stage.until(10, "both are in the record", || entries(&scene, 0).len() == 2).await;
        annotate(&scene, 0, UPGRADE, None);
        scene.stage.until(115, "the pod is deleted", || !scene.deletes("web").is_empty()).await;
        assert!(between(noticed, scene.stage.clock.now()) < 100.0);
        assert!(scene.stage.is_cordoned(&scene.instances[0]), "the machine goes");
        scene.stage.pass(60).await;
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_obeyed_gets_an_event_once() {
    let scene = scene(3310, &[]).await;
    annotate(&scene, 0, UPGRADE, Some("stage=drian"));
    annotate(&scene, 0, CHECK, Some("deadline=2020-01-01T00:00:00Z"));
    scene.stage.pass(60).await;
    assert!(!scene.stage.is_cordoned(&scene.instances[0]));
    assert!(entries(&scene, 0).is_empty());
    let said = scene.events("RequestRefused");
    assert_eq!(said.len(), 2, "{said:?}");
    for part in ["drain.sundown.dev/upgrade", "there is no stage `drian`", "has passed"] {
        assert!(said.iter().any(|text| text.contains(part)), "{part}: {said:?}");
    }
    assert_eq!(scene.records("request_refused"), 2.0);
    // Corrected.
    annotate(&scene, 0, UPGRADE, Some("stage=drain"));
    scene.stage.until(60, "the drain is over", || outcome(&scene, 0) == "empty").await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_notices_that_a_request_was_removed_while_nobody_led() {
    for (seed, is_over) in [(3311, false), (3312, true)] {
        let scene = scene(seed, &[]).await;
        let before = spec(&scene, 0);
        if !is_over {
            closed_budget(&scene);
        }
        annotate(&scene, 0, UPGRADE, Some("reason=kernel"));
        scene.cordoned(0).await;
        scene.stage.pass(60).await;
        assert_eq!(outcome(&scene, 0) == "empty", is_over);
        let Scene { stage, sundown, instances } = scene;
        sundown.kill();
        stage.pass(5).await;
        stage.world.kube.edit("nodes", "", &stage.world.node_of(&instances[0]).unwrap(), |node| {
            let annotations = node["metadata"]["annotations"].as_object_mut();
            annotations.and_then(|all| all.remove(UPGRADE));
        });
        stage.pass(20).await;
        let next = stage.start("sundown-1", &[]);
        stage.until(60, "the other leads", || next.metrics.leads()).await;
        let scene = Scene { stage, sundown: next, instances };
        put_back(&scene, 0, &before).await;
        assert_eq!(scene.is_there("web"), !is_over);
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_comes_while_nobody_leads_is_accepted_by_the_next_leader() {
    let Scene { stage, sundown, instances } = scene(3320, &[]).await;
    sundown.stop().await;
    stage.world.kube.edit("nodes", "", &stage.world.node_of(&instances[0]).unwrap(), |node| {
        node["metadata"]["annotations"][UPGRADE] = "reason=kernel".into();
    });
    stage.pass(20).await;
    let next = stage.start("sundown-1", &[]);
    stage.until(60, "the other leads", || next.metrics.leads()).await;
    let scene = Scene { stage, sundown: next, instances };
    scene.cordoned(0).await;
    scene.stage.until(60, "the drain is over", || outcome(&scene, 0) == "empty").await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_ends_the_drain_of_a_request_whose_deadline_has_passed() {
    let scene = scene(3313, &[]).await;
    closed_budget(&scene);
    let (_, value) = in_seconds(&scene, 60);
    annotate(&scene, 0, UPGRADE, Some(&value));
    scene.cordoned(0).await;
    let Scene { stage, sundown, instances } = scene;
    sundown.kill();
    stage.pass(120).await;
    let next = stage.start("sundown-1", &[]);
    stage.until(60, "the other leads", || next.metrics.leads()).await;
    let scene = Scene { stage, sundown: next, instances };
    scene.stage.until(30, "the drain is over", || outcome(&scene, 0) == "deadline").await;
    assert!(scene.is_there("web") && scene.deletes("web").is_empty());
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_released_node_is_not_drained_again_until_its_request_changes() {
    let scene = scene(3314, &[]).await;
    let before = spec(&scene, 0);
    closed_budget(&scene);
    annotate(&scene, 0, UPGRADE, Some("reason=kernel"));
    scene.cordoned(0).await;
    annotate(&scene, 0, "sundown.dev/release", Some("true"));
    put_back(&scene, 0, &before).await;
    scene.stage.pass(300).await;
    assert!(!scene.stage.is_cordoned(&scene.instances[0]), "the request is still there");
    annotate(&scene, 0, UPGRADE, Some("reason=kernel, now"));
    scene.cordoned(0).await;
    annotate(&scene, 0, UPGRADE, None);
    put_back(&scene, 0, &before).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_person_forces_the_drain_of_a_request() {
    let scene = scene(3315, &[]).await;
    closed_budget(&scene);
    annotate(&scene, 0, UPGRADE, Some(""));
    scene.cordoned(0).await;
    scene.stage.pass(60).await;
    annotate(&scene, 0, "sundown.dev/force", Some("true"));
    scene.stage.until(10, "the pod is deleted", || !scene.deletes("web").is_empty()).await;
    scene.stage.until(60, "the drain is over", || outcome(&scene, 0) == "empty").await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn requested_nodes_are_drained_one_after_the_other_however_long_that_takes() {
    let scene = Scene::spot(3316, 3, &["--max-voluntary", "1"]).await;
    for n in 0..3 {
        scene.pod(n, &format!("web-{n}"), graceful(3600, 2400));
    }
    scene.stage.pass(5).await;
    for n in 0..3 {
        annotate(&scene, n, UPGRADE, Some("reason=kernel"));
        scene.cordoned(n).await;
    }
    let asked = |n: usize| !scene.removals(&format!("web-{n}")).is_empty();
    scene.stage.pass(2300).await;
    assert_eq!((0..3).filter(|n| asked(*n)).count(), 1, "half an hour is over, and two wait");
    let all_over = || (0..3).all(|n| outcome(&scene, n) == "empty");
    scene.stage.until(3 * 2500, "all are drained", all_over).await;
    // Two nodes wait for 40 and for 80 minutes, and each of them is reported every 9 minutes.
    let said = scene.times_said("DrainHeldBack");
    assert!((12..=16).contains(&said), "{said}");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_reboot_leaves_a_requested_node_cordoned_until_the_request_is_removed() {
    let scene = scene(3317, &[]).await;
    let before = spec(&scene, 0);
    annotate(&scene, 0, UPGRADE, Some("reason=kernel"));
    scene.stage.until(60, "the drain is over", || outcome(&scene, 0) == "empty").await;
    scene.stage.world.kube.edit("nodes", "", &scene.node(0), |node| {
        node["status"]["nodeInfo"]["bootID"] = "another".into();
    });
    let is_open = || outcome(&scene, 0) == Value::Null && !entries(&scene, 0).is_empty();
    scene.stage.until(15, "it is accepted again", is_open).await;
    scene.stage.until(60, "the drain is over", || outcome(&scene, 0) == "empty").await;
    assert!(scene.stage.is_cordoned(&scene.instances[0]));
    annotate(&scene, 0, UPGRADE, None);
    put_back(&scene, 0, &before).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_and_an_ignored_node_leave_the_node_alone() {
    let stage = Stage::new(3318);
    let instance = stage.spot_group(1).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    let dry = stage.start("sundown-0", &["--dry-run"]);
    stage.pass(30).await;
    stage.world.kube.edit("nodes", "", &node, |node| {
        node["metadata"]["annotations"][UPGRADE] = "reason=kernel".into();
    });
    stage.pass(60).await;
    stage.assert_untouched(&node);
    dry.stop().await;
    stage.end();
    let scene = scene(3319, &[]).await;
    annotate(&scene, 0, "sundown.dev/ignore", Some("true"));
    annotate(&scene, 0, UPGRADE, Some(""));
    scene.stage.pass(60).await;
    scene.stage.assert_untouched(&scene.node(0));
    assert_eq!(scene.times_said("RequestRefused"), 1);
    scene.end().await;
}
