//! Lets the evictions of a drain wait for a replacement (`--evict-after`).
//! [`crate::lifecycle::eviction_start()`] has the rules.

use std::collections::BTreeSet;

use super::{DrainEvent, Effect, Fleet, Question};
use crate::{
    domain::{EvictionStart, GroupName, InterruptionFacts, Limits, NodeName},
    lifecycle,
};

/// What is known of the replacement of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Replacement {
    /// Nothing: nobody has asked.
    #[default]
    NotAsked,
    /// [`Question::Replacement`] was asked.
    Asked,
    /// The group has a node that can take over the pods.
    Ready,
    /// The evictions have begun. A deadline that moves later does not stop them.
    NotNeeded,
}

impl Fleet {
    /// Returns `limits` with `eviction_start` set.
    pub(super) fn with_eviction_start(
        &self,
        limits: Limits,
        interruptions: &[InterruptionFacts],
        replacement: Replacement,
    ) -> Limits {
        if replacement == Replacement::NotNeeded || limits.forced_at.is_some() {
            return limits;
        }
        let is_replaced = replacement == Replacement::Ready;
        let by_kind = &self.settings.limits.evict_after;
        let eviction_start =
            lifecycle::eviction_start(&limits, interruptions, by_kind, is_replaced, self.now);
        Limits { eviction_start, ..limits }
    }

    /// Called after the limits of a drain have changed. Reports what its evictions wait for, if
    /// that differs from `before`. Asks for a replacement, if they wait for one.
    pub(super) fn follow_eviction_start(&mut self, name: &NodeName, before: EvictionStart) {
        let Some(state) = self.drains.get_mut(name).filter(|state| state.is_draining()) else {
            return;
        };
        let start = state.limits.eviction_start;
        if start != before {
            let is_replaced = state.replacement == Replacement::Ready;
            self.out.report(name, DrainEvent::EvictionsStart { start, is_replaced });
        }
        if start == EvictionStart::Now && state.limits.response.evicts() {
            state.replacement = Replacement::NotNeeded;
        }
        let EvictionStart::ReplacementReady(_) = start else { return };
        if state.replacement != Replacement::NotAsked {
            return;
        }
        state.replacement = Replacement::Asked;
        let actions = self.lookup.open_actions(&state.record, &state.instance);
        let groups: BTreeSet<GroupName> =
            actions.into_iter().map(|action| action.key.group).collect();
        self.out.push(Effect::Ask(Question::Replacement {
            node: name.clone(),
            uid: state.node.uid.clone(),
            instance: state.instance.clone(),
            group: groups.into_iter().next(),
            since: state.limits.tainted_at,
        }));
    }

    /// The group of this node has another node that can take over its pods.
    pub(super) fn replacement_ready(&mut self, name: &NodeName, uid: &str) {
        let Some(state) = self.drains.get_mut(name).filter(|state| state.node.uid == uid) else {
            return;
        };
        if state.replacement == Replacement::Asked {
            state.replacement = Replacement::Ready;
            self.refresh_limits(name);
        }
    }
}
