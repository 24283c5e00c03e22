//! Gates that hold a drain or its release, and a person's order to force a drain.

use sundown::{domain::Moment, sim::kube::BudgetSpec};

use super::{Scene, about, between, graceful, life::annotate};
use crate::harness::Stage;

const DRAIN: &str = "pre-drain.sundown.dev/backup";
const RELEASE: &str = "pre-release.sundown.dev/logs";
const FORCE: &str = "sundown.dev/force";

/// A node with a hook and a pod that leaves within a second.
async fn scene(seed: u64, flags: &[&str]) -> Scene {
    let scene = Scene::hooked(seed, 2, flags).await;
    scene.pod(0, "web", graceful(30, 1));
    scene.stage.pass(5).await;
    scene
}

async fn evicted(scene: &Scene, limit: u64) -> Moment {
    scene.stage.until(limit, "the pod is evicted", || !scene.evictions("web").is_empty()).await;
    scene.removals("web")[0].0
}

#[tokio::test(start_paused = true)]
async fn a_gate_holds_the_evictions_until_it_is_removed_while_heartbeats_go_on() {
    let scene = scene(971, &["--drain-timeout", "1h"]).await;
    annotate(&scene, 0, DRAIN, Some("snapshot 7"));
    let cordoned = scene.terminate(0).await;
    scene.stage.pass(900).await;
    assert_eq!(scene.removals("web"), []);
    assert!(scene.stage.actions(&scene.instances[0])[0].heartbeats.len() >= 5);
    let said = scene.events("GatesHold");
    let [said] = said.as_slice() else { panic!("once: {said:?}") };
    for part in ["pre-drain.sundown.dev/backup (snapshot 7)", "until 20", "remove the annotation"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    annotate(&scene, 0, DRAIN, None);
    let removed = scene.stage.clock.now();
    about(between(removed, evicted(&scene, 10).await), 0.0, 2.0);
    assert!(between(cordoned, removed) > 890.0);
    scene.completed(0, 60).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_stays_holds_the_evictions_for_half_of_the_time() {
    let scene = scene(972, &["--drain-timeout", "20m"]).await;
    annotate(&scene, 0, DRAIN, Some(""));
    let cordoned = scene.terminate(0).await;
    about(between(cordoned, evicted(&scene, 700).await), 599.0, 3.0);
    scene.stage.pass(3).await;
    let said = scene.events("GatesIgnored");
    assert!(said.iter().any(|text| text.contains("half of the drain")), "{said:?}");
    scene.completed(0, 60).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_does_not_hold_a_drain_with_five_minutes_or_a_spot_notice() {
    let short = scene(973, &["--drain-timeout", "5m"]).await;
    annotate(&short, 0, DRAIN, Some("snapshot"));
    let cordoned = short.terminate(0).await;
    assert!(between(cordoned, evicted(&short, 10).await) < 5.0);
    short.completed(0, 60).await;
    short.end().await;

    let spot = Scene::spot(974, 2, &[]).await;
    spot.pod(0, "web", graceful(30, 1));
    spot.stage.pass(5).await;
    annotate(&spot, 0, DRAIN, Some("snapshot"));
    let cordoned = spot.notice(0).await;
    assert!(between(cordoned, evicted(&spot, 10).await) < 5.0);
    spot.stage.pass(5).await;
    assert_eq!(spot.times_said("GatesIgnored"), 1, "once");
    assert_eq!(spot.events("GatesHold"), Vec::<String>::new());
    spot.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_survives_a_change_of_leader_and_holds_no_longer_than_before() {
    let flags = ["--drain-timeout", "20m"];
    let scene = scene(975, &flags).await;
    annotate(&scene, 0, DRAIN, Some("snapshot"));
    let cordoned = scene.terminate(0).await;
    scene.stage.pass(120).await;
    let Scene { stage, sundown, instances } = scene;
    sundown.kill();
    let second = stage.start("sundown-1", &flags);
    stage.until(60, "the other leads", || second.metrics.leads()).await;
    let scene = Scene { stage, sundown: second, instances };
    about(between(cordoned, evicted(&scene, 700).await), 599.0, 5.0);
    scene.completed(0, 60).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_of_the_release_holds_the_completion_until_it_is_removed() {
    let scene = scene(976, &["--drain-timeout", "1h"]).await;
    annotate(&scene, 0, RELEASE, Some("logs are copied"));
    scene.terminate(0).await;
    evicted(&scene, 10).await;
    scene.stage.pass(900).await;
    let action = scene.stage.actions(&scene.instances[0]).remove(0);
    assert!(action.end.is_none() && action.heartbeats.len() >= 5, "{action:?}");
    let said = scene.events("GatesHold");
    assert!(
        said.len() == 1 && said[0].contains(RELEASE) && said[0].contains("is empty"),
        "{said:?}"
    );
    annotate(&scene, 0, RELEASE, None);
    let removed = scene.stage.clock.now();
    about(between(removed, scene.completed(0, 10).await), 0.0, 2.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_of_the_release_that_stays_holds_the_completion_until_the_deadline() {
    let flags = ["--drain-timeout", "20m"];
    let scene = scene(977, &flags).await;
    annotate(&scene, 0, RELEASE, Some("logs are copied"));
    let cordoned = scene.terminate(0).await;
    evicted(&scene, 10).await;
    scene.stage.pass(300).await;
    // The next leader finds the node empty and the gate in its place.
    let Scene { stage, sundown, instances } = scene;
    sundown.kill();
    let second = stage.start("sundown-1", &flags);
    stage.until(60, "the other leads", || second.metrics.leads()).await;
    let scene = Scene { stage, sundown: second, instances };
    about(between(cordoned, scene.completed(0, 1200).await), 1198.0, 3.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_order_to_force_deletes_what_a_budget_holds_and_ends_gates() {
    let scene = scene(978, &["--drain-timeout", "1h"]).await;
    scene.stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "web").min(1));
    annotate(&scene, 0, DRAIN, Some("snapshot"));
    annotate(&scene, 0, RELEASE, Some("logs"));
    scene.terminate(0).await;
    scene.stage.pass(60).await;
    assert_eq!(scene.requests("create", "pods", "eviction", "web").len(), 0);
    annotate(&scene, 0, FORCE, Some("true"));
    let ordered = scene.stage.clock.now();
    scene.stage.until(10, "the pod is deleted", || !scene.deletes("web").is_empty()).await;
    assert!(!scene.evictions("web").is_empty(), "it is evicted first");
    let (at, grace, forced) = scene.removals("web")[0];
    assert!(forced && grace == 30, "with its own grace period: {grace}");
    about(between(ordered, at), 0.0, 3.0);
    about(between(ordered, scene.completed(0, 60).await), 2.0, 3.0);
    scene.stage.until(10, "the end is written", || scene.records("released") == 1.0).await;
    let node = scene.stage.node(&scene.instances[0]);
    assert!(node["metadata"]["annotations"].get(FORCE).is_none(), "it was for this drain: {node}");
    let said = scene.events("DrainForced");
    assert!(said.len() == 1 && said[0].contains("A person forces this drain"), "{said:?}");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_order_to_force_that_is_older_than_the_drain_or_cannot_be_read_forces_nothing() {
    let scene = scene(979, &["--drain-timeout", "1h"]).await;
    scene.stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "web").min(1));
    annotate(&scene, 0, FORCE, Some("true"));
    scene.terminate(0).await;
    let value = |scene: &Scene| {
        scene.stage.node(&scene.instances[0])["metadata"]["annotations"].get(FORCE).cloned()
    };
    assert_eq!(value(&scene), None, "the accept removes it");
    scene.stage.pass(30).await;
    annotate(&scene, 0, FORCE, Some("now"));
    scene.stage.pass(30).await;
    assert_eq!(scene.deletes("web").len(), 0);
    let said = scene.events("SettingsIgnored");
    assert!(said.len() == 1 && said[0].contains("sundown.dev/force is `now`"), "{said:?}");
    annotate(&scene, 0, FORCE, Some("true"));
    scene.completed(0, 60).await;
    scene.end().await;
}

/// What the gates are worth to people: a Node that is not drained may carry them for months.
#[tokio::test(start_paused = true)]
async fn gates_and_orders_on_a_node_without_a_drain_do_nothing() {
    let stage = Stage::new(980);
    let instances = stage.group(2, 300);
    let scene = Scene::led(stage, instances, &[]).await;
    scene.pod(0, "web", graceful(30, 1));
    for key in [DRAIN, RELEASE, FORCE] {
        annotate(&scene, 0, key, Some("true"));
    }
    scene.stage.pass(600).await;
    assert_eq!((scene.removals("web"), scene.patches(0).len()), (Vec::new(), 0));
    assert_eq!(scene.events("GatesHold"), Vec::<String>::new());
    scene.end().await;
}
