#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use std::{sync::Arc, time::Duration};

use serde_json::json;

use super::*;
use crate::cluster::{
    Settings,
    fake::{Counter, Fake, Fault, status},
    lease::WriteGuard,
};

fn pod() -> (PodKey, PodUid) {
    (PodKey { namespace: "web".into(), name: "web-1".to_owned() }, "uid-1".into())
}

#[tokio::test(start_paused = true)]
async fn an_eviction_carries_uid_and_grace_where_the_server_reads_them() {
    let fake = Fake::default();
    let cluster = fake.cluster();
    let (key, uid) = pod();
    let answer = cluster.evict(Duration::MAX, &key, &uid, Some(7)).await;
    assert!(answer.is_success());
    assert!(cluster.evict(Duration::MAX, &key, &uid, None).await.is_success());
    let seen = fake.seen();
    assert_eq!(
        (seen[0].method.as_str(), seen[0].path.as_str()),
        ("POST", "/api/v1/namespaces/web/pods/web-1/eviction")
    );
    assert_eq!(seen[0].headers.get("content-type").unwrap(), "application/json");
    assert_eq!(
        seen[0].body,
        json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": "web-1", "namespace": "web"},
            "deleteOptions": {"gracePeriodSeconds": 7, "preconditions": {"uid": "uid-1"}},
        })
    );
    assert_eq!(
        seen[1].body["deleteOptions"],
        json!({"preconditions": {"uid": "uid-1"}}),
        "for the pod's own grace period, the request names none"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deletion_carries_uid_and_grace() {
    let fake = Fake::default();
    let (key, uid) = pod();
    assert!(fake.cluster().delete_pod(&key, &uid, Some(3)).await.is_success());
    let seen = fake.seen();
    assert_eq!(
        (seen[0].method.as_str(), seen[0].path.as_str()),
        ("DELETE", "/api/v1/namespaces/web/pods/web-1")
    );
    assert_eq!(seen[0].body, json!({"gracePeriodSeconds": 3, "preconditions": {"uid": "uid-1"}}));
}

#[tokio::test(start_paused = true)]
async fn the_disruption_target_is_set_by_one_patch_with_the_uid() {
    let fake = Fake::default();
    fake.script(|_| Some(Fault::Answer(200, None, "{}".to_owned())));
    let (key, uid) = pod();
    fake.cluster().set_disruption_target(&key, &uid).await.unwrap();
    let seen = fake.seen();
    assert_eq!(
        (seen[0].method.as_str(), seen[0].path.as_str()),
        ("PATCH", "/api/v1/namespaces/web/pods/web-1/status")
    );
    assert_eq!(
        seen[0].headers.get("content-type").unwrap(),
        "application/strategic-merge-patch+json"
    );
    let mut body = seen[0].body.clone();
    let condition = body["status"]["conditions"][0].take();
    assert_eq!(
        body,
        json!({"metadata": {"uid": "uid-1"}, "status": {"conditions": [null]}}),
        "nothing else"
    );
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("DisruptionTarget"), &json!("True"))
    );
    let time: jiff::Timestamp = condition["lastTransitionTime"].as_str().unwrap().parse().unwrap();
    assert_eq!(time.subsec_nanosecond(), 0, "the API server takes whole seconds");
}

