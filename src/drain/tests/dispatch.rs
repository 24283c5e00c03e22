//! The dispatcher alone: everything except disruption budgets.

use super::{bench::*, *};

#[test]
fn no_more_than_32_requests_are_in_flight() {
    let mut b = Bench::new();
    for name in names("p", 40) {
        b.request(at(0), "n1", pod(&name));
    }
    assert_eq!(b.sent.len(), 32);
    assert_eq!(b.answer(at(1), "p000", Class::Accepted), ["p032"]);
    assert_eq!(
        b.d.status(),
        DispatchStatus { in_flight: 32, waiting: 7, ..DispatchStatus::default() }
    );
}

#[test]
fn a_refused_pod_is_probed_slowly_with_jitter() {
    let wake = |seed| {
        let mut d = Dispatcher::new(DispatchSettings { seed, ..DispatchSettings::default() });
        d.step(
            at(0),
            DispatchInput::Request {
                node: "n1".into(),
                pod: Arc::new(pod("a")),
                method: Method::Eviction,
            },
        );
        d.step(at(0), DispatchInput::Answer { uid: "a".into(), class: Class::Forbidden });
        d.next_wake().unwrap()
    };
    let all: std::collections::BTreeSet<_> = (0..50).map(wake).collect();
    assert!(all.len() > 40, "spread");
    assert!(*all.first().unwrap() >= at(15) && *all.last().unwrap() <= at(45));
    assert_eq!(wake(7), wake(7), "deterministic");
}

#[test]
fn transient_failures_are_retried_with_growing_waits() {
    let mut b = Bench::new();
    b.request(at(0), "n1", pod("a"));
    let (mut now, mut waits) = (at(0), Vec::new());
    for _ in 0..9 {
        b.answer(now, "a", Class::Transient);
        let wake = b.d.next_wake().unwrap();
        waits.push(wake.since_or_zero(now).as_millis());
        now = wake;
        assert_eq!(b.step(now, DispatchInput::Tick), ["a"]);
    }
    assert!((250..=750).contains(&waits[0]) && (4000..=12_000).contains(&waits[4]), "{waits:?}");
    assert!(waits.iter().all(|w| *w <= 45_000), "{waits:?}");
    b.answer(now, "a", Class::Conflict);
    assert!(b.d.next_wake().unwrap().since_or_zero(now) >= Duration::from_millis(500));
}

#[test]
fn a_failed_eviction_does_not_delay_the_delete() {
    let mut b = Bench::new();
    b.request(at(0), "n1", pod("a"));
    assert!(b.delete(at(10), "n1", pod("a")).is_empty(), "its eviction is in flight");
    assert_eq!(b.answer(at(12), "a", Class::Transient), ["a"]);
    assert!(
        b.answer(at(13), "a", Class::Transient).is_empty(),
        "a delete that failed is not repeated at once"
    );
    assert!((at(13)..=at(18)).contains(&b.d.next_wake().unwrap()));
}

#[test]
fn s07_an_overloaded_server_gets_no_request_until_retry_after() {
    let mut b = Bench::new();
    b.request(at(0), "n1", pod("a"));
    b.request(at(0), "n1", pod("b"));
    assert!(b.answer(at(0), "a", Class::Overload { retry_after: seconds(3) }).is_empty());
    assert!(b.answer(at(1), "b", Class::Overload { retry_after: seconds(1) }).is_empty());
    assert!(b.delete(at(2), "n2", other("c")).is_empty());
    assert_eq!(b.d.next_wake(), Some(at(3)), "the longest pause applies");
    assert_eq!(b.step(at(3), DispatchInput::Tick), ["c", "a", "b"]);
}

#[test]
fn a_delete_whose_deadline_comes_before_the_end_of_the_pause_is_sent() {
    let mut b = Bench::new();
    b.prioritize("soon", true, 15, 1);
    b.prioritize("later", false, 40, 1);
    b.request(at(0), "later", pod("a"));
    b.answer(at(0), "a", Class::Overload { retry_after: seconds(30) });
    assert!(b.delete(at(1), "later", other("later")).is_empty());
    assert_eq!(b.delete(at(1), "soon", other("soon")), ["soon"]);
    // If it is refused for the same reason, it is tried again after a while, not at once.
    assert!(b.answer(at(1), "soon", Class::Overload { retry_after: seconds(20) }).is_empty());
    assert_eq!(b.d.next_wake(), Some(at(6)));
    assert_eq!(b.step(at(6), DispatchInput::Tick), ["soon"]);
    assert_eq!(b.step(at(30), DispatchInput::Tick), ["later", "a"]);
}

#[test]
fn a_pod_that_was_not_found_is_not_tried_again_at_once() {
    for class in [Class::Gone, Class::OtherUid] {
        let mut b = Bench::new();
        b.request(at(0), "n1", pod("a"));
        assert!(b.answer(at(0), "a", class).is_empty());
        assert!(
            b.d.next_wake().unwrap() >= at_ms(250),
            "a LIST may have shown the pod to its drain"
        );
        b.step(at(0), DispatchInput::Cancel { uid: "a".into() });
        assert_eq!((b.d.status(), b.d.next_wake()), (DispatchStatus::default(), None));
    }
}

