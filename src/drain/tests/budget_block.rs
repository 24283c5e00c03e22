//! Pods that budgets block, pods that are left on a node, and the texts of Events.

use super::*;

#[test]
fn a_pod_is_blocked_by_the_budgets_for_which_the_api_server_would_refuse_it() {
    let full = || budget("full", 0);
    let free = || budget("free", 1);
    let lagging = || Budget { generation: 2, observed: 1, ..budget("lagging", 5) };
    // The other pods of the budget are healthy enough, so a pod that is not ready is evicted
    // without being counted.
    let healthy = || Budget { healthy: 2, desired: 2, ..full() };
    let unready = || Pod { ready: false, ..pod("a") };
    let of = |phase| Pod { phase, ..pod("a") };
    for (pod, budgets, expected) in [
        (pod("a"), vec![], None),
        (pod("a"), vec![free()], None),
        (pod("a"), vec![full()], Some((BlockReason::Pdb, vec!["full"]))),
        (pod("a"), vec![lagging()], Some((BlockReason::PdbLagging, vec!["lagging"]))),
        (pod("a"), vec![free(), full()], Some((BlockReason::TwoPdbs, vec!["free", "full"]))),
        (
            unready(),
            vec![Budget { healthy: 0, desired: 1, ..full() }],
            Some((BlockReason::Pdb, vec!["full"])),
        ),
        (unready(), vec![healthy()], None),
        (pod("a"), vec![healthy()], Some((BlockReason::Pdb, vec!["full"]))),
        (of(PodPhase::Pending), vec![full()], None),
        (of(PodPhase::Succeeded), vec![full()], None),
        (Pod { deletion: Some(at(1)), ..pod("a") }, vec![full()], None),
        (Pod { labels: [].into(), ..pod("a") }, vec![full()], None),
    ] {
        let held = blocked_by_budgets(&pod, &budgets)
            .map(|h| (h.reason, h.budgets.iter().map(|b| b.key.name.as_str()).collect::<Vec<_>>()));
        assert_eq!(held, expected, "{pod:?} {budgets:?}");
    }
}

#[test]
fn pods_left_are_those_that_count_with_the_time_of_their_forced_delete() {
    let limits = Limits {
        force_at: Some(at(600)),
        end_at: Some(at(600)),
        ..Limits::without_deadline(at(0), false)
    };
    let start = Start { node: "n1".into(), cordoned_at: at(0), limits, own_pod: None };
    let mut drain = Drain::new(start, Settings::default());
    let mirror = Pod { mirror: true, ..pod("mirror") };
    let slow = Pod { grace: seconds(400), ..pod("slow") };
    let leaving = Pod { deletion: Some(at(20)), ..pod("leaving") };
    drain.step(
        at(1),
        Input::Listed(vec![
            pod("web"),
            slow,
            leaving,
            mirror,
            daemon("d", "agent"),
            daemon("o", "gone"),
        ]),
    );
    for (name, state) in [("agent", DaemonSetState::Exists), ("gone", DaemonSetState::Gone)] {
        drain.step(
            at(1),
            Input::DaemonSet { namespace: "default".into(), name: name.into(), state },
        );
    }
    let left: Vec<_> =
        drain.pods_left().map(|pod| (pod.key.name.clone(), drain.forced_from(pod))).collect();
    let expected =
        [("leaving", None), ("o", Some(at(570))), ("slow", Some(at(300))), ("web", Some(at(570)))];
    assert_eq!(left, expected.map(|(name, from)| (name.to_owned(), from)));
}

#[test]
fn the_event_of_a_blocked_pod_can_be_parsed() {
    for reason in BlockReason::ALL {
        for message in ["", "no (really) no", "a\nb"] {
            let text = format!("{} (node ip-10-0-0-1)", reason.in_event(message));
            assert_eq!(BlockReason::of_event(&text), Some((reason, message)), "{text}");
        }
    }
    for other in
        ["", "evicted with 30 s", "its node is being drained, but it does not go: newer_reason (x)"]
    {
        assert_eq!(BlockReason::of_event(other), None, "{other}");
    }
}
