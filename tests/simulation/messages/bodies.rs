//! Bodies of messages as AWS writes them, with the instance and the time that a test wants.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Value, json};

/// An event of EventBridge. Its id follows from what it says.
pub fn event(source: &str, detail_type: &str, time: &str, detail: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    (source, detail_type, time, detail.to_string()).hash(&mut hasher);
    json!({
        "version": "0", "id": format!(
            "12345678-1234-1234-1234-{:012x}", hasher.finish() & 0xffff_ffff_ffff
        ), "detail-type": detail_type, "source": source,
        "account": "123456789012", "time": time, "region": "eu-west-1", "resources": [],
        "detail": detail,
    })
    .to_string()
}

pub fn spot(instance: &str, time: &str) -> String {
    event(
        "aws.ec2",
        "EC2 Spot Instance Interruption Warning",
        time,
        &json!({ "instance-id": instance, "instance-action": "terminate" }),
    )
}

pub fn capacity(instance: &str, time: &str, ends: &str) -> String {
    let detail = json!({
        "instance-id": instance, "instance-action": "terminate", "instance-termination-time": ends
    });
    event("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning", time, &detail)
}

/// The warning of a Capacity Block. Empty `ends`: it states no end.
pub fn block(reservation: &str, time: &str, ends: &str) -> String {
    let detail = match ends {
        "" => json!({ "capacity-reservation-id": reservation }),
        _ => json!({ "capacity-reservation-id": reservation, "end-date": ends }),
    };
    event("aws.ec2", "Capacity Block Expiration Warning", time, &detail)
}

pub fn state_change(instance: &str, state: &str, time: &str) -> String {
    event(
        "aws.ec2",
        "EC2 Instance State-change Notification",
        time,
        &json!({ "instance-id": instance, "state": state }),
    )
}

pub fn rebalance(instance: &str, time: &str) -> String {
    event(
        "aws.ec2",
        "EC2 Instance Rebalance Recommendation",
        time,
        &json!({ "instance-id": instance }),
    )
}

pub fn health(instances: &[&str], category: &str, time: &str) -> String {
    let entities: Vec<_> = instances.iter().map(|i| json!({ "entityValue": i })).collect();
    let detail = json!({
        "eventArn": "arn:aws:health:eu-west-1::event/EC2/AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED/1",
        "service": "EC2",
        "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", "eventTypeCategory": category,
        "communicationId": "1",
        "statusCode": "upcoming", "startTime": "Fri, 06 Feb 2026 10:00:00 GMT",
        "affectedEntities": entities,
    });
    event("aws.health", "AWS Health Event", time, &detail)
}

/// Network maintenance, for which nobody drains a node.
pub fn network_maintenance(instances: &[&str], time: &str) -> String {
    let retirement = health(instances, "scheduledChange", time);
    retirement.replace("INSTANCE_RETIREMENT", "INSTANCE_NETWORK_MAINTENANCE")
}

/// A terminate action, with a token that AWS did not give: the instance id has to serve.
pub fn terminate(group: &str, hook: &str, instance: &str, time: &str) -> String {
    let detail = json!({
        "LifecycleActionToken": "00000000-0000-4000-8000-000000000000",
        "AutoScalingGroupName": group, "LifecycleHookName": hook,
        "EC2InstanceId": instance, "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
        "Origin": "AutoScalingGroup", "Destination": "EC2",
    });
    event("aws.autoscaling", "EC2 Instance-terminate Lifecycle Action", time, &detail)
}

/// A launch out of a warm pool that succeeded.
pub fn out_of_warm_pool(group: &str, instance: &str, time: &str) -> String {
    let detail = json!({
        "EC2InstanceId": instance, "AutoScalingGroupName": group, "Origin": "WarmPool",
        "Destination": "AutoScalingGroup"
    });
    event("aws.autoscaling", "EC2 Instance Launch Successful", time, &detail)
}

/// The envelope of SNS around a body.
pub fn in_sns(body: &str) -> String {
    json!({
        "Type": "Notification", "TopicArn": "arn:aws:sns:eu-west-1:123456789012:interruptions",
        "Message": body
    })
    .to_string()
}
