//! Records that were deleted or damaged by hand while something is still owed.

use serde_json::Value;
use sundown::sim::{
    aws::{Fault, FaultRule, How, SpotAction},
    kube::{Fault as KubeFault, Match, Rule},
};

use super::{Scene, graceful};

const RECORD: &str = "sundown.dev/record";

fn set_record(scene: &Scene, text: Option<&str>) {
    scene.stage.world.kube.edit("nodes", "", &scene.node(0), |node| match text {
        Some(text) => node["metadata"]["annotations"][RECORD] = text.into(),
        None => {
            drop(node["metadata"]["annotations"].as_object_mut().and_then(|a| a.remove(RECORD)));
        }
    });
}

fn record(scene: &Scene) -> Option<Value> {
    scene.stage.record(&scene.instances[0])
}

/// A drain with a hook whose record somebody took away for good, or made unreadable; then a spot
/// notice comes.
async fn replaced(seed: u64, take_away: impl AsyncFn(&Scene)) {
    let scene = Scene::hooked(seed, 3, &[]).await;
    scene.pod(0, "web-0", graceful(90, 60));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(3).await;
    take_away(&scene).await;
    let restored = scene.records("restored");
    scene.stage.world.aws.spot_interruption(&scene.instances[0], SpotAction::Terminate);
    scene
        .stage
        .until(12, "it is taken on", || scene.sundown.messages("spot", "accepted") == 1.0)
        .await;
    scene.stage.pass(2).await;
    let kinds = record(&scene).unwrap()["interruptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["kind"].clone())
        .collect::<Vec<_>>();
    assert_eq!(kinds, ["terminate-hook", "spot"], "the open action is still open");
    assert_eq!(record(&scene).unwrap()["before"]["unschedulable"], false, "the cordon is ours");
    assert_eq!(scene.records("restored"), restored + 1.0);
    scene.completed(0, 80).await;
    assert!(!scene.is_there("web-0"));
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_deleted_record_owed_is_written_into_the_one_that_replaces_it() {
    replaced(640, delete_for_long).await;
}

/// The request that writes it back is not answered for ten seconds, and has no effect.
async fn delete_for_long(scene: &Scene) {
    scene.stage.world.kube.inject(Rule::next(1, Match::of("patch", "nodes"), KubeFault::Hang));
    set_record(scene, None);
    scene.stage.pass(3).await;
    assert_eq!(record(scene), None);
}

#[tokio::test(start_paused = true)]
async fn what_a_damaged_record_owed_is_written_into_the_one_that_replaces_it() {
    let damage = async |scene: &Scene| {
        set_record(scene, Some("nonsense"));
        scene.stage.pass(5).await;
    };
    replaced(641, damage).await;
}

#[tokio::test(start_paused = true)]
async fn a_record_deleted_by_hand_after_the_drain_is_written_back_until_its_completion_is_accepted()
{
    let scene = Scene::hooked(642, 3, &[]).await;
    scene.pod(0, "web-0", graceful(30, 5));
    scene.stage.pass(5).await;
    let refused = scene.stage.world.aws.fault(FaultRule::new(
        "autoscaling:CompleteLifecycleAction",
        Fault::InternalError,
        How::Always,
    ));
    scene.terminate(0).await;
    let node = scene.node(0);
    scene
        .stage
        .until(30, "it is drained", || {
            scene.sundown.drain(&node).is_some_and(|d| d.drained.is_some())
        })
        .await;
    scene.stage.pass(5).await;
    set_record(&scene, None);
    scene.stage.until(5, "it is written back", || record(&scene).is_some()).await;
    assert_eq!((scene.records("restored"), scene.times_said("RecordRestored")), (1.0, 1));
    let Scene { stage, sundown, instances } = scene;
    sundown.kill();
    stage.world.aws.end_fault(refused);
    let sundown = stage.start("sundown-1", &[]);
    let scene = Scene { stage, sundown, instances };
    scene.completed(0, 60).await;
    scene
        .stage
        .until(10, "its record is history", || {
            record(&scene).is_some_and(|r| r.get("released").is_some())
        })
        .await;
    scene.end().await;
}

/// The record of a spot node is taken away in mid-drain; then a person ends its drain by this
/// annotation.
async fn ended_by_hand(seed: u64, take_away: impl AsyncFn(&Scene), annotation: &str) -> Scene {
    let scene = Scene::spot(seed, 3, &[]).await;
    scene.pod(0, "web-0", graceful(90, 80));
    scene.stage.pass(5).await;
    scene.notice(0).await;
    scene.stage.pass(3).await;
    take_away(&scene).await;
    scene.stage.world.kube.edit("nodes", "", &scene.node(0), |node| {
        node["metadata"]["annotations"][annotation] = "true".into();
    });
    scene.stage.until(12, "it is put back", || !scene.stage.is_cordoned(&scene.instances[0])).await;
    let node = scene.stage.node(&scene.instances[0]);
    assert!(!node.to_string().contains("sundown.dev/interruption"), "{node}");
    assert_eq!(
        node["metadata"]["annotations"].get("sundown.dev/release"),
        None,
        "it was for this drain"
    );
    assert_eq!(scene.records("put_back"), 1.0);
    assert_eq!(scene.sundown.metric("drains_total{end=\"released\"}"), 1.0);
    scene
}

#[tokio::test(start_paused = true)]
async fn a_node_without_its_record_is_put_back_when_somebody_releases_it() {
    ended_by_hand(643, delete_for_long, "sundown.dev/release").await.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_with_a_damaged_record_is_put_back_when_it_is_to_be_left_alone() {
    let damage = async |scene: &Scene| {
        set_record(scene, Some("nonsense"));
        scene.stage.pass(5).await;
    };
    ended_by_hand(644, damage, "sundown.dev/ignore").await.end().await;
}
