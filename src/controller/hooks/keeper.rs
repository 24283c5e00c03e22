//! The task that keeps one action open.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::{BoxFuture, pending};
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, info, warn};

use super::{Completion, Hooks, Order, Pacer, Past, Proof, Source, Undescribed, unseen};
use crate::{
    aws::{Advice, AwsError, HookResult, LookupError},
    controller::context::Shared,
    domain::{HookKey, InstanceState, LifecycleAction, Moment, seconds},
    fleet::Input,
    lifecycle::{Confirmation, End, FORBIDDEN_RETRY, HeartbeatSchedule, HookFacts, Next, Seen},
    observe::{CompletionResult, HeartbeatResult},
    runtime::Backoff,
};

/// How long an action that is over is remembered.
const IDLE: Duration = Duration::from_hours(2);
/// How long a new term may take to say that it owes what was beaten on: records are known at once,
/// messages come back within minutes.
const CLAIM: Duration = seconds(300);

/// Keeps one action open.
pub(super) struct Keeper {
    shared: Shared,
    inputs: mpsc::UnboundedSender<Input>,
    /// As it is called: with its token where a message brought it, unless AWS does not take that.
    action: LifecycleAction,
    source: Source,
    /// What AWS said of the instance of an action that only a record names.
    confirmation: Confirmation,
    /// When AWS is to be asked that.
    confirm_at: Option<Moment>,
    /// AWS did not take the token.
    is_token_refused: bool,
    /// All names under which it is owed.
    names: Vec<LifecycleAction>,
    schedule: HeartbeatSchedule,
    past: Arc<Mutex<Past>>,
    pacer: Pacer,
    undescribed: Undescribed,
    waiting: Vec<oneshot::Sender<Completion>>,
    proofs: Vec<oneshot::Sender<Proof>>,
    orders: mpsc::UnboundedReceiver<Order>,
    told: Option<HookFacts>,
    counted_missed: u64,
    /// Its lines in the log name the node.
    is_named: bool,
    complete_at: Option<Moment>,
    /// Since when it is owed.
    since: Moment,
    /// Nobody leads: it is beaten, and no more.
    is_without_leader: bool,
    /// A new term has not said yet that it owes it: until then it is beaten.
    unclaimed_until: Option<Moment>,
}

