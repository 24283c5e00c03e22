//! The dispatcher alone: evictions under disruption budgets.

use super::{bench::*, *};

#[test]
fn a_budget_gets_as_many_evictions_as_it_allows_at_least_one_and_at_most_eight() {
    for (allowed, at_once) in [(0, 1), (1, 1), (3, 3), (8, 8), (50, 8)] {
        let mut b = Bench::new();
        b.budget(at(0), allowed);
        for name in names("p", 40) {
            b.request(at(0), "n1", pod(&name));
        }
        assert_eq!(b.sent.len(), at_once, "{allowed} allowed");
    }
}

#[test]
fn budgets_do_not_block_each_other() {
    let mut b = Bench::new();
    b.budget(at(0), 0);
    b.request(at(0), "n1", pod("a"));
    b.request(at(0), "n1", pod("b"));
    b.request(at(0), "n1", other("c"));
    assert_eq!(b.sent, ["a", "c"]);
}

#[test]
fn a_first_try_is_always_made_and_a_refused_pod_waits_for_its_budget() {
    let mut b = Bench::new();
    b.budget(at(0), 0);
    for name in names("p", 3) {
        b.request(at(0), "n1", pod(&name));
    }
    assert_eq!(b.answer(at(0), "p000", Class::Budget), ["p001"]);
    assert_eq!(b.answer(at(0), "p001", Class::Budget), ["p002"]);
    assert!(b.answer(at(0), "p002", Class::Budget).is_empty());
    assert!(b.budget(at(1), 0).is_empty(), "a change that does not help");
    assert_eq!(b.budget(at(2), 1), ["p000"], "one is allowed, one goes");
    assert!(
        b.answer(at(2), "p000", Class::Accepted).is_empty(),
        "the status does not show the accepted eviction yet"
    );
    assert!(b.budget(at(3), 0).is_empty());
    assert_eq!(b.budget(at(4), 2), ["p001", "p002"]);
}

#[test]
fn a_budget_that_allows_more_than_eight_gets_eight_evictions() {
    let mut b = Bench::new();
    b.budget(at(0), 0);
    for name in names("p", 20) {
        b.request(at(0), "n1", pod(&name));
    }
    for name in names("p", 20) {
        b.answer(at(0), &name, Class::Budget);
    }
    assert_eq!(b.budget(at(1), 15).len(), 8);
    assert_eq!(b.answer(at(1), "p000", Class::Accepted).len(), 1);
    assert_eq!(
        b.answer(at(1), "p001", Class::Budget).len(),
        0,
        "the API server refused, so the status is outdated"
    );
}

#[test]
fn a_status_that_shows_our_own_eviction_before_its_answer_is_not_counted_twice() {
    let mut b = Bench::new();
    b.budget(at(0), 3);
    for name in names("p", 9) {
        b.request(at(0), "n1", pod(&name));
    }
    assert_eq!(b.sent.len(), 3);
    for allowed in [2, 1, 0] {
        assert!(b.budget(at(1), allowed).is_empty());
    }
    for name in ["p000", "p001", "p002"] {
        let next = b.answer(at(1), name, Class::Accepted);
        assert_eq!(
            next.len(),
            usize::from(name == "p002"),
            "when nothing is in flight, the next pod is tried for the first time"
        );
    }
}

#[test]
fn evictions_that_the_status_shows_before_their_answers_are_counted_once() {
    let mut b = Bench::new();
    b.budget(at(0), 6);
    b.request(at(0), "n1", pod("a"));
    b.request(at(0), "n1", pod("b"));
    b.budget(at(1), 5);
    b.budget(at(1), 4);
    b.answer(at(1), "a", Class::Accepted);
    b.answer(at(1), "b", Class::Accepted);
    let sent: usize =
        names("p", 9).iter().map(|name| b.request(at(1), "n1", pod(name)).len()).sum();
    assert_eq!(sent, 4);
}

