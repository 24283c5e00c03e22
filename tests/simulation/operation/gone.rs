//! Nodes of drained instances that are gone: `--out-of-service-taint` and `--delete-node`.

use sundown::sim::{
    WorldSettings,
    aws::{Fault, FaultRule, HookResult, HookSpec, How, SpotAction, State},
    kube::{Fault as KubeFault, Match, Rule},
};

use super::s;
use crate::{harness::Stage, messages::logs::Logs};

const TAINT: &[&str] = &["--out-of-service-taint"];
const DELETE: &[&str] = &["--delete-node"];
const BOTH: &[&str] = &["--out-of-service-taint", "--delete-node"];

/// A cluster without a cloud controller manager: nobody else deletes the Node of an instance.
fn alone(seed: u64) -> Stage {
    let mut settings = WorldSettings::seeded(seed);
    settings.kube.timing.node_deletion = None;
    Stage::with(settings)
}

fn has_taint(stage: &Stage, instance: &str) -> bool {
    stage.node(instance)["spec"]["taints"].to_string().contains("node.kubernetes.io/out-of-service")
}

fn exists(stage: &Stage, node: &str) -> bool {
    stage.world.kube.object("nodes", "", node).is_some()
}

/// How many Events of the Node have this reason.
fn said(stage: &Stage, reason: &str, node: &str) -> usize {
    let events = stage.world.kube.objects("events");
    events.iter().filter(|e| e["reason"] == reason && e["involvedObject"]["name"] == node).count()
}

fn state(stage: &Stage, instance: &str) -> State {
    stage.world.aws.instance(instance).unwrap().state
}

