//! What holds a pod, as far as disruption budgets say: for a reader that has asked for no eviction
//! itself.

use std::borrow::Borrow;

use super::{
    BlockReason,
    lane::{effective, unready_may_go},
};
use crate::domain::{Budget, Phase, Pod};

/// Why the API server would refuse the eviction of a pod, and on whose account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held<'a> {
    /// `Pdb`, `PdbLagging` or `TwoPdbs`.
    pub reason: BlockReason,
    /// The budgets that count the pod.
    pub budgets: Vec<&'a Budget>,
}

/// What holds `pod`, by the budgets of the cluster. `None`: no budget does.
///
/// The order of the answers is that of the API server (kubernetes
/// `pkg/registry/core/pod/storage/eviction.go`): budgets do not hold a pod that does not run yet,
/// has finished or is terminating.
#[must_use]
pub fn held_by<'a, B: Borrow<Budget>>(pod: &Pod, budgets: &'a [B]) -> Option<Held<'a>> {
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
    Some(Held { reason, budgets })
}