#[test]
fn nodes_are_ordered_by_urgency_then_deadline_then_pods_left() {
    let mut b = Bench::new();
    b.budget(at(0), 0);
    b.request(at(0), "first", pod("first"));
    b.prioritize("hook", true, 100, 1);
    b.prioritize("spot-late", false, 300, 1);
    b.prioritize("spot-many", false, 200, 20);
    b.prioritize("spot-few", false, 200, 2);
    for node in ["hook", "spot-late", "spot-many", "spot-few"] {
        b.request(at(0), node, pod(node));
    }
    for expected in ["spot-few", "spot-many", "spot-late", "hook"] {
        let last = b.sent.last().unwrap().clone();
        assert_eq!(b.answer(at(0), &last, Class::Budget), [expected]);
    }
    b.answer(at(0), "hook", Class::Budget);
    b.prioritize("spot-many", false, 200, 1);
    assert_eq!(b.budget(at(1), 2), ["spot-many", "spot-few"], "priorities change while pods wait");
}

#[test]
fn s21_the_pod_with_the_longest_grace_period_of_a_node_is_first() {
    let mut b = Bench::new();
    b.step(at(0), DispatchInput::PausedAll(true));
    b.request(at(0), "n1", pod("a"));
    b.request(at(0), "n1", Pod { grace: seconds(600), ..pod("b") });
    assert_eq!(b.step(at(0), DispatchInput::PausedAll(false)), ["b", "a"]);
}

#[test]
fn a_burst_begins_together_and_deletes_do_not_wait_for_it() {
    let mut b = Bench::new();
    b.step(at(0), DispatchInput::Arrived);
    b.step(at(0), DispatchInput::Arrived);
    b.step(at_ms(10), DispatchInput::Accepted { node: "n1".into(), urgent: true });
    b.step(at_ms(10), DispatchInput::Settled);
    assert!(b.request(at_ms(20), "n1", pod("a")).is_empty());
    assert_eq!(b.delete(at_ms(20), "n1", pod("b")), ["b"]);
    assert_eq!(
        b.request(at_ms(20), "taken-over", pod("c")),
        ["c"],
        "a node without a burst does not wait"
    );
    b.step(at_ms(50), DispatchInput::Settled);
    assert_eq!(b.d.next_wake(), Some(at_ms(200)));
    assert_eq!(b.step(at_ms(200), DispatchInput::Tick), ["a"]);
    // A later burst does not stop a node whose evictions have begun.
    b.step(at(1), DispatchInput::Arrived);
    b.step(at(1), DispatchInput::Accepted { node: "n1".into(), urgent: true });
    assert_eq!(b.request(at(1), "n1", pod("d")), ["d"]);
}

#[test]
fn a_pause_stops_evictions_and_deletes_of_one_node_or_of_all() {
    let mut b = Bench::new();
    b.step(at(0), DispatchInput::Paused { node: "n1".into(), paused: true });
    assert!(b.request(at(0), "n1", pod("a")).is_empty());
    assert!(b.delete(at(0), "n1", pod("b")).is_empty());
    assert_eq!(b.request(at(0), "n2", pod("c")), ["c"]);
    b.step(at(1), DispatchInput::PausedAll(true));
    b.step(at(1), DispatchInput::Paused { node: "n1".into(), paused: false });
    assert_eq!(b.sent, ["c"]);
    assert_eq!(b.step(at(2), DispatchInput::PausedAll(false)), ["b", "a"]);
}

#[test]
fn a_request_in_flight_counts_until_its_answer_even_if_its_drain_is_over() {
    let mut b = Bench::new();
    for name in names("p", 32) {
        b.request(at(0), "n1", pod(&name));
    }
    b.step(at(0), DispatchInput::Closed { node: "n1".into() });
    assert!(b.request(at(0), "n2", pod("a")).is_empty());
    assert_eq!(b.answer(at(0), "p007", Class::Transient), ["a"]);
    assert_eq!(b.d.status(), DispatchStatus { in_flight: 32, ..DispatchStatus::default() });
}

#[test]
fn a_withdrawn_order_frees_its_slot() {
    let mut b = Bench::new();
    b.budget(at(0), 1);
    b.request(at(0), "n1", pod("a"));
    assert!(b.request(at(0), "n1", pod("b")).is_empty());
    b.step(at(0), DispatchInput::Cancel { uid: "a".into() });
    assert_eq!(b.step(at(0), DispatchInput::Withdrawn { uid: "a".into() }), ["b"]);
    assert!(
        b.step(at(0), DispatchInput::Withdrawn { uid: "a".into() }).is_empty(),
        "a second withdrawal has no effect"
    );
    // Requested again while the withdrawal was on its way.
    b.step(at(1), DispatchInput::Cancel { uid: "b".into() });
    b.request(at(1), "n1", pod("b"));
    assert_eq!(b.step(at(1), DispatchInput::Withdrawn { uid: "b".into() }), ["b"]);
}

#[test]
fn a_pod_whose_order_is_withdrawn_is_forgotten() {
    let mut b = Bench::new();
    b.request(at(0), "n1", pod("a"));
    assert!(b.step(at(0), DispatchInput::Withdrawn { uid: "a".into() }).is_empty());
    assert_eq!(b.d.status(), DispatchStatus::default());
    assert_eq!(b.request(at(1), "n1", pod("a")), ["a"], "it can be requested again");
}

#[test]
fn inputs_about_unknown_objects_have_no_effect() {
    let mut b = Bench::new();
    assert!(b.answer(at(0), "nobody", Class::Accepted).is_empty());
    b.step(at(0), DispatchInput::Cancel { uid: "nobody".into() });
    b.step(at(0), DispatchInput::Closed { node: "nobody".into() });
    b.step(at(0), DispatchInput::BudgetGone(budget("none", 0).key));
    b.step(at(0), DispatchInput::Settled);
    b.step(at(0), DispatchInput::Paused { node: "nobody".into(), paused: false });
    assert_eq!(b.d.status(), DispatchStatus::default());
}
