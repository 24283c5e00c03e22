//! Scheduled changes of AWS Health: noted on the Node, drained in time, canceled and moved.

use std::time::Duration;

use serde_json::Value;
use sundown::sim::{
    aws::{Fault, FaultRule, HealthNotice, HookSpec, How, PlannedEvent},
    kube::{BudgetSpec, NodeSpec, PodShape},
};

use super::Scene;
use crate::{harness::Stage, judge::Rule, messages::logs::Logs};

const PLANNED: &str = "sundown.dev/planned";
const FLAGS: [&str; 2] = ["--scheduled-lead", "5m"];

/// A spot group with a pod on its first node.
async fn scene(seed: u64) -> Scene {
    let scene = Scene::spot(seed, 2, &FLAGS).await;
    scene.pod(0, "web", PodShape::default());
    scene
}

/// Never allows a disruption.
fn closed_budget(scene: &Scene) {
    scene.stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "web").min(1));
}

/// A retirement of the first instance that begins in so many seconds.
fn retirement(scene: &Scene, seconds: u64) -> HealthNotice {
    let starts = scene.stage.clock.now() + Duration::from_secs(seconds);
    HealthNotice::retirement([scene.instances[0].clone()], starts)
}

/// The scheduled changes that are noted on the first node.
fn planned(scene: &Scene) -> Vec<Value> {
    let node = scene.stage.node(&scene.instances[0]);
    let text = node["metadata"]["annotations"][PLANNED].as_str().unwrap_or("{}").to_owned();
    let planned: Value = serde_json::from_str(&text).unwrap();
    planned["changes"].as_array().cloned().unwrap_or_default()
}

async fn announce(scene: &Scene, notice: &HealthNotice) {
    scene.stage.world.aws.health(notice);
    scene.stage.until(10, "the message is deleted", || scene.stage.in_queue() == 0).await;
}

fn closed(notice: &HealthNotice) -> HealthNotice {
    HealthNotice { status: "closed".to_owned(), ..notice.clone() }
}

fn outcome(scene: &Scene) -> Value {
    let record = scene.stage.record(&scene.instances[0]);
    record.map_or(Value::Null, |record| record["released"]["outcome"].clone())
}

