//! Whole drains against the model server.

use super::{
    world::{Sent, World},
    *,
};

fn on(node: &str, name: &str) -> Pod {
    Pod { node: Some(node.into()), ..pod(name) }
}

/// Answers every eviction with `answer`; the server answers deletes.
fn always(answer: ApiAnswer) -> world::Override {
    Box::new(move |_, order| matches!(order, Order::Evict { .. }).then(|| answer.clone()))
}

/// Answers evictions with `answer` until `end`.
fn until(end: Moment, answer: ApiAnswer) -> world::Override {
    Box::new(move |now, order| {
        (now < end && matches!(order, Order::Evict { .. })).then(|| answer.clone())
    })
}

fn deletes(w: &World) -> Vec<(u64, Order)> {
    w.log().into_iter().filter(|(_, o)| matches!(o, Order::Delete { .. })).collect()
}

#[test]
fn thirty_pods_without_budgets_need_one_request_each() {
    let mut w = World::new();
    for i in 0..30 {
        w.add_pod(on("n1", &format!("p{i:02}")));
    }
    w.drain("n1", limits(110));
    w.run_until(at(200));
    assert_eq!(w.outcome("n1"), Some(&Outcome::Empty));
    assert_eq!(w.sent.len(), 30);
    assert!(
        w.ended_ms("n1").unwrap() <= 5001,
        "its pods end within 2 s, so the drain lasts its minimum of 5 s"
    );
}

#[test]
fn s01_two_nodes_with_a_replica_each_leave_one_always_ready() {
    let mut w = World::new();
    w.replaced_after = Some(seconds(120));
    w.add_pod(on("n1", "a"));
    w.add_pod(on("n2", "b"));
    w.add_budget("pdb", 1);
    w.drain("n1", limits(3600));
    w.drain("n2", limits(3600));
    w.run_until(at(3600));
    assert_eq!((w.outcome("n1"), w.outcome("n2")), (Some(&Outcome::Empty), Some(&Outcome::Empty)));
    assert_eq!(w.overrun, 0, "one is ready at any time");
    let accepted: Vec<_> =
        w.ended.values().map(|(t, _)| t.since_or_zero(at(0)).as_secs()).collect();
    assert!(
        accepted[1] >= 122 && accepted[1] <= 125,
        "{accepted:?}: as soon as the replacement is ready"
    );
    assert_eq!(deletes(&w), []);
    assert!(w.sent.len() <= 12, "few probes in two minutes: {}", w.sent.len());
}

#[test]
fn a_freed_budget_is_used_within_milliseconds() {
    let mut w = World::new();
    w.add_pod(on("n1", "a"));
    w.add_budget("pdb", 1);
    w.drain("n1", limits(3600));
    w.set_pod_at(at(10), Pod { node: None, ..pod("new") });
    w.run_until(at(12));
    let last = w.sent.last().unwrap();
    assert!(last.at < at_ms(10_000 + 20 + 3 + 10), "{}", last.at);
}

#[test]
fn s02_a_single_replica_is_deleted_when_its_own_grace_is_left() {
    let mut w = World::new();
    w.stops_within = seconds(20);
    w.add_pod(on("n1", "a"));
    w.add_budget("pdb", 1);
    w.drain("n1", limits(300));
    w.run_until(at(269));
    let blocked = w.drains[&"n1".into()].status(w.now).blocked;
    assert!(blocked[0].message.contains("needs 1 healthy pods and has 1 currently"));
    assert_eq!((blocked[0].reason, deletes(&w)), (BlockReason::Pdb, vec![]));
    w.run_until(at(310));
    assert_eq!(deletes(&w), [(270, delete("a", 30))]);
    assert_eq!(w.drains[&"n1".into()].status(w.now).forced, [key("a")]);
    assert_eq!(
        (w.outcome("n1"), w.ended_ms("n1").map(|ms| ms / 1000)),
        (Some(&Outcome::Empty), Some(290))
    );
    assert!(
        w.notes
            .iter()
            .any(|(_, n)| matches!(n, Note::Forced { reason: BlockReason::Pdb, grace: 30, .. }))
    );
}

#[test]
fn s03_a_long_grace_is_shortened_and_a_refused_pod_is_not_forced_before_half_of_the_time() {
    let slow = || Pod { grace: seconds(600), ..on("n1", "a") };
    let mut w = World::new();
    w.add_pod(slow());
    w.drain("n1", limits(120));
    w.run_until(at(200));
    assert_eq!(w.log(), [(0, evict("a", Some(120)))]);

    let mut w = World::new();
    w.add_pod(slow());
    w.add_budget("pdb", 1);
    w.drain("n1", limits(120));
    w.run_until(at(200));
    assert_eq!(deletes(&w), [(60, delete("a", 60))]);
}

