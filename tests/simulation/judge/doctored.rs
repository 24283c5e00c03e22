//! The judge, judged: what a real run left is clean, and breaks the rule that is meant to be broken
//! once it is doctored.

mod actions;
mod causes;
mod changes;
mod deadlines;
mod drain_conditions;
mod drains;
mod events;
mod excuses;
mod flags;
mod gates;
mod gone;
mod in_time;
mod launches;
mod limits;
mod lost;
mod messages;
mod nodes;
mod pace;
mod pooled;
mod requests;
mod returned;
mod runs;
mod settings;
mod sick;
mod worlds;
mod writers;

use std::time::Duration;

use serde_json::{Value, json};
use sundown::domain::Moment;
use sundown::sim::{
    Disturbance,
    aws::{
        ActionEnd, ActionReport, Deletion, Delivery, HookResult, SentMessage, SpotAction, Verdict,
    },
    kube::{BudgetSpec, Entry, Fact, PodRef, PodShape, PodSpec, Request},
};

use super::{Belongs, Evidence, Judge, Rule, events::Event, judge, judge_any};
use crate::harness::{Replica, Stage};

async fn led(stage: &Stage, flags: &[&str]) -> Replica {
    stage.pass(30).await;
    let sundown = stage.start("sundown-0", flags);
    stage
        .until(30, "it leads", || sundown.metrics.leads() && sundown.readiness.missing().is_empty())
        .await;
    sundown
}

/// Puts a pod on an instance's node that takes ten seconds to stop; its budget lets it go or not.
fn pod(stage: &Stage, instance: &str, name: &str, allowed: i32) {
    let node = stage.world.node_of(instance).unwrap();
    let seconds = |s| Some(Duration::from_secs(s));
    let shape = PodShape { grace: seconds(30), stop: seconds(10), ..PodShape::default() };
    stage.world.kube.add_pod(&PodSpec::on(node, "load", name).shape(shape).label("app", name));
    stage.world.kube.add_budget(&BudgetSpec::for_app("load", name).max(allowed));
}

/// A hook was drained and completed.
async fn hooked() -> Evidence {
    let stage = Stage::new(1);
    let instance = stage.group(1, 60).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    let shape = PodShape {
        grace: Some(Duration::from_secs(30)),
        stop: Some(Duration::from_secs(10)),
        ..PodShape::default()
    };
    stage.world.kube.add_pod(&PodSpec::on(node, "load", "web-0").shape(shape));
    let sundown = led(&stage, &[]).await;
    stage.world.aws.terminate(&instance, true);
    stage
        .until(60, "it is completed", || stage.actions(&instance).iter().any(|a| a.end.is_some()))
        .await;
    stage.until(5, "its message is deleted", || stage.in_queue() == 0).await;
    stage.pass(3).await;
    ended(stage, sundown).await
}

/// A hook was drained, and a pod that never stops was given up after a minute.
async fn overdue() -> Evidence {
    let stage = Stage::new(6);
    let instance = stage.group(1, 60).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    let shape =
        PodShape { grace: Some(Duration::from_secs(30)), stuck: true, ..PodShape::default() };
    stage.world.kube.add_pod(&PodSpec::on(node, "load", "stuck-0").shape(shape));
    let sundown = led(&stage, &["--drain-timeout=60s"]).await;
    stage.world.aws.terminate(&instance, true);
    stage
        .until(80, "it is completed", || stage.actions(&instance).iter().any(|a| a.end.is_some()))
        .await;
    stage.pass(3).await;
    ended(stage, sundown).await
}

/// What a run left in which all was well.
async fn ended(stage: Stage, sundown: Replica) -> Evidence {
    // Before it stops: while it waits for its long poll, nobody leads, and that excuses much.
    let mut evidence = stage.evidence();
    evidence.terms.calm = true;
    sundown.stop().await;
    stage.end();
    assert_eq!(judge(&evidence), Vec::<String>::new());
    evidence
}

