//! What a process shows of itself, and what it does about its own node.

use std::collections::BTreeSet;

use sundown::sim::{
    aws::{Fault as AwsFault, FaultRule, How, SpotAction},
    kube::{Away, Fault as KubeFault, Match, PodShape, PodSpec, Rule},
};

use super::{leaders::follow, s};
use crate::{
    harness::{Replica, Stage},
    judge::Rule as Promise,
};

#[tokio::test(start_paused = true)]
async fn every_loop_of_a_leader_and_of_a_standby_is_looked_at_and_turns() {
    let stage = Stage::new(76);
    stage.group(1, 300);
    let first = stage.lead("sundown-0", &[]).await;
    let second = stage.start("sundown-1", &[]);
    stage.pass(5).await;
    let names = |replica: &Replica| replica.loops.names().into_iter().collect::<BTreeSet<_>>();
    assert_eq!(
        names(&first),
        BTreeSet::from(["fleet", "housekeeping", "lease", "message_reader", "poller"])
    );
    assert_eq!(names(&second), BTreeSet::from(["housekeeping", "lease"]));
    for replica in [&first, &second] {
        for _ in 0..10 {
            stage.pass(61).await;
            assert_eq!(replica.loops.stuck(), []);
        }
    }
    // Neither does anything count as stuck while AWS and Kubernetes are away, nor what has ended.
    stage.world.aws.fault(FaultRule::new("*", AwsFault::Hang, How::Always));
    stage.world.kube.go_away(Away::Silent);
    for _ in 0..10 {
        stage.pass(61).await;
        assert_eq!((first.loops.stuck(), second.loops.stuck()), (vec![], vec![]));
    }
    assert_eq!(names(&first), BTreeSet::from(["housekeeping", "lease"]), "it leads no more");
    first.end();
    second.end();
    stage.pass(100).await;
    assert_eq!((first.loops.stuck(), second.loops.stuck()), (vec![], vec![]));
    stage.end();
}

