//! The order in which pods are evicted (`--pod-order`, `--drain-daemonset`).

use super::*;
use crate::domain::{CRITICAL_PRIORITY, DaemonSetName, PodOrder};

fn critical(pod: Pod) -> Pod {
    Pod { priority: CRITICAL_PRIORITY, ..pod }
}

fn with_priority(name: &str, priority: i32) -> Pod {
    Pod { priority, ..pod(name) }
}

fn settings(order: &str) -> Settings {
    Settings {
        order: order.parse().unwrap(),
        drained_daemon_sets: [DaemonSetName {
            namespace: "default".to_owned(),
            name: "shipper".to_owned(),
        }]
        .into(),
        ..Settings::default()
    }
}

fn start(limits: Limits) -> Start {
    Start { node: "n1".into(), cordoned_at: at(0), limits, own_pod: None }
}

fn drain_in(order: &str, limits: Limits) -> Drain {
    Drain::new(start(limits), settings(order))
}

/// The names of the pods whose removal these effects request.
fn requested(effects: &[Effect]) -> Vec<String> {
    let request = |effect: &Effect| match effect {
        Effect::Dispatch(DispatchInput::Request { pod, .. }) => Some(pod.key.name.clone()),
        _ => None,
    };
    let mut names: Vec<_> = effects.iter().filter_map(request).collect();
    names.sort();
    names
}

/// Lists these pods, and then lets those that were requested go, until none is. Returns who was
/// requested together.
fn rounds(drain: &mut Drain, pods: Vec<Pod>) -> Vec<Vec<String>> {
    let mut now = at(1);
    let mut effects = drain.step(now, Input::Listed(pods));
    let mut rounds = Vec::new();
    loop {
        let names = requested(&effects);
        if names.is_empty() {
            return rounds;
        }
        effects = Vec::new();
        for name in &names {
            now = now.plus(Duration::from_millis(100));
            effects.extend(drain.step(now, Input::Gone(name.as_str().into())));
        }
        rounds.push(names);
    }
}

#[test]
fn s21_ordinary_pods_go_first_then_daemons_then_critical_pods_then_critical_daemons() {
    let pods = || {
        vec![
            critical(daemon("d2", "shipper")),
            critical(pod("dns")),
            daemon("d1", "shipper"),
            pod("web-1"),
            pod("web-2"),
        ]
    };
    let groups = |order| rounds(&mut drain_in(order, limits(3600)), pods());
    assert_eq!(
        groups("critical-last"),
        [vec!["web-1", "web-2"], vec!["d1"], vec!["dns"], vec!["d2"]]
    );
    assert_eq!(groups("together"), [["d1", "d2", "dns", "web-1", "web-2"]]);
}

#[test]
fn s21_pods_go_by_the_bands_of_the_kubelet_and_of_the_cluster_autoscaler() {
    let numbered = |priorities: &[i32]| -> Vec<Pod> {
        priorities.iter().map(|n| with_priority(&format!("p{n}"), *n)).collect()
    };
    let mut kubelet = drain_in("priority:1,2,3,4", limits(3600));
    assert_eq!(
        rounds(&mut kubelet, numbered(&[0, 1, 2, 3, 4, 5])),
        [vec!["p0", "p1"], vec!["p2"], vec!["p3"], vec!["p4", "p5"]]
    );
    let mut autoscaler = drain_in("priority:10,1000,2000,2000000000", limits(3600));
    assert_eq!(
        rounds(&mut autoscaler, numbered(&[0, 100, 500, 1000, 2_000_000_005])),
        [vec!["p0", "p100", "p500"], vec!["p1000"], vec!["p2000000005"]]
    );
}

#[test]
fn the_next_group_waits_until_the_one_before_is_gone_not_only_evicted() {
    let mut d = drain_in("critical-last", limits(3600));
    let effects = d.step(at(1), Input::Listed(vec![pod("web"), critical(pod("dns"))]));
    assert_eq!(requested(&effects), ["web"]);
    let order = d.order(&"web".into(), at(1), true).unwrap();
    let effects = d.step(at(2), Input::Answer { order, answer: ok() });
    assert_eq!(requested(&effects), [""; 0]);
    let terminating = Pod { deletion: Some(at(32)), ..pod("web") };
    assert_eq!(requested(&d.step(at(2), Input::Changed(terminating))), [""; 0]);
    assert_eq!(
        d.status(at(3)).counts,
        Counts { left: 2, leaving: 1, later: 1, ..Counts::default() }
    );
    assert_eq!(requested(&d.step(at(9), Input::Gone("web".into()))), ["dns"]);
    assert_eq!(d.status(at(9)).counts, Counts { left: 1, waiting: 1, ..Counts::default() });
}

