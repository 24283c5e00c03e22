//! Which of the waiting pods is next: by the priority of their nodes, then by grace period.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::domain::{Moment, NodeName, Pod, PodUid};

/// The priority of a node that is drained: urgent nodes first, then the earliest deadline, then the
/// node with the fewest pods left, so that nodes become empty one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodePriority {
    /// `true`: not urgent ([`Limits::urgent`](crate::domain::Limits::urgent)).
    pub relaxed: bool,
    /// The deadline; [`Moment::MAX`] if the drain has none.
    pub deadline: Moment,
    /// Pods that count and still exist.
    pub left: usize,
}

impl Default for NodePriority {
    /// The lowest priority, for a node that has not reported its own yet.
    fn default() -> Self {
        Self { relaxed: true, deadline: Moment::MAX, left: usize::MAX }
    }
}

/// The rank of a node among all; the name decides between equal priorities.
pub(super) type NodeRank = (NodePriority, NodeName);

/// The rank of a pod among those of its node: the longest grace period first, because that pod
/// takes longest.
type PodRank = (Reverse<Duration>, PodUid);

/// Waiting pods, in the order of their nodes' priorities. A node with the priority `None` must wait
/// (paused, or in a burst): its pods are in the queue, but not next.
#[derive(Debug, Default)]
pub(super) struct PodQueue {
    order: BTreeSet<NodeRank>,
    nodes: BTreeMap<NodeName, (Option<NodePriority>, BTreeSet<PodRank>)>,
}

impl PodQueue {
    fn rank(pod: &Pod) -> PodRank {
        (Reverse(pod.grace), pod.uid.clone())
    }

    /// Adds a pod, and sets the priority of its node.
    pub(super) fn add(&mut self, node: &NodeName, priority: Option<NodePriority>, pod: &Pod) {
        self.nodes.entry(node.clone()).or_default().1.insert(Self::rank(pod));
        self.set_priority(node, priority);
    }

    /// Removes a pod, if it is in the queue.
    pub(super) fn remove(&mut self, node: &NodeName, pod: &Pod) {
        let Some((priority, pods)) = self.nodes.get_mut(node) else { return };
        pods.remove(&Self::rank(pod));
        if pods.is_empty() {
            if let Some(priority) = *priority {
                self.order.remove(&(priority, node.clone()));
            }
            self.nodes.remove(node);
        }
    }

    /// Changes the priority of a node, if the queue has pods of it.
    pub(super) fn set_priority(&mut self, node: &NodeName, priority: Option<NodePriority>) {
        let Some((before, _)) = self.nodes.get_mut(node) else { return };
        if *before == priority {
            return;
        }
        if let Some(before) = std::mem::replace(before, priority) {
            self.order.remove(&(before, node.clone()));
        }
        self.order.extend(priority.map(|priority| (priority, node.clone())));
    }

    /// Whether the queue has no pods, not even of nodes that must wait.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The node that is next.
    pub(super) fn first(&self) -> Option<&NodeRank> {
        self.order.first()
    }

    /// The pod that is next.
    pub(super) fn first_pod(&self) -> Option<PodUid> {
        let (_, node) = self.order.first()?;
        self.nodes.get(node)?.1.first().map(|(_, uid)| uid.clone())
    }

    /// The first pod of the first node whose deadline is at `until` or earlier.
    pub(super) fn first_pod_due(&self, until: Moment) -> Option<PodUid> {
        let (_, node) = self.order.iter().find(|(priority, _)| priority.deadline <= until)?;
        self.nodes.get(node)?.1.first().map(|(_, uid)| uid.clone())
    }

    /// All pods in the queue, also those of nodes that must wait.
    pub(super) fn pods(&self) -> impl Iterator<Item = &PodUid> {
        self.nodes.values().flat_map(|(_, pods)| pods.iter().map(|(_, uid)| uid))
    }
}
