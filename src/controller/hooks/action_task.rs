//! The task of one lifecycle action: keeps it alive by heartbeats, and completes it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::{BoxFuture, pending};
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, info, warn};

use super::{
    ActionTasks, Completer, Completion, EndedActions, FleetInputs, Hooks, NamedBy, Order, Pacer,
    Proof, UndescribedHooks, confirmation,
};
use crate::{
    aws::{Advice, AwsError, HookResult, LookupError},
    controller::{limit_settings, shared::Shared},
    domain::{HookKey, InstanceState, LifecycleAction, Moment, seconds},
    fleet::Input,
    lifecycle::{
        Confirmation, FORBIDDEN_RETRY, HeartbeatEnd, HeartbeatSchedule, HookFacts, Next, Seen,
    },
    observe::{CompletionResult, HeartbeatResult},
    runtime::Backoff,
    triage::HooksAnswer,
};

/// How long a task stays after its action ended without Sundown completing it and without a caller
/// waiting. Until then it answers `Gone` to later callers. Each event of the task restarts the time.
const REMEMBER: Duration = Duration::from_hours(2);
/// How long a new term may take to name an action that was kept alive between two terms. Records
/// are known at once, messages come back within minutes.
const CLAIM_TIME: Duration = seconds(300);

/// The task of one action.
pub(super) struct ActionTask {
    shared: Arc<Shared>,
    /// The fleet of the current term. Shared with all tasks, because each term has another fleet.
    inputs: FleetInputs,
    /// The action as calls name it: with its token if a message brought one and AWS takes it.
    action: LifecycleAction,
    named_by: NamedBy,
    /// For an action that only a record names: whether AWS shows its instance waiting.
    confirmation: Confirmation,
    /// When AWS is to be asked that next.
    confirm_at: Option<Moment>,
    /// AWS refused the token.
    is_token_refused: bool,
    /// All names by which messages and records name the action.
    names: Vec<LifecycleAction>,
    schedule: HeartbeatSchedule,
    ended_actions: Arc<Mutex<EndedActions>>,
    /// The table that has this task. A task ends only while it holds the lock.
    tasks: Arc<Mutex<ActionTasks>>,
    pacer: Pacer,
    undescribed: UndescribedHooks,
    /// Callers that wait for the end of the action.
    waiting: Vec<Completer>,
    /// Callers that wait for the answer to a heartbeat.
    proofs: Vec<oneshot::Sender<Proof>>,
    orders: mpsc::UnboundedReceiver<Order>,
    /// The facts that the fleet was last sent.
    reported: Option<HookFacts>,
    /// How many missed heartbeats the metric has counted.
    counted_missed: u64,
    /// The log lines of this task name the node.
    has_node_in_logs: bool,
    /// When to try to complete the action. `None`: not yet, or it is over.
    complete_at: Option<Moment>,
    /// The pauses after completions that failed.
    backoff: Backoff,
    /// The question to AWS whether the instance waits, while it has no answer. It outlives the turns
    /// of the loop, so that a slow answer is not asked for again and again.
    asking: Option<BoxFuture<'static, (Moment, Seen)>>,
    /// When this process last accepted, took over or resumed the drain of the action. `None`: the
    /// drain is paused.
    taken_up: Option<Moment>,
    /// The record of a Node names the action: its interruption was accepted.
    is_recorded: bool,
    leadership: Leadership,
}

/// Whether this process leads, and whether its term knows the action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leadership {
    /// It leads, and a message or a record has named the action in this term.
    Leads,
    /// It leads again, and nothing has named the action yet. The task ends at this time unless that
    /// happens.
    LeadsAgain { unclaimed_until: Moment },
    /// It does not lead, and nobody is known to lead: the task sends heartbeats, and nothing else.
    HeartbeatsOnly,
}

