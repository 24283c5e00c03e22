//! Whose call goes first when many are due.

use super::*;

fn turn(by: i64, may_exceed_rate: bool) -> CallPriority {
    CallPriority { by: at_ms(by), may_exceed_rate, is_take_over: false }
}

/// When each of those who wait goes, in milliseconds after the start.
fn let_go(pace: &mut Pace<u32>) -> Vec<(u32, i64)> {
    let mut now = at(0);
    let mut gone = Vec::new();
    while let Some(next) = pace.next_at() {
        now = now.max(next);
        gone.push((pace.pop(now).unwrap(), now.as_millisecond() - at(0).as_millisecond()));
    }
    gone
}

#[test]
fn waiting_calls_go_one_at_a_time_the_most_urgent_first() {
    let mut pace = Pace::new(TAKE_OVER_RATE);
    (0..100).for_each(|n| pace.enter(turn(60_000 - 100 * i64::from(n), true), n));
    let gone = let_go(&mut pace);
    assert_eq!(gone.iter().take(3).collect::<Vec<_>>(), [&(99, 0), &(98, 50), &(97, 100)]);
    assert_eq!(gone.last(), Some(&(0, 4_950)), "20 a second");
    pace.enter(turn(0, true), 1);
    pace.enter(turn(99_999, true), 2);
    pace.retain(|who| *who != 1);
    assert_eq!(pace.pop(at(100)), Some(2), "who gave up is not waited for");
    assert_eq!((pace.next_at(), pace.pop(at(200))), (None, None));
}

#[test]
fn the_pace_speeds_up_only_if_a_firm_call_would_be_late() {
    let mut pace = Pace::new(TAKE_OVER_RATE);
    (0..100).for_each(|n| pace.enter(turn(2_000, true), n));
    let gone = let_go(&mut pace);
    assert!(gone.iter().all(|(_, ms)| *ms <= 2_000), "{gone:?}");
    assert!(gone.windows(2).all(|w| w[1].1 - w[0].1 >= 19), "evenly: {gone:?}");
    let mut unknown = Pace::new(TAKE_OVER_RATE);
    (0..100).for_each(|n| unknown.enter(turn(0, false), n));
    assert_eq!(let_go(&mut unknown).last(), Some(&(99, 4_950)));
    // Ten that are known wait behind them, and overtake them when it is time.
    (0..100).for_each(|n| unknown.enter(turn(100_000, false), n));
    (100..110).for_each(|n| unknown.enter(turn(101_000, true), n));
    let mut gone = Vec::new();
    let mut now = at(100);
    while let Some(next) = unknown.next_at() {
        now = now.max(next);
        gone.push((unknown.pop(now).unwrap(), now));
    }
    assert!(gone.iter().all(|(n, t)| *n < 100 || *t <= at(101)), "{gone:?}");
    assert!(
        gone.windows(2).all(|w| w[1].1.since_or_zero(w[0].1) >= Duration::from_millis(44)),
        "{gone:?}"
    );
}

#[test]
fn the_heartbeat_with_the_least_time_left_goes_first() {
    let of = |start, description: Option<u64>| {
        HeartbeatSchedule::new(at(0), start, 0.0, description.map(of_timeout)).priority()
    };
    let taken_over = ActionOrigin::TakenOver { at: at(1000), without_leader: seconds(20) };
    let by = |turn: CallPriority| (whole(turn.by), turn.may_exceed_rate, turn.is_take_over);
    // Two thirds of the window are over at 200 s, three tries with their waits and as long a wait
    // for the turn before.
    assert_eq!(by(of(received(0), Some(300))), (161, true, false));
    assert_eq!(by(of(received(80), Some(300))), (109, true, false));
    assert_eq!(by(of(received(250), Some(300))), (256, true, false), "before the window ends");
    assert_eq!(
        by(of(received(400), Some(300))),
        (460, true, false),
        "it is over, as far as we know"
    );
    assert_eq!(by(of(received(80), None)), (85, false, false));
    assert_eq!(by(of(taken_over, None)), (1000, false, true), "first, until it is known");
    assert_eq!(by(of(taken_over, Some(30))), (1002, true, true));
    assert_eq!(by(of(taken_over, Some(60))), (1005, true, true));
    assert_eq!(by(of(taken_over, Some(300))), (1080, true, true));
}

#[test]
fn the_completion_with_the_least_time_left_goes_first() {
    let turn = |heartbeat: u64| fresh(heartbeat, heartbeat * 100).completion_priority(at(10));
    assert_eq!((turn(60).by, turn(300).by), (at(60), at(300)));
    let late = fresh(60, 6_000).completion_priority(at(90));
    assert_eq!((late.by, late.may_exceed_rate), (at(90), false), "nothing is left to be saved");
    let mut kept_alive = fresh(60, 6_000);
    kept_alive.sent(at(50));
    kept_alive.accepted(at(50));
    assert_eq!(kept_alive.completion_priority(at(51)).by, at(110));
}