#[test]
fn s04_a_pod_that_has_long_been_terminating_is_shortened() {
    let mut w = World::new();
    w.add_pod(Pod { deletion: Some(at(5500)), grace: seconds(6000), ..on("n1", "a") });
    w.drain("n1", limits(210));
    w.run_until(at(300));
    assert_eq!(w.log(), [(0, shorten("a", 210))], "once, and never evicted");
}

#[test]
fn s05_the_deadline_may_pass_in_mid_drain() {
    let mut w = World::new();
    w.add_pod(on("n1", "a"));
    w.add_budget("pdb", 1);
    w.drain("n1", Limits { end_at: Some(at(3600)), ..limits(300) });
    w.feed_at(at(100), "n1", Input::Limits(Limits { end_at: Some(at(200)), ..limits(90) }));
    w.run_until(at(200));
    assert_eq!(
        deletes(&w),
        [(100, delete("a", 1))],
        "no time is left, so the grace period is one second"
    );
    assert_eq!(w.outcome("n1"), Some(&Outcome::Empty));
}

#[test]
fn s06_pods_that_are_gone_or_replaced_are_not_evicted_again() {
    let mut w = World::new();
    w.watch_lag = seconds(3);
    w.add_pod(on("n1", "gone"));
    w.add_pod(on("n1", "stateful"));
    w.drain_with(
        Start { node: "n1".into(), cordoned_at: at(0), limits: limits(110), own_pod: None },
        Settings::default(),
    );
    // Both pods ended before our requests arrived; one has a successor of the same name elsewhere.
    // The watch reports that late.
    w.pods.clear();
    w.add_pod(Pod { uid: "stateful-2".into(), node: Some("n9".into()), ..pod("stateful") });
    w.feed_at(at(3), "n1", Input::Gone("gone".into()));
    w.feed_at(at(3), "n1", Input::Gone("stateful".into()));
    w.run_until(at(60));
    assert_eq!(w.outcome("n1"), Some(&Outcome::Empty));
    for name in ["gone", "stateful"] {
        assert_eq!(w.sent.iter().filter(|s| s.order.uid().as_str() == name).count(), 1, "{name}");
    }
    assert!(w.pods.contains_key(&uid("stateful-2")), "the successor lives");
}

#[test]
fn s07_an_overloaded_server_pauses_all_evictions_and_is_no_budget() {
    let mut w = World::new();
    for node in ["n1", "n2"] {
        w.add_pod(on(node, &format!("{node}-a")));
    }
    w.answer = Some(until(at(1), overload(Some(3))));
    w.drain("n1", limits(110));
    w.run_until(at_ms(100));
    w.drain("n2", limits(110));
    w.run_until(at_ms(2900));
    assert_eq!(w.sent.len(), 1, "the other node's pod waits too");
    assert_eq!(w.drains[&"n1".into()].status(w.now).blocked[0].reason, BlockReason::ApiOverload);
    w.run_until(at(20));
    let second = w.sent[1].at.since_or_zero(at(0));
    assert!(second >= seconds(3) && second < Duration::from_millis(3100), "{second:?}");
    assert_eq!((w.sent.len(), w.ended.len()), (3, 2));
}

#[test]
fn s09_two_budgets_block_until_one_is_removed() {
    let mut w = World::new();
    w.add_pod(on("n1", "a"));
    w.add_pod(Pod { node: None, ..pod("x") });
    w.add_budget("one", 1);
    w.add_budget("two", 1);
    w.drain("n1", limits(3600));
    w.delete_budget_at(at(10), budget("two", 0).key);
    w.run_until(at(9));
    assert_eq!(w.drains[&"n1".into()].status(w.now).blocked[0].reason, BlockReason::TwoPdbs);
    w.run_until(at(100));
    assert_eq!(w.outcome("n1"), Some(&Outcome::Empty));
    assert!(w.ended_ms("n1").unwrap() < 13_000);
}

#[test]
fn s10_webhooks_that_fail_or_refuse_do_not_end_a_drain() {
    let mut w = World::new();
    w.add_pod(on("n1", "a"));
    w.add_pod(on("n1", "b"));
    let mut calls = 0;
    w.answer = Some(Box::new(move |_, order| {
        if order.pod().name == "b" {
            return Some(answer(
                403,
                "Forbidden",
                "admission webhook \"operator\" denied the request: I do it myself",
            ));
        }
        calls += 1;
        (calls <= 3).then(|| {
            answer(500, "InternalError", "Internal error occurred: failed calling webhook \"x\"")
        })
    }));
    w.drain("n1", limits(3600));
    w.end_pod_at(at(8), "b");
    w.run_until(at(60));
    assert_eq!(w.outcome("n1"), Some(&Outcome::Empty));
    assert_eq!(
        w.ended_ms("n1").map(|ms| ms / 1000),
        Some(8),
        "the operator's deletion is seen at once"
    );
}

