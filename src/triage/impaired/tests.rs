//! Tables of which sick instances are drained, and when.

use super::*;
use crate::domain::seconds;

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
        failing: NOTHING_FAILS,
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
            ScannedNode { status: ImpairedStatus::OfOthers, ..not_ready(1, long) },
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
        let scene = Scene { failing: &failing, ..scene(&nodes) };
        let found = suspects(&scene, &Sightings::default(), AFTER);
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
        assert_eq!(suspects(&scene, &Sightings::default(), AFTER).len(), expected);
    }
    let nodes = among(10, (1..=3).map(is_marked).collect());
    assert_eq!(hold(&scene(&nodes)), Some(Waits::FaultElsewhere));
}

#[test]
fn of_several_nodes_with_one_instance_none_is_a_suspect() {
    let twin = with(ready(2), |node| node.instance = Some(instance(1)));
    let nodes = [not_ready(1, 5000), twin, not_ready(3, 6000), not_ready(4, 5500)];
    let found = suspects(&scene(&nodes), &Sightings::default(), AFTER);
    assert_eq!(names(&found), ["node-04", "node-03"], "the longest sick first");
}

#[test]
fn what_earlier_rounds_have_seen_shows_whether_a_node_was_ready() {
    // Lost 5 min after it was created: its times alone show nothing.
    let young = not_ready(1, 300);
    let nodes = [young.clone()];
    let is_suspect = |sightings: &Sightings| !suspects(&scene(&nodes), sightings, AFTER).is_empty();
    let mut sightings = Sightings::default();
    assert!(!is_suspect(&sightings), "nobody has seen it Ready");
    sightings.note(at(200), &[ready(1)], Some(NOTHING_FAILS));
    sightings.note(at(320), &nodes, Some(NOTHING_FAILS));
    assert!(is_suspect(&sightings), "a round has seen it Ready");
    let mut sightings = Sightings::default();
    let launching = with(ready(1), |n| (n.ready, n.ready_since) = (Ready::False, Some(at(2))));
    sightings.note(at(60), &[launching], Some(NOTHING_FAILS));
    let silent = [not_ready(1, 2000)];
    sightings.note(at(2060), &silent, Some(NOTHING_FAILS));
    let found = suspects(&scene(&silent), &sightings, AFTER);
    assert_eq!(names(&found), [] as [&str; 0], "a launch failed before its kubelet went silent");
}

#[test]
fn what_holds_every_drain_back() {
    let sick = |n: usize| (1..=n).map(|n| not_ready(n, NOW - 5)).collect::<Vec<_>>();
    let spare = |mut nodes: Vec<ScannedNode>, managed: usize| {
        nodes.iter_mut().skip(managed).for_each(|scanned| scanned.is_managed = false);
        nodes
    };
    let going = |n: usize| ScannedNode { status: ImpairedStatus::OfOthers, ..not_ready(n, 5000) };
    for (name, nodes, expected) in [
        ("nothing is sick", among(10, sick(0)), None),
        ("1 of 1", among(1, sick(1)), None),
        ("1 of 2", among(2, sick(1)), None),
        ("2 of 10: 20 %", among(10, sick(2)), None),
        ("2 of 9", among(9, sick(2)), Some(Waits::FaultElsewhere)),
        ("3 of 10", among(10, sick(3)), Some(Waits::FaultElsewhere)),
        ("2 of 2", among(2, sick(2)), Some(Waits::FaultElsewhere)),
        ("20 of 100", among(100, sick(20)), None),
        ("21 of 100", among(100, sick(21)), Some(Waits::FaultElsewhere)),
        (
            "2 of 100, of which 5 are managed",
            spare(among(100, sick(2)), 5),
            Some(Waits::FaultElsewhere),
        ),
        ("3 of 10, none managed", spare(among(10, sick(3)), 0), Some(Waits::FaultElsewhere)),
        ("8 of 10 that go away", among(10, (1..=8).map(going).collect()), None),
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
            Some(Waits::FaultElsewhere),
        ),
    ] {
        assert_eq!(hold(&scene(&nodes)), expected, "{name}");
    }
    let nodes = among(10, sick(1));
    let all = among(10, sick(10));
    let calm = scene(&nodes);
    for (name, scene, expected) in [
        ("paused", Scene { is_paused: true, ..calm }, Some(Waits::Paused)),
        ("the watch fails", Scene { is_index_sound: false, ..calm }, Some(Waits::WatchStale)),
        (
            "an outage 299 s ago",
            Scene { watch_failed_at: Some(at(NOW - 299)), ..calm },
            Some(Waits::ApiServerOutage),
        ),
        ("an outage 300 s ago", Scene { watch_failed_at: Some(at(NOW - 300)), ..calm }, None),
        (
            "an outage, and every node is silent",
            Scene { watch_failed_at: Some(at(NOW)), nodes: &all, ..calm },
            Some(Waits::ApiServerOutage),
        ),
    ] {
        assert_eq!(hold(&scene), expected, "{name}");
    }
    let failing: BTreeMap<_, _> = (50..53).map(|n| (instance(n), at(NOW))).collect();
    let checks_fail = Scene { failing: &failing, ..calm };
    assert_eq!(hold(&checks_fail), Some(Waits::FaultElsewhere), "failed checks count, too");
}

