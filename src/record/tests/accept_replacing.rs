//! When an interruption replaces a record.

use super::{accept::event_without_token, *};

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
        (
            "another action of the hook, of an earlier time: that in the record may be made up",
            &hooked,
            hook("e2", -11, "drain", "t2"),
            false,
        ),
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

#[test]
fn an_action_that_is_dated_before_the_one_of_the_last_drain_needs_a_proof() {
    let open = take_on(&node(), &hook("e1", 5, "drain", "t2"), 6).unwrap();
    let released = release_node(&open, 50);
    let mut untainted = released.clone();
    untainted.taints.retain(|t| t.key != TAINT);
    let without_time = Interruption { time: None, ..hook("e2", 0, "drain", "t1") };
    for (name, node, interruption, needs_proof) in [
        ("an earlier action", &released, hook("e2", 0, "drain", "t1"), true),
        ("a later one", &released, hook("e2", 6, "drain", "t1"), false),
        ("the same action", &released, hook("e2", 0, "drain", "t2"), false),
        ("one without a token", &released, event_without_token("e2", 0), false),
        ("an event without a time", &released, without_time, false),
        ("an action of another hook", &released, hook("e2", 0, "other", "t1"), false),
        ("an earlier notice", &released, spot("e2", 0), false),
        ("it joins an open record", &open, hook("e2", 0, "drain", "t1"), false),
        ("the Node was put back", &untainted, hook("e2", 0, "drain", "t1"), false),
    ] {
        assert_eq!(is_before_last_drain(node, &interruption), needs_proof, "{name}");
    }
}

#[test]
fn an_action_of_an_instance_that_has_ended_is_accepted_with_the_end() {
    use InstanceState::{Stopped, Stopping, Terminated};
    let after_at = |then, end, (ready, since)| {
        let over = release_node(&take_on(&node(), &state("e1", 210, end), 211).unwrap(), 231);
        let reports = Node { ready, ready_since: Some(at(since)), ..over };
        take_on(&reports, &hook("e2", then, "drain", "t1"), then + 1).unwrap()
    };
    let after = |end, ready| after_at(300, end, ready);
    let end = Some(Kind::StateChange);
    let (silent, hook) = ((Ready::Unknown, 250), Some(Kind::TerminateHook));
    assert_eq!(kinds(&after(Terminated, silent)), [end, hook]);
    assert_eq!(kinds(&after(Terminated, (Ready::True, 280))), [end, hook]);
    assert_eq!(kinds(&after(Stopped, silent)), [end, hook]);
    assert_eq!(kinds(&after(Stopped, (Ready::True, 0))), [end, hook], "it is not silent for long");
    let later = after_at(400, Stopped, (Ready::True, 0));
    assert_eq!(kinds(&later), [hook], "Kubernetes would show by then that it is silent");
    for ready in [Ready::True, Ready::False] {
        assert_eq!(kinds(&after(Stopped, (ready, 280))), [hook], "it has resumed: {ready:?}");
    }
    assert_eq!(kinds(&after(Stopping, silent)), [hook], "it may still run");
}

#[test]
fn a_released_record_whose_cordon_or_taint_was_removed_is_replaced() {
    let released = release_node(&take_on(&node(), &spot("e1", 0), 1).unwrap(), 50);
    let mut uncordoned = released.clone();
    uncordoned.unschedulable = false;
    let mut untainted = released;
    untainted.taints.retain(|t| t.key != TAINT);
    for (node, cordoned_before) in [(uncordoned, false), (untainted, true)] {
        assert!(matches!(
            status(&node, None),
            RecordStatus::Released { has_our_changes: false, .. }
        ));
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
