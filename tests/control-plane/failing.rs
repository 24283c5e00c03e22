//! A leader or an API server that ends in mid-drain.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sundown::{domain::Moment, runtime::Clock};

use crate::{
    audit::{self, assert_evicted_once, assert_one_writer, calls},
    cluster::{ADMIN, replica_token},
    draining::released,
    hands::{
        self, PODS, accepted, completed_by_sundown, hold, let_go, node_path, pod, pod_path,
        run_pod, stage_of_ours, wait_for,
    },
    process::LIMIT,
    stage::{Stage, condition, node, node_name},
};

/// A hook that runs out without a heartbeat for so long: more than the duration of the Lease, but
/// not by much.
const BEAT: Duration = Duration::from_secs(40);
/// Who takes over a Lease that was given up has led long before one that was not would have run out
/// (15 s).
const HANDED_OVER: Duration = Duration::from_secs(8);

/// Two nodes in mid-drain: the pod `slow` of the first is asked to stop and takes its time, the pod
/// `held` of the second waits for its budget.
async fn two_drains(stage: &Stage, slow: u64) -> [String; 2] {
    let instances: [String; 2] =
        stage.group_kept_alive(3, BEAT).await[..2].to_vec().try_into().unwrap();
    run_pod(stage, &pod("slow", &node_name(&instances[0]), slow)).await;
    hold(stage, "held", &instances[1]).await;
    instances
}

/// Waits until the one pod is evicted and the other is refused.
async fn in_mid_drain(stage: &Stage) {
    let refused =
        |c: &audit::Call| c.is("create", "pods/eviction") && c.name == "held" && c.code == 429;
    wait_for("one pod is evicted and the other refused", || {
        let calls = calls(stage);
        audit::evicted(&calls).contains_key("slow") && calls.iter().any(refused)
    })
    .await;
}

/// Ends both drains; nothing was evicted or completed twice.
async fn both_end(stage: &Stage, instances: &[String; 2]) {
    let_go(stage, "held").await;
    for instance in instances {
        let action = completed_by_sundown(stage, instance).await;
        assert!(action.late_calls.is_empty(), "{action:?}");
        assert!(
            stage.pods_on(&node_name(instance), "default").await.is_empty(),
            "it was not empty"
        );
        released(stage, instance).await;
    }
    let calls = calls(stage);
    assert_evicted_once(&calls, &["held".to_owned(), "slow".to_owned()]);
    assert_one_writer(&calls, Duration::ZERO);
}

/// When the Lease got the holder that it had last.
fn taken(calls: &[audit::Call]) -> Moment {
    audit::holders(calls).into_iter().rfind(|(_, holder)| holder.is_some()).unwrap().0
}

