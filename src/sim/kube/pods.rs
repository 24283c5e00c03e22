//! Pods as JSON: built from what scenarios specify, and with the server's defaults filled in.

use serde_json::{Map, Value, json};

use super::{
    build::{PodShape, PodSpec, PodState},
    json::{Look, seconds, span, span_text},
};
use crate::domain::Moment;

/// Annotations that set how a pod behaves; durations are in seconds, or `never`.
pub(super) const START: &str = "sim.sundown.dev/start";
pub(super) const READY: &str = "sim.sundown.dev/ready";
pub(super) const STOP: &str = "sim.sundown.dev/stop";
pub(super) const RUNS_FOR: &str = "sim.sundown.dev/runs-for";

/// How long something takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Time(std::time::Duration),
    Forever,
    /// As long as everywhere in the cluster.
    Usual,
}

/// How long something takes, by an annotation of the pod.
pub(super) fn takes(pod: &Value, annotation: &str) -> Takes {
    match pod.annotation(annotation) {
        None => Takes::Usual,
        Some(text) => span(text).map_or(Takes::Forever, Takes::Time),
    }
}

/// A pod template: labels, annotations, spec.
pub(super) fn template(shape: &PodShape, app: &str) -> Value {
    let mut labels = shape.labels.clone();
    labels.entry("app".into()).or_insert_with(|| app.into());
    let mut notes: Map<String, Value> =
        shape.annotations.iter().map(|(k, v)| (k.clone(), v.as_str().into())).collect();
    let mut say = |key: &str, text: Option<String>| {
        if let Some(text) = text {
            notes.insert(key.into(), text.into());
        }
    };
    say(START, shape.start.map(span_text));
    say(READY, if shape.never_ready { Some("never".into()) } else { shape.ready.map(span_text) });
    say(STOP, if shape.stuck { Some("never".into()) } else { shape.stop.map(span_text) });
    say(RUNS_FOR, shape.runs_for.map(span_text));
    let mut container =
        json!({ "name": "main", "image": format!("registry.example/{app}:1"), "resources": {} });
    if shape.kib > 0 {
        let env = (0..shape.kib * 1024 / 96)
            .map(|i| json!({ "name": format!("SETTING_{i:04}"), "value": format!("{i:060}") }));
        container.put("env", env.collect::<Vec<_>>());
    }
    let mut spec = json!({
        "containers": [container],
        "terminationGracePeriodSeconds": shape.grace.map_or(30, |g| g.as_secs())
    });
    if !shape.claims.is_empty() {
        let volume = |claim: &String| json!({ "name": claim, "persistentVolumeClaim": { "claimName": claim } });
        spec.put("volumes", shape.claims.iter().map(volume).collect::<Vec<_>>());
    }
    if !shape.tolerations.is_empty() {
        spec.put("tolerations", shape.tolerations.clone());
    }
    if !shape.node_selector.is_empty() {
        spec.put("nodeSelector", json!(shape.node_selector));
    }
    if let Some(priority) = shape.priority {
        spec.put("priority", priority);
    }
    let mut metadata = json!({ "labels": labels });
    if !notes.is_empty() {
        metadata.put("annotations", notes);
    }
    if !shape.finalizers.is_empty() {
        metadata.put("finalizers", shape.finalizers.clone());
    }
    json!({ "metadata": metadata, "spec": spec })
}

/// A pod from a template.
pub(super) fn from_template(template: &Value, namespace: &str) -> Value {
    let mut pod = json!({ "metadata": template.at("metadata"), "spec": template.at("spec") });
    pod.put("metadata.namespace", namespace);
    pod
}

