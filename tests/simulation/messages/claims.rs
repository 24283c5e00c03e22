//! Several Nodes that claim one instance.

use std::time::Duration;

use sundown::{
    domain::Moment,
    sim::{
        aws::{Fault, FaultRule, HealthNotice, HookSpec, How},
        kube::{Fact, NodeSpec, PodShape, PodSpec},
    },
};

use super::{logs::Logs, tools::continuing_hook};
use crate::{
    harness::{Replica, Stage},
    judge,
};

/// A group with a hook, and an instance of it that two Nodes of these names claim. Each has a pod;
/// that of the first takes a minute to stop.
async fn claimed(seed: u64, names: [&str; 2]) -> (Stage, Replica, String) {
    let stage = Stage::new(seed);
    let hook: HookSpec = continuing_hook("drain", 300);
    let id = stage.group_without_nodes("asg", 2, 86_400, &[hook]).remove(0);
    for (name, pod, stop) in [(names[0], "slow", 60), (names[1], "quick", 1)] {
        stage.world.kube.add_node(&NodeSpec::named(name).instance(id.clone()));
        let shape = PodShape {
            grace: Some(Duration::from_secs(120)),
            stop: Some(Duration::from_secs(stop)),
            ..PodShape::default()
        };
        stage.world.kube.add_pod(&PodSpec::on(name, "shop", pod).shape(shape));
    }
    let sundown = stage.settled(&[]).await;
    stage.world.aws.terminate(&id, true);
    (stage, sundown, id)
}

fn is_cordoned(stage: &Stage, node: &str) -> bool {
    stage.world.kube.object("nodes", "", node).unwrap()["spec"]["unschedulable"] == true
}

fn is_there(stage: &Stage, pod: &str) -> bool {
    stage.world.kube.object("pods", "shop", pod).is_some()
}

/// The Events about Nodes that claim one instance.
fn warnings(stage: &Stage) -> Vec<String> {
    let all = stage.world.kube.objects("events");
    let ours = all.iter().filter(|event| event["reason"] == "DuplicateProviderID");
    ours.map(|event| event["message"].as_str().unwrap().to_owned()).collect()
}

async fn completed(stage: &Stage, id: &str) -> Moment {
    stage.until(600, "the action is over", || stage.actions(id)[0].end.is_some()).await;
    let end = stage.actions(id).remove(0).end.unwrap();
    assert!(!end.by.is_empty(), "completed by a call, not by {:?}", end.verdict);
    end.at
}

#[tokio::test(start_paused = true)]
async fn the_node_that_ec2_confirms_is_drained_and_the_others_are_only_cordoned() {
    let stage = Stage::new(1201);
    let id = stage.group(2, 300).remove(0);
    let node = stage.world.node_of(&id).unwrap();
    // A kubelet that lies about its instance; it joined last, and is ready.
    stage.world.kube.add_node(&NodeSpec::named("rogue").instance(id.clone()));
    let slow = PodShape {
        grace: Some(Duration::from_secs(120)),
        stop: Some(Duration::from_secs(60)),
        ..PodShape::default()
    };
    stage.world.kube.add_pod(&PodSpec::on(&node, "shop", "slow").shape(slow));
    stage.world.kube.add_pod(&PodSpec::on("rogue", "shop", "other"));
    let sundown = stage.settled(&[]).await;
    stage.world.aws.terminate(&id, true);
    stage
        .until(15, "both are cordoned", || {
            is_cordoned(&stage, &node) && is_cordoned(&stage, "rogue")
        })
        .await;
    let cordoned = stage.clock.now();
    let took = completed(&stage, &id).await.duration_since(cordoned).as_secs_f64();
    assert!(
        (55.0..65.0).contains(&took),
        "completed when the instance's own node was empty: after {took} s"
    );
    assert!(is_there(&stage, "other"), "the pods of the other node stay");
    assert!(
        !stage
            .deeds()
            .iter()
            .any(|deed| matches!(&deed.fact, Fact::Evicted { pod, .. } if pod.name == "other"))
    );
    let rogue = stage.world.kube.object("nodes", "", "rogue").unwrap();
    assert!(!rogue.to_string().contains("sundown.dev/"), "neither record nor taint: {rogue}");
    let said = warnings(&stage);
    assert_eq!(said.len(), 2, "on both nodes: {said:?}");
    assert!(
        said[0].contains(&format!("EC2 confirms {node}, which is drained. Only cordoned: rogue.")),
        "{said:?}"
    );
    sundown.stop().await;
    stage.end_except(
        &[judge::Rule::Restored],
        "a Node that only claims the instance stays cordoned",
    );
}

