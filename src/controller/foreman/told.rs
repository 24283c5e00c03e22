//! What people hear of drains: Events, metrics, the board.

use std::{collections::BTreeMap, time::Duration};

use tracing::{info, warn};

use super::Foreman;
use crate::{
    cluster::{About, EventNote, EventReason, Severity},
    config::PodEvents,
    domain::{Moment, NodeName, PodKey, PodUid, seconds},
    drain::{BlockReason, Note, Outcome},
    observe::{DrainEnd, PodState, traces::DrainTrace},
};

/// How many pods an Event names.
const NAMED: usize = 10;

/// So long a watch of pods may fail before it is said aloud.
const BLIND: Duration = seconds(30);

impl Foreman {
    pub(super) fn tell_note(&mut self, node: &NodeName, note: Note) {
        let span = self.courses.get(node).map_or_else(tracing::Span::none, |c| c.span.clone());
        let _entered = span.enter();
        match note {
            Note::Forced { pod, uid, grace, reason } => {
                warn!(
                    %node, pod = %pod, grace, reason = reason.as_str(),
                    "Deleted a pod that could not be evicted, because the deadline of its node is near."
                );
                self.term.board.forced(node, &pod);
                self.term.metrics.forced();
                self.untold.remove(&uid);
                let now = self.term.clock.now();
                if let Some(trace) = self.trace(node) {
                    trace.forced(now, &pod, reason.as_str(), grace);
                }
                self.pod_event(
                    node,
                    pod,
                    uid,
                    EventReason::Forced,
                    &format!("deleted with a grace period of {grace} s, blocked by {}, because its node goes", reason.as_str()),
                );
            }
            Note::ShortenedGrace { pod, uid, grace, own } => {
                info!(pod = %pod, grace, own = own.as_secs(), "A pod gets less than its own grace period: its node goes earlier.");
                if self.term.config.service.pod_events == PodEvents::All {
                    self.pod_event(
                        node,
                        pod,
                        uid,
                        EventReason::ShortenedGrace,
                        &format!("has {grace} s to stop instead of {} s, because its node goes", own.as_secs()),
                    );
                }
            }
            Note::Blocked { pod, uid, reason, message, since } => {
                info!(pod = %pod, reason = reason.as_str(), message, %since, "A pod has been blocked for a while.");
                self.pod_event(node, pod, uid, EventReason::Blocked, &reason.in_event(&message));
            }
            Note::Malformed { pod, message } => {
                warn!(pod = %pod, message, "The API server calls a request malformed. This is a fault of Sundown; please report it.");
            }
            Note::CameBack { namespace, owner, new } => {
                let owner = format!("{} {namespace}/{}", owner.kind, owner.name);
                warn!(%node, owner, new, "New pods of an owner come back on the node; they are left alone and not waited for.");
                self.term.metrics.owner_left_alone();
                self.node_event(
                    node,
                    Severity::Warning,
                    EventReason::PodsComeBack,
                    format!("{} of {owner} came back since the cordon: its new pods are left alone and not waited for", pods(new)),
                );
            }
            Note::OrphanedDaemonSet { pod, daemon_set } => {
                warn!(pod = %pod, daemon_set, "A pod's DaemonSet does not exist; it is drained like any other.");
                self.node_event(
                    node,
                    Severity::Warning,
                    EventReason::OrphanedDaemonSetPod,
                    format!("{pod} is drained: its DaemonSet {daemon_set} does not exist"),
                );
            }
        }
    }

    /// Says once a minute that watches of pods fail, once one of them does for a while.
    pub(super) fn tell_blind(&mut self, now: Moment) {
        if self.blind_told.is_some_and(|at| now < at.plus(seconds(60))) {
            return;
        }
        let long = |name: &&NodeName| self.feed.failing_since(name).is_some_and(|since| now >= since.plus(BLIND));
        let blind: Vec<&NodeName> = self.courses.iter().filter(|(_, c)| c.drain.is_some()).map(|(name, _)| name).filter(long).collect();
        if let Some((node, error)) = blind.first().and_then(|name| Some((*name, self.feed.last_error(name)?))) {
            warn!(%node, nodes = blind.len(), %error, "The pods of draining nodes cannot be watched; they are listed now and then.");
            self.blind_told = Some(now);
        }
    }

    /// An eviction was accepted, which is said of each pod only where that is asked for.
    pub(super) fn told_evicted(&self, node: &NodeName, pod: &PodKey, uid: &PodUid, grace: Option<u32>) {
        if self.term.config.service.pod_events == PodEvents::All {
            let time = grace.map_or_else(|| "its own grace period".to_owned(), |grace| format!("{grace} s"));
            let message = format!("evicted with {time} to stop, because its node goes (node {node})");
            self.term.note(EventNote {
                about: About::Pod(pod.clone(), uid.clone()),
                severity: Severity::Normal,
                reason: EventReason::Evicted,
                message,
            });
        }
    }

    fn pod_event(&self, node: &NodeName, pod: PodKey, uid: PodUid, reason: EventReason, message: &str) {
        let about = About::Pod(pod, uid);
        self.term.note(EventNote { about, severity: Severity::Warning, reason, message: format!("{message} (node {node})") });
    }

