//! Carries out what the triage decided about an interruption.

use std::sync::Arc;

use tracing::{debug, info, warn};

use super::{Decision, Source};
use crate::{
    controller::{
        accept::Accepted,
        decision_lines::DecisionLines,
        hooks::{Completion, NamedBy, OrderedResult},
        message_end::MessageEnd,
        planned::{self, NoteOutcome},
        returns::{self, ReturnOutcome},
        warm_pool::{self, CordonOutcome},
    },
    domain::{LifecycleAction, Node, seconds},
    observe::MessageOutcome,
    record::{self, Record, Returned},
    triage::{self, HooksAnswer, LaunchAnswer, Reason, ReturnCheck},
};

impl Decision {
    pub(super) fn dispose(&mut self, reason: Reason, end: MessageEnd) -> MessageEnd {
        if self.source.is_test() {
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
        let is_stale = reason == Reason::Stale
            && end == MessageEnd::Deleted
            && !self.known.is_found_by_sweep
            && self.source != Source::ImpairedSweep;
        let (instance, kind, reason) =
            (&self.interruption.instance, self.interruption.kind().as_str(), reason.as_str());
        if is_stale {
            info!(
                instance = %instance, kind,
                "Ignored a stale interruption: it no longer applies."
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
    pub(super) async fn answer_launch(&mut self, answer: LaunchAnswer) -> Option<MessageEnd> {
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

    pub(super) async fn complete(
        &mut self,
        action: LifecycleAction,
        outcome: MessageOutcome,
    ) -> MessageEnd {
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
        let purpose = Some(self.interruption.wait_purpose());
        let completing =
            hooks.complete(&action, happened, NamedBy::Message, is_unconfirmed, result, purpose);
        match completing.await {
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

    /// For an instance that is back in service: restores its Node to its state before the drain.
    /// `None`: the message is decided like any other.
    pub(super) async fn restore_returned_node(&mut self) -> Option<MessageEnd> {
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
                match returns::restore_reported(&self.term, &node, &self.interruption, absent_at)
                    .await
                {
                    // A launch hook must be answered in time, whatever the Node is like.
                    ReturnOutcome::Retry | ReturnOutcome::Unknown
                        if self.interruption.hook().is_some() =>
                    {
                        let now = self.term.shared.clock.now();
                        self.known.return_check = ReturnCheck::Failed(now);
                        return None;
                    }
                    ReturnOutcome::Retry => continue,
                    ReturnOutcome::NotRestored => {
                        self.known.return_check = ReturnCheck::Done(now);
                        return None;
                    }
                    // A launch action still waits for its answer.
                    ReturnOutcome::Restored if self.interruption.hook().is_some() => {
                        self.known.return_check = ReturnCheck::Done(now);
                        return None;
                    }
                    ReturnOutcome::Restored => (MessageOutcome::Restored, MessageEnd::Deleted),
                    ReturnOutcome::Unknown => (MessageOutcome::Left, MessageEnd::LeftToReappear),
                };
            self.count(outcome);
            return Some(end);
        }
        None
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
    pub(super) async fn note_change(&mut self, verdict: triage::Accept) -> Option<MessageEnd> {
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

    pub(super) fn accepted(&mut self, accepted: Accepted) -> MessageEnd {
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
        Reason::Ignored | Reason::Reported | Reason::NothingToDo => MessageOutcome::NotActedOn,
        Reason::Irrelevant => MessageOutcome::Unrelated,
    }
}
