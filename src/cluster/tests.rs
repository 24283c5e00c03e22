//! All parts of `cluster` together, on several threads and in real time.

use std::time::Duration;

use serde_json::json;

use super::{
    fake::{BUDGETS, Fake, NODES, PODS, node, pod},
    *,
};
use crate::domain::DaemonSetState;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_works_on_many_threads_and_ends_when_it_is_dropped() {
    let fake = Fake::default();
    fake.put(NODES, node("a", "aws:///z/i-1234567890abcdef0"));
    fake.put(PODS, pod("p1", "a"));
    fake.put(BUDGETS, json!({"metadata": {"namespace": "web", "name": "b"}}));
    let cluster = fake.cluster();
    let work = {
        let cluster = cluster.clone();
        async move {
            let index = NodeIndex::start(&cluster, KeepLabels::keys([]));
            let budgets = BudgetWatch::start(&cluster);
            let recorder = Recorder::start(&cluster, RecorderSettings::default());
            let sets = DaemonSets::new(&cluster);
            let (feed, mut events) = PodFeed::start(
                &cluster,
                PodFeedSettings { own_watches: 1, ..PodFeedSettings::default() },
            );
            index.synced().await;
            budgets.synced().await;
            for name in ["a", "b", "c"] {
                feed.attach(&name.into());
            }
            let mut listed = Vec::new();
            while listed.len() < 3 {
                let (node, PodEvent::Listed(pods)) = events.next().await.unwrap() else { continue };
                listed.push((node, pods.len()));
            }
            listed.sort();
            assert_eq!(listed, [("a".into(), 1), ("b".into(), 0), ("c".into(), 0)]);
            assert_eq!(index.list_fresh().await.unwrap().len(), 1);
            assert!(
                index
                    .patch(&"a".into(), &json!({"spec": {"unschedulable": true}}))
                    .await
                    .unwrap()
                    .unschedulable
            );
            assert!(
                index.subscribe().next().await.is_some()
                    && budgets.subscribe().next().await.is_some()
            );
            assert_eq!(sets.state("x", "y").await, DaemonSetState::Gone);
            let key = crate::domain::PodKey { namespace: "web".into(), name: "p1".to_owned() };
            assert!(
                cluster.evict(Duration::MAX, &key, &"uid-p1".into(), Some(1)).await.is_success()
            );
            recorder.note(EventNote {
                about: About::Node("a".into()),
                severity: Severity::Normal,
                reason: EventReason::Drained,
                message: String::new(),
            });
            assert!(recorder.flush(Duration::from_secs(5)).await);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), tokio::spawn(work)).await.unwrap().unwrap();
    assert!(cluster.spawner().finished(Duration::from_secs(5)).await, "no task is left");
    assert_eq!(fake.watches(), 0);
}

#[test]
fn the_list_of_outcome_labels_is_complete() {
    use super::{Outcome, Problem as P};
    let all = [
        P::Conflict,
        P::NotFound,
        P::Forbidden,
        P::NotAdmitted,
        P::Unauthorized,
        P::Invalid,
        P::Overload { retry_after: None },
        P::Refused,
        P::Expired,
        P::Server,
        P::Unreachable,
        P::Unreadable,
        P::HeldBack,
    ];
    let words: Vec<_> = [Outcome::Ok]
        .into_iter()
        .chain(all.into_iter().map(Outcome::Failed))
        .map(Outcome::as_str)
        .collect();
    assert_eq!(words, Outcome::WORDS);
}
