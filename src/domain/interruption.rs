//! Interruptions: AWS notices about what is going to happen to an instance.

use std::sync::Arc;

use super::{
    BLOCK_NOTICE, DrainRequest, DrainSettings, GroupName, HealthNotice, HookKey, HookName,
    Impairment, InstanceId, InstanceState, LifecycleAction, LifecycleToken, Moment, ReadSettings,
    ReservationId, Symptom, WaitPurpose,
};

/// What the event ID of an interruption begins with that the sweep found: no event of it arrived.
const SWEEP: &str = "sweep:";

/// The event ID of an interruption that the sweep saw first at `first_seen`, on AWS's clock.
#[must_use]
pub fn sweep_event_id(first_seen: Moment, hook: &HookName) -> String {
    format!("{SWEEP}{first_seen:.0}:{hook}")
}

/// The event ID of an instance that has been sick since then, on AWS's clock.
#[must_use]
pub(super) fn impaired_event_id(since: Moment, check: Symptom) -> String {
    format!("{SWEEP}{since:.0}:{}", check.as_str())
}

/// The sweep found the interruption with this event ID. It has neither an ID of AWS nor a token.
#[must_use]
pub fn is_sweep_event_id(event_id: &str) -> bool {
    event_id.starts_with(SWEEP)
}

/// One AWS notice about one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interruption {
    /// The instance it is about.
    pub instance: InstanceId,
    /// The event's own id (EventBridge `id`, native `RequestId`); empty when it has none. Of an
    /// interruption without an event: [`sweep_event_id`].
    pub event_id: String,
    /// The event's time. `None`: the event has no time, and the time at which its message was sent
    /// replaces it.
    pub time: Option<Moment>,
    /// The type of the event, with the fields of that type.
    pub cause: Cause,
}

/// What is about to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// A terminate hook waits: `EC2 Instance-terminate Lifecycle Action`, or its native form.
    Terminate(HookAction),
    /// A launch hook waits: `EC2 Instance-launch Lifecycle Action`, or its native form.
    Launch(HookAction),
    /// `EC2 Instance Launch Successful` out of a warm pool, into the group.
    LaunchSuccessful {
        /// The group that launched it.
        group: GroupName,
    },
    /// `EC2 Spot Instance Interruption Warning`, two minutes ahead.
    Spot(SpotAction),
    /// `EC2 Capacity Reservation Instance Interruption Warning`.
    CapacityReservation {
        /// `instance-termination-time`; `None` if not given: then the end is 120 s after the event.
        ends: Option<Moment>,
    },
    /// `Capacity Block Expiration Warning`, of a block in which the instance runs.
    CapacityBlock {
        /// `end-date`, the end of the block; `None` if not given: then it is 40 min after the event.
        /// EC2 begins to terminate the instances 30 min before it.
        ends: Option<Moment>,
    },
    /// `EC2 Instance Rebalance Recommendation`.
    Rebalance,
    /// `EC2 Instance State-change Notification`.
    StateChange(InstanceState),
    /// `AWS Health Event` about a scheduled change, for one affected entity.
    ScheduledChange(Arc<HealthNotice>),
    /// The leader found the instance sick. No event of AWS reports this.
    Impaired(Impairment),
    /// A person or another controller asks for the drain of the Node. AWS has no part in it.
    Request(DrainRequest),
}

/// A lifecycle action as an event describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookAction {
    /// `AutoScalingGroupName`.
    pub group: GroupName,
    /// `LifecycleHookName`.
    pub hook: HookName,
    /// `LifecycleActionToken`.
    pub token: Option<LifecycleToken>,
    /// `Origin`; `None` if not given.
    pub origin: Option<PoolEnd>,
    /// `Destination`; `None` if not given.
    pub destination: Option<PoolEnd>,
    /// Whether the instance really launches or terminates, or only gets a new root volume.
    pub purpose: HookPurpose,
    /// The settings in `NotificationMetadata`; `None`: it has none for Sundown. Boxed, because few
    /// hooks have any.
    pub metadata: Option<Box<ReadSettings>>,
}

impl HookAction {
    /// The settings in its `NotificationMetadata`.
    #[must_use]
    pub fn settings(&self) -> DrainSettings {
        self.metadata.as_ref().map_or(DrainSettings::NONE, |metadata| metadata.0)
    }
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
    /// Hibernated; hibernation begins at once.
    Hibernate,
}