fn now() -> Moment {
    Clock::system().now()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_killed_in_mid_drain_is_followed_and_nothing_is_evicted_twice() {
    let Some(stage) = stage_of_ours(3).await else { return };
    let instances = two_drains(&stage, 25).await;
    let mut first = stage.start("sundown-0", &replica_token(0), &[]);
    first.counts("leader", 1.0).await;
    let mut second = stage.start("sundown-1", &replica_token(1), &[]);
    second.ready().await;
    for instance in &instances {
        stage.world.aws.terminate(instance, true);
    }
    in_mid_drain(&stage).await;
    first.signal("KILL");
    first.ended().await;
    let at = now();
    second.counts("leader", 1.0).await;
    // The Lease's duration and two seconds, and what a loaded machine makes of that.
    let unled = taken(&calls(&stage)).since_or_zero(at);
    assert!(unled < Duration::from_secs(22), "it took {unled:?}");
    // The clocks of the hooks go on: who follows beats at once.
    let kept_alive = |instance: &String| {
        stage
            .world
            .aws
            .actions()
            .iter()
            .any(|a| a.instance == *instance && a.heartbeats.iter().any(|b| *b > at))
    };
    wait_for("the second one beats for both", || instances.iter().all(kept_alive)).await;
    both_end(&stage, &instances).await;
    assert!(second.metric("heartbeats_missed_total").await < 0.5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_stopped_in_mid_drain_hands_over_at_once_or_leaves_it_to_the_next_process()
{
    let Some(stage) = stage_of_ours(4).await else { return };
    let instances = two_drains(&stage, 10).await;
    let mut first = stage.start("sundown-0", &replica_token(0), &[]);
    first.counts("leader", 1.0).await;
    let mut second = stage.start("sundown-1", &replica_token(1), &[]);
    second.ready().await;
    for instance in &instances {
        stage.world.aws.terminate(instance, true);
    }
    in_mid_drain(&stage).await;
    let stopped_at = now();
    first.signal("TERM");
    second.counts("leader", 1.0).await;
    let unled = taken(&calls(&stage)).since_or_zero(stopped_at);
    assert!(unled < HANDED_OVER, "it took {unled:?}");
    assert_eq!(first.ended().await.code(), Some(0));

    // Alone now, it ends as well, and gives the Lease up although nobody is there to have it.
    second.counts("drains_active", 1.0).await;
    second.signal("TERM");
    assert_eq!(second.ended().await.code(), Some(0));
    assert!(
        audit::holders(&calls(&stage)).last().unwrap().1.is_none(),
        "the Lease is held by nobody"
    );
    assert!(
        stage.world.aws.actions().iter().any(|a| a.instance == instances[1] && a.end.is_none()),
        "it waits for its pod"
    );
    let mut third = stage.start("sundown-2", &replica_token(2), &[]);
    third.ready().await;
    let ready = Instant::now();
    third.counts("leader", 1.0).await;
    assert!(ready.elapsed() < HANDED_OVER, "it took {:?}", ready.elapsed());
    both_end(&stage, &instances).await;
}

/// Nodes two and three are being drained; meanwhile somebody else changes them, where this API
/// server does not see it.
async fn change_elsewhere(stage: &mut Stage, instances: &[String], newcomer: &str) {
    let elsewhere = stage.cluster.start_api_server_elsewhere().await;
    hands::delete(&elsewhere, &pod_path("removed"), Some(0)).await;
    hands::create(&elsewhere, PODS, &pod("late", &node_name(&instances[1]), 1)).await;
    hands::create(&elsewhere, "/api/v1/nodes", &node(&node_name(newcomer), newcomer, 4)).await;
    hands::delete(&elsewhere, &node_path(&instances[2]), None).await;
    stage.cluster.compact().await;
    stage.cluster.kill_api_server();
}

/// The first event of a watch of Nodes from this version.
async fn first_of_watch(client: &kube::Client, version: &str) -> Value {
    let path = format!("/api/v1/nodes?watch=true&timeoutSeconds=1&resourceVersion={version}");
    let end = Instant::now() + LIMIT;
    loop {
        // 429 while its cache is not read yet.
        match client.request_text(http::Request::get(&path).body(Vec::new()).unwrap()).await {
            Ok(text) => {
                return serde_json::from_str(text.lines().next().unwrap_or("null")).unwrap();
            }
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_away_for_a_minute_and_has_forgotten_what_changed_meanwhile_costs_no_hook()
 {
    let Some(mut stage) = stage_of_ours(5).await else { return };
    let instances = stage.group_kept_alive(4, BEAT).await;
    // A budget would not hold it: nodes that cannot report for a minute are not ready, and then
    // their pods are not either.
    run_pod(&stage, &pod("slow", &node_name(&instances[0]), 600)).await;
    hold(&stage, "removed", &instances[1]).await;
    hold(&stage, "gone", &instances[2]).await;
    let newcomer = stage.world.aws.launch("asg").unwrap();
    let mut sundown =
        stage.leader("sundown", &["--log-level", "info,sundown::cluster::watch=debug"]).await;
    for instance in &instances[..3] {
        stage.world.aws.terminate(instance, true);
        accepted(&stage, instance).await;
    }
    wait_for("a pod is evicted", || audit::evicted(&calls(&stage)).contains_key("slow")).await;
    let seen = stage.get("/api/v1/nodes").await.unwrap()["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    let (killed, at) = (Instant::now(), now());
    stage.cluster.kill_api_server();
    sundown.answers("/readyz", "it is not ready", |status, _| status == 503).await;
    change_elsewhere(&mut stage, &instances, &newcomer).await;
    tokio::time::sleep(Duration::from_mins(1).saturating_sub(killed.elapsed())).await;
    let back = now();
    for action in stage.world.aws.actions() {
        assert!(action.end.is_none(), "nothing is completed meanwhile: {action:?}");
        let heartbeats = action.heartbeats.iter().filter(|b| **b > at && **b < back).count();
        assert!(
            heartbeats >= 2 && action.longest_gap(back) < BEAT,
            "it gets heartbeats meanwhile: {action:?}"
        );
    }

    stage.cluster.restart_api_server().await;
    let first_event = first_of_watch(&stage.cluster.client(ADMIN), &seen).await;
    assert_eq!(
        (&first_event["type"], &first_event["object"]["code"]),
        (&json!("ERROR"), &json!(410)),
        "it has forgotten: {first_event}"
    );
    let expired = |line: &String| line.contains("cannot watch nodes") && line.contains("410");
    wait_for("Sundown's watch of nodes gets 410", || {
        sundown.lines("a watch failed").iter().any(expired)
    })
    .await;
    assert!(sundown.metric("watch_failures_total{object=\"watch_nodes\"}").await > 0.5);
    let listed = |c: &audit::Call| {
        c.user == audit::USER && c.is("list", "nodes") && c.code == 200 && c.received > back
    };
    wait_for("Sundown lists all nodes anew", || calls(&stage).iter().any(listed)).await;
    // The pod that went while nobody looked is missed, and so is the node; the pod that came is
    // not.
    for instance in &instances[1..3] {
        completed_by_sundown(&stage, instance).await;
    }
    stage.until("the newcomer is ready", &node_path(&newcomer), |n| condition(n, "Ready")).await;
    stage.world.aws.terminate(&newcomer, true);
    completed_by_sundown(&stage, &newcomer).await;
    released(&stage, &newcomer).await;
    assert!(
        stage.world.aws.actions().iter().any(|a| a.instance == instances[0] && a.end.is_none()),
        "it waits for its pod"
    );
    hands::delete(&stage.cluster.client(ADMIN), &pod_path("slow"), Some(0)).await;
    completed_by_sundown(&stage, &instances[0]).await;
    assert_evicted_once(&calls(&stage), &["late".to_owned(), "slow".to_owned()]);
    // An API server that has just come up refuses everybody with 403 until it has read its RBAC
    // objects; that passes.
    sundown.ready().await;
}
