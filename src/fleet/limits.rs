//! The deadlines of one drain: derived from its record, its hooks, AWS's clock and the settings of
//! its Node, whenever one of these changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{DrainEvent, Effect, Fleet, FleetEvent, node_state::NodeState};
use crate::{
    domain::{
        DrainSettings, InterruptionFacts, Kind, LifecycleAction, Limits, Moment, NodeName,
        Response, Verification, seconds,
    },
    drain::Input,
    lifecycle::{self, HookFacts, LimitSettings, RecordClock},
    record::Record,
};

/// Whether the interruption may set a deadline: it was not stale at its accept, or AWS has confirmed
/// it.
pub(super) fn may_set_deadline(facts: &InterruptionFacts, proved: &BTreeSet<String>) -> bool {
    !facts.stale || proved.contains(&facts.event_id)
}

/// The limits of a record that also holds interruptions of a kind and shape that only a newer
/// version knows: the node is drained, and its record does not expire.
fn for_unknown(record: &Record, limits: Limits) -> Limits {
    if record.has_unknown() {
        Limits { response: Response::Drain, expires_at: None, ..limits }
    } else {
        limits
    }
}

/// No pod is forced if only requests ask for its eviction, unless requests may force. The end of the
/// drain stays.
fn without_force_for_requests(
    limits: Limits,
    interruptions: &[InterruptionFacts],
    settings: &LimitSettings,
) -> Limits {
    let evicts = |is_request: bool| {
        interruptions
            .iter()
            .any(|facts| facts.is_request() == is_request && facts.response.evicts())
    };
    if !settings.requests_may_force && evicts(true) && !evicts(false) {
        Limits { force_at: None, ..limits }
    } else {
        limits
    }
}

/// Derives the deadlines of a drain from the facts of its record. `resumed_at`: see [`resumed_at`].
/// `proved`: the event IDs of stale interruptions that AWS has confirmed; while every interruption
/// is stale and unproved, there is no deadline. `record_clock`: the clock with which the record was
/// read; `None` for a reader that does not know AWS's clock.
#[must_use]
pub fn limits_of(
    settings: &LimitSettings,
    interruptions: &[InterruptionFacts],
    hook_facts: &BTreeMap<LifecycleAction, HookFacts>,
    resumed_at: Moment,
    proved: &BTreeSet<String>,
    record_clock: Option<RecordClock>,
) -> Limits {
    let is_recommendation =
        |facts: &&InterruptionFacts| facts.kind.is_some_and(Kind::is_recommendation);
    // Nothing that people ask for takes time from a drain that AWS asks for, or gives it time.
    let is_of_aws = |facts: &&InterruptionFacts| !facts.is_request() && !is_recommendation(facts);
    let is_request_without_limit =
        !settings.requests_may_force && interruptions.iter().any(|facts| is_of_aws(&facts));
    // A recommendation only counts alone: while another interruption may hold, nothing expires.
    let is_recommended_only = interruptions.iter().all(|facts| is_recommendation(&facts));
    let sure: Vec<InterruptionFacts> = interruptions
        .iter()
        .filter(|facts| is_recommended_only || !is_recommendation(facts))
        .filter(|facts| may_set_deadline(facts, proved))
        .filter(|facts| !(is_request_without_limit && facts.is_request()))
        .cloned()
        .collect();
    let accepted = interruptions.iter().map(|facts| facts.accepted).min().unwrap_or(resumed_at);
    if sure.is_empty() {
        let urgent = interruptions.iter().any(InterruptionFacts::is_urgent);
        let limits = Limits::without_deadline(accepted, urgent);
        let limits = lifecycle::with_settings(limits, interruptions, hook_facts, settings);
        return lifecycle::with_response(limits, interruptions);
    }
    let limits = lifecycle::limits(&sure, hook_facts, resumed_at, settings);
    let limits = lifecycle::with_settings(limits, interruptions, hook_facts, settings);
    let limits = lifecycle::with_response(limits, interruptions);
    let limits = without_force_for_requests(limits, interruptions, settings);
    record_clock.map_or(limits, |clock| clock.soften(limits))
}

/// When a leader took a drain up: at the accept if it led by then, otherwise at the take-over.
#[must_use]
pub fn resumed_at(accepted: Moment, leads_since: Moment, taken_over: Moment) -> Moment {
    if is_accepted_here(accepted, leads_since) { accepted } else { taken_over }
}

/// Whether the leader of this term accepted the interruption. The record has the time on AWS's
/// clock, and the measured difference of the clocks may be off by a second.
pub(super) fn is_accepted_here(accepted: Moment, leads_since: Moment) -> bool {
    accepted >= leads_since.minus(seconds(1))
}

impl Fleet {
    pub(super) fn limits_of(
        &self,
        record: &Record,
        interruptions: &[InterruptionFacts],
        resumed_at: Moment,
        proved: &BTreeSet<String>,
        record_clock: RecordClock,
        of_node: DrainSettings,
    ) -> Limits {
        let limits = limits_of(
            &LimitSettings { node: of_node, ..self.settings.limits },
            interruptions,
            &self.hook_facts,
            resumed_at,
            proved,
            Some(record_clock),
        );
        for_unknown(record, limits)
    }

