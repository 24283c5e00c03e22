//! The scheduled changes of a Node.

use super::*;
use crate::{
    domain::ChangeSchedule,
    record::planned::{
        MAX_CHANGES, Plan, PlanChange, PlanTime, Planned, Withdrawal, WithdrawnChanges, plan,
        withdrawn_changes,
    },
};

const RETIREMENT: &str = "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED";
const SCHEDULE: ChangeSchedule = ChangeSchedule { lead: seconds(3600), window: None };

pub(super) fn time(now: i64) -> PlanTime {
    PlanTime { now: at(now), schedule: SCHEDULE }
}

/// A message about the change `arn`, sent at `sent` and with its start at `starts`.
#[derive(Clone, Copy)]
pub(super) struct Message {
    pub(super) arn: &'static str,
    pub(super) event: &'static str,
    pub(super) sent: i64,
    pub(super) starts: Option<i64>,
    pub(super) status: ChangeStatus,
    pub(super) code: &'static str,
    pub(super) communication: Option<&'static str>,
    pub(super) is_informational: bool,
}

pub(super) const FIRST: Message = Message {
    arn: "a",
    event: "e1",
    sent: 0,
    starts: Some(100_000),
    status: ChangeStatus::Upcoming,
    code: RETIREMENT,
    communication: None,
    is_informational: false,
};

impl Message {
    pub(super) fn interruption(self) -> Interruption {
        let notice = HealthNotice {
            event_arn: self.arn.to_owned(),
            communication_id: self.communication.map(str::to_owned),
            code: self.code.to_owned(),
            status: self.status,
            starts: self.starts.map(at),
            is_informational: self.is_informational,
            ..HealthNotice::default()
        };
        event(self.event, self.sent, Cause::ScheduledChange(std::sync::Arc::new(notice)))
    }

    pub(super) fn closed(self, event: &'static str, sent: i64) -> Self {
        Self { event, sent, status: ChangeStatus::Closed, ..self }
    }
}

/// The Node after this message, and what it changed; `None`: nothing.
pub(super) fn noted(node: &Node, message: Message) -> Option<(Node, PlanChange)> {
    match plan(node, &message.interruption(), time(message.sent)) {
        Plan::Patch { body, change, .. } => Some((apply(node, &body), change)),
        Plan::Repeat => None,
        other => panic!("{other:?}"),
    }
}

pub(super) fn all_noted(messages: &[Message]) -> Node {
    messages.iter().fold(node(), |node, message| noted(&node, *message).map_or(node, |n| n.0))
}

pub(super) fn planned(node: &Node) -> Planned {
    Planned::of(node, &id(INSTANCE)).unwrap()
}

/// The events whose drain is waited for, each with its due time.
pub(super) fn waiting(node: &Node) -> Vec<(String, i64)> {
    let due = |at_: Moment| {
        if at_ == Moment::UNIX_EPOCH { 0 } else { at_.duration_since(at(0)).as_secs() }
    };
    let planned = planned(node);
    planned
        .waiting(time(0), node.boot_id.as_deref())
        .iter()
        .map(|c| (c.event.clone(), due(c.due_at(time(0)))))
        .collect()
}

pub(super) fn accept_change(node: &Node, now: i64) -> Option<Node> {
    let planned = planned(node);
    let change = planned.waiting(time(now), node.boot_id.as_deref()).first().copied()?.clone();
    take_on(node, &change.interruption(&id(INSTANCE)), now)
}

