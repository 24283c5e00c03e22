//! All metrics of the process.
//!
//! Names start with `sundown_`. The values of labels come from enums and from the lists in
//! [`LabelValues`], so the number of series is bounded. Series whose labels are known beforehand
//! exist from the start, so that `increase()` sees the first event too.

mod initial;
mod places;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, sync::atomic::AtomicU64, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use self::places::Places;
pub use self::{
    initial::{Calls, LabelValues},
    places::Place,
};
use super::labels::{
    CompletionResult, DrainEnd, GoneNodeStep, HeartbeatResult, ImpairedStep, MessageOutcome,
    PodState, RecordEvent, SweepResult, TraceResult, WebhookResult,
};
use crate::domain::{Kind, SettingFault, SettingSource};

type Labels<const N: usize> = [(&'static str, &'static str); N];
type Counters<const N: usize> = Family<Labels<N>, Counter>;
type Gauges<const N: usize> = Family<Labels<N>, Gauge>;
type Seconds<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;
type SecondsGauge = Gauge<f64, AtomicU64>;

/// The metrics that `/metrics` shows, with a method for each event that is counted.
pub struct Metrics {
    registry: Registry,
    messages: Counters<2>,
    rejected: Counters<1>,
    received: Counter,
    deleted: Counter,
    intake: Counters<1>,
    dead_letters: Family<[(&'static str, String); 1], Gauge>,
    held: Gauge,
    pollers: Gauge,
    accept_lag: Seconds<1>,
    drains_active: Gauge,
    drains: Counters<1>,
    drain_duration: Seconds<1>,
    places: Places,
    pods: Gauges<1>,
    blocked: Gauges<1>,
    block_reasons: Vec<&'static str>,
    evictions: Counters<1>,
    deletes: Counters<1>,
    forced: Counter,
    owners_left_alone: Counter,
    retained_instances: Gauge,
    sweeps: Counters<1>,
    sweep_calls: Counter,
    sweep_found: Counter,
    sweep_decided: Counters<1>,
    scheduled_event_rounds: Counters<1>,
    scheduled_events: Counters<1>,
    gone_nodes: Counters<1>,
    impaired: Counters<1>,
    impaired_waiting: Gauges<1>,
    impaired_waits: Vec<&'static str>,
    settings_ignored: Counters<2>,
    heartbeats: Counters<1>,
    heartbeats_missed: Counter,
    open_actions: Gauge,
    completions: Counters<1>,
    deadline_misses: Counter,
    paused: Gauge,
    nodes_paused: Gauge,
    leader: Gauge,
    dry_run: Gauge,
    leader_changes: Counters<1>,
    ready: Gauges<1>,
    api_calls: Counters<3>,
    api_duration: Seconds<1>,
    clock_skew: SecondsGauge,
    records: Counters<1>,
    events_sent: Counter,
    events_dropped: Counters<1>,
    webhooks: Counters<1>,
    trace_spans: Counters<1>,
    decode_failures: Counters<1>,
    watch_failures: Counters<1>,
    watch_stale: Family<Labels<1>, SecondsGauge>,
    nodes: Gauge,
    nodes_excluded: Gauge,
}

impl Metrics {
    /// Registers all metrics, and creates the series of the known label values at 0.
    #[must_use]
    pub fn new(values: &LabelValues) -> Self {
        let mut r = Registry::with_prefix("sundown");
        let metrics = Self {
            messages: reg(
                &mut r,
                "messages",
                "Messages whose body was understood, by kind of interruption and by outcome",
            ),
            rejected: reg(
                &mut r,
                "rejected_bodies",
                "Messages whose body was not understood, left in the queue for the dead-letter \
                 queue, by reason",
            ),
            received: reg(
                &mut r,
                "messages_received",
                "Messages received from the queues, including redeliveries",
            ),
            deleted: reg(&mut r, "messages_deleted", "Messages deleted from their queue"),
            intake: reg(
                &mut r,
                "intake_events",
                "Other events of received messages, such as redeliveries and failed deletes",
            ),
            dead_letters: reg(
                &mut r,
                "dlq_messages",
                "Messages in a dead-letter queue (--dlq-url), by the name of the queue",
            ),
            held: reg(&mut r, "messages_held", "Messages received but not decided yet"),
            pollers: reg(&mut r, "pollers", "ReceiveMessage calls in flight, over all queues"),
            accept_lag: seconds(
                &mut r,
                "accept_lag",
                "Time from the event, or from the creation of its Node if that is later, until \
                 the record is written on the Node, by kind of interruption",
                lag_buckets,
            ),
            drains_active: reg(&mut r, "drains_active", "Nodes that are being drained"),
            drains: reg(&mut r, "drains", "Drains that ended, by how they ended"),
            drain_duration: seconds(
                &mut r,
                "drain_duration",
                "Time from the accept of the interruption to the end of the drain, by how it ended",
                long_buckets,
            ),
            places: Places::new(&mut r),
            pods: reg(&mut r, "pods", "Pods that drains wait for, by state"),
            blocked: reg(&mut r, "blocked_pods", "Pods whose eviction is refused, by reason"),
            block_reasons: values.block_reasons.clone(),
            evictions: reg(&mut r, "evictions", "Evictions sent, by the API server's answer"),
            deletes: reg(&mut r, "pod_deletes", "Deletes of pods sent, by the API server's answer"),
            forced: reg(
                &mut r,
                "pods_forced",
                "Pods that were deleted, or whose grace period was shortened, because of a \
                 deadline",
            ),
            owners_left_alone: reg(
                &mut r,
                "owners_left_alone",
                "Owners whose pods kept coming back on a draining node, so that Sundown stopped \
                 draining their new pods there",
            ),
            retained_instances: reg(
                &mut r,
                "retained_instances",
                "Instances of this cluster's groups that Auto Scaling retains because a terminate \
                 hook was abandoned (Terminating:Retained), as the last round of the sweep found \
                 them: each costs money until somebody terminates it",
            ),
            sweeps: reg(
                &mut r,
                "sweeps",
                "Rounds of the sweep, which asks Auto Scaling for instances that wait in a \
                 lifecycle hook, by result",
            ),
            sweep_calls: reg(
                &mut r,
                "sweep_calls",
                "Calls of DescribeAutoScalingGroups and DescribeWarmPool in rounds of the sweep",
            ),
            sweep_found: reg(
                &mut r,
                "sweep_found",
                "Lifecycle hooks in which the sweep found an instance that waits, as AWS confirmed, \
                 although no event has arrived",
            ),
            sweep_decided: reg(
                &mut r,
                "sweep_decided",
                "Lifecycle hooks that the sweep checked for a waiting instance, shutdowns that it \
                 found, and nodes that it restored, by outcome. accepted, joined, completed and \
                 launch_...: no event had arrived; stale: the instance does not wait in this hook",
            ),
            scheduled_event_rounds: reg(
                &mut r,
                "scheduled_event_rounds",
                "Searches for scheduled events in EC2 (DescribeInstanceStatus), by result",
            ),
            scheduled_events: reg(
                &mut r,
                "scheduled_events",
                "Scheduled events of our instances that EC2 showed and their nodes did not, by \
                 outcome. planned: noted on the node",
            ),
            gone_nodes: reg(
                &mut r,
                "gone_nodes",
                "Nodes of drained instances that are gone, by what Sundown did with them \
                 (--out-of-service-taint, --delete-node)",
            ),
            impaired: reg(
                &mut r,
                "impaired",
                "Steps of Sundown about sick instances (--on impaired). denied: the role may not \
                 call SetInstanceHealth",
            ),
            impaired_waiting: reg(
                &mut r,
                "impaired_waiting",
                "Sick instances whose drain does not begin, or that are not replaced after it, \
                 as the last round of the leader's sweep found them, by the reason",
            ),
            impaired_waits: values.impaired_waits.clone(),
            settings_ignored: reg(
                &mut r,
                "settings_ignored",
                "Settings of lifecycle hooks and Nodes that are not used, because they cannot be \
                 read or a flag does not allow them, by their source and the reason",
            ),
            heartbeats: reg(
                &mut r,
                "heartbeats",
                "Heartbeats sent for lifecycle actions (RecordLifecycleActionHeartbeat), by result",
            ),
            heartbeats_missed: reg(
                &mut r,
                "heartbeats_missed",
                "Heartbeats that were not accepted before two thirds of the hook's timeout were \
                 over",
            ),
            open_actions: reg(
                &mut r,
                "open_actions",
                "Lifecycle actions that Sundown keeps open and has to complete",
            ),
            completions: reg(
                &mut r,
                "completions",
                "Completions of lifecycle actions (CompleteLifecycleAction), by result",
            ),
            deadline_misses: reg(
                &mut r,
                "deadline_misses",
                "Failed drains: those that reached their deadline with pods left, or before their \
                 pods were listed",
            ),
            paused: reg(&mut r, "paused", "1 while all drains are paused"),
            nodes_paused: reg(
                &mut r,
                "nodes_paused",
                "Nodes whose drain is paused by an annotation on the Node",
            ),
            leader: reg(&mut r, "leader", "1 while this process is the leader"),
            dry_run: reg(
                &mut r,
                "dry_run",
                "1 if this process runs with --dry-run: it writes nothing and never leads",
            ),
            leader_changes: reg(
                &mut r,
                "leader_changes",
                "Changes of this process between leader and standby, by the new role",
            ),
            ready: reg(&mut r, "ready", "1 while a condition of /readyz is met, by condition"),
            api_calls: reg(
                &mut r,
                "api_calls",
                "Calls to AWS and Kubernetes, by target, action and outcome",
            ),
            api_duration: seconds(
                &mut r,
                "api_call_duration",
                "Duration of calls to AWS and Kubernetes, without watches and long polls, by \
                 target",
                call_buckets,
            ),
            clock_skew: SecondsGauge::default(),
            records: reg(
                &mut r,
                "records",
                "Writes and problems of the records that Sundown keeps on Nodes, by event",
            ),
            events_sent: reg(&mut r, "events_sent", "Kubernetes Events written"),
            events_dropped: reg(
                &mut r,
                "events_dropped",
                "Kubernetes Events not written, by reason",
            ),
            webhooks: reg(&mut r, "webhooks", "Notifications (--webhook-url), by result"),
            trace_spans: reg(&mut r, "trace_spans", "Spans of traces (--otlp-endpoint), by result"),
            decode_failures: reg(
                &mut r,
                "decode_failures",
                "Kubernetes objects that could not be decoded and were skipped, by request",
            ),
            watch_failures: reg(
                &mut r,
                "watch_failures",
                "Kubernetes watches that failed and were started again, by watch",
            ),
            watch_stale: Family::default(),
            nodes: reg(&mut r, "nodes", "Nodes of the cluster that this process knows"),
            nodes_excluded: reg(
                &mut r,
                "nodes_excluded",
                "Ready nodes that Sundown has labeled to take them out of load balancers",
            ),
            registry: Registry::default(),
        };
        r.register_with_unit(
            "clock_skew",
            "How far AWS's clock is ahead of this machine's; negative if it is behind",
            Unit::Seconds,
            metrics.clock_skew.clone(),
        );
        r.register_with_unit(
            "watch_stale",
            "For how long a watch has failed, so that what this process knows may be out of date; \
             0 while the watch works, by watch",
            Unit::Seconds,
            metrics.watch_stale.clone(),
        );
        r.register(
            "build",
            "The version of this process",
            prometheus_client::metrics::info::Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        metrics.initialise(values);
        Self { registry: r, ..metrics }
    }

    /// All metrics in the OpenMetrics text format (`application/openmetrics-text; version=1.0.0`).
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    // === the queue

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

    /// Sets whether all drains are paused.
    pub fn set_paused(&self, paused: bool) {
        self.paused.set(i64::from(paused));
    }

    /// Sets how many drains are paused by an annotation on their Node.
    pub fn set_nodes_paused(&self, count: usize) {
        set(&self.nodes_paused, count);
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

impl Default for Metrics {
    fn default() -> Self {
        Self::new(&LabelValues::default())
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

fn reg<M>(registry: &mut Registry, name: &str, help: &str) -> M
where
    M: prometheus_client::registry::Metric + Default + Clone,
{
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

fn seconds<const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    new: fn() -> Histogram,
) -> Seconds<N> {
    seconds_by(registry, name, help, new)
}

fn seconds_by<L>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    new: fn() -> Histogram,
) -> Family<L, Histogram, fn() -> Histogram>
where
    L: EncodeLabelSet + fmt::Debug + Clone + Eq + std::hash::Hash + Send + Sync + 'static,
{
    let family = Family::new_with_constructor(new);
    registry.register_with_unit(name, help, Unit::Seconds, family.clone());
    family
}

fn set(gauge: &Gauge, count: usize) {
    gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
}

/// For calls: 5 ms to 30 s.
fn call_buckets() -> Histogram {
    Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0])
}

/// For the time from the event to the accept. A spot notice gives 120 s in all.
fn lag_buckets() -> Histogram {
    Histogram::new([
        0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0,
    ])
}

/// For drains: 5 s to two days.
fn long_buckets() -> Histogram {
    Histogram::new([
        5.0, 15.0, 30.0, 60.0, 115.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21600.0, 86_400.0,
        172_800.0,
    ])
}
