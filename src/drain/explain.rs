//! The explanation of a drain: which pods are left, what blocks each, since when, what would
//! unblock it and when it is deleted by force. The Event `Blocked`, the conditions of the Node and
//! `sundown status` are made from it.

use std::{borrow::Borrow, collections::BTreeMap};

use super::{AskedToWait, BlockReason, Blocked, Counts, Drain, Phase, blocked_by_budgets};
use crate::domain::{Budget, BudgetKey, EvictionStart, HeldBy, Moment, PaceHold, Pod, PodKey};

/// Why the drain of a node is where it is at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The stage of the drain.
    pub phase: Phase,
    /// What all evictions of the node wait for; `None`: for nothing.
    pub wait: Option<Wait>,
    /// Pods by state.
    pub counts: Counts,
    /// The blocked pods, in the order of namespace and name.
    pub blocked: Vec<BlockedPod>,
    /// When the first of the blocked pods may be deleted by force. `None`: none will be.
    pub blocked_forced_from: Option<Moment>,
    /// The pods that wait because they ask for it, by annotation or label.
    pub asked_to_wait: Vec<AskedToWait>,
}

/// What all evictions of a node wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// For AWS to confirm what the drain is for.
    Aws,
    /// For this moment (`--evict-after`).
    Until(Moment),
    /// For a node that can take over the pods, until this moment at the latest (`--evict-after`).
    Replacement(Moment),
    /// For somebody to remove a gate (`pre-drain.sundown.dev/NAME`), until this moment at the latest.
    Gate(Moment),
    /// For other drains, until this moment at the latest (`--max-drains-per-group`,
    /// `--max-voluntary`, and one control-plane node at a time).
    Pace(PaceHold, Moment),
}

/// A blocked pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedPod {
    /// Namespace and name of the pod.
    pub pod: PodKey,
    /// Why it is blocked now; the reason may have changed since `since`.
    pub reason: BlockReason,
    /// Message of the API server, or what else is known; may be empty.
    pub message: String,
    /// The disruption budgets that block it now.
    pub budgets: Vec<BudgetKey>,
    /// When it was first blocked. `None`: not known.
    pub since: Option<Moment>,
    /// From when on it may be deleted by force. `None`: it will not be.
    pub forced_from: Option<Moment>,
}

/// Why a pod is blocked, as far as `sundown status` and `explain` know: they send no evictions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownBlock {
    /// Why it is blocked.
    pub reason: BlockReason,
    /// What is known about it; may be empty.
    pub message: String,
    /// When it was first blocked. `None`: not known.
    pub since: Option<Moment>,
}

/// One cause that blocks pods of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// Why the pods are blocked.
    pub reason: BlockReason,
    /// The disruption budgets that block them; empty for other reasons, and if they are not known.
    pub budgets: Vec<BudgetKey>,
    /// The pods, in the order of namespace and name; at least one.
    pub pods: Vec<PodKey>,
    /// When the first of them was blocked. `None`: not known of any.
    pub since: Option<Moment>,
}

/// The cause that stands for a drain in one word: the reason of a Node's condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The pods have not been listed yet.
    Listing,
    /// No pod is evicted: the interruptions do not ask for it (`--on`).
    Marked,
    /// A person has paused the drain.
    Paused,
    /// Evictions wait.
    Waiting(Wait),
    /// Pods are blocked; the reason blocks most of them.
    Blocked(BlockReason),
    /// Pods are being evicted.
    Evicting,
    /// Pods wait because they ask for it, and all others are terminating or wait for these.
    AskedToWait,
    /// All pods that are left are terminating.
    Terminating,
    /// No pod is left, and volumes of the pods are still attached.
    Volumes,
    /// No pod that counts is left, and the drain ends soon.
    NoPodLeft,
    /// The drain is over.
    Ended,
}

