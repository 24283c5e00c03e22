//! What only some worlds excuse: a queue that is deleted, a webhook that does not answer.

use super::*;

const COMPLETE: &str = "autoscaling:CompleteLifecycleAction";

#[tokio::test(start_paused = true)]
async fn a_hook_that_times_out_is_excused_by_a_queue_that_was_deleted_with_its_message() {
    let mut evidence = hooked().await;
    evidence.actions[0].heartbeats.clear();
    let started = evidence.actions[0].started;
    let at = started + s(60);
    longer(&mut evidence, at + s(60));
    let end = ActionEnd { at, verdict: Verdict::TimedOut(HookResult::Continue), by: String::new() };
    evidence.actions[0].end = Some(end);
    let sent = evidence.messages.iter().map(|m| m.at).min().unwrap().max(started);
    evidence.messages.iter_mut().for_each(|m| m.deleted = None);
    evidence.queue_away = vec![(sent + s(1), sent + s(5))];
    breaks(&judge(&evidence), "timed out (60s)");
    let is_record = |fact: &Fact| {
        matches!(
            fact,
            Fact::Annotated { annotations, .. } if annotations.contains_key("sundown.dev/record")
        )
    };
    evidence.entries.retain(|e| !is_record(&e.fact));
    keeps(&judge(&evidence), "timed out (60s)", "nobody could know of it");
    evidence.queue_away = vec![(sent + s(40), sent + s(45))];
    breaks(&judge(&evidence), "timed out (60s)");
    evidence.queue_away = vec![(at + s(1), at + s(5))];
    breaks(&judge(&evidence), "timed out (60s)");
}

/// The record goes with its Node: only a process that had listed the Nodes before, and lives on,
/// knows what the Node owed.
#[tokio::test(start_paused = true)]
async fn a_hook_that_times_out_is_excused_by_the_end_of_its_node_that_nobody_saw() {
    let mut evidence = hooked().await;
    let started = evidence.actions[0].started;
    let at = started + s(60);
    longer(&mut evidence, at + s(60));
    evidence.actions[0].end =
        Some(ActionEnd { at, verdict: Verdict::TimedOut(HookResult::Continue), by: String::new() });
    let (_, node) = node_of(&evidence);
    let gone = accepted(&evidence) + s(2);
    insert(&mut evidence, gone, "<test>", Fact::NodeGone(node));
    evidence.lives = vec![(0, evidence.begun, None)];
    let listed = evidence
        .requests
        .iter()
        .position(|r| (r.verb.as_str(), r.resource.as_str()) == ("list", "nodes"))
        .unwrap();
    evidence.requests[listed].client = "sundown-0-1".to_owned();
    breaks(&judge(&evidence), "timed out (60s)");
    let with = |change: &dyn Fn(&mut Evidence)| {
        let mut evidence = evidence.clone();
        change(&mut evidence);
        judge(&evidence)
    };
    let excused = "timed out (60s)";
    keeps(
        &with(&|e| e.requests[listed].answered = Some(gone + s(1))),
        excused,
        "its caches were empty",
    );
    keeps(&with(&|e| e.requests[listed].status = 401), excused, "it could not list them");
    keeps(&with(&|e| e.lives[0].2 = Some(gone + s(1))), excused, "nobody who saw it lives on");
    breaks(&with(&|e| e.lives[0].2 = Some(at + s(1))), excused);
    // Another process takes the Lease and renews it.
    let leads = |e: &mut Evidence, by: &str| {
        let since = gone + s(3);
        e.requests
            .iter_mut()
            .filter(|r| r.resource == "leases" && r.is_write() && r.at >= since)
            .for_each(|r| r.client = by.to_owned());
        insert(
            e,
            since,
            by,
            Fact::LeaseHeld { lease: "sundown".to_owned(), holder: format!("{by}_1") },
        );
    };
    keeps(&with(&|e| leads(e, "sundown-1-2")), excused, "who saw it did not lead");
    breaks(&with(&|e| leads(e, "sundown-0-1")), excused);
    // Who saw it held the Lease at that moment.
    let held = |e: &mut Evidence, renews: bool| {
        for entry in e.entries.iter_mut().filter(|e| matches!(e.fact, Fact::LeaseHeld { .. })) {
            entry.by = "sundown-0-1".to_owned();
        }
        let is_its = |r: &&mut Request| r.resource == "leases" && r.is_write();
        e.requests.iter_mut().filter(is_its).for_each(|r| r.client = "sundown-0-1".to_owned());
        e.requests.retain(|r| {
            renews
                || r.client != "sundown-0-1"
                || r.resource != "leases"
                || r.at <= gone
                || r.at >= gone + s(3)
        });
        leads(e, "sundown-1-2");
    };
    keeps(&with(&|e| held(e, false)), excused, "it did not lead any more");
    breaks(&with(&|e| held(e, true)), excused);
    let unanswered = |what: &str, felt: u64| {
        with(&|e| {
            held(e, true);
            fault(e, what, gone - s(15), gone + s(felt));
        })
    };
    keeps(&unanswered(COMPLETE, 5), excused, "AWS answered none of its calls while it led");
    breaks(&unanswered(COMPLETE, 1), excused);
    breaks(&unanswered("sqs:ReceiveMessage", 60), excused);
}

