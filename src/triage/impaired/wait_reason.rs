//! Why a sick instance waits.

/// Whether a sick instance waits before its drain or after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Its drain has not begun.
    BeforeDrain,
    /// Its drain has ended, and its node is neither replaced nor restored.
    AfterDrain,
}

/// Why a drain of a sick instance does not begin, or why its instance is not replaced after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitReason {
    /// The index of Nodes is not complete, or its watch fails.
    WatchStale,
    /// The API server failed within the last [`super::AFTER_OUTAGE`].
    ApiServerOutage,
    /// All drains are paused.
    Paused,
    /// EC2 did not answer which status checks fail, so nothing would show that an instance is
    /// healthy again.
    StatusesUnknown,
    /// Too many Nodes are sick: the fault lies elsewhere.
    FaultElsewhere,
    /// Somebody else has cordoned the Node.
    CordonedByOthers,
    /// `--max-impaired` drains have begun, or instances were reported to Auto Scaling, within an
    /// hour.
    MaxPerHour,
    /// Another sick node of the group is drained or waits for its replacement.
    GroupBusy,
    /// The group has fewer instances in service than it wants.
    GroupIncomplete,
    /// AWS did not answer about the instance.
    Unanswered,
    /// After the drain: pods are left on the node.
    PodsLeft,
    /// After the drain: a person keeps the node as it is.
    KeptByPerson,
    /// After the drain: another Node claims the instance, too, and may serve.
    SeveralNodes,
    /// After the drain: Auto Scaling did not take the report that the instance is unhealthy.
    NotSetUnhealthy,
    /// After the drain: the group replaces no instance ([`super::REPLACING`]).
    ReplacementSuspended,
    /// After the drain: Auto Scaling has known for an hour that the instance is unhealthy, and the
    /// Node still exists.
    ReplacementLate,
}

impl WaitReason {
    /// Every reason, for initializing metrics.
    pub const ALL: [Self; 16] = [
        Self::WatchStale,
        Self::ApiServerOutage,
        Self::Paused,
        Self::StatusesUnknown,
        Self::FaultElsewhere,
        Self::CordonedByOthers,
        Self::MaxPerHour,
        Self::GroupBusy,
        Self::GroupIncomplete,
        Self::Unanswered,
        Self::PodsLeft,
        Self::KeptByPerson,
        Self::SeveralNodes,
        Self::NotSetUnhealthy,
        Self::ReplacementSuspended,
        Self::ReplacementLate,
    ];

    /// Its word in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WatchStale => "watch_stale",
            Self::ApiServerOutage => "api_server_outage",
            Self::Paused => "paused",
            Self::StatusesUnknown => "statuses_unknown",
            Self::FaultElsewhere => "fault_elsewhere",
            Self::CordonedByOthers => "cordoned_by_others",
            Self::MaxPerHour => "max_per_hour",
            Self::GroupBusy => "group_busy",
            Self::GroupIncomplete => "group_incomplete",
            Self::Unanswered => "unanswered",
            Self::PodsLeft => "pods_left",
            Self::KeptByPerson => "kept_by_person",
            Self::SeveralNodes => "several_nodes",
            Self::NotSetUnhealthy => "not_set_unhealthy",
            Self::ReplacementSuspended => "replacement_suspended",
            Self::ReplacementLate => "replacement_late",
        }
    }

    /// The reason as the end of a sentence.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::WatchStale => "the nodes cannot be read, so they may have changed",
            Self::ApiServerOutage => {
                "the API server failed within the last 5 minutes, so kubelets could not report"
            }
            Self::Paused => "all drains are paused",
            Self::StatusesUnknown => {
                "EC2 does not answer which status checks fail, so nothing would show that an \
                 instance is healthy again"
            }
            Self::FaultElsewhere => {
                "too many nodes look sick: the fault lies elsewhere (network, DNS, API server)"
            }
            Self::CordonedByOthers => "somebody else has cordoned its node",
            Self::MaxPerHour => "the limit of --max-impaired was reached within the last hour",
            Self::GroupBusy => {
                "another sick instance of its group is drained, or waits for its replacement"
            }
            Self::GroupIncomplete => "its group has fewer instances in service than it wants",
            Self::Unanswered => "AWS did not answer about its instance, or is asked next time",
            Self::PodsLeft => "its drain has ended, and pods are left on it",
            Self::KeptByPerson => {
                "an annotation keeps it as it is (sundown.dev/keep-cordoned, pause or ignore)"
            }
            Self::SeveralNodes => "several nodes claim its instance, and another one may serve",
            Self::NotSetUnhealthy => {
                "Auto Scaling did not take the report that its instance is unhealthy (right \
                 autoscaling:SetInstanceHealth)"
            }
            Self::ReplacementSuspended => {
                "its group has suspended ReplaceUnhealthy or Terminate: it replaces no instance"
            }
            Self::ReplacementLate => {
                "Auto Scaling has known for over an hour that its instance is unhealthy"
            }
        }
    }

    /// Usually over after a round or two: the Node gets no Event for it.
    #[must_use]
    pub const fn is_short(self) -> bool {
        matches!(
            self,
            Self::WatchStale | Self::ApiServerOutage | Self::StatusesUnknown | Self::Unanswered
        )
    }
}
