//! Whether the record of a Node counts, and what Sundown has set on the Node.

use super::{Damage, Record, compat, impaired};
use crate::domain::{EXCLUDE_FROM_LOAD_BALANCERS, InstanceId, Node};

/// The status of a Node's record, compared with the Node itself. The table of [`super`] has what
/// follows from each.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordStatus {
    /// The Node has no record.
    None,
    /// The record cannot be read.
    Damaged(Damage),
    /// The record is accepted and not released: the node is to be drained.
    Open(Record),
    /// The drain of the record has ended.
    Released {
        /// The record, with [`Record::released`].
        record: Record,
        /// Sundown's cordon (if it has set one) and taint are still on the Node.
        has_our_changes: bool,
    },
    /// The record does not count for this machine.
    Void {
        /// The record, which shows what Sundown set on the Node.
        record: Record,
        /// Why the record does not count.
        why: VoidReason,
    },
    /// The record may be void.
    Doubtful {
        /// The record, released or not.
        record: Record,
        /// What must be found out first.
        why: Doubt,
    },
}

/// Why a record does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VoidReason {
    /// The record names another instance than the Node.
    OtherInstance,
    /// The machine has booted since, and no lifecycle action of the record is open.
    Rebooted,
}

/// What must be found out about a record that may be void.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doubt {
    /// The machine has booted since. The record counts only if AWS accepts a heartbeat for one of
    /// its lifecycle actions. Otherwise it is void ([`VoidReason::Rebooted`]).
    HookMayBeOpen,
    /// The Node has no providerID, and its instance was not looked up yet.
    InstanceNotKnown,
}

impl Record {
    /// The machine of the Node has booted since the record, and that counts: a boot does not show
    /// that a sick instance is healthy, and may even be why EC2 reports it as sick.
    pub(super) fn is_of_earlier_boot(&self, node: &Node) -> bool {
        let boots = self.boot.as_ref().zip(node.boot_id.as_ref());
        boots.is_some_and(|(then, now)| then != now) && !impaired::is_for_sickness(self, node)
    }
}

impl RecordStatus {
    /// The record, if its lifecycle actions may be open: it is open, or the machine has booted
    /// since and AWS was not asked yet.
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

/// What Sundown has set on a Node.
#[allow(
    clippy::struct_excessive_bools,
    reason = "facts of an object that do not exclude each other"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ours {
    /// Sundown has cordoned the Node.
    pub cordon: bool,
    /// The Node has Sundown's taint.
    pub taint: bool,
    /// Sundown has set the load balancer label.
    pub label: bool,
    /// The Node has taints that Sundown has set for other tools (`--compat`).
    pub compat: bool,
}

impl Ours {
    /// At least one of these is on the Node.
    #[must_use]
    pub const fn any(self) -> bool {
        self.cordon || self.taint || self.label || self.compat
    }
}

/// The status of the record of `node`. `instance`: the instance of a Node without providerID, as
/// DescribeInstances found it by private DNS name; ignored if the Node has a providerID.
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
    let rebooted = record.is_of_earlier_boot(node);
    let ours = ours(node, &record);
    match (record.released.is_some(), rebooted) {
        (false, false) => RecordStatus::Open(record),
        (false, true) if record.open_actions(instance).is_empty() => {
            RecordStatus::Void { record, why: VoidReason::Rebooted }
        }
        (false, true) => RecordStatus::Doubtful { record, why: Doubt::HookMayBeOpen },
        (true, true) if ours.any() => RecordStatus::Void { record, why: VoidReason::Rebooted },
        (true, _) => {
            let is_cordoned = node.unschedulable || !record.response().cordons();
            RecordStatus::Released { record, has_our_changes: ours.taint && is_cordoned }
        }
    }
}

/// What Sundown has set on `node` according to `record`.
///
/// The cordon is Sundown's if the Node was schedulable before and still has Sundown's taint: a
/// kubelet can write an annotation, but no taint (NodeRestriction). If the record is open and names
/// this very instance, the taint is not needed. A record whose responses cordon nothing
/// ([`Record::response`]) never makes the cordon Sundown's.
#[must_use]
pub fn ours(node: &Node, record: &Record) -> Ours {
    let taint = node.has_our_taint();
    let same_machine =
        record.released.is_none() && node.instance.as_ref().is_none_or(|i| *i == record.instance);
    Ours {
        cordon: node.unschedulable
            && record.response().cordons()
            && !record.before.unschedulable
            && (taint || same_machine),
        taint,
        label: node
            .labels
            .get(EXCLUDE_FROM_LOAD_BALANCERS)
            .is_some_and(|v| compat::is_our_label(v, Some(record))),
        compat: node.taints.iter().any(|t| compat::is_ours(t, record)),
    }
}
