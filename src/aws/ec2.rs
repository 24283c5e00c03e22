//! The calls to EC2 about instances.

use std::time::Duration;

use aws_sdk_ec2::types::{Filter, Instance};

use super::{Api, AwsError, call::Caller};
use crate::domain::{InstanceFacts, InstanceId, InstanceState, Moment};

/// The time limit of a call.
const LIMIT: Duration = Duration::from_secs(11);
/// How many values one filter can have.
pub(super) const FILTER_VALUES: usize = 200;
/// How many pages of an answer are read: a server that always sends another page must not keep us
/// busy for ever.
const PAGES: usize = 20;

/// EC2 in one region.
#[derive(Debug, Clone)]
pub struct Ec2 {
    client: aws_sdk_ec2::Client,
    caller: Caller,
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
        self.describe(
            "instance-id",
            ids.iter().map(|id| id.as_str().to_owned()).collect(),
            &of_many(first, ids.len()),
        )
        .await
    }

    /// DescribeInstances of up to 200 private DNS names. Without names, no call is made.
    pub async fn by_private_dns(&self, names: &[String]) -> Result<Vec<InstanceFacts>, AwsError> {
        let Some(first) = names.first() else { return Ok(Vec::new()) };
        self.describe("private-dns-name", names.to_vec(), &of_many(first, names.len())).await
    }

    async fn describe(
        &self,
        filter: &str,
        values: Vec<String>,
        object: &str,
    ) -> Result<Vec<InstanceFacts>, AwsError> {
        let filter = Filter::builder().name(filter).set_values(Some(values)).build();
        let mut found = Vec::new();
        let mut page = None;
        for _ in 0..PAGES {
            let request =
                self.client.describe_instances().filters(filter.clone()).set_next_token(page);
            let answer =
                self.caller.call(Api::DescribeInstances, object, LIMIT, request.send()).await?;
            let instances = answer
                .reservations
                .unwrap_or_default()
                .into_iter()
                .flat_map(|r| r.instances.unwrap_or_default());
            found.extend(instances.filter_map(facts));
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
