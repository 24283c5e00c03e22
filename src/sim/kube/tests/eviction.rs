//! The rows of the real server's own tests (kubernetes:
//! pkg/registry/core/pod/storage/eviction_test.go).

use kube::api::DeleteParams;
use serde_json::json;

use super::{
    super::{Entry, EvictionVerdict, Fact, Match, json::Look},
    *,
};

/// Budget `foo` for `a=true` with this status, which no controller corrects.
fn with_budget(allowed: i64, healthy: i64, desired: i64, policy: Option<&str>) -> EmbeddedKube {
    let kube = with_nodes(1);
    kube.freeze_disruption_controller(true);
    let selector = std::collections::BTreeMap::from([("a".to_owned(), "true".to_owned())]);
    let mut spec =
        BudgetSpec { selector: Some(selector), ..BudgetSpec::for_app("shop", "foo") }.min(1);
    spec.unhealthy = policy.map(str::to_owned);
    kube.add_budget(&spec);
    set_status(&kube, allowed, healthy, desired);
    kube
}

fn set_status(kube: &EmbeddedKube, allowed: i64, healthy: i64, desired: i64) {
    kube.edit("poddisruptionbudgets", "shop", "foo", |b| {
        b.put(
            "status",
            json!({
                "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy,
                "desiredHealthy": desired
            }),
        );
    });
}

fn with_pod(kube: &EmbeddedKube, state: PodState) -> String {
    kube.add_pod(&PodSpec::on("n0", "shop", "p").label("a", "true").state(state))
}

fn gone(kube: &EmbeddedKube) -> bool {
    kube.object("pods", "shop", "p").is_none_or(|p| !p.at("metadata.deletionTimestamp").is_null())
}

const I: Option<&str> = Some("IfHealthyBudget");
const A: Option<&str> = Some("AlwaysAllow");

#[tokio::test(start_paused = true)]
async fn a_budget_that_allows_nothing_refuses_with_its_cause_and_without_retry_after() {
    for policy in [None, I] {
        let kube = with_budget(0, 0, 0, policy);
        with_pod(&kube, PodState::NotReady);
        let refused = evict(&kube, "p").await.unwrap_err();
        assert_eq!((refused.code, refused.reason.as_str()), (429, "TooManyRequests"));
        assert_eq!(
            refused.message,
            "Cannot evict pod as it would violate the pod's disruption budget."
        );
        assert_eq!(
            cause(&refused),
            "The disruption budget foo needs 0 healthy pods and has 0 currently"
        );
        let details = refused.details.unwrap();
        assert_eq!(
            (details.causes[0].reason.as_str(), details.retry_after_seconds),
            ("DisruptionBudget", 0)
        );
        assert!(!gone(&kube));
    }
}

