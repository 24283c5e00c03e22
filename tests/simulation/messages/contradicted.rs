//! Events about lifecycle actions that wait for AWS's first answer, and events that AWS
//! contradicts: somebody made them up.

use std::time::Duration;

use sundown::{
    domain::Moment,
    sim::{
        aws::{EventKind, Fault, FaultRule, HookResult, How, Outcome, SpotAction},
        kube::{Away, BudgetSpec, Fact},
    },
};

use super::bodies;
use crate::harness::{Replica, Stage};

const BEAT: &str = "autoscaling:RecordLifecycleActionHeartbeat";

/// A group of three with a hook of 60 s, with pods, and a service that reads only the queue `in`,
/// into which nothing comes by itself.
async fn with_own_queue(seed: u64, flags: &[&str]) -> (Stage, Replica, Vec<String>) {
    let stage = Stage::new(seed);
    let instances = stage.group(3, 60);
    stage.shop(6);
    let url = stage.queue_for("in", []);
    stage.queue_for("actions", [EventKind::TerminateAction]);
    let flags: Vec<&str> = ["--queue-url", &url].into_iter().chain(flags.iter().copied()).collect();
    let sundown = stage.settled(&flags).await;
    (stage, sundown, instances)
}

/// An event about an action that AWS does not know.
fn make_up(stage: &Stage, instance: &str) -> String {
    let body = bodies::terminate("asg", "drain", instance, &stage.now());
    stage.world.aws.send_event("in", &body);
    body
}

/// The real event of the newest action.
fn send_real(stage: &Stage) {
    stage.world.aws.send_event("in", stage.bodies_in("actions").last().unwrap());
}

fn text(stage: &Stage, instance: &str) -> String {
    stage.node(instance).to_string()
}

/// When replicas first evicted a pod of this node.
fn first_eviction(stage: &Stage, node: &str) -> Option<Moment> {
    let of_it = stage
        .deeds()
        .into_iter()
        .filter(|e| matches!(&e.fact, Fact::Evicted { pod, .. } if pod.node == node));
    of_it.map(|e| e.at).min()
}

fn accepted_at(stage: &Stage, instance: &str) -> Moment {
    let record = stage.record(instance).unwrap();
    record["interruptions"][0]["accepted"].as_str().unwrap().parse().unwrap()
}

fn contradicted(sundown: &Replica) -> f64 {
    sundown.metric("drains_total{end=\"contradicted\"}")
}