#[tokio::test(start_paused = true)]
async fn nodes_of_which_ec2_confirms_none_are_all_drained_and_the_hook_waits_for_the_last() {
    let logs = Logs::keep();
    let (stage, sundown, id) = claimed(1202, ["left", "right"]).await;
    stage
        .until(15, "both are cordoned", || {
            is_cordoned(&stage, "left") && is_cordoned(&stage, "right")
        })
        .await;
    stage.until(10, "one is empty", || !is_there(&stage, "quick")).await;
    stage.pass(30).await;
    assert!(
        is_there(&stage, "slow") && stage.actions(&id)[0].end.is_none(),
        "the other one is not"
    );
    completed(&stage, &id).await;
    assert!(!is_there(&stage, "slow"));
    let calls =
        stage.world.aws.actions().into_iter().filter(|action| action.instance == id).count();
    assert_eq!(calls, 1);
    let said = warnings(&stage);
    assert_eq!(said.len(), 2, "on both nodes: {said:?}");
    assert!(said.iter().all(|said| said.contains("EC2 confirms none of them")), "{said:?}");
    let lines = logs.with(&["WARN", "Several nodes claim"]);
    let is_list =
        |line: &String| line.contains(r#"others=["left"]"#) || line.contains(r#"others=["right"]"#);
    assert!(!lines.is_empty() && lines.iter().all(is_list), "a list: {lines:?}");
    sundown.stop().await;
    stage.end_except(
        &[judge::Rule::TrueEvents],
        "two Nodes have the Event of one action, and the judge knows one Node for an instance",
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_releases_itself_or_is_deleted_does_not_end_the_drain_of_another_that_claims_its_instance()
 {
    for (seed, is_deleted) in [(1203, false), (1204, true)] {
        let (stage, sundown, id) = claimed(seed, ["left", "right"]).await;
        stage
            .until(15, "both are cordoned", || {
                is_cordoned(&stage, "left") && is_cordoned(&stage, "right")
            })
            .await;
        if is_deleted {
            stage.world.kube.remove("nodes", "", "right");
        } else {
            stage.world.kube.edit("nodes", "", "right", |node| {
                node["metadata"]["annotations"]["sundown.dev/release"] = "true".into();
            });
        }
        stage.pass(30).await;
        assert!(
            is_there(&stage, "slow") && stage.actions(&id)[0].end.is_none(),
            "the hook is open while the other node is drained"
        );
        completed(&stage, &id).await;
        assert!(!is_there(&stage, "slow"));
        sundown.stop().await;
        stage.end_except(
            &[judge::Rule::TrueEvents],
            "two Nodes have the Event of one action, and the judge knows one Node for an instance",
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_of_one_instance_are_given_up_at_their_deadline_together() {
    let stage = Stage::new(1205);
    let id =
        stage.group_without_nodes("asg", 2, 86_400, &[continuing_hook("drain", 300)]).remove(0);
    for (name, stuck) in [("left", false), ("right", true)] {
        stage.world.kube.add_node(&NodeSpec::named(name).instance(id.clone()));
        let shape = PodShape {
            grace: Some(Duration::from_secs(3_600)),
            stop: Some(Duration::from_secs(1)),
            stuck,
            ..PodShape::default()
        };
        stage.world.kube.add_pod(&PodSpec::on(name, "shop", format!("on-{name}")).shape(shape));
    }
    let sundown = stage.settled(&["--drain-timeout", "200s", "--force-after", "never"]).await;
    stage.world.aws.terminate(&id, true);
    stage
        .until(15, "both are cordoned", || {
            is_cordoned(&stage, "left") && is_cordoned(&stage, "right")
        })
        .await;
    let cordoned = stage.clock.now();
    let took = completed(&stage, &id).await.duration_since(cordoned).as_secs_f64();
    assert!((150.0..205.0).contains(&took), "after {took} s");
    assert!(is_there(&stage, "on-right") && !is_there(&stage, "on-left"));
    sundown.stop().await;
    stage.end_except(
        &[judge::Rule::TrueEvents],
        "two Nodes have the Event of one action, and the judge knows one Node for an instance",
    );
}

#[tokio::test(start_paused = true)]
async fn a_pause_of_one_node_holds_the_hook_of_all_that_claim_its_instance() {
    let (stage, sundown, id) = claimed(1206, ["left", "right"]).await;
    stage
        .until(15, "both are cordoned", || {
            is_cordoned(&stage, "left") && is_cordoned(&stage, "right")
        })
        .await;
    let pause = |value: serde_json::Value| {
        stage.world.kube.edit("nodes", "", "right", |node| {
            node["metadata"]["annotations"]["sundown.dev/pause"] = value.clone();
        });
    };
    stage.world.kube.add_pod(&PodSpec::on("right", "shop", "held"));
    pause("true".into());
    stage.pass(120).await;
    assert!(
        !is_there(&stage, "slow") && stage.actions(&id)[0].end.is_none(),
        "one is empty, the other one is held"
    );
    pause("false".into());
    completed(&stage, &id).await;
    sundown.stop().await;
    stage.end_except(
        &[judge::Rule::TrueEvents],
        "two Nodes have the Event of one action, and the judge knows one Node for an instance",
    );
}

#[tokio::test(start_paused = true)]
async fn a_scheduled_change_is_noted_and_drained_on_every_node_that_claims_its_instance() {
    let stage = Stage::new(1215);
    let hook: HookSpec = continuing_hook("drain", 300);
    let id = stage.group_without_nodes("asg", 1, 86_400, &[hook]).remove(0);
    for name in ["one", "two"] {
        stage.world.kube.add_node(&NodeSpec::named(name).instance(id.clone()));
    }
    let sundown = stage.settled(&["--scheduled-lead", "5m"]).await;
    let start = stage.clock.now() + Duration::from_secs(400);
    stage.world.aws.health(&HealthNotice::retirement([id], start));
    stage.until(20, "the message is deleted", || stage.in_queue() == 0).await;
    for name in ["one", "two"] {
        let node = stage.world.kube.object("nodes", "", name).unwrap();
        assert!(node["metadata"]["annotations"]["sundown.dev/planned"].is_string(), "{node}");
    }
    assert_eq!(warnings(&stage).len(), 2, "on both nodes");
    let both = || is_cordoned(&stage, "one") && is_cordoned(&stage, "two");
    stage.until(120, "both are drained", both).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn another_node_that_claims_the_instance_of_a_scheduled_change_is_cordoned_when_its_drain_begins()
 {
    let logs = Logs::keep();
    let stage = Stage::new(1216);
    let id = stage.group(1, 300).remove(0);
    let own = stage.world.node_of(&id).unwrap();
    stage.world.kube.add_node(&NodeSpec::named("rogue").instance(id.clone()));
    let sundown = stage.settled(&["--scheduled-lead", "5m"]).await;
    let start = stage.clock.now() + Duration::from_secs(400);
    stage.world.aws.health(&HealthNotice::retirement([id], start));
    stage.until(20, "the message is deleted", || stage.in_queue() == 0).await;
    assert!(warnings(&stage)[0].contains("these will only be cordoned: rogue."));
    stage.pass(60).await;
    assert!(!is_cordoned(&stage, &own) && !is_cordoned(&stage, "rogue"), "its time has not come");
    stage.until(60, "its drain begins", || is_cordoned(&stage, &own)).await;
    stage.until(3, "the other one is cordoned", || is_cordoned(&stage, "rogue")).await;
    let rogue = stage.world.kube.object("nodes", "", "rogue").unwrap();
    assert!(!rogue.to_string().contains("sundown.dev/"), "and nothing else: {rogue}");
    assert_eq!(logs.with(&["WARN", "Only cordoned: rogue."]).len(), 1);
    sundown.stop().await;
    stage.end_except(
        &[judge::Rule::Restored],
        "a Node that only claims the instance stays cordoned",
    );
}

#[tokio::test(start_paused = true)]
async fn a_scheduled_change_that_aws_moves_is_moved_on_every_node_that_has_it() {
    let stage = Stage::new(1217);
    let id = stage.group(1, 300).remove(0);
    let own = stage.world.node_of(&id).unwrap();
    stage.world.kube.add_node(&NodeSpec::named("rogue").instance(id.clone()));
    let sundown = stage.settled(&["--scheduled-lead", "5m"]).await;
    let silent = FaultRule::new("ec2:*", Fault::Unavailable, How::Always);
    let silent = stage.world.aws.fault(silent);
    let (start, hour) = (stage.clock.now() + Duration::from_secs(400), Duration::from_secs(3_600));
    stage.world.aws.health(&HealthNotice::retirement([id.clone()], start));
    stage.until(30, "the message is deleted", || stage.in_queue() == 0).await;
    stage.world.aws.end_fault(silent);
    let starts = |name: &str| {
        let node = stage.world.kube.object("nodes", "", name).unwrap();
        let text = node["metadata"]["annotations"]["sundown.dev/planned"].as_str();
        let planned: serde_json::Value = serde_json::from_str(text.unwrap()).unwrap();
        planned["changes"][0]["starts"].as_str().unwrap().to_owned()
    };
    let first = starts(&own);
    assert_eq!(starts("rogue"), first, "EC2 did not say whose the instance is");
    stage.pass(30).await;
    stage.world.aws.health(&HealthNotice::retirement([id], start + hour));
    stage.until(30, "the second message is deleted", || stage.in_queue() == 0).await;
    assert_ne!(starts(&own), first);
    assert_eq!(starts("rogue"), starts(&own));
    stage.pass(400).await;
    assert!(!is_cordoned(&stage, &own) && !is_cordoned(&stage, "rogue"), "its time has not come");
    sundown.stop().await;
    stage.end();
}
