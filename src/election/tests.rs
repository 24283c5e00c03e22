use std::time::Duration;

use super::*;

fn at(s: f64) -> Moment {
    Moment::UNIX_EPOCH.plus(Duration::from_secs_f64(s))
}

fn lease(version: &str, holder: &str, renewed: f64) -> Observed {
    Observed {
        resource_version: version.to_owned(),
        holder: (!holder.is_empty()).then(|| holder.to_owned()),
        duration: Some(seconds(15)),
        acquired: Some(at(renewed)),
        renewed: Some(at(renewed)),
        transitions: 3,
    }
}

struct Bench {
    machine: Machine,
    version: u32,
}

impl Bench {
    fn new() -> Self {
        Self { machine: Machine::new("me".to_owned(), Settings::default()), version: 100 }
    }

    fn step(&mut self, now: f64, input: Input) -> Vec<Effect> {
        self.machine.step(at(now), 0.999, input)
    }

    /// Answers the write in `effects` as a server would that has nothing against it.
    fn accept(&mut self, now: f64, effects: &[Effect]) -> Vec<Effect> {
        let draft = effects.iter().find_map(|e| match e {
            Effect::Create(draft) | Effect::Update(_, draft) => Some(draft.clone()),
            _ => None,
        });
        let draft = draft.unwrap_or_else(|| panic!("no write in {effects:?}"));
        self.version += 1;
        let is = Observed {
            resource_version: self.version.to_string(),
            holder: draft.holder,
            duration: Some(draft.duration),
            acquired: Some(draft.acquired),
            renewed: Some(draft.renewed),
            transitions: draft.transitions,
        };
        self.step(now, Input::WriteAccepted(is))
    }

    /// A leader since 0 s.
    fn leading() -> Self {
        let mut bench = Self::new();
        assert_eq!(bench.step(0.0, Input::Tick), [Effect::Get]);
        let create = bench.step(0.0, Input::NotFound);
        assert_eq!(bench.accept(0.1, &create), [Effect::BecameLeader { term: 0 }]);
        bench
    }
}

fn drafted(effects: &[Effect]) -> (&str, &Draft) {
    match effects {
        [.., Effect::Update(version, draft)] => (version, draft),
        _ => panic!("no update in {effects:?}"),
    }
}

#[test]
fn a_missing_lease_is_created_and_led_from_the_sending_of_the_request() {
    let mut bench = Bench::new();
    assert_eq!(bench.step(0.0, Input::Tick), [Effect::Get]);
    let effects = bench.step(1.0, Input::NotFound);
    let draft = Draft { holder: Some("me".to_owned()), duration: seconds(15), acquired: at(1.0), renewed: at(1.0), transitions: 0 };
    assert_eq!(effects, [Effect::Create(draft)]);
    assert_eq!(bench.machine.may_write_until(), None);
    assert_eq!(bench.accept(2.5, &effects), [Effect::BecameLeader { term: 0 }]);
    assert_eq!(bench.machine.may_write_until(), Some(at(11.0)), "counted from the sending, not from the answer");
}

#[test]
fn a_leader_renews_every_retry_period_and_keeps_acquire_time_and_transitions() {
    let mut bench = Bench::leading();
    assert_eq!(bench.machine.next_wake(), Some(at(2.0)));
    assert_eq!(bench.step(1.9, Input::Tick), []);
    let renewal = bench.step(2.0, Input::Tick);
    let (version, draft) = drafted(&renewal);
    assert_eq!((version, draft.acquired, draft.renewed, draft.transitions), ("101", at(0.0), at(2.0), 0));
    assert_eq!(bench.accept(2.5, &renewal), []);
    assert_eq!(bench.machine.may_write_until(), Some(at(12.0)));
}

#[test]
fn a_leader_that_cannot_renew_stops_at_the_deadline_of_the_last_accepted_request() {
    let mut bench = Bench::leading();
    assert_eq!(bench.step(2.0, Input::Tick).len(), 1);
    assert_eq!(bench.step(7.0, Input::WriteFailed).len(), 1, "a request that hung is followed at once");
    assert_eq!(bench.machine.next_wake(), Some(at(10.0)), "although a request is under way");
    assert_eq!(bench.step(10.0, Input::Tick), [Effect::Lost(Lost::Deadline)]);
    assert_eq!(bench.machine.may_write_until(), None);
}

/// A leader that could not renew, at 10 s; a request is under way.
fn stranded() -> Bench {
    let mut bench = Bench::leading();
    assert!(!bench.machine.is_stranded());
    bench.step(2.0, Input::Tick);
    assert_eq!(bench.step(10.0, Input::Tick), [Effect::Lost(Lost::Deadline)]);
    assert!(bench.machine.is_stranded());
    assert_eq!(bench.step(10.5, Input::WriteFailed).len(), 1);
    bench
}

