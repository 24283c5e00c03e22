//! Drain requests: which are accepted, refused and gone, and how the Node is restored.

use super::*;

fn asks(node: &Node, all: &[(&str, &str)]) -> Node {
    let mut requests = NodeRequests::default();
    for (name, value) in all {
        requests.add(&format!("drain.sundown.dev/{name}"), value);
    }
    let requests = Some(requests).filter(|requests| !requests.is_empty()).map(Box::new);
    Node { requests, ..node.clone() }
}

fn time(now: i64) -> PlanTime {
    let schedule = ChangeSchedule { lead: seconds(3600), window: None };
    PlanTime { now: at(now), schedule }
}

/// The names of the requests that are accepted one after the other, and the Node then.
fn accept_all(node: &Node, now: i64) -> (Node, Vec<String>) {
    let (mut node, mut names) = (node.clone(), Vec::new());
    while let Some(next) = next_request(&node, &id(INSTANCE), at(now)) {
        let Cause::Request(request) = &next.cause else { panic!() };
        let options =
            AcceptOptions { response: request.stage.response(), ..AcceptOptions::default() };
        names.push(request.name.to_string());
        node = take_on_with(&node, &next, now, &options).unwrap();
        assert!(names.len() < 40, "each is accepted once");
    }
    (node, names)
}

fn changes(node: &Node, now: i64) -> RequestChanges {
    let planned = Planned::of(node, &id(INSTANCE));
    request_changes(node, &id(INSTANCE), planned.as_ref(), time(now))
}

fn gone(node: &Node, now: i64) -> Vec<String> {
    match changes(node, now) {
        RequestChanges::Open { gone, .. } => gone
            .iter()
            .map(|event| DrainRequest::name_of_event(event).unwrap().to_owned())
            .collect(),
        other => panic!("{other:?}"),
    }
}

fn facts(node: &Node) -> Vec<InterruptionFacts> {
    Record::read(node.record().unwrap()).unwrap().interruptions(&id(INSTANCE))
}

fn written(at_end: OnEnd, node: &Node) -> Node {
    match at_end {
        OnEnd::Write { patch, .. } => apply(node, &patch),
        other => panic!("{other:?}"),
    }
}

/// The Node after its drain has ended for this reason.
fn ended(node: &Node, why: EndReason, disproved: &[&str]) -> OnEnd {
    let record = Record::read(node.record().unwrap()).unwrap();
    let drain = EndedDrain {
        instance: &id(INSTANCE),
        record: &record,
        why,
        disproved: &disproved.iter().map(|event| (*event).to_owned()).collect(),
        done: &std::collections::BTreeSet::new(),
    };
    drain.on_end(node, |_| Vec::new(), &Released::new(at(500), "released"))
}

#[test]
fn a_request_is_accepted_with_what_it_asks_for() {
    let value = "deadline=2026-01-01T01:00:00Z;reason=new kernel";
    let (taken, names) = accept_all(&asks(&node(), &[("upgrade", value)]), 0);
    assert_eq!(names, ["upgrade"]);
    assert_eq!((taken.unschedulable, our_taint(&taken)), (true, Some("request")));
    let facts = &facts(&taken)[0];
    assert_eq!((facts.kind, facts.requester()), (Some(Kind::Request), Some("upgrade")));
    assert_eq!((facts.ends, facts.reason.as_deref()), (Some(at(3600)), Some("new kernel")));
    assert_eq!(facts.response, Response::Drain);
    let (cordoned, _) = accept_all(&asks(&node(), &[("look", "stage=cordon")]), 0);
    let record = Record::read(cordoned.record().unwrap()).unwrap();
    assert_eq!((record.response(), cordoned.unschedulable), (Response::Cordon, true));
}

