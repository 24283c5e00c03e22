//! When the window of an action that no heartbeat has prolonged becomes its deadline.

use super::*;

#[test]
fn the_window_of_an_action_taken_over_assumes_no_heartbeats_since_the_last_leader_was_lost() {
    let taken_over = |event| {
        HeartbeatSchedule::new(
            at(event),
            ActionOrigin::TakenOver { at: at(0), without_leader: seconds(20) },
            0.0,
            Some(of_timeout(300)),
        )
    };
    let mut s = taken_over(-9000);
    assert_eq!(s.due(), Some(at(0)));
    assert_eq!(s.window_end(), Some(at(130)), "an interval and twenty seconds ago at worst");
    assert_eq!(s.lapses_at(), Some(at(90)), "it may have to wait for its turn");
    s.sent(at(0));
    s.failed(at(1));
    assert_eq!((s.lapses_at(), s.window_end()), (Some(at(30)), Some(at(130))));
    run(&mut s, at(1), at(2), Duration::ZERO, |_| Answer::Accepted);
    assert_eq!(s.window_end(), Some(at(302)));

    // Perhaps no heartbeat was ever accepted: its window may still be the first one.
    let mut young = taken_over(-250);
    assert_eq!(young.window_end(), Some(at(130)));
    young.sent(at(0));
    young.refused(at(1));
    assert_eq!((young.window_end(), young.facts(at(1)).lapse), (Some(at(50)), Some(at(50))));
}

#[test]
fn a_process_that_leads_again_counts_the_window_from_its_last_accepted_heartbeat() {
    let taken_over = |event| {
        HeartbeatSchedule::new(
            at(event),
            ActionOrigin::TakenOver { at: at(0), without_leader: seconds(20) },
            0.0,
            Some(of_timeout(120)),
        )
    };
    for (mut s, window_end, lapse, why) in [
        (taken_over(-105), 15, Some(at(15)), "it knows of none"),
        (taken_over(-105).with_accepted_earlier(at(-49)), 71, None, "its own"),
        (
            taken_over(-105).with_accepted_earlier(at(-200)),
            15,
            Some(at(15)),
            "one from before the event",
        ),
        (
            taken_over(-9000).with_accepted_earlier(at(-700)),
            40,
            Some(at(40)),
            "another leader kept the action open since",
        ),
    ] {
        assert_eq!(
            (s.due(), s.priority().is_take_over),
            (Some(at(0)), true),
            "{why}: the first one goes at once all the same"
        );
        s.sent(at(0));
        s.failed(at(0));
        assert_eq!((s.window_end(), s.facts(at(0)).lapse), (Some(at(window_end)), lapse), "{why}");
    }
}

#[test]
fn an_action_that_was_over_in_an_earlier_term_sets_no_deadline_until_a_heartbeat_is_accepted() {
    let taken_over = || {
        HeartbeatSchedule::new(
            at(-9000),
            ActionOrigin::TakenOver { at: at(0), without_leader: seconds(20) },
            0.0,
            Some(of_timeout(120)),
        )
    };
    let fails_at_once = |mut s: HeartbeatSchedule| {
        s.sent(at(0));
        s.failed(at(0));
        s
    };
    let unknown = fails_at_once(taken_over());
    assert_eq!(unknown.facts(at(0)).lapse, Some(at(40)), "AWS may keep the action open");
    let mut over = fails_at_once(taken_over().with_over_earlier());
    assert_eq!((over.facts(at(0)).lapse, over.lapses_at()), (None, None));
    assert_eq!(over.counts().missed, 0);
    assert_eq!(over.due(), Some(at(1)), "AWS is asked again all the same");
    // The record was about another action, which is open.
    over.sent(at(1));
    over.accepted(at(1));
    assert_eq!(over.facts(at(80)).lapse, None);
    assert_eq!(over.facts(at(81)).lapse, Some(at(121)), "from then on its window counts");
}

#[test]
fn a_window_of_which_two_thirds_had_passed_at_the_start_lapses_only_after_a_try() {
    let late = || HeartbeatSchedule::new(at(0), received(250), 0.0, Some(of_timeout(300)));
    assert_eq!(late().facts(at(250)).lapse, None);
    assert_eq!(late().facts(at(260)).lapse, Some(at(300)), "but not for ever");
    let mut failing = late();
    failing.sent(at(250));
    failing.failed(at(251));
    assert_eq!((failing.facts(at(251)).lapse, failing.counts().missed), (Some(at(300)), 1));
    let mut saved = late();
    saved.sent(at(250));
    saved.accepted(at(251));
    assert_eq!((saved.facts(at(251)).lapse, saved.counts().missed), (None, 0));
}

#[test]
fn a_window_that_was_over_when_its_hook_was_described_sets_no_deadline() {
    let after = |seen: ActionOrigin, now: i64| {
        let mut s = HeartbeatSchedule::new(at(0), seen, 0.0, None);
        s.sent(at(20));
        s.failed(at(20));
        s.described(at(now), of_timeout(60));
        s.sent(at(now));
        s.failed(at(now));
        s
    };
    let taken_over = ActionOrigin::TakenOver { at: at(5), without_leader: seconds(20) };
    for (start, now, lapse, why) in [
        (received(1), 39, None, "two thirds are not over"),
        (received(1), 59, Some(at(60)), "it is ahead"),
        (received(1), 60, None, "it is over"),
        (received(1), 85, None, "it was over long before"),
        (taken_over, 59, Some(at(60)), "taken over, and it is ahead"),
        (taken_over, 85, None, "taken over, and it is over"),
    ] {
        assert_eq!(after(start, now).facts(at(now)).lapse, lapse, "{why}");
    }
    let mut s = after(received(1), 85);
    s.sent(at(86));
    s.failed(at(87));
    assert_eq!(s.facts(at(200)).lapse, None, "a heartbeat that fails shows nothing");
    s.sent(at(201));
    s.accepted(at(202));
    assert_eq!(
        (s.facts(at(240)).lapse, s.facts(at(241)).lapse),
        (None, Some(at(261))),
        "the window of an accepted heartbeat counts"
    );
}

#[test]
fn when_a_hook_is_first_described_late_its_window_lapses_only_after_the_next_heartbeat_failed() {
    let described = || {
        let mut s = HeartbeatSchedule::new(at(0), received(1), 0.0, None);
        s.sent(at(57));
        s.failed(at(57));
        s.described(at(61), of_timeout(90));
        s
    };
    assert_eq!(described().facts(at(61)).lapse, None, "AWS answers again");
    assert_eq!(
        (described().facts(at(70)).lapse, described().facts(at(71)).lapse),
        (None, Some(at(90))),
        "but not for ever"
    );
    let mut failing = described();
    failing.sent(at(61));
    failing.failed(at(62));
    assert_eq!(failing.facts(at(62)).lapse, Some(at(90)));
    let mut saved = described();
    saved.sent(at(61));
    saved.accepted(at(62));
    assert_eq!((saved.facts(at(120)).lapse, saved.counts().missed), (None, 0));
}
