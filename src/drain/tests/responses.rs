//! Drains that evict no pod, and drains of recommendations (`--on`).

use super::*;
use crate::domain::Response;

fn taints_only(response: Response) -> Limits {
    Limits { response, ..limits(120) }
}

fn recommended(response: Response) -> Limits {
    Limits { response, expires_at: Some(at(600)), ..Limits::without_deadline(at(0), false) }
}

#[test]
fn without_the_response_drain_no_pod_is_touched_and_the_drain_ends_after_its_shortest_time() {
    for response in [Response::Prefer, Response::Cordon] {
        let mut d = drain(taints_only(response));
        let effects = d.step(at(0), Input::Listed(vec![pod("a")]));
        assert!(requests(&effects).is_empty(), "{response:?}");
        assert_eq!(d.status(at(1)).phase, Phase::Marked);
        assert_eq!(d.next_wake(), Some(at(5)));
        assert_eq!(ended(&d.step(at(4), Input::Tick)), None);
        let effects = d.step(at(5), Input::Tick);
        assert_eq!(ended(&effects), Some(&Outcome::NotEvicted { left: vec![key("a")] }));
    }
}

#[test]
fn a_node_whose_pods_were_never_listed_ends_the_same_way() {
    let mut d = drain(taints_only(Response::Cordon));
    assert_eq!(ended(&d.step(at(5), Input::Tick)), Some(&Outcome::NotEvicted { left: vec![] }));
}

#[test]
fn a_recommendation_that_drains_evicts_and_stays_open_until_it_expires() {
    let mut d = drain(recommended(Response::Drain));
    let effects = d.step(at(0), Input::Listed(vec![pod("a")]));
    assert_eq!(requests(&effects), [("a".to_owned(), false)]);
    assert_eq!(ended(&d.step(at(10), Input::Gone(uid("a")))), None, "empty, but not over");
    assert_eq!(d.next_wake(), Some(at(600)));
    assert_eq!(ended(&d.step(at(599), Input::Tick)), None);
    assert_eq!(ended(&d.step(at(600), Input::Tick)), Some(&Outcome::Expired { left: vec![] }));
}

#[test]
fn a_recommendation_that_only_taints_expires_and_touches_no_pod() {
    let mut d = drain(recommended(Response::Prefer));
    assert!(requests(&d.step(at(0), Input::Listed(vec![pod("a")]))).is_empty());
    assert_eq!(ended(&d.step(at(100), Input::Tick)), None);
    let effects = d.step(at(600), Input::Tick);
    assert_eq!(ended(&effects), Some(&Outcome::Expired { left: vec![key("a")] }));
}

#[test]
fn pods_that_were_asked_to_go_keep_their_grace_periods_if_only_a_cordon_is_left() {
    let leaving = || Pod { deletion: Some(at(31)), ..pod("a") };
    // The interruption for which the pod was evicted no longer holds.
    let evicted = |pods: Vec<Pod>| {
        let mut d = drain(limits(120));
        d.step(at(0), Input::Listed(pods));
        d.step(at(1), Input::Answer { order: evict("a", Some(30)), answer: ok() });
        d.step(at(1), Input::Changed(leaving()));
        let effects = d.step(at(10), Input::Limits(taints_only(Response::Cordon)));
        assert_eq!(ended(&effects), None);
        d
    };
    let stays = |names: &[&str]| {
        let left = names.iter().map(|name| key(name)).collect();
        Some(Outcome::NotEvicted { left })
    };
    for (name, pods, expected) in [
        ("it was the only pod", vec![pod("a")], Some(Outcome::Empty)),
        ("the other one stays", vec![pod("a"), pod("b")], stays(&["b"])),
    ] {
        let mut d = evicted(pods);
        assert_eq!(ended(&d.step(at(20), Input::Gone(uid("a")))), expected.as_ref(), "{name}");
    }
    let mut d = evicted(vec![pod("a")]);
    assert_eq!(ended(&d.step(at(30), Input::Tick)), None);
    assert_eq!(ended(&d.step(at(31), Input::Tick)), stays(&["a"]).as_ref(), "its time is over");
    // The watch has not shown whether the eviction had an effect.
    let mut d = drain(limits(120));
    d.step(at(0), Input::Listed(vec![pod("a")]));
    d.step(at(8), Input::Answer { order: evict("a", Some(30)), answer: ok() });
    assert_eq!(ended(&d.step(at(9), Input::Limits(taints_only(Response::Cordon)))), None);
    assert_eq!(ended(&d.step(at(13), Input::Tick)), stays(&["a"]).as_ref());
    // The deadline does not wait.
    let mut d = evicted(vec![pod("a")]);
    let sooner = Limits { response: Response::Cordon, ..limits(25) };
    assert_eq!(ended(&d.step(at(12), Input::Limits(sooner))), None);
    assert_eq!(ended(&d.step(at(25), Input::Tick)), stays(&["a"]).as_ref());
    // Somebody else has deleted the pod.
    let mut d = drain(taints_only(Response::Cordon));
    d.step(at(0), Input::Listed(vec![leaving()]));
    assert_eq!(ended(&d.step(at(5), Input::Tick)), stays(&["a"]).as_ref());
}

#[test]
fn an_interruption_that_joins_begins_to_evict() {
    let mut d = drain(recommended(Response::Prefer));
    assert!(requests(&d.step(at(0), Input::Listed(vec![pod("a")]))).is_empty());
    let effects = d.step(at(50), Input::Limits(limits(170)));
    assert_eq!(requests(&effects), [("a".to_owned(), false)]);
    assert_eq!(ended(&d.step(at(60), Input::Gone(uid("a")))), Some(&Outcome::Empty));
}

#[test]
fn a_paused_node_keeps_its_taint_and_a_silent_kubelet_does_not_end_a_recommendation() {
    let mut d = drain(recommended(Response::Prefer));
    d.step(at(0), Input::Paused);
    assert_eq!(d.next_wake(), None);
    assert_eq!(ended(&d.step(at(700), Input::Tick)), None);
    let effects = d.step(at(701), Input::Resumed(recommended(Response::Prefer)));
    assert_eq!(ended(&effects), Some(&Outcome::Expired { left: vec![] }));

    let mut d = drain(recommended(Response::Drain));
    d.step(at(0), Input::Listed(vec![pod("a")]));
    d.step(at(1), Input::Node(NodeCondition::Unreachable));
    assert_eq!(ended(&d.step(at(100), Input::Tick)), None);
    assert_eq!(
        ended(&d.step(at(101), Input::Node(NodeCondition::Deleted))),
        Some(&Outcome::NodeGone)
    );
}