#[test]
fn several_requests_and_a_notice_are_all_in_the_record() {
    let both = asks(&node(), &[("a", ""), ("b", "reason=x")]);
    let (taken, names) = accept_all(&both, 0);
    assert_eq!(names, ["a", "b"]);
    // Nothing that only people ask for swallows a notice, even one that ends nothing by itself.
    let late = event("s", 5, Cause::StateChange(InstanceState::Stopping));
    for notice in [spot("e1", 5), hook("e1", 5, "drain", "t"), late] {
        let joined = take_on(&taken, &notice, 5).unwrap();
        assert_eq!(facts(&joined).len(), 3, "{notice:?}");
        assert_eq!(our_taint(&joined), Some(notice.kind().as_str()));
        let ended = release_node(&taken, 4);
        let replaced = take_on(&ended, &notice, 5).unwrap();
        assert_eq!(facts(&replaced).len(), 3, "after the end of the drain: {notice:?}");
    }
    // And a request joins the drain of a notice.
    let drained = take_on(&asks(&node(), &[]), &spot("e1", 0), 0).unwrap();
    let (joined, names) = accept_all(&asks(&drained, &[("a", "")]), 1);
    assert_eq!((names.len(), facts(&joined).len()), (1, 2));
    assert_eq!(our_taint(&joined), Some("spot"));
}

#[test]
fn a_deadline_that_has_passed_and_mistakes_are_refused() {
    let past = "deadline=2026-01-01T00:00:00Z";
    let asking = asks(&node(), &[("late", past), ("typo", "stage=drian"), ("good", "")]);
    let refused = refused_requests(&asking, Some(&id(INSTANCE)), at(0));
    let names: Vec<&str> = refused.iter().map(|refused| refused.name.as_str()).collect();
    assert_eq!(names, ["late", "typo"]);
    assert!(refused[0].why.to_string().contains("has passed"));
    assert!(refused[1].why.to_string().contains("there is no stage `drian`"));
    let (taken, names) = accept_all(&asking, 0);
    assert_eq!((names, facts(&taken).len()), (vec!["good".to_owned()], 1));
    // A request that was accepted before its deadline is not refused after it.
    let (taken, _) = accept_all(&asks(&node(), &[("a", "deadline=2026-01-01T01:00:00Z")]), 0);
    assert_eq!(refused_requests(&taken, Some(&id(INSTANCE)), at(4000)), []);
    assert_eq!(gone(&taken, 4000), Vec::<String>::new(), "it still asks");
}

#[test]
fn a_node_that_sundown_does_not_drain_and_too_many_requests_are_refused() {
    let why = |node: &Node, instance: Option<&InstanceId>| {
        refused_requests(node, instance, at(0)).pop().map(|refused| refused.why)
    };
    let asking = asks(&node(), &[("a", "")]);
    assert_eq!(why(&asking, None), Some(Refusal::NoInstance));
    let mut ignored = asking.clone();
    ignored.annotations.insert(IGNORE, "true");
    assert_eq!(why(&ignored, Some(&id(INSTANCE))), Some(Refusal::Ignored));
    let names: Vec<String> = (0..20).map(|n| format!("r{n:02}")).collect();
    let all: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let many = asks(&node(), &all);
    assert_eq!(why(&many, Some(&id(INSTANCE))), Some(Refusal::TooMany(4)));
    let (taken, accepted) = accept_all(&many, 0);
    assert_eq!(accepted, names[..16]);
    // One that an earlier name pushes out of those that are kept still asks.
    let pushed = asks(&taken, &[&[("a", "")], &all[..]].concat());
    assert_eq!(gone(&pushed, 1), Vec::<String>::new());
}

#[test]
fn a_changed_request_replaces_the_one_of_the_same_name() {
    let (taken, _) = accept_all(&asks(&node(), &[("a", ""), ("b", "")]), 0);
    let changed = asks(&taken, &[("a", "reason=other"), ("b", "")]);
    assert_eq!(gone(&changed, 1), Vec::<String>::new(), "until the new one is accepted");
    let (replaced, names) = accept_all(&changed, 1);
    assert_eq!(names, ["a"]);
    assert_eq!(facts(&replaced).len(), 2);
    assert_eq!(facts(&replaced).last().unwrap().reason.as_deref(), Some("other"));
    for bad in ["typo", "deadline=2026-01-01T00:00:00Z"] {
        let bad = asks(&taken, &[("a", bad), ("b", "")]);
        assert_eq!(gone(&bad, 1), ["a"], "what is no request asks for nothing");
    }
    assert_eq!(gone(&asks(&taken, &[("b", "")]), 1), ["a"]);
}

