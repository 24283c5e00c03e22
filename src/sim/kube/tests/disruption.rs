use serde_json::json;

use super::{super::json::Look, *};

/// `owners`: how many replicas each controller wants; each has `ready` of its pods ready.
async fn sums(spec: BudgetSpec, replicas: usize, unready: usize) -> (i32, i32, i32, i32) {
    let kube = with_nodes(3);
    kube.add_deployment(&Workload::new("shop", "web", replicas));
    kube.add_budget(&spec);
    pass(10).await;
    let names: Vec<_> = kube.pods().into_iter().take(unready).map(|p| p.name).collect();
    for name in names {
        kube.set_pod_ready("shop", &name, false);
    }
    pass(1).await;
    budget(&kube, "web").await
}

#[tokio::test(start_paused = true)]
async fn the_arithmetic_of_budgets() {
    let web = || BudgetSpec::for_app("shop", "web");
    // budget, replicas, not ready -> expected, desired, healthy, allowed
    for (spec, replicas, unready, expected) in [
        (web().min(2), 3, 0, (3, 2, 3, 1)),
        (web().min(2), 3, 1, (3, 2, 2, 0)),
        (web().min("50%"), 3, 0, (3, 2, 3, 1)),
        (web().min("34%"), 3, 0, (3, 2, 3, 1)),
        (web().max(1), 3, 0, (3, 2, 3, 1)),
        (web().max(1), 3, 2, (3, 2, 1, 0)),
        (web().max("34%"), 3, 0, (3, 1, 3, 2)),
        (web().max("10%"), 3, 0, (3, 2, 3, 1)),
        (web().max(5), 3, 0, (3, 0, 3, 3)),
        (web().max(0), 3, 0, (3, 3, 3, 0)),
        (web().min(1), 1, 0, (1, 1, 1, 0)),
        (web().min(1), 0, 0, (0, 1, 0, 0)),
        (web().min("100%"), 4, 0, (4, 4, 4, 0)),
    ] {
        let row = format!("{:?} {:?} of {replicas}", spec.min_available, spec.max_unavailable);
        assert_eq!(sums(spec, replicas, unready).await, expected, "{row}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_without_a_controller_count_only_for_a_number() {
    for (spec, expected) in [
        (BudgetSpec::for_app("shop", "web").min(1), (2, 1, 2, 1)),
        (BudgetSpec::for_app("shop", "web").max(1), (0, 0, 2, 0)),
        (BudgetSpec::for_app("shop", "web").min("50%"), (0, 0, 2, 0)),
    ] {
        let kube = with_nodes(1);
        for name in ["a", "b"] {
            kube.add_pod(&PodSpec::on("n0", "shop", name).label("app", "web"));
        }
        kube.add_budget(&spec);
        pass(1).await;
        assert_eq!(budget(&kube, "web").await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_controller_fails_the_sync() {
    let kube = with_nodes(1);
    kube.add_pod(&PodSpec::on("n0", "shop", "a").label("app", "web").owner(
        "example.com/v1",
        "Thing",
        "t",
    ));
    kube.add_budget(&BudgetSpec::for_app("shop", "web").max(1));
    pass(1).await;
    let b = kube.object("poddisruptionbudgets", "shop", "web").unwrap();
    assert_eq!(
        (b.int("status.disruptionsAllowed"), b.items("status.conditions")[0].text("reason")),
        (0, "SyncFailed")
    );
}

#[tokio::test(start_paused = true)]
async fn an_eviction_takes_from_the_budget_until_the_replacement_is_ready() {
    let kube = with_nodes(3);
    kube.add_deployment(
        &Workload::new("shop", "web", 3)
            .shape(PodShape { ready: Some(Duration::from_secs(20)), ..PodShape::default() }),
    );
    kube.add_budget(&BudgetSpec::for_app("shop", "web").max(1));
    pass(60).await;
    let names: Vec<_> = kube.pods().into_iter().map(|p| p.name).collect();
    evict(&kube, &names[0]).await.unwrap();
    // The status has not caught up yet: the grant alone is written down.
    assert_eq!(
        cause(&evict(&kube, &names[1]).await.unwrap_err()),
        "The disruption budget web does not allow evicting pods currently"
    );
    pass(10).await;
    assert_eq!(
        cause(&evict(&kube, &names[1]).await.unwrap_err()),
        "The disruption budget web needs 2 healthy pods and has 2 currently"
    );
    pass(15).await;
    evict(&kube, &names[1]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_grant_without_a_deletion_lapses_after_two_minutes() {
    let kube = with_nodes(1);
    for name in ["a", "b"] {
        kube.add_pod(&PodSpec::on("n0", "shop", name).label("app", "web"));
    }
    kube.add_budget(&BudgetSpec::for_app("shop", "web").min(1));
    pass(1).await;
    let refused =
        evict_with(&kube, "a", json!({ "preconditions": { "uid": "another" } })).await.unwrap_err();
    assert_eq!(refused.code, 409);
    pass(1).await;
    assert_eq!(budget(&kube, "web").await, (2, 1, 1, 0));
    pass(121).await;
    assert_eq!(budget(&kube, "web").await, (2, 1, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn s29_a_frozen_controller_leaves_statuses_stale() {
    let kube = with_nodes(1);
    kube.add_budget(&BudgetSpec::for_app("shop", "web").min(1));
    pass(1).await;
    kube.freeze_disruption_controller(true);
    for name in ["a", "b"] {
        kube.add_pod(&PodSpec::on("n0", "shop", name).label("app", "web"));
    }
    pass(60).await;
    assert_eq!(evict(&kube, "a").await.unwrap_err().code, 429);
    kube.freeze_disruption_controller(false);
    pass(1).await;
    evict(&kube, "a").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_budget_is_not_reconciled_for_a_pod_whose_labels_stop_matching() {
    let kube = with_nodes(1);
    for name in ["a", "b"] {
        kube.add_pod(&PodSpec::on("n0", "shop", name).label("app", "web"));
    }
    kube.add_budget(&BudgetSpec::for_app("shop", "web").min(1));
    pass(10).await;
    assert_eq!(budget(&kube, "web").await, (2, 1, 2, 1));
    kube.edit("pods", "shop", "a", |p| p["metadata"]["labels"]["app"] = "other".into());
    pass(10).await;
    assert_eq!(budget(&kube, "web").await, (2, 1, 2, 1), "as it was");
    kube.set_pod_ready("shop", "b", false);
    pass(1).await;
    assert_eq!(budget(&kube, "web").await, (1, 1, 0, 0), "when another pod makes it look");
}
