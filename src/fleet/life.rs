//! What follows from the record that a Node shows, from the end of its drain and from the deletion
//! of the Node.

use std::{collections::BTreeSet, sync::Arc};

use super::{DrainEvent, Effect, End, Fleet, LastKnownNode, doubted::DoubtedRecord};
use crate::{
    domain::{InstanceId, LifecycleAction, Moment, Node, NodeName, seconds},
    drain::{Drain, Input, NodeCondition, Outcome},
    record::{self, EndReason, RecordStatus, Trust, VoidReason},
};

/// How long the record of a deleted Node stays restorable, in case its instance registers again.
pub(super) const RESTORABLE_FOR: std::time::Duration = seconds(900);

/// A record that was deleted with its Node, or from it while nobody led. It is written again if the
/// instance has a Node without a record.
pub(super) struct RestorableRecord {
    pub(super) record: record::Record,
    /// The other annotations of that Node that belong to its instance.
    pub(super) kept: Vec<(&'static str, String)>,
    /// When the fleet forgets it.
    pub(super) until: Moment,
    /// UIDs of other Nodes that claimed the instance when its drained Node was deleted. The record
    /// is not theirs: the instance has not registered again with one of them.
    pub(super) claimants: BTreeSet<String>,
}

impl Fleet {
    /// Acts on a Node from the index, the LIST or the answer to a PATCH, if this leader has read it
    /// from the API server in this term ([`Trust::Confirmed`]). Otherwise only keeps its actions
    /// alive, and reads the Node, unless the LIST of this term is still to come.
    pub(super) fn consider_node(&mut self, node: &Arc<Node>) {
        if self.deleted_but_indexed.contains(&node.uid) {
            return;
        }
        let held = self.last_seen(&node.name).cloned();
        let trust = self.takeover.confirmed.trust(node, held.as_deref());
        if trust == Trust::Confirmed {
            return self.act_on_node(node);
        }
        if held.is_none() {
            self.keep_alive(node);
        }
        if trust == Trust::Unconfirmed {
            self.read(node);
        }
    }

    /// The Node as its drain, or else its doubted record, last saw it.
    pub(super) fn last_seen(&self, name: &NodeName) -> Option<&Arc<Node>> {
        let of_drain = self.drains.get(name).map(|state| &state.node);
        of_drain.or_else(|| self.doubted.get(name).map(|doubted| &doubted.node))
    }

    /// Acts on the record and the annotations of a confirmed Node.
    pub(super) fn act_on_node(&mut self, node: &Arc<Node>) {
        let name = &node.name;
        if self.drains.get(name).is_some_and(|state| state.node.uid != node.uid) {
            // The Node was deleted and registered again, and this fleet saw only the new one.
            self.drained_node_deleted(name);
        }
        // The same Node has got the providerID of another instance. The drain of the instance that
        // its name seemed to mean ends as if its Node was deleted.
        if self
            .drains
            .get(name)
            .is_some_and(|state| node.instance.as_ref().is_some_and(|i| *i != state.instance))
        {
            self.drained_node_deleted(name);
        }
        if !node.keeps_cordon() && self.held_restores.remove(name) {
            self.reported_void.remove(name);
        }
        if self.reported_void.contains_key(name) && !self.is_reported_void(node) {
            self.reported_void.remove(name);
        }
        if let Some(doubted) = self.doubted.get(name).filter(|doubted| doubted.node.uid != node.uid)
        {
            let deleted = Arc::clone(&doubted.node);
            self.complete_deleted_node(&deleted, Some(node));
        }
        if self.deleted_but_indexed.contains(&node.uid) {
            return;
        }
        let mut restorable_actions = self.open_actions_of_deleted_record(node);
        restorable_actions.extend(self.actions_of_replaced_record(node));
        self.stop_unneeded_heartbeats(name, Some(node), &restorable_actions);
        let instance = node.instance.clone().or_else(|| self.found_instances.get(name).cloned());
        match record::status(node, instance.as_ref()) {
            RecordStatus::None => self.no_record_seen(node, instance.as_ref()),
            RecordStatus::Damaged(damage) => self.damaged_record_seen(node, &damage),
            RecordStatus::Open(record) => {
                self.reported_damaged.remove(name);
                self.note_record_present(node);
                if let Some(instance) = instance {
                    self.open_record_seen(node, &instance, record);
                }
            }
            RecordStatus::Released { record, .. } => {
                self.reported_damaged.remove(name);
                // The drain of a later interruption may have ended before Auto Scaling answered.
                let is_of_another = |doubted: &DoubtedRecord| {
                    doubted.node.uid == node.uid && record::lacks_a_hook(&record, &doubted.record)
                };
                if !self.doubted.get(name).is_some_and(is_of_another) {
                    self.doubted.remove(name);
                }
                self.update_node(node);
                self.ended_elsewhere(name, "its record is marked as released");
                self.restore_held(node, &record);
            }
            RecordStatus::Void { record, why } => self.void_record_seen(node, &record, why),
            RecordStatus::Doubtful { record, why } => {
                self.doubtful_record_seen(node, instance, record, why);
            }
        }
        self.follow_pause(name);
        self.follow_people(node);
        self.follow_settings(name);
        self.follow_node_labels(name);
        self.follow_gates(name);
        self.follow_paced_node(name);
        self.follow_planned(node);
        self.follow_requests(node);
        self.follow_conditions(node);
    }

