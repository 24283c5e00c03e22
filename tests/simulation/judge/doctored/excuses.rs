//! What a fault excuses, and what it does not.

use super::*;
use crate::judge::excuses::{HEARTBEATS, REMOVE_PODS, SEE_NODES, Scope};

fn struck(evidence: &Evidence, what: &str, by: &str, object: &str) -> Evidence {
    let mut evidence = evidence.clone();
    let (at, until) = (evidence.begun + s(100), Some(evidence.begun + s(110)));
    let [by, what, object] = [by, what, object].map(str::to_owned);
    evidence.disturbances = vec![Disturbance { at, until, by, what, object, is_silent: false }];
    evidence
}

#[tokio::test(start_paused = true)]
async fn a_fault_excuses_only_what_needs_the_call_that_it_struck() {
    let evidence = reclaimed().await;
    let (instance, node) = node_of(&evidence);
    let excused = |evidence: &Evidence, scope: Scope<'_>, from: u64, to: u64| {
        Judge::of(evidence).is_excused(scope, evidence.begun + s(from), evidence.begun + s(to))
    };
    let nodes = Scope::of_leader(&[SEE_NODES]).about(&instance, &node);
    let watch = struck(&evidence, "watch nodes", "sundown-0", "");
    assert!(excused(&watch, nodes, 105, 106), "it was broken");
    assert!(excused(&watch, nodes, 115, 117), "it was felt a little longer");
    assert!(
        !excused(&watch, nodes, 50, 99) && !excused(&watch, nodes, 123, 130),
        "before, and later"
    );
    assert!(!excused(&watch, Scope::of_leader(&[REMOVE_PODS]), 105, 106), "another API");
    let only_other = Scope { process: Some("sundown-1"), ..nodes };
    assert!(!excused(&watch, only_other, 105, 106), "another process");
    let silent = |is_silent| {
        let mut evidence = watch.clone();
        evidence.disturbances[0].is_silent = is_silent;
        excused(&evidence, nodes, 150, 151)
    };
    assert!(silent(true) && !silent(false), "a silent watch is noticed after a minute");
    let get =
        |name: &str| excused(&struck(&evidence, "get nodes", "sundown-0", name), nodes, 105, 106);
    assert!(get(&node) && !get("another-node"));
    let heartbeat = |object: &str| {
        let scope = Scope::of_leader(&[HEARTBEATS]).about(&instance, &node);
        excused(
            &struck(&evidence, "autoscaling:RecordLifecycleActionHeartbeat", "sundown-0", object),
            scope,
            105,
            106,
        )
    };
    assert!(heartbeat(&format!("asg/drain/{instance}")) && !heartbeat("asg/drain/i-0another"));
    let evict = |pod: &str| {
        let scope = Scope::of_leader(&[REMOVE_PODS]).about(&instance, &node);
        excused(&struck(&evidence, "create pods/eviction", "sundown-0", pod), scope, 105, 106)
    };
    assert!(evict("load/quorum-0") && !evict("load/of-another-node"));
}

#[tokio::test(start_paused = true)]
async fn a_time_without_a_leader_excuses_what_only_a_leader_does() {
    let evidence = reclaimed().await;
    let scope = Scope::of_leader(&[]);
    let excused = |evidence: &Evidence, scope: Scope<'_>| {
        Judge::of(evidence).is_excused(scope, evidence.begun + s(100), evidence.begun + s(101))
    };
    assert!(!excused(&evidence, scope), "it leads");
    let mut killed = evidence.clone();
    killed.ends = vec![("sundown-0".to_owned(), evidence.begun + s(90))];
    assert!(excused(&killed, scope));
    killed.ends[0].0 = "sundown-1".to_owned();
    assert!(!excused(&killed, scope), "a standby");
    // Its renewals fail: it goes on with its heartbeats.
    let mut cut_off = evidence.clone();
    cut_off.requests.retain(|r| r.resource != "leases" || r.at < evidence.begun + s(80));
    assert!(excused(&cut_off, scope));
    let heartbeats = Scope { without_leader: Some(false), ..scope };
    assert!(!excused(&cut_off, heartbeats), "heartbeats go on");
    cut_off.ends = vec![("sundown-0".to_owned(), evidence.begun + s(95))];
    assert!(excused(&cut_off, heartbeats), "it was killed meanwhile");
    assert!(!excused(&evidence, Scope { without_leader: None, ..scope }));
}

#[tokio::test(start_paused = true)]
async fn what_a_process_takes_for_true_is_from_before_its_watch_broke_or_from_two_seconds_ago() {
    let evidence = hooked().await;
    let at = evidence.ended;
    let with = |from: u64, by: &str| {
        let mut evidence = evidence.clone();
        fault(&mut evidence, "watch nodes", at - s(from), at + s(5));
        evidence.disturbances[0].by = by.to_owned();
        let known = Judge::of(&evidence).known_since("sundown-0", at);
        at.duration_since(known).as_secs()
    };
    assert_eq!(with(100, "sundown-0"), 102, "it saw nothing for 100 s");
    assert_eq!(with(10, "sundown-0"), 60, "a minute at least");
    assert_eq!(with(100, "sundown-9"), 60);
    assert_eq!(at.duration_since(Judge::of(&evidence).known_since("sundown-0", at)).as_secs(), 2);
}
