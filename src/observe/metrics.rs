//! All metrics of the process.
//!
//! Names start with `sundown_`. The values of labels come from enums and from the lists in
//! [`LabelValues`], so the number of series is bounded. Series whose labels are known beforehand
//! exist from the start, so that `increase()` sees the first event too.

mod initial;
mod places;
#[cfg(test)]
mod tests;
mod updates;

use std::{fmt, sync::atomic::AtomicU64};

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
    volume_waits: Counters<1>,
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
    rules_file_bad: Gauge,
    paused: Gauge,
    nodes_paused: Gauge,
    drains_held_back: Gauge,
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
            volume_waits: reg(
                &mut r,
                "volume_waits",
                "Drains that waited for volumes of their pods to be detached, or could not read them \
                 (--wait-for-volumes), by how the wait ended",
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
            rules_file_bad: reg(
                &mut r,
                "rules_file_bad",
                "1 while the file with rules about pods cannot be read: the last good ones count",
            ),
            paused: reg(&mut r, "paused", "1 while all drains are paused"),
            nodes_paused: reg(
                &mut r,
                "nodes_paused",
                "Nodes whose drain is paused by an annotation on the Node",
            ),
            drains_held_back: reg(
                &mut r,
                "drains_held_back",
                "Drains whose evictions wait for other drains (--max-drains-per-group, \
                 --max-voluntary, or one control-plane node at a time)",
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
