//! Annotation, label and taint keys that Sundown writes on objects, and a few that it only reads.

/// Annotation of a Node: the record of its accepted interruptions (`record/`).
pub const RECORD: &str = "sundown.dev/record";
/// Annotation of a Node: the scheduled changes that AWS has announced for its instance (`record/`).
pub const PLANNED: &str = "sundown.dev/planned";
/// Condition of a Node: AWS has announced a scheduled change (KEP-5683).
pub const MAINTENANCE_PLANNED: &str = "MaintenancePlanned";
/// Condition of a Node: its pods are being removed (KEP-5683).
pub const DRAIN_IN_PROGRESS: &str = "DrainInProgress";
/// Condition of a Node: its pods have been removed (KEP-5683).
pub const DRAINED: &str = "Drained";
/// Annotation of a Node: when Sundown last accepted its instance as sick (`record/`).
pub const IMPAIRED: &str = "sundown.dev/impaired";
/// Annotation of a Node: `"true"` = never touch this node.
pub const IGNORE: &str = "sundown.dev/ignore";
/// Annotation of a Node: `"true"` = do not restore this Node after a drain.
pub const KEEP_CORDONED: &str = "sundown.dev/keep-cordoned";
/// Annotation of a Node: `"true"` = pause this drain. On the Lease: pause all drains.
pub const PAUSE: &str = "sundown.dev/pause";
/// Annotation of a Node: `"true"` = end this drain and complete its open lifecycle actions.
pub const RELEASE: &str = "sundown.dev/release";
/// Annotation of a Node: `"true"` = do not wait for budgets, gates and other drains any longer in
/// this drain.
pub const FORCE: &str = "sundown.dev/force";
/// The key of an annotation of a Node that asks for its drain, up to its name
/// ([`super::DrainRequest`]).
pub const DRAIN_REQUEST: &str = "drain.sundown.dev/";
/// The key of an annotation that holds the evictions of a drain, up to its name
/// ([`super::GateKind`]).
pub const PRE_DRAIN: &str = "pre-drain.sundown.dev/";
/// The key of an annotation that holds the completion of lifecycle actions, up to its name.
pub const PRE_RELEASE: &str = "pre-release.sundown.dev/";
/// Annotation of a Node: how long its drain under a lifecycle hook may take.
pub const DRAIN_TIMEOUT: &str = "sundown.dev/drain-timeout";
/// Annotation of a Node: when its pods are deleted if their eviction is refused.
pub const FORCE_AFTER: &str = "sundown.dev/force-after";
/// Annotation of a Node: the longest grace period that its pods get.
pub const MAX_GRACE_PERIOD: &str = "sundown.dev/max-grace-period";
/// Annotation of a Node: how long its completion waits after the end of the drain.
pub const COMPLETE_DELAY: &str = "sundown.dev/complete-delay";
/// Annotation of the Lease: the leader's settings that `sundown status` needs, as flags of
/// `sundown run`.
pub const SETTINGS: &str = "sundown.dev/settings";
/// Label of the Lease, with the value [`LEASE_LABEL_VALUE`]: commands such as `sundown status` find
/// the Lease by it in any namespace.
pub const LEASE_LABEL: &str = "app.kubernetes.io/name";
/// The value of [`LEASE_LABEL`].
pub const LEASE_LABEL_VALUE: &str = "sundown";
/// Label of a ConfigMap with rules about pods; its value is the name of the Lease in the same
/// namespace whose leader follows them. `sundown explain` finds the rules by it.
pub const RULES_LABEL: &str = "sundown.dev/rules-of";
/// Key of [`RULES_LABEL`]'s ConfigMap that holds the rules.
pub const RULES_KEY: &str = "rules.yaml";
/// Key of the taint that an accepted interruption puts on its Node; its value is the kind, its
/// effect `NoSchedule`.
pub const TAINT: &str = "sundown.dev/interruption";
/// The prefix of every annotation that the node index keeps.
pub const PREFIX: &str = "sundown.dev/";
/// Key of the taint by which Kubernetes learns that the machine of a Node no longer runs.
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// Label of a Node: its availability zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Labels of Nodes that belong to the control plane (their values do not count). The second one is
/// that of Kubernetes before 1.20, which distributions still set.
pub const CONTROL_PLANE: [&str; 2] =
    ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];
/// Key of the taint by which cluster-autoscaler marks a node whose pods it evicts before it ends the
/// instance.
pub const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
/// Label that takes a node out of load balancers (KEP-1143; any value counts for most controllers).
pub const EXCLUDE_FROM_LOAD_BALANCERS: &str =
    "node.kubernetes.io/exclude-from-external-load-balancers";
/// The value of that label if Sundown set it.
pub const EXCLUDED_BY_US: &str = "sundown";
/// Annotation of a mirror pod: the API object that represents a static pod.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
