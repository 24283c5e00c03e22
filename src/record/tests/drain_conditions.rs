//! The conditions `DrainInProgress` and `Drained`.

use super::*;
use crate::{
    domain::{ShownCondition, ShownDrain},
    record::{DrainConditions, drain_conditions_change},
};

fn in_progress(text: &str) -> DrainConditions {
    DrainConditions::new(true, false, "Evicting", text)
}

/// The Node after this was written at this time.
fn written(node: &Node, wanted: Option<&DrainConditions>, now: i64) -> Node {
    let Some(change) = drain_conditions_change(node, wanted) else { return node.clone() };
    let mut drain = node.drain_conditions.as_deref().cloned().unwrap_or_default();
    let body = change.patch("uid", at(now));
    for condition in body["status"]["conditions"].as_array().unwrap() {
        let text = |key: &str| condition[key].as_str().unwrap().to_owned();
        let shown = (condition["$patch"] != "delete").then(|| ShownCondition {
            is_true: condition["status"] == "True",
            reason: text("reason"),
            message: text("message"),
            written: Some(at(now)),
        });
        match condition["type"].as_str().unwrap() {
            "DrainInProgress" => drain.in_progress = shown,
            "Drained" => drain.drained = shown,
            other => panic!("{other}"),
        }
    }
    let drain = Some(Box::new(drain)).filter(|drain| **drain != ShownDrain::default());
    Node { drain_conditions: drain, ..node.clone() }
}

fn statuses(node: &Node) -> Option<(bool, bool)> {
    let shown = node.drain_conditions.as_deref()?;
    Some((shown.in_progress.as_ref()?.is_true, shown.drained.as_ref()?.is_true))
}

#[test]
fn the_patch_has_only_our_conditions_and_keeps_the_time_of_a_status_that_stays() {
    let change = drain_conditions_change(&node(), Some(&in_progress("7 pods left"))).unwrap();
    let body = change.patch("uid-1", at(5));
    assert_eq!(body.as_object().unwrap().len(), 2);
    assert_eq!(body["metadata"], json!({ "uid": "uid-1" }));
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": "Evicting",
            "message": "7 pods left (see sundown.dev/record)",
            "lastHeartbeatTime": "2026-01-01T00:00:05Z",
            "lastTransitionTime": "2026-01-01T00:00:05Z",
        })
    };
    assert_eq!(
        body["status"],
        json!({ "conditions": [condition("DrainInProgress", "True"), condition("Drained", "False")] })
    );
    let node = written(&node(), Some(&in_progress("7 pods left")), 5);
    assert_eq!(drain_conditions_change(&node, Some(&in_progress("7 pods left"))), None);
    let change = drain_conditions_change(&node, Some(&in_progress("6 pods left"))).unwrap();
    let body = change.patch("uid-1", at(40));
    for condition in body["status"]["conditions"].as_array().unwrap() {
        assert_eq!(condition["lastHeartbeatTime"], "2026-01-01T00:00:40Z");
        assert!(condition.get("lastTransitionTime").is_none(), "the status is the same");
    }
}

#[test]
fn a_drain_is_shown_from_its_beginning_to_its_end_and_removed_after_it() {
    let node = written(&node(), Some(&in_progress("7 pods left")), 0);
    assert_eq!(statuses(&node), Some((true, false)));
    let over = DrainConditions::of_end(&Released::new(at(60), "empty")).unwrap();
    let node = written(&node, Some(&over), 60);
    assert_eq!(statuses(&node), Some((false, true)));
    let change = drain_conditions_change(&node, None).unwrap();
    assert_eq!(
        change.patch("uid", at(90))["status"],
        json!({ "conditions": [
            { "type": "DrainInProgress", "$patch": "delete" },
            { "type": "Drained", "$patch": "delete" },
        ] })
    );
    let node = written(&node, None, 90);
    assert_eq!(node.drain_conditions, None);
    assert_eq!(drain_conditions_change(&node, None), None);
}

#[test]
fn the_end_of_a_drain_says_how_it_ended() {
    let ended = "The drain ended at 2026-01-01T00:01:00Z: ";
    for (outcome, expected) in [
        ("empty", Some((true, "DrainCompleted", "no pod is left"))),
        (
            "instance_over",
            Some((true, "InstanceEnded", "its instance has stopped or is terminated")),
        ),
        ("deadline", Some((false, "DeadlineReached", "its deadline was reached"))),
        ("timed_out", Some((false, "DrainTimedOut", "it has reached its drain timeout"))),
        ("unreachable", Some((false, "NodeUnreachable", "its kubelet does not report"))),
        ("released", Some((false, "DrainReleased", "a person or AWS has ended it early"))),
        ("not_evicted", None),
        ("expired", None),
        ("into_warm_pool", None),
        ("of a later version", None),
    ] {
        let conditions = DrainConditions::of_end(&Released::new(at(60), outcome));
        let node = written(&node(), conditions.as_ref(), 60);
        let shown = node.drain_conditions.as_deref().and_then(|shown| shown.drained.as_ref());
        let shown = shown.map(|shown| (shown.is_true, shown.reason.clone(), shown.message.clone()));
        let expected = expected.map(|(is_drained, reason, why)| {
            (is_drained, reason.to_owned(), format!("{ended}{why} (see sundown.dev/record)"))
        });
        assert_eq!(shown, expected, "{outcome}");
        assert!(conditions.is_none_or(|conditions| !conditions.is_in_progress), "{outcome}");
    }
}

#[test]
fn a_condition_of_another_writer_stays_and_the_other_one_is_ours() {
    let foreign = ShownCondition {
        is_true: true,
        reason: "AdminRequested".to_owned(),
        message: "kubectl drain".to_owned(),
        written: None,
    };
    let shown = ShownDrain { in_progress: Some(foreign.clone()), drained: None };
    let node = Node { drain_conditions: Some(Box::new(shown)), ..node() };
    assert_eq!(drain_conditions_change(&node, None), None);
    let node = written(&node, Some(&in_progress("7 pods left")), 5);
    let shown = |node: &Node| node.drain_conditions.as_deref().cloned().unwrap();
    assert_eq!(shown(&node).in_progress, Some(foreign.clone()));
    assert!(shown(&node).drained.is_some_and(|drained| !drained.is_true));
    let node = written(&node, None, 40);
    assert_eq!(shown(&node), ShownDrain { in_progress: Some(foreign), drained: None });
}

#[test]
fn a_long_text_is_cut_to_what_the_index_keeps() {
    let wanted = in_progress(&"é".repeat(5000));
    let node = written(&node(), Some(&wanted), 0);
    let shown = node.drain_conditions.as_deref().unwrap().in_progress.clone().unwrap();
    assert!(shown.message.chars().count() <= 1000);
    assert!(shown.message.ends_with("é... (see sundown.dev/record)"));
    assert_eq!(drain_conditions_change(&node, Some(&wanted)), None);
}
