//! Drains that gates hold, and drains that a person forces.

use super::*;
use crate::domain::Verification;

fn held(until: u64) -> Limits {
    Limits { held_until: Some(at(until)), ..limits(3600) }
}

fn ordered(limits: Limits, since: u64) -> Limits {
    Limits { forced_at: Some(at(since)), ..limits }
}

/// A drain whose only pod was refused by its budget.
fn refused(limits: Limits) -> Drain {
    let mut d = drain(limits);
    d.step(at(0), Input::Listed(vec![pod("a")]));
    let order = d.order(&uid("a"), at(1), true).unwrap();
    d.step(at(1), Input::Answer { order, answer: refused_by_budget() });
    d
}

#[test]
fn no_pod_goes_while_a_gate_holds_and_all_do_at_once_after_that() {
    let mut d = drain(held(1800));
    assert!(requests(&d.step(at(0), Input::Listed(vec![pod("a"), pod("b")]))).is_empty());
    assert!(requests(&d.step(at(900), Input::Changed(pod("c")))).is_empty());
    let slow = Pod { deletion: Some(at(9000)), grace: seconds(9000), ..pod("slow") };
    assert!(requests(&d.step(at(901), Input::Changed(slow))).is_empty(), "nor is one shortened");
    assert!(d.order(&uid("a"), at(902), true).is_none());
    let effects = d.step(at(1000), Input::Limits(limits(3600)));
    let expected = ["a", "b", "c"].map(|name| (name.to_owned(), false));
    assert_eq!(requests(&effects)[..3], expected);
}

#[test]
fn the_drain_of_an_empty_node_ends_although_a_gate_holds_and_so_does_one_at_its_deadline() {
    let mut empty = drain(held(1800));
    empty.step(at(0), Input::Listed(Vec::new()));
    assert_eq!(ended(&empty.step(at(5), Input::Tick)), Some(&Outcome::Empty));
    let mut full = drain(held(1800));
    full.step(at(0), Input::Listed(vec![pod("a")]));
    assert!(matches!(
        ended(&full.step(at(3600), Input::Tick)),
        Some(Outcome::DeadlineReached { .. })
    ));
}

#[test]
fn an_order_to_force_deletes_what_was_refused_at_once_and_with_its_own_grace_period() {
    let mut d = refused(limits(3600));
    assert!(matches!(d.order(&uid("a"), at(99), true), Some(Order::Evict { .. })));
    let effects = d.step(at(100), Input::Limits(ordered(limits(3600), 100)));
    assert_eq!(requests(&effects), [("a".to_owned(), true)]);
    assert_eq!(d.order(&uid("a"), at(100), false), Some(delete("a", 30)));
    let effects =
        d.step(at(101), Input::Answer { order: delete("a", 30), answer: answer(200, "", "") });
    assert!(matches!(
        notes(&effects)[..],
        [Note::Forced { grace: 30, reason: BlockReason::Pdb, .. }]
    ));
}

#[test]
fn an_order_to_force_evicts_each_pod_first() {
    let mut d = drain(ordered(limits(3600), 0));
    let effects = d.step(at(0), Input::Listed(vec![pod("a")]));
    assert_eq!(requests(&effects), [("a".to_owned(), false)]);
    assert!(matches!(d.order(&uid("a"), at(0), true), Some(Order::Evict { .. })));
    let order = d.order(&uid("a"), at(0), true).unwrap();
    let effects = d.step(at(1), Input::Answer { order, answer: refused_by_budget() });
    assert_eq!(requests(&effects), [("a".to_owned(), true)], "then it is deleted at once");
}

#[test]
fn a_pod_that_finds_no_slot_is_deleted_two_seconds_after_the_order() {
    let mut d = drain(limits(3600));
    d.step(at(0), Input::Listed(vec![pod("a")]));
    d.step(at(100), Input::Limits(ordered(limits(3600), 100)));
    assert_eq!(d.next_wake(), Some(at(102)));
    d.step(at(102), Input::Tick);
    assert_eq!(d.order(&uid("a"), at(102), false), Some(delete("a", 30)));
}

#[test]
fn an_order_to_force_counts_without_a_deadline_and_whatever_force_after_is() {
    let never = DrainSettings { force_after: Some(ForceAfter::Never), ..DrainSettings::NONE };
    let capped = DrainSettings { max_grace_period: Some(seconds(20)), ..DrainSettings::NONE };
    for (row, limits, grace) in [
        ("no deadline", Limits::without_deadline(at(0), false), 30),
        ("never", Limits { settings: never, ..limits(3600) }, 30),
        (
            "no deadline, a longest grace period",
            Limits { settings: capped, ..Limits::without_deadline(at(0), false) },
            20,
        ),
        ("a deadline that is near", limits(110), 10),
    ] {
        let mut d = refused(limits);
        let effects = d.step(at(100), Input::Limits(ordered(limits, 100)));
        assert_eq!(requests(&effects), [("a".to_owned(), true)], "{row}");
        assert_eq!(d.order(&uid("a"), at(100), false), Some(delete("a", grace)), "{row}");
        assert_eq!(d.forced_from(&pod("a")).map(|from| from <= at(100)), Some(true), "{row}");
    }
}

#[test]
fn an_order_to_force_waits_for_a_pause_and_until_it_is_known_that_the_node_is_not_put_back() {
    let forced = ordered(limits(3600), 100);
    let mut paused = refused(limits(3600));
    paused.step(at(50), Input::Paused);
    assert!(requests(&paused.step(at(100), Input::Limits(forced))).is_empty());
    let effects = paused.step(at(200), Input::Resumed(forced));
    assert_eq!(requests(&effects), [("a".to_owned(), true)]);
    for (verification, is_forced) in [
        (Verification::Verified, true),
        (Verification::Unanswered, true),
        (Verification::AwaitingInstanceState, false),
        (Verification::AwaitingHeartbeat, false),
        (Verification::Suspected, false),
    ] {
        let mut d = refused(limits(3600));
        let effects = d.step(at(100), Input::Limits(Limits { verification, ..forced }));
        let deletes = requests(&effects).into_iter().any(|(_, is_delete)| is_delete);
        assert_eq!(deletes, is_forced, "{verification:?}");
    }
}

#[test]
fn an_order_that_is_taken_back_forces_no_more() {
    let mut d = refused(limits(3600));
    d.step(at(100), Input::Limits(ordered(limits(3600), 100)));
    d.step(at(101), Input::Limits(limits(3600)));
    assert!(matches!(d.order(&uid("a"), at(101), true), Some(Order::Evict { .. })));
}