#[tokio::test(start_paused = true)]
async fn c82_a_made_up_event_about_an_instance_in_service_evicts_no_pod_and_its_node_is_put_back() {
    let (stage, sundown, instances) = with_own_queue(160, &[]).await;
    let body = make_up(&stage, &instances[0]);
    stage.until(3, "its node is cordoned", || stage.is_cordoned(&instances[0])).await;
    stage.until(20, "its node is put back", || !stage.is_cordoned(&instances[0])).await;
    assert!(!text(&stage, &instances[0]).contains("sundown.dev/interruption"));
    let record = stage.record(&instances[0]).unwrap();
    assert_eq!(record["released"]["outcome"], "contradicted");
    assert_eq!(contradicted(&sundown), 1.0);
    assert!(stage.removals().is_empty(), "{:?}", stage.removals());
    assert_eq!(stage.hook_calls(&instances[0]), 1, "one heartbeat, and no completion");
    let events: Vec<_> = stage.events().into_iter().map(|e| e.reason).collect();
    assert!(events.contains(&"InterruptionContradicted".to_owned()), "{events:?}");
    // A copy changes nothing.
    stage.world.aws.send_event("in", &body);
    stage.until(5, "it is deleted", || stage.bodies_in("in").is_empty()).await;
    assert_eq!(sundown.messages("terminate-hook", "repeat"), 1.0);
    // A real one is drained.
    stage.world.aws.terminate(&instances[0], true);
    send_real(&stage);
    let end = || stage.actions(&instances[0])[0].end.clone();
    stage.until(120, "the real one is completed", || end().is_some()).await;
    assert!(end().unwrap().by.starts_with("sundown"), "{:?}", end());
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_a_person_had_cordoned_stays_so_and_an_empty_one_is_put_back_too() {
    let (stage, sundown, instances) = with_own_queue(161, &[]).await;
    let node = stage.world.node_of(&instances[0]).unwrap();
    stage.world.kube.edit("nodes", "", &node, |node| node["spec"]["unschedulable"] = true.into());
    for pod in stage.world.kube.pods_on(&node) {
        stage.world.kube.delete("pods", &pod.namespace, &pod.name);
    }
    stage.pass(40).await;
    assert!(stage.world.kube.pods_on(&node).is_empty());
    make_up(&stage, &instances[0]);
    stage.until(30, "it is contradicted", || contradicted(&sundown) == 1.0).await;
    stage.pass(2).await;
    assert!(stage.is_cordoned(&instances[0]), "as it was");
    assert!(!text(&stage, &instances[0]).contains("sundown.dev/interruption"));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn the_first_eviction_of_a_real_action_follows_the_first_accepted_heartbeat_at_once() {
    let (stage, sundown, instances) = with_own_queue(162, &[]).await;
    let node = stage.world.node_of(&instances[0]).unwrap();
    stage.world.aws.fault(FaultRule::new(
        BEAT,
        Fault::Latency(Duration::from_millis(700)),
        How::Always,
    ));
    stage.world.aws.terminate(&instances[0], true);
    send_real(&stage);
    stage.until(5, "a pod is evicted", || first_eviction(&stage, &node).is_some()).await;
    let evicted = first_eviction(&stage, &node).unwrap();
    let took = evicted.duration_since(accepted_at(&stage, &instances[0])).as_secs_f64();
    assert!((0.7..1.0).contains(&took), "{took} s after the accept");
    let calls = stage.world.aws.calls();
    let answered = calls.iter().find(|c| c.api == BEAT && c.outcome == Outcome::Ok).unwrap();
    assert!(answered.at <= evicted);
    sundown.stop().await;
    stage.end();
}

/// The heartbeats of an action fail in this way. Its node has a pod that its budget never lets go.
async fn unanswered(seed: u64, fault: Fault) -> (Stage, Replica, String) {
    let (stage, sundown, instances) = with_own_queue(seed, &["--force-after", "0"]).await;
    stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "web").max(0));
    stage.pass(5).await;
    stage.world.aws.fault(FaultRule::new(BEAT, fault, How::Always));
    stage.world.aws.terminate(&instances[0], true);
    send_real(&stage);
    stage.until(3, "its node is cordoned", || stage.is_cordoned(&instances[0])).await;
    (stage, sundown, instances[0].clone())
}

