//! Accepts an interruption, also if several Nodes claim its instance (`triage/claims.rs` decides
//! what happens to each).

use std::time::Duration;

use tracing::warn;

use super::{
    accept::{self, Accepted, Tries},
    context::Term,
};
use crate::{
    cluster::{About, EventNote, EventReason, Problem, Severity},
    domain::{Interruption, Moment, Node, NodeName, seconds},
    fleet::Input,
    record,
    triage::{self, OtherClaims},
};

/// How many tries the PATCH that cordons a Node gets, after conflicts.
const TRIES: usize = 5;
/// How long EC2 may take to confirm the Node of a drain that has begun, and how old its answer may
/// be.
const ANSWERED_WITHIN: Duration = seconds(5);
const MAX_AGE: Duration = seconds(300);

/// When the drain of the Node begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DrainBegins {
    Now,
    /// When its scheduled change is near.
    Later,
}

/// Accepts an interruption for its Node, and for every other Node that is drained with it. `None`:
/// it failed for one of them and must be tried again.
pub(super) async fn accept(
    term: &Term,
    interruption: &Interruption,
    verdict: &triage::Accept,
    happened: Moment,
    sent: Option<Moment>,
    tries: &mut Tries,
) -> Option<Accepted> {
    let others = verdict.others.nodes();
    if !others.is_empty() {
        warn_of(term, verdict, DrainBegins::Now);
    }
    if let OtherClaims::Drain(others) = &verdict.others {
        // Sent before the first record is written: the drain of one node may be over before that of
        // another begins.
        let nodes = others
            .iter()
            .map(|node| node.name.clone())
            .chain([verdict.node.name.clone()])
            .collect();
        term.send(Input::Claimed { instance: verdict.instance.clone(), nodes });
    }
    // A failure for one Node does not stop the others: a kubelet can make its own Node impossible
    // to write.
    let mut accepted = accept::accept(term, interruption, verdict, happened, sent, tries).await;
    for node in others {
        if matches!(verdict.others, OtherClaims::Cordon(_)) {
            Box::pin(cordon(term, node)).await;
        } else {
            let verdict =
                triage::Accept { node: node.clone(), others: OtherClaims::None, ..verdict.clone() };
            let other = accept::accept(term, interruption, &verdict, happened, sent, tries).await;
            accepted = accepted.zip(other).map(|(one, other)| one.and(other));
        }
    }
    accepted
}

/// Reports which of several Nodes that claim an instance is drained.
pub(super) fn warn_of(term: &Term, verdict: &triage::Accept, begins: DrainBegins) {
    let claimants: Vec<&NodeName> = verdict.others.nodes().iter().map(|node| &node.name).collect();
    let others: Vec<&str> = claimants.iter().map(|name| name.as_str()).collect();
    let names = others.join(", ");
    let (node, instance) = (&verdict.node.name, &verdict.instance);
    let several = format!("Several nodes claim instance {instance}");
    let message = match (&verdict.others, begins) {
        (OtherClaims::Cordon(_), DrainBegins::Now) => {
            format!("{several}. EC2 confirms {node}, which is drained. Only cordoned: {names}.")
        }
        (OtherClaims::Cordon(_), DrainBegins::Later) => format!(
            "{several}. EC2 confirms {node}, which will be drained for a scheduled change. If EC2 \
             still confirms it then, these will only be cordoned: {names}."
        ),
        (_, DrainBegins::Now) => {
            format!("{several} and EC2 confirms none of them. All are drained: {node}, {names}.")
        }
        (_, DrainBegins::Later) => format!(
            "{several} and EC2 confirms none of them. All will be drained for a scheduled change: \
             {node}, {names}."
        ),
    };
    if term.is_first_report(&format!("{instance} {node} {names} {begins:?}")) {
        warn!(instance = %instance, node = %node, ?others, "{message}");
    }
    for name in claimants.into_iter().chain([node]) {
        let (severity, reason) = (Severity::Warning, EventReason::DuplicateProviderID);
        term.note(EventNote {
            about: About::Node(name.clone()),
            severity,
            reason,
            message: message.clone(),
        });
    }
}

/// Cordons the other Nodes that claim the instance of an accepted scheduled change, if EC2 confirms
/// the accepted Node. A failure is not retried: it only leaves them schedulable.
pub(super) async fn cordon_others(term: &Term, verdict: &triage::Accept) {
    let (shared, instance) = (&term.shared, &verdict.instance);
    let nodes = shared.nodes.by_instance(instance);
    if nodes.len() < 2 {
        return;
    }
    let since = shared.clock.past_instant(shared.clock.now().minus(MAX_AGE));
    let asking = shared.lookups.instances.get_since(instance, since);
    let Ok(Ok((_, facts))) = tokio::time::timeout(ANSWERED_WITHIN, asking).await else {
        let names = nodes.iter().map(|node| &node.name);
        let names: Vec<_> = names.filter(|name| **name != verdict.node.name).collect();
        warn!(
            node = %verdict.node.name, %instance, others = ?names,
            "Other nodes claim the instance, and EC2 does not answer which one is its own: they \
             stay as they are, and pods may come to them."
        );
        for name in nodes.iter().map(|node| node.name.clone()) {
            term.note(EventNote {
                about: About::Node(name),
                severity: Severity::Warning,
                reason: EventReason::DuplicateProviderID,
                message: format!(
                    "Several nodes claim {instance}, and EC2 does not answer which one is its own. \
                     {} is drained, and the others stay as they are.",
                    verdict.node.name
                ),
            });
        }
        return;
    };
    let others =
        triage::others_of(&verdict.node, nodes, facts.as_deref(), |node| term.manages(node));
    if others.nodes().is_empty() {
        return;
    }
    let verdict = triage::Accept { others, ..verdict.clone() };
    warn_of(term, &verdict, DrainBegins::Now);
    for node in verdict.others.nodes() {
        Box::pin(cordon(term, node)).await;
    }
}

/// Cordons a Node, and nothing else. A failure is logged and not retried: it only leaves the Node
/// schedulable.
async fn cordon(term: &Term, node: &Node) {
    let _lock = term.lock_node(&node.name).await;
    let mut seen = term.shared.nodes.get(&node.name).map(|node| (*node).clone());
    for _ in 0..TRIES {
        let Some(node) = seen.filter(|seen| seen.uid == node.uid && term.manages(seen)) else {
            return;
        };
        let Some(patch) = record::cordon(&node) else { return };
        let Err(error) = term.shared.nodes.patch(&node.name, &patch).await else { return };
        if error.problem != Problem::Conflict {
            warn!(node = %node.name, %error, "Cannot cordon a node that claims the instance of \
                another node. It stays schedulable.");
            return;
        }
        seen = term.shared.nodes.fetch(&node.name).await.ok().flatten();
    }
}
