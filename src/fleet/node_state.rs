//! One drain: how it begins, which interruptions join it, and how it is forgotten.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    Begin, DrainEvent, Effect, Fleet, FleetEvent, Origin, RecordRestoration,
    completion::PendingCompletion,
    gates::GateState,
    limits::{is_accepted_here, may_set_deadline, resumed_at},
    node_events::ReportedEvents,
    pacing::PaceState,
    replacement::Replacement,
    verification::VerificationState,
};
use crate::{
    domain::{
        EvictionStart, InstanceId, InterruptionFacts, LifecycleAction, Limits, Moment, Node,
        NodeName, ReadSettings, RulesOnNode, WaitForVolumes,
    },
    drain::{self, Drain, Input, Start},
    lifecycle::RecordClock,
    record::{self, EndReason, Record, RecordDeletion},
};

/// The drain of one node, until its completion is done.
pub(super) struct NodeState {
    pub(super) node: Arc<Node>,
    pub(super) instance: InstanceId,
    pub(super) record: Record,
    /// The interruptions in the record, with all times on our clock.
    pub(super) interruptions: Vec<InterruptionFacts>,
    pub(super) phase: Phase,
    /// When this leader last took the drain up. Deadlines before this moment do not count.
    pub(super) resumed_at: Moment,
    /// The skew with which the times of the record are converted.
    pub(super) record_clock: RecordClock,
    /// When the drain wants its next tick; also in [`Fleet::wakes`].
    pub(super) wake_at: Option<Moment>,
    pub(super) limits: Limits,
    pub(super) paused_by: PausedBy,
    /// Why the drain has ended, or would end now.
    pub(super) end_reason: EndReason,
    /// Event IDs of stale interruptions that were proved since their accept.
    pub(super) proved: BTreeSet<String>,
    /// Event IDs of interruptions that were disproved.
    pub(super) disproved: BTreeSet<String>,
    /// Lifecycle actions that are no longer open.
    pub(super) closed_actions: BTreeSet<LifecycleAction>,
    /// Event IDs of stale interruptions for which [`super::Question::Verify`] was asked.
    pub(super) verifying: BTreeSet<String>,
    pub(super) verification: VerificationState,
    pub(super) replacement: Replacement,
    pub(super) gates: GateState,
    pub(super) pace: PaceState,
    pub(super) deletion: RecordDeletion,
    /// The record whose open actions are being added to a newer one that lacks them
    /// ([`Fleet::merge_patch`]). `None`: no such PATCH is ordered.
    pub(super) ordered_carry_over: Option<Box<Record>>,
    pub(super) is_uncordon_reported: bool,
    pub(super) reported_events: ReportedEvents,
    /// [`Effect::Exclude`] was sent and has no answer yet.
    pub(super) is_labeling: bool,
    pub(super) kubelet: Kubelet,
    /// The settings in the annotations of the Node that are in force, and the problems that were
    /// reported.
    pub(super) node_settings: ReadSettings,
    /// The drain's time has restarted once because the Node's drain timeout changed. Later changes
    /// do not restart it.
    pub(super) is_timeout_changed: bool,
    /// Which of the administrator's rules count on the Node.
    pub(super) rules_on_node: RulesOnNode,
}

/// What Sundown does for a node.
pub(super) enum Phase {
    /// It removes the pods.
    Draining(Box<Drain>),
    /// The drain has ended, and its completion is ordered.
    Completing(PendingCompletion),
}

/// What pauses a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PausedBy {
    /// Nothing: the drain goes on.
    Nothing,
    /// The annotation of its Node.
    Node,
    /// The annotation of the Lease, which pauses all drains.
    Lease,
    /// Both annotations.
    Both,
}

impl PausedBy {
    /// `all`: all drains are paused. `has_annotation`: this Node is annotated.
    pub(crate) const fn of(all: bool, has_annotation: bool) -> Self {
        match (all, has_annotation) {
            (false, false) => Self::Nothing,
            (false, true) => Self::Node,
            (true, false) => Self::Lease,
            (true, true) => Self::Both,
        }
    }

    pub(super) const fn is_paused(self) -> bool {
        !matches!(self, Self::Nothing)
    }

    pub(super) const fn has_annotation(self) -> bool {
        matches!(self, Self::Node | Self::Both)
    }
}

/// Whether the kubelet of a node reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kubelet {
    /// It reports.
    Reporting,
    /// It is silent, but so are too many others, or the API server had an outage lately. Only EC2
    /// can show that the instance has ended, and is asked.
    SilentWithMany,
    /// It is silent, and the node is unreachable. EC2 is asked whether the instance has ended.
    Silent,
}

