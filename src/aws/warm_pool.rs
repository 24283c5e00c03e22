//! DescribeWarmPool: the only call that lists the instances in the warm pool of a group.
//! DescribeAutoScalingGroups leaves them out (Auto Scaling API reference).

use super::{Advice, Api, AutoScaling, AwsError, autoscaling::LIMIT, groups::member};
use crate::domain::GroupName;

/// How many instances one page has at most (`MaxRecords`).
const PAGE: i32 = 50;
/// The most pages of one pool: 10 000 instances.
const POOL_PAGES: usize = 200;

/// The answer of [`AutoScaling::warm_pool`].
#[derive(Debug)]
pub struct WarmPool {
    /// `InstanceId` and `LifecycleState` of those that were asked for.
    pub members: Vec<(String, String)>,
    /// How many calls were made.
    pub calls: u64,
    /// Whether AWS answered every page.
    pub result: Result<(), AwsError>,
}

impl AutoScaling {
    /// DescribeWarmPool of a group, page by page: the instances in a `LifecycleState` that
    /// `is_wanted` accepts, `most` of them at most. Empty if there is no such group.
    pub async fn warm_pool(
        &self,
        group: &GroupName,
        most: usize,
        is_wanted: impl Fn(&str) -> bool,
    ) -> WarmPool {
        let (mut members, mut calls, mut page) = (Vec::new(), 0, None);
        for _ in 0..POOL_PAGES {
            let request = self
                .client
                .describe_warm_pool()
                .auto_scaling_group_name(group.as_str())
                .max_records(PAGE)
                .set_next_token(page);
            calls += 1;
            let call =
                self.caller.call(Api::DescribeWarmPool, group.as_str(), LIMIT, request.send());
            let answer = match call.await {
                Ok(answer) => answer,
                Err(error) if error.advice() == Advice::Gone => {
                    return WarmPool { members: Vec::new(), calls, result: Ok(()) };
                }
                Err(error) => return WarmPool { members, calls, result: Err(error) },
            };
            let instances = answer.instances.unwrap_or_default().into_iter();
            let wanted = instances.filter_map(member).filter(|(_, state)| is_wanted(state));
            members.extend(wanted.take(most.saturating_sub(members.len())));
            page = answer.next_token.filter(|token| !token.is_empty());
            if page.is_none() {
                return WarmPool { members, calls, result: Ok(()) };
            }
        }
        let endless = AwsError::endless(Api::DescribeWarmPool, group.as_str());
        WarmPool { members, calls, result: Err(endless) }
    }
}
