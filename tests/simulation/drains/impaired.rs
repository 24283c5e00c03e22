//! Sick instances: found by the leader, drained one after the other, put back or replaced.

use std::time::Duration;

use serde_json::Value;
use sundown::sim::{
    aws::{Check, Fault, FaultRule, GroupSpec, HookSpec, How},
    kube::{Away, BudgetSpec, NodeSpec, PodShape},
};

use super::{Scene, life::annotate};
use crate::{
    harness::{Replica, Stage},
    messages::logs::Logs,
};

const STATUS: &str = "ec2:DescribeInstanceStatus";
const SET_HEALTH: &str = "autoscaling:SetInstanceHealth";
const DRAIN: [&str; 4] = ["--on", "impaired=drain", "--sweep-interval", "1m"];
const REPLACE: [&str; 6] =
    ["--on", "impaired=drain", "--sweep-interval", "1m", "--then", "impaired=unhealthy"];
/// A round comes every minute at the latest, and begins what is due.
const ROUND: u64 = 65;

/// A group of ten nodes with a hook, and a pod on the first. The leader has made a round.
async fn scene(seed: u64, flags: &[&str]) -> Scene {
    // The search for scheduled events asks EC2 the same.
    let flags = [flags, &["--scheduled-event-interval", "0s"]].concat();
    let scene = Scene::hooked(seed, 10, &flags).await;
    scene.pod(0, "web", PodShape::default());
    scene.stage.pass(ROUND).await;
    scene
}

fn fail(scene: &Scene, n: usize, fails: bool) {
    scene.stage.world.aws.fail_check(&scene.instances[n], Check::Instance, fails);
}

fn lose(scene: &Scene, n: usize) {
    scene.stage.world.kube.kubelet_lost(&scene.node(n));
}

fn entry(stage: &Stage, instance: &str) -> Value {
    let record = stage.record(instance);
    record.map_or(Value::Null, |record| record["interruptions"][0].clone())
}

fn outcome(scene: &Scene, n: usize) -> Value {
    let record = scene.stage.record(&scene.instances[n]);
    record.map_or(Value::Null, |record| record["released"]["outcome"].clone())
}

fn waiting(sundown: &Replica, reason: &str) -> f64 {
    sundown.metric(&format!("impaired_waiting{{reason=\"{reason}\"}}"))
}

fn steps(sundown: &Replica, step: &str) -> f64 {
    sundown.metric(&format!("impaired_total{{step=\"{step}\"}}"))
}

