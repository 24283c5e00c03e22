//! Flags and their only table of defaults.
//!
//! A flag is a field of one of the groups in `args`, with its default from [`defaults`]. The values
//! in a [`Config`] are validated and have the types of `domain`. The page `docs/configuration.md`
//! is generated from the same flags ([`document`]), and a test compares it with them.

mod any_value;
mod args;
pub mod defaults;
mod error;
mod print;
mod published;
mod rules_file;
#[cfg(test)]
mod tests;
mod validate;
mod validate_outputs;
mod values;
mod without_effect;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

pub use args::{
    AwsArgs, DrainArgs, ElectionArgs, KubeArgs, LaunchArgs, LeaseArgs, LogArgs, OursArgs,
    QueueArgs, RunArgs, ServiceArgs, WebhookArgs,
};
pub use error::ConfigError;
pub use print::{derived_default, document, print_config, unknown_variables};
pub use published::{PublishedService, PublishedSweep};
pub(crate) use rules_file::{parse as parse_rules, read as read_rules};
pub use values::{Listen, PodEvents, QueueUrl, duration_text, parse_duration};
pub use without_effect::{WithoutEffect, without_effect};

use crate::{
    domain::{
        AllowedSettings, ChangeSchedule, Compat, DaemonSetName, EvictAfterByKind, Exclusion,
        ForceAfter, GoneNodes, HookResult, NodeName, PaceLimits, PodKey, PodOrder, PodRules,
        Responses, Selector, WaitForVolumes, WishSource,
    },
    election,
    observe::{LogFormat, traces, webhook},
    triage::{HookGlobs, LaunchPolicy},
};

/// The validated configuration of `sundown run`.
#[derive(Debug, Clone)]
pub struct Config {
    /// SQS queues to receive from and how many messages to hold.
    pub queue: QueueConfig,
    /// Which hooks, nodes and instances Sundown acts on.
    pub ours: OursConfig,
    /// What a launch hook waits for.
    pub launch: LaunchPolicy,
    /// How nodes are drained.
    pub drain: DrainConfig,
    /// Leader election, and this process's node and pod.
    pub election: ElectionConfig,
    /// AWS region and endpoint.
    pub aws: AwsConfig,
    /// Kubeconfig file and context.
    pub kube: KubeConfig,
    /// Logs, metrics, probes, Events on pods, and traces.
    pub service: ServiceConfig,
    /// The rules about pods, as they were in `drain.rules_file` at the start.
    pub pod_rules: Arc<PodRules>,
    /// How notifications are sent; `None`: not at all.
    pub webhook: Option<webhook::Settings>,
    /// Report what would be done, and write nothing to AWS or Kubernetes.
    pub dry_run: bool,
    /// How long after its start Sundown acts on test events that ask for it, 24 h at most. `None`:
    /// never.
    pub accept_real_tests: Option<Duration>,
    /// The log of a trial, `-` for standard output: Sundown records each message there and deletes
    /// it. `None`: no trial.
    pub trial: Option<std::path::PathBuf>,
}

/// SQS queues to receive from and how many messages to hold.
#[derive(Debug, Clone)]
pub struct QueueConfig {
    /// Queues to receive from, without duplicates. Empty only if the configuration is printed and
    /// not run.
    pub urls: Vec<QueueUrl>,
    /// Dead-letter queues whose depth is a metric, without duplicates and without any of `urls`.
    pub dead: Vec<QueueUrl>,
    /// Never delete messages that are not for this cluster, because others receive them too.
    pub shared: bool,
    /// Most concurrent long polls per queue: 1 to 16.
    pub max_pollers: usize,
    /// Most undecided messages to hold at once: 10 to 100 000.
    pub max_held: usize,
}

/// Which hooks, nodes and instances Sundown acts on.
#[derive(Debug, Clone)]
pub struct OursConfig {
    /// Lifecycle hooks that Sundown answers (`--lifecycle-hook`).
    pub hooks: HookGlobs,
    /// Nodes that Sundown drains (`--node-selector`); it never writes to others.
    pub nodes: Selector,
    /// Key of the tag that an instance must carry; `None`: no tag is needed.
    pub managed_tag: Option<String>,
    /// The name of the cluster in the tags `kubernetes.io/cluster/NAME` of instances and groups.
    pub cluster_name: Option<String>,
    /// How long after its launch a running instance may have no Node yet.
    pub join_timeout: Duration,
    /// The pause between two rounds of the sweep, 30 s to 10 min; `None`: there is no sweep.
    pub sweep_interval: Option<Duration>,
}

