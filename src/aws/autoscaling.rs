//! The calls to Auto Scaling about lifecycle actions, hooks and groups.

use std::{collections::BTreeMap, time::Duration};

use aws_sdk_autoscaling::types::RetentionAction;
use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::{
        interceptors::{
            Intercept, context::AfterDeserializationInterceptorContextRef, dyn_dispatch_hint,
        },
        runtime_components::RuntimeComponents,
    },
};
use aws_smithy_types::config_bag::ConfigBag;

use super::{Api, AwsError, call::Caller};
use crate::domain::{
    DrainSettings, GroupName, HookDescription, HookName, HookResult, LifecycleAction, ReadSettings,
    Transition,
};

/// The time limit of a call.
pub(super) const LIMIT: Duration = Duration::from_secs(11);
/// How many groups one call can describe (`MaxRecords`).
pub(super) const GROUPS: usize = 100;
/// How many pages of an answer are read: a server that always sends another page must not keep us
/// busy for ever.
pub(super) const PAGES: usize = 20;

/// A group without its instances, from DescribeAutoScalingGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupFacts {
    /// `AutoScalingGroupName`.
    pub group: GroupName,
    /// Values of `Tags` by key; empty for a tag without value.
    pub tags: BTreeMap<String, String>,
    /// Its lifecycle policy retains instances whose terminate hook is abandoned.
    pub retains_abandoned: bool,
}

/// A lifecycle hook, from DescribeLifecycleHooks.
#[derive(Debug, Clone)]
pub struct DescribedHook {
    /// Its name and its timeouts.
    pub description: HookDescription,
    /// `LifecycleTransition`; `None` if this version does not know it.
    pub transition: Option<Transition>,
    /// The settings in `NotificationMetadata`; `None`: it has none for Sundown. Boxed, because few
    /// hooks have any.
    pub settings: Option<Box<ReadSettings>>,
}

/// Auto Scaling in one region.
#[derive(Debug, Clone)]
pub struct AutoScaling {
    pub(super) client: aws_sdk_autoscaling::Client,
    pub(super) caller: Caller,
}

/// Refuses answers that do not come from Auto Scaling. The answers to heartbeats and completions
/// have no fields, so the SDK accepts any body with status 200: after a proxy's page, Sundown would
/// count an action as completed that still waits. A true answer contains the name of the action.
#[derive(Debug)]
struct Acknowledged;

#[dyn_dispatch_hint]
impl Intercept for Acknowledged {
    fn name(&self) -> &'static str {
        "Acknowledged"
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let is_answer = |body: &[u8]| String::from_utf8_lossy(body).contains("LifecycleAction");
        if context.output_or_error().is_ok()
            && !context.response().body().bytes().is_some_and(is_answer)
        {
            return Err("the answer does not come from Auto Scaling".into());
        }
        Ok(())
    }
}

impl AutoScaling {
    pub(super) fn new(client: aws_sdk_autoscaling::Client, caller: Caller) -> Self {
        Self { client, caller }
    }

    /// RecordLifecycleActionHeartbeat: AWS waits another HeartbeatTimeout from now. Sends the token
    /// too if it is known.
    ///
    /// Fails with [`super::Advice::Gone`] when AWS answers that the action no longer waits
    /// ([`AwsError::is_no_active_action`]). Any other refusal does not mean that.
    pub async fn heartbeat(&self, action: &LifecycleAction) -> Result<(), AwsError> {
        let request = self
            .client
            .record_lifecycle_action_heartbeat()
            .auto_scaling_group_name(action.key.group.as_str())
            .lifecycle_hook_name(action.key.hook.as_str())
            .instance_id(action.key.instance.as_str())
            .set_lifecycle_action_token(action.token.as_ref().map(|t| t.as_str().to_owned()));
        self.caller
            .call(
                Api::RecordLifecycleActionHeartbeat,
                &object(action),
                LIMIT,
                request.customize().interceptor(Acknowledged).send(),
            )
            .await
            .map(drop)
    }

    /// CompleteLifecycleAction. Sends the token too if it is known. The call takes at most `limit`,
    /// and never longer than the limit of all calls (11 s).
    ///
    /// Fails with [`super::Advice::Gone`] when the action no longer waits: it was completed before,
    /// timed out or was abandoned.
    pub async fn complete(
        &self,
        action: &LifecycleAction,
        result: HookResult,
        limit: Duration,
    ) -> Result<(), AwsError> {
        let request = self
            .client
            .complete_lifecycle_action()
            .auto_scaling_group_name(action.key.group.as_str())
            .lifecycle_hook_name(action.key.hook.as_str())
            .instance_id(action.key.instance.as_str())
            .set_lifecycle_action_token(action.token.as_ref().map(|t| t.as_str().to_owned()))
            .lifecycle_action_result(result.as_str());
        let call = request.customize().interceptor(Acknowledged).send();
        self.caller
            .call(Api::CompleteLifecycleAction, &object(action), limit.min(LIMIT), call)
            .await
            .map(drop)
    }

