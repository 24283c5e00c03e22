use std::collections::BTreeMap;

use super::*;

fn key(hook: &str) -> HookKey {
    HookKey {
        instance: "i-1234567890abcdef0".parse().unwrap(),
        group: "asg".into(),
        hook: hook.into(),
    }
}

pub(super) fn taken(kind: Kind, time: i64, accepted: i64) -> InterruptionFacts {
    InterruptionFacts {
        kind: Some(kind),
        event_id: "e".into(),
        time: at(time),
        accepted: at(accepted),
        hook: None,
        ends: None,
        state: None,
        stale: false,
        response: Response::Drain,
        settings: DrainSettings::NONE,
        reason: None,
    }
}

fn hook(name: &str, time: i64, accepted: i64) -> InterruptionFacts {
    InterruptionFacts {
        hook: Some(LifecycleAction { key: key(name), token: None }),
        ..taken(Kind::TerminateHook, time, accepted)
    }
}

fn state(state: InstanceState, time: i64, accepted: i64) -> InterruptionFacts {
    InterruptionFacts { state: Some(state), ..taken(Kind::StateChange, time, accepted) }
}

fn capacity(ends: Option<i64>, time: i64, accepted: i64) -> InterruptionFacts {
    InterruptionFacts { ends: ends.map(at), ..taken(Kind::CapacityReservation, time, accepted) }
}

fn block(ends: Option<i64>, time: i64, accepted: i64) -> InterruptionFacts {
    InterruptionFacts { ends: ends.map(at), ..taken(Kind::CapacityBlock, time, accepted) }
}

fn known(d: HookDescription) -> HookFacts {
    HookFacts { description: Some(d), ..HookFacts::default() }
}

struct Case {
    taken: Vec<InterruptionFacts>,
    drain: Option<HookFacts>,
    resumed_at: i64,
    drain_timeout: Option<u64>,
}

impl Case {
    fn of(taken: impl Into<Vec<InterruptionFacts>>) -> Self {
        let taken = taken.into();
        let resumed_at = taken.iter().map(|t| t.accepted).min().unwrap();
        Self { drain: None, resumed_at: whole(resumed_at), drain_timeout: None, taken }
    }

    fn hook(mut self, facts: HookFacts) -> Self {
        self.drain = Some(facts);
        self
    }

    fn resumed_at(mut self, at: i64) -> Self {
        self.resumed_at = at;
        self
    }

    fn drain_timeout(mut self, seconds: u64) -> Self {
        self.drain_timeout = Some(seconds);
        self
    }

    fn limits(&self) -> Limits {
        let hooks = self
            .drain
            .iter()
            .map(|f| (LifecycleAction { key: key("drain"), token: None }, f.clone()))
            .collect();
        let settings = LimitSettings {
            drain_timeout: self.drain_timeout.map(seconds),
            ..LimitSettings::default()
        };
        limits(&self.taken, &hooks, at(self.resumed_at), &settings)
    }

    /// Forced at, ended at.
    fn told(&self) -> (Option<i64>, i64) {
        let l = self.limits();
        (l.force_at.map(whole), whole(l.end_at.unwrap()))
    }
}

