//! Decides about one interruption: asks the questions of the triage, and carries out its verdict.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    accept::{self, Accepted},
    claims,
    context::Term,
    decision_lines::DecisionLines,
    dry_report::DryReport,
    hook_claims,
    hooks::{Completion, NamedBy, OrderedResult},
    message_end::MessageEnd,
    planned::{self, NoteOutcome},
    questions::{Answer, Questions},
    returns::{self, ReturnOutcome},
    warm_pool::{self, CordonOutcome},
};
use crate::{
    domain::{Cause, Interruption, Kind, LifecycleAction, Moment, Node, is_ec2_event_id, seconds},
    fleet::{Input, Origin},
    observe::MessageOutcome,
    record::{self, Record, Returned},
    runtime::Backoff,
    triage::{
        self, HooksAnswer, Knowledge, LaunchAnswer, Reason, ReturnCheck, Verdict, Wait,
        sweep::Candidate, triage,
    },
};

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
    is_test: bool,
    /// The sweep found it, and AWS or the API server did not answer in time.
    is_unanswered: bool,
    /// A record with it was written.
    is_accepted: bool,
}

/// After this time a test event is reported as undecided.
pub(super) const TEST_TIMEOUT: Duration = seconds(60);

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
        is_test: bool,
    ) -> Self {
        let burst_hold = (!is_test).then(|| BurstHold::new(&term));
        Self {
            known: Knowledge::new(received, happened),
            term,
            interruption,
            sent,
            burst_hold,
            kept_alive: None,
            given_up,
            is_test,
            is_unanswered: false,
            is_accepted: false,
        }
    }

    /// For an interruption that the sweep found. It holds no evictions of other nodes back: no
    /// message came. `give_up`: cancels it unless AWS has proved it.
    pub(super) fn found_by_sweep(
        term: Arc<Term>,
        interruption: Interruption,
        candidate: &Candidate,
        give_up: CancellationToken,
    ) -> Self {
        let (now, first_seen) = (term.shared.clock.now(), candidate.first_seen);
        let new = Self::new(term, interruption, now, first_seen, None, give_up, false);
        let mut known = Knowledge { is_found_by_sweep: true, ..new.known };
        if matches!(new.interruption.cause, Cause::Launch(_)) {
            known.launch_answers().absent_at = candidate.absent_at;
        }
        Self { known, burst_hold: None, ..new }
    }

    /// For a state change that EC2 showed at `at`, and of which no event has arrived.
    pub(super) fn found_ending(
        term: Arc<Term>,
        interruption: Interruption,
        at: Moment,
        give_up: CancellationToken,
    ) -> Self {
        let new = Self::new(term, interruption, at, at, None, give_up, false);
        let known = Knowledge { is_found_by_sweep: true, ..new.known };
        Self { known, burst_hold: None, ..new }
    }

    /// For a scheduled event that EC2 shows. No message came, so it holds no evictions of other
    /// nodes back.
    pub(super) fn shown_by_ec2(
        term: Arc<Term>,
        interruption: Interruption,
        give_up: CancellationToken,
    ) -> Self {
        let now = term.shared.clock.now();
        Self { burst_hold: None, ..Self::new(term, interruption, now, now, None, give_up, false) }
    }

    /// For a sick instance that the sweep found. It holds no evictions of other nodes back. Cancel
    /// `give_up` when its time is over.
    pub(super) fn of_sick_instance(
        term: Arc<Term>,
        interruption: Interruption,
        give_up: CancellationToken,
    ) -> Self {
        let now = term.shared.clock.now();
        let new = Self::new(term, interruption, now, now, None, give_up, false);
        Self { burst_hold: None, ..new }
    }

    /// Whether a record with the interruption was written.
    pub(super) const fn is_accepted(&self) -> bool {
        self.is_accepted
    }

    /// The interruption is a sick instance: no message of it exists.
    const fn is_sick_instance(&self) -> bool {
        matches!(self.interruption.cause, Cause::Impaired(_))
    }

    /// What the sweep found and AWS has proved is not given up.
    fn is_proved_by_sweep(&self) -> bool {
        self.known.is_found_by_sweep && self.known.heartbeat.is_some_and(|answer| answer.accepted)
    }

    /// Whether the questions about what the sweep found were answered.
    pub(super) const fn is_answered(&self) -> bool {
        !self.is_unanswered
    }

    /// Ends a decision whose time is over. `None`: it is not.
    fn give_up(&mut self) -> Option<MessageEnd> {
        if !self.given_up.is_cancelled() || self.is_proved_by_sweep() {
            return None;
        }
        if self.known.is_found_by_sweep {
            self.is_unanswered = true;
            self.forget();
        }
        self.count(MessageOutcome::Left);
        Some(MessageEnd::LeftToReappear)
    }

    /// Its action was kept alive, or asked about, only until it was decided.
    fn forget(&mut self) {
        let asked = self.interruption.lifecycle_action(&self.interruption.instance);
        for action in self.kept_alive.take().into_iter().chain(asked) {
            self.term.actions.forget(&action);
        }
    }

    /// Counts how the interruption was decided.
    fn count(&self, outcome: MessageOutcome) {
        let metrics = &self.term.shared.metrics;
        let is_shown_by_ec2 = matches!(
            &self.interruption.cause,
            Cause::ScheduledChange(notice) if is_ec2_event_id(&notice.event_arn)
        );
        if is_shown_by_ec2 {
            metrics.scheduled_event(outcome);
        } else if self.is_sick_instance() {
            // The sweep counts what follows.
        } else if self.known.is_found_by_sweep {
            metrics.sweep_decided(outcome);
        } else {
            metrics.message(Some(self.interruption.kind()), outcome);
        }
    }

    /// Whether nothing may be written because of this interruption.
    fn is_report_only(&self) -> bool {
        self.is_test || self.term.shared.config.dry_run
    }

    fn lines(&self) -> DecisionLines<'_> {
        DecisionLines { term: &self.term, interruption: &self.interruption, known: &self.known }
    }

    fn report(&self) -> DryReport<'_> {
        DryReport {
            term: &self.term,
            interruption: &self.interruption,
            known: &self.known,
            sent: self.sent,
        }
    }

    /// Decides, however long that takes, and carries the decision out. By reference: a future that
    /// takes a value reserves memory for it twice.
    pub(super) async fn decide(&mut self) -> MessageEnd {
        let mut questions = Questions::default();
        let mut arrivals = self.term.arrivals.subscribe();
        let (mut accepting, mut tries) = (Backoff::up_to(seconds(10)), accept::Tries::default());
        loop {
            arrivals.mark_unchanged();
            if let Some(end) = self.give_up() {
                return end;
            }
            self.read_index();
            if !self.is_test && !tries.is_lost() && self.is_on_record() {
                let open = self
                    .known
                    .nodes
                    .iter()
                    .any(|node| accept::is_open(node, &self.interruption.instance));
                if let Some(action) = self
                    .interruption
                    .lifecycle_action(&self.interruption.instance)
                    .filter(|_| open && !self.is_report_only() && !self.known.is_found_by_sweep)
                {
                    self.term.actions.learn_token(&action);
                }
                return self.accepted(Accepted::Repeat { open });
            }
            self.keep_alive_if_ours();
            // What the sweep found may be the wait in another party's hook, or over already.
            let is_proved = !self.known.is_found_by_sweep || self.is_proved_by_sweep();
            if self.interruption.goes_into_service()
                && is_proved
                && !self.is_report_only()
                && let Some(end) = Box::pin(self.put_back_returned_node()).await
            {
                return end;
            }
            let now = self.term.shared.clock.now();
            let until = match triage(&self.interruption, &self.known, &self.term.shared.policy, now)
            {
                Verdict::Delete(reason) => return self.dispose(reason, MessageEnd::Deleted),
                Verdict::GiveBack(reason) => return self.dispose(reason, MessageEnd::GivenBack),
                verdict @ (Verdict::Complete(_)
                | Verdict::AnswerLaunch(_)
                | Verdict::Accept(_)
                | Verdict::Plan(_))
                    if self.is_report_only() =>
                {
                    return if self.is_test {
                        self.report().test_verdict(&verdict)
                    } else {
                        self.report().verdict(&verdict)
                    };
                }
                Verdict::Complete(action) => {
                    return Box::pin(self.complete(action, MessageOutcome::Completed)).await;
                }
                Verdict::AnswerLaunch(answer) => {
                    if let Some(end) = Box::pin(self.answer_launch(answer)).await {
                        return end;
                    }
                    // Another Node may have its name now, and the index shows it soon.
                    self.known.listed = None;
                    self.term.shared.clock.now().plus(seconds(1))
                }
                // A dry run and a test do not wait until the node is ready.
                Verdict::Wait(Wait { launch: Some(missing), .. }) if self.is_report_only() => {
                    return self.report().launch_waits(&missing, self.is_test);
                }
                Verdict::Plan(accept) => {
                    if let Some(end) = Box::pin(self.note_change(accept)).await {
                        return end;
                    }
                    continue;
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
                        .shared
                        .clock
                        .now()
                        .plus(accepting.pause(&self.term.shared.random).max(tries.pause()));
                    Box::pin(self.learn_until(until, &mut questions)).await;
                    continue;
                }
                Verdict::Wait(_)
                    if self.is_test && now >= self.known.received.plus(TEST_TIMEOUT) =>
                {
                    return self.report().undecided_test();
                }
                Verdict::Wait(wait) => self.ask(wait, now, &mut questions),
            };
            // Boxed, as what is awaited above: thousands of decisions may wait for their accept, and
            // do not reserve the memory of this wait.
            Box::pin(self.wait_for_change(until, &mut questions, &mut arrivals)).await;
        }
    }

    /// Asks the questions of this wait. Returns when to decide again at the latest.
    fn ask(&mut self, wait: Wait, now: Moment, questions: &mut Questions) -> Moment {
        self.known.note(&wait, now);
        for question in wait.ask {
            questions.ask(
                &self.term,
                &self.interruption,
                self.known.happened,
                question,
                self.is_report_only(),
            );
        }
        // It waits for a time or for a Node. That is no reason to hold the evictions of other nodes
        // back.
        if let Some(missing) = &wait.launch {
            self.lines().launch_waits(missing);
            self.burst_hold = None;
        } else if questions.is_empty() {
            self.lines().waiting(wait.until, self.kept_alive.is_some());
            self.burst_hold = None;
        }
        // No signal comes when the health of the index changes: look again every 2 s.
        wait.until
            .unwrap_or(Moment::MAX)
            .min(now.plus(seconds(2)))
            // At least 20 ms: a verdict whose time has passed must not become a busy loop.
            .max(now.plus(Duration::from_millis(20)))
    }

    /// Waits until that time, or until something happens that can change the decision.
    async fn wait_for_change(
        &mut self,
        until: Moment,
        questions: &mut Questions,
        arrivals: &mut watch::Receiver<u64>,
    ) {
        tokio::select! {
            biased;
            learned = questions.answer() => self.learn(learned),
            _ = arrivals.changed() => {}
            () = self.given_up.cancelled(), if !self.is_proved_by_sweep() => {}
            () = self.term.shared.clock.sleep_until(until) => {}
        }
    }

    /// Waits until that time and takes in the answers that arrive. While the PATCH keeps failing,
    /// the interruption may become stale, and then needs one of these answers as a proof.
    async fn learn_until(&mut self, until: Moment, questions: &mut Questions) {
        let clock = self.term.shared.clock;
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
        let nodes = &self.term.shared.nodes;
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
        let heartbeats = &self.term.shared.heartbeat_answers;
        self.known.is_action_over =
            self.kept_alive.as_ref().is_some_and(|action| heartbeats.is_over(action));
        if !matches!(self.known.hooks, Some(HooksAnswer::Described(_)))
            && let Some(action) = self.interruption.hook()
        {
            self.known.hooks_before =
                self.term.shared.lookups.hooks.before(&action.group).map(HooksAnswer::Described);
        }
    }

    /// Whether the record of its Node holds this event already, so that the message is a copy. All
    /// proofs, heartbeats and completions for it are then up to the drain of that record; after the
    /// release there is nothing left to keep alive.
    fn is_on_record(&self) -> bool {
        // Of several Nodes that claim the instance, each that is drained has a record of its own. The
        // record of a Node in a warm pool does not show whether its launch hook is completed. A
        // scheduled change is also in an annotation of its own, which may be lost.
        !matches!(self.interruption.kind(), Kind::LaunchHook | Kind::ScheduledChange)
            && !self.known.nodes.is_empty()
            && self.known.nodes.iter().all(|node| record::recognize(node, &self.interruption))
    }

    fn keep_alive_if_ours(&mut self) {
        if self.kept_alive.is_none()
            && !self.is_report_only()
            && crate::triage::heartbeats(&self.interruption, &self.known, &self.term.shared.policy)
            && !crate::triage::heartbeats_wait(
                &self.interruption,
                &self.known,
                &self.term.shared.policy,
                self.term.shared.clock.now(),
            )
            && let Some(action) = self.interruption.lifecycle_action(&self.interruption.instance)
        {
            self.term.actions.own(&action, self.known.happened, Origin::Received, NamedBy::Message);
            self.kept_alive = Some(action);
        }
    }

    fn learn(&mut self, learned: Answer) {
        learned.note(&mut self.known, &self.interruption.instance);
        if self.known.is_found_by_sweep
            && matches!(self.interruption.cause, Cause::Launch(_))
            && let Some(answer) = &self.known.instance
            // An older answer may show the launch before the last stop.
            && answer.at >= self.known.received
            && let Some(launched) = answer.facts.as_ref().and_then(|facts| facts.launched)
        {
            let timeout = self.term.shared.policy.launch.timeout;
            self.known.note_launch_time(self.term.skew().to_ours(launched), timeout);
        }
        if self.is_proved_by_sweep() {
            self.lines().found_by_sweep();
        }
    }

    fn dispose(&mut self, reason: Reason, end: MessageEnd) -> MessageEnd {
        if self.is_test {
            let what = format!("it would not be acted on ({})", reason.as_str());
            return self.report().test(&what, end);
        }
        if reason == Reason::Stale {
            // The task of its action only asked whether the action is still open.
            self.forget();
        } else if let Some(action) = self.kept_alive.take() {
            self.term.actions.forget(&action);
        }
        if reason == Reason::Reported {
            let node = self.known.nodes.first().map(|node| &node.name);
            planned::report_only(&self.term, &self.interruption, node);
        }
        if matches!(reason, Reason::NoNode | Reason::Unknown) && !self.is_report_only() {
            planned::report_no_node(&self.term, &self.interruption);
        }
        self.is_unanswered = reason == Reason::Stale && self.known.heartbeat.is_none();
        let outcome =
            if end == MessageEnd::GivenBack { MessageOutcome::Left } else { outcome(reason) };
        self.count(outcome);
        let is_stale =
            reason == Reason::Stale && !self.known.is_found_by_sweep && !self.is_sick_instance();
        let (instance, kind, reason) =
            (&self.interruption.instance, self.interruption.kind().as_str(), reason.as_str());
        if is_stale {
            info!(
                instance = %instance, kind,
                "Ignored a stale interruption: it was read late and no longer applies."
            );
        } else {
            debug!(instance = %instance, kind, reason, "Ignored an interruption.");
        }
        self.lines().namesakes(reason);
        let what = match end {
            MessageEnd::Deleted => "delete the message and do nothing",
            MessageEnd::GivenBack | MessageEnd::LeftToReappear => {
                "leave the message to others and do nothing"
            }
        };
        self.report().ignored(reason, what).unwrap_or(end)
    }

    /// Completes a launch hook. `None`: the Node that must be cordoned first is gone, so it is
    /// decided again.
    async fn answer_launch(&mut self, answer: LaunchAnswer) -> Option<MessageEnd> {
        let mut is_cordoned = true;
        if let Some(node) = answer.cordon.clone() {
            self.burst_hold = None;
            let ends = self.term.shared.policy.launch.ends(&self.known);
            let cordoning = warm_pool::cordon(&self.term, &self.interruption, node, ends);
            let cordoned = tokio::select! {
                biased;
                () = self.given_up.cancelled(), if !self.is_proved_by_sweep() => {
                    self.count(MessageOutcome::Left);
                    return Some(MessageEnd::LeftToReappear);
                }
                cordoned = Box::pin(cordoning) => cordoned,
            };
            if cordoned == CordonOutcome::NodeGone && self.term.shared.clock.now() < ends {
                return None;
            }
            is_cordoned = cordoned == CordonOutcome::Done;
        }
        let outcome = match self.lines().launch_ends(&answer) {
            MessageOutcome::LaunchAnswered if !is_cordoned => MessageOutcome::LaunchTimedOut,
            outcome => outcome,
        };
        let LaunchAnswer { action, result, .. } = answer;
        Some(self.send_completion(action, outcome, OrderedResult::of_launch(result)).await)
    }

    async fn complete(&mut self, action: LifecycleAction, outcome: MessageOutcome) -> MessageEnd {
        DecisionLines::no_node(&action);
        self.send_completion(action, outcome, OrderedResult::Continue).await
    }

    async fn send_completion(
        &mut self,
        action: LifecycleAction,
        outcome: MessageOutcome,
        result: OrderedResult,
    ) -> MessageEnd {
        self.burst_hold = None;
        self.warn_of_guess(None);
        let is_unconfirmed = !matches!(self.known.hooks, Some(HooksAnswer::Described(_)));
        let (hooks, happened) = (&self.term.actions, self.known.happened);
        match hooks.complete(&action, happened, NamedBy::Message, is_unconfirmed, result).await {
            Some(Completion::Accepted(_) | Completion::Gone) => {}
            // The message reappears, and is decided by what AWS has shown since.
            Some(Completion::NotOurs) => {
                self.count(MessageOutcome::Left);
                return MessageEnd::LeftToReappear;
            }
            None => return MessageEnd::LeftToReappear,
        }
        self.count(outcome);
        MessageEnd::Deleted
    }

    /// For an instance that is back in service: puts its Node back as it was before the drain.
    /// `None`: the message is decided like any other.
    async fn put_back_returned_node(&mut self) -> Option<MessageEnd> {
        let absent_at = self.known.launch.as_ref().and_then(|launch| launch.absent_at);
        let absent_at = absent_at.map(|at| self.term.skew().to_aws(at));
        while !self.given_up.is_cancelled() || self.is_proved_by_sweep() {
            self.read_index();
            let of_instance = |n: &&Arc<Node>| {
                n.instance.as_ref() == Some(&self.interruption.instance) && self.term.manages(n)
            };
            let node = self.known.nodes.iter().find(of_instance).cloned()?;
            let now = self.term.shared.clock.now();
            let returned = record::returned(&node, &self.interruption, absent_at);
            if !self.known.return_check.is_due(returned != Returned::Nothing, now) {
                return None;
            }
            self.burst_hold = None;
            let (outcome, end) =
                match returns::put_back(&self.term, &node, &self.interruption, absent_at).await {
                    // A launch hook must be answered in time, whatever the Node is like.
                    ReturnOutcome::Retry | ReturnOutcome::Unknown
                        if self.interruption.hook().is_some() =>
                    {
                        let now = self.term.shared.clock.now();
                        self.known.return_check = ReturnCheck::Failed(now);
                        return None;
                    }
                    ReturnOutcome::Retry => continue,
                    ReturnOutcome::NotPutBack => {
                        self.known.return_check = ReturnCheck::Done(now);
                        return None;
                    }
                    // A launch action still waits for its answer.
                    ReturnOutcome::PutBack if self.interruption.hook().is_some() => {
                        self.known.return_check = ReturnCheck::Done(now);
                        return None;
                    }
                    ReturnOutcome::PutBack => (MessageOutcome::Restored, MessageEnd::Deleted),
                    ReturnOutcome::Unknown => (MessageOutcome::Left, MessageEnd::LeftToReappear),
                };
            self.count(outcome);
            return Some(end);
        }
        None
    }

    fn warn_of_guess(&self, node: Option<&Node>) {
        hook_claims::warn_of_guess(&self.term, &self.interruption, self.known.hooks.as_ref(), node);
    }

    /// The interruption is a repeat, and its action was kept alive until that was known. If no open
    /// record holds it, it needs no heartbeats. If one holds it under another name, because the
    /// sweep knows no token, that name counts from now on.
    fn stop_keeping_alive(&mut self, action: &LifecycleAction, is_record_open: bool) {
        if !is_record_open {
            return self.term.actions.forget(action);
        }
        self.read_index();
        let instance = &self.interruption.instance;
        let is_named = |node: &Arc<Node>| {
            let record = node.record().and_then(|text| Record::read(text).ok());
            record.is_some_and(|record| {
                record.interruptions(instance).iter().any(|i| i.hook.as_ref() == Some(action))
            })
        };
        if !self.known.nodes.iter().any(is_named) {
            self.term.actions.disown(action);
        }
    }

    /// Notes a scheduled change on its Node. `None`: it failed, and is decided again after a pause.
    async fn note_change(&mut self, verdict: triage::Accept) -> Option<MessageEnd> {
        self.burst_hold = None;
        let Some(planned) = planned::note(&self.term, &self.interruption, &verdict).await else {
            self.known.listed = None;
            tokio::time::sleep(seconds(1)).await;
            return None;
        };
        let (outcome, end) = match planned {
            NoteOutcome::Noted => (MessageOutcome::Planned, MessageEnd::Deleted),
            NoteOutcome::Repeat => (MessageOutcome::Repeat, MessageEnd::Deleted),
            NoteOutcome::Past => (MessageOutcome::Stale, MessageEnd::Deleted),
            NoteOutcome::Left => (MessageOutcome::Left, MessageEnd::LeftToReappear),
        };
        self.count(outcome);
        Some(end)
    }

    fn accepted(&mut self, accepted: Accepted) -> MessageEnd {
        self.is_accepted = matches!(accepted, Accepted::New | Accepted::Joined);
        let outcome = match accepted {
            Accepted::New => MessageOutcome::Accepted,
            Accepted::Joined => MessageOutcome::Joined,
            Accepted::Repeat { open } => {
                if let Some(action) = self.kept_alive.take() {
                    self.stop_keeping_alive(&action, open);
                }
                let what = "delete the message: the node's record holds its interruption";
                if let Some(end) = self.report().ignored("repeat", what) {
                    self.count(MessageOutcome::Repeat);
                    return end;
                }
                MessageOutcome::Repeat
            }
            Accepted::Full => {
                if self.term.is_first_report(&format!("{} full", self.interruption.event_id)) {
                    let (instance, event) =
                        (&self.interruption.instance, &self.interruption.event_id);
                    warn!(
                        %instance, kind = self.interruption.kind().as_str(), %event,
                        "The record of a node has no room for another interruption; its message \
                         is kept. Heartbeats go on, and the hook is not completed before the \
                         node's drain has ended."
                    );
                }
                if self.known.is_found_by_sweep {
                    // No message comes again: the sweep asks again, and keeps it alive by that.
                    self.forget();
                    self.is_unanswered = true;
                }
                self.count(MessageOutcome::Left);
                return MessageEnd::LeftToReappear;
            }
        };
        self.count(outcome);
        MessageEnd::Deleted
    }
}

const fn outcome(reason: Reason) -> MessageOutcome {
    match reason {
        Reason::Foreign => MessageOutcome::Foreign,
        Reason::ForeignHook => MessageOutcome::ForeignHook,
        Reason::NotManaged => MessageOutcome::NotManaged,
        Reason::Stale => MessageOutcome::Stale,
        Reason::Unknown | Reason::NoNode => MessageOutcome::Unknown,
        Reason::Ignored | Reason::Reported | Reason::NotActedOnYet => MessageOutcome::NotActedOn,
        Reason::Irrelevant => MessageOutcome::Unrelated,
    }
}
