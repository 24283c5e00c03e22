//! One node on its way out.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    Begin, DrainEvent, Effect, Fleet, FleetEvent, Origin, Restoration, completing::Completing,
    node_events::LastSaid,
};
use crate::{
    domain::{InstanceId, LifecycleAction, Limits, Moment, Node, NodeName, Taken, seconds},
    drain::{self, Drain, Input, Start},
    lifecycle::{self, HookFacts, LimitSettings, RecordClock},
    record::{self, EndReason, Record, RecordDeletion},
};

/// One node on its way out.
pub(super) struct NodeState {
    pub(super) node: Arc<Node>,
    pub(super) instance: InstanceId,
    pub(super) record: Record,
    pub(super) taken: Vec<Taken>,
    /// `None` once the drain is over, and its lifecycle actions are being completed.
    pub(super) drain: Option<Drain>,
    /// What follows on the drain.
    pub(super) completing: Option<Completing>,
    pub(super) take_up: Moment,
    /// By which skew its record is read.
    pub(super) record_clock: RecordClock,
    pub(super) wake: Option<Moment>,
    pub(super) limits: Limits,
    pub(super) paused: bool,
    /// Its own node carries the annotation that pauses it.
    pub(super) is_paused_alone: bool,
    /// Why it ends, or would end now.
    pub(super) end_reason: EndReason,
    /// Events of stale interruptions that were proved since.
    pub(super) proved: BTreeSet<String>,
    /// Events of those that were disproved.
    pub(super) disproved: BTreeSet<String>,
    /// Hooks whose completion was accepted, or that are verifiably gone.
    pub(super) over: BTreeSet<LifecycleAction>,
    /// Events of stale interruptions that are being asked about, for as long as the drain goes on.
    pub(super) verifying: BTreeSet<String>,
    /// Whether a person has deleted its record.
    pub(super) deletion: RecordDeletion,
    /// What a fresh record lacks of the one whose place it took is being written into it.
    pub(super) carrying_over: bool,
    pub(super) is_uncordon_reported: bool,
    /// What the last Events about pauses, blocked pods and heartbeats have said.
    pub(super) last_said: LastSaid,
    pub(super) labelling: bool,
    pub(super) kubelet: Kubelet,
}

/// Whether the kubelet of a node is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kubelet {
    /// It is, or its silence counts for nothing.
    Heard,
    /// Nothing is heard of it, and EC2 is being asked.
    Silent,
}

impl NodeState {
    /// Nothing runs on the instance any more, says an interruption that was read in its own time or
    /// is proved.
    pub(super) fn is_over(&self) -> bool {
        self.taken.iter().any(|t| t.is_over() && is_sure(t, &self.proved))
    }

    /// Every interruption that it has taken on is disproved.
    pub(super) fn is_disproved(&self) -> bool {
        self.taken.iter().all(|t| self.disproved.contains(&t.event_id))
    }
}

/// It was read in its own time, or is proved.
fn is_sure(taken: &Taken, proved: &BTreeSet<String>) -> bool {
    !taken.stale || proved.contains(&taken.event_id)
}

/// What a drain is held to, derived from the facts of its record. `proved`: the events of stale
/// interruptions that AWS has confirmed. `record_clock`: by which the record was read; `None` for a
/// reader that does not know AWS's clock.
#[must_use]
pub fn limits_of(
    settings: &LimitSettings,
    taken: &[Taken],
    hook_facts: &BTreeMap<LifecycleAction, HookFacts>,
    take_up: Moment,
    proved: &BTreeSet<String>,
    record_clock: Option<RecordClock>,
) -> Limits {
    let sure: Vec<Taken> = taken.iter().filter(|t| is_sure(t, proved)).cloned().collect();
    let accepted = taken.iter().map(|t| t.accepted).min().unwrap_or(take_up);
    if sure.is_empty() {
        return Limits::polite(accepted, taken.iter().any(Taken::is_urgent));
    }
    let limits = lifecycle::limits(&sure, hook_facts, take_up, settings);
    record_clock.map_or(limits, |clock| clock.soften(limits))
}

/// When a leader has taken a drain up: at the accept where it led by then, at the take-over
/// otherwise.
#[must_use]
pub fn taken_up(accepted: Moment, leads_since: Moment, taken_over: Moment) -> Moment {
    if accepted >= leads_since.minus(seconds(1)) { accepted } else { taken_over }
}

impl Fleet {
    /// A hook of this node waits for its completion.
    pub(super) fn has_open_actions(&self, state: &NodeState) -> bool {
        state.end_reason != EndReason::NothingHolds
            && self
                .lookup
                .open_actions(&state.record, &state.instance)
                .iter()
                .any(|action| !state.over.contains(action))
    }

