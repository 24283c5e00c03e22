//! Scheduled changes in the annotations of Nodes: when their drain begins, and what follows if AWS
//! cancels or moves them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{DrainEvent, Effect, Fleet};
use crate::{
    domain::{InstanceId, Kind, Moment, Node, NodeName, PLANNED, Response, seconds},
    drain::Input,
    record::{self, CanceledChanges, EndReason, Planned},
};

/// How long after an [`Effect::BeginChange`] the fleet orders it again, if the Node does not show
/// the accept.
const AGAIN_AFTER: Duration = seconds(10);

/// When the fleet looks at Nodes with scheduled changes again.
#[derive(Debug, Default)]
pub(super) struct PlannedChanges {
    wakes: BTreeSet<(Moment, NodeName)>,
    by_node: BTreeMap<NodeName, Waiting>,
}

/// The event whose accept was ordered, and when.
type Ordered = (String, Moment);

#[derive(Debug, Clone)]
struct Waiting {
    wake: Moment,
    ordered: Option<Ordered>,
}

impl PlannedChanges {
    pub(super) fn next_wake(&self) -> Moment {
        self.wakes.first().map_or(Moment::MAX, |(at, _)| *at)
    }

    pub(super) fn forget(&mut self, node: &NodeName) -> Option<Ordered> {
        let waiting = self.by_node.remove(node)?;
        self.wakes.remove(&(waiting.wake, node.clone()));
        waiting.ordered
    }

    fn wait(&mut self, node: &NodeName, wake: Moment, ordered: Option<Ordered>) {
        self.forget(node);
        self.wakes.insert((wake, node.clone()));
        self.by_node.insert(node.clone(), Waiting { wake, ordered });
    }
}

impl Fleet {
    /// Acts on the scheduled changes in the annotation of a confirmed Node.
    pub(super) fn follow_planned(&mut self, node: &Arc<Node>) {
        let ordered = self.planned.forget(&node.name);
        let instance =
            node.instance.clone().or_else(|| self.found_instances.get(&node.name).cloned());
        let Some(instance) = instance else {
            if node.annotations.contains_key(PLANNED) {
                self.look_up_instance(node);
            }
            return;
        };
        let Some(planned) = Planned::of(node, &instance) else { return };
        if !self.lookup.manages(node) {
            return;
        }
        let is_due = self.begin_planned(node, &instance, &planned, ordered);
        match record::canceled_changes(node, &instance, &planned) {
            // A moved change may be due at its new start, too. It joins the drain before the fleet
            // ends the drain for the old start.
            CanceledChanges::Open(events) if !is_due => {
                self.changes_canceled(&node.name, &events);
            }
            CanceledChanges::Ended if !self.drains.contains_key(&node.name) => {
                if !node.keeps_cordon() {
                    self.out.report(&node.name, DrainEvent::ChangeCanceled(true));
                }
                self.out.push(Effect::PutBack(Arc::clone(node)));
            }
            CanceledChanges::None | CanceledChanges::Open(_) | CanceledChanges::Ended => {}
        }
    }

    /// Orders the accept of the first scheduled change whose time has come, or waits for it. Returns
    /// whether one is due.
    fn begin_planned(
        &mut self,
        node: &Arc<Node>,
        instance: &InstanceId,
        planned: &Planned,
        ordered: Option<Ordered>,
    ) -> bool {
        let is_ignored = self.lookup.policy.responses.of(Kind::ScheduledChange) == Response::Ignore;
        if is_ignored || !record::may_begin_change(node, instance) {
            return false;
        }
        let (now, skew, lead) = (self.now, self.lookup.skew(), self.settings.scheduled_lead);
        let waiting = planned.waiting(lead, skew.to_aws(now), node.boot_id.as_deref());
        let Some(change) = waiting.first() else { return false };
        let due = skew.to_ours(change.due_at(lead));
        // The Node may show an older state of the annotation until the index has the PATCH.
        let again = ordered.as_ref().filter(|(event, _)| *event == change.event);
        let again = again.map(|(_, at)| at.plus(AGAIN_AFTER));
        let look_at = again.map_or(due, |again| due.max(again));
        if look_at > now {
            self.planned.wait(&node.name, look_at, ordered);
            return due <= now;
        }
        let interruption = change.interruption(instance, skew.to_aws(now), lead);
        let ordered = Some((change.event.clone(), now));
        self.planned.wait(&node.name, now.plus(AGAIN_AFTER), ordered);
        self.out.push(Effect::BeginChange(Arc::clone(node), Box::new(interruption)));
        true
    }

    /// Considers the Nodes whose next scheduled change may be due.
    pub(super) fn look_at_planned(&mut self) {
        let now = self.now;
        let due = self.planned.wakes.iter().take_while(|(at, _)| *at <= now);
        let due: Vec<NodeName> = due.map(|(_, name)| name.clone()).collect();
        for name in due {
            if let Some(node) = self.lookup.facts.node(&name) {
                self.consider_node(&node);
            } else {
                self.planned.forget(&name);
            }
            // The fleet may have to read the Node first. The answer brings it here again.
            if self.planned.by_node.get(&name).is_some_and(|waiting| waiting.wake <= now) {
                let ordered = self.planned.forget(&name);
                self.planned.wait(&name, now.plus(AGAIN_AFTER), ordered);
            }
        }
    }

    /// AWS has canceled or moved the scheduled changes that these events announced. If nothing else
    /// holds, the drain ends and the node is put back.
    fn changes_canceled(&mut self, name: &NodeName, events: &[String]) {
        let Some(state) = self.drains.get_mut(name).filter(|state| state.is_draining()) else {
            return;
        };
        let before = state.disproved.len();
        state.disproved.extend(events.iter().cloned());
        if state.disproved.len() == before {
            return;
        }
        let nothing_holds = state.is_disproved() && !state.record.has_unknown();
        self.out.report(name, DrainEvent::ChangeCanceled(nothing_holds));
        if nothing_holds {
            state.end_reason = EndReason::NothingHolds;
            self.feed(name, Input::Release);
        } else {
            self.refresh_limits(name);
            self.verify_actions(name);
        }
    }
}
