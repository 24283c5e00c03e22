//! Scheduled changes: notes them on their Nodes, and accepts them when the fleet begins their drain.

use std::{sync::Arc, time::Duration};

use tracing::{debug, info, warn};

use super::{
    accept::{self, Accepted, Tries},
    claims::{self, DrainBegins},
    context::Term,
    node_writer::{NodeWrite, patch_node},
};
use crate::{
    cluster::{About, EventNote, EventReason, Priority, Problem, Severity},
    domain::{Cause, HealthNotice, Interruption, Moment, Node, NodeName},
    observe::RecordEvent,
    record::{self, Plan, PlanChange, PlanTime},
    triage::{self, Certainty, HookClaim, OtherClaims},
};

const ONLY_REPORTED: &str = "AWS reports a scheduled change for which Sundown drains no node";

/// How a message about a scheduled change was noted on its Node. Of several Nodes that claim the
/// instance, the last of these counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NoteOutcome {
    /// The Node had it before, or a newer one.
    Repeat,
    /// The Node has it, and its start has passed: it drains nothing.
    Past,
    /// The Node has it: the message can be deleted.
    Noted,
    /// It cannot be noted now: the annotation has no room, or a newer version wrote it.
    Left,
}

/// Writes the scheduled change into the annotation of its Node, and of every other Node that would
/// be drained with it. Nodes that a drain only cordons get no note: [`begin`] finds them again. But
/// a Node that has the change already is to be drained for it, so it gets what AWS has moved or
/// canceled. `None`: a Node is gone or belongs to another instance, so the message must be decided
/// again.
pub(super) async fn note(
    term: &Term,
    interruption: &Interruption,
    verdict: &triage::Accept,
) -> Option<NoteOutcome> {
    if !verdict.others.nodes().is_empty() {
        claims::warn_of(term, verdict, DrainBegins::Later);
    }
    let mut outcome = note_on(term, interruption, &verdict.node).await;
    if let OtherClaims::Drain(others) = &verdict.others {
        for node in others {
            let other = note_on(term, interruption, node).await;
            outcome = outcome.zip(other).map(|(one, other)| one.max(other));
        }
    }
    for node in others_with_note(term, interruption, verdict) {
        // Without an outcome it claims the instance no longer.
        let other = note_on(term, interruption, &node).await;
        outcome = outcome.map(|one| other.map_or(one, |other| one.max(other)));
    }
    outcome
}

/// The other Nodes that claim the instance, would not be drained with its Node, and have the change
/// in their annotation. They got it when EC2 confirmed none of the Nodes.
fn others_with_note(
    term: &Term,
    interruption: &Interruption,
    verdict: &triage::Accept,
) -> Vec<Arc<Node>> {
    let is_drained = |node: &Arc<Node>| match &verdict.others {
        OtherClaims::Drain(others) => others.iter().any(|other| other.uid == node.uid),
        OtherClaims::None | OtherClaims::Cordon(_) => false,
    };
    let at = plan_time(term);
    let mut others = term.shared.nodes.by_instance(&interruption.instance);
    others.retain(|node| {
        node.uid != verdict.node.uid
            && !is_drained(node)
            && record::holds_change(node, interruption, at)
    });
    others
}

async fn note_on(
    term: &Term,
    interruption: &Interruption,
    node: &Arc<Node>,
) -> Option<NoteOutcome> {
    let (name, mut last) = (&node.name, Plan::Repeat);
    let write = patch_node(term, Arc::clone(node), "note a scheduled change", |node| {
        if !term.manages(node) {
            last = Plan::OtherInstance;
            return None;
        }
        last = record::plan(node, interruption, plan_time(term));
        if let Plan::Patch { body, .. } = &mut last { Some(body.take()) } else { None }
    });
    if write.await == NodeWrite::NodeGone {
        return None;
    }
    match last {
        Plan::Patch { change, replaces_damaged, .. } => {
            if replaces_damaged {
                damaged(term, interruption, name);
            }
            report(term, interruption, name, change);
            let is_past = change == PlanChange::Past;
            Some(if is_past { NoteOutcome::Past } else { NoteOutcome::Noted })
        }
        Plan::Repeat => Some(NoteOutcome::Repeat),
        Plan::OtherInstance => None,
        Plan::Full => {
            if term.is_first_report(&format!("{} changes full", interruption.instance)) {
                warn!(
                    node = %name, instance = %interruption.instance,
                    "A node has no room for another scheduled change in sundown.dev/planned: \
                     Sundown leaves the message in the queue."
                );
            }
            Some(NoteOutcome::Left)
        }
        Plan::Unreadable => {
            unreadable(term, interruption, name);
            Some(NoteOutcome::Left)
        }
    }
}

pub(super) fn plan_time(term: &Term) -> PlanTime {
    PlanTime { now: term.aws_now(), schedule: term.shared.config.drain.changes }
}

fn unreadable(term: &Term, interruption: &Interruption, node: &NodeName) {
    term.shared.metrics.record(RecordEvent::PlannedUnreadable);
    if term.is_first_report(&format!("{} changes unreadable", interruption.instance)) {
        warn!(
            %node, instance = %interruption.instance,
            "A newer version of Sundown wrote sundown.dev/planned, and this version cannot read it: \
             the annotation stays as it is, and the message of a scheduled change in the queue."
        );
    }
}

fn damaged(term: &Term, interruption: &Interruption, node: &NodeName) {
    term.shared.metrics.record(RecordEvent::PlannedUnreadable);
    warn!(
        %node, instance = %interruption.instance,
        "The annotation sundown.dev/planned was damaged. Sundown has replaced it by the newest \
         scheduled change."
    );
}