/// A pod that a scenario puts there.
pub(super) fn by_hand(spec: &PodSpec, uid_of_owner: &str, now: Moment) -> Value {
    let mut shape = spec.shape.clone();
    if spec.state == PodState::StuckPending {
        shape.annotations.insert(START.into(), "never".into());
    }
    let mut pod = from_template(&template(&shape, &spec.name), &spec.namespace);
    pod.put("metadata.name", spec.name.as_str());
    if let Some(node) = &spec.node {
        pod.put("spec.nodeName", node.as_str());
        pod.set_condition("PodScheduled", "True", "", "", now);
    }
    if spec.mirror {
        let mut notes = pod.at("metadata.annotations").as_object().cloned().unwrap_or_default();
        notes.insert("kubernetes.io/config.mirror".into(), "0123456789abcdef".into());
        notes.insert("kubernetes.io/config.source".into(), "file".into());
        pod.put("metadata.annotations", notes);
        let node = spec.node.clone().unwrap_or_default();
        pod.put(
            "metadata.ownerReferences",
            json!([{
                "apiVersion": "v1", "kind": "Node", "name": node, "uid": node, "controller": true
            }]),
        );
    }
    if let Some((api_version, kind, name)) = &spec.owner {
        let owner = json!([{
            "apiVersion": api_version, "kind": kind, "name": name, "uid": uid_of_owner,
            "controller": true
        }]);
        pod.put("metadata.ownerReferences", owner);
    }
    match spec.state {
        PodState::New | PodState::StuckPending => {}
        PodState::Ready => set_running(&mut pod, true, now),
        PodState::NotReady => set_running(&mut pod, false, now),
        PodState::Succeeded => set_finished(&mut pod, true, now),
        PodState::Failed => set_finished(&mut pod, false, now),
    }
    pod
}

/// Running, ready or not.
pub(super) fn set_running(pod: &mut Value, ready: bool, now: Moment) {
    let word = if ready { "True" } else { "False" };
    let reason = if ready { "" } else { "ContainersNotReady" };
    pod.put("status.phase", "Running");
    if pod.text("status.startTime").is_empty() {
        pod.put("status.startTime", seconds(now));
    }
    pod.set_condition("Initialized", "True", "", "", now);
    pod.set_condition("Ready", word, reason, "", now);
    pod.set_condition("ContainersReady", word, reason, "", now);
    let containers = pod.items("spec.containers").iter().map(|c| {
        json!({
            "name": c.at("name"), "image": c.at("image"), "ready": ready, "started": true,
            "restartCount": 0,
            "state": { "running": { "startedAt": seconds(now) } } })
    });
    let containers = containers.collect::<Vec<_>>();
    pod.put("status.containerStatuses", containers);
}

/// Finished, well or badly.
pub(super) fn set_finished(pod: &mut Value, well: bool, now: Moment) {
    let (phase, code) = if well { ("Succeeded", 0) } else { ("Failed", 137) };
    pod.put("status.phase", phase);
    pod.set_condition("Ready", "False", "PodCompleted", "", now);
    pod.set_condition("ContainersReady", "False", "PodCompleted", "", now);
    let containers = pod.items("spec.containers").iter().map(|c| {
        json!({
            "name": c.at("name"), "image": c.at("image"), "ready": false, "started": false,
            "restartCount": 0,
            "state": {
                "terminated": {
                    "exitCode": code, "reason": if well { "Completed" } else { "Error" },
                    "finishedAt": seconds(now)
                }
            } })
    });
    let containers = containers.collect::<Vec<_>>();
    pod.put("status.containerStatuses", containers);
}

/// What the server and its admission fill in.
pub(super) fn fill_in(pod: &mut Value) {
    let defaults = [
        ("spec.restartPolicy", "Always"),
        ("spec.schedulerName", "default-scheduler"),
        ("spec.dnsPolicy", "ClusterFirst"),
        ("spec.serviceAccountName", "default"),
        ("status.phase", "Pending"),
        ("status.qosClass", "BestEffort"),
    ];
    for (path, value) in defaults {
        if pod.at(path).is_null() {
            pod.put(path, value);
        }
    }
    if pod.at("spec.terminationGracePeriodSeconds").is_null() {
        pod.put("spec.terminationGracePeriodSeconds", 30);
    }
    // Admission DefaultTolerationSeconds.
    let mut tolerations = pod.items("spec.tolerations").to_vec();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let taint = json!({ "key": key, "effect": "NoExecute" });
        if !tolerations.iter().any(|t| tolerates(t, &taint)) {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300
            }));
        }
    }
    pod.put("spec.tolerations", tolerations);
}

/// Whether a toleration bears a taint (component-helpers: core/v1/toleration.go).
pub(super) fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let (effect, key) = (toleration.text("effect"), toleration.text("key"));
    if !effect.is_empty() && effect != taint.text("effect")
        || !key.is_empty() && key != taint.text("key")
    {
        return false;
    }
    match toleration.text("operator") {
        "Exists" => true,
        "" | "Equal" => !key.is_empty() && toleration.text("value") == taint.text("value"),
        _ => false,
    }
}

/// Whether one of a pod's tolerations bears a taint.
pub(super) fn bears(pod_spec: &Value, taint: &Value) -> bool {
    pod_spec.items("tolerations").iter().any(|t| tolerates(t, taint))
}
