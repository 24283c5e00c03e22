//! Deadlines: grace periods, force, and what is left when they come.

use std::time::Duration;

use sundown::sim::{
    aws::GroupSpec,
    kube::{BudgetSpec, Entry, Fact, Fault, Match, PodShape, Request, Rule, Workload},
};

use super::{Scene, about, between, graceful};
use crate::{harness::Stage, judge};

/// Never allows a disruption.
fn closed_budget(scene: &Scene) {
    scene.stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "web").min(1));
}

#[tokio::test(start_paused = true)]
async fn s01_two_replicas_on_two_doomed_nodes_never_leave_their_service_without_a_ready_one() {
    let stage = Stage::new(101);
    let instances = stage.group(2, 300);
    let shape = PodShape { ready: Some(Duration::from_mins(2)), ..PodShape::default() };
    stage.world.kube.add_deployment(&Workload::new("shop", "web", 2).shape(shape));
    stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "web").max(1));
    stage.pass(150).await;
    stage.world.add_group(GroupSpec { replace_after: None, ..GroupSpec::new("fresh", 2) }, &[]);
    let scene = Scene::led(stage, instances, &[]).await;
    scene.stage.world.kube.clear_journal();
    scene.stage.world.aws.terminate(&scene.instances[0], true);
    scene.stage.world.aws.terminate(&scene.instances[1], true);
    scene.completed(0, 600).await;
    scene.completed(1, 600).await;

    let (mut ready, mut least, mut evicted, mut replaced) = (2_i32, 2_i32, Vec::new(), Vec::new());
    for Entry { at, fact, .. } in scene.stage.world.kube.journal() {
        match fact {
            Fact::Evicted { .. } => {
                evicted.push(at);
                ready -= 1;
            }
            Fact::PodReady(_) => {
                replaced.push(at);
                ready += 1;
            }
            Fact::Deleted { .. } => panic!("nobody is forced"),
            _ => {}
        }
        least = least.min(ready);
    }
    assert_eq!((least, evicted.len()), (1, 2));
    let wait = between(replaced[0], evicted[1]);
    assert!(
        (0.0..0.5).contains(&wait),
        "the second eviction comes {wait} s after the first replacement is ready"
    );
    scene
        .end_except(
            &[judge::Rule::LoadBalancers, judge::Rule::Leader, judge::Rule::TrueEvents],
            "the journal begins after the nodes, the pods and the Lease",
        )
        .await;
}

