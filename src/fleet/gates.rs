//! What the gates of a Node hold, and a person's order to force its drain. [`crate::lifecycle`] has
//! the rules for gates.

use super::{DrainEvent, Fleet, node_state::NodeState};
use crate::{
    domain::{GateKind, InterruptionFacts, Limits, Moment, Node, NodeName},
    lifecycle::{self, GateHold, IgnoredGate},
};

/// The gates of a drain and the order to force it, as this leader has last handled them.
#[derive(Debug, Default)]
pub(super) struct GateState {
    /// When this leader saw a person's order to force the drain; `None`: there is none.
    forced_at: Option<Moment>,
    /// Half of the time has passed. A deadline that moves later does not let gates hold again.
    is_half_passed: bool,
    /// Boxed, because few Nodes have gates.
    reported: Option<Box<Reported>>,
}

/// What was reported last about the gates of a Node.
#[derive(Debug, PartialEq, Eq)]
struct Reported {
    kind: GateKind,
    gates: String,
    hold: GateHold,
}

impl GateState {
    pub(super) fn new(node: &Node, now: Moment) -> Self {
        Self { forced_at: Some(now).filter(|_| node.forced_by_hand()), ..Self::default() }
    }

    /// A person ordered to force the drain.
    pub(super) const fn is_forced(&self) -> bool {
        self.forced_at.is_some()
    }

    fn pre_drain_hold(
        &self,
        node: &Node,
        limits: &Limits,
        holding: &[InterruptionFacts],
        now: Moment,
    ) -> GateHold {
        match lifecycle::pre_drain_hold(node, limits, holding, now) {
            GateHold::Until(_) if self.is_half_passed => GateHold::Ignored(IgnoredGate::HalfPassed),
            hold => hold,
        }
    }

    /// Returns `limits` with `held_until` and `forced_at` set. `holding`: the interruptions that
    /// hold.
    pub(super) fn apply(
        &self,
        limits: Limits,
        node: &Node,
        holding: &[InterruptionFacts],
        now: Moment,
    ) -> Limits {
        let hold = self.pre_drain_hold(node, &limits, holding, now);
        Limits { held_until: hold.until(), forced_at: self.forced_at, ..limits }
    }
}

impl NodeState {
    /// Until when gates hold the completion of its lifecycle actions; `None`: none does. An order
    /// of a person, or a Node that Sundown no longer manages, ends their hold.
    fn release_hold(&self, is_managed: bool, now: Moment) -> GateHold {
        let Some(completion) = self.completion().filter(|completion| completion.heeds_gates) else {
            return GateHold::None;
        };
        if self.node.released_by_hand() || !is_managed {
            return GateHold::None;
        }
        lifecycle::pre_release_hold(&self.node, &self.limits, completion.ended, now)
    }
}

impl Fleet {
    /// Acts on the gates and on the order to force the drain that a Node shows.
    pub(super) fn follow_gates(&mut self, name: &NodeName) {
        let now = self.now;
        let Some(state) = self.drains.get_mut(name) else { return };
        let is_forced = state.node.forced_by_hand();
        if is_forced != state.gates.is_forced() {
            state.gates.forced_at = Some(now).filter(|_| is_forced);
            self.out.report(name, DrainEvent::ForceOrder(is_forced));
        } else if state.node.gates.is_none() && state.gates.reported.is_none() {
            return;
        }
        self.refresh_limits(name);
        self.update_gates(name);
    }

    /// Lets gates of the release hold the completion, and reports what the gates of a Node hold, if
    /// that has changed: those of the drain while it goes on, those of the release after that.
    /// Called after the limits of a drain have changed, too.
    pub(super) fn update_gates(&mut self, name: &NodeName) {
        let now = self.now;
        let Some(state) = self.drains.get(name) else { return };
        if state.node.gates.is_none() && state.gates.reported.is_none() {
            return;
        }
        let (kind, hold) = if state.is_draining() {
            let holding = state.holding();
            let hold = state.gates.pre_drain_hold(&state.node, &state.limits, &holding, now);
            (GateKind::PreDrain, hold)
        } else {
            let hold = state.release_hold(self.lookup.manages(&state.node), now);
            (GateKind::PreRelease, hold)
        };
        let Some(state) = self.drains.get_mut(name) else { return };
        if let Some(completion) = state.completion_mut() {
            completion.hold_until(hold.until(), now, &mut self.out);
        }
        let held = state
            .gates
            .reported
            .as_ref()
            .is_some_and(|before| before.kind == kind && before.hold.until().is_some());
        state.gates.is_half_passed |= hold == GateHold::Ignored(IgnoredGate::HalfPassed);
        let gates = match hold {
            GateHold::None => None,
            _ => Some(Box::new(Reported { kind, gates: state.node.gates_text(kind), hold })),
        };
        if state.gates.reported == gates {
            return;
        }
        let text = gates.as_ref().map(|gates| gates.gates.clone()).unwrap_or_default();
        state.gates.reported = gates;
        let event = match hold {
            GateHold::Until(until) => DrainEvent::GatesHold { kind, gates: text, until },
            GateHold::Ignored(why) => DrainEvent::GatesIgnored { kind, gates: text, why },
            GateHold::None if held => DrainEvent::GatesGone(kind),
            GateHold::None => return,
        };
        self.out.report(name, event);
    }
}
