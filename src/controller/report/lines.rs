//! The log lines about drains. Those about single pods are in `pods`.

use tracing::{debug, info, warn};

use super::nodes;
use crate::{
    domain::{Cause, GateKind, Kind, Moment, NodeName},
    fleet::{AcceptedInterruption, DrainEvent, End, FleetEvent, first_pods},
    record::Withdrawal,
};

/// Logs what happened to a node or its drain. The caller has entered the span of the drain.
pub(super) fn log(node: &NodeName, event: &DrainEvent) {
    if !log_drain(node, event) {
        log_record(node, event);
    }
}

/// Logs an event about the drain itself. `false`: the event is about something else.
fn log_drain(node: &NodeName, event: &DrainEvent) -> bool {
    match event {
        DrainEvent::Accepted(accepted) => log_accept(accepted),
        DrainEvent::DeadlineSet { ends, forces } => {
            let text =
                |at: &Option<Moment>| at.map_or_else(|| "none".to_owned(), |at| format!("{at:.0}"));
            let (ends, forces) = (text(ends), text(forces));
            info!(
                ends,
                forces,
                "The drain's deadline: pods that cannot be evicted are deleted so that they are \
                 gone by `forces`."
            );
        }
        DrainEvent::EvictionsStart { start, is_replaced } => {
            let line = nodes::eviction_start(*start).unwrap_or_else(|| match is_replaced {
                true => "A replacement is ready: the evictions begin.".to_owned(),
                false => "The wait of --evict-after is over: the evictions begin.".to_owned(),
            });
            info!(%node, "{line}");
        }
        DrainEvent::GatesHold { kind, gates, until } => {
            warn!(%node, "{}", nodes::gates_hold(*kind, gates, *until));
        }
        DrainEvent::GatesIgnored { kind, gates, why } => {
            info!(%node, "{}", nodes::gates_ignored(*kind, gates, *why));
        }
        DrainEvent::GatesGone(GateKind::PreDrain) => {
            info!(%node, "No gate pre-drain.sundown.dev delays the evictions any longer.");
        }
        DrainEvent::GatesGone(GateKind::PreRelease) => {
            info!(%node, "No gate pre-release.sundown.dev delays the completion of the lifecycle \
                actions any longer.");
        }
        DrainEvent::PaceHolds { why, until } => {
            info!(%node, "{}", nodes::pace_holds(*why, *until));
        }
        DrainEvent::PaceEnded { is_its_turn } => {
            info!(%node, "{}", nodes::pace_ended(*is_its_turn));
        }
        DrainEvent::ForceOrder(true) => warn!(%node, "{}", nodes::DRAIN_FORCED),
        DrainEvent::ForceOrder(false) => {
            info!(%node, "The force request (sundown.dev/force) was removed. The drain waits for \
                budgets and gates again.");
        }
        DrainEvent::VolumesAttached(text) => info!(%node, "{text}"),
        DrainEvent::SettingsIgnored(problems) => {
            for problem in problems {
                warn!(
                    %node, source = problem.source.as_str(), %problem,
                    "A setting of the node or of its hook is not used: the drain goes on without it."
                );
            }
        }
        DrainEvent::OnlyOwnPodLeft => info!(%node, "Only Sundown's own pod is left."),
        DrainEvent::PauseAnnotation(true) => warn!(
            "The drain of a node is paused by its annotation sundown.dev/pause: no evictions, no \
             force. Heartbeats go on. `sundown resume NODE` ends it."
        ),
        DrainEvent::PauseAnnotation(false) => {
            info!("The drain of a node is no longer paused by its annotation.");
        }
        DrainEvent::ReleaseRequested => info!(%node, "Somebody asked for the release of the node."),
        DrainEvent::RecordDeletedAgain => {
            info!(%node, "Somebody deleted the record of the node again: its drain ends as if it \
                were released.");
        }
        DrainEvent::NoLongerManaged { is_ignored } => {
            let why = nodes::no_longer_managed(*is_ignored);
            info!(%node, why, "The node is no longer to be drained: its drain ends as if it were \
                released.");
        }
        DrainEvent::EndedElsewhere { why } => {
            info!(
                why,
                "Another leader or a person has ended the drain of the node: it ends here too."
            );
        }
        DrainEvent::Proved => {
            info!(%node, "A stale interruption is proved; its deadline applies from now on.");
        }
        DrainEvent::DisprovedOne => {
            debug!(%node, "A stale interruption is disproved; others of the node may be true.");
        }
        DrainEvent::Disproved => {
            info!(%node, "A stale interruption is disproved; the drain ends and the node is \
                restored.");
        }
        DrainEvent::Contradicted => warn!(
            %node,
            outcome = "contradicted",
            "AWS contradicts the lifecycle action in the node's record: none is open, EC2 reports \
             the instance as running, and its group as in service. The drain ends and the node is \
             restored. Find out who sent the event."
        ),
        DrainEvent::RecommendationExpired => {
            info!(%node, "No interruption followed the recommendation within --rebalance-ttl: the \
                node is restored.");
        }
        DrainEvent::ChangeWithdrawn { why, nothing_holds } => {
            change_withdrawn(node, *why, *nothing_holds);
        }
        DrainEvent::RequestRefused { request, why } => {
            warn!(%node, request, "{}", nodes::request_refused(request, why));
        }
        DrainEvent::RequestsWithdrawn { names, nothing_holds } => {
            info!(%node, "{}", nodes::requests_withdrawn(names, *nothing_holds));
        }
        DrainEvent::Recovered => {
            info!(%node, "The sick instance is healthy again: its node is restored.");
        }
        DrainEvent::RestoreHeld => {
            info!(%node, "The node is to be restored, and the annotation \
                sundown.dev/keep-cordoned holds that: it stays cordoned until the annotation is \
                removed.");
        }
        DrainEvent::InstanceReturned => {
            info!(%node, "The instance is back in service without a new boot: its node is \
                restored.");
        }
        DrainEvent::KubeletSilent => info!(
            %node,
            "The node's kubelet has not reported for a minute: its drain ends in half a minute, or \
             as soon as EC2 reports that the instance does not run."
        ),
        DrainEvent::KubeletReporting => {
            info!(%node, "The node's kubelet reports again, or its silence no longer counts: its \
                drain goes on.");
        }
        DrainEvent::KubeletReportingByRead => {
            info!(%node, "The node's kubelet reports again, which the watch of Nodes has not \
                shown: its drain goes on.");
        }
        DrainEvent::WaitsForOthers => {
            info!(
                "Other nodes claim the instance and are not empty yet: its lifecycle action is \
                 completed after them."
            );
        }
        DrainEvent::Ended(end) => log_end(end),
        DrainEvent::Reopened => {
            info!(%node, "An interruption joined while the node was about to be restored: it is \
                drained all the same.");
        }
        _ => return false,
    }
    true
}

