//! Lifecycle states of the instances of a group.

/// The lifecycle state of an instance in its group (Auto Scaling API reference, `LifecycleState`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LifecycleState {
    /// Launched; its launch hooks have not begun.
    Pending,
    /// Waits for its launch hooks.
    PendingWait,
    /// Its launch hooks have ended.
    PendingProceed,
    /// In service.
    InService,
    /// To be terminated; its hooks have not begun.
    Terminating,
    /// Waits for its terminate hooks.
    TerminatingWait,
    /// Its terminate hooks have ended.
    TerminatingProceed,
    /// Kept because a terminate hook was abandoned.
    TerminatingRetained,
    /// Gone.
    Terminated,
    /// On its way to standby: it is deregistered from load balancers.
    EnteringStandby,
    /// A person has taken it out of service; its health is not checked.
    Standby,
    /// Gets a new root volume; its terminate hooks have not begun.
    ReplacingRootVolume,
    /// Waits for its terminate hooks before the new root volume.
    ReplacingRootVolumeWait,
    /// Its terminate hooks have ended; EC2 replaces the root volume.
    ReplacingRootVolumeProceed,
    /// Runs from the new root volume; its health is checked.
    RootVolumeReplaced,
    /// Goes into the warm pool; its hooks have not begun.
    WarmedPending,
    /// Waits for its hooks before it is in the warm pool.
    WarmedPendingWait,
    /// Its hooks have ended; EC2 stops or hibernates it, unless the pool keeps instances running.
    WarmedPendingProceed,
    /// Kept because a terminate hook was abandoned on the way into the warm pool.
    WarmedPendingRetained,
    /// Runs in the warm pool.
    WarmedRunning,
    /// Stopped in the warm pool.
    WarmedStopped,
    /// Hibernated in the warm pool.
    WarmedHibernated,
    /// To be terminated out of the warm pool; its hooks have not begun.
    WarmedTerminating,
    /// Waits for its terminate hooks, out of the warm pool.
    WarmedTerminatingWait,
    /// Its terminate hooks have ended, out of the warm pool.
    WarmedTerminatingProceed,
    /// Kept because a terminate hook was abandoned out of the warm pool.
    WarmedTerminatingRetained,
}

impl LifecycleState {
    /// As the API writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::PendingWait => "Pending:Wait",
            Self::PendingProceed => "Pending:Proceed",
            Self::InService => "InService",
            Self::Terminating => "Terminating",
            Self::TerminatingWait => "Terminating:Wait",
            Self::TerminatingProceed => "Terminating:Proceed",
            Self::TerminatingRetained => "Terminating:Retained",
            Self::Terminated => "Terminated",
            Self::EnteringStandby => "EnteringStandby",
            Self::Standby => "Standby",
            Self::ReplacingRootVolume => "ReplacingRootVolume",
            Self::ReplacingRootVolumeWait => "ReplacingRootVolume:Wait",
            Self::ReplacingRootVolumeProceed => "ReplacingRootVolume:Proceed",
            Self::RootVolumeReplaced => "RootVolumeReplaced",
            Self::WarmedPending => "Warmed:Pending",
            Self::WarmedPendingWait => "Warmed:Pending:Wait",
            Self::WarmedPendingProceed => "Warmed:Pending:Proceed",
            Self::WarmedPendingRetained => "Warmed:Pending:Retained",
            Self::WarmedRunning => "Warmed:Running",
            Self::WarmedStopped => "Warmed:Stopped",
            Self::WarmedHibernated => "Warmed:Hibernated",
            Self::WarmedTerminating => "Warmed:Terminating",
            Self::WarmedTerminatingWait => "Warmed:Terminating:Wait",
            Self::WarmedTerminatingProceed => "Warmed:Terminating:Proceed",
            Self::WarmedTerminatingRetained => "Warmed:Terminating:Retained",
        }
    }

    /// Counts towards the desired capacity.
    #[must_use]
    pub const fn counts(self) -> bool {
        matches!(
            self,
            Self::Pending
                | Self::PendingWait
                | Self::PendingProceed
                | Self::InService
                | Self::ReplacingRootVolume
                | Self::ReplacingRootVolumeWait
                | Self::ReplacingRootVolumeProceed
                | Self::RootVolumeReplaced
        )
    }

    /// It is in standby, or about to be.
    #[must_use]
    pub const fn is_standby(self) -> bool {
        matches!(self, Self::EnteringStandby | Self::Standby)
    }

    /// It stays until somebody terminates it, because a terminate hook was abandoned.
    #[must_use]
    pub const fn is_retained(self) -> bool {
        matches!(
            self,
            Self::TerminatingRetained
                | Self::WarmedPendingRetained
                | Self::WarmedTerminatingRetained
        )
    }

    /// It is in the warm pool and serves no purpose but to be launched from there.
    #[must_use]
    pub const fn is_warm(self) -> bool {
        matches!(self, Self::WarmedRunning | Self::WarmedStopped | Self::WarmedHibernated)
    }

    /// The group forgets an instance in this state as soon as EC2 has terminated it: no hooks run.
    #[must_use]
    pub(super) const fn leaves_pool_when_gone(self) -> bool {
        matches!(
            self,
            Self::WarmedPending
                | Self::WarmedPendingWait
                | Self::WarmedPendingProceed
                | Self::WarmedStopped
                | Self::WarmedHibernated
        )
    }

    /// Auto Scaling itself stops the instance in this state, so a stop is no failed health check.
    #[must_use]
    pub const fn may_be_stopped(self) -> bool {
        matches!(
            self,
            Self::WarmedPendingProceed
                | Self::WarmedStopped
                | Self::WarmedHibernated
                | Self::WarmedTerminating
                | Self::WarmedTerminatingWait
        )
    }
}
