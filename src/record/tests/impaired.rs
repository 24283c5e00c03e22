//! Nodes that are taken on because their instance is sick.

use super::*;

fn sick(since: i64, symptom: Symptom) -> Interruption {
    Impairment { symptom, since: at(since), group: "asg".into() }.of(id(INSTANCE))
}

/// A Node that is only marked for a recommendation.
fn recommended() -> Node {
    let options = AcceptOptions { response: Response::Prefer, ..AcceptOptions::default() };
    take_on_with(&node(), &event("r", 0, Cause::Rebalance), 1, &options).unwrap()
}

#[test]
fn the_accept_notes_the_group_and_the_time_beside_the_record() {
    let taken_on = take_on(&node(), &sick(0, Symptom::StatusCheck), 600).unwrap();
    assert_eq!(kinds(&taken_on), [Some(Kind::Impaired)]);
    assert_eq!(our_taint(&taken_on), Some("impaired"));
    let mark = ImpairedMark { instance: id(INSTANCE), group: "asg".into(), at: at(600) };
    assert_eq!(impaired_mark(&taken_on), Some(mark.clone()));
    let released = release_node(&taken_on, 700);
    let replaced = take_on(&released, &hook("e1", 800, "drain", "t1"), 801).unwrap();
    assert_eq!(kinds(&replaced), [Some(Kind::TerminateHook)]);
    assert_eq!(impaired_mark(&replaced), Some(mark), "the terminate hook keeps it");
    let other = Node { instance: Some(id(OTHER)), ..replaced };
    assert_eq!(impaired_mark(&other), None, "another instance took the name of the node");
    assert_eq!(impaired_mark(&node()), None);
    let mut damaged = node();
    for text in ["", "{}", "[]", "{\"version\":1,\"instance\":\"x\"}", &"x".repeat(5000)] {
        damaged.annotations.insert(IMPAIRED.into(), text.into());
        assert_eq!(impaired_mark(&damaged), None, "{text:.20}");
    }
}

#[test]
fn what_a_record_means_for_a_sick_instance() {
    use ImpairedStatus::{Drained, Draining, Free, Marked, OfOthers};
    let draining = take_on(&node(), &sick(0, Symptom::NotReady), 600).unwrap();
    let drained = release_node(&draining, 700);
    let put_back = Node { unschedulable: false, taints: Vec::new(), ..drained.clone() };
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
        ("put back since", put_back, Free),
        ("its terminate hook has joined", hooked, OfOthers),
        (
            "its terminate hook has replaced the record",
            take_on(&drained, &hook("e1", 800, "drain", "t1"), 801).unwrap(),
            OfOthers,
        ),
        ("a spot notice", take_on(&node(), &spot("s", 0), 1).unwrap(), OfOthers),
        (
            "a recommendation that drains",
            take_on(&node(), &event("r", 0, Cause::Rebalance), 1).unwrap(),
            OfOthers,
        ),
        ("a recommendation that marks", recommended(), Marked),
        ("the same, and sick", sick_too.clone(), Draining),
        ("the same, drained", release_node(&sick_too, 700), Drained),
    ] {
        assert_eq!(impaired_status(&node), expected, "{name}");
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
