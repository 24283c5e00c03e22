//! The task of one lifecycle action: keeps it alive by heartbeats, and completes it.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};
use tracing::{debug, warn};

use super::{
    Completion, LifecycleActions, NamedBy, Order, Proof,
    action_calls::ActionCalls,
    action_completion::{ActionCompletion, CompletionTimes},
    confirmation,
    ended_actions::EndSeen,
};
use crate::{
    aws::LookupError,
    controller::{limit_settings, shared::Shared},
    domain::{HookDescription, HookKey, LifecycleAction, Moment, seconds},
    fleet::{Input, Origin},
    lifecycle::{HeartbeatEnd, HeartbeatSchedule, HookFacts, Next, Seen},
    observe::CompletionResult,
    triage::HooksAnswer,
};

/// How long a task stays after its action ended without Sundown completing it and without a caller
/// waiting. Until then it answers `Gone` to later callers. Each event of the task restarts the time.
const REMEMBER: Duration = Duration::from_hours(2);
/// How long a new term may take to name an action that was kept alive between two terms. Records
/// are known at once, messages come back within minutes.
const CLAIM_TIME: Duration = seconds(300);

/// The pause before a failed heartbeat is repeated for whose answer evictions wait.
const VERIFY_AGAIN: Duration = seconds(1);

/// The task of one action.
pub(super) struct ActionTask {
    actions: LifecycleActions,
    calls: ActionCalls,
    schedule: HeartbeatSchedule,
    completion: ActionCompletion,
    /// Callers that wait for the answer to a heartbeat.
    proofs: Vec<oneshot::Sender<Proof>>,
    /// Evictions wait for the answer to the first heartbeat.
    awaited: Option<AwaitedAnswer>,
    orders: mpsc::UnboundedReceiver<Order>,
    /// When to ask for the hook's timeouts. `None`: AWS has described it.
    describe_at: Option<Moment>,
    reported: Reported,
    /// When this process last accepted, took over or resumed the drain of the action. `None`: the
    /// drain is paused.
    resumed_at: Option<Moment>,
    /// The drain timeout that the Node or its hooks set; `None`: that of the flags.
    drain_timeout: Option<Duration>,
    /// The record of a Node names the action: its interruption was accepted.
    is_recorded: bool,
    leadership: Leadership,
}

/// The answer to the first heartbeat, for which evictions wait.
struct AwaitedAnswer {
    /// When the heartbeat is sent, even if it is not due.
    next: Moment,
    /// When the evictions begin without an answer.
    until: Moment,
}

