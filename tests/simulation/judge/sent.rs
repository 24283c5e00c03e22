//! What was sent to the queue, as the judge itself reads it: no code of the service takes part.

use std::{collections::BTreeMap, time::Duration};

use jiff::SignedDuration;
use serde_json::{Map, Value};
use sundown::{
    domain::Moment,
    sim::aws::{Delivery, PlannedEvent, SentMessage},
};

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    TerminateHook,
    RootVolume,
    LaunchHook,
    LaunchSuccessful,
    Spot,
    SpotStop,
    SpotHibernate,
    CapacityReservation,
    CapacityBlock,
    Rebalance,
    StateChange,
    ScheduledChange,
    Impaired,
    /// A person or another controller asks.
    Request,
}

impl Kind {
    /// Its name in records.
    pub fn name(self) -> &'static str {
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

    /// EC2 reclaims a spot instance.
    pub fn is_spot(self) -> bool {
        matches!(self, Self::Spot | Self::SpotStop | Self::SpotHibernate)
    }

    /// The kind as the details of the event show it more exactly.
    fn exactly(self, detail: &Map<String, Value>) -> Self {
        let ends = [text(detail, "Origin"), text(detail, "Destination")];
        let within_group = ends.iter().all(|end| end.as_deref() == Some("AutoScalingGroup"));
        let action = text(detail, "Action");
        match (self, text(detail, "instance-action").as_deref()) {
            (Self::Spot, Some("stop")) => Self::SpotStop,
            (Self::Spot, Some("hibernate")) => Self::SpotHibernate,
            (Self::TerminateHook, _) if action.as_deref() == Some("ReplaceRootVolume") => {
                Self::RootVolume
            }
            (Self::TerminateHook, _) if action.is_none() && within_group => Self::RootVolume,
            _ => self,
        }
    }

    fn of_event(source: &str, detail_type: &str) -> Option<Self> {
        Some(match (source, detail_type) {
            ("aws.autoscaling", "EC2 Instance-terminate Lifecycle Action") => Self::TerminateHook,
            ("aws.autoscaling", "EC2 Instance-launch Lifecycle Action") => Self::LaunchHook,
            ("aws.autoscaling", "EC2 Instance Launch Successful") => Self::LaunchSuccessful,
            ("aws.ec2", "EC2 Spot Instance Interruption Warning") => Self::Spot,
            ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning") => {
                Self::CapacityReservation
            }
            (
                "aws.ec2",
                "Capacity Block Expiration Warning"
                | "Capacity Block Reservation Expiration Warning",
            ) => Self::CapacityBlock,
            ("aws.ec2", "EC2 Instance Rebalance Recommendation") => Self::Rebalance,
            ("aws.ec2", "EC2 Instance State-change Notification") => Self::StateChange,
            ("aws.health", "AWS Health Event") => Self::ScheduledChange,
            _ => return None,
        })
    }
}

/// One event about one instance, as a body states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub kind: Kind,
    /// Empty where the body has none.
    pub id: String,
    /// When it happened, by AWS's clock.
    pub time: Option<Moment>,
    /// Empty in a body that names a Capacity Block: see [`Event::of_each`].
    pub instance: String,
    /// The Capacity Block that it names.
    pub block: Option<String>,
    /// Of a change of state.
    pub state: Option<String>,
    /// The end that a capacity warning states, by AWS's clock: of the machine, or of its Capacity
    /// Block.
    pub ends: Option<Moment>,
    /// Of a scheduled change.
    pub change: Option<Change>,
    /// Group and hook of a lifecycle action.
    pub hook: Option<(String, String)>,
    pub token: Option<String>,
    /// What the hook's `NotificationMetadata` says to Sundown, as it is written there.
    pub settings: BTreeMap<String, String>,
    /// Sent with `sundown send-test`.
    pub is_test: bool,
    /// Of a test: it asks to be treated like a real event.
    pub is_real_test: bool,
}

/// What AWS Health says about a scheduled change of one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The same in every message about it.
    pub arn: String,
    code: String,
    /// It is canceled or over, or AWS asks for nothing (any longer).
    pub is_closed: bool,
    /// It is one of EC2.
    is_of_ec2: bool,
    /// When AWS updated it, by its clock.
    pub updated: Option<Moment>,
}

