//! What the dispatcher knows of pods, orders under way and nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{By, Turn, lane::LaneKey};
use crate::domain::{Moment, NodeName, Pod, PodUid};

/// A pod for which an order is wanted.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) node: NodeName,
    pub(super) pod: Arc<Pod>,
    pub(super) by: By,
    /// In which it waits.
    pub(super) lane: LaneKey,
    pub(super) state: State,
    /// Failures in a row that may pass by themselves.
    pub(super) tries: u32,
    /// Something that could help happened while its order was under way: a refusal is no reason to
    /// wait.
    pub(super) again: bool,
    /// It became unready while its order was under way: a refusal need not wait for longer than
    /// this.
    pub(super) soon: Option<Moment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It may go as soon as it is its turn.
    Ready,
    /// It was refused, and waits until then, or until something happens that could help.
    Parked { until: Moment, on_budget: bool },
    /// Its order is under way.
    UnderWay,
}

/// An order under way.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) pod: Arc<Pod>,
    /// In which it was sent.
    pub(super) lane: LaneKey,
    /// When it was sent.
    pub(super) sent: Moment,
    /// The version of the budget at which it was let go.
    pub(super) version: Option<u64>,
}

/// What is known of a node that is drained.
#[derive(Debug, Default)]
pub(super) struct NodeState {
    pub(super) turn: Turn,
    pub(super) paused: bool,
    /// It waits for its burst.
    pub(super) held: bool,
    /// One of its evictions was let go: a later burst does not stop it.
    pub(super) started: bool,
    pub(super) pods: BTreeSet<PodUid>,
    /// How many of its pods are in which lane.
    pub(super) lanes: BTreeMap<LaneKey, usize>,
}

impl NodeState {
    /// Its turn in a lane; `None`: not now. Deletes wait for no burst.
    pub(super) const fn turn_in(&self, lane: &LaneKey) -> Option<Turn> {
        if self.paused || self.held && !lane.is_delete() { None } else { Some(self.turn) }
    }

    /// One pod more in this lane.
    pub(super) fn join(&mut self, lane: &LaneKey) {
        *self.lanes.entry(lane.clone()).or_default() += 1;
    }

    /// One pod less in this lane.
    pub(super) fn leave(&mut self, lane: &LaneKey) {
        if let Some(n) = self.lanes.get_mut(lane) {
            *n -= 1;
            if *n == 0 {
                self.lanes.remove(lane);
            }
        }
    }
}
