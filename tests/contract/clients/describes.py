"""Asks EC2 and Auto Scaling about the group `asg` and prints the answers as JSON. With `make` it makes the group first."""

import json
import sys

import boto3
from botocore.exceptions import ClientError

autoscaling, ec2 = boto3.client("autoscaling"), boto3.client("ec2")

if "make" in sys.argv:
    autoscaling.create_launch_configuration(LaunchConfigurationName="asg", ImageId="ami-12c6146b", InstanceType="m6i.xlarge")
    for name, desired in [("asg", 2), ("pooled", 0)]:
        autoscaling.create_auto_scaling_group(
            AutoScalingGroupName=name, LaunchConfigurationName="asg", MinSize=0, MaxSize=10, DesiredCapacity=desired, AvailabilityZones=["eu-west-1a"]
        )
    autoscaling.put_warm_pool(AutoScalingGroupName="pooled", MinSize=0)
    autoscaling.put_lifecycle_hook(
        AutoScalingGroupName="asg", LifecycleHookName="drain", LifecycleTransition="autoscaling:EC2_INSTANCE_TERMINATING"
    )

UNKNOWN = "i-0123456789abcdef0"


def instances(**filters):
    """Instances by filters: `instance_id=["i-…"]`."""
    named = [{"Name": name.replace("_", "-").replace("--", ":", 1), "Values": values} for name, values in filters.items()]
    return [clean(i) for r in ec2.describe_instances(Filters=named)["Reservations"] for i in r["Instances"]]


def clean(instance):
    instance["group_tag"] = {t["Key"]: t["Value"] for t in instance.get("Tags", [])}.get("aws:autoscaling:groupName")
    return instance


def code(call, **arguments):
    try:
        return call(**arguments)
    except ClientError as error:
        return error.response["Error"]["Code"]


def pool(name):
    """Its configuration without what only one of the servers gives, and its instances."""
    answer = autoscaling.describe_warm_pool(AutoScalingGroupName=name)
    configuration = answer.get("WarmPoolConfiguration")
    return {"WarmPoolConfiguration": configuration and {"MinSize": configuration["MinSize"]}, "Instances": answer["Instances"]}


group = autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=["asg"])["AutoScalingGroups"][0]
first = group["Instances"][0]["InstanceId"]
of_group = {"tag__aws:autoscaling:groupName": ["asg"]}
pages = ec2.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 5})

answers = {
    "instances_by_id_filter": instances(instance_id=[first, UNKNOWN]),
    "instances_by_state_and_group": instances(instance_state_name=["running"], **of_group),
    "instances_by_wildcard": instances(private_dns_name=["ip-*"]),
    "instances_by_two_filters_that_exclude_each_other": instances(instance_id=[first], instance_state_name=["terminated"]),
    "instances_unknown_by_filter": instances(instance_id=[UNKNOWN]),
    "instances_unknown_by_id": code(ec2.describe_instances, InstanceIds=[first, UNKNOWN]),
    "instances_in_pages": sum(len(r["Instances"]) for page in pages for r in page["Reservations"]),
    "group": group,
    "groups_unknown": autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=["nobody"])["AutoScalingGroups"],
    "hook": autoscaling.describe_lifecycle_hooks(AutoScalingGroupName="asg")["LifecycleHooks"][0],
    "hooks_of_another_name": autoscaling.describe_lifecycle_hooks(AutoScalingGroupName="asg", LifecycleHookNames=["nobody"])["LifecycleHooks"],
    "pool_of_a_group_without_one": pool("asg"),
    "pool": pool("pooled"),
    "group_with_a_pool": autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=["pooled"])["AutoScalingGroups"][0],
    "members": autoscaling.describe_auto_scaling_instances(InstanceIds=[first])["AutoScalingInstances"],
    "members_unknown": autoscaling.describe_auto_scaling_instances(InstanceIds=[UNKNOWN])["AutoScalingInstances"],
    "statuses_by_id": ec2.describe_instance_status(InstanceIds=[first])["InstanceStatuses"],
    "statuses_of_all": ec2.describe_instance_status()["InstanceStatuses"],
    "statuses_unknown": code(ec2.describe_instance_status, InstanceIds=[UNKNOWN]),
}
autoscaling.set_instance_health(InstanceId=first, HealthStatus="Unhealthy", ShouldRespectGracePeriod=False)
members = autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=["asg"])["AutoScalingGroups"][0]["Instances"]
answers["health_after_it_was_set"] = [member for member in members if member["InstanceId"] == first]
json.dump(answers, sys.stdout, default=str)
