use super::*;

#[test]
fn c57_a_completion_ends_the_heartbeats_early() {
    let mut s = fresh(3, 300);
    let heartbeats = run(&mut s, at(0), at_ms(3_500), Duration::ZERO, |_| Answer::Accepted);
    s.completed(at_ms(3_500));
    assert_eq!(heartbeats, [at(1), at(2), at(3)]);
    assert_eq!((s.due(), s.end()), (None, Some(HeartbeatEnd::Completed)));
}

#[test]
fn c58_the_heartbeats_end_when_they_can_gain_no_time() {
    assert_eq!(run_secs(&mut fresh(3, 8), 800, Answer::Accepted), [1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn c59_throttled_heartbeats_go_on() {
    let mut s = fresh(300, 30_000);
    let heartbeats = run_secs(&mut s, 300, Answer::Failed);
    assert_eq!(heartbeats, [150.0, 151.0, 153.0, 157.0, 165.0, 181.0, 206.0, 231.0, 256.0, 281.0]);
    assert_eq!(s.counts(), HeartbeatCounts { sent: 10, accepted: 0, failed: 10, missed: 1 });
    assert_eq!(s.failures_in_a_row(), 10);
}

#[test]
fn c60_no_active_action_ends_the_heartbeats_after_one_attempt() {
    let mut s = fresh(3, 300);
    assert_eq!(run_secs(&mut s, 100, Answer::Gone), [1.0]);
    assert_eq!(
        (s.end(), s.counts().failed),
        (Some(HeartbeatEnd::Gone), 0),
        "and it is not an error"
    );
}

#[test]
fn c61_a_completion_at_2_1_leaves_two_heartbeats() {
    let mut s = fresh(3, 300);
    assert_eq!(run(&mut s, at(0), at_ms(2_100), Duration::ZERO, |_| Answer::Accepted).len(), 2);
    s.completed(at_ms(2_100));
    assert_eq!(run_secs(&mut s, 100, Answer::Accepted), [0.0; 0]);
}

#[test]
fn c62_no_heartbeat_is_sent_after_the_global_timeout() {
    // Failing heartbeats go on only as long as AWS can keep the action open.
    let heartbeats = run_secs(&mut fresh(30, 100), 1_000, Answer::Failed);
    assert!(heartbeats.len() > 10 && heartbeats.into_iter().all(|t| t < 100.0));
}

#[test]
fn c67_near_the_global_timeout_the_heartbeats_end() {
    // 40 s in total: the window of the heartbeat at 10 reaches that far.
    assert_eq!(run_secs(&mut fresh(30, 40), 100, Answer::Accepted), [10.0]);
    let heartbeats = run_secs(&mut fresh(300, 30_000), 40_000, Answer::Accepted);
    assert_eq!(heartbeats.last(), Some(&29_700.0));
    let mut s = fresh(300, 30_000);
    run_secs(&mut s, 40_000, Answer::Accepted);
    assert_eq!(s.window_end(), Some(at(30_000)), "no window reaches beyond it");
}

#[test]
fn c63_the_interval_follows_from_the_hook_itself() {
    for (timeout, interval) in [
        (Some(30), 10),
        (Some(59), 19),
        (Some(60), 30),
        (Some(300), 150),
        (Some(3600), 1800),
        (Some(7200), 3600),
        (None, 10),
    ] {
        let s = HeartbeatSchedule::new(at(0), received(0), 0.0, timeout.map(of_timeout));
        assert_eq!(s.interval().as_secs(), interval, "{timeout:?}");
        assert_eq!(s.due(), Some(at(0).plus(s.interval())));
    }
    assert!(
        fresh(0, 0).interval() > Duration::ZERO,
        "an answer that cannot be true is no reason to spin"
    );
}

#[test]
fn c64_the_first_heartbeat_goes_at_once_when_the_event_is_older_than_half_an_interval() {
    for (age, due) in [(0, 150), (75, 150), (76, 76), (150, 150), (299, 299), (4000, 4000)] {
        let s = HeartbeatSchedule::new(at(0), received(age), 0.0, Some(of_timeout(300)));
        assert_eq!(s.due(), Some(at(due)), "{age}");
    }
    let undescribed = HeartbeatSchedule::new(at(0), received(6), 0.5, None);
    assert_eq!(
        undescribed.due(),
        Some(at(6)),
        "half of the timeout may be gone before it is described"
    );
}

#[test]
fn c66_the_answer_gone_does_not_change_the_deadline_in_force() {
    let mut in_time = fresh(300, 30_000);
    in_time.sent(at(150));
    in_time.gone(at(151));
    assert_eq!(in_time.facts(at(299)).lapse, None);
    let mut late = fresh(300, 30_000);
    for n in [150, 151, 153, 157, 200] {
        late.sent(at(n));
        late.failed(at(n));
    }
    assert_eq!(late.facts(at(200)).lapse, Some(at(300)));
    late.gone(at(201));
    late.completed(at(202));
    assert_eq!((late.end(), late.facts(at(260)).lapse), (Some(HeartbeatEnd::Gone), Some(at(300))));
}

#[test]
fn c68_nothing_is_due_after_the_completion_even_if_answers_come_late() {
    let mut s = fresh(30, 3000);
    s.sent(at(10));
    s.completed(at(11));
    s.failed(at(12));
    s.described(at(13), of_timeout(60));
    assert_eq!(s.due(), None);
}

#[test]
fn an_event_time_in_the_future_delays_no_heartbeat() {
    let s = HeartbeatSchedule::new(at(10_000), received(0), 0.0, Some(of_timeout(300)));
    assert_eq!(s.due(), Some(at(150)));
}

#[test]
fn three_tries_start_before_two_thirds_of_the_timeout_even_if_each_runs_into_its_limit() {
    for timeout in [Some(30), Some(45), Some(60), Some(90), Some(300), Some(7200), None] {
        let mut s = HeartbeatSchedule::new(at(0), received(0), 0.0, timeout.map(of_timeout));
        let limit = s.call_limit();
        let two_thirds = 2.0 / 3.0 * f64::from(u16::try_from(timeout.unwrap_or(30)).unwrap());
        let heartbeats = run(&mut s, at(0), at(7200), limit, |_| Answer::Failed);
        assert!(
            heartbeats.into_iter().filter(|t| secs(*t) < two_thirds).count() >= 3,
            "{timeout:?} {limit:?}"
        );
    }
}

#[test]
fn a_failed_heartbeat_is_retried_after_1_2_and_4_seconds_and_then_the_interval_applies_again() {
    let mut s = fresh(60, 6000);
    let mut fail = 3;
    let heartbeats = run(&mut s, at(0), at(100), Duration::ZERO, |_| {
        fail -= 1;
        if fail >= 0 { Answer::Failed } else { Answer::Accepted }
    });
    assert_eq!(
        heartbeats.into_iter().map(secs).collect::<Vec<_>>(),
        [30.0, 31.0, 33.0, 37.0, 67.0, 97.0]
    );
}

#[test]
fn a_description_sets_the_interval_from_the_last_heartbeat_on() {
    let mut s = HeartbeatSchedule::new(at(0), received(0), 0.0, None);
    assert_eq!(run_secs(&mut s, 25, Answer::Accepted), [10.0, 20.0]);
    assert_eq!(
        (s.window_end(), s.facts(at(999)).lapse),
        (None, None),
        "what is not known sets no deadline"
    );
    s.described(at(25), of_timeout(300));
    assert_eq!((s.due(), s.window_end()), (Some(at(170)), Some(at(320))));

    let mut none_sent = HeartbeatSchedule::new(at(0), received(0), 0.0, None);
    none_sent.described(at(1), of_timeout(3600));
    assert_eq!(none_sent.due(), Some(at(1800)));

    let mut failing = HeartbeatSchedule::new(at(0), received(0), 0.0, None);
    failing.sent(at(10));
    failing.failed(at(10));
    failing.described(at(10), of_timeout(3600));
    assert_eq!(failing.due(), Some(at(11)), "a try that is due stays due");
}

#[test]
fn an_action_that_comes_after_its_global_timeout_is_kept_alive_until_aws_says_that_it_is_gone() {
    let mut s = HeartbeatSchedule::new(at(0), received(4000), 0.0, Some(of_timeout(30)));
    assert_eq!(run_secs(&mut s, 4010, Answer::Failed), [4000.0, 4001.0, 4003.0, 4007.0]);
    assert_eq!(
        run(&mut s, at(4011), at(5000), Duration::ZERO, |_| Answer::Gone),
        [at(4015)],
        "the retry is not hurried"
    );
}

#[test]
fn a_later_description_changes_the_interval_but_no_deadline() {
    let mut s = fresh(300, 30_000);
    s.described(at(1), of_timeout(3600));
    assert_eq!((s.interval().as_secs(), s.window_end()), (1800, Some(at(300))));
    assert_eq!(s.facts(at(0)).description, Some(of_timeout(300)));
}

#[test]
fn a_thousand_actions_that_began_together_do_not_send_heartbeats_together() {
    for described_late in [false, true] {
        let mut per_second = std::collections::BTreeMap::<i64, u32>::new();
        for n in 0..1000_u32 {
            let mut s = HeartbeatSchedule::new(
                at(0),
                received(0),
                f64::from(n) / 1000.0,
                (!described_late).then(|| of_timeout(300)),
            );
            if described_late {
                run_secs(&mut s, 12, Answer::Accepted);
                s.described(at(12), of_timeout(300));
            }
            for t in run(&mut s, at(0), at(2000), Duration::ZERO, |_| Answer::Accepted) {
                *per_second.entry(whole(t)).or_default() += 1;
            }
        }
        let most = per_second.values().max();
        assert!(most <= Some(&40), "{most:?}");
    }
}

#[test]
fn heartbeats_that_failed_together_are_not_retried_together() {
    let tries = |jitter| {
        let mut s = HeartbeatSchedule::new(at(0), received(100), jitter, Some(of_timeout(300)));
        run(&mut s, at(100), at(107), Duration::ZERO, |_| Answer::Failed)
            .into_iter()
            .map(secs)
            .collect::<Vec<_>>()
    };
    assert_eq!(tries(0.0), [100.0, 101.0, 103.0, 107.0]);
    assert_eq!(tries(1.0), [100.0, 100.75, 102.25, 105.25]);
}

#[test]
fn a_refused_heartbeat_is_retried_slowly() {
    let mut s = fresh(60, 6000);
    let mut tries = Vec::new();
    while let Some(due) = s.due().filter(|due| *due <= at(630)) {
        s.sent(due);
        s.refused(due);
        tries.push(secs(due));
    }
    assert_eq!(
        tries[..6],
        [30.0, 31.0, 33.0, 37.0, 45.0, 60.0],
        "three tries before two thirds, all the same"
    );
    assert!(tries.len() < 40, "{tries:?}");
}

#[test]
fn a_heartbeat_that_proves_goes_at_once_but_after_a_failure_no_sooner_than_a_retry() {
    let mut s = fresh(300, 30_000);
    s.hasten(at(10));
    assert_eq!(s.due_to_prove(), Some(at(10)));
    s.sent(at(10));
    assert_eq!(s.due_to_prove(), None);
    s.failed(at(11));
    s.hasten(at(11));
    assert_eq!(s.due_to_prove(), Some(at(12)));
    let mut full = fresh(30, 40);
    run_secs(&mut full, 100, Answer::Accepted);
    assert_eq!(full.due(), None);
    full.hasten(at(20));
    assert_eq!(full.due_to_prove(), Some(at(20)), "also where it adds nothing");
}

#[test]
fn the_window_begins_when_the_heartbeat_is_sent_not_when_it_is_answered() {
    let mut s = fresh(300, 30_000);
    s.sent(at(150));
    s.accepted(at(159));
    assert_eq!((s.window_end(), s.due()), (Some(at(450)), Some(at(300))));
}

#[test]
fn a_heartbeat_that_a_policy_forbids_is_tried_again_while_the_window_may_be_open_and_then_every_five_minutes()
 {
    let mut s = HeartbeatSchedule::new(
        at(0),
        ActionOrigin::TakenOver { at: at(10), without_leader: seconds(15) },
        0.0,
        None,
    );
    assert_eq!(s.due(), Some(at(10)));
    s.sent(at(10));
    s.forbidden(at(10));
    assert_eq!(
        s.due(),
        Some(at_ms(17_500)),
        "a quarter of the 30 s that are assumed of a hook that is not described"
    );
    // Its last heartbeat was accepted at 10 s at the latest: its window ends by 310 s.
    s.described(at(12), described(300, 6_000));
    s.hasten(at(12));
    let mut tries = vec![];
    while tries.len() < 10 {
        let due = s.due_to_prove().unwrap();
        assert_eq!(s.due(), Some(due), "somebody who waits makes it no faster");
        tries.push(due.since_or_zero(at(0)).as_secs());
        s.sent(due);
        s.forbidden(due);
    }
    assert_eq!(tries, [85, 141, 183, 215, 238, 268, 298, 328, 628, 928]);
    s.sent(at(1228));
    s.accepted(at(1228));
    assert!(s.due().is_some_and(|due| due <= at(1378)), "allowed again, it goes on as ever");
    assert_eq!(s.ends_by(), at(6_000));
    assert_eq!(HeartbeatSchedule::new(at(0), received(0), 0.0, None).ends_by(), at(48 * 3600));
}

#[test]
fn an_action_ends_by_its_global_timeout_unless_a_later_heartbeat_shows_that_its_event_had_a_wrong_time()
 {
    let mut s = HeartbeatSchedule::new(at(0), received(4000), 0.0, Some(of_timeout(30)));
    assert_eq!(s.ends_by(), at(3_000));
    s.sent(at(4000));
    s.failed(at(4001));
    assert_eq!(s.ends_by(), at(3_000));
    s.sent(at(4002));
    s.accepted(at(4003));
    assert_eq!(s.ends_by(), at(7_000), "it was open when it came to us");
}
