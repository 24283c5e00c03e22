//! The open lifecycle actions: one task for each, which sends heartbeats until AWS has accepted the
//! completion.
//!
//! The same task sends the heartbeats and the completion of an action, one call after the other, so
//! that no heartbeat follows an accepted completion. All tasks send through one [`Pacer`]: the
//! action with the least time left goes first.

mod action_calls;
mod action_completion;
mod action_task;
mod action_tasks;
mod confirmation;
mod ended_actions;
pub(super) mod heartbeat_answers;
mod pacer;
mod undescribed_hooks;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, info};

pub(super) use self::action_completion::OrderedResult;
pub(super) use self::confirmation::report_of_others;
use self::{
    action_task::ActionTask, action_tasks::ActionTasks, ended_actions::EndedActions,
    heartbeat_answers::LastAnswer, pacer::Pacer, undescribed_hooks::UndescribedHooks,
};
use super::shared::Shared;
use crate::{
    domain::{HookKey, HookResult, InstanceId, LifecycleAction, Moment, WaitPurpose, seconds},
    fleet::{Input, Origin},
    lifecycle::{ActionOrigin, HeartbeatSchedule},
    triage::{
        ActionEndSeen,
        sweep::{Candidate, Shown},
    },
};

/// At a take-over a new leader assumes that nobody has sent heartbeats for the duration of the
/// Lease and this much longer: the time until its first look at the records and its first call.
const SLACK: std::time::Duration = seconds(5);

/// How a completion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Completion {
    /// AWS accepted it, with this result.
    Accepted(HookResult),
    /// The action is over without our completion: AWS no longer has it open.
    Gone,
    /// AWS has shown meanwhile that another party answers the hook. Sundown has not completed it.
    NotOurs,
}

/// What one heartbeat proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// The action is open.
    Open,
    /// AWS answered "No active Lifecycle Action", or the action is known to be over.
    Gone,
}

/// A caller that waits for the end of an action that it wants to complete.
#[derive(Debug)]
struct Completer {
    reply: oneshot::Sender<Completion>,
    /// AWS had not shown yet who answers the hook ([`crate::triage::HookClaim::is_unconfirmed`]).
    is_unconfirmed: bool,
    /// The result to complete the action with.
    result: OrderedResult,
    /// When it was ordered.
    ordered_at: Moment,
}

/// An order to the task of an action.
#[derive(Debug)]
enum Order {
    Complete(Completer),
    Prove(oneshot::Sender<Proof>),
    /// Evictions wait until this moment for the answer to the first heartbeat.
    Verify(Moment),
    /// A message or a record names the action like this.
    AddName(Box<LifecycleAction>, NamedBy),
    /// The leader accepted, took over or resumed the drain of the action.
    DrainResumed {
        /// At this moment; `None`: the drain is paused.
        at: Option<Moment>,
        /// The drain timeout that the Node or its hooks set; `None`: that of the flags.
        drain_timeout: Option<Duration>,
    },
    /// The term is over. Send heartbeats, and nothing else.
    KeepHeartbeatsOnly,
    /// A new term has begun.
    Resume,
    /// End: nobody needs this action kept alive.
    Forget,
}

/// Sends inputs to the fleet of the current term. Clones send to the same fleet, also those that a
/// task of the term before still holds.
#[derive(Clone)]
struct FleetInputs(Arc<Mutex<mpsc::UnboundedSender<Input>>>);

impl FleetInputs {
    fn send(&self, input: Input) {
        // It fails only at the end of a term, when no input matters.
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).send(input));
    }

    fn replace(&self, inputs: mpsc::UnboundedSender<Input>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = inputs;
    }
}

/// All open lifecycle actions of one term.
#[derive(Clone)]
pub(super) struct LifecycleActions {
    shared: Arc<Shared>,
    end: CancellationToken,
    inputs: FleetInputs,
    tasks: Arc<Mutex<ActionTasks>>,
    ended_actions: Arc<Mutex<EndedActions>>,
    pacer: Pacer,
    undescribed: UndescribedHooks,
}

