//! Instances that are back in service: their Nodes are restored.

use std::{fmt, sync::Arc};

use tracing::{debug, info, warn};

use super::{
    context::Term,
    hooks::{NamedBy, Proof},
    release,
};
use crate::{
    cluster::{About, EventNote, EventReason, Severity, node_lease_renewed},
    domain::{Interruption, LifecycleAction, Moment, Node, seconds},
    fleet::DrainEvent,
    fleet::Input,
    record::{self, After, AwaitedBoot, AwsAnswer, BootChecks, MissingOfBoot, Released, Returned},
};

/// How long to wait for the answer to a heartbeat, which shows whether an action is open.
const HEARTBEAT_TIMEOUT: std::time::Duration = seconds(30);
/// After a drain ends, the index is read this many times, every 250 ms, until it shows that the
/// Node is as it was.
const LOOKS: u32 = 20;

/// What happened to a Node whose instance is back in service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReturnOutcome {
    /// Nothing: there was nothing to restore, or a terminate action is open.
    NotRestored,
    /// The Node has been restored.
    Restored,
    /// Not known yet. Try again.
    Retry,
    /// Nothing: AWS did not answer whether a terminate action is open.
    Unknown,
}

/// Restores the Node if the event reports that its instance is in service again, and no
/// terminate action of the instance is open. `absent_at`: see [`record::returned`].
pub(super) async fn restore_reported(
    term: &Term,
    node: &Arc<Node>,
    interruption: &Interruption,
    absent_at: Option<Moment>,
) -> ReturnOutcome {
    // Reads from the API server: at the beginning of a term the index may not show yet what there
    // is to restore.
    let node = &match term.shared.nodes.fetch(&node.name).await {
        Ok(Some(fresh)) if fresh.uid == node.uid => Arc::new(fresh),
        Ok(_) => return ReturnOutcome::NotRestored,
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
        Returned::Nothing => return ReturnOutcome::NotRestored,
        Returned::RestoreNode => (Some(waits_again(term, interruption).await), None),
        Returned::EndDrain { actions, events } => (is_any_open(term, &actions).await, Some(events)),
    };
    match open {
        None => return ReturnOutcome::Unknown,
        Some(true) => {
            info!(
                node = %node.name, instance = %interruption.instance,
                "The instance was launched into its group, and a terminate action of it is open: \
                 its node is not restored.");
            return ReturnOutcome::NotRestored;
        }
        Some(false) => {}
    }
    if let Some(events) = ended {
        // The fleet ends the drain, and its release restores the Node.
        term.send(Input::Returned { node: node.name.clone(), uid: node.uid.clone(), events });
        for _ in 0..LOOKS {
            tokio::time::sleep(std::time::Duration::from_millis(250)).await;
            let now = term.shared.nodes.get(&node.name);
            let now = now.map(|node| record::returned(&node, interruption, absent_at));
            if now.is_none_or(|now| now == Returned::Nothing) {
                return ReturnOutcome::Restored;
            }
        }
        return ReturnOutcome::Retry;
    }
    restore(term, Arc::clone(node)).await;
    ReturnOutcome::Restored
}

/// Asks AWS whether the instance waits in a terminate hook again.
async fn waits_again(term: &Term, interruption: &Interruption) -> bool {
    let Some(group) = interruption.group() else { return false };
    let now = tokio::time::Instant::now();
    let state = term.shared.lookups.members.state_since(group, &interruption.instance, now).await;
    record::waits_to_end_again(state.ok().flatten().as_deref())
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

/// Restores the Node after AWS has shown, without an event, that its instance is back.
/// `false`: the Node was changed meanwhile, or the API server did not answer.
pub(super) async fn restore_unreported(term: &Term, node: &Arc<Node>) -> bool {
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
    release::restore_now(term, node, None, &after).await;
}

/// The pauses between two looks at a machine that has booted: short at first.
const SOON: std::time::Duration = seconds(3);
const LATER: std::time::Duration = seconds(20);
/// How many looks come after the short pause.
const SOON_LOOKS: u32 = 20;
/// How long a question lasts at most.
const LOOK_TIMEOUT: std::time::Duration = seconds(20);
/// How old an answer of AWS may be. Machines that boot at the same time share the calls.
const MAX_ANSWER_AGE: std::time::Duration = seconds(5);

/// Starts a task that restores a Node whose record does not count. If the machine has booted since,
/// it first waits until the instance is shown to be back.
pub(super) fn restore_ordered(term: &Term, node: Arc<Node>) {
    let task = term.clone();
    term.spawn(async move {
        let Some((node, after)) = Box::pin(booted(&task, node)).await else { return };
        Box::pin(release::restore_now(&task, node, None, &after)).await;
    });
}

/// Waits until the machine of the Node is back. Returns the Node then, at once if nothing has to be
/// shown, and what happens to its record. `None`: the Node is gone or its record is another one.
async fn booted(term: &Term, given: Arc<Node>) -> Option<(Arc<Node>, After)> {
    let mut node = given;
    let mut checks = BootChecks::default();
    for looks in 0_u32.. {
        let shown = term.shared.nodes.get(&node.name);
        match shown.filter(|shown| !shown.is_older_than(&node)) {
            Some(shown) if shown.uid != node.uid || shown.record() != node.record() => return None,
            Some(shown) => node = shown,
            // The index may lag behind the LIST that showed this Node, but not for long.
            None if looks > SOON_LOOKS => {
                debug!(node = %node.name, "The node of a machine that has booted is gone.");
                return None;
            }
            None => {}
        }
        let Some(awaited) = record::awaited_boot(&node) else {
            return Some((node, After::Removed));
        };
        // A person may have asked meanwhile to keep it cordoned, or to ignore it.
        if !node.keeps_cordon() && term.manages(&node) {
            match look(term, &node, &awaited).await {
                Ok(Boot::Back { launched }) => return Some((node, After::Booted { launched })),
                Ok(Boot::Missing(missing)) => {
                    report_missing(term, &node, &awaited, Ok(missing), &mut checks);
                }
                Err(error) => report_missing(term, &node, &awaited, Err(error), &mut checks),
            }
        }
        tokio::time::sleep(if looks < SOON_LOOKS { SOON } else { LATER }).await;
    }
    None
}

/// Logs what is missing when that changes, and writes one Event if it stays missing.
fn report_missing(
    term: &Term,
    node: &Node,
    awaited: &AwaitedBoot,
    looked: Result<MissingOfBoot, Unanswered>,
    checks: &mut BootChecks,
) {
    let (instance, missing) = (&awaited.instance, looked.as_ref().ok().copied());
    let news = checks.note(term.shared.clock.now(), missing);
    let why = match looked {
        Ok(missing) => {
            if news.is_other {
                info!(
                    node = %node.name, %instance, %missing,
                    "A machine has booted since its drain: its node stays cordoned until its \
                     instance is back."
                );
            }
            missing.to_string()
        }
        Err(unanswered) => {
            unanswered.report(term, node);
            format!("Sundown has no answer ({})", unanswered.asked.permission())
        }
    };
    if news.needs_event {
        term.note(EventNote {
            about: About::Node(node.name.clone()),
            severity: Severity::Warning,
            reason: EventReason::ReturnNotShown,
            message: format!(
                "The machine of {instance} has booted, and the node stays cordoned: {why}."
            ),
        });
    }
}

/// What is known of a machine that has booted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Boot {
    /// It is back. `launched`: when EC2 last started its instance, if it reports that.
    Back { launched: Option<Moment> },
    /// The first condition that does not hold yet.
    Missing(MissingOfBoot),
}

