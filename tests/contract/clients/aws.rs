//! boto3 and the `aws` CLI, as they are on PyPI, at work with the embedded AWS.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use serde_json::Value;
use sundown::{
    runtime::{Clock, Spawner},
    sim::{
        World, WorldSettings,
        aws::{GroupSpec, HookResult, HookSpec, SpotAction, Verdict},
        http::{Server, loopback},
    },
};

use crate::{
    process::{CommandOutput, Folder, run},
    python::{command, interpreter},
};

/// An account with a group `asg` of three whose termination waits for the hook `drain`.
struct Account {
    world: World,
    instances: Vec<String>,
    server: Server,
    python: PathBuf,
    folder: Folder,
    tasks: Spawner,
}

impl Account {
    async fn new() -> Option<Self> {
        let python = interpreter()?;
        let (tasks, folder) = (Spawner::new(), Folder::new());
        let world = World::start(WorldSettings::seeded(3), Clock::system(), &tasks);
        let server = world.aws.serve(loopback().await.unwrap(), &tasks).unwrap();
        let hook = HookSpec {
            heartbeat_timeout: Duration::from_mins(5),
            default_result: HookResult::Abandon,
            ..HookSpec::terminating("drain")
        };
        let instances =
            world.add_group(GroupSpec { replace_after: None, ..GroupSpec::new("asg", 3) }, &[hook]);
        Some(Self { world, instances, server, python, folder, tasks })
    }

    fn command(&self) -> Command {
        let mut command = command(&self.python, &self.folder);
        command.env("AWS_ENDPOINT_URL", self.server.url());
        command
    }