impl Keeper {
    pub(super) fn new(
        hooks: &Hooks,
        action: LifecycleAction,
        source: Source,
        schedule: HeartbeatSchedule,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> Self {
        let token = action.token.clone().filter(|_| source == Source::Message);
        Self {
            shared: hooks.shared.clone(),
            inputs: hooks.inputs.clone(),
            names: vec![action.clone()],
            action: LifecycleAction { token, ..action },
            source,
            confirmation: Confirmation::default(),
            confirm_at: None,
            is_token_refused: false,
            schedule,
            past: Arc::clone(&hooks.past),
            pacer: hooks.pacer.clone(),
            undescribed: hooks.undescribed.clone(),
            waiting: Vec::new(),
            proofs: Vec::new(),
            orders,
            told: None,
            counted_missed: 0,
            is_named: false,
            complete_at: None,
            since: hooks.shared.clock.now(),
            is_without_leader: false,
            unclaimed_until: None,
        }
    }

    /// By reference: a future that is given a value keeps room for it twice.
    pub(super) async fn keep(&mut self) {
        let mut describe_at = Some(self.shared.clock.now());
        let mut backoff = Backoff::up_to(seconds(20));
        let far = Moment::MAX;
        // Goes on whatever else happens: an answer that is slow must not be asked for anew again
        // and again.
        let mut asking: Option<BoxFuture<'static, (Moment, Seen)>> = None;
        loop {
            self.name_node();
            self.tell();
            if self.schedule.end().is_some() && self.answer_over() {
                return;
            }
            // Who does not wait any more needs no proof.
            self.proofs.retain(|proof| !proof.is_closed());
            let clock = self.shared.clock;
            let now = clock.now();
            let until = self.kept_alive_until();
            if until <= now {
                return;
            }
            let (completing, confirming) = self.completing(now);
            let (completion_turn, completing_pacer) =
                (self.schedule.completion_turn(now), self.pacer.clone());
            if asking.is_none() && confirming.is_some_and(|at| at <= now) {
                asking = Some(Box::pin(unseen::ask(self.shared.clone(), self.action.key.clone())));
            }
            let confirming = confirming.filter(|_| asking.is_none()).unwrap_or(far);
            let due = if self.proofs.is_empty() {
                self.schedule.due()
            } else {
                self.schedule.due_to_prove()
            };
            let (due, turn, pacer) = (due.unwrap_or(far), self.schedule.turn(), self.pacer.clone());
            let lapse = self.schedule.lapses_at().filter(|at| *at > now).unwrap_or(far);
            // An action that is over is kept for a while for whoever still wants to complete it,
            // then forgotten.
            let idle = if self.schedule.end().is_some() { now.plus(IDLE) } else { far };
            let describing = describe_at.filter(|_| self.schedule.end().is_none());
            let lookups = self.shared.lookups.clone();
            let (group, hook) = (self.action.key.group.clone(), self.action.key.hook.clone());
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(order) => if !self.obey(order, now) { return },
                    None => return,
                },
                () = async {
                    clock.sleep_until(completing.unwrap_or(far)).await; completing_pacer.turn(completion_turn).await;
                } => {
                    self.complete_at = match Box::pin(self.complete()).await {
                        Try::Over => None,
                        Try::Forbidden => Some(clock.now().plus(FORBIDDEN_RETRY)),
                        Try::Failed => Some(clock.now() + backoff.pause(&self.shared.random)),
                    };
                }
                () = clock.sleep_until(confirming) => {}
                (asked, seen) = async {
                    match asking.as_mut() { Some(asking) => asking.await, None => pending().await }
                } => {
                    asking = None;
                    self.confirmed(seen, asked);
                }
                () = async {
                    clock.sleep_until(due).await; pacer.turn(turn).await;
                } => Box::pin(self.heartbeat()).await,
                () = clock.sleep_until(lapse.min(until)) => {}
                () = clock.sleep_until(idle) => {
                    self.note_past();
                    return;
                }
                described = async {
                    clock.sleep_until(describing.unwrap_or(far)).await;
                    Box::pin(lookups.hooks.get(&group, &hook)).await
                } => {
                    let answer = described.inspect_err(|error| self.say_undescribed(error));
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

    fn say_undescribed(&self, error: &LookupError) {
        let HookKey { group, hook, .. } = &self.action.key;
        if self.undescribed.failed(&self.action.key) {
            warn!(
                group = %group, hook = %hook, %error,
                "Cannot describe the lifecycle hook: it is asked on, and its actions are beaten \
                 as if its timeout were 30 s."
            );
        } else {
            debug!(
                group = %group, hook = %hook, %error,
                "The lifecycle hook cannot be described still."
            );
        }
    }

    /// Has the lines of this action name its node, as soon as the index knows it: beats may begin
    /// before.
    fn name_node(&mut self) {
        if !self.is_named
            && let Some(node) = self.shared.nodes.by_instance(&self.action.key.instance).first()
        {
            self.is_named = true;
            tracing::Span::current().record("node", node.name.as_str());
        }
    }

    /// Says whether the task goes on.
    fn obey(&mut self, order: Order, now: Moment) -> bool {
        match order {
            Order::Complete(reply) => {
                self.waiting.push(reply);
                self.complete_at.get_or_insert(now);
            }
            Order::Prove(reply) => {
                self.proofs.push(reply);
                self.schedule.hasten(now);
            }
            Order::Strand => {
                // Whoever waited has ended with the term.
                self.waiting.clear();
                self.proofs.clear();
                (self.complete_at, self.is_without_leader, self.unclaimed_until) =
                    (None, true, None);
                (self.confirmation, self.confirm_at) = (Confirmation::default(), None);
            }
            Order::Resume(inputs) => {
                (self.inputs, self.told, self.is_without_leader) = (inputs, None, false);
                self.unclaimed_until = Some(now.plus(CLAIM));
            }
            Order::Named(name, source) => {
                self.unclaimed_until = None;
                if source == Source::Message {
                    self.source = source;
                    if self.action.token.is_none() && !self.is_token_refused {
                        self.action.token.clone_from(&name.token);
                    }
                }
                if !self.names.contains(&name) {
                    self.names.push(*name);
                }
                // Whoever names the action may be another drain of the node, which knows no facts
                // of the hook yet.
                self.told = None;
            }
            Order::Forget => return false,
        }
        true
    }

    /// When the completion may go out, and when AWS is to be asked before that, as far as either is
    /// wanted.
    fn completing(&self, now: Moment) -> (Option<Moment>, Option<Moment>) {
        let wanted = self.complete_at.filter(|_| self.schedule.end().is_none());
        if self.source == Source::Message || self.confirmation.is_good(now) {
            return (wanted, None);
        }
        (None, wanted.map(|at| self.confirm_at.map_or(at, |confirm| confirm.max(at))))
    }

    /// AWS was asked at `asked` whether the instance of an action that only a record names waits.
    fn confirmed(&mut self, seen: Seen, asked: Moment) {
        let now = self.shared.clock.now();
        if self.source == Source::Message {
            return;
        }
        let next = self.confirmation.heard(seen, asked, now, self.schedule.ends_by());
        self.confirm_at = match next {
            Next::Ask(at) | Next::Prove(at) | Next::Doubt(at) => Some(at),
            Next::Complete | Next::CompleteUnseen | Next::Over => None,
        };
        match next {
            Next::Complete | Next::Ask(_) => {}
            Next::CompleteUnseen => unseen::warn_unseen(&self.shared, &self.action.key),
            Next::Prove(_) => self.schedule.hasten(now),
            Next::Doubt(_) => unseen::report_doubt(&self.action.key),
            Next::Over => {
                self.schedule.gone(now);
                unseen::report_over(&self.action.key);
            }
        }
    }

    /// While nobody leads, or has said that it is owed, it is not beaten for ever: its drain would
    /// be over by then.
    fn kept_alive_until(&self) -> Moment {
        if !self.is_without_leader {
            return self.unclaimed_until.unwrap_or(Moment::MAX);
        }
        let described = self.schedule.facts(self.since).description;
        let hour = Duration::from_hours(1);
        let patience = self
            .shared
            .config
            .drain
            .timeout
            .unwrap_or_else(|| described.map_or(hour, |d| d.heartbeat_timeout.max(hour)));
        self.since.plus(patience)
    }

    fn note_past(&self) {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        self.names.iter().for_each(|name| past.note(name));
        self.shared.granted.forget(&self.names);
    }

    /// The action is over: whoever waits is told. Says whether the task may end.
    fn answer_over(&mut self) -> bool {
        let completion = match self.schedule.end() {
            Some(End::Completed) => Completion::Accepted,
            Some(End::Gone) => Completion::Gone,
            None => return false,
        };
        if completion == Completion::Accepted || !self.waiting.is_empty() {
            self.note_past();
        }
        let answered = !self.waiting.is_empty();
        for waiting in self.waiting.drain(..) {
            if completion == Completion::Gone {
                self.shared.metrics.completion(CompletionResult::Gone);
            }
            waiting.send(completion).ok();
        }
        for proof in self.proofs.drain(..) {
            proof.send(Proof::Gone).ok();
        }
        answered || completion == Completion::Accepted
    }

    fn tell(&mut self) {
        let now = self.shared.clock.now();
        let missed = self.schedule.counts().missed;
        for _ in self.counted_missed..missed {
            self.shared.metrics.heartbeat_missed();
        }
        self.counted_missed = missed;
        let facts = self.schedule.facts(now);
        if self.told.as_ref() != Some(&facts) {
            for name in &self.names {
                self.inputs.send(Input::Hook(name.clone(), facts.clone())).ok();
            }
            self.told = Some(facts);
        }
    }

    async fn heartbeat(&mut self) {
        let shared = self.shared.clone();
        if !shared.lead.may_send_heartbeats() {
            tokio::time::sleep(Duration::from_millis(200)).await;
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
                    // A completion that was denied is tried again like that of any other action
                    // from now on.
                    self.complete_at = self.complete_at.map(|at| at.min(now));
                }
                self.schedule.accepted(now);
                if let Some(sent) = self.schedule.last_accepted() {
                    shared.granted.note(&self.names, sent);
                }
                shared.metrics.heartbeat(HeartbeatResult::Accepted);
                debug!(instance = %key.instance, hook = %key.hook, "Heartbeat accepted.");
                Some(Proof::Open)
            }
            Ok(Err(error))
                if error.advice() == Advice::Gone || self.is_over_after(&error).await =>
            {
                self.schedule.gone(shared.clock.now());
                shared.metrics.heartbeat(HeartbeatResult::Over);
                info!(
                    instance = %key.instance, hook = %key.hook, %error,
                    "The lifecycle action is over; no more heartbeats."
                );
                Some(Proof::Gone)
            }
            Ok(Err(error)) => {
                let denied = error.advice() == Advice::Denied;
                if self.is_forbidden_for_good(&error, now) {
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
                warn!(
                    instance = %key.instance, hook = %key.hook, %error,
                    tries = self.schedule.failures_in_a_row(),
                    "A heartbeat failed and is tried again."
                );
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

    /// Auto Scaling does not take the request, which says nothing of the action: is its hook, its
    /// group or its instance gone? The token is left out from now on where it is that which is not
    /// taken.
    async fn is_over_after(&mut self, error: &AwsError) -> bool {
        if !error.is_invalid() {
            return false;
        }
        let key = self.action.key.clone();
        if error.is_about_the_token() && self.action.token.take().is_some() {
            self.is_token_refused = true;
            warn!(
                instance = %key.instance, hook = %key.hook, %error,
                "Auto Scaling does not take the action's token; it is called by its instance \
                 alone.");
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

    /// Only a record names the action, and AWS has accepted no heartbeat for it: somebody may have
    /// made it up.
    fn is_unproved(&self) -> bool {
        self.source == Source::Record && self.schedule.counts().accepted == 0
    }

    /// A policy forbids the calls of an action that only a record names, and AWS has ended the
    /// action by now if it ever was.
    fn is_forbidden_for_good(&self, error: &AwsError, now: Moment) -> bool {
        self.source == Source::Record && error.is_forbidden() && now >= self.schedule.ends_by()
    }

    /// One try to complete.
    async fn complete(&mut self) -> Try {
        if self.schedule.end().is_some() {
            return Try::Over;
        }
        let shared = self.shared.clone();
        let Some(permit) = shared.lead.permit() else { return Try::Failed };
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
            Err(error) if error.advice() == Advice::Gone || self.is_over_after(&error).await => {
                self.schedule.gone(shared.clock.now());
                info!(
                    instance = %key.instance, group = %key.group, hook = %key.hook, %error,
                    "The lifecycle action is over already."
                );
                Try::Over
            }
            Err(error) => {
                shared.metrics.completion(if error.advice() == Advice::Denied {
                    CompletionResult::Denied
                } else {
                    CompletionResult::Failed
                });
                warn!(
                    instance = %key.instance, group = %key.group, hook = %key.hook, %error,
                    "Cannot complete the lifecycle action; trying again, heartbeats go on."
                );
                let now = shared.clock.now();
                if self.is_forbidden_for_good(&error, now) {
                    self.schedule.gone(now);
                    return Try::Over;
                }
                if self.is_unproved() && error.is_forbidden() {
                    Try::Forbidden
                } else {
                    Try::Failed
                }
            }
        }
    }
}

/// What became of a try to complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Try {
    /// The action is completed, or was over before.
    Over,
    /// To be tried again soon.
    Failed,
    /// A policy forbids it for an action that only a record names.
    Forbidden,
}
