//! Which instances have been sick for long enough.

use super::*;

#[test]
fn a_suspect_has_been_sick_for_long_and_was_well_before() {
    let long = NOW - 600;
    let unknown = |node: &mut Node| node.ready = Ready::Unknown;
    for (name, node, failing_since, expected) in [
        ("Ready", ready(1), None, None),
        ("not Ready for 10 min", not_ready(1, long), None, Some(Symptom::NotReady)),
        ("a second less", not_ready(1, long + 1), None, None),
        (
            "Ready is False",
            with(not_ready(1, long), |node| node.ready = Ready::False),
            None,
            Some(Symptom::NotReady),
        ),
        ("a failed check for 10 min", ready(1), Some(long), Some(Symptom::StatusCheck)),
        ("a second less", ready(1), Some(long + 1), None),
        ("both", not_ready(1, long), Some(long - 1), Some(Symptom::StatusCheck)),
        ("both, the Node first", not_ready(1, 5000), Some(long), Some(Symptom::NotReady)),
        (
            "never Ready",
            with(ready(1), |n| (n.ready, n.ready_since) = (Ready::False, Some(at(2)))),
            None,
            None,
        ),
        ("never Ready, silent", with(not_ready(1, 300), unknown), None, None),
        (
            "no condition",
            with(ready(1), |n| (n.ready, n.ready_since) = (Ready::Unknown, None)),
            None,
            None,
        ),
        ("not managed", ScannedNode { is_managed: false, ..not_ready(1, long) }, None, None),
        ("without providerID", with(not_ready(1, long), |n| n.instance = None), Some(long), None),
        (
            "another interruption holds it",
            ScannedNode { status: ImpairedStatus::OtherInterruption, ..not_ready(1, long) },
            Some(long),
            None,
        ),
        (
            "only tainted",
            ScannedNode { status: ImpairedStatus::OnlyTainted, ..not_ready(1, long) },
            None,
            Some(Symptom::NotReady),
        ),
        ("being drained", accepted(1, "a", NOW, ImpairedStatus::Draining), None, None),
        (
            "a person ended its drain",
            ScannedNode {
                status: ImpairedStatus::Free,
                ..accepted(1, "a", 5000, ImpairedStatus::Free)
            },
            None,
            None,
        ),
        (
            "sick again since",
            with(accepted(1, "a", 5000, ImpairedStatus::Free), |n| n.ready_since = Some(at(long))),
            None,
            Some(Symptom::NotReady),
        ),
    ] {
        let failing = failing_since.map(|since| (instance(1), at(since))).into_iter().collect();
        let nodes = [node];
        let scene = Scene { failing: Some(&failing), ..scene(&nodes) };
        let found = suspects(&scene, &NodeHistory::default(), AFTER);
        assert_eq!(found.first().map(|suspect| suspect.symptom), expected, "{name}");
    }
}

#[test]
fn a_node_that_is_only_tainted_is_a_suspect_if_more_is_asked_for_and_always_counts() {
    let only_tainted =
        |n| ScannedNode { status: ImpairedStatus::OnlyTainted, ..not_ready(n, 5000) };
    let nodes = among(10, vec![only_tainted(1), only_tainted(2)]);
    for (response, expected) in [(Response::Drain, 2), (Response::Cordon, 2), (Response::Prefer, 0)]
    {
        let scene = Scene { response, ..scene(&nodes) };
        assert_eq!(suspects(&scene, &NodeHistory::default(), AFTER).len(), expected);
    }
    let nodes = among(10, (1..=3).map(only_tainted).collect());
    assert_eq!(block_reason(&scene(&nodes)), Some(WaitReason::FaultElsewhere));
}

#[test]
fn of_several_nodes_with_one_instance_none_is_a_suspect() {
    let twin = with(ready(2), |node| node.instance = Some(instance(1)));
    let nodes = [not_ready(1, 5000), twin, not_ready(3, 6000), not_ready(4, 5500)];
    let found = suspects(&scene(&nodes), &NodeHistory::default(), AFTER);
    assert_eq!(names(&found), ["node-04", "node-03"], "the longest sick first");
}

#[test]
fn what_a_person_released_is_drained_again_only_after_it_was_healthy() {
    let released = || accepted(1, "a", 5000, ImpairedStatus::Free);
    let sick = || with(released(), |node| node.ready_since = Some(at(8000)));
    let well = || with(ready(1), |node| node.ready_since = Some(at(6000)));
    for (name, rounds, expected) in [
        ("a new leader knows only the times of the Node", vec![], 1),
        ("it was Ready for a moment", vec![(4000, ready(1)), (7990, well())], 0),
        ("it was healthy for 5 min", vec![(4000, ready(1)), (6500, well()), (6800, well())], 1),
    ] {
        let mut history = NodeHistory::default();
        for (second, node) in rounds {
            history.note(at(second), &[node], Some(NOTHING_FAILS));
            // In the first round, EC2 showed a failed check.
            if second == 4000 {
                history.note(at(5990), &[sick()], Some(NOTHING_FAILS));
            }
        }
        let nodes = [sick()];
        assert_eq!(suspects(&scene(&nodes), &history, AFTER).len(), expected, "{name}");
    }
}
