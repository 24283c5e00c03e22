//! Judges which groups belong to the cluster: by their tags, and by their nodes in it. No I/O.

use std::collections::BTreeMap;

use super::finding::Finding;
use crate::{
    cli::words::count,
    domain::{GroupName, InstanceFacts},
};

const POINT: &str = "groups";
/// The tag by which AWS names the group of an instance.
const GROUP_TAG: &str = "aws:autoscaling:groupName";

/// The groups that have nodes in the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NodeGroups {
    /// The number of nodes of each group that is known.
    pub(super) nodes: BTreeMap<GroupName, usize>,
    pub(super) known: Known,
}

/// How many of the groups with nodes are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Known {
    /// Nodes may belong to other groups: they could not be listed, or EC2 did not describe all of
    /// their instances.
    #[default]
    Some,
    All,
}

impl NodeGroups {
    /// Counts nodes by group, from the tags of their instances. `described`: the answers of EC2;
    /// `None`: it did not answer. `is_all`: each instance is in one of these questions.
    pub(super) fn of(described: &[Option<Vec<InstanceFacts>>], is_all: bool) -> Self {
        let mut nodes = BTreeMap::new();
        let instances = described.iter().flatten().flatten();
        for name in instances.filter_map(|instance| instance.tags.get(GROUP_TAG)) {
            *nodes.entry(GroupName::from(name.as_str())).or_default() += 1;
        }
        let is_answered = described.iter().all(Option::is_some);
        Self { nodes, known: if is_all && is_answered { Known::All } else { Known::Some } }
    }
}

/// Compares tags with nodes. `tagged`: the groups with a tag of `cluster`; `with_nodes`: the groups
/// that have nodes in the cluster.
pub(super) fn judge(
    cluster: &str,
    tagged: &[GroupName],
    with_nodes: &BTreeMap<GroupName, usize>,
) -> Vec<Finding> {
    let tags = format!("kubernetes.io/cluster/{cluster} or eks:cluster-name={cluster}");
    let mut found = vec![if tagged.is_empty() {
        let remedy = "look at --cluster-name and the region, or tag the groups: the role may \
            answer the hooks of tagged ones only";
        Finding::no(POINT, cluster, format!("no group has the tag {tags}"), remedy)
    } else {
        let is = if tagged.len() == 1 { "is" } else { "are" };
        Finding::yes(
            POINT,
            cluster,
            format!("{} {is} tagged for it", count(tagged.len(), "Auto Scaling group")),
        )
    }];
    for (group, nodes) in with_nodes.iter().filter(|(group, _)| !tagged.contains(group)) {
        let message = format!(
            "{} of this cluster, but not the tag {tags}: the role may not answer its hooks, and \
             Sundown takes its instances without a node for another cluster's",
            count(*nodes, "node")
        );
        let remedy = "tag the group and its instances, or name it in `autoscaling_groups` of the \
            Terraform module; the point `hook.heartbeat` shows whether the role may answer hooks";
        found
            .push(Finding::no(POINT, group.as_str(), format!("it has {message}"), remedy).advice());
    }
    found
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "what is not there fails the test")]
mod tests {
    use super::{super::finding::Answer, *};
    use crate::domain::InstanceState;

    #[test]
    fn groups_with_nodes_of_the_cluster_but_without_its_tag_are_reported() {
        let group = |name: &str| GroupName::from(name);
        let (yes, no, advice) = ((Answer::Yes, true), (Answer::No, true), (Answer::No, false));
        for (tagged, with_nodes, expected) in [
            (vec!["a"], vec!["a"], vec![("shop", yes)]),
            (vec!["a", "b"], vec![], vec![("shop", yes)]),
            (vec!["a"], vec!["a", "b"], vec![("shop", yes), ("b", advice)]),
            (vec![], vec!["b"], vec![("shop", no), ("b", advice)]),
            (vec![], vec![], vec![("shop", no)]),
        ] {
            let tagged: Vec<_> = tagged.into_iter().map(group).collect();
            let with_nodes = with_nodes.into_iter().map(|name| (group(name), 1)).collect();
            let found = judge("shop", &tagged, &with_nodes);
            let outcomes: Vec<_> =
                found.iter().map(|f| (f.about.as_str(), (f.answer, f.needed))).collect();
            assert_eq!(outcomes, expected, "{tagged:?} {with_nodes:?}");
        }
        let one = judge("shop", &[group("a")], &[(group("b"), 1)].into());
        assert!(
            one[0].message == "1 Auto Scaling group is tagged for it"
                && one[1].message.starts_with("it has 1 node of this cluster"),
            "{one:?}"
        );
    }

    #[test]
    fn the_group_of_a_node_comes_from_the_tags_of_its_instance() {
        let instance = |group: Option<&str>| InstanceFacts {
            id: "i-1234567890abcdef0".parse().unwrap(),
            state: InstanceState::Running,
            launched: None,
            private_dns: None,
            private_address: None,
            tags: group.map(|g| (GROUP_TAG.to_owned(), g.to_owned())).into_iter().collect(),
        };
        let answers = || {
            vec![Some(vec![instance(Some("a")), instance(None)]), Some(vec![instance(Some("b"))])]
        };
        for (described, is_all, known) in [
            (answers(), true, Known::All),
            (answers(), false, Known::Some),
            ([answers(), vec![None]].concat(), true, Known::Some),
        ] {
            let groups = NodeGroups::of(&described, is_all);
            assert_eq!(groups.nodes, [("a".into(), 1), ("b".into(), 1)].into());
            assert_eq!(groups.known, known, "{is_all} {}", described.len());
        }
        let again = vec![Some(vec![instance(Some("a"))]), Some(vec![instance(Some("a"))])];
        assert_eq!(NodeGroups::of(&again, true).nodes, [("a".into(), 2)].into());
        assert_eq!(NodeGroups::of(&[], true).known, Known::All, "there is no node");
        assert_eq!(NodeGroups::default().known, Known::Some, "the nodes could not be listed");
    }
}
