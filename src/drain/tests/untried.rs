//! Pods that may be deleted although no eviction of them was answered yet.

use super::{world::World, *};

fn on(node: &str, name: &str) -> Pod {
    Pod { node: Some(node.into()), ..pod(name) }
}

fn names(w: &World, evictions: bool) -> std::collections::BTreeSet<String> {
    let sent = w.sent.iter().filter(|s| matches!(s.order, Order::Evict { .. }) == evictions);
    sent.map(|s| s.order.uid().to_string()).collect()
}

#[test]
fn a_pod_that_got_no_slot_is_deleted_two_seconds_after_it_may_be() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![pod("a")]));
    assert_eq!(requests(&d.step(at(80), Input::Tick)), [], "it still waits for its eviction");
    assert_eq!(d.next_wake(), Some(at(82)));
    let method = |effects: Vec<Effect>| {
        effects.into_iter().find_map(|e| {
            if let Effect::Dispatch(DispatchInput::Request { method, .. }) = e {
                Some(method)
            } else {
                None
            }
        })
    };
    assert_eq!(method(d.step(at(82), Input::Tick)), Some(Method::EvictionOrDelete));
    assert_eq!(d.order(&uid("a"), at(82), true), Some(evict("a", Some(28))));
    assert_eq!(d.evict_until(&uid("a"), at(82)), Some(at(84)));
    assert_eq!(d.order(&uid("a"), at(82), false), Some(delete("a", 28)));
    let effects = d.step(at(82), Input::Answer { order: delete("a", 28), answer: ok() });
    assert!(matches!(
        notes(&effects)[..],
        [Note::Forced { reason: BlockReason::NoSlot, grace: 28, .. }]
    ));
}

#[test]
fn an_eviction_without_an_answer_counts_as_a_refusal() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![pod("a")]));
    d.step(at(82), Input::Tick);
    let effects = d.step(
        at(84),
        Input::Answer { order: evict("a", Some(28)), answer: answer(0, "", "no answer") },
    );
    assert_eq!(requests(&effects), [("a".into(), true)]);
    assert_eq!(d.order(&uid("a"), at(84), true), Some(delete("a", 26)));
}

#[test]
fn a_pod_that_arrives_late_has_two_seconds_unless_the_deadline_comes_first() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![]));
    d.step(at(1), Input::Changed(Pod { ready: false, ..pod("z") }));
    d.step(at(95), Input::Changed(pod("a")));
    assert_eq!(d.order(&uid("a"), at(96), false), Some(evict("a", Some(14))));
    assert_eq!(d.order(&uid("a"), at(97), false), Some(delete("a", 13)));
    d.step(at_ms(108_500), Input::Changed(pod("b")));
    assert_eq!(d.order(&uid("b"), at(109), false), Some(delete("b", 1)));
}

#[test]
fn the_time_of_a_pause_does_not_count_as_waiting_for_an_eviction() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![pod("a")]));
    d.step(at(10), Input::Paused);
    d.step(at(90), Input::Resumed(limits(110)));
    assert_eq!(d.order(&uid("a"), at(91), false), Some(evict("a", Some(19))));
    assert_eq!(d.order(&uid("a"), at(92), false), Some(delete("a", 18)));
}

#[test]
fn after_a_take_over_that_comes_late_every_pod_is_evicted_first() {
    let mut w = World::new();
    for i in 0..600 {
        w.add_pod(on(["n1", "n2", "n3"][i % 3], &format!("p{i:03}")));
    }
    w.run_until(at(90));
    w.now = at(90);
    for node in ["n1", "n2", "n3"] {
        w.drain_with(
            Start { node: node.into(), cordoned_at: at(0), limits: limits(110), own_pod: None },
            Settings::default(),
        );
    }
    w.run_until(at(200));
    assert_eq!((names(&w, true).len(), names(&w, false).len()), (600, 0));
}

#[test]
fn after_a_late_take_over_only_what_is_refused_is_deleted() {
    let mut w = World::new();
    w.add_pod(on("n1", "a"));
    w.add_pod(Pod { labels: [("app".to_owned(), "other".to_owned())].into(), ..on("n1", "b") });
    w.add_budget("pdb", 1);
    w.run_until(at(90));
    w.now = at(90);
    w.drain_with(
        Start { node: "n1".into(), cordoned_at: at(0), limits: limits(110), own_pod: None },
        Settings::default(),
    );
    w.run_until(at(200));
    assert_eq!(names(&w, true).len(), 2);
    assert_eq!(
        w.log().last(),
        Some(&(90, delete("a", 20))),
        "as soon as the budget has refused it"
    );
    assert_eq!(names(&w, false).len(), 1);
}

#[test]
fn pods_whose_eviction_could_not_be_tried_are_deleted_in_time() {
    let mut w = World::new();
    for i in 0..40 {
        w.add_pod(on("n1", &format!("p{i:02}")));
    }
    w.answer =
        Some(Box::new(|_, order| matches!(order, Order::Evict { .. }).then(|| overload(Some(30)))));
    w.drain("n1", limits(110));
    w.run_until(at(200));
    assert!(names(&w, true).len() < 40, "some were never tried");
    assert_eq!(names(&w, false).len(), 40);
    assert_eq!(w.outcome("n1"), Some(&Outcome::Empty));
}

/// Without the right to delete pods, a refused pod must still leave when its budget allows it.
#[test]
fn a_pod_whose_delete_is_denied_is_evicted_for_a_while_before_the_next_delete() {
    let mut d = drain(limits(120));
    d.step(at(0), Input::Listed(vec![pod("web")]));
    let uid: PodUid = "web".into();
    let answer = |code: u16, reason: &str| ApiAnswer {
        code,
        reason: reason.to_owned(),
        message: "no".to_owned(),
        ..ApiAnswer::default()
    };
    let order = d.order(&uid, at(1), true).unwrap();
    d.step(at(1), Input::Answer { order, answer: answer(503, "") });
    d.step(at(90), Input::Tick);
    let order = d.order(&uid, at(90), true).unwrap();
    assert!(matches!(order, Order::Delete { .. }), "{order:?}");
    d.step(at(90), Input::Answer { order, answer: answer(403, "Forbidden") });
    assert!(matches!(d.order(&uid, at(91), true), Some(Order::Evict { .. })));
    assert!(d.next_wake().is_some_and(|wake| wake <= at(100)), "{:?}", d.next_wake());
    d.step(at(100), Input::Tick);
    assert!(matches!(d.order(&uid, at(100), true), Some(Order::Delete { .. })));
}
