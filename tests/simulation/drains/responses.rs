//! What `--on` changes: nodes that are only marked, recommendations, and kinds that are ignored.

use serde_json::Value;
use sundown::sim::kube::PodShape;

use super::Scene;

/// The effect of Sundown's taint on the node of this instance.
fn effect(scene: &Scene, n: usize) -> Option<String> {
    let node = scene.stage.node(&scene.instances[n]);
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let ours = taints.iter().find(|taint| taint["key"] == "sundown.dev/interruption")?;
    ours["effect"].as_str().map(str::to_owned)
}

fn outcome(scene: &Scene, n: usize) -> Value {
    scene
        .stage
        .record(&scene.instances[n])
        .map_or(Value::Null, |r| r["released"]["outcome"].clone())
}

fn pod(scene: &Scene, n: usize) {
    scene.pod(n, "web", PodShape::default());
}

#[tokio::test(start_paused = true)]
async fn c49_a_hook_of_a_kind_that_is_only_cordoned_is_completed_and_its_pods_stay() {
    let scene = Scene::hooked(801, 2, &["--on", "terminate-hook=cordon,state-change=cordon"]).await;
    pod(&scene, 0);
    let cordoned = scene.terminate(0).await;
    let completed = scene.completed(0, 20).await;
    let took = completed.duration_since(cordoned).as_secs();
    assert!((3..=8).contains(&took), "after --min-drain-time: {took} s");
    assert!(scene.evictions("web").is_empty() && scene.deletes("web").is_empty());
    assert_eq!(effect(&scene, 0).as_deref(), Some("NoSchedule"));
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn c04_a_node_that_aws_only_recommends_to_leave_is_tainted_and_put_back_after_a_while() {
    let flags = ["--on", "rebalance=prefer", "--rebalance-ttl", "2m"];
    let scene = Scene::spot(802, 2, &flags).await;
    pod(&scene, 0);
    let before = scene.stage.node(&scene.instances[0])["spec"].clone();
    scene.stage.world.aws.rebalance_recommendation(&scene.instances[0]);
    scene.stage.until(5, "the node is tainted", || effect(&scene, 0).is_some()).await;
    assert_eq!(effect(&scene, 0).as_deref(), Some("PreferNoSchedule"));
    assert!(!scene.stage.is_cordoned(&scene.instances[0]));
    assert_eq!(scene.sundown.messages("rebalance", "accepted"), 1.0);
    scene.stage.pass(110).await;
    assert!(effect(&scene, 0).is_some(), "the time is not over");
    scene.stage.until(15, "the taint is gone", || effect(&scene, 0).is_none()).await;
    scene.stage.until(10, "the end is written", || outcome(&scene, 0) == "expired").await;
    assert_eq!(scene.stage.node(&scene.instances[0])["spec"], before, "as it was");
    assert!(scene.evictions("web").is_empty() && scene.deletes("web").is_empty());
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn c04_a_spot_notice_after_a_recommendation_drains_the_node() {
    let scene = Scene::spot(803, 2, &["--on", "rebalance=prefer"]).await;
    pod(&scene, 0);
    scene.stage.world.aws.rebalance_recommendation(&scene.instances[0]);
    scene.stage.until(5, "the node is tainted", || effect(&scene, 0).is_some()).await;
    scene.notice(0).await;
    assert_eq!(effect(&scene, 0).as_deref(), Some("NoSchedule"));
    scene.stage.until(10, "its pod is evicted", || !scene.evictions("web").is_empty()).await;
    assert_eq!(scene.sundown.messages("spot", "joined"), 1.0);
    scene.stage.until(60, "the drain is over", || outcome(&scene, 0) == "empty").await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn c04_a_recommendation_that_drains_evicts_politely_and_the_node_comes_back() {
    let flags = ["--on", "rebalance=drain", "--rebalance-ttl", "3m"];
    let scene = Scene::spot(804, 2, &flags).await;
    pod(&scene, 0);
    scene.stage.world.aws.rebalance_recommendation(&scene.instances[0]);
    scene.cordoned(0).await;
    scene.stage.until(10, "its pod is evicted", || !scene.evictions("web").is_empty()).await;
    scene.stage.pass(120).await;
    assert!(scene.stage.is_cordoned(&scene.instances[0]), "an interruption may still follow");
    let is_back = || !scene.stage.is_cordoned(&scene.instances[0]);
    scene.stage.until(90, "the node is put back", is_back).await;
    assert!(scene.deletes("web").is_empty(), "no pod is forced");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn c49_an_ignored_kind_touches_neither_node_nor_hook() {
    let flags = ["--on", "terminate-hook=ignore,state-change=ignore"];
    let scene = Scene::hooked(805, 2, &flags).await;
    scene.stage.world.aws.terminate(&scene.instances[0], true);
    scene.stage.until(10, "the message is deleted", || scene.stage.in_queue() == 0).await;
    scene.stage.pass(60).await;
    assert_eq!(scene.sundown.messages("terminate-hook", "not_acted_on"), 1.0);
    assert!(!scene.stage.is_cordoned(&scene.instances[0]) && effect(&scene, 0).is_none());
    assert!(scene.stage.actions(&scene.instances[0]).iter().all(|a| a.heartbeats.is_empty()));
    scene.end().await;
}