/// A Deployment without the right to its Lease must not roll out as if all were well.
#[tokio::test(start_paused = true)]
async fn who_cannot_use_the_lease_or_whose_watch_fails_is_not_ready() {
    let stage = Stage::new(75);
    let missing = |replica: &Replica| {
        replica
            .readiness
            .missing()
            .into_iter()
            .map(|(name, why)| format!("{name}: {why}"))
            .collect::<Vec<_>>()
    };
    let any = |resource: &str| Match { resource: Some(resource.into()), ..Match::all() };
    let denied = stage.world.kube.inject(Rule::always(any("leases"), KubeFault::Forbidden));
    let sundown = stage.start("sundown-0", &[]);
    stage.pass(10).await;
    let seen = missing(&sundown);
    assert!(
        matches!(
            &seen[..],
            [lease] if lease.starts_with("lease: cannot ") && lease.contains("kube-system/sundown") && lease.contains("403")
        ),
        "{seen:?}"
    );
    assert!(
        sundown.metric(
            "api_calls_total{target=\"kubernetes\",action=\"get_lease\",outcome=\"forbidden\"}"
        ) >= 1.0
    );
    stage.world.kube.lift(denied);
    stage
        .until(10, "it leads and is ready", || {
            sundown.metrics.leads() && missing(&sundown).is_empty()
        })
        .await;
    let cut = stage.world.kube.inject(Rule::always(any("nodes"), KubeFault::Forbidden));
    stage.world.kube.cut_watches(&Match::of("watch", "nodes"));
    stage.until(20, "it is not ready", || !missing(&sundown).is_empty()).await;
    let seen = missing(&sundown);
    assert!(
        matches!(
            &seen[..],
            [nodes] if nodes.starts_with("nodes: the watch of the nodes has been failing since ")
        ),
        "{seen:?}"
    );
    stage.world.kube.lift(cut);
    stage.until(60, "it is ready again", || missing(&sundown).is_empty()).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn what_is_done_with_the_lease_is_counted_by_verb_and_its_watches_are_in_no_histogram() {
    let stage = Stage::new(77);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.pass(900).await;
    assert!(
        sundown
            .metric("api_calls_total{target=\"kubernetes\",action=\"watch_lease\",outcome=\"ok\"}")
            >= 2.0
    );
    assert!(
        sundown.metric(
            "api_calls_total{target=\"kubernetes\",action=\"replace_lease\",outcome=\"ok\"}"
        ) >= 400.0
    );
    let all = sundown.metric("api_call_duration_seconds_count{target=\"kubernetes\"}");
    let short =
        sundown.metric("api_call_duration_seconds_bucket{le=\"10.0\",target=\"kubernetes\"}");
    assert!(all > 400.0 && (all - short).abs() < 0.5, "{short} of {all} within 10 s");
    sundown.stop().await;
    stage.end();
}

/// A Node without providerID tells no instance: our own is given up on its record alone.
#[tokio::test(start_paused = true)]
async fn a_leader_whose_own_node_has_no_provider_id_gives_the_lease_up_too() {
    let mut stage = Stage::new(78);
    let instances = stage.group(3, 300);
    let here = stage.name_of(&instances[0]);
    stage.world.kube.edit("nodes", "", &here, |n| {
        drop(n["spec"].as_object_mut().unwrap().remove("providerID"));
    });
    stage.slow_pod(&instances[1], "elsewhere", 1);
    stage.world.kube.add_pod(&PodSpec::on(&here, "shop", "slow").shape(PodShape {
        grace: Some(s(100)),
        stop: Some(s(60)),
        ..PodShape::default()
    }));
    stage.environment("NODE_NAME", &here);
    let first = stage.lead("sundown-0", &[]).await;
    stage.environment("NODE_NAME", "elsewhere");
    let second = stage.start("sundown-1", &[]);
    stage.pass(10).await;
    stage.world.aws.terminate(&instances[0], true);
    follow(&stage, 20, &second).await;
    stage.until(120, "the action is completed", || stage.is_over(&instances[0])).await;
    stage.all_completed_once();
    first.stop().await;
    second.stop().await;
    stage.end_except(
        &[Promise::Messages],
        "what is written on such a Node is not told by its providerID",
    );
}

/// A replica without the role, or whose zone has no way out, hears nothing and can answer no hook.
#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_reach_its_queue_lets_another_one_lead_and_two_of_them_hand_it_over_seldom()
 {
    for fault in [AwsFault::AccessDenied, AwsFault::Cut, AwsFault::Hang] {
        let stage = Stage::new(79);
        let instances = stage.group(1, 300);
        let (first, second) = (stage.lead("sundown-0", &[]).await, stage.start("sundown-1", &[]));
        let leads = |replica: &Replica| replica.metrics.leads();
        stage.pass(200).await;
        assert!(leads(&first));
        stage.world.aws.fault(FaultRule::new("sqs:*", fault, How::Always));
        // Asked every 30 s while all is well, every 5 s then, for a minute.
        stage.pass(60).await;
        assert!(leads(&first), "{fault:?}: a bad minute is no reason");
        // Who is well bids at once; of two that are cut off either may get it, after five seconds.
        let given_up = || first.metric("leader_changes_total{role=\"standby\"}");
        let before = given_up();
        stage.until(180, "the first gives the Lease up", || given_up() > before).await;
        // Nobody reaches it. Each lets the other try now and then, and less and less often;
        // somebody leads nearly always.
        let (mut changes, mut leader, mut nobody) = (0, false, 0);
        for _ in 0..360 {
            stage.pass(10).await;
            changes += u32::from(std::mem::replace(&mut leader, leads(&first)) != leads(&first));
            nobody += u32::from(!leads(&first) && !leads(&second));
        }
        assert!(
            (1..=24).contains(&changes) && nobody <= 12,
            "{fault:?}: {changes} changes of leader in an hour, nobody led at {nobody} of 360 looks"
        );
        stage.world.aws.end_faults();
        stage.world.aws.terminate(&instances[0], true);
        stage.until(120, "the action is completed", || stage.is_over(&instances[0])).await;
        let (leader, standby) = if leads(&first) { (first, second) } else { (second, first) };
        leader.stop().await;
        stage.until(4, "the standby bids as ever again", || leads(&standby)).await;
        standby.stop().await;
        stage.all_completed_once();
        stage.end();
    }
}

/// Nobody else would find a queue that is not there.
#[tokio::test(start_paused = true)]
async fn a_leader_whose_queue_is_deleted_goes_on_leading() {
    let stage = Stage::new(80);
    stage.group(1, 300);
    let (first, second) = (stage.lead("sundown-0", &[]).await, stage.start("sundown-1", &[]));
    stage.world.aws.delete_queue(stage.world.queue());
    for _ in 0..30 {
        stage.pass(10).await;
        assert!(first.metrics.leads() && !second.metrics.leads());
    }
    first.stop().await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_spot_notice_in_a_rolling_restart_does_not_vanish_in_the_long_poll_of_the_one_that_ends()
{
    for after in [0, 5, 12] {
        let stage = Stage::new(867 + after);
        let instance = stage.group(1, 300).remove(0);
        let first = stage.lead("sundown-0", &[]).await;
        let second = stage.start("sundown-1", &[]);
        // No multiple of the 20 s that a long poll waits.
        stage.pass(43).await;
        let first = tokio::spawn(first.stop());
        stage.until(2, "the standby leads", || second.metrics.leads()).await;
        stage.pass(after).await;
        assert!(!first.is_finished());
        stage.world.aws.spot_interruption(&instance, SpotAction::Terminate);
        stage.until(2, "it is taken on", || stage.is_cordoned(&instance)).await;
        first.await.unwrap();
        second.stop().await;
        stage.end();
    }
}