impl NodeState {
    /// The drain; `None` once it has ended.
    pub(super) fn drain(&self) -> Option<&Drain> {
        match &self.phase {
            Phase::Draining(drain) => Some(drain),
            Phase::Completing(_) => None,
        }
    }

    pub(super) fn drain_mut(&mut self) -> Option<&mut Drain> {
        match &mut self.phase {
            Phase::Draining(drain) => Some(drain),
            Phase::Completing(_) => None,
        }
    }

    /// The drain has not ended.
    pub(super) const fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining(_))
    }

    /// The completion of the drain; `None` while the drain goes on.
    pub(super) const fn completion(&self) -> Option<&PendingCompletion> {
        match &self.phase {
            Phase::Draining(_) => None,
            Phase::Completing(completion) => Some(completion),
        }
    }

    pub(super) const fn completion_mut(&mut self) -> Option<&mut PendingCompletion> {
        match &mut self.phase {
            Phase::Draining(_) => None,
            Phase::Completing(completion) => Some(completion),
        }
    }

    /// The completion of this drain is under way and covers this lifecycle action. Until it is over,
    /// the task of the action sends heartbeats, unless AWS has shown that the hook is another party's.
    pub(super) fn is_completing(&self, action: &LifecycleAction) -> bool {
        self.end_reason != EndReason::NothingHolds
            && self.completion().is_some_and(|completion| completion.covers(action))
    }

    /// A state change that was not stale, or that AWS has confirmed, reports the instance as stopped
    /// or terminated.
    pub(super) fn instance_has_ended(&self) -> bool {
        self.interruptions
            .iter()
            .any(|facts| facts.is_over() && may_set_deadline(facts, &self.proved))
    }

    /// When the limits of the drain change by time alone: a wait for AWS's answer is over, or the
    /// evictions begin.
    pub(super) fn limits_change_at(&self) -> Option<Moment> {
        let starts = self.limits.eviction_start.at_latest();
        let times = [self.verification.until, starts, self.limits.held_until];
        times.into_iter().flatten().min().filter(|_| self.is_draining())
    }

    /// The interruptions that are not disproved. If all are disproved, all of them.
    pub(super) fn holding(&self) -> Vec<InterruptionFacts> {
        let holds = |facts: &&InterruptionFacts| !self.disproved.contains(&facts.event_id);
        let holding: Vec<_> = self.interruptions.iter().filter(holds).cloned().collect();
        if holding.is_empty() { self.interruptions.clone() } else { holding }
    }

    pub(super) fn is_disproved(&self) -> bool {
        self.interruptions.iter().all(|facts| self.disproved.contains(&facts.event_id))
    }
}

impl Fleet {
    /// A lifecycle action of this drain is still to be completed.
    pub(super) fn has_open_actions(&self, state: &NodeState) -> bool {
        state.end_reason != EndReason::NothingHolds
            && self
                .lookup
                .open_actions(&state.record, &state.instance)
                .iter()
                .any(|action| !state.closed_actions.contains(action))
    }

