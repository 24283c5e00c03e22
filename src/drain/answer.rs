//! What an answer to an eviction or a delete means.
//!
//! The order of decisions on the server's side is in kubernetes
//! `pkg/registry/core/pod/storage/eviction.go`; API priority and fairness answers in front of it
//! (`staging/src/k8s.io/apiserver/pkg/server/filters`), admission webhooks may answer anything.

use std::time::Duration;

use super::BlockReason;
use crate::domain::{ApiAnswer, seconds};

/// What an answer to an eviction or a delete means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// 2xx. No proof: webhooks answer so while the pod lives on. Its UID must be seen gone.
    Accepted,
    /// 404 about the pod: it is gone.
    Gone,
    /// 409 about the UID: another pod has its name by now, so this one is gone.
    OtherUid,
    /// 409 otherwise: somebody else wrote at the same time.
    Conflict,
    /// 429 by its disruption budget.
    Budget,
    /// 429 by its disruption budget whose status is behind its spec.
    BudgetLagging {
        /// When the server thinks that it is worth another try.
        retry_after: Duration,
    },
    /// 403 by the state of its disruption budget: negative allowance, or more than 2000 evictions
    /// not confirmed.
    BudgetBroken,
    /// 500: more than one disruption budget counts it.
    TwoBudgets,
    /// 429 by the API server's own limits: it has too much to do, for all of us.
    Overload {
        /// How long nothing is to be sent.
        retry_after: Duration,
    },
    /// An admission webhook or policy refused, with whatever code. Some start what we want by
    /// refusing (KubeVirt's 429: `Eviction triggered evacuation`).
    Webhook,
    /// 403: its namespace is being deleted. The namespace controller will delete the pod.
    NamespaceTerminating,
    /// 403 otherwise: our rights do not suffice.
    Forbidden,
    /// 401: our credentials are not accepted, or not any more. They are renewed beneath us.
    Unauthorized,
    /// No answer, or 5xx: it may or may not have had an effect. Repeating is harmless thanks to the
    /// UID.
    Transient,
    /// 400, 422 or a code that should not be: our fault.
    Malformed,
}

impl Class {
    /// Every label, for initialising metrics.
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

    /// What it says of the pod that was asked for; `None` where the pod goes.
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

    /// The label of metrics: evictions by answer.
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

/// Reasons of 429 that no eviction logic gave: none, or what kube-rs puts where the body is no
/// `Status`.
const NOT_JSON: [&str; 2] = ["", "Failed to parse error data"];
/// What the API server itself says in a JSON 429 when it cannot serve (kubernetes apiserver
/// `pkg/storage/cacher`, `pkg/server/filters`).
const SERVER_BUSY: [&str; 2] = ["storage is (re)initializing", "Too many requests"];
/// 429 without `Retry-After`.
const DEFAULT_RETRY: Duration = seconds(1);
/// No longer is waited because a server said so: one odd answer of some proxy must not stop
/// everything for an hour.
const RETRY_AT_MOST: Duration = seconds(30);
/// What the server says for a budget whose status is behind its spec.
const LAGGING_RETRY: Duration = seconds(10);

/// Says what an answer to an eviction or a delete means.
#[must_use]
pub fn classify(answer: &ApiAnswer) -> Class {
    let says = |text: &str| answer.message.contains(text);
    match answer.code {
        200..=299 => Class::Accepted,
        // Others say nothing of the pod: a proxy's "404 page not found", a webhook that passes on a
        // 404 of its own, a namespace that was force-finalised with pods still in it.
        404 if answer.reason == "NotFound" && answer.message.starts_with("pods \"") => Class::Gone,
        409 if refused_by_admission(answer) => Class::Webhook,
        409 if says("UID in the precondition") || says("UID in precondition") => Class::OtherUid,
        409 => Class::Conflict,
        429 => too_many(answer),
        403 if answer.has_cause("NamespaceTerminating") => Class::NamespaceTerminating,
        403 if says("pdb disruptions allowed is negative") || says("DisruptedPods map too big") => {
            Class::BudgetBroken
        }
        500 if says("more than one PodDisruptionBudget") => Class::TwoBudgets,
        // A webhook that could not be called ("failed calling webhook") is 500 as well: it may be
        // back soon.
        400..=499 if refused_by_admission(answer) => Class::Webhook,
        401 => Class::Unauthorized,
        403 => Class::Forbidden,
        0 | 404 | 408 | 500..=599 => Class::Transient,
        _ => Class::Malformed,
    }
}

/// Whether the call may have taken effect although its success was not answered. A call that was
/// never sent has not, nor one that the API server refused because it could not ask a webhook.
pub(super) fn may_have_taken_effect(answer: &ApiAnswer) -> bool {
    let was_refused = answer.code == 404 || answer.message.contains("failed calling webhook");
    classify(answer) == Class::Transient && !was_refused && !answer.was_held_back()
}

fn too_many(answer: &ApiAnswer) -> Class {
    let retry_after = |default: Duration| answer.retry_after.unwrap_or(default).min(RETRY_AT_MOST);
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

/// The most that is kept of what a server says: webhooks may say anything.
const WORDS_AT_MOST: usize = 500;

/// What the server said, its causes included: the message of a refusal by a budget is always the
/// same, its cause names budget and numbers.
pub(super) fn words(answer: &ApiAnswer) -> String {
    let causes = answer.causes.iter().map(|(_, message)| message.as_str());
    let parts: Vec<&str> =
        std::iter::once(answer.message.as_str()).chain(causes).filter(|m| !m.is_empty()).collect();
    let text = parts.join(" ");
    match text.char_indices().nth(WORDS_AT_MOST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
