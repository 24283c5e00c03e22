//! An instance that is back in service without a new boot: out of a warm pool that kept it running,
//! or out of hibernation.
//!
//! If the boot ID has changed, the record no longer counts for that reason alone. Here it stays the
//! same, and only Auto Scaling reports that the instance is in service again. The first row that
//! applies decides:
//!
//! | the event, and the Node's record | answer |
//! | --- | --- |
//! | the instance does not go into service by this event, or the event has no time | [`Returned::Nothing`] |
//! | the sweep found the launch, and no earlier round showed that the instance did not wait | [`Returned::Nothing`] |
//! | there is no record, or none that counts for this machine | [`Returned::Nothing`] |
//! | the sweep found the launch, and an interruption of the record has no row in the table of [`super::return_check`] | [`Returned::Nothing`] |
//! | an interruption in the record happened when the event did, or later | [`Returned::Nothing`] |
//! | open, and the record has only requests | [`Returned::Nothing`] |
//! | released, and a request of the record still asks | [`Returned::Nothing`] |
//! | released, and nothing that Sundown set is on the Node | [`Returned::Nothing`] |
//! | released | [`Returned::RestoreNode`] |
//! | open | [`Returned::EndDrain`] |
//!
//! Requests count only in the rows that name them.
//!
//! The sweep sees a launch only after it has begun. It began after the last round that did not show
//! it, so that is its time in this table.
//!
//! Before the Node is restored, the caller makes sure that no terminate action of the instance is
//! open. It calls this for a launch that the sweep found only after AWS has proved the action. Only
//! times of AWS are compared. The times at which Sundown accepted or released an interruption do not
//! show what AWS did first.

use std::collections::BTreeSet;

use super::{
    Record, RecordStatus, ours,
    requests::{has_asking_request, is_request},
    return_check,
    schema::Entry,
    status,
};
use crate::domain::{Interruption, LifecycleAction, Moment, Node, Transition, is_sweep_event_id};

/// What follows for a Node when an event reports that its instance goes into service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Returned {
    /// Nothing changes.
    Nothing,
    /// Restore the Node, unless a terminate action of the instance is open again.
    RestoreNode,
    /// End the drain, and restore the Node.
    EndDrain {
        /// Lifecycle actions that must not be open any longer before that.
        actions: Vec<LifecycleAction>,
        /// The event IDs of the record's interruptions except requests. None of them holds any
        /// longer.
        events: BTreeSet<String>,
    },
}

/// What follows from `interruption` for `node`. `absent_at`: for a launch that the sweep found, when
/// a round began that did not show the instance waiting yet, on AWS's clock.
#[must_use]
pub fn returned(node: &Node, interruption: &Interruption, absent_at: Option<Moment>) -> Returned {
    let is_unreported = is_sweep_event_id(&interruption.event_id);
    let began = if is_unreported { absent_at } else { interruption.time };
    let Some(time) = began.filter(|_| interruption.goes_into_service()) else {
        return Returned::Nothing;
    };
    let instance = &interruption.instance;
    let is_over = |record: &Record| {
        is_all_before(record, time) && (!is_unreported || return_check::has_a_row_for_all(record))
    };
    match status(node, Some(instance)) {
        RecordStatus::Open(record) if is_over(&record) => {
            let of_aws = record.known().filter(|known| !is_request(known));
            let events: BTreeSet<_> = of_aws.map(|known| known.event.clone()).collect();
            if events.is_empty() {
                return Returned::Nothing;
            }
            Returned::EndDrain { actions: record.open_actions(instance), events }
        }
        RecordStatus::Released { record, .. }
            if ours(node, &record).any()
                && is_over(&record)
                && !has_asking_request(&record, node, time) =>
        {
            Returned::RestoreNode
        }
        _ => Returned::Nothing,
    }
}

/// Whether an instance that was launched into its group waits in a terminate hook again, for an
/// event that is yet to come: its Node is not restored then. `state`: how its group shows it. `None`
/// if AWS does not answer or does not list it: that keeps no node cordoned, because the record is
/// released, and so its own actions are over.
#[must_use]
pub fn waits_to_end_again(state: Option<&str>) -> bool {
    state.is_some_and(|state| Transition::Terminating.holds(state))
}

/// All interruptions in the record happened before `time`, except requests. An entry that cannot be
/// read may be later.
fn is_all_before(record: &Record, time: Moment) -> bool {
    record.interruptions.iter().all(|entry| match entry {
        Entry::Known(known) => is_request(known) || known.time < time,
        Entry::Unknown(_) => false,
    })
}
