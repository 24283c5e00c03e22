//! Launch hooks of ours: completed when the node of the new instance is ready.

use std::time::Duration;

use sundown::{
    domain::Moment,
    sim::{
        aws::{ActionReport, GroupSpec, HookResult, HookSpec, State, Verdict},
        kube::{Fault, Match, NodeSpec, PodSpec, PodState, Rule as KubeRule},
    },
};

use super::logs::Logs;
use crate::harness::Stage;

/// A group of ours with a launch hook that terminates the new instance when nobody answers within
/// `heartbeat_timeout` seconds, and one more instance in it, which never becomes a Node by itself.
fn launching(stage: &Stage, heartbeat_timeout: u64) -> String {
    let hook =
        HookSpec::launching("boot").heartbeat_timeout(Duration::from_secs(heartbeat_timeout));
    stage.world.add_group(GroupSpec { replace_after: None, ..GroupSpec::new("asg", 1) }, &[hook]);
    let instance = stage.world.aws.launch("asg").unwrap();
    stage.world.keep_out(&instance);
    instance
}

fn node_spec(stage: &Stage, instance: &str) -> NodeSpec {
    let dns = stage.world.aws.instance(instance).unwrap().private_dns;
    NodeSpec::named(dns).instance(instance)
}

fn action(stage: &Stage, instance: &str) -> Option<ActionReport> {
    stage.actions(instance).into_iter().next()
}

/// The verdict on the instance's action, and when; `None` while it is open.
fn end(stage: &Stage, instance: &str) -> Option<(Verdict, Moment)> {
    action(stage, instance)?.end.map(|end| (end.verdict, end.at))
}

