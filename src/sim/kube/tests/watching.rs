use futures::{StreamExt, TryStreamExt};
use kube::{
    api::{Patch, PatchParams, WatchEvent, WatchParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;

use super::{
    super::{Expired, Match},
    *,
};

fn label(event: &WatchEvent<Node>) -> String {
    match event {
        WatchEvent::Added(n) => format!("+{}", n.metadata.name.clone().unwrap()),
        WatchEvent::Modified(n) => format!("~{}", n.metadata.name.clone().unwrap()),
        WatchEvent::Deleted(n) => format!("-{}", n.metadata.name.clone().unwrap()),
        WatchEvent::Bookmark(_) => "bookmark".into(),
        WatchEvent::Error(e) => format!("error {}", e.code),
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_replays_what_happened_since_and_goes_on() {
    let kube = with_nodes(1);
    settle().await;
    let from = kube.revision().to_string();
    kube.add_node(&NodeSpec::named("n1"));
    kube.delete_node("n0");
    let events = nodes(&kube).watch(&WatchParams::default(), &from).await.unwrap();
    let mut events = std::pin::pin!(events);
    assert_eq!(label(&events.next().await.unwrap().unwrap()), "+n1");
    assert_eq!(label(&events.next().await.unwrap().unwrap()), "-n0");
    nodes(&kube)
        .patch(
            "n1",
            &PatchParams::default(),
            &Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } })),
        )
        .await
        .unwrap();
    let event = events.next().await.unwrap().unwrap();
    assert_eq!(label(&event), "~n1");
}

#[tokio::test(start_paused = true)]
async fn a_watch_brings_bookmarks_and_ends_by_its_timeout() {
    let kube = with_nodes(1);
    settle().await;
    let from = kube.revision().to_string();
    let events = nodes(&kube).watch(&WatchParams::default().timeout(100), &from).await.unwrap();
    let start = tokio::time::Instant::now();
    let all: Vec<_> = events.map_ok(|e| label(&e)).try_collect().await.unwrap();
    // One a minute, and one when the time is nearly over.
    assert_eq!(all, ["bookmark", "bookmark"]);
    assert_eq!(start.elapsed().as_secs(), 100);
    assert!(kube.open_watches().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_watch_reports_objects_that_begin_or_cease_to_match_as_added_or_deleted() {
    let kube = with_nodes(1);
    settle().await;
    let from = kube.revision().to_string();
    let events = nodes(&kube).watch(&WatchParams::default().labels("a=b"), &from).await.unwrap();
    let mut events = std::pin::pin!(events);
    for value in ["b", "c"] {
        let patch = json!({ "metadata": { "labels": { "a": value } } });
        nodes(&kube).patch("n0", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
    assert_eq!(label(&events.next().await.unwrap().unwrap()), "+n0");
    assert_eq!(label(&events.next().await.unwrap().unwrap()), "-n0");
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_resource_version_is_410_in_either_shape() {
    for expired in [Expired::Event, Expired::Status] {
        let kube = cluster_with(Options { expired, ..Options::default() });
        kube.add_node(&NodeSpec::named("n0"));
        settle().await;
        let from = kube.revision().to_string();
        kube.add_node(&NodeSpec::named("n1"));
        kube.compact();
        let answer = nodes(&kube).watch(&WatchParams::default(), &from).await;
        match expired {
            Expired::Event => {
                let all: Vec<_> =
                    answer.unwrap().map_ok(|e| label(&e)).try_collect().await.unwrap();
                assert_eq!(all, ["error 410"]);
            }
            Expired::Status => assert_eq!(status(answer.err().unwrap()).code, 410),
        }
        let now = kube.revision().to_string();
        let fresh = nodes(&kube).watch(&WatchParams::default().timeout(5), &now).await.unwrap();
        let heard: Vec<_> = fresh.map_ok(|e| label(&e)).try_collect().await.unwrap();
        assert_eq!(heard, ["bookmark"]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_clients_watcher_survives_cuts_and_compaction() {
    let kube = with_nodes(3);
    let stream =
        watcher(nodes(&kube), watcher::Config::default()).default_backoff().applied_objects();
    let mut stream = std::pin::pin!(stream);
    for _ in 0..3 {
        stream.next().await.unwrap().unwrap();
    }
    kube.cut_watches(&Match::all());
    kube.add_node(&NodeSpec::named("n3"));
    let name = stream.next().await.unwrap().unwrap().metadata.name.unwrap();
    assert_eq!(name, "n3");
    kube.break_watches(&Match::all());
    kube.add_node(&NodeSpec::named("n4"));
    kube.compact();
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 5 {
        if let Ok(node) = stream.next().await.unwrap() {
            seen.insert(node.metadata.name.unwrap());
        }
    }
    assert!(seen.contains("n4"));
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_ends_with_a_bookmark() {
    let kube = with_nodes(2);
    let stream = watcher(nodes(&kube), watcher::Config::default().streaming_lists());
    let mut stream = std::pin::pin!(stream);
    let mut kinds = Vec::new();
    for _ in 0..4 {
        kinds.push(match stream.next().await.unwrap().unwrap() {
            watcher::Event::Init => "init",
            watcher::Event::InitApply(_) => "node",
            watcher::Event::InitDone => "done",
            _ => "other",
        });
    }
    assert_eq!(kinds, ["init", "node", "node", "done"]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_neither_sends_events_nor_ends() {
    let kube = with_nodes(1);
    let from = kube.revision().to_string();
    let events = nodes(&kube).watch(&WatchParams::default().timeout(30), &from).await.unwrap();
    let mut events = std::pin::pin!(events);
    kube.silence_watches(&Match::of("watch", "nodes"));
    kube.add_node(&NodeSpec::named("n1"));
    while let Ok(event) = tokio::time::timeout(Duration::from_mins(10), events.next()).await {
        assert_ne!(label(&event.unwrap().unwrap()), "+n1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_one_nodes_pods_gets_only_their_events() {
    let kube = with_nodes(2);
    settle().await;
    let from = kube.revision().to_string();
    let api: Api<Pod> = Api::all(kube.client());
    let events = api
        .watch(&WatchParams::default().fields("spec.nodeName=n1").timeout(20), &from)
        .await
        .unwrap();
    kube.add_pod(&PodSpec::on("n0", "shop", "a"));
    kube.add_pod(&PodSpec::on("n1", "shop", "b"));
    kube.remove("pods", "shop", "b");
    let all: Vec<_> = events.try_collect().await.unwrap();
    assert!(
        matches!(&all[..], [WatchEvent::Added(_), WatchEvent::Deleted(_), WatchEvent::Bookmark(_)]),
        "{all:?}"
    );
}
