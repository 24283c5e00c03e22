//! The embedded AWS through the real SDK clients.
#![allow(clippy::indexing_slicing, reason = "what is not there fails the test")]

mod ec2;
mod faults;
mod groups;
mod hooks;
mod root_volume;
mod sqs;
mod standby;
mod tcp;
mod warm_pool;

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::*;
use crate::domain::Moment;

/// An AWS with a queue `q` that gets every event, and clients.
struct World {
    aws: EmbeddedAws,
    sqs: aws_sdk_sqs::Client,
    asg: aws_sdk_autoscaling::Client,
    ec2: aws_sdk_ec2::Client,
    url: String,
    begin: Instant,
    _spawner: Spawner,
}

impl World {
    fn new() -> Self {
        Self::with(QueueSettings::default())
    }

    fn with(queue: QueueSettings) -> Self {
        let spawner = Spawner::new();
        let clock = Clock::starting_at(epoch());
        let aws = EmbeddedAws::start(clock, Settings { seed: 7, ..Settings::default() }, &spawner);
        let url = aws.create_queue("q", queue);
        aws.route(Rule::usual("q"));
        let config = aws.sdk_config();
        Self {
            sqs: aws_sdk_sqs::Client::new(&config),
            asg: aws_sdk_autoscaling::Client::new(&config),
            ec2: aws_sdk_ec2::Client::new(&config),
            aws,
            url,
            begin: Instant::now(),
            _spawner: spawner,
        }
    }

    /// Virtual seconds since the begin.
    fn seconds(&self) -> u64 {
        self.begin.elapsed().as_secs()
    }

    fn bodies(&self) -> Vec<Value> {
        self.aws
            .queue("q")
            .unwrap()
            .messages
            .iter()
            .map(|m| serde_json::from_str(&m.body).unwrap())
            .collect()
    }

    /// The bodies of one detail-type, in order.
    fn events(&self, detail_type: &str) -> Vec<Value> {
        self.bodies().into_iter().filter(|b| b["detail-type"] == detail_type).collect()
    }

    /// A group `g` with one instance and a terminate hook `h`; the instance.
    fn group(&self, hook: HookSpec) -> String {
        let instances =
            self.aws.create_group(GroupSpec { replace_after: None, ..GroupSpec::new("g", 1) });
        self.aws.put_hook("g", hook);
        instances.into_iter().next().unwrap()
    }

    fn stand(&self, instance: &str) -> Option<LifecycleState> {
        self.aws.members("g").into_iter().find(|m| m.instance == instance).map(|m| m.state)
    }

    /// The lifecycle state of an instance as DescribeAutoScalingInstances shows it.
    async fn shown(&self, instance: &str) -> Option<String> {
        let asking = self.asg.describe_auto_scaling_instances().instance_ids(instance);
        let answer = asking.send().await.unwrap();
        answer.auto_scaling_instances().first()?.lifecycle_state().map(str::to_owned)
    }

    /// The lifecycle states in which an instance is shown, from now on for some seconds.
    async fn states_for(&self, seconds: u64, instance: &str) -> Vec<String> {
        let mut seen = Vec::new();
        for _ in 0..seconds {
            seen.extend(self.shown(instance).await);
            sleep(1).await;
        }
        seen.extend(self.shown(instance).await);
        seen.dedup();
        seen
    }

    fn state(&self, instance: &str) -> Option<State> {
        self.aws.instance(instance).map(|i| i.state)
    }
}

fn epoch() -> Moment {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

async fn sleep(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Code and message of a service error.
fn error<E, R>(result: Result<E, aws_sdk_sqs::error::SdkError<R>>) -> (String, String)
where
    R: aws_sdk_sqs::error::ProvideErrorMetadata + std::fmt::Debug,
    E: std::fmt::Debug,
{
    let error = result.expect_err("an error");
    let service =
        error.as_service_error().unwrap_or_else(|| panic!("not a service error: {error:?}"));
    (
        service.code().unwrap_or_default().to_owned(),
        service.message().unwrap_or_default().to_owned(),
    )
}
