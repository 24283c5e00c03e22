//! What the explanation of a drain says in the conditions of its Node and in the Event `Blocked`.

use super::texts::{list, pods};
use crate::{
    domain::Moment,
    drain::{BlockReason, BlockedPod, Blocker, Cause, Explanation, Wait},
    record::DrainConditions,
};

/// How many causes that block pods a condition names.
const NAMED: usize = 3;

/// The conditions of a Node whose drain goes on, and what they are about, without numbers and
/// times.
pub(super) fn conditions(explanation: &Explanation) -> (DrainConditions, String) {
    let cause = explanation.cause();
    let text = condition_text(explanation, cause);
    let about = match cause {
        Cause::Blocked(_) => {
            let name = |blocker: &Blocker| phrase(blocker.reason, &budgets(blocker));
            explanation.blockers().iter().take(NAMED).map(name).collect::<Vec<_>>().join(", ")
        }
        cause => cause.as_str().to_owned(),
    };
    (DrainConditions::new(true, false, cause.as_str(), &text), about)
}

/// The conditions of a Node whose drain has ended, while that is not written into its record yet,
/// and what they are about. `held_until`: until when gates hold the completion of its lifecycle
/// actions; `None`: none does.
pub(super) fn completing(held_until: Option<Moment>) -> (DrainConditions, String) {
    let (reason, about, text) = match held_until {
        Some(until) => (
            Cause::Waiting(Wait::Gate(until)).as_str(),
            "completion held by a gate",
            format!(
                "No pod is left; a gate (pre-release.sundown.dev) delays the completion of the \
                 lifecycle actions until {until:.0} at the latest"
            ),
        ),
        None => (
            "Completing",
            "Completing",
            "The drain has ended; Sundown completes the lifecycle actions as soon as nothing \
             delays that"
                .to_owned(),
        ),
    };
    (DrainConditions::new(true, false, reason, &text), about.to_owned())
}

fn condition_text(explanation: &Explanation, cause: Cause) -> String {
    let left = match explanation.counts.left {
        0 => "No pod is left".to_owned(),
        left => format!("{} left", pods(left)),
    };
    match cause {
        Cause::Listing => "The pods of the node are being listed".to_owned(),
        Cause::Marked => format!("{left}, and stay (--on)"),
        Cause::Paused => format!("{left}; a person has paused the drain"),
        Cause::Waiting(Wait::Aws) => {
            format!("{left}; the drain waits for AWS to confirm its interruption")
        }
        Cause::Waiting(Wait::Until(at)) => {
            format!("{left}; evictions begin at {at:.0} (--evict-after)")
        }
        Cause::Waiting(Wait::Replacement(at)) => format!(
            "{left}; evictions wait for a node that replaces this one, until {at:.0} at the latest \
             (--evict-after)"
        ),
        Cause::Waiting(Wait::Gate(until)) => format!(
            "{left}; a gate (pre-drain.sundown.dev) delays the evictions until {until:.0} at the \
             latest"
        ),
        Cause::Waiting(Wait::Pace(why, until)) => {
            let why = why.as_str();
            format!("{left}; evictions begin later, until {until:.0} at the latest, because {why}")
        }
        Cause::Volumes => {
            format!("{left}; the drain waits until the volumes of the pods are detached")
        }
        Cause::Evicting => {
            format!("{left}, {} not evicted yet{}", not_evicted(explanation), asked(explanation))
        }
        Cause::AskedToWait => format!("{left}{}", asked(explanation)),
        Cause::Terminating => format!("{left}, all terminating"),
        Cause::NoPodLeft => format!("{left}; the drain is about to end"),
        Cause::Ended => "The drain has ended".to_owned(),
        Cause::Blocked(_) => {
            let blockers = explanation.blockers();
            let mut texts: Vec<String> = blockers.iter().take(NAMED).map(blocker).collect();
            let more: usize = blockers.iter().skip(NAMED).map(|b| b.pods.len()).sum();
            if more > 0 {
                texts.push(format!("{more} blocked by other causes"));
            }
            let (texts, asked) = (texts.join(", "), asked(explanation));
            format!("{left}, {texts}{asked}. {}", forced(explanation.blocked_forced_from))
        }
    }
}

