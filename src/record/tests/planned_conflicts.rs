//! AWS Health and EC2 contradict each other about a scheduled change: an unneeded drain is cheaper
//! than a missed one.

use super::{
    planned::{FIRST, Message, accept_change, planned, time, waiting},
    *,
};
use crate::{
    domain::ChangeSchedule,
    record::planned::{
        Plan, PlanChange, PlanTime, Withdrawal, WithdrawnChanges, plan, withdrawn_changes,
    },
};
use PlanChange::{Announced, Canceled, Moved, Updated};

/// What EC2 shows of one event in one round.
#[derive(Clone, Copy)]
struct Shown {
    id: &'static str,
    code: &'static str,
    starts: i64,
    is_over: bool,
    now: i64,
}

const SHOWN: Shown = Shown {
    id: "instance-event-1",
    code: "instance-retirement",
    starts: 100_030,
    is_over: false,
    now: 50,
};

impl Shown {
    fn interruption(self) -> Interruption {
        let event = ScheduledEvent {
            id: self.id.to_owned(),
            code: self.code.to_owned(),
            description: if self.is_over { "[Canceled] x" } else { "degraded" }.to_owned(),
            not_before: Some(at(self.starts)),
            not_after: None,
        };
        let notice = std::sync::Arc::new(HealthNotice::of_ec2(&event));
        notice.of(id(INSTANCE), &notice.ec2_event_id(), Some(at(self.now)))
    }

    fn at(self, now: i64) -> Self {
        Self { now, ..self }
    }

    fn over(self, now: i64) -> Self {
        Self { is_over: true, now, ..self }
    }
}

#[derive(Clone, Copy)]
enum Step {
    Health(Message),
    Ec2(Shown),
}
use Step::{Ec2, Health};

