//! Which suspects begin to be drained.

use super::*;

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
    let only_tainted = ScannedNode { status: ImpairedStatus::OnlyTainted, ..not_ready(2, 5000) };
    let nodes = among(20, vec![cordon(not_ready(1, 5000)), cordon(only_tainted)]);
    let scene = scene(&nodes);
    for view in [AwsView::Answered(member("a")), AwsView::NotOurs] {
        let found = suspects(&scene, &NodeHistory::default(), AFTER);
        assert_eq!(found.len(), 2, "they are sick, and reported");
        let is_ours = view != AwsView::NotOurs;
        let views = found.into_iter().map(|suspect| (suspect, view.clone())).collect();
        let expected = if is_ours {
            Decision::Wait(WaitReason::CordonedByOthers)
        } else {
            Decision::LeaveAlone
        };
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
        ("in no group", AwsView::NotOurs, Decision::LeaveAlone),
        (
            "it does not serve",
            answered(Member { is_serving: false, ..member("a") }),
            Decision::LeaveAlone,
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
        (ImpairedStatus::OnlyTainted, false),
    ] {
        let earlier = [accepted(40, "a", 100, status)];
        let first = decided(&earlier, views(), &none, 9).remove(0);
        assert_eq!(first == Decision::Wait(WaitReason::GroupBusy), is_busy, "{status:?}");
        let other = decided(&earlier, vec![AwsView::Answered(member("b"))], &none, 9).remove(0);
        assert_eq!(other, Decision::Begin("b".into()), "another group");
    }
}

#[test]
fn no_more_begin_in_an_hour_than_allowed_whoever_began_them() {
    let views = || ["a", "b", "c"].map(|group| AwsView::Answered(member(group))).to_vec();
    let count = |accepted_nodes: &[ScannedNode], begun: &LastHour, max| {
        let all = decided(accepted_nodes, views(), begun, max);
        all.iter().filter(|decision| matches!(decision, Decision::Begin(_))).count()
    };
    let begun = |all: &[(usize, u64)]| {
        let mut begun = LastHour::default();
        for (n, second) in all {
            begun.note(at(*second), instance(*n));
        }
        begun
    };
    let free = |n: usize, second: u64| accepted(n, "z", second, ImpairedStatus::Free);
    for (name, accepted_nodes, begun, max, expected) in [
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
        assert_eq!(count(&accepted_nodes, &begun, max), expected, "{name}");
    }
    let decisions = decided(&[], views(), &LastHour::default(), 1);
    assert_eq!(decisions.last(), Some(&Decision::Wait(WaitReason::MaxPerHour)));
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
