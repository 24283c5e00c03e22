//! The points of an instance's life at which lifecycle hooks run.

use super::{LifecycleState, Transition};

/// A point at which the hooks of a group run for an instance. Each has its own wait state, and its
/// own `Origin` and `Destination` in the events (Auto Scaling user guide, "Warm pool event types
/// and event patterns").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HookPoint {
    /// A new instance is launched into the group.
    Launch,
    /// An instance leaves standby.
    LaunchFromStandby,
    /// An instance is launched out of the warm pool.
    LaunchFromPool,
    /// A new instance is launched into the warm pool.
    LaunchIntoPool,
    /// An instance has booted from its new root volume.
    NewRootVolume,
    /// An instance is terminated.
    Terminate,
    /// An instance is about to get a new root volume.
    ReplaceRootVolume,
    /// An instance goes back into the warm pool.
    ReturnToPool,
    /// An instance is terminated out of the warm pool.
    TerminateInPool,
}

impl HookPoint {
    /// Which hooks run here.
    pub(super) const fn transition(self) -> Transition {
        match self {
            Self::Launch
            | Self::LaunchFromStandby
            | Self::LaunchFromPool
            | Self::LaunchIntoPool
            | Self::NewRootVolume => Transition::Launching,
            Self::Terminate
            | Self::ReplaceRootVolume
            | Self::ReturnToPool
            | Self::TerminateInPool => Transition::Terminating,
        }
    }

    /// The state of the instance until the hooks begin.
    pub(super) const fn state_before(self) -> LifecycleState {
        match self {
            Self::Launch | Self::LaunchFromStandby | Self::LaunchFromPool | Self::NewRootVolume => {
                LifecycleState::Pending
            }
            Self::Terminate => LifecycleState::Terminating,
            Self::ReplaceRootVolume => LifecycleState::ReplacingRootVolume,
            Self::LaunchIntoPool | Self::ReturnToPool => LifecycleState::WarmedPending,
            Self::TerminateInPool => LifecycleState::WarmedTerminating,
        }
    }

    /// The state of the instance while one of the hooks is open.
    pub(super) const fn wait_state(self) -> LifecycleState {
        match self {
            Self::Launch | Self::LaunchFromStandby | Self::LaunchFromPool | Self::NewRootVolume => {
                LifecycleState::PendingWait
            }
            Self::Terminate => LifecycleState::TerminatingWait,
            Self::ReplaceRootVolume => LifecycleState::ReplacingRootVolumeWait,
            Self::LaunchIntoPool | Self::ReturnToPool => LifecycleState::WarmedPendingWait,
            Self::TerminateInPool => LifecycleState::WarmedTerminatingWait,
        }
    }

    /// Fields that the events of this point have in addition to those of every launch or termination.
    pub(super) const fn event_fields(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Launch | Self::LaunchFromStandby | Self::Terminate => &[],
            Self::LaunchFromPool => &[("Origin", "WarmPool"), ("Destination", "AutoScalingGroup")],
            Self::LaunchIntoPool => &[("Origin", "EC2"), ("Destination", "WarmPool")],
            Self::ReturnToPool => &[("Origin", "AutoScalingGroup"), ("Destination", "WarmPool")],
            Self::TerminateInPool => &[("Origin", "WarmPool"), ("Destination", "EC2")],
            Self::ReplaceRootVolume | Self::NewRootVolume => &[
                ("Origin", "AutoScalingGroup"),
                ("Destination", "AutoScalingGroup"),
                ("Action", "ReplaceRootVolume"),
            ],
        }
    }
}
