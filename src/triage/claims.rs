//! Several Nodes that claim one instance.
//!
//! A kubelet or the cloud controller writes a Node's providerID once. An old Node that a
//! re-registration left behind, or the Node of a kubelet that lies, can claim the instance of
//! another Node.
//!
//! Nodes whose kubelet is silent (`Ready` is `Unknown`) are left alone if one that Sundown may
//! drain reports. Of the Nodes that remain, the first row that applies decides:
//!
//! | the Nodes that remain | drained, forced and waited for | the others |
//! | --- | --- | --- |
//! | one | that one | - |
//! | one has the name that EC2 gives the instance: its private DNS name or its ID | that one | only cordoned |
//! | one reports the private DNS name or the private address of the instance | that one | only cordoned |
//! | else | all that Sundown may drain | left alone |
//!
//! The name goes before the addresses: a kubelet can report any address, but its credentials are
//! for one Node name. A Node that Sundown may not drain (`sundown.dev/ignore`, the node selector)
//! counts only if EC2 confirms it, or if Sundown may drain none of the Nodes. Otherwise its kubelet
//! could keep the instance's own Node from being drained.

use std::sync::Arc;

use super::OtherClaims;
use crate::domain::{InstanceFacts, Node, Ready};

/// The Node that an interruption is for, and what happens to the others that claim its instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claims {
    pub(super) node: Arc<Node>,
    pub(super) others: OtherClaims,
    /// Several Nodes claim the instance, and the facts at hand confirm none of them: ask EC2 if
    /// that was not done yet.
    pub(super) are_disputed: bool,
}

/// Decides between the Nodes that claim an instance. `facts`: what EC2 says of the instance, `None`
/// if EC2 was not asked or did not answer. Returns `None` if no Node claims the instance.
pub(super) fn decide(
    mut nodes: Vec<Arc<Node>>,
    facts: Option<&InstanceFacts>,
    may_drain: impl Fn(&Node) -> bool,
) -> Option<Claims> {
    nodes.sort_by_key(|node| std::cmp::Reverse(rank(node)));
    if nodes.iter().any(|node| is_reporting(node) && may_drain(node)) {
        nodes.retain(|node| is_reporting(node));
    }
    let are_several = nodes.len() > 1;
    let confirmed = facts.filter(|_| are_several).and_then(|facts| {
        let by_name = only(&nodes, |node| has_name_of(node, facts));
        by_name.or_else(|| only(&nodes, |node| reports_address_of(node, facts)))
    });
    if let Some(node) = confirmed {
        nodes.retain(|other| other.uid != node.uid);
        return Some(Claims { node, others: OtherClaims::Cordon(nodes), are_disputed: false });
    }
    if nodes.iter().any(|node| may_drain(node)) {
        nodes.retain(|node| may_drain(node));
    }
    let mut all = nodes.into_iter();
    let node = all.next()?;
    let others: Vec<_> = all.collect();
    let others = if others.is_empty() { OtherClaims::None } else { OtherClaims::Drain(others) };
    Some(Claims { node, others, are_disputed: are_several })
}

/// The order of Nodes where EC2 confirms none: Ready Nodes first, then the youngest.
fn rank(node: &Arc<Node>) -> impl Ord + use<> {
    (node.ready == Ready::True, node.created, node.name.clone())
}

fn is_reporting(node: &Node) -> bool {
    node.ready != Ready::Unknown
}

/// The only Node for which `holds` is true; `None` if it is true for none or for several.
fn only(nodes: &[Arc<Node>], holds: impl Fn(&Node) -> bool) -> Option<Arc<Node>> {
    let mut found = nodes.iter().filter(|node| holds(node));
    found.next().filter(|_| found.next().is_none()).cloned()
}

fn has_name_of(node: &Node, facts: &InstanceFacts) -> bool {
    let name = node.name.as_str();
    name == facts.id.as_str() || facts.private_dns.as_deref() == Some(name)
}

fn reports_address_of(node: &Node, facts: &InstanceFacts) -> bool {
    let is_same =
        |reported: &Option<String>, known: &Option<String>| known.is_some() && reported == known;
    is_same(&node.dns, &facts.private_dns) || is_same(&node.address, &facts.private_address)
}