#[test]
fn what_a_second_message_changes() {
    use ChangeStatus::{Closed, Open};
    use PlanChange::{Announced, Canceled, Moved, Updated};
    let second = Message { event: "e2", sent: 10, ..FIRST };
    let moved = Message { starts: Some(200_000), ..second };
    for (why, messages, changes, waits) in [
        ("one message", vec![FIRST], vec![Some(Announced)], vec![("e1", 96_400)]),
        (
            "a newer one says the same",
            vec![FIRST, second],
            vec![Some(Announced), Some(Updated)],
            vec![("e1", 96_400)],
        ),
        (
            "it has begun",
            vec![FIRST, Message { status: Open, ..second }],
            vec![Some(Announced), Some(Updated)],
            vec![("e1", 96_400)],
        ),
        (
            "an older one",
            vec![second, Message { starts: Some(9), ..FIRST }],
            vec![Some(Announced), None],
            vec![("e2", 96_400)],
        ),
        ("moved", vec![FIRST, moved], vec![Some(Announced), Some(Moved)], vec![("e2", 196_400)]),
        (
            "its start is missing later",
            vec![FIRST, Message { starts: None, ..second }],
            vec![Some(Announced), Some(Updated)],
            vec![("e1", 96_400)],
        ),
        (
            "canceled",
            vec![FIRST, FIRST.closed("e2", 10)],
            vec![Some(Announced), Some(Canceled)],
            vec![],
        ),
        (
            "canceled twice",
            vec![FIRST, FIRST.closed("e2", 10), FIRST.closed("e3", 20)],
            vec![Some(Announced), Some(Canceled), Some(Updated)],
            vec![],
        ),
        (
            "an older cancellation",
            vec![second, FIRST.closed("e1", 5)],
            vec![Some(Announced), None],
            vec![("e2", 96_400)],
        ),
        (
            "a cancellation of the same second",
            vec![FIRST, FIRST.closed("e2", 0)],
            vec![Some(Announced), Some(Canceled)],
            vec![],
        ),
        (
            "an announcement of the same second",
            vec![FIRST.closed("e1", 0), Message { event: "e2", ..FIRST }],
            vec![Some(Canceled), None],
            vec![],
        ),
        (
            "a cancellation that overtakes",
            vec![FIRST.closed("e2", 10), FIRST],
            vec![Some(Canceled), None],
            vec![],
        ),
        (
            "announced again",
            vec![FIRST, FIRST.closed("e2", 10), Message { event: "e3", sent: 20, ..FIRST }],
            vec![Some(Announced), Some(Canceled), Some(Announced)],
            vec![("e3", 96_400)],
        ),
        (
            "another change",
            vec![FIRST, Message { arn: "b", starts: Some(50_000), ..second }],
            vec![Some(Announced), Some(Announced)],
            vec![("e2", 46_400), ("e1", 96_400)],
        ),
        (
            "a cancellation of another change",
            vec![FIRST, Message { arn: "b", ..second }.closed("e2", 10)],
            vec![Some(Announced), Some(Canceled)],
            vec![("e1", 96_400)],
        ),
        (
            "no start",
            vec![Message { starts: None, ..FIRST }],
            vec![Some(Announced)],
            vec![("e1", 0)],
        ),
        (
            "degraded",
            vec![Message { code: "AWS_EC2_INSTANCE_DEGRADED", ..FIRST }],
            vec![Some(Announced)],
            vec![("e1", 0)],
        ),
        (
            "closed and nothing known",
            vec![Message { status: Closed, ..FIRST }],
            vec![Some(Canceled)],
            vec![],
        ),
    ] {
        let mut node = node();
        let mut found = Vec::new();
        for message in &messages {
            let result = noted(&node, *message);
            found.push(result.as_ref().map(|(_, change)| *change));
            node = result.map_or(node, |(node, _)| node);
        }
        assert_eq!(found, changes, "{why}");
        let waits: Vec<_> = waits.iter().map(|(e, due)| ((*e).to_owned(), *due)).collect();
        assert_eq!(waiting(&node), waits, "{why}");
    }
}

#[test]
fn c24_a_copy_with_the_same_communication_id_changes_nothing() {
    let first = Message { communication: Some("c-1"), ..FIRST };
    let node = all_noted(&[first]);
    // The backup region has its own event ID and time.
    assert!(noted(&node, Message { event: "e2", sent: 30, ..first }).is_none());
    let next = Message { event: "e2", sent: 30, communication: Some("c-2"), ..first };
    assert_eq!(noted(&node, next).unwrap().1, PlanChange::Updated);
}

#[test]
fn only_the_annotation_is_written_when_a_change_is_announced() {
    let Plan::Patch { body, .. } = plan(&node(), &FIRST.interruption(), time(0)) else { panic!() };
    let keys: Vec<_> = body["metadata"]["annotations"].as_object().unwrap().keys().collect();
    assert_eq!(keys, [PLANNED]);
    assert!(body.get("spec").is_none() && body["metadata"].get("labels").is_none());
}

