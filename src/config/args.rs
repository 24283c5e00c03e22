//! The flags. The doc comment of a field is its help and its row in the documentation; every one
//! has a `SUNDOWN_*` variable.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{ArgMatches, Args, Command, FromArgMatches as _, builder::Resettable};

use super::{
    defaults as d,
    values::{Listen, PodEvents, QueueUrl, parse_count, parse_duration, parse_switch},
};
use crate::{
    domain::{Compat, Exclusion, ForceAfter, Selector},
    observe::{LogFormat, webhook::On},
};

/// The flags of `sundown run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// The queues.
    #[command(flatten)]
    pub queue: QueueArgs,
    /// What is ours.
    #[command(flatten)]
    pub ours: OursArgs,
    /// How nodes are drained.
    #[command(flatten)]
    pub drain: DrainArgs,
    /// Which Lease.
    #[command(flatten)]
    pub lease: LeaseArgs,
    /// Election timing, and who we are.
    #[command(flatten)]
    pub election: ElectionArgs,
    /// Where AWS is.
    #[command(flatten)]
    pub aws: AwsArgs,
    /// Where Kubernetes is.
    #[command(flatten)]
    pub kube: KubeArgs,
    /// Metrics and events.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Logs.
    #[command(flatten)]
    pub log: LogArgs,
    /// Notifications.
    #[command(flatten)]
    pub webhook: WebhookArgs,
    /// Say once for each event what would be done, and write nothing to AWS or Kubernetes. Needs a
    /// queue of its own: messages reappear by themselves and are received again and again. Takes no
    /// Lease
    #[arg(long, env = "SUNDOWN_DRY_RUN", value_parser = parse_switch, help_heading = "Trying it")]
    pub dry_run: bool,
    /// For how long from the start test events that ask for it (`sundown send-test --real`) are
    /// acted on, 24h at most. Otherwise, and afterwards, it is only told what would be done about a
    /// test event
    #[arg(
        long,
        env = "SUNDOWN_ACCEPT_REAL_TESTS",
        value_name = "DURATION",
        value_parser = parse_duration,
        help_heading = "Trying it",
    )]
    pub accept_real_tests: Option<Duration>,
    /// With `--dry-run`: record what comes and what would be done with it in `--trial-log`, and
    /// delete it, so that each event is told once. Takes a queue made for that alone, whose name
    /// ends with `-trial` and which has no dead-letter queue; refuses any other
    #[arg(long, env = "SUNDOWN_TRIAL", value_parser = parse_switch, help_heading = "Trying it")]
    pub trial: bool,
    /// File to which a trial appends, one JSON object a line, for `sundown trial-report`; `-` is
    /// standard output
    #[arg(
        long,
        env = "SUNDOWN_TRIAL_LOG",
        value_name = "FILE",
        default_value = d::TRIAL_LOG,
        help_heading = "Trying it",
    )]
    pub trial_log: PathBuf,
    /// Print every flag with its value, its variable and its default, then the variables that no
    /// flag has, and exit. Needs no queue
    #[arg(
        long,
        env = "SUNDOWN_PRINT_CONFIG",
        value_parser = parse_switch,
        help_heading = "Trying it",
    )]
    pub print_config: bool,
}

impl RunArgs {
    /// Of flags alone, whatever the environment's variables say: for a simulation, which must not
    /// depend on them.
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

/// The queues.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Queues")]
pub struct QueueArgs {
    /// URL of an SQS queue to receive from; repeatable (in the variable: separated by commas). One
    /// queue belongs to one cluster
    #[arg(long, env = "SUNDOWN_QUEUE_URL", value_name = "URL", value_delimiter = ',')]
    pub queue_url: Vec<QueueUrl>,
    /// URL of a dead-letter queue whose depth is told as a metric (`sundown_dlq_messages`);
    /// repeatable (in the variable: separated by commas). Nothing is received from it
    #[arg(long, env = "SUNDOWN_DLQ_URL", value_name = "URL", value_delimiter = ',')]
    pub dlq_url: Vec<QueueUrl>,
    /// Never delete a message that is not for this cluster: other clusters receive from the queues
    /// too
    #[arg(long, env = "SUNDOWN_SHARED_QUEUE", value_parser = parse_switch)]
    pub shared_queue: bool,
    /// Concurrent long polls per queue, at most: 1 to 16. As many are made as the queue keeps busy
    #[arg(
        long,
        env = "SUNDOWN_MAX_POLLERS",
        value_name = "N",
        default_value = d::MAX_POLLERS,
        value_parser = parse_count,
    )]
    pub max_pollers: usize,
    /// Messages held at once while they are undecided, at most; receiving stops there
    #[arg(
        long,
        env = "SUNDOWN_MAX_HELD",
        value_name = "N",
        default_value = d::MAX_HELD,
        value_parser = parse_count,
    )]
    pub max_held: usize,
}

