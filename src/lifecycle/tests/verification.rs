use super::*;

/// The time at which a drain with this deadline was taken up is 0.
fn facts(seen: ActionSeen, finding: Option<Finding>) -> VerificationFacts {
    VerificationFacts { is_needed: true, seen, finding, since: at(0) }
}

fn limits(force_at: Option<i64>) -> Limits {
    Limits { force_at: force_at.map(at), ..Limits::without_deadline(at(0), false) }
}

#[test]
fn a_drain_waits_for_the_first_answer_and_forces_nothing_without_one() {
    use ActionSeen::{Open, Over, Unanswered};
    use Finding::{Contradicted, MayEnd, Suspected, Unclear};
    use Verification as V;
    // The deadline of each is at 300 s.
    for (seen, finding, now, expected, until) in [
        (Open, None, 0, V::Verified, None),
        (Open, Some(Suspected), 0, V::Verified, None),
        (Unanswered, None, 0, V::AwaitingHeartbeat, Some(5)),
        (Unanswered, None, 4, V::AwaitingHeartbeat, Some(5)),
        (Unanswered, None, 5, V::Unanswered, Some(200)),
        (Unanswered, None, 199, V::Unanswered, Some(200)),
        (Unanswered, None, 200, V::Verified, None),
        (Over, None, 1, V::AwaitingHeartbeat, Some(5)),
        (Over, None, 5, V::AwaitingInstanceState, Some(30)),
        (Over, None, 29, V::AwaitingInstanceState, Some(30)),
        (Over, None, 30, V::Unanswered, Some(200)),
        (Over, None, 200, V::Verified, None),
        (Over, Some(Suspected), 1, V::Suspected, Some(30)),
        (Over, Some(Suspected), 29, V::Suspected, Some(30)),
        (Over, Some(Suspected), 30, V::Unanswered, Some(200)),
        (Over, Some(Contradicted), 16, V::Suspected, Some(30)),
        (Over, Some(MayEnd), 1, V::Verified, None),
        (Over, Some(Unclear), 1, V::Unanswered, Some(200)),
        (Over, Some(Unclear), 200, V::Verified, None),
        // Another action has joined since, about which AWS has not answered.
        (Unanswered, Some(MayEnd), 1, V::AwaitingHeartbeat, Some(5)),
        (Unanswered, Some(Suspected), 6, V::Unanswered, Some(200)),
    ] {
        let found = verification(&facts(seen, finding), &limits(Some(300)), at(now));
        assert_eq!(found, (expected, until.map(at)), "{seen:?} {finding:?} at {now}");
    }
}

#[test]
fn no_wait_for_an_answer_is_longer_than_two_thirds_of_the_time() {
    use ActionSeen::{Over, Unanswered};
    use Verification as V;
    for (seen, force_at, now, expected, until) in [
        (Unanswered, 6, 3, V::AwaitingHeartbeat, Some(4)),
        (Unanswered, 6, 4, V::Verified, None),
        (Unanswered, 0, 0, V::Verified, None),
        (Over, 30, 6, V::AwaitingInstanceState, Some(20)),
        (Over, 30, 20, V::Verified, None),
    ] {
        let found = verification(&facts(seen, None), &limits(Some(force_at)), at(now));
        assert_eq!(found, (expected, until.map(at)), "{seen:?} at {now} of {force_at}");
    }
}

#[test]
fn what_needs_no_verification_never_waits() {
    for seen in [ActionSeen::Unanswered, ActionSeen::Over] {
        let facts = VerificationFacts { is_needed: false, ..facts(seen, None) };
        let found = verification(&facts, &limits(Some(300)), at(0));
        assert_eq!(found, (Verification::Verified, None), "{seen:?}");
    }
}

#[test]
fn without_a_deadline_nothing_is_forced_until_aws_answers() {
    let found = verification(&facts(ActionSeen::Unanswered, None), &limits(None), at(100_000));
    assert_eq!(found, (Verification::Unanswered, None));
}

#[test]
fn one_open_action_is_enough_and_all_must_be_over() {
    use ActionSeen::{Open, Over, Unanswered};
    for (all, expected) in [
        (&[][..], Unanswered),
        (&[Unanswered], Unanswered),
        (&[Open], Open),
        (&[Over], Over),
        (&[Over, Over], Over),
        (&[Over, Unanswered], Unanswered),
        (&[Unanswered, Over], Unanswered),
        (&[Over, Open], Open),
        (&[Unanswered, Open, Over], Open),
    ] {
        assert_eq!(ActionSeen::of_all(all.iter().copied()), expected, "{all:?}");
    }
}

