//! The end of a drain: every owed lifecycle action is completed, whatever became of the drain; then the record says so.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::sync::watch;
use tracing::Instrument;

use super::{
    context::Term,
    departed::Departure,
    fleet::{FleetInput, NodeState},
    hook_claims,
    hooks::{Completion, Source},
    node_writer::{NodeWrite, patch_node, read_node},
    report::{DrainEvent, HookEnd},
};
use crate::{
    domain::{InstanceId, Moment, Node, NodeName, OwedHook, Taken},
    drain::Outcome,
    record::{self, After, EndReason, EndedDrain, OnEnd, Record, Released},
    runtime::Clock,
};

/// What a release works with; the Node itself is read anew.
struct Release {
    term: Term,
    name: NodeName,
    uid: String,
    instance: InstanceId,
    /// As the drain knew it: the Node may have lost it.
    record: Record,
    taken: Vec<Taken>,
    owed: Vec<OwedHook>,
    outcome: &'static str,
    node_gone: bool,
    end_reason: EndReason,
    /// Events that were disproved: only where the record holds no other is the Node put back.
    disproved: BTreeSet<String>,
    done: BTreeSet<OwedHook>,
    /// Lifecycle actions that drains of other Nodes of the instance owe too.
    shared: BTreeSet<OwedHook>,
}

/// What became of the writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// The record says that it is released, or there is nothing to be written.
    Done,
    /// There is no such Node any more, whatever the index says.
    NodeGone,
    /// It was to be put back, and an interruption that was not judged has joined: it stays open, and is drained on.
    Reopened,
}

/// A release that waits or runs.
#[derive(Debug)]
pub(super) struct Completing {
    /// When it may complete: later with `--complete-delay`, sooner when there is nothing left to wait for.
    due: watch::Sender<Due>,
    /// The lifecycle actions that the drain owed when the release began.
    owed: BTreeSet<OwedHook>,
}

/// When a release may complete.
#[derive(Debug, Clone, Copy)]
struct Due {
    /// At this moment at the latest,
    at: Moment,
    /// but not while another Node that claims the instance is drained.
    is_held: bool,
}

impl Completing {
    /// At this moment at the latest.
    pub(super) fn not_after(&self, at: Moment) {
        self.due.send_if_modified(|due| {
            let sooner = at < due.at;
            due.at = at.min(due.at);
            sooner
        });
    }

    /// It waits for other Nodes that claim the instance.
    pub(super) fn is_held(&self) -> bool {
        self.due.borrow().is_held
    }

    /// No other Node that claims the instance is drained any more.
    pub(super) fn let_go(&self) {
        self.due.send_modify(|due| due.is_held = false);
    }

    /// The drain owed this lifecycle action when the release began. An action that joined later is completed once the release reads it in
    /// the record.
    pub(super) fn covers(&self, owed: &OwedHook) -> bool {
        self.owed.contains(owed)
    }
}

/// Waits until a release may complete.
async fn wait(clock: Clock, mut told: watch::Receiver<Due>) {
    loop {
        let Due { at, is_held } = *told.borrow_and_update();
        tokio::select! {
            biased;
            changed = told.changed() => if changed.is_err() {
                // Its drain is forgotten: there is no node any more for whose sake anybody waits.
                return;
            },
            () = clock.sleep_until(at), if !is_held => return,
        }
    }
}

/// Starts the release of a drain that has ended. `shared`: the lifecycle actions that drains of other Nodes of the instance owe too.
/// `is_held`: it waits for these drains.
pub(super) fn start(term: &Term, state: &NodeState, outcome: &Outcome, shared: BTreeSet<OwedHook>, is_held: bool) -> Completing {
    let release = Release {
        term: term.clone(),
        name: state.node.name.clone(),
        uid: state.node.uid.clone(),
        instance: state.instance.clone(),
        record: state.record.clone(),
        taken: state.taken.clone(),
        owed: term.owed(&state.record, &state.instance),
        outcome: outcome.as_str(),
        node_gone: matches!(outcome, Outcome::NodeGone),
        end_reason: state.end_reason,
        disproved: state.disproved.clone(),
        done: BTreeSet::new(),
        shared,
    };
    // Those who ship logs get their time, but not beyond the deadline.
    let delayed = matches!(outcome, Outcome::Empty) && !release.owed.is_empty();
    let delay = if delayed { term.config.drain.complete_delay } else { Duration::ZERO };
    let by = term.clock.now().plus(delay).min(state.limits.end_at.unwrap_or(Moment::MAX));
    let owed = release.owed.iter().cloned().collect();
    let (due, told) = watch::channel(Due { at: by, is_held });
    let clock = term.clock;
    term.spawn(
        async move {
            wait(clock, told).await;
            release.run().await;
        }
        .instrument(term.drain_span(&state.node.name)),
    );
    Completing { due, owed }
}

/// Completes what a Node owed that went before this term.
pub(super) fn of_departed(term: &Term, gone: &Departure) {
    let owed = term.owed(&gone.record, &gone.instance);
    of_deleted(term, gone, owed);
}

/// Completes these lifecycle actions of a Node that was deleted.
pub(super) fn of_deleted(term: &Term, gone: &Departure, owed: Vec<OwedHook>) {
    let release = Release {
        term: term.clone(),
        name: gone.node.name.clone(),
        uid: gone.node.uid.clone(),
        instance: gone.instance.clone(),
        record: gone.record.clone(),
        taken: term.taken(&gone.record, &gone.instance),
        owed,
        outcome: Outcome::NodeGone.as_str(),
        node_gone: true,
        end_reason: EndReason::InstanceGoes,
        disproved: BTreeSet::new(),
        done: BTreeSet::new(),
        shared: BTreeSet::new(),
    };
    term.spawn(release.run());
}

