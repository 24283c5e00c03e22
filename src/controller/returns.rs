//! Instances that are back in service: their Nodes are put back as they were.

use std::sync::Arc;

use tracing::{debug, info, warn};

use super::{
    context::Term,
    hooks::{NamedBy, Proof},
    release,
};
use crate::{
    cluster::node_lease_renewed,
    domain::{Interruption, LifecycleAction, Moment, Node, Transition, seconds},
    fleet::DrainEvent,
    fleet::Input,
    record::{self, After, AwaitedBoot, AwsAnswer, MissingOfBoot, Released, Returned},
};

/// How long to wait for the answer to a heartbeat, which shows whether an action is open.
const HEARTBEAT_TIMEOUT: std::time::Duration = seconds(30);
/// After a drain ends, the index is read this many times, every 250 ms, until it shows that the
/// Node is as it was.
const LOOKS: u32 = 20;

/// What happened to a Node whose instance is back in service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReturnOutcome {
    /// Nothing: there was nothing to put back, or a terminate action is open.
    NotPutBack,
    /// The Node is as it was.
    PutBack,
    /// Not known yet. Try again.
    Retry,
    /// Nothing: AWS did not answer whether a terminate action is open.
    Unknown,
}

/// Puts the Node back as it was if the event reports that its instance is in service again, and no
/// terminate action of the instance is open. `absent_at`: see [`record::returned`].
pub(super) async fn put_back(
    term: &Term,
    node: &Arc<Node>,
    interruption: &Interruption,
    absent_at: Option<Moment>,
) -> ReturnOutcome {
    // Reads from the API server: at the beginning of a term the index may not show yet what there
    // is to put back.
    let node = &match term.shared.nodes.fetch(&node.name).await {
        Ok(Some(fresh)) if fresh.uid == node.uid => Arc::new(fresh),
        Ok(_) => return ReturnOutcome::NotPutBack,
        Err(error) => {
            debug!(
                node = %node.name, %error,
                "Cannot read the node of an instance that is back in service; trying again."
            );
            tokio::time::sleep(seconds(1)).await;
            return ReturnOutcome::Retry;
        }
    };
    let (open, ended) = match record::returned(node, interruption, absent_at) {
        Returned::Nothing => return ReturnOutcome::NotPutBack,
        Returned::RestoreNode => (Some(waits_again(term, interruption).await), None),
        Returned::EndDrain { actions, events } => (is_any_open(term, &actions).await, Some(events)),
    };
    match open {
        None => return ReturnOutcome::Unknown,
        Some(true) => {
            info!(
                node = %node.name, instance = %interruption.instance,
                "The instance was launched into its group, and a terminate action of it is open: \
                 its node is not put back.");
            return ReturnOutcome::NotPutBack;
        }
        Some(false) => {}
    }
    if let Some(events) = ended {
        // The fleet ends the drain, and its release puts the Node back.
        term.send(Input::Returned { node: node.name.clone(), uid: node.uid.clone(), events });
        for _ in 0..LOOKS {
            tokio::time::sleep(std::time::Duration::from_millis(250)).await;
            let now = term.shared.nodes.get(&node.name);
            let now = now.map(|node| record::returned(&node, interruption, absent_at));
            if now.is_none_or(|now| now == Returned::Nothing) {
                return ReturnOutcome::PutBack;
            }
        }
        return ReturnOutcome::Retry;
    }
    restore(term, Arc::clone(node)).await;
    ReturnOutcome::PutBack
}

/// Whether AWS shows the instance waiting in a terminate hook again, for an event that is yet to
/// come. `false` if AWS does not answer: the record is released, so its own actions are over.
async fn waits_again(term: &Term, interruption: &Interruption) -> bool {
    let Some(group) = interruption.group() else { return false };
    let now = tokio::time::Instant::now();
    let state = term.shared.lookups.members.state_since(group, &interruption.instance, now).await;
    state.is_ok_and(|state| state.is_some_and(|state| Transition::Terminating.holds(&state)))
}

/// Whether one of the actions of an open record is open: sends one heartbeat for each. `None`: AWS
/// did not answer one of them in time.
async fn is_any_open(term: &Term, actions: &[LifecycleAction]) -> Option<bool> {
    let asking = actions.iter().map(|action| async move {
        let now = term.shared.clock.now();
        let proving = term.actions.prove(action, now, NamedBy::Record);
        let proof = tokio::time::timeout(HEARTBEAT_TIMEOUT, proving).await.ok().flatten();
        if proof.is_none() {
            debug!(
                instance = %action.key.instance, hook = %action.key.hook,
                "AWS did not answer whether the action is open."
            );
        }
        proof
    });
    let proofs = futures::future::join_all(asking).await;
    if proofs.contains(&Some(Proof::Open)) {
        return Some(true);
    }
    proofs.iter().all(Option::is_some).then_some(false)
}

