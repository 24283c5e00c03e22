//! All nodes under interruption: their drains, the dispatcher over these, and what becomes of their
//! records and lifecycle actions.
//!
//! [`Fleet::step`] takes one thing that has happened and says what is to be done about it. It waits
//! for nothing, and the same inputs with the same facts give the same effects. Who runs it performs
//! the effects in their order, and feeds what comes of them back as inputs. [`Fleet::next_wake`]
//! says when it wants a [`Input::Tick`]. See `docs/adr/0002-one-task-for-all-drains.md`.
//!
//! | file | what it decides |
//! | --- | --- |
//! | `takeover` | which Nodes a new leader may act on, and what it reads first |
//! | `life` | what follows from the record of a Node, and from the end of its drain |
//! | `missing` | what follows if a Node has lost its record |
//! | `people` | pauses, and releases by hand |
//! | `proofs` | what AWS's and the API server's answers to questions change |
//! | `node_state` | one drain: how it begins, what joins it, its deadline |
//! | `orders` | what is sent for a pod, and what the answer means |
//! | `claims`, `completing` | when the lifecycle actions of an ended drain are completed |
//! | `labels` | when a node leaves the load balancers |
//! | `standings`, `node_events` | what is reported of all drains now and then |

mod claims;
mod completing;
mod effect;
mod event;
mod facts;
mod input;
mod labels;
mod life;
mod missing;
mod node_events;
mod node_state;
mod orders;
mod people;
mod proofs;
mod reports;
mod takeover;
mod texts;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use self::{effect::Effects, facts::Lookup, node_state::NodeState, takeover::TakeOver};
pub use self::{
    effect::{Completion, CompletionId, Effect, Origin, Question, Restoration},
    event::{AcceptedInterruption, Begin, DrainEvent, End, FleetCounts, FleetEvent, HookEnd},
    facts::{DeletedNode, Facts, open_actions},
    input::{Input, LabelWrite},
    node_state::{limits_of, taken_up},
    texts::{list, named, pods},
};
use crate::{
    domain::{Exclusion, InstanceId, LifecycleAction, Moment, NodeName, PodKey, PodUid, seconds},
    drain::{self, DispatchEffect, DispatchInput, Dispatcher, Note},
    lifecycle::{HookFacts, LimitSettings},
    record::Record,
    triage::Policy,
};

/// So many hooks' facts are kept before those of no drain are dropped.
const MOST_FACTS: usize = 20_000;
/// How often the board is brought up to date.
const REPORT: Duration = Duration::from_millis(100);

/// What is the same for a whole term.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Since when this leader leads.
    pub leads_since: Moment,
    /// Which Nodes and lifecycle hooks are ours.
    pub policy: Arc<Policy>,
    /// The rules of one drain.
    pub drain: drain::Settings,
    /// The rules of the dispatcher.
    pub dispatch: drain::DispatchSettings,
    /// From what deadlines are derived.
    pub limits: LimitSettings,
    /// When nodes leave load balancers; `None`: early for spot and ending states, late for hooks.
    pub exclude: Option<Exclusion>,
    /// The wait between the end of a drain and the completion of its lifecycle actions.
    pub complete_delay: Duration,
    /// The pod that this process runs in.
    pub own_pod: Option<PodKey>,
}

/// All nodes under interruption.
pub struct Fleet {
    settings: Settings,
    lookup: Lookup,
    /// When the step that runs began.
    now: Moment,
    /// What the step that runs wants done.
    out: Effects,
    drains: BTreeMap<NodeName, Box<NodeState>>,
    dispatcher: Dispatcher,
    hook_facts: BTreeMap<LifecycleAction, HookFacts>,
    hook_nodes: BTreeMap<LifecycleAction, NodeName>,
    claims: claims::Claims,
    wakes: BTreeSet<(Moment, NodeName)>,
    /// Instances of Nodes without providerID, as DescribeInstances gave them.
    named: BTreeMap<NodeName, InstanceId>,
    asking_name: BTreeSet<NodeName>,
    /// Records whose boot id differs and whose hook was proved open: node UID and boot id.
    trusted: BTreeSet<(String, String)>,
    doubted: BTreeMap<NodeName, life::DoubtedRecord>,
    /// Void records that were told already, and are being put back.
    voided: BTreeMap<NodeName, String>,
    /// Nodes with an open record that are not ours to drain, which was said.
    left_alone: BTreeSet<NodeName>,
    /// Damaged records that were told already.
    damaged: BTreeMap<NodeName, String>,
    /// Drained nodes whose Node is gone: should the same instance register again, its record is
    /// written again.
    remembered: BTreeMap<InstanceId, (Record, Moment)>,
    /// UIDs of Nodes whose record was deleted and is being written back.
    being_restored: BTreeSet<String>,
    takeover: TakeOver,
    /// UIDs of Nodes that have Sundown's taint and no record, which was said.
    without_record: BTreeSet<String>,
    last_completion: CompletionId,
    /// UIDs of Nodes that are gone and still in the index: its watch is behind.
    gone: BTreeSet<String>,
    paused: bool,
    /// When [`Self::every_second`] ran last.
    last_second: Moment,
    /// The node about which Events were looked for last; the next one's turn is next.
    reported_last: Option<NodeName>,
    /// When it was last said aloud that watches of pods fail.
    watches_reported_at: Option<Moment>,
    /// Forced deletes that have no answer yet. If the API server accepts one after its drain has
    /// ended, the fleet reports it.
    unreported_deletes: BTreeMap<PodUid, Note>,
    dirty: BTreeSet<NodeName>,
    unreported: BTreeSet<NodeName>,
    reported_at: Moment,
}