/// A new leader knows the records from its first LIST of Nodes.
#[tokio::test(start_paused = true)]
async fn a_hook_that_times_out_is_excused_by_a_new_leader_that_could_never_list_the_nodes() {
    const TIMED_OUT: &str = "timed out (60s)";
    let mut evidence = hooked().await;
    let at = evidence.actions[0].started + s(60);
    longer(&mut evidence, at + s(60));
    evidence.actions[0].end =
        Some(ActionEnd { at, verdict: Verdict::TimedOut(HookResult::Continue), by: String::new() });
    // The process that accepted it is killed, and another one takes the Lease.
    let since = accepted(&evidence) + s(3);
    let next = || "sundown-1-2".to_owned();
    evidence
        .requests
        .iter_mut()
        .filter(|r| r.resource == "leases" && r.is_write() && r.at >= since)
        .for_each(|r| r.client = next());
    insert(
        &mut evidence,
        since,
        "sundown-1-2",
        Fact::LeaseHeld { lease: "sundown".to_owned(), holder: "sundown-1-2_1".to_owned() },
    );
    evidence.lives = vec![(0, evidence.begun, Some(since)), (1, evidence.begun, None)];
    breaks(&judge(&evidence), TIMED_OUT);
    let failing = |until: Moment| {
        let mut evidence = evidence.clone();
        let (by, what, object) = (next(), "list nodes".to_owned(), String::new());
        evidence.disturbances.push(Disturbance {
            at: since,
            until: Some(until),
            by,
            what,
            object,
            is_silent: false,
        });
        evidence
    };
    keeps(&judge(&failing(at)), TIMED_OUT, "it could not know the record");
    breaks(&judge(&failing(at - s(40))), TIMED_OUT);
    let listed = evidence
        .requests
        .iter()
        .position(|r| (r.verb.as_str(), r.resource.as_str()) == ("list", "nodes"))
        .unwrap();
    let mut knows = failing(at);
    knows.requests[listed].client = next();
    breaks(&judge(&knows), TIMED_OUT);
    let mut standby = failing(at);
    standby.requests[listed].client = "sundown-0-1".to_owned();
    keeps(&judge(&standby), TIMED_OUT, "the process that knew the record is gone");
    standby.lives[0].2 = None;
    breaks(&judge(&standby), TIMED_OUT);
}

