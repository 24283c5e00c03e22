//! Reads Nodes.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Deserializer};

use super::{Condition, KeepLabels, Text, moment, only, or_default};
use crate::domain::{
    Annotations, InstanceId, MAINTENANCE_PLANNED, Node, PREFIX, Ready, ShownMaintenance, Taint,
};

/// How much of the message of a condition is kept. Sundown's own are shorter.
const MAX_MESSAGE: usize = 1024;

#[derive(Deserialize)]
struct SlimNode<'a> {
    #[serde(borrow)]
    metadata: NodeMeta<'a>,
    #[serde(default, deserialize_with = "or_default")]
    spec: NodeSpec,
    #[serde(default, deserialize_with = "or_default")]
    status: NodeStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeMeta<'a> {
    name: String,
    uid: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default, deserialize_with = "or_default")]
    creation_timestamp: String,
    #[serde(default, borrow)]
    labels: Option<BTreeMap<Text<'a>, Text<'a>>>,
    #[serde(default, deserialize_with = "our_annotations")]
    annotations: Annotations,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    #[serde(rename = "providerID", deserialize_with = "or_default")]
    provider_id: String,
    #[serde(deserialize_with = "or_default")]
    unschedulable: bool,
    #[serde(deserialize_with = "or_default")]
    taints: Vec<Taint>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeStatus {
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "or_default")]
    addresses: Vec<Address>,
    #[serde(deserialize_with = "or_default")]
    node_info: NodeInfo,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeInfo {
    #[serde(rename = "bootID", deserialize_with = "or_default")]
    boot_id: String,
}

#[derive(Deserialize)]
struct Address {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

fn our_annotations<'de, D: Deserializer<'de>>(d: D) -> Result<Annotations, D::Error> {
    Ok(only(d, |key| key.starts_with(PREFIX))?.into_iter().collect())
}

fn shown(condition: &Condition) -> ShownMaintenance {
    ShownMaintenance {
        is_true: condition.status == "True",
        reason: condition.reason.chars().take(MAX_MESSAGE).collect(),
        message: condition.message.chars().take(MAX_MESSAGE).collect(),
    }
}

/// Reads a Node. Errs when one of its taints cannot be read, because a patch writes the whole list
/// back.
pub(in crate::cluster) fn node(json: &str, keep: &KeepLabels) -> Result<Node, serde_json::Error> {
    let SlimNode { metadata, spec, status } = serde_json::from_str(json)?;
    let address = |kind: &str| {
        status
            .addresses
            .iter()
            .find(|a| a.kind == kind && !a.address.is_empty())
            .map(|a| a.address.clone())
    };
    let condition = status.conditions.iter().find(|c| c.kind == "Ready");
    let ready = match condition.map(|c| c.status.as_str()) {
        Some("True") => Ready::True,
        Some("False") => Ready::False,
        _ => Ready::Unknown,
    };
    let labels =
        metadata.labels.into_iter().flatten().filter(|(Text(key), _)| keep.0.contains(&**key));
    let instance = InstanceId::from_provider_id(&spec.provider_id);
    Ok(Node {
        name: metadata.name.into(),
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        created: moment(&metadata.creation_timestamp),
        is_elsewhere: instance.is_none() && !spec.provider_id.is_empty(),
        instance,
        boot_id: Some(status.node_info.boot_id).filter(|id| !id.is_empty()),
        unschedulable: spec.unschedulable,
        taints: spec.taints,
        labels: Arc::new(
            labels.map(|(Text(key), Text(value))| (key.into_owned(), value.into_owned())).collect(),
        ),
        annotations: metadata.annotations,
        ready,
        ready_since: condition.and_then(|c| moment(&c.last_transition_time)),
        maintenance: status
            .conditions
            .iter()
            .find(|c| c.kind == MAINTENANCE_PLANNED)
            .map(shown)
            .map(Box::new),
        dns: address("InternalDNS").or_else(|| address("Hostname")),
        address: address("InternalIP"),
    })
}
