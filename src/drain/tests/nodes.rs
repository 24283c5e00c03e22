//! Drains whose node is unreachable, or whose Node or instance is gone.

use super::*;

#[test]
fn c53_an_unreachable_nodes_pods_are_evicted_and_waited_for_thirty_seconds() {
    let mut d = drain(limits(600));
    assert_eq!(requests(&d.step(at(0), Input::Listed(vec![pod("a")]))), [("a".into(), false)]);
    d.step(at(10), Input::Node(NodeCondition::Unreachable));
    assert_eq!(ended(&d.step(at(39), Input::Node(NodeCondition::Unreachable))), None);
    d.step(at(39), Input::Node(NodeCondition::Fine));
    assert_eq!(
        ended(&d.step(at(41), Input::Node(NodeCondition::Unreachable))),
        None,
        "its kubelet has reported meanwhile"
    );
    d.step(at(50), Input::Paused);
    assert_eq!(ended(&d.step(at(80), Input::Tick)), None);
    d.step(at(90), Input::Resumed(limits(600)));
    assert_eq!(ended(&d.step(at(119), Input::Tick)), None);
    // The index may be outdated: the drain ends only when a fresh GET of the Node shows the same.
    assert_eq!(d.step(at(120), Input::Tick), [Effect::AskNode]);
    assert_eq!(d.step(at(125), Input::Tick), [], "the Node is read once");
    let effects = d.step(at(126), Input::Node(NodeCondition::StillUnreachable));
    assert_eq!(ended(&effects), Some(&Outcome::Unreachable { left: vec![key("a")] }));
}

#[test]
fn the_drain_of_an_unreachable_node_ends_only_after_its_node_was_read_again() {
    use NodeCondition::{Fine, StillUnreachable, Unreachable};
    let asks = |effects: Vec<Effect>| effects.contains(&Effect::AskNode);
    let asked = || {
        let mut d = drain(limits(600));
        d.step(at(0), Input::Listed(vec![pod("a")]));
        assert_eq!(
            ended(&d.step(at(5), Input::Node(StillUnreachable))),
            None,
            "the drain did not ask"
        );
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
    // The kubelet reports again: a late answer is about its earlier silence.
    let mut d = asked();
    assert_eq!(ended(&d.step(at(41), Input::Node(Fine))), None);
    assert_eq!(ended(&d.step(at(42), Input::Node(StillUnreachable))), None);
    d.step(at(50), Input::Node(Unreachable));
    assert!(asks(d.step(at(80), Input::Tick)));
    // A paused drain does not end, and after the pause it waits for the pods once more.
    let mut d = asked();
    d.step(at(41), Input::Paused);
    assert_eq!(ended(&d.step(at(42), Input::Node(StillUnreachable))), None);
    d.step(at(50), Input::Resumed(limits(600)));
    assert_eq!(ended(&d.step(at(51), Input::Node(StillUnreachable))), None);
    assert!(!asks(d.step(at(79), Input::Tick)));
    assert!(asks(d.step(at(80), Input::Tick)));
    // No answer comes: the deadline ends the drain.
    let mut d = asked();
    assert_eq!(ended(&d.step(at(599), Input::Tick)), None);
    assert_eq!(
        ended(&d.step(at(600), Input::Tick)),
        Some(&Outcome::DeadlineReached { left: vec![key("a")] })
    );
}

#[test]
fn s24_s25_a_drain_ends_when_its_node_or_instance_is_gone() {
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

/// As a pause does: nothing was evicted yet, so there is nothing to give up.
#[test]
fn an_unreachable_nodes_drain_does_not_end_while_its_evictions_wait() {
    use NodeCondition::{StillUnreachable, Unreachable};
    let held = Limits { held_until: Some(at(1800)), ..limits(3600) };
    let later = Limits { eviction_start: EvictionStart::At(at(1800)), ..limits(3600) };
    for waits in [held, later] {
        let mut d = drain(waits);
        d.step(at(0), Input::Listed(vec![pod("a")]));
        d.step(at(10), Input::Node(Unreachable));
        for now in [39, 40, 45] {
            assert_eq!(d.step(at(now), Input::Tick), [], "{now}");
        }
        assert_eq!(ended(&d.step(at(46), Input::Node(StillUnreachable))), None);
        assert_eq!(d.status(at(50)).ends_at, Some(at(3600)));
        assert!(d.next_wake().is_none_or(|wake| wake > at(50)), "{:?}", d.next_wake());
        let effects = d.step(at(100), Input::Limits(limits(3600)));
        assert_eq!(requests(&effects), [("a".into(), false)]);
        assert_eq!(d.step(at(129), Input::Tick), []);
        assert_eq!(d.step(at(130), Input::Tick), [Effect::AskNode]);
        // A hold that begins meanwhile.
        d.step(at(131), Input::Limits(waits));
        assert_eq!(ended(&d.step(at(132), Input::Node(StillUnreachable))), None);
        d.step(at(200), Input::Paused);
        d.step(at(300), Input::Resumed(waits));
        assert_eq!(d.step(at(400), Input::Tick), []);
        d.step(at(500), Input::Limits(limits(3600)));
        assert_eq!(d.step(at(529), Input::Tick), []);
        assert_eq!(d.step(at(530), Input::Tick), [Effect::AskNode]);
        let effects = d.step(at(531), Input::Node(StillUnreachable));
        assert_eq!(ended(&effects), Some(&Outcome::Unreachable { left: vec![key("a")] }));
    }
}
