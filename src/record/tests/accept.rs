use super::*;

pub(super) fn event_without_token(event_id: &str, time: i64) -> Interruption {
    let mut interruption = hook(event_id, time, "drain", "t");
    if let Cause::Terminate(action) = &mut interruption.cause {
        action.token = None;
    }
    interruption
}

pub(super) fn is_repeat(node: &Node, interruption: &Interruption, now: i64) -> bool {
    take_on(node, interruption, now).is_none()
}

#[test]
fn one_patch_cordons_taints_and_records() {
    let node = node();
    let Accept::Patch { body, excludes, joins, .. } =
        accept(&node, &spot("e1", 0), at(1), &AcceptOptions::default())
    else {
        panic!()
    };
    assert!(!excludes && !joins);
    assert_eq!(body["spec"]["unschedulable"], true);
    assert_eq!(
        body["spec"]["taints"],
        json!([
            {
                "key": "dedicated", "value": "gpu", "effect": "NoExecute",
                "timeAdded": "2026-01-01T00:00:00Z"
            },
            {"key": "sundown.dev/interruption", "value": "spot", "effect": "NoSchedule"},
        ])
    );
    assert_eq!(body["metadata"]["labels"], Value::Null, "no label unless the options ask for it");
    let written: Value = serde_json::from_str(
        body["metadata"]["annotations"]["sundown.dev/record"].as_str().unwrap(),
    )
    .unwrap();
    assert_eq!(
        written,
        json!({"version": 1, "instance": INSTANCE, "boot": "boot-1", "before": {
            "unschedulable": false, "excluded": false
        },
               "interruptions": [{
                   "kind": "spot", "event": "e1", "time": "2026-01-01T00:00:00Z",
                   "accepted": "2026-01-01T00:00:01Z"
               }]})
    );
    let node = apply(&node, &body);
    assert!(matches!(status(&node, None), RecordStatus::Open(_)));
}

#[test]
fn each_kind_is_recorded_with_its_facts() {
    let capacity = event("c", 0, Cause::CapacityReservation { ends: Some(at(100)) });
    for (interruption, facts) in [
        (
            hook("h", 0, "drain", "t1"),
            json!({
                "kind": "terminate-hook", "event": "h", "group": "asg", "hook": "drain",
                "token": "t1"
            }),
        ),
        (
            capacity,
            json!({
                "kind": "capacity-reservation", "event": "c", "ends": "2026-01-01T00:01:40Z"
            }),
        ),
        (
            event("b", 0, Cause::CapacityBlock { ends: Some(at(2400)) }),
            json!({"kind": "capacity-block", "event": "b", "ends": "2026-01-01T00:40:00Z"}),
        ),
        (
            state("s", 0, InstanceState::ShuttingDown),
            json!({"kind": "state-change", "event": "s", "state": "shutting-down"}),
        ),
    ] {
        let node = take_on_with(
            &node(),
            &interruption,
            1,
            &AcceptOptions { stale: true, ..AcceptOptions::default() },
        )
        .unwrap();
        let mut written: Value = serde_json::from_str(node.record().unwrap()).unwrap();
        let mut entry = written["interruptions"][0].take();
        for key in ["time", "accepted"] {
            assert!(entry.as_object_mut().unwrap().remove(key).is_some());
        }
        assert_eq!(entry.as_object_mut().unwrap().remove("stale"), Some(true.into()));
        assert_eq!(entry, facts);
        let taken =
            Record::read(node.record().unwrap()).unwrap().interruptions(&id(INSTANCE)).remove(0);
        assert_eq!(
            taken,
            InterruptionFacts::new(&interruption, &id(INSTANCE), None, at(1), true),
            "the facts are read as they were written"
        );
    }
}

#[test]
fn an_event_without_a_time_gets_the_time_at_which_its_message_was_sent() {
    let mut interruption = spot("e1", 0);
    interruption.time = None;
    let node = take_on_with(
        &node(),
        &interruption,
        9,
        &AcceptOptions { sent: Some(at(3)), ..AcceptOptions::default() },
    )
    .unwrap();
    assert_eq!(
        Record::read(node.record().unwrap()).unwrap().interruptions(&id(INSTANCE))[0].time,
        at(3)
    );
}