    /// Limits as the drain knows them, from facts.
    pub(super) fn limits_of(
        &self,
        taken: &[Taken],
        take_up: Moment,
        proved: &BTreeSet<String>,
        record_clock: RecordClock,
    ) -> Limits {
        limits_of(
            &self.settings.limits,
            taken,
            &self.hook_facts,
            take_up,
            proved,
            Some(record_clock),
        )
    }

    /// Derives the limits of a drain again and tells it when they have changed.
    pub(super) fn refresh_limits(&mut self, name: &NodeName) {
        let Some(state) = self.drains.get(name) else { return };
        let limits = self.limits_of(&state.taken, state.take_up, &state.proved, state.record_clock);
        if limits != state.limits {
            self.set_limits(name, limits);
            self.feed(name, Input::Limits(limits));
        }
    }

    /// Reads the records of running drains anew where AWS's clock is found to differ by more than
    /// it did. That is a take-up: a deadline that is over by the new measurement is void.
    pub(super) fn follow_skew(&mut self) {
        let (now, skew) = (self.now, self.lookup.skew());
        let mut changed = Vec::new();
        for (name, state) in self.drains.iter_mut().filter(|(_, state)| state.drain.is_some()) {
            if state.record_clock.measured(skew, now) {
                state.taken = skew.taken(state.record.taken(&state.instance));
                state.take_up = now;
                changed.push(name.clone());
            }
        }
        if !changed.is_empty() {
            self.out.report_of_fleet(FleetEvent::ClockDiffers { drains: changed.len(), skew });
        }
        for name in changed {
            self.refresh_limits(&name);
        }
    }

    /// Notes what a drain is held to, for itself and for those who take more on for its node.
    pub(super) fn set_limits(&mut self, name: &NodeName, limits: Limits) {
        let Some(state) = self.drains.get_mut(name) else { return };
        let differs =
            state.limits.end_at != limits.end_at || state.limits.force_at != limits.force_at;
        if differs && state.drain.is_some() {
            self.out.report(
                name,
                DrainEvent::DeadlineSet { ends: limits.end_at, forces: limits.force_at },
            );
        }
        state.limits = limits;
        let lasting = self
            .drains
            .get(name)
            .filter(|state| state.drain.is_some())
            .map(|state| self.lasting_limits(state));
        // Who accepts the next interruption compares deadlines less their margins.
        self.out.deadline_is(name, lasting.and_then(|limits| limits.force_at.or(limits.end_at)));
    }

    /// The limits of a drain without windows that are about to lapse ([`HookFacts::lasting`]).
    fn lasting_limits(&self, state: &NodeState) -> Limits {
        let hooks = state.taken.iter().filter_map(|taken| taken.hook.as_ref());
        let facts = hooks
            .filter_map(|action| Some((action.clone(), self.hook_facts.get(action)?.lasting())))
            .collect();
        limits_of(
            &self.settings.limits,
            &state.taken,
            &facts,
            state.take_up,
            &state.proved,
            Some(state.record_clock),
        )
    }

    /// Begins the drain of a node whose record is open, or takes over one that another leader
    /// began.
    pub(super) fn begin(&mut self, node: &Arc<Node>, instance: &InstanceId, record: Record) {
        let record_clock = RecordClock::new(self.lookup.skew());
        let taken = record_clock.skew().taken(record.taken(instance));
        let accepted = taken.iter().map(|t| t.accepted).min().unwrap_or(self.now);
        let ours = accepted >= self.settings.leads_since.minus(seconds(1));
        let take_up = taken_up(accepted, self.settings.leads_since, self.now);
        self.keep_actions_alive(&node.name, &self.lookup.open_actions(&record, instance), &taken, ours);
        let limits = self.limits_of(&taken, take_up, &BTreeSet::new(), record_clock);
        let own_pod = self.settings.own_pod.clone();
        let start = Start { node: node.name.clone(), cordoned_at: accepted, limits, own_pod };
        let drain = Drain::new(start, self.settings.drain);
        let begin = Begin {
            node: Arc::clone(node),
            instance: instance.clone(),
            taken: taken.clone(),
            accepted,
            is_ours: ours,
        };
        self.out.report(&node.name, DrainEvent::Began(Box::new(begin)));
        let state = NodeState {
            node: Arc::clone(node),
            instance: instance.clone(),
            record,
            taken,
            drain: Some(drain),
            completing: None,
            take_up,
            record_clock,
            wake: None,
            limits,
            paused: false,
            is_paused_alone: false,
            end_reason: EndReason::InstanceGoes,
            proved: BTreeSet::new(),
            disproved: BTreeSet::new(),
            over: BTreeSet::new(),
            verifying: BTreeSet::new(),
            deletion: RecordDeletion::default(),
            carrying_over: false,
            is_uncordon_reported: false,
            last_said: LastSaid::default(),
            labelling: false,
            kubelet: Kubelet::Heard,
        };
        let over = state.is_over();
        self.claims.begin(instance, &node.name);
        self.drains.insert(node.name.clone(), Box::new(state));
        self.set_limits(&node.name, limits);
        self.out.report(
            &node.name,
            DrainEvent::DeadlineSet { ends: limits.end_at, forces: limits.force_at },
        );
        self.report_active();
        if ours {
            self.dispatch(drain::DispatchInput::Accepted {
                node: node.name.clone(),
                urgent: limits.urgent,
            });
        }
        self.out.watch_pods(&node.name);
        self.feed(&node.name, Input::Tick);
        if over {
            self.feed(&node.name, Input::Node(drain::NodeCondition::InstanceOver));
        }
        self.follow_pause(&node.name);
        self.prove_stale(&node.name);
    }