#[test]
fn the_accept_notes_that_the_drain_has_begun_and_happens_once() {
    let node = all_noted(&[FIRST]);
    let drained = accept_change(&node, 96_400).unwrap();
    assert!(drained.unschedulable && drained.has_our_taint());
    assert_eq!(waiting(&drained), []);
    let facts = Record::read(drained.record().unwrap()).unwrap().interruptions(&id(INSTANCE));
    let [facts] = &facts[..] else { panic!("{facts:?}") };
    assert_eq!(
        (facts.kind, facts.event_id.as_str(), facts.time, facts.ends),
        (Some(Kind::ScheduledChange), "e1", at(0), Some(at(100_000)))
    );
    let again = planned(&node).waiting(time(96_400), None)[0].interruption(&id(INSTANCE));
    assert_eq!(accept(&drained, &again, at(96_401), &AcceptOptions::default()), Accept::Repeat);
    let rebooted = Node { boot_id: Some("boot-2".into()), ..drained };
    let drained_again = take_on(&rebooted, &again, 96_401).unwrap();
    let record = Record::read(drained_again.record().unwrap()).unwrap();
    assert!(!record.before.unschedulable, "the cordon of the first drain is Sundown's");
    assert!(take_on(&drained_again, &again, 96_402).is_none());
}

#[test]
fn a_change_that_was_moved_or_canceled_since_is_not_accepted() {
    let node = all_noted(&[FIRST]);
    let ordered = planned(&node).waiting(time(96_400), None)[0].interruption(&id(INSTANCE));
    let moved = Message { event: "e2", sent: 10, starts: Some(200_000), ..FIRST };
    for second in [FIRST.closed("e2", 10), moved] {
        let (node, _) = noted(&node, second).unwrap();
        assert_eq!(accept(&node, &ordered, at(96_400), &AcceptOptions::default()), Accept::Repeat);
    }
    let plain = super::node();
    assert_eq!(accept(&plain, &ordered, at(0), &AcceptOptions::default()), Accept::Repeat);
}

#[test]
fn a_change_joins_an_open_record_whatever_its_deadline_is() {
    let node = all_noted(&[FIRST]);
    let draining = take_on(&node, &hook("h", 90_000, "drain", "t"), 90_000).unwrap();
    let joined = accept_change(&draining, 96_400).unwrap();
    let record = Record::read(joined.record().unwrap()).unwrap();
    assert_eq!(record.interruptions(&id(INSTANCE)).len(), 2);
}

#[test]
fn the_deadline_is_the_start_also_of_degraded_hardware_that_is_drained_long_before() {
    let starts = |code, starts, now| {
        let node = all_noted(&[Message { starts, code, ..FIRST }]);
        let interruption = planned(&node).waiting(time(now), None)[0].interruption(&id(INSTANCE));
        InterruptionFacts::new(&interruption, &id(INSTANCE), None, at(now), false).machine_ends_at()
    };
    let degraded = "AWS_EC2_INSTANCE_DEGRADED";
    assert_eq!(starts(RETIREMENT, Some(100_000), 96_400), Some(at(100_000)));
    assert_eq!(starts(RETIREMENT, None, 0), None);
    assert_eq!(starts(degraded, Some(100_000), 0), Some(at(100_000)));
    assert_eq!(starts(degraded, Some(3_000), 0), Some(at(3_000)));
}