#[test]
fn each_kind_has_the_deadline_that_its_facts_give() {
    use InstanceState::{Running, ShuttingDown, Stopped, Stopping, Terminated};
    let h = |timeout| known(of_timeout(timeout));
    for (name, case, force, end) in [
        (
            "spot: notice + 120 s, forced 10 s early",
            Case::of([taken(Kind::Spot, 0, 4)]),
            Some(110),
            118,
        ),
        (
            "capacity: the stated time, forced 5 s early",
            Case::of([capacity(Some(600), 0, 4)]),
            Some(595),
            598,
        ),
        ("capacity without one", Case::of([capacity(None, 0, 4)]), Some(115), 118),
        (
            "Capacity Block: 30 min before its end, forced 5 s early",
            Case::of([block(Some(2500), 0, 4)]),
            Some(695),
            698,
        ),
        ("Capacity Block without an end", Case::of([block(None, 0, 4)]), Some(595), 598),
        ("stopping: event + 30 s", Case::of([state(Stopping, 0, 4)]), Some(25), 28),
        ("shutting down", Case::of([state(ShuttingDown, 0, 4)]), Some(25), 28),
        ("stopped: nothing to force", Case::of([state(Stopped, 0, 4)]), None, 3604),
        ("terminated", Case::of([state(Terminated, 0, 4)]), None, 3604),
        ("running", Case::of([state(Running, 0, 4)]), None, 3604),
        ("a kind that ends nothing", Case::of([taken(Kind::ScheduledChange, 0, 4)]), None, 3604),
        ("hook: accept + one hour", Case::of([hook("drain", 0, 4)]).hook(h(300)), Some(3599), 3602),
        (
            "hook: its own timeout where longer",
            Case::of([hook("drain", 0, 4)]).hook(h(7200)),
            Some(7199),
            7202,
        ),
        (
            "hook: --drain-timeout",
            Case::of([hook("drain", 0, 4)]).hook(h(7200)).drain_timeout(90),
            Some(89),
            92,
        ),
        (
            "hook: the global timeout less 60 s",
            Case::of([hook("drain", 0, 4)]).hook(h(30)),
            Some(2935),
            2938,
        ),
        ("hook: not described", Case::of([hook("drain", 0, 4)]), Some(3599), 3602),
        (
            "hook: not described, a longer --drain-timeout",
            Case::of([hook("drain", 0, 4)]).drain_timeout(9000),
            Some(3599),
            3602,
        ),
        (
            "hook: not described, a shorter one",
            Case::of([hook("drain", 0, 4)]).drain_timeout(90),
            Some(89),
            92,
        ),
    ] {
        assert_eq!(case.told(), (force, end), "{name}");
    }
}

#[test]
fn a_margin_takes_at_most_half_of_the_available_time() {
    let long = LimitSettings {
        margin: seconds(300),
        spot_margin: seconds(300),
        ..LimitSettings::default()
    };
    let force_at = |t: InterruptionFacts, hooks: &BTreeMap<LifecycleAction, HookFacts>| {
        limits(&[t], hooks, at(1), &long).force_at.map(whole)
    };
    let none = BTreeMap::new();
    assert_eq!(force_at(state(InstanceState::Stopping, 0, 1), &none), Some(15));
    assert_eq!(force_at(taken(Kind::Spot, 0, 1), &none), Some(60));
    assert_eq!(force_at(capacity(Some(100), 0, 1), &none), Some(50));
    let lapsing = HookFacts { lapse: Some(at(300)), ..known(of_timeout(300)) };
    let hooks = BTreeMap::from([(LifecycleAction { key: key("drain"), token: None }, lapsing)]);
    assert_eq!(force_at(hook("drain", 0, 1), &hooks), Some(150), "the end of a window");
}

#[test]
fn the_drain_still_waits_for_its_pods_during_the_margin() {
    for (margin, force, end) in
        [(0, 120, 120), (1, 119, 119), (2, 118, 118), (10, 110, 118), (300, 60, 118)]
    {
        let settings = LimitSettings { spot_margin: seconds(margin), ..LimitSettings::default() };
        let l = limits(&[taken(Kind::Spot, 0, 1)], &BTreeMap::new(), at(1), &settings);
        assert_eq!(
            (l.force_at, l.end_at),
            (Some(at(force)), Some(at(end))),
            "a margin of {margin} s"
        );
    }
    let both = Case::of([taken(Kind::Spot, 0, 1), capacity(Some(117), 0, 1)]).limits();
    assert_eq!(
        (both.force_at, both.end_at),
        (Some(at(110)), Some(at(115))),
        "the earliest of each"
    );
}

