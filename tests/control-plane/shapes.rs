//! Every shape in which AWS reports that an instance goes, each alone on a queue of ours.

use std::time::Duration;

use serde_json::{Value, json};
use sundown::sim::aws::{
    Envelope, EventKind, GroupSpec, HealthNotice, HookResult, HookSpec, QueueSettings, Rule,
    SpotAction, State,
};

use crate::{
    budgets::continued,
    cluster::ADMIN,
    objects::Pods,
    process::Process,
    stage::{Stage, node_name},
};

/// Where AWS writes; nobody receives there. The test brings one message at a time to the queue of
/// ours.
const PLAIN: &str = "sundown";
const SNS: &str = "fan";
const NATIVE: &str = "native";
const NATIVE_SNS: &str = "native-sns";
const OURS: &str = "ours";

/// A group whose hook notifies a queue in the native shape.
async fn native(stage: &Stage, queue: &str, envelope: Envelope, nodes: usize) -> Vec<String> {
    let heartbeat_timeout = Duration::from_mins(5);
    let hook = HookSpec {
        heartbeat_timeout,
        default_result: HookResult::Continue,
        notify_queue: Some(queue.to_owned()),
        notify_envelope: envelope,
        ..HookSpec::terminating("drain")
    };
    stage
        .join(
            stage.world.add_group(
                GroupSpec { replace_after: None, ..GroupSpec::new(queue, nodes) },
                &[hook],
            ),
        )
        .await
}

/// What AWS has written to a queue about an instance, as far as these words are in it.
fn written(stage: &Stage, queue: &str, instance: &str, words: &str) -> String {
    let messages = stage.world.aws.queue(queue).unwrap().messages;
    let about: Vec<_> =
        messages.iter().filter(|m| m.body.contains(instance) && m.body.contains(words)).collect();
    assert!(
        about.len() == 1,
        "{} messages about {instance} with «{words}» in {queue}",
        about.len()
    );
    about[0].body.to_string()
}

fn deliver(stage: &Stage, body: &str) {
    assert!(!stage.world.aws.send_event(OURS, body).is_empty(), "the queue is there");
}

struct Scene {
    stage: Stage,
    sundown: Process,
    hooked: Vec<String>,
    native: Vec<String>,
    native_sns: Vec<String>,
    spot: Vec<String>,
}

impl Scene {
    async fn set() -> Option<Self> {
        use EventKind as K;
        let stage = Stage::new(25).await?;
        stage.alone().await;
        for queue in [SNS, NATIVE, NATIVE_SNS, OURS] {
            stage.world.aws.create_queue(queue, QueueSettings::default());
        }
        stage.world.aws.route(
            Rule::of(SNS, [K::TerminateAction, K::SpotWarning, K::CapacityWarning, K::StateChange])
                .through_sns(),
        );
        let hooked = stage.group(2).await;
        let native_sns = native(&stage, NATIVE_SNS, Envelope::Sns, 1).await;
        let native = native(&stage, NATIVE, Envelope::Plain, 2).await;
        let spot = stage.spot_group(9).await;
        let instances: Vec<_> = [&hooked[..], &native, &native_sns, &spot].concat();
        for instance in &instances {
            stage
                .put("default", &Pods::of("guest").pod(&guest(instance), &node_name(instance)))
                .await;
        }
        for instance in &instances {
            let path = format!("/api/v1/namespaces/default/pods/{}", guest(instance));
            stage.until("it runs", &path, |p| p["status"]["phase"] == "Running").await;
        }
        allow_maintenance(&stage).await;
        let url = stage.world.aws.queue_url(OURS);
        let flags = ["--queue-url", &url, "--maintenance-condition"];
        let sundown = stage.leader("sundown", &flags).await;
        Some(Self { stage, sundown, hooked, native, native_sns, spot })
    }

    /// The Node's record shows that the drain is over; the pod on it was evicted, once, or not at
    /// all.
    async fn is_drained(&self, instance: &str, evicts: bool) {
        let path = format!("/api/v1/nodes/{}", node_name(instance));
        let released = |n: &Value| {
            n["metadata"]["annotations"]["sundown.dev/record"]
                .as_str()
                .is_some_and(|r| r.contains("\"released\""))
        };
        let node = self.stage.until("its drain is over", &path, released).await;
        assert_eq!(node["spec"]["unschedulable"], true);
        let evictions: Vec<_> =
            self.stage.evictions("default", &guest(instance)).iter().map(|c| c.code).collect();
        assert_eq!(evictions, if evicts { vec![201] } else { vec![] }, "{instance}");
        assert_eq!(self.stage.pods_on(&node_name(instance), "default").await.is_empty(), evicts);
    }

