//! The scheduled changes of a Node.

use super::*;
use crate::{
    domain::ChangeSchedule,
    record::planned::{
        MAX_CHANGES, Plan, PlanChange, PlanTime, Planned, Withdrawal, WithdrawnChanges,
        holds_change, plan, withdrawn_changes,
    },
};

pub(super) const RETIREMENT: &str = "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED";
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
            "a newer one has the same content",
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
    let restored = apply(
        &close(&drained),
        &restore_node(&close(&drained), None, &After::Released(Released::new(at(0), "x"))).unwrap(),
    );
    assert_eq!(canceled(&restored), WithdrawnChanges::None, "nothing of ours is left on it");
    let mut lost = close(&drained);
    lost.annotations.remove(PLANNED);
    assert_eq!(Planned::of(&lost, &id(INSTANCE)), None, "no cancellation is known any longer");
}

#[test]
fn an_annotation_of_another_instance_or_one_that_no_version_wrote_is_replaced() {
    let node = all_noted(&[FIRST]);
    let other = Node { instance: Some(id(OTHER)), ..node.clone() };
    assert_eq!(Planned::of(&other, &id(OTHER)), None);
    assert_eq!(plan(&other, &FIRST.interruption(), time(0)), Plan::OtherInstance);
    for text in ["", "{", "[]", "{\"version\":1}", &"x".repeat(20_000)] {
        let mut node = super::node();
        node.annotations.insert(PLANNED, text);
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
        node.annotations.insert(PLANNED, text);
        assert_eq!(plan(&node, &FIRST.interruption(), time(0)), Plan::Unreadable, "{text:.20}");
    }
}

#[test]
fn changes_of_an_unknown_shape_stay_and_count_for_nothing() {
    let mut node = all_noted(&[FIRST]);
    let mut value: Value = serde_json::from_str(node.annotations.get(PLANNED).unwrap()).unwrap();
    let unknown = json!({"window": ["a", 2]});
    value["version"] = json!(2);
    value["changes"].as_array_mut().unwrap().insert(0, unknown.clone());
    node.annotations.insert(PLANNED, value.to_string());
    assert_eq!(waiting(&node), [("e1".to_owned(), 96_400)]);
    let (node, _) = noted(&node, FIRST.closed("e2", 10)).unwrap();
    let value: Value = serde_json::from_str(node.annotations.get(PLANNED).unwrap()).unwrap();
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
    let mut value: Value = serde_json::from_str(node.annotations.get(PLANNED).unwrap()).unwrap();
    value["new"] = json!(1);
    value["changes"][0]["new"] = json!([2]);
    node.annotations.insert(PLANNED, value.to_string());
    let moved = Message { event: "e2", sent: 10, starts: Some(200_000), ..FIRST };
    let (node, _) = noted(&node, moved).unwrap();
    let value: Value = serde_json::from_str(node.annotations.get(PLANNED).unwrap()).unwrap();
    assert_eq!((&value["new"], &value["changes"][0]["new"]), (&json!(1), &json!([2])));
}

#[test]
fn a_node_holds_the_change_that_later_messages_about_it_move_or_close() {
    let noted = all_noted(&[FIRST]);
    let moved = Message { event: "e2", sent: 10, starts: Some(200_000), ..FIRST };
    let other = Node { instance: Some(id(OTHER)), ..noted.clone() };
    let mut damaged = noted.clone();
    damaged.annotations.insert(PLANNED, "{");
    for (name, node, message, expected) in [
        ("the same message", &noted, FIRST, true),
        ("moved", &noted, moved, true),
        ("closed", &noted, FIRST.closed("e3", 10), true),
        ("another change", &noted, Message { arn: "b", ..moved }, false),
        ("no annotation", &node(), FIRST, false),
        ("the annotation of another instance", &other, FIRST, false),
        ("a damaged one", &damaged, FIRST, false),
    ] {
        let mut message = message.interruption();
        message.instance = node.instance.clone().unwrap();
        assert_eq!(holds_change(node, &message, time(10)), expected, "{name}");
    }
}
