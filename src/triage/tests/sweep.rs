//! What the sweep found counts only once AWS has accepted a heartbeat.

use super::*;
use crate::domain::sweep_event_id;

fn swept() -> Interruption {
    let mut interruption = terminate();
    if let Cause::Terminate(action) = &mut interruption.cause {
        interruption.event_id = sweep_event_id(now(), &action.hook);
        action.token = None;
    }
    interruption
}

fn found() -> Knowledge {
    Knowledge { is_found_by_sweep: true, ..with_node() }
}

fn heartbeat(accepted: bool) -> Option<HeartbeatAnswer> {
    Some(HeartbeatAnswer { at: now(), accepted })
}

#[test]
fn however_young_it_is_a_heartbeat_must_prove_it_and_nothing_else_does() {
    for (state, heartbeat, expected) in [
        (None, None, None),
        (Some(InstanceState::Running), None, None),
        (Some(InstanceState::ShuttingDown), None, None),
        (None, heartbeat(true), Some(true)),
        (Some(InstanceState::Running), heartbeat(true), Some(true)),
        (None, heartbeat(false), Some(false)),
        (Some(InstanceState::ShuttingDown), heartbeat(false), Some(false)),
    ] {
        let instance = state.and_then(|state| answer(Some(facts(state, ours()))));
        let known = Knowledge { instance, heartbeat, ..found() };
        let v = verdict(&swept(), &known, &policy());
        match expected {
            None => assert_eq!(asks(v), [ask_heartbeat(), ask_hook()], "{state:?}"),
            Some(true) => assert_eq!(accepted(v).1, Certainty::Proved, "{state:?}"),
            Some(false) => assert_eq!(v, Verdict::Delete(Reason::Stale), "{state:?}"),
        }
    }
}

#[test]
fn without_an_answer_it_is_left_to_a_later_round_and_never_accepted_unproved() {
    let asked = Knowledge { proof_asked_at: Some(now()), ..found() };
    let until = |known: &Knowledge| waits(verdict(&swept(), known, &policy())).until;
    assert_eq!(until(&asked), Some(now().plus(seconds(10))));
    let later = |known: &Knowledge| triage(&swept(), known, &policy(), now().plus(seconds(10)));
    assert_eq!(later(&asked), Verdict::Delete(Reason::Stale));
    let ours_running = answer(Some(facts(InstanceState::ShuttingDown, ours())));
    let without_node = Knowledge { nodes: Vec::new(), instance: ours_running, ..asked.clone() };
    assert_eq!(until(&without_node), Some(now().plus(seconds(10))));
    assert_eq!(later(&without_node), Verdict::Delete(Reason::Stale));
}

#[test]
fn without_a_node_it_is_proved_too_before_it_is_completed() {
    let instance = answer(Some(facts(InstanceState::ShuttingDown, ours())));
    let known =
        Knowledge { nodes: Vec::new(), instance, listed: Some((now(), Vec::new())), ..found() };
    assert_eq!(asks(verdict(&swept(), &known, &policy())), [ask_heartbeat(), ask_hook()]);
    let refused = Knowledge { heartbeat: heartbeat(false), ..known.clone() };
    assert_eq!(verdict(&swept(), &refused, &policy()), Verdict::Delete(Reason::Stale));
    let proved = Knowledge { heartbeat: heartbeat(true), ..known };
    assert!(matches!(verdict(&swept(), &proved, &policy()), Verdict::Complete(_)));
}

#[test]
fn what_is_not_ours_gets_no_heartbeat() {
    let ignored = {
        let mut node = node("n", Some(INSTANCE));
        node.annotations.insert(IGNORE, "true");
        Knowledge { nodes: vec![Arc::new(node)], ..found() }
    };
    assert_eq!(verdict(&swept(), &ignored, &policy()), Verdict::Delete(Reason::NotManaged));
    assert!(!heartbeats(&swept(), &ignored, &policy()));
    let named = with_hooks(&["sundown*"]);
    assert_eq!(verdict(&swept(), &found(), &named), Verdict::Delete(Reason::ForeignHook));
    let foreign = answer(Some(facts(InstanceState::Running, theirs())));
    let known = Knowledge { nodes: Vec::new(), instance: foreign, ..found() };
    assert_eq!(verdict(&swept(), &known, &policy()), Verdict::Delete(Reason::Foreign));
}
