//! Grace periods, and when a pod is deleted instead of evicted.

use super::{
    super::force::{delete_from, evict_until, grace_to_send, grace_towards},
    *,
};

#[test]
fn a_grace_period_is_its_own_or_the_time_left_and_never_zero() {
    for (own, left_ms, grace) in [
        (30, 120_000, 30),
        (600, 110_000, 110),
        (600, 109_996, 110),
        (30, 29_990, 30),
        (30, 29_400, 29),
        (30, 900, 1),
        (30, 1, 1),
        (30, 0, 1),
        (0, 120_000, 1),
        (1, 120_000, 1),
    ] {
        assert_eq!(
            grace_towards(at_ms(left_ms), seconds(own), at(0)),
            grace,
            "{own} s, {left_ms} ms left"
        );
    }
    assert_eq!(grace_towards(at(0), seconds(30), at(10)), 1, "past the deadline");
    assert_eq!(grace_towards(Moment::MAX, Duration::MAX, Moment::MIN), u32::MAX);
}

#[test]
fn a_delete_leaves_time_for_the_grace_period_but_not_before_half_of_the_time() {
    let half = ForceAfter::Share(0.5);
    for (force, own, from_ms) in [
        (half, 30, 270_000),
        (half, 100, 200_000),
        (half, 150, 150_000),
        (half, 600, 150_000),
        (half, 0, 299_000),
        (ForceAfter::Share(0.0), 600, 0),
        (ForceAfter::Share(0.9), 60, 270_000),
        (ForceAfter::Share(1.0), 30, 299_000),
        (ForceAfter::Share(7.0), 30, 299_000),
        (ForceAfter::Share(f64::NAN), 30, 299_000),
        (ForceAfter::Deadline, 30, 299_000),
        (ForceAfter::Deadline, 600, 299_000),
    ] {
        let from = delete_from(force, &limits(300), seconds(own)).unwrap();
        // With a share of 0 and a grace period longer than the whole time, the result is in the
        // past, which means at once.
        assert_eq!(from.max(at(0)), at_ms(from_ms), "{force:?}, {own} s");
    }
    assert_eq!(delete_from(ForceAfter::Never, &limits(300), seconds(30)), None);
    assert_eq!(delete_from(half, &Limits::without_deadline(at(0), true), seconds(30)), None);
}

#[test]
fn without_a_deadline_pods_have_their_own_grace_period() {
    let mut d = drain(Limits { end_at: Some(at(3600)), ..Limits::without_deadline(at(0), false) });
    d.step(at(0), Input::Listed(vec![Pod { grace: seconds(7200), ..pod("a") }]));
    assert_eq!(d.order(&uid("a"), at(10), true), Some(evict("a", None)));
}

#[test]
fn the_grace_period_is_computed_when_the_order_is_sent() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![Pod { grace: seconds(600), ..pod("a") }, pod("b")]));
    assert_eq!(d.order(&uid("a"), at(0), true), Some(evict("a", Some(110))));
    assert_eq!(d.order(&uid("a"), at(100), true), Some(evict("a", Some(10))));
    assert_eq!(d.order(&uid("b"), at(0), true), Some(evict("b", Some(30))));
    assert_eq!(d.order(&uid("b"), at(109), true), Some(evict("b", Some(1))));
}

#[test]
fn c52_a_delete_has_a_grace_period_of_at_least_one_second() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![pod("a")]));
    d.step(at(1), Input::Answer { order: evict("a", Some(30)), answer: refused_by_budget() });
    assert_eq!(d.order(&uid("a"), at(79), true), Some(evict("a", Some(30))));
    assert_eq!(d.order(&uid("a"), at(80), true), Some(delete("a", 30)));
    assert_eq!(d.order(&uid("a"), at(109), true), Some(delete("a", 1)));
    assert_eq!(d.order(&uid("a"), at(200), true), Some(delete("a", 1)));
}

#[test]
fn s04_a_pod_that_terminates_past_the_deadline_is_shortened_once() {
    let mut d = drain(limits(210));
    let long = Pod { deletion: Some(at(5000)), grace: seconds(6000), ..pod("a") };
    let effects = d.step(at(0), Input::Listed(vec![long.clone()]));
    assert_eq!(requests(&effects), [("a".into(), true)]);
    assert_eq!(d.order(&uid("a"), at(0), true), Some(shorten("a", 210)));
    let effects = d.step(at(1), Input::Answer { order: shorten("a", 210), answer: ok() });
    assert!(matches!(notes(&effects)[..], [Note::ShortenedGrace { grace: 210, .. }]));
    assert_eq!(d.order(&uid("a"), at(1), true), None, "even if the watch has not shown it yet");
    let effects = d.step(at(2), Input::Changed(Pod { deletion: Some(at(211)), ..long.clone() }));
    assert_eq!(requests(&effects), [], "rounded to the next second, which is close enough");
    // The deadline moves to an earlier time: the pod is shortened once more.
    let effects = d.step(at(3), Input::Limits(limits(100)));
    assert_eq!(requests(&effects), [("a".into(), true)]);
    assert_eq!(d.order(&uid("a"), at(3), true), Some(shorten("a", 97)));
}

