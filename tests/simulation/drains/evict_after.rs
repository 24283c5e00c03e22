//! Evictions that wait for a replacement or for a delay (`--evict-after`).

use std::time::Duration;

use sundown::{
    domain::Moment,
    sim::{
        aws::{GroupSpec, HookResult, HookSpec},
        kube::PodShape,
    },
};

use super::{Scene, about, between};
use crate::harness::Stage;

/// A group of two nodes that replaces a lost instance after `replace_after`, and a pod on the first.
async fn scene(seed: u64, replace_after: Option<u64>, flags: &[&str]) -> Scene {
    let stage = Stage::new(seed);
    let hook = HookSpec {
        heartbeat_timeout: Duration::from_mins(2),
        default_result: HookResult::Continue,
        ..HookSpec::terminating("drain")
    };
    let replace_after = replace_after.map(Duration::from_secs);
    let group = GroupSpec { replace_after, ..GroupSpec::new("asg", 2) };
    let instances = stage.world.add_group(group, &[hook]);
    let scene = Scene::led(stage, instances, flags).await;
    scene.pod(0, "web", PodShape::default());
    scene.stage.pass(5).await;
    scene
}

/// Auto Scaling terminates the first instance, and keeps the size of the group.
async fn replace(scene: &Scene) -> Moment {
    scene.stage.world.aws.terminate(&scene.instances[0], false);
    scene.cordoned(0).await
}

async fn evicted(scene: &Scene, limit: u64) -> Moment {
    scene.stage.until(limit, "the pod is evicted", || !scene.evictions("web").is_empty()).await;
    scene.removals("web")[0].0
}

/// When the API server first showed a third Node as Ready.
async fn joined(scene: &Scene, limit: u64) -> Moment {
    let is_ready = |node: &serde_json::Value| {
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
    };
    let ready = || scene.stage.world.kube.objects("nodes").iter().filter(|n| is_ready(n)).count();
    scene.stage.until(limit, "the replacement is Ready", || ready() == 3).await;
    scene.stage.clock.now()
}

#[tokio::test(start_paused = true)]
async fn pods_stay_until_the_replacement_is_ready_and_the_hook_is_kept_open() {
    let flags = ["--evict-after", "terminate-hook=replacement-ready"];
    let scene = scene(951, Some(200), &flags).await;
    let cordoned = replace(&scene).await;
    let said = || scene.events("EvictionsWait");
    scene.stage.until(5, "the Event is written", || !said().is_empty()).await;
    let said = said();
    assert!(said.iter().any(|text| text.contains("until the Auto Scaling group has")), "{said:?}");
    let joined = joined(&scene, 600).await;
    assert!(between(cordoned, joined) > 200.0);
    let waited = between(joined, evicted(&scene, 30).await);
    assert!((-0.05..=25.0).contains(&waited), "not before it is Ready, and soon after: {waited}");
    scene.completed(0, 120).await;
    assert!(scene.stage.actions(&scene.instances[0])[0].heartbeats.len() > 2);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_that_becomes_smaller_gets_no_replacement_and_its_pods_go_at_once() {
    let flags = ["--evict-after", "terminate-hook=replacement-ready"];
    let scene = scene(952, Some(200), &flags).await;
    let cordoned = scene.terminate(0).await;
    assert!(between(cordoned, evicted(&scene, 30).await) < 15.0);
    scene.completed(0, 60).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_replacement_the_evictions_begin_after_half_of_the_time() {
    let flags = ["--evict-after", "terminate-hook=replacement-ready", "--drain-timeout", "20m"];
    let scene = scene(953, None, &flags).await;
    let cordoned = replace(&scene).await;
    about(between(cordoned, evicted(&scene, 700).await), 597.5, 5.0);
    scene.completed(0, 60).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_delay_holds_the_evictions_and_a_spot_notice_ends_the_wait() {
    let flags = ["--evict-after", "terminate-hook=10m"];
    let waiting = scene(954, None, &flags).await;
    let cordoned = replace(&waiting).await;
    about(between(cordoned, evicted(&waiting, 700).await), 600.0, 3.0);
    waiting.completed(0, 60).await;
    waiting.end().await;

    let noticed = scene(955, None, &flags).await;
    replace(&noticed).await;
    noticed.stage.pass(60).await;
    assert_eq!(noticed.removals("web"), []);
    let sent = noticed.stage.clock.now();
    noticed.notice(0).await;
    assert!(between(sent, evicted(&noticed, 30).await) < 10.0);
    noticed.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_lets_the_evictions_wait_as_long_as_the_last_one_would_have() {
    let flags = ["--evict-after", "terminate-hook=10m"];
    let scene = scene(956, None, &flags).await;
    let cordoned = replace(&scene).await;
    scene.stage.pass(120).await;
    let Scene { stage, sundown, instances } = scene;
    sundown.kill();
    let second = stage.start("sundown-1", &flags);
    stage.until(60, "the other leads", || second.metrics.leads()).await;
    let scene = Scene { stage, sundown: second, instances };
    about(between(cordoned, evicted(&scene, 700).await), 600.0, 5.0);
    scene.completed(0, 60).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_recommendation_that_drains_waits_for_a_node_of_the_group_that_its_tag_names() {
    let flags = [
        "--on",
        "rebalance=drain",
        "--evict-after",
        "rebalance=replacement-ready",
        "--rebalance-ttl",
        "30m",
    ];
    let scene = scene(957, None, &flags).await;
    scene.stage.world.aws.rebalance_recommendation(&scene.instances[0]);
    scene.cordoned(0).await;
    scene.stage.pass(120).await;
    assert_eq!(scene.removals("web"), [], "the group is as large as it was");
    scene.stage.world.aws.launch("asg");
    let joined = joined(&scene, 300).await;
    assert!(between(joined, evicted(&scene, 30).await) <= 25.0);
    scene.end().await;
}
