//! Pods that come back on the node that they are evicted from.
//!
//! A controller whose pods tolerate the cordon puts each that goes back on the same node: an
//! OpenKruise DaemonSet, a Deployment that tolerates everything. Evicting them again and again
//! helps nobody and never ends, so an owner's new pods are drained a few times and then left alone.
//! Those that were there at the cordon are always drained.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::domain::{Owner, Pod, PodUid, seconds};

/// So many new pods of one owner are drained; from the next on its new pods are left alone.
pub(super) const DRAINED: usize = 3;

/// So long after the cordon the scheduler may still bind pods that it had chosen the node for: that
/// many of one owner are no sign yet.
pub(super) const SCHEDULED_BEFORE: Duration = seconds(5);

/// When a pod came to the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It was there at the cordon, or nobody owns it.
    There,
    /// After the cordon, while pods that were being scheduled still arrive.
    Soon,
    /// Later.
    Late,
}

/// What becomes of a pod that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is drained.
    Drain,
    /// It is drained, once no pod that was being scheduled can arrive any more.
    DrainLater,
    /// It is left alone. `first`: the first of its owner that is; how many new pods of the owner
    /// there were by then.
    LeaveAlone {
        /// See there.
        first: Option<usize>,
    },
}

/// Namespace and owner of pods.
pub(super) type OwnerKey = (String, Owner);

#[derive(Debug, Default)]
struct Seen {
    new: usize,
    /// Those that are drained. One that an answer says is gone is seen once more if the watch lags
    /// behind: it counts once.
    drained: BTreeSet<PodUid>,
    left_alone: bool,
}

/// How many new pods of which owner came to the node.
#[derive(Debug, Default)]
pub(super) struct Comebacks(BTreeMap<OwnerKey, Seen>);

impl Comebacks {
    /// The owner by which a pod's predecessors are known; `None`: nobody would put it back.
    pub(super) fn key(pod: &Pod) -> Option<OwnerKey> {
        pod.owner.as_ref().map(|owner| (pod.key.namespace.to_string(), (**owner).clone()))
    }

    /// A pod came that was not seen before.
    pub(super) fn came(&mut self, pod: &Pod, arrival: Arrival) -> Verdict {
        if arrival == Arrival::There {
            return Verdict::Drain;
        }
        let Some(key) = Self::key(pod) else { return Verdict::Drain };
        let seen = self.0.entry(key).or_default();
        if !seen.left_alone && seen.drained.contains(&pod.uid) {
            return Verdict::Drain;
        }
        seen.new += 1;
        let verdict = if seen.left_alone {
            Verdict::LeaveAlone { first: None }
        } else if seen.new <= DRAINED {
            Verdict::Drain
        } else if arrival == Arrival::Soon {
            Verdict::DrainLater
        } else {
            Verdict::LeaveAlone { first: Some(seen.new) }
        };
        match verdict {
            Verdict::Drain | Verdict::DrainLater => drop(seen.drained.insert(pod.uid.clone())),
            Verdict::LeaveAlone { .. } => seen.left_alone = true,
        }
        verdict
    }

    /// The owners whose new pods are left alone, and how many new pods each had so far.
    pub(super) fn left_alone(&self) -> impl Iterator<Item = (&OwnerKey, usize)> {
        self.0.iter().filter(|(_, seen)| seen.left_alone).map(|(key, seen)| (key, seen.new))
    }
}
