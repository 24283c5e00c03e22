//! One method for each thing that is counted or measured.

use std::{collections::BTreeMap, time::Duration};

use super::{Metrics, set};
use crate::{
    domain::{Kind, SettingFault, SettingSource},
    observe::labels::{
        CompletionResult, DrainEnd, GoneNodeStep, HeartbeatResult, ImpairedStep, MessageOutcome,
        PodState, RecordEvent, SweepResult, TraceResult, WebhookResult,
    },
};

impl Metrics {
    /// Counts messages that were received.
    pub fn received(&self, count: u64) {
        self.received.inc_by(count);
    }

    /// Counts messages that were deleted.
    pub fn deleted(&self, count: u64) {
        self.deleted.inc_by(count);
    }

    /// Sets how many messages are received and undecided.
    pub fn set_held(&self, count: usize) {
        set(&self.held, count);
    }

    /// Counts messages with another event: `redelivered`, `extended`, `lost` and so on.
    pub fn intake(&self, event: &'static str, count: usize) {
        self.intake.get_or_create(&[("event", event)]).inc_by(count as u64);
    }

    /// Sets how many messages are in a dead-letter queue. `None`: not known now, so the series is
    /// removed.
    pub fn set_dead_letters(&self, queue: &str, count: Option<u64>) {
        let labels = [("queue", queue.to_owned())];
        if let Some(count) = count {
            self.dead_letters.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
        } else {
            self.dead_letters.remove(&labels);
        }
    }

    /// Sets how many ReceiveMessage calls are in flight.
    pub fn set_pollers(&self, count: usize) {
        set(&self.pollers, count);
    }

    /// Counts a message (or one interruption in it) that was decided. `None`: the message contains
    /// no interruption.
    pub fn message(&self, kind: Option<Kind>, outcome: MessageOutcome) {
        let kind = kind.map_or("none", Kind::as_str);
        self.messages.get_or_create(&[("kind", kind), ("outcome", outcome.as_str())]).inc();
    }

    /// Counts a message whose body was not understood.
    pub fn rejected(&self, reason: &'static str) {
        self.rejected.get_or_create(&[("reason", reason)]).inc();
    }

    /// An interruption was written on its Node, `lag` after its event, or after the creation of the
    /// Node if that was later.
    pub fn accepted_after(&self, kind: Kind, lag: Duration) {
        self.accept_lag.get_or_create(&[("kind", kind.as_str())]).observe(lag.as_secs_f64());
    }

    // === drains

    /// Counts a setting of a hook or a Node that is not used.
    pub fn setting_ignored(&self, source: SettingSource, fault: SettingFault) {
        let labels = [("source", source.as_str()), ("reason", fault.as_str())];
        self.settings_ignored.get_or_create(&labels).inc();
    }

    /// Sets how many nodes are being drained.
    pub fn set_drains_active(&self, count: usize) {
        set(&self.drains_active, count);
    }

    /// A drain ended. `took`: the time since its accept.
    pub fn drain_ended(&self, end: DrainEnd, took: Duration) {
        self.drains.get_or_create(&[("end", end.as_str())]).inc();
        self.drain_duration.get_or_create(&[("end", end.as_str())]).observe(took.as_secs_f64());
    }

    /// A drain has failed: it reached its deadline with pods left, or without knowing them.
    pub fn deadline_missed(&self) {
        self.deadline_misses.inc();
    }

    /// Counts a wait for volumes that has ended. `end`: how ([`VolumeWaitEnd::as_str`]).
    ///
    /// [`VolumeWaitEnd::as_str`]: crate::domain::VolumeWaitEnd::as_str
    pub fn volume_wait(&self, end: &'static str) {
        self.volume_waits.get_or_create(&[("result", end)]).inc();
    }

    /// Sets how many pods are in this state, over all drains.
    pub fn set_pods(&self, state: PodState, count: usize) {
        set(&self.pods.get_or_create(&[("state", state.as_str())]), count);
    }

    /// Sets how many pods are blocked for this reason, over all drains.
    pub fn set_blocked(&self, reason: &'static str, count: usize) {
        set(&self.blocked.get_or_create(&[("reason", reason)]), count);
    }

    /// The API server answered an eviction.
    pub fn eviction(&self, answer: &'static str) {
        self.evictions.get_or_create(&[("answer", answer)]).inc();
    }

