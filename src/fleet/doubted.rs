//! Records in doubt: of an earlier boot of the machine, while Auto Scaling is asked whether one of
//! their lifecycle actions is still open.

use std::sync::Arc;

use super::{DrainEvent, Effect, Fleet, LastKnownNode, RecordRestoration};
use crate::{
    domain::{InstanceId, LifecycleAction, Node, NodeName},
    record::{self, Doubt, RecordDeletion, RecordStatus, VoidReason},
};

/// A record of an earlier boot of the machine, without a drain, while Auto Scaling is asked whether
/// one of its lifecycle actions is open. The answer can take long. If a person deletes the Node or
/// the record meanwhile, only this leader still knows the actions.
pub(super) struct DoubtedRecord {
    pub(super) node: Arc<Node>,
    pub(super) instance: InstanceId,
    pub(super) record: record::Record,
    pub(super) deletion: RecordDeletion,
}

impl Fleet {
    pub(super) fn doubtful_record_seen(
        &mut self,
        node: &Arc<Node>,
        instance: Option<InstanceId>,
        record: record::Record,
        why: Doubt,
    ) {
        self.update_node(node);
        self.note_record_present(node);
        match (why, instance) {
            (Doubt::InstanceNotKnown, _) | (_, None) => self.look_up_instance(node),
            (Doubt::HookMayBeOpen, Some(instance)) => {
                let key = (node.uid.clone(), node.boot_id.clone().unwrap_or_default());
                if !self.drains.contains_key(&node.name) && !self.lookup.selects(node) {
                    self.report_unselected(node);
                } else if self.trusted_boots.contains(&key) {
                    self.open_record_seen(node, &instance, record);
                } else if let Some(doubted) = self.doubted.get_mut(&node.name) {
                    doubted.node = Arc::clone(node);
                } else if !self.is_reported_void(node) {
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

    /// Auto Scaling has answered about a doubted record. `is_valid`: one of its lifecycle actions
    /// is open; otherwise the record is void.
    pub(super) fn doubt_settled(&mut self, name: &NodeName, uid: &str, is_valid: bool) {
        let Some(doubted) = self.doubted.get(name).filter(|doubted| doubted.node.uid == uid) else {
            return;
        };
        if self.replaced_record(name).is_some() {
            return self.replaced_record_settled(name, is_valid);
        }
        let shown = self.lookup.facts.node(name).filter(|shown| shown.uid == uid);
        let has_ended = shown.is_some_and(|shown| {
            matches!(record::status(&shown, None), RecordStatus::Released { .. })
        });
        if is_valid && has_ended && !self.drains.contains_key(name) {
            // A later interruption has replaced this record, and its drain is over. Nobody else
            // completes the actions of the older record.
            return self.complete_replaced_record(name);
        }
        // Use the newer of two: the Node in the index, and the one with the doubted record, which
        // may come from a LIST that is minutes ahead. If the index no longer has the Node, its
        // deletion is one of the next inputs and completes the open actions.
        let shown = self
            .lookup
            .facts
            .node(name)
            .filter(|shown| shown.uid == uid && !shown.is_older_than(&doubted.node));
        let node = shown.unwrap_or_else(|| Arc::clone(&doubted.node));
        if is_valid {
            self.trusted_boots.insert((node.uid.clone(), node.boot_id.clone().unwrap_or_default()));
            self.consider_node(&node);
            if matches!(
                record::status(&node, self.found_instances.get(name)),
                RecordStatus::Damaged(_)
            ) {
                self.begin_doubted(&node);
            }
            return;
        }
        self.take_doubted(&node);
        if let RecordStatus::Doubtful { record, .. } =
            record::status(&node, self.found_instances.get(name))
        {
            self.void_record_seen(&node, &record, VoidReason::Rebooted);
        }
    }

    /// The doubted record of a node that has a drain, if the drain's record belongs to a later
    /// interruption and lacks a hook that the doubted record names.
    pub(super) fn replaced_record(&self, name: &NodeName) -> Option<&DoubtedRecord> {
        let state = self.drains.get(name)?;
        self.doubted.get(name).filter(|doubted| {
            doubted.node.uid == state.node.uid
                && record::merged_record(&state.record, &doubted.record).is_some()
        })
    }

    /// The lifecycle actions of [`Self::replaced_record`] that may still be open.
    pub(super) fn actions_of_replaced_record(&self, node: &Node) -> Vec<LifecycleAction> {
        let doubted = self.replaced_record(&node.name).filter(|held| held.node.uid == node.uid);
        doubted
            .map(|held| self.lookup.open_actions(&held.record, &held.instance))
            .unwrap_or_default()
    }

    /// Auto Scaling has answered whether an action of [`Self::replaced_record`] is open. If one is,
    /// the record of the drain gets the doubted record's interruptions.
    pub(super) fn replaced_record_settled(&mut self, name: &NodeName, is_valid: bool) {
        if is_valid && self.drains.get(name).is_some_and(|state| !state.is_draining()) {
            return self.complete_replaced_record(name);
        }
        let Some(doubted) = self.doubted.remove(name) else { return };
        let Some(node) = self.drains.get(name).map(|state| Arc::clone(&state.node)) else { return };
        if !is_valid {
            return self.stop_unneeded_heartbeats(name, Some(&node), &[]);
        }
        // The drain has these actions from now on: its Node may be deleted before the record is
        // written.
        if let Some(state) = self.drains.get_mut(name)
            && let Some(whole) = record::merged_record(&state.record, &doubted.record)
        {
            state.record = whole;
            state.ordered_carry_over = Some(Box::new(doubted.record.clone()));
        }
        let why = "A lifecycle action of an earlier boot of the machine is still open, and the \
            record of the next interruption lacks it. Sundown adds it to the record.";
        self.out.report(name, DrainEvent::RecordRestored(why));
        self.out.push(Effect::RestoreRecord(
            node,
            RecordRestoration::CarryOver(Box::new(doubted.record)),
        ));
    }

    /// Removes and returns the doubted record of this very Node object.
    pub(super) fn take_doubted(&mut self, node: &Node) -> Option<DoubtedRecord> {
        self.doubted.get(&node.name).filter(|doubted| doubted.node.uid == node.uid)?;
        self.doubted.remove(&node.name)
    }

    /// The Node was deleted, or its drain has ended, before Auto Scaling answered for
    /// [`Self::replaced_record`]: completes the actions that only that record names.
    pub(super) fn complete_replaced_record(&mut self, name: &NodeName) {
        let Some(DoubtedRecord { node, instance, record, .. }) = self.doubted.remove(name) else {
            return;
        };
        let mut actions = self.lookup.open_actions(&record, &instance);
        actions.retain(|action| self.other_with_open_action(action).is_none());
        if actions.is_empty() {
            return;
        }
        self.out.report(
            name,
            DrainEvent::CompletedOnceMore { instance: instance.clone(), is_doubted: true },
        );
        let interruptions = self.lookup.interruptions(&record, &instance);
        self.out.complete_deleted(
            LastKnownNode { node, instance, record, at: self.now },
            interruptions,
            actions,
        );
    }
}