/// A spot notice came; the budget of one of two pods never lets it go.
async fn reclaimed() -> Evidence {
    let stage = Stage::new(2);
    let instance = stage.spot_group(1).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    stage.world.kube.add_pod(
        &PodSpec::on(node, "load", "web-0")
            .shape(PodShape { grace: Some(Duration::from_secs(30)), ..PodShape::default() }),
    );
    pod(&stage, &instance, "quorum-0", 0);
    let sundown = led(&stage, &[]).await;
    stage.world.aws.spot_interruption(&instance, SpotAction::Terminate);
    stage.pass(118).await;
    ended(stage, sundown).await
}

/// Somebody terminates an instance in EC2.
async fn terminated() -> Evidence {
    let stage = Stage::new(5);
    let instance = stage.spot_group(1).remove(0);
    pod(&stage, &instance, "web-0", 1);
    let sundown = led(&stage, &[]).await;
    stage.world.aws.terminate_in_ec2(&instance);
    stage.pass(30).await;
    ended(stage, sundown).await
}

fn when(evidence: &Evidence, what: impl Fn(&Fact) -> bool) -> Moment {
    evidence.entries.iter().find(|e| what(&e.fact)).expect("it happened").at
}

/// Seconds.
const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Puts in what happened at its time.
fn insert(evidence: &mut Evidence, at: Moment, by: &str, fact: Fact) {
    let index = evidence.entries.partition_point(|e| e.at <= at);
    evidence.entries.insert(index, Entry { at, by: by.to_owned(), fact });
}

/// Changes each record that was written.
fn edit_records(evidence: &mut Evidence, change: impl Fn(&mut Value)) {
    for entry in &mut evidence.entries {
        if let Fact::Annotated { annotations, .. } = &mut entry.fact
            && let Some(text) = annotations.get_mut("sundown.dev/record")
        {
            let mut record = serde_json::from_str(text).unwrap();
            change(&mut record);
            *text = record.to_string();
        }
    }
}

/// Changes each body that was sent.
fn edit_bodies(evidence: &mut Evidence, change: impl Fn(&mut Value)) {
    for message in &mut evidence.messages {
        let mut body = serde_json::from_str(&message.body).unwrap();
        change(&mut body);
        message.body = body.to_string().into();
    }
}

/// When the first record was written.
fn accepted(evidence: &Evidence) -> Moment {
    when(evidence, |f| {
        matches!(
            f, Fact::Annotated { annotations, .. } if annotations.contains_key("sundown.dev/record")
        )
    })
}

/// A message is sent, delivered and deleted.
fn send(evidence: &mut Evidence, body: &str, sent: Moment, deleted: Moment) {
    let first = evidence.messages[0].clone();
    let delivery = Delivery { at: sent, by: "sundown-0".to_owned() };
    let deliveries = vec![delivery];
    let message_id = format!("one-more-{}", evidence.messages.len());
    evidence.messages.push(SentMessage {
        message_id,
        body: body.into(),
        at: sent,
        sent,
        deliveries,
        deleted: Some(deleted),
        ..first
    });
}

/// The only instance and its Node.
fn node_of(evidence: &Evidence) -> (String, String) {
    let (instance, node) = evidence.nodes.first_key_value().unwrap();
    (instance.clone(), node.clone())
}

/// The leader went on to renew the Lease until the run's end, which is later than it was.
fn longer(evidence: &mut Evidence, ended: Moment) {
    let renews = |r: &&Request| r.resource == "leases" && r.is_write() && r.status == 200;
    let mut renewal = evidence.requests.iter().rev().find(renews).unwrap().clone();
    while renewal.at < ended {
        renewal.at = renewal.at + s(2);
        (renewal.answered, renewal.ended) = (Some(renewal.at), Some(renewal.at));
        evidence.requests.push(renewal.clone());
    }
    evidence.ended = ended;
}

