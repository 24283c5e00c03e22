use super::*;

fn is_repeat(node: &Node, interruption: &Interruption, now: i64) -> bool {
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

    let mut put_back = apply(
        &open,
        &restore_node(&open, None, &After::Released(Released::new(at(30), "stale"))).unwrap(),
    );
    assert!(
        is_repeat(&put_back, &spot("e1", 0), 31),
        "put back: a copy of its event does not start a second drain"
    );
    put_back.boot_id = Some("boot-2".into());
    assert!(is_repeat(&put_back, &spot("e1", 0), 31));

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
fn an_interruption_joins_an_open_record_only_with_a_new_action_or_an_earlier_end() {
    use InstanceState::{Running, ShuttingDown, Terminated};
    let spotted = take_on(&node(), &spot("e1", 0), 1).unwrap();
    let hooked = take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap();
    for (name, record, interruption, now, repeat) in [
        ("a later notice", &spotted, spot("e2", 5), 6, true),
        ("an earlier notice", &spotted, spot("e2", -5), 6, false),
        (
            "it shuts down as the notice announced",
            &spotted,
            state("e2", 100, ShuttingDown),
            119,
            true,
        ),
        (
            "it shuts down after the end of the notice, which no longer sets a deadline",
            &spotted,
            state("e2", 120, ShuttingDown),
            121,
            false,
        ),
        (
            "it shuts down long before the end of the notice",
            &spotted,
            state("e2", 20, ShuttingDown),
            21,
            false,
        ),
        ("a later action of the same hook", &hooked, hook("e2", 5, "drain", "t9"), 6, false),
        ("an earlier action of the same hook", &hooked, hook("e2", -5, "drain", "t9"), 6, true),
        ("the same hook, without its token", &hooked, event_without_token("e2", 5), 6, true),
        ("another hook", &hooked, hook("e2", 5, "other", "t9"), 6, false),
        (
            "another hook under an id that was used before",
            &hooked,
            hook("e1", 5, "other", "t9"),
            6,
            false,
        ),
        ("a hook after a notice", &spotted, hook("e2", 5, "drain", "t1"), 6, false),
        ("a notice after a hook", &hooked, spot("e2", 5), 6, false),
        ("a notice whose end has passed brings no deadline", &hooked, spot("e2", 0), 300, true),
        ("the instance runs", &hooked, state("e2", 5, Running), 6, true),
        ("the instance has ended early", &hooked, state("e2", 5, Terminated), 6, false),
        ("a rebalance recommendation", &hooked, event("e2", 5, Cause::Rebalance), 6, true),
        (
            "capacity that ends before the hook",
            &hooked,
            event("e2", 5, Cause::CapacityReservation { ends: Some(at(600)) }),
            6,
            false,
        ),
        (
            "capacity that may end after the hook, whose deadline is not known here",
            &hooked,
            event("e2", 5, Cause::CapacityReservation { ends: Some(at(9000)) }),
            6,
            false,
        ),
    ] {
        assert_eq!(is_repeat(record, &interruption, now), repeat, "{name}");
    }
}

#[test]
fn a_second_interruption_is_compared_with_the_current_limit_of_the_drain() {
    let hooked = take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap();
    let spotted = take_on(&node(), &spot("e1", 0), 1).unwrap();
    let limited = |limit: i64| AcceptOptions {
        current_limit: Some(at(limit)),
        spot_margin: seconds(10),
        ..AcceptOptions::default()
    };
    for (name, record, interruption, now, options, repeat) in [
        (
            "a hook of two hours, after 70 min",
            &hooked,
            spot("e2", 4200),
            4200,
            limited(7200),
            false,
        ),
        (
            "AWS may still contradict the hook: there is no current limit",
            &hooked,
            spot("e2", 4200),
            4200,
            AcceptOptions::default(),
            false,
        ),
        (
            "a limit in the past does not count",
            &hooked,
            spot("e2", 4200),
            4200,
            limited(3600),
            false,
        ),
        (
            "a notice whose end has passed does not count",
            &spotted,
            spot("e2", 500),
            500,
            limited(3600),
            false,
        ),
        (
            "a copy of the notice that sets the limit, under another ID",
            &spotted,
            spot("e2", 0),
            5,
            limited(110),
            true,
        ),
        ("a notice of the same end as the limit", &hooked, spot("e2", 10), 10, limited(120), true),
        ("a notice that ends within the margin", &hooked, spot("e2", 9), 10, limited(120), false),
        ("the same action again", &hooked, hook("e2", 5, "drain", "t1"), 6, limited(7200), true),
    ] {
        assert_eq!(take_on_with(record, &interruption, now, &options).is_none(), repeat, "{name}");
    }
}

#[test]
fn a_notice_that_forces_sooner_than_a_capacity_warning_joins_it_although_its_machine_goes_a_little_later()
 {
    let capacity = |ends: i64| event("e1", 0, Cause::CapacityReservation { ends: Some(at(ends)) });
    let margins = |limit: Option<i64>| AcceptOptions {
        current_limit: limit.map(at),
        margin: seconds(5),
        spot_margin: seconds(10),
        ..AcceptOptions::default()
    };
    for (name, first, second, limit, repeat) in [
        (
            "the machine ends 1 s later, and pods must be gone 4 s earlier",
            capacity(120),
            spot("e2", 1),
            None,
            false,
        ),
        (
            "the same, compared with the current limit",
            capacity(120),
            spot("e2", 1),
            Some(115),
            false,
        ),
        ("a limit in the past does not count", capacity(120), spot("e2", 1), Some(1), false),
        ("pods must be gone at the same moment", capacity(120), spot("e2", 5), None, true),
        (
            "the same, compared with the current limit",
            capacity(120),
            spot("e2", 5),
            Some(115),
            true,
        ),
        ("both are later", capacity(120), spot("e2", 9), None, true),
        ("a limit that is sooner than both", capacity(120), spot("e2", 1), Some(60), true),
        (
            "the machine ends sooner, but pods have as long as before",
            spot("e1", 0),
            event("e2", 1, Cause::CapacityReservation { ends: Some(at(119)) }),
            None,
            false,
        ),
        (
            "the same, with a limit that is sooner than both",
            spot("e1", 0),
            event("e2", 1, Cause::CapacityReservation { ends: Some(at(119)) }),
            Some(110),
            true,
        ),
        (
            "neither is sooner",
            spot("e1", 0),
            event("e2", 1, Cause::CapacityReservation { ends: Some(at(120)) }),
            None,
            true,
        ),
    ] {
        let held = take_on(&node(), &first, 1).unwrap();
        assert_eq!(take_on_with(&held, &second, 10, &margins(limit)).is_none(), repeat, "{name}");
    }
}

#[test]
fn the_margin_of_a_short_deadline_is_at_most_half_of_it_when_two_notices_are_compared() {
    let capacity = |id: &str, time: i64, ends: i64| {
        event(id, time, Cause::CapacityReservation { ends: Some(at(ends)) })
    };
    let margins =
        AcceptOptions { margin: seconds(5), spot_margin: seconds(10), ..AcceptOptions::default() };
    // Six seconds of notice: pods must be gone after three, not after one.
    let held = take_on(&node(), &capacity("e1", 0, 6), 1).unwrap();
    for (name, ends, repeat) in [
        ("pods must be gone after two seconds", 7, false),
        ("pods must be gone after three seconds", 8, true),
    ] {
        assert_eq!(
            take_on_with(&held, &capacity("e2", -60, ends), 2, &margins).is_none(),
            repeat,
            "{name}"
        );
    }
}

#[test]
fn a_stale_interruption_does_not_keep_one_that_is_not_stale_from_joining() {
    let stale = AcceptOptions { stale: true, ..AcceptOptions::default() };
    let over =
        take_on_with(&node(), &state("e1", -600, InstanceState::Stopped), 1, &stale).unwrap();
    let late = take_on_with(&node(), &hook("e1", -600, "drain", "t1"), 1, &stale).unwrap();
    assert!(!is_repeat(&over, &spot("e2", 5), 6));
    assert!(!is_repeat(&late, &hook("e2", 5, "drain", "t2"), 6), "reported again, not stale");
    assert!(
        take_on_with(&late, &hook("e2", -500, "drain", "t1"), 6, &stale).is_none(),
        "reported again, stale again"
    );
}

#[test]
fn while_cordon_and_taint_stay_only_a_new_action_replaces_a_released_record() {
    let spotted = release_node(&take_on(&node(), &spot("e1", 0), 1).unwrap(), 50);
    let hooked = release_node(&take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap(), 50);
    for (name, node, interruption, repeat) in [
        ("a notice", &spotted, spot("e2", 60), true),
        ("an ending state", &spotted, state("e2", 60, InstanceState::ShuttingDown), true),
        ("a hook", &spotted, hook("e2", 60, "drain", "t1"), false),
        ("the same hook", &hooked, hook("e2", 0, "drain", "t1"), true),
        ("the same hook, without its token", &hooked, event_without_token("e2", 60), true),
        ("an earlier action of the same hook", &hooked, hook("e2", -1, "drain", "t2"), true),
        (
            "an action that began before the release was written",
            &hooked,
            hook("e2", 40, "drain", "t2"),
            false,
        ),
        ("a later action of the same hook", &hooked, hook("e2", 60, "drain", "t2"), false),
        ("another hook", &hooked, hook("e2", 60, "logs", "t2"), false),
    ] {
        match take_on(node, &interruption, 61) {
            None => assert!(repeat, "{name}"),
            Some(after) => {
                assert!(!repeat, "{name}");
                let record = Record::read(after.record().unwrap()).unwrap();
                assert!(
                    record.released().is_none() && !record.before.unschedulable,
                    "{name}: the state before Sundown is kept"
                );
                assert_eq!(
                    kinds(&after),
                    [Some(Kind::TerminateHook)],
                    "{name}: nothing joins a released record"
                );
                assert_eq!(our_taint(&after), Some("terminate-hook"));
            }
        }
    }
}

fn event_without_token(event_id: &str, time: i64) -> Interruption {
    let mut interruption = hook(event_id, time, "drain", "t");
    if let Cause::Terminate(action) = &mut interruption.cause {
        action.token = None;
    }
    interruption
}

#[test]
fn a_released_record_whose_cordon_or_taint_was_removed_is_replaced() {
    let released = release_node(&take_on(&node(), &spot("e1", 0), 1).unwrap(), 50);
    let mut uncordoned = released.clone();
    uncordoned.unschedulable = false;
    let mut untainted = released;
    untainted.taints.retain(|t| t.key != TAINT);
    for (node, cordoned_before) in [(uncordoned, false), (untainted, true)] {
        assert!(matches!(status(&node, None), RecordStatus::Released { has_our_marks: false, .. }));
        let fresh = take_on(&node, &spot("e2", 60), 61).unwrap();
        assert_eq!(kinds(&fresh), [Some(Kind::Spot)]);
        assert_eq!(
            Record::read(fresh.record().unwrap()).unwrap().before.unschedulable,
            cordoned_before
        );
        assert!(fresh.unschedulable && fresh.has_our_taint());
    }
}

#[test]
fn the_next_interruption_of_a_node_that_a_person_keeps_cordoned_is_no_repeat() {
    let mut released = release_node(&take_on(&node(), &spot("e1", 0), 1).unwrap(), 50);
    assert!(take_on(&released, &spot("e2", 60), 61).is_none(), "its instance is about to go");
    let mut record = Record::read(released.record().unwrap()).unwrap();
    record.released.as_mut().unwrap().held = true;
    set_record(&mut released, &record.write());
    let fresh = take_on(&released, &spot("e2", 60), 61).unwrap();
    assert!(matches!(status(&fresh, None), RecordStatus::Open(_)));
    assert!(!Record::read(fresh.record().unwrap()).unwrap().before.unschedulable);
    assert!(take_on(&released, &spot("e1", 0), 61).is_none(), "the same event again");
}

#[test]
fn a_node_uncordoned_by_hand_is_not_cordoned_again_when_an_interruption_joins() {
    let mut open = take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap();
    open.unschedulable = false;
    let joined = take_on(&open, &spot("e2", 5), 6).unwrap();
    assert!(!joined.unschedulable && our_taint(&joined) == Some("spot"));
}

#[test]
fn a_damaged_record_is_replaced_by_the_next_interruption() {
    let mut damaged = node();
    set_record(&mut damaged, "{\"version\":");
    assert!(matches!(status(&damaged, None), RecordStatus::Damaged(_)));
    let fresh = take_on(&damaged, &spot("e1", 0), 1).unwrap();
    assert!(matches!(status(&fresh, None), RecordStatus::Open(_)));
}

#[test]
fn the_state_before_sundown_in_a_damaged_record_counts_only_with_our_taint() {
    let mut open = take_on(&node(), &spot("e1", 0), 1).unwrap();
    set_record(&mut open, r#"{"version":"x","before":{"unschedulable":false}}"#);
    let before = |node: &Node| {
        Record::read(take_on(node, &spot("e2", 5), 6).unwrap().record().unwrap())
            .unwrap()
            .before
            .unschedulable
    };
    assert!(!before(&open));
    open.taints.clear();
    assert!(before(&open));
}

#[test]
fn a_record_of_another_boot_is_replaced_and_our_cordon_does_not_count_as_somebody_elses() {
    let mut rebooted = take_on(&node(), &spot("e1", 0), 1).unwrap();
    rebooted.boot_id = Some("boot-2".into());
    let fresh = take_on(&rebooted, &spot("e2", 500), 501).unwrap();
    let record = Record::read(fresh.record().unwrap()).unwrap();
    assert!(!record.before.unschedulable && kinds(&fresh).len() == 1);
}

#[test]
fn an_interruption_that_joins_after_a_reboot_keeps_the_hooks_that_may_be_open() {
    let both = take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap();
    let mut both = take_on(&both, &spot("e2", 5), 6).unwrap();
    both.boot_id = Some("boot-2".into());
    let joined = take_on(&both, &spot("e3", 500), 501).unwrap();
    assert_eq!(kinds(&joined), [Some(Kind::TerminateHook), Some(Kind::Spot)]);
    assert!(matches!(status(&joined, None), RecordStatus::Open(_)));
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
fn a_hook_takes_the_place_of_an_interruption_without_one_in_a_full_record() {
    let mut node = node();
    for n in 0..i64::try_from(MAX_INTERRUPTIONS).unwrap() {
        node = take_on(&node, &spot(&format!("e{n}"), -n), 0).unwrap();
    }
    let hooked = take_on(&node, &hook("h", 0, "drain", "t"), 1).unwrap();
    assert_eq!((kinds(&hooked).len(), open_actions(&hooked).len()), (MAX_INTERRUPTIONS, 1));
}

#[test]
fn an_accept_removes_an_order_to_release_that_is_older_than_its_drain() {
    let mut ordered = node();
    ordered.annotations.insert(RELEASE.into(), "true".into());
    let fresh = take_on(&ordered, &hook("h1", 0, "drain", "t1"), 1).unwrap();
    assert!(!fresh.released_by_hand(), "the order was for another drain");
    // An order that comes while the record is open is for this drain, also if an interruption
    // joins.
    let mut open = fresh;
    open.annotations.insert(RELEASE.into(), "true".into());
    let joined = take_on(&open, &spot("e1", 2), 3).unwrap();
    assert!(joined.released_by_hand());
    // A record that replaces a released one starts a drain of its own.
    let mut released = release_node(&take_on(&node(), &spot("e2", 0), 1).unwrap(), 50);
    released.annotations.insert(RELEASE.into(), "true".into());
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

#[test]
fn a_deadline_that_passed_before_the_drain_was_resumed_does_not_keep_others_from_joining() {
    use InstanceState::Stopping;
    let options = |limit: Option<i64>| AcceptOptions {
        current_limit: limit.map(at),
        margin: seconds(20),
        ..AcceptOptions::default()
    };
    // The machine ends after 30 s. The margin is half of that, so pods must be gone after 15 s.
    for (name, accepted, second, now, limit, repeat) in [
        ("accepted in time: its deadline counts", 10, 12, 14, None, true),
        ("accepted after its pods had to be gone", 20, 19, 21, None, false),
        ("the same, compared with the current limit", 20, 19, 21, Some(300), false),
        ("a limit that is sooner than both", 20, 19, 21, Some(30), true),
        ("taken over after its pods had to be gone", 1, 10, 20, Some(300), false),
        ("about to be taken over after its pods had to be gone", 1, 10, 20, None, false),
        (
            "its pods had to be gone a moment ago, and its deadline counts",
            1,
            10,
            20,
            Some(15),
            true,
        ),
    ] {
        let held =
            take_on_with(&node(), &state("e1", 0, Stopping), accepted, &options(None)).unwrap();
        let is_repeat =
            take_on_with(&held, &state("e2", second, Stopping), now, &options(limit)).is_none();
        assert_eq!(is_repeat, repeat, "{name}");
    }
}
