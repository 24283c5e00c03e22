//! The explanation of a drain.

use super::*;
use crate::domain::{EvictionStart, Response, Verification};

fn explained(drain: &Drain, now: u64, budgets: &[Budget]) -> Explanation {
    drain.explain(at(now), |_| budgets, |_| None)
}

/// A drain whose pods `a`, `b` and `c` were listed at the start.
fn listed(limits: Limits) -> Drain {
    let mut drain = drain(limits);
    drain.step(at(0), Input::Listed(vec![pod("a"), pod("b"), pod("c")]));
    drain
}

fn answered(drain: &mut Drain, now: u64, name: &str, answer: ApiAnswer) {
    let order = drain.order(&uid(name), at(now), true).unwrap();
    drain.step(at(now), Input::Answer { order, answer });
}

#[test]
fn the_cause_names_what_the_drain_waits_for() {
    let with = |change: fn(&mut Limits)| {
        let mut limits = limits(600);
        change(&mut limits);
        listed(limits)
    };
    let paused = || {
        let mut drain = listed(limits(600));
        drain.step(at(1), Input::Paused);
        drain
    };
    let after = |answer: fn() -> ApiAnswer| {
        let mut drain = listed(limits(600));
        answered(&mut drain, 1, "a", answer());
        drain
    };
    let leaving = |names: &[&str]| {
        let mut drain = listed(limits(600));
        for name in names {
            answered(&mut drain, 1, name, ok());
        }
        drain
    };
    let gone = || {
        let mut drain = listed(limits(600));
        for name in ["a", "b", "c"] {
            drain.step(at(1), Input::Gone(uid(name)));
        }
        drain
    };
    let released = || {
        let mut drain = listed(limits(600));
        drain.step(at(1), Input::Release);
        drain
    };
    for (name, drain, word) in [
        ("not listed", drain(limits(600)), "ListingPods"),
        ("only cordoned", with(|l| l.response = Response::Cordon), "NotEvicting"),
        ("paused", paused(), "Paused"),
        ("unconfirmed", with(|l| l.verification = Verification::Suspected), "WaitingForAWS"),
        ("delayed", with(|l| l.eviction_start = EvictionStart::At(at(60))), "WaitingForEvictAfter"),
        (
            "not replaced",
            with(|l| l.eviction_start = EvictionStart::ReplacementReady(at(60))),
            "WaitingForReplacement",
        ),
        ("begun", listed(limits(600)), "Evicting"),
        ("some leave", leaving(&["a"]), "Evicting"),
        ("all leave", leaving(&["a", "b", "c"]), "Terminating"),
        ("refused by a budget", after(refused_by_budget), "BlockedByBudget"),
        ("outdated budget", after(lagging), "BlockedByBudget"),
        ("two budgets", after(two_budgets), "BlockedByBudget"),
        ("empty", gone(), "NoPodLeft"),
        ("released", released(), "Ended"),
    ] {
        assert_eq!(explained(&drain, 2, &[]).cause().as_str(), word, "{name}");
    }
}

#[test]
fn each_reason_has_a_word_for_conditions_and_says_what_the_pod_needs() {
    for reason in BlockReason::ALL {
        let word = Cause::Blocked(reason).as_str();
        assert!(
            word.starts_with(|c: char| c.is_ascii_uppercase())
                && word.chars().all(|c| c.is_ascii_alphanumeric()),
            "{word}: a reason has only letters and digits"
        );
        assert!(!reason.needs().is_empty());
    }
}

#[test]
fn a_blocked_pod_has_its_budgets_its_time_and_when_it_is_forced() {
    let mut drain = listed(limits(600));
    answered(&mut drain, 5, "b", refused_by_budget());
    let explanation = explained(&drain, 9, &[budget("full", 0)]);
    let [blocked] = explanation.blocked.as_slice() else { panic!("{explanation:?}") };
    assert_eq!((&blocked.pod, blocked.reason), (&key("b"), BlockReason::Pdb));
    assert_eq!(blocked.budgets, [budget("full", 0).key]);
    assert_eq!(blocked.since, Some(at(5)));
    assert_eq!(blocked.forced_from, drain.forced_from(&pod("b")));
    assert_eq!(explanation.blocked_forced_from, blocked.forced_from);
    assert_eq!(explanation.counts, drain.status(at(9)).counts);
}

#[test]
fn the_cause_that_blocks_most_pods_comes_first_and_then_the_oldest() {
    let mut drain = listed(limits(600));
    let webhook = || answer(403, "Forbidden", "admission webhook \"x\" denied the request");
    answered(&mut drain, 3, "a", webhook());
    answered(&mut drain, 5, "b", refused_by_budget());
    let words = |drain: &Drain| {
        let blockers = explained(drain, 9, &[]).blockers();
        blockers.iter().map(|b| (b.reason.as_str(), b.pods.len(), b.since)).collect::<Vec<_>>()
    };
    assert_eq!(words(&drain), [("webhook", 1, Some(at(3))), ("pdb", 1, Some(at(5)))]);
    answered(&mut drain, 7, "c", refused_by_budget());
    assert_eq!(words(&drain), [("pdb", 2, Some(at(5))), ("webhook", 1, Some(at(3)))]);
}

#[test]
fn a_reader_that_sends_no_evictions_adds_what_it_knows() {
    let mut drain = listed(limits(600));
    drain.step(at(1), Input::Changed(Pod { deletion: Some(at(40)), ..pod("a") }));
    let block = KnownBlock { reason: BlockReason::Webhook, message: "no".to_owned(), since: None };
    let known = |pod: &Pod| (*pod.key.name == *"b").then(|| block.clone());
    let budgets = [budget("free", 1)];
    let explanation = drain.explain(at(2), |_| &budgets[..], known);
    let names: Vec<_> = explanation.blocked.iter().map(|b| &b.pod).collect();
    assert_eq!(names, [&key("b")]);
    let Counts { left, waiting, blocked, leaving, .. } = explanation.counts;
    assert_eq!((left, waiting, blocked, leaving), (3, 1, 1, 1));
}

#[test]
fn only_the_budgets_of_namespaces_with_blocked_pods_are_asked_for() {
    let asked = std::cell::RefCell::new(Vec::new());
    let budgets = [budget("web", 0)];
    let of = |namespace: &str| {
        asked.borrow_mut().push(namespace.to_owned());
        &budgets[..]
    };
    let mut drain = listed(limits(600));
    assert!(drain.explain(at(1), of, |_| None).blocked.is_empty());
    assert!(asked.borrow().is_empty(), "no pod is blocked");
    answered(&mut drain, 2, "a", refused_by_budget());
    let explanation = drain.explain(at(3), of, |_| None);
    assert_eq!(*asked.borrow(), ["default"]);
    let [blocked] = explanation.blocked.as_slice() else { panic!("{explanation:?}") };
    assert_eq!(blocked.budgets, [budget("web", 0).key]);
}
