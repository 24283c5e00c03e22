//! The fleet: one task that holds all nodes under interruption, their drains, and the dispatcher over these.
//!
//! It is fed with what happens, in the order in which it happens: Nodes, pods, disruption budgets, answers to orders, hooks,
//! inputs of the cases. It never waits for a call: what takes time is a task of its own whose result comes back as a [`FleetInput`].
//! See `docs/adr/0002-one-task-for-all-drains.md`.

mod claims;
mod input;
mod labels;
mod life;
mod missing;
mod node_events;
mod node_state;
mod orders;
mod people;
mod proofs;
mod standings;
mod takeover;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::FutureExt as _;
use tokio::sync::mpsc;

pub use self::node_state::{drain_settings, limits_of, taken_up};
use self::takeover::TakeOver;
pub(in crate::controller) use self::{input::FleetInput, node_state::NodeState};
use super::{context::Term, report::DrainEvent};
use crate::{
    cluster::{BudgetChanges, BudgetEvent, NodeChange, NodeChanges, PodEvent, PodEvents, PodFeed, PodFeedSettings},
    domain::{InstanceId, Moment, NodeName, OwedHook, PodUid, seconds},
    drain::{self, DispatchEffect, DispatchInput, Dispatcher, Effect, Input, Note, WatchState},
    lifecycle::HookFacts,
    observe::Loop,
    record::Record,
};

/// So many hooks' facts are kept before those of no drain are dropped.
const MOST_FACTS: usize = 20_000;
/// How often the board is brought up to date.
const REPORT: Duration = Duration::from_millis(100);

/// Runs until the term ends.
pub(super) async fn work(term: Term, mut inputs: mpsc::UnboundedReceiver<FleetInput>, alive: Loop) {
    let (feed, mut pods) = PodFeed::start(&term.cluster, PodFeedSettings::default());
    let mut fleet = Fleet::new(term.clone(), feed);
    fleet.keep_all_alive();
    term.spawn(takeover::list_unschedulable(term.clone()));
    // The dispatcher should know the budgets before the first drain asks. Where they cannot be read, evictions tell.
    tokio::time::timeout(seconds(5), term.budgets.synced()).await.ok();
    let mut nodes = term.nodes.subscribe();
    let mut budgets = term.budgets.subscribe();
    loop {
        alive.turned();
        let now = fleet.term.clock.now();
        let wake = fleet.next_wake().min(now.plus(seconds(10)));
        tokio::select! {
            biased;
            input = inputs.recv() => match input {
                Some(input) => fleet.handle(input),
                None => return,
            },
            change = nodes.next() => match change {
                Some(change) => fleet.node_changed(change),
                None => return,
            },
            event = pods.next() => match event {
                Some((node, event)) => fleet.pods_changed(&node, event),
                None => return,
            },
            event = budgets.next() => match event {
                Some(event) => fleet.budget_changed(event),
                None => return,
            },
            () = fleet.term.clock.sleep_until(wake) => {}
        }
        fleet.drain_inboxes(&mut inputs, &mut nodes, &mut pods, &mut budgets);
        fleet.tick();
    }
}

pub(super) struct Fleet {
    term: Term,
    feed: PodFeed,
    drains: BTreeMap<NodeName, Box<NodeState>>,
    dispatcher: Dispatcher,
    hook_facts: BTreeMap<OwedHook, HookFacts>,
    hook_nodes: BTreeMap<OwedHook, NodeName>,
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
    /// Drained nodes whose Node is gone: should the same instance register again, its record is written again.
    remembered: BTreeMap<InstanceId, (Record, Moment)>,
    /// UIDs of Nodes whose record was deleted and is being written back.
    being_restored: BTreeSet<String>,
    takeover: TakeOver,
    /// UIDs of Nodes that are gone and still in the index: its watch is behind.
    gone: BTreeSet<String>,
    paused: bool,
    looked_at: Moment,
    /// The node about which Events were looked for last; the next one's turn is next.
    reported_last: Option<NodeName>,
    /// When it was last said aloud that watches of pods fail.
    watches_reported_at: Option<Moment>,
    /// What is told of deletes by force on their way if they are accepted and their drain does not say so itself.
    unreported_deletes: BTreeMap<PodUid, Note>,
    dirty: BTreeSet<NodeName>,
    unreported: BTreeSet<NodeName>,
    reported_at: Moment,
}

