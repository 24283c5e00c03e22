//! Stored objects, and what is kept ready about them.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use super::{
    build::PodView, journal::PodRef, json::Look, kinds::Kind, request::Reply, selector::selectable,
};
use crate::domain::Moment;

/// Namespace ("" for cluster-scoped objects) and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Key {
    pub(super) fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Of something that lives in no namespace.
    pub(super) fn cluster(name: impl Into<String>) -> Self {
        Self::new("", name)
    }

    pub(super) fn of(value: &Value) -> Self {
        Self::new(value.text("metadata.namespace"), value.text("metadata.name"))
    }
}

/// One version of an object: as JSON, and as the bytes that clients get.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) value: Value,
    /// When this version was stored. What a kubelet writes into the status of its Node does not
    /// count.
    pub(super) written: Moment,
    pub(super) shown: Arc<Shown>,
    pub(super) pod: Option<PodFacts>,
}

/// What lists and watches need of one version of an object. Watchers share the bytes.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) revision: u64,
    pub(super) key: Arc<Key>,
    pub(super) labels: Arc<BTreeMap<String, String>>,
    pub(super) fields: Arc<BTreeMap<&'static str, String>>,
    pub(super) bytes: Bytes,
}

impl Shown {
    /// The same with another version.
    pub(super) fn at_version(&self, revision: u64) -> Self {
        let mut value: Value = serde_json::from_slice(&self.bytes).unwrap_or_default();
        value.put("metadata.resourceVersion", revision.to_string());
        self.next(&value, revision)
    }

    /// A later version, in which neither labels nor selectable fields are different.
    fn next(&self, value: &Value, revision: u64) -> Self {
        let (key, labels, fields) = (self.key.clone(), self.labels.clone(), self.fields.clone());
        Self { revision, key, labels, fields, bytes: bytes(value, self.bytes.len()) }
    }
}

/// Serializes an object. `like` is the expected size, used to reserve memory.
fn bytes(value: &Value, like: usize) -> Bytes {
    let mut out = Vec::with_capacity(like + 64);
    // Writing a Value to memory cannot fail.
    serde_json::to_writer(&mut out, value).ok();
    out.into()
}

impl Object {
    /// A version of an object. `old` is the one before it.
    pub(super) fn new(
        kind: &Kind,
        value: Value,
        (revision, written): (u64, Moment),
        old: Option<&Self>,
    ) -> Self {
        let labels = match old {
            Some(old) if old.value.at("metadata.labels") == value.at("metadata.labels") => {
                Arc::clone(&old.shown.labels)
            }
            _ => Arc::new(labels(&value, "metadata.labels")),
        };
        let shown = Shown {
            revision,
            key: old.map_or_else(|| Arc::new(Key::of(&value)), |old| Arc::clone(&old.shown.key)),
            labels,
            fields: Arc::new(fields(kind, &value)),
            bytes: bytes(&value, old.map_or(1024, |old| old.shown.bytes.len())),
        };
        let pod = (kind.plural == "pods").then(|| PodFacts::of(&value));
        Self { value, written, shown: Arc::new(shown), pod }
    }

    /// Changes the status of a Node in place; only fields that no controller or selector reads.
    pub(super) fn change_status(&mut self, revision: u64, change: impl FnOnce(&mut Value)) {
        self.value.put("metadata.resourceVersion", revision.to_string());
        change(&mut self.value);
        self.shown = Arc::new(self.shown.next(&self.value, revision));
    }

    /// The answer to a request for it.
    pub(super) fn reply(&self, code: u16) -> Reply {
        Reply::Stored(code, Arc::clone(&self.shown))
    }

    pub(super) fn key(&self) -> &Key {
        &self.shown.key
    }

    pub(super) fn uid(&self) -> &str {
        self.value.text("metadata.uid")
    }

    pub(super) fn labels(&self) -> &BTreeMap<String, String> {
        &self.shown.labels
    }

    pub(super) fn is_terminating(&self) -> bool {
        !self.value.at("metadata.deletionTimestamp").is_null()
    }
}

fn fields(kind: &Kind, value: &Value) -> BTreeMap<&'static str, String> {
    let mut all = BTreeMap::from([
        ("metadata.name", value.text("metadata.name").to_owned()),
        ("metadata.namespace", value.text("metadata.namespace").to_owned()),
    ]);
    for field in selectable(&kind.plural) {
        let text = match value.at(field) {
            Value::String(s) => s.clone(),
            Value::Bool(b) => b.to_string(),
            _ if *field == "spec.unschedulable" => "false".to_owned(),
            _ => String::new(),
        };
        all.insert(field, text);
    }
    all
}

/// A map of texts.
pub(super) fn labels(value: &Value, path: &str) -> BTreeMap<String, String> {
    let map = value.at(path).as_object().into_iter().flatten();
    map.map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned())).collect()
}

/// The fields of a pod that controllers use, read once for each version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodFacts {
    pub(super) uid: String,
    pub(super) node: Option<String>,
    pub(super) phase: String,
    pub(super) ready: bool,
    pub(super) deletion: Option<Moment>,
    pub(super) deletion_grace: i64,
    pub(super) grace: i64,
    pub(super) owner: Option<Owner>,
    pub(super) mirror: bool,
}

/// The owner that controls an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
}

impl Owner {
    fn reference(value: &Value) -> Option<&Value> {
        let refs = value.items("metadata.ownerReferences");
        refs.iter().find(|r| r.at("controller").as_bool() == Some(true))
    }

    pub(super) fn uid_of(value: &Value) -> Option<&str> {
        Some(Self::reference(value)?.text("uid"))
    }

    pub(super) fn of(value: &Value) -> Option<Self> {
        let o = Self::reference(value)?;
        Some(Self {
            api_version: o.text("apiVersion").into(),
            kind: o.text("kind").into(),
            name: o.text("name").into(),
            uid: o.text("uid").into(),
        })
    }
}

impl PodFacts {
    fn of(pod: &Value) -> Self {
        Self {
            uid: pod.text("metadata.uid").into(),
            node: Some(pod.text("spec.nodeName")).filter(|n| !n.is_empty()).map(str::to_owned),
            phase: pod.text("status.phase").into(),
            ready: pod.condition("Ready") == "True",
            deletion: pod.moment("metadata.deletionTimestamp"),
            deletion_grace: pod.int("metadata.deletionGracePeriodSeconds"),
            grace: pod.at("spec.terminationGracePeriodSeconds").as_i64().unwrap_or(30),
            owner: Owner::of(pod),
            mirror: pod.annotation("kubernetes.io/config.mirror").is_some(),
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// It is there for its controller: neither finished nor terminating.
    pub(super) fn is_active(&self) -> bool {
        !self.is_finished() && self.deletion.is_none()
    }

    /// As a disruption budget sees it.
    pub(super) fn is_healthy(&self) -> bool {
        self.ready && self.deletion.is_none()
    }

    pub(super) fn reference(&self, key: &Key) -> PodRef {
        PodRef {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: self.uid.clone(),
            node: self.node.clone().unwrap_or_default(),
        }
    }

    pub(super) fn view(&self, key: &Key) -> PodView {
        PodView {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: self.uid.clone(),
            node: self.node.clone(),
            phase: self.phase.clone(),
            ready: self.ready,
            deletion: self.deletion,
            owner_kind: self.owner.as_ref().map(|o| o.kind.clone()),
            mirror: self.mirror,
        }
    }
}
