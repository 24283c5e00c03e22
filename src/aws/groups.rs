//! The calls about groups with their instances and hooks, and those that change hooks. They are for
//! operator commands; the service uses only [`AutoScaling::members_of`] and
//! [`AutoScaling::waiting_members`]. None of them shows the instances in warm pools.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use aws_sdk_autoscaling::types::{AutoScalingGroup, Filter, LifecycleHook};

use super::{
    Api, AutoScaling, AwsError,
    autoscaling::{LIMIT, PAGES, description, retains_abandoned, transition},
};
use crate::domain::{GroupCapacity, GroupName, HookName, HookResult, Transition, is_retained};

/// Selects groups by tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupFilter {
    /// Groups with this tag key and any value.
    TagKey(String),
    /// Groups with this tag key and value.
    Tag(String, String),
}

impl GroupFilter {
    /// Selects the groups of this cluster: one filter for each of the two tags that name it. Most
    /// groups have both.
    #[must_use]
    pub fn of_cluster(cluster: &str) -> [Self; 2] {
        [
            Self::TagKey(format!("kubernetes.io/cluster/{cluster}")),
            Self::Tag("eks:cluster-name".to_owned(), cluster.to_owned()),
        ]
    }
}

/// A group, from DescribeAutoScalingGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// `AutoScalingGroupName`.
    pub group: GroupName,
    /// Values of `Tags` by key; empty for a tag without value.
    pub tags: BTreeMap<String, String>,
    /// What it wants, and what each instance counts.
    pub capacity: GroupCapacity,
    /// The instances: `InstanceId` and `LifecycleState`, as AWS writes them. Those in its warm pool
    /// are missing: see [`AutoScaling::warm_pool`].
    pub members: Vec<(String, String)>,
    /// It has a warm pool (`WarmPoolConfiguration`, `WarmPoolSize`).
    pub has_warm_pool: bool,
    /// The instances whose `HealthStatus` is `Unhealthy`.
    pub unhealthy: BTreeSet<String>,
    /// The processes that are suspended, such as `ReplaceUnhealthy` (`SuspendedProcesses`).
    pub suspended: BTreeSet<String>,
    /// Its lifecycle policy retains instances whose terminate hook is abandoned.
    pub retains_abandoned: bool,
}

/// The answer of [`AutoScaling::waiting_members`].
#[derive(Debug)]
pub struct WaitingMembers {
    /// Group, `InstanceId` and `LifecycleState`; those of the pages that were answered.
    pub members: Vec<(GroupName, String, String)>,
    /// Group and `InstanceId` of the retained instances; those of the pages that were answered.
    pub retained: Vec<(GroupName, String)>,
    /// The groups that have a warm pool, whose instances are missing above; `most` at most.
    pub with_warm_pool: Vec<GroupName>,
    /// How many calls were made.
    pub calls: u64,
    /// Whether AWS answered every page.
    pub result: Result<(), AwsError>,
}

/// A lifecycle hook, from DescribeLifecycleHooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// `LifecycleHookName`.
    pub hook: HookName,
    /// `LifecycleTransition`: whether the hook holds launches or terminations.
    pub transition: Transition,
    /// `HeartbeatTimeout`.
    pub heartbeat_timeout: Duration,
    /// `GlobalTimeout`.
    pub global_timeout: Duration,
    /// `DefaultResult`: the result if nobody completes the action in time.
    pub default_result: HookResult,
    /// `NotificationMetadata`.
    pub metadata: Option<String>,
    /// `NotificationTargetARN`: the queue or topic that the hook notifies besides EventBridge.
    pub target: Option<String>,
}

impl Group {
    /// The instances that are retained.
    #[must_use]
    pub fn retained(&self) -> Vec<&str> {
        let retained = self.members.iter().filter(|(_, state)| is_retained(state));
        retained.map(|(instance, _)| instance.as_str()).collect()
    }

    /// The instances that a hook for this transition keeps waiting.
    #[must_use]
    pub fn waiting(&self, transition: Transition) -> Vec<&str> {
        self.members
            .iter()
            .filter(|(_, state)| transition.holds(state))
            .map(|(instance, _)| instance.as_str())
            .collect()
    }
}

