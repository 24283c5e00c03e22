//! The RBAC rights that each request needs. One table: a test compares the manifests with it, and
//! `sundown check` asks the API server for every row.

use super::Target;

/// A verb on a resource, as a rule of a Role or ClusterRole grants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The plural name, such as `pods`.
    pub resource: &'static str,
    /// The subresource; empty for the resource itself.
    pub subresource: &'static str,
    /// Such as `create` or `patch`.
    pub verb: &'static str,
}

const fn core(resource: &'static str, verb: &'static str) -> Right {
    Right { group: "", resource, subresource: "", verb }
}

const fn of(group: &'static str, resource: &'static str, verb: &'static str) -> Right {
    Right { group, resource, subresource: "", verb }
}

/// The rights that a request of this kind needs.
#[must_use]
pub const fn rights(target: Target) -> &'static [Right] {
    match target {
        Target::ListNodes => const { &[core("nodes", "list")] },
        Target::WatchNodes => const { &[core("nodes", "watch")] },
        Target::GetNode => const { &[core("nodes", "get")] },
        Target::PatchNode => const { &[core("nodes", "patch")] },
        Target::PatchNodeStatus => {
            const { &[Right { group: "", resource: "nodes", subresource: "status", verb: "patch" }] }
        }
        Target::DeleteNode => const { &[core("nodes", "delete")] },
        Target::ListPods => const { &[core("pods", "list")] },
        Target::WatchPods => const { &[core("pods", "watch")] },
        Target::Evict => {
            const { &[Right { group: "", resource: "pods", subresource: "eviction", verb: "create" }] }
        }
        Target::DeletePod => const { &[core("pods", "delete")] },
        Target::PatchPodStatus => {
            const { &[Right { group: "", resource: "pods", subresource: "status", verb: "patch" }] }
        }
        Target::ListBudgets => const { &[of("policy", "poddisruptionbudgets", "list")] },
        Target::WatchBudgets => const { &[of("policy", "poddisruptionbudgets", "watch")] },
        Target::GetNodeLease => const { &[of("coordination.k8s.io", "leases", "get")] },
        Target::GetDaemonSet => const { &[of("apps", "daemonsets", "get")] },
        Target::ListVolumeAttachments => {
            const { &[of("storage.k8s.io", "volumeattachments", "list")] }
        }
        Target::GetVolumeClaim => const { &[core("persistentvolumeclaims", "get")] },
        Target::ListNamespaces => const { &[core("namespaces", "list")] },
        Target::Event => const { &[core("events", "create"), core("events", "patch")] },
    }
}

/// The verbs on the Lease, in its own namespace (`lease/calls.rs`, `lease/pause.rs`).
pub const LEASE_VERBS: [&str; 5] = ["create", "get", "patch", "update", "watch"];

impl Right {
    /// The right as text, such as `create pods/eviction` or `list poddisruptionbudgets.policy`:
    /// arguments for `kubectl auth can-i`.
    #[must_use]
    pub fn words(&self) -> String {
        let group = if self.group.is_empty() { String::new() } else { format!(".{}", self.group) };
        let subresource = if self.subresource.is_empty() {
            String::new()
        } else {
            format!("/{}", self.subresource)
        };
        format!("{} {}{group}{subresource}", self.verb, self.resource)
    }

    /// Whether the verb changes an object.
    #[must_use]
    pub fn writes(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch")
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "what is not there fails the test")]
mod tests {
    use super::*;

    #[test]
    fn rights_are_written_as_kubectl_takes_them() {
        assert_eq!(rights(Target::Evict)[0].words(), "create pods/eviction");
        assert_eq!(rights(Target::ListBudgets)[0].words(), "list poddisruptionbudgets.policy");
        assert!(
            rights(Target::Event).iter().all(Right::writes) && !rights(Target::GetNode)[0].writes()
        );
    }
}
