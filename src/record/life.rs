//! The record after its accept: released, put back, written again.

use serde_json::Value;

use super::{Record, Released, compat, ours, patch::NodePatch, schema::Known};
use crate::domain::{EXCLUDE_FROM_LOAD_BALANCERS, InstanceId, Node, RECORD, RELEASE};

/// What becomes of the record when a Node is put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum After {
    /// It stays as history, so that a copy of its event is known as a repeat: released by hand, or
    /// disproved.
    Released(Released),
    /// It goes: it was void.
    Removed,
}

/// The patch that marks the Node's record released. The cordon and taint stay: the instance goes
/// now. The annotation `sundown.dev/release` is consumed. `None`: there is no record that can be
/// read, or it is released already.
#[must_use]
pub fn release(node: &Node, released: &Released) -> Option<Value> {
    let record = Record::read(node.record()?).ok().filter(|r| r.released.is_none())?;
    let mut patch = NodePatch::new(node);
    patch.record(&ended(node, record, released));
    consume_release(node, &mut patch);
    Some(patch.body())
}

/// The patch that puts back what is still ours: schedulable if we cordoned it, our taint and our
/// value of the load balancer label gone, the record marked or gone. Anything else stays. `None`:
/// there is nothing to do.
///
/// `record` is the one that the caller holds, for a Node whose own was deleted by hand or damaged;
/// one that can be read goes first.
#[must_use]
pub fn restore(node: &Node, record: Option<&Record>, after: &After) -> Option<Value> {
    let own = node.record().and_then(|text| Record::read(text).ok());
    let record = own.as_ref().or(record)?;
    let ours = ours(node, record);
    let mut patch = NodePatch::new(node);
    if ours.cordon {
        patch.uncordon();
    }
    if ours.taint || ours.compat {
        patch.untaint(record);
    }
    patch.include(record);
    let mut changes = consume_release(node, &mut patch) || ours.any();
    match after {
        After::Removed if own.is_some() => {
            patch.annotate(RECORD, None);
            changes = true;
        }
        After::Released(released) if record.released.is_none() => {
            patch.record(&marked(record.clone(), released));
            changes = true;
        }
        After::Removed | After::Released(_) => {}
    }
    changes.then(|| patch.body())
}

/// The patch that writes a record back that was deleted by hand while AWS's action is open: the
/// annotation alone.
#[must_use]
pub fn write_back(node: &Node, record: &Record) -> Value {
    let mut patch = NodePatch::new(node);
    patch.record(record);
    patch.body()
}

/// The patch that restores the record `held`, which a person deleted. If the next interruption has
/// written a new record since, the open hooks of `held` are added to that one. `None`: there is
/// nothing to restore, or somebody removed our taint too.
#[must_use]
pub fn bring_back(node: &Node, held: &Record) -> Option<Value> {
    match node.record() {
        Some(_) => carry_over(node, held),
        None => node.has_our_taint().then(|| write_back(node, held)),
    }
}

/// The patch that writes a record back that was deleted by hand, as one of a drain that is over: a
/// later leader does not take it up again.
#[must_use]
pub fn write_back_released(node: &Node, record: &Record, released: &Released) -> Value {
    let mut patch = NodePatch::new(node);
    patch.record(&ended(node, record.clone(), released));
    consume_release(node, &mut patch);
    patch.body()
}

/// The patch for a Node object that is new (the same instance registered again): cordon, taint and
/// record are written again. Not for the record of a Node that was put back: that one goes with its
/// Node.
///
/// `None`: it is another instance, it has booted since and no hook is owed, or the Node has a
/// record.
#[must_use]
pub fn reregister(node: &Node, instance: &InstanceId, record: &Record) -> Option<Value> {
    let own_instance = node.instance.as_ref().unwrap_or(instance);
    let rebooted =
        record.boot.as_ref().zip(node.boot_id.as_ref()).is_some_and(|(then, now)| then != now);
    let void =
        *own_instance != record.instance || (rebooted && record.open_actions(instance).is_empty());
    if void || node.record().is_some() {
        return None;
    }
    let mut record = record.clone();
    // What somebody else put on either object is not ours to take away.
    record.before.unschedulable |= node.unschedulable;
    record.before.excluded |= node
        .labels
        .get(EXCLUDE_FROM_LOAD_BALANCERS)
        .is_some_and(|v| !compat::is_our_label(v, Some(&record)));
    let mut patch = NodePatch::new(node);
    patch.record(&record);
    patch.taint(&record);
    patch.cordon();
    Some(patch.body())
}

/// `fresh`, completed with the interruptions of `held`. A person deleted or damaged `held` during
/// its drain, so the next interruption wrote a new record instead of joining it. `None`: `fresh`
/// names every hook of `held`, is released, or is of another instance.
#[must_use]
pub fn carried_over(fresh: &Record, held: &Record) -> Option<Record> {
    let names = |k: &Known| fresh.known().any(|f| f.group == k.group && f.hook == k.hook);
    let lacks_a_hook = held.known().any(|k| k.hook.is_some() && !names(k));
    if fresh.instance != held.instance || fresh.released.is_some() || !lacks_a_hook {
        return None;
    }
    let interruptions = held
        .interruptions
        .iter()
        .filter(|old| !fresh.interruptions.contains(old))
        .chain(&fresh.interruptions)
        .cloned();
    // What was there before us is what the first record says: the second one saw our own cordon.
    Some(Record {
        interruptions: interruptions.collect(),
        before: held.before.clone(),
        compat: fresh.compat.clone().or_else(|| held.compat.clone()),
        ..fresh.clone()
    })
}

/// The patch that writes [`carried_over`] into the Node's record. `None`: there is no open record
/// that lacks something.
#[must_use]
pub fn carry_over(node: &Node, held: &Record) -> Option<Value> {
    let whole = carried_over(&Record::read(node.record()?).ok()?, held)?;
    let mut patch = NodePatch::new(node);
    patch.record(&whole);
    patch.taint(&whole);
    Some(patch.body())
}

fn marked(mut record: Record, released: &Released) -> Record {
    record.released = Some(released.clone());
    record
}

/// The record of a drain that is over, on a node whose instance goes. If the machine has booted
/// during the drain, only its next boot says that the node has come back.
fn ended(node: &Node, record: Record, released: &Released) -> Record {
    let record = marked(record, released);
    Record { boot: node.boot_id.clone().or(record.boot), ..record }
}

/// `sundown.dev/release` is an order for this drain, not for the next one. Says whether it was
/// there.
pub(super) fn consume_release(node: &Node, patch: &mut NodePatch<'_>) -> bool {
    let there = node.annotations.contains_key(RELEASE);
    if there {
        patch.annotate(RELEASE, None);
    }
    there
}
