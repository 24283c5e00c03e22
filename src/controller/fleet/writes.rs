//! The evictions, deletes and label PATCHes that the fleet orders.

use std::{sync::Arc, time::Duration};

use tracing::{debug, warn};

use crate::{
    cluster::Problem,
    controller::context::Term,
    domain::{ApiAnswer, ForceAfter, Node, PodKey, PodUid, seconds},
    drain::{DeleteWhy, Order},
    fleet::{Input, LabelWrite},
    record,
};

/// Sends an eviction or a delete, and returns the answer.
pub(super) async fn send(term: &Term, order: &Order, patience: Duration) -> ApiAnswer {
    match order {
        // An eviction without an answer times out before its pod must be deleted, both here and in
        // the API server.
        Order::Evict { pod, uid, grace } => {
            term.shared.cluster.evict(patience, pod, uid, *grace).await
        }
        Order::Delete { pod, uid, grace, why } => match why {
            DeleteWhy::Forced => {
                set_disruption_target(term, pod, uid).await;
                term.shared.cluster.delete_pod(pod, uid, Some(*grace)).await
            }
            // The Eviction API checks no budget for a pod that is already terminating, and needs no
            // right to delete pods.
            DeleteWhy::Shortened if term.shared.config.drain.force_after == ForceAfter::Never => {
                term.shared.cluster.evict(patience, pod, uid, Some(*grace)).await
            }
            DeleteWhy::Shortened => term.shared.cluster.delete_pod(pod, uid, Some(*grace)).await,
        },
    }
}

/// With `--disruption-target`: sets the condition DisruptionTarget of a pod that is about to be
/// deleted. A failure is only logged.
async fn set_disruption_target(term: &Term, pod: &PodKey, uid: &PodUid) {
    if !term.shared.config.drain.disruption_target {
        return;
    }
    match term.shared.cluster.set_disruption_target(pod, uid).await {
        // The pod is another one or gone. The DELETE shows the same.
        Err(error)
            if matches!(
                error.problem,
                Problem::NotFound | Problem::Conflict | Problem::HeldBack
            ) =>
        {
            debug!(%pod, %error, "The condition DisruptionTarget is not set.");
        }
        Err(error) => warn!(
            %pod, %error,
            "Cannot set the condition DisruptionTarget. The pod is deleted without it: the pod \
             failure policy of a Job may count a failure."
        ),
        Ok(()) => {}
    }
}

/// Labels a Node, so that it leaves load balancers, if one more node may leave them. Sends the
/// result to the fleet.
pub(super) fn exclude(term: &Term, node: Arc<Node>) {
    if !term.with_exclusion_limit(|limit| limit.take(&node.name)) {
        return term.send(Input::LabelWritten(node.name.clone(), LabelWrite::NoRoom));
    }
    let task = term.clone();
    term.spawn(async move {
        let seen = exclude_once(&task, &node).await;
        task.with_exclusion_limit(|limit| limit.settled(&node.name, seen.as_ref()));
        task.send(Input::LabelWritten(
            node.name.clone(),
            seen.map_or(LabelWrite::Failed, |seen| LabelWrite::Seen(Arc::new(seen))),
        ));
    });
}

/// Sends one PATCH, and returns the patched Node. After a failure it waits 250 ms (conflict) or 2 s
/// and returns the Node as read then, which may still lack the label. `None`: the Node could not be
/// read or no longer exists.
async fn exclude_once(term: &Term, node: &Node) -> Option<Node> {
    let result = {
        let _lock = term.lock_node(&node.name).await;
        // The index may not show the Node yet.
        let known = term.shared.nodes.get(&node.name).filter(|n| n.uid == node.uid);
        let known = known.as_deref().unwrap_or(node);
        let Some(body) = record::exclude(known) else { return Some(known.clone()) };
        term.shared.nodes.patch(&node.name, &body).await
    };
    let Err(error) = result else { return result.ok() };
    if error.problem == Problem::Conflict {
        tokio::time::sleep(Duration::from_millis(250)).await;
    } else {
        warn!(node = %node.name, %error, "Cannot take the node out of load balancers yet; trying \
            again.");
        tokio::time::sleep(seconds(2)).await;
    }
    // Read from the API server, because the index may be minutes behind, and the API server would
    // refuse the same patch again and again.
    term.shared.nodes.fetch(&node.name).await.ok().flatten().filter(|n| n.uid == node.uid)
}
