//! Waits until AWS confirms the lifecycle actions of a drain, and ends the drain if AWS contradicts
//! them. [`crate::lifecycle::verification()`] has the rules.

use std::{collections::BTreeSet, time::Duration};

use super::{DrainEvent, Effect, Fleet, Question};
use crate::{
    domain::{GroupName, InstanceId, InterruptionFacts, Kind, Limits, Moment, NodeName, seconds},
    drain::Input,
    lifecycle::{self, ActionSeen, Finding, HEARTBEAT_ANSWER_TIMEOUT, VerificationFacts},
    record::{EndReason, Record},
};

/// How long a [`Finding::Contradicted`] stays valid while AWS has not answered about every action.
const CONTRADICTED_FOR: Duration = seconds(60);

/// How far the lifecycle actions of a drain are verified.
#[derive(Debug, Clone, Copy)]
pub(super) struct VerificationState {
    /// When this process took the drain up, or when later nothing but actions asked for it.
    since: Moment,
    /// Nothing but actions asks for the drain.
    is_needed: bool,
    /// What EC2 and the group have shown, and when.
    finding: Option<(Finding, Moment)>,
    /// [`Question::Contradiction`] was asked.
    is_asked: bool,
    /// When [`Limits::verification`] changes without another answer.
    pub(super) until: Option<Moment>,
}

impl VerificationState {
    pub(super) const fn new(since: Moment) -> Self {
        Self { since, is_needed: false, finding: None, is_asked: false, until: None }
    }

    /// What AWS has shown no longer counts, for example because an action has joined.
    pub(super) const fn ask_anew(&mut self) {
        (self.finding, self.is_asked) = (None, false);
    }
}

impl Fleet {
    /// What the verification of a drain of this record depends on. `interruptions`: those that are
    /// not disproved.
    fn verification_facts(
        &self,
        state: &VerificationState,
        limits: &Limits,
        record: &Record,
        instance: &InstanceId,
        interruptions: &[InterruptionFacts],
    ) -> VerificationFacts {
        let is_action = |facts: &InterruptionFacts| {
            facts.hook.is_some() && facts.kind.is_some_and(Kind::is_terminate_hook)
        };
        let actions = self.lookup.open_actions(record, instance);
        // The reasons to cordon. `prefer` only taints the node.
        // A request needs no confirmation, and confirms nothing.
        let cordoning =
            || interruptions.iter().filter(|facts| facts.response.cordons() && !facts.is_request());
        // `Question::Verify` already asks AWS about an interruption that was accepted as stale.
        let is_needed = limits.response.cordons()
            && !actions.is_empty()
            && !record.has_unknown()
            && cordoning().all(is_action)
            && cordoning().any(|facts| !facts.stale);
        let seen = |action| match self.hook_facts.get(action).map(|facts| facts.seen) {
            None | Some(ActionSeen::Unanswered) if self.lookup.facts.is_closed(action) => {
                ActionSeen::Over
            }
            seen => seen.unwrap_or_default(),
        };
        let mut named = interruptions.iter().filter_map(|facts| facts.hook.as_ref());
        let seen = if named.any(|action| seen(action) == ActionSeen::Open) {
            ActionSeen::Open
        } else {
            ActionSeen::of_all(actions.iter().map(seen))
        };
        let finding = state.finding.map(|(finding, _)| finding);
        let since = if is_needed && !state.is_needed { self.now } else { state.since };
        VerificationFacts { is_needed, seen, finding, since }
    }

    /// These limits with what is known about the drain's lifecycle actions, and the new state of
    /// its verification.
    pub(super) fn with_verification(
        &self,
        limits: Limits,
        state: VerificationState,
        record: &Record,
        instance: &InstanceId,
        interruptions: &[InterruptionFacts],
    ) -> (Limits, VerificationState) {
        let facts = self.verification_facts(&state, &limits, record, instance, interruptions);
        let (verification, until) = lifecycle::verification(&facts, &limits, self.now);
        let (since, is_needed) = (facts.since, facts.is_needed);
        (Limits { verification, ..limits }, VerificationState { since, is_needed, until, ..state })
    }

    /// The same facts of a drain that goes on; `None` if its actions need no verification.
    fn unverified(&self, name: &NodeName) -> Option<VerificationFacts> {
        let state = self.drains.get(name).filter(|state| state.is_draining())?;
        let facts = self.verification_facts(
            &state.verification,
            &state.limits,
            &state.record,
            &state.instance,
            &state.holding(),
        );
        Some(facts).filter(|facts| facts.is_needed && facts.seen != ActionSeen::Open)
    }

    /// A drain begins, or an interruption has joined it or was disproved: sends heartbeats at once
    /// for its actions, if its evictions wait for the answer.
    pub(super) fn verify_actions(&mut self, name: &NodeName) {
        let Some(facts) = self.unverified(name) else { return };
        let until = facts.since.plus(HEARTBEAT_ANSWER_TIMEOUT);
        if let Some(state) = self.drains.get(name).filter(|_| self.now < until) {
            let actions = self.lookup.open_actions(&state.record, &state.instance);
            self.out.push(Effect::VerifyActions { actions, until });
        }
        self.look_for_contradiction(name);
    }

    /// If AWS has answered that no action of this drain is open: asks whether the instance stays, or
    /// ends the drain if AWS has just contradicted it.
    pub(super) fn look_for_contradiction(&mut self, name: &NodeName) {
        if self.unverified(name).is_none_or(|facts| facts.seen != ActionSeen::Over) {
            return;
        }
        let now = self.now;
        let Some(state) = self.drains.get_mut(name) else { return };
        if let Some((Finding::Contradicted, at)) = state.verification.finding {
            if now < at.plus(CONTRADICTED_FOR) {
                return self.end_contradicted(name);
            }
            state.verification.ask_anew();
        }
        if std::mem::replace(&mut state.verification.is_asked, true) {
            return;
        }
        let actions = self.lookup.open_actions(&state.record, &state.instance);
        let groups: BTreeSet<GroupName> =
            actions.into_iter().map(|action| action.key.group).collect();
        self.out.push(Effect::Ask(Question::Contradiction {
            node: name.clone(),
            uid: state.node.uid.clone(),
            instance: state.instance.clone(),
            groups,
        }));
    }

    /// EC2 and the group have answered. If they contradict every action of the drain, it ends, and
    /// the fleet restores the Node.
    pub(super) fn contradiction_found(&mut self, name: &NodeName, uid: &str, finding: Finding) {
        let now = self.now;
        let Some(state) = self.drains.get_mut(name).filter(|state| state.node.uid == uid) else {
            return;
        };
        state.verification.finding = Some((finding, now));
        let is_contradicted = finding == Finding::Contradicted
            && self.unverified(name).is_some_and(|facts| facts.seen == ActionSeen::Over);
        if is_contradicted {
            self.end_contradicted(name);
        } else {
            self.refresh_limits(name);
        }
    }

    fn end_contradicted(&mut self, name: &NodeName) {
        let Some(state) = self.drains.get_mut(name) else { return };
        let of_aws = state.interruptions.iter().filter(|facts| !facts.is_request());
        let events: Vec<String> = of_aws.map(|facts| facts.event_id.clone()).collect();
        state.disproved.extend(events);
        if !state.is_disproved() {
            // People still ask for the drain.
            self.out.report(name, DrainEvent::DisprovedOne);
            return self.refresh_limits(name);
        }
        state.end_reason = EndReason::NothingHolds;
        self.out.report(name, DrainEvent::Contradicted);
        self.feed(name, Input::Contradicted);
    }
}
