//! Pods that come back on the node that they are evicted from.

use super::{world::World, *};
use crate::domain::{EvictionStart, Response, Verification};

fn kruise() -> Owner {
    Owner {
        api_version: "apps.kruise.io/v1alpha1".into(),
        kind: "DaemonSet".into(),
        name: "agent".into(),
    }
}

/// A pod that its controller creates again, in a world that does so.
fn sticky(name: &str) -> Pod {
    Pod {
        labels: [("app".to_owned(), "sticky".to_owned())].into(),
        owner: Some(Box::new(kruise())),
        node: Some("n1".into()),
        ..pod(name)
    }
}

/// A world in which a controller creates pods again `put_back_after` their deletion, and pods end a
/// second after that.
fn stubborn(put_back_after: Duration) -> World {
    let mut w = World::new();
    w.stops_within = put_back_after + seconds(1);
    w.put_back = Some(("sticky", put_back_after));
    w
}

fn left_alone(w: &World) -> Vec<(&str, usize)> {
    let note =
        |note: &'_ Note| if let Note::CameBack { new, .. } = note { Some(*new) } else { None };
    w.notes.iter().filter_map(|(_, n)| note(n)).map(|new| ("agent", new)).collect()
}

#[test]
fn s20_a_pod_that_is_put_back_is_evicted_three_times_more_and_then_left_alone() {
    let mut w = stubborn(seconds(2));
    w.add_pod(sticky("a"));
    w.add_pod(Pod { node: Some("n1".into()), ..pod("web") });
    w.drain("n1", limits(3600));
    w.run_until(at(3600));
    let evicted: Vec<_> = w.sent.iter().map(|s| s.order.uid().to_string()).collect();
    assert_eq!(evicted, ["a", "web", "a+", "a++", "a+++"]);
    assert_eq!(left_alone(&w), [("agent", 4)]);
    assert_eq!(
        (w.outcome("n1"), w.ended_ms("n1").map(|ms| ms / 1000)),
        (Some(&Outcome::Empty), Some(9)),
        "the drain does not wait for it"
    );
    assert!(w.pods.contains_key(&uid("a++++")));
}

#[test]
fn s20_a_pod_that_is_put_back_at_once_is_not_evicted_without_a_pause() {
    let mut w = stubborn(Duration::from_millis(20));
    w.add_pod(sticky("a"));
    w.drain("n1", limits(3600));
    w.run_until(at(3600));
    let evicted: Vec<_> =
        w.log().into_iter().map(|(at, order)| (at, order.uid().to_string())).collect();
    // In the first five seconds after the cordon pods may arrive that were being scheduled, so a
    // fourth new pod does not count as coming back yet.
    assert_eq!(
        evicted,
        [
            (0, "a".into()),
            (0, "a+".into()),
            (0, "a++".into()),
            (0, "a+++".into()),
            (5, "a++++".into())
        ]
    );
    assert_eq!((left_alone(&w), w.outcome("n1")), (vec![("agent", 5)], Some(&Outcome::Empty)));
}

#[test]
fn s20_a_pod_that_is_put_back_at_once_near_the_deadline_is_not_evicted_without_a_pause() {
    let mut w = stubborn(Duration::from_millis(20));
    w.add_pod(sticky("a"));
    w.drain("n1", Limits { end_at: Some(at(4)), ..limits(1) });
    w.run_until(at(60));
    let in_second = |second: u64| w.log().iter().filter(|(at, _)| *at == second).count();
    assert_eq!([0, 1, 2, 3].map(in_second), [4, 1, 1, 1]);
}

#[test]
fn s20_pods_that_existed_at_the_cordon_are_always_drained() {
    let mut w = stubborn(seconds(2));
    for i in 0..20 {
        w.add_pod(sticky(&format!("p{i:02}")));
    }
    w.drain("n1", limits(3600));
    w.run_until(at_ms(7500));
    let status = w.drains[&"n1".into()].status(w.now);
    assert_eq!(
        status
            .left_alone
            .iter()
            .map(|l| (l.namespace.as_str(), l.owner.name.as_str()))
            .collect::<Vec<_>>(),
        [("default", "agent")]
    );
    w.run_until(at(3600));
    assert!(w.sent.iter().filter(|s| !s.order.uid().as_str().contains('+')).count() == 20);
    assert!(w.sent.len() <= 60, "{}", w.sent.len());
    assert_eq!(w.outcome("n1"), Some(&Outcome::Empty));
    assert!(w.ended_ms("n1").unwrap() < 15_000, "{:?}", w.ended_ms("n1"));
}

