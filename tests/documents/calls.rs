//! What Sundown calls of the API server, as roles have to allow it.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::PolicyRule;
use sundown::cluster::Target;

/// Group, resource and verb.
pub type Grants = BTreeSet<(String, String, String)>;
type Calls = &'static [(&'static str, &'static str, &'static str)];

/// Every call for this purpose.
fn calls(target: Target) -> Calls {
    match target {
        Target::ListNodes => &[("", "nodes", "list")],
        Target::WatchNodes => &[("", "nodes", "watch")],
        Target::GetNode => &[("", "nodes", "get")],
        Target::PatchNode => &[("", "nodes", "patch")],
        Target::ListPods => &[("", "pods", "list")],
        Target::WatchPods => &[("", "pods", "watch")],
        Target::Evict => &[("", "pods/eviction", "create")],
        Target::DeletePod => &[("", "pods", "delete")],
        Target::ListBudgets => &[("policy", "poddisruptionbudgets", "list")],
        Target::WatchBudgets => &[("policy", "poddisruptionbudgets", "watch")],
        Target::GetDaemonSet => &[("apps", "daemonsets", "get")],
        Target::Event => &[("", "events", "create"), ("", "events", "patch")],
    }
}

/// What a dry run looks at: it drains nothing, so it sees no pods.
const LOOKS: [Target; 5] = [Target::ListNodes, Target::WatchNodes, Target::GetNode, Target::ListBudgets, Target::WatchBudgets];
/// What is done with the Lease (`cluster/lease/calls.rs`, `cluster/lease/pause.rs`).
const LEASE: [&str; 5] = ["create", "get", "patch", "update", "watch"];

fn of(targets: impl IntoIterator<Item = Target>) -> Grants {
    targets.into_iter().flat_map(calls).map(|(g, r, v)| ((*g).to_owned(), (*r).to_owned(), (*v).to_owned())).collect()
}

/// In the whole cluster.
pub fn of_cluster() -> Grants {
    of(Target::ALL)
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
    LEASE.map(|verb| ("coordination.k8s.io".to_owned(), "leases".to_owned(), verb.to_owned())).into()
}

/// All that these rules allow.
pub fn of_rules(rules: &[PolicyRule]) -> Grants {
    let mut all = BTreeSet::new();
    for rule in rules {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                all.extend(rule.verbs.iter().map(|verb| (group.clone(), resource.clone(), verb.clone())));
            }
        }
    }
    all
}
