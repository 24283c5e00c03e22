//! All nodes under interruption: their drains, the dispatcher over these, their records and their
//! lifecycle actions.
//!
//! [`Fleet::step`] takes one [`Input`] and returns the [`Effect`]s that follow from it. It waits
//! for nothing, and the same inputs with the same [`Facts`] give the same effects. The caller
//! performs the effects in their order and feeds the results back as inputs. It sends an
//! [`Input::Tick`] at [`Fleet::next_wake`]. See `docs/adr/0002-one-task-for-all-drains.md`.
//!
//! A drain goes through two stages. While it goes on, pods leave the node. After its end comes its
//! *completion*: its lifecycle actions are completed, and the end is written into the record.
//!
//! | file | what it decides |
//! | --- | --- |
//! | `takeover` | which Nodes a new leader may act on, and which it reads first |
//! | `life` | what follows from the record of a Node, and from the end of its drain |
//! | `missing` | what follows if a Node has lost its record |
//! | `settings` | what the annotations of a Node change in its drain |
//! | `pod_rules` | what the administrator's rules about pods change in all drains |
//! | `namespaces` | when the labels of namespaces are asked for, which these rules read |
//! | `planned` | when the drain of a scheduled change begins, and what follows if AWS cancels it |
//! | `requests` | which requests for a drain are accepted or refused, and what follows if they are gone |
//! | `people` | pauses, and drains that a person ends |
//! | `proofs` | what answers of AWS and of the API server change |
//! | `verification` | whether AWS confirms or contradicts the lifecycle actions of a drain |
//! | `node_state` | one drain: how it begins, which interruptions join it |
//! | `limits` | the deadlines of one drain |
//! | `replacement` | when the evictions of a drain begin |
//! | `gates` | what the gates of a Node hold, and a person's order to force its drain |
//! | `pace`, `pacing` | which drains wait for other drains |
//! | `volumes` | when the API server is asked for the volumes of drained nodes |
//! | `orders` | what is sent for a pod, and what the answer means |
//! | `claims`, `completion` | when the completion of a drain begins |
//! | `labels` | when a node leaves the load balancers |
//! | `reports`, `node_events` | what is reported about all drains at intervals |
//! | `drain_conditions`, `explained` | what the conditions of Nodes show of their drains, and when they are written |

mod claims;
mod completion;
mod doubted;
mod drain_conditions;
mod effect;
mod event;
mod explained;
mod facts;
mod gates;
mod impaired;
mod input;
mod labels;
mod life;
mod limits;
mod missing;
mod namespaces;
mod node_events;
mod node_state;
mod orders;
mod pace;
mod pacing;
mod people;
mod planned;
mod pod_rules;
mod proofs;
mod replacement;
mod reports;
mod requests;
mod settings;
mod takeover;
mod texts;
mod verification;
mod volumes;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use self::{effect::Effects, facts::Lookup, node_state::NodeState, takeover::TakeOver};
pub use self::{
    effect::{Completion, CompletionId, Effect, Origin, Question, RecordRestoration, VolumesOf},
    event::{AcceptedInterruption, ActionEnd, Begin, DrainEvent, End, FleetCounts, FleetEvent},
    facts::{Facts, LastKnownNode, open_actions},
    input::{Input, LabelWrite},
    limits::{limits_of, resumed_at},
    node_events::end_in_event,
    node_state::PausedBy,
    texts::{came_back, first_pods, list, pods},
};
use crate::{
    domain::{
        ChangeSchedule, Exclusion, InstanceId, LifecycleAction, Moment, NodeName, PaceLimits,
        PodKey, PodUid, WaitForVolumes, seconds,
    },
    drain::{self, DispatchEffect, DispatchInput, Dispatcher, Note},
    lifecycle::{ActionSeen, HookFacts, LimitSettings},
    triage::Policy,
};

/// From this number of lifecycle actions on, the [`HookFacts`] of those without a drain are
/// dropped.
const MOST_FACTS: usize = 20_000;
/// The shortest interval between two reports of changed statuses ([`DrainEvent::Status`]).
const STATUS_INTERVAL: Duration = Duration::from_millis(100);

