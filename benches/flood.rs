//! A queue full of what is for others.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;
use sundown::{
    domain::Moment,
    sim::{
        World,
        aws::{InstanceSpec, QueueSettings, SpotAction},
        kube::{PodShape, PodSpec},
    },
};

use crate::{
    bare::{Bare, Job, Messages},
    report::{Bar, Baseline, Figure},
    stage::{Stage, block_on, settings},
};

const MESSAGES: usize = 40_000;
const NODES: usize = 1000;

pub fn flood() -> Vec<Figure> {
    block_on(async {
        let foreign = foreign().await;
        let (known, patches) = known().await;
        vec![foreign, known, patches]
    })
}

/// Instances of another cluster.
pub fn strangers(world: &World) -> Vec<String> {
    let tags =
        || BTreeMap::from([("kubernetes.io/cluster/another".to_owned(), "owned".to_owned())]);
    (0..NODES)
        .map(|_| {
            world.aws.create_instance(InstanceSpec { tags: tags(), ..InstanceSpec::default() })
        })
        .collect()
}

/// Every kind is on.
const ALL_KINDS: [&str; 6] =
    ["--on", "rebalance=drain", "--on", "impaired=drain", "--then", "impaired=unhealthy"];

/// A message about an instance of another cluster: a spot notice, a hook that is not ours, an end,
/// a recommendation, a launch, a scheduled change, a capacity warning, a Capacity Block, and a launch
/// out of a warm pool.
pub fn body(i: usize, instance: &str) -> String {
    let end = "2027-12-01T09:00:00Z";
    let (source, kind, detail) = match i % 12 {
        0 => (
            "aws.autoscaling",
            "EC2 Instance-terminate Lifecycle Action",
            json!({
                "LifecycleActionToken": "87654321-4321-4321-4321-210987654321",
                "AutoScalingGroupName": "elsewhere",
                "LifecycleHookName": "Terminate-LC-Hook", "EC2InstanceId": instance,
                "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
                "Origin": "AutoScalingGroup", "Destination": "EC2",
            }),
        ),
        1 => (
            "aws.ec2",
            "EC2 Instance State-change Notification",
            json!({"instance-id": instance, "state": "shutting-down"}),
        ),
        5 => ("aws.ec2", "EC2 Instance Rebalance Recommendation", json!({"instance-id": instance})),
        3 => (
            "aws.autoscaling",
            "EC2 Instance-launch Lifecycle Action",
            json!({
                "LifecycleActionToken": "87654321-4321-4321-4321-210987654321",
                "AutoScalingGroupName": "elsewhere", "LifecycleHookName": "launch",
                "EC2InstanceId": instance,
                "LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING",
                "Origin": "EC2", "Destination": "AutoScalingGroup",
            }),
        ),
        4 => (
            "aws.health",
            "AWS Health Event",
            json!({
                "eventArn": format!("arn:aws:health:eu-west-1::event/EC2/RETIREMENT/{i}"),
                "service": "EC2", "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
                "eventTypeCategory": "scheduledChange", "eventScopeCode": "ACCOUNT_SPECIFIC",
                "statusCode": "upcoming", "affectedAccount": "123456789012",
                "startTime": "Wed, 1 Dec 2027 09:00:00 GMT",
                "affectedEntities": [{ "entityValue": instance, "status": "PENDING" }],
            }),
        ),
        6 => (
            "aws.ec2",
            "EC2 Capacity Reservation Instance Interruption Warning",
            json!({
                "instance-id": instance, "instance-action": "terminate",
                "instance-termination-time": end,
            }),
        ),
        7 => (
            "aws.ec2",
            "Capacity Block Expiration Warning",
            json!({ "capacity-reservation-id": "cr-0123456789abcdef0", "end-date": end }),
        ),
        9 => (
            "aws.autoscaling",
            "EC2 Instance Launch Successful",
            json!({
                "AutoScalingGroupName": "elsewhere", "EC2InstanceId": instance,
                "Origin": "WarmPool", "Destination": "AutoScalingGroup",
            }),
        ),
        _ => (
            "aws.ec2",
            "EC2 Spot Instance Interruption Warning",
            json!({"instance-id": instance, "instance-action": "terminate"}),
        ),
    };
    let event = json!({
        "version": "0", "id": format!(
            "12345678-1234-1234-1234-{i:012}"
        ), "detail-type": kind, "source": source, "account": "123456789012",
        "time": Moment::from(jiff::Timestamp::now()).strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "region": "eu-west-1", "resources": [], "detail": detail,
    });
    event.to_string()
}

/// From the first receive to the last delete.
pub fn span(world: &World, from: Moment) -> f64 {
    let calls = world.aws.calls();
    let first = calls.iter().find(|c| c.at >= from && c.api == "sqs:ReceiveMessage").unwrap().at;
    let last = calls.iter().rev().find(|c| c.api == "sqs:DeleteMessageBatch").unwrap().at;
    last.since_or_zero(first).as_secs_f64()
}