/// A process that cannot renew the Lease goes on with its heartbeats, until the drain would have
/// been over.
#[tokio::test(start_paused = true)]
async fn a_hook_that_times_out_while_nobody_leads_is_excused_only_after_the_time_for_its_drain() {
    let mut evidence = hooked().await;
    let started = evidence.actions[0].started;
    let at = started + s(100);
    longer(&mut evidence, at + s(60));
    evidence.actions[0].end =
        Some(ActionEnd { at, verdict: Verdict::TimedOut(HookResult::Continue), by: String::new() });
    evidence.actions[0].heartbeats = vec![started + s(40)];
    let is_renewal = |r: &Request| r.resource == "leases" && r.is_write();
    let mut overdue = evidence.clone();
    overdue.terms.drain_timeout = 5;
    overdue.requests.retain(|r| !is_renewal(r) || r.at < started + s(90));
    breaks(&judge(&overdue), "timed out (60s)");
    evidence.requests.retain(|r| !is_renewal(r) || r.at < started + s(10));
    overdue.requests.retain(|r| !is_renewal(r) || r.at < started + s(65));
    keeps(&judge(&overdue), "timed out (60s)", "heartbeats end with the Lease");
    breaks(&judge(&evidence), "timed out (60s)");
    evidence.terms.drain_timeout = 60;
    keeps(&judge(&evidence), "timed out (60s)", "a leader would have completed it by then");
    // Somebody deletes the Lease, and the process makes it again at once, or a little later.
    let deleted = |later: u64| {
        let mut evidence = evidence.clone();
        let at = started + s(8);
        let free = Fact::LeaseHeld { lease: "sundown".to_owned(), holder: String::new() };
        let holds =
            |e: &&Entry| matches!(&e.fact, Fact::LeaseHeld { lease, .. } if lease == "sundown");
        let held = evidence.entries.iter().find(holds).unwrap().clone();
        let renewal = evidence.requests.iter().find(|r| is_renewal(r)).unwrap().clone();
        insert(&mut evidence, at, "kubectl", free);
        let at = at + s(later);
        insert(&mut evidence, at, &held.by, held.fact);
        evidence.requests.push(Request { at, answered: Some(at), ended: Some(at), ..renewal });
        evidence.requests.sort_by_key(|r| r.at);
        evidence.terms.drain_timeout = 88;
        judge(&evidence)
    };
    keeps(&deleted(0), "timed out (60s)", "it went on leading, so its drain was not taken over");
    breaks(&deleted(1), "timed out (60s)");
    evidence.terms.drain_timeout = 95;
    breaks(&judge(&evidence), "timed out (60s)");
    // Another process takes the Lease, and the answer to its write is lost.
    let taken = |by: &str| {
        let mut evidence = evidence.clone();
        let (lease, holder) = ("sundown".to_owned(), format!("{by}_1"));
        insert(&mut evidence, started + s(40), by, Fact::LeaseHeld { lease, holder });
        judge(&evidence)
    };
    keeps(&taken("sundown-1"), "timed out (60s)", "the process that led sees another holder");
    breaks(&taken("sundown-0"), "timed out (60s)");
    // The Lease could be renewed until 18 to 20 s after the start.
    evidence.terms.drain_timeout = 80;
    let ended = evidence.ended;
    let paused = |from: u64, to: Moment| {
        let mut paused = evidence.clone();
        paused.pauses = vec![(started + s(from), to)];
        judge(&paused)
    };
    keeps(&judge(&evidence), "timed out (60s)", "it was due 7 s before the drain would be over");
    breaks(&paused(5, started + s(17)), "timed out (60s)");
    breaks(&paused(5, ended), "timed out (60s)");
    keeps(&paused(21, ended), "timed out (60s)", "nobody who led saw this pause");
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_asked_late_are_excused_by_a_webhook_that_does_not_answer_others() {
    let mut evidence = terminated().await;
    let is_removal = |r: &sundown::sim::kube::Request| {
        r.subresource == "eviction" || (r.verb == "delete" && r.resource == "pods")
    };
    evidence.requests.iter_mut().filter(|r| is_removal(r)).for_each(|r| r.at = r.at + s(12));
    let goes = |fact: &Fact| {
        matches!(
            fact,
            Fact::Evicted { .. } | Fact::Deleted { .. } | Fact::PodFinished(_) | Fact::PodGone(_)
        )
    };
    evidence.entries.retain(|e| !goes(&e.fact));
    breaks(&judge(&evidence), "nobody asked");
    evidence.evictions_hang = vec![(evidence.begun, evidence.ended)];
    keeps(
        &judge(&evidence),
        "nobody asked",
        "its eviction waited for those that were not answered",
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_waits_for_the_eviction_of_another_one_under_its_budget_may_be_asked_later() {
    let mut evidence = terminated().await;
    let is_eviction = |r: &sundown::sim::kube::Request| r.subresource == "eviction";
    let first = evidence.requests.iter().find(|r| is_eviction(r)).unwrap().clone();
    evidence.requests.iter_mut().filter(|r| is_eviction(r)).for_each(|r| r.at = r.at + s(12));
    let goes = |fact: &Fact| {
        matches!(
            fact,
            Fact::Evicted { .. } | Fact::Deleted { .. } | Fact::PodFinished(_) | Fact::PodGone(_)
        )
    };
    evidence.entries.retain(|e| !goes(&e.fact));
    let sent_at = |at: Moment, name: String, ended: u64| {
        let mut evidence = evidence.clone();
        evidence.terms.budgets = vec![(
            first.namespace.clone(),
            crate::judge::budgets::workload(&first.name).to_owned(),
        )];
        evidence.requests.push(sundown::sim::kube::Request {
            at,
            answered: None,
            ended: Some(at + s(ended)),
            name,
            ..first.clone()
        });
        judge(&evidence)
    };
    let other = |name: String, ended: u64| sent_at(first.at - s(2), name, ended);
    keeps(
        &other(format!("{}-other", first.name), 10),
        "nobody asked",
        "another eviction under its budget was not answered",
    );
    breaks(&other(format!("{}-other", first.name), 3), "nobody asked");
    keeps(
        &sent_at(first.at, format!("{}-other", first.name), 8),
        "nobody asked",
        "another node was interrupted at the same moment",
    );
    breaks(&sent_at(first.at, format!("{}-other", first.name), 1), "nobody asked");
    breaks(&sent_at(first.at + s(2), format!("{}-other", first.name), 8), "nobody asked");
    breaks(&other("another-workload-0".to_owned(), 10), "nobody asked");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_came_after_its_drain_had_ended_is_not_waited_for_while_the_completion_is_delayed()
 {
    let mut evidence = hooked().await;
    let ended = when(&evidence, |f| matches!(f, Fact::PodGone(_)));
    let is_released = |f: &Fact| {
        matches!(
            f, Fact::Annotated { annotations, .. } if annotations.values().any(|a| a.contains("\"released\":{"))
        )
    };
    let (instance, node) = node_of(&evidence);
    evidence.messages.retain(|m| !m.body.contains("State-change"));
    evidence.entries.iter_mut().filter(|e| is_released(&e.fact)).for_each(|e| e.at = ended + s(7));
    evidence.entries.sort_by_key(|e| e.at);
    longer(&mut evidence, ended + s(60));
    // The machine is shut down three seconds after its node was empty.
    let at = ended + s(3);
    let body = serde_json::json!({
        "id": "e", "detail-type": "EC2 Instance State-change Notification", "source": "aws.ec2",
        "time": at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "detail": { "instance-id": instance, "state": "shutting-down" },
    });
    send(&mut evidence, &body.to_string(), at, at);
    let with = |bound: Moment, delay: u64| {
        let mut evidence = evidence.clone();
        evidence.terms.complete_delay = delay;
        let (namespace, name) = ("load".to_owned(), "agent-0".to_owned());
        let pod = PodRef { namespace, name, uid: "uid-of-agent-0".into(), node: node.clone() };
        insert(&mut evidence, bound, "<foreign-daemonset>", Fact::Bound(pod));
        judge(&evidence)
    };
    let begun = evidence.begun;
    keeps(&with(ended + s(1), 7), "nobody asked", "its completion was waiting for the delay");
    breaks(&with(ended + s(1), 0), "nobody asked");
    breaks(&with(begun, 7), "nobody asked");
}

#[tokio::test(start_paused = true)]
async fn the_grace_of_a_pod_is_measured_when_its_request_was_sent() {
    let mut evidence = reclaimed().await;
    let forced = evidence
        .entries
        .iter_mut()
        .find(|e| matches!(e.fact, Fact::Deleted { .. }) && e.by.starts_with("sundown"))
        .unwrap();
    forced.at = forced.at + s(10);
    let late = forced.at;
    breaks(&judge(&evidence), "quorum-0 got a grace of");
    evidence
        .requests
        .iter_mut()
        .filter(|r| r.verb == "delete")
        .for_each(|r| r.answered = Some(late));
    keeps(&judge(&evidence), "quorum-0 got a grace of", "a webhook held the request");
}

#[tokio::test(start_paused = true)]
async fn what_others_complete_may_be_early() {
    let mut evidence = hooked().await;
    let evicted = when(&evidence, |f| matches!(f, Fact::Evicted { .. }));
    let end = evidence.actions[0].end.as_mut().unwrap();
    end.at = evicted + s(1);
    breaks(&judge(&evidence), "was completed before");
    evidence.actions[0].end.as_mut().unwrap().by = "others".to_owned();
    keeps(&judge(&evidence), "was completed before", "it is theirs");
}

#[tokio::test(start_paused = true)]
async fn an_interruption_that_was_in_a_queue_when_it_was_deleted_may_be_lost() {
    let mut evidence = reclaimed().await;
    evidence.entries.retain(|e| {
        !matches!(
            &e.fact,
            Fact::Annotated { annotations, .. } if annotations.contains_key("sundown.dev/record")
        )
    });
    evidence.messages.iter_mut().for_each(|message| message.deleted = None);
    let sent = evidence.messages.last().unwrap().sent;
    breaks(&judge(&evidence), "was not accepted in time");
    evidence.queue_away = vec![(sent + s(1), sent + s(2))];
    keeps(&judge(&evidence), "was not accepted in time", "it was lost");
    evidence.queue_away = vec![(sent + s(20), sent + s(22))];
    breaks(&judge(&evidence), "was not accepted in time");
    evidence.queue_away = vec![(sent - s(9), sent - s(2))];
    breaks(&judge(&evidence), "was not accepted in time");
}
