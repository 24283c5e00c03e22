//! When the drain for a scheduled change begins.

use super::{
    planned::{
        FIRST, Message, RETIREMENT, accept_change, all_noted, noted, planned, time, waiting,
    },
    *,
};

#[test]
fn the_accept_notes_that_the_drain_has_begun_and_happens_once() {
    let node = all_noted(&[FIRST]);
    let drained = accept_change(&node, 96_400).unwrap();
    assert!(drained.unschedulable && drained.has_our_taint());
    assert_eq!(waiting(&drained), []);
    let facts = Record::read(drained.record().unwrap()).unwrap().interruptions(&id(INSTANCE));
    let [facts] = &facts[..] else { panic!("{facts:?}") };
    assert_eq!(
        (facts.kind, facts.event_id.as_str(), facts.time, facts.ends),
        (Some(Kind::ScheduledChange), "e1", at(0), Some(at(100_000)))
    );
    let again = planned(&node).waiting(time(96_400), None)[0].interruption(&id(INSTANCE));
    assert_eq!(accept(&drained, &again, at(96_401), &AcceptOptions::default()), Accept::Repeat);
    let rebooted = Node { boot_id: Some("boot-2".into()), ..drained };
    let drained_again = take_on(&rebooted, &again, 96_401).unwrap();
    let record = Record::read(drained_again.record().unwrap()).unwrap();
    assert!(!record.before.unschedulable, "the cordon of the first drain is Sundown's");
    assert!(take_on(&drained_again, &again, 96_402).is_none());
}

#[test]
fn a_change_that_was_moved_or_canceled_since_is_not_accepted() {
    let node = all_noted(&[FIRST]);
    let ordered = planned(&node).waiting(time(96_400), None)[0].interruption(&id(INSTANCE));
    let moved = Message { event: "e2", sent: 10, starts: Some(200_000), ..FIRST };
    for second in [FIRST.closed("e2", 10), moved] {
        let (node, _) = noted(&node, second).unwrap();
        assert_eq!(accept(&node, &ordered, at(96_400), &AcceptOptions::default()), Accept::Repeat);
    }
    let plain = super::node();
    assert_eq!(accept(&plain, &ordered, at(0), &AcceptOptions::default()), Accept::Repeat);
}

#[test]
fn a_change_joins_an_open_record_whatever_its_deadline_is() {
    let node = all_noted(&[FIRST]);
    let draining = take_on(&node, &hook("h", 90_000, "drain", "t"), 90_000).unwrap();
    let joined = accept_change(&draining, 96_400).unwrap();
    let record = Record::read(joined.record().unwrap()).unwrap();
    assert_eq!(record.interruptions(&id(INSTANCE)).len(), 2);
}

#[test]
fn the_deadline_is_the_start_also_of_degraded_hardware_that_is_drained_long_before() {
    let starts = |code, starts, now| {
        let node = all_noted(&[Message { starts, code, ..FIRST }]);
        let interruption = planned(&node).waiting(time(now), None)[0].interruption(&id(INSTANCE));
        InterruptionFacts::new(&interruption, &id(INSTANCE), None, at(now), false).machine_ends_at()
    };
    let degraded = "AWS_EC2_INSTANCE_DEGRADED";
    assert_eq!(starts(RETIREMENT, Some(100_000), 96_400), Some(at(100_000)));
    assert_eq!(starts(RETIREMENT, None, 0), None);
    assert_eq!(starts(degraded, Some(100_000), 0), Some(at(100_000)));
    assert_eq!(starts(degraded, Some(3_000), 0), Some(at(3_000)));
}

#[test]
fn degraded_hardware_is_left_by_a_start_on_other_hardware_and_not_by_a_reboot() {
    let degraded = Message { code: "AWS_EC2_INSTANCE_DEGRADED", sent: 50, ..FIRST };
    let drained = accept_change(&all_noted(&[degraded]), 60).unwrap();
    let booted = Node { boot_id: Some("boot-2".into()), ..drained };
    let restore = |after: &After| apply(&booted, &restore_node(&booted, None, after).unwrap());
    let again = vec![("e1".to_owned(), 0)];
    for (why, launched, waits) in [
        ("EC2 started it after the announcement", Some(at(500)), vec![]),
        ("it only rebooted", Some(at(-86_400)), again.clone()),
        ("EC2 does not report when", None, again),
    ] {
        let node = restore(&After::Booted { launched });
        assert!(!node.unschedulable && node.record().is_none(), "{why}");
        assert_eq!(waiting(&node), waits, "{why}");
    }
    let retired = Node {
        boot_id: Some("boot-2".into()),
        ..accept_change(&all_noted(&[FIRST]), 96_400).unwrap()
    };
    let after = After::Booted { launched: Some(at(99_000)) };
    let node = apply(&retired, &restore_node(&retired, None, &after).unwrap());
    assert_eq!(waiting(&node).len(), 1, "EC2 itself shows when a retirement is over");
}

#[test]
fn a_drain_that_was_ended_by_a_person_is_not_begun_again() {
    let drained = accept_change(&all_noted(&[FIRST]), 96_400).unwrap();
    let after = After::Released(Released::new(at(96_500), "released"));
    let restored = apply(&drained, &restore_node(&drained, None, &after).unwrap());
    assert!(!restored.unschedulable && may_begin(&restored));
    assert_eq!(waiting(&restored), []);
}