    /// More was taken on for a node that is being drained.
    pub(super) fn join(&mut self, name: &NodeName, node: &Arc<Node>, record: Record) {
        let record = self.carry_over(name, node, record);
        let Some(state) = self.drains.get_mut(name) else { return };
        state.node = Arc::clone(node);
        if state.record == record {
            return;
        }
        let instance = state.instance.clone();
        let before = state.taken.len();
        state.taken = state.record_clock.skew().taken(record.taken(&instance));
        state.record = record;
        let (taken, over, actions) = (
            state.taken.clone(),
            state.is_over(),
            self.lookup.open_actions(&state.record, &instance),
        );
        self.keep_actions_alive(name, &actions, &taken, true);
        if over {
            self.feed(name, Input::Node(drain::NodeCondition::InstanceOver));
        }
        let more = taken.len() > before;
        self.refresh_limits(name);
        if more
            && let Some(urgent) =
                self.drains.get(name).filter(|c| c.drain.is_some()).map(|c| c.limits.urgent)
        {
            // A burst that its node still waits in has less time when the newcomer is urgent.
            self.dispatch(drain::DispatchInput::Accepted { node: name.clone(), urgent });
        }
        self.prove_stale(name);
    }

    /// A record that was deleted by hand or damaged while its drain goes on knows nothing of what
    /// that drain owes once the next interruption has replaced it: that is written into it. What
    /// comes back is the record with all of it.
    fn carry_over(&mut self, name: &NodeName, node: &Arc<Node>, record: Record) -> Record {
        let Some(state) = self.drains.get(name).filter(|c| self.has_open_actions(c)) else {
            return record;
        };
        let held = state.record.clone();
        let whole = record::carried_over(&record, &held);
        let begun = state.carrying_over;
        if let Some(state) = self.drains.get_mut(name) {
            state.carrying_over = whole.is_some();
        }
        if whole.is_some() && !begun {
            let why = "The record was replaced while a lifecycle hook is action that it does not \
                name; the hook is written into it.";
            self.out.report(name, DrainEvent::RecordRestored(why));
            self.out
                .push(Effect::Restore(Arc::clone(node), Restoration::CarryOver(Box::new(held))));
        }
        whole.unwrap_or(record)
    }

    /// Starts the heartbeats of these hooks. `ours`: this leader accepted their interruptions.
    fn keep_actions_alive(
        &mut self,
        name: &NodeName,
        actions: &[LifecycleAction],
        taken: &[Taken],
        ours: bool,
    ) {
        for hook in actions {
            self.hook_nodes.insert(hook.clone(), name.clone());
            let event =
                taken.iter().filter(|t| t.hook.as_ref() == Some(hook)).map(|t| t.time).max();
            let event = event.unwrap_or(self.now);
            // After a take-over the first heartbeats are sent at once, first for the hook that has
            // the least time left.
            let origin = if ours { Origin::Received } else { Origin::TakenOver };
            self.out.push(Effect::KeepAlive { hook: hook.clone(), event, origin });
        }
    }

    /// Forgets a node and its drain.
    pub(super) fn close(&mut self, name: &NodeName) -> Option<NodeState> {
        let mut state = self.drains.remove(name)?;
        self.claims.close(&state.instance, name, state.completing.take(), &mut self.out);
        self.out.push(Effect::StopVerifying(name.clone()));
        self.out.push(Effect::StopReadingSilent(name.clone()));
        self.out.report(name, DrainEvent::Closed);
        self.out.deadline_is(name, None);
        if let Some(wake) = state.wake {
            self.wakes.remove(&(wake, name.clone()));
        }
        self.dispatch(drain::DispatchInput::Closed { node: name.clone() });
        self.out.unwatch_pods(name);
        let actions: Vec<LifecycleAction> =
            self.hook_nodes.iter().filter(|(_, n)| *n == name).map(|(o, _)| o.clone()).collect();
        for action in actions {
            if let Some(other) = self.other_with_open_action(&action) {
                self.hook_nodes.insert(action, other);
            } else {
                self.hook_nodes.remove(&action);
                self.hook_facts.remove(&action);
            }
        }
        self.complete_claimed();
        self.report_active();
        Some(*state)
    }

    fn report_active(&mut self) {
        self.out.report_of_fleet(FleetEvent::Active(self.drains.len()));
    }
}
