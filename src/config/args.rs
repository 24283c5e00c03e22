//! The flags. The doc comment of a field is its help text and its row in
//! `docs/configuration.md`. Each flag has a `SUNDOWN_*` variable.

mod drain;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{ArgMatches, Args, Command, FromArgMatches as _, builder::Resettable};

pub use self::drain::DrainArgs;
use super::{
    defaults as d,
    values::{Listen, PodEvents, QueueUrl, parse_count, parse_duration, parse_switch},
};
use crate::{
    domain::{DaemonSetName, HookResult, Selector},
    observe::{LogFormat, webhook::On},
};

/// The flags of `sundown run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// SQS queues to receive from and how many messages to hold.
    #[command(flatten)]
    pub queue: QueueArgs,
    /// Which hooks, nodes and instances Sundown acts on.
    #[command(flatten)]
    pub ours: OursArgs,
    /// What a launch hook waits for.
    #[command(flatten)]
    pub launch: LaunchArgs,
    /// How nodes are drained.
    #[command(flatten)]
    pub drain: DrainArgs,
    /// Name and namespace of the leader election Lease.
    #[command(flatten)]
    pub lease: LeaseArgs,
    /// Election timing, and this process's node and pod.
    #[command(flatten)]
    pub election: ElectionArgs,
    /// AWS region and endpoint.
    #[command(flatten)]
    pub aws: AwsArgs,
    /// Kubeconfig file and context.
    #[command(flatten)]
    pub kube: KubeArgs,
    /// Metrics, probes, Events on pods, and traces.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Log filter and format.
    #[command(flatten)]
    pub log: LogArgs,
    /// Notifications by webhook.
    #[command(flatten)]
    pub webhook: WebhookArgs,
    /// Report once for each event what would be done, and write nothing to AWS or Kubernetes. Needs
    /// a queue of its own: messages stay in it and are received again and again. Takes no Lease
    #[arg(long, env = "SUNDOWN_DRY_RUN", value_parser = parse_switch, help_heading = "Trying it")]
    pub dry_run: bool,
    /// How long after its start Sundown acts on test events that ask for it (`sundown send-test
    /// --real`), 24h at most. Without this flag, and afterwards, Sundown only reports what it would
    /// do about a test event
    #[arg(
        long,
        env = "SUNDOWN_ACCEPT_REAL_TESTS",
        value_name = "DURATION",
        value_parser = parse_duration,
        help_heading = "Trying it",
    )]
    pub accept_real_tests: Option<Duration>,
    /// With `--dry-run`: record each message and what would be done about it in `--trial-log`, then
    /// delete the message, so that each event is reported once. Needs a queue made for the trial
    /// alone, whose name ends with `-trial` and which has no dead-letter queue; refuses any other
    #[arg(long, env = "SUNDOWN_TRIAL", value_parser = parse_switch, help_heading = "Trying it")]
    pub trial: bool,
    /// File to which a trial appends one JSON object per line, for `sundown trial-report`; `-` is
    /// standard output
    #[arg(
        long,
        env = "SUNDOWN_TRIAL_LOG",
        value_name = "FILE",
        default_value = d::TRIAL_LOG,
        help_heading = "Trying it",
    )]
    pub trial_log: PathBuf,
    /// Print every flag with its value, variable and default, then the unknown `SUNDOWN_*`
    /// variables, and exit. Needs no queue
    #[arg(
        long,
        env = "SUNDOWN_PRINT_CONFIG",
        value_parser = parse_switch,
        help_heading = "Trying it",
    )]
    pub print_config: bool,
}