fn not_evicted(explanation: &Explanation) -> usize {
    let counts = &explanation.counts;
    counts.waiting + counts.later + counts.asked_to_wait + counts.unknown
}

/// "; 2 pods wait (sundown.dev/drain: wait) until 2026-01-01T00:30:00Z at the latest".
fn asked(explanation: &Explanation) -> String {
    let asked = explanation.asked_to_wait.iter().map(|asked| format!("; {}", asked.describe()));
    asked.collect::<Vec<_>>().concat()
}

/// "2 blocked by data/store since 2026-01-01T00:00:00Z".
fn blocker(blocker: &Blocker) -> String {
    let since = blocker.since.map_or_else(String::new, |at| format!(" since {at:.0}"));
    let named = budgets(blocker);
    let which = match blocker.pods.as_slice() {
        _ if !named.is_empty() => String::new(),
        [] => String::new(),
        [only] => format!(" ({only})"),
        [first, rest @ ..] => format!(" ({first} and {} more)", rest.len()),
    };
    format!("{} {}{which}{since}", blocker.pods.len(), phrase(blocker.reason, &named))
}

fn budgets(blocker: &Blocker) -> String {
    blocker.budgets.iter().take(NAMED).map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

/// What blocks a pod. `budgets`: the names of the budgets; empty: not known.
fn phrase(reason: BlockReason, budgets: &str) -> String {
    let text = match reason {
        BlockReason::Pdb if budgets.is_empty() => "blocked by a disruption budget",
        BlockReason::Pdb => return format!("blocked by {budgets}"),
        BlockReason::PdbLagging if budgets.is_empty() => {
            "blocked by a disruption budget with an outdated status"
        }
        BlockReason::PdbLagging => return format!("blocked by the outdated status of {budgets}"),
        BlockReason::TwoPdbs if budgets.is_empty() => "blocked by two disruption budgets at once",
        BlockReason::TwoPdbs => return format!("blocked by {budgets} at once"),
        BlockReason::Webhook => "blocked by an admission webhook or policy",
        BlockReason::NamespaceTerminating => "in a namespace that is being deleted",
        BlockReason::Rbac => "that Sundown may not evict",
        BlockReason::TerminatingStuck => "terminating for too long",
        BlockReason::Finalizer => "held by a finalizer",
        BlockReason::ApiOverload => "refused by an overloaded API server",
        BlockReason::Intercepted => "held by a webhook that intercepts evictions",
        BlockReason::NoSlot => "not evicted in time",
        BlockReason::Error => "whose eviction fails",
    };
    text.to_owned()
}

/// When blocked pods are deleted by force. `None`: they are not.
fn forced(from: Option<Moment>) -> String {
    from.map_or_else(
        || "No blocked pod is deleted by force.".to_owned(),
        |at| format!("Blocked pods are deleted by force from {at:.0} on."),
    )
}

/// The Event about blocked pods, without the end of the drain: which ones, by which budgets, and
/// when they are deleted by force.
pub(super) fn blocked_event(blocked: &[&BlockedPod]) -> String {
    let describe = |b: &&BlockedPod| {
        let budgets = b.budgets.iter().map(ToString::to_string);
        let causes: Vec<String> =
            [b.reason.as_str().to_owned()].into_iter().chain(budgets).collect();
        format!("{} ({})", b.pod, causes.join(" "))
    };
    let are = if blocked.len() == 1 { "pod is blocked" } else { "pods are blocked" };
    let texts: Vec<String> = blocked.iter().map(describe).collect();
    let until = forced(blocked.iter().filter_map(|b| b.forced_from).min());
    format!("{} {are}: {}. {until}", texts.len(), list(&texts))
}