impl Change {
    /// What EC2 schedules.
    pub fn of_ec2(event: &PlannedEvent, updated: Moment) -> Self {
        let is = |mark: &str| event.description.starts_with(mark);
        Self {
            arn: event.id.clone(),
            code: event.code.clone(),
            is_closed: is("[Completed]") || is("[Canceled]"),
            is_of_ec2: true,
            updated: Some(updated),
        }
    }

    fn of(detail: &Map<String, Value>) -> Self {
        let is = |key: &str, value: &str| text(detail, key).as_deref() == Some(value);
        Self {
            arn: text(detail, "eventArn").unwrap_or_default(),
            code: text(detail, "eventTypeCode").unwrap_or_default(),
            is_closed: is("statusCode", "closed") || is("actionability", "INFORMATIONAL"),
            is_of_ec2: is("service", "EC2") && is("eventTypeCategory", "scheduledChange"),
            updated: health_time(detail, "lastUpdatedTime"),
        }
    }

    /// It takes the instance away or reboots it: not what only touches the network.
    pub fn takes_instance(&self) -> bool {
        self.is_of_ec2 && Self::takes(&self.code)
    }

    /// What has this code, of AWS Health or of EC2 (`instance-retirement`), takes the instance away
    /// or reboots it.
    pub fn takes(code: &str) -> bool {
        let code = code.to_uppercase().replace('-', "_");
        let has = |parts: &[&str]| parts.iter().any(|part| code.contains(part));
        !has(&["NETWORK"])
            && has(&[
                "RETIREMENT",
                "REBOOT",
                "POWER",
                "STOP",
                "TERMINATION",
                "SYSTEM_MAINTENANCE",
                "DEGRADED",
            ])
    }

    /// The hardware is degraded: its drain begins at once.
    pub fn is_pressing(&self) -> bool {
        self.code.contains("DEGRADED") || self.code.contains("EXPEDITED")
    }
}

impl Event {
    /// One event for each instance in its Capacity Block; itself where it names none. `blocks`: the
    /// block of an instance.
    pub fn of_each(self, blocks: &BTreeMap<String, String>) -> Vec<Self> {
        let Some(block) = &self.block else { return vec![self] };
        let inside = blocks.iter().filter(|(_, of)| *of == block);
        inside.map(|(instance, _)| Self { instance: instance.clone(), ..self.clone() }).collect()
    }

    /// How long after it the machine ends at the latest, where it states no end.
    pub fn window(&self) -> Duration {
        Duration::from_secs(if self.kind == Kind::CapacityBlock { 600 } else { 120 })
    }

    /// The instance is being stopped or terminated, or is so already.
    pub fn is_ending_state(&self) -> bool {
        matches!(
            self.state.as_deref(),
            Some("stopping" | "shutting-down" | "stopped" | "terminated")
        )
    }

    /// Its kind asks for the drain of a node.
    pub fn is_interruption(&self) -> bool {
        match self.kind {
            Kind::TerminateHook
            | Kind::RootVolume
            | Kind::CapacityReservation
            | Kind::CapacityBlock => true,
            kind if kind.is_spot() => true,
            Kind::StateChange => self.is_ending_state(),
            Kind::ScheduledChange => {
                self.change.as_ref().is_some_and(|c| c.takes_instance() && !c.is_closed)
            }
            _ => false,
        }
    }
}

/// An event that was sent to the queue.
#[derive(Debug, Clone)]
pub struct Notice {
    pub event: Event,
    /// When its message was sent, by the clock of the world.
    pub sent: Moment,
    /// By how much AWS's clock was ahead then.
    pub ahead: SignedDuration,
    pub deliveries: Vec<Delivery>,
    /// When a call first asked for its deletion, which the queue may have forgotten.
    pub deleted: Option<Moment>,
}

impl Notice {
    /// When it happened, by AWS's clock: an event without a time happened when it was sent.
    pub fn aws_time(&self) -> Moment {
        self.event.time.unwrap_or_else(|| self.of_aws(self.sent))
    }

