//! What a Node was like before Sundown: the state to which it is restored.

use serde_json::Value;

use super::{Before, Record, compat, ours};
use crate::domain::{EXCLUDE_FROM_LOAD_BALANCERS, Node, RECORD};

/// The state before Sundown of a Node with a record that counts. If this record does not cordon, a
/// cordon on the Node was set by somebody else, and must stay.
pub(super) fn before_of(record: &Record, node: &Node) -> Before {
    let of_others = node.unschedulable && !record.response().cordons();
    let before = &record.before;
    Before { unschedulable: before.unschedulable || of_others, ..before.clone() }
}

/// The record of this Node cordons it.
pub(super) fn record_cordons(node: &Node) -> bool {
    let record = node.record().and_then(|text| Record::read(text).ok());
    record.is_some_and(|record| record.response().cordons())
}

/// The state before Sundown of a Node without a readable record.
pub(super) fn seen_before(node: &Node) -> Before {
    let excluded = node
        .labels
        .get(EXCLUDE_FROM_LOAD_BALANCERS)
        .is_some_and(|v| !compat::is_our_label(v, None));
    Before { unschedulable: node.unschedulable, excluded, ..Before::default() }
}

/// The state before Sundown of a Node with a record that does not count: without the cordon and the
/// label that Sundown set for that record.
pub(super) fn before_us(node: &Node, record: &Record) -> Before {
    let seen = seen_before(node);
    let ours = ours(node, record);
    Before {
        unschedulable: seen.unschedulable && !ours.cordon,
        excluded: seen.excluded && !ours.label,
        ..seen
    }
}

/// The state before Sundown of a Node with a damaged record. The record may still show that Sundown
/// cordoned the Node. That counts only while the Node has Sundown's taint.
pub(super) fn before_damaged(node: &Node) -> Before {
    let seen = seen_before(node);
    let text = node.annotations.get(RECORD).unwrap_or_default();
    let was_unschedulable = serde_json::from_str::<Value>(text)
        .ok()
        .and_then(|v| v.pointer("/before/unschedulable")?.as_bool());
    let ours = was_unschedulable == Some(false) && node.has_our_taint();
    Before { unschedulable: seen.unschedulable && !ours, ..seen }
}