/// What stays the same for a whole term of leadership.
#[derive(Debug, Clone)]
pub struct Settings {
    /// When the term began. Drains of interruptions that were accepted before are taken over.
    pub leads_since: Moment,
    /// Which Nodes and lifecycle hooks Sundown manages.
    pub policy: Arc<Policy>,
    /// When pods are forced, and how long drains wait.
    pub drain: Arc<drain::Settings>,
    /// How many evictions and deletes may be under way.
    pub dispatch: drain::DispatchSettings,
    /// Margins and timeouts from which deadlines are derived.
    pub limits: LimitSettings,
    /// When nodes leave load balancers; `None`: early for spot and ending states, late for hooks.
    pub exclude: Option<Exclusion>,
    /// How many nodes are drained at once (`--max-drains-per-group`, `--max-voluntary`).
    pub pace: PaceLimits,
    /// Which drains wait until the volumes of their pods are detached.
    pub wait_for_volumes: WaitForVolumes,
    /// How long completion waits after the end of a drain (`--complete-delay`).
    pub complete_delay: Duration,
    /// When the drain before a scheduled change begins (`--scheduled-lead`).
    pub changes: ChangeSchedule,
    /// Nodes show a scheduled change in a condition (`--maintenance-condition`).
    pub shows_maintenance: bool,
    /// Nodes show their drain in conditions (`--drain-conditions`).
    pub shows_drains: bool,
    /// The pod that this process runs in; `None` outside a cluster.
    pub own_pod: Option<PodKey>,
}

/// All nodes under interruption, as one state machine. Create one for each term of leadership.
pub struct Fleet {
    settings: Settings,
    lookup: Lookup,
    /// The time and the effects of the current step.
    now: Moment,
    out: Effects,
    /// The drains, those included whose completion is under way.
    drains: BTreeMap<NodeName, Box<NodeState>>,
    dispatcher: Dispatcher,
    hook_facts: BTreeMap<LifecycleAction, HookFacts>,
    /// The node whose drain has this lifecycle action.
    hook_nodes: BTreeMap<LifecycleAction, NodeName>,
    claims: claims::Claims,
    planned: planned::PlannedChanges,
    requests: requests::Requests,
    volumes: volumes::VolumeWaits,
    pacing: pacing::Pacing,
    settings_by_rules: pod_rules::SettingsByRules,
    namespaces: namespaces::NamespaceQuestions,
    conditions: drain_conditions::ConditionQueue,
    /// When each drain wants its next tick.
    wakes: BTreeSet<(Moment, NodeName)>,
    /// Instances of Nodes without providerID, as DescribeInstances gave them.
    found_instances: BTreeMap<NodeName, InstanceId>,
    /// Nodes whose instance is being looked up ([`Question::InstanceOf`]).
    looking_up_instance: BTreeSet<NodeName>,
    /// Node UID and boot ID of records of an earlier boot for which AWS has shown an open action.
    trusted_boots: BTreeSet<(String, String)>,
    doubted: BTreeMap<NodeName, doubted::DoubtedRecord>,
    /// The text of void and damaged records that were reported.
    reported_void: BTreeMap<NodeName, String>,
    /// Nodes that a person keeps cordoned, and that are to be restored after that.
    held_restores: BTreeSet<NodeName>,
    reported_damaged: BTreeMap<NodeName, String>,
    /// Nodes with an open record that the node selector does not match, once that was reported.
    reported_unselected: BTreeSet<NodeName>,
    restorable: BTreeMap<InstanceId, life::RestorableRecord>,
    /// UIDs of Nodes whose deleted record is being written back.
    records_being_restored: BTreeSet<String>,
    takeover: TakeOver,
    /// UIDs of Nodes with Sundown's taint and no record, once that was reported.
    reported_lost_record: BTreeSet<String>,
    last_completion: CompletionId,
    /// UIDs of Nodes that the API server no longer has, although the index still shows them.
    deleted_but_indexed: BTreeSet<String>,
    paused: bool,
    /// When [`Self::every_second`] ran last.
    last_second: Moment,
    /// The last node that [`Self::report_nodes`] looked at. It continues after this one.
    reported_last: Option<NodeName>,
    /// When the fleet last reported that watches of pods fail.
    watches_reported_at: Option<Moment>,
    /// Forced deletes that have no answer yet. If the API server accepts one after its drain has
    /// ended, the fleet reports it.
    unreported_deletes: BTreeMap<PodUid, Note>,
    /// Drains that have changed since the last tick.
    changed_drains: BTreeSet<NodeName>,
    /// Drains whose changed status was not reported yet.
    unreported_statuses: BTreeSet<NodeName>,
    /// Those of them whose report is due now. [`Self::report_statuses`] takes a part at a time.
    statuses_due: BTreeSet<NodeName>,
    statuses_reported_at: Moment,
}

