//! Writes the conditions `DrainInProgress` and `Drained` of Nodes.

use std::{sync::Arc, time::Duration};

use tracing::{debug, warn};

use super::context::Term;
use crate::{
    cluster::{Priority, Problem},
    domain::{Node, seconds},
    record::DrainConditionsChange,
};

/// How long a write may take. Another write of the Node, such as an accept, waits for it.
const LIMIT: Duration = seconds(2);
/// How long it may wait for a request slot: it holds the lock of the Node meanwhile. A slot is free
/// at once unless half of them are taken. If none is free in time, the fleet orders it again.
const SLOT_LIMIT: Duration = Duration::from_millis(250);

/// Writes the conditions, unless another write of the Node is under way. If that fails, the fleet
/// orders it again.
pub(super) async fn write(term: Term, node: Arc<Node>, change: DrainConditionsChange) {
    // The lock: the write changes the version of the Node, which other writes carry.
    let Some(_lock) = term.try_lock_node(&node.name) else { return };
    let patch = change.patch(&node.uid, term.shared.clock.now());
    let nodes = &term.shared.nodes;
    let write = nodes.patch_status(&node.name, &patch, Priority::Low, SLOT_LIMIT, LIMIT);
    match Box::pin(write).await {
        Ok(()) => {}
        Err(error)
            if matches!(error.problem, Problem::Forbidden | Problem::NotAdmitted)
                && term.is_first_report("the conditions of drains") =>
        {
            warn!(
                node = %node.name, %error,
                "Cannot set the conditions DrainInProgress and Drained of nodes. Drains do not \
                 depend on them. Allow `patch nodes/status` (chart: rbac.drainConditions), or leave \
                 out --drain-conditions."
            );
        }
        Err(error) => {
            debug!(node = %node.name, %error, "The conditions of a drain are not written yet.");
        }
    }
}
