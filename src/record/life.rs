//! The patches of a record after its accept: release it, restore the Node, write a lost record
//! again.

use serde_json::Value;

use super::{
    Before, Planned, Record, RecordStatus, Released, compat, ours,
    patch::NodePatch,
    requests::{MayAskAgain, is_only_requested, without_gone_requests, without_requests},
    schema::KnownEntry,
    status,
};
use crate::domain::{
    EXCLUDE_FROM_LOAD_BALANCERS, FORCE, IMPAIRED, InstanceId, Kind, Moment, Node, PLANNED, RECORD,
    RELEASE,
};

/// What happens to the record when a Node is restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum After {
    /// The record stays and is marked as released, so that a copy of its event is recognized as a
    /// repeat. For nodes that a person released, and for disproved interruptions.
    Released(Released),
    /// The same, because a person released the node or deleted its record: the requests that it
    /// still has stay in the record, and are not accepted again unless they change. After all other
    /// ends, what the Node still asks for is accepted again.
    ReleasedByHand(Released),
    /// The Node has lost its record and gets none. If a person holds the restore, the record is
    /// written back with this end.
    Lost(Released),
    /// The record is removed, because it was void.
    Removed,
    /// The same, because the machine has booted since. `launched`: when EC2 last started the
    /// instance, if it reports that. Degraded hardware that was announced before is then over: EC2
    /// starts a stopped instance on other hardware.
    Booted {
        /// `LaunchTime`.
        launched: Option<Moment>,
    },
}

/// The patch that marks the Node's record as released and removes the annotations
/// `sundown.dev/release` and `sundown.dev/force`. Cordon and taint stay, because the instance ends
/// now. `None` if the Node has no readable record, or one that is already released.
#[must_use]
pub fn release(node: &Node, released: &Released) -> Option<Value> {
    let record = Record::read(node.record()?).ok().filter(|r| r.released.is_none())?;
    let mut patch = NodePatch::new(node);
    patch.record(&ended_record(node, record, released));
    remove_orders(node, &mut patch);
    Some(patch.body())
}

/// The patch that restores the Node: removes the cordon, the taint and the load balancer label
/// where Sundown set them, and marks the record as released or removes it (`after`). Everything
/// else stays. `None` if there is nothing to do.
///
/// `record` counts if the Node's own record was deleted or is damaged: it is the one that the
/// caller holds.
///
/// If the Node has the annotation `sundown.dev/keep-cordoned`, everything on it stays, and the
/// record notes that the Node is to be restored ([`Released::held`]). A void record needs no such
/// note.
#[must_use]
pub fn restore_node(node: &Node, record: Option<&Record>, after: &After) -> Option<Value> {
    let own = node.record().and_then(|text| Record::read(text).ok());
    let record = own.as_ref().or(record)?;
    if node.keeps_cordon() {
        return hold_restore(node, record, after);
    }
    let ours = ours(node, record);
    let mut patch = NodePatch::new(node);
    if ours.cordon {
        patch.uncordon();
    }
    if ours.taint || ours.compat {
        patch.untaint(record);
    }
    patch.include(record);
    let mut changes = remove_orders(node, &mut patch) || ours.any();
    if let After::Booted { launched: Some(launched) } = after
        && let Some(planned) = Planned::of(node, &record.instance)
        && let Some(planned) = planned.close_degraded_before(*launched)
    {
        patch.annotate(PLANNED, Some(planned.write()));
        changes = true;
    }
    let is_held = record.released.as_ref().is_some_and(|released| released.held);
    match after {
        After::Removed | After::Lost(_) | After::Booted { .. } if is_held => {
            patch.record(&with_held(record.clone(), false));
            changes = true;
        }
        After::Removed | After::Lost(_) | After::Booted { .. } if own.is_some() => {
            patch.annotate(RECORD, None);
            changes = true;
        }
        After::Released(released) if record.released.is_none() => {
            let record = without_requests(record.clone(), node, MayAskAgain::All);
            patch.record(&marked_released(record, released));
            changes = true;
        }
        After::ReleasedByHand(released) if record.released.is_none() => {
            let record = without_requests(record.clone(), node, MayAskAgain::Gone);
            patch.record(&marked_released(record, released));
            changes = true;
        }
        After::Released(_) if record.known().any(|known| known.kind == Kind::Request.as_str()) => {
            patch.record(&without_requests(record.clone(), node, MayAskAgain::All));
            changes = true;
        }
        After::Removed
        | After::Lost(_)
        | After::Booted { .. }
        | After::Released(_)
        | After::ReleasedByHand(_) => {}
    }
    changes.then(|| patch.body())
}