#[tokio::test(start_paused = true)]
async fn a_node_is_tainted_and_then_deleted_once_ec2_shows_its_instance_as_terminated() {
    let logs = Logs::keep();
    let stage = alone(3_101);
    let instance = stage.group(2, 300).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    let sundown = stage.lead("sundown-0", BOTH).await;
    stage.world.aws.terminate(&instance, true);
    while state(&stage, &instance) != State::Terminated {
        assert!(!has_taint(&stage, &instance) && exists(&stage, &node), "it may still run");
        stage.pass(1).await;
    }
    // While the Node shows Ready, another machine may have its name.
    stage.until(90, "it has the taint", || has_taint(&stage, &instance)).await;
    stage.pass(50).await;
    assert!(exists(&stage, &node), "its pods and volumes go first");
    stage.until(40, "it is deleted", || !exists(&stage, &node)).await;
    for step in ["tainted", "deleted"] {
        assert_eq!(sundown.metric(&format!("gone_nodes_total{{step=\"{step}\"}}")), 1.0, "{step}");
    }
    assert_eq!(logs.with(&["its node is deleted", &instance]).len(), 1);
    for reason in ["OutOfServiceTaintSet", "NodeDeleted"] {
        assert_eq!(said(&stage, reason, &node), 1, "{reason}");
    }
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn by_default_sundown_neither_taints_nor_deletes_a_node_and_each_flag_does_one_of_both() {
    for (seed, flags, taints, deletes) in
        [(3_102, &[][..], false, false), (3_103, TAINT, true, false), (3_104, DELETE, false, true)]
    {
        let stage = alone(seed);
        let instance = stage.group(2, 300).remove(0);
        let node = stage.world.node_of(&instance).unwrap();
        let sundown = stage.lead("sundown-0", flags).await;
        stage.world.aws.spot_interruption(&instance, SpotAction::Terminate);
        stage.pass(400).await;
        assert_eq!(exists(&stage, &node), !deletes, "{flags:?}");
        assert!(deletes || has_taint(&stage, &instance) == taints, "{flags:?}");
        sundown.stop().await;
        stage.end_unjudged();
    }
}

#[tokio::test(start_paused = true)]
async fn the_node_of_an_instance_that_may_come_back_stays_as_it_is() {
    for (seed, how) in [(3_105, "root volume"), (3_106, "warm pool"), (3_107, "stop")] {
        let stage = alone(seed);
        let instance = stage.group(2, 300).remove(0);
        let node = stage.world.node_of(&instance).unwrap();
        let sundown = stage.lead("sundown-0", BOTH).await;
        let pool = [("Origin", "AutoScalingGroup"), ("Destination", "WarmPool")];
        match how {
            "root volume" => {
                let detail = [("Action", "ReplaceRootVolume")];
                stage.world.aws.other_action("asg", "drain", &instance, &detail).unwrap();
            }
            "warm pool" => {
                stage.world.aws.other_action("asg", "drain", &instance, &pool).unwrap();
            }
            _ => stage.world.aws.stop(&instance),
        }
        let is_released = || stage.record(&instance).is_some_and(|r| r["released"].is_object());
        stage.until(60, "its drain is over", is_released).await;
        // Even if it ends after all: without an event, the record does not show that.
        stage.world.aws.lose_events(stage.clock.now() + s(86_400));
        stage.world.aws.terminate_in_ec2(&instance);
        stage.pass(300).await;
        assert!(exists(&stage, &node) && !has_taint(&stage, &instance), "{how}");
        sundown.stop().await;
        stage.end_unjudged();
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_delete_nodes_the_log_names_it_once_and_sundown_tries_again() {
    let logs = Logs::keep();
    let stage = alone(3_108);
    let instance = stage.group(2, 300).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    let sundown = stage.lead("sundown-0", DELETE).await;
    let denied = stage.world.kube.deny("delete", "nodes");
    stage.world.aws.terminate(&instance, true);
    stage.pass(200).await;
    assert!(exists(&stage, &node));
    assert_eq!(logs.with(&["WARN", "rbac.deleteNode"]).len(), 1);
    assert!(sundown.metric("gone_nodes_total{step=\"denied\"}") > 2.0);
    stage.world.kube.lift(denied);
    stage.until(30, "it is deleted", || !exists(&stage, &node)).await;
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_changes_just_before_the_delete_is_decided_again() {
    let stage = alone(3_109);
    let instance = stage.group(2, 300).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    let sundown = stage.lead("sundown-0", DELETE).await;
    let conflict = KubeFault::Status {
        code: 409,
        reason: "Conflict".to_owned(),
        message: "the object has been modified".to_owned(),
        retry_after: None,
    };
    stage.world.kube.inject(Rule::next(1, Match::of("delete", "nodes"), conflict));
    stage.world.aws.terminate(&instance, true);
    stage.until(200, "it is deleted", || !exists(&stage, &node)).await;
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn while_ec2_does_not_answer_and_after_an_hour_nothing_is_done() {
    let logs = Logs::keep();
    let stage = alone(3_110);
    let instances = stage.group(3, 300);
    let stuck = &instances[0];
    let node = stage.world.node_of(stuck).unwrap();
    let hook = HookSpec::terminating("other").heartbeat_timeout(s(7_200));
    stage.world.aws.put_hook("asg", hook);
    let flags = [DELETE, &["--lifecycle-hook", "drain"]].concat();
    let sundown = stage.lead("sundown-0", &flags).await;
    stage.world.aws.terminate(stuck, true);
    stage.pass(900).await;
    assert!(exists(&stage, &node), "another hook keeps its instance running");
    let waits = ["is not tainted or deleted yet", "running"];
    assert_eq!(logs.with(&waits).len(), 1);
    stage.pass(3_600).await;
    assert_eq!(logs.with(&["WARN", "It no longer tries"]).len(), 1);
    assert_eq!(said(&stage, "NodeKept", &node), 1);
    let asked = FaultRule::new("ec2:DescribeInstances", Fault::AccessDenied, How::Always);
    stage.world.aws.fault(asked);
    stage.world.aws.terminate(&instances[1], true);
    stage.world.aws.complete_as("x", "asg", "other", &instances[1], HookResult::Continue);
    stage.pass(200).await;
    assert!(exists(&stage, &stage.world.node_of(&instances[1]).unwrap()));
    sundown.stop().await;
    stage.end_unjudged();
}

fn attachment(stage: &Stage, name: &str, node: &str) {
    stage.world.kube.put(serde_json::json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": { "name": name },
        "spec": {
            "attacher": "ebs.csi.aws.com", "nodeName": node,
            "source": { "persistentVolumeName": format!("pv-{name}") },
        },
        "status": { "attached": true },
    }));
}

#[tokio::test(start_paused = true)]
async fn c55_s22_a_volume_that_stays_attached_gets_the_delay_and_then_the_taint_of_its_node() {
    let stage = alone(3_111);
    let instance = stage.group(2, 300).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    stage.slow_pod(&instance, "database", 10);
    attachment(&stage, "database", &node);
    let is_attached = || stage.world.kube.object("volumeattachments", "", "database").is_some();
    let flags = [TAINT, &["--complete-delay", "60s"]].concat();
    let sundown = stage.lead("sundown-0", &flags).await;
    stage.world.aws.terminate(&instance, true);
    let is_drained = || sundown.drain(&node).is_some_and(|d| d.drained.is_some());
    stage.until(30, "the node is drained", is_drained).await;
    stage.pass(55).await;
    assert!(!stage.is_over(&instance), "its volumes have time to detach");
    stage.until(10, "the action is completed", || stage.is_over(&instance)).await;
    assert_eq!(stage.record(&instance).unwrap()["released"]["outcome"], "empty");
    stage.pass(10).await;
    assert!(!has_taint(&stage, &instance), "its instance still shuts down");
    assert!(is_attached(), "the kubelet of its node is gone");
    stage.until(90, "Kubernetes may detach it", || has_taint(&stage, &instance)).await;
    assert_eq!(state(&stage, &instance), State::Terminated);
    stage.until(30, "it is detached", || !is_attached()).await;
    sundown.stop().await;
    stage.end_unjudged();
}
