//! The JSON of events as EventBridge, Auto Scaling and SNS write it, and the rules that bring it to
//! queues.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};

use super::state::State;
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
    /// Capacity Block Expiration Warning.
    BlockWarning,
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
    /// Name of the rule; `EmbeddedAws::reroute` replaces all rules of the same name.
    pub name: String,
    /// The kinds that it matches.
    pub kinds: BTreeSet<EventKind>,
    /// Name of the queue that matching events go to.
    pub queue: String,
    /// Directly or through SNS.
    pub envelope: Envelope,
    /// It matches the source `sundown.test` too.
    pub tests: bool,
    /// It is enabled.
    pub enabled: bool,
}

impl Rule {
    /// The usual rules of a drainer: terminate and launch actions, spot and capacity warnings,
    /// rebalance, state changes, Health.
    #[must_use]
    pub fn usual(queue: &str) -> Self {
        use EventKind as K;
        Self::of(
            queue,
            [
                K::TerminateAction,
                K::LaunchAction,
                K::SpotWarning,
                K::CapacityWarning,
                K::BlockWarning,
                K::Rebalance,
                K::StateChange,
                K::Health,
            ],
        )
    }

    /// A rule for these kinds.
    #[must_use]
    pub fn of(queue: &str, kinds: impl IntoIterator<Item = EventKind>) -> Self {
        let (name, kinds) = (format!("{queue}-events"), kinds.into_iter().collect());
        Self {
            name,
            kinds,
            queue: queue.to_owned(),
            envelope: Envelope::Plain,
            tests: false,
            enabled: true,
        }
    }

    /// Under another name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// The same for test events, too.
    #[must_use]
    pub fn with_tests(mut self) -> Self {
        self.tests = true;
        self
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
    /// EC2 instance IDs in the event's `affectedEntities`.
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

/// From the warning of a Capacity Block to the end of its instances, and to the end of the block.
pub(super) const BLOCK_WARNING: [Duration; 2] = [Duration::from_mins(10), Duration::from_mins(40)];

/// From a spot or capacity warning to the end of the instance.
pub const WARNING: Duration = Duration::from_mins(2);

impl EventKind {
    /// `detail-type`.
    #[must_use]
    pub const fn detail_type(self) -> &'static str {
        match self {
            Self::TerminateAction => "EC2 Instance-terminate Lifecycle Action",
            Self::LaunchAction => "EC2 Instance-launch Lifecycle Action",
            Self::LaunchSuccessful => "EC2 Instance Launch Successful",
            Self::TerminateSuccessful => "EC2 Instance Terminate Successful",
            Self::SpotWarning => "EC2 Spot Instance Interruption Warning",
            Self::CapacityWarning => "EC2 Capacity Reservation Instance Interruption Warning",
            Self::BlockWarning => "Capacity Block Expiration Warning",
            Self::Rebalance => "EC2 Instance Rebalance Recommendation",
            Self::StateChange => "EC2 Instance State-change Notification",
            Self::Health => "AWS Health Event",
        }
    }

    pub(super) const fn source(self) -> &'static str {
        match self {
            Self::TerminateAction
            | Self::LaunchAction
            | Self::LaunchSuccessful
            | Self::TerminateSuccessful => "aws.autoscaling",
            Self::SpotWarning
            | Self::CapacityWarning
            | Self::BlockWarning
            | Self::Rebalance
            | Self::StateChange => "aws.ec2",
            Self::Health => "aws.health",
        }
    }
}

impl SpotAction {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Terminate => "terminate",
            Self::Stop => "stop",
            Self::Hibernate => "hibernate",
        }
    }
}

impl State {
    /// Sends an event of EventBridge to the queues whose rules want it.
    pub(super) fn send(
        &mut self,
        now: Moment,
        kind: EventKind,
        resources: &[&str],
        detail: &Value,
    ) {
        let event = json!({
            "version": "0",
            "id": self.uuid(),
            "detail-type": kind.detail_type(),
            "source": kind.source(),
            "account": self.settings.account,
            "time": seconds_text(self.aws_time(now)),
            "region": self.settings.region,
            "resources": resources,
            "detail": detail,
        });
        let body = event.to_string();
        let is_lost = self.events_lost_until.is_some_and(|until| now < until);
        let targets: Vec<Rule> = self
            .rules
            .iter()
            .filter(|rule| !is_lost && rule.enabled && rule.kinds.contains(&kind))
            .cloned()
            .collect();
        for rule in targets {
            self.put_in(now, &rule.queue, rule.envelope, &body);
        }
    }

    /// Puts a message on a queue, wrapped or not.
    pub(super) fn put_in(&mut self, now: Moment, queue: &str, envelope: Envelope, body: &str) {
        match envelope {
            Envelope::Plain => self.put(now, queue, body),
            Envelope::Sns => {
                let wrapped = self.in_sns(now, body);
                self.put(now, queue, &wrapped)
            }
        };
    }

    /// The envelope that SNS puts around a message when raw delivery is off.
    fn in_sns(&mut self, now: Moment, body: &str) -> String {
        let region = &self.settings.region;
        json!({
            "Type": "Notification",
            "TopicArn": format!("arn:aws:sns:{region}:{}:interruptions", self.settings.account),
            "Message": body,
            "Timestamp": millis_text(self.aws_time(now)),
            "SignatureVersion": "1",
            "Signature": "c2lnbmF0dXJl",
            "SigningCertURL": format!(
                "https://sns.{region}.amazonaws.com/SimpleNotificationService.pem"
            ),
            "UnsubscribeURL": format!("https://sns.{region}.amazonaws.com/?Action=Unsubscribe"),
            "MessageId": self.uuid(),
        })
        .to_string()
    }

    /// One message about all instances of the notice, as AWS Health sends it.
    pub(super) fn health(&mut self, now: Moment, notice: &HealthNotice) {
        let region = self.settings.region.clone();
        let service = "EC2";
        let entities: Vec<Value> = notice
            .instances
            .iter()
            .map(|id| json!({ "entityValue": id, "status": "PENDING" }))
            .collect();
        let mut detail = json!({
            "eventArn": format!(
                "arn:aws:health:{region}::event/{service}/{}/{}", notice.code, notice.event
            ),
            "service": service,
            "eventTypeCode": notice.code,
            "eventTypeCategory": notice.category,
            "eventScopeCode": "ACCOUNT_SPECIFIC",
            "communicationId": self.uuid(),
            "statusCode": notice.status,
            "startTime": http_date(notice.start),
            "lastUpdatedTime": http_date(self.aws_time(now)),
            "eventRegion": region,
            "affectedAccount": self.settings.account,
            "page": "1",
            "totalPages": "1",
            "eventDescription": [{
                "language": "en_US", "latestDescription": "Announced by the embedded AWS."
            }],
            "affectedEntities": entities,
        });
        if let (Some(end), Some(detail)) = (notice.end, detail.as_object_mut()) {
            detail.insert("endTime".to_owned(), http_date(end).into());
        }
        let resources: Vec<&str> = notice.instances.iter().map(String::as_str).collect();
        self.send(now, EventKind::Health, &resources, &detail);
    }
}

/// `2026-01-02T03:04:05Z`, as most events write times.
pub(super) fn seconds_text(moment: Moment) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `2026-01-02T03:04:05.678Z`.
pub(super) fn millis_text(moment: Moment) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// `Fri, 02 Jan 2026 03:04:05 GMT`, as in HTTP headers and AWS Health.
pub(super) fn http_date(moment: Moment) -> String {
    moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}
