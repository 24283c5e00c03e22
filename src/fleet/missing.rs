//! A Node that shows no record, although this leader may hold one of it. `record/deleted.rs`
//! decides what follows.

use std::sync::Arc;

use super::{DrainEvent, Effect, Fleet, Restoration};
use crate::{
    domain::{InstanceId, LifecycleAction, Node},
    record::{self, HeldRecord, MissingRecord, OnDeletion, OnMissingRecord, Record},
};

impl Fleet {
    /// A Node that shows no record.
    pub(super) fn unrecorded(&mut self, node: &Arc<Node>, instance: Option<&InstanceId>) {
        self.damaged.remove(&node.name);
        self.update(node);
        if !node.has_our_taint() {
            // `record::bring_back` writes nothing on a Node without the taint.
            self.being_restored.remove(&node.uid);
        }
        let missing = MissingRecord {
            held: self.held_record(node, instance),
            has_taint: node.has_our_taint(),
            is_managed: self.lookup.manages(node),
            is_being_restored: self.being_restored.contains(&node.uid),
        };
        match missing.decide() {
            OnMissingRecord::EndDrain => {
                let why = if missing.has_taint {
                    "its record is gone, and Sundown does not manage it"
                } else {
                    "neither its record nor the taint is there"
                };
                self.begin_doubted(node);
                self.ended_elsewhere(&node.name, why);
            }
            OnMissingRecord::CountDeletion => self.record_deleted(node),
            OnMissingRecord::WriteBack => {
                if let Some((record, _)) =
                    instance.and_then(|instance| self.remembered.remove(instance))
                {
                    self.write_back(node, record);
                }
            }
            OnMissingRecord::Register => self.register(node, instance),
            OnMissingRecord::ReportLost => self.report_lost_record(node),
            OnMissingRecord::Nothing => {}
        }
    }

    fn held_record(&self, node: &Node, instance: Option<&InstanceId>) -> HeldRecord {
        if let Some(state) = self.drains.get(&node.name) {
            return HeldRecord::Drain {
                is_pending: state.drain.is_some() || self.has_open_actions(state),
            };
        }
        if self.doubted.get(&node.name).is_some_and(|doubted| doubted.node.uid == node.uid)
            && self.lookup.selects(node)
        {
            return HeldRecord::Doubted;
        }
        let held =
            instance.and_then(|instance| Some((instance, &self.remembered.get(instance)?.0)));
        held.map_or(HeldRecord::None, |(instance, record)| HeldRecord::OfInstance {
            is_valid: record::reregister(node, instance, record).is_some(),
        })
    }

    /// The lifecycle actions of a record that a person deleted while nobody led, if this leader is
    /// going to write that record back, or into the fresh record of the next interruption.
    pub(super) fn open_actions_of_deleted_record(&self, node: &Node) -> Vec<LifecycleAction> {
        let Some(gone) =
            self.lookup.facts.deleted_nodes(&node.uid).filter(|_| self.lookup.manages(node))
        else {
            return Vec::new();
        };
        let is_being_restored =
            self.being_restored.contains(&node.uid) || self.remembered.contains_key(&gone.instance);
        if self.takeover.confirmed.is_listed() && node.record().is_none() && !is_being_restored {
            return Vec::new();
        }
        self.lookup.open_actions(&gone.record, &gone.instance)
    }

    /// The Node shows an open record: the one that was written back, or a fresh one.
    pub(super) fn record_seen(&mut self, node: &Node) {
        self.being_restored.remove(&node.uid);
        if let Some(state) = self.drains.get_mut(&node.name) {
            state.deletion.seen();
        }
        if let Some(doubted) = self.doubted.get_mut(&node.name) {
            doubted.deletion.seen();
        }
    }

    /// A person has deleted the record and left the taint.
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
                self.end_by_hand(node);
            }
            OnDeletion::Nothing => {}
        }
    }

    /// A doubted Node shows its record no more: its drain begins with the record that this leader
    /// holds. Where the record was deleted for good, the drain ends at once and completes the open
    /// actions.
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
        self.being_restored.insert(node.uid.clone());
        let why = "The record was deleted by hand during the drain and is written back once. To \
            end the drain use `sundown release`, or delete the record again.";
        self.out.report(&node.name, DrainEvent::RecordRestored(why));
        self.out.push(Effect::Restore(Arc::clone(node), Restoration::BringBack(Box::new(record))));
    }

    /// The instance registered again: its new Node gets the record, the cordon and the taint.
    fn register(&mut self, node: &Arc<Node>, instance: Option<&InstanceId>) {
        let Some((instance, (record, _))) =
            instance.and_then(|instance| self.remembered.remove_entry(instance))
        else {
            return;
        };
        self.out.report(&node.name, DrainEvent::Registered(instance.clone()));
        self.out.push(Effect::Restore(
            Arc::clone(node),
            Restoration::Register(instance, Box::new(record)),
        ));
    }

    /// Sundown's taint without a record: this leader does not know what the Node was like before,
    /// so it does not put it back.
    fn report_lost_record(&mut self, node: &Arc<Node>) {
        if self.without_record.insert(node.uid.clone()) {
            self.out.report(
                &node.name,
                DrainEvent::RecordLost { is_release_requested: node.released_by_hand() },
            );
        }
    }
}
