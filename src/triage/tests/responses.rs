//! What `--on` changes.

use super::*;
use crate::domain::{KindResponse, Response, Responses};

pub(super) fn on(given: &[&str]) -> Policy {
    let given: Vec<KindResponse> = given.iter().map(|text| text.parse().unwrap()).collect();
    Policy { responses: Responses::new(&given).unwrap(), ..policy() }
}

fn rebalance() -> Interruption {
    interruption(Cause::Rebalance)
}

#[test]
fn an_accepted_interruption_carries_the_response_of_its_kind() {
    for (i, given, expected) in [
        (spot(), "spot=cordon", Response::Cordon),
        (spot(), "spot-stop=cordon", Response::Drain),
        (terminate(), "terminate-hook=cordon", Response::Cordon),
        (rebalance(), "rebalance=prefer", Response::Prefer),
        (rebalance(), "rebalance=drain", Response::Drain),
    ] {
        let known = Knowledge { hooks: described(), ..with_node() };
        let Verdict::Accept(accept) = verdict(&i, &known, &on(&[given])) else {
            panic!("{given}: {:?}", verdict(&i, &known, &on(&[given])))
        };
        assert_eq!(accept.response, expected, "{given}");
    }
}

#[test]
fn an_ignored_kind_is_deleted_and_its_hook_gets_no_heartbeat() {
    for (i, given) in [
        (spot(), "spot=ignore"),
        (terminate(), "terminate-hook=ignore"),
        (launch(), "launch-hook=ignore"),
        (state_change(InstanceState::Stopping), "state-change=ignore"),
        (rebalance(), "rebalance=ignore"),
    ] {
        let known = Knowledge { hooks: described(), ..with_node() };
        assert_eq!(verdict(&i, &known, &on(&[given])), Verdict::Delete(Reason::Ignored), "{given}");
        assert!(!heartbeats(&i, &known, &on(&[given])), "{given}");
        let shared_queue = shared(on(&[given]));
        let without_node = Knowledge { hooks: described(), ..fresh() };
        let expected = Verdict::GiveBack(Reason::Ignored);
        assert_eq!(verdict(&i, &without_node, &shared_queue), expected, "{given}");
    }
}

#[test]
fn a_hook_of_another_party_is_not_called_ignored() {
    let policy =
        Policy { hooks: HookGlobs::new(&["mine"]).unwrap(), ..on(&["terminate-hook=ignore"]) };
    assert_eq!(verdict(&terminate(), &with_node(), &policy), Verdict::Delete(Reason::ForeignHook));
}

#[test]
fn a_recommendation_older_than_its_time_is_stale_and_aws_is_not_asked() {
    let policy = Policy { rebalance_ttl: seconds(600), ..policy() };
    assert_eq!(accepted(verdict(&rebalance(), &aged(600), &policy)).1, Certainty::Timely);
    assert_eq!(verdict(&rebalance(), &aged(601), &policy), Verdict::Delete(Reason::Stale));
}

#[test]
fn a_stale_recommendation_about_an_instance_without_a_node_stays_on_a_shared_queue() {
    let policy = Policy { rebalance_ttl: seconds(600), ..shared(policy()) };
    let without_node = Knowledge { nodes: Vec::new(), ..aged(601) };
    let expected = Verdict::GiveBack(Reason::Stale);
    assert_eq!(verdict(&rebalance(), &without_node, &policy), expected);
    assert_eq!(verdict(&rebalance(), &aged(601), &policy), Verdict::Delete(Reason::Stale));
}

#[test]
fn a_recommendation_about_an_instance_of_another_cluster_is_not_acted_on() {
    let known =
        Knowledge { instance: answer(Some(facts(InstanceState::Running, theirs()))), ..fresh() };
    let policy = on(&["rebalance=drain"]);
    assert_eq!(verdict(&rebalance(), &known, &policy), Verdict::Delete(Reason::Foreign));
}
