//! Nodes that vanish, fall silent, or whose instance is over.

use serde_json::json;
use sundown::sim::{
    aws::{Fault as AwsFault, FaultRule, How, State},
    kube::{Away, Fault, Match, PodShape, Rule as Trouble, Timing},
};

use super::{Scene, about, between, graceful};
use crate::{harness::Stage, judge::Rule, messages::logs::Logs};

/// A pod that no kubelet ever gets stopped.
fn stuck() -> PodShape {
    PodShape { stuck: true, ..graceful(30, 1) }
}

#[tokio::test(start_paused = true)]
async fn s24_a_node_that_is_deleted_in_mid_drain_is_completed_at_once() {
    let scene = Scene::hooked(524, 2, &[]).await;
    scene.pod(0, "web-0", stuck());
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(20).await;
    scene.stage.world.kube.delete_node(&scene.node(0));
    let deleted = scene.stage.clock.now();
    let completed = scene.completed(0, 10).await;
    assert!(between(deleted, completed) < 0.5, "{}", between(deleted, completed));
    assert_eq!(scene.sundown.metric("drains_total{end=\"node_gone\"}"), 1.0);
    assert_eq!(scene.sundown.metric("drains_active"), 0.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s25_a_node_that_is_not_ready_and_whose_instance_is_terminated_is_not_waited_for() {
    let scene = Scene::hooked(525, 3, &[]).await;
    scene.stage.world.kube.set_timing(Timing { node_deletion: None, ..Timing::default() });
    scene.pod(0, "web-0", stuck());
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(20).await;
    scene.stage.world.aws.terminate_in_ec2(&scene.instances[0]);
    let over = || {
        scene
            .stage
            .world
            .aws
            .instance(&scene.instances[0])
            .is_none_or(|i| i.state == State::Terminated)
    };
    scene.stage.until(120, "the instance is terminated", over).await;
    let terminated = scene.stage.clock.now();
    let completed = scene.completed(0, 60).await;
    assert!(between(terminated, completed) < 3.0, "{}", between(terminated, completed));
    assert!(scene.is_there("web-0"));
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn c53_an_unreachable_node_is_given_thirty_seconds_whatever_hangs_there() {
    let scene = Scene::hooked(553, 5, &[]).await;
    scene.pod(0, "web-0", stuck());
    scene.pod(0, "web-1", graceful(30, 1000));
    scene.stage.pass(5).await;
    scene.stage.world.kube.delete("pods", "shop", "web-0");
    let node = scene.node(0);
    scene.stage.world.kube.kubelet_lost(&node);
    let lost = scene.stage.clock.now();
    scene.terminate(0).await;
    let completed = scene.completed(0, 200).await;
    // 40 s until the cluster says Unknown, 60 s of that, 30 s for the pods.
    about(between(lost, completed), 130.0, 3.0);
    assert_eq!(scene.evictions("web-1").len(), 1, "its pods are evicted all the same");
    assert_eq!(scene.sundown.metric("drains_total{end=\"unreachable\"}"), 1.0);
    assert!(scene.removals("web-1").iter().all(|(.., deleted)| !deleted));
    scene.end_except(&[Rule::NotTooEarly], "an unreachable node is not waited for").await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_that_is_held_back_is_not_given_up_before_its_pods_had_their_time() {
    let flags = ["--drain-timeout", "1h", "--max-voluntary", "1"];
    let scene = Scene::hooked(565, 5, &flags).await;
    for n in 0..2 {
        scene.pod(n, &format!("web-{n}"), stuck());
    }
    scene.stage.pass(5).await;
    for n in 0..2 {
        scene.stage.world.kube.kubelet_lost(&scene.node(n));
        scene.terminate(n).await;
    }
    let first = scene.completed(0, 200).await;
    assert!(scene.stage.actions(&scene.instances[1])[0].end.is_none());
    let second = scene.completed(1, 100).await;
    about(between(first, second), 31.0, 3.0);
    assert_eq!(scene.evictions("web-1").len(), 1);
    assert_eq!(scene.sundown.metric("drains_total{end=\"unreachable\"}"), 2.0);
    scene.end_except(&[Rule::NotTooEarly], "an unreachable node is not waited for").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_heard_of_again_in_time_is_waited_for() {
    let scene = Scene::hooked(554, 5, &["--drain-timeout", "600s"]).await;
    scene.pod(0, "web-0", graceful(500, 400));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.world.kube.kubelet_lost(&scene.node(0));
    scene.stage.pass(115).await;
    scene.stage.world.kube.kubelet_back(&scene.node(0));
    scene.stage.pass(60).await;
    assert!(scene.stage.actions(&scene.instances[0])[0].end.is_none());
    scene.completed(0, 500).await;
    assert!(!scene.is_there("web-0"));
    assert_eq!(scene.sundown.metric("drains_total{end=\"empty\"}"), 1.0);
    scene.end().await;
}

/// The watch of Nodes dies without a sign just before the kubelet reports again: what the index
/// says is old. The world of seed 1000152.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_heard_of_again_behind_a_dead_watch_is_waited_for() {
    let scene = Scene::hooked(562, 5, &["--drain-timeout", "600s"]).await;
    scene.pod(0, "web-0", graceful(500, 400));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.world.kube.kubelet_lost(&scene.node(0));
    // 40 s until the cluster says Unknown, 60 s of that, and 15 of the 30 s for the pods.
    scene.stage.pass(115).await;
    scene.stage.world.kube.silence_watches(&Match::of("watch", "nodes"));
    scene.stage.world.kube.kubelet_back(&scene.node(0));
    scene.stage.pass(30).await;
    assert!(
        scene.stage.actions(&scene.instances[0])[0].end.is_none(),
        "its pod is stopping, and the kubelet is heard"
    );
    scene.completed(0, 500).await;
    assert!(!scene.is_there("web-0"));
    assert_eq!(scene.sundown.metric("drains_total{end=\"empty\"}"), 1.0);
    scene.end().await;
}

/// Nothing is known of the kubelet while its Node cannot be read: the drain goes on, and ends at
/// its deadline.
#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_read_is_not_given_up_before_its_deadline() {
    for (seed, fault) in [(563, Fault::Forbidden), (564, Fault::Hang)] {
        let logs = Logs::keep();
        let scene =
            Scene::hooked(seed, 5, &["--drain-timeout", "300s", "--deadline-margin", "0s"]).await;
        scene.pod(0, "web-0", stuck());
        scene.stage.pass(5).await;
        scene.stage.world.kube.kubelet_lost(&scene.node(0));
        let accepted = scene.terminate(0).await;
        scene.stage.world.kube.inject(Trouble::always(Match::of("get", "nodes"), fault));
        let completed = scene.completed(0, 400).await;
        about(between(accepted, completed), 298.0, 3.0);
        assert_eq!(scene.sundown.metric("drains_total{end=\"unreachable\"}"), 0.0);
        let said =
            logs.with(&["WARN", "Cannot read the Node of a node whose kubelet is silent"]).len();
        assert!((2..=5).contains(&said), "once a minute, and not {said} times");
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_heard_again_after_its_drain_has_ended_is_not_said_to_be_drained_on() {
    let logs = Logs::keep();
    let scene =
        Scene::hooked(566, 5, &["--drain-timeout", "200s", "--deadline-margin", "0s"]).await;
    scene.pod(0, "web-0", stuck());
    scene.stage.pass(5).await;
    scene.stage.world.kube.kubelet_lost(&scene.node(0));
    scene.terminate(0).await;
    let forbidden =
        scene.stage.world.kube.inject(Trouble::always(Match::of("get", "nodes"), Fault::Forbidden));
    // The hook cannot be completed, so the release takes long.
    scene.stage.world.aws.fault(FaultRule::new(
        "autoscaling:CompleteLifecycleAction",
        AwsFault::Throttle,
        How::Always,
    ));
    scene
        .stage
        .until(260, "the deadline ends it", || logs.with(&["Drain ended."]).len() == 1)
        .await;
    scene.stage.world.kube.lift(forbidden);
    scene.stage.world.kube.kubelet_back(&scene.node(0));
    scene.stage.pass(30).await;
    assert_eq!(logs.with(&["is heard again"]), Vec::<String>::new());
    scene.stage.world.aws.end_faults();
    scene.stage.pass(60).await;
    scene.end_except(&[Rule::NotTooEarly], "the deadline ended the drain").await;
}

#[tokio::test(start_paused = true)]
async fn no_node_counts_as_unreachable_while_most_are_silent() {
    let scene =
        Scene::hooked(555, 5, &["--drain-timeout", "400s", "--deadline-margin", "0s"]).await;
    scene.pod(0, "web-0", stuck());
    scene.stage.pass(5).await;
    let accepted = scene.terminate(0).await;
    for n in 0..4 {
        scene.stage.world.kube.kubelet_lost(&scene.node(n));
    }
    let completed = scene.completed(0, 500).await;
    about(between(accepted, completed), 400.0, 3.0);
    assert_eq!(scene.sundown.metric("drains_total{end=\"unreachable\"}"), 0.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn no_node_counts_as_unreachable_within_two_minutes_of_an_outage_of_the_api_server() {
    let scene = Scene::hooked(556, 5, &["--drain-timeout", "3600s"]).await;
    scene.pod(0, "web-0", stuck());
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(10).await;
    scene.stage.world.kube.kubelet_lost(&scene.node(0));
    scene.stage.world.kube.go_away(Away::Refusing);
    scene.stage.pass(120).await;
    scene.stage.world.kube.come_back();
    let back = scene.stage.clock.now();
    let completed = scene.completed(0, 400).await;
    let waited = between(back, completed);
    assert!((149.0..185.0).contains(&waited), "{waited}");
    assert_eq!(scene.sundown.metric("drains_total{end=\"unreachable\"}"), 1.0);
    scene
        .end_except(&[Rule::NotTooEarly], "an unreachable node is not waited for in the end")
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_or_terminated_instance_is_neither_evicted_from_nor_waited_for() {
    for (seed, state) in [(557, State::Stopped), (558, State::Terminated)] {
        let scene = Scene::spot(seed, 3, &[]).await;
        scene.pod(0, "web-0", graceful(30, 10));
        scene.stage.pass(5).await;
        let node = scene.node(0);
        scene.stage.world.aws.state_change_event(&scene.instances[0], state);
        scene
            .stage
            .until(5, "it is taken on", || {
                scene.sundown.messages("state-change", "accepted") == 1.0
            })
            .await;
        let accepted = scene.stage.clock.now();
        scene
            .stage
            .until(5, "it is over", || {
                scene.sundown.drain(&node).is_some_and(|d| d.drained.is_some())
            })
            .await;
        assert!(
            between(accepted, scene.sundown.drain(&node).unwrap().drained.unwrap()) < 0.5,
            "no minimum drain time"
        );
        assert!(scene.evictions("web-0").is_empty() && scene.deletes("web-0").is_empty());
        assert_eq!(scene.sundown.metric("drains_total{end=\"instance_over\"}"), 1.0);
        assert!(scene.stage.is_cordoned(&scene.instances[0]));
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_registers_again_gets_its_record_again() {
    let scene = Scene::spot(559, 3, &[]).await;
    scene.pod(0, "web-0", graceful(60, 50));
    scene.stage.pass(5).await;
    scene.notice(0).await;
    let (node, record) = (scene.node(0), scene.stage.record(&scene.instances[0]).unwrap());
    let boot = scene.stage.node(&scene.instances[0])["status"]["nodeInfo"]["bootID"].clone();
    scene.stage.world.kube.delete_node(&node);
    scene.stage.pass(2).await;
    // The kubelet registers anew: the same machine, the same boot.
    let mut spec = sundown::sim::kube::NodeSpec::named(node).instance(scene.instances[0].clone());
    spec.boot_id = boot.as_str().map(str::to_owned);
    scene.stage.world.kube.add_node(&spec);
    scene.cordoned(0).await;
    let again = scene.stage.record(&scene.instances[0]).unwrap();
    assert_eq!(again["interruptions"], record["interruptions"]);
    assert_eq!(scene.records("restored"), 1.0);
    let taints = scene.stage.node(&scene.instances[0])["spec"]["taints"].clone();
    assert!(
        taints
            .as_array()
            .unwrap()
            .iter()
            .any(|t| t["key"] == "sundown.dev/interruption" && t["value"] == "spot"),
        "{taints}"
    );
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_instance_under_an_old_name_is_left_alone() {
    let scene = Scene::spot(560, 3, &[]).await;
    scene.notice(0).await;
    let node = scene.node(0);
    scene.stage.world.kube.delete_node(&node);
    scene.stage.pass(2).await;
    scene.stage.world.kube.add_node(
        &sundown::sim::kube::NodeSpec::named(node.clone()).instance("i-0aaaaaaaaaaaaaaaa"),
    );
    scene.stage.pass(30).await;
    let found = scene.stage.world.kube.object("nodes", "", &node).unwrap();
    assert_eq!(found["spec"].get("unschedulable"), None);
    assert_eq!(
        found["metadata"]["annotations"].get("sundown.dev/record"),
        None,
        "{}",
        json!(found["metadata"])
    );
    scene.end().await;
}

/// Nobody tells of the end of the machine: EC2 is asked, and `shutting-down` is enough where the
/// kubelet is silent.
#[tokio::test(start_paused = true)]
async fn an_unreachable_node_whose_instance_shuts_down_is_not_given_thirty_seconds() {
    let stage = Stage::new(561);
    // A queue to which no state changes go.
    stage.world.aws.create_queue("quiet", sundown::sim::aws::QueueSettings::default());
    stage
        .world
        .aws
        .route(sundown::sim::aws::Rule::of("quiet", [sundown::sim::aws::EventKind::SpotWarning]));
    let url = stage.world.aws.queue_url("quiet");
    let instances = stage.spot_group(5);
    stage.world.kube.set_timing(Timing { node_deletion: None, ..Timing::default() });
    let scene = Scene::led(stage, instances, &["--queue-url", &url]).await;
    scene.pod(0, "web-0", stuck());
    scene.stage.pass(5).await;
    let node = scene.node(0);
    scene.stage.world.kube.kubelet_lost(&node);
    scene.stage.pass(50).await;
    scene.notice(0).await;
    // Silent for 55 s, Unknown for 15: it counts as unreachable in 45 s. Shortly before, the
    // machine begins to shut down.
    scene.stage.pass(35).await;
    scene.stage.world.aws.terminate_in_ec2(&scene.instances[0]);
    let drained = || scene.sundown.drain(&node).and_then(|d| d.drained);
    scene.stage.until(25, "the drain is over", || drained().is_some()).await;
    assert_eq!(scene.sundown.drain(&node).unwrap().phase, "instance_over");
    assert_eq!(
        scene.stage.world.aws.instance(&scene.instances[0]).unwrap().state,
        State::ShuttingDown
    );
    assert!(scene.is_there("web-0"));
    scene.end().await;
}
