//! Which interruptions need a proof by AWS before Sundown acts on them, and what proves them.

use std::time::Duration;

use super::{HookAnswer, InstanceAnswer, Knowledge, Question, Staleness};
use crate::domain::{Cause, InstanceState, Interruption, Moment, seconds};

/// How long EC2's answer proves that an instance stops or is stopped. It may start again, for example
/// out of a warm pool. An instance that is terminated stays so.
const STOP_HOLDS_FOR: Duration = seconds(30);

/// The interruption needs a proof: it is too old, its instance may have started again since it
/// stopped, the sweep found it, or its Node was drained for a later action of the same hook.
pub(super) fn is_stale(
    interruption: &Interruption,
    known: &Knowledge,
    staleness: &Staleness,
    now: Moment,
) -> bool {
    needs_heartbeat(interruption, known)
        || may_run_again(interruption, known)
        || trusted_for(interruption, known, staleness).is_some_and(|limit| known.age(now) > limit)
}

/// The instance stopped, and its Node was created after that: the instance has started again, for
/// example out of a warm pool. An instance that shuts down never does.
fn may_run_again(interruption: &Interruption, known: &Knowledge) -> bool {
    let is_stop = matches!(
        interruption.cause,
        Cause::StateChange(InstanceState::Stopping | InstanceState::Stopped)
    );
    is_stop && known.nodes.iter().any(|node| node.created > Some(known.happened))
}

/// The sweep found that the instance may wait in this hook, or the instance was drained for a later
/// action of the hook. Only the answer to a heartbeat shows whether the action is open. A state
/// change that the sweep found comes from EC2 itself.
fn needs_heartbeat(interruption: &Interruption, known: &Knowledge) -> bool {
    (known.is_found_by_sweep || known.is_before_last_drain) && interruption.hook().is_some()
}

/// How long after it happened an interruption needs no proof. `None`: it never needs one.
fn trusted_for(
    interruption: &Interruption,
    known: &Knowledge,
    staleness: &Staleness,
) -> Option<Duration> {
    match &interruption.cause {
        Cause::Spot(_) | Cause::CapacityReservation { .. } => Some(staleness.warning),
        Cause::CapacityBlock { .. } => Some(staleness.block),
        Cause::StateChange(_) => Some(staleness.state_change),
        Cause::Terminate(_) => Some(match &known.hook {
            Some(HookAnswer::Described(hook)) => hook.heartbeat_timeout,
            Some(HookAnswer::NoSuchHook) | None => staleness.hook,
        }),
        Cause::Launch(_)
        | Cause::LaunchSuccessful { .. }
        | Cause::Rebalance
        | Cause::ScheduledChange(_)
        | Cause::Impaired(_)
        | Cause::Request(_) => None,
    }
}

/// For an interruption that was accepted as [`super::Certainty::Unproved`]: `Some(true)` if it is
/// true (pods may be forced from now on), `Some(false)` if it is not (its drain ends, and the Node
/// is restored), `None` while `known` does not show either.
#[must_use]
pub fn holds(interruption: &Interruption, known: &Knowledge) -> Option<bool> {
    // Its questions are asked after the accept, so each answer is new.
    let answered = known.instance.as_ref().map_or(known.received, |answer| answer.at);
    holds_at(interruption, known, answered)
        .or_else(|| was_in_time(interruption, known).then_some(true))
}