/// The moments at which groups begin although pods of earlier ones are left. A drain of an hour
/// from 0 to 3600.
#[test]
fn a_group_begins_at_the_latest_after_its_share_of_the_first_half() {
    for (order, late, starts) in [
        ("critical-last", daemon("late", "shipper"), 450),
        ("critical-last", critical(pod("late")), 900),
        ("critical-last", critical(daemon("late", "shipper")), 1350),
        ("priority:0,1000", with_priority("late", 1000), 900),
        ("priority:0,1000,2000", with_priority("late", 2000), 1200),
        // It needs its own grace period, and 10 s for the eviction.
        ("critical-last", critical(Pod { grace: seconds(3000), ..pod("late") }), 590),
        ("critical-last", critical(Pod { grace: seconds(7200), ..pod("late") }), 0),
    ] {
        let mut d = drain_in(order, limits(3600));
        let effects = d.step(at(0), Input::Listed(vec![pod("web"), late]));
        if starts == 0 {
            assert_eq!(requested(&effects), ["late", "web"], "{order}");
            continue;
        }
        assert_eq!(requested(&effects), ["web"], "{order}");
        assert_eq!(d.status(at(1)).next_group_at, Some(at(starts)), "{order}");
        assert_eq!(requested(&d.step(at(starts - 1), Input::Tick)), [""; 0], "{order}");
        assert!(d.next_wake().is_some_and(|wake| wake <= at(starts)), "{order}");
        let effects = d.step(at(starts), Input::Tick);
        assert_eq!(requested(&effects), ["late"], "{order}");
        assert_eq!(d.status(at(starts)).next_group_at, None, "{order}");
    }
}

#[test]
fn without_a_deadline_a_group_waits_until_the_earlier_ones_are_gone() {
    let without = Limits::without_deadline(at(0), false);
    let mut d = drain_in("critical-last", without);
    d.step(at(0), Input::Listed(vec![pod("web"), critical(pod("dns"))]));
    assert_eq!(d.status(at(1)).next_group_at, Some(Moment::MAX));
    assert_eq!(requested(&d.step(at(90_000), Input::Tick)), [""; 0]);
    assert_eq!(requested(&d.step(at(90_001), Input::Gone("web".into()))), ["dns"]);
}

/// A gate holds the evictions of an hour until 1500 s.
#[test]
fn after_a_hold_the_groups_share_the_first_half_of_what_is_left() {
    let held = Limits { held_until: Some(at(1800)), ..limits(3600) };
    let mut d = drain_in("critical-last", held);
    let effects = d.step(at(0), Input::Listed(vec![pod("web"), critical(pod("dns"))]));
    assert_eq!(requested(&effects), [""; 0]);
    assert_eq!(requested(&d.step(at(1500), Input::Limits(limits(3600)))), ["web"]);
    assert_eq!(d.status(at(1500)).next_group_at, Some(at(1500 + 525)));
    assert_eq!(requested(&d.step(at(2024), Input::Tick)), [""; 0]);
    assert_eq!(requested(&d.step(at(2025), Input::Tick)), ["dns"]);
}

/// The last leader may have held the evictions until it ended: a new one cannot know.
#[test]
fn after_a_change_of_leader_the_groups_share_the_first_half_of_what_is_left() {
    for (taken_over, starts) in [(400, 900), (2000, 2400), (3000, 3150)] {
        let mut d = drain_in("critical-last", limits(3600)).taken_over(at(taken_over));
        let pods = vec![pod("web"), critical(pod("dns"))];
        assert_eq!(requested(&d.step(at(taken_over), Input::Listed(pods))), ["web"]);
        assert_eq!(d.status(at(taken_over)).next_group_at, Some(at(starts)), "{taken_over}");
    }
}

#[test]
fn when_a_person_forces_the_drain_no_group_waits() {
    let without = Limits::without_deadline(at(0), false);
    let mut d = drain_in("critical-last", without);
    d.step(at(0), Input::Listed(vec![pod("web"), critical(pod("dns"))]));
    let forced = Limits { forced_at: Some(at(20)), ..without };
    assert_eq!(requested(&d.step(at(20), Input::Limits(forced))), ["dns"]);
    assert_eq!(d.status(at(20)).next_group_at, None);
}

#[test]
fn s18_a_pod_that_is_stuck_in_its_termination_holds_up_no_later_group() {
    for finalizers in [true, false] {
        let mut d = drain_in("critical-last", Limits::without_deadline(at(0), false));
        let stuck = Pod { deletion: Some(at(30)), finalizers, ..pod("web") };
        d.step(at(0), Input::Listed(vec![stuck, critical(pod("dns"))]));
        assert_eq!(requested(&d.step(at(89), Input::Tick)), [""; 0]);
        assert_eq!(requested(&d.step(at(91), Input::Tick)), ["dns"]);
    }
}

