//! What the state of an instance that waits shows: in which hook, where it comes from and where it
//! goes.

use crate::domain::{
    Cause, GroupName, HookAction, HookName, HookPurpose, InstanceId, Interruption, Kind, Moment,
    PoolEnd, ReadSettings, Transition, WaitPurpose, sweep_event_id,
};

/// Why an instance waits in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitState {
    /// `Pending:Wait`: it is launched into the group.
    Pending,
    /// `Terminating:Wait`.
    Terminating,
    /// `ReplacingRootVolume:Wait`.
    ReplacingRootVolume,
    /// `Warmed:Pending:Wait`: it goes into the warm pool, by a launch action if it comes from EC2,
    /// and by a terminate action if it comes from the group.
    WarmedPending,
    /// `Warmed:Terminating:Wait`: it is terminated out of the warm pool.
    WarmedTerminating,
}

impl WaitState {
    /// Every state of which the sweep takes note.
    pub const ALL: [Self; 5] = [
        Self::Pending,
        Self::Terminating,
        Self::ReplacingRootVolume,
        Self::WarmedPending,
        Self::WarmedTerminating,
    ];

    /// Parses the `LifecycleState` of an instance. `None` for every state that the sweep ignores.
    #[must_use]
    pub fn of(lifecycle_state: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == lifecycle_state)
    }

    /// As AWS writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending:Wait",
            Self::Terminating => "Terminating:Wait",
            Self::ReplacingRootVolume => "ReplacingRootVolume:Wait",
            Self::WarmedPending => "Warmed:Pending:Wait",
            Self::WarmedTerminating => "Warmed:Terminating:Wait",
        }
    }

    /// The instance is in the warm pool of its group, or on its way into it or out of it.
    #[must_use]
    pub const fn is_in_pool(self) -> bool {
        matches!(self, Self::WarmedPending | Self::WarmedTerminating)
    }

    /// The transitions of the hooks in which the instance may wait. The answer to a heartbeat shows
    /// in which of them it does.
    #[must_use]
    pub const fn transitions(self) -> &'static [Transition] {
        match self {
            Self::Pending => &[Transition::Launching],
            Self::Terminating | Self::ReplacingRootVolume | Self::WarmedTerminating => {
                &[Transition::Terminating]
            }
            Self::WarmedPending => &[Transition::Launching, Transition::Terminating],
        }
    }

    /// The kind of the interruption if the instance waits in a hook of this transition.
    #[must_use]
    pub const fn kind(self, transition: Transition) -> Kind {
        match (self, transition) {
            (Self::ReplacingRootVolume, _) => Kind::RootVolume,
            (_, Transition::Launching) => Kind::LaunchHook,
            (_, Transition::Terminating) => Kind::TerminateHook,
        }
    }

    /// For what an instance in this state waits.
    #[must_use]
    pub const fn wait_purpose(self) -> WaitPurpose {
        match self {
            Self::WarmedPending => WaitPurpose::IntoWarmPool,
            Self::ReplacingRootVolume => WaitPurpose::NewRootVolume,
            Self::Pending | Self::Terminating | Self::WarmedTerminating => WaitPurpose::LaunchOrEnd,
        }
    }

    /// Where the instance comes from and where it goes, as far as the state shows that.
    const fn ends(self, transition: Transition) -> (Option<PoolEnd>, Option<PoolEnd>) {
        match (self, transition) {
            // An instance comes out of EC2 or out of the warm pool.
            (Self::Pending, _) => (None, Some(PoolEnd::Group)),
            (Self::Terminating, _) => (Some(PoolEnd::Group), Some(PoolEnd::Ec2)),
            (Self::ReplacingRootVolume, _) => (None, None),
            (Self::WarmedPending, Transition::Launching) => {
                (Some(PoolEnd::Ec2), Some(PoolEnd::WarmPool))
            }
            (Self::WarmedPending, Transition::Terminating) => {
                (Some(PoolEnd::Group), Some(PoolEnd::WarmPool))
            }
            (Self::WarmedTerminating, _) => (Some(PoolEnd::WarmPool), Some(PoolEnd::Ec2)),
        }
    }

    const fn purpose(self) -> HookPurpose {
        match self {
            Self::ReplacingRootVolume => HookPurpose::ReplaceRootVolume,
            _ => HookPurpose::Ordinary,
        }
    }
}

/// An instance that waits, as DescribeAutoScalingGroups or DescribeWarmPool shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingInstance {
    /// `InstanceId`.
    pub instance: InstanceId,
    /// `AutoScalingGroupName`.
    pub group: GroupName,
    /// Why it waits.
    pub state: WaitState,
}

/// An instance to check now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The instance, its group and why it waits.
    pub waiting: WaitingInstance,
    /// When a round first showed it waiting in this state.
    pub first_seen: Moment,
    /// When the last answered round before `first_seen` began: it did not show the instance
    /// waiting. If the instance waited in another state until then: when the round began that first
    /// showed this state. `None`: no earlier round was answered.
    pub absent_at: Option<Moment>,
    /// How often it was checked before.
    pub checks: u32,
}

impl Candidate {
    /// This candidate in the state that its group shows at `now`, which may have changed since the
    /// round. AWS's answer to a heartbeat does not show in which state the instance waits.
    /// `lifecycle_state`: as AWS writes it. `None`: the instance does not wait any longer.
    #[must_use]
    pub fn in_state(&self, lifecycle_state: Option<&str>, now: Moment) -> Option<Self> {
        let state = WaitState::of(lifecycle_state?)?;
        if state == self.waiting.state {
            return Some(self.clone());
        }
        let waiting = WaitingInstance { state, ..self.waiting.clone() };
        let absent_at = Some(self.first_seen);
        Some(Self { waiting, first_seen: now, absent_at, checks: self.checks })
    }

    /// The interruption that the event of this hook would have been. The sweep knows no token: the
    /// instance ID identifies the action. `transition`: of the hook. `at`: `first_seen`, on AWS's
    /// clock. `metadata`: the settings in the hook's NotificationMetadata.
    #[must_use]
    pub fn interruption(
        &self,
        hook: HookName,
        transition: Transition,
        at: Moment,
        metadata: Option<Box<ReadSettings>>,
    ) -> Interruption {
        let WaitingInstance { instance, group, state } = self.waiting.clone();
        let (origin, destination) = state.ends(transition);
        let event_id = sweep_event_id(at, &hook);
        let purpose = state.purpose();
        let action =
            HookAction { group, hook, token: None, origin, destination, purpose, metadata };
        let cause = match transition {
            Transition::Launching => Cause::Launch(action),
            Transition::Terminating => Cause::Terminate(action),
        };
        Interruption { instance, event_id, time: Some(at), cause }
    }
}