#[test]
fn a_budget_that_allows_more_while_a_refusal_is_on_its_way_is_used() {
    let mut b = Bench::new();
    b.budget(at(0), 0);
    b.request(at(0), "n1", pod("a"));
    assert!(b.budget(at(1), 1).is_empty(), "its eviction is in flight");
    assert_eq!(b.answer(at(1), "a", Class::Budget), ["a"]);
}

#[test]
fn an_eviction_that_no_status_shows_is_no_longer_counted_after_two_seconds() {
    let mut b = Bench::new();
    b.budget(at(0), 2);
    for name in names("p", 4) {
        b.request(at(0), "n1", pod(&name));
    }
    b.answer(at(0), "p000", Class::Accepted);
    // The second is accepted, and the third is tried for the first time.
    assert_eq!(b.answer(at(0), "p001", Class::Accepted), ["p002"]);
    b.answer(at(0), "p002", Class::Budget);
    b.answer(at(0), "p003", Class::Budget);
    // The status went from 2 to 0 to 1, and the 0 was not seen: one is free.
    assert!(b.budget(at(1), 1).is_empty());
    assert_eq!(b.d.next_wake(), Some(at(2)));
    assert_eq!(b.step(at(2), DispatchInput::Tick).len(), 1);
}

#[test]
fn a_pod_is_tried_again_when_its_phase_or_labels_change() {
    let mut b = Bench::new();
    b.budget(at(0), 0);
    b.request(at(0), "n1", pod("a"));
    b.answer(at(0), "a", Class::Budget);
    assert!(b.request(at(1), "n1", pod("a")).is_empty(), "nothing changed");
    assert_eq!(
        b.request(at(2), "n1", Pod { phase: crate::domain::Phase::Succeeded, ..pod("a") }),
        ["a"]
    );
    b.request(at(2), "n1", Pod { labels: [].into(), ..pod("a") });
    assert_eq!(
        b.answer(at(2), "a", Class::Budget),
        ["a"],
        "it changed while its eviction was in flight"
    );
}

#[test]
fn a_pod_that_becomes_unready_waits_until_its_budget_must_show_that() {
    let unready = || Pod { ready: false, ..pod("a") };
    let mut b = Bench::new();
    b.budget(at(0), 0);
    b.request(at(0), "n1", pod("a"));
    b.answer(at(0), "a", Class::Budget);
    assert!(
        b.request(at(2), "n1", unready()).is_empty(),
        "the status of the budget still counts it"
    );
    assert_eq!(b.d.next_wake(), Some(at(5)));
    assert_eq!(b.step(at(5), DispatchInput::Tick), ["a"]);
    b.answer(at(5), "a", Class::Budget);
    assert_eq!(
        b.request(at(6), "n1", pod("a")),
        ["a"],
        "it is ready again, so it is tried like any other"
    );

    let mut b = Bench::new();
    b.budget(at(0), 0);
    b.request(at(0), "n1", pod("a"));
    b.request(at(1), "n1", unready());
    assert!(b.answer(at(2), "a", Class::Budget).is_empty(), "the refusal was for the ready pod");
    assert_eq!(b.d.next_wake(), Some(at(4)), "three seconds after it became unready");

    let mut b = Bench::new();
    b.request(at(0), "n1", pod("a"));
    b.answer(at(0), "a", Class::Transient);
    assert_eq!(b.request(at(0), "n1", unready()), ["a"], "no budget selects it");
}

#[test]
fn pods_that_are_not_ready_are_tried_again_when_their_budget_is_healthy_enough() {
    let mut b = Bench::new();
    let unhealthy = Budget { healthy: 1, desired: 2, ..budget("pdb", 0) };
    b.step(at(0), DispatchInput::Budget(unhealthy.clone()));
    b.request(at(0), "n1", Pod { ready: false, ..pod("a") });
    b.request(at(0), "n1", pod("b"));
    b.answer(at(0), "a", Class::Budget);
    b.answer(at(0), "b", Class::Budget);
    assert_eq!(b.step(at(1), DispatchInput::Budget(Budget { healthy: 2, ..unhealthy })), ["a"]);
}

