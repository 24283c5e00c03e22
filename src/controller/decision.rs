//! Decides about one interruption: asks the questions of the triage until it gives a verdict.
//! `source` knows who sent the interruption, `carry_out` acts on the verdict.

mod carry_out;
mod source;

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use self::source::Source;
use super::{
    accept::{self, Accepted},
    claims,
    context::Term,
    decision_lines::DecisionLines,
    dry_report::DryReport,
    hook_claims,
    hooks::NamedBy,
    message_end::MessageEnd,
    questions::{Answer, Questions},
};
use crate::{
    domain::{Cause, Interruption, Kind, LifecycleAction, Moment, Node, seconds},
    fleet::{Input, Origin},
    observe::MessageOutcome,
    record,
    runtime::Backoff,
    triage::{ActionEndSeen, HooksAnswer, Knowledge, Verdict, Wait, triage},
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
    source: Source,
    /// The sweep found it, and AWS or the API server did not answer in time.
    is_unanswered: bool,
    /// A record with it was written.
    is_accepted: bool,
}

/// After this time a test event is reported as undecided.
pub(super) const TEST_TIMEOUT: Duration = seconds(60);

/// How long a decision may take to end after it was given up.
const GIVE_UP_WITHIN: Duration = seconds(10);

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
    /// Whether a record with the interruption was written.
    pub(super) const fn is_accepted(&self) -> bool {
        self.is_accepted
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

    /// Whether nothing may be written because of this interruption.
    fn is_report_only(&self) -> bool {
        self.source.is_test() || self.term.shared.config.dry_run
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

    /// The same as [`Self::decide`], but gives the interruption up after `limit` and returns `false`.
    /// Its next search finds it again.
    pub(super) async fn decide_within(&mut self, limit: Duration) -> bool {
        let (instance, give_up) = (self.interruption.instance.clone(), self.given_up.clone());
        let mut deciding = Box::pin(self.decide());
        if tokio::time::timeout(limit, &mut deciding).await.is_ok() {
            return true;
        }
        give_up.cancel();
        // A PATCH that is under way, or is refused, does not end at once.
        if tokio::time::timeout(GIVE_UP_WITHIN, &mut deciding).await.is_err() {
            debug!(%instance, "The decision about an interruption does not end.");
        }
        false
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
            if !self.source.is_test() && !tries.is_lost() && self.is_on_record() {
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
                && let Some(end) = Box::pin(self.restore_returned_node()).await
            {
                return end;
            }
            let now = self.term.shared.clock.now();
            self.known.note_age(&self.interruption, &self.term.shared.policy.staleness, now);
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
                    return if self.source.is_test() {
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
                Verdict::Wait(Wait { launch: Some(waits), .. }) if self.is_report_only() => {
                    return self.report().launch_waits(&waits.missing, self.source.is_test());
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
                    if self.source.is_test() && now >= self.known.received.plus(TEST_TIMEOUT) =>
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
        if let Some(waits) = &wait.launch {
            self.lines().launch_waits(waits);
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
        let is_before = |node: &Arc<Node>| record::is_before_last_drain(node, &self.interruption);
        self.known.is_before_last_drain = self.known.nodes.iter().any(is_before);
        let named = self.interruption.lifecycle_action(&self.interruption.instance);
        self.known.action_end =
            named.map_or(ActionEndSeen::NotKnown, |action| self.term.actions.end_seen(&action));
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
            && self.known.nodes.iter().all(|node| self.term.is_recorded(node, &self.interruption))
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
            self.known.note_launch_time(launched, timeout);
        }
        if self.is_proved_by_sweep() {
            self.lines().found_by_sweep();
        }
    }

    fn warn_of_guess(&self, node: Option<&Node>) {
        hook_claims::warn_of_guess(&self.term, &self.interruption, self.known.hooks.as_ref(), node);
    }
}
