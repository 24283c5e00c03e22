//! Drains whose Node is unreachable, deleted or over.

use super::*;

#[test]
fn c53_an_unreachable_nodes_pods_are_evicted_and_waited_for_thirty_seconds() {
    let mut d = drain(limits(600));
    assert_eq!(wants(&d.step(at(0), Input::Listed(vec![pod("a")]))), [("a".into(), false)]);
    d.step(at(10), Input::Node(NodeCondition::Unreachable));
    assert_eq!(ended(&d.step(at(39), Input::Node(NodeCondition::Unreachable))), None);
    d.step(at(39), Input::Node(NodeCondition::Fine));
    assert_eq!(
        ended(&d.step(at(41), Input::Node(NodeCondition::Unreachable))),
        None,
        "it was heard of meanwhile"
    );
    d.step(at(50), Input::Paused);
    assert_eq!(ended(&d.step(at(80), Input::Tick)), None);
    d.step(at(90), Input::Resumed(limits(600)));
    assert_eq!(ended(&d.step(at(119), Input::Tick)), None);
    // The index may be old: the drain ends once the Node itself says so.
    assert_eq!(d.step(at(120), Input::Tick), [Effect::AskNode]);
    assert_eq!(d.step(at(125), Input::Tick), [], "it is asked once");
    let effects = d.step(at(126), Input::Node(NodeCondition::StillUnreachable));
    assert_eq!(ended(&effects), Some(&Outcome::Unreachable { left: vec![key("a")] }));
}

#[test]
fn an_unreachable_node_is_given_up_only_once_its_node_was_read_anew() {
    use NodeCondition::{Fine, StillUnreachable, Unreachable};
    let asks = |effects: Vec<Effect>| effects.contains(&Effect::AskNode);
    let asked = || {
        let mut d = drain(limits(600));
        d.step(at(0), Input::Listed(vec![pod("a")]));
        assert_eq!(ended(&d.step(at(5), Input::Node(StillUnreachable))), None, "nobody asked");
        d.step(at(10), Input::Node(Unreachable));
        assert_eq!(d.next_wake(), Some(at(40)));
        assert_eq!(d.status(at(39)).ends_at, Some(at(40)));
        assert!(asks(d.step(at(40), Input::Tick)));
        assert_eq!(
            d.status(at(41)).ends_at,
            Some(at(600)),
            "while its Node is read, only the deadline ends it"
        );
        d
    };
    // It is heard of: whatever comes later is about another silence.
    let mut d = asked();
    assert_eq!(ended(&d.step(at(41), Input::Node(Fine))), None);
    assert_eq!(ended(&d.step(at(42), Input::Node(StillUnreachable))), None);
    d.step(at(50), Input::Node(Unreachable));
    assert!(asks(d.step(at(80), Input::Tick)));
    // In a pause nothing ends, and after it the pods are waited for once more.
    let mut d = asked();
    d.step(at(41), Input::Paused);
    assert_eq!(ended(&d.step(at(42), Input::Node(StillUnreachable))), None);
    d.step(at(50), Input::Resumed(limits(600)));
    assert_eq!(ended(&d.step(at(51), Input::Node(StillUnreachable))), None);
    assert!(!asks(d.step(at(79), Input::Tick)));
    assert!(asks(d.step(at(80), Input::Tick)));
    // No answer comes: the deadline ends it.
    let mut d = asked();
    assert_eq!(ended(&d.step(at(599), Input::Tick)), None);
    assert_eq!(
        ended(&d.step(at(600), Input::Tick)),
        Some(&Outcome::DeadlineReached { left: vec![key("a")] })
    );
}

#[test]
fn s24_s25_a_node_that_is_gone_or_over_is_not_waited_for() {
    for (condition, outcome) in [
        (NodeCondition::Deleted, Outcome::NodeGone),
        (NodeCondition::InstanceOver, Outcome::InstanceOver),
    ] {
        let mut d = drain(limits(600));
        d.step(at(0), Input::Listed(vec![pod("a")]));
        let effects = d.step(at(1), Input::Node(condition));
        assert_eq!(
            effects,
            [Effect::Dispatch(DispatchInput::Closed { node: "n1".into() }), Effect::Ended(outcome)]
        );
        assert_eq!((d.order(&uid("a"), at(1), true), d.next_wake()), (None, None));
    }
}