impl ActionTask {
    pub(super) fn new(
        hooks: &Hooks,
        action: LifecycleAction,
        named_by: NamedBy,
        schedule: HeartbeatSchedule,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> Self {
        let token = action.token.clone().filter(|_| named_by == NamedBy::Message);
        Self {
            shared: hooks.shared.clone(),
            inputs: hooks.inputs.clone(),
            names: vec![action.clone()],
            action: LifecycleAction { token, ..action },
            named_by,
            confirmation: Confirmation::default(),
            confirm_at: None,
            is_token_refused: false,
            schedule,
            ended_actions: Arc::clone(&hooks.ended_actions),
            tasks: Arc::clone(&hooks.tasks),
            pacer: hooks.pacer.clone(),
            undescribed: hooks.undescribed.clone(),
            waiting: Vec::new(),
            proofs: Vec::new(),
            orders,
            reported: None,
            counted_missed: 0,
            has_node_in_logs: false,
            complete_at: None,
            backoff: Backoff::up_to(seconds(20)),
            asking: None,
            taken_up: Some(hooks.shared.clock.now()),
            is_recorded: named_by == NamedBy::Record,
            leadership: Leadership::Leads,
        }
    }

    /// Runs until the action needs no task any longer. By reference: a future that takes a value
    /// reserves memory for it twice.
    pub(super) async fn run(&mut self) {
        let mut describe_at = Some(self.shared.clock.now());
        let far = Moment::MAX;
        loop {
            self.name_node();
            self.report_facts();
            if self.schedule.end().is_some() && self.answer_waiting() && self.try_close() {
                return;
            }
            if self.reject_if_not_ours() {
                return;
            }
            // Callers that no longer wait need no proof.
            self.proofs.retain(|proof| !proof.is_closed());
            let clock = self.shared.clock;
            let now = clock.now();
            let until = self.kept_alive_until(now);
            if until <= now && self.try_close() {
                return;
            }
            let (completing, confirming) = self.completion_times(now);
            let (completion_priority, completing_pacer) =
                (self.schedule.completion_priority(now), self.pacer.clone());
            if self.asking.is_none() && confirming.is_some_and(|at| at <= now) {
                self.asking =
                    Some(Box::pin(confirmation::ask(self.shared.clone(), self.action.key.clone())));
            }
            let confirming = confirming.filter(|_| self.asking.is_none()).unwrap_or(far);
            let due = if self.proofs.is_empty() {
                self.schedule.due()
            } else {
                self.schedule.due_to_prove()
            };
            let (due, priority, pacer) =
                (due.unwrap_or(far), self.schedule.priority(), self.pacer.clone());
            let lapse = self.schedule.lapses_at().filter(|at| *at > now).unwrap_or(far);
            // Only an action that ended without a caller waiting gets here: see `REMEMBER`.
            let idle = if self.schedule.end().is_some() { now.plus(REMEMBER) } else { far };
            let describing = describe_at.filter(|_| self.schedule.end().is_none());
            let lookups = self.shared.lookups.clone();
            let (group, hook) = (self.action.key.group.clone(), self.action.key.hook.clone());
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(order) => if !self.handle(order, now) { return },
                    None => return,
                },
                () = async {
                    clock.sleep_until(completing.unwrap_or(far)).await;
                    completing_pacer.wait(completion_priority).await;
                } => {
                    if self.reject_if_not_ours() {
                        return;
                    }
                    if self.complete_at.is_none() {
                        continue;
                    }
                    self.complete_at = match Box::pin(self.complete()).await {
                        Try::Over => None,
                        Try::Unconfirmed => Some(clock.now()),
                        Try::Forbidden => Some(clock.now().plus(FORBIDDEN_RETRY)),
                        Try::Failed => Some(clock.now() + self.backoff.pause(&self.shared.random)),
                    };
                }
                () = clock.sleep_until(confirming) => {}
                (asked, seen) = async {
                    match self.asking.as_mut() {
                        Some(asking) => asking.await,
                        None => pending().await,
                    }
                } => {
                    self.asking = None;
                    self.confirmation_answered(seen, asked);
                }
                () = async {
                    clock.sleep_until(due).await; pacer.wait(priority).await;
                } => Box::pin(self.heartbeat()).await,
                () = clock.sleep_until(lapse.min(until)) => {}
                () = clock.sleep_until(idle) => {
                    self.remember_end();
                    if self.try_close() {
                        return;
                    }
                }
                described = async {
                    clock.sleep_until(describing.unwrap_or(far)).await;
                    Box::pin(lookups.hooks.get(&group, &hook)).await
                } => {
                    let answer = described.inspect_err(|error| self.log_undescribed(error));
                    describe_at = answer.is_err().then(|| clock.now() + seconds(5));
                    if let Ok(description) = answer {
                        self.undescribed.answered(&self.action.key);
                        if let Some(description) = description {
                            self.schedule.described(clock.now(), description);
                        }
                    }
                }
            }
        }
    }

    /// Closes the channel of orders if it is empty. `true`: the task must return now. `false`: an
    /// order waits, and the loop must follow it. Orders are sent under the same lock, so none is
    /// lost.
    fn try_close(&mut self) -> bool {
        let _tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let may_end = self.orders.is_empty();
        if may_end {
            self.orders.close();
        }
        may_end
    }

    fn log_undescribed(&self, error: &LookupError) {
        let HookKey { group, hook, .. } = &self.action.key;
        if self.undescribed.failed(&self.action.key) {
            warn!(
                group = %group, hook = %hook, %error,
                "Cannot describe the lifecycle hook; trying again. Until that succeeds, Sundown \
                 sends heartbeats as if the hook's timeout were 30 s."
            );
        } else {
            debug!(
                group = %group, hook = %hook, %error,
                "The lifecycle hook still cannot be described."
            );
        }
    }

    /// Adds the node to the span of this task's log lines, as soon as the index knows it.
    /// Heartbeats may begin before that.
    fn name_node(&mut self) {
        if !self.has_node_in_logs
            && let Some(node) = self.shared.nodes.by_instance(&self.action.key.instance).first()
        {
            self.has_node_in_logs = true;
            tracing::Span::current().record("node", node.name.as_str());
        }
    }

    /// Follows an order. Returns whether the task goes on.
    fn handle(&mut self, order: Order, now: Moment) -> bool {
        match order {
            Order::Complete(completer) => {
                self.waiting.push(completer);
                if self.complete_at.is_none() {
                    self.complete_at = Some(now);
                    self.backoff.reset();
                }
            }
            Order::Prove(reply) => {
                self.proofs.push(reply);
                self.schedule.hasten(now);
            }
            Order::KeepHeartbeatsOnly => {
                // The callers that waited have ended with the term.
                self.waiting.clear();
                self.proofs.clear();
                (self.complete_at, self.leadership) = (None, Leadership::HeartbeatsOnly);
                (self.confirmation, self.confirm_at, self.asking) =
                    (Confirmation::default(), None, None);
            }
            Order::TakenUp(at) => self.taken_up = at,
            Order::Resume => {
                self.reported = None;
                self.leadership = Leadership::LeadsAgain { unclaimed_until: now.plus(CLAIM_TIME) };
            }
            Order::AddName(name, named_by) => {
                self.is_recorded |= named_by == NamedBy::Record;
                if matches!(self.leadership, Leadership::LeadsAgain { .. }) {
                    self.leadership = Leadership::Leads;
                }
                if named_by == NamedBy::Message {
                    self.named_by = named_by;
                    if self.action.token.is_none() && !self.is_token_refused {
                        self.action.token.clone_from(&name.token);
                    }
                }
                if !self.names.contains(&name) {
                    self.names.push(*name);
                }
                // The name may come from another drain of the node, which does not know the facts
                // of the hook yet.
                self.reported = None;
            }
            Order::Forget => return false,
        }
        true
    }

    /// When to send the completion, and when to ask AWS first whether the instance waits. At most
    /// one of them is `Some`.
    fn completion_times(&self, now: Moment) -> (Option<Moment>, Option<Moment>) {
        let wanted = self.complete_at.filter(|_| self.schedule.end().is_none());
        if self.named_by == NamedBy::Message || self.confirmation.is_good(now) {
            return (wanted, None);
        }
        (None, wanted.map(|at| self.confirm_at.map_or(at, |confirm| confirm.max(at))))
    }

    /// Handles AWS's answer to the question, asked at `asked`, whether the instance of an action
    /// that only a record names waits.
    fn confirmation_answered(&mut self, seen: Seen, asked: Moment) {
        let now = self.shared.clock.now();
        if self.named_by == NamedBy::Message {
            return;
        }
        let next = self.confirmation.heard(seen, asked, now, self.schedule.ends_by());
        self.confirm_at = match next {
            Next::Ask(at) | Next::Prove(at) | Next::Doubt(at) => Some(at),
            Next::Complete | Next::CompleteUnconfirmed | Next::Over => None,
        };
        match next {
            Next::Complete | Next::Ask(_) => {}
            Next::CompleteUnconfirmed => {
                confirmation::warn_unconfirmed(&self.shared, &self.action.key);
            }
            Next::Prove(_) => self.schedule.hasten(now),
            Next::Doubt(_) => confirmation::report_doubt(&self.action.key),
            Next::Over => {
                self.schedule.gone(now);
                confirmation::report_over(&self.action.key);
            }
        }
    }

    /// When the task ends although its action is open. Never (`Moment::MAX`) once the current term
    /// knows the action. While nobody leads: at the latest end of the drain. In a new term: when
    /// nothing has named the action in time. In both cases at once if AWS has shown that another
    /// party answers the hook, unless a record names the action.
    fn kept_alive_until(&self, now: Moment) -> Moment {
        match self.leadership {
            Leadership::Leads => return Moment::MAX,
            Leadership::LeadsAgain { .. } | Leadership::HeartbeatsOnly
                if !self.is_recorded && self.is_of_others() =>
            {
                return now;
            }
            Leadership::LeadsAgain { unclaimed_until } => return unclaimed_until,
            Leadership::HeartbeatsOnly => {}
        }
        let hook = self.schedule.facts(now).description;
        limit_settings(&self.shared.config.drain).kept_alive_until(
            self.taken_up,
            self.schedule.ends_by(),
            hook.as_ref(),
        )
    }

    /// Checks again whose hook this is: AWS may have shown, after a caller ordered the completion,
    /// that another party answers it. In that case replies `NotOurs` to the callers that had no proof
    /// that the hook is ours. If no caller is left, cancels the completion and tries to close the
    /// task. Returns whether the task must return.
    fn reject_if_not_ours(&mut self) -> bool {
        if !self.waiting.iter().any(|waiting| waiting.is_unconfirmed) || !self.is_of_others() {
            return false;
        }
        for waiting in self.waiting.extract_if(.., |waiting| waiting.is_unconfirmed) {
            waiting.reply.send(Completion::NotOurs).ok();
        }
        if !self.waiting.is_empty() {
            return false;
        }
        self.complete_at = None;
        let ends = self.try_close();
        if ends {
            let HookKey { group, hook, instance } = &self.action.key;
            confirmation::report_of_others(group, hook, instance);
        }
        ends
    }

    /// Whether AWS has shown that another party answers the hook.
    fn is_of_others(&self) -> bool {
        let HookKey { group, hook, .. } = &self.action.key;
        let last = self.shared.lookups.hooks.before(group).map(HooksAnswer::Described);
        self.shared.policy.hooks.is_known_foreign(hook, last.as_ref())
    }

    fn remember_end(&self) {
        let mut ended = self.ended_actions.lock().unwrap_or_else(PoisonError::into_inner);
        self.names.iter().for_each(|name| ended.insert(name));
        self.shared.heartbeat_answers.ended(&self.names, self.shared.clock.now());
    }

    /// Answers all callers that wait if the action is over. Returns whether the task may end.
    fn answer_waiting(&mut self) -> bool {
        let completion = match self.schedule.end() {
            Some(HeartbeatEnd::Completed) => Completion::Accepted,
            Some(HeartbeatEnd::Gone) => Completion::Gone,
            None => return false,
        };
        if completion == Completion::Accepted || !self.waiting.is_empty() {
            self.remember_end();
        }
        let answered = !self.waiting.is_empty();
        for waiting in self.waiting.drain(..) {
            if completion == Completion::Gone {
                self.shared.metrics.completion(CompletionResult::Gone);
            }
            waiting.reply.send(completion).ok();
        }
        for proof in self.proofs.drain(..) {
            proof.send(Proof::Gone).ok();
        }
        answered || completion == Completion::Accepted
    }

    /// Counts missed heartbeats, and sends the fleet the facts of the hook if they have changed.
    fn report_facts(&mut self) {
        let now = self.shared.clock.now();
        let missed = self.schedule.counts().missed;
        for _ in self.counted_missed..missed {
            self.shared.metrics.heartbeat_missed();
        }
        self.counted_missed = missed;
        let facts = self.schedule.facts(now);
        if self.reported.as_ref() != Some(&facts) {
            for name in &self.names {
                self.inputs.send(Input::Hook(name.clone(), facts.clone()));
            }
            self.reported = Some(facts);
        }
    }

    async fn heartbeat(&mut self) {
        let shared = self.shared.clone();
        if !shared.guard.may_send_heartbeats() {
            // The guard closes a moment before the service stops this task. Without the pause, the
            // loop would spin until then.
            tokio::time::sleep(Duration::from_millis(200)).await;
            return;
        }
        // While this task waited for the pacer, its time may have run out, or a lookup of another
        // task may have shown that another party answers the hook.
        if self.kept_alive_until(shared.clock.now()) <= shared.clock.now() {
            return;
        }
        self.schedule.sent(shared.clock.now());
        let limit = self.schedule.call_limit();
        let result =
            tokio::time::timeout(limit, shared.aws.autoscaling().heartbeat(&self.action)).await;
        let now = shared.clock.now();
        let key = self.action.key.clone();
        let proof = match result {
            Ok(Ok(())) => {
                if self.is_unproved() {
                    // The accepted heartbeat proves the action. A completion that was forbidden is
                    // tried again now, not 5 min after the last try.
                    self.complete_at = self.complete_at.map(|at| at.min(now));
                }
                self.schedule.accepted(now);
                if let Some(sent) = self.schedule.last_accepted() {
                    shared.heartbeat_answers.accepted(&self.names, sent);
                }
                shared.metrics.heartbeat(HeartbeatResult::Accepted);
                debug!(instance = %key.instance, hook = %key.hook, "Heartbeat accepted.");
                Some(Proof::Open)
            }
            Ok(Err(error)) if error.advice() == Advice::Gone || self.ask_if_over(&error).await => {
                self.schedule.gone(shared.clock.now());
                shared.heartbeat_answers.over(&self.names, shared.clock.now());
                shared.metrics.heartbeat(HeartbeatResult::Over);
                info!(
                    instance = %key.instance, hook = %key.hook, %error,
                    "The lifecycle action is over; no more heartbeats."
                );
                Some(Proof::Gone)
            }
            Ok(Err(error)) => {
                let denied = error.advice() == Advice::Denied;
                let is_for_good = self.is_forbidden_for_good(&error, now);
                if is_for_good {
                    self.schedule.gone(now);
                } else if self.is_unproved() && error.is_forbidden() {
                    self.schedule.forbidden(now);
                } else if denied || error.is_invalid() {
                    self.schedule.refused(now);
                } else {
                    self.schedule.failed(now);
                }
                shared.metrics.heartbeat(if denied {
                    HeartbeatResult::Denied
                } else {
                    HeartbeatResult::Failed
                });
                if is_for_good {
                    log_forbidden_for_good(&key, &error);
                } else {
                    warn!(
                        instance = %key.instance, hook = %key.hook, %error,
                        tries = self.schedule.failures_in_a_row(),
                        "A heartbeat failed and is tried again."
                    );
                }
                None
            }
            Err(_) => {
                self.schedule.failed(now);
                shared.metrics.heartbeat(HeartbeatResult::Failed);
                warn!(
                    instance = %key.instance, hook = %key.hook, limit = ?limit,
                    "A heartbeat was not answered in time and is tried again."
                );
                None
            }
        };
        shared.board.heartbeat(&key.instance, proof == Some(Proof::Open));
        if let Some(proof) = proof {
            for waiting in self.proofs.drain(..) {
                waiting.send(proof).ok();
            }
        }
    }

    /// Whether the action is over after Auto Scaling refused a call as invalid. That answer alone
    /// does not show it: this asks whether the hook, its group or the instance is gone. If the
    /// error is about the token, the calls omit the token from now on.
    async fn ask_if_over(&mut self, error: &AwsError) -> bool {
        if !error.is_invalid() {
            return false;
        }
        let key = self.action.key.clone();
        if error.is_about_the_token() && self.action.token.take().is_some() {
            self.is_token_refused = true;
            warn!(
                instance = %key.instance, hook = %key.hook, %error,
                "Auto Scaling does not take the action's token; the calls name only the instance \
                 from now on.");
            return false;
        }
        let lookups = self.shared.lookups.clone();
        let (hook, instance) = tokio::join!(
            lookups.hooks.get_fresh(&key.group, &key.hook),
            lookups.instances.get_fresh(&key.instance)
        );
        matches!(hook, Ok(None))
            || instance
                .is_ok_and(|facts| facts.is_none_or(|f| f.state == InstanceState::Terminated))
    }

    /// Only a record names the action, and AWS has accepted no heartbeat for it: the record may be
    /// forged.
    fn is_unproved(&self) -> bool {
        self.named_by == NamedBy::Record && self.schedule.counts().accepted == 0
    }

    /// A policy forbids the calls for an action that only a record names, and even a real action
    /// would be over by now.
    fn is_forbidden_for_good(&self, error: &AwsError, now: Moment) -> bool {
        self.named_by == NamedBy::Record && error.is_forbidden() && now >= self.schedule.ends_by()
    }

    /// Tries once to complete the action.
    async fn complete(&mut self) -> Try {
        if self.schedule.end().is_some() {
            return Try::Over;
        }
        let shared = self.shared.clone();
        // The wait for this try, or for the pacer, may have been longer than the answer is good for.
        if self.named_by == NamedBy::Record && !self.confirmation.is_good(shared.clock.now()) {
            return Try::Unconfirmed;
        }
        let Some(permit) = shared.guard.permit() else { return Try::Failed };
        let result = shared
            .aws
            .autoscaling()
            .complete(&self.action, HookResult::Continue, permit.limit())
            .await;
        drop(permit);
        let key = self.action.key.clone();
        match result {
            Ok(()) => {
                self.schedule.completed(shared.clock.now());
                shared.metrics.completion(CompletionResult::Accepted);
                info!(
                    instance = %key.instance, group = %key.group, hook = %key.hook,
                    "Lifecycle action completed with CONTINUE."
                );
                Try::Over
            }
            Err(error) if error.advice() == Advice::Gone || self.ask_if_over(&error).await => {
                self.schedule.gone(shared.clock.now());
                info!(
                    instance = %key.instance, group = %key.group, hook = %key.hook, %error,
                    "The lifecycle action was already over."
                );
                Try::Over
            }
            Err(error) => {
                shared.metrics.completion(if error.advice() == Advice::Denied {
                    CompletionResult::Denied
                } else {
                    CompletionResult::Failed
                });
                let now = shared.clock.now();
                if self.is_forbidden_for_good(&error, now) {
                    self.schedule.gone(now);
                    log_forbidden_for_good(&key, &error);
                    return Try::Over;
                }
                warn!(
                    instance = %key.instance, group = %key.group, hook = %key.hook, %error,
                    "Cannot complete the lifecycle action; trying again, heartbeats go on."
                );
                if self.is_unproved() && error.is_forbidden() {
                    Try::Forbidden
                } else {
                    Try::Failed
                }
            }
        }
    }
}

fn log_forbidden_for_good(key: &HookKey, error: &AwsError) {
    info!(
        instance = %key.instance, group = %key.group, hook = %key.hook, %error,
        "AWS forbids the calls for an action that only a record names, and the action's global \
         timeout has passed. Sundown counts the action as over."
    );
}

/// The result of a try to complete the action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Try {
    /// The action is completed, or was already over.
    Over,
    /// Nothing was sent: AWS must show first that the instance waits.
    Unconfirmed,
    /// The call failed. Try again soon.
    Failed,
    /// A policy forbids the call, and only a record names the action. Try again later.
    Forbidden,
}
