//! What is written on the Node of a drain that has ended.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    After, Record, RecordStatus, Released, release, restore_node, status, write_back_released,
};
use crate::domain::{InstanceId, LifecycleAction, Node};

/// The facts of a drain that has ended on which the last write of its Node depends.
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
    /// The lifecycle actions that are completed or no longer open.
    pub done: &'a BTreeSet<LifecycleAction>,
}

/// Why a drain ended, as far as its Node is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The instance ends: cordon and taint stay, unless a person has asked for the release of the
    /// node and no lifecycle action of it was completed.
    InstanceGoes,
    /// A person released the node, or deleted its record twice. The Node is restored, unless a
    /// lifecycle action of it was completed: then the instance ends nevertheless.
    ByHand,
    /// The interruption was disproved, or the instance is in service again: the Node is restored.
    NothingHolds,
}

/// What to do about the Node of a drain that has ended.
#[derive(Debug, Clone, PartialEq)]
pub enum OnEnd {
    /// The Node needs no change.
    Nothing,
    /// Restore the Node, by [`restore_node`] with [`After::Removed`], or with [`After::Lost`] if it
    /// has no readable record.
    Restore {
        /// The Node has no readable record: use the one that the drain holds.
        uses_held_record: bool,
    },
    /// Complete these lifecycle actions of this record, which joined the drain. Then read the Node
    /// and decide again.
    Complete(Vec<LifecycleAction>, Box<Record>),
    /// An interruption has joined that was not disproved, or that asks for evictions where the
    /// drain had none. Leave the record open: the node is drained.
    Reopen,
    /// Write the end into the record.
    Write {
        /// The JSON merge patch.
        patch: Value,
        /// The patch also restores the Node.
        is_restored: bool,
        /// `sundown.dev/keep-cordoned` holds that.
        is_held: bool,
    },
}

impl EndedDrain<'_> {
    /// Decides what to do about `node`, the Node in its current version. `open_actions`: gives the
    /// open lifecycle actions of a record. `released`: the end to write into the record.
    #[must_use]
    pub fn on_end(
        &self,
        node: &Node,
        open_actions: impl FnOnce(&Record) -> Vec<LifecycleAction>,
        released: &Released,
    ) -> OnEnd {
        let is_restored = self.why == EndReason::NothingHolds;
        match status(node, Some(self.instance)) {
            // A record is doubtful here if the machine has booted since. The drain went on because
            // AWS showed its action open, so its end is written, too.
            RecordStatus::Open(record) | RecordStatus::Doubtful { record, .. } => {
                self.on_open(node, record, open_actions, released)
            }
            // A person ended the drain by deleting its record, or deleted it just before its end was
            // written, which may be a mistake if the taint is there. Every replica remembers the
            // deletion. Without a released record, the next leader would write the open one back
            // and drain the node again.
            RecordStatus::None
                if (self.why == EndReason::ByHand && !self.done.is_empty())
                    || (self.why == EndReason::InstanceGoes && node.has_our_taint()) =>
            {
                OnEnd::Write {
                    patch: write_back_released(node, self.record, released),
                    is_restored: false,
                    is_held: false,
                }
            }
            // The record was deleted or damaged. Only the drain knows the state before Sundown.
            RecordStatus::None | RecordStatus::Damaged(_)
                if is_restored || (self.why == EndReason::ByHand && self.done.is_empty()) =>
            {
                OnEnd::Restore { uses_held_record: true }
            }
            // Also if the answer to the write that restored the Node was lost. The record stays, so
            // that a copy of its event is a repeat.
            RecordStatus::Released { .. } if is_restored => {
                let patch = restore_node(node, None, &After::Released(released.clone()));
                patch.map_or(OnEnd::Nothing, |patch| written(node, patch, is_restored))
            }
            RecordStatus::Void { .. } if is_restored => OnEnd::Restore { uses_held_record: false },
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
        open_actions: impl FnOnce(&Record) -> Vec<LifecycleAction>,
        released: &Released,
    ) -> OnEnd {
        // A request that was gone may ask again.
        let is_disproved =
            |event: &String| self.disproved.contains(event) && !node.asks_with(event);
        let has_others = || {
            record.interruptions(self.instance).iter().any(|facts| !is_disproved(&facts.event_id))
        };
        if self.why == EndReason::NothingHolds && has_others() {
            return OnEnd::Reopen;
        }
        let evicts = |record: &Record| {
            record.has_unknown()
                || record
                    .interruptions(self.instance)
                    .iter()
                    .any(|facts| facts.response.evicts() && !is_disproved(&facts.event_id))
        };
        let asks_for_more = evicts(&record) && !evicts(self.record);
        if self.why == EndReason::InstanceGoes && asks_for_more {
            return OnEnd::Reopen;
        }
        let more: Vec<_> = open_actions(&record)
            .into_iter()
            .filter(|action| !self.done.contains(action))
            .collect();
        if self.why != EndReason::NothingHolds && !more.is_empty() {
            return OnEnd::Complete(more, Box::new(record));
        }
        let is_restored = match self.why {
            // The watch may show the order of a person later than this read, which is the last
            // one: the write takes the order away.
            EndReason::InstanceGoes => node.released_by_hand() && self.done.is_empty(),
            EndReason::ByHand => self.done.is_empty() && more.is_empty(),
            EndReason::NothingHolds => true,
        };
        let patch = if is_restored {
            let after = match self.why {
                EndReason::NothingHolds => After::Released(released.clone()),
                EndReason::ByHand | EndReason::InstanceGoes => {
                    After::ReleasedByHand(released.clone())
                }
            };
            restore_node(node, None, &after)
        } else {
            release(node, released)
        };
        patch.map_or(OnEnd::Nothing, |patch| written(node, patch, is_restored))
    }
}

fn written(node: &Node, patch: Value, is_restored: bool) -> OnEnd {
    let is_held = is_restored && node.keeps_cordon();
    OnEnd::Write { patch, is_restored: is_restored && !is_held, is_held }
}
