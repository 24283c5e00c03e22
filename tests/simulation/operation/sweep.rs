//! Events that never come: the sweep finds the instances that wait.

use sundown::sim::{
    aws::{
        Call, EventKind, Fault, FaultRule, GroupSpec, HookResult, HookSpec, How, LifecycleState,
        Rule as QueueRule,
    },
    kube::{Fault as KubeFault, Match, NodeSpec, Rule},
};

use super::{BEAT, hook, s};
use crate::{
    harness::{Replica, Stage},
    messages::{bodies, logs::Logs},
};

const DESCRIBE: &str = "autoscaling:DescribeAutoScalingGroups";
/// The sweep is off in other tests.
const ON: &[&str] = &["--sweep-interval", "1m"];
/// The first round comes within a minute, and ten seconds later what it found is looked into.
const FOUND: u64 = 75;

/// The tag by which the sweep finds the groups of this cluster.
fn group(stage: &Stage, name: &str, nodes: usize, hooks: &[HookSpec]) -> Vec<String> {
    let spec = GroupSpec { replace_after: None, ..GroupSpec::new(name, nodes) };
    let tag = format!("kubernetes.io/cluster/{}", stage.world.cluster());
    stage.world.add_group(spec.tag(&tag, "owned"), hooks)
}

/// EventBridge loses every event from now on.
fn lose_events(stage: &Stage) {
    stage.world.aws.lose_events(stage.clock.now() + s(86_400));
}

/// The queue that Sundown reads gets no events any more. Others do.
fn stop_rule(stage: &Stage) {
    stage.world.aws.reroute(QueueRule { enabled: false, ..QueueRule::usual(stage.world.queue()) });
}

fn rounds(stage: &Stage) -> Vec<f64> {
    let begin = stage.world.aws.calls().first().map(|c| c.at).unwrap();
    let of_sweep = |c: &&Call| c.api == DESCRIBE && c.object.is_empty();
    let all = stage.world.aws.calls();
    let mut times: Vec<f64> =
        all.iter().filter(of_sweep).map(|c| c.at.since_or_zero(begin).as_secs_f64()).collect();
    // Two calls a round: one for each tag.
    times.dedup_by(|later, earlier| *later - *earlier < 5.0);
    times
}

fn beats(stage: &Stage, hook: &str) -> usize {
    let of_hook = |c: &&Call| c.api == BEAT && c.object.contains(&format!("/{hook}/"));
    stage.world.aws.calls().iter().filter(of_hook).count()
}

fn found(sundown: &Replica) -> (f64, f64) {
    let outcome =
        |word: &str| sundown.metric(&format!("sweep_decided_total{{outcome=\"{word}\"}}"));
    (sundown.metric("sweep_found_total"), outcome("accepted") + outcome("completed"))
}