/// What is ours.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Ours or not")]
pub struct OursArgs {
    /// Name of a lifecycle hook that is ours, with the wildcards * and ?; repeatable (in the
    /// variable: separated by commas). The default `*` goes by the hooks of each group and by
    /// transition: where a name starts with `sundown`, those hooks alone are ours, else all but
    /// EKS's. EKS's own `Terminate-LC-Hook` and `Launch-LC-Hook` are ours only where they are named
    /// in full. Launch hooks matched by an explicit one (`*` alone is none) are answered CONTINUE
    /// whatever their group's tags say
    #[arg(
        long,
        env = "SUNDOWN_LIFECYCLE_HOOK",
        value_name = "GLOB",
        value_delimiter = ',',
        default_value = d::LIFECYCLE_HOOK,
    )]
    pub lifecycle_hook: Vec<String>,
    /// Label selector of the nodes that are ours to drain; others are never written to. The default
    /// leaves those of Karpenter and of EKS Auto Mode alone; `kubernetes.io/os` is every node
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
    /// Without it nothing is completed or kept alive for an instance that has no Node
    #[arg(long, env = "SUNDOWN_CLUSTER_NAME", value_name = "NAME")]
    pub cluster_name: Option<String>,
    /// How long after its launch a running instance may still get its Node
    #[arg(
        long,
        env = "SUNDOWN_JOIN_TIMEOUT",
        value_name = "DURATION",
        default_value = d::JOIN_TIMEOUT,
        value_parser = parse_duration,
    )]
    pub join_timeout: Duration,
}

/// How nodes are drained.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Drain")]
pub struct DrainArgs {
    /// How long a drain under a lifecycle hook may take
    #[arg(
        long,
        env = "SUNDOWN_DRAIN_TIMEOUT",
        value_name = "DURATION",
        value_parser = parse_duration,
    )]
    pub drain_timeout: Option<Duration>,
    /// How long before its deadline the pods of a node are to be gone: they are forced towards that
    /// moment, and the drain waits for them until the deadline itself, less 2 s. Never more than
    /// half of the time there is (30 s where an instance is stopped)
    #[arg(
        long,
        env = "SUNDOWN_DEADLINE_MARGIN",
        value_name = "DURATION",
        default_value = d::DEADLINE_MARGIN,
        value_parser = parse_duration,
    )]
    pub deadline_margin: Duration,
    /// The same where a spot notice sets the deadline
    #[arg(
        long,
        env = "SUNDOWN_SPOT_DEADLINE_MARGIN",
        value_name = "DURATION",
        default_value = d::SPOT_DEADLINE_MARGIN,
        value_parser = parse_duration,
    )]
    pub spot_deadline_margin: Duration,
    /// When a pod whose eviction is refused is deleted: `never`, `deadline` (not before its last
    /// second, which is all the time that the pod has then), or a share of the time to the
    /// deadline, 0 to 1: as late as the pod's own grace period allows, but not before this share is
    /// over
    #[arg(long, env = "SUNDOWN_FORCE_AFTER", value_name = "WHEN", default_value = d::FORCE_AFTER)]
    pub force_after: ForceAfter,
    /// Set the condition `DisruptionTarget` of a pod before it is deleted although its eviction is
    /// refused, so that the pod failure policy of a Job does not count a failure. Needs the right
    /// to patch `pods/status`. The delete follows within 1 s, whatever the answer is
    #[arg(long, env = "SUNDOWN_DISRUPTION_TARGET", value_parser = parse_switch)]
    pub disruption_target: bool,
    /// When a node leaves load balancers (label
    /// `node.kubernetes.io/exclude-from-external-load-balancers`): with the accept, when its last
    /// pod is going, or not at all
    #[arg(long, env = "SUNDOWN_EXCLUDE_FROM_LOAD_BALANCERS", value_name = "WHEN", value_enum)]
    pub exclude_from_load_balancers: Option<Exclusion>,
    /// Also write what tools know another handler by: `nth` writes the taints of
    /// aws-node-termination-handler beside ours, and its value of the load balancer label. They are
    /// taken away with ours
    #[arg(long, env = "SUNDOWN_COMPAT", value_name = "HANDLER")]
    pub compat: Option<Compat>,
    /// How long to wait after a drain before its lifecycle actions are completed, for those who
    /// ship logs
    #[arg(
        long,
        env = "SUNDOWN_COMPLETE_DELAY",
        value_name = "DURATION",
        default_value = d::COMPLETE_DELAY,
        value_parser = parse_duration,
    )]
    pub complete_delay: Duration,
    /// How long a drain lasts at least, from the cordon, so that what was just scheduled is seen
    #[arg(
        long,
        env = "SUNDOWN_MIN_DRAIN_TIME",
        value_name = "DURATION",
        default_value = d::MIN_DRAIN_TIME,
        value_parser = parse_duration,
    )]
    pub min_drain_time: Duration,
    /// Evictions in flight over all drains, at most, and a quarter more for deletes. Those that an
    /// admission webhook does not answer do not count: at most as many again
    #[arg(
        long,
        env = "SUNDOWN_MAX_EVICTIONS",
        value_name = "N",
        default_value = d::MAX_EVICTIONS,
        value_parser = parse_count,
    )]
    pub max_evictions: usize,
    /// Evictions in flight for one disruption budget, at most
    #[arg(
        long,
        env = "SUNDOWN_MAX_EVICTIONS_PER_BUDGET",
        value_name = "N",
        default_value = d::MAX_EVICTIONS_PER_BUDGET,
        value_parser = parse_count,
    )]
    pub max_evictions_per_budget: usize,
}

