//! Decides about one interruption: asks the questions of the triage, and carries out its verdict.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    accept::{self, Accepted},
    claims,
    context::Term,
    hook_claims,
    hooks::{Completion, NamedBy},
    questions::{Answer, Questions},
    returns::{self, ReturnOutcome},
    trial::{TrialEntry, Would},
};
use crate::{
    cluster::{About, EventNote, EventReason, Severity},
    domain::{Interruption, LifecycleAction, Moment, Node, seconds},
    fleet::{Input, Origin},
    observe::MessageOutcome,
    record,
    runtime::Backoff,
    triage::{HooksAnswer, Knowledge, Reason, Verdict, triage},
};

/// What happens to the message. If it holds several interruptions, the last of their dispositions
/// in this order counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Disposition {
    /// Delete it: nobody needs it.
    Delete,
    /// Make it visible again soon: another reader of the queue may want it.
    GiveBack,
    /// Let it reappear when its visibility timeout is over.
    Leave,
}

/// An interruption and what is known about it so far. See [`Decision::decide`].
pub(super) struct Decision {
    term: Arc<Term>,
    interruption: Interruption,
    known: Knowledge,
    /// When its message was sent, on AWS's clock, as are all times in the interruption.
    sent: Option<Moment>,
    burst_hold: Option<BurstHold>,
    /// The lifecycle action that is kept alive for this interruption.
    kept_alive: Option<LifecycleAction>,
    /// Canceled when its message is given up to make room for others. The message reappears by
    /// itself, and is decided then.
    given_up: CancellationToken,
    /// A test event: Sundown reports what it would do, and does nothing.
    test: bool,
}

/// After this time a test event is reported as undecided.
const TEST: Duration = seconds(60);

/// While an interruption has one of these, the fleet holds the evictions of a burst back.
struct BurstHold(Arc<Term>);

impl BurstHold {
    fn new(term: &Arc<Term>) -> Self {
        term.send(Input::Arrived);
        Self(Arc::clone(term))
    }
}

impl Drop for BurstHold {
    fn drop(&mut self) {
        self.0.send(Input::Settled);
    }
}

impl Decision {
    pub(super) fn new(
        term: Arc<Term>,
        interruption: Interruption,
        received: Moment,
        happened: Moment,
        sent: Option<Moment>,
        given_up: CancellationToken,
        test: bool,
    ) -> Self {
        let burst_hold = (!test).then(|| BurstHold::new(&term));
        Self {
            known: Knowledge::new(received, happened),
            term,
            interruption,
            sent,
            burst_hold,
            kept_alive: None,
            given_up,
            test,
        }
    }

    /// Whether nothing may be written because of this interruption.
    fn is_dry(&self) -> bool {
        self.test || self.term.config.dry_run
    }