    pub(super) fn open_record_seen(
        &mut self,
        node: &Arc<Node>,
        instance: &InstanceId,
        record: record::Record,
    ) {
        // Another interruption may have replaced a doubted record before Auto Scaling answered.
        let is_lacking = |doubted: &DoubtedRecord| {
            doubted.node.uid == node.uid
                && record::merged_record(&record, &doubted.record).is_some()
        };
        let doubted = if self.doubted.get(&node.name).is_some_and(is_lacking) {
            None
        } else {
            self.doubted.remove(&node.name)
        };
        if self.drains.contains_key(&node.name) {
            self.join(&node.name, node, record);
        } else if self.lookup.selects(node) {
            // If the Node has got the annotation `sundown.dev/ignore` since its accept, its drain
            // begins nevertheless, and `follow_people` ends it at once.
            self.begin(node, instance, record);
            if let (Some(state), Some(doubted)) = (self.drains.get_mut(&node.name), doubted) {
                state.deletion = doubted.deletion;
            }
        } else {
            self.report_unselected(node);
        }
    }

    pub(super) fn update_node(&mut self, node: &Arc<Node>) {
        if let Some(state) = self.drains.get_mut(&node.name) {
            state.node = Arc::clone(node);
        }
    }

    /// The Node shows that its drain has ended. This leader writes that only after the end of its
    /// drain, so another leader or a person did. The drain ends at once, and the record is not
    /// written back.
    pub(super) fn ended_elsewhere(&mut self, name: &NodeName, why: &'static str) {
        let Some(state) = self.drains.get_mut(name) else { return };
        state.deletion.ended();
        if state.is_draining() {
            self.out.report(name, DrainEvent::EndedElsewhere { why });
            self.feed(name, Input::Release);
        }
    }

    fn damaged_record_seen(&mut self, node: &Arc<Node>, damage: &record::Damage) {
        self.update_node(node);
        let text = node.record().unwrap_or_default();
        if self.reported_damaged.get(&node.name).is_some_and(|reported| reported == text) {
            return;
        }
        self.reported_damaged.insert(node.name.clone(), text.to_owned());
        self.out.report(&node.name, DrainEvent::RecordDamaged(damage.to_string()));
    }

