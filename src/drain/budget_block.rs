//! Whether disruption budgets block the eviction of a pod, for a reader that sends no eviction
//! itself (`sundown status`, Events on Nodes).

use std::borrow::Borrow;

use super::{
    BlockReason,
    request_queue::{effective, unready_may_go},
};
use crate::domain::{Budget, Phase, Pod};

/// Why the API server would refuse the eviction of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetBlock<'a> {
    /// `Pdb`, `PdbLagging` or `TwoPdbs`.
    pub reason: BlockReason,
    /// The budgets that select the pod.
    pub budgets: Vec<&'a Budget>,
}

/// Whether a budget of the cluster blocks the eviction of `pod`, and which. `None`: no budget does.
///
/// The checks are in the order of the API server (kubernetes
/// `pkg/registry/core/pod/storage/eviction.go`): budgets do not protect a pod that does not run
/// yet, has finished or is terminating.
#[must_use]
pub fn blocked_by_budgets<'a, B: Borrow<Budget>>(
    pod: &Pod,
    budgets: &'a [B],
) -> Option<BudgetBlock<'a>> {
    if pod.phase == Phase::Pending || pod.phase.is_finished() || pod.deletion.is_some() {
        return None;
    }
    let budgets: Vec<&Budget> =
        budgets.iter().map(Borrow::borrow).filter(|budget| budget.selects(pod)).collect();
    let reason = match budgets.as_slice() {
        [only] if !pod.ready && unready_may_go(only) => return None,
        [only] if only.observed < only.generation => BlockReason::PdbLagging,
        [only] if effective(only) == 0 => BlockReason::Pdb,
        [] | [_] => return None,
        _ => BlockReason::TwoPdbs,
    };
    Some(BudgetBlock { reason, budgets })
}
