//! Tables of which sick instances are drained, and when.

use super::*;
use crate::domain::{IGNORE, KEEP_CORDONED, PAUSE, ZONE, seconds};

const AFTER: Duration = seconds(600);

fn at(second: u64) -> Moment {
    "2026-01-05T09:00:00Z".parse::<Moment>().unwrap().plus(seconds(second))
}

/// The second of all rounds in these tests.
const NOW: u64 = 10_000;

fn instance(n: usize) -> InstanceId {
    format!("i-{n:017x}").parse().unwrap()
}

/// A Node that was created long ago and is Ready.
fn ready(n: usize) -> ScannedNode {
    let node = Node {
        name: format!("node-{n:02}").as_str().into(),
        uid: format!("uid-{n}"),
        resource_version: "1".into(),
        created: Some(at(0)),
        instance: Some(instance(n)),
        is_elsewhere: false,
        boot_id: None,
        unschedulable: false,
        taints: Vec::new(),
        labels: Arc::default(),
        annotations: BTreeMap::new(),
        ready: Ready::True,
        ready_since: Some(at(60)),
        maintenance: None,
        dns: None,
        address: None,
    };
    let (status, mark) = (ImpairedStatus::Free, None);
    ScannedNode { node: Arc::new(node), status, mark, is_managed: true }
}

fn with(mut scanned: ScannedNode, change: impl FnOnce(&mut Node)) -> ScannedNode {
    change(Arc::make_mut(&mut scanned.node));
    scanned
}

fn not_ready(n: usize, since: u64) -> ScannedNode {
    with(ready(n), |node| (node.ready, node.ready_since) = (Ready::Unknown, Some(at(since))))
}

fn marked(n: usize, group: &str, second: u64, status: ImpairedStatus) -> ScannedNode {
    let mark = ImpairedMark { instance: instance(n), group: group.into(), at: at(second) };
    ScannedNode { status, mark: Some(mark), ..not_ready(n, second.saturating_sub(600)) }
}

/// `sick` and as many healthy Nodes that there are `all`.
fn among(all: usize, sick: Vec<ScannedNode>) -> Vec<ScannedNode> {
    let healthy = (50..).map(ready).take(all - sick.len());
    sick.into_iter().chain(healthy).collect()
}

const NOTHING_FAILS: &BTreeMap<InstanceId, Moment> = &BTreeMap::new();

fn scene(nodes: &[ScannedNode]) -> Scene<'_> {
    Scene {
        now: at(NOW),
        nodes,
        failing: Some(NOTHING_FAILS),
        is_index_sound: true,
        watch_failed_at: None,
        is_paused: false,
        response: Response::Drain,
    }
}

