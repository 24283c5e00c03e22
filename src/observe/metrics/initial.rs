//! What is there from the start, at 0: a series that begins with 1 has not grown, as far as
//! `increase()` sees.

use super::{Counters, Labels, Metrics};
use crate::{
    domain::Kind,
    observe::labels::{
        CompletionResult, DrainEnd, HeartbeatResult, MessageOutcome, PodState, RecordEvent,
        TraceResult, WebhookResult,
    },
};

/// The words of other rooms, to initialise families with. A word that is missing here is counted
/// all the same.
#[derive(Debug, Clone, Default)]
pub struct Words {
    /// Why a body was not understood.
    pub rejections: Vec<&'static str>,
    /// Why a pod is blocked.
    pub block_reasons: Vec<&'static str>,
    /// The classes of answers to evictions and deletes.
    pub answers: Vec<&'static str>,
    /// The calls that are made.
    pub calls: Vec<Calls>,
    /// What is watched.
    pub watches: Vec<&'static str>,
    /// Those of them whose copies every replica keeps up to date.
    pub mirrors: Vec<&'static str>,
    /// The conditions of `/readyz`.
    pub conditions: Vec<&'static str>,
    /// What is read that may not be readable.
    pub objects: Vec<&'static str>,
    /// What befalls messages on their way in and out.
    pub intake: Vec<&'static str>,
}

/// Calls of one kind, and how they may end.
#[derive(Debug, Clone, Default)]
pub struct Calls {
    /// `sqs`, `autoscaling`, `ec2` or `kubernetes`.
    pub target: &'static str,
    /// What they do.
    pub action: &'static str,
    /// The words for their outcomes.
    pub outcomes: Vec<&'static str>,
}

impl Metrics {
    pub(super) fn initialise(&self, words: &Words) {
        self.initialise_calls(words);
        self.places.initialise();
        for kind in Kind::ALL {
            for outcome in MessageOutcome::ALL {
                touch(&self.messages, [("kind", kind.as_str()), ("outcome", outcome.as_str())]);
            }
        }
        for outcome in [MessageOutcome::Test, MessageOutcome::Unrelated, MessageOutcome::Left] {
            touch(&self.messages, [("kind", "none"), ("outcome", outcome.as_str())]);
        }
        for kind in Kind::ALL {
            drop(self.accept_lag.get_or_create(&[("kind", kind.as_str())]));
        }
        for word in &words.rejections {
            touch(&self.rejected, [("reason", word)]);
        }
        for word in &words.block_reasons {
            self.set_blocked(word, 0);
        }
        for word in &words.answers {
            touch(&self.evictions, [("answer", word)]);
            touch(&self.deletes, [("answer", word)]);
        }
        for end in DrainEnd::ALL {
            touch(&self.drains, [("end", end.as_str())]);
            drop(self.drain_duration.get_or_create(&[("end", end.as_str())]));
        }
        for state in PodState::ALL {
            self.set_pods(*state, 0);
        }
        for result in HeartbeatResult::ALL {
            touch(&self.heartbeats, [("result", result.as_str())]);
        }
        for result in CompletionResult::ALL {
            touch(&self.completions, [("result", result.as_str())]);
        }
        for event in RecordEvent::ALL {
            touch(&self.records, [("event", event.as_str())]);
        }
        for result in WebhookResult::ALL {
            touch(&self.webhooks, [("result", result.as_str())]);
        }
        for result in TraceResult::ALL {
            touch(&self.trace_spans, [("result", result.as_str())]);
        }
        for role in ["leader", "standby"] {
            touch(&self.leader_changes, [("role", role)]);
        }
        for reason in ["rate", "failed"] {
            touch(&self.events_dropped, [("reason", reason)]);
        }
    }

    fn initialise_calls(&self, words: &Words) {
        for calls in &words.calls {
            for outcome in &calls.outcomes {
                touch(
                    &self.api_calls,
                    [("target", calls.target), ("action", calls.action), ("outcome", outcome)],
                );
            }
            drop(self.api_duration.get_or_create(&[("target", calls.target)]));
        }
        for object in &words.watches {
            touch(&self.watch_failures, [("object", object)]);
        }
        for object in &words.mirrors {
            self.set_watch_stale(object, std::time::Duration::ZERO);
        }
        self.set_ready(words.conditions.iter().map(|condition| (*condition, false)));
        for object in &words.objects {
            touch(&self.decode_failures, [("object", object)]);
        }
        for event in &words.intake {
            touch(&self.intake, [("event", event)]);
        }
    }
}

fn touch<const N: usize>(family: &Counters<N>, labels: Labels<N>) {
    drop(family.get_or_create(&labels));
}
