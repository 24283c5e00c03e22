//! A leader that gives the Lease up while its requests are under way.

use sundown::{
    domain::Moment,
    sim::{
        aws::{Fault as AwsFault, FaultRule, How},
        kube::{Fault, Match, PodSpec, Request, Rule},
    },
};

use super::{gaps, hook, leaders::follow, s, takeovers::two};
use crate::harness::Stage;

const COMPLETE: &str = "autoscaling:CompleteLifecycleAction";

/// When a replica first wrote the Lease as its holder, after `from`.
fn took_over(stage: &Stage, replica: &str, from: Moment) -> Moment {
    let is = |r: &&Request| {
        r.client == replica
            && r.resource == "leases"
            && r.is_write()
            && r.status == 200
            && r.at >= from
    };
    let requests = stage.world.kube.requests();
    requests.iter().find(is).unwrap_or_else(|| panic!("{replica} never led")).at
}

/// The writes of a replica to Nodes and pods.
fn writes_of(stage: &Stage, replica: &str) -> Vec<Request> {
    let is = |r: &Request| {
        r.client == replica && r.is_write() && ["nodes", "pods"].contains(&r.resource.as_str())
    };
    stage.world.kube.requests().into_iter().filter(is).collect()
}

/// No write of `sundown-0` begins after `stopped`, and each is answered or over by the time at
/// which `sundown-1` leads.
fn nothing_after(stage: &Stage, stopped: Moment, led: Moment) {
    for write in writes_of(stage, "sundown-0") {
        assert!(write.at <= stopped, "it begins after the process was told to stop: {write:?}");
        let over = write.answered.or_else(|| Some(write.at + write.timeout?));
        assert!(
            over.is_some_and(|over| over <= led),
            "it may still have an effect when another leads at {led}: {write:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_holds_the_lease_until_its_last_eviction_is_over_and_sends_heartbeats_meanwhile()
 {
    let stage = Stage::new(1420);
    let hooked = stage.group_with("hooked", 1, &[hook("drain", 30)]).remove(0);
    stage.slow_pod(&hooked, "slow", 120);
    let spots = stage.spot_group(2);
    for (n, spot) in spots.iter().enumerate() {
        stage.world.kube.add_pod(&PodSpec::on(stage.name_of(spot), "shop", format!("web-{n}")));
    }
    let (first, second) = two(&stage).await;
    stage.world.aws.terminate(&hooked, true);
    stage
        .until(60, "its hook is kept open", || {
            stage.actions(&hooked).iter().any(|a| a.heartbeats.len() >= 2)
        })
        .await;
    // One is answered slowly. The other waits for the same lane, and is asked by the next leader.
    stage.world.kube.inject(Rule::always(Match::evictions().from("sundown-0"), Fault::Slow(s(7))));
    for (n, spot) in spots.iter().enumerate() {
        stage.spot_warning(spot, &format!("spot-{n}"));
    }
    let asked = || {
        writes_of(&stage, "sundown-0")
            .iter()
            .filter(|r| r.subresource == "eviction" && r.name.starts_with("web"))
            .count()
    };
    stage.until(5, "an eviction is under way", || asked() > 0).await;
    let stopped = stage.clock.now();
    first.stop().await;
    let led = took_over(&stage, "sundown-1", stopped);
    nothing_after(&stage, stopped, led);
    assert!(
        led >= stopped + s(6) && led <= stopped + s(8),
        "as soon as it is over: {led}, told to stop at {stopped}"
    );
    let evictions =
        writes_of(&stage, "sundown-0").into_iter().filter(|r| r.subresource == "eviction");
    assert!(evictions.into_iter().all(|r| r.status == 201), "what was under way had its effect");
    follow(&stage, 1, &second).await;
    stage
        .until(250, "all drains are over", || {
            stage.all_over() && second.metric("drains_active") == 0.0
        })
        .await;
    let action = stage.action(&hooked);
    let longest = gaps(&action).into_iter().fold(0.0, f64::max);
    assert!(longest <= 12.0, "heartbeats every ten seconds all the time: {action:?}");
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_holds_the_lease_until_its_completion_is_answered() {
    let stage = Stage::new(1421);
    let instance = stage.group_with("hooked", 1, &[hook("drain", 300)]).remove(0);
    let (first, second) = two(&stage).await;
    stage.world.aws.fault(FaultRule::new(COMPLETE, AwsFault::Latency(s(5)), How::Times(1)));
    stage.world.aws.terminate(&instance, true);
    let name = stage.name_of(&instance);
    stage
        .until(60, "its drain is over", || first.drain(&name).is_some_and(|d| d.drained.is_some()))
        .await;
    stage.pass(1).await;
    assert!(!stage.is_over(&instance), "the completion is under way");
    let stopped = stage.clock.now();
    first.stop().await;
    let led = took_over(&stage, "sundown-1", stopped);
    let end = stage.action(&instance).end.expect("it is completed");
    assert_eq!(end.by, "sundown-0");
    assert!(
        end.at <= led && led <= stopped + s(7),
        "completed at {}, another led at {led}",
        end.at
    );
    nothing_after(&stage, stopped, led);
    follow(&stage, 1, &second).await;
    stage.pass(60).await;
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_waits_twelve_seconds_for_a_write_at_most() {
    let stage = Stage::new(1422);
    let spot = stage.spot_group(1).remove(0);
    stage.world.kube.add_pod(&PodSpec::on(stage.name_of(&spot), "shop", "web"));
    let (first, second) = two(&stage).await;
    stage.world.kube.inject(Rule::always(Match::evictions().from("sundown-0"), Fault::Hang));
    stage.spot_warning(&spot, "spot-1");
    stage
        .until(5, "an eviction is under way", || {
            writes_of(&stage, "sundown-0").iter().any(|r| r.subresource == "eviction")
        })
        .await;
    let stopped = stage.clock.now();
    first.stop().await;
    let led = took_over(&stage, "sundown-1", stopped);
    nothing_after(&stage, stopped, led);
    assert!(led <= stopped + s(13), "{led}, told to stop at {stopped}");
    stage
        .until(120, "its pod is evicted by the next leader", || {
            stage.removals().iter().any(|r| r.0 == "web")
        })
        .await;
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn where_no_write_is_under_way_another_leads_within_a_second() {
    let stage = Stage::new(1423);
    let instance = stage.group(2, 300).remove(0);
    stage.slow_pod(&instance, "slow", 60);
    let (first, second) = two(&stage).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(20).await;
    let stopped = stage.clock.now();
    first.stop().await;
    let led = took_over(&stage, "sundown-1", stopped);
    assert!(led <= stopped + s(1), "{led}, told to stop at {stopped}");
    nothing_after(&stage, stopped, led);
    stage.until(120, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_own_node_drains_hands_over_when_its_last_eviction_is_over() {
    let mut stage = Stage::new(1424);
    let spots = stage.spot_group(2);
    let here = stage.name_of(&spots[0]);
    stage.environment("NODE_NAME", &here);
    for (n, spot) in spots.iter().enumerate() {
        stage.world.kube.add_pod(&PodSpec::on(stage.name_of(spot), "shop", format!("web-{n}")));
    }
    let first = stage.lead("sundown-0", &[]).await;
    stage.environment("NODE_NAME", "elsewhere");
    let second = stage.start("sundown-1", &[]);
    stage.pass(10).await;
    stage.world.kube.inject(Rule::always(Match::evictions().from("sundown-0"), Fault::Slow(s(5))));
    stage.spot_warning(&spots[1], "spot-1");
    stage
        .until(5, "an eviction is under way", || {
            writes_of(&stage, "sundown-0").iter().any(|r| r.subresource == "eviction")
        })
        .await;
    let warned = stage.clock.now();
    stage.spot_warning(&spots[0], "spot-0");
    stage.until(15, "the other leads", || second.metrics.leads()).await;
    let led = took_over(&stage, "sundown-1", warned);
    assert!(led >= warned + s(2), "the eviction was under way for two seconds at least: {led}");
    for write in writes_of(&stage, "sundown-0") {
        assert!(
            write.answered.is_some_and(|at| at <= led),
            "{write:?}, and another leads from {led}"
        );
    }
    stage.until(120, "both are drained", || second.metric("drains_active") == 0.0).await;
    first.stop().await;
    second.stop().await;
    stage.end();
}
