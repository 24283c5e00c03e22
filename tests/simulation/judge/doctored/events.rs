//! Events: each is true, and each thing that happened has its own.

use sundown::sim::{
    aws::{InstanceChange, State},
    kube::NodeState,
};

use super::*;
use crate::judge::nodes::RECORD;

const UNTRUE: &str = "an Event is not true";

/// The run, with all Events of this reason changed.
fn with(evidence: &Evidence, reason: &str, change: impl Fn(&mut Event)) -> Vec<String> {
    let mut evidence = evidence.clone();
    let mut all: Vec<Event> = evidence.events.iter().cloned().collect();
    all.iter_mut().filter(|e| e.reason == reason).for_each(change);
    evidence.events = all.into_iter().collect();
    judge(&evidence)
}

/// The run, with one Event more: as the one of that reason, with this change.
fn besides(evidence: &Evidence, change: impl Fn(&mut Event)) -> Vec<String> {
    let mut evidence = evidence.clone();
    let mut event = evidence.events.iter().find(|e| e.on == "Node").unwrap().clone();
    change(&mut event);
    evidence.events.insert(event);
    judge(&evidence)
}

#[tokio::test(start_paused = true)]
async fn an_event_that_evictions_wait_is_true_only_from_the_accept_to_the_first_removal() {
    let evidence = hooked().await;
    let (_, node) = node_of(&evidence);
    let evicted = when(&evidence, |f| matches!(f, Fact::Evicted { .. }));
    let at = |at: Moment, flag: Option<&str>, made_up: Option<Moment>| {
        let mut evidence = evidence.clone();
        evidence.terms.flags[0].1.extend(flag.map(str::to_owned));
        evidence.hands.extend(made_up.map(|at| (at, node.clone(), "record made up")));
        besides(&evidence, |e| {
            (e.reason, e.severity) = ("EvictionsWait".to_owned(), "Normal".to_owned());
            (e.first, e.last) = (at, at);
        })
    };
    let (flag, accepted) = (Some("--evict-after=terminate-hook=1s"), accepted(&evidence));
    keeps(&at(accepted, flag, None), UNTRUE, "it was just accepted");
    breaks(&at(accepted, None, None), UNTRUE);
    breaks(&at(accepted - s(5), flag, None), UNTRUE);
    breaks(&at(evicted + s(5), flag, None), UNTRUE);
    let later = evicted + s(3);
    keeps(&at(later, flag, Some(later)), UNTRUE, "a person wrote a hook into the record");
    breaks(&at(later, flag, Some(later + s(5))), UNTRUE);
    let mut taken_over = evidence.clone();
    let (lease, holder) = ("sundown".to_owned(), "sundown_another".to_owned());
    insert(&mut taken_over, later, "sundown-1", Fact::LeaseHeld { lease, holder });
    taken_over.terms.flags[0].1.extend(flag.map(str::to_owned));
    let after = |at: Moment| {
        besides(&taken_over, |e| {
            (e.reason, e.severity) = ("EvictionsWait".to_owned(), "Normal".to_owned());
            (e.first, e.last) = (at, at);
        })
    };
    keeps(&after(later + s(1)), UNTRUE, "a new leader waits once more");
    breaks(&after(later - s(2) + Duration::from_millis(500)), UNTRUE);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_an_open_action_is_over_is_seen_also_of_a_node_that_claims_its_instance() {
    const NOT_OVER: &str = "an Event is not true: Event { reason: \"LifecycleOver\"";
    let evidence = hooked().await;
    let at = accepted(&evidence) + s(2);
    assert!(at + s(2) < evidence.actions[0].end.as_ref().unwrap().at, "the action is open");
    let own = evidence.entries.iter().rev().find_map(|entry| match &entry.fact {
        Fact::NodeChanged(state) if entry.at <= at => Some((**state).clone()),
        _ => None,
    });
    let own = own.unwrap();
    let (instance, _) = node_of(&evidence);
    let with = |token: &str, claims: bool| {
        let mut evidence = evidence.clone();
        let (name, uid) = ("twin".to_owned(), "twin".to_owned());
        if claims {
            let twin = NodeState { name: name.clone(), uid, ..own.clone() };
            insert(&mut evidence, at, "<scenario>", Fact::NodeChanged(twin.into()));
        }
        let record = json!({ "version": 1, "instance": instance, "interruptions": [{
            "kind": "terminate-hook", "event": "one-more", "time": at.to_string(),
            "accepted": at.to_string(), "group": "asg", "hook": "drain", "token": token,
        }] });
        let (node, provider_id) = (name, own.provider_id.clone());
        let annotations = [(RECORD.to_owned(), record.to_string())].into();
        let fact = Fact::Annotated { node, provider_id, annotations };
        insert(&mut evidence, at, "kubectl", fact);
        besides(&evidence, |e| {
            (e.reason, e.severity) = ("LifecycleOver".to_owned(), "Normal".to_owned());
            (e.name, e.uid) = ("twin".to_owned(), "twin".to_owned());
            (e.first, e.last) = (at, at);
        })
    };
    let (open, none) = (&*evidence.actions[0].token, "00000000-0000-4000-8000-000000000009");
    keeps(&with(none, true), NOT_OVER, "AWS never had the action that its record names");
    breaks(&with(open, true), NOT_OVER);
    breaks(&with(none, false), NOT_OVER);
}

#[tokio::test(start_paused = true)]
async fn a_drain_may_leave_a_pod_after_two_that_came_back_only_if_its_leader_misread_the_accept() {
    const NOT_EMPTY: &str = "an Event is not true: Event { reason: \"Drained\"";
    let hooked = hooked().await;
    let accepted = accepted(&hooked);
    let bound = hooked
        .entries
        .iter()
        .find_map(|e| if let Fact::Bound(pod) = &e.fact { Some(pod.clone()) } else { None });
    let pod = PodRef { name: "agent-0".into(), ..bound.unwrap() };
    // The first of these pods is there at the accept. Each is gone when the next one comes, and the
    // last one stays. AWS's clock is behind by this.
    let with = |pods: u64, behind: u64, is_answered: bool| {
        let mut evidence = hooked.clone();
        for n in 0..pods {
            let pod = PodRef { uid: format!("uid-of-agent-{n}"), ..pod.clone() };
            let came = if n == 0 { accepted - s(3) } else { accepted + s(n) };
            insert(&mut evidence, came, "<foreign-daemonset>", Fact::Bound(pod.clone()));
            if n + 1 < pods {
                insert(&mut evidence, accepted + s(n + 1), "<kubelet>", Fact::PodGone(pod));
            }
        }
        evidence.messages.iter_mut().for_each(|m| m.sent = m.sent - s(behind));
        if !is_answered {
            evidence.calls.clear();
        }
        judge(&evidence)
    };
    keeps(&with(4, 600, false), NOT_EMPTY, "the accept seems to be ten minutes earlier");
    breaks(&with(3, 600, false), NOT_EMPTY);
    breaks(&with(4, 600, true), NOT_EMPTY);
    breaks(&with(4, 0, false), NOT_EMPTY);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_evictions_wait_may_be_late_only_while_the_calls_of_events_meet_faults() {
    const UNTRUE_WAIT: &str = "an Event is not true: Event { reason: \"EvictionsWait\"";
    let mut evidence = hooked().await;
    evidence.terms.flags[0].1.push("--evict-after=terminate-hook=1s".to_owned());
    let evicted = when(&evidence, |f| matches!(f, Fact::Evicted { .. }));
    // Written five seconds after the first eviction.
    let late = |what: &str, from: Moment, felt: u64| {
        let mut evidence = evidence.clone();
        fault(&mut evidence, what, from, evicted + s(felt));
        besides(&evidence, |e| {
            (e.reason, e.severity) = ("EvictionsWait".to_owned(), "Normal".to_owned());
            (e.first, e.last) = (evicted + s(5), evicted + s(5));
        })
    };
    let before = evicted - Duration::from_millis(10);
    keeps(&late("create events", before, 5), UNTRUE_WAIT, "its call met a fault since then");
    breaks(&late("list pods", before, 5), UNTRUE_WAIT);
    breaks(&late("create events", evicted + s(2), 5), UNTRUE_WAIT);
    breaks(&late("create events", before, 4), UNTRUE_WAIT);
}

#[tokio::test(start_paused = true)]
async fn an_event_of_what_did_not_happen_is_seen() {
    let evidence = reclaimed().await;
    for reason in [
        "LifecycleCompleted",
        "LifecycleOver",
        "HookKeptOpen",
        "Uncordoned",
        "RecordRestored",
        "RecordVoid",
        "Paused",
        "Resumed",
    ] {
        let severity = |e: &mut Event| {
            e.reason = reason.to_owned();
            let normal =
                ["LifecycleCompleted", "LifecycleOver", "HookKeptOpen", "RecordVoid", "Resumed"]
                    .contains(&reason);
            e.severity = if normal { "Normal" } else { "Warning" }.to_owned();
        };
        breaks(&besides(&evidence, severity), UNTRUE);
    }
    let (begun, hooked) = (evidence.begun, hooked().await);
    keeps(&judge(&hooked), UNTRUE, "its hook was completed");
    breaks(
        &with(&hooked, "Drained", |e| (e.first, e.last) = (begun + s(31), begun + s(31))),
        UNTRUE,
    );
    let over = |is_ending: bool, is_silent: bool| {
        let mut evidence = hooked.clone();
        let (id, node) = node_of(&evidence);
        let ending = InstanceChange { at: begun + s(30), id, state: State::ShuttingDown };
        evidence.changes.extend(is_ending.then_some(ending));
        evidence.hands.extend(is_silent.then_some((begun, node, "lost")));
        with(&evidence, "Drained", |e| (e.first, e.last) = (begun + s(31), begun + s(31)))
    };
    keeps(&over(true, true), UNTRUE, "its machine ends, and nothing is heard from it");
    breaks(&over(true, false), UNTRUE);
    breaks(&over(false, true), UNTRUE);
    breaks(
        &with(&hooked, "LifecycleCompleted", |e| {
            (e.first, e.last) = (begun + s(31), begun + s(31));
        }),
        UNTRUE,
    );
    let blocked = |after: u64| {
        let mut evidence = evidence.clone();
        let bound = evidence.begun + s(40);
        evidence.events.retain(|e| e.reason != "Blocked");
        evidence
            .entries
            .iter_mut()
            .filter(|e| matches!(e.fact, Fact::Bound(_)))
            .for_each(|e| e.at = bound);
        besides(&evidence, |e| {
            (e.reason, e.severity) = ("Blocked".to_owned(), "Warning".to_owned());
            (e.first, e.last) = (bound + s(after), bound + s(after));
        })
    };
    keeps(&blocked(30), UNTRUE, "a pod could not go for half a minute");
    breaks(&blocked(20), UNTRUE);
    // It went, and the call that shows it was not answered for a while.
    let noted_late = |hangs: bool| {
        let mut evidence = evidence.clone();
        let (bound, went) = (begun, begun + s(35));
        let is_there = |f: &Fact| matches!(f, Fact::Bound(_));
        let goes = |f: &Fact| matches!(f, Fact::PodGone(_) | Fact::PodFinished(_));
        evidence.events.retain(|e| !["Blocked", "Drained"].contains(&e.reason.as_str()));
        evidence.entries.iter_mut().filter(|e| is_there(&e.fact)).for_each(|e| e.at = bound);
        evidence.entries.iter_mut().filter(|e| goes(&e.fact)).for_each(|e| e.at = went);
        if hangs {
            fault(&mut evidence, "create events", begun + s(30), begun + s(110));
        }
        besides(&evidence, |e| {
            (e.reason, e.severity) = ("Blocked".to_owned(), "Warning".to_owned());
            (e.first, e.last) = (begun + s(120), begun + s(120));
        })
    };
    keeps(&noted_late(true), UNTRUE, "the call that shows it was not answered at first");
    breaks(&noted_late(false), UNTRUE);
    let late = |e: &mut Event| (e.first, e.last) = (e.first + s(60), e.last + s(60));
    breaks(&with(&evidence, "InterruptionAccepted", late), UNTRUE);
    let mut hangs = evidence.clone();
    fault(&mut hangs, "create events", begun + s(30), begun + s(80));
    keeps(
        &with(&hangs, "InterruptionAccepted", late),
        UNTRUE,
        "its call was not answered at first",
    );
    breaks(&with(&evidence, "Forced", |e| e.uid = "uid-of-another".to_owned()), UNTRUE);
    let evicted = |e: &mut Event| {
        (e.reason, e.severity, e.on) =
            ("Evicted".to_owned(), "Normal".to_owned(), "Pod".to_owned());
        e.uid = "uid-of-another".to_owned();
    };
    breaks(&besides(&evidence, evicted), UNTRUE);
}

#[tokio::test(start_paused = true)]
async fn an_event_of_an_end_without_pods_is_true_only_if_the_pods_could_not_be_listed() {
    const UNTRUE_END: &str = "an Event is not true: Event { reason: \"DrainEnded\"";
    let mut evidence = hooked().await;
    let end = accepted(&evidence) + s(9);
    let ended = |evidence: &Evidence, what: &str, from: Moment, felt: Moment| {
        let mut evidence = evidence.clone();
        fault(&mut evidence, what, from, felt);
        besides(&evidence, |e| {
            (e.reason, e.severity) = ("DrainEnded".to_owned(), "Warning".to_owned());
            (e.first, e.last) = (end, end);
        })
    };
    let begins = accepted(&evidence);
    keeps(&ended(&evidence, "list nodes", begins, end), UNTRUE_END, "a pod was on the node");
    evidence.entries.retain(|e| !matches!(e.fact, Fact::Bound(_)));
    keeps(&ended(&evidence, "list pods", begins, end), UNTRUE_END, "nobody could list its pods");
    breaks(&ended(&evidence, "list nodes", begins, end), UNTRUE_END);
    breaks(&ended(&evidence, "list pods", begins + s(3), end), UNTRUE_END);
    breaks(&ended(&evidence, "list pods", begins, end - s(3)), UNTRUE_END);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_pods_stay_may_be_late_only_while_the_calls_of_events_meet_faults() {
    const UNTRUE_END: &str = "an Event is not true: Event { reason: \"NotEvicted\"";
    let mut evidence = hooked().await;
    let (instance, node) = node_of(&evidence);
    evidence.terms.flags[0].1.push("--on=terminate-hook=cordon".to_owned());
    // Its record is gone five seconds after the accept.
    let gone = accepted(&evidence) + s(5);
    evidence.entries.retain(|e| e.at < gone || !matches!(e.fact, Fact::Annotated { .. }));
    let provider_id = format!("aws:///eu-west-1a/{instance}");
    let annotations = std::collections::BTreeMap::new();
    insert(&mut evidence, gone, "<test>", Fact::Annotated { node, provider_id, annotations });
    let ended = |after: u64, what: &str, from: u64, felt: u64| {
        let mut evidence = evidence.clone();
        fault(&mut evidence, what, gone + s(from), gone + s(felt));
        besides(&evidence, |e| {
            (e.reason, e.severity) = ("NotEvicted".to_owned(), "Normal".to_owned());
            (e.first, e.last) = (gone + s(after), gone + s(after));
        })
    };
    keeps(&ended(1, "list pods", 0, 1), UNTRUE_END, "its record was there just before");
    keeps(&ended(4, "create events", 0, 4), UNTRUE_END, "no Event could be written since then");
    breaks(&ended(4, "list pods", 0, 4), UNTRUE_END);
    breaks(&ended(4, "create events", 3, 4), UNTRUE_END);
    breaks(&ended(4, "create events", 0, 3), UNTRUE_END);
}

#[tokio::test(start_paused = true)]
async fn a_thing_that_happens_without_its_event_is_seen() {
    const NONE: &str = "Forced of quorum-0 has no Event";
    let without = |evidence: &Evidence, reason: &str| {
        let mut evidence = evidence.clone();
        evidence.events.retain(|e| e.reason != reason);
        let ended = evidence.ended + s(60);
        longer(&mut evidence, ended);
        evidence
    };
    let forced = without(&reclaimed().await, "Forced");
    breaks(&judge(&forced), NONE);
    // Answers are lost.
    let of_pod = |r: &Request| r.resource == "pods" && r.name == "quorum-0";
    let evictions: Vec<_> = (0..forced.requests.len())
        .filter(|i| of_pod(&forced.requests[*i]) && forced.requests[*i].subresource == "eviction")
        .collect();
    let [.., before, last] = evictions[..] else { panic!() };
    let delete = forced.requests.iter().position(|r| of_pod(r) && r.verb == "delete").unwrap();
    let lost = |which: &[usize]| {
        let mut forced = forced.clone();
        which.iter().for_each(|i| forced.requests[*i].answered = None);
        judge(&forced)
    };
    keeps(&lost(&[last, delete]), NONE, "the eviction may have ended the pod");
    breaks(&lost(&[delete]), NONE);
    breaks(&lost(&[last]), NONE);
    breaks(&lost(&[before, delete]), NONE);
    let hooked = hooked().await;
    breaks(&judge(&without(&hooked, "InterruptionAccepted")), "InterruptionAccepted of ip-");
    let completed = without(&hooked, "LifecycleCompleted");
    breaks(&judge(&completed), "LifecycleCompleted of ip-");
    // Another Node claims the instance and was drained: because the own one was silent, or not.
    let replaced = |is_silent: bool, has_event: bool| {
        let mut evidence = without(&hooked, if has_event { "none" } else { "LifecycleCompleted" });
        let (begun, (_, own), twin) = (evidence.begun, node_of(&evidence), || "twin".to_owned());
        for entry in &mut evidence.entries {
            match &mut entry.fact {
                Fact::Annotated { node, annotations, .. } if annotations.contains_key(RECORD) => {
                    *node = twin();
                }
                Fact::NodeChanged(state) if state.annotations.contains_key(RECORD) => {
                    state.name = twin();
                }
                _ => {}
            }
        }
        let renamed = evidence.events.iter().map(|e| Event {
            name: if e.name == own { twin() } else { e.name.clone() },
            ..e.clone()
        });
        evidence.events = renamed.collect();
        evidence.hands.extend(is_silent.then_some((begun, own, "lost")));
        judge(&evidence)
    };
    keeps(&replaced(true, true), "LifecycleCompleted of ", "another Node was drained in its place");
    breaks(&replaced(true, false), "LifecycleCompleted of twin has no Event");
    breaks(&replaced(false, true), "LifecycleCompleted of ip-");
    let uncordoned = |at: Moment| {
        let mut evidence = hooked.clone();
        let mut before = evidence.entries.iter().rev().filter(|e| e.at <= at).map(|e| &e.fact);
        let state = before
            .find_map(
                |fact| if let Fact::NodeChanged(state) = fact { Some(state.clone()) } else { None },
            )
            .unwrap();
        insert(
            &mut evidence,
            at,
            "kubectl",
            Fact::NodeChanged(Box::new(NodeState { unschedulable: false, ..*state })),
        );
        let ended = evidence.ended + s(60);
        longer(&mut evidence, ended);
        judge(&evidence)
    };
    breaks(&uncordoned(accepted(&hooked) + s(2)), "Uncordoned of ip-");
    let emptied = when(&hooked, |f| matches!(f, Fact::PodGone(_)));
    keeps(&uncordoned(emptied), "Uncordoned of ip-", "the drain was over");
    let mut failed = completed.clone();
    let (begun, ended) = (failed.begun, failed.ended);
    fault(&mut failed, "create events", begun, ended);
    keeps(&judge(&failed), "has no Event", "the API server did not take it");
    let mut other = completed;
    fault(&mut other, "patch nodes", begun, ended);
    breaks(&judge(&other), "LifecycleCompleted of ip-");
}

#[tokio::test(start_paused = true)]
async fn nodes_may_seem_to_claim_one_instance_until_the_leader_can_see_that_one_of_them_is_gone() {
    let hooked = hooked().await;
    let (_, own) = node_of(&hooked);
    let begun = hooked.begun;
    // Another Node claims the instance, and is deleted ten seconds after the beginning.
    let recorded = |after: u64, faults: &[(&str, u64, u64)]| {
        let mut evidence = hooked.clone();
        let state = evidence.entries.iter().find_map(|e| match &e.fact {
            Fact::NodeChanged(state) if state.name == own => Some(state.clone()),
            _ => None,
        });
        let twin = NodeState { name: "twin".to_owned(), ..*state.unwrap() };
        insert(&mut evidence, begun, "<test>", Fact::NodeChanged(Box::new(twin)));
        insert(&mut evidence, begun + s(10), "<test>", Fact::NodeGone("twin".to_owned()));
        for (by, from, felt) in faults {
            fault(&mut evidence, "watch nodes", begun + s(*from), begun + s(*felt));
            evidence.disturbances.last_mut().unwrap().by = (*by).to_owned();
        }
        let ended = evidence.ended.max(begun + s(after + 10));
        longer(&mut evidence, ended);
        let at = begun + s(after);
        besides(&evidence, |e| {
            e.reason = "DuplicateProviderID".to_owned();
            e.severity = "Warning".to_owned();
            e.name.clone_from(&own);
            (e.first, e.last) = (at, at);
        })
    };
    keeps(&recorded(40, &[]), UNTRUE, "one of them went just before");
    breaks(&recorded(90, &[]), UNTRUE);
    let blind = ("sundown-0", 5, 80);
    keeps(&recorded(90, &[blind]), UNTRUE, "the leader could not see Nodes meanwhile");
    breaks(&recorded(130, &[blind]), UNTRUE);
    breaks(&recorded(90, &[("sundown-9", 5, 80)]), UNTRUE);
}

#[tokio::test(start_paused = true)]
async fn a_late_event_of_a_drain_is_true_of_the_moment_at_which_its_node_was_empty() {
    let hooked = hooked().await;
    let back = |late: u64, is_failing: bool| {
        let mut evidence = hooked.clone();
        let emptied = when(&evidence, |f| matches!(f, Fact::PodGone(_)));
        let bound =
            |e: &Entry| if let Fact::Bound(pod) = &e.fact { Some(pod.clone()) } else { None };
        let pod = evidence.entries.iter().find_map(bound).unwrap();
        insert(
            &mut evidence,
            emptied,
            "<scheduler>",
            Fact::Bound(PodRef { uid: "again".to_owned(), ..pod }),
        );
        if is_failing {
            fault(&mut evidence, "create events", emptied, emptied + s(15));
        }
        with(&evidence, "Drained", |e| (e.first, e.last) = (emptied + s(late), emptied + s(late)))
    };
    keeps(&back(6, false), UNTRUE, "a pod came back at once");
    breaks(&back(20, false), UNTRUE);
    keeps(&back(20, true), UNTRUE, "its call was not answered at first");
}

#[tokio::test(start_paused = true)]
async fn an_accept_without_its_event_is_seen_unless_its_answer_was_lost_and_its_node_went() {
    const NONE: &str = "InterruptionAccepted of ";
    let mut evidence = reclaimed().await;
    let (at, node) = (accepted(&evidence), node_of(&evidence).1);
    evidence.events.retain(|e| e.reason != "InterruptionAccepted");
    breaks(&judge(&evidence), NONE);
    let with = |by: &str, object: &str, gone: u64| {
        let mut evidence = evidence.clone();
        insert(&mut evidence, at + s(gone), "<test>", Fact::NodeGone(node.clone()));
        evidence.disturbances.push(Disturbance {
            at,
            until: Some(at + s(2)),
            by: by.to_owned(),
            what: "patch nodes".to_owned(),
            object: object.to_owned(),
            is_silent: false,
        });
        judge(&evidence)
    };
    keeps(&with("sundown-0", &node, 5), NONE, "it could not know that it had accepted it");
    breaks(&with("sundown-9", &node, 5), NONE);
    breaks(&with("sundown-0", "another-node", 5), NONE);
    breaks(&with("sundown-0", &node, 30), NONE);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_pods_of_a_node_stay_is_seen_unless_its_record_asks_for_no_drain() {
    const STAY: &str = "reason: \"NotEvicted\"";
    let evidence = hooked().await;
    let with = |flag: &str| {
        let mut evidence = evidence.clone();
        evidence.terms.flags[0].1.push(format!("--on={flag}"));
        let accepted = evidence.events.iter().find(|e| e.reason == "InterruptionAccepted");
        let mut event = accepted.unwrap().clone();
        (event.reason, event.severity) = ("NotEvicted".to_owned(), "Normal".to_owned());
        evidence.events.insert(event);
        judge(&evidence)
    };
    keeps(&with("terminate-hook=cordon"), STAY, "its time is that of the accept, in seconds");
    breaks(&with("spot=cordon"), STAY);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_contradicts_an_open_action_is_seen_unless_it_came_late() {
    let evidence = hooked().await;
    let began = evidence.actions[0].started;
    let contradicted = |fault_felt: Option<Moment>| {
        let mut evidence = evidence.clone();
        let mut event = evidence.events.iter().find(|e| e.on == "Node").unwrap().clone();
        (event.reason, event.severity) =
            ("InterruptionContradicted".to_owned(), "Warning".to_owned());
        (event.first, event.last) = (began + s(3), began + s(3));
        evidence.events.insert(event);
        if let Some(felt) = fault_felt {
            fault(&mut evidence, "create events", began - s(15), felt);
        }
        judge(&evidence)
    };
    breaks(&contradicted(None), UNTRUE);
    keeps(&contradicted(Some(began + s(2))), UNTRUE, "AWS contradicted it before the action began");
    breaks(&contradicted(Some(began - s(1))), UNTRUE);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_a_finished_pod_blocks_a_node_is_seen_unless_its_machine_is_gone() {
    const BLOCKED: &str = "an Event is not true: Event { reason: \"Blocked\"";
    let mut evidence = hooked().await;
    let (_, node) = node_of(&evidence);
    let at = when(&evidence, |f| matches!(f, Fact::PodFinished(_))) + s(60);
    longer(&mut evidence, at + s(10));
    evidence.entries.retain(|e| !matches!(e.fact, Fact::PodGone(_)));
    let pod = evidence
        .entries
        .iter()
        .find_map(|e| if let Fact::Bound(pod) = &e.fact { Some(pod.clone()) } else { None });
    let pod = pod.unwrap();
    let blocked = |gone: Option<Moment>, change: &dyn Fn(&mut Entry)| {
        let mut evidence = evidence.clone();
        let is_bound = |e: &&mut Entry| matches!(e.fact, Fact::Bound(_));
        evidence.entries.iter_mut().filter(is_bound).for_each(change);
        if let Some(gone) = gone {
            insert(&mut evidence, gone, "<test>", Fact::MachineGone(node.clone()));
        }
        evidence
    };
    let reported = |evidence: &Evidence| {
        besides(evidence, |e| {
            (e.reason, e.severity) = ("Blocked".to_owned(), "Warning".to_owned());
            (e.first, e.last) = (at, at);
        })
    };
    let dead = blocked(Some(at - s(30)), &|_| {});
    keeps(&reported(&dead), BLOCKED, "its object stays on a machine that is gone");
    breaks(&reported(&blocked(None, &|_| {})), BLOCKED);
    breaks(&reported(&blocked(Some(at + s(1)), &|_| {})), BLOCKED);
    let just_came = |e: &mut Entry| e.at = at - s(20);
    breaks(&reported(&blocked(Some(at - s(30)), &just_came)), BLOCKED);
    let of_daemon = |e: &mut Entry| {
        if let Fact::Bound(pod) = &mut e.fact {
            pod.name = "daemon-0".to_owned();
        }
    };
    breaks(&reported(&blocked(Some(at - s(30)), &of_daemon)), BLOCKED);
    let mut collected = dead;
    insert(&mut collected, at - s(50), "<collector>", Fact::PodGone(pod));
    breaks(&reported(&collected), BLOCKED);
}
