#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::cluster::{
    Target,
    fake::{Fake, NODES, node, settle, status},
};

struct Names;

impl Decode for Names {
    type Object = String;

    fn decode(&self, json: &str) -> Result<Decoded<String>, serde_json::Error> {
        let value: Value = serde_json::from_str(json)?;
        Ok(Decoded::Whole(value["metadata"]["name"].as_str().unwrap_or_default().to_owned()))
    }
}

fn nodes() -> Collection {
    Collection {
        path: NODES,
        fields: None,
        listed: true,
        list: Target::ListNodes,
        watch: Target::WatchNodes,
        object: String::new(),
    }
}

/// Lists the Nodes and opens the watch.
async fn opened(fake: &Fake) -> ListWatch<Names> {
    let mut watch = ListWatch::new(&fake.cluster(), nodes(), Names);
    assert!(matches!(watch.next().await, Signal::Listing));
    assert!(matches!(watch.next().await, Signal::Listed(_)));
    assert!(matches!(watch.next().await, Signal::Watching));
    watch
}

fn opened_from(fake: &Fake) -> Vec<String> {
    fake.seen()
        .iter()
        .filter(|s| s.is_watch())
        .map(|s| s.query["resourceVersion"].clone())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_moves_the_version_from_which_a_watch_continues() {
    let fake = Fake::default();
    fake.put(NODES, node("a", ""));
    let mut watch = opened(&fake).await;
    fake.send_line(
        NODES,
        &json!({
            "type": "BOOKMARK", "object": {"kind": "Node", "metadata": {"resourceVersion": "77"}}
        }),
    );
    fake.send_line(NODES, &json!({"type": "SOMETHING_NEW", "object": {"metadata": {}}}));
    // Neither event gives a signal, and the watch is opened again when its time is over.
    assert!(matches!(watch.next().await, Signal::Watching));
    assert_eq!(opened_from(&fake), ["1", "77"]);
    assert_eq!(fake.seen()[1].query["allowWatchBookmarks"], "true");
}

#[tokio::test(start_paused = true)]
async fn an_error_in_the_stream_is_reported_as_failing_and_only_a_410_causes_a_new_list() {
    let fake = Fake::default();
    fake.put(NODES, node("a", ""));
    let mut watch = opened(&fake).await;
    for line in [
        json!({"type": "ERROR", "object": status(500, "InternalError", "etcd")}),
        json!({"type": "ERROR", "object": {}}),
        status(429, "TooManyRequests", "slow"),
    ] {
        fake.send_line(NODES, &line);
        assert!(matches!(watch.next().await, Signal::Failing(_)), "{line}");
        assert!(matches!(watch.next().await, Signal::Watching), "{line}");
    }
    fake.send_line(NODES, &json!({"type": "ERROR", "object": status(410, "Expired", "too old")}));
    assert!(
        matches!(watch.next().await, Signal::Failing(error) if error.problem == Problem::Expired)
    );
    assert!(matches!(watch.next().await, Signal::Listing));
}

#[tokio::test(start_paused = true)]
async fn dropping_a_wait_loses_no_signal() {
    let fake = Fake::default();
    let mut watch = opened(&fake).await;
    for n in 0..20 {
        assert!(tokio::time::timeout(Duration::from_millis(10), watch.next()).await.is_err());
        fake.put(NODES, node(&format!("n{n}"), ""));
        settle().await;
        assert!(matches!(watch.next().await, Signal::Applied(_, name) if name == format!("n{n}")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_costs_one_request_a_minute() {
    let fake = Fake::default();
    let mut watch = opened(&fake).await;
    fake.forget_requests();
    let hour = tokio::time::timeout(Duration::from_hours(1), async {
        loop {
            assert!(matches!(watch.next().await, Signal::Watching));
        }
    });
    assert!(hour.await.is_err());
    assert!((58..=68).contains(&fake.seen().len()), "{}", fake.seen().len());
}
