//! Which interruptions join an open record.

use super::{
    accept::{event_without_token, is_repeat},
    *,
};

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
        (
            "another action of the hook, of an earlier time: that in the record may be made up",
            &hooked,
            hook("e2", -20, "drain", "t9"),
            6,
            false,
        ),
        ("a copy of the same action", &hooked, hook("e2", -20, "drain", "t1"), 6, true),
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
fn an_end_that_left_no_time_at_its_accept_does_not_keep_a_later_one_from_joining() {
    let capacity =
        |id: &str, ends: i64| event(id, 0, Cause::CapacityReservation { ends: Some(at(ends)) });
    for (ends, repeat) in [(5, false), (6, true)] {
        let held = take_on(&node(), &capacity("e1", ends), 1).unwrap();
        assert_eq!(is_repeat(&held, &capacity("e2", 120), 2), repeat, "{ends}");
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
fn a_node_uncordoned_by_hand_is_not_cordoned_again_when_an_interruption_joins() {
    let mut open = take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap();
    open.unschedulable = false;
    let joined = take_on(&open, &spot("e2", 5), 6).unwrap();
    assert!(!joined.unschedulable && our_taint(&joined) == Some("spot"));
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
fn a_hook_takes_the_place_of_an_interruption_without_one_in_a_full_record() {
    let mut node = node();
    for n in 0..i64::try_from(MAX_INTERRUPTIONS).unwrap() {
        node = take_on(&node, &spot(&format!("e{n}"), -n), 0).unwrap();
    }
    let hooked = take_on(&node, &hook("h", 0, "drain", "t"), 1).unwrap();
    assert_eq!((kinds(&hooked).len(), open_actions(&hooked).len()), (MAX_INTERRUPTIONS, 1));
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
