//! Clocks that differ: those of two replicas, and AWS's.

use sundown::{
    domain::Moment,
    runtime::Clock,
    sim::kube::{Entry, Fact, PodShape, PodSpec},
};

use super::{hook, leaders::follow, s};
use crate::{harness::Stage, judge};

/// When the pod `web` was deleted, in seconds after `since`.
fn forced_after(stage: &Stage, since: Moment) -> Vec<f64> {
    let is_forced = |e: &&Entry| {
        matches!(
            &e.fact, Fact::Deleted { pod, again: false, .. } if pod.name == "web"
        )
    };
    stage
        .deeds()
        .iter()
        .filter(is_forced)
        .map(|e| e.at.since_or_zero(since).as_secs_f64())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn two_replicas_whose_clocks_differ_force_at_the_same_moment() {
    let stage = Stage::new(1410);
    let instance = stage.spot_group(2).remove(0);
    stage.blocked_pod(&instance, "web", 30);
    let ahead = Clock::starting_at(stage.clock.now().plus(s(60)));
    let behind = Clock::starting_at(stage.clock.now().minus(s(45)));
    let first = stage.start_with_clock("sundown-0", &[], ahead);
    follow(&stage, 10, &first).await;
    let second = stage.start_with_clock("sundown-1", &[], behind);
    stage.pass(10).await;
    let noticed = stage.clock.now();
    stage.spot_warning(&instance, "spot-1");
    stage.until(5, "it is accepted", || stage.is_cordoned(&instance)).await;
    let taken = stage.record(&instance).unwrap()["interruptions"][0].clone();
    let at = |field: &str| taken[field].as_str().unwrap().parse::<Moment>().unwrap();
    assert!(at("time").duration_since(noticed).abs().as_millis() <= 1, "as AWS sent it: {taken}");
    assert!(at("accepted").duration_since(noticed).abs().as_secs() <= 3, "on AWS's clock: {taken}");
    first.kill();
    follow(&stage, 20, &second).await;
    stage.until(100, "it is forced", || !forced_after(&stage, noticed).is_empty()).await;
    let forced = forced_after(&stage, noticed);
    // 30 s before the deadline, which is 10 s before the end of the two minutes. AWS tells its time
    // in whole seconds.
    assert!(forced.len() == 1 && (78.0..82.0).contains(&forced[0]), "{forced:?}");
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn until_aws_answers_the_clock_of_the_api_server_is_used_instead_of_that_of_aws() {
    let stage = Stage::new(1412);
    let instance = stage.spot_group(2).remove(0);
    stage.blocked_pod(&instance, "web", 30);
    let first = stage.lead("sundown-0", &[]).await;
    // The next leader's own clock is wrong, and no call of its to AWS comes through.
    stage.world.aws.cut_off("sundown-1");
    let second = stage.start_with_clock(
        "sundown-1",
        &[],
        Clock::starting_at(stage.clock.now().minus(s(45))),
    );
    stage.pass(10).await;
    let noticed = stage.clock.now();
    stage.spot_warning(&instance, "spot-1");
    stage.until(5, "it is accepted", || stage.is_cordoned(&instance)).await;
    first.kill();
    follow(&stage, 20, &second).await;
    stage.until(120, "it is forced", || !forced_after(&stage, noticed).is_empty()).await;
    let forced = forced_after(&stage, noticed);
    assert!(forced.len() == 1 && (78.0..82.0).contains(&forced[0]), "{forced:?}");
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_measurement_of_awss_clock_that_changes_forces_nothing_at_once() {
    let stage = Stage::new(1411);
    let instance = stage.spot_group(2).remove(0);
    stage.blocked_pod(&instance, "web", 30);
    // Their heartbeats tell AWS's time.
    let hooked = stage.group_with("hooked", 8, &[hook("drain", 30)]);
    hooked.iter().enumerate().for_each(|(n, i)| stage.slow_pod(i, &format!("slow-{n}"), 200));
    let sundown = stage.lead("sundown-0", &[]).await;
    hooked.iter().for_each(|i| stage.world.aws.terminate(i, true));
    stage.pass(30).await;
    let noticed = stage.clock.now();
    stage.spot_warning(&instance, "spot-1");
    stage.pass(25).await;
    stage.world.aws.skew(jiff::SignedDuration::from_secs(60));
    stage.until(45, "it is measured", || sundown.metric("clock_skew_seconds") > 50.0).await;
    let measured = stage.clock.now();
    assert_eq!(forced_after(&stage, noticed), Vec::<f64>::new());
    // By this measurement the deadline is 50 s after the notice, and the pod would be deleted 25 s
    // after it.
    assert!((s(25)..s(50)).contains(&measured.since_or_zero(noticed)));
    stage.pass(60).await;
    let forced = forced_after(&stage, measured);
    assert!(
        forced.len() == 1 && (8.0..25.0).contains(&forced[0]),
        "{forced:?} s after it was measured"
    );
    sundown.stop().await;
    stage.end_except(
        &[judge::Rule::RecordFacts],
        "AWS's clock changes in the middle, and the judge reads a record by one difference",
    );
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_ahead_of_the_api_servers_makes_no_new_pod_old_and_no_pod_stuck() {
    let stage = Stage::new(1412);
    let instance = stage.group(2, 300).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    let stops_after = |seconds| PodShape {
        grace: Some(s(seconds)),
        stop: Some(s(seconds)),
        ..PodShape::default()
    };
    let agent = PodSpec::on(node.clone(), "shop", "agent").owner(
        "apps.kruise.io/v1alpha1",
        "DaemonSet",
        "agent",
    );
    stage.world.kube.add_pod(&agent.shape(stops_after(1)).label("app", "agent"));
    stage.world.kube.put_back("shop", "agent");
    stage.world.kube.add_pod(&PodSpec::on(node, "shop", "slow").shape(stops_after(25)));
    let sundown =
        stage.start_with_clock("sundown-0", &[], Clock::starting_at(stage.clock.now().plus(s(90))));
    follow(&stage, 10, &sundown).await;
    stage.pass(5).await;
    stage.world.aws.terminate(&instance, true);
    stage
        .until(60, "it is drained", || stage.actions(&instance).iter().all(|a| a.end.is_some()))
        .await;
    let evicted = stage.removals().iter().filter(|(pod, ..)| pod.starts_with("agent")).count();
    assert!((4..=6).contains(&evicted), "{evicted}");
    let stuck: Vec<_> = stage.events().into_iter().filter(|e| e.reason == "Blocked").collect();
    assert!(stuck.is_empty(), "{stuck:?}");
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_is_silent_for_as_long_by_a_clock_that_is_ahead_of_the_api_servers() {
    let stage = Stage::new(1413);
    let instance = stage.group(5, 300).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    stage.world.kube.add_pod(
        &PodSpec::on(node.clone(), "shop", "web")
            .shape(PodShape { stuck: true, ..PodShape::default() }),
    );
    let sundown =
        stage.start_with_clock("sundown-0", &[], Clock::starting_at(stage.clock.now().plus(s(90))));
    follow(&stage, 10, &sundown).await;
    stage.world.kube.kubelet_lost(&node);
    let lost = stage.clock.now();
    stage.world.aws.terminate(&instance, true);
    stage
        .until(200, "it is completed", || stage.actions(&instance).iter().all(|a| a.end.is_some()))
        .await;
    // 40 s until the cluster says Unknown, 60 s of that, 30 s for the pods.
    let took = stage.clock.now().since_or_zero(lost).as_secs_f64();
    assert!((127.0..134.0).contains(&took), "{took}");
    assert_eq!(sundown.metric("drains_total{end=\"unreachable\"}"), 1.0);
    sundown.stop().await;
    stage.end_unjudged();
}