fn names(suspects: &[Suspect]) -> Vec<&str> {
    suspects.iter().map(|suspect| suspect.node.name.as_str()).collect()
}

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
            "only marked",
            ScannedNode { status: ImpairedStatus::Marked, ..not_ready(1, long) },
            None,
            Some(Symptom::NotReady),
        ),
        ("being drained", marked(1, "a", NOW, ImpairedStatus::Draining), None, None),
        (
            "a person ended its drain",
            ScannedNode {
                status: ImpairedStatus::Free,
                ..marked(1, "a", 5000, ImpairedStatus::Free)
            },
            None,
            None,
        ),
        (
            "sick again since",
            with(marked(1, "a", 5000, ImpairedStatus::Free), |n| n.ready_since = Some(at(long))),
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
fn a_node_that_is_only_marked_is_a_suspect_if_more_is_asked_for_and_always_counts() {
    let is_marked = |n| ScannedNode { status: ImpairedStatus::Marked, ..not_ready(n, 5000) };
    let nodes = among(10, vec![is_marked(1), is_marked(2)]);
    for (response, expected) in [(Response::Drain, 2), (Response::Cordon, 2), (Response::Prefer, 0)]
    {
        let scene = Scene { response, ..scene(&nodes) };
        assert_eq!(suspects(&scene, &NodeHistory::default(), AFTER).len(), expected);
    }
    let nodes = among(10, (1..=3).map(is_marked).collect());
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
        let since = history.lost_since(&lost(by_kubelet).node, at(NOW));
        assert_eq!(since, expected.map(at), "{name}");
    }
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
            "2 of 10, and 2 of these go away: they are none of either number",
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
                    marked(1, "a", 5000, ImpairedStatus::Draining),
                    marked(2, "b", 5000, ImpairedStatus::Drained),
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

fn member(group: &str) -> Member {
    Member {
        group: group.into(),
        is_serving: true,
        is_group_complete: true,
        is_unhealthy: false,
        group_replaces_unhealthy: true,
    }
}

/// What happens to suspects with these answers, in this order, beside these Nodes.
fn decided(
    others: &[ScannedNode],
    views: Vec<AwsView>,
    begun: &LastHour,
    max: usize,
) -> Vec<Decision> {
    let suspects = views.into_iter().enumerate().map(|(n, view)| {
        let node = not_ready(n + 1, 5000).node;
        let (symptom, since) = (Symptom::NotReady, at(5000));
        (Suspect { node, instance: instance(n + 1), symptom, since }, view)
    });
    let choices = choose(&scene(others), suspects.collect(), begun, max);
    choices.into_iter().map(|choice| choice.decision).collect()
}

#[test]
fn a_node_that_somebody_else_cordoned_is_not_taken_on() {
    let cordon = |scanned| with(scanned, |node| node.unschedulable = true);
    let only_marked = ScannedNode { status: ImpairedStatus::Marked, ..not_ready(2, 5000) };
    let nodes = among(20, vec![cordon(not_ready(1, 5000)), cordon(only_marked)]);
    let scene = scene(&nodes);
    for view in [AwsView::Answered(member("a")), AwsView::NotOurs] {
        let found = suspects(&scene, &NodeHistory::default(), AFTER);
        assert_eq!(found.len(), 2, "they are sick, and reported");
        let is_ours = view != AwsView::NotOurs;
        let views = found.into_iter().map(|suspect| (suspect, view.clone())).collect();
        let expected =
            if is_ours { Decision::Wait(WaitReason::CordonedByOthers) } else { Decision::NotOurs };
        for choice in choose(&scene, views, &LastHour::default(), 9) {
            assert_eq!(choice.decision, expected, "{:?}", choice.suspect.node.name);
        }
    }
}

#[test]
fn aws_shows_whether_a_suspect_is_ours_to_drain() {
    let answered = AwsView::Answered;
    for (name, view, expected) in [
        ("in service", answered(member("a")), Decision::Begin("a".into())),
        ("not answered", AwsView::Unanswered, Decision::Wait(WaitReason::Unanswered)),
        ("in no group", AwsView::NotOurs, Decision::NotOurs),
        (
            "it does not serve",
            answered(Member { is_serving: false, ..member("a") }),
            Decision::NotOurs,
        ),
        (
            "its group lacks instances",
            answered(Member { is_group_complete: false, ..member("a") }),
            Decision::Wait(WaitReason::GroupIncomplete),
        ),
    ] {
        assert_eq!(decided(&[], vec![view], &LastHour::default(), 3), [expected], "{name}");
    }
}

#[test]
fn an_instance_serves_if_it_runs_and_its_group_counts_on_it() {
    let described = |state, lifecycle: &str, unhealthy: &[usize], desired, suspended: &[&str]| {
        let states = [(1, lifecycle), (2, "InService")];
        let states = states.map(|(n, state)| (instance(n).to_string(), state.to_owned())).into();
        let unhealthy = unhealthy.iter().map(|n| instance(*n).to_string()).collect();
        let suspended = suspended.iter().map(|process| (*process).to_owned()).collect();
        let (own, states, unhealthy, suspended) = (&instance(1), &states, &unhealthy, &suspended);
        let capacity = &GroupCapacity::new(desired, BTreeMap::new());
        let of = Described { instance: own, state, capacity, states, unhealthy, suspended };
        Member::new("a".into(), &of)
    };
    let running = InstanceState::Running;
    for (name, state, lifecycle, unhealthy, desired, expected) in [
        ("all is well", running, "InService", &[][..], Some(2), (true, true)),
        ("it is stopped", InstanceState::Stopped, "InService", &[], Some(2), (false, true)),
        ("it is terminated", running, "Terminating:Wait", &[], Some(2), (false, false)),
        ("a person has it", running, "Standby", &[], Some(1), (false, true)),
        ("its group replaces it", running, "InService", &[1], Some(2), (false, false)),
        ("its group replaces another", running, "InService", &[2], Some(2), (true, false)),
        ("its group counts vCPUs", running, "InService", &[2], None, (true, true)),
        ("its group grows", running, "InService", &[], Some(3), (true, false)),
    ] {
        let member = described(state, lifecycle, unhealthy, desired, &[]);
        assert_eq!((member.is_serving, member.is_group_complete), expected, "{name}");
        assert_eq!(member.is_unhealthy, unhealthy.contains(&1), "{name}");
        assert!(member.group_replaces_unhealthy, "{name}");
    }
    for (suspended, expected) in [
        (&["ReplaceUnhealthy"][..], false),
        (&["Terminate"], false),
        (&["AZRebalance", "Terminate"], false),
        (&["HealthCheck"], true),
        (&["Launch"], true),
    ] {
        let member = described(running, "InService", &[], Some(2), suspended);
        assert_eq!(member.group_replaces_unhealthy, expected, "{suspended:?}");
    }
}

#[test]
fn one_node_of_a_group_at_a_time() {
    let views = || vec![AwsView::Answered(member("a")), AwsView::Answered(member("a"))];
    let none = LastHour::default();
    let both = decided(&[], views(), &none, 9);
    assert_eq!(both, [Decision::Begin("a".into()), Decision::Wait(WaitReason::GroupBusy)]);
    for (status, is_busy) in [
        (ImpairedStatus::Draining, true),
        (ImpairedStatus::Drained, true),
        (ImpairedStatus::OtherInterruption, true),
        (ImpairedStatus::Free, false),
        (ImpairedStatus::Marked, false),
    ] {
        let earlier = [marked(40, "a", 100, status)];
        let first = decided(&earlier, views(), &none, 9).remove(0);
        assert_eq!(first == Decision::Wait(WaitReason::GroupBusy), is_busy, "{status:?}");
        let other = decided(&earlier, vec![AwsView::Answered(member("b"))], &none, 9).remove(0);
        assert_eq!(other, Decision::Begin("b".into()), "another group");
    }
}

#[test]
fn no_more_begin_in_an_hour_than_allowed_whoever_began_them() {
    let views = || ["a", "b", "c"].map(|group| AwsView::Answered(member(group))).to_vec();
    let count = |marks: &[ScannedNode], begun: &LastHour, max| {
        let all = decided(marks, views(), begun, max);
        all.iter().filter(|decision| matches!(decision, Decision::Begin(_))).count()
    };
    let begun = |all: &[(usize, u64)]| {
        let mut begun = LastHour::default();
        for (n, second) in all {
            begun.note(at(*second), instance(*n));
        }
        begun
    };
    let free = |n: usize, second: u64| marked(n, "z", second, ImpairedStatus::Free);
    for (name, marks, begun, max, expected) in [
        ("none before", vec![], begun(&[]), 3, 3),
        ("two are allowed", vec![], begun(&[]), 2, 2),
        ("one by an annotation", vec![free(40, NOW - 3599)], begun(&[]), 3, 2),
        ("one an hour ago", vec![free(40, NOW - 3600)], begun(&[]), 3, 3),
        ("one by this leader", vec![], begun(&[(41, NOW - 10)]), 3, 2),
        ("both know the same one", vec![free(40, NOW - 10)], begun(&[(40, NOW - 10)]), 3, 2),
        ("noted after the accept", vec![free(40, NOW - 40)], begun(&[(40, NOW - 10)]), 3, 2),
        ("one instance twice", vec![], begun(&[(40, NOW - 1500), (40, NOW - 10)]), 3, 1),
        (
            "twice, and its annotation is of the second time",
            vec![free(40, NOW - 10)],
            begun(&[(40, NOW - 1500), (40, NOW - 10)]),
            3,
            1,
        ),
        (
            "an earlier leader, and this one",
            vec![free(40, NOW - 1500)],
            begun(&[(40, NOW - 10)]),
            3,
            1,
        ),
        ("one each", vec![free(40, NOW - 10)], begun(&[(41, NOW - 10)]), 3, 1),
        ("more than allowed", vec![free(40, 9000), free(41, 9000)], begun(&[]), 1, 0),
    ] {
        assert_eq!(count(&marks, &begun, max), expected, "{name}");
    }
    let decisions = decided(&[], views(), &LastHour::default(), 1);
    assert_eq!(decisions.last(), Some(&Decision::Wait(WaitReason::MaxPerHour)));
}

type Rounds<'a> = Vec<(u64, &'a [ScannedNode], Option<&'a BTreeMap<InstanceId, Moment>>)>;

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

const NOBODY: &BTreeMap<InstanceId, Moment> = &BTreeMap::new();
const REPLACE: Rules<'_> =
    Rules { set_unhealthy_after: Some(AFTER), max_an_hour: 3, reported_unhealthy: NOBODY };

fn annotated(scanned: ScannedNode, key: &str) -> ScannedNode {
    with(scanned, |node| drop(node.annotations.insert(key.to_owned(), "true".to_owned())))
}

#[test]
fn what_follows_for_a_node_that_was_taken_on() {
    use ImpairedStatus::{Drained, Draining, Free, KeptCordoned, OtherInterruption, PodsLeft};
    let mut history = NodeHistory::default();
    for second in [NOW - 300, NOW] {
        history.note(at(second), &[ready(1)], Some(NOTHING_FAILS));
    }
    let well = |status| ScannedNode { status, ..ready(1) };
    let sick = |status| marked(2, "a", 1100, status);
    let soon_well = |status| ScannedNode { status, ..ready(3) };
    let unmanaged = |scanned| ScannedNode { is_managed: false, ..scanned };
    let kept = Some(Step::Wait(WaitReason::KeptByPerson));
    let replace = Some(Step::SetUnhealthy);
    let fault = Some(WaitReason::FaultElsewhere);
    for (name, node, blocked, expected) in [
        ("sick, being drained", sick(Draining), None, None),
        ("sick, drained", sick(Drained), None, replace),
        ("sick, drained, something blocks all", sick(Drained), fault, fault.map(Step::Wait)),
        ("sick, pods left", sick(PodsLeft), None, Some(Step::Wait(WaitReason::PodsLeft))),
        ("sick, kept", annotated(sick(Drained), KEEP_CORDONED), None, kept),
        ("sick, paused", annotated(sick(Drained), PAUSE), None, kept),
        ("sick, ignored", unmanaged(annotated(sick(Drained), IGNORE)), None, kept),
        ("sick, released and kept", sick(KeptCordoned), None, kept),
        ("healthy, being drained", well(Draining), None, Some(Step::PutBack)),
        ("healthy, drained", well(Drained), fault, Some(Step::PutBack)),
        ("healthy, pods left", well(PodsLeft), None, Some(Step::PutBack)),
        (
            "healthy, being drained, kept: only the restore is held",
            annotated(well(Draining), KEEP_CORDONED),
            None,
            Some(Step::PutBack),
        ),
        ("healthy, released and kept", well(KeptCordoned), None, None),
        ("just healthy, drained", soon_well(Drained), None, None),
        ("healthy, another interruption holds it", well(OtherInterruption), None, None),
        ("sick, another interruption holds it", sick(OtherInterruption), None, None),
        ("sick, put back", sick(Free), None, None),
        ("sick, not managed", unmanaged(sick(Drained)), None, None),
    ] {
        let nodes = [node];
        let found = due_steps(&scene(&nodes), &history, &REPLACE, blocked);
        assert_eq!(found.first().map(|(_, step)| *step), expected, "{name}");
    }
    let (nodes, no_then) = ([sick(Drained)], Rules { set_unhealthy_after: None, ..REPLACE });
    assert!(due_steps(&scene(&nodes), &history, &no_then, None).is_empty(), "without --then");
    let nodes = [well(Drained)];
    let unknown = Scene { failing: None, ..scene(&nodes) };
    let found = due_steps(&unknown, &history, &no_then, None);
    let unknown = Some(Step::Wait(WaitReason::StatusesUnknown));
    assert_eq!(found.first().map(|(_, step)| *step), unknown, "EC2 does not answer");
}

#[test]
fn one_bad_round_is_not_enough_to_replace_an_instance() {
    let drained = |since| {
        let drained = marked(1, "a", 5000, ImpairedStatus::Drained);
        with(drained, |node| node.ready_since = Some(at(since)))
    };
    for (name, since, expected) in [
        ("sick since before it was taken on", 4000, Some(Step::SetUnhealthy)),
        ("since then", 5000, Some(Step::SetUnhealthy)),
        ("it was Ready in between", 5001, Some(Step::SetUnhealthy)),
        ("for --impaired-after", NOW - 600, Some(Step::SetUnhealthy)),
        ("a second less", NOW - 599, None),
        ("since just now", NOW, None),
    ] {
        let nodes = [drained(since)];
        let found = due_steps(&scene(&nodes), &NodeHistory::default(), &REPLACE, None);
        assert_eq!(found.first().map(|(_, step)| *step), expected, "{name}");
    }
}

#[test]
fn an_instance_that_is_not_replaced_within_an_hour_is_reported() {
    let nodes = [marked(1, "a", 100, ImpairedStatus::Drained)];
    for (told_at, expected) in
        [(NOW - 3599, None), (NOW - 3600, Some(Step::Wait(WaitReason::ReplacementLate)))]
    {
        let reported_unhealthy = BTreeMap::from([(instance(1), at(told_at))]);
        let rules = Rules { reported_unhealthy: &reported_unhealthy, ..REPLACE };
        let found = due_steps(&scene(&nodes), &NodeHistory::default(), &rules, None);
        assert_eq!(found.first().map(|(_, step)| *step), expected);
    }
    // It is put back if it is healthy again, and so does Auto Scaling see it.
    let mut history = NodeHistory::default();
    for second in [NOW - 300, NOW] {
        history.note(at(second), &[ready(1)], Some(NOTHING_FAILS));
    }
    let reported_unhealthy = BTreeMap::from([(instance(1), at(NOW - 3600))]);
    let rules = Rules { reported_unhealthy: &reported_unhealthy, ..REPLACE };
    let nodes = [ScannedNode { status: ImpairedStatus::Drained, ..ready(1) }];
    let found = due_steps(&scene(&nodes), &history, &rules, None);
    assert_eq!(found.first().map(|(_, step)| *step), Some(Step::PutBack));
}

#[test]
fn right_before_its_instance_is_reported_a_node_is_judged_once_more() {
    use ImpairedStatus::{Drained, Draining, Free, OtherInterruption};
    let drained = |status| marked(1, "a", 1100, status);
    let is_sick = |n| not_ready(n, NOW);
    let judge = |scene: &Scene<'_>| {
        let reported = LastHour::default();
        confirm_set_unhealthy(scene, "uid-1", &NodeHistory::default(), &REPLACE, &reported)
    };
    for (name, nodes, expected) in [
        ("as before", among(10, vec![drained(Drained)]), Ok(())),
        ("another Node has its name", among(10, vec![]), Err(None)),
        ("it is put back", among(10, vec![drained(Free)]), Err(None)),
        ("its hook came", among(10, vec![drained(OtherInterruption)]), Err(None)),
        ("it is taken on again", among(10, vec![drained(Draining)]), Err(None)),
        (
            "it is not managed",
            among(10, vec![ScannedNode { is_managed: false, ..drained(Drained) }]),
            Err(None),
        ),
        (
            "a person has paused it",
            among(10, vec![annotated(drained(Drained), PAUSE)]),
            Err(Some(WaitReason::KeptByPerson)),
        ),
        (
            "it is Ready again",
            among(10, vec![ScannedNode { status: Drained, ..ready(1) }]),
            Err(None),
        ),
        (
            "many are sick by now",
            among(10, vec![drained(Drained), is_sick(2), is_sick(3)]),
            Err(Some(WaitReason::FaultElsewhere)),
        ),
    ] {
        assert_eq!(judge(&scene(&nodes)), expected, "{name}");
    }
    let nodes = among(10, vec![drained(Drained)]);
    let outage = Scene { watch_failed_at: Some(at(NOW - 1)), ..scene(&nodes) };
    assert_eq!(judge(&outage), Err(Some(WaitReason::ApiServerOutage)));
    let paused = Scene { is_paused: true, ..scene(&nodes) };
    assert_eq!(judge(&paused), Err(Some(WaitReason::Paused)));
}

