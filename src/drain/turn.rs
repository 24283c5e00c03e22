//! Whose turn it is when there is room.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::domain::{Moment, NodeName, Pod, PodUid};

/// The place of a drain among all: urgent ones first, then the earliest deadline, then the node
/// with the fewest pods left, so that nodes finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// Not urgent.
    pub relaxed: bool,
    /// The deadline; the end of time where there is none.
    pub deadline: Moment,
    /// Pods that count and are still there.
    pub left: usize,
}

impl Default for Turn {
    /// The last place: of a node that was not heard of yet.
    fn default() -> Self {
        Self { relaxed: true, deadline: Moment::MAX, left: usize::MAX }
    }
}

/// The place of a node, equal turns told apart by name.
pub(super) type Place = (Turn, NodeName);

/// The place of a pod among those of its node: the longest grace period first, as it takes longest.
type PodPlace = (Reverse<Duration>, PodUid);

/// Pods that wait, in the order of their nodes' turns. Nodes that must not act now keep their pods
/// in it without having a place.
#[derive(Debug, Default)]
pub(super) struct TurnQueue {
    order: BTreeSet<Place>,
    nodes: BTreeMap<NodeName, (Option<Turn>, BTreeSet<PodPlace>)>,
}

impl TurnQueue {
    fn place(pod: &Pod) -> PodPlace {
        (Reverse(pod.grace), pod.uid.clone())
    }

    /// Adds a pod of a node whose turn this is; `None`: it must not act now.
    pub(super) fn add(&mut self, node: &NodeName, turn: Option<Turn>, pod: &Pod) {
        self.nodes.entry(node.clone()).or_default().1.insert(Self::place(pod));
        self.set_turn(node, turn);
    }

    /// Takes a pod out, if it is in.
    pub(super) fn remove(&mut self, node: &NodeName, pod: &Pod) {
        let Some((turn, pods)) = self.nodes.get_mut(node) else { return };
        pods.remove(&Self::place(pod));
        if pods.is_empty() {
            if let Some(turn) = *turn {
                self.order.remove(&(turn, node.clone()));
            }
            self.nodes.remove(node);
        }
    }

    /// A node's turn is another now.
    pub(super) fn set_turn(&mut self, node: &NodeName, turn: Option<Turn>) {
        let Some((before, _)) = self.nodes.get_mut(node) else { return };
        if *before == turn {
            return;
        }
        if let Some(before) = std::mem::replace(before, turn) {
            self.order.remove(&(before, node.clone()));
        }
        self.order.extend(turn.map(|t| (t, node.clone())));
    }

    /// No pod is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The place of the node whose turn it is.
    pub(super) fn first(&self) -> Option<&Place> {
        self.order.first()
    }

    /// The pod whose turn it is.
    pub(super) fn first_pod(&self) -> Option<PodUid> {
        let (_, node) = self.order.first()?;
        self.nodes.get(node)?.1.first().map(|(_, uid)| uid.clone())
    }

    /// The first pod of a node whose deadline is no later than this.
    pub(super) fn first_pod_due(&self, until: Moment) -> Option<PodUid> {
        let (_, node) = self.order.iter().find(|(turn, _)| turn.deadline <= until)?;
        self.nodes.get(node)?.1.first().map(|(_, uid)| uid.clone())
    }

    /// All pods in it, whether they may act or not.
    pub(super) fn pods(&self) -> impl Iterator<Item = &PodUid> {
        self.nodes.values().flat_map(|(_, pods)| pods.iter().map(|(_, uid)| uid))
    }
}
