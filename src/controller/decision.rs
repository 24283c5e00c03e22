//! The course of one interruption from its message to a decision: asks what the triage wants to
//! know, and does what it says.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    accept::{self, Accepted},
    claims,
    context::Term,
    hook_claims,
    hooks::Source,
    questions::{Answer, Questions},
    returns::{self, Back},
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

/// What becomes of the message. Of several interruptions in one message the last in this order
/// counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Disposition {
    /// Nobody needs it any more.
    Delete,
    /// Another reader of the queue may want it: it is to reappear soon.
    GiveBack,
    /// It is to reappear when its visibility timeout is over.
    Leave,
}

/// One interruption on its way to a decision.
pub(super) struct Decision {
    term: Term,
    interruption: Interruption,
    known: Knowledge,
    /// When its message was sent, on AWS's clock, as are all times in the interruption.
    sent: Option<Moment>,
    undecided: Option<Undecided>,
    kept_alive: Option<LifecycleAction>,
    /// Its message was given up to make room for others: it reappears by itself, and is decided
    /// then.
    given_up: CancellationToken,
    /// A test event: it is told what would be done, and nothing is.
    test: bool,
}

/// A test is decided so soon after it came, or told to be undecided.
const TEST: Duration = seconds(60);

/// Holds the evictions of a burst back while it lives.
struct Undecided(Term);

impl Undecided {
    fn new(term: &Term) -> Self {
        term.send(Input::Arrived);
        Self(term.clone())
    }
}

impl Drop for Undecided {
    fn drop(&mut self) {
        self.0.send(Input::Settled);
    }
}

impl Decision {
    pub(super) fn new(
        term: Term,
        interruption: Interruption,
        received: Moment,
        happened: Moment,
        sent: Option<Moment>,
        given_up: CancellationToken,
        test: bool,
    ) -> Self {
        let undecided = (!test).then(|| Undecided::new(&term));
        Self {
            known: Knowledge::new(received, happened),
            term,
            interruption,
            sent,
            undecided,
            kept_alive: None,
            given_up,
            test,
        }
    }

    /// Nothing is written for it.
    fn is_dry(&self) -> bool {
        self.test || self.term.config.dry_run
    }

