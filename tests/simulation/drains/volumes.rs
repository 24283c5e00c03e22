//! The wait for the volumes of drained pods (`--wait-for-volumes`). The judge knows nothing of
//! volumes, so most of these runs are not judged.

use serde_json::json;
use sundown::sim::kube::PodShape;

use super::{Scene, about, between, graceful};

/// A pod with a claim that stops within 2 s.
fn database(claim: &str) -> PodShape {
    PodShape { claims: vec![claim.to_owned()], ..graceful(30, 2) }
}

/// The claim is bound to a PersistentVolume that is attached to the `n`th node.
fn attach(scene: &Scene, n: usize, claim: &str) {
    let volume = format!("pv-{claim}");
    scene.stage.world.kube.put(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "namespace": "shop", "name": claim },
        "spec": { "volumeName": volume },
    }));
    scene.stage.world.kube.put(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": { "name": format!("csi-{claim}") },
        "spec": {
            "attacher": "ebs.csi.aws.com", "nodeName": scene.node(n),
            "source": { "persistentVolumeName": volume },
        },
        "status": { "attached": true },
    }));
}

fn detach(scene: &Scene, claim: &str) {
    assert!(scene.stage.world.kube.remove("volumeattachments", "", &format!("csi-{claim}")));
}

/// How many LISTs of VolumeAttachments there were.
fn lists(scene: &Scene) -> usize {
    scene.requests("list", "volumeattachments", "", "").len()
}

fn waits(scene: &Scene, end: &str) -> f64 {
    scene.sundown.metric(&format!("volume_waits_total{{result=\"{end}\"}}"))
}

