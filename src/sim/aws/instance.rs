//! Instances: what they are and which state they are in.

use std::{collections::BTreeMap, time::Duration};

use crate::domain::Moment;

/// The state of an instance as EC2 names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Being started.
    Pending,
    /// Running.
    Running,
    /// Being stopped or hibernated.
    Stopping,
    /// Stopped.
    Stopped,
    /// Being terminated.
    ShuttingDown,
    /// Gone for good.
    Terminated,
}

impl State {
    /// EC2's word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::ShuttingDown => "shutting-down",
            Self::Terminated => "terminated",
        }
    }

    /// EC2's number for it (API reference, `InstanceState`).
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Pending => 0,
            Self::Running => 16,
            Self::ShuttingDown => 32,
            Self::Terminated => 48,
            Self::Stopping => 64,
            Self::Stopped => 80,
        }
    }

    /// Whether a kubelet on it still runs. While it shuts down, it may for some seconds.
    #[must_use]
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Running | Self::Stopping | Self::ShuttingDown)
    }

    /// Whether it is being terminated or is.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::ShuttingDown | Self::Terminated)
    }
}

/// An EC2 instance of the embedded AWS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// `i-` and 17 hexadecimal digits.
    pub id: String,
    /// Current EC2 state.
    pub state: State,
    /// When it was launched.
    pub launched: Moment,
    /// `eu-west-1a`.
    pub zone: String,
    /// `ip-10-0-0-1.eu-west-1.compute.internal`; empty once terminated.
    pub private_dns: String,
    /// `10.0.0.1`; empty once terminated.
    pub private_ip: String,
    /// `m5.large`.
    pub instance_type: String,
    /// Spot rather than on-demand.
    pub spot: bool,
    /// EC2 tags; removed some time after its termination.
    pub tags: BTreeMap<String, String>,
    /// Name of the Auto Scaling group that launched it; `None`: no group.
    pub group: Option<String>,
    /// `vpc-…`.
    pub vpc: String,
    /// Id of the capacity reservation it runs in; `None`: outside of any.
    pub capacity_reservation: Option<String>,
}

impl Instance {
    /// What a kubelet writes in `spec.providerID` of its Node.
    #[must_use]
    pub fn provider_id(&self) -> String {
        format!("aws:///{}/{}", self.zone, self.id)
    }
}

/// An instance for a scenario to create, in no group and already in `state`.
#[derive(Debug, Clone)]
pub struct InstanceSpec {
    /// `None`: a fresh id.
    pub id: Option<String>,
    /// Its state from the start.
    pub state: State,
    /// How long ago it was launched.
    pub age: Duration,
    /// Availability zone, for example `eu-west-1a`.
    pub zone: String,
    /// `None`: derived from a fresh address; empty: none.
    pub private_dns: Option<String>,
    /// EC2 instance type, for example `m5.large`.
    pub instance_type: String,
    /// Spot rather than on-demand.
    pub spot: bool,
    /// EC2 tags, by key.
    pub tags: BTreeMap<String, String>,
    /// Id of the capacity reservation it runs in; `None`: outside of any.
    pub capacity_reservation: Option<String>,
}

impl Default for InstanceSpec {
    fn default() -> Self {
        Self {
            id: None,
            state: State::Running,
            age: Duration::from_hours(24),
            zone: "eu-west-1a".to_owned(),
            private_dns: None,
            instance_type: "m5.large".to_owned(),
            spot: false,
            tags: BTreeMap::new(),
            capacity_reservation: None,
        }
    }
}

/// An instance has entered a new state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceChange {
    /// EC2 instance ID.
    pub id: String,
    /// State after the change.
    pub state: State,
    /// When the state changed.
    pub at: Moment,
}

/// The operating system of an instance starts, other than at the launch of the instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceBoot {
    /// EC2 instance ID.
    pub id: String,
    /// What it starts from.
    pub boot: Boot,
    /// When EC2 has started it.
    pub at: Moment,
}

/// How an operating system starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Boot {
    /// After a stop.
    Started,
    /// After a hibernation: everything runs on as before.
    Resumed,
    /// From a new root volume, without a stop.
    NewRoot,
}
