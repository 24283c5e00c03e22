//! PATCHes of Nodes that must succeed in the end: until then, only this process knows what they
//! write.
//!
//! Two PATCHes are not retried here, because each failure can change what is to be written. After
//! a failed accept the interruption is decided again (`accept`). After each try to label a node the
//! fleet decides whether the node should still leave load balancers (`fleet::writes`).

use std::sync::Arc;

use futures::FutureExt;
use serde_json::Value;
use tracing::{debug, warn};

use super::context::Term;
use crate::{
    cluster::Problem,
    domain::{Node, NodeName, seconds},
    runtime::Backoff,
};

/// How a write of a Node ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeWrite {
    /// The patch was accepted.
    Patched,
    /// There was nothing to write, from the beginning or after a failed try.
    Unneeded,
    /// The Node is gone, or another one has its name.
    NodeGone,
}

/// Patches a Node, and retries until one of the ends in [`NodeWrite`]. `body` returns the patch for
/// the Node as it is now, or `None` if there is nothing to write. It is called while no other task
/// of this process writes the Node; the wait for that can take half a minute. After each failure it
/// is called again with the Node as the API server returns it. `what` is for the log, such as "put
/// the node back".
pub(super) async fn patch_node(
    term: &Term,
    mut node: Arc<Node>,
    what: &'static str,
    mut body: impl FnMut(&Arc<Node>) -> Option<Value>,
) -> NodeWrite {
    let mut backoff = pauses();
    loop {
        let result = {
            // The slot first. In the other order a task would hold the lock of its Node while it
            // waits for a slot, and block all other writes of that Node.
            let slot_and_lock =
                async { (term.node_write_slot().await, term.lock_node(&node.name).await) };
            let _held = report_wait(term, &node.name, what, slot_and_lock).await;
            let indexed =
                term.shared.nodes.get(&node.name).filter(|indexed| indexed.uid == node.uid);
            node = indexed.filter(|indexed| node.is_older_than(indexed)).unwrap_or(node);
            let Some(patch) = body(&node) else { return NodeWrite::Unneeded };
            // Boxed, as what follows: thousands of tasks that wait for a slot do not reserve
            // the memory of a request.
            Box::pin(term.shared.nodes.patch(&node.name, &patch)).await
        };
        let pause = match result {
            Ok(_) => return NodeWrite::Patched,
            Err(error) if error.problem == Problem::NotFound => return NodeWrite::NodeGone,
            Err(error) if error.problem == Problem::Conflict => {
                backoff.pause_after_conflict(&term.shared.random)
            }
            Err(error) => {
                warn!(node = %node.name, %error, what, "A patch of the node failed; trying again.");
                backoff.pause(&term.shared.random)
            }
        };
        tokio::time::sleep(pause).await;
        match Box::pin(read_node(term, &node.name)).await.filter(|fresh| fresh.uid == node.uid) {
            Some(fresh) => node = Arc::new(fresh),
            None => return NodeWrite::NodeGone,
        }
    }
}

/// Waits for `wait`, and logs every 30 s that it still waits. Only the first such line of a term is a
/// warning, the others are at the level debug: thousands of patches may wait. The wait cannot last
/// forever: every write ahead of it has a deadline, and the end of the term ends it.
async fn report_wait<T>(
    term: &Term,
    node: &NodeName,
    what: &str,
    wait: impl Future<Output = T>,
) -> T {
    let mut wait = std::pin::pin!(wait);
    if let Some(done) = wait.as_mut().now_or_never() {
        return done;
    }
    loop {
        // Boxed: only those that have to wait take the memory of a timer.
        let waited = Box::pin(tokio::time::timeout(REPORT_WAIT, wait.as_mut())).await;
        if let Ok(done) = waited {
            return done;
        }
        if term.is_first_report("patches of nodes wait") {
            warn!(
                %node, what,
                "A patch of the node still waits for other writes of this process. More that wait \
                 are logged at the level debug."
            );
        } else {
            debug!(%node, what, "A patch of the node still waits for other writes.");
        }
    }
}

/// Reads the Node from the API server, and retries until that succeeds. `None`: it does not exist.
pub(super) async fn read_node(term: &Term, name: &NodeName) -> Option<Node> {
    let mut backoff = pauses();
    loop {
        match term.shared.nodes.fetch(name).await {
            Ok(node) => return node,
            Err(_) => tokio::time::sleep(backoff.pause(&term.shared.random)).await,
        }
    }
}

/// How long a write waits for others until that is logged, and logged again.
const REPORT_WAIT: std::time::Duration = seconds(30);

/// The pauses between tries of a write of a Node.
const fn pauses() -> Backoff {
    Backoff::up_to(seconds(10))
}
