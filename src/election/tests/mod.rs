//! How a process bids for the Lease, renews it and loses it.

mod giving_up;

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

    /// Answers the write in `effects` as a server would that accepts it.
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
    let draft = Draft {
        holder: Some("me".to_owned()),
        duration: seconds(15),
        acquired: at(1.0),
        renewed: at(1.0),
        transitions: 0,
    };
    assert_eq!(effects, [Effect::Create(draft)]);
    assert_eq!(bench.machine.may_write_until(), None);
    assert_eq!(bench.accept(2.5, &effects), [Effect::BecameLeader { term: 0 }]);
    assert_eq!(
        bench.machine.may_write_until(),
        Some(at(11.0)),
        "counted from the sending, not from the answer"
    );
}

#[test]
fn a_leader_renews_every_retry_period_and_keeps_acquire_time_and_transitions() {
    let mut bench = Bench::leading();
    assert_eq!(bench.machine.next_wake(), Some(at(2.0)));
    assert_eq!(bench.step(1.9, Input::Tick), []);
    let renewal = bench.step(2.0, Input::Tick);
    let (version, draft) = drafted(&renewal);
    assert_eq!(
        (version, draft.acquired, draft.renewed, draft.transitions),
        ("101", at(0.0), at(2.0), 0)
    );
    assert_eq!(bench.accept(2.5, &renewal), []);
    assert_eq!(bench.machine.may_write_until(), Some(at(12.0)));
}

#[test]
fn a_leader_that_cannot_renew_stops_at_the_deadline_of_the_last_accepted_request() {
    let mut bench = Bench::leading();
    assert_eq!(bench.step(2.0, Input::Tick).len(), 1);
    assert_eq!(
        bench.step(7.0, Input::WriteFailed).len(),
        1,
        "the next request leaves at once after one that hung"
    );
    assert_eq!(bench.machine.next_wake(), Some(at(10.0)), "although a request is under way");
    assert_eq!(bench.step(10.0, Input::Tick), [Effect::Lost(Lost::Deadline)]);
    assert_eq!(bench.machine.may_write_until(), None);
}

/// A leader that could not renew the lease and lost it at 10 s; a request is under way.
fn heartbeats_only() -> Bench {
    let mut bench = Bench::leading();
    assert!(!bench.machine.is_heartbeats_only());
    bench.step(2.0, Input::Tick);
    assert_eq!(bench.step(10.0, Input::Tick), [Effect::Lost(Lost::Deadline)]);
    assert!(bench.machine.is_heartbeats_only());
    assert_eq!(bench.step(10.5, Input::WriteFailed).len(), 1);
    bench
}

#[test]
fn a_leader_that_could_not_renew_sends_heartbeats_only_until_another_holds_it_leads_again_or_stops()
{
    let mut other = heartbeats_only();
    other.step(11.0, Input::WriteConflict);
    other.step(11.1, Input::Observed(lease("300", "other", 11.0)));
    assert!(!other.machine.is_heartbeats_only() && other.machine.may_write_until().is_none());

    let mut again = heartbeats_only();
    again.step(11.0, Input::WriteConflict);
    let renewal = again.step(11.1, Input::Observed(lease("300", "me", 0.0)));
    assert!(again.machine.is_heartbeats_only(), "the lease names nobody else");
    assert!(matches!(again.accept(11.2, &renewal).as_slice(), [Effect::BecameLeader { .. }]));
    assert!(!again.machine.is_heartbeats_only());

    let mut stopping = heartbeats_only();
    stopping.step(11.0, Input::Stop);
    assert!(!stopping.machine.is_heartbeats_only());
    let mut stolen = Bench::leading();
    stolen.step(1.0, Input::Nudge(Some("200".to_owned())));
    stolen.step(1.1, Input::Observed(lease("200", "thief", 1.0)));
    assert!(!stolen.machine.is_heartbeats_only());
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
        assert_eq!(
            bench.step(1_000_000.5, Input::Observed(lease("7", "other", 1_000_000.0 + clock))),
            []
        );
        // Read again: only an annotation changed, which does not show that the holder is alive.
        assert_eq!(bench.step(1_000_002.5, Input::Tick), [Effect::Get]);
        assert_eq!(
            bench.step(1_000_002.6, Input::Observed(lease("8", "other", 1_000_000.0 + clock))),
            []
        );
        for n in 2..7 {
            let now = 1_000_000.6 + 2.0 * f64::from(n);
            assert_eq!(bench.step(now, Input::Tick), [Effect::Get], "{now}");
            assert_eq!(
                bench.step(now, Input::Observed(lease("8", "other", 1_000_000.0 + clock))),
                [],
                "{now}"
            );
        }
        assert_eq!(
            bench.machine.next_wake().map(|w| w.min(at(1_000_015.5))),
            bench.machine.next_wake(),
            "wakes when it expires"
        );
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
    assert_eq!(
        bench.step(0.6, Input::Nudge(Some("2".to_owned()))),
        [Effect::Get],
        "what a watch shows only makes the machine read"
    );
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
fn the_holder_of_a_deleted_lease_creates_it_again_while_others_wait_for_a_duration() {
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

/// The machine reads every two seconds that there is no Lease.
fn reads_that_it_is_missing(bench: &mut Bench, seconds: std::ops::RangeInclusive<u32>) {
    for at in seconds.step_by(2) {
        assert_eq!(bench.step(f64::from(at), Input::Tick), [Effect::Get]);
        assert_eq!(bench.step(f64::from(at), Input::NotFound), []);
    }
}

/// Meanwhile another process may have created the Lease and led, and somebody may have deleted it
/// without that process knowing yet.
#[test]
fn a_standby_that_could_not_read_for_a_while_waits_a_duration_even_if_the_lease_was_missing_before()
{
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

/// A refused Create shows that a Lease existed, even if the next read finds none.
#[test]
fn the_loser_of_a_race_for_a_missing_lease_waits_for_a_duration_if_it_is_missing_again() {
    let mut other = Bench::new();
    other.step(0.0, Input::Tick);
    let create = other.step(0.1, Input::NotFound);
    assert!(matches!(create.as_slice(), [Effect::Create(_)]), "{create:?}");
    assert_eq!(other.step(0.2, Input::WriteConflict), [Effect::Get]);
    assert_eq!(other.step(1.0, Input::NotFound), []);
    reads_that_it_is_missing(&mut other, 3..=15);
    assert!(matches!(other.step(16.0, Input::Tick).as_slice(), [Effect::Create(_)]));
}