    /// Decides, however long that takes, and carries the decision out. By reference: a future that
    /// takes a value reserves memory for it twice.
    pub(super) async fn decide(&mut self) -> Disposition {
        let mut questions = Questions::default();
        let mut arrivals = self.term.arrivals.subscribe();
        let (mut accepting, mut tries) = (Backoff::up_to(seconds(10)), accept::Tries::default());
        loop {
            arrivals.mark_unchanged();
            if self.given_up.is_cancelled() {
                self.term.metrics.message(Some(self.interruption.kind()), MessageOutcome::Left);
                return Disposition::Leave;
            }
            self.read_index();
            if !self.test && !tries.is_lost() && self.is_on_record() {
                let open = self
                    .known
                    .nodes
                    .iter()
                    .any(|node| accept::is_open(node, &self.interruption.instance));
                if let Some(action) = self
                    .interruption
                    .lifecycle_action(&self.interruption.instance)
                    .filter(|_| open && !self.is_dry())
                {
                    self.term.hooks.learn_token(&action);
                }
                return self.accepted(Accepted::Repeat { open });
            }
            if self.interruption.goes_into_service()
                && !self.is_dry()
                && let Some(disposition) = Box::pin(self.returned()).await
            {
                return disposition;
            }
            self.keep_alive_if_ours();
            let now = self.term.clock.now();
            let wait = match triage(&self.interruption, &self.known, &self.term.policy, now) {
                Verdict::Delete(reason) => return self.dispose(reason, Disposition::Delete),
                Verdict::Leave(reason) => return self.dispose(reason, Disposition::GiveBack),
                verdict
                @ (Verdict::Complete(_) | Verdict::AnswerLaunch(_) | Verdict::Accept(_))
                    if self.is_dry() =>
                {
                    return self.dry_run(&verdict);
                }
                Verdict::Complete(action) => {
                    return Box::pin(self.complete(action, MessageOutcome::Completed)).await;
                }
                Verdict::AnswerLaunch(action) => {
                    return Box::pin(self.complete(action, MessageOutcome::LaunchAnswered)).await;
                }
                Verdict::Accept(accept) => {
                    let (happened, sent) = (self.known.happened, self.sent);
                    let writing = claims::accept(
                        &self.term,
                        &self.interruption,
                        &accept,
                        happened,
                        sent,
                        &mut tries,
                    );
                    let result = Box::pin(writing).await;
                    // Accepted, or failed once: in both cases the rest of the burst no longer waits
                    // for this interruption.
                    self.burst_hold = None;
                    if let Some(accepted) = result {
                        self.warn_of_guess(Some(&accept.node));
                        return self.accepted(accepted);
                    }
                    // The listed Nodes may be gone by now, so they are listed again.
                    self.known.listed = None;
                    let until = self
                        .term
                        .clock
                        .now()
                        .plus(accepting.pause(&self.term.random).max(tries.pause()));
                    Box::pin(self.learn_until(until, &mut questions)).await;
                    continue;
                }
                Verdict::Wait(_) if self.test && now >= self.known.received.plus(TEST) => {
                    return self.undecided_test();
                }
                Verdict::Wait(wait) => wait,
            };
            self.known.note(&wait, now);
            for question in wait.ask {
                questions.ask(
                    &self.term,
                    &self.interruption,
                    self.known.happened,
                    question,
                    self.is_dry(),
                );
            }
            if questions.is_empty() {
                self.log_waiting(wait.until);
                // It waits for a time or for a Node. That is no reason to hold the evictions of
                // other nodes back.
                self.burst_hold = None;
            }
            // No signal comes when the health of the index changes: look again every 2 s.
            let until = wait
                .until
                .unwrap_or(Moment::MAX)
                .min(now.plus(seconds(2)))
                .max(now.plus(Duration::from_millis(20)));
            // Boxed, as what is awaited above: thousands of decisions may wait for their accept, and
            // do not reserve the memory of this wait.
            Box::pin(self.news(until, &mut questions, &mut arrivals)).await;
        }
    }

    /// Waits until that time, or until something happens that can change the decision.
    async fn news(
        &mut self,
        until: Moment,
        questions: &mut Questions,
        arrivals: &mut watch::Receiver<u64>,
    ) {
        tokio::select! {
            biased;
            learned = questions.answer() => self.learn(learned),
            _ = arrivals.changed() => {}
            () = self.given_up.cancelled() => {}
            () = self.term.clock.sleep_until(until) => {}
        }
    }

    /// Waits until that time and takes in the answers that arrive. While the PATCH keeps failing,
    /// the interruption may become stale, and then needs one of these answers as a proof.
    async fn learn_until(&mut self, until: Moment, questions: &mut Questions) {
        let clock = self.term.clock;
        loop {
            tokio::select! {
                biased;
                learned = questions.answer() => self.learn(learned),
                () = clock.sleep_until(until) => return,
            }
        }
    }

    /// Reads the Nodes of the instance from the index, and the last known hooks of its group.
    fn read_index(&mut self) {
        let nodes = &self.term.nodes;
        self.known.index_trusted = nodes.state().is_sound();
        self.known.nodes = nodes.by_instance(&self.interruption.instance);
        if self.known.nodes.is_empty()
            && let Some(facts) = self.known.instance.as_ref().and_then(|i| i.facts.as_ref())
        {
            self.known.nodes = nodes
                .without_instance()
                .into_iter()
                .filter(|n| Knowledge::is_named_after(n, facts))
                .collect();
        }
        if !matches!(self.known.hooks, Some(HooksAnswer::Described(_)))
            && let Some(action) = self.interruption.hook()
        {
            self.known.hooks_before =
                self.term.lookups.hooks.before(&action.group).map(HooksAnswer::Described);
        }
    }

