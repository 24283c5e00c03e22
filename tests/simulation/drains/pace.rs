//! How many nodes are drained at once for causes that can wait.

use serde_json::json;
use sundown::{
    domain::Moment,
    sim::{aws::HealthNotice, kube::PodShape},
};

use super::{Scene, about, between, graceful, life::annotate};
use crate::harness::Stage;

/// Nodes of one group with a hook, and on each a pod `web-N` that takes 20 s to stop.
async fn scene(seed: u64, nodes: usize, flags: &[&str]) -> Scene {
    let stage = Stage::new(seed);
    let instances = stage.group(nodes, 300);
    let scene = Scene::led(stage, instances, flags).await;
    for n in 0..nodes {
        scene.pod(n, &format!("web-{n}"), graceful(60, 20));
    }
    scene.stage.pass(5).await;
    scene
}

async fn evicted(scene: &Scene, n: usize, limit: u64) -> Moment {
    let pod = format!("web-{n}");
    scene.stage.until(limit, "the pod is evicted", || !scene.removals(&pod).is_empty()).await;
    scene.removals(&pod)[0].0
}

fn gone_at(scene: &Scene, n: usize) -> Moment {
    let pod = format!("web-{n}");
    scene.when(
        |entry| matches!(&entry.fact, sundown::sim::kube::Fact::PodGone(gone) if gone.name == pod),
    )
}

/// The nodes whose pod was asked to go and is still there.
fn draining(scene: &Scene, nodes: usize) -> usize {
    let is_drained = |n: &usize| {
        let pod = format!("web-{n}");
        !scene.removals(&pod).is_empty() && scene.is_there(&pod)
    };
    (0..nodes).filter(is_drained).count()
}

/// Until all hooks are completed: the most nodes that were drained at once.
async fn most_at_once(scene: &Scene, nodes: usize, limit: u64) -> usize {
    let mut most = 0;
    for _ in 0..limit {
        most = most.max(draining(scene, nodes));
        scene.stage.pass(1).await;
    }
    most
}

