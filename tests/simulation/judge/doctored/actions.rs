//! How lifecycle actions end.

use serde_json::json;
use sundown::sim::aws::{Call, Outcome};

use super::*;

const US: &str = "sundown-0";

fn end(evidence: &mut Evidence) -> &mut ActionEnd {
    evidence.actions[0].end.as_mut().unwrap()
}

/// A hook that was completed twenty seconds after the first eviction, with a pod left and long
/// before its deadline.
async fn hasty() -> (Evidence, Moment, String) {
    let mut evidence = overdue().await;
    let at = when(&evidence, |f| matches!(f, Fact::Evicted { .. })) + s(20);
    end(&mut evidence).at = at;
    let (_, node) = node_of(&evidence);
    (evidence, at, node)
}

#[tokio::test(start_paused = true)]
async fn a_hook_whose_pods_nobody_asked_and_that_is_given_up_at_its_deadline_is_seen() {
    let mut evidence = overdue().await;
    evidence
        .requests
        .retain(|r| r.resource != "pods" || !["create", "delete"].contains(&r.verb.as_str()));
    evidence.entries.retain(|e| !matches!(e.fact, Fact::Evicted { .. } | Fact::Deleted { .. }));
    breaks(&judge(&evidence), "nobody had asked [\"stuck-0\"] to go");
    let mut troubled = evidence.clone();
    fault(&mut troubled, "delete pods", evidence.begun, evidence.ended);
    keeps(&judge(&troubled), "nobody had asked", "trouble is a reason");
    let (_, node) = node_of(&evidence);
    let mut meddled = evidence.clone();
    meddled.hands.push((evidence.begun, node, "rebooted"));
    keeps(&judge(&meddled), "nobody had asked", "somebody interfered");
    let late = evidence.actions[0].end.as_ref().unwrap().at - s(5);
    evidence
        .entries
        .iter_mut()
        .filter(|e| matches!(e.fact, Fact::Bound(_)))
        .for_each(|e| e.at = late);
    keeps(&judge(&evidence), "nobody had asked", "it came too late to be asked");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_completes_in_a_pause_is_seen() {
    let mut evidence = overdue().await;
    let at = end(&mut evidence).at;
    evidence.pauses = vec![(at - s(1), evidence.ended)];
    clean(&evidence, "it takes two seconds to be known");
    evidence.pauses = vec![(at - s(20), at - s(1))];
    clean(&evidence, "it was over");
    evidence.pauses = vec![(at - s(4), evidence.ended)];
    breaks(&judge(&evidence), "are left, paused since");
    let ended = evidence.ended;
    fault(&mut evidence, "watch nodes", at - s(3), ended);
    keeps(
        &judge(&evidence),
        "are left, paused since",
        "nobody could see for long enough to know it",
    );
    evidence.disturbances.clear();
    fault(&mut evidence, "create pods/eviction", at - s(3), ended);
    breaks(&judge(&evidence), "are left, paused since");
    evidence.disturbances.clear();
    fault(&mut evidence, "watch nodes", at - s(1), ended);
    breaks(&judge(&evidence), "are left, paused since");
    evidence.disturbances.clear();
    // Sundown tried to complete it, and AWS did not answer for ten seconds.
    end(&mut evidence).at = at + s(10);
    longer(&mut evidence, at + s(20));
    let completes = |c: &&mut Call| c.api == "autoscaling:CompleteLifecycleAction";
    let calls = evidence.calls.iter_mut();
    calls.filter(completes).for_each(|c| c.outcome = Outcome::LostBefore);
    let tried = |from: Moment, by: &str| {
        let mut evidence = evidence.clone();
        let calls = evidence.calls.iter_mut();
        calls.filter(completes).for_each(|c| c.by = by.to_owned());
        evidence.pauses = vec![(from, evidence.ended)];
        judge(&evidence)
    };
    keeps(&tried(at + s(2), "sundown-0"), "are left", "its drain was over before the pause");
    breaks(&tried(at - s(4), "sundown-0"), "are left, paused since");
    breaks(&tried(at + s(2), "sundown-9"), "are left, paused since");
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_speaks_again_is_waited_for() {
    let (mut evidence, at, node) = hasty().await;
    breaks(&judge(&evidence), "was completed before");
    evidence.hands = vec![(at - s(100), node.clone(), "lost")];
    keeps(&judge(&evidence), "was completed before", "it was unreachable");
    evidence.hands.push((at - s(5), node.clone(), "back"));
    keeps(&judge(&evidence), "was completed before", "the call may have been on its way");
    evidence.hands[0].0 = at - s(150);
    evidence.hands[1].0 = at - s(15);
    breaks(&judge(&evidence), "was completed before");
    let blind = |from: u64, felt: u64| {
        let mut evidence = evidence.clone();
        fault(&mut evidence, "watch nodes", at - s(from), at - s(felt));
        judge(&evidence)
    };
    breaks(&blind(16, 13), "was completed before");
    keeps(&blind(16, 5), "was completed before", "it could not be seen for long enough");
    evidence.hands = vec![(at - s(60), node.clone(), "lost")];
    breaks(&judge(&evidence), "was completed before");
    evidence.hands.insert(0, (at - s(100), node.clone(), "lost"));
    keeps(&judge(&evidence), "was completed before", "it was lost twice, and never back");
    evidence.hands.insert(1, (at - s(70), node, "back"));
    breaks(&judge(&evidence), "was completed before");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_registers_again_is_waited_for() {
    let (evidence, at, node) = hasty().await;
    let with = |gone: u64, added: Option<u64>| {
        let mut evidence = evidence.clone();
        insert(&mut evidence, at - s(gone), "<test>", Fact::NodeGone(node.clone()));
        if let Some(added) = added {
            insert(&mut evidence, at - s(added), "<test>", Fact::NodeAdded(node.clone()));
        }
        judge(&evidence)
    };
    keeps(&with(19, None), "was completed before", "it is gone");
    keeps(&with(10, Some(9)), "was completed before", "it was gone a moment ago");
    breaks(&with(19, Some(15)), "was completed before");
    let blind = |from: u64, felt: u64| {
        let mut evidence = evidence.clone();
        fault(&mut evidence, "watch nodes", at - s(from), at - s(felt));
        insert(&mut evidence, at - s(19), "<test>", Fact::NodeGone(node.clone()));
        insert(&mut evidence, at - s(15), "<test>", Fact::NodeAdded(node.clone()));
        judge(&evidence)
    };
    breaks(&blind(16, 13), "was completed before");
    keeps(&blind(16, 5), "was completed before", "it could not be seen for long enough");
}

/// Of pods that come back, a drain evicts three, and leaves the next ones alone.
#[tokio::test(start_paused = true)]
async fn a_pod_that_came_back_too_seldom_is_waited_for() {
    let (mut evidence, at, _) = hasty().await;
    let bound = evidence
        .entries
        .iter()
        .position(|e| matches!(&e.fact, Fact::Bound(pod) if pod.name == "stuck-0"))
        .unwrap();
    let last = evidence.entries.remove(bound);
    let Fact::Bound(pod) = last.fact.clone() else { panic!() };
    insert(&mut evidence, at - s(5), &last.by, last.fact);
    let accepted = accepted(&evidence);
    let with = |times: u64, from: Moment| {
        let mut evidence = evidence.clone();
        for n in 0..times {
            let earlier = PodRef { uid: format!("earlier-{n}"), ..pod.clone() };
            insert(&mut evidence, from + s(n), &last.by, Fact::Bound(earlier.clone()));
            insert(&mut evidence, from + s(n), "<kubelet>", Fact::PodGone(earlier));
        }
        judge(&evidence)
    };
    keeps(&with(3, accepted + s(1)), "was completed before", "it is left alone");
    breaks(&with(2, accepted + s(1)), "was completed before");
    breaks(&with(5, accepted - s(10)), "was completed before");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_came_while_a_completion_failed_is_not_waited_for_and_one_that_came_before_is() {
    const OTHER: &str = "sundown-9";
    const EARLY: &str = "was completed before";
    let mut evidence = hooked().await;
    let at = end(&mut evidence).at;
    let bound = evidence
        .entries
        .iter()
        .find_map(|e| if let Fact::Bound(pod) = &e.fact { Some(pod.clone()) } else { None });
    let pod = PodRef { name: "agent-0".into(), uid: "uid-of-agent-0".into(), ..bound.unwrap() };
    insert(&mut evidence, at - s(5), "<foreign-daemonset>", Fact::Bound(pod));
    let leaves = |fact: &Fact| matches!(fact, Fact::PodFinished(_) | Fact::PodGone(_));
    evidence.entries.iter_mut().filter(|e| leaves(&e.fact)).for_each(|e| e.at = e.at - s(8));
    breaks(&judge(&evidence), EARLY);
    let completion = evidence
        .calls
        .iter()
        .find(|c| c.api == "autoscaling:CompleteLifecycleAction")
        .unwrap()
        .clone();
    let tried = |ago: u64, by: &str| {
        let mut evidence = evidence.clone();
        evidence.calls.push(Call {
            at: at - s(ago),
            by: by.to_owned(),
            outcome: Outcome::LostBefore,
            ..completion.clone()
        });
        judge(&evidence)
    };
    keeps(&tried(6, US), EARLY, "its node was empty then");
    breaks(&tried(2, US), EARLY);
    breaks(&tried(6, "sundown-9"), EARLY);
    // The call completed an earlier action of the hook.
    let mut began_later = evidence.clone();
    began_later.actions[0].started = at - s(5);
    began_later.calls.push(Call { at: at - s(6), ..completion.clone() });
    breaks(&judge(&began_later), EARLY);
    // AWS took seconds to process the call.
    let came_in = |ago: u64, by: &str| {
        let mut evidence = evidence.clone();
        evidence.disturbances.push(Disturbance {
            at: at - s(ago),
            until: Some(at),
            by: by.to_owned(),
            what: completion.api.clone(),
            object: completion.object.clone(),
            is_silent: false,
        });
        judge(&evidence)
    };
    keeps(&came_in(6, US), EARLY, "its node was empty when the call came in");
    breaks(&came_in(2, US), EARLY);
    breaks(&came_in(6, "sundown-9"), EARLY);
    // The completion waited until AWS described the hooks of the group.
    let described = |answers: &[(u64, &str, Outcome)]| {
        const DESCRIBE: &str = "autoscaling:DescribeLifecycleHooks";
        let mut evidence = evidence.clone();
        evidence.calls.retain(|c| c.api != DESCRIBE);
        evidence.calls.extend(answers.iter().map(|(ago, by, outcome)| Call {
            at: at - s(*ago),
            api: DESCRIBE.to_owned(),
            object: evidence.actions[0].group.clone(),
            by: (*by).to_owned(),
            outcome: outcome.clone(),
        }));
        judge(&evidence)
    };
    let (lost, ok) = (Outcome::LostBefore, Outcome::Ok);
    keeps(
        &described(&[(6, US, lost.clone()), (0, US, ok.clone())]),
        EARLY,
        "its node was empty, and nobody could know whose the hook is",
    );
    breaks(&described(&[(0, US, ok.clone())]), EARLY);
    breaks(&described(&[(6, US, lost.clone()), (3, US, ok.clone())]), EARLY);
    breaks(&described(&[(9, US, ok.clone()), (6, US, lost.clone()), (0, US, ok.clone())]), EARLY);
    breaks(&described(&[(6, "sundown-9", lost.clone()), (0, US, ok.clone())]), EARLY);
    // Only the record names the action, and AWS was to show that the instance waits.
    let confirmed = |reader: &str, answers: &[(u64, &str, Outcome)]| {
        const MEMBERS: &str = "autoscaling:DescribeAutoScalingGroups";
        let mut evidence = evidence.clone();
        evidence.calls.retain(|c| c.api != MEMBERS);
        let deliveries = evidence.messages.iter_mut().flat_map(|m| &mut m.deliveries);
        deliveries.for_each(|delivery| delivery.by = reader.to_owned());
        evidence.calls.extend(answers.iter().map(|(ago, by, outcome)| Call {
            at: at - s(*ago),
            api: MEMBERS.to_owned(),
            object: format!("another,{}", evidence.actions[0].group),
            by: (*by).to_owned(),
            outcome: outcome.clone(),
        }));
        judge(&evidence)
    };
    keeps(
        &confirmed(OTHER, &[(6, US, lost.clone()), (0, US, ok.clone())]),
        EARLY,
        "its node was empty, and nobody could know whether the instance waits",
    );
    breaks(&confirmed(US, &[(6, US, lost.clone()), (0, US, ok.clone())]), EARLY);
    breaks(&confirmed(OTHER, &[(20, US, lost.clone()), (0, US, ok.clone())]), EARLY);
    breaks(&confirmed(OTHER, &[(6, US, lost.clone()), (3, US, ok)]), EARLY);
    breaks(&confirmed(OTHER, &[(6, OTHER, lost)]), EARLY);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_deleted_once_ends_no_drain_and_the_second_deletion_does() {
    let (evidence, at, node) = hasty().await;
    let entries = evidence.entries.iter().rev();
    let fact = entries.map(|e| e.fact.clone()).find(|f| {
        matches!(
            f, Fact::Annotated { annotations, .. } if annotations.contains_key("sundown.dev/record")
        )
    });
    let Some(Fact::Annotated { provider_id, annotations, .. }) = fact else { panic!() };
    let open = evidence.entries.iter().find_map(|e| match &e.fact {
        Fact::Annotated { annotations, .. } => annotations.get("sundown.dev/record").cloned(),
        _ => None,
    });
    let page = |record: Option<&String>| {
        let mut annotations = annotations.clone();
        annotations.remove("sundown.dev/record");
        annotations.extend(record.map(|r| ("sundown.dev/record".to_owned(), r.clone())));
        Fact::Annotated { node: node.clone(), provider_id: provider_id.clone(), annotations }
    };
    let with = |deletions: u64, by: &str| {
        let mut evidence = evidence.clone();
        for n in 0..deletions {
            insert(&mut evidence, at - s(12 - 4 * n), by, page(None));
            insert(&mut evidence, at - s(10 - 4 * n), US, page(open.as_ref()));
        }
        judge(&evidence)
    };
    breaks(&with(1, "<test>"), "was completed before");
    keeps(
        &with(2, "<test>"),
        "was completed before",
        "who deletes it twice wants the drain to end",
    );
    breaks(&with(2, US), "was completed before");
    // Somebody restores the Node by hand: neither record nor taint is left.
    let restored = |by: &str, untaints: bool| {
        let mut evidence = evidence.clone();
        super::nodes::then(&mut evidence, at - s(2), by, |state| {
            state.annotations.remove("sundown.dev/record");
            state.taints.retain(|(key, ..)| !untaints || key != "sundown.dev/interruption");
        });
        judge(&evidence)
    };
    keeps(&restored("<test>", true), "was completed before", "its drain is over");
    breaks(&restored("<test>", false), "was completed before");
    breaks(&restored(US, true), "was completed before");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_is_completed_long_after_its_node_is_empty_is_seen() {
    let mut evidence = hooked().await;
    let at = end(&mut evidence).at + s(30);
    end(&mut evidence).at = at;
    breaks(&judge(&evidence), "was completed late");
    let (_, node) = node_of(&evidence);
    let but = |change: &dyn Fn(&mut Evidence)| {
        let mut evidence = evidence.clone();
        change(&mut evidence);
        judge(&evidence)
    };
    let late = "was completed late";
    keeps(&but(&|e| e.terms.complete_delay = 30), late, "it was recorded to wait");
    keeps(&but(&|e| e.terms.calm = false), late, "something was broken");
    keeps(&but(&|e| e.pauses.push((at - s(35), at - s(1)))), late, "it was paused");
    keeps(
        &but(&|e| e.hands.push((at - s(35), node.clone(), "released"))),
        late,
        "somebody interfered",
    );
    let stays = |e: &mut Evidence| {
        e.entries.retain(|e| !matches!(e.fact, Fact::PodGone(_) | Fact::PodFinished(_)));
    };
    keeps(&but(&stays), late, "a pod is left");
    let is_gone = |e: &&Entry| matches!(e.fact, Fact::PodGone(_));
    let empty = evidence.entries.iter().filter(is_gone).map(|e| e.at).max().unwrap();
    let faulty = |felt: Moment| but(&|e| fault(e, "create pods/eviction", empty - s(20), felt));
    breaks(&faulty(empty - s(1)), late);
    keeps(&faulty(empty + s(1)), late, "a fault was felt after the node was empty");
}

#[tokio::test(start_paused = true)]
async fn a_hook_is_late_from_its_event_on_and_not_from_its_accept() {
    const LATE: &str = "was completed late";
    let mut evidence = hooked().await;
    let at = accepted(&evidence);
    keeps(&judge(&evidence), LATE, "all is in time");
    // There was no pod, and the hook was completed six seconds after the accept. Its action began
    // twenty seconds before that.
    let pods = |f: &Fact| {
        matches!(f, Fact::Bound(_) | Fact::Evicted { .. } | Fact::PodGone(_) | Fact::PodFinished(_))
    };
    evidence.entries.retain(|e| !pods(&e.fact));
    end(&mut evidence).at = at + s(6);
    keeps(&judge(&evidence), LATE, "a node counts as empty after five seconds");
    evidence.actions[0].started = evidence.actions[0].started - s(20);
    keeps(&judge(&evidence), LATE, "nobody led then");
    led_from_the_beginning(&mut evidence);
    breaks(&judge(&evidence), LATE);
    let registers_late =
        |e: &&mut Entry| e.at < at && matches!(e.fact, Fact::NodeAdded(_) | Fact::Annotated { .. });
    evidence.entries.iter_mut().filter(registers_late).for_each(|e| e.at = at - s(1));
    keeps(&judge(&evidence), LATE, "its node registered just before the accept");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_abandoned_is_seen() {
    let mut evidence = hooked().await;
    end(&mut evidence).verdict = Verdict::Completed(HookResult::Abandon);
    breaks(&judge(&evidence), "was not continued");
    breaks(&judge_any(&evidence, &[]), "was not continued");
    end(&mut evidence).by = "somebody".to_owned();
    keeps(&judge(&evidence), "was not continued", "what others do is theirs");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_abandoned_although_its_group_does_not_retain_it_is_seen() {
    const NOT: &str = "was not continued";
    let mut evidence = overdue().await;
    end(&mut evidence).verdict = Verdict::Completed(HookResult::Abandon);
    breaks(&judge(&evidence), NOT);
    let flag = "--hook-result-on-failure=abandon".to_owned();
    evidence.terms.flags[0].1.push(flag.clone());
    breaks(&judge(&evidence), NOT);
    let group = evidence.actions[0].group.clone();
    evidence.terms.retaining.insert(group.clone());
    keeps(&judge(&evidence), NOT, "its pod was left at the deadline");
    breaks(&judge(&evidence), "LifecycleCompleted");
    // An earlier action of the hook was completed a second after the pod came, when nobody could
    // have seen it.
    let mut again = evidence.clone();
    led_from_the_beginning(&mut again);
    let at = again.actions[0].started - s(4);
    let bound = |e: &&mut Entry| matches!(e.fact, Fact::Bound(_));
    again.entries.iter_mut().filter(bound).for_each(|e| e.at = at - s(1));
    let completes = |c: &&Call| c.api == "autoscaling:CompleteLifecycleAction";
    let completion = again.calls.iter().find(completes).unwrap().clone();
    again.calls.push(Call { at, ..completion });
    keeps(&judge(&again), NOT, "the node was empty for an earlier action only");
    evidence.terms.flags[0].1.retain(|of_it| *of_it != flag);
    breaks(&judge(&evidence), NOT);

    let mut drained = hooked().await;
    end(&mut drained).verdict = Verdict::Completed(HookResult::Abandon);
    drained.terms.flags[0].1.push(flag);
    drained.terms.retaining.insert(group);
    breaks(&judge(&drained), NOT);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_times_out_is_seen_unless_nobody_could_send_heartbeats() {
    let mut evidence = hooked().await;
    let at = evidence.actions[0].started + s(60);
    longer(&mut evidence, at + s(60));
    *end(&mut evidence) =
        ActionEnd { at, verdict: Verdict::TimedOut(HookResult::Continue), by: String::new() };
    breaks(&judge(&evidence), "timed out (60s)");
    let responds = |evidence: &Evidence, response: &str| {
        let mut evidence = evidence.clone();
        evidence.terms.flags[0].1.push(format!("--on=terminate-hook={response}"));
        judge(&evidence)
    };
    keeps(&responds(&evidence, "ignore"), "timed out (60s)", "nobody is to keep it open");
    breaks(&responds(&evidence, "cordon"), "timed out (60s)");
    breaks(&responds(&hooked().await, "ignore"), "was completed, which --on forbids");
    let mut kept_alive = evidence.clone();
    kept_alive.actions[0].heartbeats.push(at - s(20));
    keeps(&judge(&kept_alive), "timed out (60s)", "the next one was not due yet");
    let mut other = evidence.clone();
    fault(&mut other, "patch nodes", at - s(25), at);
    breaks(&judge(&other), "timed out (60s)");
    fault(&mut evidence, "autoscaling:RecordLifecycleActionHeartbeat", at - s(25), at);
    keeps(&judge(&evidence), "timed out (60s)", "something was broken when it was due");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_lapses_while_nobody_can_renew_the_lease_is_seen_as_long_as_its_drain_could_go_on()
 {
    let mut evidence = hooked().await;
    let at = evidence.actions[0].started + s(60);
    longer(&mut evidence, at + s(60));
    *end(&mut evidence) =
        ActionEnd { at, verdict: Verdict::TimedOut(HookResult::Continue), by: String::new() };
    // The renewals end soon after the accept: the process that led lives on, and goes on with the
    // heartbeats.
    let accepted = accepted(&evidence);
    evidence
        .requests
        .retain(|r| r.resource != "leases" || r.answered.is_none_or(|at| at <= accepted + s(1)));
    breaks(&judge(&evidence), "timed out (60s)");
    let taken = |holder: &str, after: u64| {
        let mut evidence = evidence.clone();
        insert(
            &mut evidence,
            accepted + s(after),
            "<scenario>",
            Fact::LeaseHeld { lease: "sundown".to_owned(), holder: holder.to_owned() },
        );
        judge(&evidence)
    };
    keeps(&taken("thief", 15), "timed out (60s)", "it saw that somebody took the Lease");
    breaks(&taken("", 15), "timed out (60s)");
    breaks(&taken("thief", 59), "timed out (60s)");
    evidence.terms.drain_timeout = 20;
    keeps(&judge(&evidence), "timed out (60s)", "its drain would have been over by then");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_stays_open_or_runs_into_its_global_timeout_is_seen() {
    let mut evidence = hooked().await;
    end(&mut evidence).verdict = Verdict::GlobalTimeout(HookResult::Continue);
    end(&mut evidence).by = String::new();
    breaks(&judge(&evidence), "ran into its global timeout");
    evidence.actions[0].end = None;
    breaks(&judge(&evidence), "is open");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_finished_on_its_way_out_is_waited_for_although_its_hook_joined_the_drain_later()
{
    const LATE: &str = "was completed late";
    let mut evidence = hooked().await;
    let (instance, node) = node_of(&evidence);
    let at = end(&mut evidence).at + s(30);
    end(&mut evidence).at = at;
    breaks(&judge(&evidence), LATE);
    let accepted = accepted(&evidence);
    let pod = PodRef {
        namespace: "load".into(),
        name: "held-0".into(),
        uid: "uid-of-held-0".into(),
        node: node.clone(),
    };
    let begun = evidence.begun;
    insert(&mut evidence, begun, "<scheduler>", Fact::Bound(pod.clone()));
    let held = pod.clone();
    insert(&mut evidence, accepted - s(5), "<kubelet>", Fact::PodFinished(pod));
    breaks(&judge(&evidence), LATE);
    let (first, time) = (accepted - s(10), (accepted - s(10)).to_string());
    let body = json!({
        "id": "e", "detail-type": "EC2 Spot Instance Interruption Warning", "source": "aws.ec2",
        "time": time,
        "detail": { "instance-id": instance, "instance-action": "terminate" },
    });
    let spot = json!({ "kind": "spot", "event": "e", "time": time, "accepted": time });
    let mut record = json!({ "version": 1, "instance": instance, "interruptions": [spot] });
    send(&mut evidence, &body.to_string(), first, first);
    // A spot notice was accepted ten seconds before; the hook has joined it, or has a drain of its
    // own.
    let mut with = |joins: bool| {
        let mut evidence = evidence.clone();
        if joins {
            edit_records(&mut evidence, |written| {
                written["interruptions"].as_array_mut().unwrap().push(spot.clone());
            });
        } else {
            record["released"] = json!({ "at": time, "outcome": "empty" });
        }
        let annotations = [("sundown.dev/record".to_owned(), record.to_string())].into();
        let page = Fact::Annotated {
            node: node.clone(),
            provider_id: format!("aws:///eu-west-1a/{instance}"),
            annotations,
        };
        insert(&mut evidence, first, US, page);
        judge(&evidence)
    };
    keeps(&with(true), LATE, "it finished in this drain, and holds its volumes");
    breaks(&with(false), LATE);
    // An earlier drain had asked it to go: its object is waited for until a minute after its grace
    // period.
    let asked = Fact::Evicted { pod: held, grace: 30, again: false, overrun: Vec::new() };
    insert(&mut evidence, accepted - s(6), US, asked);
    keeps(&judge(&evidence), LATE, "a finalizer may hold it");
    end(&mut evidence).at = accepted + s(90);
    breaks(&judge(&evidence), LATE);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_joins_a_drain_and_is_completed_at_once_is_too_short_only_if_its_drain_is() {
    const SHORT: &str = "--min-drain-time is";
    let mut evidence = hooked().await;
    let (instance, node) = node_of(&evidence);
    let first = accepted(&evidence) - s(10);
    let is_released = |f: &Fact| {
        matches!(
            f,
            Fact::Annotated { annotations, .. } if annotations.values().any(|a| a.contains("\"released\":{"))
        )
    };
    let at = when(&evidence, is_released);
    end(&mut evidence).at = at;
    let time = first.to_string();
    let body = json!({
        "id": "e", "detail-type": "EC2 Spot Instance Interruption Warning", "source": "aws.ec2",
        "time": time,
        "detail": { "instance-id": instance, "instance-action": "terminate" },
    });
    let spot = json!({ "kind": "spot", "event": "e", "time": time, "accepted": time });
    send(&mut evidence, &body.to_string(), first, first);
    // A spot notice was accepted ten seconds before; the hook joins its drain when the node is
    // empty, or has a drain of its own.
    let with = |joins: bool, flag: &str| {
        let mut evidence = evidence.clone();
        evidence.terms.flags.iter_mut().for_each(|(_, flags)| flags.push(flag.to_owned()));
        let mut record = json!({ "version": 1, "instance": instance, "interruptions": [spot] });
        if joins {
            edit_records(&mut evidence, |written| {
                written["interruptions"].as_array_mut().unwrap().push(spot.clone());
            });
        } else {
            record["released"] = json!({ "at": time, "outcome": "empty" });
        }
        let wrote = |e: &&mut Entry| {
            matches!(
                &e.fact,
                Fact::Annotated { annotations, .. } if annotations.contains_key("sundown.dev/record")
            )
        };
        evidence.entries.iter_mut().filter(wrote).for_each(|e| e.at = at);
        let annotations = [("sundown.dev/record".to_owned(), record.to_string())].into();
        let page = Fact::Annotated {
            node: node.clone(),
            provider_id: format!("aws:///eu-west-1a/{instance}"),
            annotations,
        };
        insert(&mut evidence, first, US, page);
        judge(&evidence)
    };
    keeps(&with(true, "--min-drain-time=5s"), SHORT, "the drain had gone on for long enough");
    breaks(&with(true, "--min-drain-time=60s"), SHORT);
    breaks(&with(false, "--min-drain-time=5s"), SHORT);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_took_a_drain_over_and_whose_heartbeat_fails_forces_sooner_and_nobody_else_does()
 {
    const EARLY: &str = "was deleted too early";
    const BEAT: &str = "autoscaling:RecordLifecycleActionHeartbeat";
    let mut evidence = hooked().await;
    let (instance, node) = node_of(&evidence);
    let begun = evidence.begun;
    let started = evidence.actions[0].started;
    evidence.ended = started + s(100);
    end(&mut evidence).at = started + s(90);
    let released = |e: &Entry| {
        matches!(
            &e.fact,
            Fact::Annotated { annotations, .. } if annotations.get("sundown.dev/record").is_some_and(|r| r.contains("\"released\":{"))
        )
    };
    evidence.entries.retain(|e| !released(e));
    let pod = PodRef {
        namespace: "load".into(),
        name: "slow-0".into(),
        uid: "uid-of-slow-0".into(),
        node,
    };
    insert(&mut evidence, begun, "<scheduler>", Fact::Bound(pod.clone()));
    insert(
        &mut evidence,
        started + s(57),
        "sundown-1",
        Fact::Deleted { pod, grace: 2, again: false, overrun: Vec::new() },
    );
    let heartbeat = |evidence: &mut Evidence, after: u64, by: &str, outcome: Outcome| {
        let object = format!("asg/drain/{instance}");
        let at = started + s(after);
        evidence.calls.push(Call { at, api: BEAT.to_owned(), object, by: by.to_owned(), outcome });
    };
    let kept_alive = |after: u64| {
        let mut evidence = evidence.clone();
        heartbeat(&mut evidence, after, US, Outcome::Ok);
        judge(&evidence)
    };
    keeps(
        &kept_alive(18),
        EARLY,
        "two thirds are over in a second, and AWS's clock is not known better",
    );
    breaks(&kept_alive(20), EARLY);
    // The process that accepted the drain may lead again after another one.
    let again = |accepted_by: &str, fails: bool| {
        let mut evidence = evidence.clone();
        for after in [20, 45] {
            heartbeat(&mut evidence, after, accepted_by, Outcome::Ok);
        }
        if fails {
            heartbeat(&mut evidence, 55, US, Outcome::Error("InternalFailure".to_owned()));
        }
        judge(&evidence)
    };
    keeps(&again("sundown-1", true), EARLY, "it does not know what AWS answered to the other one");
    breaks(&again("sundown-1", false), EARLY);
    breaks(&again(US, true), EARLY);
    // It remembers its own heartbeat from before the other one led.
    let remembers = |own: u64, outcome: Outcome| {
        let mut evidence = evidence.clone();
        heartbeat(&mut evidence, own, US, Outcome::Ok);
        heartbeat(&mut evidence, 45, "sundown-1", Outcome::Ok);
        heartbeat(&mut evidence, 55, US, outcome);
        judge(&evidence)
    };
    let failed = || Outcome::Error("InternalFailure".to_owned());
    keeps(&remembers(10, failed()), EARLY, "AWS waits for 60 s from then on at least");
    breaks(&remembers(40, failed()), EARLY);
    breaks(&remembers(10, Outcome::Ok), EARLY);
    for after in [20, 45] {
        heartbeat(&mut evidence, after, US, Outcome::Ok);
    }
    breaks(&judge(&evidence), EARLY);
    let with = |tries: &[(u64, &str, Outcome)]| {
        let mut evidence = evidence.clone();
        tries
            .iter()
            .for_each(|(after, by, outcome)| heartbeat(&mut evidence, *after, by, outcome.clone()));
        judge(&evidence)
    };
    let failed = || Outcome::Error("InternalFailure".to_owned());
    keeps(
        &with(&[(55, "sundown-1", failed())]),
        EARLY,
        "it does not know that its predecessor's were accepted",
    );
    breaks(&with(&[(55, US, failed())]), EARLY);
    breaks(&with(&[(50, "sundown-1", Outcome::Ok)]), EARLY);
    breaks(&with(&[(50, "sundown-1", failed()), (52, "sundown-1", Outcome::Ok)]), EARLY);
    breaks(&with(&[(58, "sundown-1", failed())]), EARLY);
    let over = || Outcome::Error("ValidationError".to_owned());
    keeps(
        &with(&[(54, "sundown-1", failed()), (55, "sundown-1", over())]),
        EARLY,
        "AWS may have ended the action with the window of which two thirds were over",
    );
    breaks(&with(&[(30, "sundown-1", failed()), (35, "sundown-1", over())]), EARLY);
    // AWS answers after three seconds. The process may have given up by then.
    let slow = |after: u64, answered: bool| {
        let mut evidence = evidence.clone();
        let (at, by) = (started + s(after), "sundown-1".to_owned());
        let (what, object) = (BEAT.to_owned(), format!("asg/drain/{instance}"));
        evidence.disturbances.push(Disturbance {
            at,
            until: Some(at + s(3)),
            by,
            what,
            object,
            is_silent: false,
        });
        if answered {
            heartbeat(&mut evidence, after + 3, "sundown-1", Outcome::Ok);
        }
        judge(&evidence)
    };
    keeps(&slow(55, false), EARLY, "it does not know that its predecessor's were accepted");
    breaks(&slow(55, true), EARLY);
    breaks(&slow(57, false), EARLY);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_is_completed_early_is_seen_unless_its_record_was_made_up_beside_an_order() {
    const EARLY: &str = "was completed before";
    const PERSON: &str = "kubectl";
    let (evidence, ..) = hasty().await;
    let written = accepted(&evidence);
    // Somebody writes the record on a Node with an order to release it, or without one.
    let with = |by: &str, is_ordered: bool| {
        let mut evidence = evidence.clone();
        if by == PERSON {
            edit_records(&mut evidence, |record| {
                let entry = &mut record["interruptions"][0];
                entry["event"] = json!("made-up");
                entry["time"] = json!(written.to_string());
                entry["accepted"] = json!(written.to_string());
            });
        }
        for entry in &mut evidence.entries {
            let Fact::Annotated { annotations, .. } = &mut entry.fact else { continue };
            if is_ordered {
                annotations.insert("sundown.dev/release".to_owned(), "true".to_owned());
            }
            if annotations.contains_key("sundown.dev/record") {
                entry.by = by.to_owned();
            }
        }
        judge(&evidence)
    };
    keeps(&with(PERSON, true), EARLY, "the order holds for what a person makes up");
    breaks(&with(PERSON, false), EARLY);
    // An accept takes an older order away.
    breaks(&with(US, true), EARLY);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_nobody_asked_is_seen_unless_it_came_in_the_release_of_the_drain_that_goes_on() {
    const NOBODY: &str = "nobody had asked [\"agent-0\"] to go";
    const RECORD: &str = "sundown.dev/record";
    let mut evidence = hooked().await;
    let (instance, node) = node_of(&evidence);
    let emptied = when(&evidence, |f| matches!(f, Fact::PodGone(_)));
    let (first, at) = (accepted(&evidence) - s(10), emptied + s(40));
    end(&mut evidence).at = at;
    longer(&mut evidence, at + s(10));
    evidence.calls.retain(|c| c.api != "autoscaling:CompleteLifecycleAction");
    evidence.requests.retain(|r| (r.verb.as_str(), r.resource.as_str()) != ("patch", "nodes"));
    let is_released = |e: &Entry| match &e.fact {
        Fact::Annotated { annotations, .. } => {
            annotations.values().any(|a| a.contains("\"released\":{"))
        }
        _ => false,
    };
    evidence.entries.retain(|e| !is_released(e));
    let time = first.to_string();
    let body = json!({
        "id": "e", "detail-type": "EC2 Spot Instance Interruption Warning", "source": "aws.ec2",
        "time": time,
        "detail": { "instance-id": instance, "instance-action": "terminate" },
    });
    let spot = json!({ "kind": "spot", "event": "e", "time": time, "accepted": time });
    send(&mut evidence, &body.to_string(), first, first);
    let page = |record: &Value| Fact::Annotated {
        node: node.clone(),
        provider_id: format!("aws:///eu-west-1a/{instance}"),
        annotations: [(RECORD.to_owned(), record.to_string())].into(),
    };
    let mut record = json!({ "version": 1, "instance": instance, "interruptions": [spot] });
    let open = page(&record);
    record["released"] = json!({ "at": time, "outcome": "empty" });
    let closed = page(&record);
    // A spot notice was accepted ten seconds before. The hook joins its drain, or begins another
    // one after the release.
    let with = |bound: Moment, hook: Moment, released: Option<Moment>| {
        let mut evidence = evidence.clone();
        if released.is_none() {
            edit_records(&mut evidence, |written| {
                written["interruptions"].as_array_mut().unwrap().push(spot.clone());
            });
        }
        let is_record = |e: &&mut Entry| {
            matches!(
                &e.fact, Fact::Annotated { annotations, .. } if annotations.contains_key(RECORD)
            )
        };
        evidence.entries.iter_mut().filter(is_record).for_each(|e| e.at = hook);
        evidence.entries.sort_by_key(|e| e.at);
        insert(&mut evidence, first, US, open.clone());
        if let Some(at) = released {
            insert(&mut evidence, at, US, closed.clone());
        }
        let pod = PodRef {
            namespace: "load".into(),
            name: "agent-0".into(),
            uid: "uid-of-agent-0".into(),
            node: node.clone(),
        };
        insert(&mut evidence, bound, "<foreign-daemonset>", Fact::Bound(pod));
        judge(&evidence)
    };
    keeps(
        &with(emptied + s(1), emptied + s(2), None),
        NOBODY,
        "the drain had ended before it came, and its release was under way",
    );
    breaks(&with(emptied - s(5), emptied + s(2), None), NOBODY);
    breaks(&with(emptied + s(1), emptied - s(5), None), NOBODY);
    breaks(&with(emptied + s(3), emptied + s(10), Some(emptied + s(1))), NOBODY);
}
