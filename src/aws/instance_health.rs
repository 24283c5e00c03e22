//! The calls about the health of instances: DescribeInstanceStatus and SetInstanceHealth.

use std::collections::BTreeMap;

use aws_sdk_ec2::types::{
    EbsStatusSummary, Filter, InstanceStatus as Described, InstanceStatusEvent,
    InstanceStatusSummary, SummaryStatus,
};
use aws_smithy_types::DateTime;

use super::{
    Api, AutoScaling, AwsError,
    autoscaling::LIMIT as AUTO_SCALING_LIMIT,
    ec2::{Ec2, LIMIT, PAGES},
};
use crate::domain::{FailedCheck, InstanceId, InstanceStatus, Moment, ScheduledEvent, StatusCheck};

/// Instances in a page (`MaxResults`, at most 1000).
const PAGE: i32 = 1000;
/// How many events of an instance are read.
const EVENTS: usize = 20;
/// How much of the texts of an event is read, in characters.
const TEXT: usize = 200;

impl Ec2 {
    /// DescribeInstanceStatus, by filter: the running instances of the region, of any owner in this
    /// account, of which at least one status check fails. Three calls, and more for more than 1000
    /// instances.
    pub async fn impaired_instances(&self) -> Result<Vec<InstanceStatus>, AwsError> {
        let mut found = BTreeMap::new();
        for check in StatusCheck::ALL {
            let impaired = SummaryStatus::Impaired.as_str().to_owned();
            let statuses = self.statuses(check.filter(), vec![impaired]).await?;
            // A server that knows no such filter shows healthy instances, too.
            let failing = statuses.into_iter().filter(|status| !status.failed_checks.is_empty());
            found.extend(failing.map(|status| (status.id.clone(), status)));
        }
        Ok(found.into_values().collect())
    }

    /// DescribeInstanceStatus, by filter: the running instances of the region, of any owner in this
    /// account, that have a scheduled event. One call, and more for more than 1000 instances.
    pub async fn instances_with_events(&self) -> Result<Vec<InstanceStatus>, AwsError> {
        let codes = ScheduledEvent::CODES.map(str::to_owned).to_vec();
        let mut found = self.statuses("event.code", codes).await?;
        found.retain(|status| !status.events.is_empty());
        Ok(found)
    }

    /// The running instances that a filter matches, with their status.
    async fn statuses(
        &self,
        filter: &str,
        values: Vec<String>,
    ) -> Result<Vec<InstanceStatus>, AwsError> {
        let matching = Filter::builder().name(filter).set_values(Some(values)).build();
        let mut found = Vec::new();
        let mut page = None;
        for _ in 0..PAGES {
            let request = self
                .client
                .describe_instance_status()
                .filters(matching.clone())
                .max_results(PAGE)
                .set_next_token(page);
            let answer = self
                .caller
                .call(Api::DescribeInstanceStatus, filter, LIMIT, request.send())
                .await?;
            found.extend(answer.instance_statuses.unwrap_or_default().iter().filter_map(status));
            page = answer.next_token.filter(|t| !t.is_empty());
            if page.is_none() {
                return Ok(found);
            }
        }
        Err(AwsError::endless(Api::DescribeInstanceStatus, filter))
    }
}

impl AutoScaling {
    /// SetInstanceHealth: the group is to replace this instance, even within its grace period for
    /// health checks. Fails when the instance is in no group. A second call changes nothing and is no error.
    pub async fn set_unhealthy(&self, instance: &InstanceId) -> Result<(), AwsError> {
        let request = self
            .client
            .set_instance_health()
            .instance_id(instance.as_str())
            .health_status("Unhealthy")
            .should_respect_grace_period(false);
        let object = instance.as_str();
        self.caller
            .call(Api::SetInstanceHealth, object, AUTO_SCALING_LIMIT, request.send())
            .await
            .map(drop)
    }
}

/// `None` if the id is not a valid instance id.
fn status(described: &Described) -> Option<InstanceStatus> {
    let of = |check, summary: Option<&InstanceStatusSummary>| failed(check, summary?);
    let checks = [
        of(StatusCheck::System, described.system_status()),
        of(StatusCheck::Instance, described.instance_status()),
        described.attached_ebs_status().and_then(volumes_failed),
    ];
    Some(InstanceStatus {
        id: described.instance_id()?.parse().ok()?,
        failed_checks: checks.into_iter().flatten().collect(),
        events: described.events().iter().take(EVENTS).filter_map(event).collect(),
    })
}

/// `None`: the check does not fail.
fn failed(check: StatusCheck, summary: &InstanceStatusSummary) -> Option<FailedCheck> {
    let fails = summary.status() == Some(&SummaryStatus::Impaired);
    let since = summary.details().iter().filter_map(|d| moment(d.impaired_since())).min();
    fails.then_some(FailedCheck { check, since })
}

/// The same for the attached volumes.
fn volumes_failed(summary: &EbsStatusSummary) -> Option<FailedCheck> {
    let fails = summary.status() == Some(&SummaryStatus::Impaired);
    let since = summary.details().iter().filter_map(|d| moment(d.impaired_since())).min();
    fails.then_some(FailedCheck { check: StatusCheck::AttachedVolumes, since })
}

/// `None` without an id or a code, which distinguish it from other events.
fn event(event: &InstanceStatusEvent) -> Option<ScheduledEvent> {
    let short = |text: &str| text.chars().take(TEXT).collect::<String>();
    Some(ScheduledEvent {
        id: short(event.instance_event_id()?),
        code: short(event.code()?.as_str()),
        description: short(event.description().unwrap_or_default()),
        not_before: moment(event.not_before()),
        not_after: moment(event.not_after()),
    })
}

fn moment(time: Option<&DateTime>) -> Option<Moment> {
    Moment::from_second(time?.secs()).ok()
}