#[tokio::test(start_paused = true)]
async fn setting_the_condition_is_given_up_after_a_second_without_an_answer() {
    let fake = Fake::default();
    fake.script(|_| Some(Fault::Hang));
    let (key, uid) = pod();
    let begun = tokio::time::Instant::now();
    let error = fake.cluster().set_disruption_target(&key, &uid).await.unwrap_err();
    assert_eq!((error.problem, begun.elapsed()), (Problem::Unreachable, Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn each_refusal_keeps_code_reason_cause_and_retry_after() {
    let (key, uid) = pod();
    let budget = |seconds: u32| {
        json!({
            "kind": "Status", "status": "Failure", "code": 429, "reason": "TooManyRequests",
            "message": "Cannot evict pod",
            "details": {
                "retryAfterSeconds": seconds,
                "causes": [{
                    "reason": "DisruptionBudget",
                    "message": "needs 2 healthy pods and has 2 currently"
                }]
            },
        })
        .to_string()
    };
    let dying = json!({
        "kind": "Status", "code": 403, "reason": "Forbidden",
        "details": {"causes": [{"reason": "NamespaceTerminating", "message": "m"}]}
    });
    let two_budgets = json!({
        "kind": "Status", "status": "Failure", "code": 500,
        "message": "This pod has more than one PodDisruptionBudget"
    });
    let seconds = |n| Some(Duration::from_secs(n));
    for (code, header, body, reason, cause, retry_after) in [
        (429, None, budget(0), "TooManyRequests", Some("DisruptionBudget"), None),
        (429, Some("10"), budget(10), "TooManyRequests", Some("DisruptionBudget"), seconds(10)),
        (
            429,
            Some("3"),
            "Too many requests, please try again later.\n".to_owned(),
            "",
            None,
            seconds(3),
        ),
        (429, Some("0"), "slow down".to_owned(), "", None, None),
        (
            429,
            None,
            status(429, "TooManyRequests", "Eviction triggered evacuation").to_string(),
            "TooManyRequests",
            None,
            None,
        ),
        (403, None, dying.to_string(), "Forbidden", Some("NamespaceTerminating"), None),
        (404, None, status(404, "NotFound", "m").to_string(), "NotFound", None, None),
        (
            409,
            None,
            status(409, "Conflict", "the UID in the precondition does not match").to_string(),
            "Conflict",
            None,
            None,
        ),
        (500, None, two_budgets.to_string(), "", None, None),
        (504, None, String::new(), "", None, None),
    ] {
        let fake = Fake::default();
        fake.script(move |_| Some(Fault::Answer(code, header, body.clone())));
        let answer = fake.cluster().evict(Duration::MAX, &key, &uid, None).await;
        assert_eq!(
            (answer.code, answer.reason.as_str(), answer.retry_after),
            (code, reason, retry_after),
            "{answer:?}"
        );
        assert_eq!(answer.causes.first().map(|(r, _)| r.as_str()), cause);
        assert_eq!(fake.seen().len(), 1, "the client does not retry");
    }
}

#[tokio::test(start_paused = true)]
async fn no_answer_is_code_0() {
    let (key, uid) = pod();
    for fault in [
        Fault::Hang,
        Fault::Broken,
        Fault::Answer(200, None, "<html>502 Bad Gateway</html>".to_owned()),
    ] {
        let fake = Fake::default();
        fake.script(move |_| Some(fault.clone()));
        for answer in [
            fake.cluster().evict(Duration::MAX, &key, &uid, None).await,
            fake.cluster().delete_pod(&key, &uid, Some(3)).await,
        ] {
            assert_eq!(answer.code, 0);
            assert!(!answer.message.is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_through_a_closed_guard() {
    let fake = Fake::default();
    let cluster =
        fake.cluster_with(Arc::new(Counter::default()), WriteGuard::closed(), Settings::default());
    let (key, uid) = pod();
    let answer = cluster.evict(Duration::MAX, &key, &uid, None).await;
    assert_eq!((answer.code, answer.reason.as_str()), (0, "HeldBack"));
    assert!(!cluster.delete_pod(&key, &uid, None).await.is_success());
    assert!(fake.seen().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_write_ends_before_another_leader_may_begin_at_the_server_too() {
    let (key, uid) = pod();
    // The second one: another leader may begin in three seconds.
    for (guard, seconds) in
        [(WriteGuard::open(), 10), (WriteGuard::within(Duration::from_secs(3)), 3)]
    {
        let fake = Fake::default();
        fake.script(|_| Some(Fault::Hang));
        let cluster = fake.cluster_with(Arc::new(Counter::default()), guard, Settings::default());
        let begun = tokio::time::Instant::now();
        assert_eq!(cluster.evict(Duration::MAX, &key, &uid, None).await.code, 0);
        assert_eq!(begun.elapsed().as_secs(), seconds);
        cluster.delete_pod(&key, &uid, Some(5)).await;
        assert_eq!(begun.elapsed().as_secs(), 2 * seconds);
        let timeouts: Vec<_> =
            fake.seen().iter().map(|seen| seen.query["timeout"].clone()).collect();
        assert_eq!(timeouts, vec![format!("{seconds}000ms"); 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_eviction_with_a_short_limit_carries_it_as_timeout() {
    let (key, uid) = pod();
    let fake = Fake::default();
    fake.script(|_| Some(Fault::Hang));
    let begun = tokio::time::Instant::now();
    let limit = Duration::from_millis(1500);
    assert_eq!(fake.cluster().evict(limit, &key, &uid, None).await.code, 0);
    assert_eq!(begun.elapsed(), limit);
    assert_eq!(fake.cluster().evict(Duration::ZERO, &key, &uid, None).await.code, 0);
    let timeouts: Vec<_> = fake.seen().iter().map(|seen| seen.query["timeout"].clone()).collect();
    assert_eq!(timeouts, ["1500ms"], "an eviction without any time left is not sent");
}