impl Cause {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Listing => "ListingPods",
            Self::Marked => "NotEvicting",
            Self::Paused => "Paused",
            Self::Waiting(Wait::Aws) => "WaitingForAWS",
            Self::Waiting(Wait::Until(_)) => "WaitingForEvictAfter",
            Self::Waiting(Wait::Replacement(_)) => "WaitingForReplacement",
            Self::Waiting(Wait::Gate(_)) => "HeldByGate",
            Self::Waiting(Wait::Pace(..)) => "WaitingForOtherDrains",
            Self::Volumes => "WaitingForVolumes",
            Self::Blocked(reason) => reason.in_condition(),
            Self::Evicting => "Evicting",
            Self::AskedToWait => "PodsAskToWait",
            Self::Terminating => "Terminating",
            Self::NoPodLeft => "NoPodLeft",
            Self::Ended => "Ended",
        }
    }
}

impl BlockReason {
    /// The reason of a Node's condition.
    const fn in_condition(self) -> &'static str {
        match self {
            Self::Pdb | Self::PdbLagging | Self::TwoPdbs => "BlockedByBudget",
            Self::Webhook => "BlockedByWebhook",
            Self::NamespaceTerminating => "NamespaceTerminating",
            Self::Rbac => "EvictionForbidden",
            Self::TerminatingStuck => "PodStuckTerminating",
            Self::Finalizer => "BlockedByFinalizer",
            Self::ApiOverload | Self::NoSlot => "APIServerOverloaded",
            Self::Intercepted => "EvictionIntercepted",
            Self::Error => "EvictionFailing",
        }
    }

    /// What the pod needs to be unblocked before it is deleted by force.
    #[must_use]
    pub const fn needs(self) -> &'static str {
        match self {
            Self::Pdb => "one more healthy pod of the budget, or a budget that allows a disruption",
            Self::PdbLagging => "the disruption controller to update the status of the budget",
            Self::TwoPdbs => "only one budget that selects the pod",
            Self::Webhook => "the webhook or policy to admit the eviction",
            Self::NamespaceTerminating => "nothing: the namespace controller deletes it",
            Self::Rbac => "the permission to create pods/eviction (`sundown check`)",
            Self::TerminatingStuck => "the kubelet to stop its containers",
            Self::Finalizer => "its finalizers to be removed by their controller",
            Self::ApiOverload => "fewer requests to the API server",
            Self::Intercepted => "the webhook that intercepts evictions to delete it",
            Self::NoSlot => "fewer evictions at once, or a higher --max-evictions",
            Self::Error => "the API server to accept the eviction",
        }
    }
}

impl Explanation {
    /// What blocks the pods: the cause that blocks most of them first, then the one that has
    /// blocked for longer.
    #[must_use]
    pub fn blockers(&self) -> Vec<Blocker> {
        let mut by_cause: BTreeMap<(BlockReason, &[BudgetKey]), Vec<&BlockedPod>> = BTreeMap::new();
        for pod in &self.blocked {
            by_cause.entry((pod.reason, &pod.budgets)).or_default().push(pod);
        }
        let blocker = |((reason, budgets), pods): (_, Vec<&BlockedPod>)| Blocker {
            reason,
            budgets: <[BudgetKey]>::to_vec(budgets),
            since: pods.iter().filter_map(|pod| pod.since).min(),
            pods: pods.into_iter().map(|pod| pod.pod.clone()).collect(),
        };
        let mut all: Vec<Blocker> = by_cause.into_iter().map(blocker).collect();
        all.sort_by_key(|blocker| {
            (std::cmp::Reverse(blocker.pods.len()), blocker.since.unwrap_or(Moment::MAX))
        });
        all
    }