    /// When it happened, by the clock of the world.
    pub fn time(&self) -> Moment {
        self.aws_time() - self.ahead
    }

    /// When its machine ends, by the clock of the world: EC2 begins to end the machines of a Capacity
    /// Block thirty minutes before the block ends.
    pub fn machine_ends(&self) -> Moment {
        let before = if self.event.kind == Kind::CapacityBlock { 1800 } else { 0 };
        let end = self.ends().map(|ends| ends - Duration::from_secs(before));
        end.unwrap_or(self.time() + self.event.window())
    }

    /// The end that it states, by the clock of the world.
    pub fn ends(&self) -> Option<Moment> {
        self.event.ends.map(|ends| ends - self.ahead)
    }

    fn of_aws(&self, at: Moment) -> Moment {
        at + self.ahead
    }

    /// Some client had it by that moment.
    pub fn was_delivered_to(&self, client: &str, until: Moment) -> bool {
        self.deliveries.iter().any(|d| d.by == client && d.at <= until)
    }
}

/// Every event that was sent, in the order in which it was. `blocks`: the Capacity Block of an
/// instance.
pub fn notices(messages: &[SentMessage], blocks: &BTreeMap<String, String>) -> Vec<Notice> {
    let of_message = |m: &SentMessage| {
        let (sent, ahead) = (m.at, m.sent.duration_since(m.at));
        let (deliveries, deleted) =
            (m.deliveries.clone(), m.deletion_lost.into_iter().chain(m.deleted).min());
        let notice =
            move |event| Notice { event, sent, ahead, deliveries: deliveries.clone(), deleted };
        events(&m.body).into_iter().flat_map(|event| event.of_each(blocks)).map(notice)
    };
    messages.iter().flat_map(of_message).collect()
}

/// The events in a body: none in one that is no event, or not about an instance or a Capacity Block.
pub fn events(body: &str) -> Vec<Event> {
    in_envelope(body, 2)
}

/// SNS wraps a body, at most twice here.
fn in_envelope(body: &str, depth: usize) -> Vec<Event> {
    let Ok(Value::Object(outer)) = serde_json::from_str(body) else { return of_lines(body) };
    match text(&outer, "Message") {
        Some(inner) if is_envelope(&outer) && depth > 0 => in_envelope(&inner, depth - 1),
        _ => of_object(&outer),
    }
}

/// Some forwarders keep only the message of what SNS sends.
fn is_envelope(outer: &Map<String, Value>) -> bool {
    text(outer, "Type").is_none_or(|kind| kind == "Notification")
        && !outer.contains_key("detail-type")
}

fn of_object(outer: &Map<String, Value>) -> Vec<Event> {
    let Some(detail_type) = text(outer, "detail-type").or_else(|| text(outer, "detail_type"))
    else {
        return of_notification(outer).into_iter().collect();
    };
    let source = text(outer, "source").unwrap_or_default();
    let is_test = source == "sundown.test";
    let sources = ["aws.autoscaling", "aws.ec2", "aws.health"];
    let of = |source: &str| Kind::of_event(source, &detail_type);
    let kind = if is_test { sources.into_iter().find_map(of) } else { of(&source) };
    let (Some(kind), Some(Value::Object(detail))) = (kind, outer.get("detail")) else {
        return Vec::new();
    };
    let id = text(outer, "id").unwrap_or_default();
    let is_real_test = is_test && detail.get("sundown").is_some_and(|wish| wish["real"] == true);
    let of_instance = |instance: String| Event {
        is_test,
        is_real_test,
        ..event(kind, &id, time(outer, "time"), instance, detail)
    };
    let instances = if kind == Kind::ScheduledChange {
        let entities =
            detail.get("affectedEntities").and_then(Value::as_array).into_iter().flatten();
        entities.filter_map(|e| e["entityValue"].as_str().map(str::to_owned)).collect()
    } else if kind == Kind::CapacityBlock {
        Vec::from_iter(text(detail, "capacity-reservation-id").map(|_| String::new()))
    } else {
        Vec::from_iter(text(detail, "EC2InstanceId").or_else(|| text(detail, "instance-id")))
    };
    instances.into_iter().map(of_instance).collect()
}

