//! Operator actions: a person uncordons a node, releases it, or pauses one drain or all drains.

use std::sync::Arc;

use super::{DrainEvent, Effect, Fleet, FleetEvent, effect::Effects, node_state::NodeState};
use crate::{
    domain::{Moment, Node, NodeName},
    drain::{DispatchInput, Input, NodeCondition},
    record::EndReason,
};

impl Fleet {
    /// What people have done to a node that is being drained.
    pub(super) fn follow_people(&mut self, node: &Arc<Node>) {
        let Some(state) = self.drains.get_mut(&node.name) else { return };
        if !node.unschedulable && !state.is_uncordon_reported && state.drain.is_some() {
            state.is_uncordon_reported = true;
            self.out.report(&node.name, DrainEvent::Uncordoned);
        }
        if node.released_by_hand() || !self.lookup.manages(node) {
            self.let_go(node);
        }
    }

    /// Pauses or resumes the drain of one node. It is paused by the annotation of the Node, or by
    /// that of the Lease for all drains.
    pub(super) fn follow_pause(&mut self, name: &NodeName) {
        let all = self.paused;
        let Some(state) = self.drains.get_mut(name) else { return };
        let alone = state.node.paused();
        if std::mem::replace(&mut state.is_paused_alone, alone) != alone && state.drain.is_some() {
            self.out.report(name, DrainEvent::PauseAnnotation(alone));
        }
        let paused = all || alone;
        if state.paused == paused {
            return;
        }
        state.paused = paused;
        self.dispatch(DispatchInput::Paused { node: name.clone(), paused });
        if paused {
            self.feed(name, Input::Paused);
        } else {
            // A take-up: a deadline that passed meanwhile is void.
            let now = self.now;
            let Some(state) = self.drains.get_mut(name) else { return };
            state.take_up = now;
            let (taken, proved, record_clock) =
                (state.taken.clone(), state.proved.clone(), state.record_clock);
            let limits = self.limits_of(&taken, now, &proved, record_clock);
            self.set_limits(name, limits);
            self.feed(name, Input::Resumed(limits));
        }
    }

    /// Pauses all drains, or resumes them.
    pub(super) fn pause_all(&mut self, paused: bool) {
        if self.paused == paused {
            return;
        }
        self.paused = paused;
        self.out.push(Effect::PausedAll(paused));
        self.out.report_of_fleet(FleetEvent::PausedAll(paused));
        self.dispatch(DispatchInput::PausedAll(paused));
        let names: Vec<_> = self.drains.keys().cloned().collect();
        for name in names {
            self.follow_pause(&name);
        }
    }

    /// Somebody asked for the release of a node, or it is not ours to drain any more: its drain
    /// ends, and what it owes is completed.
    pub(super) fn let_go(&mut self, node: &Node) {
        let Some(state) = self.drains.get_mut(&node.name) else { return };
        if state.drain.is_some() && state.end_reason == EndReason::InstanceGoes {
            state.end_reason = EndReason::ByHand;
            let is_ignored = node.ignored();
            let event = if node.released_by_hand() {
                DrainEvent::ReleaseRequested
            } else {
                DrainEvent::NoLongerManaged { is_ignored }
            };
            self.out.report(&node.name, event);
        }
        // A drain that is over may still wait for `--complete-delay`.
        self.feed(&node.name, Input::Release);
    }

    /// Ends the drain of a node as the release annotation does: a person has deleted its record
    /// again.
    pub(super) fn end_by_hand(&mut self, node: &Node) {
        let Some(state) = self.drains.get_mut(&node.name) else { return };
        if state.drain.is_some() {
            state.end_reason = EndReason::ByHand;
            self.out.report(&node.name, DrainEvent::RecordDeletedAgain);
        }
        self.feed(&node.name, Input::Release);
    }

    /// An open record on a node that the selector does not take: it may be another Sundown's, whose
    /// hooks are not ours to complete.
    pub(super) fn leave_alone(&mut self, node: &Node) {
        if self.left_alone.insert(node.name.clone()) {
            self.out.report(&node.name, DrainEvent::LeftAlone);
        }
    }
}

impl NodeState {
    /// Handles an input to a drain that has ended. It can only let the release complete earlier.
    pub(super) fn handle_after_end(&mut self, now: Moment, input: &Input, out: &mut Effects) {
        let at = match input {
            Input::Release | Input::Node(NodeCondition::Deleted | NodeCondition::InstanceOver) => {
                Some(now)
            }
            Input::Limits(limits) | Input::Resumed(limits) => limits.end_at,
            _ => None,
        };
        if let (Some(at), Some(completing)) = (at, &mut self.completing) {
            completing.not_after(at, out);
        }
    }
}
