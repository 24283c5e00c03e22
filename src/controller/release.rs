//! The end of a drain: completes its open lifecycle actions, then writes the end into the record.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::sync::watch;
use tracing::Instrument;

use super::{
    abandon,
    context::Term,
    hook_claims,
    hooks::{Completion as HookCompletion, NamedBy, OrderedResult},
    node_writer::{NodeWrite, patch_node, read_node},
};
use crate::{
    domain::{
        HookKey, HookResult, InterruptionFacts, LifecycleAction, Moment, Node, WaitPurpose, seconds,
    },
    fleet::{ActionEnd, Completion, DrainEvent, Input},
    lifecycle::EndedDrainFacts,
    record::{self, After, EndReason, EndedDrain, OnEnd, Record, Released},
    runtime::Clock,
    triage::ActionEndSeen,
};

/// How long to wait before a completion is ordered again whose order was lost.
const ORDER_AGAIN: Duration = seconds(1);

/// A running completion. It reads the Node again before it writes.
struct Release {
    term: Term,
    /// Boxed: a future holds what it was given and what it runs, one beside the other.
    end: Box<Completion>,
    /// Boxed for the same reason.
    done: Box<Done>,
}

/// What is completed so far.
#[derive(Default)]
struct Done {
    actions: BTreeSet<LifecycleAction>,
    /// AWS has accepted ABANDON for an action: the group retains the instance.
    is_abandoned: bool,
}

/// How the write of the end went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// The end is written, or there was nothing to write.
    Done,
    /// The Node no longer exists, even if the index still shows it.
    NodeGone,
    /// The Node was to be restored, but another interruption has joined that is not disproved. Its
    /// record stays open, and the drain goes on.
    Reopened,
}

/// When a completion may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BeginAt {
    /// The fleet has not decided yet. It sends another value later.
    Undecided,
    /// At this moment.
    At(Moment),
    /// At once.
    Now,
}

impl From<Option<Moment>> for BeginAt {
    fn from(from: Option<Moment>) -> Self {
        from.map_or(Self::Undecided, Self::At)
    }
}

/// Waits until a completion may begin. If the sender is dropped first, this future never ends: the
/// term is over, and the next leader completes the actions.
async fn wait(clock: Clock, mut begin: watch::Receiver<BeginAt>) {
    loop {
        let from = match *begin.borrow_and_update() {
            BeginAt::Undecided => Moment::MAX,
            BeginAt::At(from) => from,
            BeginAt::Now => return,
        };
        tokio::select! {
            biased;
            changed = begin.changed() => if changed.is_err() {
                return std::future::pending().await;
            },
            () = clock.sleep_until(from), if from != Moment::MAX => return,
        }
    }
}

/// Starts a completion. Returns a sender for the time at which it may begin; `None` if it begins at
/// once.
pub(super) fn start(term: &Term, end: Box<Completion>) -> Option<watch::Sender<BeginAt>> {
    let (id, from, clock) = (end.id, end.from, term.shared.clock);
    let release = Release { term: term.clone(), done: Box::default(), end };
    if id.is_none() {
        term.spawn(release.run());
        return None;
    }
    let span = term.drain_span(&release.end.drain.node.name);
    let (sender, begin) = watch::channel(BeginAt::from(from));
    term.spawn(
        async move {
            wait(clock, begin).await;
            release.run().await;
        }
        .instrument(span),
    );
    Some(sender)
}

impl Release {
    async fn run(mut self) {
        let actions = std::mem::take(&mut self.end.actions);
        if self.end.end_reason == EndReason::NothingHolds {
            // The interruption was disproved, or the instance is in service again: no action waits
            // for its completion.
            for hook in actions.iter().filter(|hook| !self.end.shared.contains(hook)) {
                self.term.actions.forget(hook);
            }
        } else {
            let record = self.end.drain.record.clone();
            let hooks = Box::pin(self.complete(actions, &record)).await;
            // If AWS had already ended the newest action of a hook, an earlier action of that hook
            // may still be open. Only this process may know it, because somebody may have deleted
            // the record. Other hooks are left out: another Node of the instance may still be
            // drained for them.
            let mut earlier = self.term.open_actions(&record, &self.end.drain.instance);
            earlier.retain(|action| hooks.contains(&action.key));
            Box::pin(self.complete(earlier, &record)).await;
        }
        if !self.end.is_node_deleted {
            self.end.is_node_deleted = self.write().await == Written::NodeGone;
        }
        self.term.send(Input::CompletionDone {
            node: self.end.drain.node.name.clone(),
            uid: self.end.drain.node.uid.clone(),
            is_node_deleted: self.end.is_node_deleted,
        });
    }