impl Fleet {
    /// Creates the fleet of a new term, without any drain.
    #[must_use]
    pub fn new(settings: Settings, facts: Box<dyn Facts>) -> Self {
        let now = settings.leads_since;
        Self {
            lookup: Lookup { facts, policy: Arc::clone(&settings.policy) },
            now,
            out: Effects::default(),
            drains: BTreeMap::new(),
            dispatcher: Dispatcher::new(settings.dispatch),
            hook_facts: BTreeMap::new(),
            hook_nodes: BTreeMap::new(),
            claims: claims::Claims::default(),
            planned: planned::PlannedChanges::default(),
            requests: requests::Requests::default(),
            volumes: volumes::VolumeWaits::default(),
            pacing: pacing::Pacing::default(),
            settings_by_rules: pod_rules::SettingsByRules::default(),
            namespaces: namespaces::NamespaceQuestions::default(),
            conditions: drain_conditions::ConditionQueue::default(),
            wakes: BTreeSet::new(),
            found_instances: BTreeMap::new(),
            looking_up_instance: BTreeSet::new(),
            trusted_boots: BTreeSet::new(),
            doubted: BTreeMap::new(),
            reported_void: BTreeMap::new(),
            held_restores: BTreeSet::new(),
            reported_unselected: BTreeSet::new(),
            reported_damaged: BTreeMap::new(),
            restorable: BTreeMap::new(),
            records_being_restored: BTreeSet::new(),
            takeover: TakeOver::default(),
            reported_lost_record: BTreeSet::new(),
            last_completion: 0,
            deleted_but_indexed: BTreeSet::new(),
            paused: false,
            last_second: now,
            reported_last: None,
            watches_reported_at: None,
            unreported_deletes: BTreeMap::new(),
            changed_drains: BTreeSet::new(),
            unreported_statuses: BTreeSet::new(),
            statuses_due: BTreeSet::new(),
            statuses_reported_at: now,
            settings,
        }
    }

    /// Handles one input at `now` and returns the effects, in the order in which the caller
    /// performs them.
    #[must_use]
    pub fn step(&mut self, now: Moment, input: Input) -> Vec<Effect> {
        self.now = now;
        self.handle(input);
        self.out.take()
    }

    fn handle(&mut self, input: Input) {
        match input {
            Input::Begun => self.keep_all_alive(),
            Input::Tick => self.tick(),
            Input::NodeApplied(node) => self.consider_node(&node),
            Input::NodeDeleted(node) => self.node_deleted(&node),
            Input::Pods(node, change) => self.feed(&node, change),
            Input::Budget(budget) => self.dispatch(DispatchInput::Budget(budget)),
            Input::BudgetGone(key) => self.dispatch(DispatchInput::BudgetGone(key)),
            Input::Arrived => self.dispatch(DispatchInput::Arrived),
            Input::Settled => self.dispatch(DispatchInput::Settled),
            Input::Claimed { instance, nodes } => {
                self.claims.expect_nodes(instance, nodes, self.now);
            }
            Input::Accepted { node, instance, instance_has_ended } => {
                if node.instance.is_none() {
                    self.found_instances.insert(node.name.clone(), instance);
                }
                // The Node is the answer to this leader's own PATCH, or was read from the API
                // server after it.
                self.takeover.confirmed.read(&node);
                self.consider_node(&node);
                if instance_has_ended {
                    self.feed(&node.name, drain::Input::Node(drain::NodeCondition::InstanceOver));
                }
            }
            Input::Hook(action, facts) => self.hook_facts_changed(action, facts),
            Input::Unschedulable { version, nodes } => self.take_over(&version, &nodes),
            Input::NodeRead { name, node } => self.node_read(&name, node.as_ref()),
            Input::Answer { node, order, answer } => self.answered(&node, order, answer),
            Input::DaemonSet { node, namespace, name, state } => {
                self.feed(&node, drain::Input::DaemonSet { namespace, name, state });
            }
            Input::PodRules(rules) => self.set_pod_rules(rules),
            Input::NamespacesRead { keys, found } => self.namespaces_read(&keys, found),
            Input::PausedAll(paused) => self.pause_all(paused),
            Input::Doubt { node, uid, is_valid } => self.doubt_settled(&node, &uid, is_valid),
            Input::InstanceFound { node, instance } => {
                self.found_instances.insert(node.clone(), instance);
                self.instance_lookup_ended(&node);
            }
            Input::InstanceLookupEnded(node) => self.instance_lookup_ended(&node),
            Input::Proof { node, event, holds } => self.proof_arrived(&node, &event, holds),
            Input::Contradiction { node, uid, finding } => {
                self.contradiction_found(&node, &uid, finding);
            }
            Input::ReplacementReady { node, uid } => self.replacement_ready(&node, &uid),
            Input::GroupFound { node, uid, group } => self.group_found(&node, &uid, group),
            Input::VolumesRead(seen) => self.volumes_read(seen),
            Input::Returned { node, uid, events } => self.returned(&node, &uid, events),
            Input::Recovered(node) => self.recovered(&node),
            Input::SilentNodeRead { node, uid, found } => {
                self.silent_node_read(&node, &uid, found.as_deref());
            }
            Input::InstanceEnds { node, instance, has_ended } => {
                self.instance_ends(&node, &instance, has_ended);
            }
            Input::ActionsClosed { node, uid, actions } => {
                self.actions_closed(&node, &uid, actions);
            }
            Input::CompletionDone { node, uid, is_node_deleted } => {
                self.completion_done(&node, &uid, is_node_deleted);
            }
            Input::LabelWritten(node, write) => self.label_written(node, write),
        }
    }