#[test]
fn s11_pods_of_a_terminating_namespace_are_waited_for_and_deleted_at_the_deadline() {
    for ends in [true, false] {
        let mut w = World::new();
        w.add_pod(on("n1", "a"));
        w.answer = Some(always(namespace_terminating()));
        w.drain("n1", limits(110));
        if ends {
            w.set_pod_at(at(20), Pod { deletion: Some(at(50)), ..on("n1", "a") });
            w.end_pod_at(at(25), "a");
        }
        w.run_until(at(200));
        assert_eq!(w.outcome("n1"), Some(&Outcome::Empty));
        assert_eq!(deletes(&w), if ends { vec![] } else { vec![(80, delete("a", 30))] });
        let after_deletion = w.sent.iter().filter(|s| s.at > at(20)).count();
        assert!(!ends || after_deletion == 0, "it is not asked again");
    }
}

#[test]
fn s12_a_drain_with_an_intercepted_eviction_ends_when_the_pod_is_gone() {
    let mut w = World::new();
    w.add_pod(on("n1", "a"));
    w.answer = Some(always(ok()));
    w.drain("n1", limits(3600));
    w.end_pod_at(at(100), "a");
    w.run_until(at(99));
    assert_eq!(
        (w.outcome("n1"), w.drains[&"n1".into()].status(w.now).blocked[0].reason),
        (None, BlockReason::Intercepted)
    );
    w.run_until(at(101));
    assert_eq!(w.outcome("n1"), Some(&Outcome::Empty));
    assert!(w.sent.len() <= 5, "asked again slowly: {}", w.sent.len());
    assert_eq!(deletes(&w), []);
}

#[test]
fn s12_a_pod_whose_eviction_is_intercepted_is_deleted_before_the_deadline() {
    let mut w = World::new();
    w.add_pod(on("n1", "a"));
    w.answer = Some(always(ok()));
    w.drain("n1", limits(110));
    w.run_until(at(200));
    assert_eq!(deletes(&w), [(80, delete("a", 30))]);
}

#[test]
fn s13_pods_that_are_not_ready_go_where_the_budget_is_healthy_enough() {
    for (ready_others, min, gone) in [(2, 2, true), (1, 2, false)] {
        let mut w = World::new();
        w.add_pod(Pod { ready: false, ..on("n1", "a") });
        for i in 0..ready_others {
            w.add_pod(Pod { node: None, ..pod(&format!("other{i}")) });
        }
        w.add_budget("pdb", min);
        w.drain("n1", limits(3600));
        w.run_until(at(10));
        assert_eq!(w.outcome("n1").is_some(), gone, "{ready_others}/{min}");
        assert_eq!(w.sent.len(), 1);
    }
}

#[test]
fn s14_a_pending_pod_is_evicted_whatever_its_budget_allows() {
    let mut w = World::new();
    w.add_pod(Pod { phase: PodPhase::Pending, ready: false, ..on("n1", "a") });
    w.add_budget("pdb", 1);
    w.drain("n1", limits(3600));
    w.run_until(at(10));
    assert_eq!(w.outcome("n1"), Some(&Outcome::Empty));
}

#[test]
fn s16_daemon_sets_stay_orphans_go_and_foreign_kinds_are_ordinary() {
    let mut w = World::new();
    w.orphaned.insert("lost".into());
    let ds = |name, set| Pod { node: Some("n1".into()), ..daemon(name, set) };
    w.add_pod(ds("agent", "there"));
    w.add_pod(ds("orphan", "lost"));
    w.add_pod(Pod {
        owner: Some(Box::new(Owner {
            api_version: "apps.kruise.io/v1beta1".into(),
            kind: "DaemonSet".into(),
            name: "x".into(),
        })),
        ..on("n1", "kruise")
    });
    w.drain("n1", limits(110));
    w.run_until(at(60));
    let evicted: Vec<_> = w.sent.iter().map(|s| s.order.pod().name.clone()).collect();
    assert_eq!(evicted, ["kruise", "orphan"]);
    assert!(matches!(w.notes[..], [(_, Note::OrphanedDaemonSet { .. })]));
    assert_eq!(w.outcome("n1"), Some(&Outcome::Empty));
}

