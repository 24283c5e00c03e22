//! Auto Scaling groups, lifecycle hooks and the actions that they run.

mod actions;
mod flow;
mod groups;
mod hook_point;
mod lifecycle_state;
mod notices;
mod root_volume;
mod standby;
mod warm_pool;
mod wire;
mod xml;

use std::{collections::BTreeMap, time::Duration};

pub(super) use actions::{Actions, Named};
pub(super) use groups::Group;
pub use lifecycle_state::LifecycleState;
pub use warm_pool::PoolState;
pub(super) use wire::{NAMESPACE, handle, object};

use super::events::Envelope;

/// The transition of an instance at which a lifecycle hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transition {
    /// The instance is launching.
    Launching,
    /// The instance is terminating.
    Terminating,
}

impl Transition {
    /// `autoscaling:EC2_INSTANCE_…`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Launching => "autoscaling:EC2_INSTANCE_LAUNCHING",
            Self::Terminating => "autoscaling:EC2_INSTANCE_TERMINATING",
        }
    }

    pub(super) fn parse(s: &str) -> Option<Self> {
        [Self::Launching, Self::Terminating].into_iter().find(|t| t.as_str() == s)
    }
}

/// How a lifecycle action ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookResult {
    /// Go on.
    Continue,
    /// Give up: stops the remaining hooks; a launching instance is terminated.
    Abandon,
}

impl HookResult {
    /// `CONTINUE` or `ABANDON`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Continue => "CONTINUE",
            Self::Abandon => "ABANDON",
        }
    }

    pub(super) fn parse(s: &str) -> Option<Self> {
        [Self::Continue, Self::Abandon].into_iter().find(|r| r.as_str() == s)
    }
}

/// The settings of a lifecycle hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookSpec {
    /// `LifecycleHookName`.
    pub name: String,
    /// The transition that it holds up.
    pub transition: Transition,
    /// 30 s to 2 h; the global timeout follows from it.
    pub heartbeat_timeout: Duration,
    /// The result when a timeout ends the action. AWS's own default is ABANDON.
    pub default_result: HookResult,
    /// `NotificationMetadata`.
    pub metadata: Option<String>,
    /// Name of the queue that gets the hook's own notification (`NotificationTargetARN`), besides
    /// the events that EventBridge rules send. `None`: no own notification.
    pub notify_queue: Option<String>,
    /// How that notification is wrapped.
    pub notify_envelope: Envelope,
}

impl HookSpec {
    /// A terminate hook with AWS's defaults: one hour, ABANDON.
    #[must_use]
    pub fn terminating(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            transition: Transition::Terminating,
            heartbeat_timeout: Duration::from_hours(1),
            default_result: HookResult::Abandon,
            metadata: None,
            notify_queue: None,
            notify_envelope: Envelope::Plain,
        }
    }

    /// A launch hook with AWS's defaults: one hour, ABANDON.
    #[must_use]
    pub fn launching(name: &str) -> Self {
        Self { transition: Transition::Launching, ..Self::terminating(name) }
    }

    /// With this heartbeat timeout.
    #[must_use]
    pub fn heartbeat_timeout(mut self, timeout: Duration) -> Self {
        self.heartbeat_timeout = timeout;
        self
    }

    /// 48 h or 100 times the heartbeat timeout, whichever is less (Auto Scaling API reference,
    /// `LifecycleHook`).
    #[must_use]
    pub fn global_timeout(&self) -> Duration {
        self.heartbeat_timeout.saturating_mul(100).min(Duration::from_hours(48))
    }
}

/// The launch settings of a group's instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Availability zones, used round robin. Must not be empty.
    pub zones: Vec<String>,
    /// EC2 instance type, for example `m5.large`.
    pub instance_type: String,
    /// Spot instances rather than on-demand.
    pub spot: bool,
    /// Tags of the instances, besides `aws:autoscaling:groupName`.
    pub tags: BTreeMap<String, String>,
    /// Time from `pending` to `running`.
    pub boot: Duration,
}

impl Default for Template {
    fn default() -> Self {
        Self {
            zones: ["a", "b", "c"].iter().map(|z| format!("eu-west-1{z}")).collect(),
            instance_type: "m5.large".to_owned(),
            spot: false,
            tags: BTreeMap::new(),
            boot: Duration::from_secs(20),
        }
    }
}

/// The settings of an Auto Scaling group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSpec {
    /// `AutoScalingGroupName`.
    pub name: String,
    /// How many instances it wants; it starts with this many in service.
    pub desired: usize,
    /// `WeightedCapacity` of each instance; `None`: it has none. AWS counts the desired capacity in
    /// this unit, and shows it so.
    pub weight: Option<usize>,
    /// How long ago the first instances were launched.
    pub age: Duration,
    /// Its tags (not propagated).
    pub tags: BTreeMap<String, String>,
    /// Settings of the instances that it launches.
    pub template: Template,
    /// Time from the loss of an instance to the launch of its replacement; `None`: no replacement.
    pub replace_after: Option<Duration>,
    /// Time from the end of an instance that the group did not order (spot, EC2 API) to the
    /// terminate action for it.
    pub notice_after: Duration,
    /// On a spot warning an instance is terminated through the hooks at once.
    pub capacity_rebalance: bool,
    /// A terminating instance whose hook ends with ABANDON is retained (`InstanceLifecyclePolicy`).
    pub retain_on_abandon: bool,
    /// Time from the decision to terminate until the terminate hooks begin: deregistration from
    /// load balancers.
    pub deregistration_delay: Duration,
    /// Names of its simple scaling policies.
    pub simple_policies: Vec<String>,
}

impl GroupSpec {
    /// A group of `desired` instances with replacement after 5 s.
    #[must_use]
    pub fn new(name: &str, desired: usize) -> Self {
        Self {
            name: name.to_owned(),
            desired,
            weight: None,
            age: Duration::from_hours(24),
            tags: BTreeMap::new(),
            template: Template::default(),
            replace_after: Some(Duration::from_secs(5)),
            notice_after: Duration::from_secs(30),
            capacity_rebalance: false,
            retain_on_abandon: false,
            deregistration_delay: Duration::ZERO,
            simple_policies: Vec::new(),
        }
    }

    /// With this tag on the group.
    #[must_use]
    pub fn tag(mut self, key: &str, value: &str) -> Self {
        self.tags.insert(key.to_owned(), value.to_owned());
        self
    }

    /// With this template.
    #[must_use]
    pub fn template(mut self, template: Template) -> Self {
        self.template = template;
        self
    }
}

/// An instance of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// EC2 instance ID.
    pub instance: String,
    /// Lifecycle state in the group.
    pub state: LifecycleState,
}
