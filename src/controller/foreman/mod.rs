//! The one task that holds all drains and the dispatcher over them.
//!
//! It is fed with what happens, in the order in which it happens: Nodes, pods, disruption budgets, answers to orders, hooks,
//! words of the cases. It never waits for a call: what takes time is a task of its own whose result comes back as a [`Word`].
//! See `docs/adr/0002-one-task-for-all-drains.md`.

mod claims;
mod course;
mod hands;
mod labels;
mod life;
mod missing;
mod node_events;
mod orders;
mod proofs;
mod standings;
mod takeover;
mod word;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::FutureExt as _;
use tokio::sync::mpsc;

pub use self::course::{drain_settings, limits_of, taken_up};
use self::takeover::TakeOver;
pub(in crate::controller) use self::{course::Course, word::Word};
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
pub(super) async fn work(term: Term, mut words: mpsc::UnboundedReceiver<Word>, alive: Loop) {
    let (feed, mut pods) = PodFeed::start(&term.cluster, PodFeedSettings::default());
    let mut foreman = Foreman::new(term.clone(), feed);
    foreman.keep_all_alive();
    term.spawn(takeover::list_unschedulable(term.clone()));
    // The dispatcher should know the budgets before the first drain asks. Where they cannot be read, evictions tell.
    tokio::time::timeout(seconds(5), term.budgets.synced()).await.ok();
    let mut nodes = term.nodes.subscribe();
    let mut budgets = term.budgets.subscribe();
    loop {
        alive.turned();
        let now = foreman.term.clock.now();
        let wake = foreman.next_wake().min(now.plus(seconds(10)));
        tokio::select! {
            biased;
            word = words.recv() => match word {
                Some(word) => foreman.hear(word),
                None => return,
            },
            change = nodes.next() => match change {
                Some(change) => foreman.node_changed(change),
                None => return,
            },
            event = pods.next() => match event {
                Some((node, event)) => foreman.pods_changed(&node, event),
                None => return,
            },
            event = budgets.next() => match event {
                Some(event) => foreman.budget_changed(event),
                None => return,
            },
            () = foreman.term.clock.sleep_until(wake) => {}
        }
        foreman.drain_inboxes(&mut words, &mut nodes, &mut pods, &mut budgets);
        foreman.tick();
    }
}

pub(super) struct Foreman {
    term: Term,
    feed: PodFeed,
    courses: BTreeMap<NodeName, Box<Course>>,
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
    ghosts: BTreeMap<InstanceId, (Record, Moment)>,
    /// UIDs of Nodes whose record was deleted and is being written back.
    being_restored: BTreeSet<String>,
    takeover: TakeOver,
    /// UIDs of Nodes that are gone and still in the index: its watch is behind.
    buried: BTreeSet<String>,
    paused: bool,
    told_at: Moment,
    /// The node about which Events were looked for last; the next one's turn is next.
    told_last: Option<NodeName>,
    /// When it was last said aloud that watches of pods fail.
    blind_told: Option<Moment>,
    /// What is told of deletes by force on their way if they are accepted and their drain does not say so itself.
    untold: BTreeMap<PodUid, Note>,
    dirty: BTreeSet<NodeName>,
    unreported: BTreeSet<NodeName>,
    reported_at: Moment,
}

