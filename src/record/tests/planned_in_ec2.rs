//! Scheduled changes that EC2 shows, with and without an announcement of AWS Health.

use super::{
    planned::{FIRST, Message, accept_change, all_noted, noted, planned, time, waiting},
    *,
};
use crate::record::planned::{
    Plan, PlanChange, Withdrawal, WithdrawnChanges, plan, withdrawn_changes,
};

/// What EC2 shows of a retirement at `starts`.
fn in_ec2(starts: i64, is_over: bool, now: i64) -> Interruption {
    let event = ScheduledEvent {
        id: "instance-event-1".to_owned(),
        code: "instance-retirement".to_owned(),
        description: if is_over { "[Canceled] x" } else { "degraded" }.to_owned(),
        not_before: Some(at(starts)),
        not_after: None,
    };
    let notice = std::sync::Arc::new(HealthNotice::of_ec2(&event));
    notice.of(id(INSTANCE), &notice.ec2_event_id(), Some(at(now)))
}

/// One step in the life of a change that AWS Health announces and EC2 shows.
#[derive(Clone, Copy)]
enum Step {
    /// A message of AWS Health.
    Health(Message),
    /// EC2 shows this start (and that it is over) at this time.
    Ec2(i64, bool, i64),
}

#[test]
fn a_change_that_aws_health_announces_and_ec2_shows_is_one_change() {
    use PlanChange::{Announced, Canceled, Moved, Updated};
    use Step::{Ec2, Health};
    let moved = Message { event: "e2", sent: 10, starts: Some(200_000), ..FIRST };
    let closed = FIRST.closed("e3", 20);
    let (shown, over) = (Ec2(100_030, false, 50), Ec2(100_030, true, 60));
    let later = Ec2(200_000, false, 70);
    for (why, steps, changes, waits) in [
        (
            "announced, then shown",
            vec![Health(FIRST), shown],
            vec![Some(Announced), Some(Updated)],
            vec![96_400],
        ),
        (
            "shown, then announced",
            vec![shown, Health(FIRST)],
            vec![Some(Announced), Some(Updated)],
            vec![96_430],
        ),
        ("shown twice", vec![shown, shown], vec![Some(Announced), None], vec![96_430]),
        (
            "only EC2 cancels",
            vec![Health(FIRST), shown, over],
            vec![Some(Announced), Some(Updated), Some(Canceled)],
            vec![],
        ),
        (
            "EC2 cancels at first sight",
            vec![Health(FIRST), over],
            vec![Some(Announced), Some(Canceled)],
            vec![],
        ),
        (
            "EC2 lags behind a cancellation",
            vec![Health(FIRST), Health(closed), shown, over],
            vec![Some(Announced), Some(Canceled), Some(Updated), Some(Updated)],
            vec![],
        ),
        (
            "AWS Health cancels later",
            vec![shown, Health(FIRST), Health(closed), shown],
            vec![Some(Announced), Some(Updated), Some(Canceled), None],
            vec![],
        ),
        (
            "AWS Health lags behind a cancellation",
            vec![shown, over, Health(FIRST)],
            vec![Some(Announced), Some(Canceled), Some(Updated)],
            vec![],
        ),
        (
            "its update, too",
            vec![Health(FIRST), over, Health(Message { event: "e4", sent: 70, ..FIRST })],
            vec![Some(Announced), Some(Canceled), Some(Updated)],
            vec![],
        ),
        (
            "EC2 lags behind a move",
            vec![Health(FIRST), shown, Health(moved), shown, later],
            vec![Some(Announced), Some(Updated), Some(Moved), None, Some(Updated)],
            vec![196_400],
        ),
        (
            "only EC2 shows a move",
            vec![Health(FIRST), shown, later],
            vec![Some(Announced), Some(Updated), Some(Moved)],
            vec![196_400],
        ),
        (
            "another start is another change",
            vec![Health(FIRST), Ec2(100_060, false, 50)],
            vec![Some(Announced), Some(Announced)],
            vec![96_400, 96_460],
        ),
        ("over when first seen", vec![over], vec![None], vec![]),
        (
            "shown again",
            vec![shown, over, Ec2(100_030, false, 80)],
            vec![Some(Announced), Some(Canceled), Some(Announced)],
            vec![96_430],
        ),
    ] {
        let (mut node, mut found) = (node(), Vec::new());
        for step in &steps {
            let (interruption, now) = match *step {
                Health(message) => (message.interruption(), message.sent),
                Ec2(starts, is_over, now) => (in_ec2(starts, is_over, now), now),
            };
            match plan(&node, &interruption, time(now)) {
                Plan::Patch { body, change, .. } => {
                    node = apply(&node, &body);
                    found.push(Some(change));
                }
                Plan::Repeat => found.push(None),
                other => panic!("{why}: {other:?}"),
            }
        }
        assert_eq!(found, changes, "{why}");
        let due: Vec<_> = if node.annotations.contains_key(PLANNED) {
            waiting(&node).into_iter().map(|(_, due)| due).collect()
        } else {
            Vec::new()
        };
        assert_eq!(due, waits, "{why}");
    }
}

