//! Drains that wait for others.

use std::collections::BTreeMap;

use sundown::sim::aws::HealthNotice;

use super::*;

const RECORD: &str = "sundown.dev/record";
const LIMITS: [&str; 2] = ["--max-drains-per-group=1", "--max-voluntary=1"];
const TOO_MANY: &str = "were drained:";

/// Two nodes of a group were drained at once, under no limit.
async fn two_at_once() -> Evidence {
    let stage = Stage::new(11);
    let instances = with_slow_pods(&stage);
    let sundown = led(&stage, &["--drain-timeout=1h"]).await;
    stage.world.aws.terminate(&instances[0], true);
    stage.pass(10).await;
    stage.world.aws.terminate(&instances[1], true);
    for instance in &instances {
        let is_over = || stage.actions(instance).iter().any(|a| a.end.is_some());
        stage.until(120, "it is completed", is_over).await;
    }
    stage.pass(3).await;
    ended(stage, sundown).await
}

/// A group of two instances, whose pods take 25 s to stop.
fn with_slow_pods(stage: &Stage) -> Vec<String> {
    let instances = stage.group(2, 300);
    for (n, instance) in instances.iter().enumerate() {
        let node = stage.world.node_of(instance).unwrap();
        for i in 0..2 {
            let shape = PodShape { grace: Some(s(30)), stop: Some(s(25)), ..PodShape::default() };
            let name = format!("web-{n}{i}");
            stage.world.kube.add_pod(&PodSpec::on(node.as_str(), "load", &name).shape(shape));
        }
    }
    instances
}

/// The hardware of both machines of a group is degraded. AWS announces the change `late` seconds
/// after its start, or an hour before.
async fn both_degraded(late: Option<u64>) -> Evidence {
    let stage = Stage::new(14);
    let instances = with_slow_pods(&stage);
    let sundown = led(&stage, &["--drain-timeout=1h"]).await;
    for (n, instance) in instances.iter().enumerate() {
        let now = stage.clock.now();
        let start = late.map_or(now + s(3600), |late| now - s(late));
        stage.world.aws.health(&HealthNotice {
            code: "AWS_EC2_INSTANCE_HARDWARE_DEGRADED".to_owned(),
            event: format!("AWS_EC2_INSTANCE_HARDWARE_DEGRADED_{n}"),
            ..HealthNotice::retirement([instance.clone()], start)
        });
        stage.until(20, "it is drained", || stage.is_cordoned(instance)).await;
        stage.pass(8).await;
    }
    stage.pass(60).await;
    ended(stage, sundown).await
}

/// The same run, if the process had this flag, too.
fn flagged(mut evidence: Evidence, flag: &str) -> Evidence {
    for (_, flags) in &mut evidence.terms.flags {
        flags.push(flag.to_owned());
    }
    evidence
}

#[tokio::test(start_paused = true)]
async fn a_second_node_that_is_drained_although_a_limit_is_reached_is_seen() {
    let evidence = two_at_once().await;
    for limit in LIMITS {
        breaks(&judge(&flagged(evidence.clone(), limit)), TOO_MANY);
        keeps(&judge(&flagged(evidence.clone(), &limit.replace('1', "2"))), TOO_MANY, "two may be");
    }
    breaks(&judge(&flagged(evidence.clone(), "--max-voluntary=50%")), TOO_MANY);
    keeps(
        &judge(&flagged(evidence.clone(), "--max-voluntary=100%")),
        TOO_MANY,
        "two of two may be",
    );
    let mut short = flagged(evidence.clone(), LIMITS[0]);
    short.terms.drain_timeout = 300;
    keeps(&judge(&short), TOO_MANY, "a drain of five minutes waits for no other");
}

#[tokio::test(start_paused = true)]
async fn two_drains_for_scheduled_changes_at_once_are_seen_unless_the_time_of_the_changes_has_come()
{
    let planned = flagged(both_degraded(None).await, LIMITS[1]);
    breaks(&judge(&planned), TOO_MANY);
    let begun = flagged(both_degraded(Some(8)).await, LIMITS[1]);
    keeps(&judge(&begun), TOO_MANY, "AWS may carry it out at any moment");
}

