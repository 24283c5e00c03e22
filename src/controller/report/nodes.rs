//! The texts of Kubernetes Events on Nodes.

use std::time::Duration;

use super::NodeNote;
use crate::{
    cluster::{About, EventNote, EventReason, Severity},
    domain::{
        Cause, DRAIN_REQUEST, EvictionStart, GateKind, HookKey, HookResult, Interruption, Kind,
        LifecycleAction, Moment, NodeName, PaceHold, SettingInForce,
    },
    drain::Outcome,
    fleet::{ActionEnd, DrainEvent, PausedBy, list, pods},
    lifecycle::IgnoredGate,
    record::{Refusal, VoidReason, Withdrawal},
};

/// The Kubernetes Event about what happened. `None`: the Node gets none.
pub(super) fn note(node: &NodeName, event: &DrainEvent) -> Option<EventNote> {
    let (severity, reason, message) =
        of_drain(node, event).or_else(|| of_record(event)).or_else(|| of_hook(event))?;
    Some(EventNote { about: About::Node(node.clone()), severity, reason, message })
}

/// What the evictions of a drain wait for; `None`: for nothing.
pub(super) fn eviction_start(start: EvictionStart) -> Option<String> {
    match start {
        EvictionStart::Now => None,
        EvictionStart::At(at) => {
            Some(format!("The pods stay until {at:.0} (--evict-after). The node is cordoned."))
        }
        EvictionStart::ReplacementReady(at) => Some(format!(
            "The pods stay until the Auto Scaling group has another node that can take them over, \
             until {at:.0} at the latest (--evict-after). The node is cordoned."
        )),
    }
}

/// That the evictions of a drain wait for other drains.
pub(super) fn pace_holds(why: PaceHold, until: Moment) -> String {
    let why = why.as_str();
    format!("The pods stay, until {until:.0} at the latest, because {why}. The node is cordoned.")
}

/// That the evictions no longer wait for other drains.
pub(super) const fn pace_ended(is_its_turn: bool) -> &'static str {
    if is_its_turn {
        "The drain no longer waits for other drains: its evictions begin."
    } else {
        "The drain no longer waits for other drains, whatever their number: its evictions begin."
    }
}

/// A person forces the drain.
pub(super) const DRAIN_FORCED: &str = "A person forces this drain (sundown.dev/force). Sundown no \
    longer waits for budgets, gates or other drains. It evicts each pod first, and deletes it if \
    the eviction is refused.";

/// That gates hold something.
pub(super) fn gates_hold(kind: GateKind, gates: &str, until: Moment) -> String {
    let what = match kind {
        GateKind::PreDrain => "The pods stay, held by",
        GateKind::PreRelease => "The node is empty, and its lifecycle actions stay open, held by",
    };
    format!("{what} {gates}, until {until:.0} at the latest. To go on, remove the annotation.")
}

/// That gates hold nothing.
pub(super) fn gates_ignored(kind: GateKind, gates: &str, why: IgnoredGate) -> String {
    let what = match kind {
        GateKind::PreDrain => "The drain",
        GateKind::PreRelease => "The completion of the lifecycle actions",
    };
    format!("{what} does not wait for {gates}, because {}.", why.as_str())
}

/// That an annotation is not obeyed.
pub(super) fn request_refused(request: &str, why: &Refusal) -> String {
    format!("The request {DRAIN_REQUEST}{request} does not drain the node: {why}.")
}

/// That requests are gone.
pub(super) fn requests_withdrawn(names: &[String], nothing_holds: bool) -> String {
    let (names, ask) =
        (names.join(", "), if names.len() == 1 { "no longer asks" } else { "no longer ask" });
    let follows = if nothing_holds {
        "Nothing else holds: the drain ends and the node is restored."
    } else {
        "Something else holds: the drain goes on for it."
    };
    format!("{names} {ask} for the drain. {follows}")
}

/// The cause of an interruption, up to its instance.
fn cause(interruption: &Interruption) -> String {
    match &interruption.cause {
        Cause::Request(request) => {
            let until = request.deadline.map(|at| format!(" until {at:.0}")).unwrap_or_default();
            format!("request by {request}{until} for")
        }
        _ => format!("{} of", interruption.kind().as_str()),
    }
}