#[test]
fn a_drain_for_an_event_of_ec2_ends_when_either_side_cancels_it() {
    let noted = |node: &Node, interruption: &Interruption, now| {
        let Plan::Patch { body, .. } = plan(node, interruption, time(now)) else { panic!() };
        apply(node, &body)
    };
    let node = noted(&super::node(), &in_ec2(100_030, false, 50), 50);
    let drained = accept_change(&node, 96_500).unwrap();
    // The announcement comes late. It drains nothing again.
    let drained = noted(&drained, &FIRST.interruption(), 96_550);
    assert_eq!(waiting(&drained), []);
    for canceled in [
        noted(&drained, &in_ec2(100_030, true, 96_600), 96_600),
        noted(&drained, &FIRST.closed("e2", 96_600).interruption(), 96_600),
    ] {
        let events = vec!["instance-event-1@2026-01-02T03:47:10Z".to_owned()];
        assert_eq!(
            withdrawn_changes(&canceled, &id(INSTANCE), &planned(&canceled), time(96_600)),
            WithdrawnChanges::Open(events, Withdrawal::Canceled)
        );
    }
}

#[test]
fn an_event_of_ec2_that_has_begun_is_not_noted() {
    assert_eq!(plan(&node(), &in_ec2(100, false, 100), time(100)), Plan::Repeat);
}

#[test]
fn a_lost_annotation_is_recognized_by_the_start_of_what_is_being_drained_for() {
    let mut drained = accept_change(&all_noted(&[FIRST]), 96_400).unwrap();
    drained.annotations.remove(PLANNED);
    let Plan::Patch { body, .. } = plan(&drained, &in_ec2(100_030, false, 96_500), time(96_500))
    else {
        panic!("noted again")
    };
    let noted_again = apply(&drained, &body);
    assert_eq!(waiting(&noted_again), [], "its drain has begun");
    let over = in_ec2(100_030, true, 96_600);
    let Plan::Patch { body, .. } = plan(&noted_again, &over, time(96_600)) else { panic!("over") };
    let over = apply(&noted_again, &body);
    let withdrawn = withdrawn_changes(&over, &id(INSTANCE), &planned(&over), time(96_600));
    assert_eq!(withdrawn, WithdrawnChanges::Open(vec!["e1".into()], Withdrawal::Canceled));
}

#[test]
fn a_change_that_ec2_shows_as_open_ten_minutes_after_its_start_is_drained_for() {
    let noted_at = |node: &Node, event: &Interruption, now| match plan(node, event, time(now)) {
        Plan::Patch { body, change, .. } => (apply(node, &body), Some(change)),
        Plan::Repeat => (node.clone(), None),
        other => panic!("{other:?}"),
    };
    let is_waiting = |node: &Node, now| {
        let planned = planned(node);
        !planned.waiting(time(now), node.boot_id.as_deref()).is_empty()
    };
    let (node, _) = noted_at(&node(), &in_ec2(100_000, false, 50), 50);
    assert!(!is_waiting(&node, 100_000), "its start has just passed");
    assert_eq!(planned(&node).overdue_at(at(100_000)), Some(at(100_600)));
    assert!(!is_waiting(&node, 100_599), "EC2 may lag behind");
    assert!(is_waiting(&node, 100_600));
    assert_eq!(planned(&node).overdue_at(at(100_600)), None, "it waits already");
    let (over, _) = noted_at(&node, &in_ec2(100_000, true, 100_500), 100_500);
    assert!(!is_waiting(&over, 100_600), "it has happened");
    let begun = accept_change(&node, 96_400).unwrap();
    assert!(!is_waiting(&begun, 100_600), "it is drained");
    let fresh = super::node();
    let (_, change) = noted_at(&fresh, &in_ec2(100_000, false, 100_599), 100_599);
    assert_eq!(change, None, "EC2 lists an event for a while after its end");
    let (late, change) = noted_at(&fresh, &in_ec2(100_000, false, 100_600), 100_600);
    assert_eq!(change, Some(PlanChange::Announced));
    assert!(is_waiting(&late, 100_600));
}

#[test]
fn a_change_that_replaces_another_one_with_the_same_start_is_not_begun_with_it() {
    let drained = accept_change(&all_noted(&[FIRST]), 96_400).unwrap();
    let other = Message { arn: "b", event: "e2", sent: 96_500, ..FIRST };
    let announced = noted(&drained, other).unwrap().0;
    assert_eq!(waiting(&announced), [("e2".to_owned(), 96_400)], "its own drain is to come");
}