#[test]
fn the_first_description_sets_the_deadline_later_too() {
    let case = Case::of([hook("drain", 0, 4)]).drain_timeout(9000);
    assert_eq!(case.told(), (Some(3599), 3602));
    let case = case.hook(known(of_timeout(7200)));
    assert_eq!(case.told(), (Some(8999), 9002));
}

#[test]
fn once_two_thirds_of_a_window_are_over_its_end_is_the_deadline_until_a_heartbeat_is_accepted() {
    let mut s = HeartbeatSchedule::new(at(0), received(1), 0.0, Some(of_timeout(300)));
    let told = |s: &HeartbeatSchedule, now: i64| {
        Case::of([hook("drain", 0, 1)]).hook(s.facts(at(now))).told().0
    };
    assert_eq!(s.lapses_at(), Some(at(200)));
    assert_eq!((told(&s, 199), told(&s, 200)), (Some(3596), Some(295)));
    s.sent(at(210));
    s.failed(at(215));
    assert_eq!(told(&s, 215), Some(295));
    s.sent(at(220));
    s.accepted(at(221));
    assert_eq!(told(&s, 221), Some(3596), "the accepted heartbeat moved it");
    assert_eq!((told(&s, 419), told(&s, 420)), (Some(3596), Some(515)));
}

#[test]
fn a_deadline_that_has_passed_when_the_drain_is_resumed_does_not_count() {
    let h = |timeout| known(of_timeout(timeout));
    for (name, case, force, end) in [
        (
            "a notice read late: own grace, nothing forced",
            Case::of([taken(Kind::Spot, 0, 130)]),
            None,
            3730,
        ),
        ("a notice whose margin has begun", Case::of([taken(Kind::Spot, 0, 110)]), None, 3710),
        ("one second before that", Case::of([taken(Kind::Spot, 0, 109)]), Some(110), 118),
        (
            "a notice that another leader left behind",
            Case::of([taken(Kind::Spot, 0, 1)]).resumed_at(500).drain_timeout(60),
            None,
            560,
        ),
        (
            "in time at the accept and at the take-over",
            Case::of([taken(Kind::Spot, 0, 1)]).resumed_at(60),
            Some(110),
            118,
        ),
        ("a state change", Case::of([state(InstanceState::Stopping, 0, 31)]), None, 3631),
        (
            "a hook counts from the resume",
            Case::of([hook("drain", 0, 1)]).hook(h(300)).resumed_at(5000),
            Some(8595),
            8598,
        ),
        (
            "but not beyond its global timeout",
            Case::of([hook("drain", 0, 1)]).hook(h(300)).resumed_at(29_000),
            Some(29_935),
            29_938,
        ),
        (
            "and if that is over, nothing is forced",
            Case::of([hook("drain", 0, 1)]).hook(h(300)).resumed_at(29_950),
            None,
            33_550,
        ),
        (
            "the end of a window that was over",
            Case::of([hook("drain", 0, 400)]).hook(HookFacts { lapse: Some(at(300)), ..h(300) }),
            Some(3995),
            3998,
        ),
        (
            "what is not described counts from the resume too",
            Case::of([hook("drain", 0, 1)]).resumed_at(5000),
            Some(8595),
            8598,
        ),
    ] {
        assert_eq!(case.told(), (force, end), "{name}");
    }
}

#[test]
fn the_end_of_a_machine_that_left_no_time_at_the_accept_does_not_count() {
    let joined_by = |starts: i64| {
        let change = InterruptionFacts {
            ends: Some(at(starts)),
            response: Response::Prefer,
            ..taken(Kind::ScheduledChange, 100, 100)
        };
        Case::of([hook("drain", 0, 4), change]).hook(known(of_timeout(300))).told()
    };
    let of_hook = (Some(3599), 3602);
    assert_eq!((joined_by(101), joined_by(104)), (of_hook, of_hook));
    assert_eq!(joined_by(105), (Some(102), 103));
    let of_spot = |accepted: i64, resumed_at: i64| {
        let settings = LimitSettings { spot_margin: Duration::ZERO, ..LimitSettings::default() };
        let notice = [taken(Kind::Spot, 0, accepted)];
        limits(&notice, &BTreeMap::new(), at(resumed_at), &settings).force_at.map(whole)
    };
    assert_eq!((of_spot(115, 115), of_spot(116, 116)), (Some(120), None), "without a margin");
    assert_eq!(of_spot(1, 119), Some(120), "there was time before this leader took over");
}