impl AutoScaling {
    /// DescribeAutoScalingGroups of the groups that match all of these filters, with their
    /// instances. Without filters, no call is made: it would mean all groups.
    pub async fn groups(&self, filters: &[GroupFilter]) -> Result<Vec<Group>, AwsError> {
        if filters.is_empty() {
            return Ok(Vec::new());
        }
        let object = filters.iter().map(shown).collect::<Vec<_>>().join(" and ");
        let filters: Vec<Filter> = filters.iter().map(filter).collect();
        self.describe(&object, |request| request.set_filters(Some(filters.clone()))).await
    }

    /// DescribeAutoScalingGroups of one group, with its instances; `None`: there is no such group.
    pub async fn group(&self, name: &GroupName) -> Result<Option<Group>, AwsError> {
        let found = self
            .describe(name.as_str(), |request| request.auto_scaling_group_names(name.as_str()))
            .await?;
        Ok(found.into_iter().find(|g| g.group == *name))
    }

    /// DescribeAutoScalingGroups of up to 100 groups by name, with their instances. Groups that do
    /// not exist are left out.
    pub async fn members_of(&self, names: &[GroupName]) -> Result<Vec<Group>, AwsError> {
        let Some(first) = names.first() else { return Ok(Vec::new()) };
        let all: Vec<String> = names.iter().map(|n| n.as_str().to_owned()).collect();
        let object = super::ec2::of_many(first, names.len());
        self.describe(&object, |request| request.set_auto_scaling_group_names(Some(all.clone())))
            .await
    }

    /// DescribeAutoScalingGroups of the groups that match the filter, page by page: their instances
    /// in a `LifecycleState` that `waits` accepts, `most` of them at most, and as many of those
    /// that are retained. Of each page, nothing else is kept.
    pub async fn waiting_members(
        &self,
        by: &GroupFilter,
        most: usize,
        waits: impl Fn(&str) -> bool,
    ) -> WaitingMembers {
        let (mut members, mut retained) = (Vec::new(), Vec::new());
        let mut with_warm_pool = Vec::new();
        let (mut calls, wanted) = (0, filter(by));
        let page = |groups: Vec<AutoScalingGroup>| {
            for group in groups.into_iter().filter_map(group) {
                if group.has_warm_pool && with_warm_pool.len() < most {
                    with_warm_pool.push(group.group.clone());
                }
                let kept = group.members.iter().filter(|(_, state)| is_retained(state));
                let room = most.saturating_sub(retained.len());
                retained.extend(kept.take(room).map(|(id, _)| (group.group.clone(), id.clone())));
                let room = most.saturating_sub(members.len());
                let all = group.members.into_iter();
                let waiting = all.filter(|(_, state)| waits(state)).take(room);
                members.extend(waiting.map(|(id, state)| (group.group.clone(), id, state)));
            }
        };
        let which = |request: Describe| {
            calls += 1;
            request.filters(wanted.clone())
        };
        let result = self.describe_pages(&shown(by), which, page).await;
        WaitingMembers { members, retained, with_warm_pool, calls, result }
    }

    async fn describe(
        &self,
        object: &str,
        which: impl Fn(Describe) -> Describe,
    ) -> Result<Vec<Group>, AwsError> {
        let mut groups = Vec::new();
        let page = |all: Vec<AutoScalingGroup>| groups.extend(all.into_iter().filter_map(group));
        self.describe_pages(object, which, page).await?;
        Ok(groups)
    }

    async fn describe_pages(
        &self,
        object: &str,
        mut which: impl FnMut(Describe) -> Describe,
        mut read: impl FnMut(Vec<AutoScalingGroup>),
    ) -> Result<(), AwsError> {
        let mut page = None;
        for _ in 0..PAGES {
            let request = which(
                self.client.describe_auto_scaling_groups().max_records(100).set_next_token(page),
            );
            let answer = self
                .caller
                .call(Api::DescribeAutoScalingGroups, object, LIMIT, request.send())
                .await?;
            read(answer.auto_scaling_groups.unwrap_or_default());
            page = answer.next_token.filter(|t| !t.is_empty());
            if page.is_none() {
                return Ok(());
            }
        }
        Err(AwsError::endless(Api::DescribeAutoScalingGroups, object))
    }

