//! The resources that are served.

use std::sync::Arc;

/// A kind of object and its place in the API.
#[allow(
    clippy::struct_excessive_bools,
    reason = "properties of a kind that do not exclude each other"
)]
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_field_names, reason = "the API calls it so")]
pub(super) struct Kind {
    /// The API group; "" for the core group.
    pub(super) group: String,
    /// The API version, for example `v1`.
    pub(super) version: String,
    /// `kind`.
    pub(super) kind: String,
    /// The plural name in URLs, also the name of its shelf in the store.
    pub(super) plural: String,
    /// The short name that kubectl takes.
    pub(super) short: String,
    /// Its objects live in namespaces.
    pub(super) namespaced: bool,
    /// It has a `status` subresource.
    pub(super) status: bool,
    /// It has a `scale` subresource.
    pub(super) scale: bool,
    /// `metadata.generation` counts the changes of its spec.
    pub(super) generation: bool,
}

impl Kind {
    /// `apiVersion` of its objects.
    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// How errors name it: `poddisruptionbudgets.policy`.
    pub(super) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// How errors name its kind: `PodDisruptionBudget.policy`.
    pub(super) fn whole(&self) -> String {
        if self.group.is_empty() {
            self.kind.clone()
        } else {
            format!("{}.{}", self.kind, self.group)
        }
    }

    /// It has a subresource of this name.
    pub(super) fn has(&self, subresource: &str) -> bool {
        match subresource {
            "" => true,
            "status" => self.status,
            "scale" => self.scale,
            "eviction" | "binding" => self.plural == "pods",
            "finalize" => self.plural == "namespaces",
            _ => false,
        }
    }

    /// A resource that a CustomResourceDefinition would define.
    pub(super) fn custom(
        group: &str,
        version: &str,
        kind: &str,
        plural: &str,
        namespaced: bool,
    ) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            short: String::new(),
            namespaced,
            status: true,
            scale: false,
            generation: true,
        }
    }
}

/// Questions about one's own rights: answered, never stored.
pub(super) const REVIEWS: &str = "selfsubjectaccessreviews";

const NAMESPACED: u8 = 1;
const STATUS: u8 = 2;
const SCALE: u8 = 4;
const GENERATION: u8 = 8;

/// Group, version, kind, plural, short name, what it has.
const BUILT_IN: &[(&str, &str, &str, &str, &str, u8)] = &[
    ("", "v1", "Node", "nodes", "no", STATUS),
    ("", "v1", "Pod", "pods", "po", NAMESPACED | STATUS),
    ("", "v1", "Namespace", "namespaces", "ns", STATUS),
    ("", "v1", "Event", "events", "ev", NAMESPACED),
    ("events.k8s.io", "v1", "Event", "events", "ev", NAMESPACED),
    ("", "v1", "Service", "services", "svc", NAMESPACED | STATUS),
    ("", "v1", "Endpoints", "endpoints", "ep", NAMESPACED),
    ("", "v1", "ConfigMap", "configmaps", "cm", NAMESPACED),
    ("", "v1", "Secret", "secrets", "", NAMESPACED),
    ("", "v1", "ServiceAccount", "serviceaccounts", "sa", NAMESPACED),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", NAMESPACED | STATUS),
    ("", "v1", "PersistentVolume", "persistentvolumes", "pv", STATUS),
    ("coordination.k8s.io", "v1", "Lease", "leases", "", NAMESPACED),
    (
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "pdb",
        NAMESPACED | STATUS | GENERATION,
    ),
    ("apps", "v1", "Deployment", "deployments", "deploy", NAMESPACED | STATUS | SCALE | GENERATION),
    ("apps", "v1", "ReplicaSet", "replicasets", "rs", NAMESPACED | STATUS | SCALE | GENERATION),
    ("apps", "v1", "StatefulSet", "statefulsets", "sts", NAMESPACED | STATUS | SCALE | GENERATION),
    ("apps", "v1", "DaemonSet", "daemonsets", "ds", NAMESPACED | STATUS | GENERATION),
    ("batch", "v1", "Job", "jobs", "", NAMESPACED | STATUS | GENERATION),
    ("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", "", STATUS),
    ("authorization.k8s.io", "v1", "SelfSubjectAccessReview", REVIEWS, "", 0),
];

/// All resources that are built in.
pub(super) fn built_in() -> Vec<Arc<Kind>> {
    BUILT_IN
        .iter()
        .map(|&(group, version, kind, plural, short, has)| {
            Arc::new(Kind {
                group: group.into(),
                version: version.into(),
                kind: kind.into(),
                plural: plural.into(),
                short: short.into(),
                namespaced: has & NAMESPACED != 0,
                status: has & STATUS != 0,
                scale: has & SCALE != 0,
                generation: has & GENERATION != 0,
            })
        })
        .collect()
}
