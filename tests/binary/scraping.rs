//! A real scrape against what alerts and the dashboard ask for.

use crate::{expressions, stage::Stage};

fn read(file: &str) -> String {
    std::fs::read_to_string(format!(
        "{}/deploy/helm/sundown/files/{file}",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_has_done_nothing_yet_has_every_series_that_is_asked_for() {
    let stage = Stage::new(15).await;
    stage.group(1);
    let dead = stage.world.aws.create_queue("dead", sundown::sim::aws::QueueSettings::default());
    let mut sundown = stage.leader("sundown", &["--dlq-url", &dead]).await;
    sundown.counts("dlq_messages{queue=\"dead\"}", 0.0).await;
    let (_, scrape) = sundown.get("/metrics").await;
    assert_eq!(
        expressions::misses(&scrape, &read("rules.yaml"), &read("dashboard.json")),
        Vec::<String>::new()
    );
    // They are looked at once a second.
    for condition in ["nodes", "budgets", "queue", "lease", "receiving"] {
        sundown.counts(&format!("ready{{condition=\"{condition}\"}}"), 1.0).await;
    }
    for object in ["watch_nodes", "watch_budgets"] {
        let series = format!("sundown_watch_stale_seconds{{object=\"{object}\"}} ");
        let is_fresh =
            |line: &str| line.strip_prefix(&series).is_some_and(|value| value.parse() == Ok(0.0));
        sundown
            .answers("/metrics", &format!("{object} is not stale"), |_, text| {
                text.lines().any(is_fresh)
            })
            .await;
    }
}