    /// Whether the record of its Node holds this event already, so that the message is a copy. All
    /// proofs, heartbeats and completions for it are then up to the drain of that record; after the
    /// release there is nothing left to keep alive.
    fn is_on_record(&self) -> bool {
        // Of several Nodes that claim the instance, each that is drained has a record of its own.
        !self.known.nodes.is_empty()
            && self.known.nodes.iter().all(|node| record::recognize(node, &self.interruption))
    }

    fn keep_alive_if_ours(&mut self) {
        if self.kept_alive.is_none()
            && !self.is_dry()
            && crate::triage::heartbeats(&self.interruption, &self.known, &self.term.policy)
            && !crate::triage::heartbeats_wait(
                &self.interruption,
                &self.known,
                &self.term.policy,
                self.term.clock.now(),
            )
            && let Some(action) = self.interruption.lifecycle_action(&self.interruption.instance)
        {
            self.term.hooks.own(&action, self.known.happened, Origin::Received, NamedBy::Message);
            self.kept_alive = Some(action);
        }
    }

    fn learn(&mut self, learned: Answer) {
        match learned {
            Answer::Instance(answer) => self.known.instance = Some(answer),
            Answer::InstancesWithName(all) => self.known.namesakes = Some(all),
            Answer::Group(answer) => self.known.group = Some(answer),
            Answer::Hook(answer) => self.known.hook = Some(answer),
            Answer::Hooks(answer) => self.known.hooks = Some(answer),
            Answer::Heartbeat(answer) => self.known.heartbeat = Some(answer),
            Answer::Listed(at, nodes) => {
                let ours = |n: &Arc<Node>| {
                    n.instance.as_ref() == Some(&self.interruption.instance)
                        || self
                            .known
                            .instance
                            .as_ref()
                            .and_then(|i| i.facts.as_ref())
                            .is_some_and(|f| Knowledge::is_named_after(n, f))
                };
                self.known.listed = Some((at, nodes.into_iter().filter(ours).collect()));
            }
            Answer::Failed => {}
        }
    }

    fn dispose(&mut self, reason: Reason, disposition: Disposition) -> Disposition {
        if self.test {
            return self.report_test(
                &format!("it would not be acted on ({})", reason.as_str()),
                disposition,
            );
        }
        if let Some(action) = self.kept_alive.take() {
            self.term.hooks.forget(&action);
        }
        if let (Reason::Stale, Some(action)) =
            (reason, self.interruption.lifecycle_action(&self.interruption.instance))
        {
            // Its task only asked whether the action is still open.
            self.term.hooks.forget(&action);
        }
        let outcome = if disposition == Disposition::GiveBack {
            MessageOutcome::Left
        } else {
            outcome(reason)
        };
        self.term.metrics.message(Some(self.interruption.kind()), outcome);
        let (instance, kind, reason) =
            (&self.interruption.instance, self.interruption.kind().as_str(), reason.as_str());
        if reason == Reason::Stale.as_str() {
            info!(
                instance = %instance, kind,
                "Ignored a stale interruption: it was read late and no longer applies."
            );
        } else {
            debug!(instance = %instance, kind, reason, "Ignored an interruption.");
        }
        if let (Some(node), Some(all)) = (self.known.nodes.first(), &self.known.namesakes)
            && all.len() > 1
            && self.term.first_time(&format!("{instance} is called {}", node.name))
        {
            warn!(
                instance = %instance, kind, reason, node = %node.name, namesakes = all.len(),
                "Not acted on: a node without providerID has this instance's private DNS name, \
                 and so have other instances. Let the kubelet set the providerID, or tag our \
                 instances kubernetes.io/cluster/<--cluster-name>."
            );
        }
        self.log_dry_run(
            reason,
            if disposition == Disposition::Delete {
                "delete it and do nothing"
            } else {
                "leave it to others and do nothing"
            },
        );
        self.record_trial(Would::Nothing, reason, None).unwrap_or(disposition)
    }

    /// In a trial: records the event, and returns what happens to the message. `None`: this is not
    /// a trial.
    fn record_trial(&self, would: Would, why: &str, node: Option<&Node>) -> Option<Disposition> {
        if !self.term.is_trial() {
            return None;
        }
        let node = node.or_else(|| self.known.nodes.first().map(|n| &**n));
        let entry = TrialEntry {
            why: why.to_owned(),
            node: node.map(|n| n.name.to_string()).unwrap_or_default(),
            ..TrialEntry::of(
                &self.interruption,
                self.term.aws_now(),
                self.sent,
                self.term.skew().to_aws(self.known.received),
                would,
            )
        };
        Some(if self.term.record_trial(&entry) { Disposition::Delete } else { Disposition::Leave })
    }

