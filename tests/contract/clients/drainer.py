"""A small drainer on boto3: receives a termination, beats twice, completes it, deletes the message, and prints what it met as JSON."""

import json
import sys

import boto3
from botocore.exceptions import ClientError

queue, wanted = sys.argv[1:]
sqs, autoscaling, ec2 = (boto3.client(name) for name in ("sqs", "autoscaling", "ec2"))


def code(call, **arguments):
    """The code that a call is refused with."""
    try:
        call(**arguments)
    except ClientError as error:
        return error.response["Error"]["Code"]
    return None


url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
event = None
while event is None:
    received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=20, MessageSystemAttributeNames=["All"])
    for message in received["Messages"]:
        body = json.loads(message["Body"])
        if body["detail-type"] == "EC2 Instance-terminate Lifecycle Action":
            event, receipt = body["detail"], message["ReceiptHandle"]

group, name, instance = event["AutoScalingGroupName"], event["LifecycleHookName"], event["EC2InstanceId"]
assert instance == wanted, (instance, wanted)
hook = autoscaling.describe_lifecycle_hooks(AutoScalingGroupName=group, LifecycleHookNames=[name])["LifecycleHooks"][0]
member = autoscaling.describe_auto_scaling_instances(InstanceIds=[instance])["AutoScalingInstances"][0]
action = {"AutoScalingGroupName": group, "LifecycleHookName": name}
autoscaling.record_lifecycle_action_heartbeat(**action, LifecycleActionToken=event["LifecycleActionToken"])
autoscaling.record_lifecycle_action_heartbeat(**action, InstanceId=instance)
sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=300)
autoscaling.complete_lifecycle_action(**action, InstanceId=instance, LifecycleActionResult="CONTINUE")
again = code(autoscaling.complete_lifecycle_action, **action, InstanceId=instance, LifecycleActionResult="CONTINUE")
code(autoscaling.record_lifecycle_action_heartbeat, **action, InstanceId=instance)
sqs.delete_message_batch(QueueUrl=url, Entries=[{"Id": "1", "ReceiptHandle": receipt}])
left = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0).get("Messages", [])
filters = [{"Name": "instance-id", "Values": [instance]}]
pages = ec2.get_paginator("describe_instances").paginate(Filters=filters, PaginationConfig={"PageSize": 5})
described = [i for page in pages for r in page["Reservations"] for i in r["Instances"]][0]

json.dump(
    {
        "instance": instance,
        "heartbeat_timeout": hook["HeartbeatTimeout"],
        "global_timeout": hook["GlobalTimeout"],
        "default_result": hook["DefaultResult"],
        "lifecycle_state": member["LifecycleState"],
        "after": described["State"]["Name"],
        "second_completion": again,
        "received_again": any("Instance-terminate" in m["Body"] for m in left),
        "unknown_queue": code(sqs.receive_message, QueueUrl=url + "-not"),
        "bad_receipt": code(sqs.delete_message, QueueUrl=url, ReceiptHandle="nonsense"),
    },
    sys.stdout,
)
