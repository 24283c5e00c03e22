//! Tables for `kubectl get`.

use serde_json::{Value, json};

use super::json::{Look, age};
use crate::domain::Moment;

/// What a row shows of its object besides the cells: `includeObject` of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Include {
    None,
    Metadata,
    /// What `kubectl get --sort-by` asks for.
    Object,
}

impl Include {
    /// By the words of the API ("TableOptions").
    pub(super) fn of(word: &str) -> Self {
        match word {
            "Object" => Self::Object,
            "None" => Self::None,
            _ => Self::Metadata,
        }
    }
}

/// A table of objects of one resource.
pub(super) fn table(
    plural: &str,
    objects: &[Value],
    metadata: &Value,
    include: Include,
    now: Moment,
) -> Value {
    let columns: Vec<Value> = headings(plural)
        .iter()
        .map(|name| {
            let format = if *name == "Name" { "name" } else { "" };
            let numbers = ["Allowed Disruptions", "Up-to-date", "Available", "Desired", "Current"];
            let number = numbers.contains(name)
                || (*name == "Ready" && matches!(plural, "daemonsets" | "replicasets"));
            json!({
                "name": name, "type": if number { "integer" } else { "string" }, "format": format,
                "description": "", "priority": 0
            })
        })
        .collect();
    let rows: Vec<Value> = objects
        .iter()
        .map(|o| match include {
            Include::None => json!({ "cells": cells(plural, o, now), "object": null }),
            Include::Object => json!({ "cells": cells(plural, o, now), "object": o }),
            Include::Metadata => json!({ "cells": cells(plural, o, now),
                "object": {
                    "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                    "metadata": o.at("metadata")
                } }),
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": columns, "rows": rows
    })
}

fn headings(plural: &str) -> &'static [&'static str] {
    match plural {
        "nodes" => &["Name", "Status", "Roles", "Age", "Version"],
        "pods" => &["Name", "Ready", "Status", "Restarts", "Age", "Node"],
        "poddisruptionbudgets" => {
            &["Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"]
        }
        "deployments" => &["Name", "Ready", "Up-to-date", "Available", "Age"],
        "statefulsets" => &["Name", "Ready", "Age"],
        "daemonsets" | "replicasets" => &["Name", "Desired", "Current", "Ready", "Age"],
        "events" => &["Last Seen", "Type", "Reason", "Object", "Message"],
        "leases" => &["Name", "Holder", "Age"],
        "namespaces" => &["Name", "Status", "Age"],
        _ => &["Name", "Age"],
    }
}

fn cells(plural: &str, o: &Value, now: Moment) -> Vec<Value> {
    let text = |path: &str| Value::from(o.text(path));
    let name = text("metadata.name");
    let old = Value::from(age(now, o.text("metadata.creationTimestamp")));
    let int = |path: &str| Value::from(o.int(path));
    let of = |part: &str, whole: &str| Value::from(format!("{}/{}", o.int(part), o.int(whole)));
    match plural {
        "nodes" => vec![
            name,
            node_status(o).into(),
            "<none>".into(),
            old,
            text("status.nodeInfo.kubeletVersion"),
        ],
        "pods" => {
            let all = o.items("status.containerStatuses");
            let ready = all.iter().filter(|c| c.at("ready").as_bool() == Some(true)).count();
            let node = Some(o.text("spec.nodeName")).filter(|n| !n.is_empty()).unwrap_or("<none>");
            let ready = format!("{ready}/{}", o.items("spec.containers").len());
            vec![name, ready.into(), pod_status(o).into(), "0".into(), old, node.into()]
        }
        "poddisruptionbudgets" => {
            let or_none = |v: &Value| match v {
                Value::Null => "N/A".to_owned(),
                Value::String(s) => s.clone(),
                other => other.to_string(),
            };
            let (min, max) =
                (or_none(o.at("spec.minAvailable")), or_none(o.at("spec.maxUnavailable")));
            vec![name, min.into(), max.into(), int("status.disruptionsAllowed"), old]
        }
        "deployments" => {
            vec![
                name,
                of("status.readyReplicas", "spec.replicas"),
                int("status.updatedReplicas"),
                int("status.availableReplicas"),
                old,
            ]
        }
        "statefulsets" => vec![name, of("status.readyReplicas", "spec.replicas"), old],
        "replicasets" => vec![
            name,
            int("spec.replicas"),
            int("status.replicas"),
            int("status.readyReplicas"),
            old,
        ],
        "daemonsets" => {
            vec![
                name,
                int("status.desiredNumberScheduled"),
                int("status.currentNumberScheduled"),
                int("status.numberReady"),
                old,
            ]
        }
        "events" => event_cells(o, now).into_iter().map(Value::from).collect(),
        "leases" => vec![name, text("spec.holderIdentity"), old],
        "namespaces" => vec![name, text("status.phase"), old],
        _ => vec![name, old],
    }
}

fn node_status(node: &Value) -> String {
    let ready = match node.condition("Ready") {
        "True" => "Ready",
        "" => "Unknown",
        _ => "NotReady",
    };
    let cordoned = node.at("spec.unschedulable").as_bool() == Some(true);
    if cordoned { format!("{ready},SchedulingDisabled") } else { ready.to_owned() }
}

fn pod_status(pod: &Value) -> String {
    match pod.text("status.phase") {
        _ if !pod.at("metadata.deletionTimestamp").is_null() => "Terminating",
        "Succeeded" => "Completed",
        "Failed" => "Error",
        other => other,
    }
    .to_owned()
}

fn event_cells(event: &Value, now: Moment) -> Vec<String> {
    // Both groups' names for the same fields.
    let either = |a: &'static str, b: &'static str| {
        Some(event.text(a)).filter(|t| !t.is_empty()).unwrap_or_else(|| event.text(b)).to_owned()
    };
    let last = [
        either("lastTimestamp", "deprecatedLastTimestamp"),
        either("series.lastObservedTime", "eventTime"),
    ];
    let last = last.into_iter().find(|t| !t.is_empty()).unwrap_or_default();
    let object = format!(
        "{}/{}",
        either("involvedObject.kind", "regarding.kind").to_lowercase(),
        either("involvedObject.name", "regarding.name")
    );
    vec![
        age(now, &last),
        event.text("type").into(),
        event.text("reason").into(),
        object,
        either("message", "note"),
    ]
}
