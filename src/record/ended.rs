//! What is written on the Node of a drain that has ended.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{After, Record, RecordStatus, Released, release, restore, status, write_back_released};
use crate::domain::{InstanceId, LifecycleAction, Node};

/// A drain that has ended, as far as it matters for its Node.
#[derive(Debug, Clone, Copy)]
pub struct EndedDrain<'a> {
    /// The instance of the Node.
    pub instance: &'a InstanceId,
    /// The record as the drain last saw it. The Node may have lost it since.
    pub record: &'a Record,
    /// Why the drain ended, as far as the Node is concerned.
    pub why: EndReason,
    /// The IDs of events that were disproved.
    pub disproved: &'a BTreeSet<String>,
    /// The lifecycle actions that are completed or known to be over.
    pub done: &'a BTreeSet<LifecycleAction>,
}

/// Why a drain ended, as far as its Node is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The instance goes: cordon and taint stay.
    InstanceGoes,
    /// A person released the node, or deleted its record twice. The node is put back, unless a
    /// lifecycle action of it was completed: then the instance goes all the same.
    ByHand,
    /// The interruption was disproved, or the instance is in service again: the node is put back.
    NothingHolds,
}

/// What is done about the Node of a drain that has ended.
#[derive(Debug, Clone, PartialEq)]
pub enum OnEnd {
    /// Nothing: the Node needs no change.
    Nothing,
    /// What Sundown changed is put back, as [`restore`] does with [`After::Removed`].
    PutBack {
        /// The Node's own record cannot be read: the record that the drain holds is used.
        uses_held_record: bool,
    },
    /// These lifecycle actions joined the drain and are completed first. Then the Node is looked at
    /// again.
    Complete(Vec<LifecycleAction>, Record),
    /// An interruption that was not disproved joined: the record stays open, and the node is
    /// drained.
    Reopen,
    /// This patch writes the end into the record.
    Write {
        /// The patch.
        patch: Value,
        /// It also puts the node back.
        is_put_back: bool,
    },
}

impl EndedDrain<'_> {
    /// What is done about `node`, its Node as it is now. `owed`: the lifecycle actions that a
    /// record owes. `released`: what the record says of the end.
    #[must_use]
    pub fn on_end(
        &self,
        node: &Node,
        actions: impl FnOnce(&Record) -> Vec<LifecycleAction>,
        released: &Released,
    ) -> OnEnd {
        let is_put_back = self.why == EndReason::NothingHolds;
        match status(node, Some(self.instance)) {
            // The machine may have booted since: the drain went on because the hook was proved
            // open, so its end is written all the same.
            RecordStatus::Open(record) | RecordStatus::Doubtful { record, .. } => {
                self.on_open(node, record, actions, released)
            }
            // A person ended the drain by deleting its record. Every replica remembers the
            // deletion, so without a record that says how the drain ended the next leader would
            // write the open one back and drain on.
            RecordStatus::None if self.why == EndReason::ByHand && !self.done.is_empty() => {
                OnEnd::Write {
                    patch: write_back_released(node, self.record, released),
                    is_put_back: false,
                }
            }
            // Taken away by hand, or damaged: what was there before Sundown only the drain knows.
            RecordStatus::None | RecordStatus::Damaged(_)
                if is_put_back || (self.why == EndReason::ByHand && self.done.is_empty()) =>
            {
                OnEnd::PutBack { uses_held_record: true }
            }
            // Also when the answer to the write that put it back was lost: the record stays, so
            // that a copy of its event is a repeat.
            RecordStatus::Released { .. } if is_put_back => {
                let patch = restore(node, None, &After::Released(released.clone()));
                patch.map_or(OnEnd::Nothing, |patch| OnEnd::Write { patch, is_put_back })
            }
            RecordStatus::Void { .. } if is_put_back => OnEnd::PutBack { uses_held_record: false },
            RecordStatus::None
            | RecordStatus::Damaged(_)
            | RecordStatus::Released { .. }
            | RecordStatus::Void { .. } => OnEnd::Nothing,
        }
    }

    fn on_open(
        &self,
        node: &Node,
        record: Record,
        actions: impl FnOnce(&Record) -> Vec<LifecycleAction>,
        released: &Released,
    ) -> OnEnd {
        let is_disproved = |event: &String| self.disproved.contains(event);
        let joined =
            || record.taken(self.instance).iter().any(|taken| !is_disproved(&taken.event_id));
        if self.why == EndReason::NothingHolds && joined() {
            return OnEnd::Reopen;
        }
        let more: Vec<_> =
            actions(&record).into_iter().filter(|action| !self.done.contains(action)).collect();
        if self.why != EndReason::NothingHolds && !more.is_empty() {
            return OnEnd::Complete(more, record);
        }
        let is_put_back = match self.why {
            EndReason::InstanceGoes => false,
            EndReason::ByHand => self.done.is_empty() && more.is_empty(),
            EndReason::NothingHolds => true,
        };
        let patch = if is_put_back {
            restore(node, None, &After::Released(released.clone()))
        } else {
            release(node, released)
        };
        patch.map_or(OnEnd::Nothing, |patch| OnEnd::Write { patch, is_put_back })
    }
}