#[test]
fn a_pod_that_arrives_in_an_earlier_group_goes_before_those_that_were_not_yet_evicted() {
    let mut d = drain_in("critical-last", limits(3600));
    let effects = d.step(at(0), Input::Listed(vec![critical(pod("dns"))]));
    assert_eq!(requested(&effects), ["dns"]);
    let effects = d.step(at(2), Input::Changed(pod("web")));
    assert_eq!(requested(&effects), ["web"]);
    let cancel = DispatchInput::Cancel { uid: "dns".into() };
    assert!(effects.contains(&Effect::Dispatch(cancel)), "{effects:?}");
    assert_eq!(requested(&d.step(at(8), Input::Gone("web".into()))), ["dns"]);
}

#[test]
fn the_deadline_forces_pods_of_all_groups_at_their_own_times() {
    // Karpenter's case: 300 s; an ordinary pod with 30 s, a critical one with 600 s.
    let mut d = drain_in("critical-last", limits(300));
    let slow = critical(Pod { grace: seconds(600), ..pod("slow") });
    let effects = d.step(at(0), Input::Listed(vec![pod("web"), slow]));
    assert_eq!(requested(&effects), ["slow", "web"]);
    let refused = |d: &mut Drain, name: &str| {
        let order = d.order(&name.into(), at(1), true).unwrap();
        let answer = ApiAnswer { code: 503, ..ApiAnswer::default() };
        d.step(at(1), Input::Answer { order, answer });
    };
    refused(&mut d, "slow");
    refused(&mut d, "web");
    d.step(at(150), Input::Tick);
    let delete = d.order(&"slow".into(), at(150), true).unwrap();
    assert!(matches!(delete, Order::Delete { grace: 150, .. }), "{delete:?}");
    assert!(matches!(d.order(&"web".into(), at(150), true), Some(Order::Evict { .. })));
    d.step(at(270), Input::Tick);
    assert!(matches!(d.order(&"web".into(), at(270), true), Some(Order::Delete { grace: 30, .. })));
}

#[test]
fn daemon_sets_that_are_named_are_drained_without_a_look_up_and_all_others_stay() {
    let mut d = drain_in("critical-last", limits(3600));
    let effects = d.step(at(0), Input::Listed(vec![daemon("s", "shipper"), daemon("o", "other")]));
    assert_eq!(requested(&effects), ["s"]);
    let asked = |effect: &Effect| match effect {
        Effect::AskDaemonSet { name, .. } => Some(name.clone()),
        _ => None,
    };
    assert_eq!(effects.iter().filter_map(asked).collect::<Vec<_>>(), ["other"]);
    let elsewhere = Pod {
        key: PodKey { namespace: "team-a".into(), name: "x".into() },
        ..daemon("x", "shipper")
    };
    let effects = d.step(at(1), Input::Changed(elsewhere));
    assert_eq!(requested(&effects), [""; 0]);
    assert_eq!(effects.iter().filter_map(asked).collect::<Vec<_>>(), ["shipper"]);
}

/// A DaemonSet that tolerates every taint has its pod created again at once.
#[test]
fn a_pod_of_a_drained_daemon_set_that_is_created_again_stays() {
    let again = |uid: &str, created| Pod { created: Some(created), ..daemon(uid, "shipper") };
    let mut d = drain_in("critical-last", limits(3600));
    d.step(at(1), Input::Listed(vec![again("first", at(0).minus(seconds(500)))]));
    assert_eq!(requested(&d.step(at(9), Input::Changed(again("second", at(9))))), [""; 0]);
    let effects = d.step(at(10), Input::Gone("first".into()));
    assert!(effects.contains(&Effect::Ended(Outcome::Empty)), "{effects:?}");

    // The same pod, seen first by a new leader.
    let mut d = drain_in("critical-last", limits(3600));
    let effects = d.step(at(12), Input::Listed(vec![again("second", at(9))]));
    assert_eq!(requested(&effects), [""; 0]);
    assert!(effects.contains(&Effect::Ended(Outcome::Empty)), "{effects:?}");
}

#[test]
fn the_default_order_lets_pods_without_a_priority_go_together() {
    assert_eq!(Settings::default().order, PodOrder::CriticalLast);
    let mut d = drain(limits(3600));
    let effects = d.step(at(0), Input::Listed(vec![pod("a"), with_priority("b", 1_000_000_000)]));
    assert_eq!(requested(&effects), ["a", "b"]);
}