async fn unjudged(scene: Scene) {
    scene.sundown.stop().await;
    scene.stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn c55_s22_a_volume_that_stays_attached_holds_the_hook_until_the_deadline() {
    let scene = Scene::hooked(3_201, 2, &["--drain-timeout", "2m"]).await;
    scene.pod(0, "db", database("data"));
    attach(&scene, 0, "data");
    scene.stage.pass(5).await;
    let cordoned = scene.terminate(0).await;
    scene.stage.until(20, "the pod is gone", || !scene.is_there("db")).await;
    scene.stage.until(10, "it is reported", || !scene.events("VolumesAttached").is_empty()).await;
    let text = scene.events("VolumesAttached").remove(0);
    assert!(text.contains("1 volume (pv-data) is still attached. The drain ends at"), "{text}");
    assert_eq!(scene.sundown.drain(&scene.node(0)).unwrap().phase, "volumes");
    about(between(cordoned, scene.completed(0, 200).await), 118.0, 3.0);
    assert_eq!(waits(&scene, "deadline"), 1.0);
    let is_warning = |text: &String| text.contains("was still attached at the end of the drain");
    scene
        .stage
        .until(5, "a warning follows", || scene.events("VolumesAttached").iter().any(is_warning))
        .await;
    let record = scene.stage.record(&scene.instances[0]).unwrap();
    assert_eq!(record["released"]["outcome"], "empty", "no pod is left: the drain has not failed");
    assert!(!scene.stage.actions(&scene.instances[0])[0].heartbeats.is_empty());
    unjudged(scene).await;
}

#[tokio::test(start_paused = true)]
async fn c55_s22_a_hook_is_completed_seconds_after_the_last_volume_is_detached() {
    let scene = Scene::hooked(3_202, 2, &[]).await;
    scene.pod(0, "db", database("data"));
    attach(&scene, 0, "data");
    attach(&scene, 0, "logs");
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.until(20, "the pod is gone", || !scene.is_there("db")).await;
    scene.stage.pass(20).await;
    detach(&scene, "logs");
    scene.stage.pass(20).await;
    assert!(!scene.stage.actions(&scene.instances[0]).iter().any(|a| a.end.is_some()));
    detach(&scene, "data");
    let detached = scene.stage.clock.now();
    assert!(between(detached, scene.completed(0, 60).await) < 7.0);
    assert_eq!(waits(&scene, "detached"), 1.0);
    let is_reported = || scene.events("VolumesDetached").len() == 1;
    scene.stage.until(5, "an Event says so", is_reported).await;
    assert!((10..=25).contains(&lists(&scene)), "{}", lists(&scene));
    unjudged(scene).await;
}

#[tokio::test(start_paused = true)]
async fn s22_the_volume_of_a_pod_that_stays_is_ignored() {
    let scene = Scene::hooked(3_203, 2, &[]).await;
    let toleration = json!({ "key": "sundown.dev/interruption", "operator": "Exists" });
    scene.pod(0, "agent", PodShape { tolerations: vec![toleration], ..database("stays") });
    scene.pod(0, "db", database("data"));
    attach(&scene, 0, "stays");
    attach(&scene, 0, "data");
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.until(20, "the pod is gone", || !scene.is_there("db")).await;
    scene.stage.until(10, "it is reported", || !scene.events("VolumesAttached").is_empty()).await;
    let text = scene.events("VolumesAttached").remove(0);
    assert!(text.contains("1 volume (pv-data)"), "{text}");
    detach(&scene, "data");
    scene.completed(0, 10).await;
    assert!(scene.is_there("agent"));
    unjudged(scene).await;
}

#[tokio::test(start_paused = true)]
async fn s22_nobody_asks_for_volumes_where_no_pod_has_any_or_the_flag_is_never() {
    for (seed, claims, flags, expected) in [
        (3_204, vec![], &[][..], 0),
        (3_205, vec!["data".to_owned()], &["--wait-for-volumes=never"], 0),
        (3_206, vec!["data".to_owned()], &[], 1),
    ] {
        let scene = Scene::hooked(seed, 2, flags).await;
        scene.pod(0, "web", PodShape { claims, ..graceful(30, 2) });
        scene.stage.pass(5).await;
        let cordoned = scene.terminate(0).await;
        // Nothing is attached, so nothing is waited for.
        assert!(between(cordoned, scene.completed(0, 30).await) < 9.0, "{flags:?}");
        assert_eq!(lists(&scene), expected, "{flags:?}");
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_for_a_spot_notice_completes_nothing_and_does_not_wait() {
    let scene = Scene::spot(3_207, 2, &[]).await;
    scene.pod(0, "db", database("data"));
    attach(&scene, 0, "data");
    scene.stage.pass(5).await;
    scene.notice(0).await;
    scene.stage.until(15, "its drain is over", || !scene.events("Drained").is_empty()).await;
    assert_eq!(lists(&scene), 0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn one_list_answers_for_all_nodes_that_wait() {
    let scene = Scene::hooked(3_208, 12, &[]).await;
    for n in 0..10 {
        scene.pod(n, &format!("db-{n}"), database(&format!("data-{n}")));
        attach(&scene, n, &format!("data-{n}"));
    }
    scene.stage.pass(5).await;
    for n in 0..10 {
        scene.stage.world.aws.terminate(&scene.instances[n], true);
    }
    let are_gone = || (0..10).all(|n| !scene.is_there(&format!("db-{n}")));
    scene.stage.until(40, "all pods are gone", are_gone).await;
    let before = lists(&scene);
    scene.stage.pass(20).await;
    assert!(lists(&scene) - before <= 21, "not ten times as many: {}", lists(&scene) - before);
    for n in 0..10 {
        detach(&scene, &format!("data-{n}"));
    }
    for n in 0..10 {
        scene.completed(n, 15).await;
    }
    unjudged(scene).await;
}

#[tokio::test(start_paused = true)]
async fn without_the_right_the_hook_is_not_held_and_people_are_told() {
    let scene = Scene::hooked(3_209, 2, &[]).await;
    scene.stage.world.kube.deny("list", "volumeattachments");
    scene.pod(0, "db", database("data"));
    attach(&scene, 0, "data");
    scene.stage.pass(5).await;
    let cordoned = scene.terminate(0).await;
    assert!(between(cordoned, scene.completed(0, 30).await) < 9.0);
    assert_eq!(waits(&scene, "denied"), 1.0);
    scene.stage.until(5, "an Event says so", || !scene.events("VolumesUnknown").is_empty()).await;
    let text = scene.events("VolumesUnknown").remove(0);
    assert!(
        text.contains("lacks a permission to read which volumes") && text.contains("forbidden"),
        "{text}"
    );
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_holds_the_hook_for_two_minutes_at_most() {
    use sundown::sim::kube::{Fault, Match, Rule};
    let scene = Scene::hooked(3_210, 2, &[]).await;
    let lists = Match::of("list", "volumeattachments");
    scene.stage.world.kube.inject(Rule::always(lists, Fault::Hang));
    scene.pod(0, "db", database("data"));
    attach(&scene, 0, "data");
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.until(20, "the pod is gone", || !scene.is_there("db")).await;
    let gone = scene.stage.clock.now();
    about(between(gone, scene.completed(0, 200).await), 121.0, 5.0);
    assert_eq!(waits(&scene, "unanswered"), 1.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_waits_for_the_volumes_of_pods_that_it_has_never_seen() {
    let scene = Scene::hooked(3_211, 2, &[]).await;
    scene.pod(0, "db", database("data"));
    attach(&scene, 0, "data");
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.until(20, "the pod is gone", || !scene.is_there("db")).await;
    scene.stage.pass(5).await;
    let Scene { stage, sundown, instances } = scene;
    sundown.kill();
    let second = stage.start("sundown-1", &[]);
    stage.until(60, "the other leads", || second.metrics.leads()).await;
    let scene = Scene { stage, sundown: second, instances };
    scene.stage.pass(60).await;
    assert!(!scene.stage.actions(&scene.instances[0]).iter().any(|a| a.end.is_some()));
    detach(&scene, "data");
    scene.completed(0, 15).await;
    unjudged(scene).await;
}

#[tokio::test(start_paused = true)]
async fn the_volumes_of_pods_that_another_tool_has_evicted_before_are_waited_for() {
    let scene = Scene::hooked(3_212, 2, &[]).await;
    // cluster-autoscaler has drained the node.
    attach(&scene, 0, "data");
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(40).await;
    assert!(!scene.stage.actions(&scene.instances[0]).iter().any(|a| a.end.is_some()));
    detach(&scene, "data");
    scene.completed(0, 10).await;
    unjudged(scene).await;
}