    /// Comes to a decision, however long that takes.
    pub(super) async fn decide(mut self) -> Disposition {
        let mut questions = Questions::default();
        let mut arrivals = self.term.arrivals.subscribe();
        let (mut accepting, mut tries) = (Backoff::up_to(seconds(10)), accept::Tries::default());
        loop {
            arrivals.mark_unchanged();
            if self.given_up.is_cancelled() {
                self.term.metrics.message(Some(self.interruption.kind()), MessageOutcome::Left);
                return Disposition::Leave;
            }
            self.look();
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
                    self.term.hooks.vouch(&action);
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
                    return self.only_say(&verdict);
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
                    // Accepted, or failed once: either way the others of the burst need not wait
                    // for it any longer.
                    self.undecided = None;
                    if let Some(accepted) = result {
                        self.warn_of_guess(Some(&accept.node));
                        return self.accepted(accepted);
                    }
                    // What was seen may be gone by now: it is looked for anew.
                    self.known.listed = None;
                    let until = self
                        .term
                        .clock
                        .now()
                        .plus(accepting.pause(&self.term.random).max(tries.pause()));
                    self.learn_until(until, &mut questions).await;
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
                self.say_that_it_waits(wait.until);
                // It waits for time or for a Node, which is no reason to hold back the evictions of
                // others.
                self.undecided = None;
            }
            // The index's health changes without a word: look again now and then.
            let until = wait
                .until
                .unwrap_or(Moment::MAX)
                .min(now.plus(seconds(2)))
                .max(now.plus(Duration::from_millis(20)));
            tokio::select! {
                biased;
                learnt = questions.answer() => self.learn(learnt),
                _ = arrivals.changed() => {}
                () = self.given_up.cancelled() => {}
                () = self.term.clock.sleep_until(until) => {}
            }
        }
    }

    /// Takes in what is answered until then: the PATCH may fail until only a proof lets it be sent.
    async fn learn_until(&mut self, until: Moment, questions: &mut Questions) {
        let clock = self.term.clock;
        loop {
            tokio::select! {
                biased;
                learnt = questions.answer() => self.learn(learnt),
                () = clock.sleep_until(until) => return,
            }
        }
    }

    /// What the index says now, and what was heard before of the hooks of its group.
    fn look(&mut self) {
        let nodes = &self.term.nodes;
        self.known.index_trusted = nodes.state().is_sound();
        self.known.nodes = nodes.by_instance(&self.interruption.instance);
        if self.known.nodes.is_empty()
            && let Some(facts) = self.known.instance.as_ref().and_then(|i| i.facts.as_ref())
        {
            self.known.nodes = nodes
                .without_instance()
                .into_iter()
                .filter(|n| Knowledge::is_called(n, facts))
                .collect();
        }
        if !matches!(self.known.hooks, Some(HooksAnswer::Described(_)))
            && let Some(action) = self.interruption.hook()
        {
            self.known.hooks_before =
                self.term.lookups.hooks.before(&action.group).map(HooksAnswer::Described);
        }
    }

    /// The record of its Node tells this very event: a copy. Whatever was to be proved, beaten and
    /// completed for it is the business of whoever has the record, and after its release there is
    /// nothing left to beat.
    fn is_on_record(&self) -> bool {
        // Of several Nodes that claim the instance, each that is drained has a record of its own.
        !self.known.nodes.is_empty()
            && self.known.nodes.iter().all(|node| record::recognise(node, &self.interruption))
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
            self.term.hooks.own(&action, self.known.happened, Origin::Received, Source::Message);
            self.kept_alive = Some(action);
        }
    }

    fn learn(&mut self, learnt: Answer) {
        match learnt {
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
                            .is_some_and(|f| Knowledge::is_called(n, f))
                };
                self.known.listed = Some((at, nodes.into_iter().filter(ours).collect()));
            }
            Answer::Failed => {}
        }
    }

    fn dispose(&mut self, reason: Reason, disposition: Disposition) -> Disposition {
        if self.test {
            return self.tell_test(
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
            // It was only asked whether it still waits.
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
                "Not acted on: it was read after its own time, and is not so (any more)."
            );
        } else {
            debug!(instance = %instance, kind, reason, "Not acted on.");
        }
        if let (Some(node), Some(all)) = (self.known.nodes.first(), &self.known.namesakes)
            && all.len() > 1
            && self.term.first_said(&format!("{instance} is called {}", node.name))
        {
            warn!(
                instance = %instance, kind, reason, node = %node.name, namesakes = all.len(),
                "Not acted on: a node without providerID has this instance's private DNS name, \
                 and so have other instances. Let the kubelet set the providerID, or tag our \
                 instances kubernetes.io/cluster/<--cluster-name>."
            );
        }
        self.say_once(
            reason,
            if disposition == Disposition::Delete {
                "delete it and do nothing"
            } else {
                "leave it to others and do nothing"
            },
        );
        self.record_trial(Would::Nothing, reason, None).unwrap_or(disposition)
    }

    /// What becomes of the message in a trial, where it is written down; `None`: this is none.
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

    /// An instance without a Node is waited for: who looks for it should find that in the log.
    fn say_that_it_waits(&self, until: Option<Moment>) {
        let (instance, kind) = (&self.interruption.instance, self.interruption.kind().as_str());
        if let Some(until) = until
            && self.known.nodes.is_empty()
            && self
                .term
                .first_said(&format!("{instance} {kind} {} waits", self.interruption.event_id))
        {
            let kept_alive = self.kept_alive.is_some();
            info!(
                instance = %instance, kind, until = %format_args!("{until:.0}"), kept_alive,
                "The instance has no Node: its message is kept for now."
            );
        }
    }

    /// A dry run: what would be done with an interruption that is not acted on.
    fn say_once(&self, reason: &str, what: &str) {
        let (instance, kind) = (&self.interruption.instance, self.interruption.kind().as_str());
        if self.term.config.dry_run
            && self.term.first_said(&format!("{instance} {kind} {}", self.interruption.event_id))
        {
            info!(instance = %instance, kind, reason, "Dry run: would {what}.");
        }
    }

    /// A dry run: what would be done is said once for each event. The message reappears by itself.
    fn only_say(&mut self, verdict: &Verdict) -> Disposition {
        if self.test {
            return self.tell_test(
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
            .first_said(&format!("{} {kind} {}", interruption.instance, interruption.event_id))
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

    /// A test: what would be done is told in the log, and on the Node for whoever cannot see that.
    fn tell_test(&self, what: &str, disposition: Disposition) -> Disposition {
        let (instance, kind) = (&self.interruption.instance, self.interruption.kind());
        self.term.metrics.message(Some(kind), MessageOutcome::Test);
        let lag = self.known.received.since_or_zero(self.known.happened);
        info!(
            instance = %instance, kind = kind.as_str(), event = %self.interruption.event_id, ?lag,
            "Test event: were it real, {what}."
        );
        if let Some(node) = self.known.nodes.first() {
            self.term.note(EventNote {
                about: About::Node(node.name.clone()),
                severity: Severity::Normal,
                reason: EventReason::TestReceived,
                message: format!(
                    "test event {} of kind {} of {instance}: were it real, {what}",
                    self.interruption.event_id,
                    kind.as_str()
                ),
            });
        }
        disposition
    }

    fn undecided_test(&self) -> Disposition {
        self.tell_test(
            "it would wait for what could not be learnt in a minute: is the instance one of this \
             cluster?",
            Disposition::Delete,
        )
    }

    async fn complete(&mut self, action: LifecycleAction, outcome: MessageOutcome) -> Disposition {
        self.undecided = None;
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
                    instance = %action.key.instance, group = %action.key.group, hook = %action.key.hook,
                    "The instance has no Node; its hook is completed."
                );
            }
        }
        if self.term.hooks.complete(&action, self.known.happened, Source::Message).await.is_none() {
            return Disposition::Leave;
        }
        self.term.metrics.message(Some(kind), outcome);
        Disposition::Delete
    }

    /// An instance that is back in service: what its record left on the Node is put back. `None`:
    /// its message is decided like any other.
    async fn returned(&mut self) -> Option<Disposition> {
        while !self.given_up.is_cancelled() {
            self.look();
            let of_instance = |n: &&Arc<Node>| {
                n.instance.as_ref() == Some(&self.interruption.instance) && self.term.manages(n)
            };
            let node = self.known.nodes.iter().find(of_instance).cloned()?;
            self.undecided = None;
            let (outcome, disposition) =
                match returns::put_back(&self.term, &node, &self.interruption).await {
                    Back::No => return None,
                    Back::Again => continue,
                    // A launch action still waits for its answer.
                    Back::Restored if self.interruption.hook().is_some() => return None,
                    Back::Restored => (MessageOutcome::Restored, Disposition::Delete),
                    Back::Untold => (MessageOutcome::Left, Disposition::Leave),
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
                // What was beaten for this event alone, and no open record owes, is beaten no
                // longer.
                if let Some(action) = self.kept_alive.take_if(|_| !open) {
                    self.term.hooks.forget(&action);
                }
                self.say_once("repeat", "delete it: the node's record holds it already");
                if let Some(disposition) = self.record_trial(Would::Nothing, "repeat", None) {
                    self.term
                        .metrics
                        .message(Some(self.interruption.kind()), MessageOutcome::Repeat);
                    return disposition;
                }
                MessageOutcome::Repeat
            }
            Accepted::Full => {
                if self.term.first_said(&format!("{} full", self.interruption.event_id)) {
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