impl Foreman {
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
            courses: BTreeMap::new(),
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
            ghosts: BTreeMap::new(),
            being_restored: BTreeSet::new(),
            takeover: TakeOver::default(),
            buried: BTreeSet::new(),
            paused: false,
            told_at: now,
            told_last: None,
            blind_told: None,
            untold: BTreeMap::new(),
            dirty: BTreeSet::new(),
            unreported: BTreeSet::new(),
            reported_at: now,
            term,
        }
    }

    /// Takes what waits without going to sleep in between: a burst is one turn of the loop, not a thousand.
    fn drain_inboxes(
        &mut self,
        words: &mut mpsc::UnboundedReceiver<Word>,
        nodes: &mut NodeChanges,
        pods: &mut PodEvents,
        budgets: &mut BudgetChanges,
    ) {
        for _ in 0..512 {
            let mut any = false;
            if let Ok(word) = words.try_recv() {
                self.hear(word);
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

    fn hear(&mut self, word: Word) {
        match word {
            Word::Arrived => self.dispatch(DispatchInput::Arrived),
            Word::Settled => self.dispatch(DispatchInput::Settled),
            Word::Claimed { instance, nodes } => self.claims.expect(instance, nodes, self.term.clock.now()),
            Word::Accepted { node, instance, over } => {
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
            Word::Hook(owed, facts) => {
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
            Word::Unschedulable(listed) => self.take_over(&listed),
            Word::Read { name, node } => self.was_read(&name, node.as_ref()),
            Word::Answer { node, order, answer } => self.answered(&node, order, answer),
            Word::DaemonSet { node, namespace, name, state } => self.step(&node, Input::DaemonSet { namespace, name, state }),
            Word::PausedAll(paused) => self.pause_all(paused),
            Word::Doubt { node, uid, counts } => self.doubt_settled(&node, &uid, counts),
            Word::Named { node, instance } => {
                self.asking_name.remove(&node);
                self.named.insert(node.clone(), instance);
                if let Some(node) = self.term.nodes.get(&node) {
                    self.see(&node);
                }
            }
            Word::Proof { node, event, holds } => self.proof(&node, &event, holds),
            Word::Returned { node, uid, events } => self.returned(&node, &uid, events),
            Word::Looked { node, uid, found } => self.looked(&node, &uid, found.as_deref()),
            Word::InstanceEnds { node, instance, over } => self.instance_ends(&node, &instance, over),
            Word::HooksOver { node, uid, hooks } => {
                if let Some(course) = self.courses.get_mut(&node).filter(|c| c.node.uid == uid) {
                    course.over.extend(hooks.iter().cloned());
                    self.term.report(&node, DrainEvent::HooksOver(hooks));
                }
            }
            Word::Released { node, uid, node_gone } => self.finished(&node, &uid, node_gone),
            Word::Labelled(node, labelled) => {
                if let Some(course) = self.courses.get_mut(&node) {
                    course.labelling = false;
                    if let Some(labelled) = labelled.filter(|l| l.uid == course.node.uid) {
                        course.node = labelled;
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
        let Some(course) = self.courses.get_mut(node) else { return };
        let Some(drain) = course.drain.as_mut() else {
            course.hear_after_its_end(now, &input);
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
        let Some(course) = self.courses.get_mut(node) else { return };
        let next = course.drain.as_ref().and_then(drain::Drain::next_wake);
        if course.wake != next {
            if let Some(old) = course.wake {
                self.wakes.remove(&(old, node.clone()));
            }
            if let Some(new) = next {
                self.wakes.insert((new, node.clone()));
            }
            course.wake = next;
        }
    }

    fn next_wake(&self) -> Moment {
        let first = self.wakes.first().map_or(Moment::MAX, |(at, _)| *at);
        let dispatcher = self.dispatcher.next_wake().unwrap_or(Moment::MAX);
        let regular = if self.courses.is_empty() { Moment::MAX } else { self.told_at.plus(seconds(1)) };
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
            if let Some(course) = self.courses.get_mut(&node) {
                course.wake = None;
            }
            self.step(&node, Input::Tick);
        }
        if self.dispatcher.next_wake().is_some_and(|at| at <= now) {
            self.dispatch(DispatchInput::Tick);
        }
        self.look_at_dirty(now);
        if now >= self.told_at.plus(Duration::from_millis(990)) {
            self.told_at = now;
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
        self.tell_nodes(now);
        let all: Vec<NodeName> = self.courses.keys().cloned().collect();
        self.label_due(all.iter());
        self.count_pods();
        self.ghosts.retain(|_, (_, until)| *until > now);
    }
}
