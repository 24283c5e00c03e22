//! Instances that are launched into a warm pool: their Nodes are cordoned before the launch hook is
//! completed, and come back when the instance leaves the pool. And what else happens in a pool.

use sundown::sim::{
    aws::{Fault, FaultRule, GroupSpec, HookResult, HookSpec, How, State, Verdict},
    kube::{Fault as KubeFault, Match, NodeSpec, Rule},
};

use super::s;
use crate::{
    harness::{Replica, Stage},
    messages::{bodies, logs::Logs},
};

const SWEEP: &[&str] = &["--sweep-interval", "1m"];
const POOL: &str = "autoscaling:DescribeWarmPool";
const COMPLETE: &str = "autoscaling:CompleteLifecycleAction";
const INTO_POOL: [(&str, &str); 2] = [("Origin", "EC2"), ("Destination", "WarmPool")];
const BACK_TO_POOL: [(&str, &str); 2] =
    [("Origin", "AutoScalingGroup"), ("Destination", "WarmPool")];
const OUT_OF_POOL: [(&str, &str); 2] = [("Origin", "WarmPool"), ("Destination", "EC2")];

/// A group of this cluster with a launch hook and a terminate hook, as a managed node group has
/// them beside those of EKS.
fn group(stage: &Stage, nodes: usize) -> Vec<String> {
    let spec = GroupSpec { replace_after: None, ..GroupSpec::new("asg", nodes) };
    let tag = format!("kubernetes.io/cluster/{}", stage.world.cluster());
    let hooks = [
        HookSpec::launching("sundown-launch").heartbeat_timeout(s(300)),
        HookSpec::terminating("sundown-drain").heartbeat_timeout(s(300)),
        HookSpec::launching("Launch-LC-Hook").heartbeat_timeout(s(1_800)),
        HookSpec::terminating("Terminate-LC-Hook").heartbeat_timeout(s(1_800)),
    ];
    stage.world.add_group(spec.tag(&tag, "owned"), &hooks)
}

/// An instance of the group that never becomes a Node.
async fn never_joined(stage: &Stage) -> String {
    let spec = GroupSpec { replace_after: None, ..GroupSpec::new("asg", 1) };
    stage.world.add_group(spec, &[]);
    let instance = stage.world.aws.launch("asg").unwrap();
    stage.world.keep_out(&instance);
    stage.pass(60).await;
    for hook in [HookSpec::launching("sundown-launch"), HookSpec::terminating("sundown-drain")] {
        stage.world.aws.put_hook("asg", hook.heartbeat_timeout(s(300)));
    }
    instance
}

fn into_pool(stage: &Stage, instance: &str) {
    stage.world.aws.other_action("asg", "sundown-launch", instance, &INTO_POOL).unwrap();
}

fn pooled(stage: &Stage, instance: &str) -> bool {
    stage.record(instance).is_some_and(|r| r["released"]["outcome"] == "into_warm_pool")
}

fn is_as_it_was(stage: &Stage, instance: &str) -> bool {
    !stage.is_cordoned(instance)
        && !stage.node(instance)["spec"]["taints"].to_string().contains("sundown.dev")
}

async fn launched(seed: u64, flags: &[&str]) -> (Stage, String, Replica) {
    let stage = Stage::new(seed);
    let instance = group(&stage, 2).remove(0);
    let sundown = stage.lead("sundown-0", flags).await;
    into_pool(&stage, &instance);
    stage.until(30, "it is completed", || stage.is_over(&instance)).await;
    assert!(stage.is_cordoned(&instance) && pooled(&stage, &instance));
    (stage, instance, sundown)
}

