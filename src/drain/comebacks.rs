//! Pods that come back on the node that they are evicted from.
//!
//! A controller whose pods tolerate the cordon (an OpenKruise DaemonSet, a Deployment that
//! tolerates everything) creates each evicted pod again on the same node. Evicting them again and
//! again helps nobody and never ends. So Sundown drains the first few new pods of an owner and
//! leaves the later ones alone. It always drains pods that existed at the cordon.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::domain::{Owner, Pod, PodUid, seconds};

/// How many new pods of one owner are drained. From the next one on its new pods are left alone.
pub(super) const MAX_DRAINED: usize = 3;

/// How long after the cordon the scheduler may still bind pods for which it had chosen the node:
/// until then, many new pods of one owner do not mean that its pods come back.
pub(super) const SCHEDULING_TIME: Duration = seconds(5);

/// When a pod came to the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Before the cordon, as far as is known.
    BeforeCordon,
    /// After the cordon, while pods that were being scheduled still arrive.
    Settling,
    /// After that time.
    Late,
}

/// What to do with a new pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Drain it.
    Drain,
    /// Drain it once no pod that was being scheduled can arrive.
    DrainLater,
    /// Leave it alone.
    LeaveAlone {
        /// If this is the first pod of its owner that is left alone: how many new pods of the owner
        /// came so far. Otherwise `None`.
        first: Option<usize>,
    },
}

/// Namespace and owner of pods.
pub(super) type OwnerKey = (String, Owner);

#[derive(Debug, Default)]
struct OwnerPods {
    new: usize,
    /// The new pods that are drained. If the watch lags, a pod that an answer reported gone is seen
    /// once more: it counts once.
    drained: BTreeSet<PodUid>,
    left_alone: bool,
}

/// Counts the new pods on the node by owner.
#[derive(Debug, Default)]
pub(super) struct Comebacks(BTreeMap<OwnerKey, OwnerPods>);

impl Comebacks {
    /// The owner that would create the pod again; `None`: no owner.
    pub(super) fn key(pod: &Pod) -> Option<OwnerKey> {
        pod.owner.as_ref().map(|owner| (pod.key.namespace.to_string(), (**owner).clone()))
    }

    /// Counts a pod that was not seen before, and decides what to do with it.
    pub(super) fn arrived(&mut self, pod: &Pod, arrival: Arrival) -> Verdict {
        if arrival == Arrival::BeforeCordon {
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
        } else if seen.new <= MAX_DRAINED {
            Verdict::Drain
        } else if arrival == Arrival::Settling {
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