#[test]
fn a_node_whose_last_request_is_gone_is_restored_and_may_ask_for_the_same_again() {
    let before = node();
    let (taken, _) = accept_all(&asks(&before, &[("a", "")]), 0);
    let event = facts(&taken)[0].event_id.clone();
    let is_as_before = |after: &Node| {
        assert_eq!((after.unschedulable, &after.taints), (false, &before.taints));
        let (_, names) = accept_all(&asks(after, &[("a", "")]), 1000);
        assert_eq!(names, ["a"], "the same again");
    };
    // During its drain.
    let alone = asks(&taken, &[]);
    let after = written(ended(&alone, EndReason::NothingHolds, &[&event]), &alone);
    assert_eq!(facts(&after), []);
    is_as_before(&after);
    // It asks again before that is written.
    assert_eq!(ended(&taken, EndReason::NothingHolds, &[&event]), OnEnd::Reopen);
    // After its drain.
    let drained = asks(&release_node(&taken, 100), &[]);
    let over = RequestChanges::Over { names: vec!["a".to_owned()], is_drained: true };
    assert_eq!(changes(&drained, 200), over);
    let after = apply(&drained, &restore_node(&drained, None, &After::Removed).unwrap());
    is_as_before(&after);
    // Not while it asks, nor while a notice is in the record.
    assert_eq!(changes(&release_node(&taken, 100), 200), RequestChanges::None);
    let joined = asks(&take_on(&taken, &spot("e1", 5), 5).unwrap(), &[]);
    assert_eq!(changes(&release_node(&joined, 100), 200), RequestChanges::None);
}

#[test]
fn a_person_releases_a_node_and_it_is_drained_again_only_when_the_request_changes() {
    let (taken, _) = accept_all(&asks(&node(), &[("a", ""), ("b", "")]), 0);
    let shown = asks(&taken, &[("a", "")]);
    let after = written(ended(&shown, EndReason::ByHand, &[]), &shown);
    assert!(!after.unschedulable);
    assert_eq!(facts(&after).len(), 1, "what is gone leaves the record");
    assert_eq!(accept_all(&after, 1000).1, Vec::<String>::new());
    assert_eq!(accept_all(&asks(&after, &[("a", "reason=now")]), 1000).1, ["a"]);
    let with_b = written(ended(&taken, EndReason::ByHand, &[]), &taken);
    assert_eq!(accept_all(&with_b, 1000).1, Vec::<String>::new());
    let changed = asks(&with_b, &[("a", "reason=now"), ("b", "")]);
    assert_eq!(accept_all(&changed, 1000).1, ["a", "b"], "the new drain is for all requests");
    let removed = asks(&after, &[]);
    let over = RequestChanges::Over { names: vec!["a".to_owned()], is_drained: false };
    assert_eq!(changes(&removed, 1000), over, "only the record is left");
    let bare = apply(&removed, &restore_node(&removed, None, &After::Removed).unwrap());
    assert_eq!(accept_all(&asks(&bare, &[("a", "")]), 1000).1, ["a"]);
}

