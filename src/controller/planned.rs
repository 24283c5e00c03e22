//! Scheduled changes: notes them on their Nodes, and accepts them when the fleet begins their drain.

use std::sync::Arc;

use tracing::{info, warn};

use super::{
    accept::{self, Tries},
    context::Term,
    node_writer::{NodeWrite, patch_node},
};
use crate::{
    cluster::{About, EventNote, EventReason, Severity},
    domain::{Cause, HealthNotice, Interruption, Moment, Node, NodeName},
    record::{self, Plan, PlanChange},
    triage::{self, Certainty, HookClaim, OtherClaims},
};

/// How a message about a scheduled change was noted on its Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoteOutcome {
    /// The Node has it: the message can be deleted.
    Noted,
    /// The Node had it before, or a newer one.
    Repeat,
    /// The annotation has no room.
    Full,
}

/// Writes the scheduled change into the annotation of its Node. `None`: the Node is gone or belongs
/// to another instance, so the message must be decided again.
pub(super) async fn note(
    term: &Term,
    interruption: &Interruption,
    verdict: &triage::Accept,
) -> Option<NoteOutcome> {
    let mut last = Plan::Repeat;
    let write = patch_node(term, Arc::clone(&verdict.node), "note a scheduled change", |node| {
        if !term.manages(node) {
            last = Plan::OtherInstance;
            return None;
        }
        last = record::plan(node, interruption, term.aws_now());
        if let Plan::Patch { body, .. } = &mut last { Some(body.take()) } else { None }
    });
    if write.await == NodeWrite::NodeGone {
        return None;
    }
    match last {
        Plan::Patch { change, .. } => {
            report(term, interruption, &verdict.node.name, change);
            Some(NoteOutcome::Noted)
        }
        Plan::Repeat => Some(NoteOutcome::Repeat),
        Plan::OtherInstance => None,
        Plan::Full => {
            if term.is_first_report(&format!("{} changes full", interruption.instance)) {
                warn!(
                    node = %verdict.node.name, instance = %interruption.instance,
                    "A node has no room for another scheduled change in sundown.dev/planned: \
                     Sundown leaves the message in the queue."
                );
            }
            Some(NoteOutcome::Full)
        }
    }
}

fn report(term: &Term, interruption: &Interruption, node: &NodeName, change: PlanChange) {
    let Cause::ScheduledChange(notice) = &interruption.cause else { return };
    let what = match change {
        PlanChange::Announced => "AWS announced a scheduled change",
        PlanChange::Moved => "AWS moved a scheduled change",
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
    let what = "AWS reports a scheduled change for which Sundown drains no node";
    let text = describe(what, notice);
    info!(
        instance = %interruption.instance, node = node.map_or("", NodeName::as_str),
        account = notice.account, "{text}."
    );
    if let Some(node) = node {
        note_event(term, node, text);
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
    accept::accept(&term, &interruption, &verdict, now, None, &mut tries).await;
}