#[test]
fn s26_a_new_leader_does_not_evict_twice_and_keeps_the_deadline() {
    let mut w = World::new();
    w.stops_within = seconds(25);
    w.add_pod(on("n1", "a"));
    w.add_pod(on("n1", "b"));
    w.add_budget("pdb", 1);
    w.drain("n1", limits(300));
    w.run_until(at(10));
    assert_eq!(w.sent.len(), 2, "one is accepted, one is refused");
    // Another leader takes over, and knows only what the API server knows.
    w.drains.clear();
    w.dispatcher = Dispatcher::new(DispatchSettings::default());
    for budget in w.budgets.values().cloned().collect::<Vec<_>>() {
        w.feed_dispatcher(DispatchInput::Budget(budget));
    }
    w.drain_with(
        Start { node: "n1".into(), cordoned_at: at(0), limits: limits(300), own_pod: None },
        Settings::default(),
    );
    w.run_until(at(400));
    assert_eq!(w.sent.iter().filter(|s| s.order.uid().as_str() == "a").count(), 1);
    assert_eq!(deletes(&w), [(270, delete("b", 30))]);
}

#[test]
fn s28_a_hundred_nodes_with_thirty_pods_under_five_budgets() {
    let mut w = World::new();
    w.replaced_after = Some(seconds(10));
    for node in 0..100 {
        for i in 0..30 {
            let labels = [("app".to_owned(), format!("g{}", i % 6))].into();
            w.add_pod(Pod { labels, ..on(&format!("n{node:03}"), &format!("p{node:03}-{i:02}")) });
        }
    }
    for group in 0..5 {
        let selector = Selector::from_parts([("app".to_owned(), format!("g{group}"))], []);
        let key = BudgetKey { namespace: "default".into(), name: format!("g{group}") };
        w.budgets.insert(key.clone(), Budget { key, selector, desired: 400, ..budget("", 0) });
    }
    w.feed_dispatcher(DispatchInput::PausedAll(true));
    for node in 0..100 {
        w.drain(&format!("n{node:03}"), limits(3600));
    }
    // Let the disruption controller count before the first request.
    w.end_pod_at(at_ms(1), "nobody");
    w.feed_dispatcher_at(at_ms(100), DispatchInput::PausedAll(false));
    w.run_until(at(3600));
    assert_eq!(w.ended.values().filter(|(_, o)| *o == Outcome::Empty).count(), 100);
    assert_eq!(w.overrun, 0);
    assert!(w.sent.iter().all(|s| s.in_flight <= 32));
    let last = w.ended.values().map(|(t, _)| *t).max().unwrap();
    assert!(last < at(120), "{last}");
    // Every pod under a full budget is refused once; few other requests are wasted.
    assert!(w.sent.len() < 2 * 3000 + 600, "{}", w.sent.len());
}

#[test]
fn s29_a_budget_whose_controller_is_down_blocks_until_the_deadline_forces() {
    let mut w = World::new();
    w.add_pod(on("n1", "a"));
    w.answer = Some(always(lagging()));
    w.drain("n1", limits(300));
    w.run_until(at(400));
    assert!(
        w.notes
            .iter()
            .any(|(_, n)| matches!(n, Note::Blocked { reason: BlockReason::PdbLagging, .. }))
    );
    assert_eq!(deletes(&w), [(270, delete("a", 30))]);
}

#[test]
fn s30_a_broken_budget_is_retried_slowly() {
    let mut w = World::new();
    w.add_pod(on("n1", "a"));
    w.answer = Some(always(answer(403, "Forbidden", "pdb disruptions allowed is negative")));
    w.drain("n1", Limits::without_deadline(at(0), false));
    w.run_until(at(600));
    assert!((13..=41).contains(&w.sent.len()), "{}", w.sent.len());
}

#[test]
fn c54_the_own_pod_goes_after_leadership_was_handed_over() {
    let mut w = World::new();
    w.add_pod(on("n1", "self"));
    w.add_pod(on("n1", "z"));
    w.drain_with(
        Start {
            node: "n1".into(),
            cordoned_at: at(0),
            limits: limits(110),
            own_pod: Some(key("self")),
        },
        Settings::default(),
    );
    w.run_until(at(60));
    let order: Vec<_> = w.sent.iter().map(|s| s.order.pod().name.as_str()).collect();
    assert_eq!((order, w.only_own), (vec!["z", "self"], 1));
}

#[test]
fn c48_an_api_server_without_answers_is_called_until_the_deadline() {
    let mut w = World::new();
    w.add_pod(on("n1", "a"));
    w.answer = Some(Box::new(|_, _| Some(answer(0, "", "connection refused"))));
    w.drain("n1", limits(110));
    w.run_until(at(200));
    assert_eq!(w.outcome("n1"), Some(&Outcome::DeadlineReached { left: vec![key("a")] }));
    assert!(w.sent.len() < 40, "{}", w.sent.len());
    assert!(
        w.sent.iter().any(|Sent { order, .. }| matches!(order, Order::Delete { .. })),
        "no answer is as good as a refusal"
    );
}