#[tokio::test(start_paused = true)]
async fn s14_pending_and_finished_pods_pass_the_budget() {
    for policy in [None, I, A] {
        for state in [PodState::StuckPending, PodState::Succeeded, PodState::Failed] {
            let kube = with_budget(0, 0, 0, policy);
            with_pod(&kube, state);
            evict(&kube, "p").await.unwrap();
            assert!(gone(&kube), "{state:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn readiness_and_policy_decide_with_the_counts() {
    // pod ready, allowed, healthy, desired, policy -> the cause of the refusal, or none
    let needs = |d, h| {
        Some(format!("The disruption budget foo needs {d} healthy pods and has {h} currently"))
    };
    let table = [
        (true, 1, 3, 3, None, None),
        (true, 0, 2, 2, None, needs(2, 2)),
        (true, 0, 2, 2, A, needs(2, 2)),
        (false, 0, 2, 2, None, None),
        (false, 0, 2, 2, I, None),
        (false, 0, 0, 0, A, None),
        (false, 0, 0, 0, None, needs(0, 0)),
        (false, 0, 1, 2, None, needs(2, 1)),
        (
            true,
            0,
            4,
            3,
            None,
            Some("The disruption budget foo does not allow evicting pods currently".to_owned()),
        ),
    ];
    for (ready, allowed, healthy, desired, policy, expected) in table {
        let kube = with_budget(allowed, healthy, desired, policy);
        with_pod(&kube, if ready { PodState::Ready } else { PodState::NotReady });
        let answer = evict(&kube, "p").await;
        let row = format!("ready {ready}, {allowed} {healthy}/{desired} {policy:?}");
        assert_eq!(answer.err().map(|s| cause(&s)), expected, "{row}");
        let left = kube
            .object("poddisruptionbudgets", "shop", "foo")
            .unwrap()
            .int("status.disruptionsAllowed");
        let used = i64::from(ready && expected.is_none());
        assert_eq!(left, allowed - used, "{row}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_refusal_repeats_the_condition_of_the_budget() {
    for (reason, healthy, text) in [
        (
            "SyncFailed",
            3,
            "The disruption budget foo does not allow evicting pods currently because it failed \
             sync: hoge",
        ),
        (
            "bar-reason",
            4,
            "The disruption budget foo does not allow evicting pods currently (bar-reason): hoge",
        ),
    ] {
        let kube = with_budget(0, healthy, 3, None);
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        kube.edit("poddisruptionbudgets", "shop", "foo", |b| {
            b.set_condition("DisruptionAllowed", "False", reason, "hoge", now);
        });
        with_pod(&kube, PodState::Ready);
        assert_eq!(cause(&evict(&kube, "p").await.unwrap_err()), text);
    }
}

#[tokio::test(start_paused = true)]
async fn s08_s30_budgets_that_are_stale_negative_or_full() {
    let kube = with_budget(1, 3, 2, None);
    with_pod(&kube, PodState::Ready);
    kube.edit("poddisruptionbudgets", "shop", "foo", |b| b.put("status.observedGeneration", 0));
    let refused = evict(&kube, "p").await.unwrap_err();
    assert_eq!((refused.code, refused.details.as_ref().unwrap().retry_after_seconds), (429, 10));
    assert_eq!(
        cause(&refused),
        "The disruption budget foo is still being processed by the server."
    );
    set_status(&kube, -1, 3, 2);
    let refused = evict(&kube, "p").await.unwrap_err();
    assert_eq!(refused.code, 403);
    assert!(refused.message.ends_with("pdb disruptions allowed is negative"));
    set_status(&kube, 1, 3, 2);
    kube.edit("poddisruptionbudgets", "shop", "foo", |b| {
        let many: serde_json::Map<_, _> =
            (0..2001).map(|i| (format!("p{i}"), json!("2026-03-01T12:00:00Z"))).collect();
        b.put("status.disruptedPods", many);
    });
    let refused = evict(&kube, "p").await.unwrap_err();
    assert!(
        refused.code == 403 && refused.message.contains("DisruptedPods map too big"),
        "{}",
        refused.message
    );
}

#[tokio::test(start_paused = true)]
async fn s09_two_budgets_are_a_500_without_reason() {
    let kube = with_budget(1, 1, 0, None);
    with_pod(&kube, PodState::Ready);
    let mut all = BudgetSpec::for_app("shop", "all").max(1);
    all.selector = Some(std::collections::BTreeMap::new());
    kube.add_budget(&all);
    let refused = evict(&kube, "p").await.unwrap_err();
    assert_eq!((refused.code, refused.reason.as_str()), (500, ""));
    assert_eq!(
        refused.message,
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not \
         support."
    );
    kube.remove("poddisruptionbudgets", "shop", "all");
    evict(&kube, "p").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_empty_selector_selects_all_pods_and_a_missing_one_none() {
    for (selector, refused) in [(Some(std::collections::BTreeMap::new()), true), (None, false)] {
        let kube = with_budget(0, 3, 3, None);
        kube.remove("poddisruptionbudgets", "shop", "foo");
        kube.add_budget(&BudgetSpec { selector, ..BudgetSpec::for_app("shop", "foo") }.min(1));
        set_status(&kube, 0, 3, 3);
        with_pod(&kube, PodState::Ready);
        assert_eq!(evict(&kube, "p").await.is_err(), refused);
    }
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_retried_unless_the_client_gave_a_precondition() {
    // pending, becomes, conflicts, allowed -> result; tries
    let kube = with_budget(0, 0, 0, None);
    with_pod(&kube, PodState::StuckPending);
    kube.conflict_evictions("shop", "p", 2, None);
    evict(&kube, "p").await.unwrap();

    let kube = with_budget(0, 0, 0, None);
    with_pod(&kube, PodState::StuckPending);
    kube.conflict_evictions("shop", "p", 1, Some(PodState::Ready));
    assert_eq!(
        cause(&evict(&kube, "p").await.unwrap_err()),
        "The disruption budget foo needs 0 healthy pods and has 0 currently"
    );

    let kube = with_budget(0, 0, 0, A);
    with_pod(&kube, PodState::StuckPending);
    kube.conflict_evictions("shop", "p", 2, Some(PodState::NotReady));
    let refused = evict(&kube, "p").await.unwrap_err();
    assert_eq!(
        (refused.code, cause(&refused).ends_with("still being processed by the server.")),
        (429, true)
    );

    let kube = with_budget(0, 0, 0, None);
    with_pod(&kube, PodState::StuckPending);
    kube.conflict_evictions("shop", "p", 1000, None);
    let start = tokio::time::Instant::now();
    let refused = evict(&kube, "p").await.unwrap_err();
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (409, "Operation cannot be fulfilled on pods \"p\": message: Conflict")
    );
    let (tries, jitter) = (9_500, 950);
    assert!(
        (tries + 1..tries + jitter).contains(&start.elapsed().as_millis()),
        "{:?}",
        start.elapsed()
    );

    let version =
        kube.object("pods", "shop", "p").unwrap().text("metadata.resourceVersion").to_owned();
    let start = tokio::time::Instant::now();
    let refused =
        evict_with(&kube, "p", json!({ "preconditions": { "resourceVersion": version } }))
            .await
            .unwrap_err();
    assert_eq!((refused.code, start.elapsed().as_millis()), (409, 0));

    let kube = with_budget(0, 2, 2, None);
    with_pod(&kube, PodState::NotReady);
    kube.conflict_evictions("shop", "p", 1, None);
    assert_eq!(evict(&kube, "p").await.unwrap_err().details.unwrap().retry_after_seconds, 10);
}

#[tokio::test(start_paused = true)]
async fn a_terminating_pod_is_evicted_again_to_shorten_its_grace() {
    let kube = with_budget(0, 1, 1, None);
    kube.add_pod(&PodSpec::on("n0", "shop", "p").label("a", "true").shape(PodShape {
        grace: Some(Duration::from_mins(5)),
        stop: Some(Duration::from_secs(250)),
        labels: std::collections::BTreeMap::from([("a".to_owned(), "true".to_owned())]),
        ..PodShape::default()
    }));
    kube.delete("pods", "shop", "p");
    pass(10).await;
    evict_with(&kube, "p", json!({ "gracePeriodSeconds": 400 })).await.unwrap();
    assert_eq!(
        kube.object("pods", "shop", "p").unwrap().int("metadata.deletionGracePeriodSeconds"),
        300
    );
    evict_with(&kube, "p", json!({ "gracePeriodSeconds": 20 })).await.unwrap();
    let pod = kube.object("pods", "shop", "p").unwrap();
    assert_eq!(pod.int("metadata.deletionGracePeriodSeconds"), 20);
    assert_eq!(pod.condition("DisruptionTarget"), "True");
    pass(19).await;
    assert!(kube.object("pods", "shop", "p").is_some());
    pass(2).await;
    assert!(kube.object("pods", "shop", "p").is_none());
}

#[tokio::test(start_paused = true)]
async fn s06_preconditions_names_and_missing_pods() {
    let kube = with_budget(1, 1, 0, None);
    let uid = with_pod(&kube, PodState::Ready);
    let refused =
        evict_with(&kube, "p", json!({ "preconditions": { "uid": "other" } })).await.unwrap_err();
    assert_eq!(refused.code, 409);
    assert!(
        refused.message.ends_with("The object might have been deleted and then recreated"),
        "{}",
        refused.message
    );
    assert!(refused.message.contains(&format!("(other) does not match the UID in record ({uid})")));
    set_status(&kube, 1, 1, 0);
    let refused = evict_with(&kube, "p", json!({ "preconditions": { "resourceVersion": "1" } }))
        .await
        .unwrap_err();
    assert!(
        refused.code == 409 && refused.message.ends_with("The object might have been modified")
    );
    assert_eq!(evict(&kube, "gone").await.unwrap_err().code, 404);
    let body = json!({ "metadata": { "name": "x" } });
    let bad: Result<serde_json::Value, _> =
        pods(&kube).create_subresource("eviction", "p", &PostParams::default(), &body).await;
    let bad = status(bad.unwrap_err());
    assert_eq!(
        (bad.code, bad.message.as_str()),
        (400, "name in URL does not match name in Eviction object")
    );
    set_status(&kube, 1, 1, 0);
    evict_with(&kube, "p", json!({ "preconditions": { "uid": uid } })).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_evicts_nothing() {
    let kube = with_budget(1, 1, 0, None);
    with_pod(&kube, PodState::Ready);
    evict_with(&kube, "p", json!({ "dryRun": ["All"] })).await.unwrap();
    let in_query = PostParams { dry_run: true, ..PostParams::default() };
    let body = json!({ "metadata": { "name": "p" } });
    let _: serde_json::Value =
        pods(&kube).create_subresource("eviction", "p", &in_query, &body).await.unwrap();
    assert!(!gone(&kube));
    assert_eq!(
        kube.object("poddisruptionbudgets", "shop", "foo")
            .unwrap()
            .int("status.disruptionsAllowed"),
        1
    );
    let refused =
        evict_with(&kube, "p", json!({ "ignoreStoreReadErrorWithClusterBreakingPotential": true }))
            .await
            .unwrap_err();
    assert_eq!(refused.code, 422);
}

#[tokio::test(start_paused = true)]
async fn a_granted_disruption_is_recorded_in_the_budget_status() {
    for (allowed, reason) in [(1, "InsufficientPods"), (3, "SufficientPods")] {
        let kube = with_budget(allowed, 4, 1, None);
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        kube.edit("poddisruptionbudgets", "shop", "foo", |b| {
            b.set_condition("DisruptionAllowed", "True", "SufficientPods", "", now);
        });
        with_pod(&kube, PodState::Ready);
        evict(&kube, "p").await.unwrap();
        let b = kube.object("poddisruptionbudgets", "shop", "foo").unwrap();
        assert_eq!(b.int("status.disruptionsAllowed"), allowed - 1);
        assert_eq!(b.items("status.conditions")[0].text("reason"), reason);
        assert!(b.at("status.disruptedPods").get("p").is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn s11_s10_s12_admission_has_its_own_answers() {
    let kube = with_budget(1, 1, 0, None);
    with_pod(&kube, PodState::Ready);
    kube.eviction_webhook(|review| match review.before {
        0 => EvictionVerdict::Unreachable("Post: connection refused".into()),
        1 => EvictionVerdict::Deny("not now".into()),
        2 => EvictionVerdict::Busy("Eviction triggered evacuation of VMI".into()),
        _ => EvictionVerdict::Intercept,
    });
    let failed = evict(&kube, "p").await.unwrap_err();
    assert!(
        failed.code == 500 && failed.message.contains("failed calling webhook"),
        "{}",
        failed.message
    );
    assert_eq!(evict(&kube, "p").await.unwrap_err().code, 403);
    let busy = evict(&kube, "p").await.unwrap_err();
    assert_eq!((busy.code, cause(&busy)), (429, String::new()));
    evict(&kube, "p").await.unwrap();
    assert!(!gone(&kube));
    let facts: Vec<Fact> = kube.journal().into_iter().map(|e| e.fact).collect();
    assert!(
        facts
            .iter()
            .any(|f| matches!(f, Fact::EvictionIntercepted { pod, grace: 30 } if pod.name == "p")),
        "{facts:?}"
    );
    kube.terminate_namespace("shop", false);
    let going = evict(&kube, "p").await.unwrap_err();
    assert_eq!(
        (going.code, going.details.unwrap().causes[0].reason.as_str()),
        (403, "NamespaceTerminating")
    );
    pods(&kube).delete("p", &DeleteParams::default()).await.unwrap();
    assert!(gone(&kube));
}

#[tokio::test(start_paused = true)]
async fn the_journal_shows_budgets_that_a_deletion_overruns() {
    let kube = with_nodes(1);
    for name in ["a", "b"] {
        kube.add_pod(&PodSpec::on("n0", "shop", name).label("app", "web"));
    }
    kube.add_budget(&BudgetSpec::for_app("shop", "web").min(1));
    settle().await;
    evict(&kube, "a").await.unwrap();
    pods(&kube).delete("b", &DeleteParams::default()).await.unwrap();
    let facts: Vec<Fact> = kube.journal().into_iter().map(|e| e.fact).collect();
    assert!(facts.iter().any(|f| matches!(
        f,
        Fact::Evicted { pod, overrun, again: false, .. } if pod.name == "a" && overrun.is_empty()
    )));
    assert!(facts.iter().any(|f| matches!(
        f, Fact::Deleted { pod, overrun, .. } if pod.name == "b" && overrun == &["web"]
    )));
    let asked: Vec<_> = kube
        .requests()
        .into_iter()
        .filter(|r| r.subresource == "eviction")
        .map(|r| (r.name, r.status))
        .collect();
    assert_eq!(asked, [("a".to_owned(), 201)]);
    kube.add_pod(&PodSpec::on("n0", "shop", "c"));
    settle().await;
    kube.delete("pods", "shop", "c");
    let by_hand = |e: &Entry| {
        e.by == "<scenario>" && matches!(&e.fact, Fact::Deleted { pod, .. } if pod.name == "c")
    };
    assert!(kube.journal().iter().any(by_hand), "what a scenario deletes a person deletes");
    assert_eq!(Match::evictions().subresource.as_deref(), Some("eviction"));
}
