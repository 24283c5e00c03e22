//! The label that takes a node out of load balancers.

use serde_json::json;
use sundown::sim::{
    aws::{GroupSpec, SpotAction},
    kube::BudgetSpec,
};

use super::{Scene, about, between, graceful};

const LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

fn label(scene: &Scene, n: usize) -> Option<String> {
    scene.stage.node(&scene.instances[n])["metadata"]["labels"][LABEL].as_str().map(str::to_owned)
}

fn is_labelled(scene: &Scene, n: usize) -> bool {
    label(scene, n).is_some_and(|v| v == "sundown")
}

fn set_label(scene: &Scene, n: usize, value: &str) {
    scene
        .stage
        .world
        .kube
        .edit("nodes", "", &scene.node(n), |node| node["metadata"]["labels"][LABEL] = json!(value));
}

#[tokio::test(start_paused = true)]
async fn a_spot_node_is_labelled_by_its_accept_itself() {
    let scene = Scene::spot(401, 4, &[]).await;
    scene.pod(0, "web-0", graceful(60, 50));
    scene.stage.pass(5).await;
    scene.notice(0).await;
    assert!(is_labelled(&scene, 0));
    assert_eq!(scene.patches(0).len(), 1);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_hooks_node_is_labelled_when_its_last_pod_terminates() {
    let scene = Scene::hooked(402, 4, &["--drain-timeout", "600s"]).await;
    scene.pod(0, "web-0", graceful(30, 20));
    scene.stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "web").min(1));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(60).await;
    assert_eq!(label(&scene, 0), None, "a pod still serves");
    scene.stage.world.kube.remove("poddisruptionbudgets", "shop", "web");
    scene.stage.pass(3).await;
    assert!(is_labelled(&scene, 0) && scene.is_there("web-0"));
    scene.completed(0, 60).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn late_means_a_minute_before_the_deadline_at_the_latest() {
    let scene = Scene::hooked(
        403,
        4,
        &["--drain-timeout", "200s", "--deadline-margin", "0s", "--force-after", "never"],
    )
    .await;
    scene.pod(0, "web-0", graceful(30, 20));
    scene.stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "web").min(1));
    scene.stage.pass(5).await;
    let accepted = scene.terminate(0).await;
    scene.stage.until(250, "it is labelled", || is_labelled(&scene, 0)).await;
    about(between(accepted, scene.stage.clock.now()), 140.0, 2.5);
    scene.completed(0, 100).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn early_and_never_hold_for_every_kind() {
    let scene = Scene::hooked(404, 4, &["--exclude-from-load-balancers", "early"]).await;
    scene.terminate(0).await;
    assert!(is_labelled(&scene, 0));
    assert_eq!(scene.patches(0).len(), 1);
    scene.completed(0, 60).await;
    scene.end().await;

    let scene = Scene::spot(405, 4, &["--exclude-from-load-balancers", "never"]).await;
    scene.notice(0).await;
    scene.stage.pass(60).await;
    assert_eq!(label(&scene, 0), None);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_foreign_value_is_never_changed_nor_taken_away() {
    let scene = Scene::spot(406, 4, &[]).await;
    set_label(&scene, 0, "somebody");
    scene.pod(0, "web-0", graceful(60, 50));
    scene.pod(1, "web-1", graceful(60, 50));
    scene.stage.pass(5).await;
    scene.notice(0).await;
    scene.notice(1).await;
    assert_eq!(label(&scene, 0).unwrap(), "somebody");
    assert!(is_labelled(&scene, 1));
    for n in [0, 1] {
        scene.stage.world.kube.edit("nodes", "", &scene.node(n), |node| {
            node["metadata"]["annotations"]["sundown.dev/release"] = json!("true");
        });
    }
    scene
        .stage
        .until(10, "both are put back", || {
            !scene.stage.is_cordoned(&scene.instances[0])
                && !scene.stage.is_cordoned(&scene.instances[1])
        })
        .await;
    assert_eq!(label(&scene, 0).unwrap(), "somebody");
    assert_eq!(label(&scene, 1), None, "ours is taken away");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn at_most_half_of_the_ready_nodes_carry_it_and_the_others_get_it_when_there_is_room() {
    let scene = Scene::spot(407, 6, &[]).await;
    for n in 0..5 {
        scene.pod(n, &format!("web-{n}"), graceful(100, 90));
    }
    scene.stage.pass(5).await;
    for instance in &scene.instances[..5] {
        scene.stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
    }
    let labelled = || (0..5).filter(|n| is_labelled(&scene, *n)).count();
    for _ in 0..100 {
        assert!(labelled() <= 3, "{} of 6", labelled());
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(
        (0..5).all(|n| scene.stage.is_cordoned(&scene.instances[n])),
        "nobody waits for the label"
    );
    assert_eq!(labelled(), 3);
    assert_eq!(scene.sundown.metric("nodes_excluded"), 3.0);
    let quiet: usize = (0..5).map(|n| scene.patches(n).len()).sum();
    assert_eq!(quiet, 5, "no room is no reason to try on and on");
    // Four nodes more: room for two.
    scene
        .stage
        .world
        .add_group(GroupSpec { replace_after: None, ..GroupSpec::new("fresh", 4) }, &[]);
    scene.stage.until(5, "the others get it", || labelled() == 5).await;
    assert_eq!((0..5).map(|n| scene.patches(n).len()).sum::<usize>(), 7);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn nodes_that_others_label_permanently_do_not_use_up_the_limit() {
    let scene = Scene::spot(408, 6, &[]).await;
    for n in 2..6 {
        set_label(&scene, n, "ingress-free");
    }
    scene.pod(0, "web-0", graceful(100, 90));
    scene.pod(1, "web-1", graceful(100, 90));
    scene.stage.pass(5).await;
    scene.notice(0).await;
    assert!(is_labelled(&scene, 0), "one of the two that serve");
    scene.notice(1).await;
    scene.stage.pass(10).await;
    assert_eq!(label(&scene, 1), None, "the other one stays");
    assert_eq!(scene.sundown.metric("nodes_excluded"), 1.0);
    scene.end().await;
}
