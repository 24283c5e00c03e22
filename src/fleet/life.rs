//! The life of a Node's record, as seen by the leader.

use std::sync::Arc;

use super::{DeletedNode, DrainEvent, Effect, End, Fleet};
use crate::{
    domain::{InstanceId, LifecycleAction, Node, NodeName, seconds},
    drain::{Input, NodeCondition, Outcome},
    record::{self, Doubt, RecordDeletion, RecordStatus, Trust, VoidReason},
};

/// How long the record of a vanished Node is remembered, in case its instance registers again.
pub(super) const REMEMBER: std::time::Duration = seconds(900);

/// A record of an earlier boot of the machine, without a drain, while Auto Scaling is asked whether
/// one of its hooks is open. The answer can take long, and a person can delete the Node or the
/// record meanwhile: this leader alone knows then what the record owes.
pub(super) struct DoubtedRecord {
    pub(super) node: Arc<Node>,
    pub(super) instance: InstanceId,
    pub(super) record: record::Record,
    pub(super) deletion: RecordDeletion,
}

impl Fleet {
    /// A Node from the index, the LIST or the answer to a PATCH. Unless that is confirmed, only its
    /// heartbeats start, and the Node is read.
    pub(super) fn see(&mut self, node: &Arc<Node>) {
        if self.gone.contains(&node.uid) {
            return;
        }
        let held = self.held(&node.name).cloned();
        let trust = self.takeover.confirmed.trust(node, held.as_deref());
        if trust == Trust::Confirmed {
            return self.see_confirmed(node);
        }
        if held.is_none() {
            self.keep_alive(node);
        }
        if trust == Trust::Unconfirmed {
            self.read(node);
        }
    }

    /// The Node as its drain, or else its doubted record, last saw it.
    pub(super) fn held(&self, name: &NodeName) -> Option<&Arc<Node>> {
        let of_drain = self.drains.get(name).map(|state| &state.node);
        of_drain.or_else(|| self.doubted.get(name).map(|doubted| &doubted.node))
    }

    /// Acts on what the record of a confirmed Node says.
    pub(super) fn see_confirmed(&mut self, node: &Arc<Node>) {
        let name = &node.name;
        if self.drains.get(name).is_some_and(|c| c.node.uid != node.uid) {
            // Deleted and registered again between two looks.
            self.vanished(name);
        }
        if self
            .drains
            .get(name)
            .is_some_and(|c| node.instance.as_ref().is_some_and(|i| *i != c.instance))
        {
            self.vanished(name);
        }
        if self.voided.contains_key(name) && !self.is_told_void(node) {
            self.voided.remove(name);
        }
        if let Some(doubted) = self.doubted.get(name).filter(|doubted| doubted.node.uid != node.uid)
        {
            let deleted = Arc::clone(&doubted.node);
            self.complete_of_deleted(&deleted, Some(node));
        }
        if self.gone.contains(&node.uid) {
            return;
        }
        let of_deleted_record = self.open_actions_of_deleted_record(node);
        self.settle_kept_alive(name, Some(node), &of_deleted_record);
        let instance = node.instance.clone().or_else(|| self.named.get(name).cloned());
        match record::status(node, instance.as_ref()) {
            RecordStatus::None => self.unrecorded(node, instance.as_ref()),
            RecordStatus::Damaged(damage) => self.damaged(node, &damage),
            RecordStatus::Open(record) => {
                self.damaged.remove(name);
                self.record_seen(node);
                if let Some(instance) = instance {
                    self.open(node, &instance, record);
                }
            }
            RecordStatus::Released { .. } => {
                self.damaged.remove(name);
                self.doubted.remove(name);
                self.update(node);
                self.ended_elsewhere(name, "its record says that it is released");
            }
            RecordStatus::Void { record, why } => self.void(node, &record, why),
            RecordStatus::Doubtful { record, why } => self.doubtful(node, instance, record, why),
        }
        self.follow_pause(name);
        self.follow_people(node);
    }

    fn open(&mut self, node: &Arc<Node>, instance: &InstanceId, record: record::Record) {
        let doubted = self.doubted.remove(&node.name);
        if self.drains.contains_key(&node.name) {
            self.join(&node.name, node, record);
        } else if self.lookup.selects(node) {
            // One that is to be left alone since its accept is taken up as well: `follow_people`
            // ends its drain at once.
            self.begin(node, instance, record);
            if let (Some(state), Some(doubted)) = (self.drains.get_mut(&node.name), doubted) {
                state.deletion = doubted.deletion;
            }
        } else {
            self.leave_alone(node);
        }
    }

    pub(super) fn update(&mut self, node: &Arc<Node>) {
        if let Some(state) = self.drains.get_mut(&node.name) {
            state.node = Arc::clone(node);
        }
    }

