//! Auto Scaling lifecycle hooks.

use std::time::Duration;

use super::{InstanceId, Kind};

macro_rules! name {
    ($(#[$doc:meta])* $t:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $t(std::sync::Arc<str>);

        impl $t {
            /// The text as AWS writes it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $t {
            fn from(s: &str) -> Self {
                Self(s.into())
            }
        }

        impl From<String> for $t {
            fn from(s: String) -> Self {
                Self(s.into())
            }
        }

        impl std::fmt::Display for $t {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::fmt::Debug for $t {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}
pub(super) use name;

name!(
    /// The name of an Auto Scaling group.
    GroupName
);
name!(
    /// The name of a lifecycle hook, unique in its group.
    HookName
);
name!(
    /// The token of one lifecycle action (36 characters). AWS does not need it in a call that has
    /// the instance id.
    LifecycleToken
);

/// A hook and an instance. AWS keeps at most one action open for them at a time, but a second can
/// follow the first: only the token distinguishes the two.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HookKey {
    /// The instance that waits in the hook.
    pub instance: InstanceId,
    /// Its Auto Scaling group.
    pub group: GroupName,
    /// The name of the hook in this group.
    pub hook: HookName,
}

/// A lifecycle action that waits for our CompleteLifecycleAction. Heartbeats and completions carry
/// the instance id of the Node itself, never one that only an annotation names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LifecycleAction {
    /// The hook and the instance that waits in it.
    pub key: HookKey,
    /// The token from the event, sent together with the instance id; `None` if the event had none.
    pub token: Option<LifecycleToken>,
}

/// A hook's timeouts from DescribeLifecycleHooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookDescription {
    /// `LifecycleHookName`.
    pub hook: HookName,
    /// `HeartbeatTimeout`: how long AWS waits after the start or the last heartbeat (30 s to
    /// 7200 s).
    pub heartbeat_timeout: Duration,
    /// `GlobalTimeout`: how long AWS waits in total: min(48 h, 100 × HeartbeatTimeout).
    pub global_timeout: Duration,
}

/// For what a lifecycle action keeps its instance waiting, as far as its event, its record or the
/// state of the instance shows that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitPurpose {
    /// The instance goes into the warm pool of its group.
    IntoWarmPool,
    /// Its root volume is replaced.
    NewRootVolume,
    /// It is launched into its group, or it ends.
    LaunchOrEnd,
}

impl WaitPurpose {
    /// `goes_into_warm_pool`: see [`super::Interruption::goes_into_warm_pool`].
    #[must_use]
    pub const fn of(kind: Kind, goes_into_warm_pool: bool) -> Self {
        if matches!(kind, Kind::RootVolume) {
            Self::NewRootVolume
        } else if goes_into_warm_pool {
            Self::IntoWarmPool
        } else {
            Self::LaunchOrEnd
        }
    }
}

/// `LifecycleActionResult`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookResult {
    /// `CONTINUE`: Auto Scaling continues the launch or the termination.
    Continue,
    /// `ABANDON`: Auto Scaling terminates an instance that launches. For a termination, it skips
    /// the other hooks, and retains the instance if the group's lifecycle policy asks for that.
    Abandon,
}

impl HookResult {
    /// As AWS writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Continue => "CONTINUE",
            Self::Abandon => "ABANDON",
        }
    }
}

/// The instance is retained: a terminate hook of it was abandoned, and its group's lifecycle policy
/// retains such instances. It does not count towards the desired capacity, and costs money until
/// somebody terminates it. `state`: its `LifecycleState` as AWS writes it.
#[must_use]
pub fn is_retained(state: &str) -> bool {
    matches!(
        state,
        "Terminating:Retained" | "Warmed:Terminating:Retained" | "Warmed:Pending:Retained"
    )
}

/// What a lifecycle hook waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transition {
    /// The launch of an instance.
    Launching,
    /// The termination of an instance.
    Terminating,
}

impl Transition {
    /// The transition as AWS writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Launching => "autoscaling:EC2_INSTANCE_LAUNCHING",
            Self::Terminating => "autoscaling:EC2_INSTANCE_TERMINATING",
        }
    }

    /// The transition in log lines and messages.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Launching => "launch",
            Self::Terminating => "terminate",
        }
    }

    /// The lifecycle states of instances that such a hook keeps waiting (Auto Scaling API
    /// reference, `LifecycleState`). `Warmed:Pending:Wait` belongs to both transitions: an instance
    /// may be launched into a warm pool, or a terminate hook may hold it on its way back there.
    #[must_use]
    pub fn holds(self, state: &str) -> bool {
        match self {
            Self::Launching => matches!(state, "Pending:Wait" | "Warmed:Pending:Wait"),
            Self::Terminating => {
                matches!(
                    state,
                    "Terminating:Wait"
                        | "Warmed:Terminating:Wait"
                        | "Warmed:Pending:Wait"
                        | "ReplacingRootVolume:Wait"
                )
            }
        }
    }
}
