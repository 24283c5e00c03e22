//! Which lifecycle action is meant, and when it is over: several of one hook and instance, and
//! refusals that say nothing of it.

use sundown::sim::{
    aws::{ActionReport, Fault as AwsFault, FaultRule, HookResult, How, Verdict},
    kube::{Fault, Match, Rule},
};

use super::{BEAT, gaps};
use crate::harness::Stage;

const COMPLETE: &str = "autoscaling:CompleteLifecycleAction";
const BOTH: &str = "autoscaling:*LifecycleAction*";

impl Stage {
    fn action_of(&self, token: &str) -> ActionReport {
        self.world.aws.actions().into_iter().find(|a| a.token == token).unwrap()
    }

    /// An action that does not move its instance, as a warm pool or a replaced root volume makes
    /// them; its token.
    fn begin(&self, instance: &str) -> String {
        self.world.aws.other_action("asg", "drain", instance, &[]).unwrap()
    }

    /// Sends the message of an action once more; it was deleted before.
    fn send_again(&self, token: &str) {
        let body =
            self.world.aws.deletions().into_iter().find(|d| d.body.contains(token)).unwrap().body;
        let queue = self.world.queue().to_owned();
        assert!(!self.world.aws.send_event(&queue, &body).is_empty());
    }

    /// Its heartbeats came in time, and it was completed by one call of ours.
    fn served(&self, token: &str) {
        let action = self.action_of(token);
        super::completed_once(&action);
        assert!(
            gaps(&action).iter().all(|g| *g < action.heartbeat_timeout.as_secs_f64()),
            "{action:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_copy_of_an_action_that_is_over_leaves_the_next_one_of_its_hook_alone() {
    let stage = Stage::new(901);
    let instance = stage.group(1, 60).remove(0);
    let first = stage.lead("sundown-0", &[]).await;
    let a = stage.begin(&instance);
    stage.until(60, "the first is completed", || stage.action_of(&a).end.is_some()).await;
    stage
        .until(5, "the record is released", || {
            stage.record(&instance).unwrap()["released"].is_object()
        })
        .await;
    stage.slow_pod(&instance, "slow", 220);
    let b = stage.begin(&instance);
    stage.pass(40).await;
    stage.send_again(&a);
    stage.pass(70).await;
    assert!(stage.action_of(&b).heartbeats.len() >= 3, "{:?}", stage.action_of(&b));
    // The next leader does not remember what was over.
    first.stop().await;
    let second = stage.lead("sundown-1", &[]).await;
    stage.send_again(&a);
    stage.until(150, "the second is completed", || stage.action_of(&b).end.is_some()).await;
    stage.served(&b);
    stage.until(60, "no message is left", || stage.in_queue() == 0).await;
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn an_action_that_follows_one_that_somebody_else_ended_is_kept_alive_and_completed() {
    let stage = Stage::new(902);
    let instance = stage.group(1, 60).remove(0);
    stage.slow_pod(&instance, "slow", 300);
    let sundown = stage.lead("sundown-0", &[]).await;
    let a = stage.begin(&instance);
    stage.pass(40).await;
    assert!(stage.world.aws.complete_as("ops", "asg", "drain", &instance, HookResult::Continue));
    stage.pass(60).await;
    let b = stage.begin(&instance);
    stage
        .until(5, "it joins the drain", || sundown.messages("terminate-hook", "joined") == 1.0)
        .await;
    stage.until(220, "it is completed", || stage.action_of(&b).end.is_some()).await;
    stage.served(&b);
    assert!(stage.action_of(&b).heartbeats.len() >= 5);
    assert_eq!(stage.action_of(&a).end.unwrap().by, "ops");
    stage
        .until(5, "the record is released", || {
            stage.record(&instance).unwrap()["released"].is_object()
        })
        .await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn an_action_that_begins_between_a_completion_and_its_record_is_completed_too() {
    let stage = Stage::new(903);
    let instance = stage.group(1, 60).remove(0);
    stage.slow_pod(&instance, "slow", 20);
    let sundown = stage.lead("sundown-0", &[]).await;
    let a = stage.begin(&instance);
    stage.until(5, "the node is cordoned", || stage.is_cordoned(&instance)).await;
    let stuck = stage.world.kube.inject(Rule::always(Match::of("patch", "nodes"), Fault::Hang));
    stage.until(60, "the first is completed", || stage.action_of(&a).end.is_some()).await;
    stage.pass(3).await;
    let b = stage.begin(&instance);
    stage.pass(20).await;
    stage.world.kube.lift(stuck);
    stage.until(60, "the second is completed", || stage.action_of(&b).end.is_some()).await;
    stage.served(&b);
    stage.until(60, "no message is left", || stage.in_queue() == 0).await;
    stage
        .until(30, "the record is released", || {
            stage.record(&instance).unwrap()["released"].is_object()
        })
        .await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn an_action_that_joins_a_drain_that_has_ended_is_completed_although_the_node_goes_before_the_record_is_read_again()
 {
    let stage = Stage::new(908);
    let instance = stage.group(1, 60).remove(0);
    let sundown = stage.lead("sundown-0", &[]).await;
    let a = stage.begin(&instance);
    stage.until(5, "the node is cordoned", || stage.is_cordoned(&instance)).await;
    // The release cannot be written, and what is in the record by then cannot be read.
    let fails = || Fault::Status {
        code: 500,
        reason: "InternalError".to_owned(),
        message: "etcdserver: request timed out".to_owned(),
        retry_after: None,
    };
    stage.world.kube.inject(Rule::next(1, Match::of("patch", "nodes"), fails()));
    let unreadable = stage.world.kube.inject(Rule::always(Match::of("get", "nodes"), fails()));
    stage.until(60, "the first is completed", || stage.action_of(&a).end.is_some()).await;
    stage.pass(3).await;
    let b = stage.begin(&instance);
    stage.until(5, "it joins", || stage.record(&instance).unwrap().to_string().contains(&b)).await;
    stage.until(5, "its message is deleted", || stage.in_queue() == 0).await;
    stage.world.kube.delete_node(&stage.name_of(&instance));
    stage.until(20, "the second is completed", || stage.action_of(&b).end.is_some()).await;
    stage.world.kube.lift(unreadable);
    stage.pass(30).await;
    stage.served(&a);
    stage.served(&b);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_taken_is_no_action_that_is_over() {
    let stage = Stage::new(904);
    let instance = stage.group(1, 60).remove(0);
    stage.slow_pod(&instance, "slow", 10);
    let sundown = stage.lead("sundown-0", &[]).await;
    let invalid = AwsFault::Invalid(
        "1 validation error detected: Value at 'lifecycleActionResult' failed to satisfy \
         constraint",
    );
    let refused = stage.world.aws.fault(FaultRule::new(COMPLETE, invalid, How::Always));
    stage.world.aws.terminate(&instance, true);
    stage.pass(150).await;
    assert!(
        stage.action(&instance).end.is_none() && stage.action(&instance).heartbeats.len() >= 4,
        "{:?}",
        stage.action(&instance)
    );
    assert!(
        stage.record(&instance).unwrap()["released"].is_null(),
        "nothing is taken for completed"
    );
    let tries = stage.world.aws.count(COMPLETE);
    assert!((5..=40).contains(&tries), "asked on, slowly: {tries}");
    stage.world.aws.end_fault(refused);
    stage.until(30, "it is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_is_not_taken_is_sent_again() {
    let stage = Stage::new(905);
    let instance = stage.group(1, 60).remove(0);
    stage.slow_pod(&instance, "slow", 100);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.fault(FaultRule::new(
        BEAT,
        AwsFault::Invalid("1 validation error detected"),
        How::Times(2),
    ));
    stage.world.aws.terminate(&instance, true);
    stage.until(130, "it is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(sundown.metric("heartbeats_total{result=\"failed\"}"), 2.0);
    assert!(stage.action(&instance).heartbeats.len() >= 2);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_not_taken_is_left_out() {
    let stage = Stage::new(906);
    let instance = stage.group(1, 60).remove(0);
    stage.slow_pod(&instance, "slow", 100);
    let sundown = stage.lead("sundown-0", &[]).await;
    let refused = AwsFault::InvalidToken(
        "1 validation error detected: Value at 'lifecycleActionToken' failed to satisfy constraint",
    );
    stage.world.aws.fault(FaultRule::new(BOTH, refused, How::Always));
    stage.world.aws.terminate(&instance, true);
    stage.until(130, "it is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(sundown.metric("heartbeats_total{result=\"failed\"}"), 1.0, "refused once");
    assert_eq!(sundown.metric("completions_total{result=\"failed\"}"), 0.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn what_is_not_taken_and_has_no_hook_any_more_is_over() {
    let stage = Stage::new(907);
    let instance = stage.group(1, 60).remove(0);
    stage.slow_pod(&instance, "slow", 100);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.begin(&instance);
    stage.pass(10).await;
    // As a group that was deleted is answered for.
    stage.world.aws.remove_hook("asg", "drain");
    stage.world.aws.fault(FaultRule::new(
        BOTH,
        AwsFault::Invalid("AutoScalingGroup name not found"),
        How::Always,
    ));
    stage
        .until(130, "the record is released", || {
            stage.record(&instance).unwrap()["released"].is_object()
        })
        .await;
    assert_eq!(stage.action(&instance).end.unwrap().verdict, Verdict::Removed);
    assert_eq!(sundown.metric("heartbeats_total{result=\"over\"}"), 1.0);
    assert_eq!(stage.world.aws.count(BEAT), 2, "the first was accepted at once");
    sundown.stop().await;
    stage.end();
}