/// What Auto Scaling itself sends to the target of a hook.
fn of_notification(native: &Map<String, Value>) -> Option<Event> {
    let kind = match text(native, "LifecycleTransition")?.as_str() {
        "autoscaling:EC2_INSTANCE_TERMINATING" => Kind::TerminateHook,
        "autoscaling:EC2_INSTANCE_LAUNCHING" => Kind::LaunchHook,
        _ => return None,
    };
    let id = text(native, "RequestId").unwrap_or_default();
    Some(event(kind, &id, time(native, "Time"), text(native, "EC2InstanceId")?, native))
}

/// The same in lines of `Key: value`, as it comes through a topic.
fn of_lines(body: &str) -> Vec<Event> {
    let pair = |line: &str| {
        line.split_once(':').map(|(key, value)| (key.trim().to_owned(), Value::from(value.trim())))
    };
    of_notification(&body.lines().filter_map(pair).collect()).into_iter().collect()
}

fn event(
    kind: Kind,
    id: &str,
    time_: Option<Moment>,
    instance: String,
    detail: &Map<String, Value>,
) -> Event {
    let kind = kind.exactly(detail);
    let is_action = matches!(kind, Kind::TerminateHook | Kind::RootVolume | Kind::LaunchHook);
    let hook = text(detail, "AutoScalingGroupName").zip(text(detail, "LifecycleHookName"));
    Event {
        kind,
        id: id.to_owned(),
        time: time_,
        instance,
        state: text(detail, "state").filter(|_| kind == Kind::StateChange),
        block: text(detail, "capacity-reservation-id").filter(|_| kind == Kind::CapacityBlock),
        ends: match kind {
            Kind::CapacityReservation => time(detail, "instance-termination-time"),
            Kind::CapacityBlock => time(detail, "end-date"),
            Kind::ScheduledChange => health_time(detail, "startTime"),
            _ => None,
        },
        change: (kind == Kind::ScheduledChange).then(|| Change::of(detail)),
        hook: hook.filter(|_| is_action),
        // The Auto Scaling API takes tokens of exactly 36 characters.
        token: text(detail, "LifecycleActionToken").filter(|t| is_action && t.len() == 36),
        settings: text(detail, "NotificationMetadata").map(|m| settings(&m)).unwrap_or_default(),
        is_test: false,
        is_real_test: false,
    }
}

/// What NotificationMetadata sets for Sundown. Text that is meant for it and cannot be read is one
/// setting without a name.
pub fn settings(metadata: &str) -> BTreeMap<String, String> {
    let unreadable = || BTreeMap::from([(String::new(), metadata.to_owned())]);
    let Ok(read) = serde_json::from_str::<Value>(metadata) else {
        let is_meant = metadata.trim_start().starts_with('{') && metadata.contains("sundown");
        return if is_meant { unreadable() } else { BTreeMap::new() };
    };
    let words = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match read.get("sundown") {
        None => BTreeMap::new(),
        Some(Value::Object(given)) => {
            given.iter().map(|(key, value)| (key.clone(), words(value))).collect()
        }
        Some(_) => unreadable(),
    }
}

/// A duration that a setting gives; `None` where it is none.
pub fn setting(settings: &BTreeMap<String, String>, key: &str) -> Option<Duration> {
    duration(settings.get(key)?)
}

/// The duration that a text gives; `None` where it gives none.
pub fn duration(text: &str) -> Option<Duration> {
    text.parse::<SignedDuration>().ok()?.try_into().ok()
}

fn text(object: &Map<String, Value>, key: &str) -> Option<String> {
    object.get(key)?.as_str().map(str::to_owned)
}

fn time(object: &Map<String, Value>, key: &str) -> Option<Moment> {
    text(object, key)?.parse().ok()
}

/// As AWS Health writes it: RFC 1123.
fn health_time(object: &Map<String, Value>, key: &str) -> Option<Moment> {
    let text = text(object, key)?;
    let time = jiff::fmt::rfc2822::DateTimeParser::new().relaxed_weekday(true);
    time.parse_timestamp(&text).ok().map(Moment::from)
}

#[cfg(test)]
mod tests;