    /// The cause that stands for all. Blocked pods come before those on their way out.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match (self.phase, self.wait) {
            (Phase::Listing, _) => Cause::Listing,
            (Phase::Marked, _) => Cause::Marked,
            (Phase::Paused, _) => Cause::Paused,
            (Phase::Ended, _) => Cause::Ended,
            (Phase::Volumes, _) => Cause::Volumes,
            (Phase::Draining, Some(wait)) => Cause::Waiting(wait),
            (Phase::Draining, None) => match self.blockers().first() {
                Some(worst) => Cause::Blocked(worst.reason),
                None if self.counts.left == 0 => Cause::NoPodLeft,
                None if self.counts.asked_to_wait > 0
                    && self.counts.waiting + self.counts.unknown == 0 =>
                {
                    Cause::AskedToWait
                }
                None if self.counts.waiting + self.counts.later + self.counts.unknown > 0 => {
                    Cause::Evicting
                }
                None => Cause::Terminating,
            },
        }
    }
}

impl Drain {
    /// Explains the drain at `now`. `budgets`: the budgets of a namespace, or more; called only for
    /// namespaces with a blocked pod. `known`: why a pod is blocked, if this drain has not found
    /// out itself, because its process sends no evictions (`sundown status` and `explain`).
    #[must_use]
    pub fn explain<'a, B: Borrow<Budget> + 'a>(
        &self,
        now: Moment,
        budgets: impl Fn(&str) -> &'a [B],
        known: impl Fn(&Pod) -> Option<KnownBlock>,
    ) -> Explanation {
        let status = self.status(now);
        let mut counts = status.counts;
        let by_drain: BTreeMap<&PodKey, &Blocked> =
            status.blocked.iter().map(|blocked| (&blocked.pod, blocked)).collect();
        let mut blocks = Vec::new();
        for pod in self.pods_left() {
            if let Some(block) = by_drain.get(&pod.key) {
                let (reason, message) = (block.reason, block.message.clone());
                blocks.push((pod, KnownBlock { reason, message, since: Some(block.since) }));
            } else if self.asks_to_wait(pod, now) {
                // Sundown has not tried to evict it, so no budget blocks it.
            } else if let Some(block) = known(pod) {
                let count = match pod.deletion {
                    Some(_) => &mut counts.leaving,
                    None if counts.waiting > 0 => &mut counts.waiting,
                    None => &mut counts.later,
                };
                *count = count.saturating_sub(1);
                counts.blocked += 1;
                blocks.push((pod, block));
            }
        }
        let explained = |(pod, block): (&Pod, KnownBlock)| BlockedPod {
            pod: pod.key.clone(),
            reason: block.reason,
            message: block.message,
            budgets: blocked_by_budgets(pod, budgets(&pod.key.namespace))
                .map(|block| block.budgets.iter().map(|budget| budget.key.clone()).collect())
                .unwrap_or_default(),
            since: block.since,
            forced_from: self.forced_from(pod),
        };
        let mut blocked: Vec<BlockedPod> = blocks.into_iter().map(explained).collect();
        blocked.sort_by(|a, b| a.pod.cmp(&b.pod));
        Explanation {
            phase: status.phase,
            wait: self.eviction_wait(),
            counts,
            blocked_forced_from: blocked.iter().filter_map(|pod| pod.forced_from).min(),
            blocked,
            asked_to_wait: status.asked_to_wait,
        }
    }

    /// What all evictions of the node wait for.
    fn eviction_wait(&self) -> Option<Wait> {
        let limits = self.limits();
        let awaits_end = self.looks_empty() && !limits.verification.may_end();
        if !limits.verification.may_evict() || awaits_end {
            return Some(Wait::Aws);
        }
        let held = limits.held_until.map(|until| match limits.held_by {
            HeldBy::Gates => Wait::Gate(until),
            HeldBy::Pace(why) => Wait::Pace(why, until),
        });
        match limits.eviction_start {
            // A gate is named before `--evict-after`.
            _ if matches!(held, Some(Wait::Gate(_))) => held,
            EvictionStart::Now => held,
            EvictionStart::At(at) => Some(Wait::Until(at)),
            EvictionStart::ReplacementReady(at) => Some(Wait::Replacement(at)),
        }
    }
}
