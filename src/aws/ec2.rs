//! The calls to EC2 about instances.

use std::time::Duration;

use aws_sdk_ec2::types::{Filter, Instance};

use super::{Api, AwsError, call::Caller};
use crate::domain::{InstanceFacts, InstanceId, InstanceState, Moment, ReservationId};

/// The time limit of a call.
pub(super) const LIMIT: Duration = Duration::from_secs(11);
/// How many values one filter can have.
pub(super) const FILTER_VALUES: usize = 200;
/// How many pages of an answer are read: a server that always sends another page must not keep us
/// busy for ever.
pub(super) const PAGES: usize = 20;
/// The states of an instance that a Capacity Block still holds.
const IN_BLOCK: [InstanceState; 4] = [
    InstanceState::Pending,
    InstanceState::Running,
    InstanceState::Stopping,
    InstanceState::ShuttingDown,
];

/// EC2 in one region.
#[derive(Debug, Clone)]
pub struct Ec2 {
    pub(super) client: aws_sdk_ec2::Client,
    pub(super) caller: Caller,
}

impl Ec2 {
    pub(super) fn new(client: aws_sdk_ec2::Client, caller: Caller) -> Self {
        Self { client, caller }
    }

    /// DescribeInstances of up to 200 instances. It uses a filter, so that instances that do not
    /// exist are left out; by `InstanceId`, one unknown id would fail the whole call. Without ids,
    /// no call is made: it would mean all instances.
    pub async fn describe_instances(
        &self,
        ids: &[InstanceId],
    ) -> Result<Vec<InstanceFacts>, AwsError> {
        let Some(first) = ids.first() else { return Ok(Vec::new()) };
        let ids_as_text = ids.iter().map(|id| id.as_str().to_owned()).collect();
        self.describe(&[("instance-id", ids_as_text)], &of_many(first, ids.len())).await
    }

    /// DescribeInstances of up to 200 private DNS names. Without names, no call is made.
    pub async fn by_private_dns(&self, names: &[String]) -> Result<Vec<InstanceFacts>, AwsError> {
        let Some(first) = names.first() else { return Ok(Vec::new()) };
        let filter = ("private-dns-name", names.to_vec());
        self.describe(&[filter], &of_many(first, names.len())).await
    }

    /// DescribeInstances of a Capacity Reservation or Capacity Block: the instances that run in it,
    /// start or are about to end.
    pub async fn in_reservation(
        &self,
        reservation: &ReservationId,
    ) -> Result<Vec<InstanceId>, AwsError> {
        let of_block = ("capacity-reservation-id", vec![reservation.as_str().to_owned()]);
        let states = IN_BLOCK.iter().map(|state| state.as_str().to_owned()).collect();
        let filters = [of_block, ("instance-state-name", states)];
        let found = self.describe(&filters, reservation.as_str()).await?;
        Ok(found.into_iter().map(|instance| instance.id).collect())
    }

    /// DescribeInstances of one instance: the Capacity Reservation or Capacity Block in which it
    /// runs. `None`: none, or there is no such instance.
    pub async fn reservation_of(
        &self,
        instance: &InstanceId,
    ) -> Result<Option<ReservationId>, AwsError> {
        let filters = [("instance-id", vec![instance.as_str().to_owned()])];
        let found = self.instances(&filters, instance.as_str()).await?;
        let id = found.into_iter().find_map(|found| found.capacity_reservation_id);
        Ok(id.and_then(|id| id.parse().ok()))
    }

    async fn describe(
        &self,
        filters: &[(&str, Vec<String>)],
        object: &str,
    ) -> Result<Vec<InstanceFacts>, AwsError> {
        Ok(self.instances(filters, object).await?.into_iter().filter_map(facts).collect())
    }

    /// The instances that all of the filters match.
    async fn instances(
        &self,
        filters: &[(&str, Vec<String>)],
        object: &str,
    ) -> Result<Vec<Instance>, AwsError> {
        let filters: Vec<_> = filters
            .iter()
            .map(|(name, values)| {
                Filter::builder().name(*name).set_values(Some(values.clone())).build()
            })
            .collect();
        let mut found = Vec::new();
        let mut page = None;
        for _ in 0..PAGES {
            let request = self
                .client
                .describe_instances()
                .set_filters(Some(filters.clone()))
                .set_next_token(page);
            let answer =
                self.caller.call(Api::DescribeInstances, object, LIMIT, request.send()).await?;
            let instances = answer
                .reservations
                .unwrap_or_default()
                .into_iter()
                .flat_map(|r| r.instances.unwrap_or_default());
            found.extend(instances);
            page = answer.next_token.filter(|t| !t.is_empty());
            if page.is_none() {
                return Ok(found);
            }
        }
        // In a part of the answer, the instances of the other pages would look deleted.
        Err(AwsError::endless(Api::DescribeInstances, object))
    }
}

pub(super) fn of_many(first: &impl std::fmt::Display, count: usize) -> String {
    if count == 1 {
        first.to_string()
    } else {
        format!("{first} and {} more", count.saturating_sub(1))
    }
}

/// `None` if the id is not a valid instance id: Sundown did not ask for that instance.
fn facts(instance: Instance) -> Option<InstanceFacts> {
    let state = instance.state.and_then(|s| s.name);
    Some(InstanceFacts {
        id: instance.instance_id?.parse().ok()?,
        // The instance exists, and an unknown state does not prove that it has ended.
        state: state.and_then(|s| s.as_str().parse().ok()).unwrap_or(InstanceState::Running),
        launched: instance.launch_time.and_then(|t| Moment::from_second(t.secs()).ok()),
        private_dns: instance.private_dns_name.filter(|name| !name.is_empty()),
        private_address: instance.private_ip_address.filter(|address| !address.is_empty()),
        tags: instance
            .tags
            .unwrap_or_default()
            .into_iter()
            .filter_map(|t| Some((t.key?, t.value.unwrap_or_default())))
            .collect(),
    })
}
