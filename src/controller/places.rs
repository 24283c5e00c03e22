//! Where a node is, for figures.

use crate::{domain::Node, observe::Place};

/// The labels by which nodes say their zone and their instance type.
const ZONE: &str = "topology.kubernetes.io/zone";
const TYPE: &str = "node.kubernetes.io/instance-type";
/// Those by which they say their group: of EKS, eksctl and kOps. Only lifecycle hooks name the Auto Scaling group itself, and EC2 is not asked
/// for the sake of figures.
const GROUPS: [&str; 3] = ["eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name", "kops.k8s.io/instancegroup"];

/// The labels of nodes that have to be known.
pub(super) fn labels<'a>() -> impl Iterator<Item = &'a str> {
    [ZONE, TYPE].into_iter().chain(GROUPS)
}

/// Where this node is. `group`: the Auto Scaling group that a lifecycle hook names.
pub(super) fn of(node: &Node, group: Option<&str>) -> Place {
    let label = |key: &str| node.labels.get(key).cloned().unwrap_or_default();
    // The label first: a hook's event and a spot notice of one node are then told of one group.
    let group = GROUPS.iter().find_map(|key| node.labels.get(*key).cloned()).or_else(|| group.map(str::to_owned));
    Place { group: group.unwrap_or_default(), zone: label(ZONE), instance_type: label(TYPE) }
}