    pub(super) fn void_record_seen(
        &mut self,
        node: &Arc<Node>,
        record: &record::Record,
        why: VoidReason,
    ) {
        let name = &node.name;
        self.doubted.remove(name);
        // It may be the one that was written back.
        self.records_being_restored.remove(&node.uid);
        if !self.lookup.manages(node) || self.is_reported_void(node) {
            return;
        }
        self.reported_void.insert(name.clone(), node.record().unwrap_or_default().to_owned());
        if !node.keeps_cordon() {
            let instance = record.instance().clone();
            self.out.report(name, DrainEvent::RecordVoid { instance, why });
        }
        if let Some(took) =
            self.drains.get(name).map(|state| self.now.since_or_zero(state.resumed_at))
        {
            self.out.report(name, DrainEvent::EndedVoid { took });
        }
        if let Some((instance, record)) = self.forget(name) {
            for action in self.lookup.open_actions(&record, &instance) {
                if self.other_with_open_action(&action).is_none() {
                    self.out.stop_keep_alive(&action);
                }
            }
        }
        if node.keeps_cordon() {
            self.held_restores.insert(name.clone());
            self.out.report(name, DrainEvent::RestoreHeld);
        } else {
            self.out.push(Effect::RestoreNode(Arc::clone(node)));
        }
    }

    /// Restores a Node whose restore `sundown.dev/keep-cordoned` held until now.
    fn restore_held(&mut self, node: &Arc<Node>, record: &record::Record) {
        if node.keeps_cordon() {
            self.held_restores.insert(node.name.clone());
        } else if record::is_restore_due(node, record)
            && self.lookup.manages(node)
            && !self.is_reported_void(node)
        {
            self.order_restore(node);
        }
    }

    /// Orders to restore a Node whose record no longer holds it: once, until the record changes
    /// ([`Self::is_reported_void`]).
    pub(super) fn order_restore(&mut self, node: &Arc<Node>) {
        let text = node.record().unwrap_or_default().to_owned();
        self.reported_void.insert(node.name.clone(), text);
        self.out.push(Effect::RestoreNode(Arc::clone(node)));
    }

    /// The fleet has already reported that this very record is void, and ordered to put the Node
    /// back.
    pub(super) fn is_reported_void(&self, node: &Node) -> bool {
        self.reported_void.get(&node.name).is_some_and(|reported| node.record() == Some(reported))
    }

    /// The index no longer shows this Node object.
    pub(super) fn node_deleted(&mut self, node: &Arc<Node>) {
        drop(self.planned.forget(&node.name));
        self.requests.forget(&node.name);
        self.conditions.forget(&node.name);
        self.deleted_without_drain(node);
        self.deleted_but_indexed.remove(&node.uid);
        self.reported_damaged.remove(&node.name);
        self.found_instances.remove(&node.name);
        self.looking_up_instance.remove(&node.name);
        self.records_being_restored.remove(&node.uid);
        self.reported_lost_record.remove(&node.uid);
        self.reported_void.remove(&node.name);
        self.held_restores.remove(&node.name);
        self.reported_unselected.remove(&node.name);
        self.trusted_boots.retain(|(uid, _)| *uid != node.uid);
        if self.drains.get(&node.name).is_some_and(|state| state.node.uid == node.uid) {
            self.drained_node_deleted(&node.name);
        }
        self.take_doubted(node);
    }

    /// The Node of a drain was deleted: ends the drain, completes its open actions from memory at
    /// once, and forgets the drain.
    pub(super) fn drained_node_deleted(&mut self, name: &NodeName) {
        if self.replaced_record(name).is_some() {
            self.complete_replaced_record(name);
        }
        // Otherwise the drain also completes the actions of a doubted record.
        self.doubted.remove(name);
        let Some(state) = self.drains.get(name) else { return };
        let (node, instance, record) =
            (Arc::clone(&state.node), state.instance.clone(), state.record.clone());
        let now = self.now;
        self.keep_restorable(&node, &instance, &record, now);
        self.feed(name, Input::Node(NodeCondition::Deleted));
        // A completion that has begun goes on without the fleet. The name is free for a new Node.
        self.forget_deleted(name);
    }