    /// Begins the drain of a node with an open record, or takes over a drain that another leader
    /// began.
    pub(super) fn begin(&mut self, node: &Arc<Node>, instance: &InstanceId, record: Record) {
        let record_clock = RecordClock::new(self.lookup.skew());
        let interruptions = record_clock.skew().facts_to_ours(record.interruptions(instance));
        let accepted = interruptions.iter().map(|facts| facts.accepted).min().unwrap_or(self.now);
        let began_here = is_accepted_here(accepted, self.settings.leads_since);
        let resumed_at = resumed_at(accepted, self.settings.leads_since, self.now);
        self.keep_actions_alive(
            &node.name,
            &self.lookup.open_actions(&record, instance),
            &interruptions,
            began_here,
        );
        let (of_node, _) = self.settings.limits.of_node(node);
        let none = BTreeSet::new();
        let limits =
            self.limits_of(&record, &interruptions, resumed_at, &none, record_clock, of_node);
        let verification = VerificationState::new(self.now);
        let (limits, verification) =
            self.with_verification(limits, verification, &record, instance, &interruptions);
        let gates = GateState::new(node, self.now);
        let limits = gates.apply(limits, node, &interruptions, self.now);
        let pace = PaceState::new(node, began_here, self.now);
        let (flags, now) = (self.settings.pace, self.now);
        let limits = pace.apply(limits, (node, &record), &interruptions, flags, now);
        let limits = self.with_eviction_start(limits, &interruptions, Replacement::NotAsked);
        let own_pod = self.settings.own_pod.clone();
        let start = Start { node: node.name.clone(), cordoned_at: accepted, limits, own_pod };
        self.forget_old_namespaces();
        let (settings, rules_on_node) = self.drain_settings(node);
        let mut drain = Drain::new(start, settings);
        if self.settings.wait_for_volumes != WaitForVolumes::Never {
            drain = drain.waiting_for_volumes();
        }
        if !began_here {
            drain = drain.taken_over(self.now);
        }
        let begin = Begin {
            node: Arc::clone(node),
            instance: instance.clone(),
            interruptions: interruptions.clone(),
            accepted,
            began_here,
        };
        self.out.report(&node.name, DrainEvent::Began(Box::new(begin)));
        let state = NodeState {
            node: Arc::clone(node),
            instance: instance.clone(),
            record,
            interruptions,
            phase: Phase::Draining(Box::new(drain)),
            resumed_at,
            record_clock,
            wake_at: None,
            limits,
            paused_by: PausedBy::Nothing,
            end_reason: EndReason::InstanceGoes,
            proved: BTreeSet::new(),
            disproved: BTreeSet::new(),
            closed_actions: BTreeSet::new(),
            verifying: BTreeSet::new(),
            verification,
            replacement: Replacement::NotAsked,
            gates,
            pace,
            deletion: RecordDeletion::default(),
            ordered_carry_over: None,
            is_uncordon_reported: false,
            reported_events: ReportedEvents::default(),
            is_labeling: false,
            kubelet: Kubelet::Reporting,
            node_settings: (of_node, Vec::new()),
            is_timeout_changed: false,
            rules_on_node,
        };
        let instance_has_ended = state.instance_has_ended();
        self.claims.begin(instance, &node.name);
        self.drains.insert(node.name.clone(), Box::new(state));
        self.set_limits(&node.name, limits);
        self.out.report(
            &node.name,
            DrainEvent::DeadlineSet { ends: limits.end_at, forces: limits.force_at },
        );
        self.follow_eviction_start(&node.name, EvictionStart::Now);
        self.report_active();
        if began_here && limits.response.evicts() {
            self.dispatch(drain::DispatchInput::Accepted {
                node: node.name.clone(),
                urgent: limits.urgent,
            });
        }
        if limits.response.evicts() {
            self.out.watch_pods(&node.name);
        }
        // A drain that waits for no pod may end with its first tick, unless a person has paused it
        // or ended it while nobody led.
        self.follow_pause(&node.name);
        self.follow_people(node);
        self.follow_settings(&node.name);
        if node.forced_by_hand() {
            self.out.report(&node.name, DrainEvent::ForceOrder(true));
        }
        self.feed(&node.name, Input::Tick);
        if instance_has_ended {
            self.feed(&node.name, Input::Node(drain::NodeCondition::InstanceOver));
        }
        self.report_resumed_at(&node.name);
        self.verify_stale(&node.name);
        self.verify_actions(&node.name);
    }

    /// The record of a node that is being drained was seen again. An interruption may have joined.
    pub(super) fn join(&mut self, name: &NodeName, node: &Arc<Node>, record: Record) {
        let record = self.merge_patch(name, node, record);
        let Some(state) = self.drains.get(name) else { return };
        let has_kept_pods = !state.is_draining() && !state.limits.response.evicts();
        let evicts = |facts: &InterruptionFacts| {
            facts.response.evicts() && !state.disproved.contains(&facts.event_id)
        };
        let asks_for_evictions =
            || record.has_unknown() || record.interruptions(&state.instance).iter().any(evicts);
        if has_kept_pods && asks_for_evictions() {
            // The node was only tainted or cordoned so far. Its completion, which is under way,
            // goes on by itself.
            let instance = state.instance.clone();
            self.forget(name);
            return self.begin(node, &instance, record);
        }
        let Some(state) = self.drains.get_mut(name) else { return };
        state.node = Arc::clone(node);
        if state.record == record {
            return;
        }
        let instance = state.instance.clone();
        let before = state.interruptions.len();
        state.interruptions =
            state.record_clock.skew().facts_to_ours(record.interruptions(&instance));
        let actions_before = self.lookup.open_actions(&state.record, &instance);
        state.record = record;
        let has_own_timeout =
            state.interruptions.iter().any(|facts| facts.settings.drain_timeout.is_some())
                || state.node_settings.0.drain_timeout.is_some();
        // The end of this drain closes some of them, or has closed them. Without a token, nothing
        // else shows that, and nothing would end their heartbeats if the hook is another party's.
        let mut actions = self.lookup.open_actions(&state.record, &instance);
        actions.retain(|action| {
            !state.closed_actions.contains(action) && !state.is_completing(action)
        });
        let (interruptions, instance_has_ended, is_resumed_at_due) = (
            state.interruptions.clone(),
            state.instance_has_ended(),
            state.paused_by.is_paused() || has_own_timeout,
        );
        if actions.iter().any(|action| !actions_before.contains(action)) {
            state.verification.ask_anew();
        }
        self.keep_actions_alive(name, &actions, &interruptions, true);
        if is_resumed_at_due {
            // The actions that have just joined do not know that yet.
            self.report_resumed_at(name);
        }
        if instance_has_ended {
            self.feed(name, Input::Node(drain::NodeCondition::InstanceOver));
        }
        let more = interruptions.len() > before;
        self.refresh_limits(name);
        if more
            && let Some(urgent) = self
                .drains
                .get(name)
                .filter(|state| state.is_draining() && state.limits.response.evicts())
                .map(|state| state.limits.urgent)
        {
            // If the node still waits in a burst and the new interruption is urgent, the burst
            // waits less.
            self.dispatch(drain::DispatchInput::Accepted { node: name.clone(), urgent });
        }
        self.verify_stale(name);
        self.verify_actions(name);
    }