    /// The [`HookFacts`] of a lifecycle action have changed, and deadlines with them.
    fn hook_facts_changed(&mut self, action: LifecycleAction, facts: HookFacts) {
        let nodes = self.claims.nodes(&action.key.instance);
        if self.hook_facts.len() >= MOST_FACTS {
            // Actions that were completed without a drain leave their facts behind.
            let drained = &self.hook_nodes;
            self.hook_facts.retain(|action, _| drained.contains_key(action));
        }
        let is_open = facts.seen == ActionSeen::Open;
        let before = self.hook_facts.insert(action, facts);
        let confirms = is_open && before.is_none_or(|facts| facts.seen != ActionSeen::Open);
        for node in nodes {
            if confirms && self.has_passed(&node) {
                // A shorter drain timeout of the hook counts only now, and has passed already.
                self.count_anew(&node);
            }
            self.refresh_limits(&node);
            self.look_for_contradiction(&node);
        }
    }

    /// These lifecycle actions of a drain are no longer open.
    fn actions_closed(&mut self, node: &NodeName, uid: &str, actions: Vec<LifecycleAction>) {
        if let Some(state) = self.drains.get_mut(node).filter(|state| state.node.uid == uid) {
            state.closed_actions.extend(actions.iter().cloned());
            self.out.report(node, DrainEvent::ActionsClosed(actions));
        }
    }

    /// Feeds an input to one drain and performs the effects that the drain returns.
    fn feed(&mut self, node: &NodeName, input: drain::Input) {
        let now = self.now;
        let Some(state) = self.drains.get_mut(node) else { return };
        let Some(drain) = state.drain_mut() else {
            state.handle_after_end(now, &input, &mut self.out);
            return;
        };
        let effects = drain.step(now, input);
        self.reschedule(node);
        self.changed_drains.insert(node.clone());
        for effect in effects {
            self.perform(node, effect);
        }
    }

    fn perform(&mut self, node: &NodeName, effect: drain::Effect) {
        match effect {
            drain::Effect::Dispatch(input) => self.dispatch(input),
            drain::Effect::AskDaemonSet { namespace, name } => {
                self.out.push(Effect::Ask(Question::DaemonSet {
                    node: node.clone(),
                    namespace,
                    name,
                }));
            }
            drain::Effect::AskNode => self.ask_silent_node(node),
            drain::Effect::AskNamespaces => self.namespaces_needed(),
            drain::Effect::AskVolumes => self.ask_volumes(node),
            drain::Effect::StopAskingVolumes => self.volumes.end(node),
            // The leader gave up the lease when the drain of its own node began (`housekeeping`).
            // If no other replica took it, the leader evicts its own pod nevertheless.
            drain::Effect::OnlyOwnPodLeft => self.out.report(node, DrainEvent::OnlyOwnPodLeft),
            drain::Effect::Relist => self.out.watch_pods(node),
            drain::Effect::Note(note) => self.report_note(node, note),
            drain::Effect::Ended(outcome) => self.drain_ended(node, &outcome),
        }
    }