#[test]
fn aws_shows_whether_a_step_is_taken() {
    let in_service = || AwsView::Answered(member("a"));
    let ends = || AwsView::Answered(Member { is_serving: false, ..member("a") });
    let reported_unhealthy =
        || AwsView::Answered(Member { is_serving: false, is_unhealthy: true, ..member("a") });
    let suspended = || AwsView::Answered(Member { group_replaces_unhealthy: false, ..member("a") });
    let (late, left) = (Step::Wait(WaitReason::ReplacementLate), Step::Wait(WaitReason::PodsLeft));
    for (step, view, expected) in [
        (Step::PutBack, in_service(), Some(Step::PutBack)),
        (Step::PutBack, suspended(), Some(Step::PutBack)),
        (Step::PutBack, ends(), None),
        (Step::PutBack, reported_unhealthy(), None),
        (Step::PutBack, AwsView::NotOurs, Some(Step::PutBack)),
        (Step::PutBack, AwsView::Unanswered, None),
        (Step::SetUnhealthy, in_service(), Some(Step::SetUnhealthy)),
        (Step::SetUnhealthy, suspended(), Some(Step::Wait(WaitReason::ReplacementSuspended))),
        (Step::SetUnhealthy, ends(), None),
        (Step::SetUnhealthy, AwsView::NotOurs, None),
        (Step::SetUnhealthy, AwsView::Unanswered, None),
        (left, in_service(), Some(left)),
        (left, ends(), None),
        (late, reported_unhealthy(), Some(late)),
        (late, in_service(), None),
    ] {
        assert_eq!(next_step(step, &view), expected, "{step:?} {view:?}");
    }
}

