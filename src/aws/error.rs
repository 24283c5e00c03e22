//! Failed calls to AWS, and what to do about them.

use std::{error::Error, time::Duration};

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_sqs::error::ProvideErrorMetadata;
use aws_smithy_runtime_api::{client::result::SdkError, http::Response};

use super::{Api, Outcome};
use crate::domain::with_causes;

/// The start of Auto Scaling's message that a lifecycle action was completed, timed out or was
/// abandoned ("… found with token", "… with instance ID").
const NO_ACTIVE_ACTION: &str = "No active Lifecycle Action";

/// What to do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Advice {
    /// Try again after a pause.
    Retry,
    /// Do not try again: the object of the call does not exist, or no longer exists. For a
    /// heartbeat or a completion: the lifecycle action is no longer open.
    Gone,
    /// Try again slowly and log a warning: a person must grant a permission.
    Denied,
}

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} of {object} failed: {message}{}", api.as_str(), in_parentheses(code))]
pub struct AwsError {
    api: Api,
    object: String,
    outcome: Outcome,
    code: String,
    message: String,
}

fn in_parentheses(code: &str) -> String {
    if code.is_empty() { String::new() } else { format!(" ({code})") }
}

impl AwsError {
    /// Whether a policy forbids the call. False if credentials are missing, expired or wrong.
    #[must_use]
    pub const fn is_forbidden(&self) -> bool {
        matches!(self.outcome, Outcome::Denied)
    }

    /// What the caller should do about the error.
    #[must_use]
    pub const fn advice(&self) -> Advice {
        match self.outcome {
            Outcome::Gone => Advice::Gone,
            Outcome::Denied => Advice::Denied,
            Outcome::Ok
            | Outcome::Throttled
            | Outcome::Server
            | Outcome::Timeout
            | Outcome::Unreachable
            | Outcome::Credentials
            | Outcome::Rejected => Advice::Retry,
        }
    }

    /// How the call ended, as a metric label. Never [`Outcome::Ok`].
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The action that failed.
    #[must_use]
    pub const fn api(&self) -> Api {
        self.api
    }

    /// The object of the call: the name of a queue, an instance or a group.
    #[must_use]
    pub fn object(&self) -> &str {
        &self.object
    }

    /// AWS's error code; empty if AWS did not answer.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// AWS's message, or why there was no answer.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether Auto Scaling answered that no such lifecycle action waits: it was completed, timed
    /// out or was abandoned, or it never existed.
    #[must_use]
    pub fn is_no_active_action(&self) -> bool {
        self.is_invalid() && self.message.contains(NO_ACTIVE_ACTION)
    }

    /// Whether Auto Scaling refused the request as invalid. This alone does not show whether the
    /// lifecycle action still waits.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.code == "ValidationError"
    }

    /// Whether Auto Scaling refused the form of the lifecycle action token. (The action may still
    /// be open.)
    #[must_use]
    pub fn is_about_the_token(&self) -> bool {
        self.is_invalid()
            && !self.is_no_active_action()
            && self.message.to_ascii_lowercase().contains("token")
    }

    pub(super) fn timed_out(api: Api, object: &str, limit: Duration) -> Self {
        let message = format!("no answer within {} s", limit.as_secs());
        Self {
            api,
            object: object.to_owned(),
            outcome: Outcome::Timeout,
            code: String::new(),
            message,
        }
    }

    /// An error of one entry of a call that succeeded as a whole.
    pub(super) fn refused(api: Api, object: &str, code: &str, message: &str) -> Self {
        let outcome = classify(api, 400, code, message);
        Self {
            api,
            object: object.to_owned(),
            outcome,
            code: code.to_owned(),
            message: message.to_owned(),
        }
    }

    /// An answer with more pages than Sundown reads.
    pub(super) fn endless(api: Api, object: &str) -> Self {
        let message = "the answer has too many pages".to_owned();
        Self {
            api,
            object: object.to_owned(),
            outcome: Outcome::Rejected,
            code: String::new(),
            message,
        }
    }

    pub(super) fn from_sdk<E, R>(api: Api, object: &str, error: &SdkError<E, R>) -> Self
    where
        E: Error + ProvideErrorMetadata + Send + Sync + 'static,
        R: Status + std::fmt::Debug + Send + Sync + 'static,
    {
        let (outcome, code, message) = match error {
            SdkError::ServiceError(answer) => {
                let (code, message) = (
                    answer.err().code().unwrap_or_default(),
                    answer.err().message().unwrap_or_default(),
                );
                let status = answer.raw().status();
                let message = if message.is_empty() {
                    format!("AWS answered with status {status}")
                } else {
                    message.to_owned()
                };
                (classify(api, status, code, &message), code.to_owned(), message)
            }
            SdkError::TimeoutError(_) => (Outcome::Timeout, String::new(), with_causes(error)),
            SdkError::ResponseError(answer) => {
                // The answer does not come from AWS (a page of a proxy), or its body was cut off.
                let status = answer.raw().status();
                (
                    if status >= 500 { Outcome::Server } else { Outcome::Rejected },
                    String::new(),
                    with_causes(error),
                )
            }
            SdkError::DispatchFailure(failure) if failure.is_timeout() => {
                (Outcome::Timeout, String::new(), with_causes(error))
            }
            _ => (without_answer(error), String::new(), with_causes(error)),
        };
        Self { api, object: object.to_owned(), outcome, code, message }
    }
}