fn of_drain(node: &NodeName, event: &DrainEvent) -> Option<NodeNote> {
    use Severity::{Normal, Warning};
    Some(match event {
        DrainEvent::Accepted(accepted) => {
            let kind = accepted.interruption.kind();
            let is_ordinary = kind.is_terminate_hook() || kind == Kind::Request;
            let severity = if is_ordinary { Normal } else { Warning };
            (
                severity,
                EventReason::InterruptionAccepted,
                format!(
                    "{} {}: {}{}",
                    cause(&accepted.interruption),
                    accepted.instance,
                    accepted.follows,
                    settings(&accepted.settings)
                ),
            )
        }
        DrainEvent::SettingsIgnored(problems) => {
            let all: Vec<&str> = problems.iter().map(|problem| problem.text.as_str()).collect();
            let text = format!("The drain goes on without a setting: {}", all.join(". "));
            (Warning, EventReason::SettingsIgnored, text)
        }
        DrainEvent::EvictionsStart { start, .. } => {
            (Normal, EventReason::EvictionsWait, eviction_start(*start)?)
        }
        DrainEvent::GatesHold { kind, gates, until } => {
            (Warning, EventReason::GatesHold, gates_hold(*kind, gates, *until))
        }
        DrainEvent::GatesIgnored { kind, gates, why } => {
            (Normal, EventReason::GatesIgnored, gates_ignored(*kind, gates, *why))
        }
        DrainEvent::PaceHolds { why, until } => {
            (Normal, EventReason::DrainHeldBack, pace_holds(*why, *until))
        }
        DrainEvent::PaceEnded { is_its_turn } => {
            (Normal, EventReason::DrainBegins, pace_ended(*is_its_turn).to_owned())
        }
        DrainEvent::ForceOrder(true) => {
            (Warning, EventReason::DrainForced, DRAIN_FORCED.to_owned())
        }
        DrainEvent::Uncordoned => (
            Warning,
            EventReason::Uncordoned,
            "Somebody uncordoned the node. The taint keeps new pods away and the drain goes on; \
             to end it use `sundown release`."
                .to_owned(),
        ),
        DrainEvent::Paused { by } => {
            let ends = match by {
                PausedBy::Both => format!(
                    "`sundown resume` and `sundown resume {node}` together end the pause: all \
                     drains are paused, and so is this node."
                ),
                PausedBy::Lease => "`sundown resume` ends the pause.".to_owned(),
                PausedBy::Node | PausedBy::Nothing => {
                    format!("`sundown resume {node}` ends the pause.")
                }
            };
            let text = format!(
                "The drain is paused: no pod is evicted or deleted. Heartbeats go on. {ends}"
            );
            (Warning, EventReason::Paused, text)
        }
        DrainEvent::Resumed { ends } => {
            let ends =
                ends.map_or_else(String::new, |at| format!(" It ends at {at:.0} at the latest."));
            (Normal, EventReason::Resumed, format!("The drain goes on.{ends}"))
        }
        DrainEvent::Blocked(text) => (Warning, EventReason::Blocked, text.clone()),
        DrainEvent::VolumesAttached(text) => (Normal, EventReason::VolumesAttached, text.clone()),
        DrainEvent::PodsComeBack(text) => (Warning, EventReason::PodsComeBack, text.clone()),
        DrainEvent::NoLongerManaged { is_ignored } => {
            let why = no_longer_managed(*is_ignored);
            let text = format!(
                "The drain ends because {why}. Its lifecycle actions are completed; its pods stay."
            );
            (Warning, EventReason::NoLongerManaged, text)
        }
        DrainEvent::Disproved => (
            Normal,
            EventReason::InterruptionDisproved,
            "The interruption was read late and no longer applies: the drain ends and the node is \
             restored."
                .to_owned(),
        ),
        DrainEvent::Contradicted => (
            Warning,
            EventReason::InterruptionContradicted,
            "AWS contradicts the lifecycle action: none is open, EC2 reports the instance as \
             running, and its group as in service. The drain ends and the node is restored."
                .to_owned(),
        ),
        DrainEvent::RecommendationExpired => (
            Normal,
            EventReason::RecommendationExpired,
            "No interruption followed the recommendation within --rebalance-ttl: the node is \
             restored."
                .to_owned(),
        ),
        DrainEvent::ChangeWithdrawn { why: Withdrawal::Canceled, nothing_holds: true } => (
            Normal,
            EventReason::ScheduledChangeCanceled,
            "AWS canceled the scheduled change: the node is restored.".to_owned(),
        ),
        DrainEvent::ChangeWithdrawn { why: Withdrawal::Moved, nothing_holds: true } => (
            Normal,
            EventReason::ScheduledChangeMoved,
            "AWS moved the scheduled change: the node is restored, and drained again before the \
             new start."
                .to_owned(),
        ),
        DrainEvent::RequestRefused { request, why } => {
            (Warning, EventReason::RequestRefused, request_refused(request, why))
        }
        DrainEvent::RequestsWithdrawn { names, nothing_holds } => {
            (Normal, EventReason::RequestWithdrawn, requests_withdrawn(names, *nothing_holds))
        }
        DrainEvent::Recovered => (
            Normal,
            EventReason::InstanceRecovered,
            "The instance has been healthy for 5 minutes: the node is restored.".to_owned(),
        ),
        DrainEvent::RestoreHeld => (
            Normal,
            EventReason::RestoreHeld,
            "The node is to be restored, and the annotation sundown.dev/keep-cordoned \
             holds that. Remove the annotation to restore it."
                .to_owned(),
        ),
        DrainEvent::InstanceReturned => (
            Normal,
            EventReason::InstanceReturned,
            "The instance is back in service: the node is restored".to_owned(),
        ),
        _ => return None,
    })
}

