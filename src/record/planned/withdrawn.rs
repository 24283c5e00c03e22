//! What a scheduled change that AWS has canceled or moved means for the record of its Node.

use super::{PlanTime, Planned};
use crate::{
    domain::{InstanceId, InterruptionFacts, Kind, Node},
    record::{RecordStatus, status},
};

/// How far the drain for a scheduled change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DrainPhase {
    Open,
    Ended,
}

/// Why a scheduled change no longer holds as it was announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Withdrawal {
    /// AWS has moved it: the node is drained before the new start.
    Moved,
    /// AWS has canceled it, or it is over.
    Canceled,
}

/// What canceled and moved changes mean for the record of a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WithdrawnChanges {
    /// Nothing.
    None,
    /// The record is open, and its interruptions with these event IDs no longer hold.
    Open(Vec<String>, Withdrawal),
    /// The drain has ended, and none of its interruptions holds any longer: the Node is restored.
    Ended(Withdrawal),
}

/// Decides what the scheduled changes in `planned` that no longer hold mean for the record of this
/// Node. A record that holds other interruptions keeps them.
#[must_use]
pub fn withdrawn_changes(
    node: &Node,
    instance: &InstanceId,
    planned: &Planned,
    at: PlanTime,
) -> WithdrawnChanges {
    let withdrawal = |facts: &InterruptionFacts, drain| {
        let is_change = facts.kind == Some(Kind::ScheduledChange);
        is_change.then(|| planned.withdrawal(&facts.event_id, drain, at)).flatten()
    };
    match status(node, Some(instance)) {
        RecordStatus::Open(record) | RecordStatus::Doubtful { record, .. } => {
            let facts = record.interruptions(instance);
            let withdrawn = facts.into_iter().filter_map(|facts| {
                let why = withdrawal(&facts, DrainPhase::Open)?;
                Some((facts.event_id, why))
            });
            let (events, why): (Vec<_>, Vec<_>) = withdrawn.unzip();
            why.into_iter()
                .max()
                .map_or(WithdrawnChanges::None, |why| WithdrawnChanges::Open(events, why))
        }
        RecordStatus::Released { record, has_our_changes: true } if !record.has_unknown() => {
            let facts = record.interruptions(instance);
            let why: Option<Vec<_>> =
                facts.iter().map(|facts| withdrawal(facts, DrainPhase::Ended)).collect();
            why.and_then(|why| why.into_iter().max())
                .map_or(WithdrawnChanges::None, WithdrawnChanges::Ended)
        }
        _ => WithdrawnChanges::None,
    }
}

impl Planned {
    /// The drain for the event with this ID has ended, and AWS has canceled or moved since what it
    /// announced.
    pub(in crate::record) fn is_withdrawn_after(&self, event: &str, at: PlanTime) -> bool {
        self.withdrawal(event, DrainPhase::Ended, at).is_some()
    }

    /// Why the event with this ID no longer holds: AWS has canceled or moved since what it
    /// announced. `None`: it holds. `drain`: the drain for it.
    fn withdrawal(&self, event: &str, drain: DrainPhase, at: PlanTime) -> Option<Withdrawal> {
        let change = self.known().find(|change| change.replaced.iter().any(|id| id == event))?;
        if change.closed {
            return Some(Withdrawal::Canceled);
        }
        let is_moved = match drain {
            // The event with the new start has joined the drain.
            DrainPhase::Open if change.begun => true,
            // The drain was for the new start, too.
            DrainPhase::Ended if change.begun => false,
            DrainPhase::Open | DrainPhase::Ended => !change.would_have_begun(at),
        };
        is_moved.then_some(Withdrawal::Moved)
    }
}
