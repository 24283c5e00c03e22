//! The AWS actions that Sundown calls, and the deadline and report of every call.

use std::{future::Future, sync::Arc, time::Duration};

use aws_sdk_sqs::error::ProvideErrorMetadata;
use aws_smithy_runtime_api::client::result::SdkError;
use tokio::time::Instant;

use super::{AwsError, error};
use crate::runtime::Observer;

/// An AWS action that Sundown calls. A metric label, and the list that IAM policies must allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Api {
    /// `sqs:ReceiveMessage`.
    ReceiveMessage,
    /// `sqs:DeleteMessageBatch` (allowed by `sqs:DeleteMessage`).
    DeleteMessageBatch,
    /// `sqs:ChangeMessageVisibilityBatch` (allowed by `sqs:ChangeMessageVisibility`).
    ChangeMessageVisibilityBatch,
    /// `sqs:GetQueueAttributes`.
    GetQueueAttributes,
    /// `autoscaling:RecordLifecycleActionHeartbeat`.
    RecordLifecycleActionHeartbeat,
    /// `autoscaling:CompleteLifecycleAction`.
    CompleteLifecycleAction,
    /// `autoscaling:DescribeLifecycleHooks`.
    DescribeLifecycleHooks,
    /// `autoscaling:DescribeAutoScalingGroups`.
    DescribeAutoScalingGroups,
    /// `autoscaling:DescribeWarmPool`.
    DescribeWarmPool,
    /// `ec2:DescribeInstances`.
    DescribeInstances,
    /// `ec2:DescribeInstanceStatus`.
    DescribeInstanceStatus,
    /// `autoscaling:SetInstanceHealth`.
    SetInstanceHealth,
    /// `sts:GetCallerIdentity`. It needs no permission.
    GetCallerIdentity,
    /// `autoscaling:DescribePolicies`.
    DescribePolicies,
    /// `events:DescribeRule`.
    DescribeRule,
    /// `events:ListTargetsByRule`.
    ListTargetsByRule,
    /// `sqs:SendMessage`.
    SendMessage,
    /// `events:PutEvents`.
    PutEvents,
    /// `autoscaling:PutLifecycleHook`.
    PutLifecycleHook,
    /// `autoscaling:DeleteLifecycleHook`.
    DeleteLifecycleHook,
}

impl Api {
    /// The actions of the service, for tables and for initializing metrics.
    pub const ALL: [Self; 11] = [
        Self::ReceiveMessage,
        Self::DeleteMessageBatch,
        Self::ChangeMessageVisibilityBatch,
        Self::GetQueueAttributes,
        Self::RecordLifecycleActionHeartbeat,
        Self::CompleteLifecycleAction,
        Self::DescribeLifecycleHooks,
        Self::DescribeAutoScalingGroups,
        Self::DescribeWarmPool,
        Self::DescribeInstances,
        Self::DescribeInstanceStatus,
    ];

    /// The actions of the service that only certain flags need.
    pub const BY_FLAG: [Self; 1] = [Self::SetInstanceHealth];

    /// The actions that only `sundown check` calls, never the service. They only read.
    pub const OF_CHECK: [Self; 4] = [
        Self::GetCallerIdentity,
        Self::DescribePolicies,
        Self::DescribeRule,
        Self::ListTargetsByRule,
    ];

    /// The actions that only `sundown send-test` calls, with the credentials of the operator.
    pub const OF_TESTS: [Self; 2] = [Self::PutEvents, Self::SendMessage];

    /// The actions that only `sundown enroll` calls, with the credentials of the operator.
    pub const OF_ENROLLING: [Self; 2] = [Self::PutLifecycleHook, Self::DeleteLifecycleHook];

