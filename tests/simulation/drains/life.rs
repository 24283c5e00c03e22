//! The life of a record.

use std::time::Duration;

use serde_json::{Value, json};
use sundown::sim::{
    aws::{HookResult, HookSpec, SpotAction},
    kube::{Fault, Match, PodShape, Rule},
};

use super::{Scene, between, graceful};
use crate::{harness::Stage, judge};

const RECORD: &str = "sundown.dev/record";

pub(super) fn annotate(scene: &Scene, n: usize, key: &str, value: Option<&str>) {
    scene.stage.world.kube.edit("nodes", "", &scene.node(n), |node| match value {
        Some(value) => node["metadata"]["annotations"][key] = json!(value),
        None => drop(node["metadata"]["annotations"].as_object_mut().and_then(|a| a.remove(key))),
    });
}

/// A person deletes the record of the first node, and Sundown writes it back.
async fn first_deletion(scene: &Scene) {
    annotate(scene, 0, RECORD, None);
    scene.stage.until(10, "it is written back", || annotation(scene, 0, RECORD).is_some()).await;
}

fn annotation(scene: &Scene, n: usize, key: &str) -> Option<String> {
    scene.stage.node(&scene.instances[n])["metadata"]["annotations"][key]
        .as_str()
        .map(str::to_owned)
}

fn has_our_taint(scene: &Scene, n: usize) -> bool {
    let node = scene.stage.node(&scene.instances[n]);
    node["spec"]["taints"]
        .as_array()
        .is_some_and(|all| all.iter().any(|t| t["key"] == "sundown.dev/interruption"))
}

/// Nothing of ours is on the Node.
fn is_put_back(scene: &Scene, n: usize) -> bool {
    !scene.stage.is_cordoned(&scene.instances[n]) && !has_our_taint(scene, n)
}

fn is_released(scene: &Scene, n: usize) -> bool {
    scene.stage.record(&scene.instances[n]).is_some_and(|r| r.get("released").is_some())
}

fn release(scene: &Scene, n: usize) {
    annotate(scene, n, "sundown.dev/release", Some("true"));
}