impl Fleet {
    fn new(term: Term, feed: PodFeed) -> Self {
        let drain = &term.config.drain;
        let settings = drain::DispatchSettings {
            in_flight: drain.max_in_flight,
            per_budget: drain.max_in_flight_per_budget,
            seed: term.random.below(u64::MAX),
            ..drain::DispatchSettings::default()
        };
        let now = term.clock.now();
        Self {
            feed,
            drains: BTreeMap::new(),
            dispatcher: Dispatcher::new(settings),
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
            gone: BTreeSet::new(),
            paused: false,
            looked_at: now,
            reported_last: None,
            watches_reported_at: None,
            unreported_deletes: BTreeMap::new(),
            dirty: BTreeSet::new(),
            unreported: BTreeSet::new(),
            reported_at: now,
            term,
        }
    }

    /// Takes what waits without going to sleep in between: a burst is one turn of the loop, not a thousand.
    fn drain_inboxes(
        &mut self,
        inputs: &mut mpsc::UnboundedReceiver<FleetInput>,
        nodes: &mut NodeChanges,
        pods: &mut PodEvents,
        budgets: &mut BudgetChanges,
    ) {
        for _ in 0..512 {
            let mut any = false;
            if let Ok(input) = inputs.try_recv() {
                self.handle(input);
                any = true;
            }
            if let Some(change) = nodes.try_next() {
                self.node_changed(change);
                any = true;
            }
            if let Some(Some((node, event))) = pods.next().now_or_never() {
                self.pods_changed(&node, event);
                any = true;
            }
            if let Some(event) = budgets.try_next() {
                self.budget_changed(event);
                any = true;
            }
            if !any {
                break;
            }
        }
    }

    fn handle(&mut self, input: FleetInput) {
        match input {
            FleetInput::Arrived => self.dispatch(DispatchInput::Arrived),
            FleetInput::Settled => self.dispatch(DispatchInput::Settled),
            FleetInput::Claimed { instance, nodes } => self.claims.expect(instance, nodes, self.term.clock.now()),
            FleetInput::Accepted { node, instance, over } => {
                if node.instance.is_none() {
                    self.named.insert(node.name.clone(), instance);
                }
                // It is the answer to this leader's own PATCH, or was read past the index after one.
                self.takeover.confirmed.read(&node);
                self.see(&node);
                if over {
                    self.step(&node.name, Input::Node(drain::NodeCondition::InstanceOver));
                }
            }
            FleetInput::Hook(owed, facts) => {
                let nodes = self.claims.nodes(&owed.key.instance);
                if self.hook_facts.len() >= MOST_FACTS {
                    // Hooks that were completed without a drain leave theirs behind.
                    let drained = &self.hook_nodes;
                    self.hook_facts.retain(|owed, _| drained.contains_key(owed));
                }
                self.hook_facts.insert(owed, facts);
                for node in nodes {
                    self.refresh_limits(&node);
                }
            }
            FleetInput::Unschedulable(listed) => self.take_over(&listed),
            FleetInput::Read { name, node } => self.was_read(&name, node.as_ref()),
            FleetInput::Answer { node, order, answer } => self.answered(&node, order, answer),
            FleetInput::DaemonSet { node, namespace, name, state } => self.step(&node, Input::DaemonSet { namespace, name, state }),
            FleetInput::PausedAll(paused) => self.pause_all(paused),
            FleetInput::Doubt { node, uid, counts } => self.doubt_settled(&node, &uid, counts),
            FleetInput::Named { node, instance } => {
                self.asking_name.remove(&node);
                self.named.insert(node.clone(), instance);
                if let Some(node) = self.term.nodes.get(&node) {
                    self.see(&node);
                }
            }
            FleetInput::Proof { node, event, holds } => self.proof(&node, &event, holds),
            FleetInput::Returned { node, uid, events } => self.returned(&node, &uid, events),
            FleetInput::Looked { node, uid, found } => self.looked(&node, &uid, found.as_deref()),
            FleetInput::InstanceEnds { node, instance, over } => self.instance_ends(&node, &instance, over),
            FleetInput::HooksOver { node, uid, hooks } => {
                if let Some(state) = self.drains.get_mut(&node).filter(|c| c.node.uid == uid) {
                    state.over.extend(hooks.iter().cloned());
                    self.term.report(&node, DrainEvent::HooksOver(hooks));
                }
            }
            FleetInput::Released { node, uid, node_gone } => self.finished(&node, &uid, node_gone),
            FleetInput::Labelled(node, labelled) => {
                if let Some(state) = self.drains.get_mut(&node) {
                    state.labelling = false;
                    if let Some(labelled) = labelled.filter(|l| l.uid == state.node.uid) {
                        state.node = labelled;
                    }
                }
                self.dirty.insert(node);
            }
        }
    }

