//! Which Node the instance has.

use std::sync::Arc;

use super::{
    super::{
        claims::{self, Claims},
        knowledge::Knowledge,
        owner,
        verdict::{Question, Verdict},
    },
    CLAIMS_WAIT, Case, MAX_OWNER_AGE, wait,
};
use crate::domain::Node;

impl Case<'_> {
    /// The Node of the instance. Of several, the one that [`claims`] puts first.
    pub(super) fn node(&self) -> Option<Arc<Node>> {
        self.claims().map(|claims| claims.node)
    }

    /// The Nodes of the instance. A Node whose providerID names another instance is never among
    /// them, whatever its name is. A Node without providerID is, if its name is that of this
    /// instance and of no other.
    pub(super) fn claims(&self) -> Option<Claims> {
        let by_name = self.does_name_identify();
        let mut nodes: Vec<Arc<Node>> = Vec::new();
        for node in self
            .candidates()
            .filter(|node| node.instance.is_some() || by_name || self.is_named_by_id(node))
        {
            if !nodes.iter().any(|known| known.uid == node.uid) {
                nodes.push(Arc::clone(node));
            }
        }
        let facts = self.known.instance.as_ref().and_then(|answer| answer.facts.as_ref());
        claims::decide(nodes, facts, |node| self.is_managed(node))
    }

    /// Several Nodes claim the instance: EC2 may show which of them is its Node.
    pub(super) fn ask_which_node(&self) -> Option<Verdict> {
        let given_up = self.known.received.plus(CLAIMS_WAIT);
        let is_asked = self.known.instance.is_some() || self.now >= given_up;
        let ask = || vec![self.question_of_instance(self.known.received.minus(MAX_OWNER_AGE))];
        (!is_asked && self.claims()?.are_disputed).then(|| wait(ask(), Some(given_up)))
    }

    /// Sundown does not manage one of the Nodes that claim the instance, and EC2 may show soon that
    /// this is the right one.
    pub(super) fn may_be_unmanaged(&self) -> bool {
        self.ask_which_node().is_some() && self.candidates().any(|node| !self.is_managed(node))
    }

    /// The Nodes with the instance's ID as providerID, or with no providerID and the instance's
    /// name.
    pub(super) fn candidates(&self) -> impl Iterator<Item = &Arc<Node>> {
        let facts = self.known.instance.as_ref().and_then(|answer| answer.facts.as_ref());
        let facts = facts.filter(|facts| {
            facts.id == self.interruption.instance && !owner::names_others(&facts.tags, self.policy)
        });
        let listed = self.known.listed.iter().flat_map(|(_, nodes)| nodes);
        self.known.nodes.iter().chain(listed).filter(move |node| match &node.instance {
            Some(instance) => *instance == self.interruption.instance,
            None => facts.is_some_and(|facts| Knowledge::is_named_after(node, facts)),
        })
    }

    pub(super) fn is_named_by_id(&self, node: &Node) -> bool {
        node.name.as_str() == self.interruption.instance.as_str()
    }

    /// The private DNS name identifies this instance, although two networks may use the same name:
    /// the tags of the instance or of its group name this cluster, or no other instance that is not
    /// terminated has the name.
    pub(super) fn does_name_identify(&self) -> bool {
        let is_tagged = self
            .known
            .instance
            .as_ref()
            .and_then(|a| a.facts.as_ref())
            .is_some_and(|f| owner::names_us(&f.tags, self.policy));
        let of_group = || {
            self.policy
                .cluster_name
                .as_deref()
                .and_then(|cluster| owner::group_is_ours(self.known, cluster))
                == Some(true)
        };
        let is_only_one = || {
            let meant = self
                .known
                .namesakes
                .as_deref()
                .and_then(|all| owner::choose_namesake(all, self.policy));
            meant.is_some_and(|facts| facts.id == self.interruption.instance)
        };
        is_tagged || of_group() || is_only_one()
    }

    /// A Node without providerID has this instance's private DNS name, and a question that decides
    /// whether it is this instance has no answer yet.
    pub(super) fn may_be_named_after(&self) -> bool {
        !self.questions_of_name().is_empty() && self.candidates().next().is_some()
    }

    pub(super) fn questions_of_name(&self) -> Vec<Question> {
        let name = self
            .known
            .instance
            .as_ref()
            .and_then(|a| a.facts.as_ref())
            .and_then(|f| f.private_dns.clone());
        let name = name.filter(|_| self.known.namesakes.is_none()).map(Question::Name);
        let group =
            if self.policy.cluster_name.is_some() { self.question_of_group() } else { Vec::new() };
        name.into_iter().chain(group).collect()
    }
}