#[test]
fn s19_pods_of_one_owner_that_were_being_scheduled_at_the_cordon_are_all_drained() {
    let mut w = World::new();
    w.drain("n1", limits(3600));
    for i in 0..10_u64 {
        w.set_pod_at(at_ms(300 * i), Pod { created: Some(at(0)), ..sticky(&format!("p{i}")) });
    }
    w.run_until(at(60));
    assert_eq!((w.sent.len(), w.outcome("n1")), (10, Some(&Outcome::Empty)));
    assert!(w.log().iter().all(|(at, _)| *at <= 5));
    assert_eq!(left_alone(&w), []);
}

#[test]
fn s19_pods_that_a_broken_watch_shows_late_did_not_come_back() {
    let mut w = World::new();
    w.stops_within = seconds(100);
    w.add_pod(Pod { node: Some("n1".into()), grace: seconds(100), ..pod("web") });
    w.drain("n1", limits(3600));
    for i in 0..6 {
        w.set_pod_at(at(65), Pod { created: Some(at(0)), ..sticky(&format!("p{i}")) });
    }
    w.run_until(at(600));
    assert_eq!((w.sent.len(), w.outcome("n1")), (7, Some(&Outcome::Empty)));
    assert_eq!(left_alone(&w), []);
}

/// Another leader takes over, and knows only what the API server knows.
fn taken_over(w: &mut World) {
    w.drains.clear();
    w.dispatcher = Dispatcher::new(DispatchSettings::default());
    w.sent.clear();
    w.notes.clear();
    w.drain_with(
        Start { node: "n1".into(), cordoned_at: at(0), limits: limits(3600), own_pod: None },
        Settings::default(),
    );
}

#[test]
fn s20_a_new_leader_evicts_no_more_than_a_few_of_those_that_came_back() {
    for (new, evictions) in [(1_u32, 3), (3, 3), (4, 0), (20, 0)] {
        let mut w = stubborn(seconds(2));
        w.run_until(at(100));
        w.now = at(100);
        for i in 0..new {
            w.add_pod(Pod { created: Some(at(20)), ..sticky(&format!("new{i:02}")) });
        }
        w.add_pod(Pod { created: Some(at(0)), labels: [].into(), ..sticky("there") });
        taken_over(&mut w);
        w.run_until(at(3600));
        let (there, others): (Vec<_>, Vec<_>) =
            w.sent.iter().partition(|s| s.order.uid().as_str() == "there");
        assert_eq!((there.len(), others.len()), (1, evictions), "{new} new ones");
        assert_eq!((left_alone(&w).len(), w.outcome("n1")), (1, Some(&Outcome::Empty)));
    }
}

#[test]
fn s20_a_pod_that_is_left_alone_stays_so_when_it_changes() {
    let mut d = drain(limits(3600));
    d.step(at(0), Input::Listed(vec![pod("web")]));
    for name in ["a", "b", "c", "d"] {
        d.step(at(10), Input::Changed(sticky(name)));
        if name != "d" {
            d.step(at(10), Input::Gone(uid(name)));
        }
    }
    assert_eq!(requests(&d.step(at(11), Input::Changed(Pod { ready: false, ..sticky("d") }))), []);
    assert_eq!(
        d.status(at(11)).counts,
        Counts { left: 1, waiting: 1, untouched: 1, ..Counts::default() }
    );
    let other = Pod { owner: pod("x").owner, ..sticky("x") };
    assert_eq!(
        requests(&d.step(at(11), Input::Changed(other))),
        [("x".into(), false)],
        "another owner's pod"
    );
}

#[test]
fn a_pod_that_a_lagging_watch_shows_again_after_a_404_counts_once() {
    let mut w = World::new();
    w.add_pod(pod("blocked"));
    w.add_budget("web", 1);
    let gone = |_: Moment, order: &Order| {
        (order.uid().as_str() == "late").then(|| answer(404, "NotFound", "pods \"late\" not found"))
    };
    w.answer = Some(Box::new(gone));
    let late = Pod { created: Some(at(60)), ..sticky("late") };
    for at_second in [60, 70, 80, 90, 100] {
        w.feed_at(at(at_second), "n1", Input::Changed(late.clone()));
    }
    w.drain("n1", limits(3600));
    w.run_until(at(300));
    assert_eq!(left_alone(&w), []);
    assert_eq!(
        w.sent.iter().filter(|s| s.order.uid().as_str() == "late").count(),
        5,
        "it is tried again each time"
    );
}

