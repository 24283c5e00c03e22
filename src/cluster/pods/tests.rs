#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;

use super::*;
use crate::{
    cluster::fake::{Fake, Fault, PODS, pod, settle},
    domain::{Phase, Wish, seconds},
};

fn feed(fake: &Fake, own_watches: usize) -> (PodFeed, PodEvents) {
    PodFeed::start(&fake.cluster(), PodFeedSettings { own_watches, ..PodFeedSettings::default() })
}

/// All events that come until none comes for `wait`, as short texts.
async fn received(events: &mut PodEvents, wait: Duration) -> Vec<String> {
    let mut all = Vec::new();
    while let Ok(Some((node, event))) = tokio::time::timeout(wait, events.next()).await {
        all.push(match event {
            PodEvent::Listed(pods) => {
                let names: Vec<_> = pods.iter().map(|p| p.key.name.as_str()).collect();
                format!("{node}: all {}", names.join(" "))
            }
            PodEvent::Changed(pod) => format!(
                "{node}: {}{}",
                pod.key.name,
                if pod.deletion.is_some() { " terminating" } else { "" }
            ),
            PodEvent::Gone(uid) => format!("{node}: gone {uid}"),
            PodEvent::Watching | PodEvent::Blind => continue,
        });
    }
    all
}

fn lists(fake: &Fake) -> Vec<String> {
    let lists = fake.seen().into_iter().filter(|s| s.is_list_of(PODS));
    lists
        .map(|s| s.query.get("fieldSelector").cloned().unwrap_or_else(|| "everything".to_owned()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_has_one_list_and_one_watch_of_its_own() {
    let fake = Fake::default();
    fake.put(PODS, pod("p1", "a"));
    fake.put(PODS, pod("p2", "b"));
    let (feed, mut events) = feed(&fake, 32);
    feed.attach(&"a".into());
    assert_eq!(received(&mut events, seconds(1)).await, ["a: all p1"]);
    let mut going = pod("p1", "a");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:01:00Z");
    fake.put(PODS, going);
    fake.put(PODS, pod("p3", "b"));
    fake.remove(PODS, "web/p1");
    assert_eq!(received(&mut events, seconds(1)).await, ["a: p1 terminating", "a: gone uid-p1"]);
    assert_eq!(lists(&fake), ["spec.nodeName=a"]);
    assert_eq!(fake.seen().len(), 2);
    feed.detach(&"a".into());
    settle().await;
    fake.put(PODS, pod("p4", "a"));
    assert!(received(&mut events, seconds(1)).await.is_empty());
    assert_eq!(fake.watches(), 0);
    drop(feed);
    assert!(events.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_read_as_the_drain_needs_it() {
    let fake = Fake::default();
    let mut odd = pod("p1", "a");
    odd["metadata"]["annotations"] = json!({
        "kubernetes.io/config.mirror": "x", "other": "y", "sundown.dev/drain": "wait"
    });
    odd["metadata"]["finalizers"] = json!(["example.com/wait"]);
    odd["spec"]["tolerations"] =
        json!([{"operator": "Exists"}, {"key": "sundown.dev/interruption", "operator": "Exists"}]);
    odd["spec"]["volumes"] = json!([
        {"name": "a", "emptyDir": {}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "b"}}
    ]);
    fake.put(PODS, odd);
    let mut bare = pod("p2", "a");
    bare["metadata"] =
        json!({"name": "p2", "namespace": "web", "uid": "u2", "annotations": null, "labels": null});
    bare["spec"] = json!({"nodeName": "a", "tolerations": [{"operator": "Exists"}]});
    bare["status"] = json!({});
    fake.put(PODS, bare);
    let mut damaged = pod("p3", "a");
    damaged["metadata"]["labels"] = json!("none");
    damaged["metadata"]["annotations"] = json!({"other": 1, "sundown.dev/drain": "skip"});
    damaged["status"] = json!([]);
    damaged["spec"]["volumes"] = json!([{"name": "a", "ephemeral": {}}]);
    fake.put(PODS, damaged);
    let (feed, mut events) = feed(&fake, 32);
    feed.attach(&"a".into());
    let Some((_, PodEvent::Listed(pods))) = events.next().await else {
        panic!("the list comes first")
    };
    let [p1, p2, p3] = &pods[..] else { panic!("a damaged pod is not skipped: {pods:?}") };
    assert!(
        p1.mirror && p1.finalizers && p1.tolerates_us && p1.ready && p1.phase == Phase::Running
    );
    assert_eq!(
        (p1.grace, p1.owner.as_ref().unwrap().kind.as_str(), p1.labels.get("app")),
        (seconds(20), "ReplicaSet", Some("web"))
    );
    let honored = [p1, p2, p3].map(|pod| pod.wishes.honored(&BTreeSet::new()));
    assert_eq!(
        honored.map(|it| it.map(|(_, wish)| wish)),
        [Some(Wish::Wait), None, Some(Wish::Skip)]
    );
    assert_eq!([p1.has_claims, p2.has_claims, p3.has_claims], [true, false, true]);
    assert!(!p2.mirror && !p2.finalizers && !p2.tolerates_us && !p2.ready && p2.owner.is_none());
    assert_eq!((p2.grace, p2.phase, p2.uid.as_str()), (seconds(30), Phase::Unknown, "u2"));
    assert_eq!(
        (p3.uid.as_str(), p3.grace, p3.phase, p3.labels.iter().count()),
        ("uid-p3", seconds(20), Phase::Unknown, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_deleted_while_the_watch_was_down_is_missing_in_the_next_list() {
    let fake = Fake::default();
    fake.put(PODS, pod("p1", "a"));
    fake.put(PODS, pod("p2", "a"));
    for own_watches in [1, 0] {
        let (feed, mut events) = feed(&fake, own_watches);
        fake.put(PODS, pod("p1", "a"));
        feed.attach(&"a".into());
        assert_eq!(received(&mut events, seconds(1)).await, ["a: all p1 p2"]);
        fake.freeze(true);
        fake.remove(PODS, "web/p1");
        fake.compact();
        fake.freeze(false);
        fake.cut(true);
        assert_eq!(received(&mut events, seconds(3)).await, ["a: all p2"], "{own_watches}");
        assert_eq!(feed.failing_since(&"a".into()), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_feed_that_fails_reports_since_when_and_recovers() {
    for own_watches in [1, 0] {
        let fake = Fake::default();
        let (feed, mut events) = feed(&fake, own_watches);
        let node = NodeName::from("a");
        feed.attach(&node);
        assert_eq!(received(&mut events, seconds(1)).await, ["a: all "]);
        assert_eq!(feed.failing_since(&node), None);
        fake.script(|_| Some(Fault::Broken));
        fake.cut(true);
        fake.put(PODS, pod("p1", "a"));
        fake.forget_requests();
        assert!(received(&mut events, Duration::from_mins(3)).await.is_empty());
        assert!(feed.failing_since(&node).is_some());
        assert!(feed.last_error(&node).unwrap().to_string().contains("connection refused"));
        assert!(fake.seen().len() < 50);
        fake.heal();
        assert_eq!(received(&mut events, seconds(11)).await, ["a: p1"], "{own_watches}");
        assert_eq!(feed.failing_since(&node), None);
        assert_eq!(feed.last_error(&node), None);
    }
}

#[tokio::test(start_paused = true)]
async fn opening_and_failing_of_the_watch_are_reported_once_and_in_order() {
    async fn words(events: &mut PodEvents, wait: Duration) -> Vec<&'static str> {
        let mut all = Vec::new();
        while let Ok(Some((_, event))) = tokio::time::timeout(wait, events.next()).await {
            all.push(match event {
                PodEvent::Listed(_) => "listed",
                PodEvent::Changed(_) => "changed",
                PodEvent::Gone(_) => "gone",
                PodEvent::Watching => "watching",
                PodEvent::Blind => "blind",
            });
        }
        all
    }
    for own_watches in [1, 0] {
        let fake = Fake::default();
        let (feed, mut events) = feed(&fake, own_watches);
        feed.attach(&"a".into());
        let begun = words(&mut events, seconds(1)).await;
        assert_eq!(
            (begun[0], begun[begun.len() - 1]),
            ("listed", "watching"),
            "{own_watches}: {begun:?}"
        );
        fake.script(|_| Some(Fault::Broken));
        fake.cut(true);
        assert_eq!(
            words(&mut events, Duration::from_mins(3)).await,
            ["blind"],
            "{own_watches}: reported once"
        );
        fake.put(PODS, pod("p1", "a"));
        fake.heal();
        assert_eq!(words(&mut events, seconds(11)).await, ["watching", "changed"], "{own_watches}");
        // A LIST that succeeds does not mean that the watch works.
        fake.script(|s| s.is_watch().then_some(Fault::Broken));
        fake.cut(true);
        feed.attach(&"a".into());
        let blind = words(&mut events, seconds(30)).await;
        assert!(!blind.contains(&"watching"), "{own_watches}: {blind:?}");
        assert!(feed.failing_since(&"a".into()).is_some());
        let since = feed.failing_since(&"a".into());
        feed.attach(&"a".into());
        assert_eq!(feed.failing_since(&"a".into()), since, "attaching again keeps the failure");
    }
}

#[tokio::test(start_paused = true)]
async fn beyond_the_threshold_nodes_share_one_watch_and_foreign_pods_are_dropped() {
    let fake = Fake::default();
    for n in 0..6 {
        fake.put(PODS, pod(&format!("p{n}"), &format!("n{n}")));
    }
    let (feed, mut events) = feed(&fake, 2);
    for n in 0..5 {
        feed.attach(&format!("n{n}").into());
    }
    let mut first = received(&mut events, seconds(1)).await;
    first.sort();
    assert_eq!(first, ["n0: all p0", "n1: all p1", "n2: all p2", "n3: all p3", "n4: all p4"]);
    assert_eq!(fake.watches(), 3, "two of their own, and the shared one");
    assert_eq!(lists(&fake).len(), 6, "one for each node, and one for the version to watch from");

    fake.put(PODS, pod("late", "n3"));
    fake.put(PODS, pod("foreign", "n5"));
    fake.put(
        PODS,
        json!({"metadata": {"name": "unscheduled", "namespace": "web", "uid": "u"}, "spec": {}}),
    );
    fake.remove(PODS, "web/p4");
    fake.remove(PODS, "web/p5");
    assert_eq!(received(&mut events, seconds(1)).await, ["n3: late", "n4: gone uid-p4"]);

    feed.attach(&"n5".into());
    assert_eq!(
        received(&mut events, seconds(1)).await,
        ["n5: all foreign"],
        "a node that is attached later gets its own list"
    );

    feed.detach(&"n0".into());
    feed.detach(&"n2".into());
    feed.detach(&"n4".into());
    assert!(received(&mut events, seconds(1)).await.is_empty());
    assert_eq!(fake.watches(), 2, "one of its own and the shared one, which still serves two");
    feed.detach(&"n1".into());
    feed.detach(&"n3".into());
    assert_eq!(received(&mut events, seconds(1)).await, [] as [&str; 0]);
    assert_eq!(fake.watches(), 1);
    feed.attach(&"n0".into());
    assert_eq!(received(&mut events, seconds(1)).await, ["n0: all p0"]);
    assert_eq!(fake.watches(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_last_few_nodes_of_the_shared_watch_get_watches_of_their_own() {
    let fake = Fake::default();
    let (feed, mut events) = feed(&fake, 4);
    for n in 0..6 {
        fake.put(PODS, pod(&format!("p{n}"), &format!("n{n}")));
        feed.attach(&format!("n{n}").into());
    }
    assert_eq!(received(&mut events, seconds(1)).await.len(), 6);
    assert_eq!(fake.watches(), 5);
    feed.detach(&"n4".into());
    feed.detach(&"n0".into());
    assert_eq!(
        received(&mut events, seconds(1)).await,
        ["n5: all p5"],
        "the node is listed again when it moves to its own watch"
    );
    assert_eq!(fake.watches(), 4);
    fake.remove(PODS, "web/p5");
    assert_eq!(received(&mut events, seconds(1)).await, ["n5: gone uid-p5"]);
}

#[tokio::test(start_paused = true)]
async fn changes_during_a_list_come_after_it_unless_the_list_already_shows_them() {
    let fake = Fake::default();
    fake.put(PODS, pod("p1", "a"));
    fake.put(PODS, pod("p2", "a"));
    let (feed, mut events) = feed(&fake, 0);
    feed.attach(&"b".into());
    assert_eq!(received(&mut events, seconds(1)).await, ["b: all "]);
    // The answer is made after three seconds, so it shows the first change and not the second.
    fake.script(|s| {
        s.query.contains_key("fieldSelector").then_some(Fault::Slow(Duration::from_secs(3)))
    });
    feed.attach(&"a".into());
    tokio::time::sleep(seconds(1)).await;
    fake.remove(PODS, "web/p1");
    assert_eq!(received(&mut events, seconds(5)).await, ["a: all p2"]);
    fake.heal();
    fake.remove(PODS, "web/p2");
    assert_eq!(received(&mut events, seconds(1)).await, ["a: gone uid-p2"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_is_tried_again_while_the_shared_watch_works() {
    let fake = Fake::default();
    fake.put(PODS, pod("p1", "a"));
    let (feed, mut events) = feed(&fake, 0);
    feed.attach(&"b".into());
    assert_eq!(received(&mut events, seconds(1)).await, ["b: all "]);
    fake.script(|s| {
        s.query.contains_key("fieldSelector").then(|| Fault::Answer(503, None, String::new()))
    });
    feed.attach(&"a".into());
    assert!(received(&mut events, seconds(20)).await.is_empty());
    assert!(feed.failing_since(&"a".into()).is_some());
    assert_eq!(feed.failing_since(&"b".into()), None);
    fake.put(PODS, pod("p2", "a"));
    fake.heal();
    assert_eq!(received(&mut events, seconds(11)).await, ["a: all p1 p2"]);
    assert_eq!(feed.failing_since(&"a".into()), None);
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_nodes_at_once_are_all_listed() {
    let fake = Fake::default();
    let (feed, mut events) = feed(&fake, 32);
    fake.script(|s| (!s.is_watch()).then_some(Fault::Slow(Duration::from_millis(20))));
    for n in 0..300 {
        fake.put(PODS, pod(&format!("p{n}"), &format!("n{n}")));
        feed.attach(&format!("n{n}").into());
    }
    assert_eq!(received(&mut events, seconds(2)).await.len(), 300);
    assert_eq!(fake.watches(), 33);
}

#[tokio::test(start_paused = true)]
async fn nodes_whose_lists_fail_do_not_hold_up_the_others() {
    let fake = Fake::default();
    let (feed, mut events) = feed(&fake, 0);
    fake.put(PODS, pod("p", "last"));
    fake.script(|s| {
        let failing = s.query.get("fieldSelector").is_some_and(|of| of != "spec.nodeName=last");
        failing.then(|| Fault::Answer(503, Some("60"), String::new()))
    });
    // More nodes than are listed at once.
    let failing: Vec<NodeName> = (0..200).map(|n| format!("n{n}").as_str().into()).collect();
    for node in &failing {
        feed.attach(node);
    }
    feed.attach(&"last".into());
    assert_eq!(received(&mut events, seconds(1)).await, ["last: all p"]);
    // Detaching nodes or attaching them again meanwhile changes nothing.
    feed.detach(&failing[0]);
    feed.attach(&failing[1]);
    feed.detach(&"last".into());
    feed.attach(&"last".into());
    assert_eq!(received(&mut events, seconds(1)).await, ["last: all p"]);
    fake.heal();
    assert_eq!(received(&mut events, Duration::from_mins(2)).await.len(), 199);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_keep_coming_do_not_hold_up_the_watch_over_the_cluster() {
    let fake = Fake::default();
    fake.put(PODS, pod("p1", "n0"));
    fake.script(|s| s.is_list_of(PODS).then_some(Fault::Slow(Duration::from_millis(500))));
    let (feed, mut events) = feed(&fake, 0);
    let attaching = tokio::spawn(async move {
        for n in 0..60 {
            feed.attach(&NodeName::from(format!("n{n}").as_str()));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        feed
    });
    let first = tokio::time::timeout(seconds(2), events.next()).await;
    let (node, event) = first.expect("the first node is listed while others come").unwrap();
    assert!(node.as_str() == "n0" && matches!(event, PodEvent::Listed(pods) if pods.len() == 1));
    let watched = lists(&fake).iter().filter(|list| *list == "everything").count();
    assert_eq!(watched, 1, "no LIST is given up and begun again");
    drop(attaching.await.unwrap());
}
