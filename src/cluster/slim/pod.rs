//! Reads pods.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::Value;

use super::{Condition, moment, only, or_default};
use crate::domain::{
    Labels, MIRROR, NodeName, Owner, Phase, Pod, PodKey, PodWishes, TAINT, WishSource,
};

#[derive(Deserialize)]
struct SlimPod {
    metadata: PodMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: PodSpec,
    #[serde(default, deserialize_with = "or_default")]
    status: PodStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMeta {
    name: String,
    #[serde(default, deserialize_with = "or_default")]
    namespace: String,
    uid: String,
    #[serde(default, deserialize_with = "or_default")]
    creation_timestamp: String,
    #[serde(default, deserialize_with = "or_default")]
    deletion_timestamp: String,
    #[serde(default, deserialize_with = "or_default")]
    labels: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "used_annotations")]
    annotations: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "or_default")]
    owner_references: Vec<OwnerReference>,
    #[serde(default, deserialize_with = "or_default")]
    finalizers: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference {
    #[serde(default)]
    api_version: String,
    kind: String,
    name: String,
    #[serde(default, deserialize_with = "or_default")]
    controller: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    #[serde(deserialize_with = "or_default")]
    node_name: String,
    termination_grace_period_seconds: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    tolerations: Vec<Toleration>,
    #[serde(deserialize_with = "or_default")]
    priority: i32,
    #[serde(deserialize_with = "or_default")]
    volumes: Vec<Volume>,
}

/// A volume, as far as it shows whether it has a PersistentVolumeClaim.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Volume {
    persistent_volume_claim: Option<IgnoredAny>,
    ephemeral: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Toleration {
    #[serde(deserialize_with = "or_default")]
    key: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    #[serde(deserialize_with = "or_default")]
    phase: String,
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<Condition>,
}

fn is_used(key: &str) -> bool {
    key == MIRROR || WishSource::is_annotation(key)
}

fn used_annotations<'de, D: Deserializer<'de>>(d: D) -> Result<BTreeMap<String, String>, D::Error> {
    only(d, is_used)
}

/// The annotations of a damaged pod: a value that is not a string is read as empty.
fn salvaged_annotations(value: &Value) -> BTreeMap<String, String> {
    let all = value.pointer("/metadata/annotations").and_then(Value::as_object);
    let used = all.into_iter().flatten().filter(|(key, _)| is_used(key));
    used.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

/// A pod, and whether only a part of it could be read.
pub(in crate::cluster) struct ReadPod {
    pub(in crate::cluster) pod: Pod,
    pub(in crate::cluster) damaged: bool,
}

/// Reads a pod. A pod with a name and a UID is never skipped, even if other fields are damaged:
/// otherwise the drain would not wait for it.
pub(in crate::cluster) fn pod(json: &str) -> Result<ReadPod, serde_json::Error> {
    match serde_json::from_str::<SlimPod>(json) {
        Ok(slim) => Ok(ReadPod { pod: slim.into(), damaged: false }),
        Err(why) => {
            let value: Value = serde_json::from_str(json)?;
            salvage(&value).map(|slim| ReadPod { pod: slim.into(), damaged: true }).ok_or(why)
        }
    }
}

fn part<T: DeserializeOwned>(value: &Value, pointer: &str) -> Option<T> {
    value.pointer(pointer).and_then(|v| T::deserialize(v).ok())
}

fn salvage(value: &Value) -> Option<SlimPod> {
    let metadata = PodMeta {
        name: part(value, "/metadata/name")?,
        namespace: part(value, "/metadata/namespace").unwrap_or_default(),
        uid: part(value, "/metadata/uid")?,
        creation_timestamp: part(value, "/metadata/creationTimestamp").unwrap_or_default(),
        deletion_timestamp: part(value, "/metadata/deletionTimestamp").unwrap_or_default(),
        labels: part(value, "/metadata/labels").unwrap_or_default(),
        annotations: salvaged_annotations(value),
        owner_references: part(value, "/metadata/ownerReferences").unwrap_or_default(),
        finalizers: part(value, "/metadata/finalizers").unwrap_or_default(),
    };
    let spec = PodSpec {
        node_name: part(value, "/spec/nodeName").unwrap_or_default(),
        termination_grace_period_seconds: part(value, "/spec/terminationGracePeriodSeconds"),
        tolerations: part(value, "/spec/tolerations").unwrap_or_default(),
        priority: part(value, "/spec/priority").unwrap_or_default(),
        volumes: part(value, "/spec/volumes").unwrap_or_default(),
    };
    let status = PodStatus {
        phase: part(value, "/status/phase").unwrap_or_default(),
        conditions: part(value, "/status/conditions").unwrap_or_default(),
    };
    Some(SlimPod { metadata, spec, status })
}

impl From<SlimPod> for Pod {
    fn from(SlimPod { metadata, spec, status }: SlimPod) -> Self {
        let grace = spec.termination_grace_period_seconds.unwrap_or(30);
        let (labels, annotations) = (Labels::from_iter(metadata.labels), metadata.annotations);
        Self {
            key: PodKey { namespace: metadata.namespace.into(), name: metadata.name },
            uid: metadata.uid.into(),
            node: Some(spec.node_name).filter(|n| !n.is_empty()).map(NodeName::from),
            wishes: PodWishes::read(|key| annotations.get(key).map(String::as_str), &labels),
            labels,
            phase: match status.phase.as_str() {
                "Pending" => Phase::Pending,
                "Running" => Phase::Running,
                "Succeeded" => Phase::Succeeded,
                "Failed" => Phase::Failed,
                _ => Phase::Unknown,
            },
            ready: status.conditions.iter().any(|c| c.kind == "Ready" && c.status == "True"),
            created: moment(&metadata.creation_timestamp),
            deletion: moment(&metadata.deletion_timestamp),
            // A negative grace period counts as one second (API reference of PodSpec).
            grace: Duration::from_secs(u64::try_from(grace).unwrap_or(1)),
            owner: metadata.owner_references.into_iter().find(|o| o.controller).map(|o| {
                Box::new(Owner { api_version: o.api_version, kind: o.kind, name: o.name })
            }),
            mirror: annotations.contains_key(MIRROR),
            tolerates_us: spec.tolerations.iter().any(|t| t.key == TAINT),
            priority: spec.priority,
            finalizers: !metadata.finalizers.is_empty(),
            has_claims: spec
                .volumes
                .iter()
                .any(|v| v.persistent_volume_claim.is_some() || v.ephemeral.is_some()),
        }
    }
}

#[derive(Deserialize)]
struct PodPlace<'a> {
    #[serde(default, borrow)]
    spec: PodPlaceSpec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodPlaceSpec<'a> {
    #[serde(borrow)]
    node_name: Option<Cow<'a, str>>,
}

/// Reads only the node of a pod; `None`: the pod is not scheduled.
pub(in crate::cluster) fn node_of(json: &str) -> Result<Option<Cow<'_, str>>, serde_json::Error> {
    serde_json::from_str::<PodPlace<'_>>(json).map(|p| p.spec.node_name)
}