#[test]
fn after_the_end_of_a_drain_another_request_begins_anew_and_keeps_the_first() {
    let (taken, _) = accept_all(&asks(&node(), &[("a", "deadline=2026-01-01T00:01:00Z")]), 0);
    let drained = release_node(&taken, 61);
    let both = asks(&drained, &[("a", "deadline=2026-01-01T00:01:00Z"), ("b", "")]);
    let (again, names) = accept_all(&both, 100);
    assert_eq!((names, facts(&again).len()), (vec!["b".to_owned()], 2));
    assert!(matches!(status(&again, None), RecordStatus::Open(_)));
    let back = asks(&again, &[]);
    let restored = apply(&back, &restore_node(&back, None, &After::Removed).unwrap());
    assert!(!restored.unschedulable, "the state before Sundown is kept");
    // A later deadline of the same request begins anew, too: pods may be left.
    let later = asks(&drained, &[("a", "deadline=2026-01-01T02:00:00Z")]);
    let (again, names) = accept_all(&later, 100);
    assert_eq!((names.len(), facts(&again).len()), (1, 1));
}

#[test]
fn after_a_boot_a_request_that_still_asks_is_accepted_again() {
    let (taken, _) = accept_all(&asks(&node(), &[("a", "")]), 0);
    for taken in [taken.clone(), release_node(&taken, 100)] {
        let booted = Node { boot_id: Some("boot-2".into()), ..taken };
        assert!(matches!(status(&booted, None), RecordStatus::Void { .. }));
        let (again, names) = accept_all(&booted, 200);
        assert_eq!(names, ["a"]);
        assert!(matches!(status(&again, None), RecordStatus::Open(_)));
        let back = asks(&again, &[]);
        let restored = apply(&back, &restore_node(&back, None, &After::Removed).unwrap());
        assert!(!restored.unschedulable);
    }
}

#[test]
fn while_a_record_is_doubtful_requests_wait() {
    let taken = take_on(&node(), &hook("e1", 0, "drain", "t"), 0).unwrap();
    let booted = Node { boot_id: Some("boot-2".into()), ..asks(&taken, &[("a", "")]) };
    assert!(matches!(status(&booted, None), RecordStatus::Doubtful { .. }));
    assert_eq!(next_request(&booted, &id(INSTANCE), at(10)), None);
}

#[test]
fn a_held_restore_is_followed_when_the_annotation_goes() {
    let (taken, _) = accept_all(&asks(&node(), &[("a", "")]), 0);
    let mut kept = asks(&release_node(&taken, 100), &[]);
    kept.annotations.insert(KEEP_CORDONED, "true");
    let held = apply(&kept, &restore_node(&kept, None, &After::Removed).unwrap());
    assert!(held.unschedulable);
    assert_eq!(changes(&held, 200), RequestChanges::None);
    // It asks again meanwhile.
    assert_eq!(accept_all(&asks(&held, &[("a", "")]), 200).1, ["a"]);
    let free = Node { annotations: taken.annotations.clone(), ..held.clone() };
    let mut free = free;
    set_record(&mut free, held.record().unwrap());
    let restored = apply(&free, &restore_node(&free, None, &After::Removed).unwrap());
    assert!(!restored.unschedulable);
}

#[test]
fn an_older_version_keeps_the_entry_of_a_request() {
    let (taken, _) = accept_all(&asks(&node(), &[("a", "reason=x")]), 0);
    let text = taken.record().unwrap().replace("\"request\"", "\"later-kind\"");
    let record = Record::read(&text).unwrap();
    assert_eq!(Record::read(&record.write()).unwrap(), record);
    assert!(record.write().contains("\"reason\":\"x\""));
}

#[test]
fn a_request_never_replaces_the_record_of_a_node_that_aws_takes() {
    let cordon = AcceptOptions { response: Response::Cordon, ..AcceptOptions::default() };
    let notice = take_on_with(&node(), &spot("e1", 0), 0, &cordon).unwrap();
    let pooled = release_node(&take_on(&node(), &to_pool(), 105).unwrap(), 200);
    let booted = Node { boot_id: Some("boot-2".into()), ..pooled.clone() };
    assert!(matches!(status(&booted, None), RecordStatus::Void { .. }));
    for node in [release_node(&notice, 100), pooled, booted] {
        for value in ["", "deadline=2026-01-01T00:20:00Z"] {
            let (_, names) = accept_all(&asks(&node, &[("a", value)]), 300);
            assert_eq!(names, Vec::<String>::new(), "{:?}", node.record());
        }
    }
}