#[test]
fn the_label_is_set_when_asked_and_a_foreign_value_stays() {
    let asked = AcceptOptions { exclude: true, ..AcceptOptions::default() };
    let fresh = take_on_with(&node(), &spot("e1", 0), 1, &asked).unwrap();
    assert_eq!(
        fresh.labels.get(EXCLUDE_FROM_LOAD_BALANCERS).map(String::as_str),
        Some(EXCLUDED_BY_US)
    );

    let mut labelled = node();
    std::sync::Arc::make_mut(&mut labelled.labels)
        .insert(EXCLUDE_FROM_LOAD_BALANCERS.into(), "theirs".into());
    let Accept::Patch { excludes, record, body, .. } =
        accept(&labelled, &spot("e1", 0), at(1), &asked)
    else {
        panic!()
    };
    assert!(!excludes && record.before.excluded);
    assert_eq!(apply(&labelled, &body).labels, labelled.labels);
}

#[test]
fn c69_the_same_event_twice_is_a_repeat() {
    let open = take_on(&node(), &spot("e1", 0), 1).unwrap();
    assert!(is_repeat(&open, &spot("e1", 0), 2));
    assert!(
        is_repeat(&release_node(&open, 30), &spot("e1", 0), 31),
        "released: still the same event"
    );

    let mut restored = apply(
        &open,
        &restore_node(&open, None, &After::Released(Released::new(at(30), "stale"))).unwrap(),
    );
    assert!(
        is_repeat(&restored, &spot("e1", 0), 31),
        "restored: a copy of its event does not start a second drain"
    );
    restored.boot_id = Some("boot-2".into());
    assert!(is_repeat(&restored, &spot("e1", 0), 31));

    let hooked = take_on(&node(), &hook("eventbridge", 0, "drain", "t1"), 1).unwrap();
    assert!(
        is_repeat(&hooked, &hook("native", 0, "drain", "t1"), 2),
        "one action that two services report under two IDs"
    );

    let without_id = take_on(&node(), &spot("", 0), 1).unwrap();
    assert!(is_repeat(&without_id, &spot("", 0), 2), "without an ID: by all its facts");
}

#[test]
fn s27_hooks_and_a_spot_notice_of_one_node_join_one_record() {
    let one = take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap();
    assert_eq!(our_taint(&one), Some("terminate-hook"));
    let two = take_on(&one, &hook("e2", 0, "logs", "t2"), 2).unwrap();
    let three = take_on(&two, &spot("e3", 10), 11).unwrap();
    assert_eq!(our_taint(&three), Some("spot"), "the most urgent kind");
    assert_eq!(open_actions(&three), ["asg/drain", "asg/logs"]);
    assert_eq!(
        kinds(&three),
        [Some(Kind::TerminateHook), Some(Kind::TerminateHook), Some(Kind::Spot)]
    );
    assert_eq!(
        three.taints.iter().map(|t| t.key.as_str()).collect::<Vec<_>>(),
        ["dedicated", TAINT]
    );
    assert!(
        !Record::read(three.record().unwrap()).unwrap().before.unschedulable,
        "the state before the first interruption"
    );
    assert!(is_repeat(&three, &event("e4", 12, Cause::Rebalance), 12));
}

#[test]
fn c39_a_node_of_another_instance_takes_nothing_on() {
    let mut renamed = node();
    renamed.instance = Some(id(OTHER));
    assert_eq!(
        accept(&renamed, &spot("e1", 0), at(1), &AcceptOptions::default()),
        Accept::OtherInstance
    );
    assert!(!recognize(&renamed, &spot("e1", 0)));
}

#[test]
fn a_node_without_provider_id_is_accepted_for_the_instance_that_was_looked_up() {
    let mut plain = node();
    plain.instance = None;
    let open = take_on(&plain, &spot("e1", 0), 1).unwrap();
    assert!(matches!(status(&open, Some(&id(INSTANCE))), RecordStatus::Open(_)));
    assert!(matches!(
        status(&open, Some(&id(OTHER))),
        RecordStatus::Void { why: VoidReason::OtherInstance, .. }
    ));
    assert!(matches!(
        status(&open, None),
        RecordStatus::Doubtful { why: Doubt::InstanceNotKnown, .. }
    ));
}

#[test]
fn an_accept_whose_answer_was_lost_is_recognized() {
    let fresh = node();
    let interruption = hook("e1", 0, "drain", "t1");
    assert!(!recognize(&fresh, &interruption));
    let open = take_on(&fresh, &interruption, 1).unwrap();
    assert!(recognize(&open, &interruption));
    assert!(!recognize(&open, &spot("e2", 0)));
    let mut without_id = spot("", 0);
    without_id.time = None;
    assert!(recognize(&take_on(&fresh, &without_id, 1).unwrap(), &without_id));
}

