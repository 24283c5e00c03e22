//! Scheduled changes: what AWS Health announces for an instance.

use super::{Cause, InstanceId, Interruption, Moment};
use std::sync::Arc;

/// The part of an AWS Health event about one affected entity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HealthNotice {
    /// `eventArn`: the same in every message about one event.
    pub event_arn: String,
    /// `communicationId`: the same in every copy of one message, such as the one that the backup
    /// region gets. `None` if not given.
    pub communication_id: Option<String>,
    /// `eventTypeCode`.
    pub code: String,
    /// `statusCode`, and the `status` of the entity.
    pub status: ChangeStatus,
    /// `startTime`; `None` if it is missing or unreadable.
    pub starts: Option<Moment>,
    /// `lastUpdatedTime`; `None` if it is missing or unreadable: then the time of the event counts.
    pub updated: Option<Moment>,
    /// `eventRegion`: the region of the instance. The event itself may come from another one.
    pub region: Option<String>,
    /// `affectedAccount`: the account of the instance.
    pub account: Option<String>,
    /// `actionability` is `INFORMATIONAL`: AWS asks for nothing.
    pub is_informational: bool,
}

/// Whether an announced change is still going to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChangeStatus {
    /// `upcoming`, or a status that Sundown does not know.
    #[default]
    Upcoming,
    /// `open`: it has begun.
    Open,
    /// `closed`, or the entity is `RESOLVED`: it is canceled or over.
    Closed,
}

/// What Sundown does about a scheduled change, by its `eventTypeCode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeAction {
    /// The node is drained before the change begins: the instance stops, reboots or is retired.
    BeforeStart,
    /// The node is drained as soon as possible: the hardware is degraded.
    Soon,
    /// The change is only reported: the instance keeps running, AWS asks for nothing, or Sundown
    /// does not know the code.
    Report,
}

/// Parts of an `eventTypeCode`, and what follows. The first row that applies decides. A code that no
/// row knows is only reported: an announcement about many instances at once, such as the end of
/// support of a feature, must not drain all their nodes.
const ACTIONS: [(&str, ChangeAction); 9] = [
    ("NETWORK", ChangeAction::Report),
    ("POWER", ChangeAction::Report),
    ("DEGRADED", ChangeAction::Soon),
    ("EXPEDITED", ChangeAction::Soon),
    ("RETIREMENT", ChangeAction::BeforeStart),
    ("REBOOT", ChangeAction::BeforeStart),
    ("STOP", ChangeAction::BeforeStart),
    ("TERMINATION", ChangeAction::BeforeStart),
    ("SYSTEM_MAINTENANCE", ChangeAction::BeforeStart),
];

impl ChangeAction {
    /// What Sundown does about a change with this `eventTypeCode`.
    #[must_use]
    pub fn of_code(code: &str) -> Self {
        let has = |part: &str| format!("_{code}_").contains(&format!("_{part}_"));
        ACTIONS.into_iter().find(|(part, _)| has(part)).map_or(Self::Report, |(_, action)| action)
    }
}

impl HealthNotice {
    /// What Sundown does about it. A message that closes a change asks nobody for anything, so only
    /// the code counts.
    #[must_use]
    pub fn action(&self) -> ChangeAction {
        if self.is_informational && self.status != ChangeStatus::Closed {
            ChangeAction::Report
        } else {
            ChangeAction::of_code(&self.code)
        }
    }

    /// The interruption that it is for one instance.
    #[must_use]
    pub fn of(
        self: &Arc<Self>,
        instance: InstanceId,
        id: &str,
        time: Option<Moment>,
    ) -> Interruption {
        Interruption {
            instance,
            event_id: id.to_owned(),
            time,
            cause: Cause::ScheduledChange(Arc::clone(self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_decides_whether_a_scheduled_change_drains() {
        for (code, action) in [
            ("AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", ChangeAction::BeforeStart),
            ("AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED", ChangeAction::BeforeStart),
            ("AWS_EC2_INSTANCE_RETIREMENT_EXPEDITED", ChangeAction::Soon),
            ("AWS_EC2_INSTANCE_STOP_SCHEDULED", ChangeAction::BeforeStart),
            ("AWS_EC2_INSTANCE_TERMINATION_SCHEDULED", ChangeAction::BeforeStart),
            ("AWS_EC2_INSTANCE_REBOOT_MAINTENANCE_SCHEDULED", ChangeAction::BeforeStart),
            ("AWS_EC2_INSTANCE_REBOOT_FLEXIBLE_MAINTENANCE_SCHEDULED", ChangeAction::BeforeStart),
            ("AWS_EC2_SYSTEM_REBOOT_MAINTENANCE_SCHEDULED", ChangeAction::BeforeStart),
            ("AWS_EC2_SYSTEM_MAINTENANCE_EVENT", ChangeAction::BeforeStart),
            ("AWS_EC2_INSTANCE_HARDWARE_DEGRADED", ChangeAction::Soon),
            ("AWS_EC2_INSTANCE_NETWORK_MAINTENANCE_SCHEDULED", ChangeAction::Report),
            ("AWS_EC2_INSTANCE_POWER_MAINTENANCE_SCHEDULED", ChangeAction::Report),
            ("AWS_EC2_DEDICATED_HOST_NETWORK_MAINTENANCE_SCHEDULED", ChangeAction::Report),
            ("AWS_EC2_PLANNED_LIFECYCLE_EVENT", ChangeAction::Report),
            ("AWS_EC2_NONSTOP", ChangeAction::Report),
            ("", ChangeAction::Report),
        ] {
            assert_eq!(ChangeAction::of_code(code), action, "{code}");
            let notice = |is_informational| HealthNotice {
                code: code.to_owned(),
                is_informational,
                ..HealthNotice::default()
            };
            assert_eq!(notice(false).action(), action, "{code}");
            assert_eq!(notice(true).action(), ChangeAction::Report, "{code}, informational");
            let closed = HealthNotice { status: ChangeStatus::Closed, ..notice(true) };
            assert_eq!(closed.action(), action, "{code}, closed");
        }
    }
}
