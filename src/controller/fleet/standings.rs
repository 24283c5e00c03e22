//! How drains stand: what is reported of all of them now and then.

use std::{collections::BTreeMap, time::Duration};

use super::Fleet;
use crate::{
    controller::report::{DrainEvent, FleetEvent},
    domain::{Moment, NodeName, seconds},
    drain::{BlockReason, Note},
    observe::PodState,
};

/// For so long watches of pods may fail before that is reported.
const FAILING: Duration = seconds(30);

impl Fleet {
    /// A drain says something itself.
    pub(super) fn report_note(&mut self, node: &NodeName, note: Note) {
        if let Note::Forced { uid, .. } = &note {
            self.unreported_deletes.remove(uid);
        }
        self.term.report(node, DrainEvent::Noted(note));
    }

    /// Reports once a minute that watches of pods fail, once one of them has for a while.
    pub(super) fn report_failing_watches(&mut self, now: Moment) {
        if self.watches_reported_at.is_some_and(|at| now < at.plus(seconds(60))) {
            return;
        }
        let long = |name: &&NodeName| self.feed.failing_since(name).is_some_and(|since| now >= since.plus(FAILING));
        let failing: Vec<&NodeName> = self.drains.iter().filter(|(_, c)| c.drain.is_some()).map(|(name, _)| name).filter(long).collect();
        if let Some((node, error)) = failing.first().and_then(|name| Some((*name, self.feed.last_error(name)?))) {
            let event = FleetEvent::PodsNotWatched { node: node.clone(), nodes: failing.len(), error: error.to_string() };
            self.term.report_of_fleet(&event);
            self.watches_reported_at = Some(now);
        }
    }

    /// Gauges over all drains.
    pub(super) fn count_pods(&self) {
        let now = self.term.clock.now();
        let mut states = [(PodState::Waiting, 0_usize), (PodState::Blocked, 0), (PodState::Terminating, 0)];
        let mut blocked: BTreeMap<BlockReason, usize> = BlockReason::ALL.into_iter().map(|r| (r, 0)).collect();
        for drain in self.drains.values().filter_map(|c| c.drain.as_ref()) {
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
        self.term.metrics.set_nodes_paused(self.drains.values().filter(|c| c.drain.is_some() && c.node.paused()).count());
        self.term.metrics.set_nodes_excluded(self.term.with_room(|room| room.out()));
    }

    /// Reports how the drains stand that have changed.
    pub(super) fn report(&mut self) {
        let now = self.term.clock.now();
        for name in std::mem::take(&mut self.unreported) {
            if let Some(drain) = self.drains.get(&name).and_then(|state| state.drain.as_ref()) {
                self.term.report(&name, DrainEvent::Status(drain.status(now)));
            }
        }
    }
}