/// The patch that only notes that the Node is to be restored. `None` if its record shows that.
fn hold_restore(node: &Node, record: &Record, after: &After) -> Option<Value> {
    if matches!(status(node, None), RecordStatus::Void { .. }) {
        return None;
    }
    let which = match after {
        After::ReleasedByHand(_) => MayAskAgain::Gone,
        _ => MayAskAgain::All,
    };
    let kept = || without_requests(record.clone(), node, which);
    let held = match (&record.released, after) {
        (Some(released), _) if released.held => return None,
        (Some(_), _) => kept(),
        (
            None,
            After::Released(released) | After::ReleasedByHand(released) | After::Lost(released),
        ) => marked_released(kept(), released),
        // When it ended is not known.
        (None, After::Removed | After::Booted { .. }) => {
            let at = record.known().map(|known| known.accepted).max()?;
            marked_released(kept(), &Released::new(at, "released"))
        }
    };
    let mut patch = NodePatch::new(node);
    patch.record(&with_held(held, true));
    remove_orders(node, &mut patch);
    Some(patch.body())
}

fn with_held(mut record: Record, held: bool) -> Record {
    if let Some(released) = &mut record.released {
        released.held = held;
    }
    record
}

/// Whether `sundown.dev/keep-cordoned` held the restore of this Node, and no longer does.
#[must_use]
pub fn is_restore_due(node: &Node, record: &Record) -> bool {
    !node.keeps_cordon() && record.released.as_ref().is_some_and(|released| released.held)
}

/// The patch that writes back a record that a person deleted: only the annotation.
#[must_use]
pub fn write_back(node: &Node, record: &Record) -> Value {
    let mut patch = NodePatch::new(node);
    patch.record(record);
    patch.body()
}

/// The patch that restores the record `held`, which a person deleted. If the next interruption has
/// written a new record since, the interruptions of `held` are added to it. `None` if there is
/// nothing to restore, or if somebody removed Sundown's taint, too.
#[must_use]
pub fn restore_record(node: &Node, held: &Record) -> Option<Value> {
    match node.record() {
        Some(_) => merge_patch(node, held),
        None => node.has_our_taint().then(|| write_back(node, held)),
    }
}

/// The patch that writes back a record that a person deleted, marked as released: a later leader
/// does not drain the node again.
#[must_use]
pub fn write_back_released(node: &Node, record: &Record, released: &Released) -> Value {
    let mut patch = NodePatch::new(node);
    patch.record(&ended_record(node, record.clone(), released));
    remove_orders(node, &mut patch);
    patch.body()
}