impl RunArgs {
    /// Parses flags and ignores environment variables, so that a simulation does not depend on
    /// them. Errs when clap refuses a flag.
    pub fn from_flags(
        flags: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, clap::Error> {
        Self::from_arg_matches(&matches(flags)?)
    }
}

pub(super) fn matches(
    flags: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<ArgMatches, clap::Error> {
    let command = RunArgs::augment_args(Command::new("run").no_binary_name(true));
    command.mut_args(|arg| arg.env(Resettable::Reset)).try_get_matches_from(flags)
}

/// The flags under "Queues": SQS queues to receive from and how many messages to hold.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Queues")]
pub struct QueueArgs {
    /// URL of an SQS queue to receive from; repeatable (in the variable: separated by commas). One
    /// queue belongs to one cluster
    #[arg(long, env = "SUNDOWN_QUEUE_URL", value_name = "URL", value_delimiter = ',')]
    pub queue_url: Vec<QueueUrl>,
    /// URL of a dead-letter queue whose depth is reported as a metric (`sundown_dlq_messages`);
    /// repeatable (in the variable: separated by commas). Sundown receives nothing from it
    #[arg(long, env = "SUNDOWN_DLQ_URL", value_name = "URL", value_delimiter = ',')]
    pub dlq_url: Vec<QueueUrl>,
    /// Never delete a message that is not for this cluster, because other clusters receive from the
    /// same queues
    #[arg(long, env = "SUNDOWN_SHARED_QUEUE", value_parser = parse_switch)]
    pub shared_queue: bool,
    /// Most concurrent long polls per queue: 1 to 16. Sundown makes only as many as the queue keeps
    /// busy
    #[arg(
        long,
        env = "SUNDOWN_MAX_POLLERS",
        value_name = "N",
        default_value = d::MAX_POLLERS,
        value_parser = parse_count,
    )]
    pub max_pollers: usize,
    /// Most undecided messages to hold at once. When all places are taken, Sundown stops holding
    /// the oldest messages without a hook (undecided for 10 s or more); they reappear in the queue by
    /// themselves. Without such messages, it receives nothing until a place is free
    #[arg(
        long,
        env = "SUNDOWN_MAX_HELD",
        value_name = "N",
        default_value = d::MAX_HELD,
        value_parser = parse_count,
    )]
    pub max_held: usize,
}

/// The flags under "Hooks, nodes and instances": which of them Sundown acts on.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Hooks, nodes and instances")]
pub struct OursArgs {
    /// Name of a lifecycle hook that Sundown answers, with the wildcards * and ?; repeatable (in
    /// the variable: separated by commas). With the default `*`, Sundown decides for each group and
    /// transition: if hooks there have names that start with `sundown`, it answers those alone,
    /// else all but EKS's. It answers EKS's own `Terminate-LC-Hook` and `Launch-LC-Hook` only if
    /// they are named here in full. A launch hook that matches a name or pattern other than `*`
    /// gets CONTINUE, whatever the tags of its group are
    #[arg(
        long,
        env = "SUNDOWN_LIFECYCLE_HOOK",
        value_name = "GLOB",
        value_delimiter = ',',
        default_value = d::LIFECYCLE_HOOK,
    )]
    pub lifecycle_hook: Vec<String>,
    /// Label selector of the nodes to drain; Sundown never writes to others. The default leaves out
    /// the nodes of Karpenter and of EKS Auto Mode; `kubernetes.io/os` selects every node
    #[arg(
        long,
        env = "SUNDOWN_NODE_SELECTOR",
        value_name = "SELECTOR",
        default_value = d::NODE_SELECTOR,
    )]
    pub node_selector: Selector,
    /// Act only on instances that carry a tag with this key
    #[arg(long, env = "SUNDOWN_MANAGED_TAG", value_name = "KEY")]
    pub managed_tag: Option<String>,
    /// Name of the cluster in the tags `kubernetes.io/cluster/NAME` of instances and groups.
    /// Without it, Sundown sends no heartbeat and no completion for an instance that has no Node
    #[arg(long, env = "SUNDOWN_CLUSTER_NAME", value_name = "NAME")]
    pub cluster_name: Option<String>,
    /// How long after the launch of an instance Sundown waits for its Node
    #[arg(
        long,
        env = "SUNDOWN_JOIN_TIMEOUT",
        value_name = "DURATION",
        default_value = d::JOIN_TIMEOUT,
        value_parser = parse_duration,
    )]
    pub join_timeout: Duration,
    /// How often the leader asks Auto Scaling for instances that wait in a lifecycle hook although
    /// no event of it has arrived, 30s to 10m; 0s: never. Needs `--cluster-name`
    #[arg(
        long,
        env = "SUNDOWN_SWEEP_INTERVAL",
        value_name = "DURATION",
        default_value = d::SWEEP_INTERVAL,
        value_parser = parse_duration,
    )]
    pub sweep_interval: Duration,
}

