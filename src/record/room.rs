//! How many nodes may be out of load balancers at a time.

use std::collections::{BTreeMap, BTreeSet};

use super::{Record, compat};
use crate::domain::{EXCLUDE_FROM_LOAD_BALANCERS, Node, NodeName, Ready};

/// At most half of the Ready nodes that can serve load balancers leave them at a time, patches in
/// flight included: with `externalTrafficPolicy: Local`, taking nodes out before replacements serve
/// is an outage that no budget sees.
///
/// A node counts as having left if it has the label from Sundown, from another tool that is
/// draining it, or if it is being drained. A node that others label permanently (a dedicated node
/// without ingress) counts neither way: it never served.
///
/// Fed with every change of a Node; each question costs a walk over the patches in flight, not over
/// the cluster.
#[derive(Debug, Clone, Default)]
pub struct LabelRoom {
    nodes: BTreeMap<NodeName, Seen>,
    in_flight: BTreeSet<NodeName>,
    /// Ready nodes, without those that others label permanently.
    ready: usize,
    /// Those of them that have left.
    left: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    is_ready: bool,
    label: Label,
}

/// The load balancer label of a Node, by what it means for the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    /// Not set.
    Missing,
    /// The node left load balancers because of a drain.
    OfDrain,
    /// Somebody set it for good.
    Permanent,
}

impl Label {
    fn of(node: &Node) -> Self {
        let Some(value) = node.labels.get(EXCLUDE_FROM_LOAD_BALANCERS) else {
            return Self::Missing;
        };
        if compat::is_drain_label(value) {
            return Self::OfDrain;
        }
        if !node.unschedulable && !node.has_our_taint() {
            return Self::Permanent;
        }
        let record = node.record().and_then(|text| Record::read(text).ok());
        if record.is_some_and(|record| record.before.excluded) {
            Self::Permanent
        } else {
            Self::OfDrain
        }
    }
}

impl Seen {
    const fn can_serve(self) -> bool {
        self.is_ready && !matches!(self.label, Label::Permanent)
    }

    const fn has_left(self) -> bool {
        self.is_ready && matches!(self.label, Label::OfDrain)
    }
}

impl LabelRoom {
    /// No nodes yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A Node as the index (or the answer to a patch) shows it.
    pub fn applied(&mut self, node: &Node) {
        let seen = Seen { is_ready: node.ready == Ready::True, label: Label::of(node) };
        self.count_out(&node.name);
        self.ready += usize::from(seen.can_serve());
        self.left += usize::from(seen.has_left());
        self.nodes.insert(node.name.clone(), seen);
        if seen.label != Label::Missing {
            self.in_flight.remove(&node.name);
        }
    }

    /// A Node that is gone.
    pub fn deleted(&mut self, name: &NodeName) {
        self.count_out(name);
        self.in_flight.remove(name);
    }

    fn count_out(&mut self, name: &NodeName) {
        if let Some(old) = self.nodes.remove(name) {
            self.ready -= usize::from(old.can_serve());
            self.left -= usize::from(old.has_left());
        }
    }

    /// Takes a place for a patch that labels this node. `true`: send it, and tell its end by
    /// [`Self::settled`]. `false`: there is no room now, or the label is there already.
    pub fn take(&mut self, name: &NodeName) -> bool {
        if self.nodes.get(name).is_some_and(|n| n.label != Label::Missing) {
            return false;
        }
        if self.in_flight.contains(name) {
            return true;
        }
        // Also for a node that is not Ready: where all kubelets are silent at once, all would
        // leave, and stay away when they are Ready again.
        let room = (self.out() + 1) * 2 <= self.ready;
        room && self.in_flight.insert(name.clone())
    }

    /// The patch's end: the Node that it gave, or `None` when it certainly had no effect. An answer
    /// that was lost keeps the place until the Node is seen again with the label, or is re-read and
    /// settled.
    pub fn settled(&mut self, name: &NodeName, node: Option<&Node>) {
        self.in_flight.remove(name);
        if let Some(node) = node {
            self.applied(node);
        }
    }

    /// Ready nodes that have left load balancers because of a drain, with the patches in flight. A
    /// patch of a node that is not Ready takes no place from a Ready one. A patch of a node that
    /// was not seen yet does.
    #[must_use]
    pub fn out(&self) -> usize {
        let takes_a_place =
            |name: &&NodeName| self.nodes.get(*name).is_none_or(|node| node.can_serve());
        self.left + self.in_flight.iter().filter(takes_a_place).count()
    }
}