async fn emptied(stage: &Stage, queue: &str, from: u64) {
    let batches = from + (MESSAGES / 10) as u64;
    stage
        .until("nearly all batches are deleted", || {
            stage.world.aws.count("sqs:DeleteMessageBatch") >= batches
        })
        .await;
    stage
        .until("the queue is empty", || {
            stage.world.aws.queue(queue).is_some_and(|q| q.visible + q.in_flight == 0)
        })
        .await;
}

async fn foreign() -> Figure {
    let stage = Stage::new("flood", settings()).await;
    // What a foreign message costs must not grow with the cluster.
    stage.spot_group(5000);
    let strangers = strangers(&stage.world);
    let bare = receive_all(&stage, &strangers).await;
    let (from, batches) = (stage.clock.now(), stage.world.aws.count("sqs:DeleteMessageBatch"));
    for i in 0..MESSAGES {
        stage.world.aws.send_event(stage.world.queue(), &body(i, &strangers[i % NODES]));
    }
    let service = stage.replica_with("sundown", &ALL_KINDS);
    emptied(&stage, stage.world.queue(), batches).await;
    let rate = MESSAGES as f64 / span(&stage.world, from);
    drop(service);
    Figure {
        name: "flood",
        what: format!(
            "{MESSAGES} messages of nine kinds about {NODES} instances of another cluster, with \
             every kind on, decided and deleted"
        ),
        measured: rate.into(),
        unit: "/s",
        bar: Bar::Least(10_000.0),
        ratio: Bar::Least(0.36),
        baseline: Some(Baseline {
            what: "received and deleted by a bare client, 16 of each at once",
            value: bare,
            floor: Bar::Least(8_000.0),
        }),
    }
}

/// The queue alone: what the SDK and the server need to receive and delete.
async fn receive_all(stage: &Stage, strangers: &[String]) -> f64 {
    let queue = stage.world.aws.create_queue("bare", QueueSettings::default());
    for i in 0..MESSAGES {
        stage.world.aws.send_event("bare", &body(i, &strangers[i % NODES]));
    }
    let bare =
        Bare::start(Job::Messages(Messages { endpoint: stage.aws_url(), queue, delete: true }))
            .await;
    let from = stage.clock.now();
    bare.run().await;
    MESSAGES as f64 / span(&stage.world, from)
}

/// A third of the messages is about nodes that are drained already.
async fn known() -> (Figure, Figure) {
    let stage = Stage::new("known", settings()).await;
    let ours = stage.spot_group(NODES);
    // They go slowly, so that no end of a drain is written meanwhile.
    let slow = Some(Duration::from_mins(2));
    for (instance, node) in stage.world.nodes() {
        let shape = PodShape { grace: slow, stop: slow, ..PodShape::default() };
        stage
            .world
            .kube
            .add_pod(&PodSpec::on(&node, "shop", format!("slow-{instance}")).shape(shape));
    }
    let strangers = strangers(&stage.world);
    let bare = receive_all(&stage, &strangers).await;
    let service = stage.service().await;
    let begun = stage.clock.now();
    for instance in &ours {
        stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
    }
    stage.until("every notice is accepted", || stage.in_queue() == 0).await;
    let evictions = || stage.asked(begun).iter().filter(|r| r.subresource == "eviction").count();
    stage.until("every pod is asked to go", || evictions() >= NODES).await;
    assert_eq!(stage.records(), NODES, "every notice is on its Node");
    let (from, batches) = (stage.clock.now(), stage.world.aws.count("sqs:DeleteMessageBatch"));
    for i in 0..MESSAGES {
        let (kind, instances) = if i % 3 == 0 { (2, &ours) } else { (i, &strangers) };
        stage.world.aws.send_event(stage.world.queue(), &body(kind, &instances[i % NODES]));
    }
    emptied(&stage, stage.world.queue(), batches).await;
    let patches =
        stage.asked(from).iter().filter(|r| r.verb == "patch" && r.resource == "nodes").count();
    drop(service);
    let rate = Figure {
        name: "flood-known",
        what: format!(
            "{MESSAGES} messages sent while it runs, a third of them repeats for {NODES} nodes \
             that are being drained"
        ),
        measured: (MESSAGES as f64 / span(&stage.world, from)).into(),
        unit: "/s",
        bar: Bar::None,
        ratio: Bar::Least(0.39),
        baseline: Some(Baseline {
            what: "received and deleted by a bare client, 16 of each at once",
            value: bare,
            floor: Bar::Least(8_000.0),
        }),
    };
    let patches = Figure {
        name: "flood-known-patches",
        what: "PATCHes of Nodes for these repeats".to_owned(),
        measured: (patches as f64).into(),
        unit: "calls",
        bar: Bar::Most(0.0),
        ratio: Bar::None,
        baseline: None,
    };
    (rate, patches)
}
