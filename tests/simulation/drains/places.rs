//! Figures by group, zone and instance type.

use sundown::sim::kube::BudgetSpec;

use super::{Scene, graceful};

impl Scene {
    /// The figures of a family that are not 0, without the series of no known place: labels and
    /// value.
    fn by_place(&self, family: &str) -> Vec<String> {
        let text = self.sundown.metrics.render().unwrap();
        let start = format!("sundown_{family}");
        text.lines()
            .filter_map(|line| line.strip_prefix(&start))
            .filter(|rest| !rest.ends_with(" 0"))
            .map(str::to_owned)
            .collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_is_counted_where_its_node_is() {
    let scene = Scene::hooked(195, 2, &[]).await;
    scene.pod(0, "web-0", graceful(5, 2));
    scene.stage.pass(5).await;
    let labels = scene.stage.node(&scene.instances[0])["metadata"]["labels"].clone();
    let (zone, kind) = (
        labels["topology.kubernetes.io/zone"].as_str().unwrap(),
        labels["node.kubernetes.io/instance-type"].as_str().unwrap(),
    );
    let place =
        format!("{{kind=\"terminate-hook\",group=\"asg\",zone=\"{zone}\",type=\"{kind}\"}} 1");
    scene.terminate(0).await;
    scene.stage.pass(2).await;
    for family in ["interruptions_by_group_total", "drains_started_by_group_total"] {
        assert_eq!(scene.by_place(family), [place.as_str()], "{family}");
    }
    assert_eq!(scene.by_place("drains_ended_by_group_total"), [""; 0]);
    scene.completed(0, 120).await;
    scene.stage.pass(5).await;
    assert_eq!(scene.by_place("drains_ended_by_group_total"), [place.as_str()]);
    assert_eq!(
        scene.by_place("drain_duration_by_group_seconds_count"),
        ["{kind=\"terminate-hook\",group=\"asg\"} 1"]
    );
    assert_eq!(scene.by_place("deadline_misses_by_group_total"), [""; 0]);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_is_missed_is_counted_where_the_node_is_and_as_a_whole_alike() {
    // No hook names the group: the node's label does.
    let scene = Scene::spot(196, 2, &["--force-after", "never"]).await;
    scene.pod(0, "web-0", graceful(5, 2));
    scene.stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "web").max(0));
    scene.stage.pass(5).await;
    scene.notice(0).await;
    scene.stage.pass(2).await;
    // Its series is there before the miss: the step from 0 can be seen.
    let misses = |text: &str| {
        text.lines().any(|l| {
            l.starts_with("sundown_deadline_misses_by_group_total{kind=\"spot\",group=\"spot\",")
                && l.ends_with(" 0")
        })
    };
    assert!(misses(&scene.sundown.metrics.render().unwrap()));
    scene.stage.pass(125).await;
    let told = scene.by_place("deadline_misses_by_group_total");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("{kind=\"spot\",group=\"spot\",zone=\"eu-west-1")
            && told[0].ends_with(" 1"),
        "{told:?}"
    );
    assert_eq!(scene.sundown.metric("deadline_misses_total").to_string(), "1");
    scene.end().await;
}
