//! Settings of one drain that its hook or its Node gives.

use std::time::Duration;

use sundown::{
    domain::Moment,
    sim::{
        aws::{GroupSpec, HookResult, HookSpec},
        kube::BudgetSpec,
    },
};

use super::{Scene, about, between, graceful};
use crate::harness::Stage;

/// A group of one node whose hook has this NotificationMetadata.
fn group(stage: &Stage, metadata: &str) -> Vec<String> {
    let hook = HookSpec {
        heartbeat_timeout: Duration::from_mins(5),
        default_result: HookResult::Continue,
        metadata: Some(metadata.to_owned()),
        ..HookSpec::terminating("drain")
    };
    let group = GroupSpec { replace_after: None, ..GroupSpec::new("asg", 1) };
    stage.world.add_group(group, &[hook])
}

/// A pod on the only node, which a budget holds until it is forced.
fn blocked(scene: &Scene) {
    scene.pod(0, "web-0", graceful(30, 1000));
    scene.stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "web").min(1));
}

async fn scene(seed: u64, metadata: &str, flags: &[&str]) -> Scene {
    let stage = Stage::new(seed);
    let instances = group(&stage, metadata);
    let scene = Scene::led(stage, instances, flags).await;
    blocked(&scene);
    scene.stage.pass(5).await;
    scene
}

fn annotate(scene: &Scene, key: &str, value: &str) {
    scene.stage.world.kube.edit("nodes", "", &scene.node(0), |node| {
        node["metadata"]["annotations"][format!("sundown.dev/{key}")] = value.into();
    });
}

/// How many seconds after its accept the drain is completed: the pod is forced so that it is gone
/// `--deadline-margin` (5 s) before the deadline.
async fn takes(scene: &Scene, accepted: Moment, limit: u64) -> f64 {
    between(accepted, scene.completed(0, limit).await)
}

#[tokio::test(start_paused = true)]
async fn a_hook_with_a_drain_timeout_in_its_metadata_drains_with_that_timeout() {
    let metadata = r#"{"owner":"team-a","sundown":{"drain-timeout":"10m","force-after":"0.9"}}"#;
    let scene = scene(901, metadata, &["--drain-timeout", "5m", "--max-drain-timeout", "1h"]).await;
    let accepted = scene.terminate(0).await;
    let record = scene.stage.record(&scene.instances[0]).unwrap();
    assert_eq!(record["interruptions"][0]["settings"]["drain-timeout"], "10m");
    scene.stage.pass(5).await;
    let said = scene.events("InterruptionAccepted");
    let expected = "drain-timeout 10m from the hook's NotificationMetadata, force-after 0.9";
    assert!(said.iter().any(|text| text.contains(expected)), "{said:?}");
    about(takes(&scene, accepted, 700).await, 595.0, 3.0);
    let (at, _, forced) = scene.removals("web-0")[0];
    assert!(forced);
    about(between(accepted, at), 565.0, 3.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_keeps_the_settings_of_the_hook_although_the_message_is_gone() {
    let stage = Stage::new(902);
    let instances = group(&stage, r#"{"sundown":{"drain-timeout":"20m"}}"#);
    let scene = Scene::led(stage, instances, &[]).await;
    blocked(&scene);
    scene.stage.pass(5).await;
    let accepted = scene.terminate(0).await;
    scene.stage.until(10, "the message is deleted", || scene.stage.in_queue() == 0).await;
    scene.stage.pass(60).await;
    let Scene { stage, sundown, instances } = scene;
    sundown.kill();
    let second = stage.start("sundown-1", &[]);
    stage.until(60, "the other leads", || second.metrics.leads()).await;
    let scene = Scene { stage, sundown: second, instances };
    about(takes(&scene, accepted, 1300).await, 1195.0, 3.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_annotation_of_the_node_takes_precedence_over_its_hook_at_any_time() {
    let scene = scene(903, r#"{"sundown":{"drain-timeout":"20m"}}"#, &[]).await;
    annotate(&scene, "drain-timeout", "30m");
    let accepted = scene.terminate(0).await;
    scene.stage.pass(60).await;
    let left = |scene: &Scene| {
        let ends = scene.sundown.drain(&scene.node(0)).unwrap().ends_at.unwrap();
        between(accepted, ends)
    };
    about(left(&scene), 1800.0, 3.0);
    annotate(&scene, "drain-timeout", "5m");
    scene.stage.pass(5).await;
    about(left(&scene), 300.0, 3.0);
    about(takes(&scene, accepted, 300).await, 295.0, 3.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_timeout_that_is_set_too_late_counts_from_then_and_forces_nothing_at_once() {
    let scene = scene(904, "additional-info", &["--drain-timeout", "20m"]).await;
    scene.terminate(0).await;
    scene.stage.pass(400).await;
    annotate(&scene, "drain-timeout", "5m");
    let set = scene.stage.clock.now();
    scene.stage.pass(100).await;
    assert_eq!(scene.removals("web-0"), [], "nothing is forced at once");
    let completed = scene.completed(0, 300).await;
    about(between(set, completed), 295.0, 3.0);
    scene.sundown.stop().await;
    // The judge counts a timeout from the accept.
    scene.stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn bad_settings_are_reported_and_the_drain_goes_on_with_the_flags() {
    let metadata = r#"{"sundown":{"drain-timeout":"9d","force":"never","complete-delay":"0s"}}"#;
    let scene = scene(905, metadata, &["--drain-timeout", "5m"]).await;
    annotate(&scene, "drain-timeout", "2h");
    let accepted = scene.terminate(0).await;
    about(takes(&scene, accepted, 400).await, 295.0, 3.0);
    let said = scene.events("SettingsIgnored");
    for part in [
        "`sundown.drain-timeout` in the hook's NotificationMetadata is `9d`: use hours, minutes",
        "`sundown.force` in the hook's NotificationMetadata is no setting; use one of",
        "the annotation sundown.dev/drain-timeout is `2h`: the flags allow at most 5m",
    ] {
        assert!(said.iter().any(|text| text.contains(part)), "{part}: {said:?}");
    }
    let counted = |source: &str, reason: &str| {
        let labels = format!("source=\"{source}\",reason=\"{reason}\"");
        scene.sundown.metric(&format!("settings_ignored_total{{{labels}}}"))
    };
    assert_eq!(counted("hook", "bad_value"), 1.0);
    assert_eq!(counted("hook", "unknown_key"), 1.0);
    assert_eq!(counted("node", "not_allowed"), 1.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_sets_the_longest_grace_period_and_the_delay_of_its_completion() {
    let stage = Stage::new(906);
    let instances = group(&stage, r#"{"sundown":{"complete-delay":"50s"}}"#);
    let scene = Scene::led(stage, instances, &[]).await;
    scene.pod(0, "web-0", graceful(600, 1000));
    annotate(&scene, "max-grace-period", "1m");
    annotate(&scene, "complete-delay", "40s");
    let accepted = scene.terminate(0).await;
    about(takes(&scene, accepted, 200).await, 100.0, 5.0);
    let grace = scene.removals("web-0")[0].1;
    assert_eq!(grace, 60);
    scene.end().await;
}
