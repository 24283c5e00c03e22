//! Where a node is, for figures.

use crate::{domain::Node, observe::Place};

/// The labels by which nodes say their zone and their instance type.
const ZONE: &str = "topology.kubernetes.io/zone";
const TYPE: &str = "node.kubernetes.io/instance-type";
/// Those by which they say their group: of EKS, eksctl, kOps and kube-aws (its `awsNodeLabels`, by
/// builtin/files/userdata/cloud-config-worker: the Auto Scaling group). Of events only a lifecycle
/// hook's names that group, and EC2 is not asked for the sake of figures.
const GROUPS: [&str; 4] = [
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "kops.k8s.io/instancegroup",
    "kube-aws.coreos.com/autoscalinggroup",
];

/// The labels of nodes that have to be known.
pub(super) fn labels<'a>() -> impl Iterator<Item = &'a str> {
    [ZONE, TYPE].into_iter().chain(GROUPS)
}

/// Where this node is. `group`: the Auto Scaling group that a lifecycle hook names.
pub(super) fn of(node: &Node, group: Option<&str>) -> Place {
    let label = |key: &str| node.labels.get(key).cloned().unwrap_or_default();
    // The label first: a hook's event and a spot notice of one node are then told of one group.
    let group = GROUPS
        .iter()
        .find_map(|key| node.labels.get(*key).cloned())
        .or_else(|| group.map(str::to_owned));
    Place { group: group.unwrap_or_default(), zone: label(ZONE), instance_type: label(TYPE) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Ready;

    fn group(labels: &[(&str, &str)], hooked: Option<&str>) -> String {
        let node = Node {
            name: "a".into(),
            uid: String::new(),
            resource_version: String::new(),
            created: None,
            instance: None,
            is_elsewhere: false,
            boot_id: None,
            unschedulable: false,
            taints: Vec::new(),
            labels: std::sync::Arc::new(
                labels
                    .iter()
                    .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                    .collect(),
            ),
            annotations: std::collections::BTreeMap::new(),
            ready: Ready::True,
            ready_since: None,
            dns: None,
            address: None,
        };
        of(&node, hooked).group
    }

    #[test]
    fn a_group_is_what_the_label_of_whoever_made_the_node_says_then_what_the_hook_names() {
        for key in GROUPS {
            assert_eq!(group(&[("app", "x"), (key, "workers")], Some("asg")), "workers", "{key}");
            assert!(labels().any(|kept| kept == key), "the index keeps {key}");
        }
        assert_eq!(
            group(
                &[
                    ("kube-aws.coreos.com/autoscalinggroup", "asg-1"),
                    ("eks.amazonaws.com/nodegroup", "workers")
                ],
                None
            ),
            "workers"
        );
        assert_eq!(
            group(&[("kube-aws.coreos.com/autoscalinggroup", "asg-1")], None),
            "asg-1",
            "a spot notice names no group"
        );
        assert_eq!(group(&[("app", "x")], Some("asg")), "asg");
        assert_eq!(group(&[("app", "x")], None), "", "told as unknown");
    }
}
