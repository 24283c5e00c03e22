//! How many nodes may be out of load balancers at a time.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::{EXCLUDE_FROM_LOAD_BALANCERS, Node, NodeName, Ready};

/// At most half of the Ready nodes carry the load balancer label at any time, whoever set it, patches in flight included:
/// with `externalTrafficPolicy: Local`, taking nodes out before replacements serve is an outage that no budget sees.
///
/// Fed with every change of a Node; each question costs a lookup, not a walk over the cluster.
#[derive(Debug, Clone, Default)]
pub struct LabelRoom {
    nodes: BTreeMap<NodeName, Seen>,
    in_flight: BTreeSet<NodeName>,
    ready: usize,
    labelled: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    ready: bool,
    labelled: bool,
}

impl LabelRoom {
    /// No nodes yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A Node as the index (or the answer to a patch) shows it.
    pub fn applied(&mut self, node: &Node) {
        let seen = Seen { ready: node.ready == Ready::True, labelled: node.labels.contains_key(EXCLUDE_FROM_LOAD_BALANCERS) };
        self.count_out(&node.name);
        self.ready += usize::from(seen.ready);
        self.labelled += usize::from(seen.ready && seen.labelled);
        self.nodes.insert(node.name.clone(), seen);
        if seen.labelled {
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
            self.ready -= usize::from(old.ready);
            self.labelled -= usize::from(old.ready && old.labelled);
        }
    }

    /// Takes a place for a patch that labels this node. `true`: send it, and tell its end by [`Self::settled`]. `false`: there
    /// is no room now, or the label is there already.
    pub fn take(&mut self, name: &NodeName) -> bool {
        if self.nodes.get(name).is_some_and(|n| n.labelled) {
            return false;
        }
        if self.in_flight.contains(name) {
            return true;
        }
        let room = (self.labelled + self.in_flight.len() + 1) * 2 <= self.ready;
        room && self.in_flight.insert(name.clone())
    }

    /// The patch's end: the Node that it gave, or `None` when it certainly had no effect. An answer that was lost keeps the
    /// place until the Node is seen again with the label, or is re-read and settled.
    pub fn settled(&mut self, name: &NodeName, node: Option<&Node>) {
        self.in_flight.remove(name);
        if let Some(node) = node {
            self.applied(node);
        }
    }

    /// Ready nodes that carry the label, with the patches in flight.
    #[must_use]
    pub fn out(&self) -> usize {
        self.labelled + self.in_flight.len()
    }
}