#[test]
fn what_a_canceled_change_means_for_the_record() {
    let canceled =
        |node: &Node| withdrawn_changes(node, &id(INSTANCE), &planned(node), time(96_500));
    let open = |why| WithdrawnChanges::Open(vec!["e1".to_owned()], why);
    let drained = accept_change(&all_noted(&[FIRST]), 96_400).unwrap();
    let released =
        |node: &Node| apply(node, &release(node, &Released::new(at(97_000), "empty")).unwrap());
    let close = |node: &Node| noted(node, FIRST.closed("e2", 96_500)).unwrap().0;
    let moved = Message { event: "e2", sent: 96_500, starts: Some(200_000), ..FIRST };
    assert_eq!(canceled(&drained), WithdrawnChanges::None, "it holds");
    assert_eq!(canceled(&close(&drained)), open(Withdrawal::Canceled));
    let moved = noted(&drained, moved).unwrap().0;
    assert_eq!(canceled(&moved), open(Withdrawal::Moved));
    assert_eq!(waiting(&moved), [("e2".to_owned(), 196_400)]);
    assert_eq!(
        canceled(&close(&released(&drained))),
        WithdrawnChanges::Ended(Withdrawal::Canceled)
    );
    let with_hook = take_on(&drained, &hook("h", 96_450, "drain", "t"), 96_450).unwrap();
    assert_eq!(canceled(&close(&with_hook)), open(Withdrawal::Canceled));
    assert_eq!(canceled(&close(&released(&with_hook))), WithdrawnChanges::None, "the hook counts");
    let put_back = apply(
        &close(&drained),
        &restore_node(&close(&drained), None, &After::Released(Released::new(at(0), "x"))).unwrap(),
    );
    assert_eq!(canceled(&put_back), WithdrawnChanges::None, "nothing of ours is left on it");
    let mut lost = close(&drained);
    lost.annotations.remove(PLANNED);
    assert_eq!(Planned::of(&lost, &id(INSTANCE)), None, "no cancellation is known any longer");
}

#[test]
fn a_drain_that_was_ended_by_a_person_is_not_begun_again() {
    let drained = accept_change(&all_noted(&[FIRST]), 96_400).unwrap();
    let after = After::Released(Released::new(at(96_500), "released"));
    let put_back = apply(&drained, &restore_node(&drained, None, &after).unwrap());
    assert!(!put_back.unschedulable && may_begin(&put_back));
    assert_eq!(waiting(&put_back), []);
}

#[test]
fn a_change_begins_on_no_node_whose_instance_is_about_to_end() {
    let node = all_noted(&[FIRST]);
    assert!(may_begin(&node));
    let drained = take_on(&node, &spot("s", 0), 0).unwrap();
    assert!(may_begin(&drained), "it joins");
    let over = apply(&drained, &release(&drained, &Released::new(at(5), "empty")).unwrap());
    assert!(!may_begin(&over));
    assert_eq!(accept_change(&over, 96_400), None);
}

#[test]
fn a_change_begins_on_a_drained_node_if_its_accept_replaces_the_record() {
    let sick = Impairment { symptom: Symptom::NotReady, since: at(0), group: "asg".into() };
    let mut pool = hook("h", 0, "drain", "t");
    if let Cause::Terminate(action) = &mut pool.cause {
        action.destination = Some(PoolEnd::WarmPool);
    }
    let sick = sick.of(id(INSTANCE));
    for (name, event, now, begins) in [
        ("was sick, and the start is an hour away", &sick, 96_400, true),
        ("was sick, and the start is further away", &sick, 96_399, false),
        ("went into its warm pool", &pool, 96_400, true),
    ] {
        let over = release_node(&take_on(&all_noted(&[FIRST]), event, 1).unwrap(), 5);
        assert_eq!(may_begin_at(&over, now), begins, "{name}");
        let change = planned(&over).next().unwrap().interruption(&id(INSTANCE));
        let taken_on = take_on(&over, &change, now);
        assert_eq!(taken_on.is_some(), begins, "{name}");
        if let Some(taken_on) = taken_on {
            assert_eq!(kinds(&taken_on), [Some(Kind::ScheduledChange)], "{name}");
        }
    }
}

fn may_begin_at(node: &Node, now: i64) -> bool {
    let planned = Planned::of(node, &id(INSTANCE)).unwrap();
    let change = planned.next().unwrap().interruption(&id(INSTANCE));
    may_begin_change(node, &change, Response::Drain, at(now))
}

fn may_begin(node: &Node) -> bool {
    may_begin_at(node, 96_400)
}

#[test]
fn a_sick_node_whose_scheduled_change_is_canceled_is_there_only_for_its_sickness() {
    let sick = Impairment { symptom: Symptom::NotReady, since: at(0), group: "asg".into() };
    let node = take_on(&all_noted(&[FIRST]), &sick.of(id(INSTANCE)), 96_300).unwrap();
    let both = accept_change(&node, 96_400).unwrap();
    assert_eq!(kinds(&both), [Some(Kind::Impaired), Some(Kind::ScheduledChange)]);
    assert_eq!(impaired_status(&both), ImpairedStatus::OtherInterruption);
    let canceled = noted(&both, FIRST.closed("e2", 96_500)).unwrap().0;
    assert_eq!(impaired_status(&canceled), ImpairedStatus::Draining);
    assert_eq!(impaired_status(&release_node(&canceled, 96_600)), ImpairedStatus::Drained);
}

