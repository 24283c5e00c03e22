//! Turns each [`DrainEvent`] into a log line, metrics, a Kubernetes Event, a notification and a
//! part of a trace. No other module does.

mod lines;
mod nodes;
mod pods;
pub(super) mod reported;
mod volumes;

use tracing::Span;

use self::reported::{ReportedDrain, drain_span};
use super::{context::Term, notices, places};
use crate::{
    cluster::{About, EventNote, EventReason, Severity},
    domain::{InterruptionFacts, Kind, NodeName, is_sweep_event_id},
    drain::Outcome,
    fleet::{AcceptedInterruption, ActionEnd, Begin, DrainEvent, End, FleetCounts, FleetEvent},
    observe::{
        DrainEnd, ImpairedStep, Place, PodState, RecordEvent,
        traces::{DrainStart, DrainTrace},
    },
};

impl Term {
    /// The span of the log lines about this node's drain. [`Span::none`] without a drain.
    pub(super) fn drain_span(&self, node: &NodeName) -> Span {
        self.reported.span(node)
    }

    /// Reports one thing that happened to a node or its drain.
    pub(super) fn report(&self, node: &NodeName, event: DrainEvent) {
        let event = match event {
            // It creates the span in which all other events of the drain are logged.
            DrainEvent::Began(begin) => return self.report_begin(node, &begin),
            event => event,
        };
        // Nothing is logged of a status, and there are many.
        let is_logged = !matches!(event, DrainEvent::Status(_));
        let span = if is_logged { self.reported.span(node) } else { Span::none() };
        let _entered = span.enter();
        lines::log(node, &event);
        self.count(node, &event);
        if let Some(note) = nodes::note(node, &event) {
            self.note(note);
        }
        self.report_pods(node, &event);
        self.trace(node, &event);
        match event {
            DrainEvent::Accepted(accepted) => {
                notices::accepted(self, &accepted.interruption, &accepted.node, &accepted.instance);
            }
            DrainEvent::Ended(end) => {
                self.note_end(node, &end);
                notices::ended(
                    self,
                    &end.node,
                    &end.instance,
                    &end.interruptions,
                    &end.outcome,
                    end.took,
                );
            }
            DrainEvent::Forgotten => {
                let drain = self.reported.remove(node);
                if let (Some(trace), Some(tracer)) =
                    (drain.and_then(|drain| drain.trace), &self.shared.sinks.tracer)
                {
                    tracer.send(trace.finish(self.shared.clock.now()));
                }
            }
            _ => {}
        }
    }

    /// Reports one thing that concerns several drains.
    pub(super) fn report_of_fleet(&self, event: &FleetEvent) {
        lines::log_of_fleet(event);
        match event {
            FleetEvent::PausedAll(paused) => self.shared.metrics.set_paused(*paused),
            FleetEvent::Active(drains) => self.shared.metrics.set_drains_active(*drains),
            FleetEvent::Counts(counts) => self.set_counts(counts),
            FleetEvent::ClockDiffers { .. }
            | FleetEvent::PodsNotWatched { .. }
            | FleetEvent::NamespacesUnknown(_)
            | FleetEvent::NamespacesKnown => {}
        }
    }

    fn set_counts(&self, counts: &FleetCounts) {
        self.shared.metrics.set_pods(PodState::Waiting, counts.waiting);
        self.shared.metrics.set_pods(PodState::Blocked, counts.blocked);
        self.shared.metrics.set_pods(PodState::Terminating, counts.terminating);
        for (reason, count) in &counts.blocked_by {
            self.shared.metrics.set_blocked(reason.as_str(), *count);
        }
        self.shared.metrics.set_nodes_paused(counts.paused);
        self.shared.metrics.set_drains_held_back(counts.held_back);
        self.shared.metrics.set_nodes_excluded(self.with_exclusion_limit(|limit| limit.out()));
    }

    fn report_begin(&self, node: &NodeName, begin: &Begin) {
        let Begin { interruptions, instance, accepted, began_here, .. } = begin;
        let kind = interruptions.first().and_then(|t| t.kind).map_or("unknown", Kind::as_str);
        let group =
            interruptions.iter().find_map(|t| t.hook.as_ref()).map(|hook| hook.key.group.as_str());
        let place = places::of(&begin.node, group);
        if *began_here {
            self.shared.metrics.drain_started(kind, &place);
        }
        let trace =
            self.shared.sinks.tracer.is_some().then(|| Box::new(trace_of(begin, kind, &place)));
        let drain = ReportedDrain { kind, place, trace, instance: instance.clone() };
        if !began_here {
            drain_span(node, instance, kind)
                .in_scope(|| tracing::info!("Found an open record: its drain goes on."));
        }
        self.reported.insert(node, drain);
        self.shared.board.began(node, instance, kind, *accepted);
    }