#[test]
fn what_a_person_released_is_drained_again_only_after_it_was_healthy() {
    let released = || marked(1, "a", 5000, ImpairedStatus::Free);
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
            // EC2 said that a check failed in the first round.
            if second == 4000 {
                history.note(at(5990), &[sick()], Some(NOTHING_FAILS));
            }
        }
        let nodes = [sick()];
        assert_eq!(suspects(&scene(&nodes), &history, AFTER).len(), expected, "{name}");
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

#[test]
fn suspects_that_are_not_ours_do_not_starve_the_others() {
    let nodes: Vec<_> = (1..=30).map(|n| not_ready(n, 5000)).collect();
    let found = || suspects(&scene(&nodes), &NodeHistory::default(), AFTER);
    let mut to_ask = SuspectsToAsk::default();
    let (asked, later) = to_ask.select(at(NOW), found());
    assert_eq!((asked.len(), later.len()), (MAX_ASKED, 10));
    for suspect in asked {
        to_ask.note_not_ours(at(NOW), suspect.instance);
    }
    let (asked, later) = to_ask.select(at(NOW + 60), found());
    assert_eq!((asked.len(), later.len()), (10, 0));
    let (asked, _) = to_ask.select(at(NOW + 600), found());
    assert_eq!(asked.first().map(|suspect| &suspect.instance), Some(&instance(1)), "10 min later");
}

#[test]
fn each_suspect_is_asked_about_although_the_longest_sick_ones_wait() {
    let nodes: Vec<_> = (1..=30).map(|n| not_ready(n, 5000 + n as u64)).collect();
    let found = || suspects(&scene(&nodes), &NodeHistory::default(), AFTER);
    let mut to_ask = SuspectsToAsk::default();
    let mut asked_first = || {
        let (asked, later) = to_ask.select(at(NOW), found());
        assert_eq!((asked.len(), later.len()), (MAX_ASKED, 10));
        asked.into_iter().map(|suspect| suspect.instance).collect::<Vec<_>>()
    };
    assert_eq!(asked_first().first(), Some(&instance(1)), "the longest sick");
    let second = asked_first();
    assert!((21..=30).map(instance).all(|id| second.contains(&id)), "{second:?}");
}
