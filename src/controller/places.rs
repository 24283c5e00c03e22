//! Group, zone and instance type of a node, for metrics and traces.

use crate::{
    domain::{Node, ZONE},
    observe::Place,
};

/// The label of a Node that holds its instance type.
const TYPE: &str = "node.kubernetes.io/instance-type";
/// The labels that hold its group: of EKS, eksctl, kOps and kube-aws (its `awsNodeLabels`, by
/// builtin/files/userdata/cloud-config-worker: the Auto Scaling group). They come first because
/// only the events of lifecycle hooks name a group, and EC2 is not asked for metrics alone.
const GROUPS: [&str; 4] = [
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "kops.k8s.io/instancegroup",
    "kube-aws.coreos.com/autoscalinggroup",
];

/// All labels that the index of Nodes must keep for this.
pub(super) fn labels<'a>() -> impl Iterator<Item = &'a str> {
    [ZONE, TYPE].into_iter().chain(GROUPS)
}

/// The place of this node. `group`: the Auto Scaling group that a lifecycle hook names.
pub(super) fn of(node: &Node, group: Option<&str>) -> Place {
    let label = |key: &str| node.labels.get(key).cloned().unwrap_or_default();
    // The label comes first, so that a hook's event and a spot notice of one node count for the
    // same group.
    let group = GROUPS
        .iter()
        .find_map(|key| node.labels.get(*key).cloned())
        .or_else(|| group.map(str::to_owned));
    Place { group: group.unwrap_or_default(), zone: label(ZONE), instance_type: label(TYPE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(labels: &[(&str, &str)], hooked: Option<&str>) -> String {
        let node = Node {
            labels: std::sync::Arc::new(
                labels
                    .iter()
                    .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                    .collect(),
            ),
            ..Node::for_test("a")
        };
        of(&node, hooked).group
    }

    #[test]
    fn the_group_comes_from_the_label_of_a_provisioner_and_otherwise_from_the_hook() {
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
        assert_eq!(group(&[("app", "x")], None), "", "unknown");
    }
}