    /// DescribeLifecycleHooks: all hooks of a group (50 at most). Fails with [`super::Advice::Gone`]
    /// when the group does not exist.
    pub async fn describe_hooks(&self, group: &GroupName) -> Result<Vec<DescribedHook>, AwsError> {
        let request =
            self.client.describe_lifecycle_hooks().auto_scaling_group_name(group.as_str());
        let answer = self
            .caller
            .call(Api::DescribeLifecycleHooks, group.as_str(), LIMIT, request.send())
            .await?;
        let described = |hook: &aws_sdk_autoscaling::types::LifecycleHook| {
            Some(DescribedHook {
                description: description(hook)?,
                transition: transition(hook),
                settings: hook.notification_metadata().and_then(DrainSettings::in_metadata),
            })
        };
        Ok(answer.lifecycle_hooks.unwrap_or_default().iter().filter_map(described).collect())
    }

    /// DescribeAutoScalingGroups of up to 100 groups by name, without their instances. Groups that
    /// do not exist are left out. Without names, no call is made: it would mean all groups.
    pub async fn describe_groups(&self, names: &[GroupName]) -> Result<Vec<GroupFacts>, AwsError> {
        let mut groups = Vec::new();
        let mut page = None;
        let Some(first) = names.first() else { return Ok(groups) };
        let object = &super::ec2::of_many(first, names.len());
        for _ in 0..PAGES {
            let request = self
                .client
                .describe_auto_scaling_groups()
                .set_auto_scaling_group_names(Some(
                    names.iter().map(|n| n.as_str().to_owned()).collect(),
                ))
                .include_instances(false)
                .max_records(100)
                .set_next_token(page);
            let answer = self
                .caller
                .call(Api::DescribeAutoScalingGroups, object, LIMIT, request.send())
                .await?;
            groups.extend(answer.auto_scaling_groups.unwrap_or_default().into_iter().filter_map(
                |g| {
                    let retains_abandoned = retains_abandoned(&g);
                    let tags = g
                        .tags
                        .unwrap_or_default()
                        .into_iter()
                        .filter_map(|t| Some((t.key?, t.value.unwrap_or_default())));
                    Some(GroupFacts {
                        group: g.auto_scaling_group_name?.into(),
                        tags: tags.collect(),
                        retains_abandoned,
                    })
                },
            ));
            page = answer.next_token.filter(|t| !t.is_empty());
            if page.is_none() {
                return Ok(groups);
            }
        }
        // In a part of the answer, the groups of the other pages would look deleted.
        Err(AwsError::endless(Api::DescribeAutoScalingGroups, object))
    }
}

fn object(action: &LifecycleAction) -> String {
    format!("hook {} of {} in group {}", action.key.hook, action.key.instance, action.key.group)
}

/// `InstanceLifecyclePolicy.RetentionTriggers.TerminateHookAbandon` of a group is `retain`.
pub(super) fn retains_abandoned(group: &aws_sdk_autoscaling::types::AutoScalingGroup) -> bool {
    let triggers = group.instance_lifecycle_policy().and_then(|policy| policy.retention_triggers());
    triggers.and_then(|triggers| triggers.terminate_hook_abandon())
        == Some(&RetentionAction::Retain)
}

pub(super) fn description(
    hook: &aws_sdk_autoscaling::types::LifecycleHook,
) -> Option<HookDescription> {
    let seconds = |n: Option<i32>| {
        n.and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0).map(Duration::from_secs)
    };
    let heartbeat_timeout = seconds(hook.heartbeat_timeout()).unwrap_or(Duration::from_hours(1));
    // "The maximum is 172800 seconds (48 hours) or 100 times HeartbeatTimeout, whichever is
    // smaller."
    let global_timeout = seconds(hook.global_timeout())
        .unwrap_or_else(|| (heartbeat_timeout * 100).min(Duration::from_hours(48)));
    Some(HookDescription {
        hook: HookName::from(hook.lifecycle_hook_name()?),
        heartbeat_timeout,
        global_timeout,
    })
}

/// `None` for a transition that is neither a launch nor a termination.
pub(super) fn transition(hook: &aws_sdk_autoscaling::types::LifecycleHook) -> Option<Transition> {
    [Transition::Launching, Transition::Terminating]
        .into_iter()
        .find(|t| Some(t.as_str()) == hook.lifecycle_transition())
}