/// Where an action is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NamedBy {
    /// A message of AWS that this process received. Its token names the action.
    Message,
    /// The record of a Node, which a kubelet can write. Calls name the instance only, and AWS must
    /// show that the instance waits before the action is completed.
    Record,
}

impl LifecycleActions {
    pub(super) fn new(shared: Arc<Shared>, inputs: mpsc::UnboundedSender<Input>) -> Self {
        let end = CancellationToken::new();
        let pacer = Pacer::start(shared.clock, &shared.spawner, &end);
        Self {
            shared,
            end,
            inputs: FleetInputs(Arc::new(Mutex::new(inputs))),
            tasks: Arc::default(),
            ended_actions: Arc::default(),
            pacer,
            undescribed: UndescribedHooks::default(),
        }
    }

    /// Ends the tasks of all actions: no more heartbeats.
    pub(super) fn end(&self) {
        self.end.cancel();
        self.shared.metrics.set_open_actions(0);
    }

    /// Ends everything but the heartbeats of open actions and the completions that are already
    /// under way: this process may no longer write, and no other process is known to lead. See
    /// `docs/adr/0010-heartbeats-go-on-while-nobody-leads.md`.
    pub(super) fn keep_heartbeats_only(&self) {
        let mut tasks = self.tasks();
        tasks.keep_heartbeats_only();
        let open_actions = tasks.running();
        self.shared.metrics.set_open_actions(open_actions);
        if open_actions > 0 {
            info!(
                open_actions,
                "No other process is known to lead yet: heartbeats go on, nothing is completed."
            );
        }
    }

    /// The same process leads again: the new term takes over the actions that were kept alive.
    pub(super) fn resume(self, inputs: mpsc::UnboundedSender<Input>) -> Self {
        {
            let mut tasks = self.tasks();
            self.inputs.replace(inputs);
            tasks.resume();
            self.shared.metrics.set_open_actions(tasks.running());
        }
        self
    }

    fn tasks(&self) -> MutexGuard<'_, ActionTasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the action alive from now on, because it is ours. `event`: when the event happened.
    /// `first`: whether this process received the event or takes the action over.
    pub(super) fn own(
        &self,
        action: &LifecycleAction,
        event: Moment,
        first: Origin,
        named_by: NamedBy,
    ) {
        if !self.is_over_by(action, event) {
            self.order(action, event, first, named_by, None);
        }
    }

    /// Gives the task of an action, if there is one, the name that a message carries. If the action
    /// was known only from a record, its calls carry the token from now on.
    pub(super) fn learn_token(&self, action: &LifecycleAction) {
        if !self.is_over(action) {
            self.tasks().add_name_of_copy(action, NamedBy::Message);
        }
    }

    /// The record of a Node holds this action under another name, and keeps it alive: this name of
    /// it is not needed.
    pub(super) fn disown(&self, action: &LifecycleAction) {
        self.tasks().disown(action);
    }