    /// Forgets the drain of a Node that was deleted. Its completion covers the actions that were
    /// open when the drain ended. An interruption that joined later is only in the record, which is
    /// deleted with the Node: its lifecycle actions are completed here.
    fn forget_deleted(&mut self, name: &NodeName) {
        let deleted = self.drains.get(name).map(|state| {
            let has_joined_later = |action: &LifecycleAction| {
                state.completion().is_some_and(|completion| !completion.covers(action))
                    && !state.closed_actions.contains(action)
            };
            let joined = self
                .lookup
                .open_actions(&state.record, &state.instance)
                .into_iter()
                .filter(has_joined_later);
            let (node, instance, record) =
                (Arc::clone(&state.node), state.instance.clone(), state.record.clone());
            (LastKnownNode { node, instance, record, at: self.now }, joined.collect::<Vec<_>>())
        });
        self.forget(name);
        let Some((deleted, mut joined)) = deleted else { return };
        joined.retain(|action| self.other_with_open_action(action).is_none());
        if !joined.is_empty() {
            self.out.report(name, DrainEvent::CompletedFromMemory);
            let interruptions = self.lookup.interruptions(&deleted.record, &deleted.instance);
            self.out.complete_deleted(deleted, interruptions, joined);
        }
    }

    /// A drain has ended: reports that and orders its completion.
    pub(super) fn drain_ended(&mut self, name: &NodeName, outcome: &Outcome) {
        let now = self.now;
        self.out.unwatch_pods(name);
        self.volumes.end(name);
        self.pacing.forget(name);
        let Some(state) = self.drains.get_mut(name) else { return };
        if matches!(outcome, Outcome::Expired { .. }) {
            state.end_reason = EndReason::NothingHolds;
            let events = state.interruptions.iter().map(|facts| facts.event_id.clone());
            state.disproved.extend(events);
            self.out.report(name, DrainEvent::RecommendationExpired);
        }
        let Some(state) = self.drains.get_mut(name) else { return };
        let pods_are_known = state.drain().is_some_and(Drain::has_listed_pods);
        let skipped = state.drain().map_or(0, |drain| drain.skipped().values().sum());
        // From now on, neither a proof nor the state of the kubelet changes anything.
        state.verifying.clear();
        self.out.push(Effect::StopVerifying(name.clone()));
        self.out.push(Effect::StopReadingSilent(name.clone()));
        self.out.deadline_is(name, None);
        if let Some(wake) = state.wake_at.take() {
            self.wakes.remove(&(wake, name.clone()));
        }
        let accepted = state.interruptions.iter().map(|t| t.accepted).min();
        let took = now.since_or_zero(accepted.unwrap_or(state.resumed_at));
        let (node, instance, interruptions) =
            (Arc::clone(&state.node), state.instance.clone(), state.interruptions.clone());
        let end = End {
            outcome: outcome.clone(),
            pods_are_known,
            skipped,
            took,
            node,
            instance,
            interruptions,
        };
        self.out.report(name, DrainEvent::Ended(Box::new(end)));
        self.begin_completion(name, outcome);
        self.begin_waiting_completions();
        self.update_gates(name);
    }

    /// The completion of a drain is done: forgets the drain.
    pub(super) fn completion_done(&mut self, name: &NodeName, uid: &str, is_node_deleted: bool) {
        if is_node_deleted {
            self.out.push(Effect::ForgetDeletedNode(uid.to_owned()));
        }
        // The index may show the deleted Node for a while. Its record must not begin another drain.
        if is_node_deleted && self.lookup.facts.node(name).is_some_and(|n| n.uid == uid) {
            self.deleted_but_indexed.insert(uid.to_owned());
        }
        if self.drains.get(name).is_none_or(|state| state.node.uid != uid || state.is_draining()) {
            return;
        }
        if is_node_deleted {
            self.forget_deleted(name);
        } else {
            self.forget(name);
        }
        self.changed_drains.insert(name.clone());
        if let Some(node) = self.lookup.facts.node(name) {
            // An interruption may have joined during the completion.
            self.consider_node(&node);
        }
    }
}