#[test]
fn a_deadline_that_counts_from_the_resume_delays_force_from_there_too() {
    let drained = |lapse: Option<i64>| {
        Case::of([hook("drain", 0, 1)])
            .hook(HookFacts { lapse: lapse.map(at), ..known(of_timeout(300)) })
    };
    for (name, case, force_at, accepted) in [
        ("it still runs", drained(None).resumed_at(60), 3596, 1),
        ("it was over at the resume", drained(None).resumed_at(5000), 8595, 5000),
        ("it was over, and a window ends before", drained(Some(5200)).resumed_at(5000), 5195, 1),
    ] {
        let l = case.limits();
        assert_eq!((l.force_at, l.accepted), (Some(at(force_at)), at(accepted)), "{name}");
    }
}

#[test]
fn the_earliest_of_several_deadlines_applies_with_its_accept() {
    let both =
        Case::of([hook("drain", 0, 1), taken(Kind::Spot, 100, 102)]).hook(known(of_timeout(300)));
    let l = both.limits();
    assert_eq!(
        (l.force_at, l.end_at, l.accepted, l.urgent),
        (Some(at(210)), Some(at(218)), at(102), true)
    );

    let late_notice =
        Case::of([hook("drain", 0, 1), taken(Kind::Spot, 0, 300)]).hook(known(of_timeout(300)));
    let l = late_notice.limits();
    assert_eq!((l.force_at, l.accepted), (Some(at(3596)), at(1)), "a void one lifts no other");

    let none =
        Case::of([taken(Kind::Spot, 0, 200), state(InstanceState::Stopping, 100, 205)]).limits();
    assert_eq!((none.force_at, none.accepted, none.end_at), (None, at(200), Some(at(3800))));
}

#[test]
fn the_time_of_an_interruption_that_joins_counts_from_its_accept() {
    let case =
        Case::of([hook("drain", 0, 1), taken(Kind::Spot, 5000, 5001)]).hook(known(of_timeout(300)));
    assert_eq!(case.told().0, Some(3596), "under the leader that took both on");
    assert_eq!(
        case.resumed_at(4000).told().0,
        Some(5110),
        "under one that took over between them, the hook's is void"
    );
}

#[test]
fn the_end_of_a_pause_restarts_no_deadline_that_is_still_ahead() {
    let spot = || Case::of([taken(Kind::Spot, 0, 1)]);
    assert_eq!((spot().told(), spot().resumed_at(50).told()), ((Some(110), 118), (Some(110), 118)));
    assert_eq!(
        spot().resumed_at(200).told().0,
        None,
        "held until it was over: nothing is shortened"
    );
}

#[test]
fn a_drain_is_urgent_if_its_instance_ends_within_minutes() {
    use InstanceState::{Pending, ShuttingDown};
    for (taken, urgent) in [
        (taken(Kind::Spot, 0, 1), true),
        (capacity(None, 0, 1), true),
        (block(None, 0, 1), true),
        (state(ShuttingDown, 0, 1), true),
        (state(Pending, 0, 1), false),
        (hook("drain", 0, 1), false),
        (taken(Kind::Rebalance, 0, 1), false),
    ] {
        assert_eq!(Case::of([taken.clone()]).limits().urgent, urgent, "{taken:?}");
    }
}

