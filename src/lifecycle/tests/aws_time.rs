//! AWS's times on our clock.

use jiff::SignedDuration;

use super::*;

fn skew(seconds: i64) -> Skew {
    Skew::new(SignedDuration::from_secs(seconds))
}

#[test]
fn two_replicas_whose_clocks_differ_derive_the_same_deadline() {
    let recorded = InterruptionFacts {
        kind: Some(Kind::Spot),
        event_id: "e".into(),
        time: at(0),
        accepted: at(2),
        hook: None,
        ends: Some(at(90)),
        state: None,
        stale: false,
        response: Response::Drain,
        settings: DrainSettings::NONE,
        reason: None,
    };
    for ahead in [-600, -3, 0, 3, 600] {
        let here = skew(ahead).facts_to_ours(vec![recorded.clone()]).remove(0);
        assert_eq!(here.machine_ends_at(), Some(at(120 - ahead)), "AWS is {ahead} s ahead");
        assert_eq!((here.accepted, here.ends), (at(2 - ahead), Some(at(90 - ahead))));
        assert_eq!(skew(ahead).to_aws(here.time), recorded.time);
    }
}

#[test]
fn a_drain_adopts_a_skew_that_differs_by_five_seconds() {
    for (first, then, expected) in
        [(0, 0, false), (0, 4, false), (0, 5, true), (0, -5, true), (60, 62, false), (60, 0, true)]
    {
        let mut clock = RecordClock::new(skew(first));
        assert_eq!(clock.measured(skew(then), at(0)), expected, "{first} s, then {then} s");
        assert_eq!(clock.skew(), skew(if expected { then } else { first }));
    }
}

#[test]
fn a_changed_skew_forces_nothing_at_once() {
    let limits = |force_at: i64| Limits {
        force_at: Some(at(force_at)),
        end_at: Some(at(force_at)),
        ..Limits::without_deadline(at(0), true)
    };
    let mut clock = RecordClock::new(skew(0));
    assert_eq!(clock.soften(limits(110)), limits(110), "without a change nothing moves");
    assert!(clock.measured(skew(100), at(60)));
    for (force_at, expected) in [(10, 80), (60, 80), (61, 80), (79, 80), (80, 80), (200, 200)] {
        let softened = clock.soften(limits(force_at));
        assert_eq!(softened, Limits { accepted: at(60), ..limits(expected) }, "{force_at}");
    }
    let none = Limits { force_at: None, end_at: None, ..limits(0) };
    assert_eq!(clock.soften(none).force_at, None, "nothing is forced that was not");
}