/// How nodes are drained.
#[allow(clippy::struct_excessive_bools, reason = "settings that do not exclude each other")]
#[derive(Debug, Clone)]
pub struct DrainConfig {
    /// What Sundown does about each kind of interruption.
    pub responses: Responses,
    /// How long a node keeps the taint or cordon of a recommendation that no interruption follows.
    pub rebalance_ttl: Duration,
    /// When the evictions of a drain begin, by kind of interruption.
    pub evict_after: EvictAfterByKind,
    /// How many nodes are drained at once for causes that can wait.
    pub pace: PaceLimits,
    /// When the drain before a scheduled change begins.
    pub changes: ChangeSchedule,
    /// The pause between two searches for scheduled events in EC2. `None`: Sundown does not search.
    pub scheduled_events: Option<Duration>,
    /// What Sundown does about sick instances; `None`: it does not look for them.
    pub impaired: Option<ImpairedConfig>,
    /// How long a drain may take; `None`: max(1 h, the hook's HeartbeatTimeout).
    pub timeout: Option<Duration>,
    /// The longest drain timeout that a hook or a Node may set; `None`: `timeout`.
    pub max_timeout: Option<Duration>,
    /// With which result a terminate hook is completed if pods are left at the deadline, and the
    /// group retains the instance.
    pub hook_result_on_failure: HookResult,
    /// How long before a deadline the pods of the node should be gone.
    pub deadline_margin: Duration,
    /// `deadline_margin` for a deadline that a spot notice sets.
    pub spot_deadline_margin: Duration,
    /// When a pod whose eviction is refused is deleted.
    pub force_after: ForceAfter,
    /// At the deadline of a request for a drain, pods are forced.
    pub requests_may_force: bool,
    /// In which order the pods of a node are evicted.
    pub pod_order: PodOrder,
    /// DaemonSets whose pods are evicted: at most 16.
    pub drained_daemon_sets: Vec<DaemonSetName>,
    /// The file with the administrator's rules about pods. `None`: Sundown has no such rules.
    pub rules_file: Option<PathBuf>,
    /// The keys of other tools by which pods may ask for something, each once.
    pub honored: Vec<WishSource>,
    /// When nodes leave load balancers; `None`: early for spot, capacity and state
    /// changes, late for hooks.
    pub exclude: Option<Exclusion>,
    /// The other handler whose taints and labels Sundown also sets on nodes. `None`: only its own.
    pub compat: Option<Compat>,
    /// Set the condition `DisruptionTarget` of a pod before deleting it despite a refused eviction.
    pub disruption_target: bool,
    /// Set the condition `MaintenancePlanned` of Nodes with a scheduled change.
    pub maintenance_condition: bool,
    /// Set the conditions `DrainInProgress` and `Drained` of Nodes with a drain.
    pub drain_conditions: bool,
    /// What is done with the Nodes of drained instances that are gone.
    pub gone_nodes: GoneNodes,
    /// Which drains wait until the volumes of their pods are detached.
    pub wait_for_volumes: WaitForVolumes,
    /// How long to wait after a drain before completing its lifecycle actions.
    pub complete_delay: Duration,
    /// Shortest time from the cordon to the end of a drain.
    pub min_time: Duration,
    /// `--max-evictions`: most evictions in flight. [`crate::drain::DispatchSettings`] lists which
    /// requests do not count.
    pub max_in_flight: usize,
    /// Most evictions in flight for one PodDisruptionBudget.
    pub max_in_flight_per_budget: usize,
}

/// What Sundown does about sick instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImpairedConfig {
    /// How long an instance must be sick before its drain begins: 2 min to 24 h.
    pub after: Duration,
    /// The most drains that begin within an hour: 1 to 100.
    pub max_an_hour: usize,
    /// After the drain, Auto Scaling is asked to replace the instance (`--then`).
    pub then_unhealthy: bool,
}

impl DrainConfig {
    /// What the flags allow hooks and Nodes to set for their own drains.
    #[must_use]
    pub fn allowed(&self) -> AllowedSettings {
        let most = self.max_timeout.or(self.timeout);
        let default = AllowedSettings::default();
        AllowedSettings {
            longest_drain_timeout: most.unwrap_or(default.longest_drain_timeout),
            earliest_force: self.force_after,
        }
    }
}

/// Leader election, and the node and pod of this process.
#[derive(Debug, Clone)]
pub struct ElectionConfig {
    /// The name of the Lease.
    pub lease_name: String,
    /// The namespace of the Lease.
    pub lease_namespace: String,
    /// Lease duration, renew deadline and retry interval.
    pub lease: election::Settings,
    /// The node that this process runs on; `None`: not known.
    pub node: Option<NodeName>,
    /// The pod that this process runs in; `None`: not known.
    pub pod: Option<PodKey>,
}

/// AWS region and endpoint.
#[derive(Debug, Clone)]
pub struct AwsConfig {
    /// The region of EC2 and Auto Scaling: from the flag, else from the queues' URLs. `None`: from
    /// the environment.
    pub region: Option<String>,
    /// URL to send all AWS calls to; `None`: AWS itself.
    pub endpoint_url: Option<String>,
}

/// Kubeconfig file and context.
#[derive(Debug, Clone)]
pub struct KubeConfig {
    /// The kubeconfig file; `None`: `KUBECONFIG` or `~/.kube/config`, else in-cluster.
    pub kubeconfig: Option<std::path::PathBuf>,
    /// The context in the kubeconfig file; `None`: its current context.
    pub context: Option<String>,
}

/// Logs, metrics, probes, Events on pods, and traces.
#[derive(Debug, Clone)]
pub struct ServiceConfig {
    /// Address of `/metrics`; `None`: not served.
    pub metrics: Option<SocketAddr>,
    /// Address of `/livez` and `/readyz`; `None`: not served.
    pub probes: Option<SocketAddr>,
    /// Which Events are written on pods.
    pub pod_events: PodEvents,
    /// How traces are sent; `None`: not at all.
    pub traces: Option<traces::Settings>,
    /// A level, or tracing's filter directives.
    pub log_level: String,
    /// Format of log lines.
    pub log_format: LogFormat,
}