#[test]
fn only_a_running_instance_that_its_group_reports_as_in_service_stays() {
    use InstanceState as S;
    let running = Some(S::Running);
    let states = [
        "Pending",
        "Pending:Wait",
        "Quarantined",
        "Terminating",
        "Terminating:Wait",
        "Terminating:Proceed",
        "Terminating:Retained",
        "Terminated",
        "Detaching",
        "EnteringStandby",
        "ReplacingRootVolume",
        "ReplacingRootVolume:Wait",
        "RootVolumeReplaced",
        "Warmed:Pending:Wait",
        "Warmed:Running",
        "Warmed:Terminating:Wait",
        "",
    ];
    for state in states {
        assert_eq!(StayAnswer::of(running, &[Some(Some(state))]), StayAnswer::MayEnd, "{state}");
    }
    for (instance, in_groups, expected) in [
        (running, &[Some(Some("InService"))][..], StayAnswer::Stays),
        (running, &[Some(Some("Standby"))], StayAnswer::Stays),
        (running, &[Some(Some("InService")), Some(Some("InService"))], StayAnswer::Stays),
        // No such group, or the instance is not in it.
        (running, &[Some(None)], StayAnswer::NotInGroup),
        (running, &[Some(Some("InService")), Some(None)], StayAnswer::NotInGroup),
        (running, &[], StayAnswer::NotInGroup),
        (running, &[Some(None), Some(Some("Terminating:Wait"))], StayAnswer::MayEnd),
        (running, &[Some(None), None], StayAnswer::Unanswered),
        (Some(S::ShuttingDown), &[Some(None)], StayAnswer::MayEnd),
        // No answer.
        (running, &[None], StayAnswer::Unanswered),
        (None, &[Some(Some("InService"))], StayAnswer::Unanswered),
        (None, &[None], StayAnswer::Unanswered),
        // One answer is enough to show that it may end.
        (None, &[Some(Some("Terminating:Wait"))], StayAnswer::MayEnd),
        (Some(S::ShuttingDown), &[None], StayAnswer::MayEnd),
        (Some(S::Terminated), &[Some(Some("InService"))], StayAnswer::MayEnd),
        (Some(S::Stopping), &[Some(Some("InService"))], StayAnswer::MayEnd),
        (Some(S::Pending), &[Some(Some("InService"))], StayAnswer::MayEnd),
    ] {
        assert_eq!(StayAnswer::of(instance, in_groups), expected, "{instance:?} {in_groups:?}");
    }
}

/// What is found after these answers, each asked and answered at a second, and when AWS is asked
/// again.
fn found(looks: &[(i64, StayAnswer)]) -> Vec<(Option<Finding>, Option<i64>)> {
    let mut contradiction = StayCheck::default();
    let looked = |(n, look): &(i64, StayAnswer)| {
        let (finding, again) = contradiction.record_answer(*look, at(*n), at(*n));
        (finding, again.map(whole))
    };
    looks.iter().map(looked).collect()
}

#[test]
fn a_slow_first_answer_counts_from_when_it_came() {
    let mut check = StayCheck::default();
    let mut answers = |asked, now| check.record_answer(StayAnswer::Stays, at(asked), at(now)).0;
    assert_eq!(answers(0, 8), Some(Finding::Suspected));
    assert_eq!(answers(15, 15), Some(Finding::Suspected), "only 7 s after the first answer");
    assert_eq!(answers(23, 23), Some(Finding::Contradicted));
}

#[test]
fn a_contradiction_takes_two_answers_that_are_fifteen_seconds_apart() {
    use Finding::{Contradicted, MayEnd, Suspected, Unclear};
    use StayAnswer::{NotInGroup, Stays, Unanswered};
    for (looks, expected) in [
        (
            &[(0, Stays), (15, Stays)][..],
            &[(Some(Suspected), Some(15)), (Some(Contradicted), None)][..],
        ),
        (
            &[(0, Stays), (15, StayAnswer::MayEnd)],
            &[(Some(Suspected), Some(15)), (Some(MayEnd), None)],
        ),
        (&[(0, StayAnswer::MayEnd)], &[(Some(MayEnd), None)]),
        (
            &[(0, Stays), (14, Stays), (15, Stays)],
            &[(Some(Suspected), Some(15)), (Some(Suspected), Some(15)), (Some(Contradicted), None)],
        ),
        (
            &[(0, Unanswered), (5, Stays), (20, Unanswered), (25, Stays)],
            &[
                (None, Some(5)),
                (Some(Suspected), Some(20)),
                (Some(Suspected), Some(25)),
                (Some(Contradicted), None),
            ],
        ),
        (&[(0, Unanswered), (60, Unanswered)], &[(None, Some(5)), (Some(Unclear), None)]),
        (&[(0, NotInGroup)], &[(Some(Unclear), None)]),
    ] {
        assert_eq!(found(looks), expected, "{looks:?}");
    }
}

#[test]
fn what_heartbeats_have_shown_is_a_fact_of_the_hook() {
    let mut s = fresh(300, 30_000);
    assert_eq!(s.facts(at(0)).seen, ActionSeen::Unanswered);
    s.sent(at(1));
    s.failed(at(1));
    assert_eq!(s.facts(at(1)).seen, ActionSeen::Unanswered);
    let mut over = s.clone();
    over.gone(at(2));
    assert_eq!(over.facts(at(2)).seen, ActionSeen::Over);
    s.sent(at(2));
    s.accepted(at(2));
    assert_eq!(s.facts(at(2)).seen, ActionSeen::Open);
    s.gone(at(3));
    assert_eq!(s.facts(at(3)).seen, ActionSeen::Open, "it was real");
    let again = fresh(300, 30_000);
    assert_eq!(again.with_accepted_earlier(at(0)).facts(at(3)).seen, ActionSeen::Open);
}

#[test]
fn a_heartbeat_before_its_time_leaves_the_next_one_spread() {
    // Half of half an interval: the first regular gap is 112.5 s instead of 150 s.
    let mut s = HeartbeatSchedule::new(at(0), received(0), 0.5, Some(of_timeout(300)));
    s.sent(at(1));
    s.accepted(at(1));
    assert_eq!(s.due().map(secs), Some(113.5));
    s.sent(at(114));
    s.accepted(at(114));
    assert_eq!(s.due().map(secs), Some(264.0));
}

#[test]
fn a_heartbeat_before_its_time_that_fails_leaves_the_next_one_where_it_was() {
    let mut s = fresh(300, 30_000);
    for n in [1, 2, 4] {
        s.sent(at(n));
        s.failed(at(n));
    }
    assert_eq!((s.due(), s.failures_in_a_row()), (Some(at(150)), 0));
    s.sent(at(150));
    s.failed(at(150));
    assert_eq!(s.due(), Some(at(151)));
}