    /// Logs once that an interruption waits because its instance has no Node.
    fn log_waiting(&self, until: Option<Moment>) {
        let (instance, kind) = (&self.interruption.instance, self.interruption.kind().as_str());
        if let Some(until) = until
            && self.known.nodes.is_empty()
            && self
                .term
                .first_time(&format!("{instance} {kind} {} waits", self.interruption.event_id))
        {
            let kept_alive = self.kept_alive.is_some();
            info!(
                instance = %instance, kind, until = %format_args!("{until:.0}"), kept_alive,
                "The instance has no Node: its message is kept for now."
            );
        }
    }

    /// In a dry run: logs once what would happen to the message of an ignored interruption.
    fn log_dry_run(&self, reason: &str, what: &str) {
        let (instance, kind) = (&self.interruption.instance, self.interruption.kind().as_str());
        if self.term.config.dry_run
            && self.term.first_time(&format!("{instance} {kind} {}", self.interruption.event_id))
        {
            info!(instance = %instance, kind, reason, "Dry run: would {what}.");
        }
    }

    /// In a dry run: logs once for each event what would be done. The message reappears by itself.
    /// For a test event: reports what would be done.
    fn dry_run(&mut self, verdict: &Verdict) -> Disposition {
        if self.test {
            return self.report_test(
                match verdict {
                    Verdict::Accept(_) => "the node would be cordoned and drained",
                    _ => "its lifecycle action would be completed with CONTINUE",
                },
                Disposition::Delete,
            );
        }
        let interruption = &self.interruption;
        let kind = interruption.kind().as_str();
        self.term.metrics.message(Some(interruption.kind()), MessageOutcome::DryRun);
        if self
            .term
            .first_time(&format!("{} {kind} {}", interruption.instance, interruption.event_id))
        {
            match verdict {
                Verdict::Accept(accept) => {
                    info!(
                        node = %accept.node.name, instance = %accept.instance, kind,
                        certainty = ?accept.certainty, "Dry run: would cordon and drain the node."
                    );
                }
                Verdict::Complete(action) | Verdict::AnswerLaunch(action) => {
                    info!(
                        instance = %action.key.instance, group = %action.key.group,
                        hook = %action.key.hook, kind,
                        "Dry run: would complete the lifecycle action with CONTINUE."
                    );
                }
                Verdict::Wait(_) | Verdict::Delete(_) | Verdict::Leave(_) => {}
            }
        }
        let (would, node) = match verdict {
            Verdict::Accept(accept) => (Would::Drain, Some(&*accept.node)),
            Verdict::AnswerLaunch(_) => (Would::AnswerLaunch, None),
            _ => (Would::Complete, None),
        };
        self.record_trial(would, "", node).unwrap_or(Disposition::Leave)
    }

    /// For a test event: reports what would be done in the log, and in an Event on the Node for
    /// people who cannot read the log.
    fn report_test(&self, what: &str, disposition: Disposition) -> Disposition {
        let (instance, kind) = (&self.interruption.instance, self.interruption.kind());
        self.term.metrics.message(Some(kind), MessageOutcome::Test);
        let lag = self.known.received.since_or_zero(self.known.happened);
        info!(
            instance = %instance, kind = kind.as_str(), event = %self.interruption.event_id, ?lag,
            "Test event: if it were real, {what}."
        );
        if let Some(node) = self.known.nodes.first() {
            self.term.note(EventNote {
                about: About::Node(node.name.clone()),
                severity: Severity::Normal,
                reason: EventReason::TestReceived,
                message: format!(
                    "test event {} of kind {} of {instance}: if it were real, {what}",
                    self.interruption.event_id,
                    kind.as_str()
                ),
            });
        }
        disposition
    }

    fn undecided_test(&self) -> Disposition {
        self.report_test(
            "it would still wait, because a minute was not enough to decide: is the instance one \
             of this cluster?",
            Disposition::Delete,
        )
    }

