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
    record::{
        self, EndReason, MaintenanceCondition, PlanTime, Planned, Withdrawal, WithdrawnChanges,
    },
};

/// How long after an [`Effect::BeginChange`] the fleet orders it again, if the Node does not show
/// the accept.
const AGAIN_AFTER: Duration = seconds(10);
/// The same of an [`Effect::SetMaintenance`], the first time: a new leader may not write yet. The
/// pause doubles each time.
const SHOW_AGAIN_AFTER: Duration = seconds(5);
/// The longest such pause: no drain depends on the condition.
const LONGEST_SHOW_PAUSE: Duration = seconds(60);

/// When the fleet looks at Nodes with scheduled changes again.
#[derive(Debug, Default)]
pub(super) struct PlannedChanges {
    wakes: BTreeSet<(Moment, NodeName)>,
    by_node: BTreeMap<NodeName, Waiting>,
}

#[derive(Debug, Clone)]
struct Waiting {
    wake: Moment,
    ordered: Ordered,
}

/// What was ordered for a Node that does not show it yet, and when.
#[derive(Debug, Clone, Default)]
pub(super) struct Ordered {
    /// The event whose accept was ordered.
    accept: Option<(String, Moment)>,
    condition: Option<OrderedCondition>,
}

/// A condition that was ordered.
#[derive(Debug, Clone)]
struct OrderedCondition {
    condition: MaintenanceCondition,
    /// When it is ordered again.
    again_at: Moment,
    /// The pause before that.
    pause: Duration,
}

impl PlannedChanges {
    pub(super) fn next_wake(&self) -> Moment {
        self.wakes.first().map_or(Moment::MAX, |(at, _)| *at)
    }

    pub(super) fn forget(&mut self, node: &NodeName) -> Ordered {
        let Some(waiting) = self.by_node.remove(node) else { return Ordered::default() };
        self.wakes.remove(&(waiting.wake, node.clone()));
        waiting.ordered
    }

    fn wait(&mut self, node: &NodeName, wake: Moment, ordered: Ordered) {
        self.forget(node);
        self.wakes.insert((wake, node.clone()));
        self.by_node.insert(node.clone(), Waiting { wake, ordered });
    }
}

impl Fleet {
    /// Acts on the scheduled changes in the annotation of a confirmed Node.
    pub(super) fn follow_planned(&mut self, node: &Arc<Node>) {
        let mut ordered = self.planned.forget(&node.name);
        let instance =
            node.instance.clone().or_else(|| self.found_instances.get(&node.name).cloned());
        let Some(instance) = instance else {
            if node.annotations.contains_key(PLANNED) {
                self.look_up_instance(node);
            }
            return;
        };
        if !self.lookup.manages(node) {
            return;
        }
        let planned = Planned::of(node, &instance);
        let wakes = [
            planned
                .as_ref()
                .and_then(|planned| self.begin_planned(node, &instance, planned, &mut ordered)),
            self.show_maintenance(node, planned.as_ref(), &mut ordered),
        ];
        if let Some(wake) = wakes.into_iter().flatten().min() {
            self.planned.wait(&node.name, wake, ordered);
        }
        let Some(planned) = planned else { return };
        match record::withdrawn_changes(node, &instance, &planned, self.plan_time()) {
            WithdrawnChanges::None => {}
            WithdrawnChanges::Open(events, why) => {
                self.changes_withdrawn(&node.name, &events, why);
            }
            WithdrawnChanges::Ended(why) => self.restore_after_withdrawal(node, why),
        }
    }

    fn ignores_changes(&self) -> bool {
        self.lookup.policy.responses.of(Kind::ScheduledChange) == Response::Ignore
    }

    /// Orders the condition `MaintenancePlanned` where the Node's is not right. Returns when to look
    /// again.
    fn show_maintenance(
        &mut self,
        node: &Arc<Node>,
        planned: Option<&Planned>,
        ordered: &mut Ordered,
    ) -> Option<Moment> {
        if !self.settings.shows_maintenance {
            return None;
        }
        let (now, at) = (self.now, self.plan_time());
        let planned = planned.filter(|_| !self.ignores_changes());
        let Some(condition) = record::maintenance_condition(node, planned, at) else {
            ordered.condition = None;
            let starts = planned?.announced(at.now)?.starts?;
            return Some(self.lookup.skew().to_ours(starts));
        };
        let before = ordered.condition.as_ref().filter(|before| before.condition == condition);
        if let Some(before) = before.filter(|before| before.again_at > now) {
            return Some(before.again_at);
        }
        let pause = before.map_or(SHOW_AGAIN_AFTER, |before| before.pause * 2);
        let pause = pause.min(LONGEST_SHOW_PAUSE);
        let again_at = now.plus(pause);
        self.out.push(Effect::SetMaintenance(Arc::clone(node), condition.clone()));
        ordered.condition = Some(OrderedCondition { condition, again_at, pause });
        Some(again_at)
    }