    /// Updates metrics and the board.
    fn count(&self, node: &NodeName, event: &DrainEvent) {
        let now = self.shared.clock.now();
        match event {
            DrainEvent::Accepted(accepted) => self.count_accept(accepted),
            DrainEvent::SettingsIgnored(problems) => {
                for problem in problems {
                    self.shared.metrics.setting_ignored(problem.source, problem.fault);
                }
            }
            DrainEvent::RecordDamaged(_) | DrainEvent::RecordLost { .. } => {
                self.shared.metrics.record(RecordEvent::Damaged);
            }
            DrainEvent::RequestRefused { .. } => {
                self.shared.metrics.record(RecordEvent::RequestRefused);
            }
            DrainEvent::RecordVoid { .. } => self.shared.metrics.record(RecordEvent::Void),
            DrainEvent::RecordRestored(_) | DrainEvent::Registered(_) => {
                self.shared.metrics.record(RecordEvent::Restored);
            }
            DrainEvent::NodeRestored => self.shared.metrics.record(RecordEvent::NodeRestored),
            DrainEvent::Recovered => self.shared.metrics.impaired(ImpairedStep::Recovered),
            DrainEvent::Released { is_restored, .. } => {
                self.shared.metrics.record(if *is_restored {
                    RecordEvent::NodeRestored
                } else {
                    RecordEvent::Released
                });
            }
            DrainEvent::ActionEnded(_, end) => {
                self.shared.board.completed(node, matches!(end, ActionEnd::Completed(_)));
            }
            DrainEvent::Status(status) => self.shared.board.update(node, status, now),
            DrainEvent::EndedVoid { took } => {
                self.shared.board.ended(node, "void", &[], now);
                self.shared.metrics.drain_ended(DrainEnd::Void, *took);
                self.reported.with(node, |drain| {
                    self.shared.metrics.drain_ended_by_place(
                        drain.kind,
                        &drain.place,
                        *took,
                        false,
                    );
                });
            }
            DrainEvent::Ended(end) => {
                self.shared.board.ended(node, end.outcome.as_str(), end.outcome.left(), now);
                self.shared.metrics.drain_ended(drain_end(&end.outcome), end.took);
                let missed = end.outcome.has_failed(end.pods_are_known);
                if missed {
                    self.shared.metrics.deadline_missed();
                }
                self.reported.with(node, |drain| {
                    self.shared.metrics.drain_ended_by_place(
                        drain.kind,
                        &drain.place,
                        end.took,
                        missed,
                    );
                });
            }
            _ => {}
        }
    }

    fn count_accept(&self, accepted: &AcceptedInterruption) {
        let AcceptedInterruption { interruption, node, happened, .. } = accepted;
        let kind = interruption.kind();
        // A Node that was created after the event could not be written before. That time is not
        // Sundown's delay.
        let possible_since = node.created.map_or(*happened, |created| created.max(*happened));
        // Nor is the time for which the sweep waited whether the event would come.
        if !is_sweep_event_id(&interruption.event_id) {
            let lag = self.shared.clock.now().since_or_zero(possible_since);
            self.shared.metrics.accepted_after(kind, lag);
        }
        self.shared.metrics.interrupted(
            kind.as_str(),
            &places::of(node, interruption.hook().map(|hook| hook.group.as_str())),
        );
        if !accepted.joins {
            self.shared.metrics.record(RecordEvent::Written);
        }
    }

    fn trace(&self, node: &NodeName, event: &DrainEvent) {
        let now = self.shared.clock.now();
        match event {
            DrainEvent::EndedVoid { .. } => {
                self.reported.trace(node, |trace| trace.ended(now, "void", &[]));
            }
            DrainEvent::Ended(end) => self
                .reported
                .trace(node, |trace| trace.ended(now, end.outcome.as_str(), end.outcome.left())),
            DrainEvent::ActionsClosed(hooks) => self.reported.trace(node, |trace| {
                for action in hooks {
                    trace.hook_over(now, action.key.hook.as_str());
                }
            }),
            DrainEvent::Status(status) => self.reported.trace(node, |trace| {
                trace.blocked(
                    now,
                    status.blocked.iter().map(|b| (b.pod.clone(), b.reason.as_str(), b.since)),
                );
            }),
            _ => {}
        }
    }

    /// Writes the Events about the end of a drain.
    fn note_end(&self, node: &NodeName, end: &End) {
        if matches!(end.outcome, Outcome::NodeGone) {
            return;
        }
        let forced = self.shared.board.forced_pods(node);
        for (severity, reason, message) in
            nodes::of_end(&end.outcome, end.pods_are_known, end.skipped, end.took, &forced)
        {
            self.note(EventNote { about: About::Node(node.clone()), severity, reason, message });
        }
    }
}

const fn drain_end(outcome: &Outcome) -> DrainEnd {
    match outcome {
        Outcome::Empty => DrainEnd::Empty,
        Outcome::DeadlineReached { .. } => DrainEnd::DeadlineReached,
        Outcome::TimedOut { .. } => DrainEnd::TimedOut,
        Outcome::NodeGone => DrainEnd::NodeGone,
        Outcome::InstanceOver => DrainEnd::InstanceOver,
        Outcome::NotEvicted { .. } => DrainEnd::NotEvicted,
        Outcome::Expired { .. } => DrainEnd::Expired,
        Outcome::Unreachable { .. } => DrainEnd::Unreachable,
        Outcome::Released { .. } => DrainEnd::Released,
        Outcome::Contradicted { .. } => DrainEnd::Contradicted,
    }
}

fn trace_of(begin: &Begin, kind: &'static str, place: &Place) -> DrainTrace {
    let first = begin.interruptions.first();
    DrainTrace::begin(&DrainStart {
        node: begin.node.name.as_str(),
        instance: begin.instance.as_str(),
        kind,
        event: first.map_or("", |t| &t.event_id),
        place,
        happened: first.map_or(begin.accepted, InterruptionFacts::began),
        accepted: begin.accepted,
        taken_over: !begin.began_here,
    })
}

/// An Event about a Node, still without its object.
type NodeNote = (Severity, EventReason, String);
