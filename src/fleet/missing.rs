//! A Node without a record, of which this leader may still hold one. `record/deleted.rs` decides
//! what follows.

use std::sync::Arc;

use super::{DrainEvent, Effect, Fleet, RecordRestoration};
use crate::{
    domain::{InstanceId, LifecycleAction, Node},
    record::{self, HeldRecord, MissingRecord, OnDeletion, OnMissingRecord, Record},
};

impl Fleet {
    /// The Node has no record.
    pub(super) fn no_record_seen(&mut self, node: &Arc<Node>, instance: Option<&InstanceId>) {
        self.reported_damaged.remove(&node.name);
        self.update_node(node);
        if !node.has_our_taint() {
            // `record::restore_record` writes nothing on a Node without the taint.
            self.records_being_restored.remove(&node.uid);
        }
        self.hold_record_of_index(node, instance);
        let missing = MissingRecord {
            held: self.held_record(node, instance),
            has_taint: node.has_our_taint(),
            is_managed: self.lookup.manages(node),
            is_being_restored: self.records_being_restored.contains(&node.uid),
        };
        match missing.decide() {
            OnMissingRecord::EndDrain => {
                let why = if missing.has_taint {
                    "its record is deleted, and Sundown does not manage it"
                } else {
                    "it has neither a record nor Sundown's taint"
                };
                self.begin_doubted(node);
                self.ended_elsewhere(&node.name, why);
            }
            OnMissingRecord::CountDeletion => self.record_deleted(node),
            OnMissingRecord::WriteBack => {
                if let Some(held) = instance.and_then(|instance| self.restorable.remove(instance)) {
                    self.write_back(node, held.record);
                }
            }
            OnMissingRecord::Register => self.register(node, instance),
            OnMissingRecord::ReportLost => self.report_lost_record(node),
            OnMissingRecord::Nothing => {}
        }
    }

    /// A person deleted the record while nobody led, and the index still shows the Node as it was
    /// before: this leader read the Node before its index caught up. It holds that record.
    fn hold_record_of_index(&mut self, node: &Node, instance: Option<&InstanceId>) {
        let Some(instance) = instance.filter(|instance| {
            node.has_our_taint()
                && self.last_seen(&node.name).is_none()
                && !self.records_being_restored.contains(&node.uid)
                && !self.restorable.contains_key(*instance)
        }) else {
            return;
        };
        let before = self
            .lookup
            .facts
            .node(&node.name)
            .filter(|shown| shown.uid == node.uid && shown.is_older_than(node));
        let record =
            before.and_then(|shown| record::status(&shown, Some(instance)).with_open_actions());
        if let Some(record) = record {
            let now = self.now;
            self.keep_restorable(node, instance, &record, now);
        }
    }

    fn held_record(&self, node: &Node, instance: Option<&InstanceId>) -> HeldRecord {
        if let Some(state) = self.drains.get(&node.name) {
            return HeldRecord::Drain {
                is_pending: state.is_draining() || self.has_open_actions(state),
            };
        }
        if self.doubted.get(&node.name).is_some_and(|doubted| doubted.node.uid == node.uid)
            && self.lookup.selects(node)
        {
            return HeldRecord::Doubted;
        }
        let held = instance
            .and_then(|instance| Some((instance, self.restorable.get(instance)?)))
            .filter(|(_, held)| !held.claimants.contains(&node.uid));
        held.map_or(HeldRecord::None, |(instance, held)| HeldRecord::OfInstance {
            is_valid: record::reregister(node, instance, &held.record, &[]).is_some(),
        })
    }

    /// The open lifecycle actions of a record that a person deleted while nobody led, if this
    /// leader is going to write that record back, or into the new record of the next interruption.
    pub(super) fn open_actions_of_deleted_record(&self, node: &Node) -> Vec<LifecycleAction> {
        let Some(deleted) =
            self.lookup.facts.deleted_node(&node.uid).filter(|_| self.lookup.manages(node))
        else {
            return Vec::new();
        };
        let is_being_restored = self.records_being_restored.contains(&node.uid)
            || self.restorable.contains_key(&deleted.instance);
        if self.takeover.confirmed.is_listed() && node.record().is_none() && !is_being_restored {
            return Vec::new();
        }
        self.lookup.open_actions(&deleted.record, &deleted.instance)
    }

    /// The Node has an open record: the one that was written back, or a new one.
    pub(super) fn note_record_present(&mut self, node: &Node) {
        self.records_being_restored.remove(&node.uid);
        if let Some(state) = self.drains.get_mut(&node.name) {
            state.deletion.seen();
        }
        if let Some(doubted) = self.doubted.get_mut(&node.name) {
            doubted.deletion.seen();
        }
    }

    /// A person has deleted the record, but not the taint.
    fn record_deleted(&mut self, node: &Arc<Node>) {
        let of_drain =
            self.drains.get_mut(&node.name).map(|state| (&mut state.deletion, &state.record));
        let of_doubted = self
            .doubted
            .get_mut(&node.name)
            .map(|doubted| (&mut doubted.deletion, &doubted.record));
        let Some((deletion, record)) = of_drain.or(of_doubted) else { return };
        match deletion.deleted() {
            OnDeletion::WriteBack => {
                let record = record.clone();
                self.write_back(node, record);
            }
            OnDeletion::EndDrain => {
                self.begin_doubted(node);
                self.end_after_second_deletion(node);
            }
            OnDeletion::Nothing => {}
        }
    }

    /// A Node has lost its doubted record: its drain begins with the record that this leader holds.
    /// If the record was deleted for good, the caller then ends the drain, so that its open actions
    /// are completed.
    pub(super) fn begin_doubted(&mut self, node: &Arc<Node>) {
        if self.drains.contains_key(&node.name) {
            return;
        }
        let Some(doubted) = self.take_doubted(node) else { return };
        self.begin(node, &doubted.instance, doubted.record);
        if let Some(state) = self.drains.get_mut(&node.name) {
            state.deletion = doubted.deletion;
        }
    }

    fn write_back(&mut self, node: &Arc<Node>, record: Record) {
        self.records_being_restored.insert(node.uid.clone());
        let why = "The record was deleted by hand during the drain and is written back once. To \
            end the drain use `sundown release`, or delete the record again.";
        self.out.report(&node.name, DrainEvent::RecordRestored(why));
        self.out.push(Effect::RestoreRecord(
            Arc::clone(node),
            RecordRestoration::WriteBack(Box::new(record)),
        ));
    }

    /// The instance registered again: its new Node gets the record, the cordon and the taint.
    fn register(&mut self, node: &Arc<Node>, instance: Option<&InstanceId>) {
        let Some((instance, held)) =
            instance.and_then(|instance| self.restorable.remove_entry(instance))
        else {
            return;
        };
        self.out.report(&node.name, DrainEvent::Registered(instance.clone()));
        self.out.push(Effect::RestoreRecord(
            Arc::clone(node),
            RecordRestoration::Register(instance, Box::new(held.record), held.kept),
        ));
    }

    /// Reports once a Node that has Sundown's taint and no record. This leader does not know which
    /// state the Node had before Sundown, so it does not restore the Node.
    fn report_lost_record(&mut self, node: &Arc<Node>) {
        if self.reported_lost_record.insert(node.uid.clone()) {
            self.out.report(
                &node.name,
                DrainEvent::RecordLost { is_release_requested: node.released_by_hand() },
            );
        }
    }
}
