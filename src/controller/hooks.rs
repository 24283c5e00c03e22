//! The lifecycle actions that we owe: one task each, which beats until its completion is accepted.
//!
//! Beats and the completion of one action are sent one after the other by the same task, so none overtakes the other: there is
//! no beat after an accepted completion.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, debug, info, warn};

use super::{
    context::{Backoff, Standing},
    foreman::Word,
};
use crate::{
    aws::{Advice, HookResult},
    domain::{HookKey, LifecycleToken, Moment, OwedHook, seconds},
    lifecycle::{BeatSchedule, End, HookFacts, Start},
    observe::{BeatResult, CompletionResult},
};

/// How long an action that is over is remembered.
const IDLE: Duration = Duration::from_hours(2);

/// How a completion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Completion {
    /// AWS accepted it.
    Accepted,
    /// AWS says that nothing waits any more.
    Gone,
}

/// What one heartbeat proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// The action is open.
    Open,
    /// "No active Lifecycle Action".
    Gone,
}

enum Order {
    Complete(oneshot::Sender<Completion>),
    Prove(oneshot::Sender<Proof>),
    Newer(OwedHook),
    Forget,
}

/// All owed lifecycle actions of one term.
#[derive(Clone)]
pub(super) struct Hooks {
    standing: Standing,
    end: CancellationToken,
    words: mpsc::UnboundedSender<Word>,
    tasks: Arc<Mutex<BTreeMap<HookKey, mpsc::UnboundedSender<Order>>>>,
    past: Arc<Mutex<Past>>,
}

/// Actions that are over: a copy of their event that comes late, when the Node that told of them may be gone, starts nothing.
#[derive(Debug, Default)]
struct Past {
    known: BTreeSet<(HookKey, LifecycleToken)>,
    order: VecDeque<(HookKey, LifecycleToken)>,
}

impl Past {
    /// So many are remembered.
    const MOST: usize = 10_000;

    fn holds(&self, owed: &OwedHook) -> bool {
        owed.token.clone().is_some_and(|token| self.known.contains(&(owed.key.clone(), token)))
    }

    fn note(&mut self, owed: &OwedHook) {
        let Some(token) = owed.token.clone() else { return };
        let action = (owed.key.clone(), token);
        if self.known.insert(action.clone()) {
            self.order.push_back(action);
        }
        if self.order.len() > Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// When the first beat may be sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum First {
    /// The event was received just now.
    Received,
    /// Taken over from another leader: at this moment.
    TakenOver(Moment),
}

impl Hooks {
    pub(super) fn new(standing: Standing, end: CancellationToken, words: mpsc::UnboundedSender<Word>) -> Self {
        Self { standing, end, words, tasks: Arc::default(), past: Arc::default() }
    }

    fn tasks(&self) -> std::sync::MutexGuard<'_, BTreeMap<HookKey, mpsc::UnboundedSender<Order>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The action is ours: it is beaten from now on. Said again: a newer token is taken over.
    pub(super) fn own(&self, owed: &OwedHook, event: Moment, first: First) {
        if !self.is_past(owed) {
            self.task(owed, event, first);
        }
    }

    /// The action is over, and its end was told to whoever waited for it.
    fn is_past(&self, owed: &OwedHook) -> bool {
        self.past.lock().unwrap_or_else(PoisonError::into_inner).holds(owed)
    }

    fn task(&self, owed: &OwedHook, event: Moment, first: First) -> mpsc::UnboundedSender<Order> {
        let mut tasks = self.tasks();
        if let Some(task) = tasks.get(&owed.key).filter(|t| !t.is_closed()) {
            // A closed one is being replaced below.
            task.send(Order::Newer(owed.clone())).ok();
            return task.clone();
        }
        let (orders, received) = mpsc::unbounded_channel();
        tasks.insert(owed.key.clone(), orders.clone());
        let now = self.standing.clock.now();
        let start = match first {
            First::Received => Start::Received(now),
            First::TakenOver(turn) => Start::TakenOver { at: now, turn },
        };
        let schedule = BeatSchedule::new(event, start, self.standing.random.fraction(), None);
        let keeper = Keeper {
            standing: self.standing.clone(),
            words: self.words.clone(),
            owed: owed.clone(),
            schedule,
            past: Arc::clone(&self.past),
            waiting: Vec::new(),
            proofs: Vec::new(),
            orders: received,
            told: None,
            counted_missed: 0,
            named: false,
        };
        let (end, all) = (self.end.clone(), self.clone());
        self.standing.metrics.set_hooks_owed(tasks.len());
        let span = tracing::info_span!("lifecycle_action", node = tracing::field::Empty);
        drop(self.standing.spawner.spawn(async move {
            let key = keeper.owed.key.clone();
            end.run_until_cancelled(Box::pin(keeper.keep().instrument(span))).await;
            let mut tasks = all.tasks();
            if tasks.get(&key).is_some_and(mpsc::UnboundedSender::is_closed) {
                tasks.remove(&key);
            }
            all.standing.metrics.set_hooks_owed(tasks.len());
        }));
        orders
    }