    fn pods_changed(&mut self, node: &NodeName, event: PodEvent) {
        let input = match event {
            PodEvent::Listed(pods) => Input::Listed(pods),
            PodEvent::Changed(pod) => Input::Changed(pod),
            PodEvent::Gone(uid) => Input::Gone(uid),
            PodEvent::Watching => Input::Watch(WatchState::Open),
            PodEvent::Blind => Input::Watch(WatchState::Blind),
        };
        self.step(node, input);
    }

    fn budget_changed(&mut self, event: BudgetEvent) {
        match event {
            BudgetEvent::Changed(budget) => self.dispatch(DispatchInput::Budget((*budget).clone())),
            BudgetEvent::Gone(key) => self.dispatch(DispatchInput::BudgetGone(key)),
        }
    }

    fn node_changed(&mut self, change: NodeChange) {
        match change {
            NodeChange::Applied { now, before } => {
                self.term.with_room(|room| room.applied(&now));
                if before.as_ref().is_none_or(|b| b.instance != now.instance) {
                    self.term.arrivals.send_modify(|n| *n = n.wrapping_add(1));
                }
                self.see(&now);
            }
            NodeChange::Deleted(node) => {
                self.term.with_room(|room| room.deleted(&node.name));
                self.node_deleted(&node);
            }
        }
    }

    /// Feeds one drain and does what it wants.
    fn step(&mut self, node: &NodeName, input: Input) {
        let now = self.term.clock.now();
        let Some(state) = self.drains.get_mut(node) else { return };
        let Some(drain) = state.drain.as_mut() else {
            state.handle_after_end(now, &input);
            return;
        };
        let effects = drain.step(now, input);
        self.reschedule(node);
        self.dirty.insert(node.clone());
        for effect in effects {
            self.perform(node, effect);
        }
    }

    fn perform(&mut self, node: &NodeName, effect: Effect) {
        match effect {
            Effect::Dispatch(input) => self.dispatch(input),
            Effect::AskDaemonSet { namespace, name } => self.ask_daemon_set(node, namespace, name),
            Effect::AskNode => self.ask_node(node),
            // The lease was given up when the drain of our own node began (`upkeep`); if nobody else took it, our pod goes all the same.
            Effect::OnlyOwnPodLeft => self.term.report(node, DrainEvent::OnlyOwnPodLeft),
            Effect::Relist => self.feed.attach(node),
            Effect::Note(note) => self.report_note(node, note),
            Effect::Ended(outcome) => self.ended(node, &outcome),
        }
    }

    fn dispatch(&mut self, input: DispatchInput) {
        let effects = self.dispatcher.step(self.term.clock.now(), input);
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

    fn next_wake(&self) -> Moment {
        let first = self.wakes.first().map_or(Moment::MAX, |(at, _)| *at);
        let dispatcher = self.dispatcher.next_wake().unwrap_or(Moment::MAX);
        let regular = if self.drains.is_empty() { Moment::MAX } else { self.looked_at.plus(seconds(1)) };
        let report = if self.unreported.is_empty() { Moment::MAX } else { self.reported_at.plus(REPORT) };
        first.min(dispatcher).min(regular).min(report)
    }

    fn tick(&mut self) {
        let now = self.term.clock.now();
        while let Some((at, node)) = self.wakes.first().cloned() {
            if at > now {
                break;
            }
            self.wakes.pop_first();
            if let Some(state) = self.drains.get_mut(&node) {
                state.wake = None;
            }
            self.step(&node, Input::Tick);
        }
        if self.dispatcher.next_wake().is_some_and(|at| at <= now) {
            self.dispatch(DispatchInput::Tick);
        }
        self.look_at_dirty(now);
        if now >= self.looked_at.plus(Duration::from_millis(990)) {
            self.looked_at = now;
            self.regularly();
        }
    }

    /// Drains that changed: their load balancer labels at once, what the board shows of them a few times a second.
    fn look_at_dirty(&mut self, now: Moment) {
        let changed = std::mem::take(&mut self.dirty);
        self.label_due(changed.iter());
        self.unreported.extend(changed);
        if !self.unreported.is_empty() && now >= self.reported_at.plus(REPORT) {
            self.reported_at = now;
            self.report();
        }
    }

    /// What is looked at once a second while anything is drained.
    fn regularly(&mut self) {
        let now = self.term.clock.now();
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
