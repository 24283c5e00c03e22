//! How EC2 and Auto Scaling describe instances, groups and hooks: the embedded AWS and moto, asked
//! by boto3.

use std::fs;

use serde_json::{Value, json};
use sundown::{
    runtime::{Clock, Spawner},
    sim::{
        aws::{EmbeddedAws, GroupSpec, HookSpec, Settings},
        http::loopback,
    },
};

use crate::{
    process::{Folder, run},
    python::{command, interpreter, moto},
    shown::through,
};

/// What both answer about a group `asg` of two with a terminate hook `drain`.
fn expected(dns_name: &str, by_wildcard: usize) -> Value {
    let instance = json!({
        "InstanceId": "i-*", "State": {
            "Code": 16, "Name": "running"
        }, "LaunchTime": "*", "PrivateDnsName": dns_name,
        "PrivateIpAddress": "10.*", "InstanceType": "*", "Placement": {
            "AvailabilityZone": "eu-west-1*"
        }, "InstanceLifecycle": null, "group_tag": "asg",
    });
    let member = json!({
        "InstanceId": "i-*", "LifecycleState": "InService", "HealthStatus": "*",
        "AvailabilityZone": "eu-west-1*"
    });
    let status = json!({
        "InstanceId": "i-*", "InstanceState": { "Code": 16, "Name": "running" },
        "InstanceStatus": { "Status": "ok" }, "SystemStatus": { "Status": "ok" }
    });
    json!({
        "instances_by_id_filter": [instance],
        "instances_by_state_and_group": [instance, instance],
        "instances_by_wildcard": vec![&instance; by_wildcard],
        "instances_by_two_filters_that_exclude_each_other": [],
        "instances_unknown_by_filter": [],
        "instances_unknown_by_id": "InvalidInstanceID.NotFound",
        "instances_in_pages": 2,
        "group": {
            "AutoScalingGroupName": "asg",
            "AutoScalingGroupARN": "arn:aws:autoscaling:eu-west-1:123456789012:autoScalingGroup:*:autoScalingGroupName/asg",
            "MinSize": 0, "DesiredCapacity": 2, "Instances": [member, member] },
        "groups_unknown": [],
        "hook": {
            "LifecycleHookName": "drain", "AutoScalingGroupName": "asg",
            "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
            "HeartbeatTimeout": 3600, "GlobalTimeout": 172_800, "DefaultResult": "ABANDON" },
        "hooks_of_another_name": [],
        "pool_of_a_group_without_one": { "WarmPoolConfiguration": null, "Instances": [] },
        "pool": { "WarmPoolConfiguration": { "MinSize": 0 }, "Instances": [] },
        "group_with_a_pool": {
            "AutoScalingGroupName": "pooled", "Instances": [], "WarmPoolConfiguration": { "MinSize": 0 }
        },
        "members": [{
            "InstanceId": "i-*", "AutoScalingGroupName": "asg", "LifecycleState": "InService"
        }],
        "members_unknown": [],
        "statuses_by_id": [status],
        "statuses_of_all": [status, status],
        "statuses_unknown": "InvalidInstanceID.NotFound",
        "health_after_it_was_set": [{ "InstanceId": "i-*", "HealthStatus": "Unhealthy" }],
    })
}

async fn asked(url: &str, folder: &Folder, python: &std::path::Path, make: bool) -> Value {
    let script = folder.path().join("describes.py");
    fs::write(&script, include_str!("describes.py")).unwrap();
    let mut command = command(python, folder);
    command.env("AWS_ENDPOINT_URL", url).arg(script);
    if make {
        command.arg("make");
    }
    let output = run(folder.path(), &mut command).await;
    assert_eq!(output.code, Some(0), "{}{}", output.out, output.err);
    serde_json::from_str(&output.out).unwrap()
}

fn compare(server: &str, answers: &Value, dns_name: &str, by_wildcard: usize) {
    let expected = expected(dns_name, by_wildcard);
    let seen = through(answers, &expected, false);
    for (name, want) in expected.as_object().unwrap() {
        assert_eq!(&seen[name], want, "{server}: {name} differs");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn boto3_describes_the_embedded_groups_and_instances() {
    let Some(python) = interpreter() else { return };
    let (folder, tasks) = (Folder::new(), Spawner::new());
    let aws = EmbeddedAws::start(Clock::system(), Settings::default(), &tasks);
    aws.create_group(GroupSpec::new("asg", 2));
    aws.put_hook("asg", HookSpec::terminating("drain"));
    aws.create_group(GroupSpec::new("pooled", 0));
    aws.put_warm_pool("pooled");
    let server = aws.serve(loopback().await.unwrap(), &tasks).unwrap();
    compare(
        "the embedded AWS",
        &asked(&server.url(), &folder, &python, false).await,
        "ip-*.eu-west-1.compute.internal",
        2,
    );
    tasks.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn boto3_describes_motos_groups_and_instances() {
    let Some(python) = interpreter() else { return };
    let folder = Folder::new();
    let (url, _moto) = moto(&python, &folder).await;
    // moto gives the names of us-east-1 in every region, where others name theirs (VPC user guide,
    // "DNS attributes"), and takes wildcards for what they are in no more than tags (EC2 user
    // guide, "List and filter your resources": `*` and `?` in values).
    compare("moto", &asked(&url, &folder, &python, true).await, "ip-*.ec2.internal", 0);
}
