//! A leader that begins with an index whose watch has been dead without a sign of it.

use std::time::Duration;

use serde_json::Value;
use sundown::sim::{
    Disturbance,
    aws::{Call, Fault as AwsFault, FaultRule, How},
    kube::{Fact, Fault, Match, NodeSpec, PodShape, PodSpec, Rule},
};

use super::{hook, leaders::follow, s};
use crate::{
    harness::{Replica, Stage},
    judge,
    messages::logs::Logs,
};

const RECORD: &str = "sundown.dev/record";
const TAINT: &str = "sundown.dev/interruption";
const COMPLETE: &str = "autoscaling:CompleteLifecycleAction";

/// A leader `sundown-0` and a standby `sundown-1` that knows all nodes.
pub(super) async fn two(stage: &Stage) -> (Replica, Replica) {
    let first = stage.lead("sundown-0", &[]).await;
    let second = stage.start("sundown-1", &[]);
    stage.until(10, "the standby is ready", || second.readiness.missing().is_empty()).await;
    stage.pass(2).await;
    (first, second)
}

/// The standby's watch of Nodes stays open, and shows nothing any more.
fn silence(stage: &Stage) {
    stage.world.kube.silence_watches(&Match::of("watch", "nodes").from("sundown-1"));
}

/// What a replica wrote to pods and Nodes, as verb and resource.
fn written_by(stage: &Stage, replica: &str) -> Vec<String> {
    let by = |r: &sundown::sim::kube::Request| {
        r.client == replica && r.is_write() && ["pods", "nodes"].contains(&r.resource.as_str())
    };
    stage
        .world
        .kube
        .requests()
        .iter()
        .filter(|r| by(r))
        .map(|r| format!("{} {}/{}", r.verb, r.resource, r.subresource))
        .collect()
}

