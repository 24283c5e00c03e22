//! The fields of Nodes that Sundown uses.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Annotations, Asking, CONTROL_PLANE, DrainRequest, FORCE, GateKind, IGNORE, InstanceId,
    KEEP_CORDONED, Moment, NodeGates, NodeRequests, PAUSE, RECORD, RELEASE, TAINT, TO_BE_DELETED,
};

super::hook::name!(
    /// The name of a Node.
    NodeName
);

/// The fields of a Node that the index keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// `metadata.name`.
    pub name: NodeName,
    /// `metadata.uid`: distinguishes a Node from a later one with the same name.
    pub uid: String,
    /// `metadata.resourceVersion`, sent with every write.
    pub resource_version: String,
    /// `metadata.creationTimestamp`.
    pub created: Option<Moment>,
    /// The instance in `spec.providerID`; `None` if it names none.
    pub instance: Option<InstanceId>,
    /// Its providerID names something other than an EC2 instance (Fargate, another cloud, a machine
    /// on premises), so its name must not be matched to an instance either.
    pub is_elsewhere: bool,
    /// `status.nodeInfo.bootID`.
    pub boot_id: Option<String>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `spec.taints`, all of them: a merge patch replaces the whole list.
    pub taints: Vec<Taint>,
    /// The labels that the index was configured to keep. Nodes with equal labels share one map,
    /// because half a kilobyte per node would be more than all other fields.
    pub labels: Arc<BTreeMap<String, String>>,
    /// The annotations whose keys start with `sundown.dev/`.
    pub annotations: Annotations,
    /// The annotations that hold its drain or its release; `None`: it has none.
    pub gates: Option<Box<NodeGates>>,
    /// The annotations that ask for its drain; `None`: it has none.
    pub requests: Option<Box<NodeRequests>>,
    /// The `Ready` condition.
    pub ready: Ready,
    /// When the `Ready` condition last changed its status.
    pub ready_since: Option<Moment>,
    /// The condition `MaintenancePlanned`; `None`: the Node has none.
    pub maintenance: Option<Box<ShownMaintenance>>,
    /// The conditions `DrainInProgress` and `Drained`; `None`: the Node has neither.
    pub drain_conditions: Option<Box<ShownDrain>>,
    /// The address of type `InternalDNS`, else `Hostname`: EC2 may know a Node without providerID
    /// by it.
    pub dns: Option<String>,
    /// The first address of type `InternalIP`. The kubelet reports it, so it does not prove the
    /// Node's identity.
    pub address: Option<String>,
}

/// What the condition `MaintenancePlanned` of a Node shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownMaintenance {
    /// Its status is `True`.
    pub is_true: bool,
    /// `reason`.
    pub reason: String,
    /// `message`.
    pub message: String,
}

/// The conditions of a Node about its drain, by whoever wrote them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShownDrain {
    /// `DrainInProgress`; `None`: the Node does not have it.
    pub in_progress: Option<ShownCondition>,
    /// `Drained`; `None`: the Node does not have it.
    pub drained: Option<ShownCondition>,
}

/// What one condition of a Node shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownCondition {
    /// Its status is `True`.
    pub is_true: bool,
    /// `reason`.
    pub reason: String,
    /// `message`.
    pub message: String,
    /// `lastHeartbeatTime`, by the clock of its writer; `None` if it has none.
    pub written: Option<Moment>,
}

/// The status of the `Ready` condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ready {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`, or no such condition: the kubelet has not reported.
    #[default]
    Unknown,
}

/// A taint, with every field that Sundown must keep when it rewrites the list.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// The taint key, such as `sundown.dev/interruption`.
    pub key: String,
    /// The taint value; `None` if the taint has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
    /// When a `NoExecute` taint was added, as the API writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<String>,
}

/// Whether resource version `a` is older than `b`. By contract, versions are opaque; but every API
/// server uses growing numbers, and Kubernetes itself compares them since 1.35 (KEP-5504). `false`
/// if one of them is not a number.
#[must_use]
pub fn is_older_version(a: &str, b: &str) -> bool {
    matches!((a.parse::<u64>(), b.parse::<u64>()), (Ok(a), Ok(b)) if a < b)
}

impl Node {
    /// Whether this is an earlier version of the same Node object.
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

    /// `sundown.dev/keep-cordoned: "true"`: it is not restored after a drain.
    #[must_use]
    pub fn keeps_cordon(&self) -> bool {
        self.says(KEEP_CORDONED)
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

    /// `sundown.dev/force: "true"`.
    #[must_use]
    pub fn forced_by_hand(&self) -> bool {
        self.says(FORCE)
    }

    /// It has a gate of this kind.
    #[must_use]
    pub fn has_gate(&self, kind: GateKind) -> bool {
        self.gates.as_ref().is_some_and(|gates| !gates.of(kind).is_empty())
    }

    /// Its gates of this kind in words ([`NodeGates::text`]); empty without one.
    #[must_use]
    pub fn gates_text(&self, kind: GateKind) -> String {
        self.gates.as_ref().map_or_else(String::new, |gates| gates.text(kind))
    }

    /// What the requester with this name asks for.
    #[must_use]
    pub fn asking(&self, name: &str) -> Asking<'_> {
        self.requests.as_ref().map_or(Asking::No, |requests| requests.of(name))
    }

    /// One of its annotations is the request with this event ID ([`DrainRequest::event_id`]).
    #[must_use]
    pub fn asks_with(&self, event_id: &str) -> bool {
        let asking = DrainRequest::name_of_event(event_id).map(|name| self.asking(name));
        matches!(asking, Some(Asking::For(request)) if request.event_id() == event_id)
    }

    /// The text of the [`RECORD`] annotation; `None` without one.
    #[must_use]
    pub fn record(&self) -> Option<&str> {
        self.annotations.get(RECORD)
    }

    /// It belongs to the control plane ([`CONTROL_PLANE`]).
    #[must_use]
    pub fn is_control_plane(&self) -> bool {
        CONTROL_PLANE.iter().any(|label| self.labels.contains_key(*label))
    }

    /// cluster-autoscaler is evicting its pods ([`TO_BE_DELETED`]).
    #[must_use]
    pub fn is_drained_by_autoscaler(&self) -> bool {
        self.taints.iter().any(|taint| taint.key == TO_BE_DELETED)
    }

    /// Whether the Node has a taint with the key [`TAINT`].
    #[must_use]
    pub fn has_our_taint(&self) -> bool {
        self.taints.iter().any(|t| t.key == TAINT)
    }
}

#[cfg(test)]
impl Node {
    /// A Ready Node with this name and nothing else, for tests.
    pub(crate) fn for_test(name: &str) -> Self {
        Self {
            name: name.into(),
            uid: format!("uid-{name}"),
            resource_version: "1".to_owned(),
            created: None,
            instance: None,
            is_elsewhere: false,
            boot_id: None,
            unschedulable: false,
            taints: Vec::new(),
            labels: Arc::default(),
            annotations: Annotations::default(),
            gates: None,
            requests: None,
            ready: Ready::True,
            ready_since: None,
            maintenance: None,
            drain_conditions: None,
            dns: None,
            address: None,
        }
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