#[tokio::test(start_paused = true)]
async fn a_released_record_is_history_and_most_of_what_comes_is_a_repeat() {
    let scene = Scene::spot(601, 3, &[]).await;
    scene.notice(0).await;
    scene.stage.until(20, "it is released", || is_released(&scene, 0)).await;
    let before = (scene.patches(0).len(), annotation(&scene, 0, RECORD));
    scene.stage.world.aws.spot_interruption(&scene.instances[0], SpotAction::Terminate);
    scene
        .stage
        .until(5, "it is a repeat", || scene.sundown.messages("spot", "repeat") == 1.0)
        .await;
    scene.stage.pass(20).await;
    assert_eq!((scene.patches(0).len(), annotation(&scene, 0, RECORD)), before);
    assert_eq!(scene.sundown.metric("drains_total{end=\"empty\"}"), 1.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_interruption_that_owes_a_new_hook_replaces_a_released_record() {
    let scene = Scene::hooked(602, 3, &[]).await;
    scene
        .stage
        .world
        .kube
        .edit("nodes", "", &scene.node(0), |n| n["spec"]["unschedulable"] = json!(true));
    scene.stage.pass(2).await;
    scene.stage.world.aws.spot_interruption(&scene.instances[0], SpotAction::Terminate);
    scene.stage.until(20, "it is released", || is_released(&scene, 0)).await;
    scene.stage.world.aws.terminate(&scene.instances[0], true);
    scene.completed(0, 30).await;
    assert_eq!(scene.sundown.messages("terminate-hook", "accepted"), 1.0);
    let record = scene.stage.record(&scene.instances[0]).unwrap();
    assert_eq!(record["interruptions"].as_array().unwrap().len(), 1, "{record}");
    assert_eq!(record["before"]["unschedulable"], true, "what was there before the first one");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn once_somebody_has_cleaned_the_node_an_interruption_begins_anew() {
    let scene = Scene::spot(603, 3, &[]).await;
    scene.notice(0).await;
    scene.stage.until(20, "it is released", || is_released(&scene, 0)).await;
    scene.stage.world.kube.edit("nodes", "", &scene.node(0), |n| {
        n["spec"].as_object_mut().unwrap().remove("unschedulable");
        n["spec"].as_object_mut().unwrap().remove("taints");
    });
    scene.stage.pass(2).await;
    scene.stage.world.aws.spot_interruption(&scene.instances[0], SpotAction::Terminate);
    scene.cordoned(0).await;
    assert_eq!(scene.sundown.messages("spot", "accepted"), 2.0);
    assert!(!is_released(&scene, 0));
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_of_another_instance_is_void_and_its_node_put_back() {
    let scene = Scene::hooked(604, 3, &[]).await;
    scene.pod(0, "web-0", graceful(30, 10));
    let record = json!({ "version": 1, "instance": "i-0bbbbbbbbbbbbbbbb", "before": {
        "unschedulable": false, "excluded": false
    },
        "interruptions": [{
            "kind": "terminate-hook", "event": "e", "time": "2026-01-05T09:00:00Z",
            "accepted": "2026-01-05T09:00:00Z",
            "group": "asg", "hook": "drain", "token": "t" }] });
    scene.stage.world.kube.edit("nodes", "", &scene.node(0), |n| {
        n["metadata"]["annotations"][RECORD] = json!(record.to_string());
        n["spec"]["unschedulable"] = json!(true);
        n["spec"]["taints"] =
            json!([{ "key": "sundown.dev/interruption", "value": "spot", "effect": "NoSchedule" }]);
    });
    scene.stage.until(10, "it is put back", || is_put_back(&scene, 0)).await;
    assert_eq!(annotation(&scene, 0, RECORD), None);
    scene.stage.pass(20).await;
    assert_eq!((scene.records("void"), scene.records("put_back")), (1.0, 1.0));
    assert_eq!(scene.times_said("RecordVoid"), 1);
    assert!(scene.evictions("web-0").is_empty());
    assert_eq!(scene.stage.world.aws.count("autoscaling:RecordLifecycleActionHeartbeat"), 0);
    assert_eq!(scene.stage.world.aws.count("autoscaling:CompleteLifecycleAction"), 0);
    scene
        .end_except(
            &[judge::Rule::TrueEvents],
            "the journal never shows the Node with another instance",
        )
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_comes_to_name_another_instance_ends_its_drain() {
    let scene = Scene::spot(605, 3, &[]).await;
    scene.pod(0, "web-0", graceful(60, 50));
    scene.stage.pass(5).await;
    scene.notice(0).await;
    scene.stage.pass(3).await;
    let text =
        annotation(&scene, 0, RECORD).unwrap().replace(&scene.instances[0], "i-0bbbbbbbbbbbbbbbb");
    annotate(&scene, 0, RECORD, Some(&text));
    scene.stage.until(10, "it is put back", || is_put_back(&scene, 0)).await;
    scene.stage.pass(5).await;
    assert_eq!(annotation(&scene, 0, RECORD), None);
    assert_eq!(scene.sundown.metric("drains_total{end=\"void\"}"), 1.0);
    assert_eq!(scene.sundown.metric("drains_active"), 0.0);
    assert_eq!(scene.records("void"), 1.0);
    scene
        .end_except(
            &[judge::Rule::TrueEvents],
            "somebody else changes the record, and not the Node",
        )
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_void_record_that_cannot_be_put_back_is_reported_once_and_tried_again() {
    let scene = Scene::spot(606, 3, &[]).await;
    let rule =
        scene.stage.world.kube.inject(Rule::always(Match::of("patch", "nodes"), Fault::Forbidden));
    let record = json!({ "version": 1, "instance": "i-0bbbbbbbbbbbbbbbb", "interruptions": [] });
    annotate(&scene, 0, RECORD, Some(&record.to_string()));
    for n in 0..10 {
        scene.stage.pass(3).await;
        annotate(&scene, 0, "sundown.dev/note", Some(&n.to_string()));
    }
    assert_eq!(scene.records("void"), 1.0);
    assert_eq!(scene.times_said("RecordVoid"), 1);
    let tries = scene.patches(0).len();
    assert!((3..=20).contains(&tries), "{tries} tries in half a minute");
    scene.stage.world.kube.lift(rule);
    scene.stage.until(20, "it is gone", || annotation(&scene, 0, RECORD).is_none()).await;
    scene
        .end_except(
            &[judge::Rule::TrueEvents],
            "the journal never shows the Node with another instance",
        )
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_reboot_makes_a_record_void_that_owes_no_hook() {
    let scene = Scene::spot(607, 3, &[]).await;
    scene.pod(0, "web-0", graceful(60, 50));
    scene.stage.pass(5).await;
    scene.notice(0).await;
    scene.stage.pass(2).await;
    scene.stage.world.kube.reboot(&scene.node(0));
    scene.stage.until(10, "it is put back", || is_put_back(&scene, 0)).await;
    assert_eq!(annotation(&scene, 0, RECORD), None);
    assert_eq!(scene.records("void"), 1.0);
    assert_eq!(scene.times_said("RecordVoid"), 1);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_reboot_leaves_a_drain_alone_whose_hook_is_still_open() {
    let scene = Scene::hooked(608, 3, &[]).await;
    scene.pod(0, "web-0", PodShape { stuck: true, ..graceful(60, 50) });
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(2).await;
    let heartbeats = scene.stage.actions(&scene.instances[0])[0].heartbeats.len();
    scene.stage.world.kube.reboot(&scene.node(0));
    scene.stage.pass(10).await;
    assert_eq!(
        scene.stage.actions(&scene.instances[0])[0].heartbeats.len(),
        heartbeats + 1,
        "one beat proves it"
    );
    assert!(
        scene.stage.is_cordoned(&scene.instances[0]) && annotation(&scene, 0, RECORD).is_some()
    );
    assert_eq!(scene.records("void"), 0.0);
    scene.stage.world.kube.remove("pods", "shop", "web-0");
    scene.completed(0, 10).await;
    scene.stage.pass(2).await;
    assert!(scene.stage.is_cordoned(&scene.instances[0]), "its instance ends: no pod is to come");
    assert_eq!((scene.records("released"), scene.records("void")), (1.0, 0.0));
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_reboot_leaves_a_drain_alone_and_calls_once_for_the_one_of_its_hooks_that_is_over() {
    let scene = Scene::hooked(618, 3, &[]).await;
    let hook = HookSpec::terminating("log-backup").heartbeat_timeout(Duration::from_secs(300));
    scene.stage.world.aws.put_hook("asg", hook);
    scene.pod(0, "web-0", PodShape { stuck: true, ..graceful(60, 50) });
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(5).await;
    let action = |hook: &str| {
        scene.stage.actions(&scene.instances[0]).into_iter().find(|a| a.hook == hook).unwrap()
    };
    assert!(scene.stage.world.aws.complete_as(
        "AKIAOTHER",
        "asg",
        "log-backup",
        &scene.instances[0],
        HookResult::Continue
    ));
    scene.stage.world.kube.reboot(&scene.node(0));
    scene.stage.pass(20).await;
    assert_eq!(action("log-backup").late_calls.len(), 1, "one heartbeat proves it");
    assert!(action("drain").end.is_none() && annotation(&scene, 0, RECORD).is_some());
    scene.stage.world.kube.remove("pods", "shop", "web-0");
    scene.stage.until(10, "the other one is completed", || action("drain").end.is_some()).await;
    scene.stage.pass(5).await;
    assert_eq!(action("log-backup").late_calls.len(), 1, "it is known to be over");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_reboot_makes_a_record_void_whose_hook_is_over() {
    let scene = Scene::hooked(609, 3, &[]).await;
    scene.pod(0, "web-0", PodShape { stuck: true, ..graceful(60, 50) });
    scene.stage.pass(5).await;
    // An action after which the instance stays; somebody else completes it, and the machine boots.
    scene.stage.world.aws.other_action("asg", "drain", &scene.instances[0], &[]);
    scene.cordoned(0).await;
    scene.stage.pass(2).await;
    assert!(scene.stage.world.aws.complete_as(
        "AKIAOTHER",
        "asg",
        "drain",
        &scene.instances[0],
        HookResult::Continue
    ));
    scene.stage.world.kube.reboot(&scene.node(0));
    scene.stage.until(20, "it is put back", || is_put_back(&scene, 0)).await;
    assert_eq!(scene.records("void"), 1.0);
    assert_eq!(scene.sundown.metric("drains_active"), 0.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_interruption_that_joins_a_void_record_costs_no_second_call_for_the_action_that_is_over()
{
    let scene = Scene::hooked(620, 3, &[]).await;
    scene.pod(0, "web-0", PodShape { stuck: true, ..graceful(60, 50) });
    scene.stage.pass(5).await;
    scene.stage.world.aws.other_action("asg", "drain", &scene.instances[0], &[]);
    scene.cordoned(0).await;
    scene.stage.pass(2).await;
    assert!(scene.stage.world.aws.complete_as(
        "AKIAOTHER",
        "asg",
        "drain",
        &scene.instances[0],
        HookResult::Continue
    ));
    // The Node cannot be put back before the next interruption comes.
    let rule = Rule::always(Match::of("patch", "nodes"), Fault::Refused);
    let rule = scene.stage.world.kube.inject(rule);
    scene.stage.world.kube.reboot(&scene.node(0));
    let late_calls = || scene.stage.actions(&scene.instances[0])[0].late_calls.len();
    scene.stage.until(20, "it is void", || scene.records("void") == 1.0).await;
    assert_eq!(late_calls(), 1, "one heartbeat proves it");
    scene.stage.world.aws.spot_interruption(&scene.instances[0], SpotAction::Terminate);
    scene.stage.pass(3).await;
    scene.stage.world.kube.lift(rule);
    scene
        .stage
        .until(20, "it is drained again", || scene.sundown.metric("drains_active") == 1.0)
        .await;
    scene.stage.pass(20).await;
    assert_eq!(late_calls(), 1, "it is known to be over");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_damaged_record_is_left_alone_told_once_and_replaced_by_the_next_interruption() {
    let scene = Scene::hooked(610, 3, &[]).await;
    scene.pod(0, "web-0", graceful(30, 10));
    annotate(&scene, 0, RECORD, Some("{\"version\":1,\"instan"));
    for n in 0..5 {
        scene.stage.pass(3).await;
        annotate(&scene, 0, "sundown.dev/note", Some(&n.to_string()));
    }
    assert_eq!(annotation(&scene, 0, RECORD).unwrap(), "{\"version\":1,\"instan");
    assert_eq!((scene.records("damaged"), scene.times_said("RecordDamaged")), (1.0, 1));
    assert!(scene.patches(0).is_empty() && scene.evictions("web-0").is_empty());
    scene.terminate(0).await;
    assert_eq!(scene.stage.record(&scene.instances[0]).unwrap()["instance"], scene.instances[0]);
    scene.completed(0, 60).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_damaged_in_mid_drain_does_not_stop_the_drain() {
    let scene = Scene::hooked(611, 3, &[]).await;
    scene.pod(0, "web-0", graceful(30, 20));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(3).await;
    annotate(&scene, 0, RECORD, Some("nonsense"));
    scene.completed(0, 60).await;
    assert!(!scene.is_there("web-0"));
    assert_eq!(scene.records("damaged"), 1.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_of_a_newer_version_is_read_for_what_is_known_and_keeps_the_rest() {
    let stage = Stage::new(612);
    let instances = stage.group(3, 300);
    stage.pass(5).await;
    let node = stage.world.node_of(&instances[0]).unwrap();
    stage.world.aws.terminate(&instances[0], true);
    stage.pass(2).await;
    let token = stage.actions(&instances[0])[0].token.clone();
    let record = json!({ "version": 7, "instance": instances[0], "mood": "serene", "before": {
        "unschedulable": false, "excluded": false, "x": 1
    },
        "interruptions": [
            {
                "kind": "terminate-hook", "event": "e", "time": stage.clock.now(),
                "accepted": stage.clock.now(), "group": "asg",
              "hook": "drain", "token": token, "weight": 3 },
            { "kind": "solar-flare", "strength": 9 }] });
    stage.world.kube.edit("nodes", "", &node, |n| {
        n["metadata"]["annotations"][RECORD] = json!(record.to_string());
        n["spec"]["unschedulable"] = json!(true);
        n["spec"]["taints"] = json!([{
            "key": "sundown.dev/interruption", "value": "terminate-hook", "effect": "NoSchedule"
        }]);
    });
    let scene = Scene::led(stage, instances, &[]).await;
    scene.completed(0, 60).await;
    scene.stage.until(10, "it is released", || is_released(&scene, 0)).await;
    let after = scene.stage.record(&scene.instances[0]).unwrap();
    assert_eq!(
        (&after["version"], &after["mood"], &after["before"]["x"]),
        (&json!(7), &json!("serene"), &json!(1))
    );
    assert_eq!(
        (&after["interruptions"][0]["weight"], &after["interruptions"][1]),
        (&json!(3), &json!({ "kind": "solar-flare", "strength": 9 }))
    );
    assert_eq!(scene.records("damaged"), 0.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_uncordoned_by_hand_stays_so_and_its_drain_goes_on() {
    let scene = Scene::hooked(613, 3, &[]).await;
    scene.pod(0, "web-0", graceful(60, 40));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(3).await;
    scene.stage.world.kube.edit("nodes", "", &scene.node(0), |n| {
        drop(n["spec"].as_object_mut().unwrap().remove("unschedulable"));
    });
    scene.stage.pass(10).await;
    // Something joins: not a reason to cordon it again.
    scene.stage.world.aws.spot_interruption(&scene.instances[0], SpotAction::Terminate);
    scene.stage.until(5, "it joins", || scene.sundown.messages("spot", "joined") == 1.0).await;
    assert!(!scene.stage.is_cordoned(&scene.instances[0]) && has_our_taint(&scene, 0));
    assert_eq!(scene.times_said("Uncordoned"), 1);
    scene.completed(0, 60).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_deleted_by_hand_is_written_back_once() {
    let scene = Scene::hooked(614, 3, &[]).await;
    scene.pod(0, "web-0", graceful(90, 60));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(3).await;
    let record = annotation(&scene, 0, RECORD);
    // The first try to write it back meets a conflict.
    let conflict = Fault::Status {
        code: 409,
        reason: "Conflict".into(),
        message: "the object has been modified".into(),
        retry_after: None,
    };
    scene.stage.world.kube.inject(Rule::next(1, Match::of("patch", "nodes"), conflict));
    annotate(&scene, 0, RECORD, None);
    scene.stage.until(10, "it is written back", || annotation(&scene, 0, RECORD) == record).await;
    assert_eq!((scene.records("restored"), scene.times_said("RecordRestored")), (1.0, 1));
    scene.completed(0, 100).await;
    assert_eq!(scene.records("restored"), 1.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_deleted_twice_ends_the_drain_as_a_release_does() {
    let scene = Scene::hooked(615, 3, &[]).await;
    scene.pod(0, "web-0", PodShape { stuck: true, ..graceful(60, 50) });
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(3).await;
    first_deletion(&scene).await;
    scene.stage.pass(3).await;
    assert!(
        scene.stage.actions(&scene.instances[0])[0].end.is_none(),
        "the first deletion may be a mistake"
    );
    let asked = scene.stage.clock.now();
    annotate(&scene, 0, RECORD, None);
    let completed = scene.completed(0, 10).await;
    assert!(between(asked, completed) < 1.0);
    scene.stage.pass(10).await;
    assert_eq!(scene.records("restored"), 1.0, "the record is not written back again");
    let record = scene.stage.record(&scene.instances[0]).unwrap();
    assert_eq!(
        record["released"]["outcome"], "released",
        "the drain is not taken up again: {record}"
    );
    assert!(scene.is_there("web-0"));
    assert_eq!(scene.sundown.metric("drains_total{end=\"released\"}"), 1.0);
    assert!(scene.stage.is_cordoned(&scene.instances[0]), "the instance goes");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_a_second_deletion_ended_is_not_taken_up_again_by_the_next_leader() {
    let scene = Scene::hooked(617, 3, &[]).await;
    // EKS answers its own hook later, so the instance stays.
    scene.stage.world.aws.put_hook(
        "asg",
        HookSpec::terminating("Terminate-LC-Hook").heartbeat_timeout(Duration::from_secs(600)),
    );
    scene.pod(0, "web-0", PodShape { stuck: true, ..graceful(60, 50) });
    scene.stage.pass(5).await;
    let standby = scene.stage.start("sundown-1", &[]);
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(3).await;
    first_deletion(&scene).await;
    scene.stage.pass(3).await;
    annotate(&scene, 0, RECORD, None);
    let ours = || {
        scene
            .stage
            .actions(&scene.instances[0])
            .iter()
            .any(|a| a.hook == "drain" && a.end.is_some())
    };
    scene.stage.until(10, "our hook is completed", ours).await;
    scene.stage.pass(2).await;
    scene.pod(0, "late-0", graceful(60, 50));
    scene.sundown.end();
    scene.stage.pass(60).await;
    assert_eq!(standby.metric("leader"), 1.0);
    assert!(scene.stage.record(&scene.instances[0]).unwrap()["released"].is_object());
    assert!(
        scene.stage.removals().iter().all(|(pod, ..)| pod != "late-0"),
        "{:?}",
        scene.stage.removals()
    );
    scene.stage.check();
    standby.stop().await;
    scene.stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_record_is_deleted_twice_is_put_back_where_no_hook_is_owed() {
    let scene = Scene::spot(616, 3, &[]).await;
    scene.pod(0, "web-0", graceful(60, 50));
    scene.stage.pass(5).await;
    scene.notice(0).await;
    scene.stage.pass(3).await;
    first_deletion(&scene).await;
    annotate(&scene, 0, RECORD, None);
    scene.stage.until(2, "it is put back", || is_put_back(&scene, 0)).await;
    assert_eq!(scene.records("put_back"), 1.0);
    assert_eq!(scene.sundown.metric("drains_total{end=\"released\"}"), 1.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn s23_a_node_that_a_person_cordoned_before_stays_cordoned_when_it_is_put_back() {
    let scene = Scene::spot(623, 3, &[]).await;
    for n in [0, 1] {
        scene.pod(n, &format!("web-{n}"), graceful(60, 50));
    }
    scene
        .stage
        .world
        .kube
        .edit("nodes", "", &scene.node(0), |n| n["spec"]["unschedulable"] = json!(true));
    scene.stage.pass(5).await;
    for n in [0, 1] {
        scene.stage.world.aws.spot_interruption(&scene.instances[n], SpotAction::Terminate);
    }
    scene
        .stage
        .until(5, "both are taken on", || has_our_taint(&scene, 0) && has_our_taint(&scene, 1))
        .await;
    scene.stage.pass(3).await;
    let asked = scene.stage.clock.now();
    release(&scene, 0);
    release(&scene, 1);
    scene
        .stage
        .until(5, "both are put back", || !has_our_taint(&scene, 0) && !has_our_taint(&scene, 1))
        .await;
    assert!(between(asked, scene.stage.clock.now()) < 1.0);
    assert!(scene.stage.is_cordoned(&scene.instances[0]), "by a person, before us");
    assert!(!scene.stage.is_cordoned(&scene.instances[1]));
    for n in [0, 1] {
        assert_eq!(annotation(&scene, n, "sundown.dev/release"), None, "it was for this drain");
    }
    assert_eq!(scene.sundown.metric("drains_total{end=\"released\"}"), 2.0);
    // A copy of the notice is a repeat still.
    assert!(is_released(&scene, 0) && is_released(&scene, 1));
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_release_by_hand_completes_what_is_owed_and_leaves_the_node_cordoned() {
    let scene = Scene::hooked(624, 3, &[]).await;
    scene.pod(0, "web-0", PodShape { stuck: true, ..graceful(60, 50) });
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(3).await;
    let asked = scene.stage.clock.now();
    release(&scene, 0);
    let completed = scene.completed(0, 10).await;
    assert!(between(asked, completed) < 1.0);
    scene.stage.until(5, "the record says so", || is_released(&scene, 0)).await;
    assert!(scene.stage.is_cordoned(&scene.instances[0]) && has_our_taint(&scene, 0));
    let end = scene.stage.actions(&scene.instances[0])[0].end.clone().unwrap();
    assert_eq!(end.verdict, sundown::sim::aws::Verdict::Completed(HookResult::Continue));
    let outcome: Value =
        scene.stage.record(&scene.instances[0]).unwrap()["released"]["outcome"].clone();
    assert_eq!(outcome, "released");
    scene.end().await;
}