/// When replicas first sent an eviction.
fn first_request(stage: &Stage) -> Option<Moment> {
    let requests = stage.world.kube.requests().into_iter();
    let evictions = requests.filter(|r| r.client.starts_with("sundown"));
    evictions.filter(|r| r.subresource == "eviction").map(|r| r.at).min()
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_pods_are_evicted_after_five_seconds_and_forced_only_near_the_end() {
    for (seed, fault) in [(163, Fault::Hang), (164, Fault::AccessDenied)] {
        let (stage, sundown, instance) = unanswered(seed, fault).await;
        let node = stage.world.node_of(&instance).unwrap();
        let accepted = accepted_at(&stage, &instance);
        stage.until(6, "an eviction is sent", || first_request(&stage).is_some()).await;
        let after = first_request(&stage).unwrap().duration_since(accepted).as_secs_f64();
        assert!((4.9..5.5).contains(&after), "{after} s after the accept");
        // Without `--force-after 0` it would be half of the time; AWS ends the action after 60 s.
        let left = Duration::try_from(
            (accepted + Duration::from_secs(38)).duration_since(stage.clock.now()),
        );
        tokio::time::sleep(left.unwrap()).await;
        assert_eq!(sundown.metric("pods_forced_total"), 0.0);
        stage
            .until(25, "what its budget held is gone before the machine goes", || {
                stage.world.kube.pods_on(&node).is_empty()
            })
            .await;
        assert!(sundown.metric("pods_forced_total") > 0.0);
        assert_eq!(contradicted(&sundown), 0.0);
        stage.world.aws.end_faults();
        sundown.stop().await;
        stage.end();
    }
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_is_accepted_late_lets_the_ordinary_deadline_rule() {
    let (stage, sundown, instance) = unanswered(165, Fault::Throttle).await;
    let node = stage.world.node_of(&instance).unwrap();
    stage.pass(20).await;
    assert_eq!(sundown.metric("pods_forced_total"), 0.0);
    assert!(!stage.world.kube.pods_on(&node).is_empty());
    stage.world.aws.end_faults();
    stage
        .until(20, "a heartbeat is accepted", || !stage.actions(&instance)[0].heartbeats.is_empty())
        .await;
    assert_eq!(contradicted(&sundown), 0.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_spot_notice_ends_the_wait_at_once() {
    let (stage, sundown, instances) = with_own_queue(166, &[]).await;
    let node = stage.world.node_of(&instances[0]).unwrap();
    stage.world.aws.fault(FaultRule::new(BEAT, Fault::Hang, How::Always));
    stage.world.aws.terminate(&instances[0], true);
    send_real(&stage);
    stage.until(3, "its node is cordoned", || stage.is_cordoned(&instances[0])).await;
    assert_eq!(first_eviction(&stage, &node), None);
    stage.world.aws.send_event("in", &bodies::spot(&instances[0], &stage.now()));
    stage.until(2, "a pod is evicted", || first_eviction(&stage, &node).is_some()).await;
    let accepted = accepted_at(&stage, &instances[0]);
    let after = first_eviction(&stage, &node).unwrap().duration_since(accepted).as_secs_f64();
    assert!(after < 4.0, "{after} s after the accept of the action");
    assert_eq!(sundown.messages("spot", "joined"), 1.0);
    stage.world.aws.end_faults();
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_spot_notice_for_a_suspected_node_is_drained_and_not_put_back() {
    // Its deadline is later than that of the action: without a confirmation that counts for nothing.
    let (stage, sundown, instances) = with_own_queue(167, &["--drain-timeout", "60s"]).await;
    let node = stage.world.node_of(&instances[0]).unwrap();
    make_up(&stage, &instances[0]);
    stage.until(3, "its node is cordoned", || stage.is_cordoned(&instances[0])).await;
    stage.pass(8).await;
    assert_eq!(first_eviction(&stage, &node), None, "it is suspected");
    stage.world.aws.spot_interruption(&instances[0], SpotAction::Terminate);
    stage.world.aws.send_event("in", &bodies::spot(&instances[0], &stage.now()));
    stage.until(2, "a pod is evicted", || first_eviction(&stage, &node).is_some()).await;
    stage.until(60, "all go", || stage.world.kube.pods_on(&node).is_empty()).await;
    assert!(stage.is_cordoned(&instances[0]));
    assert_eq!((sundown.messages("spot", "joined"), contradicted(&sundown)), (1.0, 0.0));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_group_that_terminates_the_instance_contradicts_nothing() {
    let (stage, sundown, instances) = with_own_queue(168, &[]).await;
    let node = stage.world.node_of(&instances[0]).unwrap();
    // The action waits, and the event names another token.
    stage.world.aws.terminate(&instances[0], true);
    make_up(&stage, &instances[0]);
    stage.until(5, "its pods are evicted", || first_eviction(&stage, &node).is_some()).await;
    stage.until(60, "all go", || stage.world.kube.pods_on(&node).is_empty()).await;
    assert!(stage.is_cordoned(&instances[0]), "it is not put back");
    assert_eq!(contradicted(&sundown), 0.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_real_event_that_is_older_than_a_made_up_one_joins_its_drain() {
    let (stage, sundown, instances) = with_own_queue(175, &[]).await;
    stage.world.aws.terminate(&instances[0], true);
    // The real event is late.
    stage.pass(20).await;
    make_up(&stage, &instances[0]);
    stage.until(3, "its node is cordoned", || stage.is_cordoned(&instances[0])).await;
    send_real(&stage);
    let joined = || sundown.messages("terminate-hook", "joined");
    stage.until(5, "the real one joins", || joined() == 1.0).await;
    let end = || stage.actions(&instances[0])[0].end.clone();
    stage.until(120, "the real one is completed", || end().is_some()).await;
    assert!(end().unwrap().by.starts_with("sundown"), "{:?}", end());
    assert_eq!(contradicted(&sundown), 0.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_question_without_an_answer_contradicts_nothing() {
    for (seed, api) in [(169, "ec2:*"), (170, "autoscaling:DescribeAutoScalingGroups")] {
        let (stage, sundown, instances) = with_own_queue(seed, &[]).await;
        let node = stage.world.node_of(&instances[0]).unwrap();
        stage.world.aws.fault(FaultRule::new(api, Fault::AccessDenied, How::Always));
        make_up(&stage, &instances[0]);
        stage.until(3, "its node is cordoned", || stage.is_cordoned(&instances[0])).await;
        stage.until(7, "its pods are evicted", || first_eviction(&stage, &node).is_some()).await;
        let accepted = accepted_at(&stage, &instances[0]);
        let after = first_eviction(&stage, &node).unwrap().duration_since(accepted).as_secs_f64();
        assert!(after >= 4.9, "{after} s after the accept");
        stage.pass(90).await;
        assert_eq!(contradicted(&sundown), 0.0);
        stage.world.aws.end_faults();
        sundown.stop().await;
        stage.end();
    }
}

#[tokio::test(start_paused = true)]
async fn an_action_that_somebody_else_completes_contradicts_nothing() {
    let (stage, sundown, instances) = with_own_queue(171, &[]).await;
    let node = stage.world.node_of(&instances[0]).unwrap();
    stage.world.aws.terminate(&instances[0], true);
    assert!(stage.world.aws.complete_as(
        "somebody",
        "asg",
        "drain",
        &instances[0],
        HookResult::Continue
    ));
    send_real(&stage);
    stage.until(5, "its pods are evicted", || first_eviction(&stage, &node).is_some()).await;
    assert_eq!(contradicted(&sundown), 0.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_finishes_what_the_last_one_suspected() {
    let (stage, sundown, instances) = with_own_queue(172, &[]).await;
    make_up(&stage, &instances[0]);
    stage.until(3, "its node is cordoned", || stage.is_cordoned(&instances[0])).await;
    stage.pass(5).await;
    sundown.kill();
    let url = stage.queue_for("in", []);
    let next = stage.start("sundown-1", &["--queue-url", &url]);
    stage.until(60, "its node is put back", || !stage.is_cordoned(&instances[0])).await;
    assert_eq!(contradicted(&next), 1.0);
    assert!(stage.removals().is_empty(), "{:?}", stage.removals());
    next.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_only_cordoned_for_a_made_up_event_is_put_back_although_ec2_is_slow() {
    let (stage, sundown, instances) = with_own_queue(173, &["--on", "terminate-hook=cordon"]).await;
    stage.world.aws.fault(FaultRule::new(
        "ec2:DescribeInstances",
        Fault::Latency(Duration::from_secs(4)),
        How::Always,
    ));
    make_up(&stage, &instances[0]);
    stage.until(3, "its node is cordoned", || stage.is_cordoned(&instances[0])).await;
    stage.until(30, "its node is put back", || !stage.is_cordoned(&instances[0])).await;
    assert_eq!(contradicted(&sundown), 1.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn an_open_action_whose_hook_has_a_later_made_up_one_is_kept_alive_after_an_outage() {
    let (stage, sundown, instances) = with_own_queue(176, &["--drain-timeout", "20m"]).await;
    stage.slow_pod(&instances[0], "slow", 600);
    stage.pass(5).await;
    stage.world.aws.terminate(&instances[0], true);
    stage.pass(2).await;
    make_up(&stage, &instances[0]);
    stage.until(3, "its node is cordoned", || stage.is_cordoned(&instances[0])).await;
    stage.pass(5).await;
    send_real(&stage);
    let joined = || stage.record(&instances[0]).unwrap()["interruptions"].get(1).is_some();
    stage.until(5, "the real one joins", joined).await;
    stage.pass(20).await;
    stage.world.kube.go_away(Away::Refusing);
    stage.until(60, "it no longer leads", || sundown.metric("leader") == 0.0).await;
    stage.world.kube.come_back();
    stage.until(60, "it leads again", || sundown.metric("leader") == 1.0).await;
    stage.pass(450).await;
    assert!(!stage.is_over(&instances[0]), "pods are left: {:?}", stage.action(&instances[0]));
    stage.until(200, "the real one is completed", || stage.is_over(&instances[0])).await;
    stage.completed_once(&instances[0]);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_group_that_does_not_exist_confirms_nothing() {
    let (stage, sundown, instances) = with_own_queue(174, &["--force-after", "0"]).await;
    let node = stage.world.node_of(&instances[0]).unwrap();
    stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "web").max(0));
    stage.pass(5).await;
    let body = bodies::terminate("nobodys", "drain", &instances[0], &stage.now());
    stage.world.aws.send_event("in", &body);
    stage.until(3, "its node is cordoned", || stage.is_cordoned(&instances[0])).await;
    stage.pass(15).await;
    assert!(!stage.world.kube.pods_on(&node).is_empty());
    assert_eq!((sundown.metric("pods_forced_total"), contradicted(&sundown)), (0.0, 0.0));
    sundown.stop().await;
    stage.end_unjudged();
}
