//! A drain that waits for other drains, in the report.

use super::*;

const TEXT: &str = "The pods stay, until 2026-01-01T01:15:49Z at the latest, because as many nodes \
    are being drained as --max-voluntary allows. The node is cordoned.";

/// The remarks about a node whose drain began at 3350 and ends after 40 minutes.
fn remarks(pods: &[Pod], held_at: i64) -> Vec<String> {
    let mut facts = facts(vec![node("a", &[(RECORD, hook(3350))])], pods);
    let held = event(Subject::Node("a".into()), "DrainHeldBack", TEXT, held_at);
    facts.events = vec![EventFacts { is_warning: false, ..held }];
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
