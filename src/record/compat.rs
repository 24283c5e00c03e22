//! Marks of aws-node-termination-handler beside ours (`--compat nth`), for tools that read them.
//!
//! | | NTH | with `--compat nth` |
//! | --- | --- | --- |
//! | taint | `aws-node-termination-handler/KIND`, its value the event's id as NTH writes it | the same, effect `NoSchedule` |
//! | load balancer label | value `aws-node-termination-handler` | the same value |
//!
//! A record that was written with it says so (`"compat":"nth"`), and only then marks of that shape
//! are ours to take away: NTH may have run here before, and leaves its own behind.

use crate::domain::{Compat, EXCLUDED_BY_US, Kind, Taint};

use super::{Record, schema::Known};

/// The value of the load balancer label when NTH sets it.
const EXCLUDED_BY_NTH: &str = "aws-node-termination-handler";
/// The value of the load balancer label when Karpenter sets it
/// (`pkg/controllers/node/termination`).
const EXCLUDED_BY_KARPENTER: &str = "karpenter";
/// The longest value of a taint.
const LONGEST: usize = 63;

/// The taint that NTH would put on the node of this interruption; `None`: it has none for this
/// kind.
fn taint(of: &Known) -> Option<Taint> {
    // The key, and what NTH sets before the event's id, each byte of which it writes as two
    // hexadecimal digits.
    let (key, prefix) = match Kind::from_word(&of.kind)? {
        Kind::Spot => ("spot-itn", "spot-itn-event-"),
        Kind::TerminateHook => ("asg-lifecycle-termination", "asg-lifecycle-term-"),
        Kind::Rebalance => ("rebalance-recommendation", "rebalance-recommendation-event-"),
        Kind::Health => ("scheduled-maintenance", "aws-health-scheduled-change-event-"),
        Kind::LaunchHook | Kind::LaunchSuccessful | Kind::Capacity | Kind::StateChange => {
            return None;
        }
    };
    let digits = of
        .event
        .bytes()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|half| char::from_digit(u32::from(half), 16));
    let value: String = prefix.chars().chain(digits).take(LONGEST).collect();
    let value = Some(value.trim_end_matches('-').to_owned());
    Some(Taint {
        key: format!("aws-node-termination-handler/{key}"),
        value,
        effect: "NoSchedule".to_owned(),
        time_added: None,
    })
}

/// The taints that stand beside ours for this record, one a key: as with NTH, the first event of a
/// kind keeps its place.
pub(super) fn taints(record: &Record) -> Vec<Taint> {
    if record.compat() != Some(Compat::Nth) {
        return Vec::new();
    }
    let mut all: Vec<Taint> = Vec::new();
    for taint in record.known().filter_map(taint) {
        if !all.iter().any(|t| t.key == taint.key) {
            all.push(taint);
        }
    }
    all
}

/// It is one of those that this record brought.
pub(super) fn is_ours(taint: &Taint, record: &Record) -> bool {
    taints(record)
        .iter()
        .any(|t| t.key == taint.key && t.value == taint.value && t.effect == taint.effect)
}

/// The value that the load balancer label gets.
pub(super) const fn label(compat: Option<Compat>) -> &'static str {
    match compat {
        Some(Compat::Nth) => EXCLUDED_BY_NTH,
        None => EXCLUDED_BY_US,
    }
}

/// A value of the load balancer label is of this record.
pub(super) fn is_our_label(value: &str, record: Option<&Record>) -> bool {
    let of_nth = record.is_some_and(|r| r.compat() == Some(Compat::Nth) && !r.before.excluded)
        && value == EXCLUDED_BY_NTH;
    value == EXCLUDED_BY_US || of_nth
}

/// Sundown, aws-node-termination-handler and Karpenter write this value of the load balancer label,
/// on nodes that they drain.
pub(super) fn is_drain_label(value: &str) -> bool {
    [EXCLUDED_BY_US, EXCLUDED_BY_NTH, EXCLUDED_BY_KARPENTER].contains(&value)
}
