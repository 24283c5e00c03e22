//! The attached nodes, and whether their watches work.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::PodEvent;
use crate::{
    cluster::ClusterError,
    domain::{Moment, NodeName},
};

/// An event on its way to the receiver. `epoch` identifies the attachment that it belongs to: an
/// event of an earlier attachment is dropped.
pub(super) struct Envelope {
    pub(super) node: NodeName,
    pub(super) epoch: u64,
    pub(super) event: PodEvent,
}

/// What the watch over the pods of the whole cluster is to do.
pub(super) enum Command {
    Add(NodeName, u64),
    Remove(NodeName),
}

#[derive(Clone, Default)]
pub(super) struct Table(Arc<Mutex<State>>);

#[derive(Default)]
pub(super) struct State {
    last_epoch: u64,
    nodes: BTreeMap<NodeName, Attached>,
    /// How many of `nodes` have a watch of their own. Thousands of nodes may be attached, so
    /// nothing counts them one by one.
    own: usize,
    /// The watch over the pods of the whole cluster, while there is one.
    pub(super) wide_watch: Option<Wide>,
}

pub(super) struct Attached {
    pub(super) epoch: u64,
    pub(super) place: Place,
    failing: Option<Failure>,
}

/// Since when a watch fails, and its last error.
pub(super) type Failure = (Moment, ClusterError);

pub(super) enum Place {
    /// The node has a watch of its own, which ends when this is dropped.
    Own { _watch: AbortOnDropHandle<()> },
    /// The node shares the watch over the whole cluster.
    Wide,
}

impl Place {
    const fn is_own(&self) -> bool {
        matches!(self, Self::Own { .. })
    }
}

pub(super) struct Wide {
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) _task: AbortOnDropHandle<()>,
}

impl Attached {
    /// `failing`: the failure of an earlier attachment of the node. Attaching again does not clear
    /// it.
    pub(super) const fn new(epoch: u64, place: Place, failing: Option<Failure>) -> Self {
        Self { epoch, place, failing }
    }
}

impl State {
    pub(super) const fn next_epoch(&mut self) -> u64 {
        self.last_epoch += 1;
        self.last_epoch
    }

    /// How many attached nodes have a watch of their own.
    pub(super) const fn own(&self) -> usize {
        self.own
    }

    /// How many attached nodes share the watch over the whole cluster.
    pub(super) fn wide(&self) -> usize {
        self.nodes.len().saturating_sub(self.own)
    }

    /// Begins an attachment, which replaces an earlier one of the node.
    pub(super) fn insert(&mut self, node: NodeName, attached: Attached) {
        self.own += usize::from(attached.place.is_own());
        let before = self.nodes.insert(node, attached);
        self.count_out(before.as_ref());
    }

    fn count_out(&mut self, removed: Option<&Attached>) {
        let was_own = removed.is_some_and(|attached| attached.place.is_own());
        self.own = self.own.saturating_sub(usize::from(was_own));
    }

    /// Ends an attachment; returns its failure, if it was failing.
    pub(super) fn remove(&mut self, node: &NodeName) -> Option<Failure> {
        let removed = self.nodes.remove(node);
        self.count_out(removed.as_ref());
        let removed = removed?;
        if let (Place::Wide, Some(wide)) = (removed.place, &self.wide_watch) {
            // The receiver ends only with the feed.
            wide.commands.send(Command::Remove(node.clone())).ok();
        }
        removed.failing
    }

    /// The attached nodes that share the watch over the whole cluster.
    pub(super) fn in_wide(&self) -> Vec<NodeName> {
        self.nodes
            .iter()
            .filter(|(_, attached)| !attached.place.is_own())
            .map(|(n, _)| n.clone())
            .collect()
    }
}

impl Table {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all watches.
    pub(super) fn clear(&self) {
        let mut state = self.lock();
        state.nodes.clear();
        (state.own, state.wide_watch) = (0, None);
    }

    pub(super) fn is_current(&self, node: &NodeName, epoch: u64) -> bool {
        self.lock().nodes.get(node).is_some_and(|a| a.epoch == epoch)
    }

    pub(super) fn failing(&self, node: &NodeName, epoch: u64, now: Moment, error: ClusterError) {
        if let Some(attached) = self.lock().nodes.get_mut(node).filter(|a| a.epoch == epoch) {
            let since = attached.failing.take().map_or(now, |(since, _)| since);
            attached.failing = Some((since, error));
        }
    }

    pub(super) fn recovered(&self, node: &NodeName, epoch: u64) {
        if let Some(attached) = self.lock().nodes.get_mut(node).filter(|a| a.epoch == epoch) {
            attached.failing = None;
        }
    }

    pub(super) fn failure(&self, node: &NodeName) -> Option<Failure> {
        self.lock().nodes.get(node).and_then(|a| a.failing.clone())
    }
}
