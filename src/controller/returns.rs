//! Instances that are back in service without a new boot: their Nodes are put back as they were.

use std::sync::Arc;

use tracing::{debug, info};

use super::{
    context::Term,
    foreman::Word,
    hooks::{Proof, Source},
    release,
};
use crate::{
    cluster::{About, EventNote, EventReason, Severity},
    domain::{Interruption, Moment, Node, OwedHook, seconds},
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

/// Puts the Node back if the event says that its instance is in service again, and nothing speaks against it.
pub(super) async fn put_back(term: &Term, node: &Arc<Node>, interruption: &Interruption) -> Back {
    let (actions, ended) = match record::returned(node, interruption) {
        Returned::Nothing => return Back::No,
        Returned::Restore(actions) => (actions, None),
        Returned::EndDrain { actions, events } => (actions, Some(events)),
    };
    match is_any_open(term, &actions, interruption.time).await {
        None => return Back::Untold,
        Some(true) => {
            info!(node = %node.name, instance = %interruption.instance, "The instance was launched into its group, and a terminate action of it is open: its node is not put back.");
            return Back::No;
        }
        Some(false) => {}
    }
    if let Some(events) = ended {
        // The drain ends, and its release puts the Node back.
        term.tell(Word::Returned { node: node.name.clone(), uid: node.uid.clone(), events });
        for _ in 0..LOOKS {
            tokio::time::sleep(std::time::Duration::from_millis(250)).await;
            let now = term.nodes.get(&node.name).map(|n| record::returned(&n, interruption));
            if now.is_none_or(|now| now == Returned::Nothing) {
                return Back::Restored;
            }
        }
        return Back::Again;
    }
    note(term, node);
    release::put_back_now(term, node, None, &After::Released(Released::new(term.clock.now(), "returned"))).await;
    Back::Restored
}

/// One heartbeat for each action tells whether it is open. `None`: AWS did not say.
async fn is_any_open(term: &Term, actions: &[OwedHook], event: Option<Moment>) -> Option<bool> {
    for action in actions {
        // Whatever is open for the hook and the instance counts, also an action that is later than the record.
        let any = OwedHook { key: action.key.clone(), token: None };
        let event = event.unwrap_or_else(|| term.clock.now());
        let proof = tokio::time::timeout(PATIENCE, term.hooks.prove(&any, event, Source::Record)).await;
        // A task that was begun for this question ends here; one that keeps an action of ours alive has other names.
        term.hooks.forget(&any);
        match proof.ok().flatten() {
            Some(Proof::Gone) => {}
            Some(Proof::Open) => return Some(true),
            None => {
                debug!(instance = %any.key.instance, hook = %any.key.hook, "No heartbeat told whether the action is open.");
                return None;
            }
        }
    }
    Some(false)
}

/// The Event on the Node.
pub(super) fn note(term: &Term, node: &Node) {
    info!(node = %node.name, "The instance is back in service without a new boot: its node is put back as it was.");
    term.note(EventNote {
        about: About::Node(node.name.clone()),
        severity: Severity::Normal,
        reason: EventReason::InstanceReturned,
        message: "The instance is back in service: the node is put back as it was".to_owned(),
    });
}
