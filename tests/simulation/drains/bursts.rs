//! Bursts: nothing is evicted before all of it is cordoned, and nothing waits long.

use std::time::Duration;

use sundown::{
    domain::Moment,
    sim::{
        WorldSettings,
        aws::SpotAction,
        kube::{BudgetSpec, Fact, Fault, Match, PodShape, Rule, Workload},
    },
};

use super::{Scene, between};
use crate::{harness::Stage, judge};

fn cordons(scene: &Scene) -> Vec<Moment> {
    scene
        .stage
        .deeds()
        .iter()
        .filter(|e| matches!(e.fact, Fact::Cordoned(_)))
        .map(|e| e.at)
        .collect()
}

fn evicted(scene: &Scene) -> Vec<Moment> {
    scene
        .stage
        .deeds()
        .iter()
        .filter(|e| matches!(e.fact, Fact::Evicted { .. }))
        .map(|e| e.at)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_evicted_onto_a_doomed_node() {
    let stage = Stage::new(301);
    let instances = stage.spot_group(30);
    stage.world.kube.add_deployment(&Workload::new("shop", "web", 90));
    stage.pass(30).await;
    let scene = Scene::led(stage, instances, &[]).await;
    let doomed: Vec<String> = (0..20).map(|n| scene.node(n)).collect();
    for instance in &scene.instances[..20] {
        scene.stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
    }
    scene
        .stage
        .until(100, "their pods are gone", || {
            doomed.iter().all(|n| scene.stage.world.kube.pods_on(n).is_empty())
        })
        .await;
    let (cordons, evicted) = (cordons(&scene), evicted(&scene));
    assert_eq!(cordons.len(), 20);
    assert!(
        cordons.iter().max() < evicted.iter().min(),
        "all are cordoned before the first eviction"
    );
    let waited = between(cordons[0], evicted[0]);
    assert!(waited <= 0.8, "{waited}");
    let journal = scene.stage.world.kube.journal();
    let landed = journal
        .iter()
        .filter(|e| e.at >= evicted[0])
        .filter(|e| matches!(&e.fact, Fact::Bound(pod) if doomed.contains(&pod.node)));
    assert_eq!(landed.count(), 0);
    assert_eq!(evicted.len(), 60, "each pod once");
    scene.end().await;
}

/// Two interruptions, of which the PATCH of the first one hangs: how long the pod of the second one
/// waits after its cordon.
async fn wait_beside_a_hanging_patch(scene: &Scene, strike: impl Fn(&str)) -> f64 {
    scene.pod(1, "web-1", PodShape::default());
    scene.stage.world.kube.inject(Rule::next(
        1,
        Match::of("patch", "nodes").named(scene.node(0)),
        Fault::Hang,
    ));
    scene.stage.pass(5).await;
    strike(&scene.instances[0]);
    strike(&scene.instances[1]);
    let cordoned = scene.cordoned(1).await;
    scene.stage.until(5, "the pod is evicted", || !scene.removals("web-1").is_empty()).await;
    between(cordoned, scene.removals("web-1")[0].0)
}

#[tokio::test(start_paused = true)]
async fn a_hook_waits_two_seconds_at_most_for_the_rest_of_its_burst() {
    let scene = Scene::hooked(302, 3, &[]).await;
    let waited = wait_beside_a_hanging_patch(&scene, |instance| {
        scene.stage.world.aws.terminate(instance, true);
    })
    .await;
    assert!((1.8..2.1).contains(&waited), "{waited}");
    scene.completed(0, 60).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_spot_notice_waits_eight_tenths_of_a_second_at_most() {
    let scene = Scene::spot(303, 3, &[]).await;
    let waited = wait_beside_a_hanging_patch(&scene, |instance| {
        scene.stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
    })
    .await;
    assert!((0.6..0.9).contains(&waited), "{waited}");
    scene
        .end_except(
            &[judge::Rule::LoadBalancers],
            "the judge counts room by the labels, of which some are being written",
        )
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_lonely_interruption_waits_a_fifth_of_a_second() {
    let scene = Scene::hooked(304, 2, &[]).await;
    scene.pod(0, "web-0", PodShape::default());
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.until(5, "the pod is evicted", || !scene.removals("web-0").is_empty()).await;
    let waited = between(cordons(&scene)[0], evicted(&scene)[0]);
    assert!((0.1..0.3).contains(&waited), "{waited}");
    scene.completed(0, 60).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn steady_arrivals_hold_nobody_for_long() {
    let scene = Scene::spot(305, 40, &[]).await;
    scene.pod(0, "web-0", PodShape::default());
    scene.stage.pass(5).await;
    for instance in &scene.instances[..30] {
        scene.stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let waited = between(cordons(&scene)[0], scene.removals("web-0")[0].0);
    assert!(waited <= 0.85, "{waited}");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s28_a_hundred_nodes_of_thirty_pods_under_five_budgets_go_at_once() {
    let stage = Stage::new(328);
    let instances = stage.spot_group(140);
    for n in 0..5 {
        let app = format!("web-{n}");
        stage.world.kube.add_deployment(&Workload::new("shop", &app, 840));
        stage.world.kube.add_budget(&BudgetSpec::for_app("shop", &app).max("10%"));
    }
    stage.pass(60).await;
    let scene = Scene::led(stage, instances, &[]).await;
    let doomed: Vec<String> = (0..100).map(|n| scene.node(n)).collect();
    let pods: usize = doomed.iter().map(|n| scene.stage.world.kube.pods_on(n).len()).sum();
    assert!(pods >= 2900, "{pods}");
    let noticed = scene.stage.clock.now();
    for instance in &scene.instances[..100] {
        scene.stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
    }
    scene.stage.until(100, "all are cordoned", || cordons(&scene).len() == 100).await;
    assert!(
        between(noticed, scene.stage.clock.now()) <= 2.0,
        "{}",
        between(noticed, scene.stage.clock.now())
    );
    scene.stage.pass(115).await;
    let removed = scene.stage.removals();
    let late = scene
        .stage
        .deeds()
        .iter()
        .filter(|e| matches!(e.fact, Fact::Evicted { .. }))
        .map(|e| e.at)
        .max()
        .unwrap();
    assert!(
        between(noticed, late) <= 60.0,
        "the last eviction {} s after the notice",
        between(noticed, late)
    );
    assert!(
        removed.iter().all(|(.., deleted, overrun)| !deleted && overrun.is_empty()),
        "nobody is forced, no budget overrun"
    );
    assert_eq!(removed.len(), pods);
    let first = scene.requests("create", "pods", "eviction", "")[0].at;
    assert!(
        between(noticed, first) <= 1.0,
        "the first eviction {} s after the notice",
        between(noticed, first)
    );
    assert_eq!(scene.requests("get", "pods", "", "").len(), 0, "nobody polls");
    let calls = scene.requests("create", "pods", "eviction", "").len();
    // Each pod is tried once whatever its budget says (one that is not ready may go all the same),
    // and again when the budget has room for it.
    assert!(calls <= 2 * pods, "{calls} calls for {pods} pods");
    assert_eq!(scene.answers("conflict"), 0.0);
    scene
        .end_except(
            &[judge::Rule::LoadBalancers],
            "the judge counts room by the labels, of which some are being written",
        )
        .await;
}

#[tokio::test(start_paused = true)]
async fn s28_evictions_that_overlap_under_one_budget_conflict_in_the_api_server_and_nobody_sees_it()
{
    let mut settings = WorldSettings::seeded(329);
    settings.kube.timing.budget_write = Duration::from_millis(5);
    let stage = Stage::with(settings);
    let instances = stage.spot_group(30);
    for n in 0..2 {
        let app = format!("web-{n}");
        stage.world.kube.add_deployment(&Workload::new("shop", &app, 150));
        stage.world.kube.add_budget(&BudgetSpec::for_app("shop", &app).max("30%"));
    }
    stage.pass(60).await;
    let scene = Scene::led(stage, instances, &[]).await;
    let doomed: Vec<String> = (0..10).map(|n| scene.node(n)).collect();
    let pods: usize = doomed.iter().map(|n| scene.stage.world.kube.pods_on(n).len()).sum();
    assert!(pods >= 90, "{pods}");
    for instance in &scene.instances[..10] {
        scene.stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
    }
    scene.stage.pass(118).await;
    let removed = scene.stage.removals();
    assert!(
        removed.iter().all(|(.., deleted, overrun)| !deleted && overrun.is_empty()),
        "nobody is forced, no budget overrun"
    );
    assert_eq!(removed.len(), pods);
    let calls = scene.requests("create", "pods", "eviction", "");
    let waited =
        calls.iter().filter(|r| r.answered.is_some_and(|a| between(r.at, a) >= 0.5)).count();
    assert!(waited >= 10, "{waited} of {} met a conflict", calls.len());
    assert!(calls.iter().all(|r| r.status != 409), "the server's own retries are enough");
    assert_eq!(scene.answers("conflict"), 0.0);
    assert!(calls.len() * 10 <= pods * 11, "{} calls for {pods} pods", calls.len());
    scene.end().await;
}
