//! The Node of an instance that is launched into a warm pool: cordoned before Sundown completes the
//! launch hook, so that no pod comes to a machine that is about to stop or to wait.
//!
//! Nothing is drained, so the record is released from the beginning. Like the record of a drained
//! Node, it shows what was there before, and [`super::awaited_return`] and [`super::returned`] put
//! the Node back when the instance leaves the pool.

use serde_json::Value;

use super::{
    AcceptOptions, Record, RecordStatus, Released,
    before::{before_damaged, before_us, seen_before},
    life::remove_orders,
    new_entry::NewEntry,
    patch::NodePatch,
    status,
};
use crate::domain::{Compat, Interruption, Moment, Node};

/// The outcome in the record of such a Node.
pub(super) const INTO_WARM_POOL: &str = "into_warm_pool";

/// The patch that cordons the Node of an instance that is launched into a warm pool: cordon, taint
/// and a released record. `now`: on AWS's clock. `None`: the Node belongs to another instance, has
/// this record already, is being drained (or may be), or still has the cordon and taint of an
/// earlier drain.
#[must_use]
pub fn into_warm_pool(
    node: &Node,
    interruption: &Interruption,
    now: Moment,
    compat: Option<Compat>,
) -> Option<Value> {
    let is_other = node.instance.as_ref().is_some_and(|i| *i != interruption.instance);
    if node.is_elsewhere || is_other || !interruption.goes_into_warm_pool() {
        return None;
    }
    let new = NewEntry::new(interruption, now, &AcceptOptions::default());
    let before = match status(node, Some(&interruption.instance)) {
        RecordStatus::None => seen_before(node),
        RecordStatus::Damaged(_) => before_damaged(node),
        RecordStatus::Void { record, .. }
        | RecordStatus::Released { record, has_our_changes: false }
            if !new.is_in(&record) =>
        {
            before_us(node, &record)
        }
        RecordStatus::Void { .. }
        | RecordStatus::Released { .. }
        | RecordStatus::Open(_)
        | RecordStatus::Doubtful { .. } => return None,
    };
    let record = Record {
        compat: compat.map(|compat| compat.as_str().to_owned()),
        released: Some(Released::new(now, INTO_WARM_POOL)),
        ..new.fresh(node, before)
    };
    let mut patch = NodePatch::new(node);
    patch.record(&record);
    patch.taint(&record);
    patch.cordon();
    remove_orders(node, &mut patch);
    Some(patch.body())
}