#[tokio::test(start_paused = true)]
async fn c21_c70_a_retirement_is_noted_at_once_and_drained_before_it_begins() {
    let scene = scene(811).await;
    let before = scene.stage.node(&scene.instances[0]);
    announce(&scene, &retirement(&scene, 900)).await;
    let announced = scene.stage.node(&scene.instances[0]);
    assert_eq!(announced["spec"], before["spec"], "only the annotation is written");
    assert_eq!(announced["metadata"]["labels"], before["metadata"]["labels"]);
    assert_eq!(planned(&scene).len(), 1);
    assert_eq!(scene.sundown.messages("scheduled-change", "planned"), 1.0);
    assert_eq!(scene.times_said("ScheduledChange"), 1);
    scene.stage.pass(580).await;
    assert!(!scene.stage.is_cordoned(&scene.instances[0]), "its time has not come");
    assert!(scene.evictions("web").is_empty());
    scene
        .stage
        .until(30, "the drain begins", || scene.stage.is_cordoned(&scene.instances[0]))
        .await;
    scene.stage.until(30, "its pod is evicted", || !scene.evictions("web").is_empty()).await;
    scene.stage.until(60, "the drain is over", || outcome(&scene) == "empty").await;
    let record = scene.stage.record(&scene.instances[0]).unwrap();
    assert_eq!(record["interruptions"][0]["kind"], "scheduled-change");
    scene.stage.pass(300).await;
    assert_eq!(scene.sundown.metric("drains_total{end=\"empty\"}"), 1.0, "once");
    assert!(scene.stage.is_cordoned(&scene.instances[0]), "its instance ends");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_retirement_that_begins_soon_is_drained_at_once_and_blocked_pods_are_forced() {
    let scene = scene(812).await;
    closed_budget(&scene);
    announce(&scene, &retirement(&scene, 120)).await;
    scene.cordoned(0).await;
    scene.stage.until(130, "its pod is deleted", || !scene.deletes("web").is_empty()).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn c24_copies_of_an_announcement_are_one_change() {
    let scene = scene(813).await;
    announce(&scene, &retirement(&scene, 900)).await;
    let patches = scene.patches(0).len();
    let sent = scene.stage.world.aws.messages();
    let body: Value = serde_json::from_str(&sent.last().unwrap().body).unwrap();
    let mut copy = body.clone();
    copy["id"] = "00000000-0000-4000-8000-000000000009".into();
    copy["region"] = "us-west-2".into();
    let mut page = body.clone();
    page["id"] = "00000000-0000-4000-8000-000000000008".into();
    (page["detail"]["page"], page["detail"]["totalPages"]) = ("2".into(), "2".into());
    page["detail"]["affectedEntities"][0]["entityValue"] = scene.instances[1].clone().into();
    for body in [&copy, &body, &page] {
        scene.stage.send(&body.to_string());
    }
    scene.stage.until(10, "they are deleted", || scene.stage.in_queue() == 0).await;
    assert_eq!(scene.patches(0).len(), patches, "nothing is written");
    assert_eq!(scene.sundown.messages("scheduled-change", "planned"), 2.0, "one for each instance");
    assert_eq!(scene.sundown.messages("scheduled-change", "repeat"), 2.0);
    scene
        .stage
        .until(620, "the drain begins", || scene.stage.is_cordoned(&scene.instances[0]))
        .await;
    scene.stage.pass(120).await;
    assert_eq!(scene.times_said("InterruptionAccepted"), 2, "one drain for each instance");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn another_leader_begins_the_drain_of_what_was_announced_before_its_term() {
    let scene = scene(814).await;
    announce(&scene, &retirement(&scene, 900)).await;
    let Scene { stage, sundown, instances } = scene;
    sundown.stop().await;
    let next = stage.start("sundown-1", &FLAGS);
    stage.until(60, "it leads", || next.metrics.leads()).await;
    stage.pass(400).await;
    assert!(!stage.is_cordoned(&instances[0]), "its time has not come");
    stage.until(220, "the drain begins", || stage.is_cordoned(&instances[0])).await;
    let is_over = || stage.record(&instances[0]).is_some_and(|r| !r["released"].is_null());
    stage.until(60, "the drain is over", is_over).await;
    next.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_canceled_before_its_time_drains_nothing() {
    let scene = scene(815).await;
    let notice = retirement(&scene, 900);
    announce(&scene, &notice).await;
    scene.stage.pass(60).await;
    announce(&scene, &closed(&notice)).await;
    scene.stage.pass(1000).await;
    assert!(!scene.stage.is_cordoned(&scene.instances[0]));
    assert!(scene.evictions("web").is_empty());
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_puts_the_node_back_during_its_drain_and_after_it() {
    for (seed, is_over) in [(816, false), (817, true)] {
        let scene = scene(seed).await;
        let before = scene.stage.node(&scene.instances[0])["spec"].clone();
        if !is_over {
            closed_budget(&scene);
        }
        let notice = retirement(&scene, 290);
        announce(&scene, &notice).await;
        scene.cordoned(0).await;
        if is_over {
            scene.stage.until(60, "the drain is over", || outcome(&scene) == "empty").await;
        }
        scene.stage.pass(20).await;
        announce(&scene, &closed(&notice)).await;
        let is_back = || !scene.stage.is_cordoned(&scene.instances[0]);
        scene.stage.until(15, "the node is put back", is_back).await;
        assert_eq!(scene.stage.node(&scene.instances[0])["spec"], before, "as it was");
        assert_eq!(scene.is_there("web"), !is_over);
        assert_eq!(scene.times_said("ScheduledChangeCanceled"), 1);
        scene.stage.pass(600).await;
        assert!(!scene.stage.is_cordoned(&scene.instances[0]), "it stays so");
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_cancellation_ends_no_newer_drain() {
    let scene = scene(818).await;
    closed_budget(&scene);
    let notice = retirement(&scene, 250);
    // AWS has closed it once, and this message is late.
    let queue = scene.stage.world.queue().to_owned();
    announce(&scene, &closed(&notice)).await;
    let late = scene.stage.world.aws.messages().last().unwrap().body.clone();
    scene.stage.pass(10).await;
    announce(&scene, &notice).await;
    scene.cordoned(0).await;
    let mut late: Value = serde_json::from_str(&late).unwrap();
    late["detail"]["communicationId"] = "another".into();
    drop(scene.stage.world.aws.send_event(&queue, &late.to_string()));
    scene.stage.until(10, "it is deleted", || scene.stage.in_queue() == 0).await;
    scene.stage.pass(20).await;
    assert!(scene.stage.is_cordoned(&scene.instances[0]), "the drain goes on");
    scene.stage.until(300, "its pod is deleted", || !scene.deletes("web").is_empty()).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_move_puts_the_node_back_and_drains_it_again_before_the_new_start() {
    let scene = scene(819).await;
    closed_budget(&scene);
    let notice = retirement(&scene, 290);
    announce(&scene, &notice).await;
    scene.cordoned(0).await;
    scene.stage.pass(20).await;
    let later = HealthNotice { start: notice.start + Duration::from_secs(600), ..notice };
    announce(&scene, &later).await;
    let is_back = || !scene.stage.is_cordoned(&scene.instances[0]);
    scene.stage.until(15, "the node is put back", is_back).await;
    assert_eq!(scene.times_said("ScheduledChangeMoved"), 1);
    assert_eq!(scene.times_said("ScheduledChangeCanceled"), 0);
    scene.stage.pass(400).await;
    assert!(!scene.stage.is_cordoned(&scene.instances[0]));
    scene.stage.until(200, "it is drained", || scene.stage.is_cordoned(&scene.instances[0])).await;
    scene.stage.until(310, "its pod is deleted", || !scene.deletes("web").is_empty()).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_short_move_after_the_end_of_the_drain_changes_nothing_on_the_node() {
    let scene = scene(821).await;
    let notice = retirement(&scene, 290);
    announce(&scene, &notice).await;
    scene.cordoned(0).await;
    scene.stage.until(60, "the drain is over", || outcome(&scene) == "empty").await;
    scene.stage.pass(20).await;
    let record = scene.stage.record(&scene.instances[0]);
    let later = HealthNotice { start: notice.start + Duration::from_secs(20), ..notice };
    announce(&scene, &later).await;
    scene.stage.pass(120).await;
    assert!(scene.stage.is_cordoned(&scene.instances[0]));
    assert_eq!(scene.stage.record(&scene.instances[0]), record);
    assert_eq!(scene.times_said("ScheduledChangeMoved"), 0);
    announce(&scene, &closed(&later)).await;
    let is_back = || !scene.stage.is_cordoned(&scene.instances[0]);
    scene.stage.until(15, "the node is put back", is_back).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_update_that_asks_for_nothing_ends_the_drain_and_puts_the_node_back() {
    let scene = scene(822).await;
    closed_budget(&scene);
    announce(&scene, &retirement(&scene, 290)).await;
    scene.cordoned(0).await;
    scene.stage.pass(20).await;
    let sent = scene.stage.world.aws.messages();
    let mut update: Value = serde_json::from_str(&sent.last().unwrap().body).unwrap();
    update["id"] = "00000000-0000-4000-8000-000000000007".into();
    let now = scene.stage.clock.now();
    let text = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    update["detail"]["lastUpdatedTime"] = text.into();
    update["detail"]["communicationId"] = "another".into();
    update["detail"]["actionability"] = "INFORMATIONAL".into();
    scene.stage.send(&update.to_string());
    let is_back = || !scene.stage.is_cordoned(&scene.instances[0]);
    scene.stage.until(15, "the node is put back", is_back).await;
    assert!(scene.is_there("web"));
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_that_has_begun_when_its_message_comes_is_counted_and_drains_nothing() {
    let scene = scene(823).await;
    let starts = scene.stage.clock.now() - Duration::from_secs(20);
    let notice = HealthNotice::retirement([scene.instances[0].clone()], starts);
    announce(&scene, &notice).await;
    assert_eq!(scene.sundown.messages("scheduled-change", "stale"), 1.0);
    assert_eq!(scene.times_said("ScheduledChange"), 1);
    scene.stage.pass(60).await;
    assert!(!scene.stage.is_cordoned(&scene.instances[0]));
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_annotation_of_a_newer_version_stays_and_the_message_too() {
    let scene = scene(824).await;
    let newer = serde_json::json!({"version": 2, "later": true}).to_string();
    scene.stage.world.kube.edit("nodes", "", &scene.node(0), |node| {
        node["metadata"]["annotations"][PLANNED] = newer.clone().into();
    });
    scene.stage.world.aws.health(&retirement(&scene, 900));
    scene.stage.pass(30).await;
    assert_eq!(scene.stage.in_queue(), 1, "the message is kept");
    let shown = scene.stage.node(&scene.instances[0]);
    assert_eq!(shown["metadata"]["annotations"][PLANNED], newer);
    assert!(scene.records("planned_unreadable") >= 1.0);
    scene.end_except(&[Rule::AcceptedInTime], "the message is left on purpose").await;
}

#[tokio::test(start_paused = true)]
async fn degraded_hardware_is_drained_at_once_and_network_maintenance_is_only_reported() {
    let scene = scene(820).await;
    let of = |code: &str, n: usize| HealthNotice {
        code: code.to_owned(),
        instances: vec![scene.instances[n].clone()],
        event: format!("{code}_{n}"),
        ..retirement(&scene, 86_400)
    };
    announce(&scene, &of("AWS_EC2_INSTANCE_NETWORK_MAINTENANCE_SCHEDULED", 1)).await;
    announce(&scene, &of("AWS_EC2_INSTANCE_HARDWARE_DEGRADED", 0)).await;
    scene.cordoned(0).await;
    scene.stage.until(60, "the drain is over", || outcome(&scene) == "empty").await;
    scene.stage.assert_untouched(&scene.node(1));
    assert_eq!(scene.sundown.messages("scheduled-change", "not_acted_on"), 1.0);
    assert_eq!(scene.times_said("ScheduledChange"), 2);
    scene.end().await;
}

/// The condition `MaintenancePlanned` of the `n`th node.
fn condition(scene: &Scene, n: usize) -> Option<Value> {
    let node = scene.stage.node(&scene.instances[n]);
    let all = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|condition| condition["type"] == "MaintenancePlanned")
}

#[tokio::test(start_paused = true)]
async fn the_node_shows_an_announced_change_until_it_is_canceled() {
    let flags = [&FLAGS[..], &["--maintenance-condition"]].concat();
    let scene = Scene::spot(825, 2, &flags).await;
    let before = scene.stage.node(&scene.instances[0])["status"].clone();
    let notice = retirement(&scene, 900);
    announce(&scene, &notice).await;
    let is_shown = || condition(&scene, 0).is_some();
    scene.stage.until(5, "the condition is set", is_shown).await;
    let shown = condition(&scene, 0).unwrap();
    assert_eq!(shown["status"], "True");
    assert_eq!(shown["reason"], "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED");
    assert!(shown["message"].as_str().unwrap().contains("which begins at"));
    let ready = |status: &Value| {
        let all = status["conditions"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|condition| condition["type"] == "Ready")
    };
    assert_eq!(ready(&scene.stage.node(&scene.instances[0])["status"]), ready(&before));
    announce(&scene, &closed(&notice)).await;
    let is_over = || condition(&scene, 0).unwrap()["status"] == "False";
    scene.stage.until(5, "it is false", is_over).await;
    assert_eq!(condition(&scene, 1), None, "another node");
    scene.end().await;
}

/// A retirement that only EC2 shows, or the same after EC2 has canceled it.
fn in_ec2(start: sundown::domain::Moment, description: &str) -> PlannedEvent {
    PlannedEvent {
        id: "instance-event-1".to_owned(),
        code: "instance-retirement".to_owned(),
        description: description.to_owned(),
        not_before: start,
        not_after: None,
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_only_ec2_shows_is_noted_drained_and_put_back_when_ec2_cancels_it() {
    let flags = ["--scheduled-lead", "5m", "--scheduled-event-interval", "1m"];
    let scene = Scene::spot(826, 2, &flags).await;
    let start = scene.stage.clock.now() + Duration::from_secs(1500);
    scene.stage.world.aws.schedule(&scene.instances[0], in_ec2(start, "degraded hardware"));
    scene.stage.until(400, "it is noted", || planned(&scene).len() == 1).await;
    assert_eq!(scene.sundown.metric("scheduled_events_total{outcome=\"planned\"}"), 1.0);
    let patches = scene.patches(0).len();
    scene.stage.pass(700).await;
    assert_eq!(scene.patches(0).len(), patches, "later rounds write nothing");
    scene.stage.until(600, "it is drained", || scene.stage.is_cordoned(&scene.instances[0])).await;
    scene.stage.world.aws.schedule(&scene.instances[0], in_ec2(start, "[Canceled] no longer"));
    let is_back = || !scene.stage.is_cordoned(&scene.instances[0]);
    scene.stage.until(100, "the node is put back", is_back).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_that_both_announce_is_drained_once() {
    let scene = scene(827).await;
    let notice = retirement(&scene, 1500);
    announce(&scene, &notice).await;
    scene.stage.world.aws.schedule(&scene.instances[0], in_ec2(notice.start, "degraded hardware"));
    let is_merged = || planned(&scene)[0]["ec2"]["id"] == "instance-event-1";
    scene.stage.until(400, "it is recognized", is_merged).await;
    assert_eq!(planned(&scene).len(), 1);
    scene.stage.pass(1300).await;
    assert!(scene.stage.is_cordoned(&scene.instances[0]));
    assert_eq!(scene.times_said("InterruptionAccepted"), 1);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_registers_again_gets_its_change_back_from_ec2() {
    let scene = scene(828).await;
    let notice = retirement(&scene, 3600);
    announce(&scene, &notice).await;
    scene.stage.world.aws.schedule(&scene.instances[0], in_ec2(notice.start, "degraded hardware"));
    let (kube, name) = (&scene.stage.world.kube, scene.node(0));
    kube.delete_node(&name);
    scene.stage.pass(5).await;
    kube.add_node(&NodeSpec::named(&name).instance(&scene.instances[0]));
    assert!(planned(&scene).is_empty());
    scene.stage.until(400, "it is noted again", || planned(&scene).len() == 1).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_annotation_is_lost_during_its_drain_is_noted_again_and_drained_once() {
    let flags = ["--scheduled-lead", "5m", "--scheduled-event-interval", "1m"];
    let scene = Scene::spot(832, 2, &flags).await;
    let start = scene.stage.clock.now() + Duration::from_secs(900);
    scene.stage.world.aws.schedule(&scene.instances[0], in_ec2(start, "degraded hardware"));
    scene.stage.until(800, "it is drained", || scene.stage.is_cordoned(&scene.instances[0])).await;
    scene.stage.world.kube.edit("nodes", "", &scene.node(0), |node| {
        drop(node["metadata"]["annotations"].as_object_mut().unwrap().remove(PLANNED));
    });
    scene.stage.until(200, "it is noted again", || planned(&scene).len() == 1).await;
    assert_eq!(planned(&scene)[0]["begun"], true);
    scene.stage.pass(30).await;
    assert_eq!(scene.times_said("InterruptionAccepted"), 1);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_search_no_event_of_ec2_is_noted() {
    let flags = ["--scheduled-lead", "5m", "--scheduled-event-interval", "0s"];
    let scene = Scene::spot(829, 2, &flags).await;
    let start = scene.stage.clock.now() + Duration::from_secs(900);
    scene.stage.world.aws.schedule(&scene.instances[0], in_ec2(start, "degraded hardware"));
    scene.stage.pass(1000).await;
    assert!(planned(&scene).is_empty());
    assert_eq!(scene.stage.world.aws.count("ec2:DescribeInstanceStatus"), 0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_begins_in_the_weekly_window_before_the_lead() {
    // The world begins on a Monday, at 9 o'clock.
    let flags = ["--scheduled-lead", "5m", "--scheduled-window", "Mon 09:20-09:40 UTC"];
    let scene = Scene::spot(830, 2, &flags).await;
    scene.pod(0, "web", PodShape::default());
    announce(&scene, &retirement(&scene, 7200)).await;
    let to_window = "2026-01-05T09:20:00Z".parse::<sundown::domain::Moment>().unwrap();
    let ahead = to_window.since_or_zero(scene.stage.clock.now()).as_secs();
    scene.stage.pass(ahead - 10).await;
    assert!(!scene.stage.is_cordoned(&scene.instances[0]));
    scene.stage.until(20, "it is drained", || scene.stage.is_cordoned(&scene.instances[0])).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn without_permission_to_ask_ec2_the_loss_of_an_announcement_is_logged() {
    let logs = Logs::keep();
    let stage = Stage::new(831);
    let hook = HookSpec::terminating("drain");
    let id = stage.group_without_nodes("asg", 1, 86_400, &[hook]).remove(0);
    let denied = FaultRule::new("ec2:DescribeInstanceStatus", Fault::AccessDenied, How::Always);
    stage.world.aws.fault(denied);
    let sundown = stage.settled(&FLAGS).await;
    stage.pass(300).await;
    stage
        .world
        .aws
        .health(&HealthNotice::retirement([id], stage.clock.now() + Duration::from_secs(86_400)));
    stage.until(700, "the message is deleted", || stage.in_queue() == 0).await;
    assert_eq!(logs.with(&["Allow ec2:DescribeInstanceStatus"]).len(), 1);
    assert!(sundown.metric("scheduled_event_rounds_total{result=\"denied\"}") >= 1.0);
    assert_eq!(logs.with(&["WARN", "No Node shows the instance of a scheduled change"]).len(), 1);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_open_ten_minutes_after_its_start_drains_its_node_without_force() {
    let stage = Stage::new(834);
    let instances = stage.spot_group(2);
    let start = stage.clock.now() + Duration::from_secs(60);
    stage.world.aws.schedule(&instances[0], in_ec2(start, "degraded hardware"));
    stage.pass(600).await;
    let scene = Scene::led(stage, instances, &["--scheduled-event-interval", "1m"]).await;
    scene.pod(0, "web", PodShape::default());
    closed_budget(&scene);
    scene.stage.pass(45).await;
    assert!(planned(&scene).is_empty(), "EC2 may lag behind");
    scene.stage.until(90, "it is drained", || scene.stage.is_cordoned(&scene.instances[0])).await;
    scene.stage.pass(1200).await;
    assert!(!scene.evictions("web").is_empty() && scene.deletes("web").is_empty());
    scene.stage.world.aws.schedule(&scene.instances[0], in_ec2(start, "[Completed] done"));
    let is_back = || !scene.stage.is_cordoned(&scene.instances[0]);
    scene.stage.until(100, "the node is put back", is_back).await;
    scene.end().await;
}
