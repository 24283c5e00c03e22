//! What AWS said is about to happen to an instance.

use super::{
    GroupName, HookKey, HookName, InstanceId, InstanceState, LifecycleAction, LifecycleToken,
    Moment,
};

/// One thing that AWS said of one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interruption {
    /// The instance it is about.
    pub instance: InstanceId,
    /// The event's own id (EventBridge `id`, native `RequestId`); empty when it has none.
    pub event_id: String,
    /// When AWS says that it happened. `None`: not said; the time at which the message was sent
    /// stands in.
    pub time: Option<Moment>,
    /// What it is.
    pub what: What,
}

/// What is about to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A terminate hook waits: `EC2 Instance-terminate Lifecycle Action`, or its native form.
    Terminate(HookAction),
    /// A launch hook waits: `EC2 Instance-launch Lifecycle Action`, or its native form.
    Launch(HookAction),
    /// `EC2 Instance Launch Successful` out of a warm pool, into the group.
    LaunchSuccessful {
        /// The group that launched it.
        group: GroupName,
    },
    /// `EC2 Spot Instance Interruption Warning`: two minutes.
    Spot(SpotAction),
    /// `EC2 Capacity Reservation Instance Interruption Warning`.
    Capacity {
        /// `instance-termination-time`; the event's time + 120 s when it is not given.
        ends: Option<Moment>,
    },
    /// `EC2 Instance Rebalance Recommendation`.
    Rebalance,
    /// `EC2 Instance State-change Notification`.
    StateChange(InstanceState),
    /// `AWS Health Event`, for one affected entity.
    Health(HealthNotice),
}

/// A lifecycle action as an event describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookAction {
    /// The Auto Scaling group.
    pub group: GroupName,
    /// The hook.
    pub hook: HookName,
    /// The action's token.
    pub token: Option<LifecycleToken>,
    /// `Origin`, where it is given.
    pub origin: Option<PoolEnd>,
    /// `Destination`, where it is given.
    pub destination: Option<PoolEnd>,
    /// Whether the instance really goes.
    pub purpose: HookPurpose,
}

/// What a lifecycle action is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookPurpose {
    /// The instance is launched or terminated (or moves to or from a warm pool).
    Ordinary,
    /// `"Action":"ReplaceRootVolume"`: the instance keeps its id and comes back with a new root
    /// disk and boot id.
    ReplaceRootVolume,
}

/// An end of a lifecycle transition (`Origin`, `Destination`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolEnd {
    /// `EC2`.
    Ec2,
    /// `AutoScalingGroup`.
    Group,
    /// `WarmPool`.
    WarmPool,
}

/// What happens to an interrupted spot instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpotAction {
    /// Terminated in two minutes.
    Terminate,
    /// Stopped in two minutes.
    Stop,
    /// Hibernated, beginning at once.
    Hibernate,
}

/// What an AWS Health event says of one entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthNotice {
    /// `eventArn`.
    pub event_arn: String,
    /// `communicationId`, for telling repeats.
    pub communication_id: Option<String>,
    /// `eventTypeCode`.
    pub code: String,
    /// `startTime`.
    pub starts: Option<Moment>,
    /// `statusCode` is `closed`: called off or over.
    pub closed: bool,
}

/// The kind of an interruption: a metric label, the value of the taint, a word in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A terminate hook.
    TerminateHook,
    /// A launch hook.
    LaunchHook,
    /// A launch that succeeded.
    LaunchSuccessful,
    /// A spot interruption.
    Spot,
    /// A capacity reservation that ends.
    Capacity,
    /// A rebalance recommendation.
    Rebalance,
    /// A change of the instance's state.
    StateChange,
    /// A scheduled change that AWS Health announced.
    Health,
}

impl Kind {
    /// Every kind, for tables and for initialising metrics.
    pub const ALL: [Self; 8] = [
        Self::TerminateHook,
        Self::LaunchHook,
        Self::LaunchSuccessful,
        Self::Spot,
        Self::Capacity,
        Self::Rebalance,
        Self::StateChange,
        Self::Health,
    ];

    /// Its word in labels, taints and records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TerminateHook => "terminate-hook",
            Self::LaunchHook => "launch-hook",
            Self::LaunchSuccessful => "launch-successful",
            Self::Spot => "spot",
            Self::Capacity => "capacity",
            Self::Rebalance => "rebalance",
            Self::StateChange => "state-change",
            Self::Health => "health",
        }
    }

    /// The kind with this word; `None` for a word of a newer version.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.as_str() == word)
    }
}

impl Interruption {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self.what {
            What::Terminate(_) => Kind::TerminateHook,
            What::Launch(_) => Kind::LaunchHook,
            What::LaunchSuccessful { .. } => Kind::LaunchSuccessful,
            What::Spot(_) => Kind::Spot,
            What::Capacity { .. } => Kind::Capacity,
            What::Rebalance => Kind::Rebalance,
            What::StateChange(_) => Kind::StateChange,
            What::Health(_) => Kind::Health,
        }
    }

    /// The lifecycle action in it, for either kind of hook.
    #[must_use]
    pub const fn hook(&self) -> Option<&HookAction> {
        match &self.what {
            What::Terminate(action) | What::Launch(action) => Some(action),
            What::LaunchSuccessful { .. }
            | What::Spot(_)
            | What::Capacity { .. }
            | What::Rebalance
            | What::StateChange(_)
            | What::Health(_) => None,
        }
    }

    /// It says that the instance goes into service in its group: out of a warm pool, or by a launch
    /// action.
    #[must_use]
    pub fn goes_into_service(&self) -> bool {
        match &self.what {
            What::LaunchSuccessful { .. } => true,
            What::Launch(action) => action.destination == Some(PoolEnd::Group),
            What::Terminate(_)
            | What::Spot(_)
            | What::Capacity { .. }
            | What::Rebalance
            | What::StateChange(_)
            | What::Health(_) => false,
        }
    }

    /// The Auto Scaling group that it names.
    #[must_use]
    pub fn group(&self) -> Option<&GroupName> {
        match &self.what {
            What::LaunchSuccessful { group } => Some(group),
            _ => self.hook().map(|action| &action.group),
        }
    }

    /// The completion that it makes us owe, under `instance` (the Node's own).
    #[must_use]
    pub fn lifecycle_action(&self, instance: &InstanceId) -> Option<LifecycleAction> {
        self.hook().map(|action| LifecycleAction {
            key: HookKey {
                instance: instance.clone(),
                group: action.group.clone(),
                hook: action.hook.clone(),
            },
            token: action.token.clone(),
        })
    }
}