#[test]
fn pods_that_came_while_the_node_was_only_tainted_are_all_drained() {
    let tainted = Limits { response: Response::Prefer, ..Limits::without_deadline(at(0), false) };
    let drained = Limits { tainted_at: at(200), ..limits(3600) };
    let mut w = World::new();
    w.drain("n1", tainted);
    for i in 0..10_u64 {
        let created = Some(at(100 + i));
        w.set_pod_at(at(100 + i), Pod { created, ..sticky(&format!("p{i}")) });
    }
    w.feed_at(at(200), "n1", Input::Limits(drained));
    w.run_until(at(300));
    assert_eq!((w.sent.len(), left_alone(&w)), (10, vec![]));
    assert!(w.log().iter().all(|(at, _)| *at >= 200), "a tainted node keeps its pods");
}

#[test]
fn pods_that_came_while_evictions_wait_are_all_drained() {
    let waiting = Limits { eviction_start: EvictionStart::At(at(200)), ..limits(3600) };
    let mut w = World::new();
    w.add_pod(Pod { node: Some("n1".into()), ..pod("web") });
    w.drain("n1", waiting);
    for i in 0..10_u64 {
        let created = Some(at(100 + i));
        w.set_pod_at(at(100 + i), Pod { created, ..sticky(&format!("p{i}")) });
    }
    w.feed_at(at(200), "n1", Input::Limits(limits(3600)));
    w.run_until(at(300));
    assert_eq!((w.sent.len(), left_alone(&w)), (11, vec![]));
}

#[test]
fn a_new_leader_drains_pods_that_came_while_the_node_was_only_tainted() {
    let mut w = World::new();
    w.run_until(at(210));
    for i in 0..10_u64 {
        w.add_pod(Pod { created: Some(at(100 + i)), ..sticky(&format!("p{i}")) });
    }
    let drained = Limits { tainted_at: at(200), ..limits(3600) };
    w.drain_with(
        Start { node: "n1".into(), cordoned_at: at(0), limits: drained, own_pod: None },
        Settings::default(),
    );
    w.run_until(at(300));
    assert_eq!((w.sent.len(), left_alone(&w)), (10, vec![]));
}

#[test]
fn s20_a_new_leader_that_waits_for_aws_leaves_alone_those_that_came_back() {
    let mut w = stubborn(seconds(2));
    w.run_until(at(100));
    w.now = at(100);
    for i in 0..20_u32 {
        w.add_pod(Pod { created: Some(at(20)), ..sticky(&format!("new{i:02}")) });
    }
    w.add_pod(Pod { node: Some("n1".into()), ..pod("web") });
    let waits = Limits { verification: Verification::AwaitingHeartbeat, ..limits(3600) };
    let start = Start { node: "n1".into(), cordoned_at: at(0), limits: waits, own_pod: None };
    w.drain_with(start, Settings::default());
    w.feed_at(at(101), "n1", Input::Limits(limits(3600)));
    w.run_until(at(3600));
    let evicted: Vec<_> = w.sent.iter().map(|s| s.order.uid().as_str()).collect();
    assert_eq!(evicted, ["web"]);
}

#[test]
fn a_new_leader_in_a_pause_or_another_wait_evicts_those_that_came_back_once_more() {
    let unanswered = Limits { verification: Verification::AwaitingHeartbeat, ..limits(3600) };
    let replacement =
        Limits { eviction_start: EvictionStart::ReplacementReady(at(1800)), ..limits(3600) };
    let held = Limits { held_until: Some(at(1800)), ..limits(3600) };
    for (name, begins_with, is_paused, evicted) in [
        ("no wait", limits(3600), false, 0),
        ("AWS's answer", unanswered, false, 0),
        ("a replacement", replacement, false, 20),
        ("gates", held, false, 20),
        ("a pause", limits(3600), true, 20),
    ] {
        let mut d = drain(begins_with);
        if is_paused {
            d.step(at(100), Input::Paused);
        }
        let came_back = |i| Pod { created: Some(at(20)), ..sticky(&format!("new{i:02}")) };
        let mut effects = d.step(at(100), Input::Listed((0..20_u32).map(came_back).collect()));
        let go_on = if is_paused { Input::Resumed } else { Input::Limits };
        effects.extend(d.step(at(101), go_on(limits(3600))));
        assert_eq!(requests(&effects).len(), evicted, "{name}");
    }
}
