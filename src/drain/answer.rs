//! What an answer to an eviction or a delete means.
//!
//! The API server decides in the order of kubernetes `pkg/registry/core/pod/storage/eviction.go`.
//! API priority and fairness answers before it (`staging/src/k8s.io/apiserver/pkg/server/filters`).
//! Admission webhooks may answer anything.

use std::time::Duration;

use super::BlockReason;
use crate::domain::{ApiAnswer, seconds};

/// The meaning of an answer to an eviction or a delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// 2xx. This does not prove that the pod terminates: a webhook can answer so and keep the pod.
    /// Only its UID disappearing from the watch does.
    Accepted,
    /// 404 about the pod: it is gone.
    Gone,
    /// 409 about the UID: another pod has the name now, so this pod is gone.
    OtherUid,
    /// Any other 409: another client wrote at the same time.
    Conflict,
    /// 429 because of its disruption budget.
    Budget,
    /// 429 because of its disruption budget, whose status is behind its spec.
    BudgetLagging {
        /// How long to wait, from the answer, at most 30 s; 10 s if the answer has no time.
        retry_after: Duration,
    },
    /// 403 because its disruption budget is broken: its allowance is negative, or more than 2000
    /// evictions are not confirmed.
    BudgetBroken,
    /// 500: more than one disruption budget selects the pod.
    TwoBudgets,
    /// 429 because the API server is overloaded: no client should send anything.
    Overload {
        /// How long to send nothing, from the answer, at most 30 s; 1 s if the answer has no time.
        retry_after: Duration,
    },
    /// An admission webhook or policy refused, with whatever code. Some begin the eviction
    /// themselves and refuse ours (KubeVirt's 429: `Eviction triggered evacuation`).
    Webhook,
    /// 403: its namespace is being deleted. The namespace controller will delete the pod.
    NamespaceTerminating,
    /// Any other 403: Sundown lacks the RBAC rights.
    Forbidden,
    /// 401: the API server does not accept Sundown's credentials, or no longer. The Kubernetes
    /// client renews them.
    Unauthorized,
    /// No answer, or 5xx: the request may have had an effect. It is safe to repeat it, because the
    /// UID is a precondition.
    Transient,
    /// 400, 422 or an unexpected code: a fault of Sundown.
    Malformed,
}

impl Class {
    /// Every label, to initialize metrics.
    pub const WORDS: [&'static str; 15] = [
        "accepted",
        "gone",
        "other_uid",
        "conflict",
        "budget",
        "budget_lagging",
        "budget_broken",
        "two_budgets",
        "overload",
        "webhook",
        "namespace_terminating",
        "forbidden",
        "unauthorized",
        "transient",
        "malformed",
    ];

    /// Why the pod is blocked after this answer; `None`: it is not blocked.
    #[must_use]
    pub const fn blocks(self) -> Option<BlockReason> {
        Some(match self {
            Self::Accepted | Self::Gone | Self::OtherUid => return None,
            Self::Budget | Self::BudgetBroken => BlockReason::Pdb,
            Self::BudgetLagging { .. } => BlockReason::PdbLagging,
            Self::TwoBudgets => BlockReason::TwoPdbs,
            Self::Overload { .. } => BlockReason::ApiOverload,
            Self::Webhook => BlockReason::Webhook,
            Self::NamespaceTerminating => BlockReason::NamespaceTerminating,
            Self::Forbidden | Self::Unauthorized => BlockReason::Rbac,
            Self::Conflict | Self::Transient | Self::Malformed => BlockReason::Error,
        })
    }

    /// Label of the metric that counts evictions by answer.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Gone => "gone",
            Self::OtherUid => "other_uid",
            Self::Conflict => "conflict",
            Self::Budget => "budget",
            Self::BudgetLagging { .. } => "budget_lagging",
            Self::BudgetBroken => "budget_broken",
            Self::TwoBudgets => "two_budgets",
            Self::Overload { .. } => "overload",
            Self::Webhook => "webhook",
            Self::NamespaceTerminating => "namespace_terminating",
            Self::Forbidden => "forbidden",
            Self::Unauthorized => "unauthorized",
            Self::Transient => "transient",
            Self::Malformed => "malformed",
        }
    }
}

