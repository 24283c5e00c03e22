"""What commands for people find in an account, made by boto3: a group of two, a queue with its dead-letter queue, and a rule that brings tests.

    make            makes it, and prints what it is
    receive URL     prints the bodies that are in a queue, and deletes them
    hooks           prints the lifecycle hooks of the group
    calls JSON      makes the calls of a list of [SERVICE.OPERATION, ARGUMENTS], and prints their answers
"""

import json
import sys
import time

import boto3

autoscaling, ec2, sqs, events = (boto3.client(name) for name in ("autoscaling", "ec2", "sqs", "events"))
ACCOUNT = "123456789012"
RULE = f"arn:aws:events:eu-west-1:{ACCOUNT}:rule/sundown-shop-events"


def arn(url):
    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]


def policy(queue):
    """As the Terraform module has it."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "events.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": queue,
                "Condition": {"ArnEquals": {"aws:SourceArn": [RULE]}},
            },
            {
                "Effect": "Deny",
                "Principal": "*",
                "Action": "sqs:SendMessage",
                "Resource": queue,
                "Condition": {"BoolIfExists": {"aws:PrincipalIsAWSService": "false"}},
            },
        ],
    }


def make():
    autoscaling.create_launch_configuration(LaunchConfigurationName="asg", ImageId="ami-12c6146b", InstanceType="m6i.xlarge")
    tag = {"ResourceId": "asg", "ResourceType": "auto-scaling-group", "Key": "kubernetes.io/cluster/shop", "Value": "owned", "PropagateAtLaunch": True}
    autoscaling.create_auto_scaling_group(
        AutoScalingGroupName="asg", LaunchConfigurationName="asg", MinSize=0, MaxSize=10, DesiredCapacity=2, AvailabilityZones=["eu-west-1a"], Tags=[tag]
    )
    dead = sqs.create_queue(QueueName="sundown-shop-dead", Attributes={"MessageRetentionPeriod": "1209600"})["QueueUrl"]
    redrive = {"deadLetterTargetArn": arn(dead), "maxReceiveCount": "10"}
    queue = sqs.create_queue(
        QueueName="sundown-shop",
        Attributes={"MessageRetentionPeriod": "345600", "RedrivePolicy": json.dumps(redrive), "SqsManagedSseEnabled": "true"},
    )["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps(policy(arn(queue)))})
    pattern = {
        "source": ["aws.ec2", "aws.autoscaling", "sundown.test"],
        "detail-type": ["EC2 Instance-terminate Lifecycle Action", "EC2 Instance Launch Successful", "EC2 Spot Instance Interruption Warning", "EC2 Instance State-change Notification", "EC2 Capacity Reservation Instance Interruption Warning", "Capacity Block Expiration Warning", "Capacity Block Reservation Expiration Warning", "EC2 Instance Rebalance Recommendation", "AWS Health Event"],
    }
    events.put_rule(Name="sundown-shop-events", EventPattern=json.dumps(pattern))
    events.put_targets(Rule="sundown-shop-events", Targets=[{"Id": "queue", "Arn": arn(queue)}])
    group = autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=["asg"])["AutoScalingGroups"][0]
    return {"queue": queue, "dead": dead, "instances": [i["InstanceId"] for i in group["Instances"]]}


def receive(url):
    bodies, end = [], time.monotonic() + 20
    while not bodies and time.monotonic() < end:
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1).get("Messages", []):
            bodies.append(json.loads(message["Body"]))
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return bodies


def hooks():
    return autoscaling.describe_lifecycle_hooks(AutoScalingGroupName="asg")["LifecycleHooks"]


def calls(text):
    answers = []
    for name, arguments in json.loads(text):
        service, operation = name.split(".")
        answers.append(getattr(boto3.client(service), operation)(**arguments))
    return answers


json.dump({"make": make, "receive": receive, "hooks": hooks, "calls": calls}[sys.argv[1]](*sys.argv[2:]), sys.stdout, default=str)
