//! Events of EventBridge, by `source` and `detail-type`.

use std::{collections::BTreeMap, sync::Arc};

use crate::domain::{
    CapacityBlock, Cause, ChangeStatus, HealthNotice, InstanceId, InstanceState, Interruption,
    Moment, SpotAction, is_region,
};

use super::{
    Irrelevant, Parsed, Reject, TestContent, TestEvent, field, lifecycle,
    wire::{self, AnyText, Entity, OfBlock, OfHealth, OfInstance, OfTest, Outer, quote},
};

/// The `source` of test events. The sources of AWS begin with `aws.`, and EventBridge accepts such
/// a source from nobody else.
pub const TEST_SOURCE: &str = "sundown.test";

/// The `detail-type` of the warning that a Capacity Block ends. The documentation has both (EC2 user
/// guide, "Monitor Capacity Blocks").
pub(crate) const CAPACITY_BLOCK: &str = "Capacity Block Expiration Warning";
pub(crate) const CAPACITY_BLOCK_TOO: &str = "Capacity Block Reservation Expiration Warning";

/// The `detail-type` of a launch action. Its rule is needed only if a group has a launch hook.
pub(crate) const LAUNCH_ACTION: &str = "EC2 Instance-launch Lifecycle Action";

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
        | LAUNCH_ACTION
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
            ("aws.autoscaling", LAUNCH_ACTION) => {
                lifecycle::from_event(&self.detail()?, lifecycle::Way::In, self.id, self.time)
            }
            ("aws.autoscaling", "EC2 Instance Launch Successful") => {
                lifecycle::launched(&self.detail()?, self.id, self.time)
            }
            ("aws.ec2", "EC2 Spot Instance Interruption Warning") => {
                self.of_instance(|d| Cause::Spot(spot_action(d)))
            }
            ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning") => self
                .of_instance(|d| Cause::CapacityReservation { ends: field::time(d.ends.as_ref()) }),
            ("aws.ec2", CAPACITY_BLOCK | CAPACITY_BLOCK_TOO) => self.capacity_block(),
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
        let (content, ignored) = match self.of(source_of(detail_type), detail_type)? {
            Parsed::Interruptions(mut interruptions) => {
                let ignored = interruptions.len().saturating_sub(TestEvent::MOST_INSTANCES);
                interruptions.truncate(TestEvent::MOST_INSTANCES);
                (TestContent::Interruptions(interruptions), ignored)
            }
            Parsed::CapacityBlock(block) => (TestContent::CapacityBlock(block), 0),
            other => return Ok(other),
        };
        let real = wish.sundown.is_some_and(|wish| wish.real);
        Ok(Parsed::Test(TestEvent { content, ignored, real }))
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

    fn capacity_block(&self) -> Result<Parsed, Reject> {
        let detail: OfBlock<'_> = self.detail()?;
        Ok(Parsed::CapacityBlock(CapacityBlock {
            reservation: field::reservation("capacity-reservation-id", detail.id.as_ref())?,
            event_id: self.id.to_owned(),
            time: self.time,
            ends: field::time(detail.ends.as_ref()),
        }))
    }

    fn health(&self) -> Result<Parsed, Reject> {
        let detail: OfHealth<'_> = self.detail()?;
        if field::needed("service", detail.service.as_ref())? != "EC2" {
            return Ok(Parsed::Irrelevant(Irrelevant::OtherHealthService));
        }
        if field::needed("eventTypeCategory", detail.category.as_ref())? != "scheduledChange" {
            return Ok(Parsed::Irrelevant(Irrelevant::OtherHealthCategory));
        }
        let text = |text: &Option<AnyText<'_>>| text.as_ref().map(|text| text.0.to_string());
        let notice = HealthNotice {
            event_arn: field::arn("eventArn", detail.arn.as_ref())?.to_owned(),
            communication_id: Some(field::name("communicationId", detail.communication.as_ref())?)
                .filter(|c| !c.is_empty())
                .map(str::to_owned),
            code: field::name("eventTypeCode", detail.code.as_ref())?.to_owned(),
            status: match detail.status.as_deref() {
                Some("closed") => ChangeStatus::Closed,
                Some("open") => ChangeStatus::Open,
                _ => ChangeStatus::Upcoming,
            },
            starts: field::health_time(detail.starts.as_ref()),
            updated: field::health_time(detail.updated.as_ref()),
            region: text(&detail.region).filter(|region| is_region(region)),
            account: text(&detail.account).filter(|account| field::is_account(account)),
            is_informational: text(&detail.actionability).is_some_and(|a| a == "INFORMATIONAL"),
        };
        // Each page of an event has other entities, so a page is complete in itself. If a page names
        // one twice, the one that is not resolved counts.
        let mut instances = BTreeMap::new();
        for raw in detail.entities.unwrap_or_default() {
            let entity: Entity<'_> = wire::field("affectedEntities", Some(raw))?;
            let is_resolved = text(&entity.status).is_some_and(|status| status == "RESOLVED");
            if let Some(instance) = entity.value.and_then(|v| field::entity(&v)) {
                instances
                    .entry(instance)
                    .and_modify(|all: &mut bool| *all &= is_resolved)
                    .or_insert(is_resolved);
            }
        }
        if instances.is_empty() {
            return Ok(Parsed::Irrelevant(Irrelevant::NoInstance));
        }
        let resolved = Arc::new(HealthNotice { status: ChangeStatus::Closed, ..notice.clone() });
        let notice = Arc::new(notice);
        let of = |(instance, is_resolved)| {
            let notice = if is_resolved { &resolved } else { &notice };
            notice.of(instance, self.id, self.time)
        };
        Ok(Parsed::Interruptions(instances.into_iter().map(of).collect()))
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