#[test]
fn an_annotation_of_another_instance_or_one_that_no_version_wrote_is_replaced() {
    let node = all_noted(&[FIRST]);
    let other = Node { instance: Some(id(OTHER)), ..node.clone() };
    assert_eq!(Planned::of(&other, &id(OTHER)), None);
    assert_eq!(plan(&other, &FIRST.interruption(), time(0)), Plan::OtherInstance);
    for text in ["", "{", "[]", "{\"version\":1}", &"x".repeat(20_000)] {
        let mut node = super::node();
        node.annotations.insert(PLANNED.to_owned(), text.to_owned());
        let Plan::Patch { body, change, replaces_damaged } =
            plan(&node, &FIRST.interruption(), time(0))
        else {
            panic!("{text:.20}")
        };
        assert!(replaces_damaged, "it is reported: {text:.20}");
        let node = apply(&node, &body);
        assert_eq!((change, waiting(&node).len()), (PlanChange::Announced, 1), "{text:.20}");
    }
}

#[test]
fn an_annotation_of_a_newer_version_that_cannot_be_read_stays() {
    let too_long = format!("{{\"version\":2,\"x\":\"{}\"}}", "x".repeat(20_000));
    for text in ["{\"version\":2}", "{\"version\":3,\"changes\":{}}", &too_long] {
        let mut node = super::node();
        node.annotations.insert(PLANNED.to_owned(), text.to_owned());
        assert_eq!(plan(&node, &FIRST.interruption(), time(0)), Plan::Unreadable, "{text:.20}");
    }
}

#[test]
fn changes_of_an_unknown_shape_stay_and_count_for_nothing() {
    let mut node = all_noted(&[FIRST]);
    let mut value: Value = serde_json::from_str(&node.annotations[PLANNED]).unwrap();
    let unknown = json!({"window": ["a", 2]});
    value["version"] = json!(2);
    value["changes"].as_array_mut().unwrap().insert(0, unknown.clone());
    node.annotations.insert(PLANNED.to_owned(), value.to_string());
    assert_eq!(waiting(&node), [("e1".to_owned(), 96_400)]);
    let (node, _) = noted(&node, FIRST.closed("e2", 10)).unwrap();
    let value: Value = serde_json::from_str(&node.annotations[PLANNED]).unwrap();
    assert_eq!((&value["version"], &value["changes"][0]), (&json!(2), &unknown));
    assert_eq!(value["changes"].as_array().unwrap().len(), 2);
}

#[test]
fn a_change_whose_start_is_past_when_its_message_comes_is_noted_as_past() {
    let past = |message: Message, now| match plan(&node(), &message.interruption(), time(now)) {
        Plan::Patch { change, .. } => change,
        other => panic!("{other:?}"),
    };
    assert_eq!(past(FIRST, 99_999), PlanChange::Announced);
    assert_eq!(past(FIRST, 100_000), PlanChange::Past);
    assert_eq!(past(FIRST.closed("e2", 10), 100_001), PlanChange::Canceled);
    let degraded = Message { code: "AWS_EC2_INSTANCE_DEGRADED", ..FIRST };
    assert_eq!(past(degraded, 100_001), PlanChange::Announced);
    let moved = Message { event: "e2", sent: 96_500, starts: Some(96_000), ..FIRST };
    assert_eq!(noted(&all_noted(&[FIRST]), moved).unwrap().1, PlanChange::Past);
}

