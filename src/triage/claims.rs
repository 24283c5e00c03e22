//! Several Nodes that claim one instance.
//!
//! A kubelet or the cloud controller writes a Node's providerID once. An old Node that a
//! re-registration left behind, or the Node of a kubelet that lies, can claim the instance of
//! another Node.
//!
//! The first row that applies decides. The rows 1 to 3 look only at Nodes whose kubelet reports
//! (its `Ready` is not `Unknown`), if there is one of these that Sundown may drain. The others are
//! left alone then: they may be what a re-registration left behind.
//!
//! | the Nodes that claim the instance | drained, forced and waited for | the others |
//! | --- | --- | --- |
//! | one | that one | - |
//! | one has the name that EC2 gives the instance: its private DNS name or its ID | that one | only cordoned |
//! | one reports the private DNS name or the private address of the instance | that one | only cordoned |
//! | the kubelet of one is silent, and one of the two rows above is true for it among all Nodes | that one, and all that report and that Sundown may drain | left alone |
//! | else | all that Sundown may drain, without silent ones if one reports | left alone |
//!
//! Among these the name goes before the addresses: a kubelet can report any address, but its credentials are
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

/// Decides between the Nodes that claim an instance. `facts`: EC2's facts about the instance;
/// `None` if EC2 was not asked or did not answer. Returns `None` if no Node claims the instance.
pub(super) fn decide(
    mut nodes: Vec<Arc<Node>>,
    facts: Option<&InstanceFacts>,
    may_drain: impl Fn(&Node) -> bool,
) -> Option<Claims> {
    nodes.sort_by_key(|node| std::cmp::Reverse(rank(node)));
    let are_disputed = nodes.len() > 1;
    let mut left = nodes.clone();
    if left.iter().any(|node| is_reporting(node) && may_drain(node)) {
        left.retain(|node| is_reporting(node));
    }
    let facts = facts.filter(|_| are_disputed);
    if let Some(node) = facts.and_then(|facts| confirmed(&left, facts)) {
        left.retain(|other| other.uid != node.uid);
        let others = if left.is_empty() { OtherClaims::None } else { OtherClaims::Cordon(left) };
        return Some(Claims { node, others, are_disputed: false });
    }
    // Its kubelet is silent. Either those that report claim the instance wrongly, or it is left
    // over from an earlier registration: both are drained.
    let silent = facts.and_then(|facts| confirmed(&nodes, facts)).filter(|node| may_drain(node));
    if let Some(node) = silent {
        left.retain(|other| other.uid != node.uid && may_drain(other));
        return Some(Claims { node, others: OtherClaims::Drain(left), are_disputed: false });
    }
    if left.iter().any(|node| may_drain(node)) {
        left.retain(|node| may_drain(node));
    }
    let mut all = left.into_iter();
    let node = all.next()?;
    let others: Vec<_> = all.collect();
    let others = if others.is_empty() { OtherClaims::None } else { OtherClaims::Drain(others) };
    Some(Claims { node, others, are_disputed })
}

/// What happens to the other Nodes that claim the instance of `node`, whose drain begins long after
/// it was decided. Other Nodes that were to be drained with it have a drain of their own. So the
/// others are only cordoned, if EC2 still confirms `node`, or else left alone.
#[must_use]
pub fn others_of(
    node: &Node,
    nodes: Vec<Arc<Node>>,
    facts: Option<&InstanceFacts>,
    may_drain: impl Fn(&Node) -> bool,
) -> OtherClaims {
    match decide(nodes, facts, may_drain) {
        Some(Claims { node: confirmed, others: others @ OtherClaims::Cordon(_), .. })
            if confirmed.uid == node.uid =>
        {
            others
        }
        _ => OtherClaims::None,
    }
}

/// The Node that EC2 confirms: the only one with the instance's name, or else the only one that
/// reports its private DNS name or its private address.
fn confirmed(nodes: &[Arc<Node>], facts: &InstanceFacts) -> Option<Arc<Node>> {
    only(nodes, |node| has_name_of(node, facts))
        .or_else(|| only(nodes, |node| reports_address_of(node, facts)))
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