    /// DescribeLifecycleHooks: all hooks of a group (50 at most). Hooks of a transition that this
    /// version does not know are left out.
    pub async fn hooks(&self, group: &GroupName) -> Result<Vec<Hook>, AwsError> {
        let request =
            self.client.describe_lifecycle_hooks().auto_scaling_group_name(group.as_str());
        let answer = self
            .caller
            .call(Api::DescribeLifecycleHooks, group.as_str(), LIMIT, request.send())
            .await?;
        Ok(answer.lifecycle_hooks.unwrap_or_default().iter().filter_map(hook).collect())
    }

    /// PutLifecycleHook: creates a hook, or changes the hook of this name.
    pub async fn put_hook(&self, group: &GroupName, hook: &Hook) -> Result<(), AwsError> {
        let object = format!("hook {} of group {group}", hook.hook);
        let request = self
            .client
            .put_lifecycle_hook()
            .auto_scaling_group_name(group.as_str())
            .lifecycle_hook_name(hook.hook.as_str())
            .lifecycle_transition(hook.transition.as_str())
            .heartbeat_timeout(i32::try_from(hook.heartbeat_timeout.as_secs()).unwrap_or(i32::MAX))
            .default_result(hook.default_result.as_str())
            .set_notification_metadata(hook.metadata.clone());
        self.caller.call(Api::PutLifecycleHook, &object, LIMIT, request.send()).await.map(drop)
    }

    /// DeleteLifecycleHook. AWS first completes the actions that wait in the hook: terminations
    /// with CONTINUE, launches with ABANDON.
    pub async fn delete_hook(&self, group: &GroupName, hook: &HookName) -> Result<(), AwsError> {
        let object = format!("hook {hook} of group {group}");
        let request = self
            .client
            .delete_lifecycle_hook()
            .auto_scaling_group_name(group.as_str())
            .lifecycle_hook_name(hook.as_str());
        self.caller.call(Api::DeleteLifecycleHook, &object, LIMIT, request.send()).await.map(drop)
    }

    /// DescribePolicies: the groups that have a simple scaling policy, with the name of the policy.
    pub async fn simple_scaling(&self) -> Result<Vec<(GroupName, String)>, AwsError> {
        let (mut found, mut page) = (Vec::new(), None);
        for _ in 0..PAGES {
            let request = self
                .client
                .describe_policies()
                .policy_types("SimpleScaling")
                .max_records(100)
                .set_next_token(page);
            let answer = self
                .caller
                .call(Api::DescribePolicies, "the region", LIMIT, request.send())
                .await?;
            let named = answer.scaling_policies.unwrap_or_default().into_iter();
            found.extend(named.filter_map(|p| {
                Some((
                    GroupName::from(p.auto_scaling_group_name?),
                    p.policy_name.unwrap_or_default(),
                ))
            }));
            page = answer.next_token.filter(|t| !t.is_empty());
            if page.is_none() {
                return Ok(found);
            }
        }
        Err(AwsError::endless(Api::DescribePolicies, "the region"))
    }

    /// Sends a heartbeat for a lifecycle action that does not exist: `token` is invented, and no
    /// instance is named. If the caller may send heartbeats for the group, AWS answers that there
    /// is no such action. Nothing changes.
    pub async fn probe_heartbeat(
        &self,
        group: &GroupName,
        hook: &HookName,
        token: &str,
    ) -> Result<(), AwsError> {
        let object = format!("hook {hook} of group {group}");
        let request = self
            .client
            .record_lifecycle_action_heartbeat()
            .auto_scaling_group_name(group.as_str())
            .lifecycle_hook_name(hook.as_str())
            .lifecycle_action_token(token);
        self.caller
            .call(Api::RecordLifecycleActionHeartbeat, &object, LIMIT, request.send())
            .await
            .map(drop)
    }

