//! One call: its deadline, and what is told of it.

use std::{future::Future, sync::Arc, time::Duration};

use aws_sdk_sqs::error::ProvideErrorMetadata;
use aws_smithy_runtime_api::client::result::SdkError;
use tokio::time::Instant;

use super::{AwsError, error};

/// The AWS actions that are called. A metric label, and the list that an IAM policy must allow.
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
    /// `ec2:DescribeInstances`.
    DescribeInstances,
    /// `sts:GetCallerIdentity`: every caller may.
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
    /// Every action of the service, for tables and for initialising metrics.
    pub const ALL: [Self; 9] = [
        Self::ReceiveMessage,
        Self::DeleteMessageBatch,
        Self::ChangeMessageVisibilityBatch,
        Self::GetQueueAttributes,
        Self::RecordLifecycleActionHeartbeat,
        Self::CompleteLifecycleAction,
        Self::DescribeLifecycleHooks,
        Self::DescribeAutoScalingGroups,
        Self::DescribeInstances,
    ];

    /// What only `sundown check` calls, to look: never the service.
    pub const OF_CHECK: [Self; 4] = [
        Self::GetCallerIdentity,
        Self::DescribePolicies,
        Self::DescribeRule,
        Self::ListTargetsByRule,
    ];

    /// What only `sundown send-test` calls, as the person who runs it.
    pub const OF_TESTS: [Self; 2] = [Self::PutEvents, Self::SendMessage];

    /// What only `sundown enroll` calls, as the person who runs it.
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
            Self::DescribeInstances => "DescribeInstances",
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

    /// The permission that allows it, as IAM writes it: batches have none of their own.
    #[must_use]
    pub fn permission(self) -> String {
        let action = self.as_str();
        format!("{}:{}", self.service(), action.strip_suffix("Batch").unwrap_or(action))
    }

    /// The service whose action it is, as IAM writes it.
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
            | Self::DescribePolicies
            | Self::PutLifecycleHook
            | Self::DeleteLifecycleHook => "autoscaling",
            Self::DescribeInstances => "ec2",
            Self::GetCallerIdentity => "sts",
            Self::DescribeRule | Self::ListTargetsByRule | Self::PutEvents => "events",
        }
    }
}

/// How a call ended: a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It was done.
    Ok,
    /// AWS asks for fewer calls (`Throttling`, `RequestLimitExceeded`, 429).
    Throttled,
    /// AWS failed (5xx, `ResourceContention`).
    Server,
    /// No answer in time; the call may have had its effect.
    Timeout,
    /// No connection, or one that broke; the call may have had its effect.
    Unreachable,
    /// Not allowed.
    Denied,
    /// No credentials were found, or AWS does not take them: expired, unknown, or a wrong
    /// signature. Mostly it passes: they are renewed.
    Credentials,
    /// What it was about does not exist (any more).
    Gone,
    /// Anything else that AWS refused, or an answer that made no sense.
    Rejected,
}

impl Outcome {
    /// Every outcome, for tables and for initialising metrics.
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

    /// Its word in labels and logs.
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

/// Is told of every call when it has ended. `()` does not care.
pub trait CallObserver: Send + Sync + 'static {
    /// `api` ended with `outcome` after `took`.
    fn called(&self, api: Api, outcome: Outcome, took: Duration);
}

impl CallObserver for () {
    fn called(&self, _: Api, _: Outcome, _: Duration) {}
}

/// Makes calls: bounds them, reports them, translates their errors.
#[derive(Clone)]
pub(super) struct Caller(Arc<dyn CallObserver>);

impl Caller {
    pub(super) fn new(observer: Arc<dyn CallObserver>) -> Self {
        Self(observer)
    }

    /// Runs `request` for `limit` at most. `object` is what it is about, for the error.
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
        self.0.called(api, outcome, started.elapsed());
        result
    }
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Caller")
    }
}
