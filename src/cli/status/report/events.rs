//! What the Events of Nodes and pods show of a drain.

use std::collections::BTreeMap;

use super::{
    super::{
        facts::{EventFacts, Subject},
        model::LastEvent,
    },
    Reader,
};
use crate::{
    domain::{EvictionStart, Moment, Node, Pod, seconds},
    drain::{BlockReason, Settings},
    fleet::{end_in_event, resumed_at},
};

/// Reasons of Events whose content the report shows elsewhere, so they are not listed.
const SHOWN_ELSEWHERE: [&str; 12] = [
    "Blocked",
    "DrainBegins",
    "DrainForced",
    "DrainHeldBack",
    "Forced",
    "GatesHold",
    "GatesIgnored",
    "HookKeptOpen",
    "InterruptionAccepted",
    "Paused",
    "Resumed",
    "TestReceived",
];

/// The report shows the content of this Event elsewhere.
fn is_shown_elsewhere(event: &EventFacts) -> bool {
    SHOWN_ELSEWHERE.contains(&event.reason.as_str()) || says_that_volumes_are_waited_for(event)
}

/// The drain waits for the volumes that this Event names. (The warning with this reason is about
/// volumes that were attached at the end of the drain.)
fn says_that_volumes_are_waited_for(event: &EventFacts) -> bool {
    event.reason == "VolumesAttached" && !event.is_warning
}

/// Reasons of the Events that begin and end the wait for volumes.
const OF_VOLUMES: [&str; 3] = ["VolumesAttached", "VolumesDetached", "VolumesUnknown"];

impl Reader<'_> {
    /// When the present leader began with the drain: the latest of the accept, the change of leader
    /// and the last resume, from Lease and Events.
    pub(super) fn resumed_at(&self, node: &Node, accepted: Moment) -> Moment {
        let led = self.lease.and_then(|l| l.acquired).unwrap_or(accepted);
        let resumed =
            self.events_of(node, accepted).filter(|e| e.reason == "Resumed").map(|e| e.last).max();
        let began = resumed_at(accepted, led, led);
        resumed.map_or(began, |at| at.max(began))
    }

    /// The drain's latest end in the leader's last Event `Blocked` or `VolumesAttached` since
    /// `resumed_at`.
    pub(super) fn end_by_leader(&self, node: &Node, resumed_at: Moment) -> Option<Moment> {
        self.events_of(node, resumed_at)
            .filter(|event| ["Blocked", "VolumesAttached"].contains(&event.reason.as_str()))
            .max_by_key(|event| event.last)
            .and_then(|event| end_in_event(&event.message))
    }

    /// The volumes that the leader waits for, in its last Event about volumes since `resumed_at`;
    /// `None`: it waits for none, as far as is known.
    pub(super) fn attached_volumes(&self, node: &Node, resumed_at: Moment) -> Option<String> {
        self.events_of(node, resumed_at)
            .filter(|event| OF_VOLUMES.contains(&event.reason.as_str()))
            // Times of Events are whole seconds: the end of the wait comes after its beginning.
            .max_by_key(|event| (event.last, !says_that_volumes_are_waited_for(event)))
            .filter(|event| says_that_volumes_are_waited_for(event))
            .map(|event| event.message.clone())
    }

    /// That the evictions wait for other drains, in the last Event about that of the present leader
    /// since the accept; `None`: they do not, as far as is known. A new leader reports each hold
    /// itself.
    pub(super) fn held_back(&self, node: &Node, accepted: Moment) -> Option<String> {
        let led = self.lease.and_then(|lease| lease.acquired).unwrap_or(accepted);
        let is_hold = |event: &EventFacts| event.reason == "DrainHeldBack";
        self.events_of(node, accepted.max(led))
            .filter(|event| is_hold(event) || event.reason == "DrainBegins")
            // Times of Events are whole seconds: the end of the wait comes after its beginning.
            .max_by_key(|event| (event.last, !is_hold(event)))
            .filter(|event| is_hold(event))
            .map(|event| event.message.clone())
    }

    /// When the evictions last began after a wait for other drains, a pause or `--evict-after`, as
    /// far as is known of the present leader; `None`: they did not wait. `start`: when they were to
    /// begin at the accept.
    pub(in crate::cli) fn hold_ended(
        &self,
        node: &Node,
        accepted: Moment,
        start: EvictionStart,
    ) -> Option<Moment> {
        let led = self.lease.and_then(|lease| lease.acquired).unwrap_or(accepted).max(accepted);
        let ends_hold = |event: &&EventFacts| ["DrainBegins", "Resumed"].contains(&&*event.reason);
        let by_events = self.events_of(node, led).filter(ends_hold).map(|event| event.last);
        let by_flag = match start {
            EvictionStart::At(at) => Some(at),
            EvictionStart::Now | EvictionStart::ReplacementReady(_) => None,
        };
        by_events.chain(by_flag).filter(|at| (led..=self.facts.now).contains(at)).max()
    }

    pub(super) fn events_of<'a>(
        &'a self,
        node: &'a Node,
        accepted: Moment,
    ) -> impl Iterator<Item = &'a EventFacts> {
        // Times of Events are rounded down to seconds.
        let from = accepted.minus(seconds(1));
        self.facts
            .events
            .iter()
            .filter(move |e| e.subject == Subject::Node(node.name.clone()) && e.last >= from)
    }

    pub(super) fn blocked_event(&self, pod: &Pod, accepted: Moment) -> Option<&EventFacts> {
        let of_pod = |e: &&EventFacts| {
            e.subject == Subject::Pod(pod.uid.clone())
                && e.reason == "Blocked"
                && e.last >= accepted
        };
        self.facts.events.iter().filter(of_pod).max_by_key(|e| e.last)
    }

    /// The block that the service reported for a pod that no budget blocks, such as a webhook's.
    /// `None` for a terminating pod, because it is leaving.
    pub(super) fn reported_block(
        &self,
        pod: &Pod,
        accepted: Moment,
    ) -> Option<(BlockReason, String, Option<Moment>)> {
        let event = self.blocked_event(pod, accepted).filter(|_| pod.deletion.is_none())?;
        let (reason, message) = BlockReason::of_event(&event.message)?;
        // The budgets were just read and do not block it, so an Event about a budget is outdated.
        let is_of_budgets =
            matches!(reason, BlockReason::Pdb | BlockReason::PdbLagging | BlockReason::TwoPdbs);
        (!is_of_budgets).then(|| (reason, message.to_owned(), Some(blocked_since(event, accepted))))
    }

    pub(super) fn last_events(&self, node: &Node, accepted: Moment) -> Vec<LastEvent> {
        let mut last: BTreeMap<&str, &EventFacts> = BTreeMap::new();
        for event in self.events_of(node, accepted).filter(|event| !is_shown_elsewhere(event)) {
            let newest = last.entry(&event.reason).or_insert(event);
            if event.last > newest.last {
                *newest = event;
            }
        }
        let mut events: Vec<LastEvent> = last.into_values().map(LastEvent::of).collect();
        events.sort_by_key(|e| e.last);
        events
    }
}

impl LastEvent {
    fn of(event: &EventFacts) -> Self {
        Self {
            reason: event.reason.clone(),
            warning: event.is_warning,
            message: event.message.clone(),
            last: event.last,
        }
    }
}

/// When the block began that an Event reports: it is written when a pod has been blocked for a
/// while.
pub(super) fn blocked_since(event: &EventFacts, accepted: Moment) -> Moment {
    event.first.minus(Settings::default().report_blocked_after).max(accepted)
}
