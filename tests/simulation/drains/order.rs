//! The order in which pods are evicted (`--pod-order`, `--drain-daemonset`).

use sundown::{
    domain::Moment,
    sim::kube::{BudgetSpec, PodShape, PodSpec, Workload},
};

use super::{Scene, about, between, graceful};

/// `spec.priority` of the class `system-cluster-critical`.
const CRITICAL: i64 = 2_000_000_000;

fn critical(shape: PodShape) -> PodShape {
    PodShape { priority: Some(CRITICAL), ..shape }
}

impl Scene {
    /// A pod of the DaemonSet `shop/SET` on the first node.
    fn daemon(&self, set: &str, shape: PodShape) {
        let pod = PodSpec::on(self.node(0), "shop", set).shape(shape);
        self.stage.world.kube.add_pod(&pod.owner("apps/v1", "DaemonSet", set));
    }

    /// When the eviction of a pod was accepted.
    fn evicted_at(&self, pod: &str) -> Moment {
        let removals = self.removals(pod);
        let [(at, _, is_deleted)] = removals[..] else { panic!("{pod}: {removals:?}") };
        assert!(!is_deleted, "{pod} is evicted, not deleted");
        at
    }
}

#[tokio::test(start_paused = true)]
async fn s21_each_group_waits_until_the_pods_of_the_one_before_are_gone() {
    let scene = Scene::hooked(921, 2, &["--drain-daemonset", "shop/shipper"]).await;
    scene.pod(0, "web", graceful(60, 20));
    scene.daemon("shipper", graceful(30, 10));
    let proxy = Workload::new("shop", "proxy-daemon", 0).shape(critical(graceful(30, 1)));
    scene.stage.world.kube.add_daemon_set(&proxy);
    scene.pod(0, "dns", critical(graceful(30, 5)));
    scene.stage.pass(5).await;
    let accepted = scene.terminate(0).await;
    let completed = scene.completed(0, 120).await;
    let web = scene.evicted_at("web");
    assert!(between(accepted, web) < 3.0);
    about(between(web, scene.evicted_at("shipper")), 20.0, 1.0);
    about(between(scene.evicted_at("shipper"), scene.evicted_at("dns")), 10.0, 1.0);
    about(between(scene.evicted_at("dns"), completed), 5.0, 2.0);
    let left = scene.stage.world.kube.pods_on(&scene.node(0));
    let is_proxy = |name: &str| name.starts_with("proxy");
    assert!(
        left.iter().any(|pod| is_proxy(&pod.name)),
        "DaemonSets that are not named keep theirs"
    );
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s21_a_group_that_is_blocked_leaves_the_critical_pods_their_share_of_two_minutes() {
    let scene = Scene::hooked(922, 2, &[]).await;
    scene.pod(0, "web", graceful(10, 1));
    scene.stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "web").min(1));
    scene.stage.world.kube.add_pod(
        &PodSpec::on(scene.node(0), "kube-system", "dns").shape(critical(graceful(30, 5))),
    );
    scene.stage.pass(15).await;
    let accepted = scene.notice(0).await;
    scene.stage.until(115, "web is gone", || !scene.is_there("web")).await;
    // 120 s less the margin of 10 s, of which a quarter.
    about(between(accepted, scene.evicted_at("dns")), 27.5, 1.5);
    let [(_, _, is_deleted)] = scene.removals("web")[..] else { panic!("web") };
    assert!(is_deleted, "its budget allows no eviction");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn pods_go_together_if_told_so() {
    let scene = Scene::hooked(923, 2, &["--pod-order", "together"]).await;
    scene.pod(0, "web", graceful(60, 20));
    scene.pod(0, "dns", critical(graceful(30, 5)));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.completed(0, 120).await;
    about(between(scene.evicted_at("web"), scene.evicted_at("dns")), 0.0, 1.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_keeps_the_order() {
    let flags = ["--pod-order", "priority:0,1000"];
    let scene = Scene::hooked(924, 2, &flags).await;
    scene.pod(0, "web", graceful(120, 60));
    scene.pod(0, "db", PodShape { priority: Some(1000), ..graceful(30, 5) });
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.until(10, "web is evicted", || !scene.removals("web").is_empty()).await;
    let Scene { stage, sundown, instances } = scene;
    sundown.kill();
    let second = stage.start("sundown-1", &flags);
    stage.until(60, "the other leads", || second.metrics.leads()).await;
    let scene = Scene { stage, sundown: second, instances };
    assert_eq!(scene.removals("db"), [], "web is still there");
    scene.completed(0, 120).await;
    about(between(scene.evicted_at("web"), scene.evicted_at("db")), 60.0, 2.0);
    scene.end().await;
}