    /// The Node shows that its drain is over, and this leader writes that only after the drain has
    /// ended: another leader or a person did. The drain ends at once, and the record is not written
    /// back.
    pub(super) fn ended_elsewhere(&mut self, name: &NodeName, why: &'static str) {
        let Some(state) = self.drains.get_mut(name) else { return };
        state.deletion.ended();
        if state.drain.is_some() {
            self.out.report(name, DrainEvent::EndedElsewhere { why });
            self.feed(name, Input::Release);
        }
    }

    fn damaged(&mut self, node: &Arc<Node>, damage: &record::Damage) {
        self.update(node);
        let text = node.record().unwrap_or_default();
        if self.damaged.get(&node.name).is_some_and(|told| told == text) {
            return;
        }
        self.damaged.insert(node.name.clone(), text.to_owned());
        self.out.report(&node.name, DrainEvent::RecordDamaged(damage.to_string()));
    }

    fn void(&mut self, node: &Arc<Node>, record: &record::Record, why: VoidReason) {
        let name = &node.name;
        self.doubted.remove(name);
        if !self.lookup.manages(node) || self.is_told_void(node) {
            return;
        }
        self.voided.insert(name.clone(), node.record().unwrap_or_default().to_owned());
        self.out.report(name, DrainEvent::RecordVoid { instance: record.instance().clone(), why });
        if let Some(took) = self.drains.get(name).map(|state| self.now.since_or_zero(state.take_up))
        {
            self.out.report(name, DrainEvent::EndedVoid { took });
        }
        if let Some(state) = self.close(name) {
            for action in self.lookup.open_actions(&state.record, &state.instance) {
                if self.other_with_open_action(&action).is_none() {
                    self.out.stop_keep_alive(&action);
                }
            }
        }
        self.out.push(Effect::PutBack(Arc::clone(node)));
    }

    /// This very record was found void before; what it left is being put back.
    fn is_told_void(&self, node: &Node) -> bool {
        self.voided.get(&node.name).is_some_and(|told| node.record() == Some(told))
    }

    fn doubtful(
        &mut self,
        node: &Arc<Node>,
        instance: Option<InstanceId>,
        record: record::Record,
        why: Doubt,
    ) {
        self.update(node);
        self.record_seen(node);
        match (why, instance) {
            (Doubt::InstanceNotKnown, _) | (_, None) => self.ask_name(node),
            (Doubt::HookMayBeOpen, Some(instance)) => {
                let key = (node.uid.clone(), node.boot_id.clone().unwrap_or_default());
                if !self.drains.contains_key(&node.name) && !self.lookup.selects(node) {
                    self.leave_alone(node);
                } else if self.trusted.contains(&key) {
                    self.open(node, &instance, record);
                } else if let Some(doubted) = self.doubted.get_mut(&node.name) {
                    doubted.node = Arc::clone(node);
                } else if !self.is_told_void(node) {
                    self.ask_hooks(node, &instance, &record);
                    let doubted = DoubtedRecord {
                        node: Arc::clone(node),
                        instance,
                        record,
                        deletion: RecordDeletion::default(),
                    };
                    self.doubted.insert(node.name.clone(), doubted);
                }
            }
        }
    }

    /// Auto Scaling has answered whether a hook of the doubted record is open.
    pub(super) fn doubt_settled(&mut self, name: &NodeName, uid: &str, counts: bool) {
        let Some(doubted) = self.doubted.get(name).filter(|doubted| doubted.node.uid == uid) else {
            return;
        };
        // The LIST of a new leader can show a Node minutes before the index does. If the index has
        // just removed the Node, the event of its deletion follows: it completes what the record
        // owes.
        let shown = self
            .lookup
            .facts
            .node(name)
            .filter(|shown| shown.uid == uid && !shown.is_older_than(&doubted.node));
        let node = shown.unwrap_or_else(|| Arc::clone(&doubted.node));
        if counts {
            self.trusted.insert((node.uid.clone(), node.boot_id.clone().unwrap_or_default()));
            self.see(&node);
            if matches!(record::status(&node, self.named.get(name)), RecordStatus::Damaged(_)) {
                self.begin_doubted(&node);
            }
            return;
        }
        self.take_doubted(&node);
        if let RecordStatus::Doubtful { record, .. } = record::status(&node, self.named.get(name)) {
            self.void(&node, &record, VoidReason::Rebooted);
        }
    }

    /// The doubted record of this very Node object.
    pub(super) fn take_doubted(&mut self, node: &Node) -> Option<DoubtedRecord> {
        self.doubted.get(&node.name).filter(|doubted| doubted.node.uid == node.uid)?;
        self.doubted.remove(&node.name)
    }

