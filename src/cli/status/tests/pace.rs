//! A drain that waits for other drains, in the report.

use super::*;
use crate::domain::FORCE;

const TEXT: &str = "The pods stay, until 2026-01-01T01:15:49Z at the latest, because as many nodes \
    are being drained as --max-voluntary allows. The node is cordoned.";

/// The remarks about a node whose drain began at 3350 and ends after 40 minutes.
fn remarks(pods: &[Pod], held_at: i64) -> Vec<String> {
    remarks_after(pods, &[("DrainHeldBack", held_at)], 0, &[])
}

/// The same with these Events, a leader since `led`, and with these annotations.
fn remarks_after(
    pods: &[Pod],
    events: &[(&str, i64)],
    led: i64,
    annotations: &[(&str, String)],
) -> Vec<String> {
    let annotations = [&[(RECORD, hook(3350))], annotations].concat();
    let mut facts = facts(vec![node("a", &annotations)], pods);
    facts.lease = Some(LeaseFacts { acquired: Some(at(led)), ..lease() });
    let event = |(reason, last): &(&str, i64)| EventFacts {
        is_warning: false,
        ..event(Subject::Node("a".into()), reason, TEXT, *last)
    };
    facts.events = events.iter().map(event).collect();
    let node = report(&facts, None).nodes.remove(0);
    assert!(node.events.is_empty(), "it is not listed twice: {:?}", node.events);
    node.remarks
}

#[test]
fn a_drain_that_waits_for_others_says_so_until_a_pod_is_on_its_way() {
    assert_eq!(remarks(&[pod("web")], 3500), [TEXT]);
    assert!(remarks(&[pod("web")], 3000).is_empty(), "an Event of an earlier drain");
    assert!(remarks(&[], 3500).is_empty(), "no pod is left");
    let leaving = Pod { deletion: Some(at(3700)), ..pod("web") };
    assert!(remarks(&[leaving, pod("db")], 3500).is_empty(), "its evictions have begun");
}

#[test]
fn a_drain_that_has_had_its_turn_waits_for_its_pods_and_not_for_other_drains() {
    let (held, begins) = ("DrainHeldBack", "DrainBegins");
    let asked = Pod {
        wishes: PodWishes::read(
            |key| (key == "sundown.dev/drain").then_some("wait"),
            &pod("web").labels,
        ),
        ..pod("web")
    };
    for (events, led, is_held) in [
        (&[(held, 3500)][..], 0, true),
        (&[(held, 3500), (begins, 3560)], 0, false),
        (&[(held, 3500), (begins, 3500)], 0, false),
        (&[(begins, 3400), (held, 3500)], 0, true),
        // The Event is of an earlier leader.
        (&[(held, 3500)], 3550, false),
    ] {
        for pod in [pod("web"), asked.clone()] {
            let said = remarks_after(&[pod], events, led, &[]);
            assert_eq!(said.contains(&TEXT.to_owned()), is_held, "{events:?}: {said:?}");
        }
    }
    let forced = [(FORCE, "true".to_owned())];
    let said = remarks_after(&[pod("web")], &[(held, 3500)], 0, &forced);
    assert!(!said.contains(&TEXT.to_owned()), "a person forces the drain: {said:?}");
}

#[test]
fn the_groups_share_what_was_left_when_other_drains_let_the_drain_begin() {
    let critical = Pod { priority: 2_000_000_000, ..pod("dns") };
    let next_group = |events: &[(&str, i64)], led: i64| {
        let said = remarks_after(&[pod("web"), critical.clone()], events, led, &[]);
        let [remark] = &said[..] else { panic!("{said:?}") };
        let (_, rest) = remark.split_once("or until ").unwrap();
        let at: Moment = rest.split_once(' ').unwrap().0.parse().unwrap();
        at
    };
    let from_accept = next_group(&[], 0);
    let after_hold = next_group(&[("DrainHeldBack", 3360), ("DrainBegins", 3550)], 0);
    // Of two groups, the second one begins after a quarter of the time.
    assert_eq!(after_hold, from_accept.plus(seconds(150)));
    assert_eq!(next_group(&[("DrainBegins", 3550)], 3580), next_group(&[], 3580), "another leader");
}
