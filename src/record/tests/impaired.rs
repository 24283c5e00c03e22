//! Nodes that are taken on because their instance is sick.

use super::*;

fn sick(since: i64, symptom: Symptom) -> Interruption {
    Impairment { symptom, since: at(since), group: "asg".into() }.of(id(INSTANCE))
}

fn booted(node: &Node) -> Node {
    Node { boot_id: Some("another-boot".into()), ..node.clone() }
}

/// A Node that is only tainted, for a recommendation.
fn recommended() -> Node {
    let options = AcceptOptions { response: Response::Prefer, ..AcceptOptions::default() };
    take_on_with(&node(), &event("r", 0, Cause::Rebalance), 1, &options).unwrap()
}

#[test]
fn the_accept_notes_the_group_and_the_time_beside_the_record() {
    let taken_on = take_on(&node(), &sick(0, Symptom::StatusCheck), 600).unwrap();
    assert_eq!(kinds(&taken_on), [Some(Kind::Impaired)]);
    assert_eq!(our_taint(&taken_on), Some("impaired"));
    let recorded = LastSickness { instance: id(INSTANCE), group: "asg".into(), at: at(600) };
    assert_eq!(last_sickness(&taken_on), Some(recorded.clone()));
    let released = release_node(&taken_on, 700);
    let replaced = take_on(&released, &hook("e1", 800, "drain", "t1"), 801).unwrap();
    assert_eq!(kinds(&replaced), [Some(Kind::TerminateHook)]);
    assert_eq!(last_sickness(&replaced), Some(recorded), "the terminate hook keeps it");
    let other = Node { instance: Some(id(OTHER)), ..replaced };
    assert_eq!(last_sickness(&other), None, "another instance took the name of the node");
    assert_eq!(last_sickness(&node()), None);
    let mut damaged = node();
    for text in ["", "{}", "[]", "{\"version\":1,\"instance\":\"x\"}", &"x".repeat(5000)] {
        damaged.annotations.insert(IMPAIRED, text);
        assert_eq!(last_sickness(&damaged), None, "{text:.20}");
    }
}

#[test]
fn what_a_record_means_for_a_sick_instance() {
    use ImpairedStatus::{
        Drained, Draining, Free, KeptCordoned, OnlyTainted, OtherInterruption, PodsLeft,
    };
    let draining = take_on(&node(), &sick(0, Symptom::NotReady), 600).unwrap();
    let drained = release_node(&draining, 700);
    let ended =
        |outcome| apply(&draining, &release(&draining, &Released::new(at(700), outcome)).unwrap());
    let mut kept = draining.clone();
    kept.annotations.insert(KEEP_CORDONED, "true");
    let after = After::Released(Released::new(at(700), "released"));
    let held = apply(&kept, &restore_node(&kept, None, &after).unwrap());
    let restored = Node { unschedulable: false, taints: Vec::new(), ..drained.clone() };
    let hooked = take_on(&draining, &hook("e1", 610, "drain", "t1"), 611).unwrap();
    let sick_too = take_on(&recommended(), &sick(0, Symptom::NotReady), 600).unwrap();
    assert_eq!(kinds(&sick_too), [Some(Kind::Rebalance), Some(Kind::Impaired)]);
    assert!(sick_too.unschedulable);
    let mut damaged = node();
    set_record(&mut damaged, "{");
    for (name, node, expected) in [
        ("no record", node(), Free),
        ("a damaged one", damaged, Free),
        ("being drained as impaired", draining.clone(), Draining),
        ("drained as impaired", drained.clone(), Drained),
        ("drained, pods left", ended("timed_out"), PodsLeft),
        ("released, pods left", ended("released"), PodsLeft),
        ("its kubelet is silent", ended("unreachable"), Drained),
        ("EC2 has ended it", ended("instance_over"), Drained),
        ("a person keeps it cordoned", held, KeptCordoned),
        ("being drained, booted since", booted(&draining), Draining),
        ("drained, booted since", booted(&drained), Drained),
        ("restored since", restored, Free),
        ("its terminate hook has joined", hooked, OtherInterruption),
        (
            "its terminate hook has replaced the record",
            take_on(&drained, &hook("e1", 800, "drain", "t1"), 801).unwrap(),
            OtherInterruption,
        ),
        ("a spot notice", take_on(&node(), &spot("s", 0), 1).unwrap(), OtherInterruption),
        (
            "a recommendation that drains",
            take_on(&node(), &event("r", 0, Cause::Rebalance), 1).unwrap(),
            OtherInterruption,
        ),
        ("a recommendation that taints", recommended(), OnlyTainted),
        ("the same, and sick", sick_too.clone(), Draining),
        ("the same, drained", release_node(&sick_too, 700), Drained),
    ] {
        assert_eq!(impaired_status(&node), expected, "{name}");
    }
}