/// Which Lease.
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

/// Election timing, and who we are.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Leader election")]
pub struct ElectionArgs {
    /// How long after the last sign of life of a leader another may follow it. Whole seconds
    #[arg(
        long,
        env = "SUNDOWN_LEASE_DURATION",
        value_name = "DURATION",
        default_value = d::LEASE_DURATION,
        value_parser = parse_duration,
    )]
    pub lease_duration: Duration,
    /// How long after its last renewal a leader goes on
    #[arg(
        long,
        env = "SUNDOWN_LEASE_RENEW_DEADLINE",
        value_name = "DURATION",
        default_value = d::LEASE_RENEW_DEADLINE,
        value_parser = parse_duration,
    )]
    pub lease_renew_deadline: Duration,
    /// The pause between renewals, and between the reads of a standby
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

/// Where AWS is.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "AWS")]
pub struct AwsArgs {
    /// Region of EC2 and Auto Scaling
    #[arg(long, env = "SUNDOWN_REGION", value_name = "REGION")]
    pub region: Option<String>,
    /// Send all AWS calls there instead of to AWS
    #[arg(long, env = "SUNDOWN_AWS_ENDPOINT_URL", value_name = "URL")]
    pub aws_endpoint_url: Option<String>,
}

/// Where Kubernetes is.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Kubernetes")]
pub struct KubeArgs {
    /// Kubeconfig file
    #[arg(long, env = "SUNDOWN_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context in it
    #[arg(long, env = "SUNDOWN_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,
}

/// Metrics and events.
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
    /// Which Events are written on pods: `notable` (blocked for more than 30 s, or forced) or `all`
    /// (every eviction)
    #[arg(
        long,
        env = "SUNDOWN_POD_EVENTS",
        value_name = "WHICH",
        default_value = d::POD_EVENTS,
        value_enum,
    )]
    pub pod_events: PodEvents,
    /// URL of a collector to which a trace of each drain is sent, by OTLP over HTTP (such as
    /// http://collector:4318; `/v1/traces` is appended)
    #[arg(long, env = "SUNDOWN_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
    /// File with more headers for it, one `Name: value` a line, as a Secret is mounted; read anew
    /// for every request
    #[arg(long, env = "SUNDOWN_OTLP_HEADERS_FILE", value_name = "FILE")]
    pub otlp_headers_file: Option<PathBuf>,
}

/// Logs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Observing it")]
pub struct LogArgs {
    /// What is logged: a level, or tracing's filter directives (`info,sundown::drain=trace`)
    #[arg(long, env = "SUNDOWN_LOG", value_name = "FILTER", default_value = d::LOG_LEVEL)]
    pub log_level: String,
    /// How log lines look: `auto` (pretty on a terminal, else JSON), `pretty` or `json`
    #[arg(
        long,
        env = "SUNDOWN_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = d::LOG_FORMAT,
        value_enum,
    )]
    pub log_format: LogFormat,
}

/// Notifications.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Notifications")]
pub struct WebhookArgs {
    /// URL to which notifications are posted, as Slack and others take them
    /// (docs/notifications.md). It is a secret: give the variable from one
    #[arg(long, env = "SUNDOWN_WEBHOOK_URL", value_name = "URL", hide_env_values = true)]
    pub webhook_url: Option<String>,
    /// What is told: `accepted` (an interruption is taken on), `ended` (a drain is over), or both,
    /// separated by a comma
    #[arg(
        long,
        env = "SUNDOWN_WEBHOOK_ON",
        value_name = "WHICH",
        value_delimiter = ',',
        default_value = d::WEBHOOK_ON,
    )]
    pub webhook_on: Vec<On>,
    /// What a notification says: JSON or text with names in braces, such as `{{ summary }}`
    #[arg(long, env = "SUNDOWN_WEBHOOK_TEMPLATE", value_name = "TEXT")]
    pub webhook_template: Option<String>,
    /// The same, from a file
    #[arg(long, env = "SUNDOWN_WEBHOOK_TEMPLATE_FILE", value_name = "FILE")]
    pub webhook_template_file: Option<PathBuf>,
    /// File with more headers, one `Name: value` a line, as a Secret is mounted; read anew for
    /// every notification
    #[arg(long, env = "SUNDOWN_WEBHOOK_HEADERS_FILE", value_name = "FILE")]
    pub webhook_headers_file: Option<PathBuf>,
    /// Proxy for notifications
    #[arg(long, env = "SUNDOWN_WEBHOOK_PROXY", value_name = "URL", hide_env_values = true)]
    pub webhook_proxy: Option<String>,
}
