//! The end of a drain: every owed lifecycle action is completed, whatever became of the drain; then
//! the record says so.

use std::{collections::BTreeSet, sync::Arc};

use tokio::sync::watch;
use tracing::Instrument;

use super::{
    context::Term,
    hook_claims,
    hooks::{Completion as HookCompletion, Source},
    node_writer::{NodeWrite, patch_node, read_node},
};
use crate::{
    domain::{LifecycleAction, Moment, Node},
    fleet::{Completion, DrainEvent, HookEnd, Input},
    record::{self, After, EndReason, EndedDrain, OnEnd, Record, Released},
    runtime::Clock,
};

/// A completion that runs. The Node itself is read anew.
struct Release {
    term: Term,
    end: Completion,
    done: BTreeSet<LifecycleAction>,
}

/// What became of the writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// The record says that it is released, or there is nothing to be written.
    Done,
    /// There is no such Node any more, whatever the index says.
    NodeGone,
    /// It was to be put back, and an interruption that was not judged has joined: it stays open,
    /// and is drained on.
    Reopened,
}

/// Waits until a completion may begin. `None`: not yet.
async fn wait(clock: Clock, mut told: watch::Receiver<Option<Moment>>) {
    loop {
        let from = *told.borrow_and_update();
        tokio::select! {
            biased;
            changed = told.changed() => if changed.is_err() {
                // Its drain is forgotten: there is no node any more for whose sake anybody waits.
                return;
            },
            () = clock.sleep_until(from.unwrap_or(Moment::MAX)), if from.is_some() => return,
        }
    }
}

/// Starts a completion. What comes back says when it may begin, if it may not at once.
pub(super) fn start(term: &Term, end: Completion) -> Option<watch::Sender<Option<Moment>>> {
    let (id, from, clock) = (end.id, end.from, term.clock);
    let release = Release { term: term.clone(), done: BTreeSet::new(), end };
    if id.is_none() {
        term.spawn(release.run());
        return None;
    }
    let span = term.drain_span(&release.end.drain.node.name);
    let (due, told) = watch::channel(from);
    term.spawn(
        async move {
            wait(clock, told).await;
            release.run().await;
        }
        .instrument(span),
    );
    Some(due)
}

impl Release {
    async fn run(mut self) {
        let actions = std::mem::take(&mut self.end.actions);
        if self.end.end_reason == EndReason::NothingHolds {
            // The interruption was disproved, or the instance is in service again: no action waits
            // for its completion.
            for hook in actions.iter().filter(|hook| !self.end.shared.contains(hook)) {
                self.term.hooks.forget(hook);
            }
        } else {
            let record = self.end.drain.record.clone();
            self.complete(actions, &record).await;
        }
        if !self.end.node_gone {
            self.end.node_gone = self.write().await == Written::NodeGone;
        }
        self.term.send(Input::Released {
            node: self.end.drain.node.name.clone(),
            uid: self.end.drain.node.uid.clone(),
            node_gone: self.end.node_gone,
        });
    }

    /// Completes what `record` owes.
    async fn complete(&mut self, actions: Vec<LifecycleAction>, record: &Record) {
        let actions: Vec<_> = actions.into_iter().filter(|o| self.done.insert(o.clone())).collect();
        let completions =
            actions.iter().map(|o| self.complete_one(o, record.is_unconfirmed(&o.key)));
        let results = futures::future::join_all(completions).await;
        let over = actions
            .iter()
            .zip(&results)
            .filter(|(_, result)| result.is_some())
            .map(|(action, _)| action.clone())
            .collect();
        self.term.send(Input::HooksOver {
            node: self.end.drain.node.name.clone(),
            uid: self.end.drain.node.uid.clone(),
            hooks: over,
        });
        for (action, result) in actions.iter().zip(results) {
            if let Some(end) = result {
                self.term
                    .report(&self.end.drain.node.name, DrainEvent::HookServed(action.clone(), end));
            }
        }
    }

    /// `None`: the term ended. `unconfirmed`: whether it is ours is found out first.
    async fn complete_one(&self, action: &LifecycleAction, unconfirmed: bool) -> Option<HookEnd> {
        if unconfirmed && !hook_claims::is_ours(&self.term, action).await {
            self.term.hooks.forget(action);
            return Some(HookEnd::NotOurs);
        }
        let completion =
            self.term.hooks.complete(action, self.event_of(action), Source::Record).await?;
        Some(match completion {
            HookCompletion::Accepted => HookEnd::Completed,
            HookCompletion::Gone => HookEnd::Over,
        })
    }

    fn event_of(&self, action: &LifecycleAction) -> Moment {
        let times =
            self.end.taken.iter().filter(|t| t.hook.as_ref() == Some(action)).map(|t| t.time);
        times.max().unwrap_or_else(|| self.term.clock.now())
    }

    /// Writes the end into the record. What has joined meanwhile and owes another hook is completed
    /// first.
    async fn write(&mut self) -> Written {
        let mut fresh = match self
            .term
            .nodes
            .get(&self.end.drain.node.name)
            .filter(|node| node.uid == self.end.drain.node.uid)
        {
            Some(node) => Some((*node).clone()),
            // Accepted past the index, which does not have it yet, or shows a Node that was deleted
            // since.
            None => read_node(&self.term, &self.end.drain.node.name).await,
        };
        loop {
            let Some(node) = fresh.filter(|n| n.uid == self.end.drain.node.uid) else {
                return Written::NodeGone;
            };
            // `patch_node` calls the closure for each attempt: both hold what the last one saw.
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
                    self.term.report(
                        &self.end.drain.node.name,
                        DrainEvent::Released { outcome: self.end.outcome, is_put_back },
                    );
                    return Written::Done;
                }
                OnEnd::PutBack { uses_held_record } => {
                    let held = uses_held_record.then_some(&self.end.drain.record);
                    put_back_now(&self.term, &last, held, &After::Removed).await;
                    return Written::Done;
                }
                OnEnd::Reopen => {
                    self.term.report(&self.end.drain.node.name, DrainEvent::Reopened);
                    return Written::Reopened;
                }
                OnEnd::Complete(more, record) => {
                    self.end.taken = self.term.taken(&record, &self.end.drain.instance);
                    self.complete(more, &record).await;
                    fresh = read_node(&self.term, &self.end.drain.node.name).await;
                }
            }
        }
    }

    fn on_end(&self, node: &Node) -> OnEnd {
        let drain = EndedDrain {
            instance: &self.end.drain.instance,
            record: &self.end.drain.record,
            why: self.end.end_reason,
            disproved: &self.end.disproved,
            done: &self.done,
        };
        let released = Released::new(self.term.aws_now(), self.end.outcome);
        drain.on_end(
            node,
            |record| self.term.open_actions(record, &self.end.drain.instance),
            &released,
        )
    }
}

/// Puts what is still ours on a Node back, trying until that is done, the Node is gone, or its
/// record is another one.
pub(super) fn put_back(term: &Term, node: Arc<Node>, after: After) {
    let task = term.clone();
    term.spawn(async move { put_back_now(&task, &node, None, &after).await });
}

/// `held`: the record for a Node that has none that can be read.
pub(super) async fn put_back_now(term: &Term, node: &Node, held: Option<&Record>, after: &After) {
    let judged = node.record().map(str::to_owned);
    // A new record, written by an accept meanwhile, is not ours to take away.
    let body = |node: &Node| {
        record::restore(node, held, after).filter(|_| node.record() == judged.as_deref())
    };
    if patch_node(term, node.clone(), "put the node back", body).await == NodeWrite::Patched {
        term.report(&node.name, DrainEvent::PutBack);
    }
}
