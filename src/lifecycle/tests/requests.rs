//! Deadlines, gates and waits of drains that people ask for.

use std::collections::BTreeMap;

use super::{deadlines::taken, *};

/// A request that was accepted then. `deadline`: when its drain ends.
fn request(accepted: i64, deadline: Option<i64>) -> InterruptionFacts {
    InterruptionFacts {
        ends: deadline.map(at),
        event_id: "request:upgrade:0".into(),
        ..taken(Kind::Request, accepted, accepted)
    }
}

fn of(all: &[InterruptionFacts], resumed_at: i64, may_force: bool) -> Limits {
    let settings = LimitSettings { requests_may_force: may_force, ..LimitSettings::default() };
    limits(all, &BTreeMap::new(), at(resumed_at), &settings)
}

#[test]
fn a_request_ends_its_drain_at_its_deadline_and_forces_nothing_unless_it_may() {
    for (row, all, resumed_at, expected, forced) in [
        ("no deadline: no end, however long", vec![request(0, None)], 0, None, None),
        ("its deadline", vec![request(0, Some(600))], 0, Some(600), Some(595)),
        (
            "the earlier one",
            vec![request(0, Some(900)), request(9, Some(600))],
            0,
            Some(600),
            Some(595),
        ),
        ("one without", vec![request(0, None), request(9, Some(600))], 0, Some(600), Some(595)),
        ("it passed while nobody led", vec![request(0, Some(600))], 700, Some(600), None),
        (
            "another one came after it",
            vec![request(0, Some(600)), request(700, Some(900))],
            700,
            Some(900),
            Some(895),
        ),
        ("another one without", vec![request(0, Some(600)), request(700, None)], 700, None, None),
    ] {
        let limits = of(&all, resumed_at, false);
        assert_eq!((limits.end_at, limits.force_at), (expected.map(at), None), "{row}");
        let is_request = limits.end_source == LimitSource::Request;
        assert_eq!(is_request, expected.is_some(), "{row}");
        assert!(!limits.urgent, "{row}");
        let limits = of(&all, resumed_at, true);
        assert_eq!(limits.force_at, forced.map(at), "{row}, forced");
        assert_eq!(limits.end_at.is_some(), expected.is_some(), "{row}, forced");
    }
}

#[test]
fn no_drain_timeout_ends_a_drain_that_only_people_ask_for() {
    let timeout = Some(Duration::from_mins(5));
    let node = DrainSettings { drain_timeout: timeout, ..DrainSettings::NONE };
    let settings = LimitSettings { drain_timeout: timeout, node, ..LimitSettings::default() };
    let limits = limits(&[request(0, None)], &BTreeMap::new(), at(0), &settings);
    assert_eq!((limits.end_at, limits.force_at), (None, None));
}

#[test]
fn a_node_that_is_only_to_be_cordoned_waits_for_no_pod() {
    let cordon = InterruptionFacts { response: Response::Cordon, ..request(0, None) };
    let limits = of(std::slice::from_ref(&cordon), 0, false);
    assert_eq!(limits.response, Response::Cordon);
    assert!(limits.end_at.is_some(), "its drain ends by itself");
    let both = of(&[cordon, request(0, None)], 0, false);
    assert_eq!((both.response, both.end_at), (Response::Drain, None));
}

#[test]
fn a_recommendation_beside_a_request_limits_nothing() {
    let both = [taken(Kind::Rebalance, 0, 0), request(10, None)];
    let limits = of(&both, 0, false);
    assert_eq!((limits.end_at, limits.expires_at), (None, None));
}

#[test]
fn gates_hold_a_request_for_half_of_its_time_or_half_an_hour() {
    let mut gates = NodeGates::default();
    gates.add("pre-drain.sundown.dev/backup", "");
    let node = Node { gates: Some(Box::new(gates)), ..Node::for_test("a") };
    for (row, deadline, may_force, expected) in [
        ("an hour", Some(3600), false, Some(1800)),
        ("two minutes, which force nothing", Some(120), false, Some(60)),
        ("two minutes", Some(120), true, None),
        ("no deadline", None, false, Some(1800)),
    ] {
        let all = [request(0, deadline)];
        let hold = pre_drain_hold(&node, &of(&all, 0, may_force), &all, at(0));
        assert_eq!(hold.until(), expected.map(at), "{row}");
    }
    // A request that was accepted long before takes no time from the gates of a hook.
    let hook = taken(Kind::TerminateHook, 9000, 9000);
    let limits = Limits {
        force_at: Some(at(12_600)),
        end_at: Some(at(12_600)),
        ..Limits::without_deadline(at(9000), false)
    };
    let hold = pre_drain_hold(&node, &limits, &[request(0, None), hook], at(9000));
    assert_eq!(hold.until(), Some(at(10_800)));
}

#[test]
fn a_request_waits_for_other_drains_until_its_deadline_or_for_a_day() {
    for (row, all, may_force, expected) in [
        ("no deadline", vec![request(0, None)], false, Some(86_400)),
        ("an hour", vec![request(0, Some(3600))], false, Some(3600)),
        ("two minutes press nobody", vec![request(0, Some(120))], false, Some(120)),
        ("it may force", vec![request(0, Some(3600))], true, Some(1799)),
        ("it may force soon", vec![request(0, Some(120))], true, None),
        ("spot beside it", vec![request(0, None), taken(Kind::Spot, 5, 5)], false, None),
    ] {
        let found = can_wait_until(&of(&all, 0, may_force), &all);
        assert_eq!(found.map(Moment::as_second), expected.map(|n| at(n).as_second()), "{row}");
    }
}