#[test]
fn an_event_time_in_the_future_adds_no_time() {
    assert_eq!(Case::of([taken(Kind::Spot, 1_000_000, 1)]).told(), (Some(111), 119));
    assert_eq!(
        Case::of([hook("drain", 1_000_000, 1)]).hook(known(of_timeout(30))).told().0,
        Some(2936)
    );
}

#[test]
fn a_record_without_a_readable_interruption_still_ends() {
    let l = limits(&[], &std::collections::BTreeMap::new(), at(0), &LimitSettings::default());
    assert_eq!((l.force_at, l.end_at, l.accepted), (None, Some(at(3600)), at(0)));
}

#[test]
fn the_end_of_a_window_that_is_about_to_lapse_is_not_a_lasting_deadline() {
    // What ends the instance half a minute after 32 is earlier than the notice's deadline, and
    // later than the window's end.
    let described = known(of_timeout(30));
    let lapsing = HookFacts { lapse: Some(at(38)), ..described.clone() };
    assert_eq!(lapsing.lasting(), described);
    let both = || Case::of([taken(Kind::Spot, 11, 12), hook("drain", 8, 12)]);
    let ends = |facts: HookFacts| both().hook(facts).told().1;
    assert_eq!(
        (ends(lapsing.clone()), ends(lapsing.lasting())),
        (36, 129),
        "the window ends the drain, and rules over no newcomer"
    );
}

#[test]
fn heartbeats_without_a_leader_end_when_the_drain_would_be_over() {
    let ends_by = at(30_000);
    let described = of_timeout(300);
    let long = of_timeout(7200);
    for (case, flag, own, resumed_at, hook, until) in [
        ("accepted, and the timeout is set", Some(120), None, Some(10), Some(&described), at(130)),
        ("an hour by default", None, None, Some(10), Some(&described), at(3610)),
        ("or as long as the hook waits", None, None, Some(10), Some(&long), at(7210)),
        ("not described", None, None, Some(10), None, at(3610)),
        ("resumed after a pause", Some(120), None, Some(210), Some(&described), at(330)),
        ("paused: a drain without an end", Some(120), None, None, Some(&described), ends_by),
        ("the hook gives more time", Some(120), Some(900), Some(10), Some(&described), at(910)),
        ("or less", None, Some(60), Some(10), Some(&long), at(70)),
    ] {
        let settings =
            LimitSettings { drain_timeout: flag.map(seconds), ..LimitSettings::default() };
        let own = own.map(seconds);
        let found = settings.heartbeats_until(resumed_at.map(at), ends_by, hook, own);
        assert_eq!(found, until, "{case}");
    }
}

#[test]
fn the_strongest_response_rules_and_a_recommendation_alone_expires() {
    let with = |response, facts| InterruptionFacts { response, ..facts };
    let rebalance = |response| with(response, taken(Kind::Rebalance, 0, 1));
    let limits_of =
        |all: &[InterruptionFacts]| limits(all, &BTreeMap::new(), at(1), &LimitSettings::default());
    let alone = limits_of(&[rebalance(Response::Prefer)]);
    assert_eq!(alone.expires_at, Some(at(3600)), "from the event on");
    assert_eq!((alone.force_at, alone.end_at, alone.response), (None, None, Response::Prefer));
    let twice = limits_of(&[
        rebalance(Response::Prefer),
        with(Response::Drain, taken(Kind::Rebalance, 50, 51)),
    ]);
    assert_eq!((twice.expires_at, twice.response), (Some(at(3650)), Response::Drain));

    let spot = taken(Kind::Spot, 100, 101);
    let both = limits_of(&[rebalance(Response::Prefer), spot.clone()]);
    assert_eq!(both, limits_of(std::slice::from_ref(&spot)), "the recommendation adds nothing");
    let limits = limits_of(&[rebalance(Response::Drain), with(Response::Cordon, spot)]);
    assert_eq!(limits.response, Response::Drain, "the pods leave, by the end of the instance");
    assert!(limits.end_at.is_some() && limits.expires_at.is_none());
}
