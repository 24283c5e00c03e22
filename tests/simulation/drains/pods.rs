//! Which pods go, which stay, and who waits for whom.

use std::time::Duration;

use serde_json::json;
use sundown::sim::kube::{
    BudgetSpec, EvictionVerdict, Fault, Match, PodShape, PodSpec, PodState, Rule, Timing, Workload,
};

use super::{Scene, about, between, graceful};
use crate::judge;

#[tokio::test(start_paused = true)]
async fn s15_finished_pods_stay_naked_ones_and_those_with_an_empty_dir_go() {
    let scene = Scene::hooked(115, 2, &[]).await;
    let kube = &scene.stage.world.kube;
    let on = |name: &str| PodSpec::on(scene.node(0), "shop", name);
    kube.add_pod(&on("succeeded").state(PodState::Succeeded));
    kube.add_pod(&on("failed").state(PodState::Failed).owner("apps/v1", "DaemonSet", "gone"));
    kube.add_pod(&on("naked"));
    kube.add_pod(&on("scratch"));
    kube.edit("pods", "shop", "scratch", |p| {
        p["spec"]["volumes"] = json!([{ "name": "tmp", "emptyDir": {} }]);
    });
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.completed(0, 60).await;
    assert!(
        scene.is_there("succeeded") && scene.is_there("failed"),
        "their logs and status are of use"
    );
    assert!(!scene.is_there("naked") && !scene.is_there("scratch"));
    for finished in ["succeeded", "failed"] {
        assert!(scene.evictions(finished).is_empty() && scene.deletes(finished).is_empty());
    }
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s16_daemon_set_pods_stay_unless_their_daemon_set_is_gone_or_foreign() {
    let scene = Scene::hooked(116, 2, &[]).await;
    let kube = &scene.stage.world.kube;
    let shape =
        PodShape { tolerations: vec![json!({ "operator": "Exists" })], ..PodShape::default() };
    kube.add_daemon_set(&Workload::new("shop", "daemon", 0).shape(shape));
    let on = |name: &str| PodSpec::on(scene.node(0), "shop", name);
    kube.add_pod(&on("orphan").owner("apps/v1", "DaemonSet", "deleted-long-ago"));
    kube.add_pod(
        &on("kruise").owner("apps.kruise.io/v1alpha1", "DaemonSet", "daemon").shape(graceful(1, 1)),
    );
    // Its controller does not know of cordons.
    kube.put_back("shop", "daemon");
    scene.pod(0, "slow", graceful(60, 40));
    scene.stage.pass(10).await;
    let node = scene.node(0);
    let accepted = scene.terminate(0).await;
    let completed = scene.completed(0, 60).await;
    about(between(accepted, completed), 40.0, 1.0);
    let left: Vec<String> =
        scene.stage.world.kube.pods_on(&node).into_iter().map(|p| p.name).collect();
    assert!(
        left.len() == 2
            && left.iter().any(|name| name.starts_with("daemon-"))
            && left.iter().any(|name| name == "kruise"),
        "{left:?}"
    );
    assert_eq!(scene.evictions("orphan").len(), 1);
    assert!(
        (4..=6).contains(&scene.evictions("kruise").len()),
        "{}",
        scene.evictions("kruise").len()
    );
    scene
        .stage
        .until(20, "the orphan is told", || scene.times_said("OrphanedDaemonSetPod") == 1)
        .await;
    assert_eq!(
        scene.requests("get", "daemonsets", "", "daemon").len(),
        1,
        "one look for the DaemonSet"
    );
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s20_pods_that_are_put_back_are_evicted_a_few_times_and_then_left_alone() {
    let scene = Scene::hooked(120, 2, &[]).await;
    let kube = &scene.stage.world.kube;
    let shape =
        PodShape { labels: [("app".to_owned(), "agent".to_owned())].into(), ..graceful(1, 1) };
    kube.add_pod(
        &PodSpec::on(scene.node(0), "shop", "agent")
            .owner("apps.kruise.io/v1alpha1", "DaemonSet", "agent")
            .shape(shape),
    );
    kube.put_back("shop", "agent");
    scene.pod(0, "slow", graceful(120, 100));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.until(30, "it is told", || scene.times_said("PodsComeBack") == 1).await;
    let told = scene.events("PodsComeBack").remove(0);
    assert!(told.contains("DaemonSet shop/agent"), "{told}");
    let evicted = scene.evictions("agent").len();
    assert!((4..=6).contains(&evicted), "{evicted}");
    scene.stage.pass(20).await;
    assert_eq!(scene.evictions("agent").len(), evicted, "from then on it is left alone");
    assert!(scene.is_there("agent"));
    scene.completed(0, 120).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s17_mirror_pods_are_neither_touched_nor_waited_for() {
    let scene = Scene::hooked(117, 2, &[]).await;
    let mut mirror = PodSpec::on(scene.node(0), "shop", "mirror-proxy");
    mirror.mirror = true;
    scene.stage.world.kube.add_pod(&mirror);
    scene.stage.pass(5).await;
    let accepted = scene.terminate(0).await;
    let completed = scene.completed(0, 60).await;
    about(between(accepted, completed), 5.0, 1.0);
    assert!(scene.is_there("mirror-proxy"));
    assert!(scene.evictions("mirror-proxy").is_empty() && scene.deletes("mirror-proxy").is_empty());
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s19_a_pod_that_is_bound_just_after_the_cordon_is_drained_too() {
    let scene = Scene::hooked(119, 2, &[]).await;
    let accepted = scene.terminate(0).await;
    scene.stage.pass(2).await;
    scene.pod(0, "late", graceful(30, 10));
    let completed = scene.completed(0, 60).await;
    assert_eq!(scene.evictions("late").len(), 1);
    assert!(!scene.is_there("late"));
    about(between(accepted, completed), 12.0, 1.5);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s19_a_pod_that_is_bound_after_the_cordon_is_drained_although_no_watch_of_pods_opens() {
    let scene = Scene::hooked(131, 2, &[]).await;
    scene.stage.world.kube.inject(Rule::always(Match::of("watch", "pods"), Fault::Forbidden));
    scene.terminate(0).await;
    scene.stage.pass(2).await;
    scene.pod(0, "late", graceful(30, 3));
    scene.completed(0, 60).await;
    assert_eq!(scene.evictions("late").len(), 1);
    assert!(!scene.is_there("late"));
    let lists = scene.requests("list", "pods", "", "").len();
    assert!(lists <= 6, "{lists}");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_counts_until_the_kubelet_has_taken_its_object_away() {
    let scene = Scene::hooked(132, 2, &[]).await;
    scene
        .stage
        .world
        .kube
        .set_timing(Timing { removal: Duration::from_secs(20), ..Timing::default() });
    scene.pod(0, "web-0", graceful(30, 3));
    scene.stage.pass(5).await;
    let accepted = scene.terminate(0).await;
    let completed = scene.completed(0, 60).await;
    assert!(!scene.is_there("web-0"), "its volumes are unmounted");
    about(between(accepted, completed), 23.5, 1.5);
    assert_eq!((scene.evictions("web-0").len(), scene.deletes("web-0").len()), (1, 0));
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_node_is_released_five_seconds_after_its_cordon() {
    let scene = Scene::hooked(120, 2, &[]).await;
    let accepted = scene.terminate(0).await;
    let completed = scene.completed(0, 60).await;
    about(between(accepted, completed), 5.0, 0.5);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn only_a_toleration_that_names_our_taint_exempts_a_pod() {
    let scene = Scene::hooked(121, 2, &[]).await;
    let with = |toleration: serde_json::Value| PodShape {
        tolerations: vec![toleration],
        ..PodShape::default()
    };
    scene.pod(0, "tolerates-all", with(json!({ "operator": "Exists" })));
    scene.pod(
        0,
        "tolerates-us",
        with(json!({ "key": "sundown.dev/interruption", "operator": "Exists" })),
    );
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.completed(0, 60).await;
    assert_eq!(scene.evictions("tolerates-all").len(), 1);
    assert!(scene.evictions("tolerates-us").is_empty() && scene.is_there("tolerates-us"));
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s12_a_pod_whose_accepted_eviction_is_intercepted_is_waited_for() {
    let scene = Scene::hooked(112, 2, &["--drain-timeout", "600s"]).await;
    scene.pod(0, "web-0", graceful(30, 1));
    scene.stage.world.kube.eviction_webhook(|_| EvictionVerdict::Intercept);
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(90).await;
    assert!(scene.is_there("web-0"));
    assert!(
        scene.stage.actions(&scene.instances[0])[0].end.is_none(),
        "an accepted eviction is no proof"
    );
    assert_eq!(scene.sundown.drain(&scene.node(0)).unwrap().blocked, ["shop/web-0 intercepted"]);
    assert!(
        (2..=5).contains(&scene.evictions("web-0").len()),
        "{}",
        scene.evictions("web-0").len()
    );
    scene.stage.world.kube.delete("pods", "shop", "web-0");
    let now = scene.stage.clock.now();
    about(between(now, scene.completed(0, 60).await), 1.0, 1.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s13_pods_that_are_not_ready_go_where_the_budget_lets_them() {
    let scene = Scene::hooked(113, 2, &["--drain-timeout", "600s"]).await;
    let kube = &scene.stage.world.kube;
    let put = |app: &str, name: &str, state: PodState| {
        kube.add_pod(&PodSpec::on(scene.node(0), "shop", name).label("app", app).state(state));
    };
    let elsewhere = |app: &str, name: &str| {
        kube.add_pod(&PodSpec::on(scene.node(1), "shop", name).label("app", app));
    };
    // Two ready of two desired: the one that is not ready may go.
    put("enough", "enough-unready", PodState::NotReady);
    elsewhere("enough", "enough-1");
    elsewhere("enough", "enough-2");
    kube.add_budget(&BudgetSpec::for_app("shop", "enough").min(2));
    // None ready of one or of none desired, but the policy lets it go whatever the budget says.
    put("always", "always-unready", PodState::NotReady);
    kube.add_budget(&BudgetSpec::for_app("shop", "always").min(1).unhealthy("AlwaysAllow"));
    put("none", "none-unready", PodState::NotReady);
    kube.add_budget(&BudgetSpec::for_app("shop", "none").min(0).unhealthy("AlwaysAllow"));
    // The same without the policy: nothing is allowed, since nothing is healthy.
    put("refused", "refused-unready", PodState::NotReady);
    kube.add_budget(&BudgetSpec::for_app("shop", "refused").min(0));
    // One ready of two desired: it must stay.
    put("short", "short-unready", PodState::NotReady);
    elsewhere("short", "short-1");
    kube.add_budget(&BudgetSpec::for_app("shop", "short").min(2));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    let gone = |app: &str| !scene.is_there(&format!("{app}-unready"));
    scene
        .stage
        .until(10, "three of them go", || gone("enough") && gone("always") && gone("none"))
        .await;
    scene.stage.pass(20).await;
    assert!(!gone("short") && !gone("refused"));
    assert_eq!(
        scene.sundown.drain(&scene.node(0)).unwrap().blocked,
        ["shop/refused-unready pdb", "shop/short-unready pdb"]
    );
    kube.remove("poddisruptionbudgets", "shop", "refused");
    // Another ready one, and it may go as well: at once, by the budget's status.
    scene
        .stage
        .world
        .kube
        .add_pod(&PodSpec::on(scene.node(1), "shop", "short-2").label("app", "short"));
    let now = scene.stage.clock.now();
    scene.stage.until(5, "it goes", || !scene.removals("short-unready").is_empty()).await;
    assert!(between(now, scene.removals("short-unready")[0].0) < 0.2);
    scene.completed(0, 30).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s14_a_pending_pod_is_evicted_although_its_budget_allows_nothing() {
    let scene = Scene::hooked(114, 2, &[]).await;
    let kube = &scene.stage.world.kube;
    kube.add_pod(
        &PodSpec::on(scene.node(0), "shop", "pending")
            .label("app", "web")
            .state(PodState::StuckPending),
    );
    kube.add_pod(&PodSpec::on(scene.node(1), "shop", "web-1").label("app", "web"));
    kube.add_budget(&BudgetSpec::for_app("shop", "web").min(1));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.completed(0, 30).await;
    assert!(!scene.is_there("pending"));
    assert_eq!(scene.evictions("pending").len(), 1);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn c52_daemon_set_mirror_and_finished_pods_stay_and_grace_is_capped_and_never_zero() {
    let scene = Scene::spot(152, 2, &["--spot-deadline-margin", "0s"]).await;
    let kube = &scene.stage.world.kube;
    kube.add_daemon_set(&Workload::new("shop", "daemon", 0));
    let mut mirror = PodSpec::on(scene.node(0), "shop", "mirror-proxy");
    mirror.mirror = true;
    kube.add_pod(&mirror);
    kube.add_pod(&PodSpec::on(scene.node(0), "shop", "done").state(PodState::Succeeded));
    scene.pod(0, "endless", graceful(3600, 5));
    scene.pod(0, "graceless", PodShape { grace: Some(Duration::ZERO), ..PodShape::default() });
    scene.stage.pass(10).await;
    scene.notice(0).await;
    scene
        .stage
        .until(60, "the others are gone", || {
            !scene.is_there("endless") && !scene.is_there("graceless")
        })
        .await;
    let endless = scene.removals("endless")[0].1;
    assert!((100..=120).contains(&endless), "capped by the deadline: {endless}");
    assert_eq!(scene.removals("graceless")[0].1, 1, "never 0");
    assert!(scene.is_there("mirror-proxy") && scene.is_there("done"));
    assert!(
        scene.stage.removals().iter().all(|(name, ..)| name == "endless" || name == "graceless"),
        "{:?}",
        scene.stage.removals()
    );
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_says_which_pod_has_less_time_than_its_grace_where_that_is_asked_for() {
    for (flags, events) in [(&["--pod-events=all"][..], 1), (&[], 0)] {
        let scene = Scene::spot(791, 2, flags).await;
        scene.pod(0, "endless", graceful(3600, 5));
        scene.stage.pass(10).await;
        scene.notice(0).await;
        scene.stage.until(60, "it is gone", || !scene.is_there("endless")).await;
        scene.stage.pass(5).await;
        let said = scene.events("ShortenedGrace");
        assert_eq!(said.len(), events, "{said:?}");
        assert!(said.iter().all(|m| m.contains("instead of 3600 s")), "{said:?}");
        scene
            .end_except(
                &[judge::Rule::TrueEvents],
                "the judge takes the grace period of this pod for 30 s",
            )
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_is_written_on_every_evicted_pod_where_that_is_asked_for() {
    for (flags, events) in [(&["--pod-events=all"][..], 1), (&[], 0)] {
        let scene = Scene::hooked(790, 2, flags).await;
        scene.pod(0, "web-0", graceful(40, 2));
        scene.stage.pass(5).await;
        scene.terminate(0).await;
        scene.completed(0, 60).await;
        let said = scene.events("Evicted");
        assert_eq!(said.len(), events, "{said:?}");
        assert!(said.iter().all(|m| m.contains("40 s") && m.contains(&scene.node(0))), "{said:?}");
        scene.end().await;
    }
}