#[tokio::test(start_paused = true)]
async fn a_group_is_drained_two_nodes_at_a_time_and_each_next_one_begins_at_once() {
    let flags = ["--drain-timeout", "1h", "--max-drains-per-group", "2"];
    let scene = scene(991, 5, &flags).await;
    for n in 0..5 {
        scene.terminate(n).await;
        scene.stage.pass(2).await;
    }
    assert_eq!(most_at_once(&scene, 5, 200).await, 2);
    for n in 0..5 {
        scene.completed(n, 10).await;
    }
    for n in 2..5 {
        let next = between(gone_at(&scene, n - 2), evicted(&scene, n, 1).await);
        about(next, 1.0, 2.0);
    }
    let said = scene.events("DrainHeldBack");
    assert!(said.len() == 3 && said[0].contains("--max-drains-per-group"), "{said:?}");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_share_of_all_nodes_is_drained_at_once_and_spot_nodes_do_not_wait() {
    let flags = ["--drain-timeout", "1h", "--max-voluntary", "34%"];
    let stage = Stage::new(992);
    let mut instances = stage.group(3, 300);
    instances.extend(stage.spot_group(1));
    let scene = Scene::led(stage, instances, &flags).await;
    for n in 0..4 {
        scene.pod(n, &format!("web-{n}"), graceful(60, 20));
    }
    scene.stage.pass(5).await;
    // A third of four nodes is one.
    scene.terminate(0).await;
    scene.terminate(1).await;
    scene.stage.pass(5).await;
    assert_eq!((scene.removals("web-0").len(), scene.removals("web-1").len()), (1, 0));
    assert_eq!(scene.sundown.metric("drains_held_back"), 1.0);
    let noticed = scene.stage.clock.now();
    scene.notice(3).await;
    assert!(between(noticed, evicted(&scene, 3, 10).await) < 8.0);
    assert!(between(gone_at_soon(&scene, 0).await, evicted(&scene, 1, 10).await) < 3.0);
    scene.completed(0, 60).await;
    scene.completed(1, 60).await;
    let said = scene.events("DrainHeldBack");
    assert!(said.len() == 1 && said[0].contains("--max-voluntary"), "{said:?}");
    scene.end().await;
}

async fn gone_at_soon(scene: &Scene, n: usize) -> Moment {
    let pod = format!("web-{n}");
    scene.stage.until(60, "the pod is gone", || !scene.is_there(&pod)).await;
    gone_at(scene, n)
}

#[tokio::test(start_paused = true)]
async fn an_empty_node_that_stays_for_its_recommendation_takes_no_place() {
    let flags = ["--drain-timeout", "1h", "--max-voluntary", "1", "--on", "rebalance=drain"];
    let scene = scene(998, 3, &flags).await;
    for n in 0..2 {
        scene.stage.world.aws.rebalance_recommendation(&scene.instances[n]);
        evicted(&scene, n, 60).await;
        gone_at_soon(&scene, n).await;
    }
    let cordoned = scene.terminate(2).await;
    assert!(between(cordoned, evicted(&scene, 2, 10).await) < 5.0);
    scene.completed(2, 100).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_drain_leaves_its_place_to_the_next_one_and_waits_for_its_turn_after_that() {
    let flags = ["--drain-timeout", "1h", "--max-voluntary", "1", "--pod-order", "priority:0,1"];
    let scene = scene(999, 2, &flags).await;
    scene.pod(0, "later", PodShape { priority: Some(10), ..graceful(60, 20) });
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    evicted(&scene, 0, 10).await;
    annotate(&scene, 0, "sundown.dev/pause", Some("true"));
    scene.terminate(1).await;
    scene.stage.pass(5).await;
    assert!(scene.is_there("web-0") && scene.removals("web-1").is_empty(), "web-0 still stops");
    let free = gone_at_soon(&scene, 0).await;
    assert!(between(free, evicted(&scene, 1, 10).await) < 4.0);
    annotate(&scene, 0, "sundown.dev/pause", None);
    scene.stage.pass(5).await;
    assert!(scene.is_there("web-1") && scene.removals("later").is_empty(), "it is not its turn");
    scene.completed(1, 100).await;
    scene.completed(0, 100).await;
    assert_eq!(scene.removals("later").len(), 1);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_held_drain_gets_heartbeats_and_begins_at_half_of_its_time() {
    let flags = ["--drain-timeout", "20m", "--max-voluntary", "1"];
    let scene = scene(993, 2, &flags).await;
    // The first node is drained for long.
    scene.pod(0, "slow", graceful(3600, 1000));
    scene.terminate(0).await;
    let cordoned = scene.terminate(1).await;
    about(between(cordoned, evicted(&scene, 1, 700).await), 599.0, 5.0);
    let action = scene.stage.actions(&scene.instances[1]).remove(0);
    assert!(action.heartbeats.len() >= 4, "{action:?}");
    scene.completed(1, 60).await;
    scene.completed(0, 700).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_goes_on_with_the_drain_that_had_begun() {
    let flags = ["--drain-timeout", "1h", "--max-voluntary", "1"];
    let scene = scene(994, 3, &flags).await;
    annotate(&scene, 0, "pre-drain.sundown.dev/backup", Some("snapshot"));
    scene.terminate(0).await;
    scene.stage.pass(5).await;
    scene.pod(1, "slow", graceful(600, 300));
    scene.stage.pass(5).await;
    scene.terminate(1).await;
    scene.terminate(2).await;
    scene.stage.pass(30).await;
    assert_eq!((scene.removals("web-1").len(), scene.removals("web-2").len()), (1, 0));
    annotate(&scene, 0, "pre-drain.sundown.dev/backup", None);
    scene.stage.pass(5).await;
    assert!(scene.removals("web-0").is_empty(), "what has begun goes on");
    let Scene { stage, sundown, instances } = scene;
    sundown.kill();
    let second = stage.start("sundown-1", &flags);
    stage.until(60, "the other leads", || second.metrics.leads()).await;
    let scene = Scene { stage, sundown: second, instances };
    scene.stage.pass(60).await;
    assert!(scene.removals("web-0").is_empty() && scene.removals("web-2").is_empty());
    let over = scene.completed(1, 400).await;
    assert!(between(over, evicted(&scene, 0, 30).await) < 3.0, "the first accept is next");
    assert!(scene.removals("web-2").is_empty());
    scene.completed(0, 100).await;
    scene.completed(2, 100).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s32_three_control_plane_nodes_with_scheduled_changes_are_drained_one_after_the_other() {
    for (seed, label) in
        [(995, "node-role.kubernetes.io/control-plane"), (996, "node-role.kubernetes.io/master")]
    {
        let stage = Stage::new(seed);
        let instances = stage.group(3, 300);
        for instance in &instances {
            let node = stage.world.node_of(instance).unwrap();
            stage.world.kube.edit("nodes", "", &node, |node| {
                node["metadata"]["labels"][label] = json!("");
            });
        }
        let scene = Scene::led(stage, instances, &["--scheduled-lead", "1h"]).await;
        for n in 0..3 {
            scene.pod(n, &format!("web-{n}"), graceful(60, 20));
        }
        scene.stage.pass(5).await;
        let starts = scene.stage.clock.now() + std::time::Duration::from_mins(50);
        scene.stage.world.aws.health(&HealthNotice::retirement(scene.instances.clone(), starts));
        for n in 0..3 {
            scene.cordoned(n).await;
        }
        assert_eq!(most_at_once(&scene, 3, 120).await, 1, "{label}");
        assert!((0..3).all(|n| !scene.is_there(&format!("web-{n}"))), "{label}");
        let said = scene.events("DrainHeldBack");
        assert!(said.len() == 2 && said[0].contains("control-plane node"), "{said:?}");
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn s32_control_plane_nodes_with_spot_notices_do_not_wait_for_each_other() {
    let stage = Stage::new(997);
    let instances = stage.spot_group(2);
    for instance in &instances {
        let node = stage.world.node_of(instance).unwrap();
        stage.world.kube.edit("nodes", "", &node, |node| {
            node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = json!("");
        });
    }
    let scene = Scene::led(stage, instances, &[]).await;
    for n in 0..2 {
        scene.pod(n, &format!("web-{n}"), graceful(60, 20));
    }
    scene.stage.pass(5).await;
    scene.notice(0).await;
    scene.notice(1).await;
    scene.stage.pass(10).await;
    assert_eq!(draining(&scene, 2), 2);
    scene.end().await;
}
