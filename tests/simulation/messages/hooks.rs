//! Whose hooks are answered, and whose never.

use std::time::Duration;

use sundown::sim::{
    aws::{
        Call, EventKind, Fault, FaultRule, GroupSpec, HookResult, HookSpec, How, LifecycleState,
        Outcome, Verdict,
    },
    kube::{Fault as KubeFault, Match, NodeSpec, Rule as KubeRule},
};

use super::{bodies, logs::Logs, tools::continuing_hook};
use crate::{
    harness::{Replica, Stage},
    judge::Rule,
};

const ACTIONS: [EventKind; 2] = [EventKind::TerminateAction, EventKind::LaunchAction];

/// A group of ours with these terminate hooks; its instances are Nodes.
fn group(stage: &Stage, nodes: usize, hooks: &[HookSpec]) -> Vec<String> {
    stage.world.add_group(GroupSpec { replace_after: None, ..GroupSpec::new("asg", nodes) }, hooks)
}

/// The hook's action for the instance was completed by us, with CONTINUE.
fn completed_by_us(stage: &Stage, instance: &str, hook: &str) -> bool {
    let done = |end: &sundown::sim::aws::ActionEnd| {
        end.verdict == Verdict::Completed(HookResult::Continue) && !end.by.is_empty()
    };
    stage.actions(instance).iter().any(|a| a.hook == hook && a.end.as_ref().is_some_and(done))
}

/// Nobody has sent anything about this hook.
fn never_touched(stage: &Stage, instance: &str, hook: &str) -> bool {
    let object = format!("/{hook}/");
    let quiet =
        !stage.aws_writes().iter().any(|w| w.starts_with("autoscaling:") && w.contains(&object));
    quiet
        && stage
            .actions(instance)
            .iter()
            .filter(|a| a.hook == hook)
            .all(|a| a.heartbeats.is_empty() && a.late_calls.is_empty())
}

fn foreign(sundown: &Replica, kind: &str) -> f64 {
    sundown.messages(kind, "foreign_hook")
}

