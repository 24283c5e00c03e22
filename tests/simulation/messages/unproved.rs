//! Late interruptions of which nobody can be asked: cordon and polite evictions, and what a later answer makes of them.

use std::time::Duration;

use sundown::sim::{
    aws::{EventKind, Fault, FaultRule, HookResult, How},
    kube::{BudgetSpec, Fact},
};

use super::bodies;
use crate::harness::{Replica, Stage};

/// AWS's control planes do not answer; the queue does.
fn silence(stage: &Stage) {
    for api in ["ec2:*", "autoscaling:*"] {
        stage.world.aws.fault(FaultRule::new(api, Fault::Hang, How::Always));
    }
}

fn deletions(stage: &Stage) -> usize {
    stage.deeds().iter().filter(|e| matches!(e.fact, Fact::Deleted { .. })).count()
}

/// A node with two pods, one of which its budget never lets go; the warning about it is an hour old, and nobody answers.
async fn taken_on_unproved(seed: u64, body: impl FnOnce(&Stage, &str) -> String) -> (Stage, Replica, String) {
    let stage = Stage::new(seed);
    let instances = stage.group(1, 300);
    stage.shop(2);
    stage.world.kube.add_deployment(&sundown::sim::kube::Workload::new("shop", "quorum", 1));
    stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "quorum").max(0));
    let url = stage.queue_for("in", []);
    stage.queue_for("actions", [EventKind::TerminateAction]);
    let sundown = stage.settled(&["--queue-url", &url, "--drain-timeout", "5m"]).await;
    silence(&stage);
    let body = body(&stage, &instances[0]);
    stage.world.aws.send_event("in", &body);
    stage.pass(9).await;
    stage.assert_untouched(&stage.world.node_of(&instances[0]).unwrap());
    stage.until(5, "it is taken on when nobody has answered for 10 s", || stage.is_cordoned(&instances[0])).await;
    stage.until(5, "and the message deleted", || stage.bodies_in("in").is_empty()).await;
    assert_eq!(stage.record(&instances[0]).unwrap()["interruptions"][0]["stale"], true);
    (stage, sundown, instances[0].clone())
}

fn late_spot(stage: &Stage, instance: &str) -> String {
    bodies::spot(instance, &stage.ago(3600))
}

/// A real lifecycle action, told an hour late.
fn late_hook(stage: &Stage, instance: &str) -> String {
    stage.world.aws.terminate(instance, true);
    let mut body: serde_json::Value = serde_json::from_str(&stage.bodies_in("actions")[0]).unwrap();
    body["time"] = stage.ago(3600).into();
    body.to_string()
}

#[tokio::test(start_paused = true)]
async fn nobody_can_be_asked_so_pods_are_evicted_politely_and_none_is_forced_however_long_it_takes() {
    let (stage, sundown, instance) = taken_on_unproved(130, late_spot).await;
    let node = stage.world.node_of(&instance).unwrap();
    stage.until(60, "those that may go are gone", || stage.world.kube.pods_on(&node).len() == 1).await;
    stage.pass(1500).await;
    assert_eq!(stage.world.kube.pods_on(&node).len(), 1, "the blocked one stays");
    assert_eq!((deletions(&stage), sundown.metric("pods_forced_total")), (0, 0.0));
    assert!(sundown.drain(&node).unwrap().drained.is_none(), "and no deadline ends the drain");
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_disproof_that_comes_late_ends_the_drain_and_puts_the_node_back() {
    let (stage, sundown, instance) = taken_on_unproved(131, late_spot).await;
    let node = stage.world.node_of(&instance).unwrap();
    stage.pass(120).await;
    stage.world.aws.end_faults();
    stage.until(30, "the node is put back", || !stage.is_cordoned(&instance)).await;
    stage.pass(5).await;
    let object = stage.node(&instance);
    let text = object.to_string();
    assert!(
        !text.contains("sundown.dev/interruption") && object["spec"].get("taints").is_none_or(|t| t.as_array().is_none_or(Vec::is_empty)),
        "{text}"
    );
    assert!(!text.contains("exclude-from-external-load-balancers"), "{text}");
    let removed = stage.removals().len();
    stage.pass(300).await;
    assert_eq!(stage.removals().len(), removed, "nothing is evicted any more");
    assert_eq!((deletions(&stage), sundown.metric("records_total{event=\"put_back\"}")), (0, 1.0));
    assert!(!stage.world.kube.pods_on(&node).is_empty());
    let events = stage.world.kube.objects("events");
    assert!(events.iter().any(|e| e["reason"] == "InterruptionDisproved"), "{events:?}");
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_proof_that_comes_late_lets_the_deadline_rule() {
    let (stage, sundown, instance) = taken_on_unproved(132, late_hook).await;
    let node = stage.world.node_of(&instance).unwrap();
    stage.pass(60).await;
    assert_eq!(stage.world.kube.pods_on(&node).len(), 1);
    stage.world.aws.end_faults();
    stage.until(320, "the blocked pod is forced", || stage.world.kube.pods_on(&node).is_empty()).await;
    assert_eq!(sundown.metric("pods_forced_total"), 1.0);
    stage.until(30, "and the hook completed", || stage.actions(&instance)[0].end.is_some()).await;
    let end = stage.actions(&instance)[0].end.clone().unwrap();
    assert!(!end.by.is_empty(), "{end:?}");
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_turns_out_to_be_over_is_put_back_and_never_completed() {
    let over = |stage: &Stage, instance: &str| {
        stage.world.aws.other_action("asg", "drain", instance, &[]);
        assert!(stage.world.aws.complete_as("somebody", "asg", "drain", instance, HookResult::Continue));
        let mut body: serde_json::Value = serde_json::from_str(&stage.bodies_in("actions")[0]).unwrap();
        body["time"] = stage.ago(3600).into();
        body.to_string()
    };
    let (stage, sundown, instance) = taken_on_unproved(133, over).await;
    stage.pass(60).await;
    stage.world.aws.end_faults();
    stage.until(90, "the node is put back", || !stage.is_cordoned(&instance)).await;
    stage.pass(60).await;
    assert!(stage.record(&instance).is_none_or(|r| r.get("released").is_some()), "what is left is history");
    assert!(!stage.aws_writes().iter().any(|w| w.contains("Complete")), "{:?}", stage.aws_writes());
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_second_interruption_in_its_own_time_makes_an_unproved_drain_a_sure_one() {
    let (stage, sundown, instance) = taken_on_unproved(134, late_spot).await;
    let node = stage.world.node_of(&instance).unwrap();
    stage.pass(30).await;
    stage.world.aws.send_event("in", &bodies::spot(&instance, &stage.now()));
    stage.until(120, "the blocked pod is forced before the machine goes", || stage.world.kube.pods_on(&node).is_empty()).await;
    assert_eq!(sundown.messages("spot", "joined"), 1.0);
    // The first one is disproved now; the second holds.
    stage.world.aws.end_faults();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(stage.is_cordoned(&instance));
    sundown.stop().await;
    stage.end();
}
