//! Completions: sent again until AWS accepts them or says that nothing waits, and never twice.

use sundown::sim::{
    aws::{Disorder, Fault as AwsFault, FaultRule, How, SpotAction, State},
    kube::{Fault, Match, PodSpec, Rule},
};

use super::s;
use crate::{harness::Stage, messages::logs::Logs};

const COMPLETE: &str = "autoscaling:CompleteLifecycleAction";

/// Drains one node while `fault` befalls the first `times` completions, and says how many calls
/// that took.
async fn drained_under(seed: u64, fault: AwsFault, times: u64, counted: &str) -> u64 {
    let stage = Stage::new(seed);
    let instance = stage.group(1, 60).remove(0);
    stage.slow_pod(&instance, "slow", 10);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.fault(FaultRule::new(COMPLETE, fault, How::Times(times)));
    stage.world.aws.terminate(&instance, true);
    stage.until(300, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(sundown.metric(&format!("completions_total{{result=\"{counted}\"}}")) as u64, times);
    stage
        .until(2, "it is counted", || {
            sundown.metric("completions_total{result=\"accepted\"}") == 1.0
        })
        .await;
    stage
        .until(2, "the record is released", || {
            stage.record(&instance).unwrap()["released"].is_object()
        })
        .await;
    let gaps = super::gaps(&stage.action(&instance));
    assert!(gaps.iter().all(|g| *g <= 41.0), "beats go on meanwhile: {gaps:?}");
    stage.pass(300).await;
    stage.completed_once(&instance);
    let calls = stage.world.aws.count(COMPLETE);
    sundown.stop().await;
    stage.end();
    calls
}

#[tokio::test(start_paused = true)]
async fn c41_a_completion_that_fails_is_sent_again_until_it_is_accepted() {
    assert_eq!(drained_under(41, AwsFault::InternalError, 8, "failed").await, 9);
}

#[tokio::test(start_paused = true)]
async fn c43_a_completion_that_is_throttled_contended_or_cut_off_is_sent_again() {
    assert_eq!(drained_under(430, AwsFault::Throttle, 5, "failed").await, 6);
    assert_eq!(drained_under(431, AwsFault::ResourceContention, 5, "failed").await, 6);
    assert_eq!(drained_under(432, AwsFault::Cut, 5, "failed").await, 6);
    assert_eq!(drained_under(433, AwsFault::Garbage, 5, "failed").await, 6);
    assert_eq!(drained_under(434, AwsFault::Unavailable, 5, "failed").await, 6);
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_is_not_allowed_is_asked_for_slowly_until_it_is() {
    assert_eq!(drained_under(435, AwsFault::AccessDenied, 6, "denied").await, 7);
}

#[tokio::test(start_paused = true)]
async fn an_action_whose_calls_are_never_allowed_counts_as_over_after_its_global_timeout() {
    let stage = Stage::new(437);
    let instance = stage.group(1, 60).remove(0);
    let sundown = stage.lead("sundown-0", &[]).await;
    for call in [COMPLETE, "autoscaling:RecordLifecycleActionHeartbeat"] {
        stage.world.aws.fault(FaultRule::new(call, AwsFault::AccessDenied, How::Always));
    }
    stage.world.aws.terminate(&instance, true);
    stage.until(60, "it is accepted", || sundown.metric("open_actions") == 1.0).await;
    // A hundred heartbeat timeouts.
    stage.pass(5_900).await;
    assert_eq!(sundown.metric("open_actions"), 1.0);
    stage.until(200, "it is over", || sundown.metric("open_actions") == 0.0).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_completion_whose_credentials_have_expired_is_sent_again_like_any_that_failed() {
    assert_eq!(drained_under(436, AwsFault::ExpiredToken, 6, "failed").await, 7);
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_hangs_keeps_no_heartbeat_from_going_out() {
    assert_eq!(drained_under(437, AwsFault::Hang, 6, "failed").await, 7);
}

#[tokio::test(start_paused = true)]
async fn c42_an_action_that_is_over_already_counts_as_completed() {
    let stage = Stage::new(42);
    let instance = stage.group(1, 300).remove(0);
    stage.slow_pod(&instance, "slow", 20);
    let sundown = stage.lead("sundown-0", &[]).await;
    // The completion takes effect, and its answer is lost: the next try hears "No active Lifecycle
    // Action".
    stage.world.aws.fault(FaultRule::new(COMPLETE, AwsFault::CutAfterEffect, How::Times(1)));
    stage.world.aws.terminate(&instance, true);
    stage.until(60, "the action is completed", || stage.is_over(&instance)).await;
    stage
        .until(10, "that is understood", || {
            sundown.metric("completions_total{result=\"gone\"}") == 1.0
        })
        .await;
    stage
        .until(5, "the record is released", || {
            stage.record(&instance).unwrap()["released"].is_object()
        })
        .await;
    assert_eq!(stage.action(&instance).late_calls.len(), 1);
    stage.pass(300).await;
    assert_eq!(stage.world.aws.count(COMPLETE), 2);
    assert_eq!(sundown.metric("open_actions"), 0.0);
    assert_eq!(stage.in_queue(), 0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c44_c68_a_message_that_could_not_be_deleted_drains_heartbeats_and_completes_nothing_again()
{
    for the_node_stays in [true, false] {
        let stage = Stage::new(44);
        let instance = stage.group(1, 60).remove(0);
        stage.slow_pod(&instance, "slow", 10);
        let sundown = stage.lead("sundown-0", &[]).await;
        let queue = stage.world.queue().to_owned();
        // Deletes that succeed and do not delete: the message comes back again and again.
        stage.world.aws.disorder(&queue, Disorder { forget_delete: 1.0, ..Disorder::default() });
        if the_node_stays {
            stage.world.aws.other_action("asg", "drain", &instance, &[]).unwrap();
        } else {
            stage.world.aws.terminate(&instance, true);
        }
        stage.until(60, "the action is completed", || stage.is_over(&instance)).await;
        stage.pass(2).await;
        let patches = patches(&stage);
        stage.pass(600).await;
        let again = ["repeat", "completed", "stale"]
            .iter()
            .map(|o| sundown.messages("terminate-hook", o))
            .sum::<f64>();
        assert!(again >= 5.0, "it came back: {again}");
        assert_eq!(sundown.messages("terminate-hook", "accepted"), 1.0);
        stage.completed_once(&instance);
        assert_eq!(self::patches(&stage), patches, "no PATCH for a repeat");
        assert_eq!(sundown.metric("open_actions"), 0.0);
        stage.world.aws.disorder(&queue, Disorder::default());
        stage.until(70, "the message is deleted", || stage.in_queue() == 0).await;
        sundown.stop().await;
        stage.end();
    }
}

fn patches(stage: &Stage) -> usize {
    stage
        .world
        .kube
        .requests()
        .iter()
        .filter(|r| r.verb == "patch" && r.resource == "nodes")
        .count()
}

#[tokio::test(start_paused = true)]
async fn c44_a_delete_that_fails_is_tried_again_and_loses_nothing() {
    let stage = Stage::new(441);
    let instance = stage.group(1, 60).remove(0);
    let sundown = stage.lead("sundown-0", &[]).await;
    let failing = stage.world.aws.fault(FaultRule::new(
        "sqs:DeleteMessageBatch",
        AwsFault::InternalError,
        How::Always,
    ));
    stage.world.aws.terminate(&instance, true);
    stage.pass(200).await;
    stage.completed_once(&instance);
    assert!(stage.in_queue() >= 1);
    assert!(sundown.metric("intake_events_total{event=\"delete_retried\"}") >= 3.0);
    let tries = stage.world.aws.count("sqs:DeleteMessageBatch");
    assert!(tries < 260, "{tries} deletes in 200 s");
    stage.world.aws.end_fault(failing);
    stage.until(70, "the message is deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("terminate-hook", "accepted"), 1.0);
    stage.completed_once(&instance);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_completion_waits_for_logs_to_be_shipped_and_not_beyond_the_deadline() {
    let stage = Stage::new(440);
    let instances = stage.group(2, 60);
    stage.slow_pod(&instances[0], "slow", 10);
    let sundown =
        stage.lead("sundown-0", &["--complete-delay", "90s", "--drain-timeout", "5m"]).await;
    stage.world.aws.terminate(&instances[0], true);
    stage
        .until(60, "the node is drained", || {
            sundown.drain(&stage.name_of(&instances[0])).is_some_and(|d| d.drained.is_some())
        })
        .await;
    stage.pass(85).await;
    assert!(!stage.is_over(&instances[0]), "the delay");
    assert!(stage.action(&instances[0]).heartbeats.len() >= 3, "beats go on meanwhile");
    stage.until(10, "the action is completed", || stage.is_over(&instances[0])).await;
    // One that is drained shortly before its deadline.
    stage.slow_pod(&instances[1], "slower", 260);
    stage.world.aws.terminate(&instances[1], true);
    stage.until(300, "the action is completed", || stage.is_over(&instances[1])).await;
    stage.all_completed_once();
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_waits_for_logs_is_sent_at_once_when_there_is_nothing_left_to_wait_for() {
    for how in ["node deleted", "released by hand", "left alone", "instance over"] {
        let stage = Stage::new(442);
        let instance = stage.group(2, 300).remove(0);
        stage.slow_pod(&instance, "slow", 10);
        let sundown = stage.lead("sundown-0", &["--complete-delay", "90s"]).await;
        stage.world.aws.terminate(&instance, true);
        let node = stage.name_of(&instance);
        stage
            .until(60, "the node is drained", || {
                sundown.drain(&node).is_some_and(|d| d.drained.is_some())
            })
            .await;
        stage.pass(10).await;
        assert!(!stage.is_over(&instance), "the delay");
        match how {
            "node deleted" => assert!(stage.world.kube.delete("nodes", "", &node)),
            "released by hand" => stage.annotate(&instance, "sundown.dev/release", Some("true")),
            "left alone" => stage.annotate(&instance, "sundown.dev/ignore", Some("true")),
            _ => stage.world.aws.state_change_event(&instance, State::Terminated),
        }
        stage.until(1, &format!("it is completed ({how})"), || stage.is_over(&instance)).await;
        stage.completed_once(&instance);
        sundown.stop().await;
        stage.end();
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_while_a_completion_waits_leaves_it_to_the_next_leader() {
    let stage = Stage::new(444);
    let flags = ["--complete-delay", "90s"];
    let instance = stage.group(2, 300).remove(0);
    let spot = stage.spot_group(2).remove(0);
    stage.slow_pod(&instance, "slow", 10);
    let first = stage.lead("sundown-0", &flags).await;
    let second = stage.start("sundown-1", &flags);
    stage.until(10, "the standby is ready", || second.readiness.missing().is_empty()).await;
    stage.world.aws.terminate(&instance, true);
    let node = stage.name_of(&instance);
    stage
        .until(60, "the node is drained", || {
            first.drain(&node).is_some_and(|d| d.drained.is_some())
        })
        .await;
    stage.pass(10).await;
    // An eviction that is answered slowly keeps its term open for seconds.
    let evictions = Match::evictions().from("sundown-0");
    stage.world.kube.inject(Rule::always(evictions, Fault::Slow(s(7))));
    let other = stage.name_of(&spot);
    stage.world.kube.add_pod(&PodSpec::on(other, "shop", "web-0"));
    stage.spot_warning(&spot, "spot-0");
    stage.pass(2).await;
    first.stop().await;
    stage.pass(20).await;
    assert!(!stage.is_over(&instance), "the delay is not over");
    stage.until(120, "the next leader completes it", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn an_interruption_that_joins_after_the_drain_is_not_logged_as_a_drain() {
    let logs = Logs::keep();
    let stage = Stage::new(443);
    let instance = stage.group(2, 300).remove(0);
    stage.slow_pod(&instance, "slow", 10);
    let sundown = stage.lead("sundown-0", &["--complete-delay", "90s"]).await;
    stage.world.aws.terminate(&instance, true);
    let node = stage.name_of(&instance);
    stage
        .until(60, "the node is drained", || {
            sundown.drain(&node).is_some_and(|d| d.drained.is_some())
        })
        .await;
    let deadlines = || logs.with(&["The drain's deadline"]).len();
    let before = deadlines();
    assert_eq!(
        (logs.with(&["cordoned, draining"]).len(), logs.with(&["Drain ended"]).len()),
        (1, 1)
    );
    stage.world.aws.state_change_event(&instance, State::ShuttingDown);
    stage.until(20, "it has joined", || logs.with(&["Interruption accepted"]).len() == 2).await;
    stage.pass(5).await;
    assert_eq!(
        logs.with(&[
            "Interruption accepted: the drain of its node is over, and the release is under way."
        ])
        .len(),
        1
    );
    assert_eq!((logs.with(&["cordoned, draining"]).len(), deadlines()), (1, before));
    stage.until(120, "it is completed", || stage.is_over(&instance)).await;
    sundown.stop().await;
    stage.end();
}

/// Standbys see Nodes go, and hear nothing of what their leader completes.
#[tokio::test(start_paused = true)]
async fn a_new_leader_does_not_speak_of_nodes_that_went_and_owed_nothing() {
    let logs = Logs::keep();
    let stage = Stage::new(7223);
    let (spot, hooked) = (stage.spot_group(2).remove(0), stage.group(2, 300).remove(0));
    for (instance, pod) in [(&spot, "slow-0"), (&hooked, "slow-1")] {
        stage.slow_pod(instance, pod, 600);
    }
    let first = stage.lead("sundown-0", &[]).await;
    let second = stage.start("sundown-1", &[]);
    stage.pass(10).await;
    stage.world.aws.spot_interruption(&spot, SpotAction::Terminate);
    stage.world.aws.terminate(&hooked, true);
    stage.pass(20).await;
    for instance in [&spot, &hooked] {
        assert!(stage.world.kube.delete("nodes", "", &stage.name_of(instance)));
    }
    stage.until(10, "the leader completes the open actions", || stage.is_over(&hooked)).await;
    stage.pass(30).await;
    first.kill();
    stage.until(20, "the standby leads", || second.metrics.leads()).await;
    stage.pass(10).await;
    let told = logs.with(&["A node was deleted before this term"]);
    assert_eq!(told.len(), 1, "the one with the hook: {told:?}");
    assert!(told[0].contains("may not have been completed"), "{told:?}");
    assert_eq!(stage.action(&hooked).end.unwrap().by, "sundown-0");
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_was_accepted_stays_ours_when_one_called_sundown_is_added() {
    let stage = Stage::new(595);
    let instance = stage.group(1, 120).remove(0);
    stage.slow_pod(&instance, "slow", 60);
    let first = stage.lead("sundown-0", &[]).await;
    stage.world.aws.terminate(&instance, true);
    stage.until(10, "it is accepted", || stage.is_cordoned(&instance)).await;
    stage.world.aws.put_hook("asg", super::hook("sundown", 300));
    first.stop().await;
    let second = stage.lead("sundown-1", &[]).await;
    stage.until(120, "it is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    second.stop().await;
    stage.end();
}