fn of_record(event: &DrainEvent) -> Option<NodeNote> {
    Some(match event {
        DrainEvent::RecordDamaged(error) => {
            (Severity::Warning, EventReason::RecordDamaged, error.clone())
        }
        DrainEvent::RecordVoid { instance, why } => {
            let message = format!(
                "The record of {instance} does not count: {}. Sundown undoes its changes{}.",
                void(*why),
                if *why == VoidReason::Rebooted { ", when the instance is back" } else { "" }
            );
            (Severity::Normal, EventReason::RecordVoid, message)
        }
        DrainEvent::RecordRestored(message) => {
            (Severity::Warning, EventReason::RecordRestored, (*message).to_owned())
        }
        _ => return None,
    })
}

fn of_hook(event: &DrainEvent) -> Option<NodeNote> {
    Some(match event {
        DrainEvent::HooksKeptOpen(hooks) => {
            let hooks: Vec<String> =
                hooks.iter().map(|o| format!("{}/{}", o.key.group, o.key.hook)).collect();
            (
                Severity::Normal,
                EventReason::HookKeptOpen,
                format!("kept open by heartbeats: {}", hooks.join(", ")),
            )
        }
        DrainEvent::ActionEnded(action, end) => {
            let (reason, text) = match end {
                ActionEnd::Completed(HookResult::Continue) => {
                    (EventReason::LifecycleCompleted, "completed with CONTINUE")
                }
                ActionEnd::Completed(HookResult::Abandon) => return Some(abandoned(action)),
                ActionEnd::AlreadyClosed => (EventReason::LifecycleOver, "was over already"),
                ActionEnd::NotOurs => (
                    EventReason::HookNotOurs,
                    "is left to its owner: the group has a hook whose name starts with sundown",
                ),
            };
            (
                Severity::Normal,
                reason,
                format!("Lifecycle hook {} of {} {text}", action.key.hook, action.key.instance),
            )
        }
        _ => return None,
    })
}

fn abandoned(action: &LifecycleAction) -> NodeNote {
    let HookKey { group, hook, instance } = &action.key;
    let message = format!(
        "Lifecycle hook {hook} of {instance} completed with ABANDON, because pods were left at the \
         deadline: group {group} retains the instance. It costs money until somebody terminates it."
    );
    (Severity::Warning, EventReason::InstanceRetained, message)
}

/// The Events about the end of a drain. `forced`: the pods that were deleted because they could not
/// be evicted in time. `skipped`: how many pods were left alone because they or rules ask for it.
pub(super) fn of_end(
    outcome: &Outcome,
    pods_are_known: bool,
    skipped: usize,
    took: Duration,
    forced: &[String],
) -> Vec<NodeNote> {
    let mut notes = Vec::new();
    if !forced.is_empty() {
        let message =
            format!("{} deleted, not evicted in time: {}", pods(forced.len()), list(forced));
        notes.push((Severity::Warning, EventReason::Forced, message));
    }
    let (left, how, took) = (outcome.left(), outcome.as_str(), Duration::from_secs(took.as_secs()));
    let skipped = match skipped {
        0 => String::new(),
        1 => "; 1 pod was left alone, as it or a rule asks".to_owned(),
        _ => format!("; {skipped} pods were left alone, as they or rules ask"),
    };
    let nothing_runs = matches!(outcome, Outcome::Empty | Outcome::InstanceOver);
    match outcome {
        Outcome::NotEvicted { .. } => {
            let message = format!(
                "the pods that are left stay, because neither --on nor a request asks to evict \
                 them; ended after {took:?}"
            );
            notes.push((Severity::Normal, EventReason::NotEvicted, message));
            return notes;
        }
        // The Events `RecommendationExpired` and `InterruptionContradicted` report it.
        Outcome::Expired { .. } | Outcome::Contradicted { .. } => return notes,
        _ => {}
    }
    notes.push(if left.is_empty() && !nothing_runs && !pods_are_known {
        (
            Severity::Warning,
            EventReason::DrainEnded,
            format!("ended after {took:?} ({how}) before its pods were listed"),
        )
    } else if left.is_empty() {
        (Severity::Normal, EventReason::Drained, format!("drained after {took:?} ({how}){skipped}"))
    } else {
        let (count, names) = (pods(left.len()), list(left));
        let message = format!("ended after {took:?} ({how}) with {count} left: {names}{skipped}");
        (Severity::Warning, EventReason::DrainEnded, message)
    });
    notes
}

/// The settings in force, as the end of a sentence; empty if all are those of the flags.
pub(super) fn settings(in_force: &[SettingInForce]) -> String {
    let all: Vec<String> = in_force.iter().map(ToString::to_string).collect();
    if all.is_empty() { String::new() } else { format!("; {}", all.join(", ")) }
}

pub(super) const fn void(why: VoidReason) -> &'static str {
    match why {
        VoidReason::OtherInstance => "it names another instance",
        VoidReason::Rebooted => "the machine has booted since, and no lifecycle hook waits",
    }
}

pub(super) const fn no_longer_managed(is_ignored: bool) -> &'static str {
    if is_ignored {
        "it carries the annotation sundown.dev/ignore"
    } else {
        "the node selector no longer matches it"
    }
}

#[cfg(test)]
mod tests;
