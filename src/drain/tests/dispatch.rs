//! The dispatcher alone: everything but disruption budgets.

use super::{bench::*, *};

#[test]
fn no_more_than_32_orders_are_under_way() {
    let mut b = Bench::new();
    for name in names("p", 40) {
        b.want(at(0), "n1", pod(&name));
    }
    assert_eq!(b.gone.len(), 32);
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
            DispatchInput::Want { node: "n1".into(), pod: Arc::new(pod("a")), by: By::Eviction },
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
fn passing_failures_are_tried_again_soon_and_ever_later() {
    let mut b = Bench::new();
    b.want(at(0), "n1", pod("a"));
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
fn a_pod_that_is_to_be_deleted_does_not_wait_because_its_eviction_failed() {
    let mut b = Bench::new();
    b.want(at(0), "n1", pod("a"));
    assert!(b.delete(at(10), "n1", pod("a")).is_empty(), "its eviction is under way");
    assert_eq!(b.answer(at(12), "a", Class::Transient), ["a"]);
    assert!(b.answer(at(13), "a", Class::Transient).is_empty(), "a delete that failed waits");
    assert!((at(13)..=at(18)).contains(&b.d.next_wake().unwrap()));
}

#[test]
fn s07_overload_holds_everything_until_retry_after() {
    let mut b = Bench::new();
    b.want(at(0), "n1", pod("a"));
    b.want(at(0), "n1", pod("b"));
    assert!(b.answer(at(0), "a", Class::Overload { retry_after: seconds(3) }).is_empty());
    assert!(b.answer(at(1), "b", Class::Overload { retry_after: seconds(1) }).is_empty());
    assert!(b.delete(at(2), "n2", other("c")).is_empty());
    assert_eq!(b.d.next_wake(), Some(at(3)), "the longest counts");
    assert_eq!(b.step(at(3), DispatchInput::Tick), ["c", "a", "b"]);
}

#[test]
fn a_delete_whose_deadline_is_over_before_the_pause_is_does_not_wait_for_it() {
    let mut b = Bench::new();
    b.turn("soon", true, 15, 1);
    b.turn("later", false, 40, 1);
    b.want(at(0), "later", pod("a"));
    b.answer(at(0), "a", Class::Overload { retry_after: seconds(30) });
    assert!(b.delete(at(1), "later", other("later")).is_empty());
    assert_eq!(b.delete(at(1), "soon", other("soon")), ["soon"]);
    // Refused for the same reason it is tried again after a while, not at once.
    assert!(b.answer(at(1), "soon", Class::Overload { retry_after: seconds(20) }).is_empty());
    assert_eq!(b.d.next_wake(), Some(at(6)));
    assert_eq!(b.step(at(6), DispatchInput::Tick), ["soon"]);
    assert_eq!(b.step(at(30), DispatchInput::Tick), ["later", "a"]);
}

#[test]
fn what_is_said_to_be_gone_is_not_asked_for_again_at_once_unless_its_drain_says_so() {
    for class in [Class::Gone, Class::OtherUid] {
        let mut b = Bench::new();
        b.want(at(0), "n1", pod("a"));
        assert!(b.answer(at(0), "a", class).is_empty());
        assert!(b.d.next_wake().unwrap() >= at_ms(250), "the drain may know better");
        b.step(at(0), DispatchInput::Unwant { uid: "a".into() });
        assert_eq!((b.d.status(), b.d.next_wake()), (DispatchStatus::default(), None));
    }
}

#[test]
fn turns_go_by_urgency_then_deadline_then_pods_left() {
    let mut b = Bench::new();
    b.budget(at(0), 0);
    b.want(at(0), "first", pod("first"));
    b.turn("hook", true, 100, 1);
    b.turn("spot-late", false, 300, 1);
    b.turn("spot-many", false, 200, 20);
    b.turn("spot-few", false, 200, 2);
    for node in ["hook", "spot-late", "spot-many", "spot-few"] {
        b.want(at(0), node, pod(node));
    }
    for expected in ["spot-few", "spot-many", "spot-late", "hook"] {
        let last = b.gone.last().unwrap().clone();
        assert_eq!(b.answer(at(0), &last, Class::Budget), [expected]);
    }
    b.answer(at(0), "hook", Class::Budget);
    b.turn("spot-many", false, 200, 1);
    assert_eq!(b.budget(at(1), 2), ["spot-many", "spot-few"], "turns change while pods wait");
}

#[test]
fn of_one_node_the_longest_grace_goes_first() {
    let mut b = Bench::new();
    b.step(at(0), DispatchInput::PausedAll(true));
    b.want(at(0), "n1", pod("a"));
    b.want(at(0), "n1", Pod { grace: seconds(600), ..pod("b") });
    assert_eq!(b.step(at(0), DispatchInput::PausedAll(false)), ["b", "a"]);
}

#[test]
fn a_burst_is_let_go_together_and_deletes_do_not_wait_for_it() {
    let mut b = Bench::new();
    b.step(at(0), DispatchInput::Arrived);
    b.step(at(0), DispatchInput::Arrived);
    b.step(at_ms(10), DispatchInput::Accepted { node: "n1".into(), urgent: true });
    b.step(at_ms(10), DispatchInput::Settled);
    assert!(b.want(at_ms(20), "n1", pod("a")).is_empty());
    assert_eq!(b.delete(at_ms(20), "n1", pod("b")), ["b"]);
    assert_eq!(
        b.want(at_ms(20), "taken-over", pod("c")),
        ["c"],
        "a node of no burst does not wait"
    );
    b.step(at_ms(50), DispatchInput::Settled);
    assert_eq!(b.d.next_wake(), Some(at_ms(200)));
    assert_eq!(b.step(at_ms(200), DispatchInput::Tick), ["a"]);
    // A node that is under way is not stopped by what comes later.
    b.step(at(1), DispatchInput::Arrived);
    b.step(at(1), DispatchInput::Accepted { node: "n1".into(), urgent: true });
    assert_eq!(b.want(at(1), "n1", pod("d")), ["d"]);
}

#[test]
fn a_pause_holds_one_node_or_all_deletes_included() {
    let mut b = Bench::new();
    b.step(at(0), DispatchInput::Paused { node: "n1".into(), paused: true });
    assert!(b.want(at(0), "n1", pod("a")).is_empty());
    assert!(b.delete(at(0), "n1", pod("b")).is_empty());
    assert_eq!(b.want(at(0), "n2", pod("c")), ["c"]);
    b.step(at(1), DispatchInput::PausedAll(true));
    b.step(at(1), DispatchInput::Paused { node: "n1".into(), paused: false });
    assert_eq!(b.gone, ["c"]);
    assert_eq!(b.step(at(2), DispatchInput::PausedAll(false)), ["b", "a"]);
}

#[test]
fn what_is_under_way_counts_until_its_answer_even_if_its_drain_is_over() {
    let mut b = Bench::new();
    for name in names("p", 32) {
        b.want(at(0), "n1", pod(&name));
    }
    b.step(at(0), DispatchInput::Closed { node: "n1".into() });
    assert!(b.want(at(0), "n2", pod("a")).is_empty());
    assert_eq!(b.answer(at(0), "p007", Class::Transient), ["a"]);
    assert_eq!(b.d.status(), DispatchStatus { in_flight: 32, ..DispatchStatus::default() });
}

#[test]
fn an_order_that_is_withdrawn_gives_its_room_back() {
    let mut b = Bench::new();
    b.budget(at(0), 1);
    b.want(at(0), "n1", pod("a"));
    assert!(b.want(at(0), "n1", pod("b")).is_empty());
    b.step(at(0), DispatchInput::Unwant { uid: "a".into() });
    assert_eq!(b.step(at(0), DispatchInput::Withdrawn { uid: "a".into() }), ["b"]);
    assert!(b.step(at(0), DispatchInput::Withdrawn { uid: "a".into() }).is_empty(), "once");
    // Wanted again while the withdrawal was on its way.
    b.step(at(1), DispatchInput::Unwant { uid: "b".into() });
    b.want(at(1), "n1", pod("b"));
    assert_eq!(b.step(at(1), DispatchInput::Withdrawn { uid: "b".into() }), ["b"]);
}

#[test]
fn what_is_withdrawn_is_forgotten() {
    let mut b = Bench::new();
    b.want(at(0), "n1", pod("a"));
    assert!(b.step(at(0), DispatchInput::Withdrawn { uid: "a".into() }).is_empty());
    assert_eq!(b.d.status(), DispatchStatus::default());
    assert_eq!(b.want(at(1), "n1", pod("a")), ["a"], "and may be wanted again");
}

#[test]
fn foreign_answers_do_no_harm() {
    let mut b = Bench::new();
    assert!(b.answer(at(0), "nobody", Class::Accepted).is_empty());
    b.step(at(0), DispatchInput::Unwant { uid: "nobody".into() });
    b.step(at(0), DispatchInput::Closed { node: "nobody".into() });
    b.step(at(0), DispatchInput::BudgetGone(budget("none", 0).key));
    b.step(at(0), DispatchInput::Settled);
    b.step(at(0), DispatchInput::Paused { node: "nobody".into(), paused: false });
    assert_eq!(b.d.status(), DispatchStatus::default());
}
