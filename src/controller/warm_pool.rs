//! Cordons the Node of an instance that is launched into a warm pool.

use std::sync::Arc;

use tracing::{info, warn};

use super::{
    context::Term,
    node_writer::{NodeWrite, patch_node},
};
use crate::{
    cluster::{About, EventNote, EventReason, Severity},
    domain::{Interruption, Moment, Node, seconds},
    record,
};

/// How long Sundown tries at least. The message may have been read after the launch timeout.
const LEAST: std::time::Duration = seconds(15);

/// Whether the Node of an instance that goes into a warm pool is cordoned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CordonOutcome {
    /// It is cordoned now, or there was nothing to write.
    Done,
    /// The Node is gone, or another one has its name.
    NodeGone,
    /// The API server did not accept the PATCH in time. That is logged.
    TimedOut,
}

/// Cordons the Node, so that no pod comes to it while its instance is in the pool. The launch hook
/// must be completed in time, whatever the API server does: after `--launch-timeout`, the instance
/// goes into the pool with its Node as it is. `ends`: when that timeout is over.
pub(super) async fn cordon(
    term: &Term,
    interruption: &Interruption,
    node: Arc<Node>,
    ends: Moment,
) -> CordonOutcome {
    let now = term.shared.clock.now();
    let ends = ends.max(now.plus(LEAST));
    let compat = term.shared.config.drain.compat;
    let name = node.name.clone();
    let write = patch_node(term, node, "cordon the node of a warm pool", |node| {
        let is_ours = term.manages(node);
        is_ours
            .then(|| record::into_warm_pool(node, interruption, term.aws_now(), compat))
            .flatten()
    });
    match tokio::time::timeout(ends.since_or_zero(now), write).await {
        Ok(NodeWrite::Patched) => {
            info!(
                node = %name, instance = %interruption.instance,
                "The instance goes into a warm pool: its node is cordoned until it leaves the pool."
            );
            term.note(EventNote {
                about: About::Node(name),
                severity: Severity::Normal,
                reason: EventReason::WarmPoolCordoned,
                message: format!(
                    "{} goes into the warm pool of its group: the node is cordoned until the \
                     instance leaves the pool.",
                    interruption.instance
                ),
            });
            CordonOutcome::Done
        }
        Ok(NodeWrite::Unneeded) => CordonOutcome::Done,
        Ok(NodeWrite::NodeGone) => CordonOutcome::NodeGone,
        Err(_) => {
            warn!(
                node = %name, instance = %interruption.instance,
                "Cannot cordon a node whose instance goes into a warm pool: the API server did not \
                 accept the PATCH until the launch timeout. Pods may come to a machine that is \
                 about to stop."
            );
            CordonOutcome::TimedOut
        }
    }
}