#[test]
fn a_release_by_hand_lasts_also_while_a_person_keeps_the_node_cordoned() {
    let (taken, _) = accept_all(&asks(&node(), &[("a", "")]), 0);
    let mut kept = taken;
    kept.annotations.insert(KEEP_CORDONED, "true");
    let after = written(ended(&kept, EndReason::ByHand, &[]), &kept);
    assert!(after.unschedulable);
    assert_eq!(accept_all(&after, 1000).1, Vec::<String>::new());
    assert_eq!(accept_all(&asks(&after, &[("a", "reason=now")]), 1000).1, ["a"]);
}

#[test]
fn after_a_boot_a_request_whose_deadline_has_passed_keeps_the_node_cordoned() {
    let asking = asks(&node(), &[("a", "deadline=2026-01-01T00:01:00Z")]);
    let (taken, _) = accept_all(&asking, 0);
    for taken in [taken.clone(), release_node(&taken, 61)] {
        let booted = Node { boot_id: Some("boot-2".into()), ..taken };
        let (again, names) = accept_all(&booted, 200);
        assert_eq!(names, ["a"]);
        let record = Record::read(again.record().unwrap()).unwrap();
        assert_eq!((record.response(), again.unschedulable), (Response::Cordon, true));
        let back = asks(&again, &[]);
        assert_eq!(gone(&back, 201), ["a"]);
    }
    // A request that was never accepted is still refused.
    let booted = Node { boot_id: Some("boot-2".into()), ..accept_all(&asking, 0).0 };
    let other = asks(&booted, &[("a", "deadline=2026-01-01T00:02:00Z")]);
    assert_eq!(accept_all(&other, 200).1, Vec::<String>::new());
}

#[test]
fn requests_push_no_notice_out_of_a_record() {
    let mut drained = take_on(&node(), &spot("e1", 0), 0).unwrap();
    let reason = format!("reason={}", "x".repeat(200));
    for n in 0..70 {
        let name = format!("r{n}");
        drained = accept_all(&asks(&drained, &[(name.as_str(), &reason)]), 1).0;
    }
    let held = facts(&drained);
    assert_eq!((held.len(), held[0].kind), (2, Some(Kind::Spot)), "the others are gone");
    assert!(take_on(&drained, &hook("e2", 5, "drain", "t"), 5).is_some(), "there is room");
}

#[test]
fn a_request_that_was_gone_at_the_end_of_a_drain_makes_no_later_notice_a_repeat() {
    let cordon = AcceptOptions { response: Response::Cordon, ..AcceptOptions::default() };
    let change = take_on_with(&node(), &spot("e1", 0), 0, &cordon).unwrap();
    let (both, names) = accept_all(&asks(&change, &[("a", "")]), 1);
    assert_eq!(names, ["a"]);
    let event = facts(&both).last().unwrap().event_id.clone();
    let alone = asks(&both, &[]);
    let after = written(ended(&alone, EndReason::InstanceGoes, &[&event]), &alone);
    assert_eq!(facts(&after).len(), 1);
    assert!(take_on(&after, &spot("e2", 600), 600).is_some());
    // A drain that had no evictions for what holds is not reopened for what is gone.
    let record = Record::read(change.record().unwrap()).unwrap();
    let disproved = [event].into();
    let drain = EndedDrain {
        instance: &id(INSTANCE),
        record: &record,
        why: EndReason::InstanceGoes,
        disproved: &disproved,
        done: &std::collections::BTreeSet::new(),
    };
    let at_end = drain.on_end(&alone, |_| Vec::new(), &Released::new(at(500), "not_evicted"));
    assert!(matches!(at_end, OnEnd::Write { .. }), "{at_end:?}");
    assert_eq!(drain.on_end(&both, |_| Vec::new(), &Released::new(at(500), "x")), OnEnd::Reopen);
}