    /// The Node object is gone.
    pub(super) fn node_deleted(&mut self, node: &Arc<Node>) {
        self.deleted_without_drain(node);
        self.gone.remove(&node.uid);
        self.damaged.remove(&node.name);
        self.named.remove(&node.name);
        self.asking_name.remove(&node.name);
        self.being_restored.remove(&node.uid);
        self.without_record.remove(&node.uid);
        self.voided.remove(&node.name);
        self.left_alone.remove(&node.name);
        self.trusted.retain(|(uid, _)| *uid != node.uid);
        if self.drains.get(&node.name).is_some_and(|c| c.node.uid == node.uid) {
            self.vanished(&node.name);
        }
        self.take_doubted(node);
    }

    /// The Node of a drain is gone: what it owes is completed from memory at once.
    pub(super) fn vanished(&mut self, name: &NodeName) {
        let Some(state) = self.drains.get_mut(name) else { return };
        // The drain completes what a doubted record owes, too.
        self.doubted.remove(name);
        let until = self.now.plus(REMEMBER);
        self.remembered.insert(state.instance.clone(), (state.record.clone(), until));
        self.feed(name, Input::Node(NodeCondition::Deleted));
        // A release that runs goes on by itself; the place is free for a new Node of this name.
        self.close_deleted(name);
    }

    /// Forgets the drain of a Node that was deleted. Its release completes what the record owed
    /// when the release began. An interruption that joined later is in the record only, which is
    /// deleted with the Node: its lifecycle actions are completed here.
    fn close_deleted(&mut self, name: &NodeName) {
        let gone = self.drains.get(name).map(|state| {
            let is_joined = |action: &LifecycleAction| {
                state.completing.as_ref().is_some_and(|release| !release.covers(action))
                    && !state.over.contains(action)
            };
            let joined = self
                .lookup
                .open_actions(&state.record, &state.instance)
                .into_iter()
                .filter(is_joined);
            let (node, instance, record) =
                (Arc::clone(&state.node), state.instance.clone(), state.record.clone());
            (DeletedNode { node, instance, record, at: self.now }, joined.collect::<Vec<_>>())
        });
        self.close(name);
        let Some((gone, mut joined)) = gone else { return };
        joined.retain(|action| self.other_with_open_action(action).is_none());
        if !joined.is_empty() {
            self.out.report(name, DrainEvent::CompletedFromMemory);
            let taken = self.lookup.taken(&gone.record, &gone.instance);
            self.out.complete_deleted(gone, taken, joined);
        }
    }

    /// A drain is over: what it owes is completed.
    pub(super) fn ended(&mut self, name: &NodeName, outcome: &Outcome) {
        let now = self.now;
        self.out.unwatch_pods(name);
        let Some(state) = self.drains.get_mut(name) else { return };
        let pods_are_known = state.drain.take().is_some_and(|drain| drain.has_listed_pods());
        // Nothing hangs on a proof any more, nor on whether its kubelet is heard.
        state.verifying.clear();
        self.out.push(Effect::StopVerifying(name.clone()));
        self.out.push(Effect::StopReadingSilent(name.clone()));
        self.out.deadline_is(name, None);
        if let Some(wake) = state.wake.take() {
            self.wakes.remove(&(wake, name.clone()));
        }
        let accepted = state.taken.iter().map(|t| t.accepted).min();
        let took = now.since_or_zero(accepted.unwrap_or(state.take_up));
        let (node, instance, taken) =
            (Arc::clone(&state.node), state.instance.clone(), state.taken.clone());
        let end = End { outcome: outcome.clone(), pods_are_known, took, node, instance, taken };
        self.out.report(name, DrainEvent::Ended(Box::new(end)));
        self.release(name, outcome);
        self.complete_claimed();
    }

    /// A release is done.
    pub(super) fn finished(&mut self, name: &NodeName, uid: &str, node_gone: bool) {
        if node_gone {
            self.out.push(Effect::ForgetDeletedNode(uid.to_owned()));
        }
        // Else its record would be taken up again and again for as long as the index is behind.
        if node_gone && self.lookup.facts.node(name).is_some_and(|n| n.uid == uid) {
            self.gone.insert(uid.to_owned());
        }
        if self.drains.get(name).is_none_or(|c| c.node.uid != uid || c.drain.is_some()) {
            return;
        }
        if node_gone {
            self.close_deleted(name);
        } else {
            self.close(name);
        }
        self.dirty.insert(name.clone());
        if let Some(node) = self.lookup.facts.node(name) {
            // Something may have joined while it was released.
            self.see(&node);
        }
    }
}
