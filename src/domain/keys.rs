//! The keys that Sundown writes on objects, and the few of others that it reads.

/// Annotation of a Node: the record of what was taken on (`record/`).
pub const RECORD: &str = "sundown.dev/record";
/// Annotation of a Node: `"true"` = never touch this node.
pub const IGNORE: &str = "sundown.dev/ignore";
/// Annotation of a Node: `"true"` = hold this drain. On the Lease: hold all drains.
pub const PAUSE: &str = "sundown.dev/pause";
/// Annotation of a Node: `"true"` = end this drain and complete what is owed.
pub const RELEASE: &str = "sundown.dev/release";
/// Annotation of the Lease: the leader's settings that bear on deadlines, as flags of
/// `sundown run`.
pub const SETTINGS: &str = "sundown.dev/settings";
/// Label of the Lease, with the value [`LEASE_LABEL_VALUE`]: how people's commands find it in any
/// namespace.
pub const LEASE_LABEL: &str = "app.kubernetes.io/name";
/// The value of [`LEASE_LABEL`].
pub const LEASE_LABEL_VALUE: &str = "sundown";
/// Key of the taint that an accepted interruption puts on its Node; its value is the kind, its
/// effect `NoSchedule`.
pub const TAINT: &str = "sundown.dev/interruption";
/// The prefix of every annotation that the node index keeps.
pub const PREFIX: &str = "sundown.dev/";
/// Label that takes a node out of load balancers (KEP-1143; any value counts for most controllers).
pub const EXCLUDE_FROM_LOAD_BALANCERS: &str =
    "node.kubernetes.io/exclude-from-external-load-balancers";
/// The value of that label when it is ours.
pub const EXCLUDED_BY_US: &str = "sundown";
/// Annotation of a mirror pod (a static pod's image in the API).
pub const MIRROR: &str = "kubernetes.io/config.mirror";