/// The flags under "Launch hooks": what a new instance must have before its hook is completed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Launch hooks")]
pub struct LaunchArgs {
    /// How long an instance may wait in its launch hook for its node to be ready, counted from the
    /// event, 30s to 11h. For a launch into a warm pool without a node: 5m at most
    #[arg(
        long,
        env = "SUNDOWN_LAUNCH_TIMEOUT",
        value_name = "DURATION",
        default_value = d::LAUNCH_TIMEOUT,
        value_parser = parse_duration,
    )]
    pub launch_timeout: Duration,
    /// Result with which Sundown completes a launch hook if the node is not ready after
    /// `--launch-timeout`: `continue` (the instance goes into service) or `abandon` (Auto Scaling
    /// terminates it, and launches another)
    #[arg(
        long,
        env = "SUNDOWN_LAUNCH_ON_TIMEOUT",
        value_name = "RESULT",
        default_value = d::LAUNCH_ON_TIMEOUT,
        value_enum,
    )]
    pub launch_on_timeout: HookResult,
    /// DaemonSet that must have a Ready pod on the node before its launch hook is completed,
    /// NAMESPACE/NAME; repeatable, at most 16 (in the variable: separated by commas)
    #[arg(
        long,
        env = "SUNDOWN_LAUNCH_DAEMONSET",
        value_name = "NAMESPACE/NAME",
        value_delimiter = ','
    )]
    pub launch_daemonset: Vec<DaemonSetName>,
    /// Key of a startup taint that must be gone from the node before its launch hook is completed;
    /// repeatable, at most 16 (in the variable: separated by commas)
    #[arg(long, env = "SUNDOWN_LAUNCH_STARTUP_TAINT", value_name = "KEY", value_delimiter = ',')]
    pub launch_startup_taint: Vec<String>,
}

/// The flags that name the Lease.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Leader election")]
pub struct LeaseArgs {
    /// Name of the Lease
    #[arg(long, env = "SUNDOWN_LEASE_NAME", value_name = "NAME", default_value = d::LEASE_NAME)]
    pub lease_name: String,
    /// Namespace of the Lease
    #[arg(long, env = "SUNDOWN_LEASE_NAMESPACE", value_name = "NAMESPACE")]
    pub lease_namespace: Option<String>,
}

/// Election timing, and the node and pod of this process.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Leader election")]
pub struct ElectionArgs {
    /// How long after a leader's last renewal another replica may take the Lease. Whole seconds
    #[arg(
        long,
        env = "SUNDOWN_LEASE_DURATION",
        value_name = "DURATION",
        default_value = d::LEASE_DURATION,
        value_parser = parse_duration,
    )]
    pub lease_duration: Duration,
    /// How long after its last renewal a leader keeps leading
    #[arg(
        long,
        env = "SUNDOWN_LEASE_RENEW_DEADLINE",
        value_name = "DURATION",
        default_value = d::LEASE_RENEW_DEADLINE,
        value_parser = parse_duration,
    )]
    pub lease_renew_deadline: Duration,
    /// Interval between renewals, and between the reads of a standby
    #[arg(
        long,
        env = "SUNDOWN_LEASE_RETRY",
        value_name = "DURATION",
        default_value = d::LEASE_RETRY,
        value_parser = parse_duration,
    )]
    pub lease_retry: Duration,
    /// The node that this process runs on: while it drains, another replica leads
    #[arg(long, env = "SUNDOWN_NODE_NAME", value_name = "NAME")]
    pub node_name: Option<String>,
    /// The pod that this process runs in: evicted last
    #[arg(long, env = "SUNDOWN_POD_NAME", value_name = "NAME")]
    pub pod_name: Option<String>,
    /// The namespace of that pod
    #[arg(long, env = "SUNDOWN_POD_NAMESPACE", value_name = "NAMESPACE")]
    pub pod_namespace: Option<String>,
}

/// The flags under "AWS".
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "AWS")]
pub struct AwsArgs {
    /// Region of EC2 and Auto Scaling
    #[arg(long, env = "SUNDOWN_REGION", value_name = "REGION")]
    pub region: Option<String>,
    /// Send all AWS calls to this URL instead of AWS
    #[arg(long, env = "SUNDOWN_AWS_ENDPOINT_URL", value_name = "URL")]
    pub aws_endpoint_url: Option<String>,
}

