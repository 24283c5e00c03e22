//! Events of EventBridge, by `source` and `detail-type`.

use std::{collections::BTreeSet, sync::Arc};

use crate::domain::{
    Cause, HealthNotice, InstanceId, InstanceState, Interruption, Moment, SpotAction,
};

use super::{
    Irrelevant, Parsed, Reject, TestEvent, field, lifecycle,
    wire::{self, Entity, OfHealth, OfInstance, OfTest, Outer, quote},
};

/// The `source` of test events. The sources of AWS begin with `aws.`, and EventBridge accepts such
/// a source from nobody else.
pub const TEST_SOURCE: &str = "sundown.test";

/// Most instances of one test event to process. Sundown asks EC2 about each and writes a Kubernetes
/// Event for it, and anybody who may put events on the bus can send one that names thousands.
const MOST_IN_A_TEST: usize = 100;

/// The only version that EventBridge has had.
const VERSION: &str = "0";

pub(super) fn parse(outer: &Outer<'_>, detail_type: &str) -> Result<Parsed, Reject> {
    if let Some(version) = outer.version.as_deref().filter(|v| *v != VERSION) {
        return Err(Reject::UnknownVersion(quote(version)));
    }
    let event = Event {
        id: field::name("id", outer.id.as_ref())?,
        time: field::time(outer.time.as_ref()),
        outer,
    };
    match field::needed("source", outer.source.as_ref())? {
        TEST_SOURCE => event.test(detail_type),
        source => event.of(source, detail_type),
    }
}

/// The `source` of events with this `detail-type`.
fn source_of(detail_type: &str) -> &'static str {
    match detail_type {
        "EC2 Instance-terminate Lifecycle Action"
        | "EC2 Instance-launch Lifecycle Action"
        | "EC2 Instance Launch Successful" => "aws.autoscaling",
        "AWS Health Event" => "aws.health",
        _ => "aws.ec2",
    }
}

struct Event<'e, 'a> {
    id: &'e str,
    time: Option<Moment>,
    outer: &'e Outer<'a>,
}

impl<'a> Event<'_, 'a> {
    fn of(&self, source: &str, detail_type: &str) -> Result<Parsed, Reject> {
        match (source, detail_type) {
            ("aws.autoscaling", "EC2 Instance-terminate Lifecycle Action") => {
                lifecycle::from_event(&self.detail()?, lifecycle::Way::Out, self.id, self.time)
            }
            ("aws.autoscaling", "EC2 Instance-launch Lifecycle Action") => {
                lifecycle::from_event(&self.detail()?, lifecycle::Way::In, self.id, self.time)
            }
            ("aws.autoscaling", "EC2 Instance Launch Successful") => {
                lifecycle::launched(&self.detail()?, self.id, self.time)
            }
            ("aws.ec2", "EC2 Spot Instance Interruption Warning") => {
                self.of_instance(|d| Cause::Spot(spot_action(d)))
            }
            ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning") => {
                self.of_instance(|d| Cause::Capacity { ends: field::time(d.ends.as_ref()) })
            }
            ("aws.ec2", "EC2 Instance Rebalance Recommendation") => {
                self.of_instance(|_| Cause::Rebalance)
            }
            ("aws.ec2", "EC2 Instance State-change Notification") => self.state_change(),
            ("aws.health", "AWS Health Event") => self.health(),
            ("aws.autoscaling" | "aws.ec2" | "aws.health", _) => {
                Ok(Parsed::Irrelevant(Irrelevant::OtherDetailType))
            }
            _ => Ok(Parsed::Irrelevant(Irrelevant::OtherSource)),
        }
    }

    /// A test event has the form of a real event, except for its `source` and an optional `sundown`
    /// object in its `detail`.
    fn test(&self, detail_type: &str) -> Result<Parsed, Reject> {
        let wish: OfTest = self.detail()?;
        match self.of(source_of(detail_type), detail_type)? {
            Parsed::Interruptions(mut interruptions) => {
                let ignored = interruptions.len().saturating_sub(MOST_IN_A_TEST);
                interruptions.truncate(MOST_IN_A_TEST);
                Ok(Parsed::Test(TestEvent {
                    interruptions,
                    ignored,
                    real: wish.sundown.is_some_and(|wish| wish.real),
                }))
            }
            other => Ok(other),
        }
    }

    fn detail<T: serde::Deserialize<'a>>(&self) -> Result<T, Reject> {
        wire::field("detail", self.outer.detail)
    }

    fn says(&self, instance: InstanceId, cause: Cause) -> Interruption {
        Interruption { instance, event_id: self.id.to_owned(), time: self.time, cause }
    }

    fn of_instance(&self, cause: impl FnOnce(&OfInstance<'_>) -> Cause) -> Result<Parsed, Reject> {
        let detail: OfInstance<'_> = self.detail()?;
        let instance = field::instance("instance-id", detail.id.as_ref())?;
        Ok(Parsed::Interruptions(vec![self.says(instance, cause(&detail))]))
    }

    fn state_change(&self) -> Result<Parsed, Reject> {
        let detail: OfInstance<'_> = self.detail()?;
        let Some(state) = &detail.state else { return Err(Reject::MissingField("state")) };
        match state.parse::<InstanceState>() {
            Ok(state) if state.is_ending() => {
                let instance = field::instance("instance-id", detail.id.as_ref())?;
                Ok(Parsed::Interruptions(vec![self.says(instance, Cause::StateChange(state))]))
            }
            Ok(_) => Ok(Parsed::Irrelevant(Irrelevant::StateNotEnding)),
            Err(()) => Ok(Parsed::Irrelevant(Irrelevant::UnknownState)),
        }
    }

    fn health(&self) -> Result<Parsed, Reject> {
        let detail: OfHealth<'_> = self.detail()?;
        if field::needed("service", detail.service.as_ref())? != "EC2" {
            return Ok(Parsed::Irrelevant(Irrelevant::OtherHealthService));
        }
        if field::needed("eventTypeCategory", detail.category.as_ref())? != "scheduledChange" {
            return Ok(Parsed::Irrelevant(Irrelevant::OtherHealthCategory));
        }
        let notice = Arc::new(HealthNotice {
            event_arn: field::arn("eventArn", detail.arn.as_ref())?.to_owned(),
            communication_id: Some(field::name("communicationId", detail.communication.as_ref())?)
                .filter(|c| !c.is_empty())
                .map(str::to_owned),
            code: field::name("eventTypeCode", detail.code.as_ref())?.to_owned(),
            starts: field::health_time(detail.starts.as_ref()),
            closed: detail.status.as_deref() == Some("closed"),
        });
        let mut instances = BTreeSet::new();
        for raw in detail.entities.unwrap_or_default() {
            let entity: Entity<'_> = wire::field("affectedEntities", Some(raw))?;
            instances.extend(entity.value.and_then(|v| field::entity(&v)));
        }
        if instances.is_empty() {
            return Ok(Parsed::Irrelevant(Irrelevant::NoInstance));
        }
        Ok(Parsed::Interruptions(
            instances
                .into_iter()
                .map(|i| self.says(i, Cause::Health(Arc::clone(&notice))))
                .collect(),
        ))
    }
}

/// The action in a spot warning. An unknown action must not lose the warning, so the worst one is
/// assumed.
fn spot_action(detail: &OfInstance<'_>) -> SpotAction {
    match detail.action.as_deref() {
        Some("stop") => SpotAction::Stop,
        Some("hibernate") => SpotAction::Hibernate,
        _ => SpotAction::Terminate,
    }
}