/// The leader had led since the run's beginning.
fn led_from_the_beginning(evidence: &mut Evidence) {
    let first = evidence
        .requests
        .iter()
        .find(|r| r.resource == "leases" && r.is_write() && r.answered.is_some())
        .unwrap()
        .clone();
    let times = (0..).map(|n| evidence.begun + s(5 * n)).take_while(|at| *at < first.at);
    let renewal =
        |at| Request { at, answered: Some(at), ended: Some(at), status: 200, ..first.clone() };
    evidence.requests.extend(times.map(renewal).collect::<Vec<_>>());
    evidence.requests.sort_by_key(|r| r.at);
    let begun = evidence.begun;
    evidence
        .entries
        .iter_mut()
        .filter(|e| matches!(e.fact, Fact::LeaseHeld { .. }))
        .for_each(|e| e.at = begun);
}

/// A call of the process met a fault, which was felt until then.
fn fault(evidence: &mut Evidence, what: &str, from: Moment, felt: Moment) {
    let (by, object) = ("sundown-0".to_owned(), String::new());
    evidence.disturbances.push(Disturbance {
        at: from,
        until: Some(felt - s(12)),
        by,
        what: what.to_owned(),
        object,
        is_silent: false,
    });
}

/// Nothing at all is broken.
#[track_caller]
fn clean(evidence: &Evidence, why: &str) {
    assert_eq!(judge(evidence), Vec::<String>::new(), "{why}");
}

/// Nothing is broken of this rule.
#[track_caller]
fn keeps(broken: &[String], rule: &str, why: &str) {
    assert!(!broken.iter().any(|b| b.contains(rule)), "{why}: {broken:?}");
}