async fn until_it_waits(stage: &Stage, instance: &str) {
    stage.until(60, "its launch hook is open", || action(stage, instance).is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn c47_a_launch_hook_is_kept_open_until_the_node_is_ready_and_then_completed() {
    let logs = Logs::keep();
    let stage = Stage::new(54);
    let sundown = stage.settled(&[]).await;
    let instance = launching(&stage, 30);
    until_it_waits(&stage, &instance).await;
    stage.pass(100).await;
    assert!(end(&stage, &instance).is_none(), "it has no Node");
    let spec = NodeSpec { ready_after: Duration::from_secs(40), ..node_spec(&stage, &instance) };
    stage.world.kube.add_node(&spec);
    let ready_at = stage.clock.now().plus(Duration::from_secs(40));
    stage.until(60, "it is completed", || end(&stage, &instance).is_some()).await;
    let (verdict, at) = end(&stage, &instance).unwrap();
    assert_eq!(verdict, Verdict::Completed(HookResult::Continue));
    assert!(at >= ready_at && at < ready_at.plus(Duration::from_secs(10)), "{ready_at} {at}");
    let heartbeats = action(&stage, &instance).unwrap().heartbeats.len();
    assert!(heartbeats >= 4, "a hook of 30 s stayed open for 140 s: {heartbeats}");
    assert_eq!(sundown.messages("launch-hook", "launch_answered"), 1.0);
    for missing in ["it has no Node", "its Node is not Ready"] {
        assert_eq!(
            logs.with(&["An instance waits in its launch hook", missing]).len(),
            1,
            "{missing}"
        );
    }
    stage.until(1, "the message is deleted", || stage.in_queue() == 0).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_node_of_the_instances_previous_life_does_not_count_as_ready() {
    let stage = Stage::new(540);
    let sundown = stage.settled(&[]).await;
    let instance = launching(&stage, 300);
    // The Node is there and Ready, but its kubelet does not run: the control plane finds that out
    // only after 40 s.
    stage.world.kube.add_node(&node_spec(&stage, &instance));
    let node = stage.world.node_of(&instance).unwrap();
    stage.world.kube.kubelet_lost(&node);
    until_it_waits(&stage, &instance).await;
    stage.pass(20).await;
    assert!(end(&stage, &instance).is_none(), "its Lease is older than the launch");
    stage.world.kube.kubelet_back(&node);
    stage.until(15, "it is completed", || end(&stage, &instance).is_some()).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_launch_hook_also_waits_for_daemon_sets_and_startup_taints_if_asked() {
    let logs = Logs::keep();
    let stage = Stage::new(541);
    let flags =
        ["--launch-daemonset=kube-system/cni", "--launch-startup-taint=example.com/starting"];
    let sundown = stage.settled(&flags).await;
    let instance = launching(&stage, 300);
    until_it_waits(&stage, &instance).await;
    let mut spec = node_spec(&stage, &instance);
    spec.taints = vec![("example.com/starting".into(), String::new(), "NoSchedule".into())];
    stage.world.kube.add_node(&spec);
    let node = stage.world.node_of(&instance).unwrap();
    stage.pass(20).await;
    assert_eq!(
        logs.with(&["An instance waits in its launch hook", "startup taint example.com/starting"])
            .len(),
        1
    );
    stage.world.kube.edit("nodes", "", &node, |node| {
        node["spec"].as_object_mut().unwrap().remove("taints");
    });
    stage.pass(20).await;
    assert_eq!(
        logs.with(&["An instance waits in its launch hook", "DaemonSet kube-system/cni"]).len(),
        1
    );
    let pod = PodSpec::on(node.as_str(), "kube-system", "cni-1")
        .owner("apps/v1", "DaemonSet", "cni")
        .state(PodState::Ready);
    stage.world.kube.add_pod(&pod);
    stage.until(15, "it is completed", || end(&stage, &instance).is_some()).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn after_the_launch_timeout_a_launch_hook_is_completed_as_the_operator_chose() {
    for (seed, flags, result, state) in [
        (542, &["--launch-timeout=1m"][..], HookResult::Continue, State::Running),
        (
            543,
            &["--launch-timeout=1m", "--launch-on-timeout=abandon"][..],
            HookResult::Abandon,
            State::ShuttingDown,
        ),
    ] {
        let logs = Logs::keep();
        let stage = Stage::new(seed);
        let sundown = stage.settled(flags).await;
        let instance = launching(&stage, 300);
        until_it_waits(&stage, &instance).await;
        stage.until(70, "it is completed", || end(&stage, &instance).is_some()).await;
        let ActionReport { started, .. } = action(&stage, &instance).unwrap();
        let (verdict, at) = end(&stage, &instance).unwrap();
        assert_eq!(verdict, Verdict::Completed(result));
        let took = at.duration_since(started).as_secs();
        assert!((58..=63).contains(&took), "{took} s");
        assert_eq!(sundown.messages("launch-hook", "launch_timed_out"), 1.0);
        assert_eq!(logs.with(&["WARN", "has waited for its timeout", "no Node"]).len(), 1);
        stage.pass(1).await;
        assert_eq!(stage.world.aws.instance(&instance).unwrap().state, state);
        sundown.stop().await;
        stage.end();
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_leader_goes_on_to_wait_for_a_launch_and_completes_its_hook_once() {
    let stage = Stage::new(544);
    let first = stage.settled(&[]).await;
    let second = stage.start("sundown-1", &[]);
    let instance = launching(&stage, 120);
    until_it_waits(&stage, &instance).await;
    stage.pass(40).await;
    first.kill();
    stage.pass(100).await;
    assert!(end(&stage, &instance).is_none());
    stage.world.kube.add_node(&node_spec(&stage, &instance));
    stage.until(75, "it is completed", || end(&stage, &instance).is_some()).await;
    assert_eq!(end(&stage, &instance).unwrap().0, Verdict::Completed(HookResult::Continue));
    assert_eq!(second.messages("launch-hook", "launch_answered"), 1.0);
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_ends_while_its_launch_hook_waits_leaves_nothing_behind() {
    let stage = Stage::new(545);
    let sundown = stage.settled(&[]).await;
    let instance = launching(&stage, 60);
    until_it_waits(&stage, &instance).await;
    stage.pass(10).await;
    stage.world.aws.terminate(&instance, true);
    stage.until(90, "the message is deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("launch-hook", "launch_over"), 1.0);
    assert_eq!(sundown.metric("open_actions"), 0.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn while_the_lease_of_the_node_cannot_be_read_the_launch_hook_waits_and_the_log_says_why() {
    let logs = Logs::keep();
    let stage = Stage::new(546);
    let sundown = stage.settled(&["--launch-timeout=2m"]).await;
    let instance = launching(&stage, 300);
    until_it_waits(&stage, &instance).await;
    stage.world.kube.add_node(&node_spec(&stage, &instance));
    let node = stage.world.node_of(&instance).unwrap();
    let reads = Match::of("get", "leases").named(node.as_str());
    stage.world.kube.inject(KubeRule::always(reads, Fault::Forbidden));
    stage.until(130, "it is completed", || end(&stage, &instance).is_some()).await;
    assert_eq!(sundown.messages("launch-hook", "launch_timed_out"), 1.0);
    assert_eq!(logs.with(&["WARN", "Cannot read the Lease", &node]).len(), 1);
    sundown.stop().await;
    stage.end();
}
