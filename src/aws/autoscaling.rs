//! Auto Scaling: lifecycle actions, hooks and groups.

use std::{collections::BTreeMap, time::Duration};

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
use crate::domain::{GroupName, HookDescription, HookName, LifecycleAction, Transition};

/// How long a call may take.
pub(super) const LIMIT: Duration = Duration::from_secs(11);
/// How many groups one call describes at most (`MaxRecords`).
pub(super) const GROUPS: usize = 100;
/// No answer has more pages than this: a server that never ends its pages must not hold us.
pub(super) const PAGES: usize = 20;

/// `LifecycleActionResult`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookResult {
    /// `CONTINUE`: go on with what the hook held up.
    Continue,
    /// `ABANDON`: of a launch: terminate; of a termination: skip the other hooks.
    Abandon,
}

impl HookResult {
    /// As AWS writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Continue => "CONTINUE",
            Self::Abandon => "ABANDON",
        }
    }
}

/// What DescribeAutoScalingGroups says of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupFacts {
    /// Which group.
    pub group: GroupName,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// Auto Scaling in one region.
#[derive(Debug, Clone)]
pub struct AutoScaling {
    pub(super) client: aws_sdk_autoscaling::Client,
    pub(super) caller: Caller,
}

/// The answers to heartbeats and completions carry nothing, so the SDK takes any body with status
/// 200 for one: a proxy's page would complete an action that still waits. An answer of Auto Scaling
/// says which action it answers.
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
            return Err("the answer is none of Auto Scaling's".into());
        }
        Ok(())
    }
}

impl AutoScaling {
    pub(super) fn new(client: aws_sdk_autoscaling::Client, caller: Caller) -> Self {
        Self { client, caller }
    }

    /// RecordLifecycleActionHeartbeat: AWS waits another HeartbeatTimeout from now. Sends the token
    /// too where it is known.
    ///
    /// Fails with [`super::Advice::Gone`] when AWS says that nothing waits any more, in those
    /// words: any other refusal says nothing of that.
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

    /// CompleteLifecycleAction. Sends the token too where it is known. `limit`: how long the call
    /// may take at most, if that is less than any call may take.
    ///
    /// Fails with [`super::Advice::Gone`] when nothing waits any more: completed before, timed out
    /// or abandoned.
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

    /// DescribeLifecycleHooks: all hooks of a group (50 at most), each with its transition; that is
    /// `None` where AWS names one that this version does not know. A group that does not exist
    /// fails with [`super::Advice::Gone`].
    pub async fn describe_hooks(
        &self,
        group: &GroupName,
    ) -> Result<Vec<(HookDescription, Option<Transition>)>, AwsError> {
        let request =
            self.client.describe_lifecycle_hooks().auto_scaling_group_name(group.as_str());
        let answer = self
            .caller
            .call(Api::DescribeLifecycleHooks, group.as_str(), LIMIT, request.send())
            .await?;
        let described = |hook| Some((description(hook)?, transition(hook)));
        Ok(answer.lifecycle_hooks.unwrap_or_default().iter().filter_map(described).collect())
    }

    /// DescribeAutoScalingGroups of up to 100 groups by name, without their instances. Groups that
    /// do not exist are left out; no names, no call (an empty list would mean all groups).
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
                    let tags = g
                        .tags
                        .unwrap_or_default()
                        .into_iter()
                        .filter_map(|t| Some((t.key?, t.value.unwrap_or_default())));
                    Some(GroupFacts {
                        group: g.auto_scaling_group_name?.into(),
                        tags: tags.collect(),
                    })
                },
            ));
            page = answer.next_token.filter(|t| !t.is_empty());
            if page.is_none() {
                return Ok(groups);
            }
        }
        // Half an answer would say of the rest that it does not exist.
        Err(AwsError::endless(Api::DescribeAutoScalingGroups, object))
    }
}

fn object(action: &LifecycleAction) -> String {
    format!("hook {} of {} in group {}", action.key.hook, action.key.instance, action.key.group)
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