#[test]
fn a_node_that_registers_again_keeps_the_taint_of_its_drain() {
    let taken_on = take_on(&node(), &sick(0, Symptom::StatusCheck), 600).unwrap();
    let Some(Ok(record)) = taken_on.record().map(Record::read) else { panic!("no record") };
    let fresh = Node { uid: "uid-2".into(), ..node() };
    let kept = kept_annotations(&taken_on);
    let again = apply(&fresh, &reregister(&fresh, &id(INSTANCE), &record, &kept).unwrap());
    assert_eq!(last_sickness(&again), last_sickness(&taken_on));
}

#[test]
fn what_joins_the_drain_of_a_sick_instance_after_a_boot_is_of_that_boot() {
    let sick = booted(&take_on(&node(), &sick(0, Symptom::StatusCheck), 600).unwrap());
    for (name, new) in [
        ("a spot notice", spot("s", 800)),
        ("a terminate hook", hook("e1", 800, "drain", "t1")),
        ("EC2 ends it", event("c", 800, Cause::StateChange(InstanceState::ShuttingDown))),
    ] {
        let joined = take_on(&sick, &new, 801).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(kinds(&joined), [Some(Kind::Impaired), Some(new.kind())], "{name}");
        assert!(matches!(status(&joined, None), RecordStatus::Open(_)), "{name}");
        let later = Node { boot_id: Some("a-third-boot".into()), ..joined };
        assert!(!matches!(status(&later, None), RecordStatus::Open(_)), "{name}: a later boot");
    }
}

#[test]
fn a_sick_instance_adds_nothing_to_a_drain() {
    let sick = sick(0, Symptom::NotReady);
    let spot = take_on(&node(), &spot("s", 0), 1).unwrap();
    assert!(take_on(&spot, &sick, 600).is_none(), "the node is drained already");
    let taken_on = take_on(&node(), &sick, 600).unwrap();
    assert!(take_on(&taken_on, &sick, 660).is_none(), "the next round");
}

#[test]
fn what_ends_the_machine_is_drained_for_although_the_drain_of_the_sick_instance_has_ended() {
    let cordoned = Node { unschedulable: true, ..node() };
    for node in [node(), cordoned] {
        let sick = take_on(&node, &sick(0, Symptom::NotReady), 600).unwrap();
        let drained = release_node(&sick, 700);
        for (name, new) in [
            ("a spot notice", spot("s", 800)),
            ("EC2 ends it", event("c", 800, Cause::StateChange(InstanceState::ShuttingDown))),
            ("capacity", event("k", 800, Cause::CapacityReservation { ends: Some(at(2000)) })),
        ] {
            let taken_on = take_on(&drained, &new, 801).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(kinds(&taken_on), [Some(new.kind())], "{name}: a fresh record");
            let Some(Ok(record)) = taken_on.record().map(Record::read) else { panic!("{name}") };
            assert_eq!(record.before.unschedulable, node.unschedulable, "{name}: kept");
            assert!(take_on(&taken_on, &new, 802).is_none(), "{name}: once");
        }
        let rebalance = event("r", 800, Cause::Rebalance);
        assert!(take_on(&drained, &rebalance, 801).is_none(), "a recommendation ends nothing");
        let options = AcceptOptions { response: Response::Prefer, ..AcceptOptions::default() };
        let joined = take_on_with(&drained, &spot("s", 800), 801, &options);
        assert!(joined.is_none(), "a new record would forget that the cordon is Sundown's");
        let spot_before = release_node(&take_on(&node, &spot("s", 0), 1).unwrap(), 700);
        assert!(take_on(&spot_before, &spot("t", 800), 801).is_none(), "it was drained for an end");
    }
}

#[test]
fn a_record_of_requests_alone_hides_no_sick_instance() {
    let asked = requested(&node());
    assert_eq!(impaired_status(&asked), ImpairedStatus::Free);
    assert_eq!(impaired_status(&release_node(&asked, 200)), ImpairedStatus::Free);
    let with_spot = take_on(&asked, &spot("e1", 110), 110).unwrap();
    assert_eq!(impaired_status(&with_spot), ImpairedStatus::OtherInterruption);
}