    /// If a person deletes or damages the record of a drain, the next interruption replaces it by a
    /// record that lacks the drain's open actions. Orders to add them, and returns the record with
    /// them.
    fn merge_patch(&mut self, name: &NodeName, node: &Arc<Node>, record: Record) -> Record {
        let Some(state) = self.drains.get(name).filter(|state| self.has_open_actions(state)) else {
            return record;
        };
        let held = state.record.clone();
        let whole = record::merged_record(&record, &held);
        // What was ordered before is enough if the record will then lack nothing.
        let is_ordered = state.ordered_carry_over.as_deref().is_some_and(|ordered| {
            record::merged_record(&record, ordered)
                .is_some_and(|after| !record::lacks_a_hook(&after, &held))
        });
        if let Some(state) = self.drains.get_mut(name)
            && !is_ordered
        {
            state.ordered_carry_over = whole.is_some().then(|| Box::new(held.clone()));
        }
        if whole.is_some() && !is_ordered {
            let why = "The record was replaced by one that lacks an open lifecycle action. Sundown \
                adds the action to the new record.";
            self.out.report(name, DrainEvent::RecordRestored(why));
            self.out.push(Effect::RestoreRecord(
                Arc::clone(node),
                RecordRestoration::CarryOver(Box::new(held)),
            ));
        }
        whole.unwrap_or(record)
    }

    /// Starts the heartbeats of these actions. `accepted_here`: this leader accepted their
    /// interruptions.
    fn keep_actions_alive(
        &mut self,
        name: &NodeName,
        actions: &[LifecycleAction],
        interruptions: &[InterruptionFacts],
        accepted_here: bool,
    ) {
        for hook in actions {
            self.hook_nodes.insert(hook.clone(), name.clone());
            let event = interruptions
                .iter()
                .filter(|facts| facts.hook.as_ref() == Some(hook))
                .map(|facts| facts.time)
                .max();
            // After a take-over, first heartbeats are sent at once. The action with the least time
            // left goes first.
            let origin = if accepted_here { Origin::Received } else { Origin::TakenOver };
            self.out.push(Effect::KeepAlive {
                action: hook.clone(),
                event_time: event.unwrap_or(self.now),
                origin,
            });
        }
    }

    /// Forgets a drain, and returns its instance and record. If its completion is under way, it goes
    /// on without the fleet.
    pub(super) fn forget(&mut self, name: &NodeName) -> Option<(InstanceId, Record)> {
        let state = *self.drains.remove(name)?;
        let completion = match state.phase {
            Phase::Draining(_) => None,
            Phase::Completing(completion) => Some(completion),
        };
        self.claims.forget(&state.instance, name, completion, &mut self.out);
        self.out.push(Effect::StopVerifying(name.clone()));
        self.out.push(Effect::StopReadingSilent(name.clone()));
        self.volumes.end(name);
        self.pacing.forget(name);
        self.out.report(name, DrainEvent::Forgotten);
        self.out.deadline_is(name, None);
        if let Some(wake) = state.wake_at {
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
        self.begin_waiting_completions();
        self.report_active();
        self.conditions_may_change(name);
        Some((state.instance, state.record))
    }

    fn report_active(&mut self) {
        self.out.report_of_fleet(FleetEvent::Active(self.drains.len()));
    }
}