    async fn complete(&mut self, action: LifecycleAction, outcome: MessageOutcome) -> Disposition {
        self.burst_hold = None;
        let kind = self.interruption.kind();
        self.warn_of_guess(None);
        match outcome {
            MessageOutcome::LaunchAnswered => warn!(
                instance = %action.key.instance, group = %action.key.group, hook = %action.key.hook,
                "A launch hook of ours is answered CONTINUE at once: this version does not wait \
                 for new nodes to become ready."
            ),
            _ => {
                info!(
                    instance = %action.key.instance, group = %action.key.group,
                    hook = %action.key.hook,
                    "The instance has no Node; Sundown completes its lifecycle action."
                );
            }
        }
        let is_unconfirmed = !matches!(self.known.hooks, Some(HooksAnswer::Described(_)));
        let (hooks, happened) = (&self.term.hooks, self.known.happened);
        match hooks.complete(&action, happened, NamedBy::Message, is_unconfirmed).await {
            Some(Completion::Accepted | Completion::Gone) => {}
            // The message reappears, and is decided by what AWS has shown since.
            Some(Completion::NotOurs) | None => return Disposition::Leave,
        }
        self.term.metrics.message(Some(kind), outcome);
        Disposition::Delete
    }

    /// For an instance that is back in service: puts its Node back as it was before the drain.
    /// `None`: the message is decided like any other.
    async fn returned(&mut self) -> Option<Disposition> {
        while !self.given_up.is_cancelled() {
            self.read_index();
            let of_instance = |n: &&Arc<Node>| {
                n.instance.as_ref() == Some(&self.interruption.instance) && self.term.manages(n)
            };
            let node = self.known.nodes.iter().find(of_instance).cloned()?;
            self.burst_hold = None;
            let (outcome, disposition) =
                match returns::put_back(&self.term, &node, &self.interruption).await {
                    ReturnOutcome::NotPutBack => return None,
                    ReturnOutcome::Retry => continue,
                    // A launch action still waits for its answer.
                    ReturnOutcome::PutBack if self.interruption.hook().is_some() => return None,
                    ReturnOutcome::PutBack => (MessageOutcome::Restored, Disposition::Delete),
                    ReturnOutcome::Unknown => (MessageOutcome::Left, Disposition::Leave),
                };
            self.term.metrics.message(Some(self.interruption.kind()), outcome);
            return Some(disposition);
        }
        None
    }

    fn warn_of_guess(&self, node: Option<&Node>) {
        hook_claims::warn_of_guess(&self.term, &self.interruption, self.known.hooks.as_ref(), node);
    }

    fn accepted(&mut self, accepted: Accepted) -> Disposition {
        let outcome = match accepted {
            Accepted::New => MessageOutcome::Accepted,
            Accepted::Joined => MessageOutcome::Joined,
            Accepted::Repeat { open } => {
                // The action was kept alive for this event only, and no open record needs it.
                if let Some(action) = self.kept_alive.take_if(|_| !open) {
                    self.term.hooks.forget(&action);
                }
                self.log_dry_run("repeat", "delete it: the node's record holds it already");
                if let Some(disposition) = self.record_trial(Would::Nothing, "repeat", None) {
                    self.term
                        .metrics
                        .message(Some(self.interruption.kind()), MessageOutcome::Repeat);
                    return disposition;
                }
                MessageOutcome::Repeat
            }
            Accepted::Full => {
                if self.term.first_time(&format!("{} full", self.interruption.event_id)) {
                    let (instance, event) =
                        (&self.interruption.instance, &self.interruption.event_id);
                    warn!(
                        %instance, kind = self.interruption.kind().as_str(), %event,
                        "The record of a node has no room for another interruption; its message \
                         is kept. Heartbeats go on, and the hook is not completed before the \
                         node's drain has ended."
                    );
                }
                self.term.metrics.message(Some(self.interruption.kind()), MessageOutcome::Left);
                return Disposition::Leave;
            }
        };
        self.term.metrics.message(Some(self.interruption.kind()), outcome);
        Disposition::Delete
    }
}

const fn outcome(reason: Reason) -> MessageOutcome {
    match reason {
        Reason::Foreign => MessageOutcome::Foreign,
        Reason::ForeignHook => MessageOutcome::ForeignHook,
        Reason::NotManaged => MessageOutcome::NotManaged,
        Reason::Stale => MessageOutcome::Stale,
        Reason::Unknown | Reason::NoNode => MessageOutcome::Unknown,
        Reason::NotActedOnYet => MessageOutcome::NotActedOn,
        Reason::Irrelevant => MessageOutcome::Unrelated,
    }
}