/// Whether the machine is back. Asks no further than the first condition that does not hold, so that
/// a machine that boots in its pool costs one call.
async fn look(term: &Term, node: &Node, awaited: &AwaitedBoot) -> Result<Boot, Unanswered> {
    // Costs no call while the kubelet does not report.
    let none = AwsAnswer::default();
    if let Some(MissingOfBoot::Ready) = awaited.missing(node, None, &none) {
        return Ok(Boot::Missing(MissingOfBoot::Ready));
    }
    let (lookups, now) = (&term.shared.lookups, tokio::time::Instant::now());
    let since = now.checked_sub(MAX_ANSWER_AGE).unwrap_or(now);
    let state = match &awaited.group {
        Some(group) => {
            let asking = lookups.members.listed_state_since(group, &awaited.instance, since);
            answer(Asked::Group, asking).await?
        }
        None => None,
    };
    let of_group = AwsAnswer { group_state: state.as_deref(), ..none };
    // Of an instance that the group does not list, its tags show whether it has left the pool.
    if of_group.group_state.is_some()
        && let Some(MissingOfBoot::LeftPool) = awaited.missing(node, None, &of_group)
    {
        return Ok(Boot::Missing(MissingOfBoot::LeftPool));
    }
    let asking = lookups.instances.get_since(&awaited.instance, since);
    let (_, instance) = answer(Asked::Ec2, asking).await?;
    let of_aws = AwsAnswer { instance: instance.as_deref(), ..of_group };
    let before_lease = awaited.missing(node, None, &of_aws);
    if let Some(missing @ (MissingOfBoot::LeftPool | MissingOfBoot::Running)) = before_lease {
        return Ok(Boot::Missing(missing));
    }
    let reading = node_lease_renewed(&term.shared.cluster, &node.name);
    let renewed = answer(Asked::Lease, reading).await?;
    let launched = instance.as_ref().and_then(|found| found.launched);
    Ok(awaited.missing(node, renewed, &of_aws).map_or(Boot::Back { launched }, Boot::Missing))
}

/// Who shows whether an instance is back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// Its Auto Scaling group.
    Group,
    /// EC2.
    Ec2,
    /// The API server, about the Lease of the Node.
    Lease,
}

impl Asked {
    /// The permission that the question needs.
    const fn permission(self) -> &'static str {
        match self {
            Self::Group => "autoscaling:DescribeAutoScalingGroups",
            Self::Ec2 => "ec2:DescribeInstances",
            Self::Lease => "get leases in kube-node-lease",
        }
    }
}

/// A question without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unanswered {
    asked: Asked,
    error: String,
}

impl Unanswered {
    /// Logs a warning the first time in a term.
    pub(super) fn report(&self, term: &Term, node: &Node) {
        let Self { asked, error } = self;
        let permission = asked.permission();
        if term.is_first_report(&format!("whether an instance is back: {permission}")) {
            warn!(
                node = %node.name, permission, error,
                "Cannot find out whether an instance is back: its node stays cordoned until that works."
            );
        } else {
            debug!(node = %node.name, permission, error, "No answer whether an instance is back.");
        }
    }
}

/// Waits for an answer whether an instance is back, and not for longer than [`LOOK_TIMEOUT`].
pub(super) async fn answer<T, E: fmt::Display>(
    asked: Asked,
    asking: impl Future<Output = Result<T, E>>,
) -> Result<T, Unanswered> {
    match tokio::time::timeout(LOOK_TIMEOUT, asking).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Unanswered { asked, error: error.to_string() }),
        Err(_) => Err(Unanswered { asked, error: "no answer in time".to_owned() }),
    }
}
