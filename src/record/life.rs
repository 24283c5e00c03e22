//! The record after its accept: released, put back, written again.

use serde_json::Value;

use super::{Record, Released};
use crate::domain::{InstanceId, Node};

/// What becomes of the record when a Node is put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum After {
    /// It stays as history, so that a copy of its event is known as a repeat: released by hand, or disproved.
    Released(Released),
    /// It goes: it was void.
    Removed,
}

/// The patch that marks the Node's record released. The cordon and taint stay: the instance goes now. The annotation
/// `sundown.dev/release` is consumed. `None`: there is no record that can be read, or it is released already.
#[must_use]
pub fn release(node: &Node, released: &Released) -> Option<Value> {
    todo!("{node:?} {released:?}")
}

/// The patch that puts back what is still ours: schedulable if we cordoned it, our taint and our value of the load balancer
/// label gone, the record marked or gone. Anything else stays. `None`: there is nothing to do.
///
/// `record` is the one that the caller holds, for a Node from which it was deleted by hand; the Node's own goes first.
#[must_use]
pub fn restore(node: &Node, record: Option<&Record>, after: &After) -> Option<Value> {
    todo!("{node:?} {record:?} {after:?}")
}

/// The patch that writes a record back that was deleted by hand while AWS's action is open: the annotation alone.
#[must_use]
pub fn write_back(node: &Node, record: &Record) -> Value {
    todo!("{node:?} {record:?}")
}

/// The patch for a Node object that is new (the same instance registered again): cordon, taint and record are written again.
/// `None`: it is another instance, it has booted since and no hook is owed, or the Node has a record.
#[must_use]
pub fn reregister(node: &Node, instance: &InstanceId, record: &Record) -> Option<Value> {
    todo!("{node:?} {instance:?} {record:?}")
}
