//! What earlier rounds have shown.

use super::*;

type Rounds<'a> = Vec<(u64, &'a [ScannedNode], Option<&'a BTreeMap<InstanceId, Moment>>)>;

#[test]
fn what_earlier_rounds_have_seen_shows_whether_a_node_was_ready() {
    // Lost 5 min after it was created: its times alone show nothing.
    let young = not_ready(1, 300);
    let nodes = [young.clone()];
    let is_suspect = |history: &NodeHistory| !suspects(&scene(&nodes), history, AFTER).is_empty();
    let mut history = NodeHistory::default();
    assert!(!is_suspect(&history), "nobody has seen it Ready");
    history.note(at(200), &[ready(1)], Some(NOTHING_FAILS));
    history.note(at(320), &nodes, Some(NOTHING_FAILS));
    assert!(is_suspect(&history), "a round has seen it Ready");
    let mut history = NodeHistory::default();
    let launching = with(ready(1), |n| (n.ready, n.ready_since) = (Ready::False, Some(at(2))));
    history.note(at(60), &[launching], Some(NOTHING_FAILS));
    let silent = [not_ready(1, 2000)];
    history.note(at(2060), &silent, Some(NOTHING_FAILS));
    let found = suspects(&scene(&silent), &history, AFTER);
    assert_eq!(names(&found), [] as [&str; 0], "a launch failed before its kubelet went silent");
}

/// Nodes from this position on are no EC2 instances.
#[test]
fn the_time_of_a_kubelet_counts_only_between_two_rounds() {
    let lost = |since| not_ready(1, since);
    for (name, seen_ready, seen_lost, by_kubelet, expected) in [
        ("its clock is right", Some(5000), Some(5060), 5030, Some(5030)),
        ("its clock is behind", Some(5000), Some(5060), 100, Some(5000)),
        ("its clock is ahead", Some(5000), Some(5060), 7000, Some(5060)),
        ("its time is to come", Some(5000), Some(5060), NOW + 100, Some(5060)),
        ("a new leader", None, Some(NOW), 5030, Some(5030)),
        ("a new leader, and its time is to come", None, Some(NOW), NOW + 100, Some(NOW)),
        ("nobody has seen it, and its time is to come", None, None, NOW + 100, None),
    ] {
        let mut history = NodeHistory::default();
        if let Some(second) = seen_ready {
            history.note(at(second), &[ready(1)], Some(NOTHING_FAILS));
        }
        for second in seen_lost.into_iter().flat_map(|first| [first, NOW]) {
            history.note(at(second), &[lost(by_kubelet)], Some(NOTHING_FAILS));
        }
        let since = history.not_ready_since(&lost(by_kubelet).node, at(NOW));
        assert_eq!(since, expected.map(at), "{name}");
    }
}

#[test]
fn a_node_is_healthy_after_five_minutes_without_a_sick_round() {
    let (well, sick) = ([ready(1)], [not_ready(1, 500)]);
    let failing = BTreeMap::from([(instance(1), at(0))]);
    let rounds: [(&str, Rounds<'_>, bool); 6] = [
        (
            "for 300 s",
            vec![(0, &well, Some(NOTHING_FAILS)), (300, &well, Some(NOTHING_FAILS))],
            true,
        ),
        (
            "for 299 s",
            vec![(1, &well, Some(NOTHING_FAILS)), (300, &well, Some(NOTHING_FAILS))],
            false,
        ),
        (
            "sick in between",
            vec![
                (0, &well, Some(NOTHING_FAILS)),
                (60, &sick, Some(NOTHING_FAILS)),
                (120, &well, Some(NOTHING_FAILS)),
                (300, &well, Some(NOTHING_FAILS)),
            ],
            false,
        ),
        ("a check fails", vec![(0, &well, Some(&failing)), (300, &well, Some(&failing))], false),
        ("EC2 does not answer", vec![(0, &well, None), (300, &well, None)], false),
        (
            "EC2 does not answer in between",
            vec![
                (0, &well, Some(NOTHING_FAILS)),
                (60, &well, None),
                (300, &well, Some(NOTHING_FAILS)),
            ],
            true,
        ),
    ];
    let since = |second| with(ready(1), |node| node.ready_since = Some(at(second)));
    for (name, rounds, expected) in rounds {
        let mut history = NodeHistory::default();
        for (second, nodes, failing) in rounds {
            history.note(at(second), nodes, failing);
        }
        assert_eq!(history.is_healthy(&since(0).node, at(300)), expected, "{name}");
        let is_healthy = history.is_healthy(&since(1).node, at(300));
        assert!(!is_healthy, "{name}: the Node was not Ready between two rounds");
        assert!(!history.is_healthy(&sick[0].node, at(900)), "{name}: not Ready by now");
    }
}

#[test]
fn a_failed_check_without_a_time_counts_from_its_first_sight() {
    let mut checks = FailingChecks::default();
    let mut note = |now, since: Option<Option<u64>>| {
        let answer = since.map(|since| (instance(1), since.map(at))).into_iter().collect();
        checks.note(at(now), answer).get(&instance(1)).copied()
    };
    assert_eq!(note(100, Some(None)), Some(at(100)));
    assert_eq!(note(160, Some(None)), Some(at(100)), "not from each round anew");
    assert_eq!(note(220, None), None, "it passes");
    assert_eq!(note(280, Some(None)), Some(at(280)));
    assert_eq!(note(340, Some(Some(250))), Some(at(250)), "EC2 knows better");
    assert_eq!(note(400, Some(Some(9000))), Some(at(250)), "a time to come shows nothing");
}