#[tokio::test(start_paused = true)]
async fn c85_a_hook_whose_event_is_lost_is_found_drained_and_completed_within_two_minutes() {
    let logs = Logs::keep();
    let stage = Stage::new(2_401);
    let instance = group(&stage, "asg", 2, &[hook("drain", 300)]).remove(0);
    stage.slow_pod(&instance, "web", 5);
    let sundown = stage.lead("sundown-0", ON).await;
    lose_events(&stage);
    stage.world.aws.terminate(&instance, true);
    stage.until(FOUND, "it is accepted", || stage.is_cordoned(&instance)).await;
    let record = stage.record(&instance).unwrap();
    let entry = &record["interruptions"][0];
    assert_eq!(entry["kind"], "terminate-hook");
    assert!(entry["event"].as_str().unwrap().starts_with("sweep:2026-01-05T09:"), "{entry}");
    assert!(entry["token"].is_null(), "{entry}");
    stage.until(20, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(found(&sundown), (1.0, 1.0));
    assert_eq!(logs.with(&["The sweep found", &instance, "hook=drain"]).len(), 1);
    assert_eq!(stage.removals().len(), 1);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_root_volume_whose_event_is_lost_is_found_as_one() {
    let stage = Stage::new(2_402);
    let instance = group(&stage, "asg", 1, &[hook("drain", 300)]).remove(0);
    let sundown = stage.lead("sundown-0", ON).await;
    lose_events(&stage);
    stage.world.aws.other_action("asg", "drain", &instance, &[("Action", "ReplaceRootVolume")]);
    stage.until(FOUND, "it is accepted", || stage.is_cordoned(&instance)).await;
    let record = stage.record(&instance).unwrap();
    assert_eq!(record["interruptions"][0]["kind"], "root-volume");
    stage.until(20, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_waits_for_something_else_when_it_is_checked_is_found_as_that() {
    let stage = Stage::new(2_441);
    let instance = group(&stage, "asg", 1, &[hook("drain", 300)]).remove(0);
    let sundown = stage.lead("sundown-0", ON).await;
    lose_events(&stage);
    stage.world.aws.other_action("asg", "drain", &instance, &[("Action", "ReplaceRootVolume")]);
    let before = rounds(&stage).len();
    stage.until(61, "a round shows it", || rounds(&stage).len() > before).await;
    stage.pass(2).await;
    let aws = &stage.world.aws;
    assert!(aws.complete_as("others", "asg", "drain", &instance, HookResult::Continue));
    aws.terminate(&instance, true);
    stage.until(15, "it is accepted", || stage.is_cordoned(&instance)).await;
    let record = stage.record(&instance).unwrap();
    assert_eq!(record["interruptions"][0]["kind"], "terminate-hook", "{record}");
    stage.until(20, "the action is completed", || stage.is_over(&instance)).await;
    let end = stage.actions(&instance)[1].end.clone().unwrap();
    assert!(end.by.starts_with("sundown"), "{end:?}");
    sundown.stop().await;
    stage.end_unjudged();
}

/// What AWS answers about a hook that has not opened yet, or by mistake.
const NOT_ACTIVE: Fault =
    Fault::Invalid("No active Lifecycle Action found with instance ID i-00000000000000001");

#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_aws_refused_once_is_tried_again_a_minute_later() {
    let stage = Stage::new(2_414);
    let instance = group(&stage, "asg", 1, &[hook("drain", 300)]).remove(0);
    let sundown = stage.lead("sundown-0", ON).await;
    lose_events(&stage);
    stage.world.aws.terminate(&instance, true);
    stage.world.aws.fault(FaultRule::new(BEAT, NOT_ACTIVE, How::Times(1)));
    stage.until(FOUND, "AWS is asked", || stage.world.aws.count(BEAT) == 1).await;
    assert_eq!(found(&sundown), (0.0, 0.0), "nothing shows that an event was lost");
    stage.until(62, "it is accepted", || stage.is_cordoned(&instance)).await;
    stage.until(20, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(found(&sundown), (1.0, 1.0));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn the_event_of_an_action_for_which_a_heartbeat_was_refused_counts() {
    let stage = Stage::new(2_415);
    let instance = group(&stage, "asg", 1, &[hook("drain", 300)]).remove(0);
    stage.queue_for("late", [EventKind::TerminateAction]);
    let sundown = stage.lead("sundown-0", ON).await;
    stop_rule(&stage);
    stage.world.aws.terminate(&instance, true);
    stage.world.aws.fault(FaultRule::new(BEAT, NOT_ACTIVE, How::Times(1)));
    let stale = || sundown.metric("sweep_decided_total{outcome=\"stale\"}");
    stage.until(FOUND, "the heartbeat is refused", || stale() == 1.0).await;
    let event = stage.bodies_in("late").remove(0);
    stage.world.aws.send_event(stage.world.queue(), &event);
    stage.until(10, "it is accepted", || stage.is_cordoned(&instance)).await;
    stage.until(20, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(found(&sundown), (0.0, 0.0));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_later_wait_of_an_instance_whose_hook_we_completed_is_found() {
    let stage = Stage::new(2_416);
    let instance = group(&stage, "asg", 1, &[hook("drain", 300)]).remove(0);
    let sundown = stage.lead("sundown-0", ON).await;
    stage.world.aws.other_action("asg", "drain", &instance, &[("Action", "ReplaceRootVolume")]);
    stage.until(30, "the first is completed", || stage.is_over(&instance)).await;
    stage.pass(300).await;
    lose_events(&stage);
    stage.world.aws.terminate(&instance, true);
    let both_are_over = || stage.actions(&instance).len() == 2 && stage.is_over(&instance);
    stage.until(FOUND + 20, "the second is completed", both_are_over).await;
    stage.completed_once(&instance);
    assert_eq!(found(&sundown), (1.0, 1.0));
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_something_else_that_begins_before_the_first_round_of_a_leader_is_found() {
    let stage = Stage::new(2_438);
    let instance = group(&stage, "asg", 1, &[hook("drain", 300)]).remove(0);
    let sundown = stage.lead("sundown-0", ON).await;
    stage.world.aws.other_action("asg", "drain", &instance, &[("Action", "ReplaceRootVolume")]);
    stage.until(30, "the first is completed", || stage.is_over(&instance)).await;
    assert!(rounds(&stage).is_empty(), "no round has shown the instance without a wait");
    lose_events(&stage);
    stage.world.aws.terminate(&instance, true);
    let both_are_over = || stage.actions(&instance).len() == 2 && stage.is_over(&instance);
    stage.until(FOUND + 20, "the second is completed", both_are_over).await;
    stage.completed_once(&instance);
    assert_eq!(found(&sundown), (1.0, 1.0));
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn a_wait_in_the_same_state_after_a_time_in_service_between_two_rounds_is_found() {
    let stage = Stage::new(2_444);
    let hooks = [hook("drain", 300), hook("Terminate-LC-Hook", 900)];
    let instance = group(&stage, "asg", 1, &hooks).remove(0);
    let sundown = stage.lead("sundown-0", ON).await;
    lose_events(&stage);
    let aws = &stage.world.aws;
    aws.return_to_warm_pool(&instance);
    let are_over = |count: usize| {
        let of_drain = stage.actions(&instance).into_iter().filter(|a| a.hook == "drain");
        of_drain.filter(|action| action.end.is_some()).count() == count
    };
    stage.until(FOUND + 20, "the first is completed", || are_over(1)).await;
    let before = rounds(&stage).len();
    stage.until(61, "it still waits in the hook of others", || rounds(&stage).len() > before).await;
    stage.pass(2).await;
    // No round is answered while it is in service.
    let fault = FaultRule::new(DESCRIBE, Fault::Unavailable, How::Always).about("");
    let fault = aws.fault(fault);
    assert!(aws.complete_as("others", "asg", "Terminate-LC-Hook", &instance, HookResult::Continue));
    aws.leave_warm_pool(&instance);
    let looks = || aws.calls().iter().filter(|c| c.api == DESCRIBE && c.object == "asg").count();
    let looked = looks();
    stage.until(75, "it is seen in service", || looks() > looked).await;
    aws.return_to_warm_pool(&instance);
    aws.end_fault(fault);
    stage.until(FOUND + 20, "the second is completed", || are_over(2)).await;
    let last = stage.actions(&instance).into_iter().rfind(|a| a.hook == "drain");
    let end = last.and_then(|action| action.end).unwrap();
    assert!(end.by.starts_with("sundown"), "{end:?}");
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_found_although_the_record_names_an_action_of_its_hook_that_was_made_up() {
    let stage = Stage::new(2_437);
    let instance = group(&stage, "asg", 1, &[hook("drain", 300)]).remove(0);
    stage.slow_pod(&instance, "web", 120);
    let sundown = stage.lead("sundown-0", ON).await;
    lose_events(&stage);
    stage.world.aws.terminate(&instance, true);
    let made_up = bodies::terminate("asg", "drain", &instance, &stage.now());
    stage.world.aws.send_event(stage.world.queue(), &made_up);
    stage.until(10, "the made-up action is accepted", || stage.is_cordoned(&instance)).await;
    let joined = || sundown.metric("sweep_decided_total{outcome=\"joined\"}");
    stage.until(FOUND, "the real one joins it", || joined() == 1.0).await;
    let record = stage.record(&instance).unwrap();
    assert!(record["interruptions"][0]["token"].is_string(), "{record}");
    assert!(record["interruptions"][1]["token"].is_null(), "{record}");
    stage.until(140, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(sundown.metric("sweep_found_total"), 1.0);
    stage.pass(700).await;
    assert_eq!(stage.action(&instance).late_calls, []);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_instance_is_found_although_the_record_names_the_action_of_its_root_volume() {
    let stage = Stage::new(2_439);
    let instance = group(&stage, "asg", 1, &[hook("drain", 300)]).remove(0);
    stage.slow_pod(&instance, "web", 200);
    let sundown = stage.lead("sundown-0", ON).await;
    stage.world.aws.replace_root_volume(&instance);
    stage.until(20, "the root volume is accepted", || stage.is_cordoned(&instance)).await;
    lose_events(&stage);
    stage.world.aws.terminate(&instance, true);
    // Only the next heartbeat of the first action shows that it is over.
    let joined = || sundown.metric("sweep_decided_total{outcome=\"joined\"}");
    stage.until(190, "the second action joins", || joined() == 1.0).await;
    let record = stage.record(&instance).unwrap();
    assert_eq!(record["interruptions"][0]["kind"], "root-volume", "{record}");
    assert_eq!(record["interruptions"][1]["kind"], "terminate-hook", "{record}");
    let both_are_over = || stage.actions(&instance).len() == 2 && stage.is_over(&instance);
    stage.until(180, "the second action is completed", both_are_over).await;
    let end = stage.actions(&instance)[1].end.clone().unwrap();
    assert!(end.by.starts_with("sundown"), "{end:?}");
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn the_token_of_a_made_up_event_does_not_end_what_the_sweep_found() {
    // The completion or, before it, a heartbeat finds out that the token is wrong.
    for (seed, stop) in [(2_442, 30), (2_443, 400)] {
        let stage = Stage::new(seed);
        let instance = group(&stage, "asg", 1, &[hook("drain", 300)]).remove(0);
        stage.slow_pod(&instance, "web", stop);
        let sundown = stage.lead("sundown-0", ON).await;
        lose_events(&stage);
        stage.world.aws.terminate(&instance, true);
        let made_up = bodies::terminate("asg", "drain", &instance, &stage.now());
        stage.until(FOUND, "it is accepted", || stage.is_cordoned(&instance)).await;
        stage.world.aws.send_event(stage.world.queue(), &made_up);
        let repeats = || sundown.messages("terminate-hook", "repeat");
        stage.until(10, "it counts as the late event", || repeats() == 1.0).await;
        stage.until(stop + 10, "the action is completed", || stage.is_over(&instance)).await;
        stage.completed_once(&instance);
        stage.pass(60).await;
        assert_eq!(stage.action(&instance).late_calls, []);
        sundown.stop().await;
        stage.end();
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_comes_while_aws_answers_that_nothing_is_open_yet_gets_heartbeats() {
    let stage = Stage::new(2_450);
    let instance = group(&stage, "asg", 1, &[hook("drain", 60)]).remove(0);
    stage.slow_pod(&instance, "web", 200);
    stage.queue_for("late", [EventKind::TerminateAction]);
    let sundown = stage.lead("sundown-0", ON).await;
    stop_rule(&stage);
    for fault in [Fault::Latency(std::time::Duration::from_millis(900)), NOT_ACTIVE] {
        stage.world.aws.fault(FaultRule::new(BEAT, fault, How::Times(1)));
    }
    stage.world.aws.terminate(&instance, true);
    let is_asked = || stage.world.aws.disturbances().iter().any(|call| call.what == BEAT);
    stage.until(FOUND, "AWS is asked whether it waits", is_asked).await;
    let event = stage.bodies_in("late").remove(0);
    stage.world.aws.send_event(stage.world.queue(), &event);
    stage.until(10, "it is accepted", || stage.is_cordoned(&instance)).await;
    stage.pass(150).await;
    assert!(!stage.is_over(&instance), "pods are left: {:?}", stage.action(&instance));
    stage.until(60, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn while_aws_does_not_answer_it_is_asked_again_every_minute() {
    let stage = Stage::new(2_417);
    let instance = group(&stage, "asg", 1, &[hook("drain", 1_800)]).remove(0);
    let sundown = stage.lead("sundown-0", ON).await;
    lose_events(&stage);
    let throttled = stage.world.aws.fault(FaultRule::new(BEAT, Fault::Throttle, How::Always));
    stage.world.aws.terminate(&instance, true);
    stage.pass(600).await;
    assert!(!stage.is_cordoned(&instance));
    stage.world.aws.end_fault(throttled);
    stage.until(60, "it is accepted", || stage.is_cordoned(&instance)).await;
    stage.until(20, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(found(&sundown), (1.0, 1.0));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_aws_does_not_answer_for_holds_up_no_other_one() {
    let stage = Stage::new(2_418);
    let hooks = [hook("sundown-a", 600), hook("sundown-b", 600)];
    let instance = group(&stage, "asg", 1, &hooks).remove(0);
    let sundown = stage.lead("sundown-0", ON).await;
    lose_events(&stage);
    let hangs = FaultRule::new(BEAT, Fault::Hang, How::Always).about("*/sundown-a/*");
    let hangs = stage.world.aws.fault(hangs);
    stage.world.aws.terminate(&instance, true);
    stage.until(FOUND, "the other one is accepted", || stage.is_cordoned(&instance)).await;
    let event = || {
        let record = stage.record(&instance).unwrap();
        record["interruptions"][0]["event"].as_str().unwrap().to_owned()
    };
    assert!(event().ends_with(":sundown-b"), "{}", event());
    stage.world.aws.end_fault(hangs);
    stage.until(120, "both are completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(found(&sundown), (2.0, 2.0));
    assert!(event().ends_with(":sundown-a"), "{}", event());
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_ignored_is_not_swept() {
    let stage = Stage::new(2_419);
    let instance = group(&stage, "asg", 1, &[hook("drain", 300)]).remove(0);
    let flags = [ON, &["--on", "terminate-hook=ignore"]].concat();
    let sundown = stage.lead("sundown-0", &flags).await;
    lose_events(&stage);
    stage.world.aws.terminate(&instance, true);
    stage.pass(250).await;
    assert_eq!(stage.world.aws.count(BEAT), 0);
    assert_eq!(sundown.metric("sweep_decided_total{outcome=\"not_acted_on\"}"), 0.0);
    assert!(sundown.metric("sweep_calls_total") > 0.0, "root volumes are swept");
    assert!(!stage.is_cordoned(&instance));
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn what_the_sweep_finds_has_the_settings_of_its_hook() {
    let stage = Stage::new(2_422);
    let metadata = Some(r#"{"sundown":{"drain-timeout":"10m"}}"#.to_owned());
    let instance = group(&stage, "asg", 1, &[HookSpec { metadata, ..hook("drain", 300) }]);
    let sundown = stage.lead("sundown-0", ON).await;
    lose_events(&stage);
    stage.world.aws.terminate(&instance[0], true);
    stage.until(FOUND, "it is accepted", || stage.is_cordoned(&instance[0])).await;
    let record = stage.record(&instance[0]).unwrap();
    assert_eq!(record["interruptions"][0]["settings"]["drain-timeout"], "10m");
    stage.until(20, "the action is completed", || stage.is_over(&instance[0])).await;
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn rounds_that_fail_in_a_row_are_logged_once() {
    let logs = Logs::keep();
    let stage = Stage::new(2_420);
    group(&stage, "asg", 1, &[hook("drain", 300)]);
    stage.world.aws.fault(FaultRule::new(DESCRIBE, Fault::Unavailable, How::Always));
    let sundown = stage.lead("sundown-0", ON).await;
    stage.pass(900).await;
    assert_eq!(logs.with(&["WARN", "Several rounds of the sweep in a row"]).len(), 1);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn what_the_sweep_only_asks_about_gets_no_heartbeat_once_nobody_leads() {
    let stage = Stage::new(2_421);
    let instance = group(&stage, "asg", 1, &[hook("drain", 1_800)]).remove(0);
    let sundown = stage.lead("sundown-0", ON).await;
    lose_events(&stage);
    stage.world.aws.fault(FaultRule::new(BEAT, Fault::Throttle, How::Always));
    stage.world.aws.terminate(&instance, true);
    stage.until(FOUND, "AWS is asked", || stage.world.aws.count(BEAT) > 0).await;
    let cut = Match { client: Some("sundown-0".to_owned()), ..Match::all() };
    let cut_off = stage.world.kube.inject(Rule::always(cut, KubeFault::Hang));
    stage.until(60, "it leads no longer", || sundown.metric("leader") == 0.0).await;
    stage.pass(10).await;
    let beats = stage.world.aws.count(BEAT);
    stage.pass(300).await;
    assert_eq!(stage.world.aws.count(BEAT), beats);
    stage.world.kube.lift(cut_off);
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn c85_the_event_that_comes_late_joins_what_the_sweep_found() {
    let stage = Stage::new(2_403);
    let instance = group(&stage, "asg", 1, &[hook("drain", 300)]).remove(0);
    stage.slow_pod(&instance, "web", 120);
    stage.queue_for("late", [EventKind::TerminateAction]);
    let sundown = stage.lead("sundown-0", ON).await;
    stop_rule(&stage);
    stage.world.aws.terminate(&instance, true);
    stage.until(FOUND, "it is accepted", || stage.is_cordoned(&instance)).await;
    let before = stage.record(&instance).unwrap();
    let event = stage.bodies_in("late").remove(0);
    for _ in 0..2 {
        stage.world.aws.send_event(stage.world.queue(), &event);
    }
    let repeats = || sundown.messages("terminate-hook", "repeat");
    stage.until(30, "the event and its copy are known", || repeats() == 2.0).await;
    assert_eq!(stage.record(&instance).unwrap(), before, "no second entry");
    stage.until(160, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(found(&sundown), (1.0, 1.0));
    stage.pass(700).await;
    assert_eq!(stage.action(&instance).late_calls, []);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c85_an_instance_that_waits_only_in_the_hook_of_others_is_left_alone() {
    let stage = Stage::new(2_404);
    let hooks = [hook("Terminate-LC-Hook", 1800), hook("sundown", 300)];
    let instances = group(&stage, "asg", 2, &hooks);
    let sundown = stage.lead("sundown-0", ON).await;
    // Ours is completed, and the other one still waits.
    stage.world.aws.terminate(&instances[0], true);
    let ours_is_over =
        || stage.actions(&instances[0]).iter().any(|a| a.hook == "sundown" && a.end.is_some());
    stage.until(30, "ours is completed", ours_is_over).await;
    stage.pass(900).await;
    assert_eq!(beats(&stage, "Terminate-LC-Hook"), 0);
    let ours = stage.actions(&instances[0]).into_iter().find(|a| a.hook == "sundown").unwrap();
    assert_eq!(ours.late_calls, [], "it is known to be over");
    assert_eq!(found(&sundown), (0.0, 0.0));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_group_without_a_hook_of_ours_costs_no_heartbeat() {
    let stage = Stage::new(2_405);
    let instances = group(&stage, "asg", 1, &[hook("Terminate-LC-Hook", 1800)]);
    let sundown = stage.lead("sundown-0", ON).await;
    lose_events(&stage);
    stage.world.aws.terminate(&instances[0], true);
    stage.pass(900).await;
    assert_eq!(stage.world.aws.count(BEAT), 0);
    assert!(!stage.is_cordoned(&instances[0]));
    let state = stage.world.aws.members("asg").remove(0).state;
    assert_eq!(state, LifecycleState::TerminatingWait);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn what_a_record_or_a_message_names_is_not_looked_into() {
    let stage = Stage::new(2_406);
    let instance = group(&stage, "asg", 1, &[hook("drain", 300)]).remove(0);
    stage.slow_pod(&instance, "web", 1_000);
    let sundown = stage.lead("sundown-0", ON).await;
    stage.world.aws.terminate(&instance, true);
    stage.until(10, "it is accepted", || stage.is_cordoned(&instance)).await;
    stage.pass(600).await;
    assert_eq!(found(&sundown), (0.0, 0.0));
    // A new leader knows it by its record.
    sundown.kill();
    let second = stage.lead("sundown-1", ON).await;
    stage.until(900, "the action is completed", || stage.is_over(&instance)).await;
    assert_eq!(found(&second), (0.0, 0.0));
    stage.completed_once(&instance);
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn rounds_become_rarer_while_aws_throttles_and_come_every_minute_again() {
    let stage = Stage::new(2_407);
    group(&stage, "asg", 1, &[hook("drain", 300)]);
    let throttled = stage.world.aws.fault(FaultRule::new(DESCRIBE, Fault::Throttle, How::Always));
    let sundown = stage.lead("sundown-0", ON).await;
    let of = |result: &str| sundown.metric(&format!("sweeps_total{{result=\"{result}\"}}"));
    stage.pass(3_600).await;
    // After 1, 2, 4, 8 minutes and then every 10, each shortened by up to a quarter.
    assert!((6.0..=10.0).contains(&of("throttled")), "{:?}", rounds(&stage));
    stage.world.aws.end_fault(throttled);
    stage.until(610, "a round is answered", || of("answered") == 1.0).await;
    stage.pass(610).await;
    assert!((10.0..=14.0).contains(&of("answered")), "{}", of("answered"));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c85_only_the_leader_sweeps_and_the_next_one_finds_what_waits() {
    let stage = Stage::new(2_408);
    let instance = group(&stage, "asg", 1, &[hook("drain", 600)]).remove(0);
    let first = stage.lead("sundown-0", ON).await;
    let second = stage.start("sundown-1", ON);
    stage.until(10, "the standby is ready", || second.readiness.missing().is_empty()).await;
    stage.pass(300).await;
    assert_eq!(second.metric("sweep_calls_total"), 0.0);
    lose_events(&stage);
    stage.world.aws.terminate(&instance, true);
    first.kill();
    stage.until(30 + FOUND, "the new leader accepts it", || stage.is_cordoned(&instance)).await;
    stage.until(20, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(found(&second), (1.0, 1.0));
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_and_a_service_without_a_cluster_name_do_not_sweep() {
    for flags in [&["--dry-run"] as &[_], &[crate::harness::NO_CLUSTER_NAME]] {
        let stage = Stage::new(2_409);
        let instance = group(&stage, "asg", 1, &[hook("drain", 300)]).remove(0);
        let all: Vec<&str> = flags.iter().chain(ON).copied().collect();
        let sundown = stage.start("sundown-0", &all);
        stage.pass(30).await;
        lose_events(&stage);
        stage.world.aws.terminate(&instance, true);
        stage.pass(200).await;
        assert_eq!(stage.world.aws.count(DESCRIBE), 0, "{flags:?}");
        assert_eq!(stage.world.aws.count(BEAT), 0, "{flags:?}");
        sundown.stop().await;
        stage.end_unjudged();
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_without_a_node_is_completed_once_it_cannot_join() {
    let stage = Stage::new(2_410);
    let instance = group(&stage, "asg", 1, &[hook("drain", 300)]).remove(0);
    let sundown = stage.lead("sundown-0", ON).await;
    lose_events(&stage);
    let node = stage.world.node_of(&instance).unwrap();
    stage.world.aws.terminate(&instance, true);
    stage.world.kube.delete("nodes", "", &node);
    stage.until(FOUND + 60, "the action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(found(&sundown), (1.0, 1.0));
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn the_late_event_of_a_completed_action_costs_no_call() {
    let stage = Stage::new(2_412);
    let instance = group(&stage, "asg", 1, &[hook("drain", 300)]).remove(0);
    let sundown = stage.lead("sundown-0", ON).await;
    let node = stage.world.node_of(&instance).unwrap();
    stage.queue_for("late", [EventKind::TerminateAction]);
    stop_rule(&stage);
    stage.world.kube.delete("nodes", "", &node);
    stage.world.aws.terminate_in_ec2(&instance);
    stage.until(400, "the action is completed", || stage.is_over(&instance)).await;
    let calls = stage.world.aws.count(BEAT);
    let event = stage.bodies_in("late").remove(0);
    stage.world.aws.send_event(stage.world.queue(), &event);
    stage.until(30, "it is deleted", || stage.in_queue() == 0).await;
    stage.pass(60).await;
    assert_eq!(stage.world.aws.count(BEAT), calls);
    stage.completed_once(&instance);
    assert_eq!(found(&sundown), (1.0, 1.0));
    sundown.stop().await;
    stage.end_unjudged();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_sundown_must_leave_alone_gets_no_heartbeat() {
    let stage = Stage::new(2_411);
    let instance = group(&stage, "asg", 1, &[hook("drain", 300)]).remove(0);
    stage.annotate(&instance, "sundown.dev/ignore", Some("true"));
    let sundown = stage.lead("sundown-0", ON).await;
    lose_events(&stage);
    stage.world.aws.terminate(&instance, true);
    stage.pass(250).await;
    assert_eq!(stage.world.aws.count(BEAT), 0);
    assert_eq!(sundown.metric("sweep_found_total"), 0.0);
    assert!(!stage.is_cordoned(&instance));
    sundown.stop().await;
    stage.end_unjudged();
}

/// The cost that docs/interruptions.md states.
#[tokio::test(start_paused = true)]
async fn with_100_groups_of_50_instances_a_round_costs_two_calls() {
    let stage = Stage::new(2_413);
    for n in 0..100 {
        let tag = format!("kubernetes.io/cluster/{}", stage.world.cluster());
        let spec = GroupSpec { replace_after: None, ..GroupSpec::new(&format!("asg-{n}"), 50) };
        let spec = spec.tag(&tag, "owned").tag("eks:cluster-name", stage.world.cluster());
        stage.world.aws.create_group(spec);
    }
    let sundown = stage.lead("sundown-0", ON).await;
    stage.pass(600).await;
    let (calls, rounds) =
        (sundown.metric("sweep_calls_total"), sundown.metric("sweeps_total{result=\"answered\"}"));
    assert_eq!(calls, 2.0 * rounds);
    assert!((10.0..=14.0).contains(&rounds), "{rounds}");
    assert_eq!(stage.world.aws.count(DESCRIBE) as f64, calls);
    sundown.stop().await;
    stage.end();
}

/// A group with a launch hook of ours, and an instance that is being launched and has no Node yet.
async fn launching(stage: &Stage, hooks: &[HookSpec]) -> String {
    group(stage, "asg", 1, hooks);
    let instance = stage.world.aws.launch("asg").unwrap();
    stage.world.keep_out(&instance);
    stage.until(60, "its launch hook is open", || !stage.actions(&instance).is_empty()).await;
    instance
}

fn launch_hook(name: &str) -> HookSpec {
    HookSpec::launching(name).heartbeat_timeout(s(300))
}

fn join(stage: &Stage, instance: &str) {
    let dns = stage.world.aws.instance(instance).unwrap().private_dns;
    stage.world.kube.add_node(&NodeSpec::named(dns).instance(instance));
}

#[tokio::test(start_paused = true)]
async fn c85_a_launch_hook_whose_event_is_lost_is_kept_open_until_the_node_is_ready() {
    let stage = Stage::new(2_430);
    let sundown = stage.lead("sundown-0", ON).await;
    lose_events(&stage);
    let instance = launching(&stage, &[launch_hook("sundown-launch")]).await;
    stage.until(FOUND, "it is found", || sundown.metric("sweep_found_total") == 1.0).await;
    stage.pass(60).await;
    assert!(!stage.is_over(&instance), "it has no Node");
    join(&stage, &instance);
    stage.until(20, "it is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(sundown.metric("sweep_decided_total{outcome=\"launch_answered\"}"), 1.0);
    assert!(!stage.is_cordoned(&instance));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn the_launch_timeout_of_a_launch_that_the_sweep_found_counts_from_the_launch_time() {
    let stage = Stage::new(2_431);
    let sundown = stage.lead("sundown-0", &[ON, &["--launch-timeout=3m"]].concat()).await;
    lose_events(&stage);
    let instance = launching(&stage, &[launch_hook("sundown-launch")]).await;
    let launched = stage.world.aws.instance(&instance).unwrap().launched;
    stage.until(200, "it is completed", || stage.is_over(&instance)).await;
    let end = stage.action(&instance).end.unwrap();
    let took = end.at.since_or_zero(launched).as_secs();
    assert!((178..=185).contains(&took), "{took} s");
    assert_eq!(sundown.metric("sweep_decided_total{outcome=\"launch_timed_out\"}"), 1.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn the_event_of_a_launch_that_the_sweep_found_adds_its_token_and_no_second_action() {
    let stage = Stage::new(2_432);
    stage.queue_for("late", [EventKind::LaunchAction]);
    let sundown = stage.lead("sundown-0", ON).await;
    stop_rule(&stage);
    let instance = launching(&stage, &[launch_hook("sundown-launch")]).await;
    stage.until(FOUND, "it is found", || sundown.metric("sweep_found_total") == 1.0).await;
    let event = stage.bodies_in("late").remove(0);
    stage.world.aws.send_event(stage.world.queue(), &event);
    stage.pass(30).await;
    assert_eq!(sundown.metric("open_actions"), 1.0);
    join(&stage, &instance);
    stage.until(20, "it is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    stage.until(10, "the message is deleted", || stage.in_queue() == 0).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_launch_hook_of_others_or_one_that_is_ignored_gets_no_heartbeat_from_the_sweep() {
    for (seed, name, flags) in [
        (2_433, "Launch-LC-Hook", &[][..]),
        (2_437, "boot", &[][..]),
        (2_434, "sundown-launch", &["--on", "launch-hook=ignore"][..]),
    ] {
        let stage = Stage::new(seed);
        let sundown = stage.lead("sundown-0", &[ON, flags].concat()).await;
        lose_events(&stage);
        let instance = launching(&stage, &[launch_hook(name)]).await;
        stage.pass(200).await;
        assert_eq!(stage.world.aws.count(BEAT), 0, "{name}");
        assert!(!stage.is_over(&instance), "{name}");
        sundown.stop().await;
        stage.end_unjudged();
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_leader_finds_a_launch_again_whose_event_is_lost() {
    let stage = Stage::new(2_435);
    let first = stage.lead("sundown-0", ON).await;
    let second = stage.start("sundown-1", ON);
    lose_events(&stage);
    let instance = launching(&stage, &[launch_hook("sundown-launch")]).await;
    stage.until(FOUND, "it is found", || first.metric("sweep_found_total") == 1.0).await;
    first.kill();
    join(&stage, &instance);
    stage.until(130, "it is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_the_sweep_finds_undoes_no_spot_drain() {
    for (seed, slow, is_led_by_another) in
        [(2_438, true, false), (2_439, false, false), (2_440, true, true), (2_441, false, true)]
    {
        let stage = Stage::new(seed);
        // The launch hook stays open: this DaemonSet never has a pod on the node.
        let flags = [ON, &["--launch-daemonset=kube-system/cni"]].concat();
        let old = stage.lead("sundown-0", &flags).await;
        let new = stage.start("sundown-1", &flags);
        lose_events(&stage);
        let instance = launching(&stage, &[launch_hook("sundown-launch")]).await;
        join(&stage, &instance);
        stage.pass(5).await;
        if slow {
            stage.slow_pod(&instance, "slow", 300);
        }
        stage.send(&bodies::spot(&instance, &stage.now()));
        stage.until(10, "it is cordoned", || stage.is_cordoned(&instance)).await;
        stage.pass(3).await;
        let leader = if is_led_by_another {
            old.kill();
            new
        } else {
            new.kill();
            old
        };
        for _ in 0..110 {
            stage.pass(1).await;
            assert!(stage.is_cordoned(&instance), "{seed}: the spot notice holds");
        }
        assert_eq!(leader.metric("sweep_found_total"), 1.0, "{seed}");
        leader.stop().await;
        stage.end_unjudged();
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_ec2_shuts_down_without_an_event_is_taken_on_as_a_state_change() {
    let stage = Stage::new(2_436);
    let instances = group(&stage, "asg", 6, &[]);
    let sundown = stage.lead("sundown-0", &["--sweep-interval", "30s"]).await;
    lose_events(&stage);
    let all = instances.iter().take(4);
    for instance in all.clone() {
        stage.world.kube.kubelet_lost(&stage.world.node_of(instance).unwrap());
    }
    stage.pass(60).await;
    assert!(all.clone().all(|instance| !stage.is_cordoned(instance)), "EC2 says running");
    // A shutdown takes 20 s, and a round comes every 22 to 30 s.
    let mut found = Vec::new();
    for instance in all {
        stage.world.aws.terminate_in_ec2(instance);
        for _ in 0..8 {
            stage.pass(1).await;
            found.extend(
                instances.iter().filter(|i| stage.is_cordoned(i)).filter_map(|i| stage.record(i)),
            );
        }
    }
    let entry = found.first().expect("a round saw one of them")["interruptions"][0].clone();
    assert_eq!(
        (&entry["kind"], &entry["state"]),
        (&"state-change".into(), &"shutting-down".into())
    );
    assert!(entry["event"].as_str().unwrap().starts_with("sweep:"), "{entry}");
    assert!(sundown.metric("sweep_decided_total{outcome=\"accepted\"}") >= 1.0);
    let asked = stage.world.aws.count("ec2:DescribeInstances");
    assert!(asked <= 8, "one call a round for all Nodes that are not Ready: {asked}");
    stage.pass(60).await;
    sundown.stop().await;
    stage.end();
}
