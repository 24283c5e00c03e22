//! Nodes that were taken on because their instance was sick, and that are healthy again.

use std::sync::Arc;

use super::{DrainEvent, Fleet};
use crate::{
    domain::{ImpairedStatus, InterruptionFacts, Kind, Node},
    drain::Input,
    record::{self, EndReason},
};

impl Fleet {
    /// The sick instance of this Node is healthy again, and Auto Scaling does not replace it: its
    /// drain ends, and the node is restored.
    pub(super) fn recovered(&mut self, node: &Arc<Node>) {
        let name = &node.name;
        let Some(state) = self.drains.get_mut(name) else {
            // Its drain has ended before.
            let status = record::impaired_status(node);
            let is_drained = matches!(status, ImpairedStatus::Drained | ImpairedStatus::PodsLeft);
            if is_drained && !self.is_reported_void(node) {
                if !node.keeps_cordon() {
                    self.out.report(name, DrainEvent::Recovered);
                }
                self.order_restore(node);
            }
            return;
        };
        if state.node.uid != node.uid || !state.is_draining() || state.record.has_unknown() {
            return;
        }
        // Neither a recommendation, which only tainted or cordoned the node, nor a scheduled change
        // that AWS has canceled since holds the drain.
        let is_over = |facts: &InterruptionFacts| {
            let is_over = |kind: Kind| kind == Kind::Impaired || kind.is_recommendation();
            facts.kind.is_some_and(is_over)
                || facts.is_request()
                || state.disproved.contains(&facts.event_id)
        };
        if !state.interruptions.iter().all(is_over) {
            return;
        }
        let of_aws = state.interruptions.iter().filter(|facts| !facts.is_request());
        let events: Vec<String> = of_aws.map(|facts| facts.event_id.clone()).collect();
        state.disproved.extend(events);
        if !state.is_disproved() {
            // People still ask for the drain.
            return self.refresh_limits(name);
        }
        state.end_reason = EndReason::NothingHolds;
        self.out.report(name, DrainEvent::Recovered);
        self.feed(name, Input::Release);
    }
}
