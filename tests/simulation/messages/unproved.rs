//! Late interruptions of which nobody can be asked: cordon and polite evictions, and what a later
//! answer makes of them.

use std::time::Duration;

use sundown::sim::{
    aws::{EventKind, Fault, FaultRule, GroupSpec, HookResult, How},
    kube::{BudgetSpec, Fact, Fault as KubeFault, Match, PodShape, PodSpec, Rule},
};

use super::{
    bodies,
    logs::Logs,
    tools::{continuing_hook, text},
};
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

/// A node with two pods, one of which its budget never lets go; the warning about it is an hour
/// old, and nobody answers.
async fn taken_on_unproved(
    seed: u64,
    body: impl FnOnce(&Stage, &str) -> String,
) -> (Stage, Replica, String) {
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
    stage
        .until(5, "it is taken on when nobody has answered for 10 s", || {
            stage.is_cordoned(&instances[0])
        })
        .await;
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
async fn nobody_can_be_asked_so_pods_are_evicted_politely_and_none_is_forced_however_long_it_takes()
{
    let (stage, sundown, instance) = taken_on_unproved(130, late_spot).await;
    let node = stage.world.node_of(&instance).unwrap();
    stage
        .until(60, "those that may go are gone", || stage.world.kube.pods_on(&node).len() == 1)
        .await;
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
        !text.contains("sundown.dev/interruption")
            && object["spec"].get("taints").is_none_or(|t| t.as_array().is_none_or(Vec::is_empty)),
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
    stage
        .until(320, "the blocked pod is forced", || stage.world.kube.pods_on(&node).is_empty())
        .await;
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
        assert!(stage.world.aws.complete_as(
            "somebody",
            "asg",
            "drain",
            instance,
            HookResult::Continue
        ));
        let mut body: serde_json::Value =
            serde_json::from_str(&stage.bodies_in("actions")[0]).unwrap();
        body["time"] = stage.ago(3600).into();
        body.to_string()
    };
    let (stage, sundown, instance) = taken_on_unproved(133, over).await;
    stage.pass(60).await;
    stage.world.aws.end_faults();
    stage.until(90, "the node is put back", || !stage.is_cordoned(&instance)).await;
    stage.pass(60).await;
    assert!(
        stage.record(&instance).is_none_or(|r| r.get("released").is_some()),
        "what is left is history"
    );
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
    stage
        .until(120, "the blocked pod is forced before the machine goes", || {
            stage.world.kube.pods_on(&node).is_empty()
        })
        .await;
    assert_eq!(sundown.messages("spot", "joined"), 1.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn the_disproof_of_one_interruption_changes_nothing_while_another_holds() {
    let (stage, sundown, instance) = taken_on_unproved(135, late_spot).await;
    let node = stage.world.node_of(&instance).unwrap();
    stage.pass(30).await;
    stage.world.aws.send_event(
        "in",
        &bodies::capacity(
            &instance,
            &stage.now(),
            &text(stage.clock.now() + Duration::from_secs(200)),
        ),
    );
    stage.until(5, "it joins", || sundown.messages("capacity-reservation", "joined") == 1.0).await;
    // The first one is disproved now; the second holds.
    stage.world.aws.end_faults();
    stage.pass(60).await;
    assert!(stage.is_cordoned(&instance));
    assert_eq!(stage.world.kube.pods_on(&node).len(), 1, "the drain goes on");
    stage
        .until(140, "the blocked pod is forced", || stage.world.kube.pods_on(&node).is_empty())
        .await;
    assert_eq!(
        (sundown.metric("pods_forced_total"), sundown.metric("records_total{event=\"put_back\"}")),
        (1.0, 0.0)
    );
    sundown.stop().await;
    stage.end();
}

fn late_stop(stage: &Stage, instance: &str) -> String {
    bodies::state_change(instance, "stopped", &stage.ago(3600))
}

#[tokio::test(start_paused = true)]
async fn an_unproved_stop_ends_nothing_and_its_node_is_put_back_when_it_is_disproved() {
    let (stage, sundown, instance) = taken_on_unproved(136, late_stop).await;
    let node = stage.world.node_of(&instance).unwrap();
    stage.pass(60).await;
    assert_eq!(sundown.metric("drains_total{end=\"instance_over\"}"), 0.0);
    assert_eq!(stage.world.kube.pods_on(&node).len(), 1, "evicted politely");
    stage.world.aws.end_faults();
    stage.until(30, "the node is put back", || !stage.is_cordoned(&instance)).await;
    assert_eq!(sundown.metric("drains_total{end=\"instance_over\"}"), 0.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn an_unproved_stop_that_is_proved_later_ends_the_drain() {
    let (stage, sundown, instance) = taken_on_unproved(137, late_stop).await;
    stage.pass(30).await;
    stage.world.aws.terminate_in_ec2(&instance);
    assert_eq!(sundown.metric("drains_total{end=\"instance_over\"}"), 0.0);
    stage.world.aws.end_faults();
    stage
        .until(30, "it is over", || sundown.metric("drains_total{end=\"instance_over\"}") == 1.0)
        .await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn an_unproved_stop_that_joins_a_hooks_drain_completes_nothing_under_running_pods() {
    let stage = Stage::new(138);
    let instances = stage.group(2, 300);
    let node = {
        stage.pass(60).await;
        stage.world.node_of(&instances[0]).unwrap()
    };
    let shape = PodShape {
        grace: Some(Duration::from_secs(900)),
        stop: Some(Duration::from_secs(200)),
        ..PodShape::default()
    };
    stage.world.kube.add_pod(&PodSpec::on(node.clone(), "shop", "slow").shape(shape));
    let url = stage.queue_for("in", []);
    let sundown =
        stage.settled(&["--queue-url", &url, "--queue-url", &stage.world.queue_url()]).await;
    stage.world.aws.terminate(&instances[0], true);
    stage.until(10, "the node is cordoned", || stage.is_cordoned(&instances[0])).await;
    stage.world.aws.fault(FaultRule::new("ec2:*", Fault::Throttle, How::Always));
    stage.world.aws.send_event("in", &late_stop(&stage, &instances[0]));
    stage.until(20, "it joins", || sundown.messages("state-change", "joined") == 1.0).await;
    stage.pass(60).await;
    assert!(stage.actions(&instances[0])[0].end.is_none(), "the pod still runs");
    stage.world.aws.end_faults();
    stage.pass(60).await;
    assert!(
        stage.actions(&instances[0])[0].end.is_none() && stage.is_cordoned(&instances[0]),
        "disproved, and the hook holds"
    );
    stage
        .until(120, "it is completed when the pod is gone", || {
            stage.actions(&instances[0])[0].end.is_some()
        })
        .await;
    assert!(stage.world.kube.pods_on(&node).is_empty());
    sundown.stop().await;
    stage.end();
}

/// Two hooks told late while nobody can be asked: the first is over, the second waits.
#[tokio::test(start_paused = true)]
async fn the_disproof_of_one_late_hook_leaves_the_other_alone_until_that_is_judged() {
    let stage = Stage::new(139);
    let spec = GroupSpec { replace_after: None, ..GroupSpec::new("asg", 1) };
    let instances =
        stage.world.add_group(spec, &[continuing_hook("one", 300), continuing_hook("two", 300)]);
    stage.world.kube.add_deployment(&sundown::sim::kube::Workload::new("shop", "quorum", 1));
    stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "quorum").max(0));
    let url = stage.queue_for("in", []);
    stage.queue_for("actions", [EventKind::TerminateAction]);
    let sundown = stage.settled(&["--queue-url", &url, "--drain-timeout", "5m"]).await;
    for name in ["one", "two"] {
        stage.world.aws.other_action("asg", name, &instances[0], &[]);
    }
    assert!(stage.world.aws.complete_as(
        "somebody",
        "asg",
        "one",
        &instances[0],
        HookResult::Continue
    ));
    silence(&stage);
    for body in stage.bodies_in("actions") {
        let mut body: serde_json::Value = serde_json::from_str(&body).unwrap();
        body["time"] = stage.ago(400).into();
        stage.world.aws.send_event("in", &body.to_string());
    }
    stage
        .until(15, "both are taken on", || {
            sundown.messages("terminate-hook", "accepted")
                + sundown.messages("terminate-hook", "joined")
                == 2.0
        })
        .await;
    stage.world.aws.end_faults();
    let until = stage.clock.now() + Duration::from_secs(20);
    stage.world.aws.fault(
        FaultRule::new(
            "autoscaling:RecordLifecycleActionHeartbeat",
            Fault::Throttle,
            How::Until(until),
        )
        .about("*/two/*"),
    );
    stage.pass(18).await;
    assert!(stage.is_cordoned(&instances[0]), "the second one is not judged yet");
    let ended = || {
        stage.actions(&instances[0]).iter().find(|a| a.hook == "two").and_then(|a| a.end.clone())
    };
    stage.until(320, "the second one is completed", || ended().is_some()).await;
    assert!(ended().unwrap().by.starts_with("sundown"), "{:?}", ended());
    assert_eq!(sundown.metric("records_total{event=\"put_back\"}"), 0.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn where_no_heartbeat_may_be_sent_ec2_proves_a_late_hook() {
    let logs = Logs::keep();
    let (stage, sundown, instance) = taken_on_unproved(143, late_hook).await;
    stage.world.aws.end_faults();
    stage.world.aws.fault(FaultRule::new(
        "autoscaling:RecordLifecycleActionHeartbeat",
        Fault::AccessDenied,
        How::Always,
    ));
    stage.pass(30).await;
    let proved = || logs.with(&["A stale interruption is proved"]).len();
    assert_eq!(proved(), 0, "it runs, and no heartbeat says whether the hook waits");
    stage.world.aws.terminate_in_ec2(&instance);
    stage.until(10, "EC2 proves it", || proved() == 1).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn an_interruption_that_joins_while_the_node_is_being_put_back_is_drained() {
    let (stage, sundown, instance) = taken_on_unproved(144, late_spot).await;
    let node = stage.world.node_of(&instance).unwrap();
    let written = stage.node_writes(&node);
    // The first try to put it back fails; before the second, a hook's event is taken on.
    let away = KubeFault::Status {
        code: 503,
        reason: "ServiceUnavailable".into(),
        message: "away".into(),
        retry_after: None,
    };
    stage.world.kube.inject(Rule::next(1, Match::of("patch", "nodes"), away));
    stage.world.aws.end_faults();
    stage.until(60, "it is about to be put back", || stage.node_writes(&node) > written).await;
    stage.world.aws.terminate(&instance, true);
    stage.world.aws.send_event("in", &stage.bodies_in("actions")[0]);
    stage
        .until(10, "the hook is taken on", || sundown.messages("terminate-hook", "joined") == 1.0)
        .await;
    stage.pass(20).await;
    assert!(stage.is_cordoned(&instance));
    assert_eq!(sundown.metric("records_total{event=\"put_back\"}"), 0.0);
    let ended = || stage.actions(&instance)[0].end.clone();
    stage.until(330, "it is drained and completed", || ended().is_some()).await;
    assert!(ended().unwrap().by.starts_with("sundown"), "{:?}", ended());
    assert!(stage.world.kube.pods_on(&node).is_empty());
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_late_hook_is_proved_although_the_boot_id_changed_while_nobody_answered() {
    let (stage, sundown, instance) = taken_on_unproved(145, late_hook).await;
    let node = stage.world.node_of(&instance).unwrap();
    stage.pass(10).await;
    // The record counts again only when the hook is proved open. (A whole reboot would make the
    // blocked pod unready, and let it go.)
    assert!(stage.world.kube.edit(
        "nodes",
        "",
        &node,
        |node| node["status"]["nodeInfo"]["bootID"] = "another".into()
    ));
    stage.pass(5).await;
    stage.world.aws.end_faults();
    stage
        .until(320, "the blocked pod is forced", || sundown.metric("pods_forced_total") == 1.0)
        .await;
    stage.until(30, "the hook is completed", || stage.actions(&instance)[0].end.is_some()).await;
    let end = stage.actions(&instance)[0].end.clone().unwrap();
    assert!(end.by.starts_with("sundown"), "{end:?}");
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_late_hook_is_proved_although_its_record_is_being_written_back() {
    let logs = Logs::keep();
    let (stage, sundown, instance) = taken_on_unproved(146, late_hook).await;
    let node = stage.world.node_of(&instance).unwrap();
    let away = KubeFault::Status {
        code: 503,
        reason: "ServiceUnavailable".into(),
        message: "away".into(),
        retry_after: None,
    };
    let away = stage.world.kube.inject(Rule::always(Match::of("patch", "nodes"), away));
    without_record(&stage, &node);
    stage.world.aws.end_faults();
    stage
        .until(30, "it is proved", || logs.with(&["A stale interruption is proved"]).len() == 1)
        .await;
    stage.world.kube.lift(away);
    stage.until(30, "the record is written back", || stage.record(&instance).is_some()).await;
    stage
        .until(320, "the blocked pod is forced", || sundown.metric("pods_forced_total") == 1.0)
        .await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_record_was_deleted_for_good_is_put_back_when_its_interruption_is_disproved() {
    let (stage, sundown, instance) = taken_on_unproved(147, late_spot).await;
    let node = stage.world.node_of(&instance).unwrap();
    without_record(&stage, &node);
    stage.until(10, "it is written back once", || stage.record(&instance).is_some()).await;
    without_record(&stage, &node);
    stage.pass(5).await;
    stage.world.aws.end_faults();
    stage.until(30, "the node is put back", || !stage.is_cordoned(&instance)).await;
    assert!(!stage.node(&instance).to_string().contains("sundown.dev/interruption"));
    sundown.stop().await;
    stage.end();
}

/// Somebody deletes the record.
fn without_record(stage: &Stage, node: &str) {
    let delete = |node: &mut serde_json::Value| {
        drop(node["metadata"]["annotations"].as_object_mut().unwrap().remove("sundown.dev/record"));
    };
    assert!(stage.world.kube.edit("nodes", "", node, delete));
}

#[tokio::test(start_paused = true)]
async fn what_is_proved_while_its_patch_fails_is_not_taken_on_as_unproved() {
    let stage = Stage::new(139);
    let instances = stage.group(1, 60);
    let url = stage.queue_for("in", []);
    stage.queue_for("actions", [EventKind::TerminateAction]);
    let sundown = stage.settled(&["--queue-url", &url]).await;
    let error = KubeFault::Status {
        code: 500,
        reason: "InternalError".to_owned(),
        message: "from the test".to_owned(),
        retry_after: None,
    };
    let fails = stage.world.kube.inject(Rule::always(Match::of("patch", "nodes"), error));
    stage.world.aws.terminate(&instances[0], true);
    // Stale as long as its hook is not described, and then it is not, until the PATCH has failed
    // for a while.
    let mut body: serde_json::Value = serde_json::from_str(&stage.bodies_in("actions")[0]).unwrap();
    body["time"] = stage.ago(40).into();
    stage.world.aws.send_event("in", &body.to_string());
    stage.pass(40).await;
    stage.world.kube.lift(fails);
    stage.until(15, "it is taken on", || stage.record(&instances[0]).is_some()).await;
    assert_eq!(
        stage.record(&instances[0]).unwrap()["interruptions"][0]["stale"],
        serde_json::Value::Null,
        "a heartbeat had proved it"
    );
    sundown.stop().await;
    stage.end();
}
