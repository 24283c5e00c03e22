//! Notifications about accepted interruptions and ended drains.

use std::time::Duration;

use super::context::Term;
use crate::{
    domain::{InstanceId, Interruption, InterruptionFacts, Kind, Node, NodeName, seconds},
    drain::Outcome,
    observe::webhook::{Notice, Notifier, On},
};

/// The tag in which Auto Scaling names the group of an instance.
const GROUP_TAG: &str = "aws:autoscaling:groupName";
/// How long to wait for the name of a group from EC2, if no hook names it.
const GROUP: Duration = seconds(5);

/// Notifies that an interruption was accepted.
pub(super) fn accepted(
    term: &Term,
    interruption: &Interruption,
    node: &Node,
    instance: &InstanceId,
) {
    let Some(notifier) = notifier(term, On::Accepted) else { return };
    let now = term.shared.clock.now();
    let notice = Notice {
        on: Some(On::Accepted),
        event: interruption.event_id.clone(),
        kind: interruption.kind().as_str(),
        time: interruption.time,
        group: interruption.hook().map(|h| h.group.to_string()),
        deadline: InterruptionFacts::new(interruption, instance, None, now, false)
            .machine_ends_at(),
        outcome: On::Accepted.as_str(),
        ..of_node(node, instance)
    };
    send(term, notifier, notice, instance);
}

/// Notifies that a drain has ended.
pub(super) fn ended(
    term: &Term,
    node: &Node,
    instance: &InstanceId,
    interruptions: &[InterruptionFacts],
    outcome: &Outcome,
    took: Duration,
) {
    let Some(notifier) = notifier(term, On::Ended) else { return };
    let report = term.shared.board.report(&NodeName::from(node.name.as_str()));
    let (last, hook) = (interruptions.last(), interruptions.iter().find_map(|t| t.hook.as_ref()));
    let blocked = report
        .iter()
        .flat_map(|r| &r.blocked_for)
        .map(|b| format!("{} ({}, {} s)", b.pod, b.reason, b.seconds));
    let notice = Notice {
        on: Some(On::Ended),
        event: last.map(|t| t.event_id.clone()).unwrap_or_default(),
        kind: last.and_then(|t| t.kind).map_or("unknown", Kind::as_str),
        time: last.map(|t| t.time),
        group: hook.map(|h| h.key.group.to_string()),
        deadline: interruptions.iter().filter_map(InterruptionFacts::machine_ends_at).min(),
        outcome: outcome.as_str(),
        took: Some(took),
        evicted: report.as_ref().map_or(0, |r| r.evictions),
        blocked: blocked.collect(),
        forced: report.as_ref().map(|r| r.forced.clone()).unwrap_or_default(),
        left: outcome.left().iter().map(ToString::to_string).collect(),
        ..of_node(node, instance)
    };
    send(term, notifier, notice, instance);
}

fn notifier(term: &Term, on: On) -> Option<Notifier> {
    term.shared.sinks.notifier.clone().filter(|n| n.wants(on))
}

fn of_node(node: &Node, instance: &InstanceId) -> Notice {
    Notice {
        instance: instance.to_string(),
        node: node.name.to_string(),
        labels: (*node.labels).clone(),
        ..Notice::default()
    }
}

/// Sends a notice. If the template uses the group and no hook names it, asks EC2 for it first.
fn send(term: &Term, notifier: Notifier, mut notice: Notice, instance: &InstanceId) {
    if notice.group.is_some() || !notifier.uses("group") {
        return notifier.notify(notice);
    }
    let (term, instance) = (term.clone(), instance.clone());
    drop(term.shared.spawner.clone().spawn(async move {
        let asked = tokio::time::timeout(GROUP, term.shared.lookups.instances.get(&instance)).await;
        notice.group = asked
            .ok()
            .and_then(Result::ok)
            .flatten()
            .and_then(|facts| facts.tags.get(GROUP_TAG).cloned());
        notifier.notify(notice);
    }));
}