fn log_record(node: &NodeName, event: &DrainEvent) {
    match event {
        DrainEvent::LeftAlone => info!(
            %node,
            "A node that --node-selector does not match has an open record. This Sundown leaves it \
             alone: the one that wrote the record completes its lifecycle actions."
        ),
        DrainEvent::RecordDamaged(error) => warn!(%node, error, "The record of a node is damaged."),
        DrainEvent::RecordVoid { why, .. } => {
            info!(
                %node, reason = nodes::void(*why),
                "A record does not count; Sundown undoes its changes on the node, after a boot \
                 when the instance is back."
            );
        }
        DrainEvent::Registered(instance) => {
            info!(%node, %instance, "The instance registered again: its record is written again.");
        }
        DrainEvent::RecordLost { is_release_requested } => warn!(
            %node, is_release_asked = is_release_requested,
            "The node has the taint of Sundown and no record. Sundown does not drain it, and does \
             not restore it if its release is asked for. See operations.md, \"A node stays \
             cordoned\"."
        ),
        DrainEvent::CompletedFromMemory => {
            info!(%node, "A lifecycle action joined a drain that had ended, and the node is gone: \
                it is completed from memory.");
        }
        // A standby sees that a Node is deleted, but not whether its lifecycle actions were
        // completed.
        DrainEvent::CompletedOnceMore { instance, is_doubted: false } => info!(
            %node, %instance,
            "A node was deleted before this term, and its lifecycle actions may not have been \
             completed: they are completed once more."
        ),
        DrainEvent::CompletedOnceMore { instance, is_doubted: true } => {
            info!(%node, %instance, "A node was deleted while Auto Scaling was asked about its \
                hook: its lifecycle actions are completed.");
        }
        DrainEvent::Released { outcome, is_restored } => {
            info!(%node, outcome, restored = is_restored, "The end of the drain is in the record.");
        }
        DrainEvent::NodeRestored => info!(%node, "The node is restored."),
        _ => {}
    }
}

