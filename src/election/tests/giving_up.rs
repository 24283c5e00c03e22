//! A process that gives the Lease up: it stops, or its own node drains.

use super::*;

#[test]
fn stopping_gives_the_lease_up_after_the_last_write() {
    let mut bench = Bench::leading();
    assert_eq!(
        bench.step(1.0, Input::Stop),
        [Effect::Lost(Lost::GivenUp)],
        "no write of ours may follow the release"
    );
    let effects = bench.step(1.0, Input::WritesOver);
    let (version, draft) = drafted(&effects);
    assert_eq!((version, &draft.holder, draft.duration), ("101", &None, seconds(1)));
    assert_eq!(bench.accept(1.1, &effects), [Effect::Stopped]);
    assert_eq!(bench.step(100.0, Input::Tick), []);
    assert_eq!(bench.machine.next_wake(), None);
}

#[test]
fn while_the_last_writes_are_under_way_the_lease_is_renewed_and_nothing_may_be_written() {
    for ends in [Input::Stop, Input::Yield(seconds(5))] {
        let mut bench = Bench::leading();
        assert_eq!(bench.step(1.5, ends.clone()), [Effect::Lost(Lost::GivenUp)]);
        assert_eq!(bench.machine.may_write_until(), None);
        assert!(
            bench.machine.is_closing() && bench.machine.is_heartbeats_only(),
            "heartbeats go on"
        );
        let renewal = bench.step(2.0, Input::Tick);
        assert_eq!(drafted(&renewal).1.holder.as_deref(), Some("me"));
        assert_eq!(bench.accept(2.1, &renewal), [], "a renewal makes no new term");
        assert_eq!(
            (bench.machine.may_write_until(), bench.machine.holds_until()),
            (None, Some(at(12.0)))
        );
        assert_eq!(bench.step(3.0, ends.clone()), [], "the machine is closing already");
        let release = bench.step(3.5, Input::WritesOver);
        assert_eq!(drafted(&release).1.holder, None);
        assert_eq!(
            (bench.machine.is_closing(), bench.machine.is_heartbeats_only()),
            (false, ends != Input::Stop)
        );
        assert_eq!(bench.machine.holds_until(), None);
        let stopped = bench.accept(3.6, &release);
        assert!(!bench.machine.is_heartbeats_only(), "another process may lead now");
        assert_eq!(stopped == [Effect::Stopped], ends == Input::Stop, "{stopped:?}");
    }
}

#[test]
fn after_twelve_seconds_every_write_is_over_and_the_lease_is_given_up() {
    let mut bench = Bench::leading();
    bench.step(1.5, Input::Stop);
    let mut now: f64 = 1.5;
    let release = loop {
        now = bench.machine.next_wake().unwrap().max(at(now)).duration_since(at(0.0)).as_secs_f64();
        let effects = bench.step(now, Input::Tick);
        match effects.as_slice() {
            [Effect::Update(_, draft)] if draft.holder.is_none() => break effects,
            [Effect::Update(..)] => assert_eq!(bench.accept(now, &effects), []),
            other => panic!("{other:?} at {now}"),
        }
        assert!(now < 60.0);
    };
    assert!((13.49..13.51).contains(&now), "{now}");
    assert_eq!(bench.accept(13.6, &release), [Effect::Stopped]);
}

#[test]
fn a_process_that_stops_does_not_bid_again_for_a_lease_that_it_lost_during_its_last_writes() {
    let mut expired = Bench::leading();
    expired.step(1.0, Input::Stop);
    expired.step(2.0, Input::Tick);
    assert_eq!(expired.step(10.0, Input::Tick), [], "the end of leadership was reported before");
    assert!(
        !expired.machine.is_closing()
            && !expired.machine.is_heartbeats_only()
            && expired.machine.holds_until().is_none()
    );
    assert_eq!(
        expired.step(10.1, Input::WriteFailed),
        [Effect::Get],
        "the outcome of the renewal must be known"
    );
    let release = expired.step(10.2, Input::Observed(lease("200", "me", 2.0)));
    assert_eq!(drafted(&release).1.holder, None);

    let mut stolen = Bench::leading();
    stolen.step(1.0, Input::Stop);
    assert_eq!(stolen.step(1.1, Input::Nudge(Some("200".to_owned()))), [Effect::Get]);
    assert_eq!(stolen.step(1.2, Input::Observed(lease("200", "thief", 1.1))), [Effect::Stopped]);

    let mut yielding = Bench::leading();
    yielding.step(1.0, Input::Yield(seconds(5)));
    yielding.step(2.0, Input::Tick);
    yielding.step(10.0, Input::Tick);
    assert!(yielding.machine.is_heartbeats_only(), "no other process is known to lead");
}

#[test]
fn heartbeats_of_a_process_that_yields_go_on_until_the_lease_is_given_up() {
    let yielding = || {
        let mut bench = Bench::leading();
        bench.step(1.0, Input::Yield(seconds(5)));
        let release = bench.step(1.0, Input::WritesOver);
        assert_eq!(drafted(&release).1.holder, None);
        bench.step(1.1, Input::WriteFailed);
        assert!(bench.machine.is_heartbeats_only() && bench.machine.may_write_until().is_none());
        assert_eq!(
            bench.step(3.0, Input::Tick),
            [Effect::Get],
            "the outcome of the write must be known"
        );
        bench
    };
    let mut refused = yielding();
    let release = refused.step(3.1, Input::Observed(lease("101", "me", 0.0)));
    assert!(refused.machine.is_heartbeats_only(), "the lease names nobody else");
    refused.accept(3.2, &release);
    assert!(!refused.machine.is_heartbeats_only());

    let mut taken = yielding();
    taken.step(3.1, Input::Observed(lease("200", "other", 3.0)));
    assert!(!taken.machine.is_heartbeats_only());

    let mut stopping = yielding();
    stopping.step(3.1, Input::Stop);
    assert!(!stopping.machine.is_heartbeats_only());
}

