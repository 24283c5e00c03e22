//! Where the dispatcher lets a pod go for which the drain wants nothing any more.

use super::*;

/// The dispatcher forgets it then, so the drain must not believe it to be wanted still.
#[test]
fn a_pod_whose_order_was_withdrawn_is_wanted_again_as_soon_as_it_may_be() {
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
    // In one step the intercepted one is to be asked again, and the watch is found to have missed
    // the end of the other.
    let effects = d.step(at(31), Input::Tick);
    assert_eq!(wants(&effects), [("a".into(), false)]);
    assert!(effects.contains(&Effect::Relist));
    assert_eq!(
        d.order(&uid("a"), at(31), true),
        None,
        "what has happened to it only the LIST will show"
    );
    let effects = d.step(at_ms(31_200), Input::Listed(vec![pod("a")]));
    assert_eq!(wants(&effects), [("a".into(), false)]);
}
