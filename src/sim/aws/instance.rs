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

/// An instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// `i-` and 17 hexadecimal digits.
    pub id: String,
    /// Its state now.
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
    /// Bought as spot.
    pub spot: bool,
    /// Its tags; gone some time after its termination.
    pub tags: BTreeMap<String, String>,
    /// The Auto Scaling group that launched it.
    pub group: Option<String>,
    /// `vpc-…`.
    pub vpc: String,
    /// The capacity reservation it runs in.
    pub capacity_reservation: Option<String>,
}

impl Instance {
    /// What a kubelet writes in `spec.providerID` of its Node.
    #[must_use]
    pub fn provider_id(&self) -> String {
        format!("aws:///{}/{}", self.zone, self.id)
    }
}

/// An instance to be put there, in no group, already in `state`.
#[derive(Debug, Clone)]
pub struct InstanceSpec {
    /// `None`: a fresh id.
    pub id: Option<String>,
    /// Its state from the start.
    pub state: State,
    /// How long ago it was launched.
    pub age: Duration,
    /// Its zone.
    pub zone: String,
    /// `None`: derived from a fresh address; empty: none.
    pub private_dns: Option<String>,
    /// Its type.
    pub instance_type: String,
    /// Bought as spot.
    pub spot: bool,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// The capacity reservation it runs in.
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

/// An instance has come into a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceChange {
    /// Which instance.
    pub id: String,
    /// Its state from now on.
    pub state: State,
    /// When.
    pub at: Moment,
}
