#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use serde_json::json;

use super::*;
use crate::{
    cluster::{
        Outcome, PodFeed, PodFeedSettings, Settings,
        fake::{Counter, Fake, Fault, NODES, PODS, node, settle, status},
        lease::WriteGuard,
    },
    domain::{Annotations, Ready, Selector},
};

const A: &str = "i-1234567890abcdef0";
const B: &str = "i-1234567890abcdef1";

fn id(text: &str) -> InstanceId {
    text.parse().unwrap()
}

fn keep() -> KeepLabels {
    KeepLabels::of(&"pool=blue".parse::<Selector>().unwrap())
}

fn aws(instance: &str) -> String {
    format!("aws:///eu-west-1a/{instance}")
}

async fn started(fake: &Fake) -> NodeIndex {
    let index = NodeIndex::start(&fake.cluster(), keep());
    tokio::time::timeout(Duration::from_secs(5), index.synced()).await.unwrap();
    settle().await;
    index
}

fn names(nodes: &[Arc<Node>]) -> Vec<&str> {
    nodes.iter().map(|n| n.name.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn c40_nodes_are_found_by_either_form_of_provider_id() {
    let fake = Fake::default();
    fake.put(NODES, node("a", &aws(A)));
    fake.put(NODES, node("b", &format!("aws://{B}")));
    fake.put(NODES, node("c", ""));
    fake.put(
        NODES,
        node("d", "aws:///eu-west-1a/3f2a-fargate-ip-10-0-0-7.eu-west-1.compute.internal"),
    );
    let index = started(&fake).await;
    assert_eq!(names(&index.without_instance()), ["c"], "a Fargate node has no instance");
    assert_eq!(names(&index.by_instance(&id(A))), ["a"]);
    assert_eq!(names(&index.by_instance(&id(B))), ["b"]);
    assert!(index.by_instance(&id("i-00000000000000000")).is_empty());
    assert!(index.state().is_sound());
    assert_eq!(names(&index.all()), ["a", "b", "c", "d"]);
    let known = index.get(&"a".into()).unwrap();
    assert_eq!(
        (known.ready, known.boot_id.as_deref(), known.dns.as_deref()),
        (Ready::True, Some("boot-1"), Some("a.ec2.internal"))
    );
    assert_eq!(
        known.labels.keys().collect::<Vec<_>>(),
        ["pool"],
        "only labels that were asked for are kept"
    );
    assert_eq!(known.annotations, Annotations::from_iter([("sundown.dev/pause", "true")]));
    assert_eq!(known.taints.len(), 1);
    assert_eq!(known.taints[0].time_added.as_deref(), Some("2026-01-01T00:00:00Z"));
}

/// Without sharing, the labels of five thousand Nodes (zone, type, group) would take more memory
/// than the rest of the Nodes.
#[tokio::test(start_paused = true)]
async fn nodes_with_the_same_labels_share_them() {
    let fake = Fake::default();
    for (name, pool) in [("a", "blue"), ("b", "blue"), ("c", "green")] {
        let mut node = node(name, "");
        node["metadata"]["labels"]["pool"] = pool.into();
        fake.put(NODES, node);
    }
    let index = started(&fake).await;
    let labels = |name: &str| Arc::clone(&index.get(&name.into()).unwrap().labels);
    assert!(Arc::ptr_eq(&labels("a"), &labels("b")) && !Arc::ptr_eq(&labels("a"), &labels("c")));
    assert_eq!((labels("b")["pool"].as_str(), labels("c")["pool"].as_str()), ("blue", "green"));
}

#[tokio::test(start_paused = true)]
async fn two_nodes_of_one_instance_are_both_found() {
    let fake = Fake::default();
    fake.put(NODES, node("a", &aws(A)));
    fake.put(NODES, node("b", &aws(A)));
    let index = started(&fake).await;
    assert_eq!(names(&index.by_instance(&id(A))), ["a", "b"]);
    fake.remove(NODES, "a");
    settle().await;
    assert_eq!(names(&index.by_instance(&id(A))), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_large_cluster_is_read_in_pages() {
    let fake = Fake::default();
    for n in 0..250 {
        fake.put(NODES, node(&format!("n{n:03}"), &format!("aws:///z/i-{n:017x}")));
    }
    let index = started(&fake).await;
    assert_eq!(index.all().len(), 250);
    assert_eq!(fake.seen().iter().filter(|s| s.is_list_of(NODES)).count(), 3);
}

#[tokio::test(start_paused = true)]
async fn followers_get_every_change_once_but_no_change_of_only_the_version() {
    let fake = Fake::default();
    fake.put(NODES, node("a", &aws(A)));
    let index = started(&fake).await;
    let mut changes = index.subscribe();
    assert!(matches!(changes.next().await, Some(Change::Applied { before: None, .. })));
    let mut busy = node("a", &aws(A));
    busy["status"]["images"] = json!([]);
    let written = fake.put(NODES, busy.clone());
    settle().await;
    assert_eq!(changes.try_next(), None);
    assert_eq!(
        index.get(&"a".into()).unwrap().resource_version,
        written["metadata"]["resourceVersion"].as_str().unwrap()
    );

    busy["spec"]["unschedulable"] = json!(true);
    fake.put(NODES, busy.clone());
    busy["metadata"]["annotations"]["sundown.dev/ignore"] = json!("true");
    fake.put(NODES, busy);
    settle().await;
    let Some(Change::Applied { now, before: Some(before) }) = changes.try_next() else {
        panic!("two changes come as one")
    };
    assert!(now.unschedulable && now.ignored() && !before.unschedulable);
    assert_eq!(changes.try_next(), None);

    fake.remove(NODES, "a");
    let mut again = node("a", &aws(B));
    again["metadata"]["uid"] = json!("another");
    fake.put(NODES, again);
    settle().await;
    assert!(
        matches!(changes.try_next(), Some(Change::Deleted { last, .. }) if last.uid == "uid-a")
    );
    assert!(matches!(
        changes.try_next(), Some(Change::Applied { now, before: None }) if now.uid == "another"
    ));
    drop(index);
    assert_eq!(tokio::time::timeout(Duration::from_secs(1), changes.next()).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_was_cut_continues_where_it_stopped() {
    let fake = Fake::default();
    fake.put(NODES, node("a", &aws(A)));
    let index = started(&fake).await;
    for broken in [true, false] {
        fake.cut(broken);
        fake.put(NODES, node(&format!("b-{broken}"), &aws(B)));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(index.get(&format!("b-{broken}").into()).is_some());
        assert!(index.state().is_sound());
    }
    assert_eq!(
        fake.seen().iter().filter(|s| s.is_list_of(NODES)).count(),
        1,
        "nothing was listed again"
    );
}

#[tokio::test(start_paused = true)]
async fn after_a_410_objects_that_vanished_meanwhile_are_reported_as_deleted() {
    let fake = Fake::default();
    fake.put(NODES, node("a", &aws(A)));
    fake.put(NODES, node("b", &aws(B)));
    let index = started(&fake).await;
    let mut changes = index.subscribe();
    while changes.try_next().is_some() {}
    fake.freeze(true);
    fake.remove(NODES, "a");
    fake.compact();
    fake.freeze(false);
    fake.cut(true);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(matches!(
        changes.try_next(),
        Some(Change::Deleted { last, before: None }) if last.name.as_str() == "a"
    ));
    assert_eq!(changes.try_next(), None);
    assert!(index.by_instance(&id(A)).is_empty());
    assert!(index.state().is_sound());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_for_minutes_is_tried_slowly_until_it_answers_again() {
    let fake = Fake::default();
    fake.put(NODES, node("a", &aws(A)));
    let index = started(&fake).await;
    fake.forget_requests();
    fake.script(|_| Some(Fault::Broken));
    fake.cut(true);
    let cut = index.0.cluster.clock().now();
    tokio::time::sleep(Duration::from_mins(10)).await;
    let calls = fake.seen().len();
    assert!((60..=150).contains(&calls), "{calls} calls in ten minutes");
    let since = index.state().failing_since.unwrap();
    assert!(index.state().synced && !index.state().is_sound());
    assert!(since.duration_since(cut).as_secs() < 1, "failing_since stays at the first failure");
    fake.heal();
    fake.put(NODES, node("b", &aws(B)));
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(index.state().is_sound());
    assert_eq!(names(&index.by_instance(&id(B))), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_on_a_dead_connection_is_noticed_and_reopened() {
    let fake = Fake::default();
    fake.freeze(true);
    let index = started(&fake).await;
    fake.put(NODES, node("a", &aws(A)));
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert!(index.get(&"a".into()).is_none());
    fake.freeze(false);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(index.get(&"a".into()).is_some(), "noticed when the watch should have ended");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_cut_at_once_each_time_does_not_loop_without_pauses() {
    let fake = Fake::default();
    let index = started(&fake).await;
    fake.forget_requests();
    for _ in 0..6000 {
        fake.cut(false);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(fake.seen().len() < 30, "{} calls in a minute", fake.seen().len());
    assert!(index.state().failing_since.is_some() || fake.watches() == 1);
}

#[tokio::test(start_paused = true)]
async fn after_any_refusal_of_the_list_the_index_is_failing_and_requests_are_few() {
    for code in [401, 403, 429, 500, 503] {
        let fake = Fake::default();
        fake.script(move |_| Some(Fault::Answer(code, None, status(code, "No", "no").to_string())));
        let index = NodeIndex::start(&fake.cluster(), keep());
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert!(index.state().failing_since.is_some() && !index.state().synced, "{code}");
        assert!(fake.seen().len() < 40, "{code}: {} calls", fake.seen().len());
        fake.heal();
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert!(index.state().is_sound(), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_delays_no_other_and_does_not_look_deleted() {
    let fake = Fake::default();
    let counter = Arc::new(Counter::default());
    fake.put(NODES, node("a", &aws(A)));
    fake.put(NODES, json!({"metadata": {"name": "bad"}, "spec": 7}));
    let index = NodeIndex::start(
        &fake.cluster_with(counter.clone(), WriteGuard::open(), Settings::default()),
        keep(),
    );
    index.synced().await;
    settle().await;
    assert_eq!(names(&index.all()), ["a"]);
    let mut damaged = node("a", &aws(A));
    damaged["spec"]["taints"] = json!("none");
    fake.put(NODES, damaged);
    fake.put(NODES, node("b", &aws(B)));
    settle().await;
    assert_eq!(names(&index.all()), ["a", "b"], "later events are read");
    assert_eq!(*counter.1.lock().unwrap(), 2);
    fake.compact();
    fake.cut(true);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(names(&index.all()), ["a", "b"], "the damaged Node stays as it was last read");
    fake.send_line(NODES, &json!("nonsense"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(index.state().is_sound());
    let error = index.list_fresh().await.unwrap_err();
    assert_eq!(error.problem, Problem::Unreadable, "the LIST cannot prove that a Node is missing");
}

#[tokio::test(start_paused = true)]
async fn our_own_write_is_in_the_index_at_once_and_an_older_event_does_not_undo_it() {
    let fake = Fake::default();
    fake.put(NODES, node("a", &aws(A)));
    let index = started(&fake).await;
    fake.freeze(true);
    let name = NodeName::from("a");
    let version = index.get(&name).unwrap().resource_version.clone();
    let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"unschedulable": true}});
    let written = index.patch(&name, &patch).await.unwrap();
    assert!(written.unschedulable);
    assert_eq!(*index.get(&name).unwrap(), written);
    let request = fake.seen().into_iter().find(|s| s.method == http::Method::PATCH).unwrap();
    assert_eq!(request.headers.get("content-type").unwrap(), "application/merge-patch+json");
    assert_eq!(request.body, patch);

    let mut old = node("a", &aws(A));
    old["metadata"]["resourceVersion"] = json!(version);
    old["metadata"]["annotations"] = json!({});
    fake.send_line(NODES, &json!({"type": "MODIFIED", "object": old}));
    settle().await;
    assert_eq!(*index.get(&name).unwrap(), written);

    let error = index.patch(&name, &patch).await.unwrap_err();
    assert_eq!(error.problem, Problem::Conflict);
    assert_eq!(
        error.to_string(),
        "cannot patch node a: the API server answered 409: Conflict: the object has been modified"
    );
    assert_eq!(index.patch(&"none".into(), &patch).await.unwrap_err().problem, Problem::NotFound);
    assert_eq!(index.fetch(&"none".into()).await, Ok(None));
    assert_eq!(index.fetch(&name).await, Ok(Some(written)));
}

#[tokio::test(start_paused = true)]
async fn calls_within_a_second_share_one_fresh_list() {
    let fake = Fake::default();
    fake.put(NODES, node("a", &aws(A)));
    let index = started(&fake).await;
    fake.forget_requests();
    fake.script(|_| Some(Fault::Slow(Duration::from_millis(300))));
    let lists = |n: usize| futures::future::join_all((0..n).map(|_| index.list_fresh()));
    for result in lists(50).await {
        assert_eq!(names(&result.unwrap()), ["a"]);
    }
    assert_eq!(fake.seen().len(), 1);
    assert!(!fake.seen()[0].query.contains_key("resourceVersion"), "not from a cache");
    tokio::time::sleep(Duration::from_secs(2)).await;
    lists(3).await;
    assert_eq!(fake.seen().len(), 2);
    fake.script(|_| Some(Fault::Broken));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(
        lists(9).await.iter().all(|r| r.as_ref().is_err_and(|e| e.problem == Problem::Unreachable))
    );
    assert_eq!(fake.seen().len(), 3, "an error is shared too");
}

#[tokio::test(start_paused = true)]
async fn a_fresh_list_does_not_wait_for_lists_of_pods() {
    let fake = Fake::default();
    fake.put(NODES, node("a", &aws(A)));
    let cluster = fake.cluster();
    let index = NodeIndex::start(&cluster, keep());
    index.synced().await;
    fake.script(|s| s.is_list_of(PODS).then_some(Fault::Hang));
    let (feed, _events) = PodFeed::start(&cluster, PodFeedSettings::default());
    (0..32).for_each(|n| feed.attach(&format!("n{n}").into()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begun = tokio::time::Instant::now();
    assert_eq!(names(&index.list_fresh().await.unwrap()), ["a"]);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn each_answer_is_mapped_to_its_problem() {
    let fake = Fake::default();
    let counter = Arc::new(Counter::default());
    let cluster = fake.cluster_with(counter.clone(), WriteGuard::open(), Settings::default());
    let budget = json!({"kind": "Status", "code": 429, "details": {"causes": [{
        "reason": "DisruptionBudget", "message":
        "needs 2"}]}})
    .to_string();
    let json = |code| status(code, "R", "m").to_string();
    let denied = status(
        403,
        "Forbidden",
        "nodes \"a\" is forbidden: User \"u\" cannot patch resource \"nodes\"",
    )
    .to_string();
    let index = NodeIndex::start(&cluster, keep());
    index.synced().await;
    for (code, header, body, problem) in [
        (401, None, json(401), Problem::Unauthorized),
        (403, None, denied, Problem::Forbidden),
        (403, None, json(403), Problem::NotAdmitted),
        (409, None, json(409), Problem::Conflict),
        (410, None, json(410), Problem::Expired),
        (422, None, json(422), Problem::Invalid),
        (400, None, String::new(), Problem::Invalid),
        (429, None, budget, Problem::Refused),
        (
            429,
            Some("7"),
            "Too many requests, please try again later.".to_owned(),
            Problem::Overload { retry_after: Some(Duration::from_secs(7)) },
        ),
        (429, None, json(429), Problem::Overload { retry_after: None }),
        (500, None, json(500), Problem::Server),
        (503, Some("soon"), "<html>".to_owned(), Problem::Server),
        (504, None, json(504), Problem::Server),
    ] {
        fake.script(move |s| {
            (s.method == http::Method::PATCH).then(|| Fault::Answer(code, header, body.clone()))
        });
        let error = index.patch(&"a".into(), &json!({})).await.unwrap_err();
        assert_eq!((error.problem, error.answer.code), (problem, code));
        assert_eq!(
            counter.0.lock().unwrap().last().unwrap(),
            &(Target::PatchNode, Outcome::Failed(problem))
        );
    }
    fake.script(|s| (s.method == http::Method::PATCH).then_some(Fault::Hang));
    let begun = Instant::now();
    assert_eq!(
        index.patch(&"a".into(), &json!({})).await.unwrap_err().problem,
        Problem::Unreachable
    );
    assert_eq!(begun.elapsed(), Duration::from_secs(10));
    fake.script(|s| {
        (s.method == http::Method::PATCH).then(|| Fault::Answer(200, None, "{".to_owned()))
    });
    assert_eq!(
        index.patch(&"a".into(), &json!({})).await.unwrap_err().problem,
        Problem::Unreadable
    );
}