#[test]
fn pods_are_tried_again_when_their_budget_is_created_or_deleted_or_selects_others() {
    let mut b = Bench::new();
    b.request(at(0), "n1", pod("a"));
    b.answer(at(0), "a", Class::Budget);
    assert_eq!(b.budget(at(1), 0), ["a"], "created (the watch was behind)");
    b.answer(at(1), "a", Class::Budget);
    let selector = Selector::from_parts([("app".to_owned(), "else".to_owned())], []);
    let changed = Budget { selector, generation: 2, observed: 2, ..budget("pdb", 0) };
    assert_eq!(
        b.step(at(2), DispatchInput::Budget(changed)),
        ["a"],
        "the budget no longer selects the pod"
    );
    b.answer(at(2), "a", Class::Budget);
    b.budget(at(3), 0);
    b.answer(at(3), "a", Class::Budget);
    assert_eq!(b.step(at(4), DispatchInput::BudgetGone(budget("pdb", 0).key)), ["a"], "deleted");
}

#[test]
fn s08_a_lagging_budget_is_tried_after_ten_seconds_or_when_it_has_caught_up() {
    let lag = Class::BudgetLagging { retry_after: seconds(10) };
    let mut b = Bench::new();
    let behind = Budget { generation: 2, ..budget("pdb", 1) };
    b.step(at(0), DispatchInput::Budget(behind.clone()));
    b.request(at(0), "n1", pod("a"));
    assert!(b.answer(at(0), "a", lag).is_empty());
    assert_eq!(b.step(at(1), DispatchInput::Budget(Budget { observed: 2, ..behind })), ["a"]);
    b.answer(at(1), "a", lag);
    let wake = b.d.next_wake().unwrap();
    assert!((at(11)..=at(15)).contains(&wake), "{wake}");
    assert_eq!(b.step(wake, DispatchInput::Tick), ["a"]);
}

#[test]
fn a_pod_of_two_budgets_waits_for_one_of_them_to_change() {
    let mut b = Bench::new();
    b.budget(at(0), 5);
    b.step(at(0), DispatchInput::Budget(budget("second", 5)));
    b.request(at(0), "n1", pod("a"));
    assert_eq!(b.sent, ["a"]);
    b.answer(at(0), "a", Class::TwoBudgets);
    assert!(b.budget(at(1), 4).is_empty(), "no status helps");
    assert_eq!(b.step(at(2), DispatchInput::BudgetGone(budget("second", 5).key)), ["a"]);
    b.answer(at(2), "a", Class::Accepted);
    assert_eq!(b.d.status().waiting, 0);
}

#[test]
fn a_delete_is_sent_at_once_whatever_its_budget_allows_and_before_evictions() {
    let mut b = Bench::new();
    b.budget(at(0), 0);
    b.request(at(0), "n1", pod("a"));
    b.answer(at(0), "a", Class::Budget);
    assert_eq!(b.delete(at(1), "n1", pod("a")), ["a"]);
    assert!(b.answer(at(1), "a", Class::Forbidden).is_empty());
    assert!(b.d.next_wake().unwrap() <= at(6), "a delete waits 5 s at most");
    // A pod that is to be deleted while its eviction is in flight is deleted after the refusal.
    b.request(at(1), "n1", pod("b"));
    b.delete(at(1), "n1", pod("b"));
    assert_eq!(b.answer(at(2), "b", Class::Budget), ["b"]);
    // A delete has slots that evictions cannot take. When these are full too, it is sent before any
    // eviction.
    for name in names("x", 40) {
        b.request(at(2), "n1", other(&name));
    }
    let deleted: Vec<_> =
        names("d", 10).iter().flat_map(|name| b.delete(at(2), "n9", other(name))).collect();
    assert_eq!((deleted.len(), b.d.status().in_flight), (8, 40));
    assert_eq!(b.answer(at(2), "x000", Class::Accepted), ["d008"]);
}