async fn cordoned_within(scene: &Scene, n: usize, seconds: u64) {
    let is_cordoned = || scene.stage.is_cordoned(&scene.instances[n]);
    scene.stage.until(seconds, "the node is cordoned", is_cordoned).await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_whose_status_check_fails_for_ten_minutes_is_drained() {
    let scene = scene(1_701, &DRAIN).await;
    fail(&scene, 0, true);
    scene.stage.pass(595).await;
    assert!(!scene.stage.is_cordoned(&scene.instances[0]), "its time has not come");
    assert!(scene.evictions("web").is_empty());
    cordoned_within(&scene, 0, ROUND).await;
    let entry = entry(&scene.stage, &scene.instances[0]);
    assert_eq!(entry["kind"], "impaired");
    assert!(entry["event"].as_str().unwrap().ends_with(":status-check"), "{entry}");
    scene.stage.until(60, "the drain is over", || outcome(&scene, 0) == "empty").await;
    assert_eq!(scene.evictions("web").len(), 1);
    assert!(scene.deletes("web").is_empty(), "no pod is forced");
    scene.stage.pass(900).await;
    assert!(scene.stage.is_cordoned(&scene.instances[0]), "it waits for its replacement");
    assert_eq!(scene.stage.world.aws.count(SET_HEALTH), 0);
    assert_eq!((steps(&scene.sundown, "begun"), scene.times_said("InstanceImpaired")), (1.0, 1));
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_ready_for_ten_minutes_is_drained() {
    let scene = scene(1_702, &DRAIN).await;
    lose(&scene, 0);
    scene.stage.pass(600).await;
    assert!(!scene.stage.is_cordoned(&scene.instances[0]), "its kubelet is silent for less");
    cordoned_within(&scene, 0, 60 + ROUND).await;
    let entry = entry(&scene.stage, &scene.instances[0]);
    assert!(entry["event"].as_str().unwrap().ends_with(":not-ready"), "{entry}");
    scene.stage.until(180, "the drain is over", || !outcome(&scene, 0).is_null()).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn by_default_nobody_looks_for_sick_instances() {
    let scene = scene(1_703, &["--sweep-interval", "1m"]).await;
    fail(&scene, 0, true);
    lose(&scene, 1);
    scene.stage.pass(1_800).await;
    assert_eq!(scene.stage.world.aws.count(STATUS), 0);
    for n in [0, 1] {
        assert!(!scene.stage.is_cordoned(&scene.instances[n]));
    }
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_never_was_ready_is_a_failed_launch() {
    let scene = scene(1_704, &DRAIN).await;
    let (instance, name) = (scene.instances[0].clone(), scene.node(0));
    scene.stage.world.kube.delete_node(&name);
    scene.stage.pass(5).await;
    let ready_after = Duration::from_secs(86_400);
    let spec = NodeSpec { ready_after, ..NodeSpec::named(&name).instance(&instance) };
    scene.stage.world.kube.add_node(&spec);
    scene.stage.pass(300).await;
    // Then its kubelet is silent, too.
    scene.stage.world.kube.kubelet_lost(&name);
    scene.stage.pass(1_800).await;
    assert!(scene.patches(0).is_empty());
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn while_three_of_ten_nodes_are_sick_nothing_begins() {
    let logs = Logs::keep();
    let scene = scene(1_705, &DRAIN).await;
    (0..3).for_each(|n| lose(&scene, n));
    scene.stage.pass(1_800).await;
    for n in 0..3 {
        assert!(scene.patches(n).is_empty(), "{n}");
    }
    assert_eq!(waiting(&scene.sundown, "fault_elsewhere"), 3.0);
    let line = ["No drain of these sick instances begins", "fault_elsewhere", "sick=3 of=10"];
    assert_eq!(logs.with(&line).len(), 1, "once");
    // The fault is repaired on two of them.
    for n in [1, 2] {
        scene.stage.world.kube.kubelet_back(&scene.node(n));
    }
    cordoned_within(&scene, 0, ROUND).await;
    scene.stage.pass(ROUND).await;
    assert_eq!(waiting(&scene.sundown, "fault_elsewhere"), 0.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_begins_within_five_minutes_of_an_outage_of_the_api_server() {
    let scene = scene(1_706, &DRAIN).await;
    fail(&scene, 0, true);
    scene.stage.pass(560).await;
    scene.stage.world.kube.go_away(Away::Refusing);
    scene.stage.pass(60).await;
    scene.stage.world.kube.come_back();
    scene.stage.pass(295).await;
    assert!(!scene.stage.is_cordoned(&scene.instances[0]));
    assert_eq!(waiting(&scene.sundown, "api_server_outage"), 1.0);
    cordoned_within(&scene, 0, 30 + ROUND).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn one_node_of_a_group_at_a_time_and_the_next_after_the_first_is_replaced() {
    let stage = Stage::new(1_707);
    let hook = HookSpec::terminating("drain").heartbeat_timeout(Duration::from_secs(300));
    let instances = stage.world.add_group(GroupSpec::new("asg", 10), &[hook]);
    let scene = Scene::led(stage, instances, &REPLACE).await;
    scene.stage.pass(ROUND).await;
    fail(&scene, 0, true);
    scene.stage.pass(10).await;
    fail(&scene, 1, true);
    scene.stage.pass(560).await;
    cordoned_within(&scene, 0, 30 + ROUND).await;
    scene.stage.pass(20).await;
    assert!(!scene.stage.is_cordoned(&scene.instances[1]), "the first is not finished");
    let is_replaced = || scene.stage.world.node_of(&scene.instances[0]).is_none();
    let mut next_began_before = false;
    scene
        .stage
        .until(600, "the first is gone", || {
            next_began_before |= scene.stage.is_cordoned(&scene.instances[1]);
            is_replaced()
        })
        .await;
    assert!(!next_began_before);
    cordoned_within(&scene, 1, 600).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s32_of_three_control_plane_nodes_that_are_sick_together_one_is_drained_at_a_time() {
    let stage = Stage::new(1_721);
    let hook = || HookSpec::terminating("drain").heartbeat_timeout(Duration::from_secs(300));
    let masters = stage.world.add_group(GroupSpec::new("control-plane", 3), &[hook()]);
    let workers = stage.world.add_group(GroupSpec::new("asg", 20), &[hook()]);
    for instance in &masters {
        let node = stage.world.node_of(instance).unwrap();
        stage.world.kube.edit("nodes", "", &node, |node| {
            node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = "".into();
        });
    }
    let instances = [masters.clone(), workers].concat();
    let scene = Scene::led(stage, instances, &REPLACE).await;
    scene.stage.pass(ROUND).await;
    for n in 0..3 {
        fail(&scene, n, true);
    }
    let (mut most, mut seen) = (0, std::collections::BTreeSet::new());
    scene
        .stage
        .until(5_400, "all three are replaced", || {
            let is_there = |instance: &&String| scene.stage.world.node_of(instance).is_some();
            let there: Vec<_> = masters.iter().filter(is_there).collect();
            let drained = there.iter().filter(|instance| scene.stage.is_cordoned(instance));
            let drained: Vec<_> = drained.map(|instance| (**instance).clone()).collect();
            most = most.max(drained.len());
            seen.extend(drained);
            there.is_empty()
        })
        .await;
    assert_eq!((most, seen.len()), (1, 3));
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn no_more_begin_in_an_hour_than_allowed_also_under_the_next_leader() {
    let stage = Stage::new(1_708);
    let mut instances = Vec::new();
    for group in ["a", "b", "c", "d"] {
        let spec = GroupSpec { replace_after: None, ..GroupSpec::new(group, 4) };
        instances.extend(stage.world.add_group(spec, &[]));
    }
    let flags = [&DRAIN[..], &["--max-impaired", "2"]].concat();
    let scene = Scene::led(stage, instances, &flags).await;
    let sick = [0, 4, 8];
    sick.into_iter().for_each(|n| fail(&scene, n, true));
    scene.stage.pass(600 + ROUND).await;
    let begun = |stage: &Stage, instances: &[String]| {
        sick.into_iter().filter(|n| stage.is_cordoned(&instances[*n])).count()
    };
    assert_eq!(begun(&scene.stage, &scene.instances), 2);
    assert_eq!(waiting(&scene.sundown, "max_per_hour"), 1.0);
    let Scene { stage, sundown, instances } = scene;
    sundown.stop().await;
    let next = stage.start("sundown-1", &flags);
    stage.until(60, "it leads", || next.metrics.leads()).await;
    stage.pass(2_700).await;
    assert_eq!(begun(&stage, &instances), 2, "the annotations show when the others began");
    stage.until(1_000, "an hour is over", || begun(&stage, &instances) == 3).await;
    next.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn after_its_drain_the_instance_is_set_unhealthy_once_and_its_terminate_hook_completed() {
    let stage = Stage::new(1_709);
    let hook = HookSpec::terminating("drain").heartbeat_timeout(Duration::from_secs(300));
    let instances = stage.world.add_group(GroupSpec::new("asg", 5), &[hook]);
    let scene = Scene::led(stage, instances, &REPLACE).await;
    scene.pod(0, "web", PodShape::default());
    fail(&scene, 0, true);
    scene.stage.pass(590).await;
    assert_eq!(scene.stage.world.aws.count(SET_HEALTH), 0);
    cordoned_within(&scene, 0, 10 + ROUND).await;
    scene.stage.until(60, "the drain is over", || outcome(&scene, 0) == "empty").await;
    let is_told = || scene.stage.world.aws.count(SET_HEALTH) == 1;
    scene.stage.until(ROUND, "Auto Scaling is told", is_told).await;
    scene.completed(0, 120).await;
    let is_gone = || scene.stage.world.node_of(&scene.instances[0]).is_none();
    scene.stage.until(300, "its Node is gone", is_gone).await;
    scene.stage.pass(900).await;
    assert_eq!(scene.stage.world.aws.count(SET_HEALTH), 1, "once");
    assert_eq!(
        (steps(&scene.sundown, "set_unhealthy"), steps(&scene.sundown, "begun")),
        (1.0, 1.0)
    );
    assert_eq!(scene.times_said("InstanceSetUnhealthy"), 1);
    assert_eq!(scene.stage.world.nodes().len(), 5, "it is replaced");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_sets_what_was_drained_before_its_term_unhealthy() {
    let scene = scene(1_710, &DRAIN).await;
    fail(&scene, 0, true);
    scene.stage.pass(600).await;
    cordoned_within(&scene, 0, ROUND).await;
    scene.stage.until(60, "the drain is over", || outcome(&scene, 0) == "empty").await;
    let Scene { stage, sundown, instances } = scene;
    sundown.stop().await;
    let next = stage.start("sundown-1", &REPLACE);
    stage.until(60, "it leads", || next.metrics.leads()).await;
    stage.until(ROUND, "it is told", || stage.world.aws.count(SET_HEALTH) == 1).await;
    // From now on the group ends no instance, so the third leader sees this one.
    stage.world.aws.suspend("asg", "Terminate");
    next.stop().await;
    let third = stage.start("sundown-2", &REPLACE);
    stage.until(60, "it leads", || third.metrics.leads()).await;
    stage.pass(300).await;
    assert!(stage.world.node_of(&instances[0]).is_some(), "it is still there");
    assert_eq!(stage.world.aws.count(SET_HEALTH), 1, "the group shows it");
    third.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_may_not_be_set_unhealthy_is_reported_once() {
    let logs = Logs::keep();
    let scene = scene(1_711, &REPLACE).await;
    let denied = FaultRule::new(SET_HEALTH, Fault::AccessDenied, How::Times(100));
    scene.stage.world.aws.fault(denied);
    fail(&scene, 0, true);
    scene.stage.pass(1_200).await;
    assert_eq!(outcome(&scene, 0), "empty");
    assert!(steps(&scene.sundown, "denied") > 2.0, "it is tried again");
    assert_eq!(waiting(&scene.sundown, "not_set_unhealthy"), 1.0);
    assert_eq!(scene.times_said("InstanceNotSetUnhealthy"), 1);
    assert_eq!(logs.with(&["autoscaling:SetInstanceHealth in the role's policy"]).len(), 1);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_see_status_checks_nothing_begins() {
    let logs = Logs::keep();
    let scene = scene(1_712, &DRAIN).await;
    let denied = FaultRule::new(STATUS, Fault::AccessDenied, How::Times(1_000));
    scene.stage.world.aws.fault(denied);
    fail(&scene, 0, true);
    lose(&scene, 1);
    scene.stage.pass(2_400).await;
    for n in [0, 1] {
        assert!(!scene.stage.is_cordoned(&scene.instances[n]), "nothing would put it back");
    }
    assert_eq!(waiting(&scene.sundown, "statuses_unknown"), 1.0, "its Node shows one of them");
    assert_eq!(logs.with(&["Allow ec2:DescribeInstanceStatus"]).len(), 1);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_drained_node_that_a_person_keeps_is_not_replaced_and_reported_once() {
    for (seed, key) in [(1_716, "sundown.dev/keep-cordoned"), (1_717, "sundown.dev/pause")] {
        let scene = scene(seed, &DRAIN).await;
        fail(&scene, 0, true);
        scene.stage.pass(600).await;
        cordoned_within(&scene, 0, ROUND).await;
        scene.stage.until(60, "the drain is over", || outcome(&scene, 0) == "empty").await;
        annotate(&scene, 0, key, Some("true"));
        let Scene { stage, sundown, instances } = scene;
        sundown.stop().await;
        let sundown = stage.start("sundown-1", &REPLACE);
        stage.until(60, "it leads", || sundown.metrics.leads()).await;
        stage.pass(900).await;
        assert_eq!(stage.world.aws.count(SET_HEALTH), 0, "{key}");
        assert_eq!(waiting(&sundown, "kept_by_person"), 1.0, "{key}");
        let scene = Scene { stage, sundown, instances };
        assert_eq!(scene.times_said("InstanceNotSetUnhealthy"), 1, "{key}");
        annotate(&scene, 0, key, None);
        let is_told = || scene.stage.world.aws.count(SET_HEALTH) == 1;
        scene.stage.until(2 * ROUND, "Auto Scaling is told", is_told).await;
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_with_pods_left_is_not_replaced() {
    let flags = [&REPLACE[..], &["--drain-timeout", "5m"]].concat();
    let scene = scene(1_718, &flags).await;
    let spec = BudgetSpec::for_app("shop", "web").min(1);
    scene.stage.world.kube.add_budget(&spec);
    fail(&scene, 0, true);
    scene.stage.pass(600).await;
    cordoned_within(&scene, 0, ROUND).await;
    scene.stage.until(400, "the drain is over", || outcome(&scene, 0) == "timed_out").await;
    scene.stage.pass(900).await;
    assert!(scene.is_there("web"), "its budget protects it");
    assert_eq!(scene.stage.world.aws.count(SET_HEALTH), 0);
    assert_eq!(waiting(&scene.sundown, "pods_left"), 1.0);
    assert_eq!(scene.times_said("InstanceNotSetUnhealthy"), 1);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_that_replaces_no_instance_is_not_told_and_a_healthy_node_is_put_back() {
    let logs = Logs::keep();
    let scene = scene(1_719, &REPLACE).await;
    scene.stage.world.aws.suspend("asg", "ReplaceUnhealthy");
    fail(&scene, 0, true);
    scene.stage.pass(600).await;
    cordoned_within(&scene, 0, ROUND).await;
    scene.stage.pass(900).await;
    assert_eq!(scene.stage.world.aws.count(SET_HEALTH), 0);
    assert_eq!(waiting(&scene.sundown, "replacement_suspended"), 1.0);
    assert_eq!(logs.with(&["neither replaced nor restored"]).len(), 1, "once");
    assert_eq!(scene.times_said("InstanceNotSetUnhealthy"), 1);
    fail(&scene, 0, false);
    let is_back = || !scene.stage.is_cordoned(&scene.instances[0]);
    scene.stage.until(300 + 2 * ROUND, "the node is put back", is_back).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_boot_alone_does_not_put_the_node_of_a_sick_instance_back() {
    let scene = scene(1_720, &DRAIN).await;
    fail(&scene, 0, true);
    scene.stage.pass(600).await;
    cordoned_within(&scene, 0, ROUND).await;
    scene.stage.until(60, "the drain is over", || outcome(&scene, 0) == "empty").await;
    scene.stage.world.kube.reboot(&scene.node(0));
    scene.stage.pass(600).await;
    let is_back = || !scene.stage.is_cordoned(&scene.instances[0]);
    assert!(!is_back(), "its status check fails");
    fail(&scene, 0, false);
    scene.stage.pass(290).await;
    assert!(!is_back(), "not yet");
    scene.stage.until(2 * ROUND, "the node is put back", is_back).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_healthy_for_five_minutes_is_put_back_during_its_drain_and_after_it() {
    for (seed, is_over) in [(1_713, false), (1_714, true)] {
        let scene = scene(seed, &DRAIN).await;
        let before = scene.stage.node(&scene.instances[0])["spec"].clone();
        if !is_over {
            let spec = BudgetSpec::for_app("shop", "web").min(1);
            scene.stage.world.kube.add_budget(&spec);
        }
        fail(&scene, 0, true);
        scene.stage.pass(600).await;
        cordoned_within(&scene, 0, ROUND).await;
        scene.stage.pass(60).await;
        assert_eq!(!outcome(&scene, 0).is_null(), is_over);
        fail(&scene, 0, false);
        scene.stage.pass(290).await;
        assert!(scene.stage.is_cordoned(&scene.instances[0]), "not yet");
        let is_back = || !scene.stage.is_cordoned(&scene.instances[0]);
        scene.stage.until(2 * ROUND, "the node is put back", is_back).await;
        scene.stage.pass(5).await;
        assert_eq!(scene.stage.node(&scene.instances[0])["spec"], before, "as it was");
        assert_eq!(scene.is_there("web"), !is_over);
        assert_eq!(steps(&scene.sundown, "recovered"), 1.0);
        scene.stage.pass(900).await;
        assert!(is_back(), "it stays so");
        // It gets sick again.
        fail(&scene, 0, true);
        cordoned_within(&scene, 0, 600 + ROUND).await;
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_person_releases_is_not_drained_again_while_it_stays_sick() {
    let scene = scene(1_715, &DRAIN).await;
    let spec = BudgetSpec::for_app("shop", "web").min(1);
    scene.stage.world.kube.add_budget(&spec);
    fail(&scene, 0, true);
    scene.stage.pass(600).await;
    cordoned_within(&scene, 0, ROUND).await;
    annotate(&scene, 0, "sundown.dev/release", Some("true"));
    let is_back = || !scene.stage.is_cordoned(&scene.instances[0]);
    scene.stage.until(30, "the node is put back", is_back).await;
    scene.stage.pass(1_800).await;
    assert!(is_back(), "the person knows better");
    scene.end().await;
}

/// A node is drained as impaired, and the next replica runs with other flags.
async fn drained_then_restarted(seed: u64, flags: &[&str]) -> (Stage, Vec<String>, Replica) {
    let scene = scene(seed, &DRAIN).await;
    fail(&scene, 0, true);
    scene.stage.pass(600).await;
    cordoned_within(&scene, 0, ROUND).await;
    scene.stage.until(60, "the drain is over", || outcome(&scene, 0) == "empty").await;
    let Scene { stage, sundown, instances } = scene;
    sundown.stop().await;
    let next = stage.start("sundown-1", flags);
    stage.until(60, "it leads", || next.metrics.leads()).await;
    (stage, instances, next)
}

#[tokio::test(start_paused = true)]
async fn a_node_is_put_back_although_nobody_looks_for_sick_instances_any_longer() {
    let flags = ["--sweep-interval", "1m", "--scheduled-event-interval", "0s"];
    let (stage, instances, next) = drained_then_restarted(1_722, &flags).await;
    let aws = &stage.world.aws;
    aws.fail_check(&instances[1], Check::Instance, true);
    aws.fault(FaultRule::new(STATUS, Fault::AccessDenied, How::Times(10)));
    stage.pass(3 * ROUND).await;
    assert_eq!(waiting(&next, "statuses_unknown"), 1.0, "it says why it keeps the node");
    aws.fail_check(&instances[0], Check::Instance, false);
    let is_back = || !stage.is_cordoned(&instances[0]);
    stage.until(3_000, "the node is put back", is_back).await;
    assert_eq!(waiting(&next, "statuses_unknown"), 0.0);
    stage.pass(2 * ROUND).await;
    let asked = aws.count(STATUS);
    stage.pass(1_800).await;
    assert_eq!(aws.count(STATUS), asked, "nothing is left to ask about");
    assert!(!stage.is_cordoned(&instances[1]), "no drain begins");
    next.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_drained_node_that_nothing_looks_at_any_longer_is_named_in_a_warning() {
    let logs = Logs::keep();
    let (stage, instances, next) = drained_then_restarted(1_723, &["--sweep-interval", "0s"]).await;
    stage.pass(10).await;
    let name = stage.world.node_of(&instances[0]).unwrap();
    assert_eq!(logs.with(&["The sweep is off", "sundown release", &name]).len(), 1);
    next.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_group_of_weighted_instances_is_complete_when_their_weights_are() {
    let stage = Stage::new(1_724);
    let spec = GroupSpec { weight: Some(4), replace_after: None, ..GroupSpec::new("asg", 4) };
    let instances = stage.world.add_group(spec, &[]);
    let scene = Scene::led(stage, instances, &DRAIN).await;
    scene.stage.pass(ROUND).await;
    fail(&scene, 0, true);
    scene.stage.pass(600).await;
    cordoned_within(&scene, 0, ROUND).await;
    scene.end().await;
}
