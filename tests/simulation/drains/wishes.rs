//! What pods ask for by annotations and labels (`sundown.dev/drain`, `--honor`).

use std::time::Duration;

use sundown::{
    domain::Moment,
    sim::kube::{PodShape, PodSpec},
};

use super::{Scene, about, between, graceful};

const OWN: &str = "sundown.dev/drain";

fn asking(key: &str, value: &str, shape: PodShape) -> PodShape {
    PodShape { annotations: [(key.to_owned(), value.to_owned())].into(), ..shape }
}

impl Scene {
    /// Puts a pod onto the first node that succeeds after this time.
    fn job(&self, name: &str, seconds: u64, shape: PodShape) {
        let shape = PodShape { runs_for: Some(Duration::from_secs(seconds)), ..shape };
        self.pod(0, name, shape);
    }

    /// When the only eviction of a pod was accepted.
    fn only_eviction(&self, pod: &str) -> Moment {
        let removals = self.removals(pod);
        let [(at, _, false)] = removals[..] else { panic!("{pod}: {removals:?}") };
        at
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_asks_to_wait_finishes_its_work() {
    let scene = Scene::hooked(961, 2, &[]).await;
    scene.job("job", 400, asking(OWN, "wait", graceful(30, 5)));
    scene.pod(0, "web", graceful(30, 5));
    scene.stage.pass(5).await;
    let accepted = scene.terminate(0).await;
    scene.stage.until(60, "web is gone", || !scene.is_there("web")).await;
    assert_eq!(scene.times_said("EvictionDelayed"), 1);
    assert!(scene.events("EvictionDelayed")[0].contains("(sundown.dev/drain: wait) until"));
    let completed = scene.completed(0, 600).await;
    assert_eq!(scene.removals("job"), [], "it finished by itself");
    about(between(accepted, completed), 395.0, 15.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_asks_to_wait_is_evicted_after_half_of_the_time() {
    let scene = Scene::hooked(962, 2, &["--drain-timeout=20m"]).await;
    scene.pod(0, "worker", asking(OWN, "wait", graceful(30, 5)));
    scene.stage.pass(5).await;
    let accepted = scene.terminate(0).await;
    let completed = scene.completed(0, 1000).await;
    let evicted = scene.only_eviction("worker");
    about(between(accepted, evicted), 600.0, 10.0);
    about(between(evicted, completed), 5.0, 3.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn no_pod_waits_in_the_two_minutes_of_a_spot_notice() {
    let flags = ["--honor=karpenter.sh/do-not-disrupt"];
    let scene = Scene::hooked(963, 2, &flags).await;
    scene.pod(0, "worker", asking(OWN, "wait", graceful(30, 5)));
    scene.pod(0, "batch", asking("karpenter.sh/do-not-disrupt", "true", graceful(30, 5)));
    scene.stage.pass(5).await;
    let accepted = scene.notice(0).await;
    scene
        .stage
        .until(20, "both are gone", || !scene.is_there("worker") && !scene.is_there("batch"))
        .await;
    assert!(between(accepted, scene.only_eviction("worker")) < 5.0);
    assert!(between(accepted, scene.only_eviction("batch")) < 5.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_asks_to_go_last_goes_after_the_others() {
    let scene = Scene::hooked(964, 2, &["--pod-order=together"]).await;
    scene.pod(0, "shipper", asking(OWN, "last", graceful(30, 3)));
    scene.pod(0, "web", graceful(60, 20));
    scene.stage.pass(5).await;
    let accepted = scene.terminate(0).await;
    scene.completed(0, 120).await;
    assert!(between(accepted, scene.only_eviction("web")) < 3.0);
    about(between(scene.only_eviction("web"), scene.only_eviction("shipper")), 20.0, 1.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_asks_to_be_left_alone_is_neither_evicted_nor_waited_for() {
    let scene = Scene::hooked(965, 2, &["--honor=cluster.x-k8s.io/drain"]).await;
    scene.pod(0, "skipped-1", asking(OWN, "skip", graceful(30, 5)));
    let labeled = PodSpec::on(scene.node(0), "shop", "skipped-2").shape(graceful(30, 5));
    scene.stage.world.kube.add_pod(&labeled.label("cluster.x-k8s.io/drain", "Skip"));
    scene.pod(0, "web", graceful(30, 5));
    scene.stage.pass(5).await;
    let accepted = scene.terminate(0).await;
    let completed = scene.completed(0, 60).await;
    assert!(between(accepted, completed) < 15.0);
    assert!(scene.removals("skipped-1").is_empty() && scene.removals("skipped-2").is_empty());
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn wishes_of_other_tools_are_honored_if_enabled() {
    let keys = [
        ("--honor=karpenter.sh/do-not-disrupt", "karpenter.sh/do-not-disrupt", "10m"),
        (
            "--honor=cluster-autoscaler.kubernetes.io/safe-to-evict",
            "cluster-autoscaler.kubernetes.io/safe-to-evict",
            "on-completion",
        ),
    ];
    for (flag, key, value) in keys {
        for is_enabled in [true, false] {
            let flags: &[&str] = if is_enabled { &[flag] } else { &[] };
            let scene = Scene::hooked(966, 2, flags).await;
            scene.job("job", 300, asking(key, value, graceful(30, 5)));
            scene.stage.pass(5).await;
            scene.terminate(0).await;
            scene.completed(0, 400).await;
            assert_eq!(scene.removals("job").is_empty(), is_enabled, "{key}");
            scene.end().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_value_is_reported_once_and_has_no_effect() {
    let scene = Scene::hooked(967, 2, &[]).await;
    scene.pod(0, "web", asking(OWN, "later", graceful(30, 20)));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.completed(0, 60).await;
    assert_eq!(scene.times_said("PodSettingIgnored"), 1);
    assert!(scene.events("PodSettingIgnored")[0].contains("sundown.dev/drain is `later`"));
    assert_eq!(scene.removals("web").len(), 1);
    scene.end().await;
}