#[tokio::test(start_paused = true)]
async fn s02_a_single_replica_behind_a_budget_is_deleted_in_time_for_its_own_grace_period() {
    let scene =
        Scene::hooked(102, 2, &["--drain-timeout", "300s", "--deadline-margin", "0s"]).await;
    scene.pod(0, "web-0", graceful(30, 1000));
    closed_budget(&scene);
    scene.stage.pass(5).await;
    let accepted = scene.terminate(0).await;
    scene.stage.pass(60).await;
    let report = scene.sundown.drain(&scene.node(0)).unwrap();
    assert_eq!(report.blocked, ["shop/web-0 pdb"]);
    assert_eq!(scene.sundown.metric("blocked_pods{reason=\"pdb\"}"), 1.0);
    let (of_node, of_pod): (Vec<_>, Vec<_>) =
        scene.events("Blocked").into_iter().partition(|m| m.starts_with("1 pod is blocked"));
    assert!(
        of_pod.len() == 1 && of_pod[0].contains("needs 1 healthy pods and has 1 currently"),
        "{of_pod:?}"
    );
    assert!(
        of_node.len() == 1
            && of_node[0].contains("shop/web-0 (pdb shop/")
            && of_node[0].contains("Blocked pods are deleted by force from "),
        "{of_node:?}"
    );
    let refused = scene.evictions("web-0").len();
    assert!(refused <= 6, "{refused} tries in a minute in which nothing changed");

    let completed = scene.completed(0, 400).await;
    let removals = scene.removals("web-0");
    assert_eq!(removals.len(), 1, "{removals:?}");
    let (at, grace, deleted) = removals[0];
    assert!(deleted);
    about(between(accepted, at), 270.0, 2.0);
    assert_eq!(grace, 30);
    about(between(accepted, completed), 300.0, 3.0);
    assert!(
        scene.events("Forced").iter().any(|m| m.contains("shop/web-0")),
        "{:?}",
        scene.events("Forced")
    );
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s03_a_grace_period_longer_than_the_deadline_is_cut_to_what_is_left() {
    let scene = Scene::spot(103, 3, &["--spot-deadline-margin", "0s"]).await;
    // One that may go at once, one that its budget keeps.
    scene.stage.world.kube.add_pod(
        &sundown::sim::kube::PodSpec::on(scene.node(0), "shop", "free").shape(graceful(600, 1000)),
    );
    scene.pod(0, "web-0", graceful(600, 1000));
    closed_budget(&scene);
    scene.stage.pass(5).await;
    let noticed = scene.notice(0).await;
    scene.stage.until(10, "the free pod is evicted", || !scene.removals("free").is_empty()).await;
    scene.stage.pass(100).await;
    let (at, grace, deleted) = scene.removals("free")[0];
    assert!(!deleted);
    about(grace as f64, 120.0 - between(noticed, at), 2.0);
    let removals = scene.removals("web-0");
    assert_eq!(removals.len(), 1, "{removals:?}");
    let (at, grace, deleted) = removals[0];
    assert!(deleted);
    about(between(noticed, at), 60.0, 2.0);
    about(grace as f64, 60.0, 2.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s04_a_pod_that_would_terminate_past_the_deadline_is_shortened_to_it() {
    let scene =
        Scene::hooked(104, 2, &["--drain-timeout", "210s", "--deadline-margin", "0s"]).await;
    scene.pod(0, "web-0", graceful(6000, 10_000));
    scene.stage.pass(5).await;
    scene.stage.world.kube.delete("pods", "shop", "web-0");
    scene.stage.pass(100).await;
    let accepted = scene.terminate(0).await;
    scene.stage.until(10, "it is shortened", || !scene.removals("web-0").is_empty()).await;
    let (at, grace, deleted) = scene.removals("web-0")[0];
    assert!(deleted);
    about(grace as f64, 210.0 - between(accepted, at), 2.0);
    let completed = scene.completed(0, 300).await;
    about(between(accepted, completed), 210.0, 3.0);
    assert_eq!(scene.removals("web-0").len(), 1, "shortened once");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s05_what_the_deadline_finds_is_deleted_with_at_least_a_second() {
    let flags = ["--drain-timeout", "60s", "--deadline-margin", "0s", "--force-after", "deadline"];
    let scene = Scene::hooked(105, 2, &flags).await;
    scene.pod(0, "web-0", graceful(30, 1000));
    closed_budget(&scene);
    scene.stage.pass(5).await;
    let accepted = scene.terminate(0).await;
    let completed = scene.completed(0, 100).await;
    let (at, grace, deleted) = scene.removals("web-0")[0];
    assert!(deleted && grace == 1, "{grace}");
    about(between(accepted, at), 59.0, 1.5);
    about(between(accepted, completed), 60.0, 2.0);
    scene.end().await;
}

/// The Eviction API lets a pod that is terminating already go without a look at budgets, so this
/// needs no right to delete pods.
#[tokio::test(start_paused = true)]
async fn with_force_after_never_a_terminating_pod_is_shortened_by_an_eviction() {
    let flags = ["--drain-timeout", "210s", "--deadline-margin", "0s", "--force-after", "never"];
    let scene = Scene::hooked(107, 2, &flags).await;
    scene.pod(0, "web-0", graceful(6000, 10_000));
    scene.stage.pass(5).await;
    scene.stage.world.kube.delete("pods", "shop", "web-0");
    scene.stage.pass(100).await;
    let accepted = scene.terminate(0).await;
    scene.stage.until(10, "it is shortened", || !scene.evictions("web-0").is_empty()).await;
    let completed = scene.completed(0, 300).await;
    about(between(accepted, completed), 210.0, 3.0);
    assert!(scene.deletes("web-0").is_empty(), "no right to delete is needed");
    scene.end().await;
}

/// The patches of a pod's status that were asked for.
fn conditions(scene: &Scene) -> Vec<Request> {
    scene.requests("patch", "pods", "status", "web-0")
}

#[tokio::test(start_paused = true)]
async fn a_forced_delete_comes_after_the_condition_that_names_it_a_disruption() {
    for (seed, flag) in [(108, None), (109, Some("--disruption-target"))] {
        let flags: Vec<_> =
            ["--drain-timeout", "60s", "--deadline-margin", "0s"].into_iter().chain(flag).collect();
        let scene = Scene::hooked(seed, 2, &flags).await;
        scene.pod(0, "web-0", graceful(20, 1));
        closed_budget(&scene);
        scene.stage.pass(5).await;
        scene.terminate(0).await;
        scene.completed(0, 100).await;
        let (asked, deleted) = (conditions(&scene), scene.deletes("web-0"));
        assert_eq!((asked.len(), deleted.len()), (usize::from(flag.is_some()), 1), "{asked:?}");
        assert!(
            asked.iter().all(|r| r.status == 200 && r.at <= deleted[0].at),
            "{asked:?} {deleted:?}"
        );
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_cannot_be_set_does_not_hold_the_delete_up() {
    for (seed, fault, delay) in [(110, Fault::Hang, 1.0), (111, Fault::Forbidden, 0.0)] {
        let scene = Scene::hooked(
            seed,
            2,
            &["--drain-timeout", "60s", "--deadline-margin", "0s", "--disruption-target"],
        )
        .await;
        scene.pod(0, "web-0", graceful(20, 1));
        closed_budget(&scene);
        scene.stage.world.kube.inject(Rule::always(Match::of("patch", "pods/status"), fault));
        scene.stage.pass(5).await;
        let accepted = scene.terminate(0).await;
        scene.completed(0, 100).await;
        let removals = scene.removals("web-0");
        assert!(removals.len() == 1 && removals[0].2, "{removals:?}");
        about(between(accepted, removals[0].0), 40.0 + delay, 0.5);
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_drain_ends_at_its_deadline_whatever_is_left() {
    let flags = ["--drain-timeout", "60s", "--deadline-margin", "0s", "--force-after", "never"];
    let scene = Scene::hooked(106, 2, &flags).await;
    scene.pod(0, "web-0", graceful(30, 1));
    closed_budget(&scene);
    scene.stage.pass(5).await;
    let accepted = scene.terminate(0).await;
    let node = scene.node(0);
    let completed = scene.completed(0, 100).await;
    about(between(accepted, completed), 60.0, 2.0);
    assert!(scene.removals("web-0").is_empty());
    assert_eq!(scene.sundown.drain(&node).unwrap().phase, "deadline");
    assert_eq!(scene.sundown.metric("deadline_misses_total"), 1.0);
    assert_eq!(scene.sundown.metric("drains_total{end=\"deadline_reached\"}"), 1.0);
    assert!(
        scene.events("DrainEnded").iter().any(|m| m.contains("shop/web-0")),
        "{:?}",
        scene.events("DrainEnded")
    );
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_eviction_is_never_answered_is_deleted_in_time() {
    for (seed, grace) in [(121, 1), (122, 4), (123, 9), (124, 20)] {
        let scene =
            Scene::hooked(seed, 2, &["--drain-timeout", "60s", "--deadline-margin", "0s"]).await;
        scene.pod(0, "web-0", graceful(grace, 1));
        scene.stage.world.kube.inject(Rule::always(Match::evictions().named("web-0"), Fault::Hang));
        scene.stage.pass(5).await;
        let accepted = scene.terminate(0).await;
        scene.completed(0, 70).await;
        let removals = scene.removals("web-0");
        assert!(removals.len() == 1 && removals[0].2, "it was deleted, once: {removals:?}");
        about(between(accepted, removals[0].0), 60.0 - grace as f64, 0.5);
        scene.end().await;
    }
}
