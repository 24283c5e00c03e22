//! With which result a terminate hook is completed (`--hook-result-on-failure`), and instances that
//! their group retains.

use std::time::Duration;

use sundown::sim::{
    aws::{
        Fault as AwsFault, FaultRule, GroupSpec, HookResult, HookSpec, How, LifecycleState, State,
        Verdict,
    },
    kube::PodShape,
};

use super::{Scene, graceful};
use crate::{harness::Stage, messages::logs::Logs};

const ABANDON: &str = "--hook-result-on-failure=abandon";
const DESCRIBE: &str = "autoscaling:DescribeAutoScalingGroups";

/// A group of one node, with a pod that never stops or one that stops in time, whose drain may take
/// two minutes. `retains`: the lifecycle policy of the group.
async fn scene(seed: u64, retains: bool, is_stuck: bool, flags: &[&str]) -> Scene {
    let stage = Stage::new(seed);
    let hook = HookSpec {
        heartbeat_timeout: Duration::from_mins(5),
        default_result: HookResult::Continue,
        ..HookSpec::terminating("drain")
    };
    let tag = format!("kubernetes.io/cluster/{}", stage.world.cluster());
    let group = GroupSpec {
        replace_after: None,
        retain_on_abandon: retains,
        ..GroupSpec::new("asg", 1).tag(&tag, "owned")
    };
    let instances = stage.world.add_group(group, &[hook]);
    let flags: Vec<&str> = ["--drain-timeout=2m"].iter().chain(flags).copied().collect();
    let scene = Scene::led(stage, instances, &flags).await;
    let shape = PodShape { stuck: is_stuck, ..graceful(30, 5) };
    scene.pod(0, "web-0", shape);
    scene.stage.pass(5).await;
    scene
}

/// Waits until the hook is completed by Sundown, and returns the result.
async fn result(scene: &Scene, limit: u64) -> HookResult {
    let action = || scene.stage.actions(&scene.instances[0]).remove(0);
    scene.stage.until(limit, "the action is over", || action().end.is_some()).await;
    let end = action().end.unwrap();
    assert!(end.by.starts_with("sundown"), "{end:?}");
    let Verdict::Completed(result) = end.verdict else { panic!("{end:?}") };
    result
}

fn lifecycle_state(scene: &Scene) -> Option<LifecycleState> {
    let members = scene.stage.world.aws.members("asg");
    members.into_iter().find(|m| m.instance == scene.instances[0]).map(|m| m.state)
}

#[tokio::test(start_paused = true)]
async fn a_terminate_hook_is_abandoned_only_after_a_failed_drain_in_a_group_that_retains() {
    use HookResult::{Abandon, Continue};
    for (seed, retains, is_stuck, flags, expected) in [
        (1001, true, true, &[ABANDON][..], Abandon),
        (1002, false, true, &[ABANDON], Continue),
        (1003, true, false, &[ABANDON], Continue),
        (1004, true, true, &[], Continue),
        (1005, true, true, &["--hook-result-on-failure=continue"], Continue),
    ] {
        let scene = scene(seed, retains, is_stuck, flags).await;
        scene.terminate(0).await;
        assert_eq!(result(&scene, 140).await, expected, "{seed}");
        scene.stage.pass(3).await;
        let failed = f64::from(u8::from(is_stuck));
        assert_eq!(scene.sundown.metric("deadline_misses_total"), failed);
        let abandoned = scene.sundown.metric("completions_total{result=\"abandoned\"}");
        assert_eq!(abandoned, f64::from(u8::from(expected == Abandon)), "{seed}");
        let is_retained = lifecycle_state(&scene) == Some(LifecycleState::TerminatingRetained);
        assert_eq!(is_retained, expected == Abandon, "{seed}");
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_retained_instance_is_reported_and_counted_until_somebody_terminates_it() {
    let logs = Logs::keep();
    let scene = scene(1006, true, true, &[ABANDON, "--sweep-interval=30s"]).await;
    let instance = scene.instances[0].clone();
    scene.terminate(0).await;
    assert_eq!(result(&scene, 140).await, HookResult::Abandon);
    scene.stage.pass(60).await;
    assert_eq!(scene.stage.world.aws.instance(&instance).unwrap().state, State::Running);
    let record = scene.stage.record(&instance).unwrap();
    assert_eq!(record["released"]["abandoned"], true, "{record}");
    assert!(scene.stage.is_cordoned(&instance) && scene.is_there("web-0"));
    let said = scene.events("InstanceRetained");
    assert!(said.iter().any(|text| text.contains("completed with ABANDON")), "{said:?}");
    assert!(said.iter().any(|text| text.contains("retains")), "{said:?}");
    assert_eq!(scene.sundown.metric("retained_instances"), 1.0);
    scene.stage.pass(120).await;
    let warned = logs.with(&["WARN", "The group retains an instance", &instance]);
    assert_eq!(warned.len(), 1, "once for a leader: {warned:?}");

    scene.stage.world.aws.terminate(&instance, true);
    scene.stage.pass(120).await;
    assert_eq!(scene.sundown.metric("retained_instances"), 0.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_about_the_group_its_hook_is_continued_and_a_short_outage_is_waited_out()
{
    for (seed, fault, seconds, expected) in [
        (1007, AwsFault::AccessDenied, 300, HookResult::Continue),
        (1008, AwsFault::Throttle, 20, HookResult::Abandon),
        (1009, AwsFault::Throttle, 300, HookResult::Continue),
    ] {
        let logs = Logs::keep();
        let scene = scene(seed, true, true, &[ABANDON]).await;
        scene.terminate(0).await;
        scene.stage.pass(110).await;
        let until = scene.stage.clock.now() + Duration::from_secs(seconds);
        scene.stage.world.aws.fault(FaultRule::new(DESCRIBE, fault, How::Until(until)));
        assert_eq!(result(&scene, 60).await, expected, "{seed}");
        let unknown = logs.with(&["WARN", "Cannot find out whether the group retains"]);
        assert_eq!(unknown.len(), usize::from(expected == HookResult::Continue), "{seed}");
        scene.stage.pass(3).await;
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_leader_abandons_the_hook_of_a_drain_that_fails_in_its_term() {
    let scene = scene(1010, true, true, &[ABANDON]).await;
    scene.terminate(0).await;
    scene.stage.pass(60).await;
    let Scene { stage, sundown, instances } = scene;
    sundown.kill();
    let second = stage.start("sundown-1", &["--drain-timeout=2m", ABANDON]);
    stage.until(60, "the other leads", || second.metrics.leads()).await;
    let scene = Scene { stage, sundown: second, instances };
    assert_eq!(result(&scene, 200).await, HookResult::Abandon);
    scene.stage.pass(3).await;
    scene.end().await;
}