#[test]
fn a_shortening_that_fails_is_repeated() {
    let mut d = drain(limits(210));
    d.step(at(0), Input::Listed(vec![Pod { deletion: Some(at(5000)), ..pod("a") }]));
    let order = d.order(&uid("a"), at(0), true).unwrap();
    d.step(at(1), Input::Answer { order, answer: answer(0, "", "") });
    assert_eq!(d.order(&uid("a"), at(200), true), Some(shorten("a", 10)));
}

/// Until the watch shows the effect of an accepted order, the order is not repeated. Otherwise, in
/// the last second before the deadline, the pod would be deleted as fast as the API server answers.
#[test]
fn an_order_accepted_in_the_last_second_is_not_sent_again_within_a_second() {
    for accepted in [at_ms(108_900), at_ms(109_300)] {
        let mut d = drain(limits(110));
        d.step(at(0), Input::Listed(vec![pod("a")]));
        d.step(at(1), Input::Answer { order: evict("a", Some(30)), answer: two_budgets() });
        assert_eq!(requests(&d.step(at(81), Input::Tick)), [("a".into(), true)]);
        assert_eq!(d.order(&uid("a"), accepted, true), Some(delete("a", 1)));
        let effects = d.step(accepted, Input::Answer { order: delete("a", 1), answer: ok() });
        assert!(!requests(&effects).contains(&("a".into(), true)), "{effects:?}");
        assert_eq!(
            d.order(&uid("a"), accepted.plus(std::time::Duration::from_millis(200)), true),
            None
        );
        assert!(
            d.next_wake().is_some_and(|at| at > accepted),
            "and the drain does not wake up for that"
        );
    }
}

#[test]
fn an_eviction_has_time_until_its_pod_must_be_deleted_and_two_seconds_at_least() {
    let limits = |force_at| Limits { force_at, ..Limits::without_deadline(at(0), false) };
    for (own, now, until) in [
        // Deleted from 270 s on, so there is time until then.
        (30, 0, 270),
        (30, 260, 270),
        // Its own grace period must not be shortened, but the eviction has at least two seconds.
        (30, 269, 271),
        (30, 290, 292),
        // Pods with a long grace period are deleted from half of the time on.
        (100, 150, 200),
        (150, 149, 151),
        (600, 200, 202),
    ] {
        let said =
            evict_until(ForceAfter::Share(0.5), &limits(Some(at(300))), seconds(own), at(now));
        assert_eq!(said, Some(at(until)), "{own} s of grace, sent at {now} s");
    }
    let late = evict_until(ForceAfter::Share(0.9), &limits(Some(at(300))), seconds(0), at(292));
    assert_eq!(late, Some(at(299)), "six seconds, because there is time");
    assert_eq!(evict_until(ForceAfter::Never, &limits(Some(at(300))), seconds(30), at(0)), None);
    assert_eq!(evict_until(ForceAfter::Deadline, &limits(None), seconds(30), at(0)), None);
}

#[test]
fn an_eviction_of_a_pod_that_is_never_deleted_has_time_until_the_drain_ends() {
    for (name, force, force_at, now, until) in [
        ("nothing is forced", ForceAfter::Never, Some(at(300)), 0, 303),
        ("just before the end", ForceAfter::Never, Some(at(300)), 302, 304),
        ("the deadline was over when the drain was taken up", ForceAfter::Share(0.5), None, 0, 303),
    ] {
        let limits =
            Limits { force_at, end_at: Some(at(303)), ..Limits::without_deadline(at(0), false) };
        assert_eq!(evict_until(force, &limits, seconds(30), at(now)), Some(at(until)), "{name}");
    }
}

#[test]
fn a_node_or_its_hook_sets_the_longest_grace_period_and_when_pods_are_forced() {
    let with = |max_grace_period: Option<u64>, force_after, limits: Limits| {
        let max_grace_period = max_grace_period.map(seconds);
        let settings = DrainSettings { force_after, max_grace_period, ..DrainSettings::NONE };
        Limits { settings, ..limits }
    };
    let (no_deadline, half) = (Limits::without_deadline(at(0), false), ForceAfter::Share(0.5));
    for (limits, own, sent) in [
        (with(Some(60), None, limits(300)), 600, Some(60)),
        (with(Some(60), None, limits(300)), 30, Some(30)),
        (with(Some(60), None, limits(20)), 600, Some(20)),
        (with(Some(60), None, no_deadline), 600, Some(60)),
        (with(Some(60), None, no_deadline), 60, None),
        (with(None, None, no_deadline), 600, None),
    ] {
        assert_eq!(grace_to_send(&limits, seconds(own), at(0)), sent, "{limits:?}, {own} s");
    }
    let from = |limits: Limits, own| delete_from(half, &limits, seconds(own));
    assert_eq!(from(with(Some(60), None, limits(600)), 500), Some(at(540)));
    assert_eq!(from(with(None, Some(ForceAfter::Never), limits(600)), 30), None);
    assert_eq!(from(with(None, Some(ForceAfter::Share(0.9)), limits(600)), 200), Some(at(540)));
    assert_eq!(from(with(None, Some(ForceAfter::Deadline), limits(600)), 30), Some(at(599)));
}
