//! Writes of a Node that must succeed in the end: until then, what they say is known to this
//! process only.

use serde_json::Value;
use tracing::warn;

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
    /// There was nothing to write, from the beginning or any more.
    Unneeded,
    /// The Node is gone, or another one has its name.
    NodeGone,
}

/// Patches a Node, and tries again until one of the ends above. `body`: the patch for the Node as
/// it is now, or `None` if nothing is to be written. It is asked while no other task of this
/// process writes the Node: the wait for that can take half a minute. After each failure it is
/// asked again with the Node past the index. `what` is for the log: "put the node back".
pub(super) async fn patch_node(
    term: &Term,
    mut node: Node,
    what: &'static str,
    mut body: impl FnMut(&Node) -> Option<Value>,
) -> NodeWrite {
    let mut backoff = pauses();
    loop {
        let result = {
            let _gate = term.gate(&node.name).await;
            let Some(patch) = body(&node) else { return NodeWrite::Unneeded };
            term.nodes.patch(&node.name, &patch).await
        };
        let pause = match result {
            Ok(_) => return NodeWrite::Patched,
            Err(error) if error.problem == Problem::NotFound => return NodeWrite::NodeGone,
            Err(error) if error.problem == Problem::Conflict => {
                backoff.pause_after_conflict(&term.random)
            }
            Err(error) => {
                warn!(node = %node.name, %error, what, "A patch of the node failed; trying again.");
                backoff.pause(&term.random)
            }
        };
        tokio::time::sleep(pause).await;
        match read_node(term, &node.name).await.filter(|fresh| fresh.uid == node.uid) {
            Some(fresh) => node = fresh,
            None => return NodeWrite::NodeGone,
        }
    }
}

/// The Node past the index, `None` if it does not exist. While the API server cannot answer, asks
/// on.
pub(super) async fn read_node(term: &Term, name: &NodeName) -> Option<Node> {
    let mut backoff = pauses();
    loop {
        match term.nodes.fetch(name).await {
            Ok(node) => return node,
            Err(_) => tokio::time::sleep(backoff.pause(&term.random)).await,
        }
    }
}

/// The pauses between tries of a write of a Node.
const fn pauses() -> Backoff {
    Backoff::up_to(seconds(10))
}