/// `Some(true)`, the proof: EC2 reports that the instance stops or has ended, or AWS accepted a
/// heartbeat. `Some(false)`, the disproof of a hook: AWS answered "No active Lifecycle Action", and
/// EC2, asked no earlier, reports that the instance runs. For other kinds it is enough that the
/// instance runs. For what the sweep found, and for an action that may be a late copy, only the
/// heartbeat counts: an instance that ends may wait for another action.
pub(super) fn holds_at(
    interruption: &Interruption,
    known: &Knowledge,
    now: Moment,
) -> Option<bool> {
    if needs_heartbeat(interruption, known) {
        return known.heartbeat.map(|heartbeat| heartbeat.accepted);
    }
    let ends = state(known).filter(|_| !is_old_stop(known, now)).map(InstanceState::is_ending);
    let hook = matches!(interruption.cause, Cause::Terminate(_));
    let open = known.heartbeat.filter(|_| hook).map(|heartbeat| heartbeat.accepted);
    match (ends, open) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), _) if !hook => Some(false),
        (Some(false), Some(false)) if asked_since_heartbeat(known) => Some(false),
        _ => None,
    }
}

/// A hook that counted as stale while its HeartbeatTimeout was unknown, and that was read within
/// this timeout.
fn was_in_time(interruption: &Interruption, known: &Knowledge) -> bool {
    let described = matches!(
        (&interruption.cause, &known.hook),
        (Cause::Terminate(_), Some(HookAnswer::Described(_)))
    );
    described && !is_stale(interruption, known, &Staleness::default(), known.received)
}

/// The state of the instance according to EC2, asked after the message was received. An instance
/// that EC2 no longer knows is terminated.
pub(super) fn state(known: &Knowledge) -> Option<InstanceState> {
    let answer = known.instance.as_ref().filter(|answer| answer.at >= known.received)?;
    Some(state_in(answer))
}

/// EC2 showed the instance stopping or stopped, too long ago: it may run again.
pub(super) fn is_old_stop(known: &Knowledge, now: Moment) -> bool {
    old_stop_since(known, now).is_some()
}

/// When EC2's answer about a stop expired. `None`: EC2 showed no stop, or the answer still counts.
pub(super) fn old_stop_since(known: &Knowledge, now: Moment) -> Option<Moment> {
    let is_stop = |answer: &&InstanceAnswer| {
        matches!(state_in(answer), InstanceState::Stopping | InstanceState::Stopped)
    };
    let answer = known.instance.as_ref().filter(is_stop)?;
    Some(answer.at.plus(STOP_HOLDS_FOR)).filter(|until| now > *until)
}

/// The state that this answer of EC2 shows. An instance that EC2 does not know is terminated.
pub(super) fn state_in(answer: &InstanceAnswer) -> InstanceState {
    answer.facts.as_ref().map_or(InstanceState::Terminated, |facts| facts.state)
}

/// EC2 was asked no earlier than the heartbeat was answered. Otherwise the instance may have ended
/// in between, and its hook with it.
fn asked_since_heartbeat(known: &Knowledge) -> bool {
    let asked = known.instance.as_ref().map(|answer| answer.at);
    asked >= known.heartbeat.map(|heartbeat| heartbeat.at)
}

/// The questions whose answers can prove or disprove the interruption and are not known yet. For
/// a launch that the sweep found, EC2's answer also shows when the launch began.
pub(super) fn questions(
    interruption: &Interruption,
    known: &Knowledge,
    now: Moment,
) -> Vec<Question> {
    let mut ask = Vec::new();
    let since =
        known.heartbeat.map_or(known.received, |heartbeat| heartbeat.at.max(known.received));
    let not_before = old_stop_since(known, now).map_or(since, |old| old.max(since));
    let is_launch = matches!(interruption.cause, Cause::Launch(_));
    if (!known.is_found_by_sweep || is_launch)
        && known.instance.as_ref().is_none_or(|answer| answer.at < not_before)
    {
        ask.push(Question::Instance { instance: interruption.instance.clone(), not_before });
    }
    if known.heartbeat.is_none()
        && let Some(open_action) = interruption.lifecycle_action(&interruption.instance)
    {
        ask.push(Question::Heartbeat(open_action.key));
    }
    if let Cause::Terminate(action) = &interruption.cause
        && known.hook.is_none()
    {
        ask.push(Question::Hook(action.group.clone(), action.hook.clone()));
    }
    ask
}