    /// Completes these lifecycle actions of `record`. Returns the hooks whose action AWS had already
    /// ended.
    async fn complete(
        &mut self,
        actions: Vec<LifecycleAction>,
        record: &Record,
    ) -> BTreeSet<HookKey> {
        let actions: Vec<_> =
            actions.into_iter().filter(|o| self.done.actions.insert(o.clone())).collect();
        if actions.is_empty() {
            return BTreeSet::new();
        }
        let completions = actions
            .iter()
            .map(|o| self.complete_one(o, record.is_unconfirmed(&o.key), record.wait_purpose(o)));
        let ends = futures::future::join_all(completions).await;
        let over = self.over_beside(record, actions.iter().zip(&ends));
        for action in &over {
            self.term.actions.forget(action);
        }
        self.done.actions.extend(over.iter().cloned());
        self.term.send(Input::ActionsClosed {
            node: self.end.drain.node.name.clone(),
            uid: self.end.drain.node.uid.clone(),
            actions: actions.iter().chain(&over).cloned().collect(),
        });
        let mut already_closed = BTreeSet::new();
        for (action, end) in actions.iter().zip(ends) {
            if end == ActionEnd::AlreadyClosed {
                already_closed.insert(action.key.clone());
            }
            self.done.is_abandoned |= end == ActionEnd::Completed(HookResult::Abandon);
            let event = DrainEvent::ActionEnded(action.clone(), end);
            self.term.report(&self.end.drain.node.name, event);
        }
        already_closed
    }

    /// The other actions in the record of the hooks for which AWS has accepted a completion, if it
    /// has shown that they are over. AWS keeps one action of a hook open at a time, so they need no
    /// call. A call by the instance alone would be about the next action of the hook.
    fn over_beside<'a>(
        &self,
        record: &Record,
        ends: impl Iterator<Item = (&'a LifecycleAction, &'a ActionEnd)>,
    ) -> Vec<LifecycleAction> {
        let is_completed = |end: &ActionEnd| matches!(end, ActionEnd::Completed(_));
        let hooks: BTreeSet<&HookKey> =
            ends.filter(|(_, end)| is_completed(end)).map(|(action, _)| &action.key).collect();
        let named = record.interruptions(&self.end.drain.instance);
        let named = named.into_iter().filter_map(|facts| facts.hook);
        named
            .filter(|action| hooks.contains(&action.key))
            .filter(|action| self.term.actions.end_seen(action) == ActionEndSeen::Over)
            .collect()
    }

    /// Completes one action. Returns only when that is over: the end is written into the record
    /// after that, and a record with an end is not completed by the next leader. `unconfirmed`: asks
    /// first whether its hook is ours. `purpose`: for what it keeps the instance waiting.
    async fn complete_one(
        &self,
        action: &LifecycleAction,
        unconfirmed: bool,
        purpose: Option<WaitPurpose>,
    ) -> ActionEnd {
        let hooks = &self.term.actions;
        if unconfirmed && !hook_claims::is_ours(&self.term, action).await {
            hooks.forget(action);
            return ActionEnd::NotOurs;
        }
        let result = OrderedResult::of_termination(self.result_of(action).await);
        let event = self.event_of(action);
        loop {
            let completing =
                hooks.complete(action, event, NamedBy::Record, unconfirmed, result, purpose);
            match completing.await {
                Some(HookCompletion::Accepted(result)) => return ActionEnd::Completed(result),
                Some(HookCompletion::Gone) => return ActionEnd::AlreadyClosed,
                Some(HookCompletion::NotOurs) => {
                    hooks.forget(action);
                    return ActionEnd::NotOurs;
                }
                // The term has ended, and this task ends at its next await.
                None => tokio::time::sleep(ORDER_AGAIN).await,
            }
        }
    }

    /// With which result to complete the action.
    async fn result_of(&self, action: &LifecycleAction) -> HookResult {
        let holds = |facts: &&InterruptionFacts| !self.end.disproved.contains(&facts.event_id);
        let interruptions: Vec<_> = self.end.interruptions.iter().filter(holds).cloned().collect();
        let drain = EndedDrainFacts {
            on_failure: self.term.shared.config.drain.hook_result_on_failure,
            has_failed: self.end.has_failed,
            interruptions: &interruptions,
        };
        if !drain.depends_on_group(action) {
            return HookResult::Continue;
        }
        Box::pin(abandon::policy(&self.term, action)).await.result()
    }

    fn event_of(&self, action: &LifecycleAction) -> Moment {
        let times = self
            .end
            .interruptions
            .iter()
            .filter(|t| t.hook.as_ref() == Some(action))
            .map(|t| t.time);
        times.max().unwrap_or_else(|| self.term.shared.clock.now())
    }

    /// Writes the end into the record. If an interruption with another hook has joined meanwhile,
    /// completes that action first.
    async fn write(&mut self) -> Written {
        let mut fresh = match self
            .term
            .shared
            .nodes
            .get(&self.end.drain.node.name)
            .filter(|node| node.uid == self.end.drain.node.uid)
        {
            Some(node) => Some(node),
            // The index does not show the accepted Node yet, or shows an older Node of that name.
            None => self.read_past_index().await,
        };
        loop {
            let Some(node) = fresh.filter(|n| n.uid == self.end.drain.node.uid) else {
                return Written::NodeGone;
            };
            // `patch_node` calls the closure for each attempt: both hold what the last one saw.
            let (mut last, mut on_end) = (Arc::clone(&node), OnEnd::Nothing);
            let write = patch_node(&self.term, node, "write the release", |node| {
                last = Arc::clone(node);
                on_end = self.on_end(node);
                if let OnEnd::Write { patch, .. } = &mut on_end { Some(patch.take()) } else { None }
            });
            if write.await == NodeWrite::NodeGone {
                return Written::NodeGone;
            }
            match on_end {
                OnEnd::Nothing => return Written::Done,
                OnEnd::Write { is_restored, is_held, .. } => {
                    if is_held {
                        self.term.report(&self.end.drain.node.name, DrainEvent::RestoreHeld);
                    }
                    self.term.report(
                        &self.end.drain.node.name,
                        DrainEvent::Released { outcome: self.end.outcome, is_restored },
                    );
                    return Written::Done;
                }
                OnEnd::Restore { uses_held_record } => {
                    Box::pin(self.restore(last, uses_held_record)).await;
                    return Written::Done;
                }
                OnEnd::Reopen => {
                    self.term.report(&self.end.drain.node.name, DrainEvent::Reopened);
                    return Written::Reopened;
                }
                OnEnd::Complete(more, record) => {
                    self.end.interruptions =
                        self.term.interruptions_of(&record, &self.end.drain.instance);
                    Box::pin(self.complete(more, &record)).await;
                    fresh = self.read_past_index().await;
                }
            }
        }
    }

    async fn restore(&self, node: Arc<Node>, uses_held_record: bool) {
        let (held, after) = if uses_held_record {
            (Some(&self.end.drain.record), After::Lost(self.released()))
        } else {
            (None, After::Removed)
        };
        restore_now(&self.term, node, held, &after).await;
    }

    /// The end to write into the record.
    fn released(&self) -> Released {
        Released::new(self.term.aws_now(), self.end.outcome).abandoned(self.done.is_abandoned)
    }

    async fn read_past_index(&self) -> Option<Arc<Node>> {
        Box::pin(read_node(&self.term, &self.end.drain.node.name)).await.map(Arc::new)
    }

    fn on_end(&self, node: &Node) -> OnEnd {
        let drain = EndedDrain {
            instance: &self.end.drain.instance,
            record: &self.end.drain.record,
            why: self.end.end_reason,
            disproved: &self.end.disproved,
            done: &self.done.actions,
        };
        drain.on_end(
            node,
            |record| self.term.open_actions(record, &self.end.drain.instance),
            &self.released(),
        )
    }
}