impl Release {
    async fn run(mut self) {
        let owed = std::mem::take(&mut self.owed);
        if self.end_reason == EndReason::NothingHolds {
            // The interruption was disproved: nothing waits for us.
            for hook in owed.iter().filter(|hook| !self.shared.contains(hook)) {
                self.term.hooks.forget(hook);
            }
        } else {
            let record = self.record.clone();
            self.complete(owed, &record).await;
        }
        if !self.node_gone {
            self.node_gone = self.write().await == Written::NodeGone;
        }
        self.term.send(FleetInput::Released { node: self.name.clone(), uid: self.uid.clone(), node_gone: self.node_gone });
    }

    /// Completes what `record` owes.
    async fn complete(&mut self, owed: Vec<OwedHook>, record: &Record) {
        let owed: Vec<_> = owed.into_iter().filter(|o| self.done.insert(o.clone())).collect();
        let completions = owed.iter().map(|o| self.complete_one(o, record.is_unconfirmed(&o.key)));
        let results = futures::future::join_all(completions).await;
        let over = owed.iter().zip(&results).filter(|(_, result)| result.is_some()).map(|(owed, _)| owed.clone()).collect();
        self.term.send(FleetInput::HooksOver { node: self.name.clone(), uid: self.uid.clone(), hooks: over });
        for (owed, result) in owed.iter().zip(results) {
            if let Some(end) = result {
                self.term.report(&self.name, DrainEvent::HookServed(owed.clone(), end));
            }
        }
    }

    /// `None`: the term ended. `unconfirmed`: whether it is ours is found out first.
    async fn complete_one(&self, owed: &OwedHook, unconfirmed: bool) -> Option<HookEnd> {
        if unconfirmed && !hook_claims::is_ours(&self.term, owed).await {
            self.term.hooks.forget(owed);
            return Some(HookEnd::NotOurs);
        }
        let completion = self.term.hooks.complete(owed, self.event_of(owed), Source::Record).await?;
        Some(match completion {
            Completion::Accepted => HookEnd::Completed,
            Completion::Gone => HookEnd::Over,
        })
    }

    fn event_of(&self, owed: &OwedHook) -> Moment {
        let times = self.taken.iter().filter(|t| t.hook.as_ref() == Some(owed)).map(|t| t.time);
        times.max().unwrap_or_else(|| self.term.clock.now())
    }

    /// Writes the end into the record. What has joined meanwhile and owes another hook is completed first.
    async fn write(&mut self) -> Written {
        let mut fresh = match self.term.nodes.get(&self.name).filter(|node| node.uid == self.uid) {
            Some(node) => Some((*node).clone()),
            // Accepted past the index, which does not have it yet, or shows a Node that was deleted since.
            None => read_node(&self.term, &self.name).await,
        };
        loop {
            let Some(node) = fresh.filter(|n| n.uid == self.uid) else { return Written::NodeGone };
            let (mut last, mut on_end) = (node.clone(), OnEnd::Nothing);
            let write = patch_node(&self.term, node, "write the release", |node| {
                last = node.clone();
                on_end = self.on_end(node);
                if let OnEnd::Write { patch, .. } = &on_end { Some(patch.clone()) } else { None }
            });
            if write.await == NodeWrite::NodeGone {
                return Written::NodeGone;
            }
            match on_end {
                OnEnd::Nothing => return Written::Done,
                OnEnd::Write { is_put_back, .. } => {
                    self.term.report(&self.name, DrainEvent::Released { outcome: self.outcome, is_put_back });
                    return Written::Done;
                }
                OnEnd::PutBack { uses_held_record } => {
                    let held = uses_held_record.then_some(&self.record);
                    put_back_now(&self.term, &last, held, &After::Removed).await;
                    return Written::Done;
                }
                OnEnd::Reopen => {
                    self.term.report(&self.name, DrainEvent::Reopened);
                    return Written::Reopened;
                }
                OnEnd::Complete(more, record) => {
                    self.taken = self.term.taken(&record, &self.instance);
                    self.complete(more, &record).await;
                    fresh = read_node(&self.term, &self.name).await;
                }
            }
        }
    }

    fn on_end(&self, node: &Node) -> OnEnd {
        let drain = EndedDrain { instance: &self.instance, record: &self.record, why: self.end_reason, disproved: &self.disproved, done: &self.done };
        let released = Released::new(self.term.aws_now(), self.outcome);
        drain.on_end(node, |record| self.term.owed(record, &self.instance), &released)
    }
}

/// Puts what is still ours on a Node back, trying until that is done, the Node is gone, or its record is another one.
pub(super) fn put_back(term: &Term, node: Arc<Node>, after: After) {
    let task = term.clone();
    term.spawn(async move { put_back_now(&task, &node, None, &after).await });
}

/// `held`: the record for a Node that has none that can be read.
pub(super) async fn put_back_now(term: &Term, node: &Node, held: Option<&Record>, after: &After) {
    let judged = node.record().map(str::to_owned);
    // A new record, written by an accept meanwhile, is not ours to take away.
    let body = |node: &Node| record::restore(node, held, after).filter(|_| node.record() == judged.as_deref());
    if patch_node(term, node.clone(), "put the node back", body).await == NodeWrite::Patched {
        term.report(&node.name, DrainEvent::PutBack);
    }
}
