//! Which messages are deleted.

use serde_json::json;
use sundown::sim::aws::{ActionReport, Call, InstanceChange, Outcome, State};

use super::*;

const LOST: &str = "before its intent was durable";

/// A spot notice of this age was deleted then.
fn notice(evidence: &mut Evidence, age: u64, at: Moment) {
    let (instance, _) = node_of(evidence);
    let time = (at - s(age)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let body = json!({
        "version": "0", "id": "one-more", "detail-type": "EC2 Spot Instance Interruption Warning",
        "source": "aws.ec2", "time": time,
        "detail": { "instance-id": instance, "instance-action": "terminate" },
    });
    send(evidence, &body.to_string(), at - s(age), at);
}

#[tokio::test(start_paused = true)]
async fn a_message_of_a_later_action_of_a_hook_that_the_record_names_is_not_durable_with_it() {
    let mut evidence = hooked().await;
    let at = when(&evidence, |f| matches!(f, Fact::Evicted { .. })) + s(3);
    let first = evidence.actions[0].clone();
    let token = "12345678-1234-1234-1234-123456789012";
    let of_hook =
        evidence.messages.iter().find(|m| m.body.contains(&first.token)).unwrap().body.clone();
    evidence.actions.push(ActionReport {
        token: token.to_owned(),
        started: at - s(1),
        ..first.clone()
    });
    let recorded = |body: &str| {
        let mut evidence = evidence.clone();
        send(&mut evidence, body, at, at + s(1));
        judge(&evidence)
    };
    keeps(&recorded(&of_hook), LOST, "the same action once more");
    breaks(&recorded(&of_hook.replace(&first.token, token)), LOST);
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_is_deleted_without_a_record_is_seen_unless_its_node_is_of_a_later_start() {
    let evidence = hooked().await;
    let (instance, node) = node_of(&evidence);
    let at = accepted(&evidence) - s(1);
    let deleted = |registers: bool, starts: bool| {
        let mut evidence = evidence.clone();
        if registers {
            insert(&mut evidence, at - s(5), "<test>", Fact::NodeAdded(node.clone()));
        }
        let change = |state, at| InstanceChange { id: instance.clone(), state, at };
        evidence.changes.push(change(State::Stopped, at - s(20)));
        evidence.changes.extend(starts.then(|| change(State::Running, at - s(10))));
        let body = json!({
            "version": "0", "id": "one-more", "source": "aws.ec2",
            "detail-type": "EC2 Instance State-change Notification",
            "time": (at - s(20)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "detail": { "instance-id": instance, "state": "stopped" },
        });
        send(&mut evidence, &body.to_string(), at - s(20), at);
        judge(&evidence)
    };
    keeps(&deleted(true, true), LOST, "the instance runs again");
    breaks(&deleted(true, false), LOST);
    breaks(&deleted(false, true), LOST);
}

#[tokio::test(start_paused = true)]
async fn a_notice_for_a_new_node_that_is_deleted_is_seen_unless_the_join_timeout_was_over_before() {
    let mut evidence = hooked().await;
    led_from_the_beginning(&mut evidence);
    evidence.calls.retain(|call| call.api != "ec2:DescribeInstances");
    let (instance, node) = node_of(&evidence);
    let registered = accepted(&evidence) - s(10);
    for entry in evidence.entries.iter_mut().filter(|e| e.at < registered) {
        if matches!(&entry.fact, Fact::Annotated { node: n, .. } if *n == node) {
            entry.at = registered;
        }
    }
    let (id, state) = (instance.clone(), State::Pending);
    evidence.changes.push(InstanceChange { id, state, at: registered - s(45) });
    let before = registered - Duration::from_millis(500);
    // The message is received so many seconds before it is deleted, which is so many milliseconds
    // after the Node registers.
    let deleted = |timeout: &str, asked: Option<(Moment, &str)>, by: &str, age: u64, after: u64| {
        let mut evidence = evidence.clone();
        evidence.terms.flags[0].1.push(format!("--join-timeout={timeout}"));
        evidence.calls.extend(asked.map(|(at, id)| Call {
            at,
            api: "ec2:DescribeInstances".to_owned(),
            object: format!("instance-id=i-0fedcba9876543210,{id}"),
            by: by.to_owned(),
            outcome: Outcome::Ok,
        }));
        notice(&mut evidence, age, registered + Duration::from_millis(after));
        judge(&evidence)
    };
    let asked = Some((before, instance.as_str()));
    let us = "sundown-0";
    keeps(&deleted("10s", asked, us, 2, 300), LOST, "its message waited for no Node any more");
    breaks(&deleted("2m", asked, us, 2, 300), LOST);
    breaks(&deleted("10s", asked, us, 3, 1_500), LOST);
    breaks(&deleted("10s", asked, us, 0, 300), LOST);
    breaks(&deleted("10s", asked, "sundown-9", 2, 300), LOST);
    breaks(&deleted("10s", None, us, 2, 300), LOST);
    breaks(&deleted("10s", Some((before, "i-0another")), us, 2, 300), LOST);
    let later = registered + Duration::from_millis(100);
    breaks(&deleted("10s", Some((later, instance.as_str())), us, 2, 300), LOST);
}

#[tokio::test(start_paused = true)]
async fn a_capacity_block_that_is_deleted_without_a_record_is_seen_unless_its_instance_was_gone() {
    const BLOCK: &str = "cr-1234567890abcdef0";
    let mut evidence = hooked().await;
    let (instance, _) = node_of(&evidence);
    evidence.blocks.insert(instance.clone(), BLOCK.to_owned());
    let at = accepted(&evidence) - s(1);
    let time = |at: Moment| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let body = json!({
        "id": "one-more", "detail-type": "Capacity Block Expiration Warning", "source": "aws.ec2",
        "time": time(at - s(20)),
        "detail": { "capacity-reservation-id": BLOCK, "end-date": time(at + s(2_380)) },
    });
    // EC2 is asked five seconds before the message is deleted.
    let deleted = |state: State, before: u64, asked: &str, outcome: Outcome| {
        let mut evidence = evidence.clone();
        let id = instance.clone();
        evidence.changes.push(InstanceChange { id, state, at: at - s(before) });
        evidence.calls.push(Call {
            at: at - s(5),
            api: "ec2:DescribeInstances".to_owned(),
            object: format!("capacity-reservation-id={asked};instance-state-name=running"),
            by: "sundown-0".to_owned(),
            outcome,
        });
        send(&mut evidence, &body.to_string(), at - s(20), at);
        judge(&evidence)
    };
    let ended = State::Terminated;
    keeps(&deleted(ended, 10, BLOCK, Outcome::Ok), LOST, "it was not in the block any more");
    breaks(&deleted(ended, 3, BLOCK, Outcome::Ok), LOST);
    breaks(&deleted(ended, 10, BLOCK, Outcome::LostAfter), LOST);
    breaks(&deleted(ended, 10, "cr-0fedcba9876543210", Outcome::Ok), LOST);
    breaks(&deleted(State::ShuttingDown, 10, BLOCK, Outcome::Ok), LOST);
}

#[tokio::test(start_paused = true)]
async fn a_recommendation_that_is_deleted_without_a_record_that_asks_for_as_much_is_seen() {
    let evidence = hooked().await;
    let (instance, _) = node_of(&evidence);
    let deleted = |at: Moment, flag: Option<&str>| {
        let mut evidence = evidence.clone();
        for (_, flags) in &mut evidence.terms.flags {
            flags.extend(flag.map(str::to_owned));
        }
        let body = json!({
            "version": "0", "id": "r", "detail-type": "EC2 Instance Rebalance Recommendation",
            "source": "aws.ec2", "time": (at - s(1)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "detail": { "instance-id": instance },
        });
        send(&mut evidence, &body.to_string(), at - s(1), at);
        judge(&evidence)
    };
    let accepted = accepted(&evidence);
    breaks(&deleted(accepted - s(1), None), LOST);
    keeps(&deleted(accepted - s(1), Some("--on=rebalance=ignore")), LOST, "it is ignored");
    keeps(&deleted(accepted + s(5), None), LOST, "the drain asks for more");
    breaks(&deleted(accepted + s(5), Some("--on=terminate-hook=ignore,rebalance=drain")), LOST);
}

#[tokio::test(start_paused = true)]
async fn what_follows_a_recommendation_and_is_deleted_and_not_recorded_is_seen_unless_it_is_another_one_at_once()
 {
    let mut evidence = reclaimed().await;
    let (instance, _) = node_of(&evidence);
    let first = accepted(&evidence);
    let seconds = |at: Moment| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    edit_bodies(&mut evidence, |body| {
        body["detail-type"] = json!("EC2 Instance Rebalance Recommendation");
        body["time"] = json!(seconds(first));
    });
    edit_records(&mut evidence, |record| {
        record["interruptions"][0]["kind"] = json!("rebalance");
        record["interruptions"][0]["time"] = json!(seconds(first));
    });
    let deleted = |after: u64| {
        let mut evidence = evidence.clone();
        let at = first + s(after);
        let body = json!({
            "version": "0", "id": "one-more", "time": seconds(at), "source": "aws.ec2",
            "detail-type": "EC2 Instance Rebalance Recommendation",
            "detail": { "instance-id": instance },
        });
        send(&mut evidence, &body.to_string(), at, at + s(1));
        judge(&evidence)
    };
    keeps(&deleted(50), LOST, "it is not recorded again within a minute");
    breaks(&deleted(70), LOST);
    // A recommendation has no end, so whatever has one is sooner.
    evidence.terms.drain_timeout = 60;
    notice(&mut evidence, 1, first + s(50));
    breaks(&judge(&evidence), LOST);
}

/// What the last record of the only node said from then on.
fn released(evidence: &Evidence) -> Moment {
    when(evidence, |f| {
        matches!(
            f,
            Fact::Annotated { annotations, .. } if annotations.get("sundown.dev/record").is_some_and(|r| r.contains("\"released\":{"))
        )
    })
}

#[tokio::test(start_paused = true)]
async fn a_message_that_nobody_understands_and_that_is_deleted_is_seen() {
    let mut evidence = hooked().await;
    let at = evidence.ended;
    send(&mut evidence, "{", at, at);
    breaks(&judge(&evidence), "nobody understands");
}

#[tokio::test(start_paused = true)]
async fn a_real_test_that_is_acted_on_and_deleted_before_its_intent_is_durable_is_seen() {
    let mut evidence = reclaimed().await;
    let at = accepted(&evidence) - Duration::from_millis(1);
    edit_bodies(&mut evidence, |body| {
        body["source"] = json!("sundown.test");
        body["detail"]["sundown"] = json!({ "real": true });
    });
    evidence.messages.iter_mut().for_each(|m| m.deleted = Some(at));
    keeps(&judge(&evidence), LOST, "nobody acts on tests");
    evidence.terms.flags =
        vec![("sundown".to_owned(), vec!["--accept-real-tests".to_owned(), "1h".to_owned()])];
    breaks(&judge(&evidence), LOST);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_before_the_intent_is_durable_is_seen_although_the_queue_forgot_it() {
    let mut evidence = hooked().await;
    let at = accepted(&evidence) - Duration::from_millis(1);
    let of_hook =
        evidence.messages.iter_mut().find(|m| m.body.contains("LifecycleHookName")).unwrap();
    of_hook.deletion_lost = Some(at);
    breaks(&judge(&evidence), LOST);
}

#[tokio::test(start_paused = true)]
async fn a_notice_that_ends_a_drain_sooner_and_does_not_join_it_is_seen() {
    let evidence = hooked().await;
    let evicted = when(&evidence, |f| matches!(f, Fact::Evicted { .. }));
    let mut sooner = evidence.clone();
    notice(&mut sooner, 1, evicted + s(3));
    breaks(&judge(&sooner), LOST);
    breaks(&judge_any(&sooner, &[]), LOST);
    let mut foreign = sooner.clone();
    foreign.terms.groups.insert("asg".to_owned(), Belongs::Ignored);
    keeps(&judge(&foreign), LOST, "it is for nobody here");
    let mut stale = evidence.clone();
    notice(&mut stale, 125, evicted + s(3));
    clean(&stale, "it was disproved");
    let mut later = overdue().await;
    let evicted = when(&later, |f| matches!(f, Fact::Evicted { .. }));
    notice(&mut later, 1, evicted + s(3));
    clean(&later, "the drain ends before the machine would");
}

#[tokio::test(start_paused = true)]
async fn a_notice_for_a_node_that_was_put_back_and_that_is_dropped_is_seen() {
    let evidence = hooked().await;
    let at = released(&evidence) + Duration::from_millis(1_500);
    let (_, node) = node_of(&evidence);
    let recorded = |age: u64, uncordoned: bool| {
        let mut evidence = evidence.clone();
        notice(&mut evidence, age, at);
        if uncordoned {
            insert(&mut evidence, at - s(1), "kubectl", Fact::Uncordoned(node.clone()));
        }
        judge(&evidence)
    };
    keeps(&recorded(0, false), LOST, "the node has been drained and stays cordoned");
    keeps(&recorded(2, true), LOST, "it was decided before the node was put back");
    breaks(&recorded(0, true), LOST);
}

#[tokio::test(start_paused = true)]
async fn a_message_is_judged_by_the_record_that_its_process_could_see() {
    let evidence = hooked().await;
    let (instance, node) = node_of(&evidence);
    let released = released(&evidence);
    let at = released + s(3);
    // A person makes up an open record on the node that was drained, and the machine is over.
    let hook = json!({
        "kind": "terminate-hook", "event": "made-up", "time": at.to_string(),
        "accepted": at.to_string(),
        "group": "asg", "hook": "drain", "token": "00000000-0000-4000-8000-000000000000",
    });
    let record = json!({ "version": 1, "instance": instance, "interruptions": [hook] });
    let silent = |by: Option<&str>| {
        let mut evidence = evidence.clone();
        longer(&mut evidence, at + s(2));
        let annotations = [("sundown.dev/record".to_owned(), record.to_string())].into();
        let provider_id = format!("aws:///eu-west-1a/{instance}");
        let page = Fact::Annotated { node: node.clone(), provider_id, annotations };
        insert(&mut evidence, released + s(1), "kubectl", page);
        state_change(&mut evidence, "terminated", 0, at);
        evidence.disturbances.extend(by.map(|by| Disturbance {
            at: released + Duration::from_millis(500),
            until: None,
            by: by.to_owned(),
            what: "watch nodes".to_owned(),
            object: String::new(),
            is_silent: true,
        }));
        judge(&evidence)
    };
    keeps(&silent(Some("sundown-0")), LOST, "it saw a drain that was over");
    breaks(&silent(Some("sundown-1")), LOST);
    breaks(&silent(None), LOST);
}

#[tokio::test(start_paused = true)]
async fn a_message_for_a_node_that_was_only_tainted_is_a_repeat_unless_it_asks_for_more() {
    let evidence = hooked().await;
    let (_, node) = node_of(&evidence);
    let at = released(&evidence) + s(2);
    let with = |responses: &str| {
        let mut evidence = evidence.clone();
        evidence.terms.flags[0].1.push(format!("--on={responses}"));
        insert(&mut evidence, at - s(1), "kubectl", Fact::Uncordoned(node.clone()));
        notice(&mut evidence, 0, at);
        judge(&evidence)
    };
    keeps(&with("terminate-hook=prefer,spot=prefer"), LOST, "the node has that taint");
    breaks(&with("terminate-hook=prefer,spot=cordon"), LOST);
    breaks(&with("terminate-hook=cordon,spot=cordon"), LOST);
}

/// A state-change notification of this age was deleted then.
fn state_change(evidence: &mut Evidence, state: &str, age: u64, at: Moment) {
    let (instance, _) = node_of(evidence);
    let time = (at - s(age)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let body = json!({
        "version": "0", "id": "one-more", "detail-type": "EC2 Instance State-change Notification",
        "source": "aws.ec2", "time": time,
        "detail": { "instance-id": instance, "state": state },
    });
    send(evidence, &body.to_string(), at - s(age), at);
}

#[tokio::test(start_paused = true)]
async fn a_state_that_ends_a_drain_sooner_and_does_not_join_it_is_seen_unless_its_time_was_over() {
    let evidence = overdue().await;
    let at = when(&evidence, |f| matches!(f, Fact::Evicted { .. })) + s(3);
    let with = |state: &str, age: u64| {
        let mut evidence = evidence.clone();
        state_change(&mut evidence, state, age, at);
        judge(&evidence)
    };
    breaks(&with("stopping", 5), LOST);
    breaks(&with("stopping", 25), LOST);
    keeps(
        &with("stopping", 35),
        LOST,
        "the machine was to be gone five seconds before, and the drain goes on by its own deadline",
    );
    breaks(&with("terminated", 5), LOST);
    breaks(&with("terminated", 35), LOST);
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_knows_that_its_machine_is_over_learns_nothing_more() {
    let evidence = overdue().await;
    let at = when(&evidence, |f| matches!(f, Fact::Evicted { .. })) + s(3);
    let knowing = |state: &str, is_stale: bool| {
        let mut evidence = evidence.clone();
        let begun = accepted(&evidence);
        let (instance, _) = node_of(&evidence);
        let (time, seconds) = (begun.to_string(), begun.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        let body = json!({
            "id": "e", "detail-type": "EC2 Instance State-change Notification", "source": "aws.ec2",
            "time": seconds,
            "detail": { "instance-id": instance, "state": state },
        });
        send(&mut evidence, &body.to_string(), begun, begun);
        edit_records(&mut evidence, |record| {
            let entry = json!({
                "kind": "state-change", "event": "e", "time": seconds, "accepted": time,
                "state": state, "stale": is_stale
            });
            record["interruptions"].as_array_mut().unwrap().push(entry);
        });
        state_change(&mut evidence, "terminated", 1, at);
        judge(&evidence)
    };
    keeps(&knowing("stopped", false), LOST, "it is over already");
    breaks(&knowing("stopped", true), LOST);
    breaks(&knowing("stopping", false), LOST);
}

#[tokio::test(start_paused = true)]
async fn what_another_node_says_that_claims_the_instance_counts_only_while_the_kubelet_of_its_own_is_silent()
 {
    let mut evidence = overdue().await;
    let (instance, own) = node_of(&evidence);
    let at = when(&evidence, |f| matches!(f, Fact::Evicted { .. })) + s(3);
    for entry in &mut evidence.entries {
        if let Fact::Annotated { node, annotations, .. } = &mut entry.fact
            && annotations.contains_key("sundown.dev/record")
        {
            *node = "twin".to_owned();
        }
    }
    state_change(&mut evidence, "stopping", 35, at);
    evidence.changes.push(InstanceChange { id: instance, state: State::Stopping, at: at - s(35) });
    let with = |silent: Option<u64>| {
        let mut evidence = evidence.clone();
        evidence.hands.extend(silent.map(|seconds| (at - s(seconds), own.clone(), "lost")));
        judge(&evidence)
    };
    keeps(&with(Some(60)), LOST, "the other one is drained in its place");
    breaks(&with(Some(20)), LOST);
    breaks(&with(None), LOST);
}

#[tokio::test(start_paused = true)]
async fn a_later_action_that_a_person_wrote_into_the_record_stands_for_the_one_that_is_open() {
    let evidence = hooked().await;
    let at = when(&evidence, |f| matches!(f, Fact::Evicted { .. })) + s(3);
    let first = evidence.actions[0].clone();
    let token = "12345678-1234-1234-1234-123456789012";
    let body = evidence
        .messages
        .iter()
        .find(|m| m.body.contains(&first.token))
        .unwrap()
        .body
        .replace(&first.token, token);
    let is_record = |f: &&Fact| {
        matches!(
            f, Fact::Annotated { annotations, .. } if annotations.contains_key("sundown.dev/record")
        )
    };
    let open = evidence.entries.iter().map(|e| &e.fact).find(is_record).unwrap();
    let with = |by: &str, time: Moment| {
        let mut evidence = evidence.clone();
        evidence.actions.push(ActionReport {
            token: token.to_owned(),
            started: at - s(1),
            ..first.clone()
        });
        let mut page = open.clone();
        let Fact::Annotated { annotations, .. } = &mut page else { panic!() };
        let text = annotations.get_mut("sundown.dev/record").unwrap();
        let mut record: Value = serde_json::from_str(text).unwrap();
        record["interruptions"].as_array_mut().unwrap().push(json!({
            "kind": "terminate-hook", "event": "made-up", "time": time.to_string(),
            "accepted": time.to_string(),
            "group": first.group, "hook": first.hook,
            "token": "00000000-0000-4000-8000-000000000000",
        }));
        *text = record.to_string();
        insert(&mut evidence, at - s(2), by, page);
        send(&mut evidence, &body, at, at + s(1));
        judge(&evidence)
    };
    keeps(&with("kubectl", at - s(2)), LOST, "a record is taken at its word");
    breaks(&with("kubectl", first.started - s(60)), LOST);
    breaks(&with("sundown-0", at - s(2)), LOST);
}