#[test]
fn a_record_never_exceeds_its_limits() {
    let mut node = node();
    for n in 0..i64::try_from(MAX_INTERRUPTIONS).unwrap() {
        node = take_on(&node, &hook(&format!("e{n}"), n, "drain", &format!("t{n}")), 100).unwrap();
    }
    assert_eq!(
        accept(&node, &hook("x", 99, "drain", "one-more"), at(100), &AcceptOptions::default()),
        Accept::Full
    );
    let long = "g".repeat(MAX_BYTES);
    assert_eq!(
        accept(&super::node(), &hook("x", 0, &long, "t"), at(1), &AcceptOptions::default()),
        Accept::Full
    );
    let with_long_texts = take_on(&super::node(), &hook(&long, 0, "drain", &long), 1).unwrap();
    assert!(
        with_long_texts.record().unwrap().len() < 1000,
        "long IDs are cut, long tokens dropped"
    );
    assert!(take_on(&with_long_texts, &hook(&long, 0, "drain", &long), 1).is_none());
}

#[test]
fn a_record_has_room_for_four_hooks_and_the_message_of_a_fifth_is_kept() {
    let mut node = node();
    for n in 0..MAX_HOOKS {
        node = take_on(&node, &hook(&format!("e{n}"), 0, &format!("h{n}"), "t"), 1).unwrap();
    }
    assert_eq!(
        accept(&node, &hook("x", 0, "one-more", "t"), at(1), &AcceptOptions::default()),
        Accept::Full
    );
    let later = take_on(&node, &hook("y", 60, "h0", "t2"), 61).unwrap();
    assert_eq!(
        open_actions(&later).len(),
        MAX_HOOKS,
        "a later action of a named hook needs no more room"
    );
    assert!(take_on(&node, &spot("s", 0), 1).is_some(), "an interruption without a hook joins");
}

#[test]
fn of_a_record_that_somebody_else_wrote_the_first_four_hooks_count() {
    let mut node = take_on(&node(), &hook("e", 0, "h0", "t"), 1).unwrap();
    let mut record: Value = serde_json::from_str(node.record().unwrap()).unwrap();
    let first = record["interruptions"][0].clone();
    for n in 1..1000 {
        let mut more = first.clone();
        more["hook"] = format!("h{n}").into();
        record["interruptions"].as_array_mut().unwrap().push(more);
    }
    set_record(&mut node, &record.to_string());
    assert_eq!(open_actions(&node), ["asg/h0", "asg/h1", "asg/h2", "asg/h3"]);
}

#[test]
fn an_accept_removes_orders_that_are_older_than_its_drain() {
    let mut ordered = node();
    ordered.annotations.insert(RELEASE, "true");
    ordered.annotations.insert(FORCE, "true");
    let fresh = take_on(&ordered, &hook("h1", 0, "drain", "t1"), 1).unwrap();
    let is_ordered = fresh.released_by_hand() || fresh.forced_by_hand();
    assert!(!is_ordered, "the orders were for another drain");
    // An order that comes while the record is open is for this drain, also if an interruption
    // joins.
    let mut open = fresh;
    open.annotations.insert(RELEASE, "true");
    let joined = take_on(&open, &spot("e1", 2), 3).unwrap();
    assert!(joined.released_by_hand());
    // A record that replaces a released one starts a drain of its own.
    let mut released = release_node(&take_on(&node(), &spot("e2", 0), 1).unwrap(), 50);
    released.annotations.insert(RELEASE, "true");
    let again = take_on(&released, &hook("h2", 60, "drain", "t2"), 61).unwrap();
    assert!(!again.released_by_hand());
}

#[test]
fn a_hook_is_unconfirmed_until_one_of_its_actions_was_accepted_as_ours() {
    let unconfirmed = AcceptOptions { unconfirmed: true, ..AcceptOptions::default() };
    let key =
        |name: &str| HookKey { instance: id(INSTANCE), group: "asg".into(), hook: name.into() };
    let is_unconfirmed = |node: &Node, name: &str| {
        Record::read(node.record().unwrap()).unwrap().is_unconfirmed(&key(name))
    };
    let node = take_on(&node(), &hook("e1", 0, "sundown", "t1"), 1).unwrap();
    let node = take_on_with(&node, &hook("e2", 0, "backup", "t2"), 2, &unconfirmed).unwrap();
    assert_eq!(
        (
            is_unconfirmed(&node, "sundown"),
            is_unconfirmed(&node, "backup"),
            is_unconfirmed(&node, "none")
        ),
        (false, true, false)
    );
    assert!(node.record().unwrap().contains("\"unconfirmed\":true"));
    let node = take_on(&node, &hook("e3", 60, "backup", "t3"), 61).unwrap();
    assert!(!is_unconfirmed(&node, "backup"), "a hook that was accepted as ours stays ours");
}