#[track_caller]
fn breaks(broken: &[String], rule: &str) {
    assert!(broken.iter().any(|b| b.contains(rule)), "no word of {rule:?}: {broken:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_evicted_before_aws_has_answered_a_heartbeat_is_seen() {
    const UNANSWERED: &str = "AWS had answered no heartbeat";
    let mut evidence = hooked().await;
    clean(&evidence, "a heartbeat was accepted first");
    evidence.calls.retain(|c| c.api != "autoscaling:RecordLifecycleActionHeartbeat");
    breaks(&judge(&evidence), UNANSWERED);
    let under = |flag: &str| {
        let mut evidence = evidence.clone();
        evidence.terms.flags[0].1.push(flag.to_owned());
        judge(&evidence)
    };
    breaks(&under("--lifecycle-hook=dr*"), UNANSWERED);
    keeps(&under("--lifecycle-hook=other"), UNANSWERED, "no heartbeat is sent for its hook");
    let of_timeout = |seconds: u64| {
        let mut evidence = evidence.clone();
        evidence.terms.drain_timeout = seconds;
        judge(&evidence)
    };
    breaks(&of_timeout(10), UNANSWERED);
    keeps(&of_timeout(1), UNANSWERED, "two thirds of the time had passed");
}

#[tokio::test(start_paused = true)]
async fn an_unconfirmed_eviction_long_before_the_first_heartbeat_window_ends_is_seen() {
    const UNANSWERED: &str = "AWS had answered no heartbeat";
    let mut evidence = hooked().await;
    evidence.calls.retain(|c| c.api != "autoscaling:RecordLifecycleActionHeartbeat");
    let evicted = when(&evidence, |f| matches!(f, Fact::Evicted { .. }));
    let (instance, _) = node_of(&evidence);
    // Its window of 60 s began that long before the eviction. The pods should be gone 5 s before its
    // end.
    let of_window = |ago: u64, tried_by: Option<&str>| {
        let mut evidence = evidence.clone();
        let began = evicted - s(ago);
        let time = began.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        edit_bodies(&mut evidence, |body| body["time"] = json!(time));
        edit_records(&mut evidence, |record| record["interruptions"][0]["time"] = json!(time));
        evidence.actions[0].started = began;
        evidence.disturbances.extend(tried_by.map(|by| Disturbance {
            at: evicted - s(2),
            until: None,
            by: by.to_owned(),
            what: "autoscaling:RecordLifecycleActionHeartbeat".to_owned(),
            object: format!("asg/drain/{instance}"),
            is_silent: false,
        }));
        judge(&evidence)
    };
    keeps(&of_window(54, Some("sundown-0")), UNANSWERED, "its pods should be gone in a second");
    breaks(&of_window(54, None), UNANSWERED);
    breaks(&of_window(54, Some("sundown-1")), UNANSWERED);
    breaks(&of_window(47, Some("sundown-0")), UNANSWERED);
    breaks(&of_window(70, Some("sundown-0")), UNANSWERED);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_touched_without_a_record_is_seen() {
    let mut evidence = hooked().await;
    for entry in &mut evidence.entries {
        if let Fact::Annotated { annotations, .. } = &mut entry.fact {
            annotations.remove("sundown.dev/record");
        }
    }
    breaks(&judge_any(&evidence, &[]), "no open record");
    breaks(&judge(&evidence), "no open record");
    let except = [Rule::OpenRecord, Rule::Messages];
    assert_eq!(
        judge_any(&evidence, &except),
        Vec::<String>::new(),
        "a test can say that it does not hold"
    );
}

#[tokio::test(start_paused = true)]
async fn a_completion_before_the_node_is_empty_is_seen() {
    const EVICTED: &str = "although --on does not ask for its eviction";
    let mut evidence = hooked().await;
    let evicted = when(&evidence, |f| matches!(f, Fact::Evicted { .. }));
    evidence.actions[0].end.as_mut().unwrap().at = evicted + Duration::from_secs(1);
    breaks(&judge_any(&evidence, &[]), "was completed before");
    assert_eq!(judge_any(&evidence, &[Rule::NotTooEarly]), Vec::<String>::new());
    let with = |flag: &str| {
        let mut evidence = evidence.clone();
        evidence.terms.flags[0].1.push(format!("--on={flag}"));
        judge_any(&evidence, &[])
    };
    breaks(&with("terminate-hook=cordon"), EVICTED);
    keeps(&with("terminate-hook=cordon"), "was completed before", "its pods stay");
    breaks(&with("spot=cordon"), "was completed before");
    // The instance ends, and its state change is accepted.
    let (at, is_record) = (
        evidence.actions[0].end.as_ref().unwrap().at,
        |f: &&Fact| matches!(f, Fact::Annotated { annotations, .. } if annotations.contains_key("sundown.dev/record")),
    );
    let mut change = evidence.entries.iter().map(|e| &e.fact).find(is_record).unwrap().clone();
    if let Fact::Annotated { annotations, .. } = &mut change {
        let record = annotations.get_mut("sundown.dev/record").unwrap();
        *record = record.replace("terminate-hook", "state-change");
    }
    let changed_at = |at: Moment| {
        let mut evidence = evidence.clone();
        evidence.terms.flags[0].1.push("--on=terminate-hook=cordon".to_owned());
        insert(&mut evidence, at, "sundown-0", change.clone());
        judge_any(&evidence, &[])
    };
    keeps(&changed_at(at), "was completed before", "its pods stayed until then");
    breaks(&changed_at(at - Duration::from_millis(100)), "was completed before");
}

#[tokio::test(start_paused = true)]
async fn a_call_for_what_is_not_ours_is_seen() {
    let mut evidence = hooked().await;
    evidence.terms.groups.insert("asg".to_owned(), Belongs::OtherCluster);
    let broken = judge_any(&evidence, &[]);
    breaks(&broken, "autoscaling:CompleteLifecycleAction for asg/drain/");
    breaks(&broken, "patch of ");
    assert_eq!(judge_any(&evidence, &[Rule::Strangers, Rule::Causes]), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_deleted_before_its_record_is_written_is_seen() {
    let mut evidence = hooked().await;
    let of_hook =
        evidence.messages.iter_mut().find(|m| m.body.contains("LifecycleHookName")).unwrap();
    of_hook.deleted = Some(evidence.actions[0].started - Duration::from_millis(1));
    breaks(&judge_any(&evidence, &[]), "before its intent was durable");
    assert_eq!(judge_any(&evidence, &[Rule::Messages]), Vec::<String>::new());
    let with = |flag: &str| {
        let mut evidence = evidence.clone();
        evidence.terms.flags[0].1.push(format!("--on={flag}"));
        judge_any(&evidence, &[])
    };
    keeps(&with("terminate-hook=ignore"), "before its intent was durable", "nobody asks for it");
    breaks(&with("terminate-hook=cordon"), "before its intent was durable");
    let mut evidence = reclaimed().await;
    let cordoned = when(&evidence, |f| matches!(f, Fact::Cordoned(_)));
    let of_spot = evidence.messages.iter_mut().find(|m| m.body.contains("Spot Instance")).unwrap();
    of_spot.deleted = Some(cordoned - Duration::from_millis(1));
    breaks(&judge_any(&evidence, &[]), "before its intent was durable");
}

#[tokio::test(start_paused = true)]
async fn a_call_after_the_completion_is_seen_and_one_after_a_lost_answer_is_not() {
    let mut evidence = hooked().await;
    evidence.events.clear();
    let end = evidence.actions[0].end.clone().unwrap();
    evidence.actions[0].late_calls.push(end.at + Duration::from_secs(30));
    breaks(&judge_any(&evidence, &[]), "after its end");
    assert_eq!(judge_any(&evidence, &[Rule::LateCalls]), Vec::<String>::new());
    // Another event had named an action of this hook that never began, or one that did.
    let named_too = |token: &str, calls: u64| {
        let mut evidence = evidence.clone();
        let real = evidence.actions[0].token.clone();
        let sent = evidence.messages.iter().find(|m| m.body.contains(&real)).unwrap().clone();
        let mut body: Value = serde_json::from_str(&sent.body).unwrap();
        body["id"] = json!("another-event");
        body["detail"]["LifecycleActionToken"] = json!(token);
        send(&mut evidence, &body.to_string(), sent.sent, sent.sent);
        edit_records(&mut evidence, |record| {
            let mut entry = record["interruptions"][0].clone();
            entry["event"] = json!("another-event");
            entry["token"] = json!(token);
            record["interruptions"].as_array_mut().unwrap().push(entry);
        });
        evidence.actions[0].late_calls = (0..calls).map(|n| end.at + s(30 + n)).collect();
        if token == "00000000-0000-4000-8000-00000000000a" {
            let other = ActionReport { token: token.to_owned(), ..evidence.actions[0].clone() };
            evidence.actions.push(ActionReport { late_calls: Vec::new(), ..other });
        }
        judge_any(&evidence, &[])
    };
    keeps(
        &named_too("00000000-0000-4000-8000-000000000009", 1),
        "after its end",
        "one call finds out that it never began",
    );
    breaks(&named_too("00000000-0000-4000-8000-000000000009", 2), "after its end");
    breaks(&named_too("00000000-0000-4000-8000-00000000000a", 1), "after its end");
    let mut lost = evidence.clone();
    let completion =
        lost.calls.iter_mut().find(|c| c.api == "autoscaling:CompleteLifecycleAction").unwrap();
    completion.outcome = sundown::sim::aws::Outcome::LostAfter;
    assert_eq!(judge_any(&lost, &[]), Vec::<String>::new(), "the second call has to find out");
    evidence.actions[0].end = Some(ActionEnd {
        verdict: Verdict::TimedOut(HookResult::Continue),
        by: String::new(),
        ..end
    });
    assert_eq!(
        judge_any(&evidence, &[]),
        Vec::<String>::new(),
        "one that was on its way when AWS ended it"
    );
    evidence.actions[0].late_calls.push(evidence.ended);
    breaks(&judge_any(&evidence, &[]), "after its end");
    // The message came twice more after the end; a message of another action explains nothing.
    let token = evidence.actions[0].token.clone();
    let first = evidence.deletions.iter().find(|d| d.body.contains(&token)).unwrap().clone();
    let repeated = |body: &str| {
        let mut evidence = evidence.clone();
        let (at, body) = (evidence.ended, std::sync::Arc::<str>::from(body));
        evidence.deletions.extend([1, 2].map(|n| Deletion {
            at,
            body: body.clone(),
            receive_count: n,
            ..first.clone()
        }));
        judge_any(&evidence, &[])
    };
    assert_eq!(
        repeated(&first.body),
        Vec::<String>::new(),
        "each delivery costs one call to find out"
    );
    breaks(&repeated(&first.body.replace(&token, "another-token")), "after its end");
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_looks_for_an_action_that_its_own_process_has_completed_is_seen() {
    let mut evidence = hooked().await;
    let at = evidence.actions[0].end.as_ref().unwrap().at;
    evidence.actions[0].late_calls = [64, 124, 244].map(|after| at + s(after)).to_vec();
    longer(&mut evidence, at + s(250));
    let held = |e: &&Entry| matches!(&e.fact, Fact::LeaseHeld { lease, .. } if lease == "sundown");
    let held = evidence.entries.iter().find(held).unwrap().clone();
    let led_again = |after: u64, flag: &str| {
        let mut evidence = evidence.clone();
        insert(&mut evidence, at + s(after), &held.by, held.fact.clone());
        evidence.terms.flags[0].1.push(flag.to_owned());
        judge(&evidence)
    };
    keeps(&led_again(30, "--sweep-interval=30s"), "after its end", "the new leader cannot know it");
    breaks(&led_again(30, "--sweep-interval=0s"), "after its end");
    breaks(&led_again(249, "--sweep-interval=30s"), "after its end");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_writes_released_and_evicts_nobody_is_seen() {
    let mut evidence = reclaimed().await;
    assert_eq!(Judge::of(&evidence).asked(), 2, "both pods are looked at");
    let ours = |by: &str| by.starts_with("sundown");
    evidence.requests.retain(|r| {
        !(ours(&r.client)
            && r.resource == "pods"
            && ["create", "delete"].contains(&r.verb.as_str()))
    });
    evidence.entries.retain(|e| {
        !matches!(
            e.fact,
            Fact::Evicted { .. } | Fact::Deleted { .. } | Fact::PodGone(_) | Fact::PodFinished(_)
        )
    });
    breaks(&judge(&evidence), "nobody asked");
    let mut paused = evidence.clone();
    paused.pauses.push((evidence.begun, evidence.ended));
    keeps(&judge(&paused), "nobody asked", "a pause is a reason");
    let (begun, ended) = (evidence.begun, evidence.ended);
    let mut other = evidence.clone();
    fault(&mut other, "autoscaling:RecordLifecycleActionHeartbeat", begun, ended);
    breaks(&judge(&other), "nobody asked");
    fault(&mut evidence, "create pods/eviction", begun, ended);
    keeps(&judge(&evidence), "nobody asked", "trouble is a reason");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_never_accepts_and_evicts_nobody_is_seen() {
    let mut evidence = reclaimed().await;
    evidence
        .requests
        .retain(|r| r.resource == "leases" || !(r.client.starts_with("sundown") && r.is_write()));
    let is_effect = |f: &Fact| {
        matches!(
            f,
            Fact::Evicted { .. } | Fact::Deleted { .. } | Fact::PodGone(_) | Fact::PodFinished(_)
        )
    };
    let leads = |e: &Entry| matches!(e.fact, Fact::LeaseHeld { .. });
    evidence.entries.retain(|e| leads(e) || (!is_effect(&e.fact) && !e.by.starts_with("sundown")));
    breaks(&judge(&evidence), "a spot event was sent for");
    evidence.messages.clear();
    keeps(&judge(&evidence), "a spot event was sent for", "nothing was sent");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_ends_and_whose_pods_nobody_asks_is_seen() {
    let mut evidence = terminated().await;
    assert_eq!(Judge::of(&evidence).asked(), 1, "its pod is looked at");
    evidence.requests.retain(|r| r.subresource != "eviction");
    evidence.entries.retain(|e| {
        !matches!(
            e.fact,
            Fact::Evicted { .. } | Fact::Deleted { .. } | Fact::PodGone(_) | Fact::PodFinished(_)
        )
    });
    breaks(&judge(&evidence), "a state-change event was sent for");
    let bound = evidence
        .entries
        .iter()
        .find_map(|e| if let Fact::Bound(pod) = &e.fact { Some(pod.clone()) } else { None });
    let deleted = |uid: &str| {
        let mut evidence = evidence.clone();
        let (pod, at) = (PodRef { uid: uid.to_owned(), ..bound.clone().unwrap() }, evidence.begun);
        insert(
            &mut evidence,
            at,
            "<scenario>",
            Fact::Deleted { pod, grace: 600, again: false, overrun: Vec::new() },
        );
        judge(&evidence)
    };
    keeps(
        &deleted(&bound.clone().unwrap().uid),
        "nobody asked",
        "a person had deleted the pod before",
    );
    breaks(&deleted("uid-of-an-earlier-pod-of-this-name"), "nobody asked");
}

#[tokio::test(start_paused = true)]
async fn a_force_that_takes_more_grace_than_it_must_is_seen() {
    let mut evidence = reclaimed().await;
    let forced = evidence.entries.iter_mut().find_map(|e| match &mut e.fact {
        Fact::Deleted { grace, .. } if e.by.starts_with("sundown") => Some(grace),
        _ => None,
    });
    let grace = forced.expect("one was forced");
    assert!((28..=30).contains(grace), "{grace}");
    *grace = 5;
    breaks(&judge(&evidence), "got a grace of 5 s");
}

#[tokio::test(start_paused = true)]
async fn a_force_of_a_pod_whose_namesake_was_asked_is_seen() {
    let mut evidence = reclaimed().await;
    let forced = when(&evidence, |f| matches!(f, Fact::Deleted { .. }));
    let successor = evidence
        .entries
        .iter_mut()
        .find(|e| matches!(&e.fact, Fact::Bound(p) if p.name == "quorum-0"))
        .unwrap();
    successor.at = forced - Duration::from_millis(1);
    breaks(&judge(&evidence), "quorum-0 was deleted and never asked to go");
}

#[tokio::test(start_paused = true)]
async fn a_removal_in_a_pause_is_seen() {
    let mut evidence = reclaimed().await;
    let forced = when(&evidence, |f| matches!(f, Fact::Deleted { .. }));
    evidence.pauses.push((forced - Duration::from_secs(1), evidence.ended));
    assert_eq!(judge(&evidence), Vec::<String>::new(), "it takes two seconds to be known");
    evidence.pauses = vec![(forced - Duration::from_secs(3), evidence.ended)];
    breaks(&judge(&evidence), "has been paused since");
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_overruns_a_budget_is_seen_unless_the_budget_could_not_know() {
    let mut evidence = reclaimed().await;
    let evicted =
        evidence.entries.iter_mut().find(|e| matches!(e.fact, Fact::Evicted { .. })).unwrap();
    let at = evicted.at;
    if let Fact::Evicted { overrun, .. } = &mut evicted.fact {
        overrun.push("web".to_owned());
    }
    breaks(&judge(&evidence), "overran");
    evidence.frozen.push((at - Duration::from_secs(9), at + Duration::from_secs(9)));
    assert_eq!(judge(&evidence), Vec::<String>::new());
    evidence.frozen = vec![(at - Duration::from_secs(9), at - Duration::from_secs(5))];
    breaks(&judge(&evidence), "overran");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_there_is_not_is_seen() {
    let evidence = reclaimed().await;
    let reasons: Vec<_> = evidence.events.iter().map(|t| t.reason.as_str()).collect();
    assert!(
        reasons.contains(&"InterruptionAccepted") && reasons.contains(&"Forced"),
        "{reasons:?}"
    );
    let unknown: [fn(&mut Event); 3] =
        [|t| t.reason = "Left".into(), |t| t.severity = "Warned".into(), |t| t.on = "Lease".into()];
    for change in unknown {
        let mut event = evidence.events.first().unwrap().clone();
        change(&mut event);
        let mut doctored = evidence.clone();
        doctored.events.insert(event);
        breaks(&judge(&doctored), "there is no such Event");
        breaks(&judge_any(&doctored, &[]), "there is no such Event");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stage_in_which_a_task_panics_fails() {
    let stage = Stage::new(3);
    assert_eq!(stage.broken(&[]), Vec::<String>::new());
    let task = tokio::spawn(async { panic!("nobody waits for this task") });
    assert!(task.await.is_err());
    breaks(&stage.broken(&[]), "1 panics in tasks");
    assert!(Stage::new(4).broken(&[]).is_empty(), "each stage counts its own");
    stage.end_unjudged();
}
