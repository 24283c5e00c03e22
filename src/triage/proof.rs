//! Stale until proved: an interruption that is read after its own time.

use std::time::Duration;

use super::{HookAnswer, InstanceAnswer, Knowledge, Question, Staleness};
use crate::domain::{InstanceState, Interruption, Moment, What};

/// It is read after its own time.
pub(super) fn is_stale(
    interruption: &Interruption,
    known: &Knowledge,
    staleness: &Staleness,
    now: Moment,
) -> bool {
    own_time(interruption, known, staleness).is_some_and(|limit| known.age(now) > limit)
}

/// For how long after it happened an interruption is taken at its word. `None`: for ever.
fn own_time(
    interruption: &Interruption,
    known: &Knowledge,
    staleness: &Staleness,
) -> Option<Duration> {
    match &interruption.what {
        What::Spot(_) | What::Capacity { .. } => Some(staleness.warning),
        What::StateChange(_) => Some(staleness.state_change),
        What::Terminate(_) => Some(match &known.hook {
            Some(HookAnswer::Described(hook)) => hook.heartbeat_timeout,
            Some(HookAnswer::NoSuchHook) | None => staleness.hook,
        }),
        What::Launch(_) | What::LaunchSuccessful { .. } | What::Rebalance | What::Health(_) => None,
    }
}

/// For an interruption that was accepted as [`super::Standing::Unproved`]: `Some(true)` when what
/// is known now disproves it (its drain ends and the Node is put back), `Some(false)` when it holds
/// (force is allowed from now on), `None` while neither is known.
#[must_use]
pub fn disproved(interruption: &Interruption, known: &Knowledge) -> Option<bool> {
    disproof(interruption, known).or_else(|| was_in_time(interruption, known).then_some(false))
}

/// Proof (`Some(false)`): EC2 says that the instance is going or gone, or one heartbeat was
/// accepted. Disproof (`Some(true)`) of a hook: "No active Lifecycle Action", while EC2, asked no
/// sooner, does not say that the instance ends. Of anything else: it runs.
pub(super) fn disproof(interruption: &Interruption, known: &Knowledge) -> Option<bool> {
    let ends = state(known).map(InstanceState::is_ending);
    let hook = matches!(interruption.what, What::Terminate(_));
    let open = known.heartbeat.filter(|_| hook).map(|heartbeat| heartbeat.accepted);
    match (ends, open) {
        (Some(true), _) | (_, Some(true)) => Some(false),
        (Some(false), _) if !hook => Some(true),
        (Some(false), Some(false)) if asked_since_heartbeat(known) => Some(true),
        _ => None,
    }
}

/// A hook that was thought stale while its HeartbeatTimeout was not known, and was read within it.
fn was_in_time(interruption: &Interruption, known: &Knowledge) -> bool {
    let described = matches!(
        (&interruption.what, &known.hook),
        (What::Terminate(_), Some(HookAnswer::Described(_)))
    );
    described && !is_stale(interruption, known, &Staleness::default(), known.received)
}

/// What EC2 said of the instance since the message was received. Of one that it does not know any
/// more: terminated.
pub(super) fn state(known: &Knowledge) -> Option<InstanceState> {
    let answer = known.instance.as_ref().filter(|answer| answer.at >= known.received)?;
    Some(now_state(answer))
}

pub(super) fn now_state(answer: &InstanceAnswer) -> InstanceState {
    answer.facts.as_ref().map_or(InstanceState::Terminated, |facts| facts.state)
}

/// A hook that closed between two questions may have closed because the instance went.
fn asked_since_heartbeat(known: &Knowledge) -> bool {
    let asked = known.instance.as_ref().map(|answer| answer.at);
    asked >= known.heartbeat.map(|heartbeat| heartbeat.at)
}

/// What would prove or disprove it, as far as it is not known.
pub(super) fn questions(interruption: &Interruption, known: &Knowledge) -> Vec<Question> {
    let mut ask = Vec::new();
    let not_before =
        known.heartbeat.map_or(known.received, |heartbeat| heartbeat.at.max(known.received));
    if known.instance.as_ref().is_none_or(|answer| answer.at < not_before) {
        ask.push(Question::Instance { instance: interruption.instance.clone(), not_before });
    }
    if let (What::Terminate(action), Some(open_action)) =
        (&interruption.what, interruption.lifecycle_action(&interruption.instance))
    {
        if known.heartbeat.is_none() {
            ask.push(Question::Heartbeat(open_action.key));
        }
        if known.hook.is_none() {
            ask.push(Question::Hook(action.group.clone(), action.hook.clone()));
        }
    }
    ask
}
