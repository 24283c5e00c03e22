use serde_json::json;

use super::*;
use crate::cluster::fake::{Fake, Fault, status};

const SETS: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets";

#[tokio::test(start_paused = true)]
async fn one_get_answers_all_callers_for_ten_minutes() {
    let fake = Fake::default();
    fake.put(SETS, json!({"metadata": {"name": "proxy"}}));
    let sets = DaemonSets::new(&fake.cluster());
    let all = futures::future::join_all((0..30).map(|_| sets.state("kube-system", "proxy"))).await;
    assert!(all.iter().all(|s| *s == DaemonSetState::Exists));
    assert_eq!(sets.state("kube-system", "gone").await, DaemonSetState::Gone);
    assert_eq!(sets.state("kube-system", "gone").await, DaemonSetState::Gone);
    assert_eq!(fake.seen().len(), 2);
    tokio::time::sleep(KNOWN).await;
    fake.remove(SETS, "proxy");
    assert_eq!(sets.state("kube-system", "proxy").await, DaemonSetState::Gone);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_that_is_created_again_is_found_within_ten_seconds() {
    let fake = Fake::default();
    let sets = DaemonSets::new(&fake.cluster());
    assert_eq!(sets.state("kube-system", "proxy").await, DaemonSetState::Gone);
    fake.put(SETS, json!({"metadata": {"name": "proxy"}}));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(sets.state("kube-system", "proxy").await, DaemonSetState::Exists);
}

#[tokio::test(start_paused = true)]
async fn a_failed_lookup_is_repeated_after_ten_seconds() {
    let fake = Fake::default();
    let sets = DaemonSets::new(&fake.cluster());
    for fault in [
        Fault::Answer(403, None, status(403, "Forbidden", "no").to_string()),
        Fault::Answer(500, None, String::new()),
        Fault::Hang,
        Fault::Broken,
    ] {
        fake.script(move |_| Some(fault.clone()));
        assert_eq!(sets.state("a", "b").await, DaemonSetState::Unreadable);
        tokio::time::sleep(BRIEFLY).await;
    }
    assert_eq!(fake.seen().len(), 4);
    fake.heal();
    assert_eq!(sets.state("a", "b").await, DaemonSetState::Gone);
}