impl Fleet {
    /// The fleet of a term that begins: it knows no node yet.
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
            wakes: BTreeSet::new(),
            named: BTreeMap::new(),
            asking_name: BTreeSet::new(),
            trusted: BTreeSet::new(),
            doubted: BTreeMap::new(),
            voided: BTreeMap::new(),
            left_alone: BTreeSet::new(),
            damaged: BTreeMap::new(),
            remembered: BTreeMap::new(),
            being_restored: BTreeSet::new(),
            takeover: TakeOver::default(),
            without_record: BTreeSet::new(),
            last_completion: 0,
            gone: BTreeSet::new(),
            paused: false,
            last_second: now,
            reported_last: None,
            watches_reported_at: None,
            unreported_deletes: BTreeMap::new(),
            dirty: BTreeSet::new(),
            unreported: BTreeSet::new(),
            reported_at: now,
            settings,
        }
    }

    /// Something has happened: what is to be done now, in this order.
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
            Input::NodeApplied(node) => self.see(&node),
            Input::NodeDeleted(node) => self.node_deleted(&node),
            Input::Pods(node, change) => self.feed(&node, change),
            Input::Budget(budget) => self.dispatch(DispatchInput::Budget(budget)),
            Input::BudgetGone(key) => self.dispatch(DispatchInput::BudgetGone(key)),
            Input::Arrived => self.dispatch(DispatchInput::Arrived),
            Input::Settled => self.dispatch(DispatchInput::Settled),
            Input::Claimed { instance, nodes } => {
                self.claims.expect_nodes(instance, nodes, self.now);
            }
            Input::Accepted { node, instance, over } => {
                if node.instance.is_none() {
                    self.named.insert(node.name.clone(), instance);
                }
                // It is the answer to this leader's own PATCH, or was read past the index after
                // one.
                self.takeover.confirmed.read(&node);
                self.see(&node);
                if over {
                    self.feed(&node.name, drain::Input::Node(drain::NodeCondition::InstanceOver));
                }
            }
            Input::Hook(action, facts) => self.described(action, facts),
            Input::Unschedulable { version, nodes } => self.take_over(&version, &nodes),
            Input::NodeRead { name, node } => self.node_read(&name, node.as_ref()),
            Input::Answer { node, order, answer } => self.answered(&node, order, answer),
            Input::DaemonSet { node, namespace, name, state } => {
                self.feed(&node, drain::Input::DaemonSet { namespace, name, state });
            }
            Input::PausedAll(paused) => self.pause_all(paused),
            Input::Doubt { node, uid, counts } => self.doubt_settled(&node, &uid, counts),
            Input::Named { node, instance } => {
                self.named.insert(node.clone(), instance);
                self.name_asked(&node);
            }
            Input::NotNamed(node) => self.name_asked(&node),
            Input::Proof { node, event, holds } => self.proof(&node, &event, holds),
            Input::Returned { node, uid, events } => self.returned(&node, &uid, events),
            Input::SilentNodeRead { node, uid, found } => {
                self.silent_node_read(&node, &uid, found.as_deref());
            }
            Input::InstanceEnds { node, instance, over } => {
                self.instance_ends(&node, &instance, over);
            }
            Input::HooksOver { node, uid, hooks } => self.hooks_over(&node, &uid, hooks),
            Input::Released { node, uid, node_gone } => self.finished(&node, &uid, node_gone),
            Input::Labelled(node, write) => self.labelled(node, write),
        }
    }

    /// What deadlines need to know of a lifecycle action has changed.
    fn described(&mut self, action: LifecycleAction, facts: HookFacts) {
        let nodes = self.claims.nodes(&action.key.instance);
        if self.hook_facts.len() >= MOST_FACTS {
            // Hooks that were completed without a drain leave theirs behind.
            let drained = &self.hook_nodes;
            self.hook_facts.retain(|action, _| drained.contains_key(action));
        }
        self.hook_facts.insert(action, facts);
        for node in nodes {
            self.refresh_limits(&node);
        }
    }

    /// These lifecycle actions need nothing more.
    fn hooks_over(&mut self, node: &NodeName, uid: &str, hooks: Vec<LifecycleAction>) {
        if let Some(state) = self.drains.get_mut(node).filter(|state| state.node.uid == uid) {
            state.over.extend(hooks.iter().cloned());
            self.out.report(node, DrainEvent::HooksOver(hooks));
        }
    }

    /// Feeds one drain and does what it wants.
    fn feed(&mut self, node: &NodeName, input: drain::Input) {
        let now = self.now;
        let Some(state) = self.drains.get_mut(node) else { return };
        let Some(drain) = state.drain.as_mut() else {
            state.handle_after_end(now, &input, &mut self.out);
            return;
        };
        let effects = drain.step(now, input);
        self.reschedule(node);
        self.dirty.insert(node.clone());
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
            drain::Effect::AskNode => self.ask_node(node),
            // The lease was given up when the drain of our own node began (`housekeeping`); if nobody
            // else took it, our pod goes all the same.
            drain::Effect::OnlyOwnPodLeft => self.out.report(node, DrainEvent::OnlyOwnPodLeft),
            drain::Effect::Relist => self.out.watch_pods(node),
            drain::Effect::Note(note) => self.report_note(node, note),
            drain::Effect::Ended(outcome) => self.ended(node, &outcome),
        }
    }

    fn dispatch(&mut self, input: DispatchInput) {
        let effects = self.dispatcher.step(self.now, input);
        for DispatchEffect::Go { node, uid, evict } in effects {
            self.go(&node, &uid, evict);
        }
    }

    fn reschedule(&mut self, node: &NodeName) {
        let Some(state) = self.drains.get_mut(node) else { return };
        let next = state.drain.as_ref().and_then(drain::Drain::next_wake);
        if state.wake != next {
            if let Some(old) = state.wake {
                self.wakes.remove(&(old, node.clone()));
            }
            if let Some(new) = next {
                self.wakes.insert((new, node.clone()));
            }
            state.wake = next;
        }
    }

    /// When it wants a [`Input::Tick`]; [`Moment::MAX`] if never.
    #[must_use]
    pub fn next_wake(&self) -> Moment {
        let first = self.wakes.first().map_or(Moment::MAX, |(at, _)| *at);
        let dispatcher = self.dispatcher.next_wake().unwrap_or(Moment::MAX);
        let regular =
            if self.drains.is_empty() { Moment::MAX } else { self.last_second.plus(seconds(1)) };
        let report =
            if self.unreported.is_empty() { Moment::MAX } else { self.reported_at.plus(REPORT) };
        first.min(dispatcher).min(regular).min(report)
    }

    fn tick(&mut self) {
        let now = self.now;
        while let Some((at, node)) = self.wakes.first().cloned() {
            if at > now {
                break;
            }
            self.wakes.pop_first();
            if let Some(state) = self.drains.get_mut(&node) {
                state.wake = None;
            }
            self.feed(&node, drain::Input::Tick);
        }
        if self.dispatcher.next_wake().is_some_and(|at| at <= now) {
            self.dispatch(DispatchInput::Tick);
        }
        self.handle_changed_drains(now);
        if now >= self.last_second.plus(Duration::from_millis(990)) {
            self.last_second = now;
            self.every_second();
        }
    }

    /// Drains that changed: their load balancer labels at once, what the board shows of them a few
    /// times a second.
    fn handle_changed_drains(&mut self, now: Moment) {
        let changed = std::mem::take(&mut self.dirty);
        self.label_due(changed.iter());
        self.unreported.extend(changed);
        if !self.unreported.is_empty() && now >= self.reported_at.plus(REPORT) {
            self.reported_at = now;
            self.report_statuses();
        }
    }

    /// Periodic checks: about once a second while anything is drained, less often otherwise.
    fn every_second(&mut self) {
        let now = self.now;
        self.follow_skew();
        self.look_for_unreachable();
        self.complete_claimed();
        self.report_failing_watches(now);
        self.report_nodes(now);
        let all: Vec<NodeName> = self.drains.keys().cloned().collect();
        self.label_due(all.iter());
        self.count_pods();
        self.remembered.retain(|_, (_, until)| *until > now);
    }
}