/// Puts the Node back as it was after AWS has shown, without an event, that its instance is back.
/// `false`: the Node was changed meanwhile, or the API server did not answer.
pub(super) async fn put_back_unreported(term: &Term, node: &Arc<Node>) -> bool {
    let fresh = match term.shared.nodes.fetch(&node.name).await {
        Ok(Some(fresh)) if fresh.uid == node.uid && fresh.record() == node.record() => fresh,
        Ok(_) => return false,
        Err(error) => {
            debug!(node = %node.name, %error, "Cannot read the node of an instance that is back.");
            return false;
        }
    };
    if record::awaited_return(&fresh).is_none() || !term.manages(&fresh) {
        return false;
    }
    restore(term, Arc::new(fresh)).await;
    true
}

async fn restore(term: &Term, node: Arc<Node>) {
    if !node.keeps_cordon() {
        term.report(&node.name, DrainEvent::InstanceReturned);
    }
    let after = After::Released(Released::new(term.aws_now(), "returned"));
    release::put_back_now(term, node, None, &after).await;
}

/// The pauses between two looks at a machine that has booted: short at first.
const SOON: std::time::Duration = seconds(3);
const LATER: std::time::Duration = seconds(20);
/// How many looks come after the short pause.
const SOON_LOOKS: u32 = 20;
/// How long a look lasts at most.
const LOOK_TIMEOUT: std::time::Duration = seconds(20);

/// Starts a task that puts back a Node whose record does not count. If the machine has booted since,
/// it first waits until the instance is shown to be back.
pub(super) fn put_back_ordered(term: &Term, node: Arc<Node>) {
    let task = term.clone();
    term.spawn(async move {
        let Some(node) = Box::pin(booted(&task, node)).await else { return };
        Box::pin(release::put_back_now(&task, node, None, &After::Removed)).await;
    });
}

/// Waits until the machine of the Node is back. Returns the Node then, at once if nothing has to be
/// shown. `None`: the Node is gone or its record is another one.
async fn booted(term: &Term, given: Arc<Node>) -> Option<Arc<Node>> {
    let (mut node, mut reported) = (given, None);
    for looks in 0_u32.. {
        let shown = term.shared.nodes.get(&node.name);
        match shown.filter(|shown| !shown.is_older_than(&node)) {
            Some(shown) if shown.uid != node.uid || shown.record() != node.record() => return None,
            Some(shown) => node = shown,
            // The index may lag behind the LIST that showed this Node, but not for long.
            None if looks > SOON_LOOKS => return None,
            None => {}
        }
        let Some(awaited) = record::awaited_boot(&node) else { return Some(node) };
        let looking = tokio::time::timeout(LOOK_TIMEOUT, missing(term, &node, &awaited));
        // A person may have asked meanwhile to keep it cordoned.
        match looking.await.ok().flatten() {
            Some(None) if !node.keeps_cordon() => return Some(node),
            Some(Some(missing)) if reported != Some(missing) => {
                reported = Some(missing);
                info!(
                    node = %node.name, instance = %awaited.instance, %missing,
                    "A machine has booted since its drain: its node stays cordoned until its \
                     instance is back."
                );
            }
            _ => {}
        }
        tokio::time::sleep(if looks < SOON_LOOKS { SOON } else { LATER }).await;
    }
    None
}

/// What does not show yet that the machine is back. The outer `None`: AWS or the API server did not
/// answer.
async fn missing(term: &Term, node: &Node, awaited: &AwaitedBoot) -> Option<Option<MissingOfBoot>> {
    // Costs no call while the kubelet does not report.
    if let Some(MissingOfBoot::Ready) = awaited.missing(node, None, &AwsAnswer::default()) {
        return Some(Some(MissingOfBoot::Ready));
    }
    let (lookups, now) = (&term.shared.lookups, tokio::time::Instant::now());
    let renewed = match node_lease_renewed(&term.shared.cluster, &node.name).await {
        Ok(renewed) => renewed,
        Err(error) => {
            unanswered(term, node, &error.to_string());
            return None;
        }
    };
    let instance = match lookups.instances.get_since(&awaited.instance, now).await {
        Ok((_, instance)) => instance,
        Err(error) => {
            unanswered(term, node, &error.to_string());
            return None;
        }
    };
    let state = match &awaited.group {
        Some(group) => lookups.members.state_since(group, &awaited.instance, now).await.ok()?,
        None => None,
    };
    let answer = AwsAnswer { group_state: state.as_deref(), instance: instance.as_deref() };
    Some(awaited.missing(node, renewed, &answer))
}

fn unanswered(term: &Term, node: &Node, error: &str) {
    if term.is_first_report("the return of a booted machine is not shown") {
        warn!(
            node = %node.name, error,
            "Cannot find out whether a machine that has booted is back: its node stays cordoned \
             until EC2 and the API server answer."
        );
    } else {
        debug!(node = %node.name, error, "No answer about a machine that has booted.");
    }
}
