//! Orders that the drain no longer wants when the dispatcher sends them.

use super::*;

/// The dispatcher forgets the pod then, so the drain must request it again later.
#[test]
fn a_pod_whose_order_was_withdrawn_is_requested_again() {
    let mut d = drain(limits(600));
    d.step(at(0), Input::Listed(vec![pod("a"), pod("b")]));
    d.step(at(0), Input::Watch(WatchState::Open));
    d.step(at(1), Input::Tick);
    d.step(at(1), Input::Answer { order: evict("a", Some(30)), answer: ok() });
    d.step(
        at(26),
        Input::Answer {
            order: evict("b", Some(30)),
            answer: answer(404, "NotFound", "pods \"b\" not found"),
        },
    );
    // In one step the drain evicts the intercepted pod again, and finds that the watch has missed
    // the end of the other pod.
    let effects = d.step(at(31), Input::Tick);
    assert_eq!(requests(&effects), [("a".into(), false)]);
    assert!(effects.contains(&Effect::Relist));
    assert_eq!(
        d.order(&uid("a"), at(31), true),
        None,
        "only the LIST shows what has happened to it"
    );
    let effects = d.step(at_ms(31_200), Input::Listed(vec![pod("a")]));
    assert_eq!(requests(&effects), [("a".into(), false)]);
}
