//! The conditions `DrainInProgress` and `Drained` of a Node.

use std::time::Duration;

use serde_json::{Value, json};
use sundown::sim::{
    aws::HealthNotice,
    kube::{BudgetSpec, PodShape},
};

use super::Scene;

/// A drain that AWS cancels after its end, so that the Node stays.
const FLAGS: [&str; 4] = ["--scheduled-lead", "5m", "--drain-timeout", "30m"];

/// A condition of the first node.
fn condition(scene: &Scene, kind: &str) -> Option<Value> {
    let node = scene.stage.node(&scene.instances[0]);
    let all = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|condition| condition["type"] == kind)
}

/// Status and reason of a condition of the first node.
fn shown(scene: &Scene, kind: &str) -> Option<(String, String)> {
    let condition = condition(scene, kind)?;
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason")))
}

fn shows(scene: &Scene, kind: &str, status: &str, reason: &str) -> bool {
    shown(scene, kind) == Some((status.to_owned(), reason.to_owned()))
}

/// All conditions of the first node that are not about its drain, without their heartbeats.
fn others(scene: &Scene) -> Vec<Value> {
    let node = scene.stage.node(&scene.instances[0]);
    let all = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let is_other =
        |c: &Value| !["DrainInProgress", "Drained"].iter().any(|kind| c["type"] == **kind);
    let without_heartbeat = |mut condition: Value| {
        condition.as_object_mut().unwrap().remove("lastHeartbeatTime");
        condition
    };
    all.into_iter().filter(is_other).map(without_heartbeat).collect()
}

/// A drain for a retirement in 900 s, whose pod a budget blocks.
async fn blocked(seed: u64, flags: &[&str]) -> (Scene, HealthNotice) {
    let scene = Scene::spot(seed, 2, &[&FLAGS[..], flags].concat()).await;
    scene.pod(0, "web", PodShape::default());
    scene.stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "web").min(1));
    let foreign = json!({
        "type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated",
        "message": "by another writer", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    scene.stage.world.kube.edit("nodes", "", &scene.node(0), |node| {
        node["status"]["conditions"].as_array_mut().unwrap().push(foreign);
    });
    let starts = scene.stage.clock.now() + Duration::from_secs(900);
    let notice = HealthNotice::retirement([scene.instances[0].clone()], starts);
    scene.stage.world.aws.health(&notice);
    let begins = || scene.stage.is_cordoned(&scene.instances[0]);
    scene.stage.until(700, "the drain begins", begins).await;
    (scene, notice)
}

#[tokio::test(start_paused = true)]
async fn a_node_shows_its_drain_and_its_end_and_is_as_before_once_it_stays() {
    let (scene, notice) = blocked(1901, &["--drain-conditions"]).await;
    let before = others(&scene);
    assert!(before.iter().any(|c| c["type"] == "NetworkUnavailable"), "{before:?}");
    let is_blocked = || shows(&scene, "DrainInProgress", "True", "BlockedByBudget");
    scene.stage.until(70, "it shows what blocks its pod", is_blocked).await;
    assert!(shows(&scene, "Drained", "False", "BlockedByBudget"));
    let message = condition(&scene, "DrainInProgress").unwrap()["message"].clone();
    let message = message.as_str().unwrap();
    assert!(message.starts_with("1 pod left, 1 blocked by shop/web since "), "{message}");
    let since = condition(&scene, "DrainInProgress").unwrap()["lastTransitionTime"].clone();

    let kube = &scene.stage.world.kube;
    kube.remove("poddisruptionbudgets", "shop", "web");
    let is_drained = || shows(&scene, "Drained", "True", "DrainCompleted");
    scene.stage.until(150, "it shows the end", is_drained).await;
    assert!(shows(&scene, "DrainInProgress", "False", "DrainCompleted"));
    let ended = condition(&scene, "DrainInProgress").unwrap()["lastTransitionTime"].clone();
    assert_ne!(ended, since);
    assert_eq!(others(&scene), before, "conditions of other writers");

    scene.stage.world.aws.health(&HealthNotice { status: "closed".to_owned(), ..notice });
    let is_back = || !scene.stage.is_cordoned(&scene.instances[0]);
    scene.stage.until(60, "it is restored", is_back).await;
    let is_bare =
        || shown(&scene, "DrainInProgress").is_none() && shown(&scene, "Drained").is_none();
    scene.stage.until(40, "both conditions are removed", is_bare).await;
    assert_eq!(others(&scene), before, "conditions of other writers");
    let writes = scene.requests("patch", "nodes", "status", &scene.node(0));
    assert!((3..=6).contains(&writes.len()), "{} writes", writes.len());
    scene.stage.pass(600).await;
    let later = scene.requests("patch", "nodes", "status", &scene.node(0));
    assert_eq!(later.len(), writes.len(), "nothing is left to write");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_flag_no_status_is_written() {
    let (scene, _) = blocked(1902, &[]).await;
    scene.stage.pass(100).await;
    assert_eq!(shown(&scene, "DrainInProgress"), None);
    assert!(scene.requests("patch", "nodes", "status", "").is_empty());
    scene.end().await;
}