    async fn counted(&mut self, kind: &str, outcome: &str, count: f64) {
        self.sundown
            .counts(&format!("messages_total{{kind=\"{kind}\",outcome=\"{outcome}\"}}"), count)
            .await;
    }
}

fn guest(instance: &str) -> String {
    format!("guest-{instance}")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_shape_of_an_interruption_drains_its_node() {
    let Some(mut scene) = Scene::set().await else { return };
    let (aws, stage) = (scene.stage.world.aws.clone(), &scene.stage);

    let hooked: Vec<_> = [&scene.hooked[..], &scene.native, &scene.native_sns].concat();
    for instance in &hooked {
        aws.terminate(instance, true);
    }
    let action = "Lifecycle Action";
    deliver(stage, &written(stage, PLAIN, &scene.hooked[0], action));
    deliver(stage, &written(stage, SNS, &scene.hooked[1], action));
    let bare = written(stage, NATIVE, &scene.native[0], "LifecycleTransition");
    assert!(!bare.contains("detail-type"), "{bare}");
    deliver(stage, &bare);
    // As a fan-out of one's own may wrap it.
    deliver(
        stage,
        &json!({ "Message": written(stage, NATIVE, &scene.native[1], "LifecycleTransition") })
            .to_string(),
    );
    deliver(stage, &written(stage, NATIVE_SNS, &scene.native_sns[0], "LifecycleTransition"));

    let spot = &scene.spot;
    for (instance, how) in [(&spot[0], SpotAction::Terminate), (&spot[1], SpotAction::Stop)] {
        aws.spot_interruption(instance, how);
    }
    aws.capacity_interruption(&spot[2]);
    for (instance, state) in [
        (&spot[3], State::ShuttingDown),
        (&spot[4], State::Stopping),
        (&spot[5], State::Stopped),
        (&spot[6], State::Terminated),
    ] {
        aws.state_change_event(instance, state);
    }
    deliver(stage, &written(stage, PLAIN, &spot[0], "Interruption Warning"));
    deliver(stage, &written(stage, SNS, &spot[1], "Interruption Warning"));
    deliver(stage, &written(stage, PLAIN, &spot[2], "Interruption Warning"));
    for (instance, queue) in
        [(&spot[3], PLAIN), (&spot[4], SNS), (&spot[5], PLAIN), (&spot[6], SNS)]
    {
        deliver(stage, &written(stage, queue, instance, "State-change"));
    }

    for instance in &hooked {
        continued(stage, instance).await;
        scene.is_drained(instance, true).await;
    }
    for (n, instance) in spot[..7].iter().enumerate() {
        // What is stopped or terminated already runs no pods to evict.
        scene.is_drained(instance, n < 5).await;
    }
    stage.assert_polite();
    for (kind, count) in [
        ("terminate-hook", 5.0),
        ("spot", 1.0),
        ("spot-stop", 1.0),
        ("capacity-reservation", 1.0),
        ("state-change", 4.0),
    ] {
        scene.counted(kind, "accepted", count).await;
    }
    nothing_else_touches_a_node(&mut scene).await;
}

/// The role that the chart makes with `rbac.maintenanceCondition`: it is not in deploy/manifests.
async fn allow_maintenance(stage: &Stage) {
    allow_node_conditions(stage, "sundown-maintenance").await;
}

/// A role that allows to patch the status of Nodes.
pub(crate) async fn allow_node_conditions(stage: &Stage, name: &str) {
    let api = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": name },
        "rules": [{ "apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"] }],
    });
    stage.create(&format!("{api}/clusterroles"), &role).await;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": name },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": "sundown", "namespace": "sundown" }],
    });
    stage.create(&format!("{api}/clusterrolebindings"), &binding).await;
}

