//! The administrator's rules about pods (`--rules-file`).

use std::path::PathBuf;

use sundown::{
    domain::Moment,
    sim::kube::{PodShape, PodSpec},
};

use super::{Scene, about, between, graceful};

/// A file with rules, which is deleted at the end of its test.
struct Rules(PathBuf);

impl Rules {
    fn new(name: &str, text: &str) -> Self {
        let file = format!("sundown-rules-{name}-{}.yaml", std::process::id());
        let rules = Self(std::env::temp_dir().join(file));
        rules.write(text);
        rules
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }

    fn flag(&self) -> String {
        format!("--rules-file={}", self.0.display())
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

impl Scene {
    /// Puts a pod with the label `app: NAME` onto the first node.
    fn app(&self, name: &str, shape: PodShape) {
        let pod = PodSpec::on(self.node(0), "shop", name).shape(shape);
        self.stage.world.kube.add_pod(&pod.label("app", name));
    }

    fn evicted(&self, pod: &str) -> Moment {
        let removals = self.removals(pod);
        let [(at, _, false)] = removals[..] else { panic!("{pod}: {removals:?}") };
        at
    }
}

#[tokio::test(start_paused = true)]
async fn s21_pods_go_by_the_orders_of_the_rules() {
    let rules = Rules::new(
        "orders",
        "rules:\n\
         - {match: {podLabels: app=first}, behavior: Evict, order: -1}\n\
         - {match: {podLabels: app=later, namespaces: [sh*]}, behavior: Evict, order: 2}\n\
         - {match: {podLabels: app=skipped}, behavior: Skip}\n",
    );
    let scene = Scene::hooked(971, 2, &[&rules.flag()]).await;
    for name in ["later", "plain", "first", "skipped"] {
        scene.app(name, graceful(30, 10));
    }
    scene.stage.pass(5).await;
    let accepted = scene.terminate(0).await;
    scene.completed(0, 120).await;
    assert!(between(accepted, scene.evicted("first")) < 3.0);
    about(between(scene.evicted("first"), scene.evicted("plain")), 10.0, 1.0);
    about(between(scene.evicted("plain"), scene.evicted("later")), 10.0, 1.0);
    assert_eq!(scene.removals("skipped"), []);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_rules_counts_within_seconds_and_a_bad_file_keeps_the_last_ones() {
    let waiting = "rules: [{match: {podLabels: app=job}, behavior: WaitCompleted}]";
    let rules = Rules::new("reload", waiting);
    let scene = Scene::hooked(972, 2, &[&rules.flag()]).await;
    scene.app("job", graceful(30, 5));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(30).await;
    rules.write("rules: [{behavior: Ignore}]");
    scene.stage.pass(30).await;
    assert_eq!(scene.removals("job"), [], "the last good rules count");
    assert!((scene.sundown.metric("rules_file_bad") - 1.0).abs() < 0.1);
    rules.write("rules: []");
    let changed = scene.stage.clock.now();
    scene.completed(0, 60).await;
    assert!(between(changed, scene.evicted("job")) < 15.0);
    assert!(scene.sundown.metric("rules_file_bad") < 0.1);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_rule_of_a_new_node_label_counts_in_a_drain_that_has_begun() {
    let rules = Rules::new(
        "node-labels",
        "rules: [{match: {nodeLabels: zone-of-no-node}, behavior: Skip}, {behavior: WaitCompleted}]",
    );
    let scene = Scene::hooked(973, 2, &[&rules.flag()]).await;
    scene.stage.world.kube.edit("nodes", "", &scene.node(0), |node| {
        node["metadata"]["labels"]["pool"] = "batch".into();
    });
    scene.app("job", graceful(30, 5));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(30).await;
    assert_eq!(scene.removals("job"), []);
    rules.write(
        "rules: [{match: {nodeLabels: pool in (batch)}, behavior: Evict}, {behavior: WaitCompleted}]",
    );
    let changed = scene.stage.clock.now();
    scene.completed(0, 60).await;
    assert!(between(changed, scene.evicted("job")) < 15.0);
    scene.end().await;
}

impl Scene {
    /// Gives the namespace of the pods this label `team`.
    fn team(&self, team: &str) {
        self.stage.world.kube.edit("namespaces", "", "shop", |namespace| {
            namespace["metadata"]["labels"]["team"] = team.into();
        });
    }
}

const TEAM_WAITS: &str = "rules: [{match: {namespaceLabels: team=batch}, behavior: WaitCompleted}]";

#[tokio::test(start_paused = true)]
async fn a_rule_reads_the_labels_of_the_namespace_as_they_change() {
    let rules = Rules::new("namespace-labels", TEAM_WAITS);
    let scene = Scene::hooked(974, 2, &[&rules.flag()]).await;
    scene.app("job", graceful(30, 5));
    scene.team("batch");
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(30).await;
    assert_eq!(scene.removals("job"), [], "it waits");
    scene.team("web");
    let changed = scene.stage.clock.now();
    scene.completed(0, 120).await;
    assert!(between(changed, scene.evicted("job")) < 62.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_goes_after_three_seconds_if_the_namespaces_cannot_be_listed() {
    let rules = Rules::new("namespaces-denied", TEAM_WAITS);
    let scene = Scene::hooked(975, 2, &[&rules.flag()]).await;
    scene.app("job", graceful(30, 5));
    scene.team("batch");
    scene.stage.world.kube.deny("list", "namespaces");
    scene.stage.pass(5).await;
    let accepted = scene.terminate(0).await;
    scene.completed(0, 60).await;
    about(between(accepted, scene.evicted("job")), 3.0, 1.5);
    scene.end().await;
}