#[tokio::test(start_paused = true)]
async fn c27_a_node_that_is_launched_into_a_warm_pool_is_cordoned_first_and_restored_without_an_event()
 {
    let logs = Logs::keep();
    let stage = Stage::new(2_501);
    let instance = group(&stage, 2).remove(0);
    stage.slow_pod(&instance, "web", 5);
    let sundown = stage.lead("sundown-0", SWEEP).await;
    into_pool(&stage, &instance);
    stage.until(30, "it is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert!(stage.is_cordoned(&instance), "before its hook is completed");
    let record = stage.record(&instance).unwrap();
    assert_eq!(record["interruptions"][0]["kind"], "launch-hook");
    assert_eq!(record["released"]["outcome"], "into_warm_pool");
    assert_eq!(stage.removals().len(), 0, "its pods stay");
    assert_eq!(logs.with(&["The instance goes into a warm pool", &instance]).len(), 1);
    assert_eq!(sundown.messages("launch-hook", "launch_answered"), 1.0);
    stage.pass(600).await;
    assert!(stage.is_cordoned(&instance), "it is in the pool");
    stage.world.aws.leave_warm_pool(&instance);
    stage.until(100, "it is as it was", || is_as_it_was(&stage, &instance)).await;
    assert_eq!(stage.events().iter().filter(|e| e.reason == "WarmPoolCordoned").count(), 1);
    stage.pass(200).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn the_event_of_its_return_restores_a_node_that_was_launched_into_a_warm_pool() {
    let (stage, instance, sundown) = launched(2_502, &[]).await;
    stage.pass(60).await;
    stage.send(&bodies::out_of_warm_pool("asg", &instance, &stage.now()));
    stage.until(10, "it is as it was", || is_as_it_was(&stage, &instance)).await;
    assert_eq!(sundown.messages("launch-successful", "restored"), 1.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn what_a_person_cordoned_before_it_went_into_the_pool_stays_cordoned() {
    let stage = Stage::new(2_503);
    let instance = group(&stage, 2).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    stage.world.kube.edit("nodes", "", &node, |node| node["spec"]["unschedulable"] = true.into());
    let sundown = stage.lead("sundown-0", &[]).await;
    into_pool(&stage, &instance);
    stage.until(30, "it is completed", || stage.is_over(&instance)).await;
    assert!(pooled(&stage, &instance));
    stage.pass(60).await;
    stage.send(&bodies::out_of_warm_pool("asg", &instance, &stage.now()));
    let has_taint = || stage.node(&instance)["spec"]["taints"].to_string().contains("sundown.dev");
    stage.until(10, "the taint is gone", || !has_taint()).await;
    assert!(stage.is_cordoned(&instance));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_the_cordon_and_the_completion_loses_neither() {
    let stage = Stage::new(2_504);
    let instance = group(&stage, 2).remove(0);
    let first = stage.lead("sundown-0", &[]).await;
    let second = stage.start("sundown-1", &[]);
    let refused = stage.world.aws.fault(FaultRule::new(COMPLETE, Fault::Hang, How::Always));
    into_pool(&stage, &instance);
    stage.until(30, "it is cordoned", || stage.is_cordoned(&instance)).await;
    let record = stage.record(&instance).unwrap();
    assert!(!stage.is_over(&instance));
    first.kill();
    stage.world.aws.end_fault(refused);
    stage.until(120, "it is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(stage.record(&instance).unwrap(), record, "it was cordoned once");
    stage.until(5, "the message is deleted", || stage.in_queue() == 0).await;
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_the_event_does_not_cordon_a_node_that_is_in_service_again() {
    let stage = Stage::new(2_505);
    let instance = group(&stage, 2).remove(0);
    stage.queue_for("copy", [sundown::sim::aws::EventKind::LaunchAction]);
    let sundown = stage.lead("sundown-0", &[]).await;
    into_pool(&stage, &instance);
    stage.until(30, "it is completed", || stage.is_over(&instance)).await;
    stage.pass(5).await;
    stage.world.aws.leave_warm_pool(&instance);
    stage.send(&bodies::out_of_warm_pool("asg", &instance, &stage.now()));
    stage.until(20, "it is as it was", || is_as_it_was(&stage, &instance)).await;
    sundown.kill();
    let logs = Logs::keep();
    let next = stage.lead("sundown-1", &[]).await;
    // Until then SQS may give it to the one that was killed.
    stage.pass(30).await;
    let copy = stage.bodies_in("copy").remove(0);
    stage.send(&copy);
    stage.pass(60).await;
    assert_eq!(stage.in_queue(), 0, "{}", logs.with(&[]).join("\n"));
    assert!(is_as_it_was(&stage, &instance));
    next.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn an_instance_without_a_node_goes_into_the_pool_after_the_launch_timeout() {
    let logs = Logs::keep();
    let stage = Stage::new(2_506);
    let instance = never_joined(&stage).await;
    let flags = ["--launch-timeout=1m", "--launch-on-timeout=abandon"];
    let sundown = stage.lead("sundown-0", &flags).await;
    into_pool(&stage, &instance);
    stage.pass(50).await;
    assert!(!stage.is_over(&instance), "it may join: {}", logs.with(&[]).join("\n"));
    stage.until(20, "it is completed", || stage.is_over(&instance)).await;
    let end = stage.actions(&instance).remove(0).end.unwrap();
    assert_eq!(end.verdict, Verdict::Completed(HookResult::Continue), "it is not abandoned");
    assert_eq!(logs.with(&["WARN", "A launch hook has waited"]).len(), 0);
    assert_eq!(sundown.messages("launch-hook", "launch_answered"), 1.0);
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn a_launch_into_a_warm_pool_whose_event_is_lost_is_found_cordoned_and_completed() {
    let stage = Stage::new(2_507);
    let instance = group(&stage, 2).remove(0);
    let sundown = stage.lead("sundown-0", SWEEP).await;
    stage.world.aws.lose_events(stage.clock.now() + s(86_400));
    into_pool(&stage, &instance);
    stage.until(100, "it is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert!(stage.is_cordoned(&instance) && pooled(&stage, &instance));
    assert_eq!(sundown.metric("sweep_decided_total{outcome=\"launch_answered\"}"), 1.0);
    stage.pass(120).await;
    stage.world.aws.leave_warm_pool(&instance);
    stage.until(100, "it is as it was", || is_as_it_was(&stage, &instance)).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_return_to_the_warm_pool_whose_event_is_lost_is_drained_and_known_as_one() {
    let stage = Stage::new(2_508);
    let instance = group(&stage, 2).remove(0);
    let sundown = stage.lead("sundown-0", SWEEP).await;
    stage.world.aws.lose_events(stage.clock.now() + s(86_400));
    stage.world.aws.other_action("asg", "sundown-drain", &instance, &BACK_TO_POOL).unwrap();
    stage.until(100, "it is completed", || stage.is_over(&instance)).await;
    let entry = stage.record(&instance).unwrap()["interruptions"][0].clone();
    assert_eq!((&entry["kind"], &entry["warm_pool"]), (&"terminate-hook".into(), &true.into()));
    stage.pass(120).await;
    assert!(stage.is_cordoned(&instance), "it is in the pool");
    stage.world.aws.leave_warm_pool(&instance);
    stage.until(100, "it is as it was", || is_as_it_was(&stage, &instance)).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c28_an_instance_that_the_pool_terminates_and_that_never_joined_is_completed_at_once() {
    for (seed, is_lost) in [(2_509, false), (2_510, true)] {
        let stage = Stage::new(seed);
        let instance = never_joined(&stage).await;
        let sundown = stage.lead("sundown-0", SWEEP).await;
        stage.pass(30).await;
        if is_lost {
            stage.world.aws.lose_events(stage.clock.now() + s(86_400));
        }
        let out = stage.world.aws.other_action("asg", "sundown-drain", &instance, &OUT_OF_POOL);
        out.unwrap();
        let limit = if is_lost { 100 } else { 10 };
        assert_eq!(stage.world.aws.instance(&instance).unwrap().state, State::Running);
        stage.until(limit, "it is completed", || stage.is_over(&instance)).await;
        stage.completed_once(&instance);
        sundown.stop().await;
        stage.end_unjudged();
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_of_the_warm_pool_is_drained_when_the_pool_terminates_its_instance() {
    let (stage, instance, sundown) = launched(2_511, SWEEP).await;
    stage.slow_pod(&instance, "web", 5);
    stage.pass(120).await;
    stage.world.aws.other_action("asg", "sundown-drain", &instance, &OUT_OF_POOL).unwrap();
    stage.until(60, "it is completed", || stage.is_over(&instance)).await;
    assert_eq!(stage.removals().len(), 1);
    stage.pass(300).await;
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn in_a_managed_node_group_the_hooks_of_eks_are_left_to_eks() {
    let stage = Stage::new(2_512);
    let instance = group(&stage, 2).remove(0);
    let sundown = stage.lead("sundown-0", SWEEP).await;
    for (hook, detail) in [("Launch-LC-Hook", INTO_POOL), ("Terminate-LC-Hook", BACK_TO_POOL)] {
        stage.world.aws.other_action("asg", hook, &instance, &detail).unwrap();
        stage.pass(200).await;
        let action = stage.actions(&instance).pop().unwrap();
        assert!(action.heartbeats.is_empty() && action.end.is_none(), "{hook}");
        assert!(is_as_it_was(&stage, &instance), "{hook}");
        assert!(stage.world.aws.complete_as("eks", "asg", hook, &instance, HookResult::Continue));
        stage.world.aws.leave_warm_pool(&instance);
    }
    assert_eq!(sundown.messages("launch-hook", "foreign_hook"), 1.0);
    assert_eq!(sundown.messages("terminate-hook", "foreign_hook"), 1.0);
    // Ours beside them is answered all the same.
    for (hook, detail) in [("Launch-LC-Hook", INTO_POOL), ("sundown-launch", INTO_POOL)] {
        stage.world.aws.other_action("asg", hook, &instance, &detail).unwrap();
    }
    let ours = || {
        let actions = stage.actions(&instance);
        actions.iter().any(|a| a.hook == "sundown-launch" && a.end.is_some())
    };
    stage.until(30, "ours is completed", ours).await;
    assert!(stage.is_cordoned(&instance));
    let actions = stage.actions(&instance);
    let of_eks = actions.iter().rev().find(|a| a.hook == "Launch-LC-Hook").unwrap();
    assert!(of_eks.heartbeats.is_empty() && of_eks.end.is_none());
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn the_hook_waits_for_the_cordon_of_a_node_that_registers_again_meanwhile() {
    let stage = Stage::new(2_513);
    let instance = group(&stage, 2).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    let sundown = stage.lead("sundown-0", &[]).await;
    let stuck = stage
        .world
        .kube
        .inject(Rule::always(Match::of("patch", "nodes").named(&node), KubeFault::Hang));
    into_pool(&stage, &instance);
    stage.pass(30).await;
    assert!(!stage.is_cordoned(&instance) && !stage.is_over(&instance));
    stage.world.kube.delete_node(&node);
    stage.pass(40).await;
    assert!(!stage.is_over(&instance), "it is decided again");
    stage.world.kube.lift(stuck);
    stage.world.kube.add_node(&NodeSpec::named(&node).instance(&instance));
    stage.until(60, "it is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert!(stage.is_cordoned(&instance) && pooled(&stage, &instance));
    assert_eq!(sundown.messages("launch-hook", "launch_answered"), 1.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn only_the_pools_of_groups_that_have_one_are_asked_for() {
    let stage = Stage::new(2_514);
    let instance = group(&stage, 2).remove(0);
    let sundown = stage.lead("sundown-0", SWEEP).await;
    stage.pass(300).await;
    assert_eq!(stage.world.aws.count(POOL), 0);
    into_pool(&stage, &instance);
    stage.pass(300).await;
    let asked = stage.world.aws.count(POOL);
    assert!((4..=8).contains(&asked), "once a round: {asked}");
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_may_not_ask_for_warm_pools_says_so_once_and_finds_all_other_waits() {
    let logs = Logs::keep();
    let stage = Stage::new(2_515);
    let instances = group(&stage, 3);
    let sundown = stage.lead("sundown-0", SWEEP).await;
    stage.world.aws.fault(FaultRule::new(POOL, Fault::AccessDenied, How::Always));
    stage.world.aws.lose_events(stage.clock.now() + s(86_400));
    into_pool(&stage, &instances[0]);
    stage.world.aws.terminate(&instances[1], true);
    let is_ended = |hook: &str, instance: &str| {
        stage.actions(instance).iter().any(|a| a.hook == hook && a.end.is_some())
    };
    stage.until(100, "it is found", || is_ended("sundown-drain", &instances[1])).await;
    stage.pass(180).await;
    assert!(!stage.is_over(&instances[0]), "nothing shows its wait");
    let denied =
        ["WARN", "The sweep may not call DescribeWarmPool", "autoscaling:DescribeWarmPool"];
    assert_eq!(logs.with(&denied).len(), 1);
    assert_eq!(sundown.metric("sweeps_total{result=\"denied\"}"), 0.0);
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn rounds_become_rarer_while_aws_throttles_the_calls_about_warm_pools() {
    let stage = Stage::new(2_516);
    let instance = group(&stage, 2).remove(0);
    let sundown = stage.lead("sundown-0", SWEEP).await;
    into_pool(&stage, &instance);
    stage.pass(120).await;
    let before = stage.world.aws.count(POOL);
    stage.world.aws.fault(FaultRule::new(POOL, Fault::Throttle, How::Always));
    stage.pass(900).await;
    let rounds = stage.world.aws.count(POOL) - before;
    assert!((3..=5).contains(&rounds), "after 1, 2, 4 and 8 minutes: {rounds}");
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn the_next_leader_completes_a_return_to_the_warm_pool_that_only_the_record_names() {
    let stage = Stage::new(2_517);
    let instance = group(&stage, 2).remove(0);
    stage.slow_pod(&instance, "web", 60);
    let leader = stage.lead("sundown-0", &[]).await;
    stage.world.aws.other_action("asg", "sundown-drain", &instance, &BACK_TO_POOL).unwrap();
    stage.until(20, "it is accepted", || stage.record(&instance).is_some()).await;
    stage.until(10, "its message is deleted", || stage.in_queue() == 0).await;
    leader.kill();
    let logs = Logs::keep();
    let next = stage.lead("sundown-1", &[]).await;
    stage.until(120, "it is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(logs.with(&["AWS does not show the instance waiting"]).len(), 0);
    next.stop().await;
    stage.end();
}
