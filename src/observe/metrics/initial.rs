//! Creates the series whose labels are known, at 0: Prometheus's `increase()` does not see the
//! first event of a series that begins with 1.

use std::collections::BTreeMap;

use super::{Counters, Labels, Metrics};
use crate::{
    domain::{Kind, SettingFault, SettingSource, VolumeWaitEnd},
    observe::labels::{
        CompletionResult, DrainEnd, GoneNodeStep, HeartbeatResult, ImpairedStep, MessageOutcome,
        PodState, RecordEvent, SweepResult, TraceResult, WebhookResult,
    },
};

/// The label values that other modules define, for the series that exist from the start. An event
/// with a value that is missing here is counted too.
#[derive(Debug, Clone, Default)]
pub struct LabelValues {
    /// Reasons why a message body is not understood.
    pub rejections: Vec<&'static str>,
    /// Reasons why a pod is blocked.
    pub block_reasons: Vec<&'static str>,
    /// Reasons why the drain of a sick instance does not begin.
    pub impaired_waits: Vec<&'static str>,
    /// Classes of answers to evictions and deletes.
    pub answers: Vec<&'static str>,
    /// All calls to AWS and Kubernetes.
    pub calls: Vec<Calls>,
    /// All watches, such as `watch_pods`.
    pub watches: Vec<&'static str>,
    /// The watches that every replica keeps open, not only the leader.
    pub caches: Vec<&'static str>,
    /// The conditions of `/readyz`.
    pub conditions: Vec<&'static str>,
    /// Requests whose answers have objects that may be impossible to decode.
    pub objects: Vec<&'static str>,
    /// Other events of received messages, such as `redelivered`.
    pub intake: Vec<&'static str>,
}

/// An API call and its possible outcomes.
#[derive(Debug, Clone, Default)]
pub struct Calls {
    /// `sqs`, `autoscaling`, `ec2` or `kubernetes`.
    pub target: &'static str,
    /// The name of the call, such as `ReceiveMessage` or `evict`.
    pub action: &'static str,
    /// The values of the label `outcome`.
    pub outcomes: Vec<&'static str>,
}

impl Metrics {
    pub(super) fn initialise(&self, values: &LabelValues) {
        self.initialise_calls(values);
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
        for reason in &values.rejections {
            touch(&self.rejected, [("reason", reason)]);
        }
        for reason in &values.block_reasons {
            self.set_blocked(reason, 0);
        }
        for answer in &values.answers {
            touch(&self.evictions, [("answer", answer)]);
            touch(&self.deletes, [("answer", answer)]);
        }
        for end in DrainEnd::ALL {
            touch(&self.drains, [("end", end.as_str())]);
            drop(self.drain_duration.get_or_create(&[("end", end.as_str())]));
        }
        for state in PodState::ALL {
            self.set_pods(*state, 0);
        }
        for result in SweepResult::ALL {
            touch(&self.sweeps, [("result", result.as_str())]);
        }
        for result in SweepResult::ALL {
            touch(&self.scheduled_event_rounds, [("result", result.as_str())]);
        }
        for outcome in MessageOutcome::OF_EVENTS {
            touch(&self.scheduled_events, [("outcome", outcome.as_str())]);
        }
        for outcome in MessageOutcome::OF_SWEEP {
            touch(&self.sweep_decided, [("outcome", outcome.as_str())]);
        }
        for end in VolumeWaitEnd::LABELS {
            touch(&self.volume_waits, [("result", end)]);
        }
        for step in GoneNodeStep::ALL {
            touch(&self.gone_nodes, [("step", step.as_str())]);
        }
        for step in ImpairedStep::ALL {
            touch(&self.impaired, [("step", step.as_str())]);
        }
        self.set_impaired_waiting(&BTreeMap::new());
        for result in HeartbeatResult::ALL {
            touch(&self.heartbeats, [("result", result.as_str())]);
        }
        for result in CompletionResult::ALL {
            touch(&self.completions, [("result", result.as_str())]);
        }
        for source in [SettingSource::Hook, SettingSource::Node] {
            for fault in SettingFault::ALL {
                let labels = [("source", source.as_str()), ("reason", fault.as_str())];
                touch(&self.settings_ignored, labels);
            }
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

    fn initialise_calls(&self, values: &LabelValues) {
        for calls in &values.calls {
            for outcome in &calls.outcomes {
                touch(
                    &self.api_calls,
                    [("target", calls.target), ("action", calls.action), ("outcome", outcome)],
                );
            }
            drop(self.api_duration.get_or_create(&[("target", calls.target)]));
        }
        for object in &values.watches {
            touch(&self.watch_failures, [("object", object)]);
        }
        for object in &values.caches {
            self.set_watch_stale(object, std::time::Duration::ZERO);
        }
        self.set_ready(values.conditions.iter().map(|condition| (*condition, false)));
        for object in &values.objects {
            touch(&self.decode_failures, [("object", object)]);
        }
        for event in &values.intake {
            touch(&self.intake, [("event", event)]);
        }
    }
}

/// Creates a series at 0.
fn touch<const N: usize>(family: &Counters<N>, labels: Labels<N>) {
    drop(family.get_or_create(&labels));
}