/// What a new leader does with a node that the last leader put back while the new one's watch of
/// Nodes was silent: nothing. The watch is opened anew at the beginning of the term, so that it
/// `shows` the node as it is, or it stays dead.
async fn a_node_was_put_back_unseen(seed: u64, shows: bool) {
    let stage = Stage::new(seed);
    let instance = stage.spot_group(2).remove(0);
    stage.blocked_pod(&instance, "web", 30);
    let (first, second) = two(&stage).await;
    stage.spot_warning(&instance, "spot-1");
    stage.until(5, "it is accepted", || stage.is_cordoned(&instance)).await;
    stage.pass(2).await;
    silence(&stage);
    if !shows {
        stage
            .world
            .kube
            .inject(Rule::always(Match::of("watch", "nodes").from("sundown-1"), Fault::Hang));
    }
    stage.annotate(&instance, "sundown.dev/release", Some("true"));
    stage.until(10, "it is put back", || !stage.is_cordoned(&instance)).await;
    assert!(
        stage.world.kube.delete("poddisruptionbudgets", "shop", "web"),
        "its pod could be evicted now"
    );
    stage.pass(2).await;
    first.stop().await;
    follow(&stage, 3, &second).await;
    stage.pass(200).await;
    assert_eq!(written_by(&stage, "sundown-1"), Vec::<String>::new(), "the node is healthy");
    assert!(stage.world.kube.object("pods", "shop", "web").is_some());
    assert_eq!(second.metric("drains_active"), 0.0);
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_the_last_leader_put_back_is_not_drained_by_a_leader_that_did_not_see_that() {
    a_node_was_put_back_unseen(1401, true).await;
}

/// The LIST and the GET at the beginning of the term must show it alone.
#[tokio::test(start_paused = true)]
async fn a_node_that_the_last_leader_put_back_is_not_drained_although_no_watch_can_be_opened() {
    a_node_was_put_back_unseen(1412, false).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_accepted_in_the_blind_minute_of_a_standby_is_drained_as_soon_as_that_leads()
 {
    let stage = Stage::new(1402);
    let instance = stage.spot_group(2).remove(0);
    let shape = PodShape { grace: Some(s(30)), stop: Some(s(10)), ..PodShape::default() };
    stage.world.kube.add_pod(&PodSpec::on(stage.name_of(&instance), "shop", "web").shape(shape));
    let hooked = stage.group_with("hooked", 1, &[hook("drain", 30)]).remove(0);
    stage.slow_pod(&hooked, "slow", 60);
    let (first, second) = two(&stage).await;
    silence(&stage);
    // The leader takes both on, deletes the messages, and dies before it evicts anything.
    stage.world.kube.inject(Rule::always(Match::evictions().from("sundown-0"), Fault::Hang));
    stage.world.aws.terminate(&hooked, true);
    stage.spot_warning(&instance, "spot-1");
    stage
        .until(5, "both are accepted", || {
            stage.in_queue() == 0 && stage.is_cordoned(&instance) && stage.is_cordoned(&hooked)
        })
        .await;
    first.kill();
    follow(&stage, 17, &second).await;
    stage.until(1, "its pods are evicted", || stage.removals().iter().any(|r| r.0 == "web")).await;
    stage.until(1, "the hook is kept open", || !stage.action(&hooked).heartbeats.is_empty()).await;
    stage.until(120, "the action is completed", || stage.is_over(&hooked)).await;
    stage.completed_once(&hooked);
    second.stop().await;
    stage.end();
}

/// The watch that the new leader opens may be as dead as the old one: the LIST alone must show what
/// was accepted.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_accepted_in_the_blind_minute_of_a_standby_is_drained_although_no_watch_can_be_opened()
 {
    let stage = Stage::new(1410);
    let instance = stage.spot_group(2).remove(0);
    stage.world.kube.add_pod(&PodSpec::on(stage.name_of(&instance), "shop", "web"));
    let (first, second) = two(&stage).await;
    silence(&stage);
    stage
        .world
        .kube
        .inject(Rule::always(Match::of("watch", "nodes").from("sundown-1"), Fault::Hang));
    stage.world.kube.inject(Rule::always(Match::evictions().from("sundown-0"), Fault::Hang));
    stage.spot_warning(&instance, "spot-1");
    stage
        .until(5, "it is accepted", || stage.in_queue() == 0 && stage.is_cordoned(&instance))
        .await;
    first.kill();
    follow(&stage, 17, &second).await;
    stage.until(1, "its pod is evicted", || stage.removals().iter().any(|r| r.0 == "web")).await;
    second.stop().await;
    stage.end();
}

/// The machine registers, is to be terminated and boots while the standby's watch of Nodes is dead:
/// only the LIST of its term shows the Node, and the index does not show it when Auto Scaling has
/// answered.
#[tokio::test(start_paused = true)]
async fn a_node_that_booted_is_drained_although_the_index_does_not_show_it_when_its_hook_is_proved_open()
 {
    let stage = Stage::new(1416);
    let instance = stage.group_without_nodes("hooked", 1, 86_400, &[hook("drain", 300)]).remove(0);
    let (first, second) = two(&stage).await;
    silence(&stage);
    stage
        .world
        .kube
        .inject(Rule::always(Match::of("watch", "nodes").from("sundown-1"), Fault::Hang));
    stage.world.kube.inject(Rule::always(Match::evictions().from("sundown-0"), Fault::Hang));
    stage.world.kube.add_node(&NodeSpec::named("late").instance(instance.clone()));
    stage.world.kube.add_pod(&PodSpec::on("late", "shop", "web"));
    stage.pass(2).await;
    stage.world.aws.terminate(&instance, true);
    let is_cordoned =
        || stage.world.kube.object("nodes", "", "late").unwrap()["spec"]["unschedulable"] == true;
    stage.until(5, "it is accepted", || stage.in_queue() == 0 && is_cordoned()).await;
    first.kill();
    stage.world.kube.reboot("late");
    follow(&stage, 17, &second).await;
    stage.until(5, "its pod is evicted", || stage.removals().iter().any(|r| r.0 == "web")).await;
    stage.until(90, "its action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(second.metric("open_actions"), 0.0);
    second.stop().await;
    stage.end();
}

/// The index removes the Node between the LIST and the event of its deletion: the LIST lacks it,
/// the index lacks it, and no task has seen the event.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_in_the_moment_of_the_list_has_its_action_completed() {
    let stage = Stage::new(1411);
    let instance = stage.group_with("hooked", 1, &[hook("drain", 300)]).remove(0);
    stage.slow_pod(&instance, "slow", 600);
    let (first, second) = two(&stage).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(10).await;
    let killed = stage.clock.now();
    stage
        .world
        .kube
        .inject(Rule::always(Match::of("list", "nodes").from("sundown-1"), Fault::Slow(s(3))));
    first.kill();
    let list = || {
        let is = |r: &&sundown::sim::kube::Request| {
            r.client == "sundown-1" && r.verb == "list" && r.resource == "nodes" && r.at > killed
        };
        stage.world.kube.requests().iter().find(is).map(|r| r.at)
    };
    stage.until(17, "the new leader asks for the unschedulable nodes", || list().is_some()).await;
    // This timer and that of the LIST end in the same moment. The test's comes first, the watch is
    // read after the LIST.
    let name = stage.name_of(&instance);
    stage.clock.sleep_until(list().unwrap().plus(s(3))).await;
    assert!(stage.world.kube.delete("nodes", "", &name));
    stage.until(3, "its open actions are completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn watches_of_nodes_and_budgets_are_opened_anew_by_a_new_leader() {
    let stage = Stage::new(1403);
    stage.group(2, 300);
    let (first, second) = two(&stage).await;
    let opened = |resource: &str| {
        let is = |r: &&sundown::sim::kube::Request| {
            r.client == "sundown-1" && r.verb == "watch" && r.resource == resource
        };
        stage.world.kube.requests().iter().filter(is).count()
    };
    let before = (opened("nodes"), opened("poddisruptionbudgets"));
    first.stop().await;
    follow(&stage, 3, &second).await;
    stage.pass(1).await;
    assert_eq!((opened("nodes"), opened("poddisruptionbudgets")), (before.0 + 1, before.1 + 1));
    let list = |r: &&sundown::sim::kube::Request| {
        r.client == "sundown-1" && r.verb == "list" && r.resource == "nodes"
    };
    assert_eq!(
        stage.world.kube.requests().iter().filter(list).count(),
        2,
        "at its start, and at its take-over the unschedulable ones"
    );
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn while_the_nodes_cannot_be_listed_a_new_leader_sends_heartbeats_takes_on_what_is_new_and_evicts_nothing_else()
 {
    let stage = Stage::new(1404);
    let hooked = stage.group_with("hooked", 1, &[hook("drain", 60)]).remove(0);
    stage.slow_pod(&hooked, "slow", 60);
    stage.blocked_pod(&hooked, "blocked", 30);
    let spot = stage.spot_group(1).remove(0);
    stage.world.kube.add_pod(&PodSpec::on(stage.name_of(&spot), "shop", "web"));
    let (first, second) = two(&stage).await;
    stage.world.aws.terminate(&hooked, true);
    stage.pass(20).await;
    let refused = stage.world.kube.deny("list", "nodes");
    stage.world.kube.delete("poddisruptionbudgets", "shop", "blocked");
    let from_first = Match::evictions().from("sundown-0");
    stage.world.kube.inject(Rule::always(from_first, Fault::Hang));
    let heartbeats = stage.action(&hooked).heartbeats.len();
    first.kill();
    follow(&stage, 17, &second).await;
    stage
        .until(2, "the hook is kept open at once", || {
            stage.action(&hooked).heartbeats.len() > heartbeats
        })
        .await;
    let missing = second.readiness.missing();
    let why = missing
        .iter()
        .find(|(name, _)| *name == "records")
        .map(|(_, why)| why.as_str())
        .unwrap_or_default();
    assert!(why.contains("forbidden") && why.contains("listed"), "{missing:?}");
    stage.spot_warning(&spot, "spot-1");
    stage
        .until(3, "what is new is drained", || stage.removals().iter().any(|r| r.0 == "web"))
        .await;
    stage.pass(100).await;
    let evicted = |pod: &str| {
        stage.deeds().iter().any(|e| {
            e.by == "sundown-1" && matches!(&e.fact, Fact::Evicted { pod: p, .. } if p.name == pod)
        })
    };
    assert!(!evicted("blocked") && !stage.is_over(&hooked));
    stage.world.kube.lift(refused);
    stage.until(10, "the drain is taken over", || evicted("blocked")).await;
    assert!(second.readiness.missing().is_empty());
    stage.until(120, "the action is completed", || stage.is_over(&hooked)).await;
    stage.completed_once(&hooked);
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_without_the_standby_seeing_that_has_its_action_completed_and_no_record_written()
 {
    let stage = Stage::new(1405);
    let instance = stage.group_with("hooked", 1, &[hook("drain", 300)]).remove(0);
    stage.slow_pod(&instance, "slow", 600);
    let (first, second) = two(&stage).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(10).await;
    silence(&stage);
    let name = stage.name_of(&instance);
    first.kill();
    assert!(stage.world.kube.delete("nodes", "", &name));
    follow(&stage, 17, &second).await;
    stage.until(2, "its open actions are completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    stage.pass(90).await;
    assert_eq!(written_by(&stage, "sundown-1"), Vec::<String>::new());
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_record_is_deleted_before_its_machine_boots_while_nobody_leads_is_put_back() {
    let stage = Stage::new(1426);
    let instance = stage.spot_group(2).remove(0);
    stage.blocked_pod(&instance, "web", 30);
    let (leader, second) = two(&stage).await;
    stage.spot_warning(&instance, "spot-1");
    stage
        .until(5, "it is accepted", || stage.is_cordoned(&instance) && stage.in_queue() == 0)
        .await;
    leader.kill();
    without_record(&stage, &instance);
    stage.pass(2).await;
    stage.world.kube.reboot(&stage.name_of(&instance));
    follow(&stage, 17, &second).await;
    stage.until(60, "it is put back", || !stage.is_cordoned(&instance)).await;
    let node = stage.node(&instance);
    assert!(!node.to_string().contains(TAINT), "{node}");
    assert_eq!(stage.record(&instance), None);
    assert_eq!(second.metric("records_total{event=\"restored\"}"), 1.0);
    second.stop().await;
    stage.end();
}

/// The leader is killed, and the machine of its draining node boots. The next leader must ask Auto
/// Scaling whether the hook is still open, and Auto Scaling does not answer.
async fn rebooted_while_auto_scaling_fails(seed: u64) -> (Stage, String, Replica) {
    let stage = Stage::new(seed);
    let instance = stage.group_with("hooked", 1, &[hook("drain", 300)]).remove(0);
    stage.slow_pod(&instance, "slow", 20);
    let (first, second) = two(&stage).await;
    stage.world.aws.terminate(&instance, true);
    stage
        .until(5, "it is accepted", || stage.is_cordoned(&instance) && stage.in_queue() == 0)
        .await;
    first.kill();
    stage.world.kube.reboot(&stage.name_of(&instance));
    stage.world.aws.fault(FaultRule::new("autoscaling:*", AwsFault::InternalError, How::Always));
    follow(&stage, 17, &second).await;
    stage.pass(5).await;
    assert_eq!(
        second.metric("drains_active"),
        0.0,
        "the record does not count until a heartbeat is accepted"
    );
    (stage, instance, second)
}

fn without_record(stage: &Stage, instance: &str) {
    stage.annotate(instance, RECORD, None);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_while_its_hook_is_asked_about_has_its_action_completed() {
    let (stage, instance, second) = rebooted_while_auto_scaling_fails(1413).await;
    let name = stage.name_of(&instance);
    assert!(stage.world.kube.delete("nodes", "", &name));
    stage.pass(5).await;
    stage.world.aws.end_faults();
    stage.until(40, "its open actions are completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(second.metric("open_actions"), 0.0);
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_deleted_while_its_hook_is_asked_about_is_written_back_and_drained() {
    let (stage, instance, second) = rebooted_while_auto_scaling_fails(1414).await;
    let record = stage.record(&instance);
    without_record(&stage, &instance);
    stage
        .until(2, "it is written back", || {
            stage.node(&instance)["metadata"]["annotations"].get(RECORD).is_some()
        })
        .await;
    assert_eq!(stage.record(&instance), record);
    stage.pass(5).await;
    stage.world.aws.end_faults();
    stage.until(90, "its action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    let records = |event: &str| second.metric(&format!("records_total{{event=\"{event}\"}}"));
    assert_eq!((records("restored"), records("damaged")), (1.0, 0.0));
    assert!(stage.world.kube.object("pods", "shop", "slow").is_none(), "the node is drained first");
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_damaged_while_its_hook_is_asked_about_is_drained_and_its_action_completed()
 {
    let (stage, instance, second) = rebooted_while_auto_scaling_fails(1419).await;
    stage.annotate(&instance, RECORD, Some("{"));
    stage.pass(5).await;
    stage.world.aws.end_faults();
    stage.until(90, "its action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert!(stage.world.kube.object("pods", "shop", "slow").is_none(), "the node is drained first");
    assert_eq!(second.metric("records_total{event=\"damaged\"}"), 1.0);
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_deleted_twice_while_its_hook_is_asked_about_ends_the_drain_and_its_action_is_completed()
 {
    let (stage, instance, second) = rebooted_while_auto_scaling_fails(1415).await;
    without_record(&stage, &instance);
    stage
        .until(2, "it is written back", || {
            stage.node(&instance)["metadata"]["annotations"].get(RECORD).is_some()
        })
        .await;
    stage.pass(2).await;
    without_record(&stage, &instance);
    stage.pass(5).await;
    stage.world.aws.end_faults();
    stage.until(40, "its action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    assert_eq!(second.metric("records_total{event=\"restored\"}"), 1.0, "it is written back once");
    assert!(
        written_by(&stage, "sundown-1").iter().all(|write| write.contains("nodes")),
        "its pods stay"
    );
    second.stop().await;
    stage.end_except(&[judge::Rule::NotTooEarly], "a person ends the drain");
}

/// A drain under way, of one replica, on whose Node somebody makes this change. The Node as it is
/// two seconds later.
async fn ended_elsewhere(seed: u64, change: impl Fn(&mut Value)) -> Value {
    let stage = Stage::new(seed);
    let instance = stage.spot_group(2).remove(0);
    stage.blocked_pod(&instance, "web", 30);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.spot_warning(&instance, "spot-1");
    stage.until(5, "it is accepted", || stage.is_cordoned(&instance)).await;
    stage.pass(2).await;
    let name = stage.name_of(&instance);
    stage.world.kube.edit("nodes", "", &name, change);
    stage.pass(2).await;
    assert!(
        sundown.drain(&name).is_none_or(|drain| drain.phase != "draining"),
        "it ends at once: {:?}",
        sundown.drain(&name)
    );
    stage.pass(150).await;
    assert!(stage.world.kube.object("pods", "shop", "web").is_some(), "nothing is forced");
    assert_eq!(
        sundown.metric("records_total{event=\"restored\"}"),
        0.0,
        "its record is not written back"
    );
    let node = stage.node(&instance);
    sundown.stop().await;
    stage.end_except(
        &[judge::Rule::Restored],
        "somebody else takes the record away, and with it what the Node was like before",
    );
    node
}

#[tokio::test(start_paused = true)]
async fn a_drain_whose_node_shows_the_end_that_this_leader_did_not_write_ends_at_once() {
    let node = ended_elsewhere(1406, |node| {
        let mut record: Value =
            serde_json::from_str(node["metadata"]["annotations"][RECORD].as_str().unwrap())
                .unwrap();
        record["released"] =
            serde_json::json!({ "at": "2026-01-05T09:00:20Z", "outcome": "released" });
        node["metadata"]["annotations"][RECORD] = record.to_string().into();
    })
    .await;
    assert!(
        node["metadata"]["annotations"][RECORD].as_str().unwrap().contains("09:00:20"),
        "{node}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_drain_whose_node_has_neither_record_nor_taint_any_more_ends_at_once_and_is_not_written_back()
 {
    let node = ended_elsewhere(1407, |node| {
        node["metadata"]["annotations"].as_object_mut().unwrap().remove(RECORD);
        node["spec"]["taints"].as_array_mut().unwrap().retain(|taint| taint["key"] != TAINT);
        node["spec"].as_object_mut().unwrap().remove("unschedulable");
    })
    .await;
    assert_eq!(node["metadata"]["annotations"].get(RECORD), None, "{node}");
    assert!(!node.to_string().contains(TAINT), "{node}");
    assert_ne!(node["spec"]["unschedulable"], true);
}

/// The API server goes on with a request whose client has given up, unless the request says how
/// long it may take.
#[tokio::test(start_paused = true)]
async fn no_write_of_a_leader_that_cannot_renew_its_lease_lasts_until_another_may_lead() {
    let stage = Stage::new(1408);
    let instances = stage.spot_group(12);
    for (n, instance) in instances.iter().enumerate() {
        stage.world.kube.add_pod(&PodSpec::on(stage.name_of(instance), "shop", format!("web-{n}")));
    }
    let (first, second) = two(&stage).await;
    let of_first = |verb: &str, resource: &str| Match::of(verb, resource).from("sundown-0");
    stage.world.kube.inject(Rule::always(Match::evictions().from("sundown-0"), Fault::Slow(s(60))));
    stage.world.kube.inject(Rule::always(of_first("patch", "nodes"), Fault::Slow(s(3))));
    stage.world.kube.inject(Rule::always(of_first("update", "leases"), Fault::Hang));
    for (n, instance) in instances.iter().enumerate() {
        stage.spot_warning(instance, &format!("spot-{n}"));
        stage.pass(1).await;
    }
    follow(&stage, 17, &second).await;
    let requests = stage.world.kube.requests();
    let of_first = |r: &&sundown::sim::kube::Request| r.client == "sundown-0";
    let renewed = requests
        .iter()
        .filter(of_first)
        .filter(|r| r.resource == "leases" && (200..300).contains(&r.status) && r.is_write())
        .map(|r| r.at)
        .max()
        .unwrap();
    let another = renewed.plus(s(15));
    let writes: Vec<_> = requests
        .iter()
        .filter(of_first)
        .filter(|r| r.is_write() && r.resource != "leases")
        .collect();
    let late = writes.iter().filter(|r| r.at >= renewed.plus(s(6))).count();
    assert!(late > 0, "some are sent when less than their usual time is left");
    for write in writes {
        let timeout = write
            .timeout
            .unwrap_or_else(|| panic!("the server is not told when to give up: {write:?}"));
        assert!(
            timeout <= s(10) && write.at.plus(timeout) < another,
            "{write:?}, and another leader from {another} on"
        );
    }
    first.kill();
    second.stop().await;
    stage.end();
}

/// The leader cannot renew its lease (`renewal`), and sends a completion that AWS does not answer
/// (`aws`). The lease expires before the usual 11 s of the call are over.
async fn a_completion_outlives_no_lease(renewal: Fault, aws: AwsFault) {
    let stage = Stage::new(1417);
    let instance = stage.group_with("hooked", 1, &[hook("drain", 300)]).remove(0);
    stage.slow_pod(&instance, "slow", 20);
    let (first, second) = two(&stage).await;
    stage.world.aws.terminate(&instance, true);
    stage.until(5, "its pod is evicted", || stage.removals().len() == 1).await;
    stage.pass(14).await;
    let renewals = Match::of("update", "leases").from("sundown-0");
    stage.world.kube.inject(Rule::always(renewals, renewal));
    stage.world.aws.fault(FaultRule::new(COMPLETE, aws, How::Times(1)));
    let find_sent = || {
        let is = |d: &Disturbance| d.by == "sundown-0" && d.what == COMPLETE;
        stage.disturbances().into_iter().find(is).map(|d| d.at)
    };
    stage.until(8, "the completion is sent", || find_sent().is_some()).await;
    let sent = find_sent().unwrap();
    let is_renewal = |r: &&sundown::sim::kube::Request| {
        (r.client.as_str(), r.resource.as_str(), r.status) == ("sundown-0", "leases", 200)
            && r.is_write()
    };
    let renewed = stage.world.kube.requests().iter().filter(is_renewal).map(|r| r.at).max();
    let another = renewed.unwrap().plus(s(15));
    assert!(
        sent.plus(s(10)) > another,
        "sent at {sent}: after 10 of its usual 11 s, another may lead, from {another} on"
    );
    // Every write ends a second before another process may lead.
    stage.clock.sleep_until(another.minus(s(1)).plus(Duration::from_millis(10))).await;
    let given_up = "api_calls_total{target=\"autoscaling\",action=\"CompleteLifecycleAction\",\
                    outcome=\"timeout\"}";
    assert_eq!(first.metric(given_up), 1.0, "given up before another may lead, from {another} on");
    assert!(!stage.is_over(&instance) && !second.metrics.leads());
    follow(&stage, 5, &second).await;
    stage.until(10, "the standby completes the action", || stage.is_over(&instance)).await;
    stage.pass(30).await;
    stage.completed_once(&instance);
    let end = stage.action(&instance).end.unwrap();
    assert!(end.by == "sundown-1" && end.at >= another, "{end:?}, and may lead from {another} on");
    let of_first = |c: &Call| c.by == "sundown-0" && c.api == COMPLETE;
    let again: Vec<_> = stage.world.aws.calls().into_iter().filter(of_first).collect();
    assert!(again.iter().all(|c| c.at == sent), "the first sends none again: {again:?}");
    first.kill();
    second.stop().await;
    stage.end();
}

/// The API server hangs on renewals, or refuses them. AWS never does what the completion asks for,
/// or would do it after another process may lead.
#[tokio::test(start_paused = true)]
async fn a_completion_that_hangs_is_given_up_before_another_may_lead_and_the_next_leader_sends_it()
{
    for renewal in [Fault::Hang, Fault::Forbidden] {
        for aws in [AwsFault::Hang, AwsFault::Latency(s(10))] {
            a_completion_outlives_no_lease(renewal.clone(), aws).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_namespace_that_does_not_exist_is_named_by_readyz_until_it_does() {
    let stage = Stage::new(1409);
    stage.group(1, 300);
    let sundown = stage.start("sundown-0", &["--lease-namespace", "nowhere"]);
    stage.pass(20).await;
    for _ in 0..10 {
        stage.pass(1).await;
        let missing = sundown.readiness.missing();
        let why = missing
            .iter()
            .find(|(name, _)| *name == "lease")
            .map(|(_, why)| why.as_str())
            .unwrap_or_default();
        assert!(why.contains("nowhere") && why.contains("--lease-namespace"), "{missing:?}");
    }
    assert!(!sundown.metrics.leads());
    stage.world.kube.put(serde_json::json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "nowhere" }
    }));
    stage.until(5, "it leads", || sundown.metrics.leads()).await;
    stage.until(5, "it is ready", || sundown.readiness.missing().is_empty()).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_node_with_our_taint_and_no_record_is_left_as_it_is_with_a_warning() {
    let stage = Stage::new(1420);
    let instance = stage.spot_group(2).remove(0);
    let name = stage.name_of(&instance);
    stage.world.kube.edit("nodes", "", &name, |n| {
        n["spec"]["unschedulable"] = true.into();
        n["spec"]["taints"] =
            serde_json::json!([{ "key": TAINT, "value": "spot", "effect": "NoSchedule" }]);
    });
    let logs = Logs::keep();
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.pass(30).await;
    let said = logs.with(&["WARN", "no record", &name]);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(stage.is_cordoned(&instance));
    sundown.stop().await;
    stage
        .end_except(&[judge::Rule::Restored], "a person writes the taint, and no record was there");
}