fn member(group: &str) -> Member {
    Member { group: group.into(), is_serving: true, is_group_complete: true }
}

/// What happens to suspects with these answers, in this order, beside these Nodes.
fn decided(
    others: &[ScannedNode],
    views: Vec<AwsView>,
    begun: &Begun,
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
fn aws_shows_whether_a_suspect_is_ours_to_drain() {
    let answered = AwsView::Answered;
    for (name, view, expected) in [
        ("in service", answered(member("a")), Decision::Begin("a".into())),
        ("not answered", AwsView::Unanswered, Decision::Wait(Waits::Unanswered)),
        ("in no group", AwsView::NotOurs, Decision::NotOurs),
        (
            "it does not serve",
            answered(Member { is_serving: false, ..member("a") }),
            Decision::NotOurs,
        ),
        (
            "its group lacks instances",
            answered(Member { is_group_complete: false, ..member("a") }),
            Decision::Wait(Waits::GroupIncomplete),
        ),
    ] {
        assert_eq!(decided(&[], vec![view], &Begun::default(), 3), [expected], "{name}");
    }
}

#[test]
fn an_instance_serves_if_it_runs_and_its_group_counts_on_it() {
    for (name, state, lifecycle, is_unhealthy, desired, expected) in [
        ("all is well", InstanceState::Running, "InService", false, 2, (true, true)),
        ("it is stopped", InstanceState::Stopped, "InService", false, 2, (false, true)),
        ("it is terminated", InstanceState::Running, "Terminating:Wait", false, 2, (false, false)),
        ("a person has it", InstanceState::Running, "Standby", false, 1, (false, true)),
        ("its group replaces it", InstanceState::Running, "InService", true, 2, (false, true)),
        ("its group grows", InstanceState::Running, "InService", false, 3, (true, false)),
    ] {
        let own = instance(1);
        let states = [(own.as_str(), lifecycle), ("i-other", "InService")];
        let states = states.map(|(id, state)| (id.to_owned(), state.to_owned())).into();
        let unhealthy = is_unhealthy.then(|| own.to_string()).into_iter().collect();
        let (states, unhealthy) = (&states, &unhealthy);
        let described = Described { instance: &own, state, desired, states, unhealthy };
        let member = Member::new("a".into(), &described);
        assert_eq!((member.is_serving, member.is_group_complete), expected, "{name}");
    }
}

#[test]
fn one_node_of_a_group_at_a_time() {
    let views = || vec![AwsView::Answered(member("a")), AwsView::Answered(member("a"))];
    let none = Begun::default();
    let both = decided(&[], views(), &none, 9);
    assert_eq!(both, [Decision::Begin("a".into()), Decision::Wait(Waits::GroupBusy)]);
    for (status, is_busy) in [
        (ImpairedStatus::Draining, true),
        (ImpairedStatus::Drained, true),
        (ImpairedStatus::OfOthers, true),
        (ImpairedStatus::Free, false),
        (ImpairedStatus::Marked, false),
    ] {
        let earlier = [marked(40, "a", 100, status)];
        let first = decided(&earlier, views(), &none, 9).remove(0);
        assert_eq!(first == Decision::Wait(Waits::GroupBusy), is_busy, "{status:?}");
        let other = decided(&earlier, vec![AwsView::Answered(member("b"))], &none, 9).remove(0);
        assert_eq!(other, Decision::Begin("b".into()), "another group");
    }
}

#[test]
fn no_more_begin_in_an_hour_than_allowed_whoever_began_them() {
    let views = || ["a", "b", "c"].map(|group| AwsView::Answered(member(group))).to_vec();
    let count = |marks: &[ScannedNode], begun: &Begun, max| {
        let all = decided(marks, views(), begun, max);
        all.iter().filter(|decision| matches!(decision, Decision::Begin(_))).count()
    };
    let begun = |all: &[(usize, u64)]| {
        let mut begun = Begun::default();
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
        ("one each", vec![free(40, NOW - 10)], begun(&[(41, NOW - 10)]), 3, 1),
        ("more than allowed", vec![free(40, 9000), free(41, 9000)], begun(&[]), 1, 0),
    ] {
        assert_eq!(count(&marks, &begun, max), expected, "{name}");
    }
    let decisions = decided(&[], views(), &Begun::default(), 1);
    assert_eq!(decisions.last(), Some(&Decision::Wait(Waits::MaxPerHour)));
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
    for (name, rounds, expected) in rounds {
        let mut sightings = Sightings::default();
        for (second, nodes, failing) in rounds {
            sightings.note(at(second), nodes, failing);
        }
        assert_eq!(sightings.is_healthy(&ready(1).node, at(300)), expected, "{name}");
    }
}

#[test]
fn what_follows_for_a_node_that_was_taken_on() {
    use ImpairedStatus::{Drained, Draining, Free, OfOthers};
    let mut sightings = Sightings::default();
    for second in [NOW - 300, NOW] {
        sightings.note(at(second), &[ready(1)], Some(NOTHING_FAILS));
    }
    let well = |status| ScannedNode { status, ..ready(1) };
    let sick = |status| ScannedNode { status, ..not_ready(2, 500) };
    let soon_well = |status| ScannedNode { status, ..ready(3) };
    for (name, node, may_replace, expected) in [
        ("sick, being drained", sick(Draining), true, None),
        ("sick, drained", sick(Drained), true, Some(Step::SetUnhealthy)),
        ("sick, drained, nothing may be replaced", sick(Drained), false, None),
        ("healthy, being drained", well(Draining), true, Some(Step::PutBack)),
        ("healthy, drained", well(Drained), false, Some(Step::PutBack)),
        ("just healthy, drained", soon_well(Drained), true, None),
        ("healthy, another interruption holds it", well(OfOthers), true, None),
        ("sick, another interruption holds it", sick(OfOthers), true, None),
        ("sick, put back", sick(Free), true, None),
        ("sick, not managed", ScannedNode { is_managed: false, ..sick(Drained) }, true, None),
    ] {
        let nodes = [node];
        let found = followed(&scene(&nodes), &sightings, may_replace);
        assert_eq!(found.first().map(|(_, step)| *step), expected, "{name}");
    }
    let in_service = || AwsView::Answered(member("a"));
    let ends = || AwsView::Answered(Member { is_serving: false, ..member("a") });
    for (step, view, is_taken) in [
        (Step::PutBack, in_service(), true),
        (Step::PutBack, ends(), false),
        (Step::PutBack, AwsView::NotOurs, true),
        (Step::PutBack, AwsView::Unanswered, false),
        (Step::SetUnhealthy, in_service(), true),
        (Step::SetUnhealthy, ends(), false),
        (Step::SetUnhealthy, AwsView::NotOurs, false),
        (Step::SetUnhealthy, AwsView::Unanswered, false),
    ] {
        assert_eq!(next_step(step, &view).is_some(), is_taken, "{step:?} {view:?}");
    }
}
