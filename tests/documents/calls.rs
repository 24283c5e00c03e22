//! What Sundown calls of the API server, as roles have to allow it.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::PolicyRule;
use sundown::cluster::{LEASE_VERBS, Right, Target, rights};

/// Group, resource and verb.
pub type Grants = BTreeSet<(String, String, String)>;

/// Every call for this purpose.
fn calls(target: Target) -> Vec<(String, String, String)> {
    let resource = |r: &Right| {
        if r.subresource.is_empty() {
            r.resource.to_owned()
        } else {
            format!("{}/{}", r.resource, r.subresource)
        }
    };
    rights(target).iter().map(|r| (r.group.to_owned(), resource(r), r.verb.to_owned())).collect()
}

/// What a dry run looks at: it drains nothing, so it sees no pods.
const LOOKS: [Target; 5] = [
    Target::ListNodes,
    Target::WatchNodes,
    Target::GetNode,
    Target::ListBudgets,
    Target::WatchBudgets,
];

fn of(targets: impl IntoIterator<Item = Target>) -> Grants {
    targets.into_iter().flat_map(calls).collect()
}

/// In the whole cluster, by the default configuration.
pub fn of_cluster() -> Grants {
    let by_flag = [
        Target::PatchPodStatus,
        Target::PatchNodeStatus,
        Target::DeleteNode,
        Target::ListNamespaces,
    ];
    of(Target::ALL.into_iter().filter(|target| !by_flag.contains(target)))
}

/// Needed only with `--maintenance-condition` or `--drain-conditions`.
pub fn of_node_conditions() -> Grants {
    of([Target::PatchNodeStatus])
}

/// Not needed with `--wait-for-volumes=never`.
pub fn of_volumes() -> Grants {
    of([Target::ListVolumeAttachments, Target::GetVolumeClaim])
}

/// Needed only with rules about pods that read labels of namespaces.
pub fn of_namespaces() -> Grants {
    of([Target::ListNamespaces])
}

/// Needed only with `--delete-node`.
pub fn of_deleted_nodes() -> Grants {
    of([Target::DeleteNode])
}

/// Needed only with `--disruption-target`.
pub fn of_disruption_target() -> Grants {
    of([Target::PatchPodStatus])
}

/// What takes pods away against the will of their budgets.
pub fn forcing() -> Grants {
    of([Target::DeletePod])
}

/// By a dry run.
pub fn of_a_dry_run() -> Grants {
    of(LOOKS)
}

/// On the Lease.
pub fn of_lease() -> Grants {
    LEASE_VERBS
        .map(|verb| ("coordination.k8s.io".to_owned(), "leases".to_owned(), verb.to_owned()))
        .into()
}

/// All that these rules allow.
pub fn of_rules(rules: &[PolicyRule]) -> Grants {
    let mut all = BTreeSet::new();
    for rule in rules {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                all.extend(
                    rule.verbs.iter().map(|verb| (group.clone(), resource.clone(), verb.clone())),
                );
            }
        }
    }
    all
}
