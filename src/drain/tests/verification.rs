//! Drains whose lifecycle actions AWS has not confirmed.

use super::*;
use crate::domain::Verification;

fn with(verification: Verification, force_at: u64) -> Limits {
    Limits { verification, ..limits(force_at) }
}

#[test]
fn no_pod_is_evicted_before_aws_answers_and_all_are_at_once_after_that() {
    for awaited in [Verification::AwaitingHeartbeat, Verification::Suspected] {
        for after in
            [Verification::Verified, Verification::Unanswered, Verification::AwaitingInstanceState]
        {
            let mut d = drain(with(awaited, 120));
            assert!(requests(&d.step(at(0), Input::Listed(vec![pod("a"), pod("b")]))).is_empty());
            assert!(requests(&d.step(at(4), Input::Changed(pod("c")))).is_empty());
            let effects = d.step(at(5), Input::Limits(with(after, 120)));
            let expected = ["a", "b", "c"].map(|name| (name.to_owned(), false));
            assert_eq!(requests(&effects), expected, "{awaited:?} {after:?}");
        }
    }
}

#[test]
fn without_an_answer_no_pod_is_forced_and_no_grace_period_shortened() {
    let refused = |limits: Limits| {
        let mut d = drain(limits);
        d.step(at(0), Input::Listed(vec![pod("a")]));
        let order = d.order(&uid("a"), at(100), true).unwrap();
        d.step(at(100), Input::Answer { order: order.clone(), answer: refused_by_budget() });
        (order, d)
    };
    let (order, mut d) = refused(with(Verification::Unanswered, 120));
    assert_eq!(order, evict("a", None), "its own grace period");
    assert!(matches!(d.order(&uid("a"), at(119), true), Some(Order::Evict { .. })));
    let effects = d.step(at(110), Input::Limits(with(Verification::Verified, 120)));
    assert_eq!(requests(&effects), [("a".to_owned(), true)], "then it is forced");
    let (order, _) = refused(with(Verification::Verified, 120));
    assert_eq!(order, evict("a", Some(20)));
}

#[test]
fn a_pod_that_terminates_too_slowly_is_shortened_only_after_an_answer() {
    let slow = Pod { deletion: Some(at(300)), grace: seconds(300), ..pod("a") };
    let mut d = drain(with(Verification::Unanswered, 120));
    assert!(requests(&d.step(at(0), Input::Listed(vec![slow]))).is_empty());
    let effects = d.step(at(10), Input::Limits(with(Verification::Verified, 120)));
    assert_eq!(requests(&effects), [("a".to_owned(), true)]);
}

#[test]
fn an_empty_node_ends_its_drain_unless_aws_contradicts_it() {
    for (verification, ends) in [
        (Verification::Verified, true),
        (Verification::AwaitingInstanceState, false),
        (Verification::AwaitingHeartbeat, false),
        (Verification::Unanswered, true),
        (Verification::Suspected, false),
    ] {
        let mut d = drain(with(verification, 120));
        d.step(at(0), Input::Listed(Vec::new()));
        assert_eq!(ended(&d.step(at(5), Input::Tick)).is_some(), ends, "{verification:?}");
        let next = if ends { None } else { Some(at(120)) };
        assert_eq!(d.next_wake(), next, "{verification:?}");
    }
    let mut d = drain(with(Verification::Suspected, 120));
    d.step(at(0), Input::Listed(vec![pod("a")]));
    let effects = d.step(at(16), Input::Contradicted);
    assert_eq!(ended(&effects), Some(&Outcome::Contradicted { left: vec![key("a")] }));
}

#[test]
fn a_node_that_is_only_cordoned_ends_its_drain_once_it_is_known_whether_its_instance_stays() {
    use crate::domain::Response;
    for held in [
        Verification::AwaitingInstanceState,
        Verification::AwaitingHeartbeat,
        Verification::Suspected,
    ] {
        let cordoned =
            |verification| Limits { response: Response::Cordon, ..with(verification, 120) };
        let mut d = drain(cordoned(held));
        d.step(at(0), Input::Listed(vec![pod("a")]));
        assert_eq!(ended(&d.step(at(20), Input::Tick)), None, "{held:?}");
        let effects = d.step(at(21), Input::Limits(cordoned(Verification::Unanswered)));
        assert_eq!(ended(&effects), Some(&Outcome::NotEvicted { left: vec![key("a")] }));
    }
}

#[test]
fn what_is_not_confirmed_shows_no_time_at_which_pods_are_forced() {
    for (verification, is_shown) in [
        (Verification::Verified, true),
        (Verification::Unanswered, false),
        (Verification::AwaitingInstanceState, false),
    ] {
        let d = drain(with(verification, 120));
        assert_eq!(d.forced_from(&pod("a")).is_some(), is_shown, "{verification:?}");
    }
}

#[test]
fn the_deadline_ends_a_drain_whatever_aws_answered() {
    for verification in [Verification::Suspected, Verification::Unanswered] {
        let mut d = drain(with(verification, 20));
        d.step(at(0), Input::Listed(vec![pod("a")]));
        assert!(ended(&d.step(at(20), Input::Tick)).is_some(), "{verification:?}");
    }
}
