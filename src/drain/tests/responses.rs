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
