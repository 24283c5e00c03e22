//! The only table of flag defaults, as they are written on the command line.

/// `--max-pollers`.
pub const MAX_POLLERS: &str = "16";
/// `--max-held`.
pub const MAX_HELD: &str = "10000";
/// `--lifecycle-hook`: no hook is named, so the hooks of each group decide.
pub const LIFECYCLE_HOOK: &str = "*";
/// `--node-selector`: Karpenter and EKS Auto Mode drain their own nodes.
pub const NODE_SELECTOR: &str = "!karpenter.sh/nodepool,eks.amazonaws.com/compute-type!=auto";
/// `--join-timeout`.
pub const JOIN_TIMEOUT: &str = "5m";
/// `--launch-timeout`.
pub const LAUNCH_TIMEOUT: &str = "5m";
/// `--launch-on-timeout`.
pub const LAUNCH_ON_TIMEOUT: &str = "continue";
/// `--sweep-interval`.
pub const SWEEP_INTERVAL: &str = "1m";
/// `--rebalance-ttl`.
pub const REBALANCE_TTL: &str = "1h";
/// `--hook-result-on-failure`.
pub const HOOK_RESULT_ON_FAILURE: &str = "continue";
/// `--scheduled-lead`.
pub const SCHEDULED_LEAD: &str = "1h";
/// `--scheduled-event-interval`.
pub const SCHEDULED_EVENT_INTERVAL: &str = "5m";
/// `--impaired-after`.
pub const IMPAIRED_AFTER: &str = "10m";
/// `--max-impaired`.
pub const MAX_IMPAIRED: &str = "3";
/// `--deadline-margin`.
pub const DEADLINE_MARGIN: &str = "5s";
/// `--spot-deadline-margin`.
pub const SPOT_DEADLINE_MARGIN: &str = "10s";
/// `--force-after`.
pub const FORCE_AFTER: &str = "0.5";
/// `--pod-order`.
pub const POD_ORDER: &str = "critical-last";
/// `--wait-for-volumes`.
pub const WAIT_FOR_VOLUMES: &str = "hooks";
/// `--complete-delay`.
pub const COMPLETE_DELAY: &str = "0s";
/// `--min-drain-time`.
pub const MIN_DRAIN_TIME: &str = "5s";
/// `--max-evictions`.
pub const MAX_EVICTIONS: &str = "32";
/// `--max-evictions-per-budget`.
pub const MAX_EVICTIONS_PER_BUDGET: &str = "8";
/// `--lease-name`.
pub const LEASE_NAME: &str = "sundown";
/// `--lease-namespace`, if `POD_NAMESPACE` is not set.
pub const LEASE_NAMESPACE: &str = "kube-system";
/// `--lease-duration`.
pub const LEASE_DURATION: &str = "15s";
/// `--lease-renew-deadline`.
pub const LEASE_RENEW_DEADLINE: &str = "10s";
/// `--lease-retry`.
pub const LEASE_RETRY: &str = "2s";
/// `--metrics-listen`.
pub const METRICS_LISTEN: &str = "0.0.0.0:9808";
/// `--probe-listen`.
pub const PROBE_LISTEN: &str = "0.0.0.0:9809";
/// `--pod-events`.
pub const POD_EVENTS: &str = "notable";
/// `--log-level`.
pub const LOG_LEVEL: &str = "info";
/// `--log-format`.
pub const LOG_FORMAT: &str = "auto";

/// `--trial-log`.
pub const TRIAL_LOG: &str = "-";
/// `--webhook-on`.
pub const WEBHOOK_ON: &str = "ended";

/// Flags whose default is derived at run time, each with the text that the documentation shows.
pub const DERIVED: &[(&str, &str)] = &[
    ("queue-url", "none: required"),
    ("drain-timeout", "1 h, or the hook's HeartbeatTimeout if that is longer"),
    (
        "exclude-from-load-balancers",
        "`early` for spot, capacity and state changes, `late` for hooks",
    ),
    ("webhook-template", "for Slack: the summary"),
    ("webhook-proxy", "HTTPS_PROXY, HTTP_PROXY, NO_PROXY"),
    ("lease-namespace", "POD_NAMESPACE, else kube-system"),
    ("node-name", "the variable `NODE_NAME`"),
    ("pod-name", "POD_NAME"),
    ("pod-namespace", "POD_NAMESPACE"),
    ("region", "from the queue's URL, else the environment"),
    ("kubeconfig", "KUBECONFIG or ~/.kube/config, else in-cluster"),
    ("context", "the kubeconfig's current one"),
];