#[test]
fn a_move_within_the_lead_keeps_the_state_of_a_node_whose_drain_is_over() {
    let drained = accept_change(&all_noted(&[FIRST]), 96_400).unwrap();
    let over = apply(&drained, &release(&drained, &Released::new(at(97_000), "empty")).unwrap());
    let moved = |starts| Message { event: "e2", sent: 97_500, starts: Some(starts), ..FIRST };
    for (starts, waits, means) in [
        (101_000, 0, WithdrawnChanges::None),
        (98_000, 0, WithdrawnChanges::None),
        (97_400, 0, WithdrawnChanges::None),
        (101_101, 1, WithdrawnChanges::Ended(Withdrawal::Moved)),
    ] {
        let (node, _) = noted(&over, moved(starts)).unwrap();
        assert_eq!(planned(&node).waiting(time(97_500), None).len(), waits, "{starts}");
        let found = withdrawn_changes(&node, &id(INSTANCE), &planned(&node), time(97_500));
        assert_eq!(found, means, "{starts}");
        let (node, _) = noted(&node, FIRST.closed("e3", 97_600)).unwrap();
        let found = withdrawn_changes(&node, &id(INSTANCE), &planned(&node), time(97_600));
        assert_eq!(found, WithdrawnChanges::Ended(Withdrawal::Canceled), "{starts}");
    }
}

#[test]
fn the_annotation_has_room_for_a_few_changes_and_drops_the_oldest_canceled_one() {
    let arns = ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8"];
    let all: Vec<_> = arns.map(|arn| Message { arn, event: arn, ..FIRST }).into();
    let (last, first) = all.split_last().unwrap();
    assert_eq!(first.len(), MAX_CHANGES);
    let full = all_noted(first);
    assert_eq!(plan(&full, &last.interruption(), time(0)), Plan::Full);
    let (room, _) = noted(&full, first[3].closed("x", 5)).unwrap();
    let (node, _) = noted(&room, *last).unwrap();
    let waits: Vec<_> = waiting(&node).into_iter().map(|(event, _)| event).collect();
    assert_eq!(waits.len(), MAX_CHANGES);
    assert!(waits.contains(&"a8".to_owned()) && !waits.contains(&"a3".to_owned()));
}

#[test]
fn fields_of_a_newer_version_stay() {
    let mut node = all_noted(&[FIRST]);
    let mut value: Value = serde_json::from_str(&node.annotations[PLANNED]).unwrap();
    value["new"] = json!(1);
    value["changes"][0]["new"] = json!([2]);
    node.annotations.insert(PLANNED.to_owned(), value.to_string());
    let moved = Message { event: "e2", sent: 10, starts: Some(200_000), ..FIRST };
    let (node, _) = noted(&node, moved).unwrap();
    let value: Value = serde_json::from_str(&node.annotations[PLANNED]).unwrap();
    assert_eq!((&value["new"], &value["changes"][0]["new"]), (&json!(1), &json!([2])));
}

#[test]
fn a_change_whose_start_is_past_drains_no_node_any_more() {
    let node = all_noted(&[FIRST]);
    let waits = |now| !planned(&node).waiting(time(now), node.boot_id.as_deref()).is_empty();
    assert!(waits(99_999));
    assert!(!waits(100_000), "a reboot is over, a retired instance is gone");
    let degraded = all_noted(&[Message { code: "AWS_EC2_INSTANCE_DEGRADED", ..FIRST }]);
    assert!(!planned(&degraded).waiting(time(100_001), None).is_empty());
}

#[test]
fn after_a_boot_before_the_start_the_node_is_drained_again_unless_the_change_is_a_reboot() {
    for (code, again) in [(RETIREMENT, true), ("AWS_EC2_INSTANCE_REBOOT_MAINTENANCE", false)] {
        let node = all_noted(&[Message { code, ..FIRST }]);
        let mut node = accept_change(&node, 96_400).unwrap();
        let waits =
            |node: &Node| !planned(node).waiting(time(97_000), node.boot_id.as_deref()).is_empty();
        assert!(!waits(&node), "it was accepted");
        node.boot_id = Some("another".to_owned());
        assert_eq!(waits(&node), again, "{code}");
    }
}

#[test]
fn a_node_that_was_put_back_after_a_boot_is_drained_for_the_same_event() {
    let node = accept_change(&all_noted(&[FIRST]), 96_400).unwrap();
    let mut released = release_node(&node, 96_500);
    released.taints.clear();
    released.unschedulable = false;
    released.boot_id = Some("another".to_owned());
    let again = accept_change(&released, 97_000).unwrap();
    assert!(matches!(status(&again, None), RecordStatus::Open(_)));
    assert!(accept_change(&again, 97_001).is_none(), "once");
}