    pub(super) fn plan_time(&self) -> PlanTime {
        let now = self.lookup.skew().to_aws(self.now);
        PlanTime { now, schedule: self.settings.changes }
    }

    /// Restores a Node whose drain has ended. Reports and orders that once.
    fn restore_after_withdrawal(&mut self, node: &Arc<Node>, why: Withdrawal) {
        if self.drains.contains_key(&node.name) || self.is_reported_void(node) {
            return;
        }
        if !node.keeps_cordon() {
            let nothing_holds = true;
            self.out.report(&node.name, DrainEvent::ChangeWithdrawn { why, nothing_holds });
        }
        self.order_restore(node);
    }

    /// Orders the accept of the first scheduled change whose time has come. Returns when to look
    /// again.
    fn begin_planned(
        &mut self,
        node: &Arc<Node>,
        instance: &InstanceId,
        planned: &Planned,
        ordered: &mut Ordered,
    ) -> Option<Moment> {
        if self.ignores_changes() {
            return None;
        }
        let (now, skew, at) = (self.now, self.lookup.skew(), self.plan_time());
        let response = self.lookup.policy.responses.of(Kind::ScheduledChange);
        let mut wake = planned.overdue_at(at.now).map(|overdue| skew.to_ours(overdue));
        let mut next = None;
        for change in planned.waiting(at, node.boot_id.as_deref()) {
            let interruption = change.interruption(instance);
            if record::may_begin_change(node, &interruption, response, at.now) {
                next = Some((change, interruption));
                break;
            }
            // On a drained node of a sick instance it may begin later: when its start is near.
            let near = change.starts.map(|starts| starts.minus(record::ENDS_SOON));
            let near = near.filter(|near| *near > at.now).map(|near| skew.to_ours(near));
            wake = wake.into_iter().chain(near).min();
        }
        let Some((change, interruption)) = next else { return wake };
        let due = skew.to_ours(change.due_at(at));
        // The Node may show an older state of the annotation until the index has the PATCH.
        let again = ordered.accept.as_ref().filter(|(event, _)| *event == change.event);
        let again = again.map(|(_, at)| at.plus(AGAIN_AFTER));
        let look_at = again.map_or(due, |again| due.max(again));
        if look_at > now {
            return wake.into_iter().chain([look_at]).min();
        }
        ordered.accept = Some((change.event.clone(), now));
        self.out.push(Effect::BeginChange(Arc::clone(node), Box::new(interruption)));
        wake.into_iter().chain([now.plus(AGAIN_AFTER)]).min()
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
                drop(self.planned.forget(&name));
            }
            // The fleet may have to read the Node first. The answer brings it here again.
            if self.planned.by_node.get(&name).is_some_and(|waiting| waiting.wake <= now) {
                let ordered = self.planned.forget(&name);
                self.planned.wait(&name, now.plus(AGAIN_AFTER), ordered);
            }
        }
    }

    /// AWS has canceled or moved the scheduled changes that these events announced. If nothing else
    /// holds, the drain ends and the node is restored.
    fn changes_withdrawn(&mut self, name: &NodeName, events: &[String], why: Withdrawal) {
        let Some(state) = self.drains.get_mut(name).filter(|state| state.is_draining()) else {
            return;
        };
        let before = state.disproved.len();
        state.disproved.extend(events.iter().cloned());
        if state.disproved.len() == before {
            return;
        }
        let nothing_holds = state.is_disproved() && !state.record.has_unknown();
        self.out.report(name, DrainEvent::ChangeWithdrawn { why, nothing_holds });
        if nothing_holds {
            state.end_reason = EndReason::NothingHolds;
            self.feed(name, Input::Release);
        } else {
            self.refresh_limits(name);
            self.verify_actions(name);
        }
    }
}
