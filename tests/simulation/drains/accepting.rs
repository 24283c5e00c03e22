//! The PATCH that takes an interruption on.

use std::time::Duration;

use serde_json::{Value, json};
use sundown::sim::{
    aws::SpotAction,
    kube::{Fault, Match, PodShape, Rule},
};

use super::{Scene, between};
use crate::judge::Rule as Promise;

const OURS: &str = "sundown.dev/interruption";

/// The taints of a Node that no controller of the cluster put there.
fn taints(node: &Value) -> Vec<(String, String, String)> {
    let text = |t: &Value, field: &str| t[field].as_str().unwrap_or_default().to_owned();
    let all = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let all = all.iter().map(|t| (text(t, "key"), text(t, "value"), text(t, "effect")));
    all.filter(|(key, ..)| !key.starts_with("node.kubernetes.io/")).collect()
}

fn foreign(key: &str) -> (String, String, String) {
    (key.to_owned(), "team-a".to_owned(), "NoSchedule".to_owned())
}

fn add_taint(scene: &Scene, key: &str) {
    scene.stage.world.kube.edit("nodes", "", &scene.node(0), |n| {
        let mut taints = n["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints.push(json!({ "key": key, "value": "team-a", "effect": "NoSchedule" }));
        n["spec"]["taints"] = taints.into();
    });
}

fn ours(kind: &str) -> (String, String, String) {
    (OURS.to_owned(), kind.to_owned(), "NoSchedule".to_owned())
}

#[tokio::test(start_paused = true)]
async fn one_patch_cordons_taints_and_records_and_keeps_what_others_wrote() {
    let scene = Scene::hooked(201, 2, &[]).await;
    add_taint(&scene, "dedicated");
    scene.stage.world.kube.edit("nodes", "", &scene.node(0), |n| {
        n["metadata"]["annotations"]["example.com/note"] = json!("kept");
    });
    scene.pod(0, "web-0", super::graceful(30, 20));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    assert_eq!(scene.patches(0).len(), 1);
    let node = scene.stage.node(&scene.instances[0]);
    assert_eq!(taints(&node), [foreign("dedicated"), ours("terminate-hook")]);
    assert_eq!(node["metadata"]["annotations"]["example.com/note"], "kept");
    let action = scene.stage.actions(&scene.instances[0]).remove(0);
    let record = scene.stage.record(&scene.instances[0]).unwrap();
    assert_eq!(record["version"], 1);
    assert_eq!(record["instance"], scene.instances[0]);
    assert_eq!(record["boot"], node["status"]["nodeInfo"]["bootID"]);
    assert_eq!(record["before"], json!({ "unschedulable": false, "excluded": false }));
    assert!(record.get("released").is_none());
    let [taken] = record["interruptions"].as_array().unwrap().as_slice() else {
        panic!("{record}")
    };
    let told = ["kind", "group", "hook", "token"].map(|field| taken[field].as_str().unwrap());
    assert_eq!(told, ["terminate-hook", "asg", "drain", &action.token]);
    assert!(!taken["event"].as_str().unwrap().is_empty());
    let at =
        |field: &str| taken[field].as_str().unwrap().parse::<sundown::domain::Moment>().unwrap();
    assert!(at("time") <= at("accepted") && between(at("time"), at("accepted")) < 5.0);
    assert!(taken.get("deadline").is_none(), "deadlines are derived");

    scene.completed(0, 60).await;
    scene
        .stage
        .until(5, "the record says so", || {
            scene.stage.record(&scene.instances[0]).unwrap().get("released").is_some()
        })
        .await;
    assert_eq!(scene.stage.record(&scene.instances[0]).unwrap()["released"]["outcome"], "empty");
    assert!(scene.patches(0).len() <= 3, "accept, label, release: {:?}", scene.patches(0));
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_changes_meanwhile_is_read_again_and_the_patch_built_anew() {
    let scene = Scene::hooked(202, 2, &[]).await;
    scene.stage.world.kube.inject(Rule::next(
        1,
        Match::of("patch", "nodes"),
        Fault::Slow(Duration::from_secs(1)),
    ));
    scene.stage.world.aws.terminate(&scene.instances[0], true);
    scene.stage.until(10, "the patch is under way", || scene.patches(0).len() == 1).await;
    // The watch is told late: the service cannot know of this.
    add_taint(&scene, "dedicated");
    scene.cordoned(0).await;
    assert_eq!(
        taints(&scene.stage.node(&scene.instances[0])),
        [foreign("dedicated"), ours("terminate-hook")]
    );
    assert_eq!(scene.records("conflict"), 1.0);
    assert_eq!(scene.patches(0).iter().filter(|r| r.status == 409).count(), 1);
    assert_eq!(scene.requests("get", "nodes", "", &scene.node(0)).len(), 1);
    assert_eq!(scene.sundown.messages("terminate-hook", "accepted"), 1.0);
    scene.completed(0, 60).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_takes_out_of_our_hands_meanwhile_is_not_written_to() {
    let scene = Scene::hooked(207, 2, &[]).await;
    scene.stage.world.kube.inject(Rule::next(
        1,
        Match::of("patch", "nodes"),
        Fault::Slow(Duration::from_secs(1)),
    ));
    scene.stage.world.aws.terminate(&scene.instances[0], true);
    scene.stage.until(10, "the patch is under way", || scene.patches(0).len() == 1).await;
    scene.stage.world.kube.edit("nodes", "", &scene.node(0), |n| {
        n["metadata"]["annotations"]["sundown.dev/ignore"] = "true".into();
    });
    scene.stage.until(10, "the message is deleted", || scene.stage.in_queue() == 0).await;
    assert_eq!(scene.sundown.messages("terminate-hook", "not_managed"), 1.0);
    scene.stage.pass(5).await;
    assert_eq!(scene.patches(0).len(), 1, "the one that was refused");
    assert!(
        !scene.stage.is_cordoned(&scene.instances[0])
            && scene.stage.actions(&scene.instances[0])[0].end.is_none()
    );
    scene.end_except(&[Promise::Messages], "the node is not ours any more").await;
}

#[tokio::test(start_paused = true)]
async fn conflict_after_conflict_is_met_ten_times_and_then_later_again() {
    let scene = Scene::hooked(203, 2, &[]).await;
    let conflict = Fault::Status {
        code: 409,
        reason: "Conflict".into(),
        message: "the object has been modified".into(),
        retry_after: None,
    };
    let rule = scene.stage.world.kube.inject(Rule::always(Match::of("patch", "nodes"), conflict));
    scene.stage.world.aws.terminate(&scene.instances[0], true);
    scene.stage.pass(60).await;
    let tries = scene.patches(0).len();
    assert!((20..=200).contains(&tries), "{tries} tries in a minute");
    assert_eq!(scene.stage.in_queue(), 1, "the message is kept");
    scene.stage.world.kube.lift(rule);
    scene.cordoned(0).await;
    scene.stage.until(5, "it is deleted", || scene.stage.in_queue() == 0).await;
    scene.completed(0, 60).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_after_its_effect_is_recognised() {
    for (seed, fault) in
        [(204, Fault::AnswerLost), (205, Fault::HangAfterEffect), (206, Fault::Garbled)]
    {
        let scene = Scene::hooked(seed, 2, &["--exclude-from-load-balancers", "never"]).await;
        scene.pod(0, "web-0", super::graceful(60, 30));
        scene.stage.pass(5).await;
        scene.stage.world.kube.inject(Rule::next(1, Match::of("patch", "nodes"), fault));
        scene.terminate(0).await;
        scene.stage.until(20, "the message is deleted", || scene.stage.in_queue() == 0).await;
        let after = [
            scene.sundown.messages("terminate-hook", "accepted"),
            scene.sundown.messages("terminate-hook", "repeat"),
        ];
        assert_eq!(after, [1.0, 0.0]);
        assert_eq!(scene.patches(0).len(), 1, "it is not written again");
        assert_eq!(scene.records("written"), 1.0);
        scene.completed(0, 60).await;
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_recognised_even_if_the_node_cannot_be_read_at_once() {
    let scene = Scene::hooked(207, 2, &["--exclude-from-load-balancers", "never"]).await;
    scene.stage.world.kube.inject(Rule::next(1, Match::of("patch", "nodes"), Fault::AnswerLost));
    scene.stage.world.kube.inject(Rule::next(1, Match::of("get", "nodes"), Fault::Refused));
    scene.terminate(0).await;
    scene.stage.until(20, "the message is deleted", || scene.stage.in_queue() == 0).await;
    let after = [
        scene.sundown.messages("terminate-hook", "accepted"),
        scene.sundown.messages("terminate-hook", "repeat"),
    ];
    assert_eq!(after, [1.0, 0.0]);
    assert_eq!(scene.patches(0).len(), 1);
    scene.completed(0, 60).await;
    assert_eq!(scene.times_said("InterruptionAccepted"), 1);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_fails_holds_nobody_else() {
    for (seed, fault) in [(208, Fault::Forbidden), (209, Fault::Hang), (210, Fault::Refused)] {
        let scene = Scene::hooked(seed, 3, &[]).await;
        scene.pod(0, "web-0", PodShape::default());
        scene.pod(1, "web-1", PodShape::default());
        let rule = scene
            .stage
            .world
            .kube
            .inject(Rule::always(Match::of("patch", "nodes").named(scene.node(0)), fault));
        scene.stage.pass(5).await;
        scene.stage.world.aws.terminate(&scene.instances[0], true);
        let cordoned = scene.terminate(1).await;
        scene
            .stage
            .until(5, "the other one's pod is evicted", || !scene.removals("web-1").is_empty())
            .await;
        assert!(between(cordoned, scene.removals("web-1")[0].0) <= 2.1);
        scene.completed(1, 60).await;
        scene.stage.pass(60).await;
        let tries = scene.patches(0).len();
        assert!((3..=40).contains(&tries), "{tries} tries in a minute");
        assert!(
            scene.is_there("web-0") && scene.evictions("web-0").is_empty(),
            "no pod is touched on a node without a record"
        );
        assert_eq!(scene.stage.in_queue(), 1, "its message is kept");
        assert!(scene.stage.actions(&scene.instances[0])[0].end.is_none());
        scene.stage.world.kube.lift(rule);
        scene
            .stage
            .until(30, "it is cordoned", || scene.stage.is_cordoned(&scene.instances[0]))
            .await;
        scene.completed(0, 60).await;
        scene.stage.until(5, "its message is deleted", || scene.stage.in_queue() == 0).await;
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn c48_an_api_that_fails_while_cordoning_and_draining_is_tried_until_the_deadline() {
    let scene =
        Scene::hooked(248, 2, &["--drain-timeout", "120s", "--deadline-margin", "0s"]).await;
    scene.pod(0, "web-0", super::graceful(10, 1));
    let kube = &scene.stage.world.kube;
    let error = || Fault::Status {
        code: 500,
        reason: "InternalError".into(),
        message: "etcd has no leader".into(),
        retry_after: None,
    };
    kube.inject(Rule::next(5, Match::of("patch", "nodes"), error()));
    kube.inject(Rule::always(Match::evictions(), error()));
    scene.stage.pass(5).await;
    scene.stage.world.aws.terminate(&scene.instances[0], true);
    scene
        .stage
        .until(60, "the node is cordoned", || scene.stage.is_cordoned(&scene.instances[0]))
        .await;
    let accepted = scene.stage.clock.now();
    scene.completed(0, 200).await;
    let removals = scene.removals("web-0");
    assert_eq!(removals.len(), 1, "{removals:?}");
    assert!(removals[0].2);
    super::about(between(accepted, removals[0].0), 110.0, 2.0);
    assert!(
        scene.answers("transient") >= 3.0 && scene.evictions("web-0").len() <= 20,
        "{}",
        scene.evictions("web-0").len()
    );
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_interruption_joins_the_drain_and_the_earlier_deadline_rules() {
    let scene = Scene::hooked(211, 2, &[]).await;
    scene.pod(0, "web-0", super::graceful(300, 1000));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(10).await;
    assert_eq!(scene.removals("web-0")[0].1, 300);
    scene.stage.world.aws.spot_interruption(&scene.instances[0], SpotAction::Terminate);
    let noticed = scene.stage.clock.now();
    scene.stage.until(5, "it joins", || scene.sundown.messages("spot", "joined") == 1.0).await;
    let node = scene.stage.node(&scene.instances[0]);
    assert_eq!(taints(&node), [ours("spot")]);
    let record = scene.stage.record(&scene.instances[0]).unwrap();
    assert_eq!(record["interruptions"].as_array().unwrap().len(), 2);
    scene.stage.until(5, "the pod is shortened", || scene.removals("web-0").len() == 2).await;
    let (at, grace, deleted) = scene.removals("web-0")[1];
    assert!(deleted);
    super::about(grace as f64, 110.0 - between(noticed, at), 2.0);
    let completed = scene.completed(0, 150).await;
    super::about(between(noticed, completed), 110.0, 3.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_adds_nothing_is_deleted_and_counted_without_a_patch() {
    let scene = Scene::spot(212, 2, &[]).await;
    scene.pod(0, "web-0", super::graceful(60, 50));
    scene.stage.pass(5).await;
    scene.notice(0).await;
    scene.stage.pass(3).await;
    let before = scene.patches(0).len();
    for n in 1..=3 {
        scene.stage.world.aws.spot_interruption(&scene.instances[0], SpotAction::Terminate);
        scene
            .stage
            .until(5, "it is a repeat", || scene.sundown.messages("spot", "repeat") == f64::from(n))
            .await;
    }
    scene.stage.until(5, "the messages are deleted", || scene.stage.in_queue() == 0).await;
    assert_eq!(scene.patches(0).len(), before);
    assert_eq!(scene.removals("web-0").len(), 1);
    scene.end().await;
}
