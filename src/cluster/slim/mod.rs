//! Reads only the fields of Kubernetes objects that Sundown uses.
//!
//! A Node with 18 KiB of JSON takes 42 KiB in k8s-openapi's types, 5 KiB if only its `ObjectMeta`
//! is kept, and less than 1 KiB in the types here. All other fields are skipped while reading.

mod budget;
mod namespace;
mod node;
mod pod;
mod volume;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

pub(super) use self::{
    budget::budget,
    namespace::{LabeledNamespace, namespace},
    node::node,
    pod::{ReadPod, node_of, pod},
    volume::{Attachment, ClaimsOfPod, attachment, claims_of_pod, volume_of_claim},
};
use crate::domain::{CONTROL_PLANE, EXCLUDE_FROM_LOAD_BALANCERS, Moment, Selector};

/// The label keys of Nodes that are kept; labels with other keys are dropped while reading. Clones
/// share the keys of the rules.
#[derive(Debug, Clone)]
pub struct KeepLabels(Arc<KeptKeys>);

#[derive(Debug)]
struct KeptKeys {
    always: BTreeSet<String>,
    /// Those that the rules about pods read. They may change while the service runs.
    of_rules: RwLock<BTreeSet<String>>,
}

impl KeepLabels {
    /// The keys that a node selector uses, and those that [`Self::keys`] adds.
    #[must_use]
    pub fn of(selector: &Selector) -> Self {
        Self::keys(selector.keys())
    }

    /// These keys, the label that takes a node out of load balancers, and those of the control plane.
    #[must_use]
    pub fn keys<'a>(keys: impl IntoIterator<Item = &'a str>) -> Self {
        let keys = keys.into_iter().chain([EXCLUDE_FROM_LOAD_BALANCERS]).chain(CONTROL_PLANE);
        let always = keys.map(str::to_owned).collect();
        Self(Arc::new(KeptKeys { always, of_rules: RwLock::default() }))
    }

    /// Keeps the labels that rules read, instead of those of earlier rules. Returns whether a key
    /// is new. Nodes that were read before lack its label.
    pub fn set_of_rules<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> bool {
        let keys: BTreeSet<String> = keys.into_iter().map(str::to_owned).collect();
        let mut known = self.0.of_rules.write().unwrap_or_else(PoisonError::into_inner);
        let has_new = keys.iter().any(|key| !known.contains(key) && !self.0.always.contains(key));
        *known = keys;
        has_new
    }

    /// Of these labels, those that are kept.
    fn of_labels(&self, labels: BTreeMap<Text<'_>, Text<'_>>) -> BTreeMap<String, String> {
        let of_rules = self.0.of_rules.read().unwrap_or_else(PoisonError::into_inner);
        let keeps = |key: &str| self.0.always.contains(key) || of_rules.contains(key);
        let kept = labels.into_iter().filter(|(Text(key), _)| keeps(key));
        kept.map(|(Text(key), Text(value))| (key.into_owned(), value.into_owned())).collect()
    }
}

/// The metadata that every object has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta {
    #[serde(deserialize_with = "or_default")]
    pub(super) namespace: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) uid: String,
    #[serde(rename = "resourceVersion", deserialize_with = "or_default")]
    pub(super) version: String,
}

#[derive(Deserialize)]
struct Bare {
    #[serde(default, deserialize_with = "or_default")]
    metadata: Meta,
}

/// Reads only the metadata of an object; empty if that cannot be read.
pub(super) fn meta(json: &str) -> Meta {
    serde_json::from_str::<Bare>(json).map(|b| b.metadata).unwrap_or_default()
}

/// Reads `null` as the default, because the API server writes `null` for an empty list or map.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    d: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(d).map(Option::unwrap_or_default)
}

/// Reads a map and keeps only some of its keys.
fn only<'de, D: Deserializer<'de>>(
    d: D,
    keep: fn(&str) -> bool,
) -> Result<BTreeMap<String, String>, D::Error> {
    struct Only(fn(&str) -> bool);

    impl<'de> Visitor<'de> for Only {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of strings")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(BTreeMap::new())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut kept = BTreeMap::new();
            while let Some(Text(key)) = map.next_key::<Text<'de>>()? {
                if (self.0)(&key) {
                    kept.insert(key.into_owned(), map.next_value()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(kept)
        }
    }

    d.deserialize_any(Only(keep))
}

/// A string that borrows from the JSON if possible.
#[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn moment(text: &str) -> Option<Moment> {
    text.parse().ok()
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(deserialize_with = "or_default")]
    last_transition_time: String,
    #[serde(deserialize_with = "or_default")]
    last_heartbeat_time: String,
    #[serde(deserialize_with = "or_default")]
    reason: String,
    #[serde(deserialize_with = "or_default")]
    message: String,
}
