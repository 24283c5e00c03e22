//! Instances that are back in service without a new boot: their Nodes are put back as they were.

use std::sync::Arc;

use tracing::{debug, info};

use super::{
    context::Term,
    hooks::{Proof, Source},
    release,
};
use crate::{
    domain::{Interruption, LifecycleAction, Node, Transition, seconds},
    fleet::DrainEvent,
    fleet::Input,
    record::{self, After, Released, Returned},
};

/// For this long a heartbeat is waited for that tells whether an action is open.
const PATIENCE: std::time::Duration = seconds(30);
/// A drain that ends, and the index after it, are given this long, in looks of a quarter second.
const LOOKS: u32 = 20;

/// What became of a Node whose instance is back in service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Back {
    /// There was nothing to put back.
    No,
    /// It is as it was.
    Restored,
    /// Look at it again.
    Again,
    /// AWS did not say whether a terminate action is open.
    Untold,
}

/// Puts the Node back if the event says that its instance is in service again, and nothing speaks
/// against it.
pub(super) async fn put_back(term: &Term, node: &Arc<Node>, interruption: &Interruption) -> Back {
    // Past the index, which may be behind at the beginning of a term: it may not show yet what
    // there is to put back.
    let node = &match term.nodes.fetch(&node.name).await {
        Ok(Some(fresh)) if fresh.uid == node.uid => fresh,
        Ok(_) => return Back::No,
        Err(error) => {
            debug!(
                node = %node.name, %error,
                "Cannot read the node of an instance that is back in service; trying again."
            );
            tokio::time::sleep(seconds(1)).await;
            return Back::Again;
        }
    };
    let (open, ended) = match record::returned(node, interruption) {
        Returned::Nothing => return Back::No,
        Returned::Restore => (Some(waits_again(term, interruption).await), None),
        Returned::EndDrain { actions, events } => (is_any_open(term, &actions).await, Some(events)),
    };
    match open {
        None => return Back::Untold,
        Some(true) => {
            info!(
                node = %node.name, instance = %interruption.instance,
                "The instance was launched into its group, and a terminate action of it is open: \
                 its node is not put back.");
            return Back::No;
        }
        Some(false) => {}
    }
    if let Some(events) = ended {
        // The drain ends, and its release puts the Node back.
        term.send(Input::Returned { node: node.name.clone(), uid: node.uid.clone(), events });
        for _ in 0..LOOKS {
            tokio::time::sleep(std::time::Duration::from_millis(250)).await;
            let now = term.nodes.get(&node.name).map(|n| record::returned(&n, interruption));
            if now.is_none_or(|now| now == Returned::Nothing) {
                return Back::Restored;
            }
        }
        return Back::Again;
    }
    term.report(&node.name, DrainEvent::InstanceReturned);
    release::put_back_now(
        term,
        node,
        None,
        &After::Released(Released::new(term.aws_now(), "returned")),
    )
    .await;
    Back::Restored
}

/// AWS shows the instance waiting for another termination, whose event is yet to come. Where AWS
/// cannot be asked, the record tells enough: it is released, so its own actions are over.
async fn waits_again(term: &Term, interruption: &Interruption) -> bool {
    let Some(group) = interruption.group() else { return false };
    let now = tokio::time::Instant::now();
    let state = term.lookups.members.state_since(group, &interruption.instance, now).await;
    state.is_ok_and(|state| state.is_some_and(|state| Transition::Terminating.holds(&state)))
}

/// One heartbeat for each action of an open record tells whether it is open. `None`: AWS did not
/// say.
async fn is_any_open(term: &Term, actions: &[LifecycleAction]) -> Option<bool> {
    for action in actions {
        let proof = tokio::time::timeout(
            PATIENCE,
            term.hooks.prove(action, term.clock.now(), Source::Record),
        )
        .await;
        match proof.ok().flatten() {
            Some(Proof::Gone) => {}
            Some(Proof::Open) => return Some(true),
            None => {
                debug!(
                    instance = %action.key.instance, hook = %action.key.hook,
                    "No heartbeat told whether the action is open."
                );
                return None;
            }
        }
    }
    Some(false)
}