    /// Completes the action with CONTINUE; comes back when AWS has accepted that or says that nothing waits. `None`: the term ended.
    pub(super) async fn complete(&self, owed: &OwedHook, event: Moment) -> Option<Completion> {
        if self.is_past(owed) {
            return Some(Completion::Gone);
        }
        let (reply, answer) = oneshot::channel();
        drop(self.task(owed, event, First::Received).send(Order::Complete(reply)));
        answer.await.ok()
    }

    /// Sends one heartbeat now; comes back when AWS has answered it. `None`: the term ended, or the action is known to be over.
    pub(super) async fn prove(&self, owed: &OwedHook, event: Moment) -> Option<Proof> {
        if self.is_past(owed) {
            return Some(Proof::Gone);
        }
        let (reply, answer) = oneshot::channel();
        drop(self.task(owed, event, First::Received).send(Order::Prove(reply)));
        answer.await.ok()
    }

    /// The action is not ours after all: no more beats, and no completion.
    pub(super) fn forget(&self, key: &HookKey) {
        if let Some(task) = self.tasks().remove(key) {
            task.send(Order::Forget).ok();
        }
    }
}

/// Keeps one action open.
struct Keeper {
    standing: Standing,
    words: mpsc::UnboundedSender<Word>,
    owed: OwedHook,
    schedule: BeatSchedule,
    past: Arc<Mutex<Past>>,
    waiting: Vec<oneshot::Sender<Completion>>,
    proofs: Vec<oneshot::Sender<Proof>>,
    orders: mpsc::UnboundedReceiver<Order>,
    told: Option<HookFacts>,
    counted_missed: u64,
    named: bool,
}

impl Keeper {
    async fn keep(mut self) {
        let mut describe_at = Some(self.standing.clock.now());
        let mut complete_at: Option<Moment> = None;
        let mut backoff = Backoff::up_to(seconds(20));
        let far = Moment::MAX;
        loop {
            self.name_node();
            self.tell();
            if self.schedule.end().is_some() && self.answer_over() {
                return;
            }
            let clock = self.standing.clock;
            let now = clock.now();
            let due = if self.proofs.is_empty() { self.schedule.due().unwrap_or(far) } else { now };
            let lapse = self.schedule.lapses_at().filter(|at| *at > now).unwrap_or(far);
            // An action that is over is kept for a while for whoever still wants to complete it, then forgotten.
            let idle = if self.schedule.end().is_some() { now.checked_add(IDLE).unwrap_or(far) } else { far };
            let describing = describe_at.filter(|_| self.schedule.end().is_none());
            let lookups = self.standing.lookups.clone();
            let (group, hook) = (self.owed.key.group.clone(), self.owed.key.hook.clone());
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(Order::Complete(reply)) => {
                        self.waiting.push(reply);
                        complete_at.get_or_insert(now);
                    }
                    Some(Order::Prove(reply)) => self.proofs.push(reply),
                    Some(Order::Newer(owed)) => self.owed.token = owed.token.or(self.owed.token.take()),
                    Some(Order::Forget) | None => return,
                },
                () = clock.sleep_until(complete_at.unwrap_or(far)) => {
                    complete_at = if self.complete().await { None } else { Some(clock.now() + backoff.pause(&self.standing.random)) };
                }
                () = clock.sleep_until(due) => self.beat().await,
                () = clock.sleep_until(lapse) => {}
                () = clock.sleep_until(idle) => {
                    self.past.lock().unwrap_or_else(PoisonError::into_inner).note(&self.owed);
                    return;
                }
                described = async {
                    clock.sleep_until(describing.unwrap_or(far)).await;
                    lookups.hooks.get(&group, &hook).await
                } => {
                    describe_at = match described {
                        Ok(Some(description)) => {
                            self.schedule.described(description);
                            None
                        }
                        Ok(None) => None,
                        Err(error) => {
                            warn!(group = %group, hook = %hook, %error, "Cannot describe the lifecycle hook; it is beaten as if its timeout were 30 s.");
                            Some(clock.now() + seconds(5))
                        }
                    };
                }
            }
        }
    }

    /// Has the lines of this action name its node, as soon as the index knows it: beats may begin before.
    fn name_node(&mut self) {
        if !self.named
            && let Some(node) = self.standing.nodes.by_instance(&self.owed.key.instance).first()
        {
            self.named = true;
            tracing::Span::current().record("node", node.name.as_str());
        }
    }

    /// The action is over: whoever waits is told. Says whether the task may end.
    fn answer_over(&mut self) -> bool {
        let completion = match self.schedule.end() {
            Some(End::Completed) => Completion::Accepted,
            Some(End::Gone) => Completion::Gone,
            None => return false,
        };
        if completion == Completion::Accepted || !self.waiting.is_empty() {
            self.past.lock().unwrap_or_else(PoisonError::into_inner).note(&self.owed);
        }
        let answered = !self.waiting.is_empty();
        for waiting in self.waiting.drain(..) {
            if completion == Completion::Gone {
                self.standing.metrics.completion(CompletionResult::Gone);
            }
            waiting.send(completion).ok();
        }
        for proof in self.proofs.drain(..) {
            proof.send(Proof::Gone).ok();
        }
        answered || completion == Completion::Accepted
    }

    fn tell(&mut self) {
        let now = self.standing.clock.now();
        let missed = self.schedule.counts().missed;
        for _ in self.counted_missed..missed {
            self.standing.metrics.heartbeat_missed();
        }
        self.counted_missed = missed;
        let facts = self.schedule.facts(now);
        if self.told.as_ref() != Some(&facts) {
            self.told = Some(facts.clone());
            self.words.send(Word::Hook(self.owed.key.clone(), facts)).ok();
        }
    }

    async fn beat(&mut self) {
        let standing = self.standing.clone();
        if !standing.lead.may_write() {
            tokio::time::sleep(Duration::from_millis(200)).await;
            return;
        }
        self.schedule.sent(standing.clock.now());
        let limit = self.schedule.call_limit();
        let result = tokio::time::timeout(limit, standing.aws.autoscaling().heartbeat(&self.owed)).await;
        let now = standing.clock.now();
        let key = &self.owed.key;
        let proof = match result {
            Ok(Ok(())) => {
                self.schedule.accepted(now);
                standing.metrics.heartbeat(BeatResult::Accepted);
                debug!(instance = %key.instance, hook = %key.hook, "Heartbeat accepted.");
                Some(Proof::Open)
            }
            Ok(Err(error)) if error.advice() == Advice::Gone => {
                self.schedule.gone(now);
                standing.metrics.heartbeat(BeatResult::Over);
                info!(instance = %key.instance, hook = %key.hook, %error, "The lifecycle action is over; no more heartbeats.");
                Some(Proof::Gone)
            }
            Ok(Err(error)) => {
                self.schedule.failed(now);
                standing.metrics.heartbeat(if error.advice() == Advice::Denied { BeatResult::Denied } else { BeatResult::Failed });
                warn!(instance = %key.instance, hook = %key.hook, %error, tries = self.schedule.failures_in_a_row(), "A heartbeat failed and is tried again.");
                None
            }
            Err(_) => {
                self.schedule.failed(now);
                standing.metrics.heartbeat(BeatResult::Failed);
                warn!(instance = %key.instance, hook = %key.hook, limit = ?limit, "A heartbeat was not answered in time and is tried again.");
                None
            }
        };
        standing.board.beat(&key.instance, proof == Some(Proof::Open));
        match proof {
            Some(proof) => self.proofs.drain(..).for_each(|p| {
                p.send(proof).ok();
            }),
            // Who wants a proof waits for the next try, which has its own pause.
            None if !self.proofs.is_empty() => tokio::time::sleep(seconds(1)).await,
            None => {}
        }
    }

    /// One try to complete; `false`: to be tried again.
    async fn complete(&mut self) -> bool {
        if self.schedule.end().is_some() {
            return true;
        }
        let standing = self.standing.clone();
        if !standing.lead.may_write() {
            return false;
        }
        let result = standing.aws.autoscaling().complete(&self.owed, HookResult::Continue).await;
        let key = &self.owed.key;
        match result {
            Ok(()) => {
                self.schedule.completed(standing.clock.now());
                standing.metrics.completion(CompletionResult::Accepted);
                info!(instance = %key.instance, group = %key.group, hook = %key.hook, "Lifecycle action completed with CONTINUE.");
                true
            }
            Err(error) if error.advice() == Advice::Gone => {
                self.schedule.gone(standing.clock.now());
                info!(instance = %key.instance, group = %key.group, hook = %key.hook, %error, "The lifecycle action is over already.");
                true
            }
            Err(error) => {
                standing.metrics.completion(if error.advice() == Advice::Denied { CompletionResult::Denied } else { CompletionResult::Failed });
                warn!(instance = %key.instance, group = %key.group, hook = %key.hook, %error, "Cannot complete the lifecycle action; trying again, heartbeats go on.");
                false
            }
        }
    }
}