    /// `aws` with these words, to its good end: what it printed.
    async fn aws(&self, words: &str) -> Value {
        let output = self.cli(words).await;
        assert_eq!(output.code, Some(0), "aws {words}: {}", output.err);
        if output.out.trim().is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&output.out).unwrap()
        }
    }

    async fn cli(&self, words: &str) -> CommandOutput {
        let mut command = self.command();
        // For queues its first version looks at no variable.
        command
            .args(["-m", "awscli", "--output", "json", "--endpoint-url", &self.server.url()])
            .args(words.split_whitespace());
        run(self.folder.path(), &mut command).await
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.tasks.kill();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn boto3_receives_heartbeats_and_completes() {
    let Some(account) = Account::new().await else { return };
    account.world.aws.terminate(&account.instances[0], true);
    let script = account.folder.path().join("drainer.py");
    fs::write(&script, include_str!("drainer.py")).unwrap();
    let mut command = account.command();
    command.arg(script).args([account.world.queue(), &account.instances[0]]);
    let output = run(account.folder.path(), &mut command).await;
    assert_eq!(output.code, Some(0), "{}{}", output.out, output.err);
    let result: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(result["instance"], account.instances[0].as_str());
    assert_eq!(
        (&result["heartbeat_timeout"], &result["global_timeout"], &result["default_result"]),
        (&300.into(), &30_000.into(), &"ABANDON".into())
    );
    assert_eq!(result["lifecycle_state"], "Terminating:Wait");
    assert_eq!(
        (&result["after"], &result["second_completion"]),
        (&"shutting-down".into(), &"ValidationError".into())
    );
    assert_eq!(
        (&result["received_again"], &result["unknown_queue"], &result["bad_receipt"]),
        (
            &false.into(),
            &"AWS.SimpleQueueService.NonExistentQueue".into(),
            &"ReceiptHandleIsInvalid".into()
        )
    );
    let action = account
        .world
        .aws
        .actions()
        .into_iter()
        .find(|a| a.instance == account.instances[0])
        .unwrap();
    let end = action.end.expect("it was completed");
    assert_eq!(
        (end.verdict, end.by.as_str()),
        (Verdict::Completed(HookResult::Continue), "AKIAPYTHON")
    );
    assert_eq!(
        account.world.aws.count("autoscaling:RecordLifecycleActionHeartbeat"),
        3,
        "two that were accepted, and one too late"
    );
    assert!(
        account
            .world
            .aws
            .queue(account.world.queue())
            .unwrap()
            .messages
            .iter()
            .all(|m| !m.body.contains("Instance-terminate")),
        "it was deleted"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_aws_cli_looks_and_acts() {
    let Some(account) = Account::new().await else { return };
    let instance = &account.instances[0];
    let groups = account
        .aws("autoscaling describe-auto-scaling-groups --auto-scaling-group-names asg")
        .await;
    let group = &groups["AutoScalingGroups"][0];
    assert_eq!(
        (&group["AutoScalingGroupName"], group["Instances"].as_array().unwrap().len()),
        (&"asg".into(), 3)
    );
    assert!(
        group["Tags"]
            .as_array()
            .unwrap()
            .iter()
            .any(|t| t["Key"] == "kubernetes.io/cluster/sim" && t["Value"] == "owned"),
        "{group}"
    );
    let hooks =
        account.aws("autoscaling describe-lifecycle-hooks --auto-scaling-group-name asg").await;
    assert_eq!(
        (
            &hooks["LifecycleHooks"][0]["LifecycleHookName"],
            &hooks["LifecycleHooks"][0]["HeartbeatTimeout"]
        ),
        (&"drain".into(), &300.into())
    );
    let found = account
        .aws(&format!(
            "ec2 describe-instances --filters \
             Name=instance-id,Values={instance},i-0123456789abcdef0 \
             Name=instance-state-name,Values=running"
        ))
        .await;
    let one = &found["Reservations"][0]["Instances"][0];
    assert_eq!(
        (
            &one["InstanceId"],
            &one["State"]["Name"],
            found["Reservations"].as_array().unwrap().len()
        ),
        (&instance.as_str().into(), &"running".into(), 1)
    );
    assert!(
        one["LaunchTime"].is_string()
            && one["PrivateDnsName"].as_str().unwrap().ends_with(".eu-west-1.compute.internal"),
        "{one}"
    );
    let unknown = account.cli("ec2 describe-instances --instance-ids i-0123456789abcdef0").await;
    assert!(
        unknown.code != Some(0)
            && unknown.err.contains(
                "(InvalidInstanceID.NotFound) when calling the DescribeInstances operation"
            ),
        "{}",
        unknown.err
    );

    // What the README tells a person to try.
    account
        .aws(&format!(
            "autoscaling terminate-instance-in-auto-scaling-group --instance-id {instance} \
             --no-should-decrement-desired-capacity"
        ))
        .await;
    let url = account
        .aws(&format!("sqs get-queue-url --queue-name {}", account.world.queue()))
        .await["QueueUrl"]
        .as_str()
        .unwrap()
        .to_owned();
    let received = account
        .aws(&format!(
            "sqs receive-message --queue-url {url} --wait-time-seconds 20 --attribute-names All"
        ))
        .await;
    let message = &received["Messages"][0];
    let event: Value = serde_json::from_str(message["Body"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&event["detail-type"], &event["detail"]["EC2InstanceId"]),
        (&"EC2 Instance-terminate Lifecycle Action".into(), &instance.as_str().into())
    );
    assert_eq!(message["Attributes"]["ApproximateReceiveCount"], "1");
    let of_hook = format!(
        "--auto-scaling-group-name asg --lifecycle-hook-name drain --instance-id {instance}"
    );
    account.aws(&format!("autoscaling record-lifecycle-action-heartbeat {of_hook}")).await;
    account
        .aws(&format!(
            "autoscaling complete-lifecycle-action {of_hook} --lifecycle-action-result CONTINUE"
        ))
        .await;
    let over =
        account.cli(&format!("autoscaling record-lifecycle-action-heartbeat {of_hook}")).await;
    assert!(
        over.err.contains("(ValidationError)")
            && over.err.contains("No active Lifecycle Action found with instance ID"),
        "{}",
        over.err
    );
    account
        .aws(&format!(
            "sqs delete-message --queue-url {url} --receipt-handle {}",
            message["ReceiptHandle"].as_str().unwrap()
        ))
        .await;
    let verdicts: Vec<_> =
        account.world.aws.actions().into_iter().filter_map(|a| Some(a.end?.verdict)).collect();
    assert_eq!(verdicts, [Verdict::Completed(HookResult::Continue)]);

    account.world.aws.spot_interruption(&account.instances[1], SpotAction::Terminate);
    let mut bodies = String::new();
    while !bodies.contains("EC2 Spot Instance Interruption Warning") {
        let received = account
            .aws(&format!(
                "sqs receive-message --queue-url {url} --wait-time-seconds 20 \
                 --max-number-of-messages 10"
            ))
            .await;
        assert!(received["Messages"].is_array(), "no notice has come: {bodies}");
        bodies += &received.to_string();
    }
    let members = account
        .aws(&format!(
            "autoscaling describe-auto-scaling-instances --instance-ids {}",
            account.instances[2]
        ))
        .await;
    assert_eq!(members["AutoScalingInstances"][0]["LifecycleState"], "InService");
    let caller = account.aws("sts get-caller-identity").await;
    assert_eq!(caller["Account"], "123456789012");
}
