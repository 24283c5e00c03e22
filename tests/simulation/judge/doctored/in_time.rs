//! What is accepted too late.

use serde_json::json;
use sundown::sim::aws::{Call, InstanceChange, State};

use super::*;
use crate::harness::NO_CLUSTER_NAME;

const LATE: &str = "was not accepted in time";

/// What happened from the accept on happened so many seconds later.
fn later(evidence: &Evidence, seconds: u64) -> Evidence {
    let mut evidence = evidence.clone();
    let from = accepted(&evidence);
    let entries = evidence.entries.iter_mut().map(|e| &mut e.at);
    let deletions = evidence.messages.iter_mut().filter_map(|m| m.deleted.as_mut());
    entries
        .chain(deletions)
        .chain([&mut evidence.ended])
        .filter(|at| **at >= from)
        .for_each(|at| *at = *at + s(seconds));
    evidence
}

/// When the first interruption was sent, and its kind.
fn sent(evidence: &Evidence) -> (Moment, &'static str) {
    let judge = Judge::of(evidence);
    let all = judge.story.notices.iter().filter(|n| n.event.is_interruption());
    all.map(|n| (n.sent, n.event.kind.name())).min().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_interruption_that_is_accepted_late_is_seen() {
    for evidence in [hooked().await, reclaimed().await] {
        assert!(Judge::of(&evidence).in_time() > 0, "it is looked at");
        let (from, kind) = sent(&evidence);
        let late = format!("{kind} of {} {LATE}", node_of(&evidence).0);
        let after = |seconds: u64, what: &str, felt: u64| {
            let mut late = later(&evidence, seconds);
            let ended = late.ended;
            longer(&mut late, ended);
            fault(&mut late, what, from - s(20), from - s(20) + s(felt));
            judge(&late)
        };
        keeps(&after(2, "none", 20), &late, "some seconds are fine");
        breaks(&after(4, "none", 20), &late);
        keeps(&after(4, "patch nodes", 22), &late, "its PATCH failed");
        breaks(&after(4, "patch nodes", 19), &late);
        breaks(&after(4, "create pods/eviction", 150), &late);
        breaks(&after(40, "patch nodes", 22), &late);
        keeps(&after(70, "patch nodes", 70), &late, "it was tried again some time later");
        breaks(&after(150, "patch nodes", 70), &late);
    }
}

/// No record was ever written, and no message deleted.
async fn never() -> Evidence {
    unaccepted(reclaimed().await)
}

/// The same run without records and deletions of messages.
fn unaccepted(mut evidence: Evidence) -> Evidence {
    for entry in &mut evidence.entries {
        if let Fact::Annotated { annotations, .. } = &mut entry.fact {
            annotations.remove("sundown.dev/record");
        }
    }
    evidence.messages.iter_mut().for_each(|m| m.deleted = None);
    evidence
}

#[tokio::test(start_paused = true)]
async fn an_interruption_that_nobody_accepts_is_seen() {
    let mut evidence = never().await;
    breaks(&judge(&evidence), LATE);
    evidence.terms.groups.insert("spot".to_owned(), Belongs::Ignored);
    keeps(&judge(&evidence), LATE, "it is for nobody here");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_nobody_accepts_is_seen_unless_a_hook_beside_it_is_named_sundown() {
    let evidence = unaccepted(hooked().await);
    // The message about the end of the instance is late, too, and says nothing about the hook.
    let late = format!("terminate-hook of {} {LATE}", node_of(&evidence).0);
    breaks(&judge(&evidence), &late);
    let beside = |group: &str, hook: &str, has_action: bool| {
        let mut evidence = evidence.clone();
        if !has_action {
            evidence.actions.clear();
        }
        let named = (group.to_owned(), hook.to_owned());
        evidence.terms.heartbeat_timeouts.insert(named, s(60));
        judge(&evidence)
    };
    for has_action in [true, false] {
        let with = |group: &str, hook: &str| beside(group, hook, has_action);
        keeps(&with("asg", "sundown-terminate"), &late, "the hook is another party's");
        breaks(&with("asg", "drain-too"), &late);
        breaks(&with("another", "sundown-terminate"), &late);
    }
}

#[tokio::test(start_paused = true)]
async fn an_interruption_of_a_node_that_registered_again_before_is_waited_for() {
    let evidence = never().await;
    let (from, node) = (evidence.messages.last().unwrap().at, node_of(&evidence).1);
    let with = |gone: Moment, added: Option<Moment>| {
        let mut evidence = evidence.clone();
        insert(&mut evidence, gone, "<test>", Fact::NodeGone(node.clone()));
        added
            .into_iter()
            .for_each(|at| insert(&mut evidence, at, "<test>", Fact::NodeAdded(node.clone())));
        judge(&evidence)
    };
    breaks(&with(from - s(10), Some(from - s(5))), LATE);
    keeps(&with(from - s(10), None), LATE, "it is gone");
    keeps(&with(from + s(2), None), LATE, "it went before it had to be accepted");
    breaks(&with(from + s(5), None), LATE);
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_a_node_that_registers_later_is_waited_for_unless_the_instance_runs_again() {
    let mut evidence = hooked().await;
    led_from_the_beginning(&mut evidence);
    let (instance, node) = node_of(&evidence);
    let registered = accepted(&evidence) - s(10);
    for entry in evidence.entries.iter_mut().filter(|e| e.at < registered) {
        if matches!(&entry.fact, Fact::Annotated { node: n, .. } if *n == node) {
            entry.at = registered;
        }
    }
    insert(&mut evidence, registered, "<test>", Fact::NodeAdded(node));
    let sent = registered - s(15);
    let after = |state: &str, started: Option<Moment>| {
        let mut evidence = evidence.clone();
        let body = json!({
            "version": "0", "id": "one-more", "source": "aws.ec2",
            "detail-type": "EC2 Instance State-change Notification",
            "time": sent.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "detail": { "instance-id": instance, "state": state },
        });
        let change = |state, at| InstanceChange { id: instance.clone(), state, at };
        evidence.changes.push(change(State::Stopping, sent));
        evidence.changes.extend(started.map(|at| change(State::Running, at)));
        let ended = evidence.ended;
        send(&mut evidence, &body.to_string(), sent, ended);
        judge(&evidence)
    };
    let runs = Some(registered - s(5));
    for state in ["stopping", "stopped"] {
        breaks(&after(state, None), LATE);
        breaks(&after(state, Some(registered + s(1))), LATE);
        keeps(&after(state, runs), LATE, "what stopped was an earlier run");
    }
    breaks(&after("shutting-down", runs), LATE);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_the_queue_forgets_settles_an_interruption_if_it_came_in_time() {
    let evidence = never().await;
    let asked = |seconds: u64| {
        let mut evidence = evidence.clone();
        evidence.messages.iter_mut().for_each(|m| m.deletion_lost = Some(m.at + s(seconds)));
        judge(&evidence)
    };
    keeps(&asked(1), LATE, "it was decided");
    breaks(&asked(4), LATE);
}

#[tokio::test(start_paused = true)]
async fn a_notice_that_comes_while_a_leader_waits_for_its_last_write_is_excused() {
    let evidence = reclaimed().await;
    let (from, _) = sent(&evidence);
    let given_up = from + s(5);
    let lease =
        evidence.requests.iter().find(|r| r.resource == "leases" && r.is_write()).unwrap().clone();
    let eviction = evidence.requests.iter().find(|r| r.subresource == "eviction").unwrap().clone();
    let holds = evidence
        .entries
        .iter()
        .find(|e| matches!(&e.fact, Fact::LeaseHeld { lease, .. } if lease == "sundown"))
        .unwrap()
        .clone();
    let after = |answered: Moment| {
        let mut late = later(&evidence, 8);
        late.requests
            .retain(|r| r.resource == "leases" || !r.is_write() || r.at < from || r.at > given_up);
        late.requests.push(Request { at: holds.at, answered: Some(answered), ..eviction.clone() });
        late.requests.push(Request { at: given_up, answered: Some(given_up), ..lease.clone() });
        late.requests.sort_by_key(|r| r.at);
        insert(
            &mut late,
            given_up,
            &holds.by,
            Fact::LeaseHeld { lease: "sundown".to_owned(), holder: String::new() },
        );
        insert(&mut late, from + s(7), &holds.by, holds.fact.clone());
        judge(&late)
    };
    keeps(&after(given_up), LATE, "its last write was under way");
    breaks(&after(holds.at), LATE);
}

#[tokio::test(start_paused = true)]
async fn a_notice_that_comes_while_a_leader_cannot_write_that_it_gives_the_lease_up_is_excused() {
    let evidence = reclaimed().await;
    let (from, _) = sent(&evidence);
    let given_up = from + s(5);
    let is_lease = |r: &Request| r.resource == "leases" && r.is_write();
    let lease = evidence.requests.iter().find(|r| is_lease(r)).unwrap().clone();
    let holds = evidence
        .entries
        .iter()
        .find(|e| matches!(&e.fact, Fact::LeaseHeld { lease, .. } if lease == "sundown"))
        .unwrap()
        .clone();
    let after = |tries: &[u64], writes: Option<u64>| {
        let mut late = later(&evidence, 8);
        late.requests.retain(|r| !r.is_write() || r.at <= from || r.at > given_up);
        late.requests.extend(writes.into_iter().map(|seconds| {
            let at = from + s(seconds);
            let resource = "nodes".to_owned();
            Request { at, answered: Some(at), ended: Some(at), resource, ..lease.clone() }
        }));
        late.requests.extend(tries.iter().map(|seconds| {
            let at = from + s(*seconds);
            Request { at, answered: None, ended: Some(at), status: 0, ..lease.clone() }
        }));
        late.requests.push(Request { at: given_up, answered: Some(given_up), ..lease.clone() });
        late.requests.sort_by_key(|r| r.at);
        let lease = "sundown".to_owned();
        let nobody = Fact::LeaseHeld { lease, holder: String::new() };
        insert(&mut late, given_up, &holds.by, nobody);
        insert(&mut late, from + s(7), &holds.by, holds.fact.clone());
        judge(&late)
    };
    keeps(&after(&[1, 2, 4], None), LATE, "it tried to give the Lease up since then");
    breaks(&after(&[4], None), LATE);
    breaks(&after(&[1, 2, 4], Some(3)), LATE);
}

#[tokio::test(start_paused = true)]
async fn a_notice_that_comes_while_the_own_node_of_the_leader_drains_is_excused_for_some_seconds() {
    let evidence = reclaimed().await;
    let (from, _) = sent(&evidence);
    let with = |process: &str, before: u64, record: &str| {
        let mut late = later(&evidence, 4);
        let ended = late.ended;
        longer(&mut late, ended);
        led_from_the_beginning(&mut late);
        late.own_nodes.insert(process.to_owned(), "own".to_owned());
        let provider_id = "aws:///eu-west-1a/i-00000000000000000".to_owned();
        let annotations = [("sundown.dev/record".to_owned(), record.to_owned())].into();
        let page = Fact::Annotated { node: "own".to_owned(), provider_id, annotations };
        insert(&mut late, from - s(before), "<test>", page);
        judge(&late)
    };
    let open = r#"{"version":1,"interruptions":[]}"#;
    let released = r#"{"version":1,"interruptions":[],"released":{"at":"","outcome":"empty"}}"#;
    keeps(&with("sundown-0", 2, open), LATE, "it waited for its last writes");
    breaks(&with("sundown-1", 2, open), LATE);
    breaks(&with("sundown-0", 13, open), LATE);
    breaks(&with("sundown-0", 2, released), LATE);
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_another_node_that_claims_the_instance_excuses_only_while_that_one_is_drained_too()
 {
    let evidence = reclaimed().await;
    let (from, _) = sent(&evidence);
    let (instance, node) = node_of(&evidence);
    let with = |silent: Option<u64>, terminated: Option<u64>, claimed: &str| {
        let mut late = later(&evidence, 4);
        let state = State::Terminated;
        late.changes.extend(terminated.map(|seconds| InstanceChange {
            id: instance.clone(),
            state,
            at: from + s(seconds),
        }));
        let (begun, ended) = (late.begun, late.ended);
        longer(&mut late, ended);
        let (provider_id, annotations) =
            (format!("aws:///eu-west-1a/{claimed}"), std::collections::BTreeMap::new());
        insert(
            &mut late,
            begun,
            "<test>",
            Fact::Annotated { node: "twin".to_owned(), provider_id, annotations },
        );
        let (by, what, object) =
            ("sundown-0".to_owned(), "patch nodes".to_owned(), "twin".to_owned());
        late.disturbances.push(Disturbance {
            at: from,
            until: Some(from + s(1)),
            by,
            what,
            object,
            is_silent: false,
        });
        late.hands.extend(silent.map(|seconds| (from - s(seconds), node.clone(), "lost")));
        judge(&late)
    };
    let another = "i-00000000000000000";
    keeps(&with(Some(60), None, &instance), LATE, "the other one is written in its place");
    breaks(&with(Some(60), None, another), LATE);
    breaks(&with(Some(20), None, &instance), LATE);
    breaks(&with(None, None, &instance), LATE);
    keeps(&with(None, Some(0), &instance), LATE, "EC2 cannot say which one is the instance's");
    breaks(&with(None, Some(0), another), LATE);
    breaks(&with(None, Some(9), &instance), LATE);
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_another_node_that_claims_the_instance_excuses_the_deletion_of_a_message_alone()
{
    let evidence = reclaimed().await;
    let (instance, _) = node_of(&evidence);
    let from = accepted(&evidence) + s(20);
    let body = json!({
        "id": "a-repeat", "detail-type": "EC2 Spot Instance Interruption Warning",
        "source": "aws.ec2", "time": from.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "detail": { "instance-id": instance, "instance-action": "terminate" },
    });
    let with = |claimed: &str, faulty: &str| {
        let mut late = evidence.clone();
        send(&mut late, &body.to_string(), from, from + s(4));
        let begun = late.begun;
        let (provider_id, annotations) =
            (format!("aws:///eu-west-1a/{claimed}"), std::collections::BTreeMap::new());
        let twin = Fact::Annotated { node: "twin".to_owned(), provider_id, annotations };
        insert(&mut late, begun, "<test>", twin);
        late.disturbances.push(Disturbance {
            at: from,
            until: Some(from + s(3)),
            by: "sundown-0".to_owned(),
            what: "patch nodes".to_owned(),
            object: faulty.to_owned(),
            is_silent: false,
        });
        judge(&late)
    };
    keeps(&with(&instance, "twin"), LATE, "the other one is cordoned first");
    breaks(&with("i-00000000000000000", "twin"), LATE);
    breaks(&with(&instance, "another-node"), LATE);
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_another_node_excuses_only_messages_for_which_a_process_had_no_room() {
    let evidence = reclaimed().await;
    let (from, _) = sent(&evidence);
    let with = |most: &str, received: u64, node: &str, deleted: Option<u64>| {
        let mut late = later(&evidence, 20);
        let ended = late.ended;
        longer(&mut late, ended);
        late.terms.flags[0].1.push(format!("--max-held={most}"));
        // Ten messages that nobody could decide.
        let (first, by) = (late.messages[0].clone(), "sundown-0".to_owned());
        for message in &mut late.messages {
            message.deliveries.iter_mut().for_each(|d| d.at = from + s(received));
        }
        for n in 0..10 {
            late.messages.push(SentMessage {
                message_id: format!("held-{n}"),
                body: "{}".into(),
                at: from - s(9),
                sent: from - s(9),
                deliveries: vec![Delivery { at: from - s(9), by: by.clone() }],
                deleted: deleted.map(|seconds| from + s(seconds)),
                ..first.clone()
            });
        }
        late.disturbances.push(Disturbance {
            at: from,
            until: Some(from + s(8)),
            by,
            what: "patch nodes".to_owned(),
            object: node.to_owned(),
            is_silent: false,
        });
        judge(&late)
    };
    let own = node_of(&evidence).1;
    keeps(&with("100", 0, &own, None), LATE, "its own PATCH failed");
    breaks(&with("100", 0, "another-node", None), LATE);
    breaks(&with("100", 19, "another-node", None), LATE);
    keeps(&with("10", 19, "another-node", None), LATE, "nobody had room for its message");
    breaks(&with("10", 0, "another-node", None), LATE);
    breaks(&with("10", 19, "another-node", Some(1)), LATE);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_was_given_back_before_its_node_registered_is_hidden_for_a_while() {
    let evidence = reclaimed().await;
    let (from, _) = sent(&evidence);
    // Its Node registers 15 s after it was sent, and it is accepted 5 s later.
    let with = |received: &[u64], flags: &[&str]| {
        let mut late = later(&evidence, 20);
        let ended = late.ended;
        longer(&mut late, ended);
        late.terms.flags[0].1.extend(flags.iter().map(|flag| (*flag).to_owned()));
        for entry in late.entries.iter_mut().filter(|e| e.at < from) {
            if matches!(entry.fact, Fact::NodeAdded(_) | Fact::Annotated { .. }) {
                entry.at = from + s(15);
            }
        }
        late.entries.sort_by_key(|e| e.at);
        let delivery = |seconds: &u64| Delivery { at: from + s(*seconds), by: "sundown-0".into() };
        for message in &mut late.messages {
            message.deliveries = received.iter().map(delivery).collect();
        }
        judge(&late)
    };
    let (both, six) = (["--shared-queue", NO_CLUSTER_NAME], [0, 2, 3, 4, 6, 12]);
    keeps(&with(&six, &both), LATE, "it was given back for the sixth time, and is hidden for 8 s");
    breaks(&with(&six, &both[..1]), LATE);
    breaks(&with(&six, &both[1..]), LATE);
    breaks(&with(&six[..5], &both), LATE);
    breaks(&with(&[0, 6, 12], &both), LATE);
    breaks(&with(&[0, 2, 3, 4, 6, 12, 16], &both), LATE);
    breaks(&with(&[], &both), LATE);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_fails_excuses_until_its_process_asks_again() {
    const ASK: &str = "ec2:DescribeInstances";
    let evidence = reclaimed().await;
    let (from, _) = sent(&evidence);
    let call = evidence.calls[0].clone();
    let with = |until: u64, again: Option<(Moment, &str)>| {
        let mut late = later(&evidence, 4);
        let ended = late.ended;
        longer(&mut late, ended);
        late.calls.retain(|c| c.api != ASK);
        late.calls.extend(again.into_iter().map(|(at, by)| {
            let (api, by) = (ASK.to_owned(), by.to_owned());
            Call { at, api, by, ..call.clone() }
        }));
        late.disturbances.push(Disturbance {
            at: from - s(until + 3),
            until: Some(from - s(until)),
            by: "sundown-0".to_owned(),
            what: ASK.to_owned(),
            object: String::new(),
            is_silent: false,
        });
        judge(&late)
    };
    keeps(&with(11, None), LATE, "it is felt for 12 s");
    breaks(&with(15, None), LATE);
    keeps(&with(15, Some((from + s(3), "sundown-0"))), LATE, "it had not asked again before");
    breaks(&with(15, Some((from + s(3), "sundown-1"))), LATE);
    breaks(&with(15, Some((from - s(2), "sundown-0"))), LATE);
    breaks(&with(24, Some((from + s(3), "sundown-0"))), LATE);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_terminated_instance_stays_on_a_shared_queue_if_its_tags_decide() {
    let evidence = reclaimed().await;
    let (instance, _) = node_of(&evidence);
    let at = accepted(&evidence) + s(5);
    let time = |format: &str, at: Moment| at.strftime(format).to_string();
    let health = "%a, %d %b %Y %H:%M:%S GMT";
    let change = json!({
        "id": "one-more", "detail-type": "AWS Health Event", "source": "aws.health",
        "time": time("%Y-%m-%dT%H:%M:%SZ", at),
        "detail": {
            "eventArn": "arn:of-the-change", "service": "EC2", "statusCode": "upcoming",
            "eventTypeCategory": "scheduledChange",
            "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
            "lastUpdatedTime": time(health, at), "startTime": time(health, at + s(900)),
            "affectedEntities": [{ "entityValue": instance, "status": "PENDING" }],
        },
    });
    let spot = json!({
        "id": "one-more", "detail-type": "EC2 Spot Instance Interruption Warning",
        "source": "aws.ec2", "time": time("%Y-%m-%dT%H:%M:%SZ", at),
        "detail": { "instance-id": instance, "instance-action": "terminate" },
    });
    let with = |body: &Value, is_terminated: bool, flags: &[&str]| {
        let mut evidence = evidence.clone();
        send(&mut evidence, &body.to_string(), at, at);
        evidence.messages.last_mut().unwrap().deleted = None;
        let (id, state) = (instance.clone(), State::Terminated);
        let ended = InstanceChange { id, state, at: at - s(1) };
        evidence.changes.extend(is_terminated.then_some(ended));
        evidence.terms.flags[0].1.extend(flags.iter().map(|flag| (*flag).to_owned()));
        judge(&evidence)
    };
    let both = ["--shared-queue", "--managed-tag=drain/me"];
    keeps(&with(&change, true, &both), LATE, "EC2 shows no tags of it");
    breaks(&with(&change, false, &both), LATE);
    breaks(&with(&change, true, &both[..1]), LATE);
    breaks(&with(&change, true, &both[1..]), LATE);
    breaks(&with(&spot, true, &both), LATE);
}

#[tokio::test(start_paused = true)]
async fn a_warning_that_stays_for_another_instance_may_be_a_repeat() {
    const BLOCK: &str = "cr-1234567890abcdef0";
    let mut evidence = reclaimed().await;
    let (instance, _) = node_of(&evidence);
    evidence.groups.insert("i-other".to_owned(), "other".to_owned());
    let own = evidence.groups[&instance].clone();
    evidence.groups.insert("i-own".to_owned(), own);
    evidence.terms.groups.insert("other".to_owned(), Belongs::OtherCluster);
    let at = accepted(&evidence) + s(5);
    let with = |evidence: &Evidence, others: &[&str], minutes: u64, flag: &str| {
        let mut evidence = evidence.clone();
        let time = |at: Moment| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let body = json!({
            "id": "e", "detail-type": "Capacity Block Expiration Warning", "source": "aws.ec2",
            "time": time(at),
            "detail": {
                "capacity-reservation-id": BLOCK, "end-date": time(at + s(60 * (30 + minutes))),
            },
        });
        send(&mut evidence, &body.to_string(), at, at);
        evidence.messages.last_mut().unwrap().deleted = None;
        let inside = [instance.as_str()].into_iter().chain(others.iter().copied());
        evidence.blocks = inside.map(|i| (i.to_owned(), BLOCK.to_owned())).collect();
        evidence.terms.flags[0].1.push(flag.to_owned());
        judge(&evidence)
    };
    let late = format!("capacity-block of {instance} {LATE}");
    keeps(
        &with(&evidence, &["i-other"], 10, "--shared-queue"),
        &late,
        "its node is drained until sooner",
    );
    breaks(&with(&evidence, &["i-other"], 1, "--shared-queue"), &late);
    breaks(&with(&evidence, &["i-other"], 10, "--verbose"), &late);
    breaks(&with(&evidence, &["i-own"], 10, "--shared-queue"), &late);
    breaks(&with(&evidence, &[], 10, "--shared-queue"), &late);
    // The other instance has no Node yet.
    let launched = |other: &str, states: &[(u64, State)], minutes: u64, flag: &str| {
        let mut evidence = evidence.clone();
        evidence.changes.extend(states.iter().map(|(before, state)| InstanceChange {
            id: other.to_owned(),
            state: *state,
            at: at - s(*before),
        }));
        with(&evidence, &[other], minutes, flag)
    };
    let starts = [(60, State::Pending), (40, State::Running)];
    keeps(&launched("i-own", &starts, 10, "--verbose"), &late, "its message waits for that Node");
    breaks(&launched("i-own", &starts, 1, "--verbose"), &late);
    breaks(&launched("i-own", &starts, 10, "--join-timeout=30s"), &late);
    breaks(&launched("i-own", &[(400, State::Pending)], 10, "--verbose"), &late);
    let ends = [starts[0], (20, State::ShuttingDown)];
    breaks(&launched("i-own", &ends, 10, "--verbose"), &late);
    breaks(&launched("i-other", &starts, 10, "--verbose"), &late);
    // The other instance has a Node, on which the warning is not written down.
    let page = Fact::Annotated {
        node: "own".to_owned(),
        provider_id: "aws:///eu-west-1a/i-own".to_owned(),
        annotations: std::collections::BTreeMap::new(),
    };
    let begun = evidence.begun;
    insert(&mut evidence, begun, "<test>", page);
    evidence.nodes.insert("i-own".to_owned(), "own".to_owned());
    let with_node = |others: &[&str], minutes| with(&evidence, others, minutes, "--verbose");
    keeps(&with_node(&["i-own"], 10), &late, "its node is drained until sooner");
    breaks(&with_node(&["i-own"], 10), &format!("capacity-block of i-own {LATE}"));
    breaks(&with_node(&["i-own"], 1), &late);
    breaks(&with_node(&[], 10), &late);
}