/// What the task has reported so far.
#[derive(Default)]
struct Reported {
    /// The facts that the fleet was last sent.
    facts: Option<HookFacts>,
    /// How many missed heartbeats the metric has counted.
    missed: u64,
    /// The table of tasks knows that the action is over.
    is_over: bool,
    /// The log lines of this task name the node.
    has_node_in_logs: bool,
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

/// What the task waits for.
enum Event {
    /// `None`: nobody can send orders any longer.
    Order(Option<Order>),
    /// The completion may be sent.
    CompletionDue,
    /// AWS answered the question, asked at this moment, whether the instance waits.
    Confirmation(Moment, Seen),
    /// A heartbeat may be sent.
    HeartbeatDue,
    /// A moment has passed on which something else depends.
    TimePassed,
    /// The action ended [`REMEMBER`] ago.
    NotAskedFor,
    /// AWS answered the question for the hook's timeouts. `None`: there is no such hook.
    Described(Result<Option<HookDescription>, LookupError>),
}

impl ActionTask {
    pub(super) fn new(
        actions: &LifecycleActions,
        action: LifecycleAction,
        named_by: NamedBy,
        schedule: HeartbeatSchedule,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> Self {
        let now = actions.shared.clock.now();
        Self {
            actions: actions.clone(),
            calls: ActionCalls::new(actions.shared.clone(), action, named_by),
            schedule,
            completion: ActionCompletion::new(),
            proofs: Vec::new(),
            awaited: None,
            orders,
            describe_at: Some(now),
            reported: Reported::default(),
            resumed_at: Some(now),
            drain_timeout: None,
            is_recorded: named_by == NamedBy::Record,
            leadership: Leadership::Leads,
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.actions.shared
    }

    fn now(&self) -> Moment {
        self.actions.shared.clock.now()
    }

    /// Runs until the action needs no task any longer. By reference: a future that takes a value
    /// reserves memory for it twice.
    pub(super) async fn run(&mut self) {
        loop {
            let now = self.now();
            if self.report_and_check_end(now) {
                return;
            }
            let goes_on = match self.next_event(now).await {
                Event::Order(Some(order)) => self.handle(order, now),
                Event::Order(None) => false,
                Event::CompletionDue => Box::pin(self.complete()).await,
                Event::Confirmation(asked, seen) => {
                    self.confirmation_answered(seen, asked);
                    true
                }
                Event::HeartbeatDue => {
                    Box::pin(self.heartbeat()).await;
                    true
                }
                Event::TimePassed => true,
                Event::NotAskedFor => {
                    self.remember_end();
                    !self.try_close()
                }
                Event::Described(answer) => {
                    self.described(answer);
                    true
                }
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Reports what has changed, and replies to callers that need not wait any longer. Returns
    /// whether the task must return.
    fn report_and_check_end(&mut self, now: Moment) -> bool {
        self.name_node();
        self.report_facts();
        if self.schedule.end().is_some() && !self.reported.is_over {
            self.reported.is_over = true;
            self.actions.tasks().note_over(self.calls.names());
        }
        if self.schedule.end().is_some() && self.answer_waiting() && self.try_close() {
            return true;
        }
        if self.reject_if_not_ours() {
            return true;
        }
        // Callers that no longer wait need no proof.
        self.proofs.retain(|proof| !proof.is_closed());
        self.unattended_until(now) <= now && self.try_close()
    }

    async fn next_event(&mut self, now: Moment) -> Event {
        let far = Moment::MAX;
        let until = self.unattended_until(now);
        let CompletionTimes { complete_at, ask_at } = self.completion_times(now);
        let verify_until = self.awaited(now).map_or(far, |awaited| awaited.until);
        let heartbeat_at = self.heartbeat_due(now).unwrap_or(far);
        let Self { actions, calls, schedule, completion, orders, .. } = self;
        if ask_at.is_some_and(|at| at <= now) {
            completion.ask(&actions.shared, calls.key());
        }
        let ask_at = ask_at.filter(|_| !completion.is_asking()).unwrap_or(far);
        let (completion_priority, priority) =
            (schedule.completion_priority(now), schedule.priority());
        let lapse = schedule.lapses_at().filter(|at| *at > now).unwrap_or(far);
        // Only an action that ended without a caller waiting gets here: see `REMEMBER`.
        let idle = if schedule.end().is_some() { now.plus(REMEMBER) } else { far };
        let describe_at = self.describe_at.filter(|_| schedule.end().is_none()).unwrap_or(far);
        let HookKey { group, hook, .. } = calls.key();
        let (clock, pacer) = (actions.shared.clock, &actions.pacer);
        tokio::select! {
            biased;
            order = orders.recv() => Event::Order(order),
            () = async {
                clock.sleep_until(complete_at.unwrap_or(far)).await;
                pacer.wait(completion_priority).await;
            } => Event::CompletionDue,
            () = clock.sleep_until(ask_at) => Event::TimePassed,
            (asked, seen) = completion.answer() => Event::Confirmation(asked, seen),
            () = async {
                clock.sleep_until(heartbeat_at).await;
                pacer.wait(priority).await;
            } => Event::HeartbeatDue,
            () = clock.sleep_until(lapse.min(until).min(verify_until)) => {
                Event::TimePassed
            }
            () = clock.sleep_until(idle) => Event::NotAskedFor,
            answer = async {
                clock.sleep_until(describe_at).await;
                Box::pin(actions.shared.lookups.hooks.get(group, hook)).await
            } => Event::Described(answer),
        }
    }

    /// The answer for which evictions wait at `now`.
    fn awaited(&self, now: Moment) -> Option<&AwaitedAnswer> {
        self.awaited
            .as_ref()
            .filter(|awaited| now < awaited.until && self.schedule.counts().accepted == 0)
    }

    /// When to send the next heartbeat. Earlier if a caller or evictions wait for its answer.
    fn heartbeat_due(&self, now: Moment) -> Option<Moment> {
        if let Some(awaited) = self.awaited(now) {
            self.schedule.due_to_prove().map(|due| due.min(awaited.next))
        } else if self.proofs.is_empty() {
            self.schedule.due()
        } else {
            self.schedule.due_to_prove()
        }
    }

    /// Closes the channel of orders if it is empty. `true`: the task must return now. `false`: an
    /// order waits, and the loop must follow it. Orders are sent under the same lock, so none is
    /// lost.
    fn try_close(&mut self) -> bool {
        let _tasks = self.actions.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let may_end = self.orders.is_empty();
        if may_end {
            self.orders.close();
        }
        may_end
    }

    /// Handles AWS's answer to the question for the hook's timeouts.
    fn described(&mut self, answer: Result<Option<HookDescription>, LookupError>) {
        match answer {
            Ok(description) => {
                self.describe_at = None;
                self.actions.undescribed.answered(self.calls.key());
                if let Some(description) = description {
                    let now = self.now();
                    self.schedule.described(now, description);
                    // The description may have put the next heartbeat off.
                    if !self.proofs.is_empty() {
                        self.schedule.hasten(now);
                    }
                }
            }
            Err(error) => {
                self.log_undescribed(&error);
                self.describe_at = Some(self.now() + seconds(5));
            }
        }
    }

    fn log_undescribed(&self, error: &LookupError) {
        let HookKey { group, hook, .. } = self.calls.key();
        if self.actions.undescribed.failed(self.calls.key()) {
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
        if !self.reported.has_node_in_logs
            && let Some(node) = self.shared().nodes.by_instance(&self.calls.key().instance).first()
        {
            self.reported.has_node_in_logs = true;
            tracing::Span::current().record("node", node.name.as_str());
        }
    }

    /// Follows an order. Returns whether the task goes on.
    fn handle(&mut self, order: Order, now: Moment) -> bool {
        match order {
            Order::Complete(completer) => self.completion.order(completer, now),
            Order::Prove(reply) => {
                self.proofs.push(reply);
                self.schedule.hasten(now);
            }
            // The heartbeat may have been forbidden before the drain began.
            Order::Verify(until) => {
                let awaited = AwaitedAnswer { next: now, until };
                self.awaited = Some(awaited).filter(|_| !self.calls.is_forbidden());
            }
            Order::KeepHeartbeatsOnly => {
                // The callers that waited have ended with the term.
                self.completion = ActionCompletion::new();
                self.proofs.clear();
                self.leadership = Leadership::HeartbeatsOnly;
            }
            Order::DrainResumed { at, drain_timeout } => {
                (self.resumed_at, self.drain_timeout) = (at, drain_timeout);
            }
            Order::Resume => {
                self.reported.facts = None;
                self.leadership = Leadership::LeadsAgain { unclaimed_until: now.plus(CLAIM_TIME) };
            }
            Order::AddName(name, named_by) => {
                if self.is_of_next_action(&name) {
                    self.begin_anew(&name, named_by, now);
                }
                self.is_recorded |= named_by == NamedBy::Record;
                if matches!(self.leadership, Leadership::LeadsAgain { .. }) {
                    self.leadership = Leadership::Leads;
                }
                self.calls.add_name(*name, named_by);
                // The name may come from another drain of the node, which does not know the facts
                // of the hook yet.
                self.reported.facts = None;
            }
            Order::Forget => {
                // A later interruption may bring the same action again, in a record that names it.
                if self.schedule.end().is_some() {
                    self.remember_end();
                }
                return false;
            }
        }
        true
    }

    /// The action is over, and this name came while AWS was answering that: AWS was not asked about
    /// it, and its action may have begun since. Once the table knows that an action is over, its
    /// task gets no other names.
    fn is_of_next_action(&self, name: &LifecycleAction) -> bool {
        self.schedule.end() == Some(HeartbeatEnd::Gone) && !self.calls.names().contains(name)
    }

    /// Follows the action of this name from now on.
    fn begin_anew(&mut self, name: &LifecycleAction, named_by: NamedBy, now: Moment) {
        self.remember_end();
        let (_, none) = mpsc::unbounded_channel();
        let orders = std::mem::replace(&mut self.orders, none);
        let has_node_in_logs = self.reported.has_node_in_logs;
        let mut schedule = self.actions.schedule(name, now, Origin::Received);
        schedule.hasten(now);
        *self = Self {
            leadership: self.leadership,
            reported: Reported { has_node_in_logs, ..Reported::default() },
            ..Self::new(&self.actions, name.clone(), named_by, schedule, orders)
        };
    }

    fn completion_times(&self, now: Moment) -> CompletionTimes {
        if self.schedule.end().is_some() {
            return CompletionTimes { complete_at: None, ask_at: None };
        }
        self.completion.times(self.may_complete(now))
    }

    /// The action may be completed now, without another question to AWS.
    fn may_complete(&self, now: Moment) -> bool {
        !self.calls.is_named_by_record_only() || self.completion.is_confirmed(now)
    }

    /// Handles AWS's answer to the question, asked at `asked`, whether the instance of an action
    /// that only a record names waits.
    fn confirmation_answered(&mut self, seen: Seen, asked: Moment) {
        let now = self.now();
        if !self.calls.is_named_by_record_only() {
            return;
        }
        match self.completion.heard(seen, asked, now, self.schedule.ends_by()) {
            Next::Complete | Next::Ask(_) => {}
            Next::CompleteUnconfirmed => {
                confirmation::warn_unconfirmed(self.shared(), self.calls.key());
            }
            Next::Prove(_) => self.schedule.hasten(now),
            Next::Doubt(_) => confirmation::report_doubt(self.calls.key()),
            Next::Over => {
                self.schedule.gone(now);
                confirmation::report_over(self.calls.key());
            }
        }
    }

    /// When the task ends although its action is open. Never (`Moment::MAX`) once the current term
    /// knows the action. While nobody leads: at the latest end of the drain. In a new term: when
    /// nothing has named the action in time. In both cases at once if AWS has shown that another
    /// party answers the hook, or if the action [is unproved and without a
    /// token](Self::is_unproved_without_token), unless a record names the action.
    fn unattended_until(&self, now: Moment) -> Moment {
        match self.leadership {
            Leadership::Leads => return Moment::MAX,
            Leadership::LeadsAgain { .. } | Leadership::HeartbeatsOnly
                if !self.is_recorded
                    && (self.is_of_others() || self.is_unproved_without_token()) =>
            {
                return now;
            }
            Leadership::LeadsAgain { unclaimed_until } => return unclaimed_until,
            Leadership::HeartbeatsOnly => {}
        }
        let hook = self.schedule.facts(now).description;
        limit_settings(&self.shared().config.drain).heartbeats_until(
            self.resumed_at,
            self.schedule.ends_by(),
            hook.as_ref(),
            self.drain_timeout,
        )
    }

    /// Checks again whose hook this is: AWS may have shown, after a caller ordered the completion,
    /// that another party answers it. In that case rejects the callers that had no proof that the
    /// hook is ours. If no caller is left, tries to close the task. Returns whether the task must
    /// return.
    fn reject_if_not_ours(&mut self) -> bool {
        if !self.completion.has_unconfirmed() || !self.is_of_others() {
            return false;
        }
        let ends = self.completion.reject_unconfirmed() && self.try_close();
        if ends {
            let HookKey { group, hook, instance } = self.calls.key();
            confirmation::report_of_others(group, hook, instance);
        }
        ends
    }

    /// No name of the action has a token (the sweep found it, or its event had none), and AWS has
    /// accepted no heartbeat for it.
    fn is_unproved_without_token(&self) -> bool {
        self.schedule.counts().accepted == 0
            && self.calls.names().iter().all(|name| name.token.is_none())
    }

    /// Whether AWS has shown that another party answers the hook.
    fn is_of_others(&self) -> bool {
        let HookKey { group, hook, .. } = self.calls.key();
        let last = self.shared().lookups.hooks.before(group).map(HooksAnswer::Described);
        self.shared().policy.hooks.is_known_foreign(hook, last.as_ref())
    }

    fn remember_end(&self) {
        let mut ended = self.actions.ended_actions.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.now();
        let event = self.schedule.event();
        let seen = match (self.schedule.end(), self.schedule.last_accepted()) {
            (Some(HeartbeatEnd::Completed), _) => EndSeen::Completed,
            (_, Some(last_accepted)) => EndSeen::WasOpen { last_accepted },
            (_, None) => EndSeen::NeverOpen,
        };
        self.calls.names().iter().for_each(|name| ended.insert(name, event, now, seen));
        self.shared().heartbeat_answers.ended(self.calls.names(), self.now(), seen);
    }

    /// Answers all callers that wait if the action is over. Returns whether the task may end.
    fn answer_waiting(&mut self) -> bool {
        let completion = match self.schedule.end() {
            Some(HeartbeatEnd::Completed) => Completion::Accepted(self.completion.sent()),
            Some(HeartbeatEnd::Gone) => Completion::Gone,
            None => return false,
        };
        let is_accepted = matches!(completion, Completion::Accepted(_));
        if is_accepted || self.completion.has_waiting() {
            self.remember_end();
        }
        let answered = self.completion.reply_to_all(completion);
        if completion == Completion::Gone {
            (0..answered).for_each(|_| self.shared().metrics.completion(CompletionResult::Gone));
        }
        for proof in self.proofs.drain(..) {
            proof.send(Proof::Gone).ok();
        }
        answered > 0 || is_accepted
    }

    /// Counts missed heartbeats, and sends the fleet the facts of the hook if they have changed.
    fn report_facts(&mut self) {
        let missed = self.schedule.counts().missed;
        for _ in self.reported.missed..missed {
            self.shared().metrics.heartbeat_missed();
        }
        self.reported.missed = missed;
        let facts = self.schedule.facts(self.now());
        if self.reported.facts.as_ref() != Some(&facts) {
            for name in self.calls.names() {
                self.actions.inputs.send(Input::Hook(name.clone(), facts.clone()));
            }
            self.reported.facts = Some(facts);
        }
    }

    async fn heartbeat(&mut self) {
        if !self.shared().guard.may_send_heartbeats() {
            // The guard closes a moment before the service stops this task. Without the pause, the
            // loop would spin until then.
            tokio::time::sleep(Duration::from_millis(200)).await;
            return;
        }
        // While this task waited for the pacer, its time may have run out, or a lookup of another
        // task may have shown that another party answers the hook.
        if self.unattended_until(self.now()) <= self.now() {
            return;
        }
        let was_unproved = self.calls.is_unproved(&self.schedule);
        let proof = self.calls.heartbeat(&mut self.schedule).await;
        let now = self.now();
        if self.calls.is_forbidden() {
            self.awaited = None;
        } else if let Some(awaited) = &mut self.awaited {
            awaited.next = now.plus(VERIFY_AGAIN);
        }
        let Some(proof) = proof else { return };
        if proof == Proof::Open
            && let Some(name) = self.calls.named_by_token()
        {
            self.actions.tasks().note_open(name, now);
        }
        if was_unproved && proof == Proof::Open {
            // The accepted heartbeat proves the action. A completion that was forbidden is tried
            // again now, not 5 min after the last try.
            self.completion.try_by(now);
        }
        for waiting in self.proofs.drain(..) {
            waiting.send(proof).ok();
        }
    }

    /// Tries once to complete the action. Returns whether the task goes on.
    async fn complete(&mut self) -> bool {
        if self.reject_if_not_ours() {
            return false;
        }
        if !self.completion.is_ordered() {
            return true;
        }
        // A call without a token would complete the other action, whose drain may go on.
        let is_replaced = self.calls.is_named_by_record_only()
            && self.actions.tasks().is_replaced(self.calls.names(), self.schedule.event());
        if is_replaced {
            self.schedule.gone(self.now());
            confirmation::report_replaced(self.calls.key());
            return true;
        }
        // The wait for this try, or for the pacer, may have been longer than AWS's answer is good
        // for.
        if !self.may_complete(self.now()) {
            self.completion.try_again_at(self.now());
            return true;
        }
        let with = self.completion.send_result(self.now());
        let result = self.calls.complete(&mut self.schedule, with).await;
        let now = self.now();
        self.completion.tried(result, now, &self.actions.shared.random);
        true
    }
}
