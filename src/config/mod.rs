//! Flags and their one table of defaults.
//!
//! A flag is a field of one of the groups in `args`, with its default from [`defaults`]; what is in
//! a [`Config`] has been validated and has the types of `domain`. The page `docs/configuration.md`
//! is generated from the same flags ([`document`]), and a test holds it against them.

mod args;
pub mod defaults;
mod print;
mod published;
#[cfg(test)]
mod tests;
mod validate;
mod values;

use std::{net::SocketAddr, time::Duration};

pub use args::{
    AwsArgs, DrainArgs, ElectionArgs, KubeArgs, LeaseArgs, LogArgs, OursArgs, QueueArgs, RunArgs,
    ServiceArgs, WebhookArgs,
};
pub use print::{derived_default, document, print_config, unknown_variables};
pub use validate::ConfigError;
pub use values::{Listen, PodEvents, QueueUrl, duration_text, parse_duration};

use crate::{
    domain::{Compat, Exclusion, ForceAfter, NodeName, PodKey, Selector},
    election,
    observe::{LogFormat, traces, webhook},
    triage::HookGlobs,
};

/// Everything that a run is told, validated.
#[derive(Debug, Clone)]
pub struct Config {
    /// The queues.
    pub queue: QueueConfig,
    /// What is ours.
    pub ours: OursConfig,
    /// How nodes are drained.
    pub drain: DrainConfig,
    /// Leader election, and who we are.
    pub election: ElectionConfig,
    /// Where AWS is.
    pub aws: AwsConfig,
    /// Where Kubernetes is.
    pub kube: KubeConfig,
    /// Logs, metrics, events.
    pub service: ServiceConfig,
    /// How notifications are sent; `None`: not at all.
    pub webhook: Option<webhook::Settings>,
    /// Say what would be done, write nothing.
    pub dry_run: bool,
    /// For how long from the start test events that ask for it are acted on.
    pub accept_real_tests: Option<Duration>,
    /// The log of a trial, `-` for standard output: what comes is recorded there and deleted.
    /// `None`: no trial.
    pub trial: Option<std::path::PathBuf>,
}

/// The queues.
#[derive(Debug, Clone)]
pub struct QueueConfig {
    /// At least one, but where the configuration is only printed; no two alike.
    pub urls: Vec<QueueUrl>,
    /// Dead-letter queues whose depth is told; none of `urls`, no two alike.
    pub dead: Vec<QueueUrl>,
    /// Messages that are not for us are left to others.
    pub shared: bool,
    /// Concurrent long polls per queue, at most: 1 to 16.
    pub max_pollers: usize,
    /// Undecided messages held, at most.
    pub max_held: usize,
}

/// What is ours.
#[derive(Debug, Clone)]
pub struct OursConfig {
    /// Which lifecycle hooks.
    pub hooks: HookGlobs,
    /// Which nodes.
    pub nodes: Selector,
    /// The tag that an instance must carry.
    pub managed_tag: Option<String>,
    /// The name under which instances and groups are tagged `kubernetes.io/cluster/NAME`.
    pub cluster_name: Option<String>,
    /// How long an instance that runs may have no Node, from its launch.
    pub join_timeout: Duration,
}

/// How nodes are drained.
#[derive(Debug, Clone)]
pub struct DrainConfig {
    /// How long a drain may take; `None`: max(1 h, the hook's HeartbeatTimeout).
    pub timeout: Option<Duration>,
    /// How long before a deadline its drain is over.
    pub deadline_margin: Duration,
    /// The same for spot notices.
    pub spot_deadline_margin: Duration,
    /// When a pod that a budget holds is deleted.
    pub force_after: ForceAfter,
    /// When nodes leave load balancers; `None`: early for spot and ending states, late for hooks.
    pub exclude: Option<Exclusion>,
    /// What tools know another handler by is written too.
    pub compat: Option<Compat>,
    /// A pod gets the condition `DisruptionTarget` before it is deleted against its budget.
    pub disruption_target: bool,
    /// The wait between the end of a drain and the completion of its hooks.
    pub complete_delay: Duration,
    /// How long a drain lasts at least, from the cordon.
    pub min_time: Duration,
    /// `--max-evictions`: evictions in flight, at most; see [`crate::drain::DispatchSettings`] for
    /// what does not count.
    pub max_in_flight: usize,
    /// Evictions in flight for one budget, at most.
    pub max_in_flight_per_budget: usize,
}

/// Leader election, and who we are.
#[derive(Debug, Clone)]
pub struct ElectionConfig {
    /// The name of the Lease.
    pub lease_name: String,
    /// Its namespace.
    pub lease_namespace: String,
    /// The timing.
    pub lease: election::Settings,
    /// The node that this process runs on.
    pub node: Option<NodeName>,
    /// The pod that this process runs in.
    pub pod: Option<PodKey>,
}

/// Where AWS is.
#[derive(Debug, Clone)]
pub struct AwsConfig {
    /// The region of EC2 and Auto Scaling: the flag, else the one that the queues' URLs name;
    /// `None`: the environment's.
    pub region: Option<String>,
    /// Where all AWS calls go instead of AWS.
    pub endpoint_url: Option<String>,
}

/// Where Kubernetes is.
#[derive(Debug, Clone)]
pub struct KubeConfig {
    /// The kubeconfig file; `None`: the ambient one, else in-cluster.
    pub kubeconfig: Option<std::path::PathBuf>,
    /// Its context.
    pub context: Option<String>,
}

/// Logs, metrics, events.
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
    /// The log filter.
    pub log_level: String,
    /// How log lines look.
    pub log_format: LogFormat,
}