    /// The action as AWS names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReceiveMessage => "ReceiveMessage",
            Self::DeleteMessageBatch => "DeleteMessageBatch",
            Self::ChangeMessageVisibilityBatch => "ChangeMessageVisibilityBatch",
            Self::GetQueueAttributes => "GetQueueAttributes",
            Self::RecordLifecycleActionHeartbeat => "RecordLifecycleActionHeartbeat",
            Self::CompleteLifecycleAction => "CompleteLifecycleAction",
            Self::DescribeLifecycleHooks => "DescribeLifecycleHooks",
            Self::DescribeAutoScalingGroups => "DescribeAutoScalingGroups",
            Self::DescribeWarmPool => "DescribeWarmPool",
            Self::DescribeInstances => "DescribeInstances",
            Self::DescribeInstanceStatus => "DescribeInstanceStatus",
            Self::SetInstanceHealth => "SetInstanceHealth",
            Self::GetCallerIdentity => "GetCallerIdentity",
            Self::DescribePolicies => "DescribePolicies",
            Self::DescribeRule => "DescribeRule",
            Self::ListTargetsByRule => "ListTargetsByRule",
            Self::SendMessage => "SendMessage",
            Self::PutEvents => "PutEvents",
            Self::PutLifecycleHook => "PutLifecycleHook",
            Self::DeleteLifecycleHook => "DeleteLifecycleHook",
        }
    }

    /// The permission that allows the action, as IAM writes it. A batch action has the permission
    /// of the action without `Batch`.
    #[must_use]
    pub fn permission(self) -> String {
        let action = self.as_str();
        format!("{}:{}", self.service(), action.strip_suffix("Batch").unwrap_or(action))
    }

    /// The service of the action, as IAM writes it.
    #[must_use]
    pub const fn service(self) -> &'static str {
        match self {
            Self::ReceiveMessage
            | Self::DeleteMessageBatch
            | Self::ChangeMessageVisibilityBatch
            | Self::GetQueueAttributes
            | Self::SendMessage => "sqs",
            Self::RecordLifecycleActionHeartbeat
            | Self::CompleteLifecycleAction
            | Self::DescribeLifecycleHooks
            | Self::DescribeAutoScalingGroups
            | Self::DescribeWarmPool
            | Self::DescribePolicies
            | Self::PutLifecycleHook
            | Self::DeleteLifecycleHook
            | Self::SetInstanceHealth => "autoscaling",
            Self::DescribeInstances | Self::DescribeInstanceStatus => "ec2",
            Self::GetCallerIdentity => "sts",
            Self::DescribeRule | Self::ListTargetsByRule | Self::PutEvents => "events",
        }
    }
}

/// How a call ended: a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// AWS answered that the call succeeded.
    Ok,
    /// AWS asks for fewer calls (`Throttling`, `RequestLimitExceeded`, 429).
    Throttled,
    /// AWS failed (5xx, `ResourceContention`).
    Server,
    /// No answer in time; the call may have taken effect.
    Timeout,
    /// There was no connection, or it broke; the call may have taken effect.
    Unreachable,
    /// The caller lacks a permission, or a person must change a policy or a setting.
    Denied,
    /// No credentials were found, or AWS did not accept them: expired, unknown, or a wrong
    /// signature. This usually passes when the credentials are renewed.
    Credentials,
    /// The object of the call does not exist, or no longer exists.
    Gone,
    /// AWS refused the call for another reason, or its answer could not be understood.
    Rejected,
}

impl Outcome {
    /// Every outcome, for tables and for initializing metrics.
    pub const ALL: [Self; 9] = [
        Self::Ok,
        Self::Throttled,
        Self::Server,
        Self::Timeout,
        Self::Unreachable,
        Self::Denied,
        Self::Credentials,
        Self::Gone,
        Self::Rejected,
    ];

    /// Its value in metric labels and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Throttled => "throttled",
            Self::Server => "server",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Denied => "denied",
            Self::Credentials => "credentials",
            Self::Gone => "gone",
            Self::Rejected => "rejected",
        }
    }
}

/// A call that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiCall {
    /// The operation of AWS.
    pub api: Api,
    /// Answered, refused or not answered: a metric label.
    pub outcome: Outcome,
    /// How long it took; of a receive, how long it waited for messages.
    pub took: Duration,
}

/// Makes calls: limits their time, reports them, and converts their errors.
#[derive(Clone)]
pub(super) struct Caller(Arc<dyn Observer<ApiCall>>);

impl Caller {
    pub(super) fn new(observer: Arc<dyn Observer<ApiCall>>) -> Self {
        Self(observer)
    }

    /// Runs `request` for at most `limit`. `object` names the object of the call in errors.
    pub(super) async fn call<T, E, R>(
        &self,
        api: Api,
        object: &str,
        limit: Duration,
        request: impl Future<Output = Result<T, SdkError<E, R>>>,
    ) -> Result<T, AwsError>
    where
        E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
        R: error::Status + std::fmt::Debug + Send + Sync + 'static,
    {
        let started = Instant::now();
        let result = match tokio::time::timeout(limit, request).await {
            Ok(answer) => answer.map_err(|e| AwsError::from_sdk(api, object, &e)),
            Err(_) => Err(AwsError::timed_out(api, object, limit)),
        };
        let outcome = result.as_ref().map_or_else(AwsError::outcome, |_| Outcome::Ok);
        self.0.observe(ApiCall { api, outcome, took: started.elapsed() });
        result
    }
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Caller")
    }
}
