//! What is reported about all drains at intervals.

use std::time::Duration;

use super::{DrainEvent, Fleet, FleetCounts, FleetEvent};
use crate::{
    domain::{Moment, NodeName, seconds},
    drain::{BlockReason, Note},
};

/// A watch of pods that has failed for this long is reported.
const FAILING: Duration = seconds(30);
/// The most statuses that one step reports: thousands of drains may change at once, and each status
/// names the blocked pods.
const STATUSES_PER_STEP: usize = 256;

impl Fleet {
    /// Reports an event of the drain itself.
    pub(super) fn report_note(&mut self, node: &NodeName, note: Note) {
        if let Note::Forced { uid, .. } = &note {
            self.unreported_deletes.remove(uid);
        }
        self.out.report(node, DrainEvent::Noted(note));
    }

    /// Reports, once a minute at most, that watches of pods have failed for [`FAILING`].
    pub(super) fn report_failing_watches(&mut self, now: Moment) {
        if self.watches_reported_at.is_some_and(|at| now < at.plus(seconds(60))) {
            return;
        }
        let draining =
            self.drains.iter().filter(|(_, state)| state.is_draining()).map(|(name, _)| name);
        let failing =
            draining.filter_map(|name| Some((name, self.lookup.facts.failing_watch(name)?)));
        let failing: Vec<(&NodeName, (Moment, String))> =
            failing.filter(|(_, (since, _))| now >= since.plus(FAILING)).collect();
        if let Some((node, (_, error))) = failing.first() {
            let event = FleetEvent::PodsNotWatched {
                node: (*node).clone(),
                nodes: failing.len(),
                error: error.clone(),
            };
            self.out.report_of_fleet(event);
            self.watches_reported_at = Some(now);
        }
    }

    /// Reports the numbers of pods in all drains.
    pub(super) fn count_pods(&mut self) {
        let mut counts = FleetCounts {
            blocked_by: BlockReason::ALL.into_iter().map(|reason| (reason, 0)).collect(),
            ..FleetCounts::default()
        };
        for drain in self.drains.values().filter_map(|state| state.drain()) {
            let status = drain.status(self.now);
            counts.waiting += status.counts.waiting + status.counts.unknown;
            counts.waiting += status.counts.later + status.counts.asked_to_wait;
            counts.blocked += status.counts.blocked;
            counts.terminating += status.counts.leaving;
            for blocked in status.blocked {
                *counts.blocked_by.entry(blocked.reason).or_default() += 1;
            }
        }
        counts.paused =
            self.drains.values().filter(|state| state.is_draining() && state.node.paused()).count();
        counts.held_back = self.held_back();
        self.out.report_of_fleet(FleetEvent::Counts(counts));
    }

    /// Reports the status of the next drains whose report is due.
    pub(super) fn report_statuses(&mut self) {
        let now = self.now;
        for _ in 0..STATUSES_PER_STEP {
            let Some(name) = self.statuses_due.pop_first() else { return };
            if let Some(drain) = self.drains.get(&name).and_then(|state| state.drain()) {
                self.out.report(&name, DrainEvent::Status(drain.status(now)));
            }
        }
    }
}
