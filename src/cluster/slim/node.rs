//! Reads Nodes.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

use super::{Condition, KeepLabels, Text, moment, or_default};
use crate::domain::{
    Annotations, DRAIN_IN_PROGRESS, DRAINED, DrainRequest, GateKind, InstanceId,
    MAINTENANCE_PLANNED, Node, NodeGates, NodeRequests, PREFIX, Ready, ShownCondition, ShownDrain,
    ShownMaintenance, Taint,
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
    #[serde(default)]
    annotations: OurAnnotations,
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

/// The annotations that Sundown uses. All others are skipped.
#[derive(Default)]
struct OurAnnotations {
    /// Those whose keys start with [`PREFIX`].
    ours: Annotations,
    gates: NodeGates,
    requests: NodeRequests,
}

impl<'de> Deserialize<'de> for OurAnnotations {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = OurAnnotations;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(OurAnnotations::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut ours, mut gates) = (BTreeMap::<String, String>::new(), NodeGates::default());
        let mut requests = NodeRequests::default();
        while let Some(Text(key)) = map.next_key::<Text<'de>>()? {
            if key.starts_with(PREFIX) {
                ours.insert(key.into_owned(), map.next_value()?);
            } else if GateKind::of_key(&key).is_some() {
                gates.add(&key, &map.next_value::<Text<'de>>()?.0);
            } else if DrainRequest::name_of_key(&key).is_some() {
                requests.add(&key, &map.next_value::<Text<'de>>()?.0);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(OurAnnotations { ours: ours.into_iter().collect(), gates, requests })
    }
}

fn shown(condition: &Condition) -> ShownMaintenance {
    ShownMaintenance {
        is_true: condition.status == "True",
        reason: condition.reason.chars().take(MAX_MESSAGE).collect(),
        message: condition.message.chars().take(MAX_MESSAGE).collect(),
    }
}

fn shown_drain(conditions: &[Condition]) -> Option<Box<ShownDrain>> {
    let shown = |kind: &str| {
        conditions.iter().find(|c| c.kind == kind).map(|condition| {
            let ShownMaintenance { is_true, reason, message } = shown(condition);
            let written = moment(&condition.last_heartbeat_time);
            ShownCondition { is_true, reason, message, written }
        })
    };
    let drain = ShownDrain { in_progress: shown(DRAIN_IN_PROGRESS), drained: shown(DRAINED) };
    (drain != ShownDrain::default()).then(|| Box::new(drain))
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
        labels: Arc::new(keep.of_labels(metadata.labels.unwrap_or_default())),
        annotations: metadata.annotations.ours,
        gates: Some(metadata.annotations.gates).filter(|gates| !gates.is_empty()).map(Box::new),
        requests: Some(metadata.annotations.requests)
            .filter(|requests| !requests.is_empty())
            .map(Box::new),
        ready,
        ready_since: condition.and_then(|c| moment(&c.last_transition_time)),
        maintenance: status
            .conditions
            .iter()
            .find(|c| c.kind == MAINTENANCE_PLANNED)
            .map(shown)
            .map(Box::new),
        drain_conditions: shown_drain(&status.conditions),
        dns: address("InternalDNS").or_else(|| address("Hostname")),
        address: address("InternalIP"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::Asking;

    fn read(annotations: &serde_json::Value) -> Node {
        let json = json!({ "metadata": { "name": "a", "uid": "u", "annotations": annotations } });
        node(&json.to_string(), &KeepLabels::keys([])).unwrap()
    }

    #[test]
    fn gates_are_read_apart_from_the_annotations_of_sundown_and_others_are_skipped() {
        let found = read(&json!({
            "pre-drain.sundown.dev/backup": "job \"7\"",
            "pre-release.sundown.dev/logs": "",
            "drain.sundown.dev/upgrade": "reason=new \"kernel\"",
            "sundown.dev/pause": "true",
            "example.com/note": "x".repeat(100)
        }));
        assert_eq!(found.annotations, Annotations::from_iter([("sundown.dev/pause", "true")]));
        let text = "pre-drain.sundown.dev/backup (job \"7\")";
        assert_eq!(found.gates_text(GateKind::PreDrain), text);
        assert_eq!(found.gates_text(GateKind::PreRelease), "pre-release.sundown.dev/logs");
        assert!(matches!(
            found.asking("upgrade"),
            Asking::For(request) if request.reason.as_deref() == Some("new \"kernel\"")
        ));
    }

    #[test]
    fn a_node_without_gates_has_none() {
        for annotations in [json!(null), json!({}), json!({ "sundown.dev/pause": "true" })] {
            let found = read(&annotations);
            assert_eq!(found.requests, None, "{annotations}");
            assert_eq!(found.gates, None, "{annotations}");
            assert!(!found.has_gate(GateKind::PreDrain) && !found.has_gate(GateKind::PreRelease));
        }
    }
}
