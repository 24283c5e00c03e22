//! Evictions that are refused, and what wakes them.

use std::time::Duration;

use serde_json::json;
use sundown::sim::kube::{BudgetSpec, EvictionVerdict, Fault, Match, PodSpec, Rule};

use super::{Scene, about, between, graceful};

#[tokio::test(start_paused = true)]
async fn s06_a_pod_that_is_gone_or_another_by_now_is_not_evicted_again() {
    let scene = Scene::hooked(106, 2, &[]).await;
    let kube = &scene.stage.world.kube;
    for name in ["gone", "moved"] {
        scene.pod(0, name, graceful(30, 1));
        kube.inject(Rule::next(
            1,
            Match::evictions().named(name),
            Fault::Slow(Duration::from_secs(2)),
        ));
    }
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene
        .stage
        .until(5, "both are asked for", || {
            scene.evictions("gone").len() + scene.evictions("moved").len() == 2
        })
        .await;
    kube.remove("pods", "shop", "gone");
    kube.remove("pods", "shop", "moved");
    kube.add_pod(&PodSpec::on(scene.node(1), "shop", "moved"));
    scene.completed(0, 60).await;
    scene.stage.pass(60).await;
    assert_eq!(scene.evictions("gone").len(), 1);
    assert_eq!(scene.evictions("moved").len(), 1);
    assert!(scene.is_there("moved"), "its successor elsewhere lives on");
    assert_eq!((scene.answers("gone"), scene.answers("other_uid")), (1.0, 1.0));
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s07_an_overloaded_api_server_pauses_all_evictions_and_is_no_budget() {
    let scene = Scene::hooked(107, 3, &[]).await;
    let kube = &scene.stage.world.kube;
    scene.pod(0, "first", graceful(30, 1));
    for n in 0..5 {
        scene.pod(1, &format!("second-{n}"), graceful(30, 1));
    }
    kube.inject(Rule::next(1, Match::evictions(), Fault::Overloaded { retry_after: 3 }));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.until(10, "it is refused", || scene.answers("overload") == 1.0).await;
    let refused = scene.stage.clock.now();
    scene.stage.world.aws.terminate(&scene.instances[1], true);
    scene.completed(0, 60).await;
    scene.completed(1, 60).await;
    let all = scene.requests("create", "pods", "eviction", "");
    let next = all.iter().map(|r| r.at).filter(|at| *at > refused).min().unwrap();
    let first = all.iter().map(|r| r.at).min().unwrap();
    assert!((3.0..4.0).contains(&between(first, next)), "{}", between(first, next));
    assert_eq!(scene.answers("budget"), 0.0);
    assert_eq!(scene.evictions("first").len(), 2);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s07_an_odd_retry_after_of_an_hour_stops_neither_evictions_nor_force() {
    let scene = Scene::spot(1107, 3, &[]).await;
    let kube = &scene.stage.world.kube;
    scene.pod(0, "web-0", graceful(30, 1));
    scene.pod(1, "web-1", graceful(30, 1));
    let rule = kube.inject(Rule::always(
        Match::evictions().named("web-0"),
        Fault::Overloaded { retry_after: 3600 },
    ));
    scene.stage.pass(5).await;
    scene.notice(0).await;
    scene.stage.until(10, "it is refused", || scene.answers("overload") == 1.0).await;
    let refused = scene.stage.clock.now();
    scene.notice(1).await;
    scene.stage.until(40, "the other one is evicted", || !scene.removals("web-1").is_empty()).await;
    about(between(refused, scene.removals("web-1")[0].0), 30.0, 1.0);
    scene
        .stage
        .until(70, "the first is deleted in time", || !scene.removals("web-0").is_empty())
        .await;
    assert!(scene.removals("web-0")[0].2 && scene.evictions("web-0").len() <= 4);
    kube.lift(rule);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s08_a_budget_that_is_behind_its_spec_is_tried_again_when_its_status_comes() {
    let scene = Scene::hooked(108, 2, &["--drain-timeout", "600s"]).await;
    let kube = &scene.stage.world.kube;
    scene.pod(0, "web-0", graceful(30, 1));
    scene.pod(1, "web-1", graceful(30, 1));
    kube.add_budget(&BudgetSpec::for_app("shop", "web").min(2));
    scene.stage.pass(5).await;
    kube.freeze_disruption_controller(true);
    kube.edit("poddisruptionbudgets", "shop", "web", |b| b["spec"]["minAvailable"] = json!(1));
    scene.terminate(0).await;
    scene.stage.until(5, "it is refused", || scene.answers("budget_lagging") == 1.0).await;
    let refused = scene.stage.clock.now();
    scene
        .stage
        .until(3, "it is counted", || {
            scene.sundown.metric("blocked_pods{reason=\"pdb_lagging\"}") == 1.0
        })
        .await;
    // Without news it is tried again after the ten seconds that the server named, and not much
    // later.
    scene.stage.until(30, "it is tried again", || scene.evictions("web-0").len() == 2).await;
    let again = between(refused, scene.evictions("web-0")[1].at);
    assert!((9.0..21.0).contains(&again), "{again}");
    // The status comes: at once.
    kube.freeze_disruption_controller(false);
    let news = scene.stage.clock.now();
    scene.stage.until(5, "it is evicted", || !scene.removals("web-0").is_empty()).await;
    assert!(between(news, scene.removals("web-0")[0].0) < 0.2);
    scene.completed(0, 60).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s09_a_pod_under_two_budgets_goes_when_one_of_them_is_removed() {
    let scene = Scene::hooked(109, 2, &["--drain-timeout", "600s"]).await;
    let kube = &scene.stage.world.kube;
    scene.pod(0, "web-0", graceful(30, 1));
    kube.add_budget(&BudgetSpec::for_app("shop", "web").named("one").max(1));
    kube.add_budget(&BudgetSpec::for_app("shop", "web").named("two").min(0));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(40).await;
    assert_eq!(scene.sundown.drain(&scene.node(0)).unwrap().blocked, ["shop/web-0 two_pdbs"]);
    assert!(scene.evictions("web-0").len() <= 4);
    assert!(
        scene.events("Blocked").iter().any(|m| m.contains("more than one PodDisruptionBudget")),
        "{:?}",
        scene.events("Blocked")
    );
    kube.remove("poddisruptionbudgets", "shop", "one");
    let removed = scene.stage.clock.now();
    scene.stage.until(5, "it is evicted", || !scene.removals("web-0").is_empty()).await;
    assert!(between(removed, scene.removals("web-0")[0].0) < 0.2);
    scene.completed(0, 60).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s10_a_webhook_that_fails_three_times_only_delays() {
    let scene = Scene::hooked(110, 2, &[]).await;
    scene.pod(0, "web-0", graceful(30, 1));
    scene.stage.world.kube.eviction_webhook(|review| match review.before {
        0..3 => EvictionVerdict::Unreachable("connection refused".to_owned()),
        _ => EvictionVerdict::Allow,
    });
    scene.stage.pass(5).await;
    let accepted = scene.terminate(0).await;
    let completed = scene.completed(0, 60).await;
    assert_eq!((scene.answers("transient"), scene.answers("accepted")), (3.0, 1.0));
    assert!(between(accepted, completed) < 12.0, "{}", between(accepted, completed));
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s10_a_pod_whose_operator_deletes_it_after_a_denial_is_drained() {
    let scene = Scene::hooked(111, 2, &["--drain-timeout", "600s"]).await;
    scene.pod(0, "web-0", graceful(30, 1));
    scene
        .stage
        .world
        .kube
        .eviction_webhook(|_| EvictionVerdict::Deny("the operator sees to it".to_owned()));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(50).await;
    assert_eq!(scene.sundown.drain(&scene.node(0)).unwrap().blocked, ["shop/web-0 webhook"]);
    assert!(scene.evictions("web-0").len() <= 5);
    scene.stage.world.kube.delete("pods", "shop", "web-0");
    scene.completed(0, 10).await;
    assert!(scene.removals("web-0").is_empty());
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s11_pods_of_a_terminating_namespace_are_waited_for() {
    let scene = Scene::hooked(1110, 2, &["--drain-timeout", "600s"]).await;
    scene.pod(0, "web-0", graceful(30, 1));
    scene.stage.world.kube.terminate_namespace("shop", false);
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(40).await;
    assert_eq!(
        scene.sundown.drain(&scene.node(0)).unwrap().blocked,
        ["shop/web-0 namespace_terminating"]
    );
    let evictions = |outcome: &str| {
        scene.sundown.metric(&format!(
            "api_calls_total{{target=\"kubernetes\",action=\"evict\",outcome=\"{outcome}\"}}"
        ))
    };
    assert!(evictions("not_admitted") >= 1.0);
    assert_eq!(evictions("forbidden"), 0.0, "no right is missing");
    // The namespace controller comes to it.
    scene.stage.world.kube.delete("pods", "shop", "web-0");
    scene.completed(0, 10).await;
    assert!(scene.removals("web-0").is_empty());
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s11_pods_of_a_terminating_namespace_are_deleted_for_the_deadline() {
    let scene =
        Scene::hooked(1111, 2, &["--drain-timeout", "200s", "--deadline-margin", "0s"]).await;
    scene.pod(0, "web-0", graceful(30, 1));
    scene.stage.world.kube.terminate_namespace("shop", false);
    scene.stage.pass(5).await;
    let accepted = scene.terminate(0).await;
    scene.completed(0, 250).await;
    let removals = scene.removals("web-0");
    assert_eq!(removals.len(), 1);
    assert!(removals[0].2);
    about(between(accepted, removals[0].0), 170.0, 2.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s29_a_budget_that_nobody_keeps_up_blocks_with_its_reason_until_force() {
    let scene =
        Scene::hooked(129, 2, &["--drain-timeout", "200s", "--deadline-margin", "0s"]).await;
    let kube = &scene.stage.world.kube;
    kube.freeze_disruption_controller(true);
    scene.pod(0, "web-0", graceful(30, 1));
    scene.pod(1, "web-1", graceful(30, 1));
    kube.add_budget(&BudgetSpec::for_app("shop", "web").min(1));
    scene.stage.pass(5).await;
    let accepted = scene.terminate(0).await;
    scene.stage.pass(60).await;
    let blocked = scene.sundown.drain(&scene.node(0)).unwrap().blocked;
    assert!(blocked.len() == 1 && blocked[0].starts_with("shop/web-0 pdb"), "{blocked:?}");
    assert!(scene.evictions("web-0").len() <= 8, "{}", scene.evictions("web-0").len());
    scene.completed(0, 250).await;
    let (at, grace, deleted) = scene.removals("web-0")[0];
    assert!(deleted && grace == 30);
    about(between(accepted, at), 170.0, 2.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s30_a_broken_budget_is_tried_slowly() {
    let scene = Scene::hooked(130, 2, &["--drain-timeout", "600s"]).await;
    let kube = &scene.stage.world.kube;
    for (app, pod) in [("negative", "negative-0"), ("full", "full-0")] {
        kube.add_pod(&PodSpec::on(scene.node(0), "shop", pod).label("app", app));
        kube.add_budget(&BudgetSpec::for_app("shop", app).min(0));
    }
    scene.stage.pass(5).await;
    kube.freeze_disruption_controller(true);
    kube.edit("poddisruptionbudgets", "shop", "negative", |b| {
        b["status"]["disruptionsAllowed"] = json!(-1);
    });
    kube.edit("poddisruptionbudgets", "shop", "full", |b| {
        b["status"]["disruptionsAllowed"] = json!(1);
        let many = (0..2001).map(|n| (format!("pod-{n}"), json!("2026-01-05T09:00:00Z")));
        b["status"]["disruptedPods"] = many.collect::<serde_json::Map<_, _>>().into();
    });
    scene.terminate(0).await;
    scene.stage.pass(120).await;
    assert_eq!(
        scene.sundown.drain(&scene.node(0)).unwrap().blocked,
        ["shop/full-0 pdb", "shop/negative-0 pdb"]
    );
    for pod in ["negative-0", "full-0"] {
        let tries = scene.evictions(pod).len();
        assert!((3..=9).contains(&tries), "{tries} tries of {pod} in two minutes");
    }
    assert!(scene.answers("budget_broken") >= 6.0);
    kube.freeze_disruption_controller(false);
    scene.completed(0, 60).await;
    scene.end().await;
}
