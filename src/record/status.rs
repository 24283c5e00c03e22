//! How a Node's record stands.

use super::{Damage, Record, compat};
use crate::domain::{EXCLUDE_FROM_LOAD_BALANCERS, InstanceId, Node};

/// How the record of a Node stands, read against the Node itself.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordStatus {
    /// There is none.
    None,
    /// It cannot be read. Left alone, told, and replaced by the next interruption.
    Damaged(Damage),
    /// Taken on and not released: it is drained, and its hooks are owed.
    Open(Record),
    /// History.
    Released {
        /// The record.
        record: Record,
        /// Our cordon and our taint still stand.
        ours_stands: bool,
    },
    /// It does not count for this machine: its drain ends, and [`super::restore`] puts back what is
    /// still ours.
    Void {
        /// The record.
        record: Record,
        /// Why.
        why: VoidReason,
    },
    /// It may be void.
    Doubtful {
        /// The record.
        record: Record,
        /// What would tell.
        why: Doubt,
    },
}

/// Why a record does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VoidReason {
    /// It names another instance than the Node's.
    OtherInstance,
    /// The machine has booted since, and no hook waits.
    Rebooted,
}

/// What is not known about a record that may be void.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doubt {
    /// The machine has booted since: it counts only if a beat of one of its hooks is accepted. If
    /// none is, it is void ([`VoidReason::Rebooted`]).
    HookMayBeOpen,
    /// The Node has no providerID and nobody said yet which instance it is.
    InstanceNotKnown,
}

impl RecordStatus {
    /// The record of a drain whose lifecycle actions may be open: it is open, or the machine has
    /// booted since and nobody has asked AWS yet.
    #[must_use]
    pub fn with_open_actions(self) -> Option<Record> {
        match self {
            Self::Open(record) | Self::Doubtful { record, why: Doubt::HookMayBeOpen } => {
                Some(record)
            }
            _ => None,
        }
    }
}

/// What of ours is on a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ours {
    /// It is unschedulable because of us.
    pub cordon: bool,
    /// Our taint stands on it.
    pub taint: bool,
    /// It carries the load balancer label with our value.
    pub label: bool,
    /// Taints for other tools stand on it that its record brought.
    pub compat: bool,
}

impl Ours {
    /// Something of ours is on it.
    #[must_use]
    pub const fn any(self) -> bool {
        self.cordon || self.taint || self.label || self.compat
    }
}

/// How the record of `node` stands. `instance` says which instance it is where the Node has no
/// providerID (DescribeInstances by private DNS name); a providerID always goes before it.
#[must_use]
pub fn status(node: &Node, instance: Option<&InstanceId>) -> RecordStatus {
    let Some(text) = node.record() else { return RecordStatus::None };
    let record = match Record::read(text) {
        Ok(record) => record,
        Err(damage) => return RecordStatus::Damaged(damage),
    };
    if node.is_elsewhere {
        return RecordStatus::Void { record, why: VoidReason::OtherInstance };
    }
    let Some(instance) = node.instance.as_ref().or(instance) else {
        return RecordStatus::Doubtful { record, why: Doubt::InstanceNotKnown };
    };
    if *instance != record.instance {
        return RecordStatus::Void { record, why: VoidReason::OtherInstance };
    }
    let rebooted =
        record.boot.as_ref().zip(node.boot_id.as_ref()).is_some_and(|(then, now)| then != now);
    let ours = ours(node, &record);
    match (record.released.is_some(), rebooted) {
        (false, false) => RecordStatus::Open(record),
        (false, true) if record.open_actions(instance).is_empty() => {
            RecordStatus::Void { record, why: VoidReason::Rebooted }
        }
        (false, true) => RecordStatus::Doubtful { record, why: Doubt::HookMayBeOpen },
        (true, true) if ours.any() => RecordStatus::Void { record, why: VoidReason::Rebooted },
        (true, _) => {
            RecordStatus::Released { record, ours_stands: ours.taint && node.unschedulable }
        }
    }
}

/// What of ours is on `node`, going by `record`.
///
/// A cordon is ours when the Node was schedulable before and our taint still stands: a taint cannot
/// be written by a kubelet (NodeRestriction), an annotation can. An open record of this very
/// instance is proof enough without the taint.
#[must_use]
pub fn ours(node: &Node, record: &Record) -> Ours {
    let taint = node.has_our_taint();
    let same_machine =
        record.released.is_none() && node.instance.as_ref().is_none_or(|i| *i == record.instance);
    Ours {
        cordon: node.unschedulable && !record.before.unschedulable && (taint || same_machine),
        taint,
        label: node
            .labels
            .get(EXCLUDE_FROM_LOAD_BALANCERS)
            .is_some_and(|v| compat::is_our_label(v, Some(record))),
        compat: node.taints.iter().any(|t| compat::is_ours(t, record)),
    }
}