/// Access to the status of a raw answer. A trait, because the SDKs are generic over the answer
/// type.
pub(super) trait Status {
    /// The HTTP status code.
    fn status(&self) -> u16;
}

impl Status for Response {
    fn status(&self) -> u16 {
        Response::status(self).as_u16()
    }
}

/// The outcome of a call without an answer: credentials are missing, or there is no connection.
fn without_answer(error: &(dyn Error + 'static)) -> Outcome {
    let mut link = Some(error);
    while let Some(e) = link {
        match e.downcast_ref::<CredentialsError>() {
            Some(CredentialsError::ProviderTimedOut(_)) => return Outcome::Timeout,
            Some(_) => return Outcome::Credentials,
            None => link = e.source(),
        }
    }
    Outcome::Unreachable
}

/// The outcome that an error answer means. The codes are those of the API models and of "Common
/// Errors" in the API references.
fn classify(api: Api, status: u16, code: &str, message: &str) -> Outcome {
    let code = code.rsplit('#').next().unwrap_or(code);
    match code {
        "Throttling"
        | "ThrottlingException"
        | "ThrottledException"
        | "RequestThrottled"
        | "RequestThrottledException"
        | "RequestLimitExceeded"
        | "TooManyRequestsException"
        | "BandwidthLimitExceeded"
        | "PriorRequestNotComplete"
        | "SlowDown"
        | "EC2ThrottledException"
        | "KmsThrottled"
        | "KMS.ThrottlingException"
        | "OverLimit" => Outcome::Throttled,
        "AWS.SimpleQueueService.NonExistentQueue"
        | "QueueDoesNotExist"
        | "AWS.SimpleQueueService.QueueDeletedRecently"
        | "InvalidAddress"
        | "InvalidInstanceID.NotFound"
        | "InvalidInstanceID.Malformed"
        // EventBridge: there is no such rule.
        | "ResourceNotFoundException" => Outcome::Gone,
        // Auto Scaling has one code for an action that has ended, for a group that was deleted, and
        // for an invalid request. Only the message distinguishes them, and only the first two mean
        // that the object is gone.
        "ValidationError" if is_gone(api, message) => Outcome::Gone,
        // Another change of the group is under way (declared with HTTP 500).
        "ResourceContention" | "ResourceContentionFault" | "InternalFailure" | "InternalError" | "ServiceUnavailable" | "Unavailable" => {
            Outcome::Server
        }
        "AccessDenied"
        | "AccessDeniedException"
        | "UnauthorizedOperation"
        | "UnauthorizedAccess"
        | "NotAuthorized"
        // EventBridge: the caller may not use this `source` of an event.
        | "NotAuthorizedForSourceException"
        | "OptInRequired"
        | "RequestTimeTooSkewed"
        | "InvalidSecurity"
        | "Blocked"
        | "PendingVerification" => Outcome::Denied,
        _ if is_about_credentials(code) => Outcome::Credentials,
        // The KMS key of the queue: a person must change its policy or its state.
        _ if code.starts_with("Kms") || code.starts_with("KMS.") => Outcome::Denied,
        _ => match status {
            401 | 403 => Outcome::Denied,
            408 => Outcome::Timeout,
            429 => Outcome::Throttled,
            500.. => Outcome::Server,
            _ => Outcome::Rejected,
        },
    }
}

/// Whether AWS did not accept the credentials, by the codes of the Query APIs and of SQS (each
/// service's "Common Errors").
fn is_about_credentials(code: &str) -> bool {
    matches!(
        code,
        "ExpiredToken"
            | "ExpiredTokenException"
            | "RequestExpired"
            | "InvalidClientTokenId"
            | "InvalidAccessKeyId"
            | "UnrecognizedClientException"
            | "SignatureDoesNotMatch"
            | "InvalidSignatureException"
            | "IncompleteSignature"
            | "MissingAuthenticationToken"
            | "AuthFailure"
    )
}

/// Whether a `ValidationError` means that the lifecycle action no longer waits, or (for
/// DescribeLifecycleHooks and DescribeWarmPool) that the group does not exist.
fn is_gone(api: Api, message: &str) -> bool {
    match api {
        Api::RecordLifecycleActionHeartbeat | Api::CompleteLifecycleAction => {
            message.contains(NO_ACTIVE_ACTION)
        }
        Api::DescribeLifecycleHooks | Api::DescribeWarmPool => message.contains("not found"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_advice() {
        use Api::{CompleteLifecycleAction, DescribeInstances, ReceiveMessage};
        for (api, status, code, outcome) in [
            (CompleteLifecycleAction, 400, "Throttling", Outcome::Throttled),
            (CompleteLifecycleAction, 500, "ResourceContention", Outcome::Server),
            (CompleteLifecycleAction, 500, "", Outcome::Server),
            (CompleteLifecycleAction, 403, "AccessDenied", Outcome::Denied),
            (CompleteLifecycleAction, 403, "ExpiredToken", Outcome::Credentials),
            (DescribeInstances, 401, "AuthFailure", Outcome::Credentials),
            (
                ReceiveMessage,
                403,
                "com.amazon.coral.service#UnrecognizedClientException",
                Outcome::Credentials,
            ),
            (ReceiveMessage, 403, "InvalidSignatureException", Outcome::Credentials),
            (ReceiveMessage, 403, "", Outcome::Denied),
            (CompleteLifecycleAction, 400, "SomethingNew", Outcome::Rejected),
            (DescribeInstances, 503, "RequestLimitExceeded", Outcome::Throttled),
            (DescribeInstances, 403, "UnauthorizedOperation", Outcome::Denied),
            (DescribeInstances, 400, "InvalidInstanceID.NotFound", Outcome::Gone),
            (DescribeInstances, 400, "ValidationError", Outcome::Rejected),
            (ReceiveMessage, 400, "com.amazonaws.sqs#QueueDoesNotExist", Outcome::Gone),
            (ReceiveMessage, 400, "AWS.SimpleQueueService.NonExistentQueue", Outcome::Gone),
            (ReceiveMessage, 403, "RequestThrottled", Outcome::Throttled),
            (ReceiveMessage, 400, "KMS.AccessDeniedException", Outcome::Denied),
            (ReceiveMessage, 429, "", Outcome::Throttled),
            (ReceiveMessage, 403, "OverLimit", Outcome::Throttled),
        ] {
            assert_eq!(classify(api, status, code, "words"), outcome, "{api:?} {status} {code}");
        }
    }

    #[test]
    fn only_the_message_of_a_validation_error_shows_that_the_object_is_gone() {
        use Api::RecordLifecycleActionHeartbeat as Heartbeat;
        use Api::{
            CompleteLifecycleAction as Complete, DescribeAutoScalingGroups as Groups,
            DescribeLifecycleHooks as Hooks,
        };
        let no_group = "AutoScalingGroup name not found - AutoScalingGroup 'asg' not found";
        for (api, message, outcome) in [
            (Complete, "No active Lifecycle Action found with token 1234", Outcome::Gone),
            (Heartbeat, "No active Lifecycle Action found with instance ID i-1", Outcome::Gone),
            (
                Complete,
                "1 validation error detected: Value '' at 'lifecycleActionToken' failed to \
                 satisfy constraint",
                Outcome::Rejected,
            ),
            (Complete, no_group, Outcome::Rejected),
            (Heartbeat, "", Outcome::Rejected),
            (Hooks, no_group, Outcome::Gone),
            (Hooks, "1 validation error detected", Outcome::Rejected),
            (Api::DescribeWarmPool, no_group, Outcome::Gone),
            (Groups, "1 validation error detected", Outcome::Rejected),
        ] {
            assert_eq!(
                classify(api, 400, "ValidationError", message),
                outcome,
                "{api:?} {message}"
            );
        }
    }
}