    /// Derives the deadlines of a drain again. If they have changed, the drain gets the new ones.
    pub(super) fn refresh_limits(&mut self, name: &NodeName) {
        let Some(limits) = self.limits_now(name) else { return };
        let Some(state) = self.drains.get(name) else { return };
        if limits != state.limits {
            let begins_to_evict = limits.response.evicts() && !state.limits.response.evicts();
            self.set_limits(name, limits);
            self.feed(name, Input::Limits(limits));
            if begins_to_evict && self.drains.get(name).is_some_and(|state| state.is_draining()) {
                self.out.watch_pods(name);
            }
        }
        self.reschedule(name);
    }

    /// The limits of a drain as of now. Notes until when its verification stays as it is.
    pub(super) fn limits_now(&mut self, name: &NodeName) -> Option<Limits> {
        let state = self.drains.get(name)?;
        let holding = state.holding();
        let limits = self.limits_of(
            &state.record,
            &holding,
            state.resumed_at,
            &state.proved,
            state.record_clock,
            state.node_settings.0,
        );
        let (limits, verification) = self.with_verification(
            limits,
            state.verification,
            &state.record,
            &state.instance,
            &holding,
        );
        let state = self.drains.get_mut(name)?;
        state.verification = verification;
        let (replacement, node) = (state.replacement, Arc::clone(&state.node));
        let limits = state.gates.apply(limits, &node, &holding, self.now);
        let (flags, now) = (self.settings.pace, self.now);
        let limits = state.pace.apply(limits, (&node, &state.record), &holding, flags, now);
        Some(self.with_eviction_start(limits, &holding, replacement))
    }

    /// Converts the times of records anew if the measured difference to AWS's clock has changed.
    /// The leader takes these drains up again: a deadline that now lies in the past no longer
    /// counts.
    pub(super) fn follow_skew(&mut self) {
        let (now, skew) = (self.now, self.lookup.skew());
        let mut changed = Vec::new();
        for (name, state) in self.drains.iter_mut().filter(|(_, state)| state.is_draining()) {
            if state.record_clock.measured(skew, now) {
                state.interruptions =
                    skew.facts_to_ours(state.record.interruptions(&state.instance));
                state.resumed_at = now;
                changed.push(name.clone());
            }
        }
        if !changed.is_empty() {
            self.out.report_of_fleet(FleetEvent::ClockDiffers { drains: changed.len(), skew });
        }
        for name in changed {
            self.report_resumed_at(&name);
            self.refresh_limits(&name);
        }
    }

    /// Reports since when the time of a drain counts, for heartbeats without a leader.
    pub(super) fn report_resumed_at(&mut self, name: &NodeName) {
        let Some(state) = self.drains.get(name) else { return };
        let at = if state.paused_by.is_paused() { None } else { Some(state.resumed_at) };
        let actions = self.lookup.open_actions(&state.record, &state.instance);
        let settings = LimitSettings { node: state.node_settings.0, ..self.settings.limits };
        let drain_timeout = settings.own_drain_timeout(&state.interruptions, &self.hook_facts);
        if !actions.is_empty() {
            self.out.push(Effect::DrainResumed { actions, at, drain_timeout });
        }
    }

    /// Sets the deadlines of a drain, reports them, and publishes them for the next accept on its
    /// node.
    pub(super) fn set_limits(&mut self, name: &NodeName, limits: Limits) {
        let Some(state) = self.drains.get_mut(name) else { return };
        let differs =
            state.limits.end_at != limits.end_at || state.limits.force_at != limits.force_at;
        if differs && state.is_draining() {
            self.out.report(
                name,
                DrainEvent::DeadlineSet { ends: limits.end_at, forces: limits.force_at },
            );
        }
        let eviction_start_before = std::mem::replace(&mut state.limits, limits).eviction_start;
        self.follow_eviction_start(name, eviction_start_before);
        self.update_gates(name);
        self.follow_pace(name);
        let lasting = self
            .drains
            .get(name)
            .filter(|state| state.is_draining())
            .and_then(|state| self.lasting_limits(state));
        // `record::accept` compares deadlines less their margins. An action that is not verified may
        // be contradicted, so its deadline must not make a later interruption a repeat.
        let lasting = lasting.filter(|_| limits.verification == Verification::Verified);
        self.out.deadline_is(name, lasting.and_then(|limits| limits.force_at.or(limits.end_at)));
    }

    /// The deadlines of a drain without those that come only from a heartbeat window that is about
    /// to expire ([`HookFacts::lasting`]), and without those of requests, which people may withdraw.
    /// `None`: it is for requests alone.
    pub(super) fn lasting_limits(&self, state: &NodeState) -> Option<Limits> {
        let mut holding = state.holding();
        holding.retain(|facts| !facts.is_request());
        if holding.is_empty() {
            return None;
        }
        let hooks = state.interruptions.iter().filter_map(|facts| facts.hook.as_ref());
        let facts = hooks
            .filter_map(|action| Some((action.clone(), self.hook_facts.get(action)?.lasting())))
            .collect();
        let limits = limits_of(
            &LimitSettings { node: state.node_settings.0, ..self.settings.limits },
            &holding,
            &facts,
            state.resumed_at,
            &state.proved,
            Some(state.record_clock),
        );
        Some(for_unknown(&state.record, limits))
    }
}
