//! The JSON of events as EventBridge, Auto Scaling and SNS write it, and the rules that bring it to queues.

use std::{collections::BTreeSet, time::Duration};

use crate::domain::Moment;

/// Kinds of events that a rule can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// EC2 Instance-terminate Lifecycle Action.
    TerminateAction,
    /// EC2 Instance-launch Lifecycle Action.
    LaunchAction,
    /// EC2 Instance Launch Successful.
    LaunchSuccessful,
    /// EC2 Instance Terminate Successful.
    TerminateSuccessful,
    /// EC2 Spot Instance Interruption Warning.
    SpotWarning,
    /// EC2 Capacity Reservation Instance Interruption Warning.
    CapacityWarning,
    /// EC2 Instance Rebalance Recommendation.
    Rebalance,
    /// EC2 Instance State-change Notification.
    StateChange,
    /// AWS Health Event.
    Health,
}

/// How a message is wrapped on its way to the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Envelope {
    /// As it is.
    #[default]
    Plain,
    /// Through an SNS topic without raw delivery.
    Sns,
}

/// A rule of EventBridge: which events go to which queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The kinds that it matches.
    pub kinds: BTreeSet<EventKind>,
    /// The target.
    pub queue: String,
    /// Directly or through SNS.
    pub envelope: Envelope,
}

impl Rule {
    /// The usual rules of a drainer: terminate and launch actions, spot and capacity warnings, rebalance, state changes, Health.
    #[must_use]
    pub fn usual(queue: &str) -> Self {
        use EventKind as K;
        Self::of(queue, [K::TerminateAction, K::LaunchAction, K::SpotWarning, K::CapacityWarning, K::Rebalance, K::StateChange, K::Health])
    }

    /// A rule for these kinds.
    #[must_use]
    pub fn of(queue: &str, kinds: impl IntoIterator<Item = EventKind>) -> Self {
        Self { kinds: kinds.into_iter().collect(), queue: queue.to_owned(), envelope: Envelope::Plain }
    }

    /// The same through SNS.
    #[must_use]
    pub fn through_sns(mut self) -> Self {
        self.envelope = Envelope::Sns;
        self
    }
}

/// What becomes of an instance whose capacity is reclaimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpotAction {
    /// Terminated after two minutes.
    Terminate,
    /// Stopped after two minutes.
    Stop,
    /// Hibernated at once.
    Hibernate,
}

/// A scheduled change announced by AWS Health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthNotice {
    /// The instances concerned.
    pub instances: Vec<String>,
    /// `AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED` and the like.
    pub code: String,
    /// `scheduledChange`, `issue`, `accountNotification`, `investigation`.
    pub category: String,
    /// `upcoming`, `open`, `closed`.
    pub status: String,
    /// When it begins.
    pub start: Moment,
    /// When it ends.
    pub end: Option<Moment>,
    /// The last part of `eventArn`: the same in every message about one event.
    pub event: String,
}

impl HealthNotice {
    /// A retirement of `instances` that begins at `start`.
    #[must_use]
    pub fn retirement(instances: impl IntoIterator<Item = String>, start: Moment) -> Self {
        Self {
            instances: instances.into_iter().collect(),
            code: "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED".to_owned(),
            category: "scheduledChange".to_owned(),
            status: "upcoming".to_owned(),
            start,
            end: None,
            event: "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED_1".to_owned(),
        }
    }
}

/// From a spot or capacity warning to the end of the instance.
pub const WARNING: Duration = Duration::from_mins(2);
