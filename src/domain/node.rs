//! Nodes, as far as Sundown looks at them.

use std::{collections::BTreeMap, sync::Arc};

use super::{IGNORE, InstanceId, Moment, PAUSE, RECORD, RELEASE, TAINT};

super::hook::name!(
    /// The name of a Node.
    NodeName
);

/// A Node, slim: what the index keeps of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// `metadata.name`.
    pub name: NodeName,
    /// `metadata.uid`: tells a Node from a later one of the same name.
    pub uid: String,
    /// `metadata.resourceVersion`, sent with every write.
    pub resource_version: String,
    /// `metadata.creationTimestamp`.
    pub created: Option<Moment>,
    /// The instance in `spec.providerID`.
    pub instance: Option<InstanceId>,
    /// Its providerID names something that is no EC2 instance (Fargate, another cloud, a machine on
    /// premises): no instance is meant by its name.
    pub is_elsewhere: bool,
    /// `status.nodeInfo.bootID`.
    pub boot_id: Option<String>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `spec.taints`, all of them: a merge patch replaces the whole list.
    pub taints: Vec<Taint>,
    /// The labels that somebody asked the index to keep. Nodes of one kind share them: half a
    /// kilobyte each would be more than the rest.
    pub labels: Arc<BTreeMap<String, String>>,
    /// The annotations under `sundown.dev/`.
    pub annotations: BTreeMap<String, String>,
    /// The `Ready` condition.
    pub ready: Ready,
    /// When the `Ready` condition last changed its status.
    pub ready_since: Option<Moment>,
    /// The address of type `InternalDNS`, else `Hostname`: how EC2 may know a Node without
    /// providerID.
    pub dns: Option<String>,
    /// The first address of type `InternalIP`. The kubelet reports it, so it is a claim and no
    /// proof.
    pub address: Option<String>,
}

/// The status of the `Ready` condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ready {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`, or no such condition: nothing was heard from the kubelet.
    #[default]
    Unknown,
}

/// A taint, with everything that must survive our rewriting of the list.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
    /// When a `NoExecute` taint was added, as the API writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<String>,
}

/// Whether resource version `a` is older than `b`. Versions are opaque by the API's contract, but
/// every API server uses growing numbers, and Kubernetes compares them itself since 1.35
/// (KEP-5504). `false` where one of them is no number.
#[must_use]
pub fn is_older_version(a: &str, b: &str) -> bool {
    matches!((a.parse::<u64>(), b.parse::<u64>()), (Ok(a), Ok(b)) if a < b)
}

impl Node {
    /// It is an earlier version of the same Node object.
    #[must_use]
    pub fn is_older_than(&self, other: &Self) -> bool {
        self.uid == other.uid && is_older_version(&self.resource_version, &other.resource_version)
    }

    fn says(&self, key: &str) -> bool {
        self.annotations.get(key).is_some_and(|v| v == "true")
    }

    /// `sundown.dev/ignore: "true"`.
    #[must_use]
    pub fn ignored(&self) -> bool {
        self.says(IGNORE)
    }

    /// `sundown.dev/pause: "true"`.
    #[must_use]
    pub fn paused(&self) -> bool {
        self.says(PAUSE)
    }

    /// `sundown.dev/release: "true"`.
    #[must_use]
    pub fn released_by_hand(&self) -> bool {
        self.says(RELEASE)
    }

    /// The text of the record annotation.
    #[must_use]
    pub fn record(&self) -> Option<&str> {
        self.annotations.get(RECORD).map(String::as_str)
    }

    /// Our taint stands on it.
    #[must_use]
    pub fn has_our_taint(&self) -> bool {
        self.taints.iter().any(|t| t.key == TAINT)
    }
}

#[cfg(test)]
mod tests {
    use super::is_older_version;

    #[test]
    fn versions_that_are_not_numbers_are_never_older() {
        for (a, b, expected) in [
            ("9", "10", true),
            ("10", "9", false),
            ("9", "9", false),
            ("a", "b", false),
            ("", "1", false),
        ] {
            assert_eq!(is_older_version(a, b), expected, "{a:?} {b:?}");
        }
    }
}