#[test]
fn a_leader_that_could_not_renew_is_stranded_until_it_sees_another_holder_leads_again_or_gives_up() {
    let mut other = stranded();
    other.step(11.0, Input::WriteConflict);
    other.step(11.1, Input::Observed(lease("300", "other", 11.0)));
    assert!(!other.machine.is_stranded() && other.machine.may_write_until().is_none());

    let mut again = stranded();
    again.step(11.0, Input::WriteConflict);
    let renewal = again.step(11.1, Input::Observed(lease("300", "me", 0.0)));
    assert!(again.machine.is_stranded(), "the lease names nobody else");
    assert!(matches!(again.accept(11.2, &renewal).as_slice(), [Effect::BecameLeader { .. }]));
    assert!(!again.machine.is_stranded());

    let mut stopping = stranded();
    stopping.step(11.0, Input::Stop);
    assert!(!stopping.machine.is_stranded());
    let mut stolen = Bench::leading();
    stolen.step(1.0, Input::Nudge(Some("200".to_owned())));
    stolen.step(1.1, Input::Observed(lease("200", "thief", 1.0)));
    assert!(!stolen.machine.is_stranded());
}

#[test]
fn an_acceptance_that_comes_after_its_own_deadline_makes_no_leader_and_is_renewed_at_once() {
    let mut bench = Bench::new();
    bench.step(0.0, Input::Tick);
    let create = bench.step(0.0, Input::NotFound);
    let again = bench.accept(10.0, &create);
    assert_eq!(again.len(), 1);
    assert_eq!(drafted(&again).0, "101");
    assert_eq!(bench.accept(10.1, &again), [Effect::BecameLeader { term: 0 }]);
}

#[test]
fn a_fast_refusal_is_not_repeated_before_the_retry_period() {
    let mut bench = Bench::leading();
    bench.step(2.0, Input::Tick);
    assert_eq!(bench.step(2.1, Input::WriteFailed), []);
    assert_eq!(bench.machine.next_wake(), Some(at(4.0)));
    assert_eq!(bench.step(4.0, Input::Tick).len(), 1);
}

#[test]
fn a_foreign_lease_expires_by_the_time_at_which_it_was_seen_to_change_whatever_its_clock_says() {
    for clock in [-1_000_000.0, 0.0, 1_000_000.0] {
        let mut bench = Bench::new();
        bench.step(1_000_000.0, Input::Tick);
        assert_eq!(bench.step(1_000_000.5, Input::Observed(lease("7", "other", 1_000_000.0 + clock))), []);
        // Read again: nothing changed but an annotation, which is no sign of life.
        assert_eq!(bench.step(1_000_002.5, Input::Tick), [Effect::Get]);
        assert_eq!(bench.step(1_000_002.6, Input::Observed(lease("8", "other", 1_000_000.0 + clock))), []);
        for n in 2..7 {
            let now = 1_000_000.6 + 2.0 * f64::from(n);
            assert_eq!(bench.step(now, Input::Tick), [Effect::Get], "{now}");
            assert_eq!(bench.step(now, Input::Observed(lease("8", "other", 1_000_000.0 + clock))), [], "{now}");
        }
        assert_eq!(bench.machine.next_wake().map(|w| w.min(at(1_000_015.5))), bench.machine.next_wake(), "wakes when it expires");
        let effects = bench.step(1_000_015.5, Input::Tick);
        let (version, draft) = drafted(&effects);
        assert_eq!((version, draft.holder.as_deref(), draft.transitions), ("8", Some("me"), 4));
        assert_eq!(bench.accept(1_000_015.6, &effects), [Effect::BecameLeader { term: 4 }]);
    }
}

#[test]
fn a_renewal_seen_starts_the_wait_anew() {
    let mut bench = Bench::new();
    bench.step(0.0, Input::Tick);
    bench.step(0.0, Input::Observed(lease("1", "other", 0.0)));
    bench.step(14.0, Input::Tick);
    bench.step(14.0, Input::Observed(lease("2", "other", 14.0)));
    assert_eq!(bench.step(28.9, Input::Tick), [Effect::Get]);
    bench.step(28.9, Input::Observed(lease("2", "other", 14.0)));
    assert_eq!(drafted(&bench.step(29.0, Input::Tick)).0, "2");
}

#[test]
fn a_released_lease_is_taken_at_once_when_a_watch_shows_it() {
    let mut bench = Bench::new();
    bench.step(0.0, Input::Tick);
    bench.step(0.0, Input::Observed(lease("1", "other", 0.0)));
    assert_eq!(bench.step(0.5, Input::Nudge(Some("1".to_owned()))), [], "nothing new");
    assert_eq!(bench.step(0.6, Input::Nudge(Some("2".to_owned()))), [Effect::Get], "the watch is not believed, it makes us read");
    let effects = bench.step(0.7, Input::Observed(lease("2", "", 0.6)));
    let (version, draft) = drafted(&effects);
    assert_eq!((version, draft.transitions), ("2", 4));
}