    /// The API server answered the delete of a pod.
    pub fn pod_delete(&self, answer: &'static str) {
        self.deletes.get_or_create(&[("answer", answer)]).inc();
    }

    /// A pod was deleted, or its grace period was shortened, because of a deadline.
    pub fn forced(&self) {
        self.forced.inc();
    }

    /// Pods of an owner kept coming back on a draining node: its new pods are not drained there.
    pub fn owner_left_alone(&self) {
        self.owners_left_alone.inc();
    }

    // === lifecycle hooks

    /// A round of the sweep ended.
    pub fn sweep(&self, result: SweepResult) {
        self.sweeps.get_or_create(&[("result", result.as_str())]).inc();
    }

    /// Counts calls of Auto Scaling in a round of the sweep.
    pub fn sweep_calls(&self, count: u64) {
        self.sweep_calls.inc_by(count);
    }

    /// Sets how many instances the last round of the sweep found retained.
    pub fn set_retained_instances(&self, count: usize) {
        set(&self.retained_instances, count);
    }

    /// The sweep found an instance that waits, as AWS confirmed, although no event has arrived.
    pub fn sweep_found(&self) {
        self.sweep_found.inc();
    }

    /// What the sweep found was decided.
    pub fn sweep_decided(&self, outcome: MessageOutcome) {
        self.sweep_decided.get_or_create(&[("outcome", outcome.as_str())]).inc();
    }

    /// A search for scheduled events in EC2 ended.
    pub fn scheduled_event_round(&self, result: SweepResult) {
        self.scheduled_event_rounds.get_or_create(&[("result", result.as_str())]).inc();
    }

    /// A scheduled event that EC2 showed was decided.
    pub fn scheduled_event(&self, outcome: MessageOutcome) {
        self.scheduled_events.get_or_create(&[("outcome", outcome.as_str())]).inc();
    }

    /// Counts a step about the Node of a drained instance that is gone.
    pub fn gone_node(&self, step: GoneNodeStep) {
        self.gone_nodes.get_or_create(&[("step", step.as_str())]).inc();
    }

    /// A step about a sick instance was taken.
    pub fn impaired(&self, step: ImpairedStep) {
        self.impaired.get_or_create(&[("step", step.as_str())]).inc();
    }

    /// Sets how many sick instances wait, by the reason. A reason that `count` does not have: none.
    pub fn set_impaired_waiting(&self, count: &BTreeMap<&'static str, usize>) {
        for reason in &self.impaired_waits {
            let waiting = self.impaired_waiting.get_or_create(&[("reason", *reason)]);
            set(&waiting, count.get(reason).copied().unwrap_or(0));
        }
    }

    /// AWS answered a heartbeat, or the call failed.
    pub fn heartbeat(&self, result: HeartbeatResult) {
        self.heartbeats.get_or_create(&[("result", result.as_str())]).inc();
    }

    /// No heartbeat was accepted before two thirds of the hook's timeout were over.
    pub fn heartbeat_missed(&self) {
        self.heartbeats_missed.inc();
    }

    /// Sets how many lifecycle actions Sundown keeps open and has to complete.
    pub fn set_open_actions(&self, count: usize) {
        set(&self.open_actions, count);
    }

    /// AWS answered a CompleteLifecycleAction, or the call failed.
    pub fn completion(&self, result: CompletionResult) {
        self.completions.get_or_create(&[("result", result.as_str())]).inc();
    }

    // === the state of this process

    /// Sets whether the file with rules about pods is bad.
    pub fn set_rules_file_bad(&self, is_bad: bool) {
        self.rules_file_bad.set(i64::from(is_bad));
    }

    /// Sets whether all drains are paused.
    pub fn set_paused(&self, paused: bool) {
        self.paused.set(i64::from(paused));
    }

    /// Sets how many drains are paused by an annotation on their Node.
    pub fn set_nodes_paused(&self, count: usize) {
        set(&self.nodes_paused, count);
    }

    /// Sets how many drains wait for other drains.
    pub fn set_drains_held_back(&self, count: usize) {
        set(&self.drains_held_back, count);
    }

    /// Sets whether this process leads, and counts the change.
    pub fn set_leader(&self, leads: bool) {
        if self.leader.set(i64::from(leads)) != i64::from(leads) {
            let role = if leads { "leader" } else { "standby" };
            self.leader_changes.get_or_create(&[("role", role)]).inc();
        }
    }