#[tokio::test(start_paused = true)]
async fn the_hook_of_amazon_eks_is_acknowledged_and_never_acted_on() {
    let stage = Stage::new(50);
    let instances = group(&stage, 3, &[continuing_hook("Terminate-LC-Hook", 1800)]);
    stage.shop(6);
    let url = stage.queue_for("actions", ACTIONS);
    let sundown = stage.settled(&["--queue-url", &url]).await;
    stage.world.aws.terminate(&instances[0], true);
    stage.until(10, "it is deleted", || stage.bodies_in("actions").is_empty()).await;
    assert_eq!(foreign(&sundown, "terminate-hook"), 1.0);
    stage.pass(1200).await;
    stage.assert_untouched(&stage.world.node_of(&instances[0]).unwrap());
    assert!(never_touched(&stage, &instances[0], "Terminate-LC-Hook"));
    assert!(stage.actions(&instances[0])[0].end.is_none(), "it waits for whose it is");
    assert!(stage.removals().is_empty());
    assert_eq!(stage.describes() + stage.world.aws.count("autoscaling:DescribeLifecycleHooks"), 0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn beside_a_hook_of_somebody_else_ours_is_kept_alive_and_completed_alone() {
    let stage = Stage::new(51);
    let instances = group(
        &stage,
        3,
        &[continuing_hook("Terminate-LC-Hook", 1800), continuing_hook("drain", 120)],
    );
    stage.shop(6);
    let sundown = stage.settled(&[]).await;
    let node = stage.world.node_of(&instances[0]).unwrap();
    stage.world.aws.terminate(&instances[0], true);
    stage.until(120, "ours is completed", || completed_by_us(&stage, &instances[0], "drain")).await;
    assert!(stage.world.kube.pods_on(&node).is_empty());
    stage.pass(600).await;
    assert!(never_touched(&stage, &instances[0], "Terminate-LC-Hook"));
    assert_eq!(
        (foreign(&sundown, "terminate-hook"), sundown.messages("terminate-hook", "accepted")),
        (1.0, 1.0)
    );
    assert_eq!(stage.in_queue(), 0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn beside_a_hook_called_sundown_the_others_are_left_alone() {
    let stage = Stage::new(59);
    let instances = group(
        &stage,
        3,
        &[continuing_hook("log-backup", 1800), continuing_hook("sundown-terminate", 120)],
    );
    stage.shop(6);
    let sundown = stage.settled(&[]).await;
    stage.world.aws.terminate(&instances[0], true);
    stage
        .until(120, "ours is completed", || {
            completed_by_us(&stage, &instances[0], "sundown-terminate")
        })
        .await;
    stage.pass(600).await;
    assert!(never_touched(&stage, &instances[0], "log-backup"));
    assert_eq!(
        (foreign(&sundown, "terminate-hook"), sundown.messages("terminate-hook", "accepted")),
        (1.0, 1.0)
    );
    assert_eq!(stage.in_queue(), 0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_others_is_left_alone_also_where_the_node_has_to_be_found_out_first() {
    let stage = Stage::new(596);
    let instances = group(
        &stage,
        3,
        &[continuing_hook("log-backup", 1800), continuing_hook("sundown-terminate", 300)],
    );
    stage.world.kube.add_node(&NodeSpec::named("rogue").instance(instances[0].clone()));
    stage.shop(6);
    let sundown = stage.settled(&[]).await;
    // Which of two Nodes is the instance's, EC2 is asked for 5 s. Whose the hook is must be known
    // by then.
    stage.world.aws.fault(FaultRule::new("ec2:DescribeInstances", Fault::Hang, How::Always));
    stage.world.aws.terminate(&instances[0], true);
    stage
        .until(120, "ours is completed", || {
            completed_by_us(&stage, &instances[0], "sundown-terminate")
        })
        .await;
    stage.pass(60).await;
    assert!(never_touched(&stage, &instances[0], "log-backup"));
    assert_eq!(
        (foreign(&sundown, "terminate-hook"), sundown.messages("terminate-hook", "accepted")),
        (1.0, 1.0)
    );
    sundown.stop().await;
    stage.end();
}

fn events_of(stage: &Stage, reason: &str) -> usize {
    stage.events().iter().filter(|e| e.reason == reason).count()
}

#[tokio::test(start_paused = true)]
async fn several_hooks_that_are_completed_by_default_are_named_in_an_event_and_listed_in_the_log() {
    let logs = Logs::keep();
    let stage = Stage::new(591);
    let instances =
        group(&stage, 3, &[continuing_hook("log-backup", 600), continuing_hook("drain", 600)]);
    stage.shop(6);
    let sundown = stage.settled(&[]).await;
    for instance in &instances[..2] {
        stage.world.aws.terminate(instance, true);
    }
    let done = |i: &String| ["log-backup", "drain"].iter().all(|h| completed_by_us(&stage, i, h));
    stage.until(120, "all are completed", || instances[..2].iter().all(done)).await;
    stage.pass(10).await;
    assert_eq!(events_of(&stage, "SeveralHooks"), 1, "once for a group");
    let lines = logs.with(&["WARN", r#"hooks=["drain", "log-backup"]"#]);
    assert_eq!(lines.len(), 1, "a list: {lines:?}");
    sundown.stop().await;
    stage.end();
}

/// The hooks of the group cannot be described for 100 s: says what became of the hook `log-backup`.
async fn undescribed(seed: u64, beside: &str) -> (Stage, String, Replica) {
    let stage = Stage::new(seed);
    let instances =
        group(&stage, 3, &[continuing_hook("log-backup", 60), continuing_hook(beside, 1800)]);
    stage.shop(6);
    let sundown = stage.settled(&[]).await;
    let fault = stage.world.aws.fault(FaultRule::new(
        "autoscaling:DescribeLifecycleHooks",
        Fault::Throttle,
        How::Always,
    ));
    let node = stage.world.node_of(&instances[0]).unwrap();
    stage.world.aws.terminate(&instances[0], true);
    stage.until(40, "the node is drained", || stage.world.kube.pods_on(&node).is_empty()).await;
    stage.pass(60).await;
    let action = stage.actions(&instances[0]).into_iter().find(|a| a.hook == "log-backup").unwrap();
    assert!(
        action.end.is_none() && action.heartbeats.len() >= 2,
        "heartbeats, and no completion: {action:?}"
    );
    stage.world.aws.end_fault(fault);
    (stage, instances[0].clone(), sundown)
}

#[tokio::test(start_paused = true)]
async fn while_hooks_are_not_described_the_node_is_drained_and_kept_open_and_nothing_is_completed()
{
    let (stage, instance, sundown) = undescribed(592, "Terminate-LC-Hook").await;
    stage.until(60, "it is completed", || completed_by_us(&stage, &instance, "log-backup")).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_turns_out_to_be_of_others_after_its_drain_is_let_go_of() {
    let (stage, instance, sundown) = undescribed(593, "sundown").await;
    stage.until(60, "ours is completed", || completed_by_us(&stage, &instance, "sundown")).await;
    stage.until(60, "that is said", || events_of(&stage, "HookNotOurs") == 1).await;
    let heartbeats = || {
        stage
            .actions(&instance)
            .into_iter()
            .find(|a| a.hook == "log-backup")
            .unwrap()
            .heartbeats
            .len()
    };
    let before = heartbeats();
    stage.pass(50).await;
    assert_eq!(heartbeats(), before, "no more heartbeats");
    assert!(!completed_by_us(&stage, &instance, "log-backup"));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_turns_out_to_be_of_others_while_its_accept_waits_is_not_recorded() {
    let stage = Stage::new(598);
    let instances =
        group(&stage, 3, &[continuing_hook("log-backup", 300), continuing_hook("sundown", 300)]);
    stage.shop(6);
    let sundown = stage.settled(&[]).await;
    let describe = "autoscaling:DescribeLifecycleHooks";
    let undescribed = stage.world.aws.fault(FaultRule::new(describe, Fault::Throttle, How::Always));
    let hangs =
        stage.world.kube.inject(KubeRule::always(Match::of("patch", "nodes"), KubeFault::Hang));
    stage.world.aws.terminate(&instances[0], true);
    // The accept of our hook hangs, and that of the other one is decided after a second and waits
    // for it.
    stage.pass(2).await;
    stage.world.aws.end_fault(undescribed);
    let is_described = |c: &Call| c.api == describe && c.outcome == Outcome::Ok;
    stage
        .until(6, "AWS describes the hooks", || stage.world.aws.calls().iter().any(is_described))
        .await;
    stage.world.kube.lift(hangs);
    stage.until(20, "its message is deleted", || foreign(&sundown, "terminate-hook") > 0.0).await;
    stage
        .until(60, "ours is completed", || completed_by_us(&stage, &instances[0], "sundown"))
        .await;
    let record = stage.record(&instances[0]).unwrap();
    assert!(!record.to_string().contains("log-backup"), "{record}");
    assert!(!completed_by_us(&stage, &instances[0], "log-backup"));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_turns_out_to_be_of_others_while_nobody_leads_is_let_go_of() {
    let stage = Stage::new(599);
    let instances =
        group(&stage, 3, &[continuing_hook("log-backup", 60), continuing_hook("sundown", 60)]);
    stage.shop(6);
    let sundown = stage.settled(&[]).await;
    let describe = "autoscaling:DescribeLifecycleHooks";
    let undescribed = stage.world.aws.fault(FaultRule::new(describe, Fault::Throttle, How::Always));
    // Nothing is accepted, and a little later nobody leads.
    let away = stage.world.kube.inject(KubeRule::always(Match::all(), KubeFault::Refused));
    stage.world.aws.terminate(&instances[0], true);
    let heartbeats = |hook: &str| {
        let actions = stage.actions(&instances[0]);
        actions.iter().find(|a| a.hook == hook).map_or(0, |a| a.heartbeats.len())
    };
    stage.until(60, "nobody knows whose it is", || heartbeats("log-backup") > 2).await;
    assert_eq!(sundown.metric("leader"), 0.0);
    stage.world.aws.end_fault(undescribed);
    let is_described = |c: &Call| c.api == describe && c.outcome == Outcome::Ok;
    stage
        .until(30, "AWS describes the hooks", || stage.world.aws.calls().iter().any(is_described))
        .await;
    stage.pass(1).await;
    let before = (heartbeats("log-backup"), heartbeats("sundown"));
    stage.pass(50).await;
    assert_eq!(heartbeats("log-backup"), before.0, "no more heartbeats");
    assert!(heartbeats("sundown") > before.1, "ours is kept open");
    stage.world.kube.lift(away);
    stage
        .until(120, "ours is completed", || completed_by_us(&stage, &instances[0], "sundown"))
        .await;
    assert!(!completed_by_us(&stage, &instances[0], "log-backup"));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_turns_out_to_be_of_others_while_its_completion_is_denied_is_let_go_of() {
    let stage = Stage::new(600);
    let instances =
        group(&stage, 3, &[continuing_hook("log-backup", 300), continuing_hook("sundown", 300)]);
    stage.shop(6);
    let sundown = stage.settled(&[]).await;
    let deny = |api| stage.world.aws.fault(FaultRule::new(api, Fault::AccessDenied, How::Always));
    let undescribed = deny("autoscaling:Describe*");
    let denied = ["autoscaling:Complete*", "autoscaling:Record*"].map(deny);
    stage.world.aws.terminate(&instances[0], true);
    let is_tried =
        |c: &Call| c.api.ends_with("CompleteLifecycleAction") && c.object.contains("/log-backup/");
    stage
        .until(120, "its completion is denied", || stage.world.aws.calls().iter().any(is_tried))
        .await;
    stage.world.aws.end_fault(undescribed);
    stage.pass(10).await;
    denied.into_iter().for_each(|fault| stage.world.aws.end_fault(fault));
    stage
        .until(60, "ours is completed", || completed_by_us(&stage, &instances[0], "sundown"))
        .await;
    stage.until(60, "that is said", || events_of(&stage, "HookNotOurs") == 1).await;
    stage.pass(60).await;
    assert!(!completed_by_us(&stage, &instances[0], "log-backup"));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn where_describing_is_denied_a_hook_is_completed_with_a_warning() {
    let stage = Stage::new(594);
    let instances = group(&stage, 3, &[continuing_hook("drain", 300)]);
    stage.shop(6);
    stage.world.aws.fault(FaultRule::new(
        "autoscaling:DescribeLifecycleHooks",
        Fault::AccessDenied,
        How::Always,
    ));
    let sundown = stage.settled(&[]).await;
    stage.world.aws.terminate(&instances[0], true);
    stage.until(5, "the drain begins", || stage.is_cordoned(&instances[0])).await;
    stage.until(120, "it is completed", || completed_by_us(&stage, &instances[0], "drain")).await;
    stage.until(5, "that is said", || events_of(&stage, "HooksNotChecked") == 1).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_was_not_checked_is_let_go_of_once_aws_describes_it_as_of_others() {
    let stage = Stage::new(597);
    let instances =
        group(&stage, 3, &[continuing_hook("log-backup", 1800), continuing_hook("sundown", 1800)]);
    stage.shop(6);
    let fault = stage.world.aws.fault(FaultRule::new(
        "autoscaling:DescribeLifecycleHooks",
        Fault::AccessDenied,
        How::Always,
    ));
    let sundown = stage.settled(&["--min-drain-time=60s"]).await;
    stage.world.aws.terminate(&instances[0], true);
    stage.until(5, "the drain begins", || stage.is_cordoned(&instances[0])).await;
    stage.until(5, "that is said", || events_of(&stage, "HooksNotChecked") == 1).await;
    stage.world.aws.end_fault(fault);
    stage
        .until(120, "ours is completed", || completed_by_us(&stage, &instances[0], "sundown"))
        .await;
    stage.until(60, "the other one is let go of", || events_of(&stage, "HookNotOurs") == 1).await;
    stage.pass(60).await;
    assert!(!completed_by_us(&stage, &instances[0], "log-backup"));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn globs_say_which_hooks_are_ours() {
    let stage = Stage::new(52);
    let hooks = ["drain-a", "backup-1", "backup-10", "other", "drain"]
        .map(|name| continuing_hook(name, 1800));
    let instances = group(&stage, 3, &hooks);
    stage.shop(6);
    let sundown =
        stage.settled(&["--lifecycle-hook", "drain-*", "--lifecycle-hook", "backup-?"]).await;
    stage.world.aws.terminate(&instances[0], true);
    stage
        .until(120, "both of ours are completed", || {
            ["drain-a", "backup-1"].iter().all(|h| completed_by_us(&stage, &instances[0], h))
        })
        .await;
    stage.pass(300).await;
    for theirs in ["backup-10", "other", "drain"] {
        assert!(never_touched(&stage, &instances[0], theirs), "{theirs}");
    }
    assert_eq!(foreign(&sundown, "terminate-hook"), 3.0);
    assert_eq!(stage.in_queue(), 0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn the_hook_of_amazon_eks_is_ours_when_somebody_names_it() {
    let stage = Stage::new(53);
    let instances = group(&stage, 3, &[continuing_hook("Terminate-LC-Hook", 300)]);
    stage.shop(6);
    let sundown = stage.settled(&["--lifecycle-hook", "Terminate-LC-Hook"]).await;
    stage.world.aws.terminate(&instances[0], true);
    stage
        .until(120, "it is completed", || {
            completed_by_us(&stage, &instances[0], "Terminate-LC-Hook")
        })
        .await;
    assert_eq!(foreign(&sundown, "terminate-hook"), 0.0);
    sundown.stop().await;
    stage.end();
}

/// A group with a launch hook that aborts the launch when nobody answers, and one more instance in
/// it.
fn launching(stage: &Stage, group: &str, ours: bool, name: &str) -> String {
    let hook = HookSpec::launching(name).heartbeat_timeout(Duration::from_secs(300));
    let spec = GroupSpec { replace_after: None, ..GroupSpec::new(group, 1) };
    if ours {
        stage.world.add_group(spec, &[hook]);
    } else {
        stage.world.aws.create_group(spec);
        stage.world.aws.put_hook(group, hook);
    }
    stage.world.aws.launch(group).unwrap()
}

fn state_in(stage: &Stage, group: &str, instance: &str) -> LifecycleState {
    stage.world.aws.members(group).iter().find(|m| m.instance == instance).unwrap().state
}

#[tokio::test(start_paused = true)]
async fn launch_hooks_of_other_parties_are_left_alone() {
    let stage = Stage::new(55);
    let url = stage.queue_for("actions", ACTIONS);
    let sundown = stage.settled(&["--queue-url", &url]).await;
    let foreign_group = launching(&stage, "theirs", false, "boot");
    let eks = launching(&stage, "asg", true, "Launch-LC-Hook");
    stage
        .until(60, "both are deleted", || {
            stage.actions(&eks).len() == 1 && stage.bodies_in("actions").is_empty()
        })
        .await;
    assert_eq!(sundown.messages("launch-hook", "foreign"), 1.0);
    assert_eq!(foreign(&sundown, "launch-hook"), 1.0);
    stage.pass(100).await;
    assert_eq!(stage.hook_calls(&foreign_group) + stage.hook_calls(&eks), 0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn without_a_cluster_name_only_a_named_launch_hook_is_answered() {
    for (seed, flags, outcome) in [
        (56, &["--no-cluster-name", "--lifecycle-hook", "bo*"][..], "launch_answered"),
        (57, &["--no-cluster-name"][..], "not_acted_on"),
    ] {
        let stage = Stage::new(seed);
        let sundown = stage.settled(flags).await;
        let instance = launching(&stage, "asg", true, "boot");
        stage
            .until(90, "the message is deleted", || {
                stage.actions(&instance).len() == 1 && stage.in_queue() == 0
            })
            .await;
        stage.pass(5).await;
        assert_eq!(sundown.messages("launch-hook", outcome), 1.0, "{outcome}");
        assert_eq!(completed_by_us(&stage, &instance, "boot"), outcome == "launch_answered");
        assert_eq!(stage.hook_calls(&instance), usize::from(outcome == "launch_answered"));
        sundown.stop().await;
        stage.end();
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_does_not_exist_is_reported_once_and_nothing_spins() {
    let stage = Stage::new(58);
    let instances = group(&stage, 3, &[continuing_hook("drain", 300)]);
    stage.shop(6);
    let sundown = stage.settled(&[]).await;
    stage.world.aws.clear_journal();
    // Somebody sends an event of a hook and group that AWS does not have, about a node of ours.
    stage.send(&bodies::terminate("no-such-group", "no-such-hook", &instances[0], &stage.now()));
    stage
        .until(120, "the node is drained and let go", || {
            stage.record(&instances[0]).is_some_and(|r| r.get("released").is_some())
        })
        .await;
    assert!(stage.hook_calls(&instances[0]) <= 4, "{:?}", stage.aws_writes());
    assert!(stage.world.aws.count("autoscaling:DescribeLifecycleHooks") <= 3);
    assert_eq!(stage.in_queue(), 0);
    sundown.stop().await;
    stage.end_except(
        &[Rule::Strangers, Rule::TrueEvents],
        "the group of the hook does not exist, and its action is told as over",
    );
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_cannot_be_described_is_spoken_of_once_however_many_instances_wait_in_it() {
    let logs = Logs::keep();
    let stage = Stage::new(57);
    let instances = group(&stage, 6, &[continuing_hook("drain", 600)]);
    stage.shop(12);
    stage.world.aws.fault(FaultRule::new(
        "autoscaling:DescribeLifecycleHooks",
        Fault::AccessDenied,
        How::Always,
    ));
    let sundown = stage.settled(&[]).await;
    for instance in &instances[..4] {
        stage.world.aws.terminate(instance, true);
    }
    stage.pass(100).await;
    assert_eq!(logs.with(&["Cannot describe the lifecycle hook"]).len(), 1);
    assert!(
        (1..=3).contains(&logs.with(&["Not allowed to ask AWS"]).len()),
        "that is said once a minute"
    );
    sundown.stop().await;
    stage.end();
}