#[test]
fn the_loser_of_a_race_reads_and_waits() {
    let mut bench = Bench::new();
    bench.step(0.0, Input::Tick);
    assert_eq!(bench.step(0.0, Input::Observed(lease("1", "", 0.0))).len(), 1);
    assert_eq!(bench.step(0.1, Input::WriteConflict), [Effect::Get]);
    assert_eq!(bench.step(0.2, Input::Observed(lease("2", "other", 0.1))), []);
    assert_eq!(bench.machine.holder(), Some("other"));
}

#[test]
fn a_leader_whose_lease_got_an_annotation_reads_and_renews_without_losing_it() {
    let mut bench = Bench::leading();
    bench.step(2.0, Input::Tick);
    assert_eq!(bench.step(2.1, Input::WriteConflict), [Effect::Get]);
    let mut same = lease("500", "me", 0.0);
    same.transitions = 0;
    let renewal = bench.step(2.2, Input::Observed(same));
    assert_eq!(drafted(&renewal).0, "500");
    assert_eq!(bench.accept(2.3, &renewal), []);
    assert_eq!(bench.machine.may_write_until(), Some(at(12.2)));
}

#[test]
fn a_server_that_refuses_every_write_is_not_hammered() {
    let mut bench = Bench::leading();
    bench.step(2.0, Input::Tick);
    let mut requests = 0;
    let mut now = 2.0;
    while now < 9.9 {
        now += 0.01;
        let effects = match bench.machine.next_wake() {
            Some(wake) if wake > at(now) => continue,
            Some(_) => bench.step(now, Input::Tick),
            None if requests % 2 == 0 => bench.step(now, Input::WriteConflict),
            None => bench.step(now, Input::Observed(lease("600", "me", 0.0))),
        };
        requests += effects.len();
    }
    assert!(requests < 40, "{requests} requests in 8 s");
}

#[test]
fn a_stolen_lease_ends_leadership_at_once() {
    let mut bench = Bench::leading();
    assert_eq!(bench.step(1.0, Input::Nudge(Some("200".to_owned()))), [Effect::Get]);
    let effects = bench.step(1.1, Input::Observed(lease("200", "thief", 1.0)));
    assert_eq!(effects, [Effect::Lost(Lost::Taken(Some("thief".to_owned())))]);
    assert_eq!(bench.machine.may_write_until(), None);
}

#[test]
fn the_holder_of_a_deleted_lease_writes_it_again_and_leads_on_while_others_wait_for_a_duration() {
    let mut holder = Bench::leading();
    assert_eq!(holder.step(1.0, Input::Nudge(None)), [Effect::Get]);
    let create = holder.step(1.1, Input::NotFound);
    assert!(matches!(create.as_slice(), [Effect::Create(_)]), "{create:?}");
    assert_eq!(holder.accept(1.2, &create), []);
    assert_eq!(holder.machine.may_write_until(), Some(at(11.1)));

    let mut other = Bench::new();
    other.step(0.0, Input::Tick);
    other.step(0.1, Input::Observed(lease("1", "me too", 0.0)));
    assert_eq!(other.step(1.0, Input::Nudge(None)), [Effect::Get]);
    assert_eq!(other.step(1.1, Input::NotFound), []);
    reads_that_it_is_missing(&mut other, 4..=16);
    assert!(matches!(other.step(16.1, Input::Tick).as_slice(), [Effect::Create(_)]));
}

/// It reads every two seconds that there is no Lease.
fn reads_that_it_is_missing(bench: &mut Bench, seconds: std::ops::RangeInclusive<u32>) {
    for at in seconds.step_by(2) {
        assert_eq!(bench.step(f64::from(at), Input::Tick), [Effect::Get]);
        assert_eq!(bench.step(f64::from(at), Input::NotFound), []);
    }
}

/// Meanwhile another process may have made the Lease and led, and somebody may have deleted it: that process does not know yet.
#[test]
fn who_could_not_read_for_a_while_waits_for_a_duration_although_the_lease_was_missing_before() {
    let mut other = Bench::new();
    other.step(0.0, Input::Tick);
    other.step(0.1, Input::Observed(lease("1", "me too", 0.0)));
    assert_eq!(other.step(1.0, Input::Nudge(None)), [Effect::Get]);
    assert_eq!(other.step(1.1, Input::NotFound), []);
    assert_eq!(other.step(3.2, Input::Tick), [Effect::Get]);
    assert_eq!(other.step(8.2, Input::ReadFailed), [Effect::Get]);
    assert_eq!(other.step(20.0, Input::NotFound), [], "from here on it waits anew");
    reads_that_it_is_missing(&mut other, 22..=34);
    assert!(matches!(other.step(35.0, Input::Tick).as_slice(), [Effect::Create(_)]));
}

