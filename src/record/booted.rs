//! A machine that has booted since its record: what must be shown before its Node is restored.
//!
//! A new boot ID makes the record void, so no drain of it goes on. But a boot alone does not show
//! that the instance is back: in a warm pool it may boot and stop again. In this order:
//!
//! | must be shown | by |
//! | --- | --- |
//! | the Node is Ready | the index |
//! | if a lifecycle action moved it into a warm pool: it has left the pool | its group |
//! | the instance runs | EC2 |
//! | its kubelet has renewed its Lease since the last interruption and the end of the drain | its Lease |
//!
//! An instance has left the pool when its group lists it as launched into the group (`Pending`,
//! `Pending:Wait`, `Pending:Proceed`), in service or in standby. Sundown must not wait for
//! `InService`: the launch hook may wait for a pod that does not come before the Node is restored.
//!
//! A group lists none of the instances in its warm pool (Auto Scaling API reference,
//! DescribeAutoScalingGroups). So an instance that it does not list has left the pool only if EC2
//! shows that the instance no longer has the tag that names the group: it was detached.
//!
//! Times of Leases come from the kubelet. This code assumes that its clock agrees with AWS's.

use std::{fmt, time::Duration};

use super::{AwsAnswer, Record};
use crate::domain::{GroupName, InstanceId, InstanceState, Moment, Node, Ready, seconds};

/// What would show that the machine of a void record is back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedBoot {
    /// The instance of the Node.
    pub instance: InstanceId,
    /// The group whose warm pool it must have left; `None`: it did not go into one.
    pub group: Option<GroupName>,
    /// The kubelet must have renewed its Lease after this.
    since: Moment,
}

/// The first condition of the table above that does not hold yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingOfBoot {
    /// The Node is not Ready.
    Ready,
    /// The kubelet has not renewed its Lease.
    LeaseRenewal,
    /// EC2 does not report the instance as running.
    Running,
    /// It may be in the warm pool of its group, or its group shows that it ends.
    LeftPool,
}

impl MissingOfBoot {
    /// Nothing is wrong while this is missing: the instance may be stopped, or in its warm pool.
    #[must_use]
    pub const fn is_usual(self) -> bool {
        matches!(self, Self::Ready | Self::LeftPool)
    }
}

impl fmt::Display for MissingOfBoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ready => "its Node is not Ready",
            Self::LeaseRenewal => "its kubelet has not renewed its Lease",
            Self::Running => "EC2 does not report its instance as running",
            Self::LeftPool => "nothing shows that its instance has left the warm pool of its group",
        })
    }
}

/// After this time without an answer, or with one that should not last, the Node gets an Event.
const EVENT_AFTER: Duration = seconds(600);

/// What earlier checks of a machine that has booted and is not back have found.
#[derive(Debug, Default)]
pub struct BootChecks {
    missing: Option<MissingOfBoot>,
    /// Since when something is missing that should not be, or nobody answers.
    hindered_since: Option<Moment>,
    has_event: bool,
}

/// What is reported after a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootNews {
    /// Something else is missing than after the last check that was answered.
    pub is_other: bool,
    /// The Node gets an Event: this has lasted for ten minutes. At most one is written.
    pub needs_event: bool,
}

impl BootChecks {
    /// Takes in the result of a check at `now`. `None`: it was not answered.
    pub fn note(&mut self, now: Moment, missing: Option<MissingOfBoot>) -> BootNews {
        let is_other = missing.is_some() && self.missing != missing;
        self.missing = missing.or(self.missing);
        if missing.is_some_and(MissingOfBoot::is_usual) {
            self.hindered_since = None;
            return BootNews { is_other, needs_event: false };
        }
        let since = *self.hindered_since.get_or_insert(now);
        let needs_event = !self.has_event && since.plus(EVENT_AFTER) <= now;
        self.has_event |= needs_event;
        BootNews { is_other, needs_event }
    }
}

/// What would show that the machine of `node` is back. `None`: its record is of this boot, of
/// another instance or of a sick one, so nothing has to be shown.
#[must_use]
pub fn awaited_boot(node: &Node) -> Option<AwaitedBoot> {
    let record = Record::read(node.record()?).ok()?;
    let is_other = node.instance.as_ref().is_some_and(|instance| *instance != record.instance);
    if !record.is_of_earlier_boot(node) || is_other || node.is_elsewhere {
        return None;
    }
    let times = record.known().map(|known| known.time);
    let released = record.released.as_ref().map(|released| released.at);
    let since = times.chain(released).max().unwrap_or(Moment::UNIX_EPOCH);
    let group = record.pool_group().cloned();
    Some(AwaitedBoot { instance: record.instance, group, since })
}

impl AwaitedBoot {
    /// What is missing, by what was read and asked since. `renewed`: when the kubelet renewed its
    /// Lease, `None` if there is no Lease.
    #[must_use]
    pub fn missing(
        &self,
        node: &Node,
        renewed: Option<Moment>,
        answer: &AwsAnswer<'_>,
    ) -> Option<MissingOfBoot> {
        let runs = answer.instance.is_some_and(|found| found.state == InstanceState::Running);
        if node.ready != Ready::True {
            Some(MissingOfBoot::Ready)
        } else if self.group.as_ref().is_some_and(|group| !has_left_pool(group, answer)) {
            Some(MissingOfBoot::LeftPool)
        } else if !runs {
            Some(MissingOfBoot::Running)
        } else if renewed.is_none_or(|renewed| renewed <= self.since) {
            Some(MissingOfBoot::LeaseRenewal)
        } else {
            None
        }
    }
}

fn has_left_pool(group: &GroupName, answer: &AwsAnswer<'_>) -> bool {
    match answer.group_state {
        Some(state) => matches!(
            state,
            "Pending" | "Pending:Wait" | "Pending:Proceed" | "InService" | "Standby"
        ),
        None => answer.instance.is_some_and(|found| found.group().as_ref() != Some(group)),
    }
}