/// `reason` of a 429 that does not come from the eviction code: empty, or what kube-rs fills in if
/// the body is not a `Status`.
const NOT_JSON: [&str; 2] = ["", "Failed to parse error data"];
/// Beginnings of `message` in a JSON 429 that the API server sends when it cannot serve (kubernetes
/// apiserver `pkg/storage/cacher`, `pkg/server/filters`).
const SERVER_BUSY: [&str; 2] = ["storage is (re)initializing", "Too many requests"];
/// The pause after a 429 without `Retry-After`.
const DEFAULT_RETRY: Duration = seconds(1);
/// The longest wait that an answer can request: one odd answer of some proxy must not stop
/// everything for an hour.
const MAX_RETRY_AFTER: Duration = seconds(30);
/// The wait that the API server states for a budget whose status is behind its spec.
const LAGGING_RETRY: Duration = seconds(10);

/// Classifies an answer to an eviction or a delete. Code 0: no answer.
#[must_use]
pub fn classify(answer: &ApiAnswer) -> Class {
    let has_message = |text: &str| answer.message.contains(text);
    match answer.code {
        200..=299 => Class::Accepted,
        // Other 404s are not about the pod: a proxy's "404 page not found", a webhook that passes
        // on a 404 of its own, a namespace that was force-finalized with pods still in it.
        404 if answer.reason == "NotFound" && answer.message.starts_with("pods \"") => Class::Gone,
        409 if refused_by_admission(answer) => Class::Webhook,
        409 if has_message("UID in the precondition") || has_message("UID in precondition") => {
            Class::OtherUid
        }
        409 => Class::Conflict,
        429 => too_many(answer),
        403 if answer.has_cause("NamespaceTerminating") => Class::NamespaceTerminating,
        // Kubernetes before 1.37 sends no cause here.
        403 if answer.has_cause("DisruptionBudget")
            || has_message("pdb disruptions allowed is negative")
            || has_message("DisruptedPods map too big") =>
        {
            Class::BudgetBroken
        }
        500 if has_message("more than one PodDisruptionBudget") => Class::TwoBudgets,
        // A webhook that could not be called ("failed calling webhook") is also a 500: it may be
        // back soon.
        400..=499 if refused_by_admission(answer) => Class::Webhook,
        401 => Class::Unauthorized,
        403 => Class::Forbidden,
        0 | 404 | 408 | 500..=599 => Class::Transient,
        _ => Class::Malformed,
    }
}

/// Whether the call may have taken effect although no success was answered. A call that was never
/// sent has not, nor one that the API server refused because it could not call a webhook.
pub(super) fn may_have_taken_effect(answer: &ApiAnswer) -> bool {
    let was_refused = answer.code == 404 || answer.message.contains("failed calling webhook");
    classify(answer) == Class::Transient && !was_refused && !answer.was_held_back()
}

fn too_many(answer: &ApiAnswer) -> Class {
    let retry_after =
        |default: Duration| answer.retry_after.unwrap_or(default).min(MAX_RETRY_AFTER);
    if answer.has_cause("DisruptionBudget") {
        let lagging = answer.retry_after.is_some()
            || answer.causes.iter().any(|(_, m)| m.contains("still being processed"));
        return if lagging {
            Class::BudgetLagging { retry_after: retry_after(LAGGING_RETRY) }
        } else {
            Class::Budget
        };
    }
    let busy = NOT_JSON.contains(&answer.reason.as_str()) && answer.causes.is_empty()
        || SERVER_BUSY.iter().any(|m| answer.message.starts_with(m));
    if busy && !refused_by_admission(answer) {
        return Class::Overload { retry_after: retry_after(DEFAULT_RETRY) };
    }
    Class::Webhook
}

/// `admission webhook "x" denied the request: …`,
/// `ValidatingAdmissionPolicy 'x' with binding 'y' denied request: …`.
fn refused_by_admission(answer: &ApiAnswer) -> bool {
    answer.message.contains("admission webhook")
        || answer.message.contains("denied the request")
        || answer.message.contains("denied request")
}

/// Longest message that is kept, in characters: webhooks may send anything.
const MAX_MESSAGE: usize = 500;

/// The message of an answer with its causes. The message of a refusal by a budget is always the
/// same; its cause names the budget and the numbers.
pub(super) fn full_message(answer: &ApiAnswer) -> String {
    let causes = answer.causes.iter().map(|(_, message)| message.as_str());
    let parts: Vec<&str> =
        std::iter::once(answer.message.as_str()).chain(causes).filter(|m| !m.is_empty()).collect();
    let text = parts.join(" ");
    match text.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