/// A Create that is refused says that there is a Lease, whoever reads next that there is none.
#[test]
fn who_lost_a_race_for_a_missing_lease_waits_for_a_duration_if_it_is_missing_again() {
    let mut other = Bench::new();
    other.step(0.0, Input::Tick);
    let create = other.step(0.1, Input::NotFound);
    assert!(matches!(create.as_slice(), [Effect::Create(_)]), "{create:?}");
    assert_eq!(other.step(0.2, Input::WriteConflict), [Effect::Get]);
    assert_eq!(other.step(1.0, Input::NotFound), []);
    reads_that_it_is_missing(&mut other, 3..=15);
    assert!(matches!(other.step(16.0, Input::Tick).as_slice(), [Effect::Create(_)]));
}

#[test]
fn stopping_gives_the_lease_up_after_the_last_write() {
    let mut bench = Bench::leading();
    assert_eq!(bench.step(1.0, Input::Stop), [Effect::Lost(Lost::GivenUp)], "no write of ours may follow the release");
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
        assert!(bench.machine.is_closing() && bench.machine.is_stranded(), "heartbeats go on");
        let renewal = bench.step(2.0, Input::Tick);
        assert_eq!(drafted(&renewal).1.holder.as_deref(), Some("me"));
        assert_eq!(bench.accept(2.1, &renewal), [], "a renewal makes no new term");
        assert_eq!((bench.machine.may_write_until(), bench.machine.holds_until()), (None, Some(at(12.0))));
        assert_eq!(bench.step(3.0, ends.clone()), [], "it is closing already");
        let release = bench.step(3.5, Input::WritesOver);
        assert_eq!(drafted(&release).1.holder, None);
        assert_eq!((bench.machine.is_closing(), bench.machine.is_stranded()), (false, ends != Input::Stop));
        assert_eq!(bench.machine.holds_until(), None);
        let stopped = bench.accept(3.6, &release);
        assert!(!bench.machine.is_stranded(), "another process may lead now");
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
fn a_lease_that_is_lost_while_the_last_writes_are_under_way_is_not_bid_for_again_by_a_process_that_stops() {
    let mut expired = Bench::leading();
    expired.step(1.0, Input::Stop);
    expired.step(2.0, Input::Tick);
    assert_eq!(expired.step(10.0, Input::Tick), [], "the end of leadership was reported before");
    assert!(!expired.machine.is_closing() && !expired.machine.is_stranded() && expired.machine.holds_until().is_none());
    assert_eq!(expired.step(10.1, Input::WriteFailed), [Effect::Get], "what became of the renewal must be known");
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
    assert!(yielding.machine.is_stranded(), "it is not known that anybody else leads");
}

#[test]
fn heartbeats_of_a_process_that_yields_go_on_until_the_lease_is_given_up() {
    let yielding = || {
        let mut bench = Bench::leading();
        bench.step(1.0, Input::Yield(seconds(5)));
        let release = bench.step(1.0, Input::WritesOver);
        assert_eq!(drafted(&release).1.holder, None);
        bench.step(1.1, Input::WriteFailed);
        assert!(bench.machine.is_stranded() && bench.machine.may_write_until().is_none());
        assert_eq!(bench.step(3.0, Input::Tick), [Effect::Get], "what became of the write must be known");
        bench
    };
    let mut refused = yielding();
    let release = refused.step(3.1, Input::Observed(lease("101", "me", 0.0)));
    assert!(refused.machine.is_stranded(), "the lease names nobody else");
    refused.accept(3.2, &release);
    assert!(!refused.machine.is_stranded());

    let mut taken = yielding();
    taken.step(3.1, Input::Observed(lease("200", "other", 3.0)));
    assert!(!taken.machine.is_stranded());

    let mut stopping = yielding();
    stopping.step(3.1, Input::Stop);
    assert!(!stopping.machine.is_stranded());
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
        assert_eq!(bench.step(0.1, Input::Stop), [], "what comes of the bid is not known yet");
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
    assert_eq!(bench.step(now + 1.0, Input::Yield(seconds(5))), [], "given up once, not again and again");
    assert!(bench.machine.may_write_until().is_some());
}

#[test]
fn a_standby_on_a_draining_node_lets_others_bid_first() {
    let mut bench = Bench::new();
    bench.step(0.0, Input::Yield(seconds(5)));
    bench.step(0.0, Input::Tick);
    assert_eq!(bench.step(0.0, Input::Observed(lease("1", "", 0.0))), []);
    assert_eq!(bench.step(1.0, Input::Eager).len(), 1, "as soon as the drain is over it bids as ever");
}
