//! What gates hold, and an order to force, in the report and in its text.

use super::*;
use crate::{
    cli::status::model::{GateState, GateStatus, Held},
    domain::{FORCE, NodeGates},
};

const DRAIN: &str = "pre-drain.sundown.dev/backup";
const RELEASE: &str = "pre-release.sundown.dev/logs";

/// A node whose drain began at 3350 and ends after 40 minutes, with these pods and gates.
fn gated(keys: &[&str], annotations: &[(&str, &str)], pods: &[Pod]) -> Facts {
    let mut gates = NodeGates::default();
    for key in keys {
        gates.add(key, "job 7");
    }
    let own = annotations.iter().map(|(key, value)| (*key, (*value).to_owned()));
    let all: Vec<(&str, String)> = [(RECORD, hook(3350))].into_iter().chain(own).collect();
    facts(vec![Node { gates: Some(Box::new(gates)), ..node("a", &all) }], pods)
}

fn page(facts: &Facts, is_detailed: bool) -> String {
    let name = is_detailed.then(|| "a".into());
    text(&report(facts, name.as_ref()), Look { is_detailed, width: 200, ..PLAIN })
}

#[test]
fn a_gate_is_shown_with_its_value_and_until_when_it_holds() {
    let facts = gated(&[DRAIN, RELEASE], &[], &[pod("web")]);
    let status = report(&facts, None).nodes.remove(0);
    // Half of 40 minutes, less the time of one call.
    let half = at(3350 + 1199);
    let expected = [
        (DRAIN, Held::Evictions, GateState::Holds, Some(half)),
        (RELEASE, Held::Release, GateState::Waits, status.deadline),
    ];
    let shown: Vec<_> = status
        .gates
        .iter()
        .map(|gate| (gate.annotation.as_str(), gate.of, gate.state, gate.until))
        .collect();
    assert_eq!(shown, expected);
    let line =
        format!("{DRAIN} (job 7) holds the evictions until 2026-01-01T01:15:49Z (in 15m49s)");
    let table = page(&facts, false);
    assert!(table.contains(&format!("  {line}\n")), "{table}");
    assert!(!table.contains(RELEASE), "it does not hold yet\n{table}");
    let detail = page(&facts, true);
    for part in [
        format!("gate       {line}"),
        format!(
            "gate       {RELEASE} (job 7) will hold the completion of the lifecycle actions once \
             the node is empty, until"
        ),
    ] {
        assert!(detail.contains(&part), "{part} is not in\n{detail}");
    }
}

#[test]
fn a_gate_of_the_release_is_shown_as_a_hold_once_the_node_is_empty() {
    let status = report(&gated(&[RELEASE], &[], &[]), None).nodes.remove(0);
    assert_eq!(status.gates.iter().map(|gate| gate.state).collect::<Vec<_>>(), [GateState::Holds]);
    let table = page(&gated(&[RELEASE], &[], &[]), false);
    let line = format!(
        "  {RELEASE} (job 7) holds the completion of the lifecycle actions until \
         2026-01-01T01:35:48Z"
    );
    assert!(table.contains(&line), "{table}");
}

#[test]
fn a_gate_that_holds_nothing_is_shown_with_the_reason_and_only_for_a_named_node() {
    let spot = json!({
        "version": 1, "instance": INSTANCE,
        "interruptions": [{ "kind": "spot", "event": "e", "time": at(3590), "accepted": at(3591) }]
    });
    for (annotations, why) in [
        (vec![(FORCE, "true")], "because a person forces the drain (sundown.dev/force)"),
        (
            vec![("sundown.dev/drain-timeout", "5m")],
            "because the drain's deadline is 5 minutes or less",
        ),
        (
            vec![("sundown.dev/drain-timeout", "8m")],
            "because the longest time for gates has passed",
        ),
        (vec![(RECORD, &*spot.to_string())], "because the drain's deadline is 5 minutes or less"),
    ] {
        let facts = gated(&[DRAIN], &annotations, &[pod("web")]);
        let (table, detail) = (page(&facts, false), page(&facts, true));
        assert!(!table.contains(DRAIN), "{table}");
        let line = format!("{DRAIN} (job 7) holds nothing, {why}");
        assert!(detail.contains(&line), "{line} is not in\n{detail}");
    }
}

#[test]
fn an_order_to_force_is_shown_and_so_is_one_that_cannot_be_read() {
    let forced = gated(&[], &[(FORCE, "true")], &[pod("web")]);
    let status = report(&forced, None).nodes.remove(0);
    assert_eq!(status.force_from, Some(forced.now));
    assert!(status.remarks[0].starts_with("A person forces this drain"), "{:?}", status.remarks);
    let table = page(&forced, false);
    assert!(table.contains(" now "), "{table}");
    let paused = gated(&[], &[(FORCE, "true"), ("sundown.dev/pause", "true")], &[pod("web")]);
    let status = report(&paused, None).nodes.remove(0);
    assert!(status.remarks[0].contains("After the pause, Sundown ignores"), "{:?}", status.remarks);
    let bad = report(&gated(&[], &[(FORCE, "yes")], &[pod("web")]), None).nodes.remove(0);
    assert!(bad.force_from > Some(at(3600)));
    let remark = "the annotation sundown.dev/force is `yes`: use `true`, or remove the annotation.";
    assert_eq!(bad.remarks, [remark]);
}

#[test]
fn of_very_many_gates_the_rest_is_counted() {
    let keys: Vec<String> = (0..30).map(|n| format!("pre-drain.sundown.dev/g{n:02}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let status = report(&gated(&keys, &[], &[pod("web")]), None).nodes.remove(0);
    assert_eq!(status.gates.len(), 8);
    assert_eq!(status.remarks, ["22 more gates are not shown. They count, too."]);
}

#[test]
fn a_gate_is_an_object_in_the_json() {
    let gate = GateStatus {
        annotation: DRAIN.to_owned(),
        value: "job 7".to_owned(),
        of: Held::Evictions,
        state: GateState::Holds,
        until: Some(at(3600)),
        why: None,
    };
    let expected = json!({
        "annotation": DRAIN, "value": "job 7", "holds": "evictions", "state": "holds",
        "until": at(3600), "why": null
    });
    assert_eq!(serde_json::to_value(gate).unwrap(), expected);
}