    fn dispatch(&mut self, input: DispatchInput) {
        let effects = self.dispatcher.step(self.now, input);
        for DispatchEffect::Send { node, uid, evict } in effects {
            self.send_order(&node, &uid, evict);
        }
    }

    fn reschedule(&mut self, node: &NodeName) {
        let Some(state) = self.drains.get_mut(node) else { return };
        let next = state.drain().and_then(drain::Drain::next_wake);
        let next = next.into_iter().chain(state.limits_change_at()).min();
        if state.wake_at != next {
            if let Some(old) = state.wake_at {
                self.wakes.remove(&(old, node.clone()));
            }
            if let Some(new) = next {
                self.wakes.insert((new, node.clone()));
            }
            state.wake_at = next;
        }
    }

    /// When the fleet needs the next [`Input::Tick`]; [`Moment::MAX`] if it needs none.
    #[must_use]
    pub fn next_wake(&self) -> Moment {
        if self.pacing.is_due() {
            return self.now;
        }
        let first = self.wakes.first().map_or(Moment::MAX, |(at, _)| *at);
        let dispatcher = self.dispatcher.next_wake().unwrap_or(Moment::MAX);
        let regular =
            if self.drains.is_empty() { Moment::MAX } else { self.last_second.plus(seconds(1)) };
        let report = match (self.statuses_due.is_empty(), self.unreported_statuses.is_empty()) {
            (false, _) => self.statuses_reported_at,
            (true, false) => self.statuses_reported_at.plus(STATUS_INTERVAL),
            (true, true) => Moment::MAX,
        };
        let by_node = self.planned.next_wake().min(self.conditions.next_wake());
        let by_node = by_node.min(self.volumes.next_wake()).min(self.requests.next_wake());
        first.min(dispatcher).min(regular).min(report).min(by_node)
    }

    fn tick(&mut self) {
        let now = self.now;
        while let Some((at, node)) = self.wakes.first().cloned() {
            if at > now {
                break;
            }
            self.wakes.pop_first();
            if let Some(state) = self.drains.get_mut(&node) {
                state.wake_at = None;
                if state.limits_change_at().is_some_and(|at| at <= now) {
                    self.refresh_limits(&node);
                }
            }
            self.feed(&node, drain::Input::Tick);
        }
        self.decide_pace();
        if self.dispatcher.next_wake().is_some_and(|at| at <= now) {
            self.dispatch(DispatchInput::Tick);
        }
        self.look_at_planned();
        self.look_at_requests();
        self.look_at_volumes();
        self.handle_changed_drains(now);
        self.write_conditions();
        if now >= self.last_second.plus(Duration::from_millis(990)) {
            self.last_second = now;
            self.every_second();
        }
    }

    /// For drains that have changed: sets load balancer labels at once, and reports statuses at
    /// most every [`STATUS_INTERVAL`].
    fn handle_changed_drains(&mut self, now: Moment) {
        let changed = std::mem::take(&mut self.changed_drains);
        self.label_due(changed.iter());
        for node in &changed {
            self.conditions_may_change(node);
        }
        self.unreported_statuses.extend(changed);
        if self.statuses_due.is_empty()
            && !self.unreported_statuses.is_empty()
            && now >= self.statuses_reported_at.plus(STATUS_INTERVAL)
        {
            self.statuses_reported_at = now;
            self.statuses_due = std::mem::take(&mut self.unreported_statuses);
        }
        self.report_statuses();
    }

    /// Periodic checks: about once a second while anything is drained, less often otherwise.
    fn every_second(&mut self) {
        let now = self.now;
        self.follow_skew();
        self.ask_for_namespaces();
        // Pods were listed, nodes have come or gone.
        self.pacing.changed();
        self.look_for_unreachable();
        self.begin_waiting_completions();
        self.report_failing_watches(now);
        self.report_nodes(now);
        let all: Vec<NodeName> = self.drains.keys().cloned().collect();
        self.label_due(all.iter());
        self.count_pods();
        self.restorable.retain(|_, held| held.until > now);
    }
}