/// The patch that writes cordon, taint and record on a new Node object, because the same instance
/// has registered again. Not for the record of a Node that was restored. `kept`: the
/// [`kept_annotations`] of the former Node; those that the new Node has stay.
///
/// `None` if the Node has a record or is another instance, or if the machine has booted since and
/// the record names no hook.
#[must_use]
pub fn reregister(
    node: &Node,
    instance: &InstanceId,
    record: &Record,
    kept: &[(&'static str, String)],
) -> Option<Value> {
    let own_instance = node.instance.as_ref().unwrap_or(instance);
    let is_void = *own_instance != record.instance
        || (record.is_of_earlier_boot(node) && record.open_actions(instance).is_empty());
    if is_void || node.record().is_some() {
        return None;
    }
    let mut record = record.clone();
    // What somebody else set on the old or the new object must stay when the Node is restored.
    record.before.unschedulable |= node.unschedulable;
    record.before.excluded |= node
        .labels
        .get(EXCLUDE_FROM_LOAD_BALANCERS)
        .is_some_and(|v| !compat::is_our_label(v, Some(&record)));
    let mut patch = NodePatch::new(node);
    for (key, value) in kept.iter().filter(|(key, _)| !node.annotations.contains_key(key)) {
        patch.annotate(key, Some(value.clone()));
    }
    patch.record(&record);
    patch.taint(&record);
    if record.response().cordons() {
        patch.cordon();
    }
    Some(patch.body())
}

/// The annotations beside the record that a new Node of the instance gets back.
#[must_use]
pub fn kept_annotations(node: &Node) -> Vec<(&'static str, String)> {
    let kept = [PLANNED, IMPAIRED].into_iter();
    kept.filter_map(|key| Some((key, node.annotations.get(key)?.to_owned()))).collect()
}

/// Whether `held`, a record of the same instance, names a hook that `fresh` does not name.
#[must_use]
pub fn lacks_a_hook(fresh: &Record, held: &Record) -> bool {
    let names = |k: &KnownEntry| fresh.known().any(|f| f.group == k.group && f.hook == k.hook);
    fresh.instance == held.instance && held.known().any(|k| k.hook.is_some() && !names(k))
}

/// `fresh` with the interruptions of `held` added. A person deleted or damaged `held` during its
/// drain, so the next interruption wrote a new record instead of joining it. `None` if `fresh`
/// names every hook of `held`, is released, or belongs to another instance.
#[must_use]
pub fn merged_record(fresh: &Record, held: &Record) -> Option<Record> {
    if fresh.released.is_some() || !lacks_a_hook(fresh, held) {
        return None;
    }
    let interruptions = held
        .interruptions
        .iter()
        .filter(|old| !fresh.interruptions.contains(old))
        .chain(&fresh.interruptions)
        .cloned();
    // The first record knows the state before Sundown. The second one saw Sundown's own cordon.
    let before = Before {
        unschedulable: held.before.unschedulable
            || (fresh.before.unschedulable && !held.response().cordons()),
        ..held.before.clone()
    };
    Some(Record {
        interruptions: interruptions.collect(),
        before,
        compat: fresh.compat.clone().or_else(|| held.compat.clone()),
        pool: fresh.pool.clone().or_else(|| held.pool.clone()),
        ..fresh.clone()
    })
}

/// The patch that writes [`merged_record`] into the Node's record. `None` if the Node has no open
/// record, or one that names every hook of `held`.
#[must_use]
pub fn merge_patch(node: &Node, held: &Record) -> Option<Value> {
    let whole = merged_record(&Record::read(node.record()?).ok()?, held)?;
    let mut patch = NodePatch::new(node);
    patch.record(&whole);
    patch.taint(&whole);
    Some(patch.body())
}

fn marked_released(mut record: Record, released: &Released) -> Record {
    record.released = Some(released.clone());
    record
}

/// The record of a drain that has ended, on a node whose instance ends. It gets the current boot
/// ID: if the machine has booted during the drain, only its next boot means that it has come back.
/// Requests that are gone leave it, so that a later notice is compared only with what still holds. A
/// record of requests alone keeps them: they show that the Node is to be restored.
fn ended_record(node: &Node, record: Record, released: &Released) -> Record {
    let record = if is_only_requested(&record) {
        record
    } else {
        without_gone_requests(record, node, released.at)
    };
    let record = marked_released(record, released);
    Record { boot: node.boot_id.clone().or(record.boot), ..record }
}

/// Removes the annotations `sundown.dev/release` and `sundown.dev/force`: they are orders for this
/// drain, not for the next one. Returns whether the Node has one of them.
pub(super) fn remove_orders(node: &Node, patch: &mut NodePatch<'_>) -> bool {
    let mut has_order = false;
    for key in [RELEASE, FORCE].into_iter().filter(|key| node.annotations.contains_key(key)) {
        patch.annotate(key, None);
        has_order = true;
    }
    has_order
}