#[test]
fn a_change_begins_on_no_node_whose_instance_is_about_to_end() {
    let node = all_noted(&[FIRST]);
    assert!(may_begin(&node));
    let drained = take_on(&node, &spot("s", 0), 0).unwrap();
    assert!(may_begin(&drained), "it joins");
    let over = apply(&drained, &release(&drained, &Released::new(at(5), "empty")).unwrap());
    assert!(!may_begin(&over));
    assert_eq!(accept_change(&over, 96_400), None);
}

#[test]
fn a_change_begins_on_a_drained_node_if_its_accept_replaces_the_record() {
    let sick = Impairment { symptom: Symptom::NotReady, since: at(0), group: "asg".into() };
    let pool = to_pool();
    let sick = sick.of(id(INSTANCE));
    for (name, event, now, begins) in [
        ("was sick, and the start is an hour away", &sick, 96_400, true),
        ("was sick, and the start is further away", &sick, 96_399, false),
        ("went into its warm pool", &pool, 96_400, true),
    ] {
        let over = release_node(&take_on(&all_noted(&[FIRST]), event, 1).unwrap(), 5);
        assert_eq!(may_begin_at(&over, now), begins, "{name}");
        let change = planned(&over).next().unwrap().interruption(&id(INSTANCE));
        let taken_on = take_on(&over, &change, now);
        assert_eq!(taken_on.is_some(), begins, "{name}");
        if let Some(taken_on) = taken_on {
            assert_eq!(kinds(&taken_on), [Some(Kind::ScheduledChange)], "{name}");
        }
    }
}

fn may_begin_at(node: &Node, now: i64) -> bool {
    let planned = Planned::of(node, &id(INSTANCE)).unwrap();
    let change = planned.next().unwrap().interruption(&id(INSTANCE));
    may_begin_change(node, &change, Response::Drain, at(now))
}

fn may_begin(node: &Node) -> bool {
    may_begin_at(node, 96_400)
}

#[test]
fn a_sick_node_whose_scheduled_change_is_canceled_is_there_only_for_its_sickness() {
    let sick = Impairment { symptom: Symptom::NotReady, since: at(0), group: "asg".into() };
    let node = take_on(&all_noted(&[FIRST]), &sick.of(id(INSTANCE)), 96_300).unwrap();
    let both = accept_change(&node, 96_400).unwrap();
    assert_eq!(kinds(&both), [Some(Kind::Impaired), Some(Kind::ScheduledChange)]);
    assert_eq!(impaired_status(&both), ImpairedStatus::OtherInterruption);
    let canceled = noted(&both, FIRST.closed("e2", 96_500)).unwrap().0;
    assert_eq!(impaired_status(&canceled), ImpairedStatus::Draining);
    assert_eq!(impaired_status(&release_node(&canceled, 96_600)), ImpairedStatus::Drained);
}

#[test]
fn a_change_whose_start_is_past_drains_no_node_any_more() {
    let node = all_noted(&[FIRST]);
    let waits = |now| !planned(&node).waiting(time(now), node.boot_id.as_deref()).is_empty();
    assert!(waits(99_999));
    assert!(!waits(100_000), "a reboot is over, a retired instance is gone");
    let degraded = all_noted(&[Message { code: "AWS_EC2_INSTANCE_DEGRADED", ..FIRST }]);
    assert!(!planned(&degraded).waiting(time(100_001), None).is_empty());
}

#[test]
fn after_a_boot_before_the_start_the_node_is_drained_again_unless_the_change_is_a_reboot() {
    for (code, again) in [(RETIREMENT, true), ("AWS_EC2_INSTANCE_REBOOT_MAINTENANCE", false)] {
        let node = all_noted(&[Message { code, ..FIRST }]);
        let mut node = accept_change(&node, 96_400).unwrap();
        let waits =
            |node: &Node| !planned(node).waiting(time(97_000), node.boot_id.as_deref()).is_empty();
        assert!(!waits(&node), "it was accepted");
        node.boot_id = Some("another".to_owned());
        assert_eq!(waits(&node), again, "{code}");
    }
}

#[test]
fn a_node_that_waits_for_its_return_is_drained_again_unless_it_may_have_left_the_hardware() {
    const DEGRADED: &str = "AWS_EC2_INSTANCE_DEGRADED";
    for (code, is_held, begins) in [
        (RETIREMENT, false, true),
        (DEGRADED, false, false),
        // A person holds the restore, so nothing would show that it left.
        (DEGRADED, true, true),
    ] {
        let node = accept_change(&all_noted(&[Message { code, ..FIRST }]), 96_400).unwrap();
        let mut booted = release_node(&node, 96_500);
        booted.boot_id = Some("another".to_owned());
        if is_held {
            booted.annotations.insert(KEEP_CORDONED, "true");
        }
        assert!(matches!(status(&booted, None), RecordStatus::Void { .. }));
        assert_eq!(may_begin_at(&booted, 97_000), begins, "{code} {is_held}");
    }
}

#[test]
fn a_node_that_was_restored_after_a_boot_is_drained_for_the_same_event() {
    let node = accept_change(&all_noted(&[FIRST]), 96_400).unwrap();
    let mut released = release_node(&node, 96_500);
    released.taints.clear();
    released.unschedulable = false;
    released.boot_id = Some("another".to_owned());
    let again = accept_change(&released, 97_000).unwrap();
    assert!(matches!(status(&again, None), RecordStatus::Open(_)));
    assert!(accept_change(&again, 97_001).is_none(), "once");
}