fn report(term: &Term, interruption: &Interruption, node: &NodeName, change: PlanChange) {
    let Cause::ScheduledChange(notice) = &interruption.cause else { return };
    let what = match change {
        PlanChange::Announced => "AWS announced a scheduled change",
        PlanChange::Moved => "AWS moved a scheduled change",
        PlanChange::Past => "AWS announced a scheduled change too late to drain the node",
        PlanChange::Canceled if notice.is_informational => ONLY_REPORTED,
        PlanChange::Canceled => "AWS closed a scheduled change",
        PlanChange::Updated => return,
    };
    let text = describe(what, notice);
    info!(%node, instance = %interruption.instance, account = notice.account, "{text}.");
    note_event(term, node, text);
}

/// Reports a scheduled change that drains no node.
pub(super) fn report_only(term: &Term, interruption: &Interruption, node: Option<&NodeName>) {
    let Cause::ScheduledChange(notice) = &interruption.cause else { return };
    let key = notice.communication_id.as_deref().unwrap_or(&interruption.event_id);
    if !term.is_first_report(&format!("{} {key} is reported", interruption.instance)) {
        return;
    }
    let text = describe(ONLY_REPORTED, notice);
    info!(
        instance = %interruption.instance, node = node.map_or("", NodeName::as_str),
        account = notice.account, "{text}."
    );
    if let Some(node) = node {
        note_event(term, node, text);
    }
}

/// Reports that the message of a scheduled change is deleted without a Node to note it on.
pub(super) fn report_no_node(term: &Term, interruption: &Interruption) {
    let Cause::ScheduledChange(notice) = &interruption.cause else { return };
    let key = format!("{} {} no node", interruption.instance, notice.event_arn);
    if notice.closes_change() || !term.is_first_report(&key) {
        return;
    }
    let (instance, code) = (&interruption.instance, &notice.code);
    if !notice.is_listed_by_ec2() {
        warn!(
            %instance, code,
            "No Node shows the instance of a scheduled change, and EC2 lists no events with its \
             code: if the instance gets a Node, the change does not drain it."
        );
    } else if term.shared.events_are_found.get() {
        info!(
            %instance, code,
            "No Node shows the instance of a scheduled change. Sundown notes the change when it has \
             a Node: it asks EC2 for scheduled events."
        );
    } else {
        warn!(
            %instance, code,
            "No Node shows the instance of a scheduled change, and Sundown gets no scheduled events \
             from EC2 (--scheduled-event-interval): if the instance gets a Node, the change does \
             not drain it."
        );
    }
}

fn describe(what: &str, notice: &HealthNotice) -> String {
    let starts = notice.starts.map(|at: Moment| format!(", which begins at {at:.0}"));
    format!("{what}: {}{}", notice.code, starts.unwrap_or_default())
}

fn note_event(term: &Term, node: &NodeName, message: String) {
    term.note(EventNote {
        about: About::Node(node.clone()),
        severity: Severity::Normal,
        reason: EventReason::ScheduledChange,
        message,
    });
}

/// Accepts a scheduled change whose drain begins now. If that fails, the fleet orders it again.
pub(super) async fn begin(term: Term, node: Arc<Node>, interruption: Interruption) {
    let now = term.shared.clock.now();
    let verdict = triage::Accept {
        node,
        instance: interruption.instance.clone(),
        response: term.shared.policy.responses.of(interruption.kind()),
        certainty: Certainty::Timely,
        claim: HookClaim::Ours,
        state: None,
        others: OtherClaims::None,
    };
    // Counts as happened now: the time since the announcement is not a delay of Sundown.
    let mut tries = Tries::default();
    let accepted = accept::accept(&term, &interruption, &verdict, now, None, &mut tries).await;
    if matches!(accepted, Some(Accepted::New | Accepted::Joined)) {
        claims::cordon_others(&term, &verdict).await;
    }
}

/// Sets the condition `MaintenancePlanned` of a Node. If that fails, the fleet orders it again.
pub(super) async fn set_maintenance(
    term: Term,
    node: Arc<Node>,
    condition: record::MaintenanceCondition,
) {
    let result = {
        // The slot first, as in `node_writer`. The lock: the write changes the version of the Node.
        let _slot = term.node_write_slot().await;
        let _lock = term.lock_node(&node.name).await;
        let patch = condition.patch(&node.uid, term.shared.clock.now());
        let (nodes, no_limit) = (&term.shared.nodes, Duration::MAX);
        let priority = Priority::Ordinary;
        Box::pin(nodes.patch_status(&node.name, &patch, priority, no_limit, no_limit)).await
    };
    match result {
        Ok(()) => {}
        Err(error) if matches!(error.problem, Problem::NotFound | Problem::Conflict) => {
            debug!(node = %node.name, %error, "The condition MaintenancePlanned is not set.");
        }
        Err(error) if matches!(error.problem, Problem::Forbidden | Problem::NotAdmitted) => {
            if term.is_first_report("the condition MaintenancePlanned") {
                warn!(
                    node = %node.name, %error,
                    "Cannot set the condition MaintenancePlanned of nodes. Drains do not depend on \
                     it. Allow `patch nodes/status` (chart: rbac.maintenanceCondition), or leave out \
                     --maintenance-condition."
                );
            }
        }
        Err(error) => {
            debug!(node = %node.name, %error, "Cannot set the condition MaintenancePlanned yet.");
        }
    }
}