/// The conditions of a Node, without the times at which their writers last confirmed them, and
/// without those that Sundown sets.
pub(crate) fn other_conditions(node: &Value) -> Vec<Value> {
    let all = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ours = ["MaintenancePlanned", "DrainInProgress", "Drained"];
    let others = all.into_iter().filter(|c| ours.iter().all(|ours| c["type"] != **ours));
    let without_time = others.map(|mut condition| {
        condition.as_object_mut().unwrap().remove("lastHeartbeatTime");
        condition
    });
    without_time.collect()
}

/// Gives a Node a condition of another writer, and returns all that it has then.
pub(crate) async fn with_foreign_condition(stage: &Stage, instance: &str) -> Vec<Value> {
    let path = format!("/api/v1/nodes/{}/status", node_name(instance));
    let foreign = json!({
        "type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated",
        "message": "by another writer", "lastTransitionTime": "2026-01-01T00:00:00Z"
    });
    let patch = json!({ "status": { "conditions": [foreign] } });
    let request = http::Request::patch(&path)
        .header("content-type", "application/strategic-merge-patch+json")
        .body(serde_json::to_vec(&patch).unwrap())
        .unwrap();
    let node = stage.cluster.client(ADMIN).request::<Value>(request).await.unwrap();
    let conditions = other_conditions(&node);
    for kind in ["Ready", "NetworkUnavailable"] {
        assert!(conditions.iter().any(|c| c["type"] == kind), "{kind}: {conditions:?}");
    }
    conditions
}

/// The announcement has added the condition `MaintenancePlanned`, and changed no other.
async fn only_maintenance_is_added(stage: &Stage, instance: &str, before: &[Value]) {
    let path = format!("/api/v1/nodes/{}", node_name(instance));
    let is_announced = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array();
        conditions.is_some_and(|all| {
            all.iter().any(|c| c["type"] == "MaintenancePlanned" && c["status"] == "True")
        })
    };
    let node = stage.until("its maintenance is announced", &path, is_announced).await;
    assert_eq!(other_conditions(&node), before);
}

/// A recommendation only taints its node. What is understood and not acted on is deleted; what is
/// no event is left.
async fn nothing_else_touches_a_node(scene: &mut Scene) {
    let (aws, stage) = (scene.stage.world.aws.clone(), &scene.stage);
    let idle = &scene.spot[7..];
    let before = stage.node(&idle[1]).await["spec"].clone();
    aws.rebalance_recommendation(&idle[0]);
    deliver(stage, &written(stage, PLAIN, &idle[0], "Rebalance"));
    // Its drain begins an hour before its start.
    let now: sundown::domain::Moment = jiff::Timestamp::now().into();
    let start = now.plus(std::time::Duration::from_hours(48));
    let conditions = with_foreign_condition(stage, &idle[1]).await;
    aws.health(&HealthNotice::retirement([idle[1].clone()], start));
    deliver(stage, &written(stage, PLAIN, &idle[1], "AWS Health Event"));
    let test = "autoscaling:TEST_NOTIFICATION";
    let notification = json!({
        "AccountId": "123456789012", "RequestId": "1", "AutoScalingGroupName": "asg", "Event": test,
        "Service": "AWS Auto Scaling", "Time": jiff::Timestamp::now().to_string() });
    deliver(stage, &notification.to_string());
    deliver(
        stage,
        &json!({ "Type": "Notification", "Message": notification.to_string() }).to_string(),
    );
    deliver(stage, &json!({ "instance": idle[0], "please": "drain it" }).to_string());
    scene.counted("rebalance", "accepted", 1.0).await;
    scene.counted("scheduled-change", "planned", 1.0).await;
    only_maintenance_is_added(&scene.stage, &scene.spot[8], &conditions).await;
    scene.counted("none", "test", 2.0).await;
    scene.sundown.counts("rejected_bodies_total{reason=\"other_shape\"}", 1.0).await;
    let in_queue = || scene.stage.world.aws.queue(OURS).unwrap().messages.len();
    scene.stage.holds("only what is not understood is left", async || in_queue() == 1).await;
    let recommended = scene.stage.node(&scene.spot[7]).await["spec"].clone();
    let taints = json!([{
        "key": "sundown.dev/interruption", "value": "rebalance", "effect": "PreferNoSchedule"
    }]);
    assert_eq!((&recommended["taints"], &recommended["unschedulable"]), (&taints, &json!(null)));
    assert_eq!(scene.stage.node(&scene.spot[8]).await["spec"], before);
}
