//! Forced deletes without an answer.

use super::*;

fn is_forced(effects: &[Effect]) -> bool {
    notes(effects).iter().any(|note| matches!(note, Note::Forced { grace: 30, .. }))
}

fn answered(code: u16, reason: &str, message: &str) -> Input {
    Input::Answer { order: delete("a", 30), answer: answer(code, reason, message) }
}

const WEBHOOK: &str = "Internal error occurred: failed calling webhook \"check.example.com\"";

fn lost() -> Input {
    answered(0, "", "")
}

fn not_found() -> Input {
    answered(404, "NotFound", "pods \"a\" not found")
}

fn terminates(until: u64) -> Input {
    Input::Changed(Pod { deletion: Some(at(until)), ..pod("a") })
}

fn gone() -> Input {
    Input::Gone(uid("a"))
}

fn over() -> Input {
    Input::Node(NodeCondition::InstanceOver)
}

#[test]
fn a_forced_delete_without_an_answer_is_reported_when_its_pod_terminates() {
    for (name, inputs, reported_by) in [
        ("its answer is lost, and the pod terminates", vec![lost(), terminates(110)], Some(1)),
        ("the pod terminates, and the answer is lost", vec![terminates(110), lost()], Some(1)),
        ("the pod is gone, and the answer is lost", vec![terminates(110), gone(), lost()], Some(2)),
        ("the watch shows only its end", vec![lost(), gone()], Some(1)),
        ("the next delete does not find the pod", vec![lost(), not_found()], Some(1)),
        (
            "the next delete is refused, and the pod terminates",
            vec![lost(), answered(403, "Forbidden", ""), terminates(110)],
            Some(2),
        ),
        ("the drain ends before the answer", vec![terminates(110), over()], Some(1)),
        (
            "the pod is gone, and the drain ends before the answer",
            vec![terminates(110), gone(), over()],
            Some(2),
        ),
        (
            "the next delete is accepted",
            vec![lost(), answered(200, "", ""), terminates(110)],
            Some(1),
        ),
        ("the pod stays", vec![lost(), over()], None),
        ("the pod stays, and the drain ends before the answer", vec![over()], None),
        (
            "the pod terminates since an eviction before",
            vec![terminates(100), lost(), gone(), over()],
            None,
        ),
        ("somebody else has deleted it", vec![not_found(), gone(), over()], None),
        (
            "it was held back, and somebody else deletes the pod",
            vec![answered(0, ApiAnswer::HELD_BACK, ""), gone(), over()],
            None,
        ),
        (
            "no webhook could be asked, and somebody else deletes the pod",
            vec![answered(500, "InternalError", WEBHOOK), gone(), over()],
            None,
        ),
        (
            "it is refused, and somebody else deletes the pod",
            vec![answered(403, "Forbidden", ""), terminates(110), over()],
            None,
        ),
    ] {
        let mut d = drain(limits(110));
        d.step(at(0), Input::Listed(vec![pod("a"), pod("b")]));
        d.step(at(1), Input::Answer { order: evict("a", Some(30)), answer: refused_by_budget() });
        assert_eq!(d.order(&uid("a"), at(80), true), Some(delete("a", 30)), "{name}");
        let all: Vec<_> =
            inputs.into_iter().map(|input| is_forced(&d.step(at(81), input))).collect();
        let reported: Vec<_> = all
            .iter()
            .enumerate()
            .filter(|(_, reported)| **reported)
            .map(|(index, _)| index)
            .collect();
        assert_eq!(reported, reported_by.into_iter().collect::<Vec<_>>(), "{name}");
        assert_eq!(d.status(at(82)).forced.len(), reported.len(), "{name}");
    }
}

#[test]
fn a_forced_delete_without_an_answer_after_a_lost_eviction_is_not_reported() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![pod("a"), pod("b")]));
    d.step(at(1), Input::Answer { order: evict("a", Some(30)), answer: answer(0, "", "") });
    assert_eq!(d.order(&uid("a"), at(80), true), Some(delete("a", 30)));
    for input in [gone(), over()] {
        assert!(!is_forced(&d.step(at(81), input)), "the eviction may have had the effect");
    }
}

#[test]
fn a_forced_delete_without_an_answer_after_an_eviction_without_effect_is_reported() {
    for refusal in [answer(500, "InternalError", WEBHOOK), answer(0, ApiAnswer::HELD_BACK, "")] {
        let mut d = drain(limits(110));
        d.step(at(0), Input::Listed(vec![pod("a"), pod("b")]));
        d.step(at(1), Input::Answer { order: evict("a", Some(30)), answer: refusal.clone() });
        assert_eq!(d.order(&uid("a"), at(80), true), Some(delete("a", 30)));
        let reported = [lost(), gone()].map(|input| is_forced(&d.step(at(81), input)));
        assert_eq!(reported, [false, true], "{refusal:?}");
    }
}

#[test]
fn a_forced_delete_without_an_answer_is_reported_once_an_accepted_eviction_has_shown_no_effect() {
    // A webhook accepts evictions and does nothing. The pod should terminate within 5 s.
    for (accepted_at, deleted_at, expected) in [(1, 80, true), (106, 109, false)] {
        let mut d = drain(limits(110));
        d.step(at(0), Input::Listed(vec![pod("a"), pod("b")]));
        d.step(
            at(accepted_at),
            Input::Answer { order: evict("a", None), answer: answer(201, "", "") },
        );
        let order = d.order(&uid("a"), at(deleted_at), true).unwrap();
        assert!(matches!(order, Order::Delete { .. }), "{order:?}");
        let lost = Input::Answer { order, answer: answer(0, "", "") };
        d.step(at(deleted_at), lost);
        let effects = d.step(at(deleted_at), gone());
        let is_reported = notes(&effects).iter().any(|note| matches!(note, Note::Forced { .. }));
        assert_eq!(is_reported, expected, "accepted at {accepted_at} s");
    }
}

#[test]
fn a_budget_that_refuses_proves_that_an_earlier_eviction_had_no_effect() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![pod("a"), pod("b")]));
    d.step(at(1), Input::Answer { order: evict("a", Some(30)), answer: answer(0, "", "") });
    d.step(at(2), Input::Answer { order: evict("a", Some(30)), answer: refused_by_budget() });
    assert_eq!(d.order(&uid("a"), at(80), true), Some(delete("a", 30)));
    assert_eq!([lost(), gone()].map(|input| is_forced(&d.step(at(81), input))), [false, true]);
}
