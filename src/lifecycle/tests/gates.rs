//! Until when gates hold a drain and its release.

use super::{deadlines::taken, *};

fn gated(keys: &[&str]) -> Node {
    let mut gates = NodeGates::default();
    for key in keys {
        gates.add(key, "for a backup");
    }
    Node { gates: Some(Box::new(gates)), ..Node::for_test("a") }
}

fn forced(node: Node) -> Node {
    let mut node = node;
    node.annotations.insert(FORCE, "true");
    node
}

fn ending(end: Option<i64>) -> Limits {
    let end = end.map(at);
    Limits { force_at: end, end_at: end, ..Limits::without_deadline(at(0), false) }
}

const DRAIN: &str = "pre-drain.sundown.dev/backup";
const RELEASE_GATE: &str = "pre-release.sundown.dev/backup";

/// The name of the row, the Node, the deadline, the interruptions, the time, and what gates do.
type Row = (&'static str, Node, Option<i64>, Vec<InterruptionFacts>, i64, GateHold);

#[test]
fn gates_hold_evictions_for_half_of_the_time_and_not_under_a_short_deadline() {
    use GateHold::{Ignored, None, Until};
    use IgnoredGate::{Forced, HalfPassed, ShortDeadline};
    let hook = |event: i64, accepted: i64| taken(Kind::TerminateHook, event, accepted);
    let both = |two: InterruptionFacts| vec![hook(0, 0), two];
    let rows: [Row; 20] = [
        ("no gate", gated(&[]), Some(3600), vec![hook(0, 0)], 0, None),
        ("a gate of the release", gated(&[RELEASE_GATE]), Some(3600), vec![hook(0, 0)], 0, None),
        ("one", gated(&[DRAIN]), Some(3600), vec![hook(0, 0)], 0, Until(at(1800))),
        ("a moment before", gated(&[DRAIN]), Some(3600), vec![hook(0, 0)], 1799, Until(at(1800))),
        ("half of it", gated(&[DRAIN]), Some(3600), vec![hook(0, 0)], 1800, Ignored(HalfPassed)),
        ("read late", gated(&[DRAIN]), Some(3600), vec![hook(0, 600)], 600, Until(at(2100))),
        ("forced", forced(gated(&[DRAIN])), Some(3600), vec![hook(0, 0)], 0, Ignored(Forced)),
        ("five minutes", gated(&[DRAIN]), Some(300), vec![hook(0, 0)], 0, Ignored(ShortDeadline)),
        ("a little more", gated(&[DRAIN]), Some(302), vec![hook(0, 0)], 0, Until(at(151))),
        ("four left of seven", gated(&[DRAIN]), Some(420), vec![hook(0, 180)], 180, Until(at(300))),
        ("no deadline", gated(&[DRAIN]), Option::None, vec![hook(0, 0)], 0, Until(at(1800))),
        (
            "no deadline for long",
            gated(&[DRAIN]),
            Option::None,
            vec![hook(0, 0)],
            1800,
            Ignored(HalfPassed),
        ),
        (
            "spot",
            gated(&[DRAIN]),
            Some(118),
            vec![taken(Kind::Spot, 0, 1)],
            1,
            Ignored(ShortDeadline),
        ),
        (
            "a spot notice joins before half of it",
            gated(&[DRAIN]),
            Some(318),
            both(taken(Kind::Spot, 200, 201)),
            201,
            Ignored(ShortDeadline),
        ),
        (
            "an instance that has stopped",
            gated(&[DRAIN]),
            Some(3600),
            both(InterruptionFacts {
                state: Some(InstanceState::Stopped),
                ..taken(Kind::StateChange, 5, 5)
            }),
            5,
            Ignored(ShortDeadline),
        ),
        (
            "a capacity reservation with ten minutes",
            gated(&[DRAIN]),
            Some(598),
            vec![InterruptionFacts {
                ends: Some(at(600)),
                ..taken(Kind::CapacityReservation, 0, 0)
            }],
            0,
            Until(at(299)),
        ),
        (
            "a scheduled change that was announced days before",
            gated(&[DRAIN]),
            Some(3600),
            vec![InterruptionFacts {
                ends: Some(at(3602)),
                ..taken(Kind::ScheduledChange, -200_000, 0)
            }],
            0,
            Until(at(1800)),
        ),
        (
            "the same with a lead of four minutes",
            gated(&[DRAIN]),
            Some(238),
            vec![InterruptionFacts {
                ends: Some(at(240)),
                ..taken(Kind::ScheduledChange, -200_000, 0)
            }],
            0,
            Ignored(ShortDeadline),
        ),
        (
            "a recommendation tainted the Node long before",
            gated(&[DRAIN]),
            Some(6600),
            vec![
                InterruptionFacts { response: Response::Prefer, ..taken(Kind::Rebalance, 0, 0) },
                hook(3000, 3000),
            ],
            3000,
            Until(at(4800)),
        ),
        ("no interruption is known", gated(&[DRAIN]), Some(3600), vec![], 0, Until(at(1800))),
    ];
    for (row, node, end, interruptions, now, expected) in rows {
        let found = pre_drain_hold(&node, &ending(end), &interruptions, at(now));
        assert_eq!(found, expected, "{row}");
    }
}

#[test]
fn gates_hold_no_node_whose_pods_stay() {
    let limits = Limits { response: Response::Cordon, ..ending(Some(3600)) };
    let hold = pre_drain_hold(&gated(&[DRAIN]), &limits, &[], at(0));
    assert_eq!(hold, GateHold::None);
}

#[test]
fn gates_hold_the_release_until_the_deadline() {
    use GateHold::{Ignored, None, Until};
    use IgnoredGate::{DeadlineReached, Forced};
    for (row, node, end, now, expected) in [
        ("no gate", gated(&[]), Some(3600), 100, None),
        ("a gate of the drain", gated(&[DRAIN]), Some(3600), 100, None),
        ("one", gated(&[RELEASE_GATE]), Some(3600), 100, Until(at(3600))),
        ("a short deadline", gated(&[RELEASE_GATE]), Some(250), 100, Until(at(250))),
        ("at the deadline", gated(&[RELEASE_GATE]), Some(3600), 3600, Ignored(DeadlineReached)),
        ("forced", forced(gated(&[RELEASE_GATE])), Some(3600), 100, Ignored(Forced)),
        ("no deadline", gated(&[RELEASE_GATE]), Option::None, 100, Until(at(1900))),
        (
            "no deadline for long",
            gated(&[RELEASE_GATE]),
            Option::None,
            1900,
            Ignored(DeadlineReached),
        ),
    ] {
        assert_eq!(pre_release_hold(&node, &ending(end), at(100), at(now)), expected, "{row}");
    }
}

#[test]
fn a_drain_can_wait_for_others_as_long_as_for_gates_but_not_in_its_last_five_minutes() {
    let of = |kind: Kind| vec![taken(kind, 0, 0)];
    for (row, end, interruptions, expected) in [
        ("a hook", Some(3600), of(Kind::TerminateHook), Some(1800)),
        ("a new root volume", Some(3600), of(Kind::RootVolume), Some(1800)),
        ("a sick instance", Some(3600), of(Kind::Impaired), Some(1800)),
        ("a recommendation without a deadline", None, of(Kind::Rebalance), Some(1800)),
        ("eight minutes", Some(480), of(Kind::TerminateHook), Some(180)),
        ("five minutes", Some(300), of(Kind::TerminateHook), None),
        ("spot", Some(118), of(Kind::Spot), None),
        ("a reservation with an hour", Some(3600), of(Kind::CapacityReservation), None),
        (
            "a kind of a newer version",
            Some(3600),
            vec![InterruptionFacts { kind: None, ..taken(Kind::TerminateHook, 0, 0) }],
            None,
        ),
        (
            "a spot notice beside a hook",
            Some(3600),
            vec![taken(Kind::TerminateHook, 0, 0), taken(Kind::Spot, 100, 100)],
            None,
        ),
    ] {
        let found = can_wait_until(&ending(end), &interruptions);
        assert_eq!(found, expected.map(at), "{row}");
    }
    let urgent = Limits { urgent: true, ..ending(Some(3600)) };
    assert_eq!(can_wait_until(&urgent, &of(Kind::TerminateHook)), None);
    let stays = Limits { response: Response::Cordon, ..ending(Some(3600)) };
    assert_eq!(can_wait_until(&stays, &of(Kind::TerminateHook)), None);
}

/// The limits of a drain without a deadline that ends at `end`, whatever is left.
fn ending_without_deadline(end: i64) -> Limits {
    Limits { end_at: Some(at(end)), ..Limits::without_deadline(at(0), false) }
}

#[test]
fn without_a_deadline_pods_are_evicted_before_the_drain_ends() {
    for (row, kind, end, gate, pace) in [
        ("a sick instance", Kind::Impaired, 600, 300, 300),
        ("a change without a start", Kind::ScheduledChange, 600, 300, 300),
        ("a little longer", Kind::Impaired, 900, 450, 450),
        ("eight minutes", Kind::Impaired, 480, 240, 180),
        ("four minutes", Kind::Impaired, 240, 120, -60),
        ("an hour", Kind::Impaired, 3600, 1800, 1800),
        ("a day, or after several changes of leader", Kind::Impaired, 86_400, 1800, 1800),
    ] {
        let (limits, facts) = (ending_without_deadline(end), [taken(kind, 0, 0)]);
        let hold = pre_drain_hold(&gated(&[DRAIN]), &limits, &facts, at(0));
        assert_eq!(hold, GateHold::Until(at(gate)), "{row}");
        assert_eq!(can_wait_until(&limits, &facts), Some(at(pace)), "{row}");
    }
}