/// The flags under "Kubernetes".
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Kubernetes")]
pub struct KubeArgs {
    /// Kubeconfig file
    #[arg(long, env = "SUNDOWN_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig file
    #[arg(long, env = "SUNDOWN_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,
}

/// The addresses to serve on, Events on pods, and traces.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Observing it")]
pub struct ServiceArgs {
    /// Address of `/metrics`, or `off`
    #[arg(
        long,
        env = "SUNDOWN_METRICS_LISTEN",
        value_name = "ADDRESS",
        default_value = d::METRICS_LISTEN,
    )]
    pub metrics_listen: Listen,
    /// Address of `/livez` and `/readyz`, or `off`
    #[arg(
        long,
        env = "SUNDOWN_PROBE_LISTEN",
        value_name = "ADDRESS",
        default_value = d::PROBE_LISTEN,
    )]
    pub probe_listen: Listen,
    /// Which Events to write on pods: `notable` (blocked for more than 30 s, or forced) or `all`
    /// (every eviction)
    #[arg(
        long,
        env = "SUNDOWN_POD_EVENTS",
        value_name = "WHICH",
        default_value = d::POD_EVENTS,
        value_enum,
    )]
    pub pod_events: PodEvents,
    /// URL of a collector that gets a trace of each drain, by OTLP over HTTP (such as
    /// http://collector:4318; `/v1/traces` is appended)
    #[arg(long, env = "SUNDOWN_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
    /// File with more headers for the collector, one `Name: value` per line, such as a mounted
    /// Secret; read again for every request
    #[arg(long, env = "SUNDOWN_OTLP_HEADERS_FILE", value_name = "FILE")]
    pub otlp_headers_file: Option<PathBuf>,
}

/// Log filter and format.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Observing it")]
pub struct LogArgs {
    /// What to log: a level, or tracing's filter directives (`info,sundown::drain=trace`)
    #[arg(long, env = "SUNDOWN_LOG", value_name = "FILTER", default_value = d::LOG_LEVEL)]
    pub log_level: String,
    /// Format of log lines: `auto` (pretty on a terminal, else JSON), `pretty` or `json`
    #[arg(
        long,
        env = "SUNDOWN_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = d::LOG_FORMAT,
        value_enum,
    )]
    pub log_format: LogFormat,
}

/// The flags under "Notifications".
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Notifications")]
pub struct WebhookArgs {
    /// URL to post notifications to, such as Slack's (docs/notifications.md). It is a secret: set
    /// the variable from a Secret
    #[arg(long, env = "SUNDOWN_WEBHOOK_URL", value_name = "URL", hide_env_values = true)]
    pub webhook_url: Option<String>,
    /// When to notify: `accepted` (Sundown accepts an interruption), `ended` (a drain is over), or
    /// both, separated by a comma
    #[arg(
        long,
        env = "SUNDOWN_WEBHOOK_ON",
        value_name = "WHICH",
        value_delimiter = ',',
        default_value = d::WEBHOOK_ON,
    )]
    pub webhook_on: Vec<On>,
    /// Template of a notification: JSON with names inside its strings, such as
    /// `{"text":"{{ summary }}"}`
    #[arg(long, env = "SUNDOWN_WEBHOOK_TEMPLATE", value_name = "TEXT")]
    pub webhook_template: Option<String>,
    /// File with the template of a notification
    #[arg(long, env = "SUNDOWN_WEBHOOK_TEMPLATE_FILE", value_name = "FILE")]
    pub webhook_template_file: Option<PathBuf>,
    /// File with more headers, one `Name: value` per line, such as a mounted Secret; read again for
    /// every notification
    #[arg(long, env = "SUNDOWN_WEBHOOK_HEADERS_FILE", value_name = "FILE")]
    pub webhook_headers_file: Option<PathBuf>,
    /// Proxy for notifications
    #[arg(long, env = "SUNDOWN_WEBHOOK_PROXY", value_name = "URL", hide_env_values = true)]
    pub webhook_proxy: Option<String>,
}