#[test]
fn a_process_that_stops_while_it_yields_does_not_bid_again() {
    let mut bench = Bench::leading();
    bench.step(1.0, Input::Yield(seconds(5)));
    assert_eq!(bench.step(1.1, Input::Stop), []);
    let release = bench.step(1.2, Input::WritesOver);
    assert_eq!(bench.accept(1.3, &release), [Effect::Stopped]);
}

#[test]
fn stopping_in_the_middle_of_a_bid_gives_up_what_the_bid_won() {
    for answered in [true, false] {
        let mut bench = Bench::new();
        bench.step(0.0, Input::Tick);
        let bid = bench.step(0.0, Input::Observed(lease("1", "", 0.0)));
        assert_eq!(bench.step(0.1, Input::Stop), [], "the outcome of the bid is not known yet");
        let release = if answered {
            bench.accept(0.2, &bid)
        } else {
            assert_eq!(bench.step(5.0, Input::WriteFailed), [Effect::Get], "it may have been won");
            bench.step(5.1, Input::Observed(lease("2", "me", 0.0)))
        };
        assert_eq!(drafted(&release).1.holder, None);
        assert_eq!(bench.accept(6.0, &release), [Effect::Stopped]);
    }
    let mut standby = Bench::new();
    standby.step(0.0, Input::Tick);
    standby.step(0.0, Input::Observed(lease("1", "other", 0.0)));
    assert_eq!(standby.step(1.0, Input::Stop), [Effect::Stopped]);
}

#[test]
fn a_leader_whose_own_node_drains_gives_up_once_and_bids_again_after_five_seconds() {
    let mut bench = Bench::leading();
    assert_eq!(bench.step(1.0, Input::Yield(seconds(5))), [Effect::Lost(Lost::GivenUp)]);
    let release = bench.step(1.0, Input::WritesOver);
    assert_eq!(bench.accept(1.1, &release), []);
    let mut now = 1.1;
    let bid = loop {
        now = bench.machine.next_wake().unwrap().max(at(now)).duration_since(at(0.0)).as_secs_f64();
        let effects = bench.step(now, Input::Tick);
        if effects != [Effect::Get] {
            break effects;
        }
        let mut free = lease("102", "", 1.0);
        free.duration = Some(seconds(1));
        free.transitions = 0;
        bench.step(now, Input::Observed(free));
    };
    assert!((6.0..6.2).contains(&now), "nobody else wanted it: {now}");
    assert_eq!(bench.accept(now, &bid), [Effect::BecameLeader { term: 1 }]);
    assert_eq!(
        bench.step(now + 1.0, Input::Yield(seconds(5))),
        [],
        "given up once, not again and again"
    );
    assert!(bench.machine.may_write_until().is_some());
}

#[test]
fn a_standby_on_a_draining_node_lets_others_bid_first() {
    let mut bench = Bench::new();
    bench.step(0.0, Input::Yield(seconds(5)));
    bench.step(0.0, Input::Tick);
    assert_eq!(bench.step(0.0, Input::Observed(lease("1", "", 0.0))), []);
    assert_eq!(
        bench.step(1.0, Input::BidNormally).len(),
        1,
        "as soon as the drain is over it bids normally"
    );
}

type Answer = fn() -> Input;

fn held_by(holder: &str) -> Input {
    Input::Observed(lease("7", holder, 0.0))
}

#[test]
fn a_process_that_is_not_ready_lets_others_bid_first() {
    let not_ready = || {
        let machine = Machine::new("me".to_owned(), Settings::default()).not_ready();
        let mut bench = Bench { machine, version: 100 };
        assert_eq!(bench.step(0.0, Input::Tick), [Effect::Get]);
        bench
    };
    let rows: [(&str, Answer, f64); 3] = [
        ("there is no Lease", || Input::NotFound, 0.0),
        ("it was given up", || held_by(""), 0.0),
        ("its holder does not renew it", || held_by("other"), 15.0),
    ];
    for (case, answer, since) in rows {
        let bids_at = |ready_at: Option<f64>| {
            let (mut bench, mut now) = (not_ready(), 0.0);
            let mut effects = bench.step(now, answer());
            while effects == [Effect::Get] || effects.is_empty() {
                if effects.is_empty() {
                    now += 0.5;
                    let is_ready = ready_at.is_some_and(|at| (at - now).abs() < 0.1);
                    let input = if is_ready { Input::Ready } else { Input::Tick };
                    effects = bench.step(now, input);
                } else {
                    effects = bench.step(now, answer());
                }
                assert!(now < 100.0, "{case}: it never bids");
            }
            now
        };
        let is_at = |bid: f64, expected: f64| (bid - expected).abs() < 0.1;
        assert!(is_at(bids_at(None), since + 30.0), "{case}: nobody else wanted it");
        let ready_at = since + 3.0;
        assert!(is_at(bids_at(Some(ready_at)), ready_at), "{case}: ready while it is free");
    }
}