/// The kind of an interruption: used as a metric label, as the value of the taint, and in the
/// record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// [`Cause::Terminate`].
    TerminateHook,
    /// [`Cause::Terminate`] with [`HookPurpose::ReplaceRootVolume`].
    RootVolume,
    /// [`Cause::Launch`].
    LaunchHook,
    /// [`Cause::LaunchSuccessful`].
    LaunchSuccessful,
    /// [`Cause::Spot`] with [`SpotAction::Terminate`].
    Spot,
    /// [`Cause::Spot`] with [`SpotAction::Stop`].
    SpotStop,
    /// [`Cause::Spot`] with [`SpotAction::Hibernate`].
    SpotHibernate,
    /// [`Cause::CapacityReservation`].
    CapacityReservation,
    /// [`Cause::CapacityBlock`].
    CapacityBlock,
    /// [`Cause::Rebalance`].
    Rebalance,
    /// [`Cause::StateChange`].
    StateChange,
    /// [`Cause::ScheduledChange`].
    ScheduledChange,
    /// [`Cause::Impaired`].
    Impaired,
    /// [`Cause::Request`].
    Request,
}

/// The warning of a Capacity Block that ends. It names the block and none of its instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacityBlock {
    /// `capacity-reservation-id`.
    pub reservation: ReservationId,
    /// As in [`Interruption::event_id`].
    pub event_id: String,
    /// As in [`Interruption::time`].
    pub time: Option<Moment>,
    /// `end-date`; `None` if it is missing or unreadable.
    pub ends: Option<Moment>,
}

impl CapacityBlock {
    /// When the block ends; if the event has no end, 40 min after it. `now`: the time of an event
    /// without a time.
    #[must_use]
    pub fn ends_by(&self, now: Moment) -> Moment {
        self.ends.unwrap_or_else(|| self.time.unwrap_or(now).plus(BLOCK_NOTICE))
    }

    /// What the warning is for one instance of the block.
    #[must_use]
    pub fn of(&self, instance: InstanceId) -> Interruption {
        Interruption {
            instance,
            event_id: self.event_id.clone(),
            time: self.time,
            cause: Cause::CapacityBlock { ends: self.ends },
        }
    }
}

impl Kind {
    /// Every kind, for tables and for initializing metrics.
    pub const ALL: [Self; 14] = [
        Self::TerminateHook,
        Self::RootVolume,
        Self::LaunchHook,
        Self::LaunchSuccessful,
        Self::Spot,
        Self::SpotStop,
        Self::SpotHibernate,
        Self::CapacityReservation,
        Self::CapacityBlock,
        Self::Rebalance,
        Self::StateChange,
        Self::ScheduledChange,
        Self::Impaired,
        Self::Request,
    ];

    /// The text of this kind in metric labels, taints and records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TerminateHook => "terminate-hook",
            Self::RootVolume => "root-volume",
            Self::LaunchHook => "launch-hook",
            Self::LaunchSuccessful => "launch-successful",
            Self::Spot => "spot",
            Self::SpotStop => "spot-stop",
            Self::SpotHibernate => "spot-hibernate",
            Self::CapacityReservation => "capacity-reservation",
            Self::CapacityBlock => "capacity-block",
            Self::Rebalance => "rebalance",
            Self::StateChange => "state-change",
            Self::ScheduledChange => "scheduled-change",
            Self::Impaired => "impaired",
            Self::Request => "request",
        }
    }

    /// The kind that [`Self::as_str`] writes this way; `None` for a kind of a newer version. Earlier
    /// versions wrote [`Self::CapacityReservation`] as `capacity`.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        if word == "capacity" {
            return Some(Self::CapacityReservation);
        }
        Self::ALL.into_iter().find(|k| k.as_str() == word)
    }

    /// EC2 reclaims a spot instance: it is terminated, stopped or hibernated.
    #[must_use]
    pub const fn is_spot(self) -> bool {
        matches!(self, Self::Spot | Self::SpotStop | Self::SpotHibernate)
    }

    /// A terminate hook waits, also if the instance only gets a new root volume.
    #[must_use]
    pub const fn is_terminate_hook(self) -> bool {
        matches!(self, Self::TerminateHook | Self::RootVolume)
    }

    /// Its drain can wait for other drains, if its deadline leaves time: AWS or a person has planned
    /// it, or the instance goes on for now.
    #[must_use]
    pub const fn can_wait(self) -> bool {
        match self {
            Self::TerminateHook
            | Self::RootVolume
            | Self::Rebalance
            | Self::ScheduledChange
            | Self::Impaired
            | Self::Request => true,
            Self::LaunchHook
            | Self::LaunchSuccessful
            | Self::Spot
            | Self::SpotStop
            | Self::SpotHibernate
            | Self::CapacityReservation
            | Self::CapacityBlock
            | Self::StateChange => false,
        }
    }

    /// It only recommends that the workload leaves. The instance may keep running.
    #[must_use]
    pub const fn is_recommendation(self) -> bool {
        matches!(self, Self::Rebalance)
    }
}