fn log_accept(accepted: &AcceptedInterruption) {
    let AcceptedInterruption { interruption, instance, node, joins, follows, lag, .. } = accepted;
    let settings = nodes::settings(&accepted.settings);
    if let Cause::Request(request) = &interruption.cause {
        info!(
            node = %node.name, %instance, kind = Kind::Request.as_str(), joins,
            request = &*request.name, reason = request.reason.as_deref(),
            deadline = request.deadline.map(tracing::field::display),
            "Request accepted: {follows}{settings}."
        );
        return;
    }
    info!(
        node = %node.name, %instance, kind = interruption.kind().as_str(), ?lag, joins,
        "Interruption accepted: {follows}{settings}."
    );
}

fn log_end(end: &End) {
    let (outcome, took, left) = (&end.outcome, end.took, end.outcome.left());
    info!(outcome = outcome.as_str(), ?took, left = ?first_pods(left), left_count = left.len(),
    "Drain ended.");
}

/// Logs what concerns several drains.
pub(super) fn log_of_fleet(event: &FleetEvent) {
    match event {
        FleetEvent::PausedAll(true) => {
            warn!(
                "All drains are paused: no evictions, no force. Messages are accepted and \
                 heartbeats go on. `sundown resume` ends it."
            );
        }
        FleetEvent::PausedAll(false) => info!("All drains are resumed."),
        FleetEvent::ClockDiffers { drains, skew } => warn!(
            drains,
            ?skew,
            "The measured difference between AWS's clock and ours has changed: deadlines are \
             derived again, and no pod is forced for 10 s."
        ),
        FleetEvent::PodsNotWatched { node, nodes, error } => {
            warn!(%node, nodes, error, "The pods of draining nodes cannot be watched; Sundown \
                lists them instead.");
        }
        FleetEvent::NamespacesUnknown(error) => warn!(
            error,
            "The labels of namespaces cannot be read. Rules about pods with namespaceLabels go by \
             those that were read last; they do not match pods of namespaces that are not known. \
             New rules that read other labels do not count yet."
        ),
        FleetEvent::NamespacesKnown => info!("The labels of namespaces can be read again."),
        FleetEvent::Active(_) | FleetEvent::Counts(_) => {}
    }
}

fn change_withdrawn(node: &NodeName, why: Withdrawal, nothing_holds: bool) {
    match (why, nothing_holds) {
        (Withdrawal::Canceled, true) => {
            info!(%node, "AWS canceled the scheduled change: the node is restored.");
        }
        (Withdrawal::Moved, true) => {
            info!(%node, "AWS moved the scheduled change: the node is restored, and \
                drained again before the new start.");
        }
        (Withdrawal::Canceled, false) => {
            info!(%node, "AWS canceled a scheduled change. Another interruption of the node holds, \
                so its drain goes on.");
        }
        (Withdrawal::Moved, false) => {
            info!(%node, "AWS moved a scheduled change. An interruption of the node holds, so its \
                drain goes on.");
        }
    }
}
