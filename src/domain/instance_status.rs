//! Failed status checks and scheduled events of an instance, from DescribeInstanceStatus.

use super::{InstanceId, Moment};

/// The status of an instance, from DescribeInstanceStatus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceStatus {
    /// `InstanceId`.
    pub id: InstanceId,
    /// The status checks that fail now (`impaired`). `initializing` and `insufficient-data` are no
    /// failures.
    pub failed_checks: Vec<FailedCheck>,
    /// The scheduled events, also those that are completed or canceled: EC2 lists them for some
    /// days more.
    pub events: Vec<ScheduledEvent>,
}

/// A status check that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedCheck {
    /// The check that fails.
    pub check: StatusCheck,
    /// `ImpairedSince`. `None` if EC2 does not report it.
    pub since: Option<Moment>,
}

/// The status checks of EC2 (EC2 user guide, "Status checks for Amazon EC2 instances").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatusCheck {
    /// `SystemStatus`: the host, its network or its power.
    System,
    /// `InstanceStatus`: the operating system does not answer.
    Instance,
    /// `AttachedEbsStatus`: an attached EBS volume does not answer.
    AttachedVolumes,
}

impl StatusCheck {
    /// All checks.
    pub const ALL: [Self; 3] = [Self::System, Self::Instance, Self::AttachedVolumes];

    /// The filter of DescribeInstanceStatus for the status of this check.
    #[must_use]
    pub const fn filter(self) -> &'static str {
        match self {
            Self::System => "system-status.status",
            Self::Instance => "instance-status.status",
            Self::AttachedVolumes => "attached-ebs-status.status",
        }
    }
}

/// A scheduled event of an instance, from `Events` of DescribeInstanceStatus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledEvent {
    /// `InstanceEventId` (`instance-event-…`). AWS Health names the same change by an ARN.
    pub id: String,
    /// `Code`, for example `instance-retirement`.
    pub code: String,
    /// `Description`, 200 characters at most.
    pub description: String,
    /// `NotBefore`: the earliest start.
    pub not_before: Option<Moment>,
    /// `NotAfter`: the latest end.
    pub not_after: Option<Moment>,
}

impl ScheduledEvent {
    /// The codes that EC2 documents (`EventCode`).
    pub const CODES: [&str; 5] = [
        "instance-reboot",
        "system-reboot",
        "system-maintenance",
        "instance-retirement",
        "instance-stop",
    ];

    /// EC2 marks an event that is completed or canceled at the beginning of its description.
    #[must_use]
    pub fn is_over(&self) -> bool {
        ["[Completed]", "[Canceled]"].iter().any(|prefix| self.description.starts_with(prefix))
    }
}
