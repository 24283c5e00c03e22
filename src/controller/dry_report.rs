//! What Sundown would do: the reports of dry runs, trials and test events.

use tracing::info;

use super::{
    context::Term,
    message_end::MessageEnd,
    trial::{TrialEntry, Would},
};
use crate::{
    cluster::{About, EventNote, EventReason, Severity},
    domain::{HookResult, Interruption, LifecycleAction, Moment, Node, Response},
    observe::MessageOutcome,
    triage::{Knowledge, LaunchAnswer, Missing, Verdict},
};

/// Reports about one interruption. Nothing here acts on it.
pub(super) struct DryReport<'a> {
    pub(super) term: &'a Term,
    pub(super) interruption: &'a Interruption,
    pub(super) known: &'a Knowledge,
    /// When its message was sent, on AWS's clock.
    pub(super) sent: Option<Moment>,
}

const fn would_do(response: Response) -> &'static str {
    match response {
        Response::Drain => "cordon and drain the node",
        Response::Cordon => "cordon the node; its pods would stay",
        Response::Prefer | Response::Ignore => {
            "taint the node with PreferNoSchedule; its pods would stay"
        }
    }
}

const fn would_be(response: Response) -> &'static str {
    match response {
        Response::Drain => "the node would be cordoned and drained",
        Response::Cordon => "the node would be cordoned, and its pods would stay",
        Response::Prefer | Response::Ignore => {
            "the node would be tainted with PreferNoSchedule, and its pods would stay"
        }
    }
}

fn log_completion(action: &LifecycleAction, kind: &str, result: HookResult) {
    info!(
        instance = %action.key.instance, group = %action.key.group, hook = %action.key.hook, kind,
        "Dry run: would complete the lifecycle action with {}.", result.as_str()
    );
}

impl DryReport<'_> {
    /// Logs once for each event what would be done, and returns what happens to the message.
    /// Outside of a trial it reappears by itself.
    pub(super) fn verdict(&self, verdict: &Verdict) -> MessageEnd {
        let kind = self.interruption.kind();
        self.term.shared.metrics.message(Some(kind), MessageOutcome::DryRun);
        let kind = kind.as_str();
        if self.is_first() {
            match verdict {
                Verdict::Accept(accept) => {
                    info!(
                        node = %accept.node.name, instance = %accept.instance, kind,
                        certainty = ?accept.certainty, "Dry run: would {}.", would_do(accept.response)
                    );
                }
                Verdict::Plan(accept) => info!(
                    node = %accept.node.name, instance = %accept.instance, kind,
                    "Dry run: would note the scheduled change on the node, and then {}.",
                    would_do(accept.response)
                ),
                Verdict::Complete(action) => {
                    log_completion(action, kind, HookResult::Continue);
                }
                Verdict::AnswerLaunch(LaunchAnswer { action, result, .. }) => {
                    log_completion(action, kind, *result);
                }
                Verdict::Wait(_) | Verdict::Delete(_) | Verdict::GiveBack(_) => {}
            }
        }
        let (would, node) = match verdict {
            Verdict::Accept(accept) | Verdict::Plan(accept) => {
                let would = if accept.response.evicts() { Would::Drain } else { Would::Mark };
                (would, Some(&*accept.node))
            }
            Verdict::AnswerLaunch(_) => (Would::AnswerLaunch, None),
            _ => (Would::Complete, None),
        };
        self.record_trial(would, "", node).unwrap_or(MessageEnd::LeftToReappear)
    }

    /// In a dry run, logs once that Sundown would ignore the interruption. In a trial, also records
    /// it and returns what happens to the message; `None` outside of a trial. `what` completes the
    /// sentence "would …": what Sundown would do with the message outside of a dry run.
    pub(super) fn ignored(&self, reason: &str, what: &str) -> Option<MessageEnd> {
        if self.term.shared.config.dry_run && self.is_first() {
            let (instance, kind) = (&self.interruption.instance, self.interruption.kind().as_str());
            info!(instance = %instance, kind, reason, "Dry run: would {what}.");
        }
        self.record_trial(Would::Nothing, reason, None)
    }

    /// Whether this event is reported for the first time.
    fn is_first(&self) -> bool {
        let Interruption { instance, event_id, .. } = self.interruption;
        self.term.is_first_report(&format!(
            "{instance} {} {event_id}",
            self.interruption.kind().as_str()
        ))
    }

    /// In a trial: records the event, and returns what happens to the message. `None`: this is not
    /// a trial.
    fn record_trial(&self, would: Would, why: &str, node: Option<&Node>) -> Option<MessageEnd> {
        if !self.term.is_trial() {
            return None;
        }
        let node = node.or_else(|| self.known.nodes.first().map(|n| &**n));
        let entry = TrialEntry {
            why: why.to_owned(),
            node: node.map(|n| n.name.to_string()).unwrap_or_default(),
            ..TrialEntry::of(
                self.interruption,
                self.term.aws_now(),
                self.sent,
                self.term.skew().to_aws(self.known.received),
                would,
            )
        };
        Some(if self.term.record_trial(&entry) {
            MessageEnd::Deleted
        } else {
            MessageEnd::LeftToReappear
        })
    }

    /// Reports that Sundown would wait until the node of a launching instance is ready, and then
    /// complete its hook.
    pub(super) fn launch_waits(&self, missing: &Missing, is_test: bool) -> MessageEnd {
        if is_test {
            let what = format!(
                "its launch hook would be completed with CONTINUE when the node is ready; now \
                 {missing}"
            );
            return self.test(&what, MessageEnd::Deleted);
        }
        if self.term.shared.config.dry_run && self.is_first() {
            let instance = &self.interruption.instance;
            info!(
                %instance, %missing,
                "Dry run: would complete the launch hook with CONTINUE when the node is ready."
            );
        }
        self.record_trial(Would::AnswerLaunch, "", None).unwrap_or(MessageEnd::LeftToReappear)
    }

    /// Reports what would be done for a test event, if it were real.
    pub(super) fn test_verdict(&self, verdict: &Verdict) -> MessageEnd {
        let what = match verdict {
            Verdict::Accept(accept) => would_be(accept.response),
            Verdict::Plan(_) => {
                "the scheduled change would be noted on the node, to drain it in time"
            }
            _ => "its lifecycle action would be completed with CONTINUE",
        };
        self.test(what, MessageEnd::Deleted)
    }

    /// Reports that a test event could not be decided in time.
    pub(super) fn undecided_test(&self) -> MessageEnd {
        self.test(
            "it would still wait, because a minute was not enough to decide: is the instance one \
             of this cluster?",
            MessageEnd::Deleted,
        )
    }

    /// Reports a test event in the log, and in an Event on the Node for people who cannot read the
    /// log.
    pub(super) fn test(&self, what: &str, end: MessageEnd) -> MessageEnd {
        let (instance, kind) = (&self.interruption.instance, self.interruption.kind());
        self.term.shared.metrics.message(Some(kind), MessageOutcome::Test);
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
        end
    }
}
