//! The condition `MaintenancePlanned`.

use super::{
    planned::{FIRST, Message, all_noted, noted, planned, time},
    *,
};
use crate::{
    domain::ShownMaintenance,
    record::maintenance::{MaintenanceCondition, maintenance_condition},
};

fn wanted(node: &Node, now: i64) -> Option<MaintenanceCondition> {
    let planned = Planned::of(node, &id(INSTANCE));
    maintenance_condition(node, planned.as_ref(), time(now))
}

/// The Node after this condition was written.
fn shown(node: &Node, condition: &MaintenanceCondition) -> Node {
    let body = condition.patch("uid", at(0));
    let written = &body["status"]["conditions"][0];
    let text = |key: &str| written[key].as_str().unwrap().to_owned();
    let maintenance = ShownMaintenance {
        is_true: written["status"] == "True",
        reason: text("reason"),
        message: text("message"),
    };
    Node { maintenance: Some(Box::new(maintenance)), ..node.clone() }
}

#[test]
fn an_announced_change_is_shown_until_it_begins_or_is_withdrawn() {
    let node = all_noted(&[FIRST]);
    let condition = wanted(&node, 0).unwrap();
    assert!(condition.is_planned);
    let node = shown(&node, &condition);
    assert_eq!(wanted(&node, 99_999), None, "it is right");
    let over = wanted(&node, 100_000).unwrap();
    assert!(!over.is_planned, "it has begun");
    assert_eq!(wanted(&shown(&node, &over), 100_000), None);

    let (canceled, _) = noted(&node, FIRST.closed("e2", 10)).unwrap();
    assert!(!wanted(&canceled, 20).unwrap().is_planned);
    let moved = Message { event: "e2", sent: 10, starts: Some(200_000), ..FIRST };
    let (moved, _) = noted(&node, moved).unwrap();
    let condition = wanted(&moved, 20).unwrap();
    assert!(condition.is_planned, "with the new start");
    assert_eq!(wanted(&shown(&moved, &condition), 20), None);
    let mut lost = node;
    lost.annotations.remove(PLANNED);
    assert!(!wanted(&lost, 20).unwrap().is_planned, "a person deleted the annotation");
}

#[test]
fn a_node_without_an_announced_change_gets_no_condition() {
    assert_eq!(wanted(&node(), 0), None);
    let network = Message { code: "AWS_EC2_INSTANCE_NETWORK_MAINTENANCE_SCHEDULED", ..FIRST };
    assert_eq!(wanted(&all_noted(&[network]), 0), None, "it asks for nothing");
    assert_eq!(wanted(&all_noted(&[FIRST]), 100_000), None, "it has begun");
}

#[test]
fn of_several_changes_the_first_is_shown() {
    let second = Message { arn: "b", starts: Some(50_000), ..FIRST };
    let node = all_noted(&[FIRST, second]);
    let text = |now| wanted(&node, now).unwrap().patch("uid", at(0)).to_string();
    assert!(text(0).contains("(event b, "));
    assert!(text(50_000).contains("(event a, "));
    assert_eq!(planned(&node).announced(at(100_000)), None);
}

#[test]
fn the_condition_of_another_writer_stays() {
    let other = |is_true| ShownMaintenance {
        is_true,
        reason: "MaintenanceWindow".to_owned(),
        message: "by the admin".to_owned(),
    };
    let of = |node: Node, is_true| Node { maintenance: Some(Box::new(other(is_true))), ..node };
    assert_eq!(wanted(&of(all_noted(&[FIRST]), true), 0), None);
    assert_eq!(wanted(&of(node(), true), 0), None);
    assert!(wanted(&of(all_noted(&[FIRST]), false), 0).unwrap().is_planned);
}

#[test]
fn the_patch_has_only_this_condition_and_keeps_its_time_if_only_the_text_changes() {
    let node = all_noted(&[FIRST]);
    let first = wanted(&node, 0).unwrap();
    let body = first.patch("uid-1", at(5));
    assert_eq!(body["metadata"], json!({ "uid": "uid-1" }));
    assert_eq!(body.as_object().unwrap().len(), 2);
    assert_eq!(
        body["status"],
        json!({ "conditions": [{
            "type": "MaintenancePlanned", "status": "True",
            "reason": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
            "message": "AWS announced AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED, which begins at \
                        2026-01-02T03:46:40Z (event a, see sundown.dev/planned)",
            "lastHeartbeatTime": "2026-01-01T00:00:05Z",
            "lastTransitionTime": "2026-01-01T00:00:05Z",
        }] })
    );
    let moved = Message { event: "e2", sent: 10, starts: Some(200_000), ..FIRST };
    let (moved, _) = noted(&shown(&node, &first), moved).unwrap();
    let body = wanted(&moved, 20).unwrap().patch("uid-1", at(20));
    assert!(body["status"]["conditions"][0].get("lastTransitionTime").is_none());
}