/// Undoes what Sundown changed on a Node. Retries until that is done, the Node is gone, or its
/// record is another one. `held`: the record to use if the Node's own cannot be read.
pub(super) async fn restore_now(
    term: &Term,
    node: Arc<Node>,
    held: Option<&Record>,
    after: &After,
) {
    let judged = Arc::clone(&node);
    // A new record, written by an accept meanwhile, is not ours to take away.
    let mut held_now = false;
    let body = |node: &Arc<Node>| {
        held_now = node.keeps_cordon();
        record::restore_node(node, held, after).filter(|_| node.record() == judged.record())
    };
    if patch_node(term, node, "restore the node", body).await == NodeWrite::Patched {
        term.report(
            &judged.name,
            if held_now { DrainEvent::RestoreHeld } else { DrainEvent::NodeRestored },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<A, F: Future>(_: impl Fn(A) -> F) -> usize {
        size_of::<F>()
    }

    #[tokio::test(start_paused = true)]
    async fn a_completion_waits_for_its_order_and_does_not_begin_when_the_term_ends() {
        let clock = Clock::system();
        let begins = async |last: Option<BeginAt>| {
            let (sender, begin) = watch::channel(BeginAt::Undecided);
            let waiting = tokio::time::timeout(seconds(3600), wait(clock, begin));
            let (began, ()) = tokio::join!(waiting, async {
                tokio::task::yield_now().await;
                if let Some(last) = last {
                    sender.send_replace(last);
                }
                drop(sender);
            });
            began.is_ok()
        };
        assert!(begins(Some(BeginAt::Now)).await);
        assert!(!begins(None).await);
        assert!(!begins(Some(BeginAt::Undecided)).await);
        assert!(!begins(Some(BeginAt::At(clock.now().plus(seconds(60))))).await);
    }

    /// Ten thousand drains may end at once, each in a future of its own.
    #[test]
    fn a_completion_that_waits_for_its_turn_to_write_takes_little_memory() {
        let bytes = size(Release::run);
        assert!(bytes <= 2048, "{bytes} bytes");
    }
}
