//! The taints and label of aws-node-termination-handler (NTH) beside Sundown's (`--compat nth`),
//! for tools that read them.
//!
//! | | NTH | with `--compat nth` |
//! | --- | --- | --- |
//! | taint | `aws-node-termination-handler/KIND`, with the event ID as NTH encodes it as its value | the same, effect `NoSchedule` |
//! | load balancer label | value `aws-node-termination-handler` | the same value |
//!
//! A record that was written with this flag has the field `"compat":"nth"`. Only then does Sundown
//! remove such taints and labels: NTH may have run here before and left its own behind.

use crate::domain::{Compat, EXCLUDED_BY_US, Kind, Taint};

use super::{Record, schema::KnownEntry};

/// The value of the load balancer label when NTH sets it.
const EXCLUDED_BY_NTH: &str = "aws-node-termination-handler";
/// The value of the load balancer label when Karpenter sets it
/// (`pkg/controllers/node/termination`).
const EXCLUDED_BY_KARPENTER: &str = "karpenter";
/// The longest value of a taint.
const MAX_VALUE: usize = 63;

/// The taint that NTH would put on the node of this interruption; `None` if NTH has none for its
/// kind.
fn taint(entry: &KnownEntry) -> Option<Taint> {
    // The key, and what NTH writes before the event ID, of which it writes each byte as two
    // hexadecimal digits.
    let (key, prefix) = match Kind::from_word(&entry.kind)? {
        Kind::Spot | Kind::SpotStop | Kind::SpotHibernate => ("spot-itn", "spot-itn-event-"),
        Kind::TerminateHook | Kind::RootVolume => {
            ("asg-lifecycle-termination", "asg-lifecycle-term-")
        }
        Kind::Rebalance => ("rebalance-recommendation", "rebalance-recommendation-event-"),
        Kind::ScheduledChange => ("scheduled-maintenance", "aws-health-scheduled-change-event-"),
        Kind::LaunchHook
        | Kind::LaunchSuccessful
        | Kind::CapacityReservation
        | Kind::CapacityBlock
        | Kind::StateChange
        | Kind::Impaired
        | Kind::Request => return None,
    };
    let digits = entry
        .event
        .bytes()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|half| char::from_digit(u32::from(half), 16));
    let value: String = prefix.chars().chain(digits).take(MAX_VALUE).collect();
    let value = Some(value.trim_end_matches('-').to_owned());
    Some(Taint {
        key: format!("aws-node-termination-handler/{key}"),
        value,
        effect: "NoSchedule".to_owned(),
        time_added: None,
    })
}

/// NTH's taints for this record, one for each key. As with NTH, the first event of a kind counts.
pub(super) fn taints(record: &Record) -> Vec<Taint> {
    // NTH sets no taint or label on nodes that stay schedulable.
    if record.compat() != Some(Compat::Nth) || !record.response().cordons() {
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

/// The taint is one that Sundown wrote for this record.
pub(super) fn is_ours(taint: &Taint, record: &Record) -> bool {
    taints(record)
        .iter()
        .any(|t| t.key == taint.key && t.value == taint.value && t.effect == taint.effect)
}

/// The value with which Sundown sets the load balancer label.
pub(super) const fn label(compat: Option<Compat>) -> &'static str {
    match compat {
        Some(Compat::Nth) => EXCLUDED_BY_NTH,
        None => EXCLUDED_BY_US,
    }
}

/// Sundown set the load balancer label to this value: its own, or NTH's if the record shows that
/// Sundown wrote it.
pub(super) fn is_our_label(value: &str, record: Option<&Record>) -> bool {
    let of_nth = record.is_some_and(|r| r.compat() == Some(Compat::Nth) && !r.before.excluded)
        && value == EXCLUDED_BY_NTH;
    value == EXCLUDED_BY_US || of_nth
}

/// Sundown, aws-node-termination-handler or Karpenter sets the load balancer label to this value on
/// nodes that it drains.
pub(super) fn is_drain_label(value: &str) -> bool {
    [EXCLUDED_BY_US, EXCLUDED_BY_NTH, EXCLUDED_BY_KARPENTER].contains(&value)
}
