//! How many nodes may be out of load balancers at the same time.

use std::collections::{BTreeMap, BTreeSet};

use super::{Record, compat};
use crate::domain::{EXCLUDE_FROM_LOAD_BALANCERS, Node, NodeName, Ready};

/// Limits how many nodes leave load balancers at a time: half of the Ready nodes that can serve
/// them, patches in flight included. With `externalTrafficPolicy: Local`, taking nodes out before
/// their replacements serve is an outage that no PodDisruptionBudget prevents.
///
/// A node counts as having left if it has the label because of a drain, by Sundown or by another
/// tool. A node that others label permanently (a dedicated node without ingress) does not count at
/// all, because it never serves.
///
/// The caller reports every change of a Node. A question costs a walk over the patches in flight,
/// not over the cluster.
#[derive(Debug, Clone, Default)]
pub struct ExclusionLimit {
    nodes: BTreeMap<NodeName, Seen>,
    in_flight: BTreeSet<NodeName>,
    /// The number of Ready nodes that are not labeled permanently.
    ready: usize,
    /// The number of these that have left load balancers.
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
    /// The Node has no label.
    Missing,
    /// A drain has set it.
    OfDrain,
    /// Somebody has set it for good.
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

impl ExclusionLimit {
    /// Creates a limit that knows no nodes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The index, or the answer to a patch, shows this Node.
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

    /// The Node was deleted.
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

    /// Takes a place for a patch that labels this node. If `true`, the caller sends the patch and
    /// reports its end by [`Self::settled`]. `false`: there is no room, or the Node has the label.
    pub fn take(&mut self, name: &NodeName) -> bool {
        if self.nodes.get(name).is_some_and(|n| n.label != Label::Missing) {
            return false;
        }
        if self.in_flight.contains(name) {
            return true;
        }
        // Also for a node that is not Ready. Otherwise all nodes would leave while all kubelets are
        // silent, and would stay away once they are Ready again.
        let has_room = (self.out() + 1) * 2 <= self.ready;
        has_room && self.in_flight.insert(name.clone())
    }

    /// The patch has ended. `node`: the Node after the patch; `None` if the patch certainly had no
    /// effect. If the answer was lost, the caller reads the Node first: the patch keeps its place
    /// until then, or until [`Self::applied`] shows the label.
    pub fn settled(&mut self, name: &NodeName, node: Option<&Node>) {
        self.in_flight.remove(name);
        if let Some(node) = node {
            self.applied(node);
        }
    }

    /// The number of Ready nodes that have left load balancers because of a drain, patches in
    /// flight included. A patch of a node that is not Ready does not count. A patch of a node that
    /// this limit does not know yet does.
    #[must_use]
    pub fn out(&self) -> usize {
        let takes_a_place =
            |name: &&NodeName| self.nodes.get(*name).is_none_or(|node| node.can_serve());
        self.left + self.in_flight.iter().filter(takes_a_place).count()
    }
}
