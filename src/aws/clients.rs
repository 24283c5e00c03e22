//! The clients of all AWS services, with the same settings.

use std::{sync::Arc, time::Duration};

use aws_config::{
    Region, SdkConfig, retry::RetryConfig,
    stalled_stream_protection::StalledStreamProtectionConfig, timeout::TimeoutConfig,
};

use super::{
    Api, ApiCall, AutoScaling, AwsClock, AwsError, Ec2, EventBridge, Queue,
    call::Caller,
    region::{endpoint_of_queue, region_of_queue},
};
use crate::runtime::{Clock, Observer};

/// The time limit for opening a connection.
const CONNECT: Duration = Duration::from_millis(3100);
/// The SDK's own limit on one attempt of a long poll (20 s at most).
const RECEIVE: Duration = Duration::from_secs(30);
/// The SDK's own limit on one attempt of anything else.
const ATTEMPT: Duration = Duration::from_secs(10);

/// The clients of all services. They do not retry, have attempt timeouts, and feed one
/// [`AwsClock`].
#[derive(Debug, Clone)]
pub struct Clients {
    base: SdkConfig,
    caller: Caller,
    clock: AwsClock,
    autoscaling: AutoScaling,
    ec2: Ec2,
}

/// Clears the choice between AWS's own endpoints (`AWS_USE_FIPS_ENDPOINT`,
/// `AWS_USE_DUALSTACK_ENDPOINT`) if one endpoint is set for all services: it has no meaning then,
/// and the SDK refuses both together.
fn own_endpoint(base: &SdkConfig) -> SdkConfig {
    if base.endpoint_url().is_some() {
        base.to_builder().use_fips(false).use_dual_stack(false).build()
    } else {
        base.clone()
    }
}

/// The owner of the credentials that are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The number of the AWS account.
    pub account: String,
    /// The principal: a user, or a role that was assumed.
    pub arn: String,
}

impl Clients {
    /// Clients with the region, credentials, HTTP client, time source and sleep of `base`, which
    /// comes from [`super::load`] or from a simulation.
    #[must_use]
    pub fn from_config(
        base: &SdkConfig,
        clock: Clock,
        observer: Arc<dyn Observer<ApiCall>>,
    ) -> Self {
        let clock = AwsClock::new(clock);
        let caller = Caller::new(observer);
        let base = own_endpoint(base)
            .into_builder()
            .retry_config(RetryConfig::disabled())
            .timeout_config(
                TimeoutConfig::builder()
                    .connect_timeout(CONNECT)
                    .operation_attempt_timeout(ATTEMPT)
                    .build(),
            )
            // Our own deadlines end stalled streams, and this protection has cut off long polls
            // (awslabs/aws-sdk-rust#1148).
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .build();
        let autoscaling =
            aws_sdk_autoscaling::config::Builder::from(&base).interceptor(clock.reader()).build();
        let ec2 = aws_sdk_ec2::config::Builder::from(&base).interceptor(clock.reader()).build();
        Self {
            autoscaling: AutoScaling::new(
                aws_sdk_autoscaling::Client::from_conf(autoscaling),
                caller.clone(),
            ),
            ec2: Ec2::new(aws_sdk_ec2::Client::from_conf(ec2), caller.clone()),
            base,
            caller,
            clock,
        }
    }

    /// AWS's clock, as the answers to these clients show it.
    #[must_use]
    pub fn clock(&self) -> &AwsClock {
        &self.clock
    }

    /// Auto Scaling, in the region of the configuration.
    #[must_use]
    pub fn autoscaling(&self) -> &AutoScaling {
        &self.autoscaling
    }

    /// EC2, in the region of the configuration.
    #[must_use]
    pub fn ec2(&self) -> &Ec2 {
        &self.ec2
    }

    /// EventBridge, in the region of the configuration. For operator commands.
    #[must_use]
    pub fn event_bridge(&self) -> EventBridge {
        EventBridge::new(self.base.clone(), self.caller.clone())
    }

    /// GetCallerIdentity: the account and the principal whose credentials are used. For operator
    /// commands.
    pub async fn identity(&self) -> Result<Identity, AwsError> {
        let config =
            aws_sdk_sts::config::Builder::from(&self.base).interceptor(self.clock.reader());
        let request = aws_sdk_sts::Client::from_conf(config.build()).get_caller_identity();
        let answer = self
            .caller
            .call(
                Api::GetCallerIdentity,
                "our credentials",
                ATTEMPT + Duration::from_secs(1),
                request.send(),
            )
            .await?;
        Ok(Identity {
            account: answer.account.unwrap_or_default(),
            arn: answer.arn.unwrap_or_default(),
        })
    }

    /// The region of the configuration.
    #[must_use]
    pub fn region(&self) -> Option<&str> {
        self.base.region().map(Region::as_ref)
    }

    /// The queue at this URL, in the region that the URL names, else in the region of the
    /// configuration.
    #[must_use]
    pub fn queue(&self, url: &str) -> Queue {
        let mut base = self.base.to_builder();
        if let Ok(region) = region_of_queue(url) {
            base = base.region(Region::new(region));
        }
        // Set on the base and not on the client, so that `AWS_ENDPOINT_URL_SQS` overrides it.
        if self.base.endpoint_url().is_none()
            && let Some(endpoint) = endpoint_of_queue(url)
        {
            // The URL already names the host to use, whether FIPS, dual-stack or neither. The SDK
            // refuses an endpoint together with FIPS or dual-stack.
            base = base.endpoint_url(endpoint).use_fips(false).use_dual_stack(false);
        }
        let config = aws_sdk_sqs::config::Builder::from(&base.build())
            .timeout_config(
                TimeoutConfig::builder()
                    .connect_timeout(CONNECT)
                    .operation_attempt_timeout(RECEIVE)
                    .build(),
            )
            .interceptor(self.clock.reader());
        Queue::new(aws_sdk_sqs::Client::from_conf(config.build()), self.caller.clone(), url)
    }
}