    /// Sets whether this process runs with `--dry-run`.
    pub fn set_dry_run(&self, dry: bool) {
        self.dry_run.set(i64::from(dry));
    }

    /// Sets which conditions of `/readyz` are met.
    pub fn set_ready(&self, conditions: impl IntoIterator<Item = (&'static str, bool)>) {
        for (condition, holds) in conditions {
            set(&self.ready.get_or_create(&[("condition", condition)]), usize::from(holds));
        }
    }

    /// Whether this process leads.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.leader.get() == 1
    }

    /// Sets the gauges that only a leader has to 0, when this process stops leading.
    pub fn reset_leader_gauges(&self) {
        for gauge in [
            &self.held,
            &self.pollers,
            &self.drains_active,
            &self.open_actions,
            &self.retained_instances,
            &self.paused,
            &self.nodes_paused,
            &self.drains_held_back,
            &self.nodes_excluded,
        ] {
            gauge.set(0);
        }
        for state in PodState::ALL {
            self.set_pods(*state, 0);
        }
        self.set_impaired_waiting(&BTreeMap::new());
        self.blocked.clear();
        for reason in &self.block_reasons {
            self.set_blocked(reason, 0);
        }
    }

    // === calls to AWS and Kubernetes

    /// A call to `target` (`sqs`, `autoscaling`, `ec2`, `kubernetes`) ended. `outcome` is `ok` or a
    /// class of errors.
    pub fn api_call(
        &self,
        target: &'static str,
        action: &'static str,
        outcome: &'static str,
        took: Duration,
    ) {
        self.api_calls
            .get_or_create(&[("target", target), ("action", action), ("outcome", outcome)])
            .inc();
        self.api_duration.get_or_create(&[("target", target)]).observe(took.as_secs_f64());
    }

    /// A long poll or a watch ended. Its duration is not recorded, because it is mostly waiting.
    pub fn api_wait(&self, target: &'static str, action: &'static str, outcome: &'static str) {
        self.api_calls
            .get_or_create(&[("target", target), ("action", action), ("outcome", outcome)])
            .inc();
    }

    /// Sets how far AWS's clock is ahead of this machine's.
    pub fn set_clock_skew(&self, ahead: jiff::SignedDuration) {
        self.clock_skew.set(ahead.as_secs_f64());
    }

    /// Counts an event of the record on a Node.
    pub fn record(&self, event: RecordEvent) {
        self.records.get_or_create(&[("event", event.as_str())]).inc();
    }

    /// Counts Kubernetes Events: `written`; `dropped`, because too many waited or the leader was
    /// stopping; and `failed`, because the API server did not take them.
    pub fn events(&self, written: u64, dropped: u64, failed: u64) {
        self.events_sent.inc_by(written);
        self.events_dropped.get_or_create(&[("reason", "rate")]).inc_by(dropped);
        self.events_dropped.get_or_create(&[("reason", "failed")]).inc_by(failed);
    }

    /// Counts the result of a notification.
    pub fn webhook(&self, result: WebhookResult) {
        self.webhooks.get_or_create(&[("result", result.as_str())]).inc();
    }

    /// Counts `count` spans with this result.
    pub fn trace_spans(&self, result: TraceResult, count: usize) {
        self.trace_spans.get_or_create(&[("result", result.as_str())]).inc_by(count as u64);
    }

    /// An object (`node`, `pod`, `budget`, …) could not be decoded.
    pub fn decode_failed(&self, object: &'static str) {
        self.decode_failures.get_or_create(&[("object", object)]).inc();
    }

    /// A watch failed and is started again.
    pub fn watch_failed(&self, object: &'static str) {
        self.watch_failures.get_or_create(&[("object", object)]).inc();
    }

    /// Sets for how long a watch (`watch_nodes`, `watch_budgets`) has failed; zero: it works.
    pub fn set_watch_stale(&self, object: &'static str, since: Duration) {
        self.watch_stale.get_or_create(&[("object", object)]).set(since.as_secs_f64());
    }

    /// Sets how many Nodes are in the node index.
    pub fn set_nodes(&self, count: usize) {
        set(&self.nodes, count);
    }

    /// Sets how many Ready nodes Sundown has taken out of load balancers with a label.
    pub fn set_nodes_excluded(&self, count: usize) {
        set(&self.nodes_excluded, count);
    }
}