    /// Whether this term has named an action of this hook and instance that has a task, or it was
    /// completed during the wait that the sweep saw.
    pub(super) fn knows(&self, key: &HookKey, candidate: &Candidate) -> bool {
        let ended = || self.ended_actions.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, now) = (candidate.waiting.state, self.shared.clock.now());
        self.tasks().has_open_action_of(key)
            || ended().is_wait_of_other_hook(key, state, candidate.absent_at, now)
    }

    /// AWS has shown this in a round of the sweep that began at `began`. This process goes by it in
    /// later terms, too.
    pub(super) fn note_round(&self, began: Moment, shown: &Shown) {
        let waiting: BTreeSet<&InstanceId> =
            shown.waiting.iter().map(|waiting| &waiting.instance).collect();
        let may_wait =
            |key: &HookKey| waiting.contains(&key.instance) || shown.unknown.contains(&key.group);
        let mut ended = self.ended_actions.lock().unwrap_or_else(PoisonError::into_inner);
        ended.note_round(began, may_wait);
    }

    /// Whether the action is known in this term to be over: AWS accepted our completion, or a
    /// caller that wanted to complete it got the answer that it was over already.
    pub(super) fn is_over(&self, action: &LifecycleAction) -> bool {
        self.ended_actions.lock().unwrap_or_else(PoisonError::into_inner).contains(action)
    }

    /// What this process knows, from all of its terms, about the end of the action with exactly
    /// this name. Always [`ActionEndSeen::NotKnown`] without a token.
    pub(super) fn end_seen(&self, action: &LifecycleAction) -> ActionEndSeen {
        let ended = self.ended_actions.lock().unwrap_or_else(PoisonError::into_inner).seen(action);
        heartbeat_answers::end_seen(ended, self.shared.heartbeat_answers.last(action))
    }

    /// The same of an action whose event is of that time: it may have ended before its token was
    /// known.
    fn is_over_by(&self, action: &LifecycleAction, event: Moment) -> bool {
        let ended = self.ended_actions.lock().unwrap_or_else(PoisonError::into_inner);
        ended.contains(action) || ended.is_event_of_ended(action, event)
    }

    /// Whether an action of exactly this name has a task and is not known to be over.
    pub(super) fn is_kept_alive(&self, action: &LifecycleAction) -> bool {
        !self.is_over(action) && self.tasks().has_task(action)
    }

    /// Gives the task of an action this name and the order, and starts the task if the action has
    /// none. The lock is held meanwhile: a task ends only under it, and only if no order waits. After
    /// [`LifecycleActions::keep_heartbeats_only`] it does nothing, and a caller that waits for the
    /// answer to its order gets none.
    fn order(
        &self,
        action: &LifecycleAction,
        event: Moment,
        first: Origin,
        named_by: NamedBy,
        order: Option<Order>,
    ) {
        let mut tasks = self.tasks();
        // A task of the term may still run on another thread when the term ends.
        if !tasks.takes_orders() {
            return;
        }
        if let Some(task) = tasks.add_name(action, named_by) {
            order.map(|order| task.send(order).ok());
            return;
        }
        let (orders, received) = mpsc::unbounded_channel();
        order.map(|order| orders.send(order).ok());
        tasks.begin(action, event, named_by, orders);
        let schedule = self.schedule(action, event, first);
        let mut task = ActionTask::new(self, action.clone(), named_by, schedule, received);
        let (end, all, key) = (self.end.clone(), self.clone(), action.key.clone());
        self.shared.metrics.set_open_actions(tasks.running());
        let span = tracing::info_span!("lifecycle_action", node = tracing::field::Empty);
        // Boxed here: boxed inside the task, the task would reserve the memory twice.
        let life = Box::pin(async move { task.run().await }.instrument(span));
        drop(self.shared.spawner.spawn(async move {
            let ended = end.run_until_cancelled(life).await.is_some();
            let mut tasks = all.tasks();
            tasks.remove_ended(&key);
            if ended {
                all.shared.metrics.set_open_actions(tasks.running());
            }
        }));
    }

    /// The heartbeats of an action that gets them from now on.
    fn schedule(
        &self,
        action: &LifecycleAction,
        event: Moment,
        first: Origin,
    ) -> HeartbeatSchedule {
        let now = self.shared.clock.now();
        let start = match first {
            Origin::Received => ActionOrigin::Received(now),
            Origin::TakenOver => ActionOrigin::TakenOver {
                at: now,
                without_leader: self.shared.config.election.lease.duration.saturating_add(SLACK),
            },
        };
        let schedule = HeartbeatSchedule::new(event, start, self.shared.random.fraction(), None);
        match self.shared.heartbeat_answers.last(action) {
            Some(LastAnswer::Accepted(sent)) => schedule.with_accepted_earlier(sent),
            Some(LastAnswer::Over(_) | LastAnswer::Completed(_)) => schedule.with_over_earlier(),
            None => schedule,
        }
    }

    /// Completes the action with `result`. Returns when AWS has accepted that or the action is
    /// over; `None` if the term ended. An action that only a record names is completed once AWS
    /// shows its instance waiting (see [`crate::lifecycle::Confirmation`]). `is_unconfirmed`: AWS
    /// has not shown yet who answers the hook. If AWS shows while completions fail that another
    /// party does, the action is not completed. `purpose`: for what the action keeps its instance
    /// waiting; `None`: not known.
    pub(super) async fn complete(
        &self,
        action: &LifecycleAction,
        event: Moment,
        named_by: NamedBy,
        is_unconfirmed: bool,
        result: OrderedResult,
        purpose: Option<WaitPurpose>,
    ) -> Option<Completion> {
        if self.is_over_by(action, event) {
            return Some(Completion::Gone);
        }
        let (reply, answer) = oneshot::channel();
        let order = Order::Complete(Completer {
            reply,
            is_unconfirmed,
            result,
            ordered_at: self.shared.clock.now(),
        });
        self.order(action, event, Origin::Received, named_by, Some(order));
        let completion = answer.await.ok();
        if let (Some(Completion::Accepted(_)), Some(purpose)) = (completion, purpose) {
            let ended = || self.ended_actions.lock().unwrap_or_else(PoisonError::into_inner);
            ended().note_purpose(&action.key, purpose);
        }
        completion
    }

    /// Sends one heartbeat now, or when it is due again if the last one failed. Returns when AWS
    /// has answered. `None`: the term or the task of the action ended first.
    pub(super) async fn prove(
        &self,
        action: &LifecycleAction,
        event: Moment,
        named_by: NamedBy,
    ) -> Option<Proof> {
        if self.is_over_by(action, event) {
            return Some(Proof::Gone);
        }
        let (reply, answer) = oneshot::channel();
        self.order(action, event, Origin::Received, named_by, Some(Order::Prove(reply)));
        answer.await.ok()
    }

    /// The leader accepted, took over or resumed the drain of this action at this moment. `None`:
    /// the drain is paused. If this process loses the Lease, it keeps the action alive from then on
    /// for as long as the drain may take. `drain_timeout`: the one that the Node or its hooks set.
    pub(super) fn resumed_at(
        &self,
        action: &LifecycleAction,
        at: Option<Moment>,
        drain_timeout: Option<Duration>,
    ) {
        self.tasks().send(action, Order::DrainResumed { at, drain_timeout });
    }

    /// Sends the first heartbeat of the action now, if it can be sent before `until`. Its answer
    /// reaches the fleet as [`Input::Hook`].
    pub(super) fn verify(&self, action: &LifecycleAction, until: Moment) {
        self.tasks().send(action, Order::Verify(until));
    }

    /// Drops this name of an action. Without a name left, the action gets no more heartbeats and no
    /// completion. Other actions of the same hook are not affected.
    pub(super) fn forget(&self, action: &LifecycleAction) {
        self.tasks().forget(action);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::LifecycleToken;

    /// An action of one hook and one instance.
    pub(super) fn named(token: Option<&str>) -> LifecycleAction {
        let instance = "i-0123456789abcdef0".parse().unwrap();
        let key = HookKey { instance, group: "asg".into(), hook: "drain".into() };
        LifecycleAction { key, token: token.map(LifecycleToken::from) }
    }

    fn size<F: Future>(_: impl Fn(ActionTask) -> F) -> usize {
        size_of::<F>()
    }

    /// A thousand actions may be open at once, each in a task of its own.
    #[test]
    fn the_task_of_an_action_takes_little_memory() {
        let bytes = size(|mut task| async move { task.run().await });
        assert!(bytes <= 2304, "{bytes} bytes");
    }
}
