//! Operator actions: a person uncordons a node, releases it, or pauses one drain or all drains.

use std::sync::Arc;

use super::{
    DrainEvent, Effect, Fleet, FleetEvent,
    effect::Effects,
    node_state::{NodeState, PausedBy},
};
use crate::{
    domain::{Moment, Node, NodeName},
    drain::{DispatchInput, Input, NodeCondition},
    record::EndReason,
};

impl Fleet {
    /// Acts on what people have done to a Node that is being drained.
    pub(super) fn follow_people(&mut self, node: &Arc<Node>) {
        let Some(state) = self.drains.get_mut(&node.name) else { return };
        let is_cordoned = state.limits.response.cordons();
        if is_cordoned && !node.unschedulable && !state.is_uncordon_reported && state.is_draining()
        {
            state.is_uncordon_reported = true;
            self.out.report(&node.name, DrainEvent::Uncordoned);
        }
        if node.released_by_hand() || !self.lookup.manages(node) {
            self.end_released_or_unmanaged(node);
        }
    }

    /// Pauses or resumes the drain of one node. A drain is paused by the annotation of its Node, or
    /// by that of the Lease, which pauses all drains.
    pub(super) fn follow_pause(&mut self, name: &NodeName) {
        let all = self.paused;
        let Some(state) = self.drains.get_mut(name) else { return };
        let pause = PausedBy::of(all, state.node.paused());
        let before = std::mem::replace(&mut state.paused_by, pause);
        if before.has_annotation() != pause.has_annotation() && state.is_draining() {
            self.out.report(name, DrainEvent::PauseAnnotation(pause.has_annotation()));
        }
        let paused = pause.is_paused();
        if before.is_paused() == paused {
            return;
        }
        self.pacing.changed();
        self.dispatch(DispatchInput::Paused { node: name.clone(), paused });
        if paused {
            self.report_resumed_at(name);
            self.feed(name, Input::Paused);
        } else {
            // The leader takes the drain up again: a deadline that passed meanwhile no longer
            // counts.
            let now = self.now;
            let Some(state) = self.drains.get_mut(name) else { return };
            state.resumed_at = now;
            let Some(limits) = self.limits_now(name) else { return };
            self.report_resumed_at(name);
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

    /// Ends the drain of a node whose release a person asked for, or that Sundown no longer
    /// manages. Its completion follows.
    fn end_released_or_unmanaged(&mut self, node: &Node) {
        let Some(state) = self.drains.get_mut(&node.name) else { return };
        if state.is_draining() && state.end_reason == EndReason::InstanceGoes {
            state.end_reason = EndReason::ByHand;
            let is_ignored = node.ignored();
            let event = if node.released_by_hand() {
                DrainEvent::ReleaseRequested
            } else {
                DrainEvent::NoLongerManaged { is_ignored }
            };
            self.out.report(&node.name, event);
        }
        // If the drain has already ended, this ends the wait for `--complete-delay`.
        self.feed(&node.name, Input::Release);
    }

    /// Ends the drain of a node whose record a person has deleted a second time, as if its release
    /// was asked for.
    pub(super) fn end_after_second_deletion(&mut self, node: &Node) {
        let Some(state) = self.drains.get_mut(&node.name) else { return };
        if state.is_draining() {
            state.end_reason = EndReason::ByHand;
            self.out.report(&node.name, DrainEvent::RecordDeletedAgain);
        }
        self.feed(&node.name, Input::Release);
    }

    /// Reports once that the node selector does not match a Node with an open record. The record
    /// may be that of another Sundown, which completes its lifecycle actions.
    pub(super) fn report_unselected(&mut self, node: &Node) {
        if self.reported_unselected.insert(node.name.clone()) {
            self.out.report(&node.name, DrainEvent::LeftAlone);
        }
    }
}

impl NodeState {
    /// Handles an input to a drain that has ended. It can only let completion begin earlier.
    pub(super) fn handle_after_end(&mut self, now: Moment, input: &Input, out: &mut Effects) {
        let at = match input {
            Input::Release | Input::Node(NodeCondition::Deleted | NodeCondition::InstanceOver) => {
                Some(now)
            }
            Input::Limits(limits) | Input::Resumed(limits) => limits.end_at,
            _ => None,
        };
        if let (Some(at), Some(completion)) = (at, self.completion_mut()) {
            completion.not_after(at, out);
        }
    }
}