    fn node_event(&self, node: &NodeName, severity: Severity, reason: EventReason, message: impl Into<String>) {
        self.term.note(EventNote { about: About::Node(node.clone()), severity, reason, message: message.into() });
    }

    /// The end of a drain: an Event, and the counters.
    pub(super) fn told_end(&self, name: &NodeName, outcome: &Outcome, pods_are_known: bool, took: Duration) {
        let end = match outcome {
            Outcome::Empty => DrainEnd::Empty,
            Outcome::DeadlineReached { .. } => DrainEnd::DeadlineReached,
            Outcome::TimedOut { .. } => DrainEnd::TimedOut,
            Outcome::NodeGone => DrainEnd::NodeGone,
            Outcome::InstanceOver => DrainEnd::InstanceOver,
            Outcome::Unreachable { .. } => DrainEnd::Unreachable,
            Outcome::Released { .. } => DrainEnd::Released,
        };
        self.term.metrics.drain_ended(end, took);
        let missed = matches!(outcome, Outcome::DeadlineReached { left } if !left.is_empty());
        if missed {
            self.term.metrics.deadline_missed();
        }
        if let Some(course) = self.courses.get(name) {
            self.term.metrics.drain_of_ended(course.kind, &course.place, took, missed);
        }
        if matches!(outcome, Outcome::NodeGone) {
            return;
        }
        let forced = self.term.board.forced_pods(name);
        if !forced.is_empty() {
            self.node_event(
                name,
                Severity::Warning,
                EventReason::Forced,
                format!("{} deleted because the deadline came: {}", pods(forced.len()), list(&forced)),
            );
        }
        let left = outcome.left();
        let took = Duration::from_secs(took.as_secs());
        let nothing_runs = matches!(outcome, Outcome::Empty | Outcome::InstanceOver);
        if left.is_empty() && !nothing_runs && !pods_are_known {
            let message = format!("ended after {took:?} ({}) before its pods were listed", outcome.as_str());
            self.node_event(name, Severity::Warning, EventReason::DrainEnded, message);
        } else if left.is_empty() {
            self.node_event(name, Severity::Normal, EventReason::Drained, format!("drained after {took:?} ({})", outcome.as_str()));
        } else {
            self.node_event(
                name,
                Severity::Warning,
                EventReason::DrainEnded,
                format!("ended after {took:?} ({}) with {} left: {}", outcome.as_str(), pods(left.len()), list(left)),
            );
        }
    }

    /// Gauges over all drains.
    pub(super) fn count_pods(&self) {
        let now = self.term.clock.now();
        let mut states = [(PodState::Waiting, 0_usize), (PodState::Blocked, 0), (PodState::Terminating, 0)];
        let mut blocked: BTreeMap<BlockReason, usize> = BlockReason::ALL.into_iter().map(|r| (r, 0)).collect();
        for drain in self.courses.values().filter_map(|c| c.drain.as_ref()) {
            let status = drain.status(now);
            let counts = [status.counts.waiting + status.counts.unknown, status.counts.blocked, status.counts.leaving];
            for ((_, sum), count) in states.iter_mut().zip(counts) {
                *sum += count;
            }
            for b in status.blocked {
                *blocked.entry(b.reason).or_default() += 1;
            }
        }
        for (state, count) in states {
            self.term.metrics.set_pods(state, count);
        }
        for (reason, count) in blocked {
            self.term.metrics.set_blocked(reason.as_str(), count);
        }
        self.term.metrics.set_nodes_paused(self.courses.values().filter(|c| c.drain.is_some() && c.node.paused()).count());
        self.term.metrics.set_nodes_excluded(self.term.with_room(|room| room.out()));
    }

    /// Has the board show the drains that changed.
    pub(super) fn report(&mut self) {
        let now = self.term.clock.now();
        for name in std::mem::take(&mut self.unreported) {
            let Some(course) = self.courses.get_mut(&name) else { continue };
            let Some(drain) = &course.drain else { continue };
            let status = drain.status(now);
            self.term.board.update(&name, &status, now);
            if let Some(trace) = &mut course.trace {
                trace.held(now, status.blocked.into_iter().map(|b| (b.pod, b.reason.as_str(), b.since)));
            }
        }
    }

    /// What is told of the drain of a node in the end, where somebody takes traces.
    pub(super) fn trace(&mut self, node: &NodeName) -> Option<&mut DrainTrace> {
        self.courses.get_mut(node)?.trace.as_deref_mut()
    }

    /// The lease was given up when the drain of our own node began (`upkeep`); if nobody else took it, our pod goes all the same.
    pub(super) fn tell_only_own_left(node: &NodeName) {
        info!(node = %node, "Only our own pod is left on the node.");
    }
}

fn pods(count: usize) -> String {
    if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") }
}

/// The first of many pods, for a log.
pub(super) fn named(pods: &[PodKey]) -> Vec<String> {
    pods.iter().take(NAMED).map(ToString::to_string).collect()
}

pub(super) fn list<T: ToString>(pods: &[T]) -> String {
    let mut text = pods.iter().take(NAMED).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if pods.len() > NAMED {
        text = format!("{text} and {} more", pods.len() - NAMED);
    }
    text
}
