//! An instance that is back in service without a new boot: out of a warm pool that kept it running,
//! or out of hibernation.
//!
//! A boot ID that changed says by itself that a record no longer counts. Here it stays the same,
//! and only Auto Scaling says that the instance is in service again. The first row that applies
//! decides:
//!
//! | the event, and the Node's record | answer |
//! | --- | --- |
//! | the event does not say that the instance goes into service, or not when | [`Returned::Nothing`] |
//! | there is no record, or none that counts for this machine | [`Returned::Nothing`] |
//! | something in the record happened when the event did, or later | [`Returned::Nothing`] |
//! | released, and nothing of ours is on the Node | [`Returned::Nothing`] |
//! | released | [`Returned::Restore`] |
//! | open | [`Returned::EndDrain`] |
//!
//! Before the Node is restored, the caller makes sure that no terminate action of the instance is
//! open. Only times of AWS are compared: when Sundown accepted or released something says nothing
//! of what came first.

use std::collections::BTreeSet;

use super::{Record, RecordStatus, ours, schema::Entry, status};
use crate::domain::{Interruption, LifecycleAction, Moment, Node};

/// What an event that an instance goes into service means for the Node's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Returned {
    /// Nothing.
    Nothing,
    /// Put the Node back, unless the instance waits for its termination again.
    Restore,
    /// End the drain that is under way, and put the Node back.
    EndDrain {
        /// Actions that must be over first.
        actions: Vec<LifecycleAction>,
        /// The events of the record, all of which are over.
        events: BTreeSet<String>,
    },
}

/// What `interruption` means for the record of `node`.
#[must_use]
pub fn returned(node: &Node, interruption: &Interruption) -> Returned {
    let Some(time) = interruption.time.filter(|_| interruption.goes_into_service()) else {
        return Returned::Nothing;
    };
    let instance = &interruption.instance;
    match status(node, Some(instance)) {
        RecordStatus::Open(record) if is_all_before(&record, time) => Returned::EndDrain {
            actions: record.open_actions(instance),
            events: record.known().map(|k| k.event.clone()).collect(),
        },
        RecordStatus::Released { record, .. }
            if ours(node, &record).any() && is_all_before(&record, time) =>
        {
            Returned::Restore
        }
        _ => Returned::Nothing,
    }
}

/// Everything that the record tells happened before `time`. An entry that cannot be read may be
/// later.
fn is_all_before(record: &Record, time: Moment) -> bool {
    record.interruptions.iter().all(|entry| match entry {
        Entry::Known(known) => known.time < time,
        Entry::Foreign(_) => false,
    })
}