    /// Sends a completion for a lifecycle action that does not exist, as
    /// [`AutoScaling::probe_heartbeat`].
    pub async fn probe_completion(
        &self,
        group: &GroupName,
        hook: &HookName,
        token: &str,
    ) -> Result<(), AwsError> {
        let object = format!("hook {hook} of group {group}");
        let request = self
            .client
            .complete_lifecycle_action()
            .auto_scaling_group_name(group.as_str())
            .lifecycle_hook_name(hook.as_str())
            .lifecycle_action_token(token)
            .lifecycle_action_result(HookResult::Continue.as_str());
        self.caller
            .call(Api::CompleteLifecycleAction, &object, LIMIT, request.send())
            .await
            .map(drop)
    }
}

type Describe = aws_sdk_autoscaling::operation::describe_auto_scaling_groups::builders::DescribeAutoScalingGroupsFluentBuilder;

fn shown(filter: &GroupFilter) -> String {
    match filter {
        GroupFilter::TagKey(key) => format!("tag {key}"),
        GroupFilter::Tag(key, value) => format!("tag {key}={value}"),
    }
}

fn filter(filter: &GroupFilter) -> Filter {
    match filter {
        GroupFilter::TagKey(key) => Filter::builder().name("tag-key").values(key).build(),
        GroupFilter::Tag(key, value) => {
            Filter::builder().name(format!("tag:{key}")).values(value).build()
        }
    }
}

fn group(described: AutoScalingGroup) -> Option<Group> {
    let retains_abandoned = retains_abandoned(&described);
    let has_warm_pool = described.warm_pool_configuration().is_some()
        || described.warm_pool_size().is_some_and(|size| size > 0);
    let instances = described.instances.unwrap_or_default();
    let is_unhealthy = |i: &&aws_sdk_autoscaling::types::Instance| {
        i.health_status().is_some_and(|health| health.eq_ignore_ascii_case("unhealthy"))
    };
    let unhealthy = instances.iter().filter(is_unhealthy).filter_map(|i| i.instance_id.clone());
    let unhealthy = unhealthy.collect();
    let weight = |i: &aws_sdk_autoscaling::types::Instance| {
        Some((i.instance_id.clone()?, i.weighted_capacity()?.parse().ok()?))
    };
    let weights = instances.iter().filter_map(weight).collect();
    // Without a type, it counts units.
    let counts_units = described.desired_capacity_type.as_deref().is_none_or(|t| t == "units");
    let desired = described.desired_capacity.filter(|_| counts_units);
    let desired = desired.map(|n| n.try_into().unwrap_or(0));
    let suspended = described.suspended_processes.unwrap_or_default();
    let members = instances.into_iter();
    let tags = described
        .tags
        .unwrap_or_default()
        .into_iter()
        .filter_map(|t| Some((t.key?, t.value.unwrap_or_default())))
        .collect();
    Some(Group {
        group: described.auto_scaling_group_name?.into(),
        tags,
        capacity: GroupCapacity::new(desired, weights),
        members: members.filter_map(member).collect(),
        has_warm_pool,
        unhealthy,
        suspended: suspended.into_iter().filter_map(|process| process.process_name).collect(),
        retains_abandoned,
    })
}

/// `InstanceId` and `LifecycleState` of an instance.
pub(super) fn member(instance: aws_sdk_autoscaling::types::Instance) -> Option<(String, String)> {
    Some((instance.instance_id?, instance.lifecycle_state?.as_str().to_owned()))
}

/// `None` for a transition that is neither a launch nor a termination.
fn hook(described: &LifecycleHook) -> Option<Hook> {
    let timing = description(described)?;
    let transition = transition(described)?;
    // AWS's default is ABANDON.
    let default_result = if described.default_result() == Some("CONTINUE") {
        HookResult::Continue
    } else {
        HookResult::Abandon
    };
    Some(Hook {
        hook: timing.hook,
        transition,
        heartbeat_timeout: timing.heartbeat_timeout,
        global_timeout: timing.global_timeout,
        default_result,
        metadata: described.notification_metadata().map(str::to_owned),
        target: described.notification_target_arn().map(str::to_owned),
    })
}