#[tokio::test(start_paused = true)]
async fn a_drain_counts_until_its_end_and_not_until_its_end_is_written() {
    let evidence = flagged(two_at_once().await, LIMITS[1]);
    let evicted = |other_than: &str| {
        let mut all = evidence.entries.iter().filter_map(|entry| match &entry.fact {
            Fact::Evicted { pod, .. } => Some((entry.at, pod.node.clone())),
            _ => None,
        });
        all.find(|(_, node)| node != other_than).unwrap()
    };
    let (_, first) = evicted("");
    let (second, _) = evicted(&first);
    let gave_up = |ended: Moment, written: Moment| {
        let mut evidence = evidence.clone();
        let mut all = evidence.entries.iter().filter_map(|entry| match &entry.fact {
            Fact::Annotated { node, provider_id, annotations } if *node == first => {
                Some((provider_id.clone(), annotations.clone()))
            }
            _ => None,
        });
        let has_record = |(_, annotations): &(String, BTreeMap<String, String>)| {
            annotations.contains_key(RECORD)
        };
        let (provider_id, mut annotations) = all.find(has_record).unwrap();
        let mut record: Value = serde_json::from_str(&annotations[RECORD]).unwrap();
        record["released"] = json!({ "at": ended.to_string(), "outcome": "unreachable" });
        annotations.insert(RECORD.to_owned(), record.to_string());
        let node = first.clone();
        let fact = Fact::Annotated { node, provider_id, annotations };
        insert(&mut evidence, written, "sundown-0", fact);
        judge(&evidence)
    };
    breaks(&judge(&evidence), TOO_MANY);
    keeps(&gave_up(second, second + s(1)), TOO_MANY, "its end is written a second later");
    breaks(&gave_up(second + s(5), second + s(6)), TOO_MANY);
    breaks(&gave_up(second - s(60), second + s(1)), TOO_MANY);
}

#[tokio::test(start_paused = true)]
async fn two_control_plane_nodes_that_are_drained_at_once_are_seen() {
    let evidence = two_at_once().await;
    keeps(&judge(&evidence), TOO_MANY, "they are workers");
    for label in ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"] {
        let mut masters = evidence.clone();
        for entry in &mut masters.entries {
            if let Fact::NodeChanged(state) = &mut entry.fact {
                state.labels.insert(label.to_owned(), String::new());
            }
        }
        breaks(&judge(&masters), "two nodes of the control plane at once");
    }
}

/// Both nodes of a group were reclaimed at once.
async fn both_reclaimed() -> Evidence {
    let stage = Stage::new(13);
    let instances = stage.spot_group(2);
    for (n, instance) in instances.iter().enumerate() {
        pod(&stage, instance, &format!("web-{n}"), 1);
    }
    let sundown = led(&stage, &["--max-voluntary=1"]).await;
    for instance in &instances {
        stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
    }
    stage.pass(60).await;
    ended(stage, sundown).await
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_cannot_wait_and_is_reported_as_held_back_is_seen() {
    const UNTRUE: &str = "an Event is not true: Event { reason: \"DrainHeldBack\"";
    let reported = |mut evidence: Evidence, at: Moment| {
        let node = evidence.nodes.values().next_back().unwrap().clone();
        let (reason, severity) = ("DrainHeldBack".to_owned(), "Normal".to_owned());
        let (on, uid) = ("Node".to_owned(), node.clone());
        let event = Event { reason, severity, on, name: node, uid, first: at, last: at };
        evidence.events.insert(event);
        judge(&evidence)
    };
    let planned = flagged(two_at_once().await, LIMITS[1]);
    let at = planned.actions.iter().map(|action| action.started).max().unwrap() + s(3);
    keeps(&reported(planned, at), UNTRUE, "it may wait for the other one");
    let reclaimed = both_reclaimed().await;
    let at = accepted(&reclaimed) + s(3);
    breaks(&reported(reclaimed, at), UNTRUE);
}
