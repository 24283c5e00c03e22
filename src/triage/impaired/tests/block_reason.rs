//! What stops every drain.

use super::*;

fn elsewhere(from: usize) -> impl Fn((usize, ScannedNode)) -> ScannedNode {
    move |(at, scanned)| if at < from { scanned } else { with(scanned, |n| n.instance = None) }
}

fn elsewhere_up_to(end: usize) -> impl Fn((usize, ScannedNode)) -> ScannedNode {
    move |(at, scanned)| if at >= end { scanned } else { with(scanned, |n| n.instance = None) }
}

/// `all` Nodes, of which `of_zone` are in zone a, and `sick` of these are sick.
fn zoned(all: usize, of_zone: usize, sick: usize) -> Vec<ScannedNode> {
    let nodes = among(all, (1..=sick).map(|n| not_ready(n, NOW - 5)).collect());
    let place = |(at, scanned): (usize, ScannedNode)| {
        let zone = if at < of_zone { "a" } else { "b" };
        with(scanned, |node| {
            node.labels = Arc::new([(ZONE.to_owned(), zone.to_owned())].into());
        })
    };
    nodes.into_iter().enumerate().map(place).collect()
}

#[test]
fn what_holds_every_drain_back() {
    let sick = |n: usize| (1..=n).map(|n| not_ready(n, NOW - 5)).collect::<Vec<_>>();
    let spare = |mut nodes: Vec<ScannedNode>, managed: usize| {
        nodes.iter_mut().skip(managed).for_each(|scanned| scanned.is_managed = false);
        nodes
    };
    let going =
        |n: usize| ScannedNode { status: ImpairedStatus::OtherInterruption, ..not_ready(n, 5000) };
    for (name, nodes, expected) in [
        ("nothing is sick", among(10, sick(0)), None),
        ("1 of 1", among(1, sick(1)), None),
        ("1 of 2", among(2, sick(1)), None),
        ("2 of 10: 20 %", among(10, sick(2)), None),
        ("2 of 9", among(9, sick(2)), Some(WaitReason::FaultElsewhere)),
        ("3 of 10", among(10, sick(3)), Some(WaitReason::FaultElsewhere)),
        ("2 of 2", among(2, sick(2)), Some(WaitReason::FaultElsewhere)),
        ("20 of 100", among(100, sick(20)), None),
        ("21 of 100", among(100, sick(21)), Some(WaitReason::FaultElsewhere)),
        (
            "2 of 100, of which 5 are managed",
            spare(among(100, sick(2)), 5),
            Some(WaitReason::FaultElsewhere),
        ),
        ("3 of 10, none managed", spare(among(10, sick(3)), 0), Some(WaitReason::FaultElsewhere)),
        ("8 of 10 that go away", among(10, (1..=8).map(going).collect()), None),
        (
            "2 of 10, and 2 of these go away: they count in neither number",
            among(10, vec![going(3), going(4), not_ready(1, 9000), not_ready(2, 9000)]),
            Some(WaitReason::FaultElsewhere),
        ),
        (
            "2 of 9, and 5 machines elsewhere that are well",
            among(14, sick(2)).into_iter().enumerate().map(elsewhere(9)).collect(),
            Some(WaitReason::FaultElsewhere),
        ),
        (
            "1 of 10, and 4 machines elsewhere that are sick",
            sick(5)
                .into_iter()
                .chain((50..).map(ready).take(9))
                .enumerate()
                .map(elsewhere_up_to(4))
                .collect(),
            None,
        ),
        ("2 of 3 in a zone", zoned(20, 3, 2), Some(WaitReason::FaultElsewhere)),
        ("2 of 4 in a zone", zoned(20, 4, 2), None),
        ("3 of 5 in a zone", zoned(20, 5, 3), Some(WaitReason::FaultElsewhere)),
        ("2 of 2 in a zone", zoned(20, 2, 2), None),
        (
            "3 of 10, of which 2 are drained as impaired",
            among(
                10,
                vec![
                    accepted(1, "a", 5000, ImpairedStatus::Draining),
                    accepted(2, "b", 5000, ImpairedStatus::Drained),
                    not_ready(3, 9000),
                ],
            ),
            Some(WaitReason::FaultElsewhere),
        ),
    ] {
        assert_eq!(block_reason(&scene(&nodes)), expected, "{name}");
    }
    let nodes = among(10, sick(1));
    let all = among(10, sick(10));
    let calm = scene(&nodes);
    for (name, scene, expected) in [
        ("paused", Scene { is_paused: true, ..calm }, Some(WaitReason::Paused)),
        (
            "EC2 does not answer which checks fail",
            Scene { failing: None, ..calm },
            Some(WaitReason::StatusesUnknown),
        ),
        ("the watch fails", Scene { is_index_sound: false, ..calm }, Some(WaitReason::WatchStale)),
        (
            "an outage 299 s ago",
            Scene { watch_failed_at: Some(at(NOW - 299)), ..calm },
            Some(WaitReason::ApiServerOutage),
        ),
        ("an outage 300 s ago", Scene { watch_failed_at: Some(at(NOW - 300)), ..calm }, None),
        (
            "an outage, and every node is silent",
            Scene { watch_failed_at: Some(at(NOW)), nodes: &all, ..calm },
            Some(WaitReason::ApiServerOutage),
        ),
    ] {
        assert_eq!(block_reason(&scene), expected, "{name}");
    }
    let failing: BTreeMap<_, _> = (50..53).map(|n| (instance(n), at(NOW))).collect();
    let checks_fail = Scene { failing: Some(&failing), ..calm };
    assert_eq!(
        block_reason(&checks_fail),
        Some(WaitReason::FaultElsewhere),
        "failed checks count, too"
    );
}