impl Interruption {
    /// The kind that matches its cause.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match &self.cause {
            Cause::Terminate(HookAction { purpose: HookPurpose::ReplaceRootVolume, .. }) => {
                Kind::RootVolume
            }
            Cause::Terminate(_) => Kind::TerminateHook,
            Cause::Launch(_) => Kind::LaunchHook,
            Cause::LaunchSuccessful { .. } => Kind::LaunchSuccessful,
            Cause::Spot(SpotAction::Terminate) => Kind::Spot,
            Cause::Spot(SpotAction::Stop) => Kind::SpotStop,
            Cause::Spot(SpotAction::Hibernate) => Kind::SpotHibernate,
            Cause::CapacityReservation { .. } => Kind::CapacityReservation,
            Cause::CapacityBlock { .. } => Kind::CapacityBlock,
            Cause::Rebalance => Kind::Rebalance,
            Cause::StateChange(_) => Kind::StateChange,
            Cause::ScheduledChange(_) => Kind::ScheduledChange,
            Cause::Impaired(_) => Kind::Impaired,
            Cause::Request(_) => Kind::Request,
        }
    }

    /// The lifecycle action of a terminate or launch hook; `None` for other causes.
    #[must_use]
    pub const fn hook(&self) -> Option<&HookAction> {
        match &self.cause {
            Cause::Terminate(action) | Cause::Launch(action) => Some(action),
            Cause::LaunchSuccessful { .. }
            | Cause::Spot(_)
            | Cause::CapacityReservation { .. }
            | Cause::CapacityBlock { .. }
            | Cause::Rebalance
            | Cause::StateChange(_)
            | Cause::ScheduledChange(_)
            | Cause::Impaired(_)
            | Cause::Request(_) => None,
        }
    }

    /// Whether the instance goes into service in its group: out of a warm pool, or by a launch
    /// action.
    #[must_use]
    pub fn goes_into_service(&self) -> bool {
        match &self.cause {
            Cause::LaunchSuccessful { .. } => true,
            Cause::Launch(action) => action.destination == Some(PoolEnd::Group),
            Cause::Terminate(_)
            | Cause::Spot(_)
            | Cause::CapacityReservation { .. }
            | Cause::CapacityBlock { .. }
            | Cause::Rebalance
            | Cause::StateChange(_)
            | Cause::ScheduledChange(_)
            | Cause::Impaired(_)
            | Cause::Request(_) => false,
        }
    }

    /// Whether a lifecycle action moves the instance into the warm pool of its group.
    #[must_use]
    pub fn goes_into_warm_pool(&self) -> bool {
        self.hook().is_some_and(|action| action.destination == Some(PoolEnd::WarmPool))
    }

    /// For what its lifecycle action keeps the instance waiting.
    #[must_use]
    pub fn wait_purpose(&self) -> WaitPurpose {
        WaitPurpose::of(self.kind(), self.goes_into_warm_pool())
    }

    /// The Auto Scaling group that it names; `None` if its cause names none.
    #[must_use]
    pub fn group(&self) -> Option<&GroupName> {
        match &self.cause {
            Cause::LaunchSuccessful { group } => Some(group),
            _ => self.hook().map(|action| &action.group),
        }
    }

    /// The lifecycle action that Sundown must complete, under `instance` (the Node's own); `None`
    /// without a hook.
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
