//! EC2 instances.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

use super::{GroupName, Moment};

/// The tag by which Auto Scaling names the group on its instances. It goes when the instance is
/// detached from the group.
const GROUP_TAG: &str = "aws:autoscaling:groupName";

/// An EC2 instance id: `i-` and 8 or 17 lower-case hexadecimal digits (EC2 user guide, "Resource
/// IDs").
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(Arc<str>);

/// The text is not an instance id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an instance id (expected i- and 8 or 17 hexadecimal digits)")]
pub struct NotAnInstanceId(pub String);

impl InstanceId {
    /// The id as AWS writes it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id in a Node's `spec.providerID`: `aws:///eu-west-1a/i-…`, `aws:///i-…`, `aws://i-…`,
    /// `aws://eu-west-1a/i-…`. `None` for another cloud, for Fargate (`aws:///…/fargate-ip-…`) and
    /// for text that is not an id.
    #[must_use]
    pub fn from_provider_id(provider_id: &str) -> Option<Self> {
        let rest = provider_id.strip_prefix("aws://")?;
        rest.rsplit('/').next()?.parse().ok()
    }
}

impl FromStr for InstanceId {
    type Err = NotAnInstanceId;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let hex = s.strip_prefix("i-").unwrap_or_default();
        let digits = hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if digits && matches!(hex.len(), 8 | 17) {
            Ok(Self(s.into()))
        } else {
            Err(NotAnInstanceId(s.chars().take(64).collect()))
        }
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The state of an instance as EC2 names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstanceState {
    /// Starting.
    Pending,
    /// Running.
    Running,
    /// Stopping or hibernating.
    Stopping,
    /// Stopped; may be started again.
    Stopped,
    /// Terminating.
    ShuttingDown,
    /// Terminated; never starts again.
    Terminated,
}

impl InstanceState {
    /// The state as EC2 writes it.
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

    /// The instance is stopping, shutting down, stopped or terminated.
    #[must_use]
    pub const fn is_ending(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }

    /// The instance is stopped or terminated: nothing runs on it.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Stopped | Self::Terminated)
    }
}

impl FromStr for InstanceState {
    type Err = ();

    fn from_str(s: &str) -> Result<Self, ()> {
        Ok(match s {
            "pending" => Self::Pending,
            "running" => Self::Running,
            "stopping" => Self::Stopping,
            "stopped" => Self::Stopped,
            "shutting-down" => Self::ShuttingDown,
            "terminated" => Self::Terminated,
            _ => return Err(()),
        })
    }
}

/// An instance's fields from DescribeInstances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceFacts {
    /// `InstanceId`.
    pub id: InstanceId,
    /// `State.Name` at the time of the answer.
    pub state: InstanceState,
    /// `LaunchTime`; after a stop, the time of the last start.
    pub launched: Option<Moment>,
    /// Its private DNS name; `None` if empty.
    pub private_dns: Option<String>,
    /// Its private IPv4 address; `None` once it is terminated.
    pub private_address: Option<String>,
    /// Its tags; EC2 soon removes those of a terminated instance.
    pub tags: BTreeMap<String, String>,
}

impl InstanceFacts {
    /// The Auto Scaling group that its tags name; an instance in a warm pool belongs to it, too.
    #[must_use]
    pub fn group(&self) -> Option<GroupName> {
        self.tags.get(GROUP_TAG).map(|name| name.as_str().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_8_or_17_hexadecimal_digits() {
        for good in ["i-1234567890abcdef0", "i-12345678"] {
            assert_eq!(good.parse::<InstanceId>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            "i-",
            "i-1234",
            "i-1234567890ABCDEF0",
            "mi-12345678",
            "i-1234567890abcdef01",
            "i-1234567g",
        ] {
            assert!(bad.parse::<InstanceId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn c40_provider_ids_with_and_without_zone_name_the_instance() {
        let id = Some("i-1234567890abcdef0".parse().unwrap());
        for p in [
            "aws:///eu-west-1a/i-1234567890abcdef0",
            "aws:///i-1234567890abcdef0",
            "aws://i-1234567890abcdef0",
            "aws://eu-west-1a/i-1234567890abcdef0",
        ] {
            assert_eq!(InstanceId::from_provider_id(p), id, "{p}");
        }
        for p in [
            "",
            "gce://x/i-1234567890abcdef0",
            "aws:///eu-west-1a/fargate-ip-10-0-0-1",
            "aws:///",
            "kind://docker/kind/node",
        ] {
            assert_eq!(InstanceId::from_provider_id(p), None, "{p}");
        }
    }
}