/// A name, the steps, what each changes (`None`: nothing), and when the drains are due.
type Row = (&'static str, Vec<Step>, Vec<Option<PlanChange>>, Vec<i64>);

fn check(rows: Vec<Row>) {
    for (why, steps, changes, due) in rows {
        let (mut node, mut found) = (node(), Vec::new());
        for step in steps {
            let (interruption, now) = match step {
                Health(message) => (message.interruption(), message.sent),
                Ec2(shown) => (shown.interruption(), shown.now),
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
        let waits: Vec<_> = waiting(&node).into_iter().map(|(_, due)| due).collect();
        assert_eq!(waits, due, "{why}");
    }
}

#[test]
fn an_informational_message_closes_no_change_that_ec2_shows_as_open() {
    let informational =
        |arn, sent| Health(Message { arn, event: "e2", sent, is_informational: true, ..FIRST });
    check(vec![
        (
            "of the same ARN",
            vec![Health(FIRST), informational("a", 10)],
            vec![Some(Announced), Some(Canceled)],
            vec![],
        ),
        (
            "of another ARN",
            vec![Ec2(SHOWN), informational("b", 60)],
            vec![Some(Announced), Some(Canceled)],
            vec![96_430],
        ),
        (
            "before EC2 shows it",
            vec![informational("b", 10), Ec2(SHOWN)],
            vec![Some(Canceled), Some(Announced)],
            vec![96_430],
        ),
        (
            "of the same ARN, and EC2 shows it",
            vec![Health(FIRST), Ec2(SHOWN), informational("a", 60)],
            vec![Some(Announced), Some(Updated), Some(Updated)],
            vec![96_400],
        ),
        (
            "of the same ARN, before EC2 shows it",
            vec![Health(FIRST), informational("a", 10), Ec2(SHOWN)],
            vec![Some(Announced), Some(Canceled), Some(Announced)],
            vec![96_430],
        ),
    ]);
}

#[test]
fn a_closure_by_aws_health_does_not_hold_against_ec2_for_long() {
    let closed = |arn, sent| Health(Message { arn, ..FIRST }.closed("e3", sent));
    check(vec![
        (
            "of an unknown ARN",
            vec![Ec2(SHOWN), closed("b", 60)],
            vec![Some(Announced), Some(Canceled)],
            vec![96_430],
        ),
        (
            "EC2 lags behind",
            vec![Health(FIRST), Ec2(SHOWN), closed("a", 60), Ec2(SHOWN.at(659))],
            vec![Some(Announced), Some(Updated), Some(Canceled), None],
            vec![],
        ),
        (
            "EC2 goes on showing it",
            vec![Health(FIRST), Ec2(SHOWN), closed("a", 60), Ec2(SHOWN.at(660))],
            vec![Some(Announced), Some(Updated), Some(Canceled), Some(Announced)],
            vec![96_430],
        ),
        (
            "EC2 shows it later for the first time",
            vec![Health(FIRST), closed("a", 60), Ec2(SHOWN.at(660)), Ec2(SHOWN.at(960))],
            vec![Some(Announced), Some(Canceled), Some(Announced), None],
            vec![96_430],
        ),
        (
            "EC2 closes it, too",
            vec![Health(FIRST), Ec2(SHOWN), closed("a", 60), Ec2(SHOWN.over(660))],
            vec![Some(Announced), Some(Updated), Some(Canceled), Some(Updated)],
            vec![],
        ),
    ]);
}

#[test]
fn a_reminder_of_aws_health_moves_no_change() {
    let reminder =
        |sent, starts| Health(Message { event: "e4", sent, starts: Some(starts), ..FIRST });
    let later = Ec2(Shown { starts: 200_000, now: 70, ..SHOWN });
    check(vec![
        (
            "within a minute",
            vec![Health(FIRST), reminder(10, 100_030)],
            vec![Some(Announced), Some(Updated)],
            vec![96_400],
        ),
        (
            "of a start that EC2 has left",
            vec![Health(FIRST), Ec2(SHOWN), later, reminder(80, 100_000)],
            vec![Some(Announced), Some(Updated), Some(Moved), Some(Updated)],
            vec![196_400],
        ),
        (
            "the first message, of a start that EC2 has left",
            vec![Ec2(SHOWN), later, reminder(80, 100_000)],
            vec![Some(Announced), Some(Moved), Some(Updated)],
            vec![196_400],
        ),
        (
            "EC2 comes back to it",
            vec![Health(FIRST), Ec2(SHOWN), later, Ec2(SHOWN.at(90)), reminder(99, 100_000)],
            vec![Some(Announced), Some(Updated), Some(Moved), Some(Moved), Some(Updated)],
            vec![96_430],
        ),
    ]);
}

#[test]
fn a_cancellation_of_another_start_in_ec2_cancels_nothing() {
    let moved = Health(Message { event: "e2", sent: 60, starts: Some(200_000), ..FIRST });
    let second = Shown { id: "instance-event-2", starts: 200_000, now: 80, ..SHOWN };
    check(vec![
        (
            "AWS Health has moved the change",
            vec![Health(FIRST), Ec2(SHOWN), moved, Ec2(SHOWN.over(70))],
            vec![Some(Announced), Some(Updated), Some(Moved), Some(Updated)],
            vec![196_400],
        ),
        (
            "EC2 shows it under a new ID",
            vec![
                Health(FIRST),
                Ec2(SHOWN),
                moved,
                Ec2(SHOWN.over(70)),
                Ec2(second),
                Ec2(SHOWN.over(90)),
                Ec2(second.at(90)),
            ],
            vec![
                Some(Announced),
                Some(Updated),
                Some(Moved),
                Some(Updated),
                Some(Updated),
                None,
                None,
            ],
            vec![196_400],
        ),
        (
            "and cancels that",
            vec![
                Health(FIRST),
                Ec2(SHOWN),
                moved,
                Ec2(SHOWN.over(70)),
                Ec2(second),
                Ec2(second.over(90)),
            ],
            vec![
                Some(Announced),
                Some(Updated),
                Some(Moved),
                Some(Updated),
                Some(Updated),
                Some(Canceled),
            ],
            vec![],
        ),
    ]);
}

#[test]
fn retirement_stop_and_termination_are_one_change() {
    let stop = Shown { code: "instance-stop", ..SHOWN };
    let termination = Message { code: "AWS_EC2_INSTANCE_TERMINATION_SCHEDULED", ..FIRST };
    for message in [FIRST, termination] {
        check(vec![(
            message.code,
            vec![Health(message), Ec2(stop)],
            vec![Some(Announced), Some(Updated)],
            vec![96_400],
        )]);
    }
}

#[test]
fn a_change_without_a_start_is_the_one_that_the_other_side_shows() {
    let without = Health(Message { starts: None, sent: 60, ..FIRST });
    check(vec![
        (
            "announced first",
            vec![without, Ec2(SHOWN.at(70))],
            vec![Some(Announced), Some(Updated)],
            vec![96_430],
        ),
        (
            "shown first",
            vec![Ec2(SHOWN), without],
            vec![Some(Announced), Some(Updated)],
            vec![96_430],
        ),
    ]);
}

#[test]
fn a_node_that_registers_again_during_its_drain_has_its_changes_again() {
    let announced = apply(&node(), &plan_body(plan(&node(), &FIRST.interruption(), time(0))));
    let drained = accept_change(&announced, 96_400).unwrap();
    let record = Record::read(drained.record().unwrap()).unwrap();
    let fresh = Node { uid: "uid-2".into(), ..node() };
    let held = &kept_annotations(&drained);
    let again = apply(&fresh, &reregister(&fresh, &id(INSTANCE), &record, held).unwrap());
    assert_eq!(again.annotations.get(PLANNED), drained.annotations.get(PLANNED));
    assert_eq!(waiting(&again), []);

    // EC2 or a message was faster: what is newer stays.
    let announced = apply(&fresh, &plan_body(plan(&fresh, &FIRST.interruption(), time(0))));
    let both = apply(&announced, &reregister(&announced, &id(INSTANCE), &record, held).unwrap());
    assert_eq!(both.annotations.get(PLANNED), announced.annotations.get(PLANNED));

    // The annotation alone was lost: the record has the event, so no drain waits for it.
    let mut lost = drained;
    lost.annotations.remove(PLANNED);
    let noted = apply(&lost, &plan_body(plan(&lost, &FIRST.interruption(), time(96_500))));
    assert_eq!(waiting(&noted), []);
}

fn plan_body(plan: Plan) -> Value {
    let Plan::Patch { body, .. } = plan else { panic!("{plan:?}") };
    body
}

#[test]
fn a_move_after_the_weekly_window_leaves_a_node_drained_whose_new_window_has_been() {
    // 2026-01-01 is a Thursday: the window is from 180 000 to 194 400, and a week later.
    let window = Some("Sat 02:00-06:00 UTC".parse().unwrap());
    let schedule = ChangeSchedule { lead: seconds(3600), window };
    let time = |now| PlanTime { now: at(now), schedule };
    let noted = |node: &Node, message: Message, now| {
        let Plan::Patch { body, .. } = plan(node, &message.interruption(), time(now)) else {
            panic!()
        };
        apply(node, &body)
    };
    let announced = noted(&node(), Message { starts: Some(300_000), ..FIRST }, 0);
    let drained = accept_change(&announced, 180_000).unwrap();
    let over = Released::new(at(181_000), "empty");
    let released = apply(&drained, &release(&drained, &over).unwrap());
    let moved = |starts| Message { event: "e2", sent: 200_000, starts: Some(starts), ..FIRST };
    for (starts, open, ended) in [
        (310_000, None, WithdrawnChanges::None),
        (910_000, Some(Withdrawal::Moved), WithdrawnChanges::Ended(Withdrawal::Moved)),
    ] {
        let node = noted(&released, moved(starts), 200_000);
        let found = withdrawn_changes(&node, &id(INSTANCE), &planned(&node), time(200_000));
        assert_eq!(found, ended, "{starts}");
        let waits = planned(&node).waiting(time(200_000), node.boot_id.as_deref()).len();
        assert_eq!(waits == 0, ended == WithdrawnChanges::None, "{starts}");

        let node = noted(&drained, moved(starts), 200_000);
        let found = withdrawn_changes(&node, &id(INSTANCE), &planned(&node), time(200_000));
        let open = open.map_or(WithdrawnChanges::None, |why| {
            WithdrawnChanges::Open(vec!["e1".to_owned()], why)
        });
        assert_eq!(found, open, "{starts}");
    }
}
