//! A real scrape against what alerts and the dashboard ask for.

use crate::{expressions, stage::Stage};

fn read(file: &str) -> String {
    std::fs::read_to_string(format!("{}/deploy/helm/sundown/files/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_has_done_nothing_yet_has_every_series_that_is_asked_for() {
    let stage = Stage::new(15).await;
    stage.group(1);
    let mut sundown = stage.leader("sundown", &[]).await;
    let (_, scrape) = sundown.get("/metrics").await;
    assert_eq!(expressions::misses(&scrape, &read("rules.yaml"), &read("dashboard.json")), Vec::<String>::new());
    for condition in ["nodes", "budgets", "queue", "lease", "receiving"] {
        assert_eq!(sundown.metric(&format!("ready{{condition=\"{condition}\"}}")).await.to_string(), "1", "{condition}");
    }
    for object in ["watch_nodes", "watch_budgets"] {
        assert_eq!(sundown.metric(&format!("watch_stale_seconds{{object=\"{object}\"}}")).await.to_string(), "0", "{object}");
    }
}
